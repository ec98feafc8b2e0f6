//! "A clock-accurate picture of it in use": real pages of a real line, in light and dark, on a phone and on a desktop. They are always
//! taken and looked at for what a program can see; with `ANTEROOM_PICTURES=DIRECTORY` they are then put there for people.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, fs};

use anteroom_testkit::redis::RedisProcess;
use anteroom_testkit::{
    ChaosProxy, Chromium, Mode, Scheme, Server, Site, full, now, require_chromium, require_redis, wait_until,
};
use serde_json::json;

use crate::scene::{
    ENTER, SAFE_SHOP, Scene, TIMEOUT, room_by_hand, wait_for_ahead, wait_for_event_source, wait_for_situation,
};
use crate::support::BINARY;

const LOOK: &str = "page_heading = \"The Sample Theatre\"\nnotice = \"Doors open at eight. Two seats for each person.\"\n\
    auto_enter = false\nenable_queue_position_expiry = true\nqueue_position_expiry_period = 300\n";
/// How many are in line before, and for how many seconds it moves before the first picture, so that there is an estimate.
const LINE: Line = Line { crowd: 1_284, moves: 30, crowd_at_loss: 412 };
const LINE_REDUCED: Line = Line { crowd: 61, moves: 2, crowd_at_loss: 112 };
/// How many of those have gone in when the store is lost.
const GONE_IN_AT_LOSS: i64 = 95;
const PEOPLE_A_SECOND: i64 = 4;

/// The windows that pictures are taken in: names, sizes, and pixels of the picture for each of the style sheet.
const WINDOWS: [(&str, u32, u32, u32); 2] = [("phone", 390, 844, 2), ("desktop", 1_280, 800, 1)];
/// What they show.
const MOMENTS: [&str; 6] = ["early", "arabic", "near", "turn", "closed", "store-lost"];
/// Less than this is a picture of nothing.
const PICTURE_MIN_BYTES: usize = 8_000;

/// What pictures are taken of.
struct Line {
    crowd: i64,
    moves: i64,
    crowd_at_loss: i64,
}

/// At which size the test runs: for people, pictures are always those of a long line.
fn line() -> Line {
    if full() || directory_for_people().is_some() { LINE } else { LINE_REDUCED }
}

fn directory_for_people() -> Option<PathBuf> {
    env::var_os("ANTEROOM_PICTURES").map(PathBuf::from)
}

fn name_of(moment: &str, window: &str, scheme: Scheme) -> String {
    format!("{moment}-{window}-{}.png", scheme.name())
}

/// Takes the page as it is in every window and both colours.
fn take(browser: &Chromium, directory: &Path, moment: &str) {
    for (window, width, height, _) in WINDOWS {
        for scheme in [Scheme::Light, Scheme::Dark] {
            browser.prefer(scheme, true);
            browser.resize(width, height, window == "phone");
            browser.picture(&directory.join(name_of(moment, window, scheme)));
        }
    }
}

/// The line moves once a second for a while.
fn move_on(scene: &Scene, moves: i64) {
    for _ in 0..moves {
        let began = now();
        scene.advance(PEOPLE_A_SECOND);
        wait_until("a second has passed", TIMEOUT, || began.elapsed() >= Duration::from_secs(1));
    }
}

/// A visitor of a site with TLS, whose browser can notify them: as nearly everybody is.
fn wait_in_line(scene: &Scene, browser: &Chromium) {
    let address = scene.at(SAFE_SHOP, "/");
    let permission = json!({ "origin": address.trim_end_matches('/'), "permissions": ["notifications"] });
    browser.devtools("Browser.grantPermissions", &permission);
    browser.go(&address);
    wait_for_situation(browser, "waiting");
}

fn take_line(directory: &Path) {
    let Line { crowd, moves, .. } = line();
    let scene = Scene::by_hand(LOOK);
    scene.crowd(usize::try_from(crowd).expect("a crowd"));
    let browser = Chromium::open();
    wait_in_line(&scene, &browser);
    move_on(&scene, moves);
    browser.reload();
    wait_for_event_source(&browser, "stream");
    take(&browser, directory, "early");
    browser.speak("ar");
    browser.reload();
    wait_for_event_source(&browser, "stream");
    take(&browser, directory, "arabic");
    browser.speak("en");
    scene.advance(crowd - moves * PEOPLE_A_SECOND - 3);
    browser.reload();
    wait_for_ahead(&browser, 3);
    take(&browser, directory, "near");
    scene.advance(4);
    wait_for_situation(&browser, "turn");
    wait_until("the button is there", TIMEOUT, || browser.shows(ENTER));
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
    let crowd = line().crowd_at_loss;
    scene.crowd(usize::try_from(crowd).expect("a crowd"));
    let browser = Chromium::open();
    wait_in_line(&scene, &browser);
    scene.advance(GONE_IN_AT_LOSS);
    wait_for_ahead(&browser, u64::try_from(crowd - GONE_IN_AT_LOSS).expect("some are left"));
    to_store.set(Mode::Refuse);
    wait_for_situation(&browser, "held");
    take(&browser, directory, "store-lost");
}

/// Width and height of a whole PNG.
#[track_caller]
fn size_of(name: &str, picture: &[u8]) -> (u32, u32) {
    let header = picture
        .strip_prefix(b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR")
        .unwrap_or_else(|| panic!("{name} is no PNG"));
    assert!(picture.ends_with(b"\0\0\0\0IEND\xaeB`\x82"), "{name} is not whole");
    let number = |at: usize| u32::from_be_bytes(header[at..at + 4].try_into().expect("four bytes"));
    (number(0), number(4))
}

#[test]
fn pictures_are_taken_of_every_moment() {
    if !require_chromium() || !require_redis() {
        return;
    }
    // An empty directory of their own, so that a picture that is there was taken now.
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    take_line(directory.path());
    take_lost_store(directory.path());
    let taken: BTreeMap<String, Vec<u8>> = fs::read_dir(directory.path())
        .expect("the directory is there")
        .map(|entry| entry.expect("a directory can be read"))
        .map(|entry| {
            let name = entry.file_name().into_string().expect("a name of ours");
            (name, fs::read(entry.path()).expect("a picture can be read"))
        })
        .collect();
    let mut expected = BTreeMap::new();
    for moment in MOMENTS {
        for (window, width, height, scale) in WINDOWS {
            for scheme in [Scheme::Light, Scheme::Dark] {
                expected.insert(name_of(moment, window, scheme), (width * scale, height * scale));
            }
        }
    }
    let sizes: BTreeMap<String, (u32, u32)> =
        taken.iter().map(|(name, picture)| (name.clone(), size_of(name, picture))).collect();
    assert_eq!(sizes, expected);
    let smallest = taken.iter().min_by_key(|(_, picture)| picture.len()).expect("there are pictures");
    assert!(smallest.1.len() >= PICTURE_MIN_BYTES, "{} has {} bytes", smallest.0, smallest.1.len());
    let different: BTreeSet<&Vec<u8>> = taken.values().collect();
    assert_eq!(different.len(), taken.len(), "no two moments, windows or colours look alike");
    println!("{} pictures, the smallest of {} bytes", taken.len(), smallest.1.len());
    if let Some(theirs) = directory_for_people() {
        fs::create_dir_all(&theirs).expect("the directory can be made");
        for (name, picture) in &taken {
            fs::write(theirs.join(name), picture).expect("a picture can be written");
        }
        println!("they are in {}", theirs.display());
    }
}
