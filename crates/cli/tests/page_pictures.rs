//! "A clock-accurate picture of it in use": real pages of a real line, in light and dark, on a phone and on a desktop. Only with
//! `ANTEROOM_PICTURES=DIRECTORY`, or at full size, where they go to a temporary directory that the test names.

mod page_support;

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, fs};

use anteroom_testkit::redis::RedisProcess;
use anteroom_testkit::{
    ChaosProxy, Chromium, Mode, Scheme, Server, Site, full, now, require_chromium, require_redis, wait_until,
};
use page_support::{
    BINARY, ENTER, PATIENCE, SAFE_SHOP, Scene, room_by_hand, wait_for_ahead, wait_for_situation,
    wait_until_it_hears_by,
};
use serde_json::json;

const LOOK: &str = "page_heading = \"The Sample Theatre\"\nnotice = \"Doors open at eight. Two seats for each person.\"\n\
    auto_enter = false\nenable_queue_position_expiry = true\nqueue_position_expiry_period = 300\n";
/// How many are in line before, and how it moves before the first picture, so that there is an estimate: so many people a second.
const CROWD: i64 = 1_284;
const MOVES: i64 = 30;
const PEOPLE_A_SECOND: i64 = 4;

/// The windows that pictures are taken in.
const WINDOWS: [(&str, u32, u32); 2] = [("phone", 390, 844), ("desktop", 1_280, 800)];

fn directory() -> Option<PathBuf> {
    if let Some(named) = env::var_os("ANTEROOM_PICTURES").map(PathBuf::from) {
        fs::create_dir_all(&named).expect("the directory can be made");
        return Some(named);
    }
    full().then(|| tempfile::tempdir().expect("a temporary directory can be made").keep())
}

/// Takes the page as it is in every window and both colours.
fn take(browser: &Chromium, directory: &Path, name: &str) {
    for (window, width, height) in WINDOWS {
        for scheme in [Scheme::Light, Scheme::Dark] {
            browser.prefer(scheme, true);
            browser.resize(width, height, window == "phone");
            browser.picture(&directory.join(format!("{name}-{window}-{}.png", scheme.name())));
        }
    }
}

/// The line moves once a second for a while.
fn move_on(scene: &Scene) {
    for _ in 0..MOVES {
        let began = now();
        scene.advance(PEOPLE_A_SECOND);
        wait_until("a second has passed", PATIENCE, || began.elapsed() >= Duration::from_secs(1));
    }
}

/// A visitor of a site with TLS, whose browser would notify him: as nearly everybody is.
fn wait_in_line(scene: &Scene, browser: &Chromium) {
    let address = scene.at(SAFE_SHOP, "/");
    let permission = json!({ "origin": address.trim_end_matches('/'), "permissions": ["notifications"] });
    browser.devtools("Browser.grantPermissions", &permission);
    browser.go(&address);
    wait_for_situation(browser, "waiting");
}

fn take_line(directory: &Path) {
    let scene = Scene::by_hand(LOOK);
    scene.crowd(usize::try_from(CROWD).expect("a crowd"));
    let browser = Chromium::open();
    wait_in_line(&scene, &browser);
    move_on(&scene);
    browser.reload();
    wait_until_it_hears_by(&browser, "stream");
    take(&browser, directory, "early");
    browser.speak("ar");
    browser.reload();
    wait_until_it_hears_by(&browser, "stream");
    take(&browser, directory, "arabic");
    browser.speak("en");
    scene.advance(CROWD - MOVES * PEOPLE_A_SECOND - 3);
    browser.reload();
    wait_for_ahead(&browser, 3);
    take(&browser, directory, "near");
    scene.advance(4);
    wait_for_situation(&browser, "turn");
    wait_until("the button is there", PATIENCE, || browser.shows(ENTER));
    take(&browser, directory, "turn");
    scene.change(&json!({ "state": "closed" }));
    let newcomer = Chromium::open();
    newcomer.go(&scene.at(SAFE_SHOP, "/"));
    wait_for_situation(&newcomer, "closed");
    take(&newcomer, directory, "closed");
}

fn take_lost_store(directory: &Path) {
    let (redis, site) = (RedisProcess::start(), Site::open());
    let to_store = ChaosProxy::before(redis.port());
    let config = room_by_hand(&site.url(), LOOK);
    let server = Server::builder(BINARY).config(config);
    let server = server.env("ANTEROOM_STORE_URL", redis.url_through(to_store.port()));
    let server = server.start().expect("the server starts");
    let way = ChaosProxy::before(server.public().port());
    let scene = Scene { server, site, way };
    scene.crowd(412);
    let browser = Chromium::open();
    wait_in_line(&scene, &browser);
    scene.advance(95);
    wait_for_ahead(&browser, 317);
    to_store.set(Mode::Refuse);
    wait_for_situation(&browser, "held");
    take(&browser, directory, "store-lost");
}

#[test]
fn pictures_are_taken_of_every_moment() {
    if !require_chromium() {
        return;
    }
    let Some(directory) = directory() else { return };
    take_line(&directory);
    if require_redis() {
        take_lost_store(&directory);
    }
    let taken = fs::read_dir(&directory).expect("the directory is there").count();
    println!("{taken} pictures in {}", directory.display());
    assert!(taken >= 4 * 5, "{taken} pictures");
}
