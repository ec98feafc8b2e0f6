//! `anteroom serve --origin URL --capacity N` works with nothing else; what is said of a mistake; an origin that is down; and a
//! server that ends while somebody is served.

use std::thread;

use anteroom_testkit::{Browser, Builder, ChaosProxy, Mode, Request, Server, Site, Wire, wait_until};

use crate::stand::{SOON, Stand, TIMEOUT, hall};
use crate::support::BINARY;

fn before(origin: &str, capacity: &str) -> Builder {
    let arguments = ["--origin", origin, "--capacity", capacity];
    arguments.into_iter().fold(Server::builder(BINARY), Builder::argument)
}

#[test]
fn an_origin_and_a_capacity_are_all_it_needs() {
    let site = Site::open();
    let bare = before(&site.url(), "2").without_env("ANTEROOM_SECRET").without_env("ANTEROOM_ADMIN_KEY");
    let mut server = bare.start().expect("the server starts");
    let browser = || Browser::new(server.public());
    let (mut first, mut second, mut third) = (browser(), browser(), browser());
    let page = first.open("/shop?for=me");
    assert!(page.is_from_site() && page.text().contains("GET /shop?for=me"), "{page:?}");
    assert!(second.open("/").is_from_site());
    let seen = site.last_seen("/");
    assert_eq!(seen.header("Anteroom-Room"), Some("site"), "{seen:?}");
    assert!(!third.open("/").is_from_site());
    let waits = third.open("/");
    assert_eq!((waits.status, waits.shown_people_ahead()), (200, Some(0)), "{waits:?}");
    assert!(first.open("/complete").is_from_site());
    let page = third.enter("/", SOON, TIMEOUT);
    assert_eq!(page.status, 200);
    assert_eq!((site.live_visits_max(), site.visits().len()), (2, 3));
    assert_eq!(server.terminate().expect("it ends").status.code(), Some(0));
    assert!(!server.stderr().contains("panicked"), "{}", server.stderr());
}

#[test]
fn visits_and_places_are_kept_over_a_restart() {
    let site = Site::open();
    let mut server = before(&site.url(), "1").start().expect("the server starts");
    let mut inside = Browser::new(server.public());
    inside.enter("/", SOON, TIMEOUT);
    assert!(inside.open("/confirmed").is_from_site());
    let mut waiting = Browser::new(server.public());
    waiting.open("/");
    let position = waiting.open("/").shown_position();
    assert!(position.is_some());
    server.restart().expect("it starts again");
    let (mut inside, mut waiting) = (inside.moved_to(server.public()), waiting.moved_to(server.public()));
    assert!(inside.open("/after").is_from_site(), "a cookie needs no memory of the server");
    assert_eq!(waiting.open("/").shown_position(), position);
    assert!(inside.open("/complete").is_from_site());
    waiting.enter("/", SOON, TIMEOUT);
    assert_eq!((site.live_visits_max(), site.visits().len()), (1, 2));
}

#[test]
fn a_mistake_on_the_command_line_is_named_and_nothing_is_started() {
    for (origin, capacity, named) in [
        ("ftp://127.0.0.1:3000", "5", "ANTEROOM_ORIGIN"),
        ("nonsense at all", "5", "ANTEROOM_ORIGIN"),
        ("127.0.0.1:3000", "5", "ANTEROOM_ORIGIN"),
        ("http://127.0.0.1:3000/shop", "5", "ANTEROOM_ORIGIN"),
        ("http://127.0.0.1:3000/?a=b", "5", "ANTEROOM_ORIGIN"),
        ("http://user:hunter2@127.0.0.1:3000", "5", "ANTEROOM_ORIGIN"),
        ("http://", "5", "ANTEROOM_ORIGIN"),
        ("http://127.0.0.1:99999", "5", "ANTEROOM_ORIGIN"),
        ("http://127.0.0.1:3000,,", "5", "ANTEROOM_ORIGIN"),
        ("http://127.0.0.1:3000", "many", "ANTEROOM_CAPACITY"),
        ("http://127.0.0.1:3000", "-5", "'-5'"),
        ("http://127.0.0.1:3000", "1.5", "ANTEROOM_CAPACITY"),
        ("http://127.0.0.1:3000", "99999999999999999999", "ANTEROOM_CAPACITY"),
    ] {
        let ended = before(origin, capacity).run_to_end().expect("it ends");
        let message = format!("{origin} {capacity}: {}{}", ended.stdout, ended.stderr);
        assert_eq!(ended.status.code(), Some(2), "{message}");
        assert!(ended.stderr.contains(named) && ended.stderr.starts_with("error:"), "{message}");
        assert!(!ended.stderr.contains("hunter2") && !ended.stdout.contains("listening"), "{message}");
    }
}

#[test]
fn an_origin_needs_a_capacity_or_a_room_and_a_capacity_no_rooms_beside_it() {
    let alone = Server::builder(BINARY).argument("--origin").argument("http://127.0.0.1:3000");
    let ended = alone.run_to_end().expect("it ends");
    assert_eq!(ended.status.code(), Some(2), "{}", ended.stderr);
    assert!(ended.stderr.contains("--capacity") && ended.stderr.contains("[[room]]"), "{}", ended.stderr);
    let both = before("http://127.0.0.1:3000", "5").config("[[room]]\nid = \"Hall\"\n");
    let ended = both.run_to_end().expect("it ends");
    assert_eq!(ended.status.code(), Some(2), "{}", ended.stderr);
    assert!(ended.stderr.contains("total_active_users"), "{}", ended.stderr);
    let config = Server::builder(BINARY).command("check-config");
    let ended =
        config.config("origin = \"http://127.0.0.1:3000/shop\"\n[[room]]\nid = \"Hall\"\n").run_to_end();
    let ended = ended.expect("it ends");
    assert_eq!(ended.status.code(), Some(2), "{}", ended.stderr);
    assert!(
        ended.stderr.contains("origin") && ended.stderr.contains(":1"),
        "where it stands: {}",
        ended.stderr
    );
}

#[test]
fn an_origin_that_is_down_is_said_to_be_and_costs_nobody_a_visit() {
    let site = Site::open();
    let way = ChaosProxy::before(site.port());
    let origin = format!("http://{}", way.address());
    let config = hall(&origin, 2, "");
    let server = Server::builder(BINARY).memory().config(config).start().expect("the server starts");
    let mut browser = Browser::new(server.public());
    browser.enter("/", SOON, TIMEOUT);
    assert!(browser.open("/confirmed").is_from_site());
    let visit = site.last_seen("/confirmed").visit();
    way.set(Mode::Refuse);
    let page = browser.open("/page");
    assert_eq!(page.status, 502, "{page:?}");
    assert!(page.header("Content-Type").is_some_and(|kind| kind.starts_with("text/html")), "{page:?}");
    assert!(page.header_lists("Cache-Control", "no-store") && page.text().contains("<h1"), "{page:?}");
    let json = browser.send(Request::new("GET", "/data").header("Accept", "application/json"));
    assert_eq!(
        (json.status, json.header("Content-Type")),
        (502, Some("application/problem+json")),
        "{json:?}"
    );
    assert_eq!(json.json()["status"], 502);
    json.error();
    assert_eq!(browser.post("/buy", "a=b").status, 502, "not sent, and said so");
    // Somebody new is let in, by the gateway, and finds the site down.
    let mut other = Browser::new(server.public());
    assert_eq!(other.open("/").status, 502);
    way.set(Mode::Pass);
    wait_until("the site is reached again", TIMEOUT, || browser.open("/again").is_from_site());
    assert_eq!(site.last_seen("/again").visit(), visit, "the same visit as before");
    assert!(other.open("/other").is_from_site());
    assert_eq!(site.requests(), site.request_log().iter().filter(|seen| seen.path() != "/buy").count());
}

#[test]
fn a_server_that_ends_finishes_what_it_has_passed_on_and_closes_what_it_carries() {
    let mut stand = Stand::open(3, "");
    let (mut slow, socket) = (stand.inside(), stand.inside());
    let mut wire = Wire::connect(stand.server.public(), TIMEOUT).expect("it connects");
    let upgrade = format!(
        "GET /socket HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nCookie: {}\r\n\r\n",
        socket.cookies.header().expect("a cookie")
    );
    wire.write(upgrade.as_bytes()).expect("it is sent");
    assert_eq!(wire.read_answer().expect("an answer").expect("an answer").status, 101);
    stand.site.hold("/slow");
    let site = &stand.site;
    thread::scope(|scope| {
        let asking = scope.spawn(move || slow.open("/slow"));
        site.wait_for_request("/slow");
        stand.server.signal("TERM").expect("it hears");
        assert!(wire.closed_within(TIMEOUT), "an upgraded connection has no end of its own");
        let address = stand.server.public();
        wait_until("nobody new is let in", TIMEOUT, || {
            Browser::new(address).try_open("/new").map_or(true, |answer| answer.status == 503)
        });
        assert!(!asking.is_finished());
        site.let_go("/slow");
        let answer = asking.join().expect("somebody answers");
        assert!(answer.is_from_site() && answer.status == 200, "{answer:?}");
    });
    let ended = stand.server.wait_for_end().expect("it ends");
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
}
