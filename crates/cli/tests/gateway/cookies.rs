//! "A cookie edited, of another room, expired, revoked, of another generation, or sealed under a dropped key: refused." And who
//! gets to see a cookie, and who does not.

use std::sync::Arc;
use std::time::Duration;

use anteroom_core::{Position, RoomId, SessionKey, UnixMillis};
use anteroom_store::{EmbeddedStore, NodeId, Store, SystemClock};
use anteroom_testkit::{
    Answer, Browser, Reply, Request, Server, SetCookie, Site, full, now, pause, wait_for, wait_until,
};
use serde_json::json;

use crate::stand::{COOKIE, SOON, Stand, TIMEOUT, assert_not_inside, assert_not_kept, hall};
use crate::support::BINARY;

const OLD_SECRET: &str = "A-master-secret-of-this-house-for-many-years";
const NEW_SECRET: &str = "B-master-secret-of-this-house-from-today-on";
/// How long a visit lasts, where a test sees its end: longer than the ten seconds for which a board shows who has departed.
const SESSION: Duration = Duration::from_secs(12);
/// Clocks of tests and servers tell whole seconds here and there.
const ROUNDING: Duration = Duration::from_secs(1);
/// Every so many characters of a cookie are changed, each alone.
const EVERY: usize = 3;

/// Asks as a program does, which never gets a place: what is not a visit is refused.
fn ask(browser: &mut Browser, target: &str) -> Answer {
    browser.send(Request::new("GET", target).header("Accept", "*/*"))
}

#[track_caller]
fn assert_in(browser: &mut Browser) {
    let answer = ask(browser, "/in");
    assert!(answer.is_from_site(), "{answer:?}");
}

/// The cookie is good for nothing, and the site does not see it.
#[track_caller]
fn assert_refused(site: &Site, browser: &mut Browser, why: &str) {
    let before = site.requests();
    let answer = ask(browser, "/refused");
    assert_eq!(answer.status, 503, "{why}: {answer:?}");
    assert_not_inside(&answer);
    assert_eq!(site.requests(), before, "{why}");
}

/// The cookies of visits that have ended are good for nothing as long as they would have lasted, and longer; where a visit lasts [`SESSION`].
#[track_caller]
fn assert_refused_from_now_on(stand: &Stand, thieves: &mut [(&str, Browser)]) {
    let ended = now();
    while ended.elapsed() < SESSION + ROUNDING {
        for (why, thief) in &mut *thieves {
            assert_refused(&stand.site, thief, why);
        }
        pause();
    }
}

/// Another character that may stand in a cookie.
fn other(character: char) -> char {
    match character {
        'A' => 'B',
        '.' => '-',
        _ => 'A',
    }
}

#[test]
fn an_edited_or_shortened_cookie_is_refused() {
    let stand = Stand::open(2, "");
    let inside = stand.inside();
    let good = inside.cookies.get(COOKIE).expect("a cookie").to_owned();
    let mut thief = stand.browser();
    thief.cookies.put(COOKIE, &good);
    assert_in(&mut thief);
    let characters: Vec<char> = good.chars().collect();
    let places = (0..characters.len()).step_by(EVERY).chain([characters.len() - 2, characters.len() - 1]);
    for place in places {
        let mut edited = characters.clone();
        edited[place] = other(edited[place]);
        thief.cookies.put(COOKIE, &edited.iter().collect::<String>());
        assert_refused(&stand.site, &mut thief, &format!("character {place}"));
    }
    for length in (0..characters.len()).step_by(EVERY * 2) {
        thief.cookies.put(COOKIE, &good[..length]);
        assert_refused(&stand.site, &mut thief, &format!("{length} characters"));
    }
    let long = "A".repeat(4_000);
    for strange in
        [format!("{good}A"), format!("{good}="), format!("\"{good}\""), format!("{good}.{good}"), long]
    {
        thief.cookies.put(COOKIE, &strange);
        assert_refused(&stand.site, &mut thief, &strange);
    }
    assert_eq!(stand.figure("active"), 1, "nobody else is inside");
    // Of several cookies of the name, the good one counts: a browser may show an older one of another path.
    let both = Request::new("GET", "/both").header("Cookie", &format!("{COOKIE}=nonsense; {COOKIE}={good}"));
    assert!(stand.server.visitor().send(&both).expect("an answer").is_from_site());
}

#[test]
fn a_cookie_is_good_for_its_room_only() {
    let stand = Stand::configured(
        "origin = \"ORIGIN\"\n\
         [[room]]\nid = \"Hall\"\npaths = [\"/hall\"]\ninlet = \"max-size\"\ntotal_active_users = 5\n\
         [[room]]\nid = \"Yard\"\npaths = [\"/yard\"]\ninlet = \"max-size\"\ntotal_active_users = 5\n",
    );
    let mut browser = stand.browser();
    assert!(browser.open("/hall").is_from_site());
    assert!(ask(&mut browser, "/hall/in").is_from_site());
    assert_not_inside(&ask(&mut browser, "/yard/in"));
    let value = browser.cookies.get(COOKIE).expect("a cookie").to_owned();
    browser.cookies.put("anteroom-Yard", &value);
    assert_not_inside(&ask(&mut browser, "/yard/in"));
    assert!(!stand.site.request_log().iter().any(|seen| seen.path() == "/yard/in"));
    browser.cookies.clear();
    assert!(browser.open("/yard").is_from_site());
    assert_eq!(stand.site.last_seen("/yard").header("Anteroom-Room"), Some("Yard"));
}

#[test]
fn a_cookie_that_has_ended_is_refused_although_the_browser_still_shows_it() {
    let stand = Stand::open(2, "session_duration = 2");
    let inside = stand.inside();
    let mut late = stand.browser();
    late.cookies.put(COOKIE, inside.cookies.get(COOKIE).expect("a cookie"));
    // The slot is free some seconds after the cookie has ended. To look at the figure touches nobody.
    stand.wait_for_figure("expired", 1);
    assert_refused(&stand.site, &mut late, "over");
    assert_eq!(stand.figure("active"), 0);
    // Who opens a page again is somebody new.
    let visit = stand.site.last_seen("/confirmed").visit();
    late.enter("/again", SOON, TIMEOUT);
    assert_ne!(stand.site.last_seen("/again").visit(), visit);
}

#[test]
fn each_command_of_the_origin_ends_the_visit_for_good() {
    let stand = Stand::open(1, &format!("session_duration = {}", SESSION.as_secs()));
    let mut thieves = Vec::new();
    for (word, figure) in [("complete", "completed"), ("abandon", "abandoned"), ("revoke", "abandoned")] {
        let before = stand.figure(figure);
        let mut browser = stand.inside();
        let mut thief = browser.copy();
        let answer = browser.open(&format!("/{word}"));
        assert!(answer.is_from_site() && answer.status == 200, "{answer:?}");
        assert_eq!(answer.header("Anteroom-Session"), None, "the word is not for the visitor");
        assert_eq!(browser.cookies.get(COOKIE), None, "the browser is told to forget it: {answer:?}");
        assert_refused(&stand.site, &mut thief, word);
        wait_until(&format!("{word} is counted"), TIMEOUT, || stand.figure(figure) == before + 1);
        stand.wait_for_figure("active", 0);
        assert_refused(&stand.site, &mut thief, word);
        thieves.push((word, thief));
    }
    assert_refused_from_now_on(&stand, &mut thieves);
    assert_eq!(stand.site.after_the_end(), Vec::<String>::new());
    assert_eq!(stand.site.live_visits_max(), 1);
}

#[test]
fn a_word_that_is_no_command_ends_nothing_and_is_kept_back() {
    let stand = Stand::open(1, "");
    stand.site.answer("/odd", Reply::new(200).header("Anteroom-Session", "dance"));
    let mut browser = stand.inside();
    let answer = browser.open("/odd");
    assert_eq!((answer.status, answer.header("Anteroom-Session")), (200, None), "{answer:?}");
    assert_in(&mut browser);
}

#[test]
fn a_command_counts_in_any_case_and_the_first_known_of_several() {
    let stand = Stand::open(1, "");
    let several =
        Reply::new(200).header("Anteroom-Session", "dance, Complete").header("Anteroom-Session", "revoke");
    for (path, reply) in
        [("/upper", Reply::new(200).header("Anteroom-Session", "COMPLETE")), ("/several", several)]
    {
        stand.site.answer(path, reply);
        let before = stand.figure("completed");
        let mut browser = stand.inside();
        let answer = browser.open(path);
        assert_eq!((answer.status, answer.header("Anteroom-Session")), (200, None), "{answer:?}");
        assert_eq!(browser.cookies.get(COOKIE), None, "{path}");
        wait_until("it is counted", TIMEOUT, || stand.figure("completed") == before + 1);
        stand.wait_for_figure("active", 0);
    }
}

#[test]
fn leaving_ends_a_visit_for_good() {
    let stand = Stand::open(2, &format!("session_duration = {}", SESSION.as_secs()));
    let mut browser = stand.inside();
    let mut thief = browser.copy();
    let left = browser.post("/.anteroom/line/leave", "");
    assert_eq!(left.status, 200, "{left:?}");
    assert_eq!(browser.cookies.get(COOKIE), None);
    assert_refused(&stand.site, &mut thief, "left");
    stand.wait_for_figure("active", 0);
    stand.inside();
    assert_refused_from_now_on(&stand, &mut [("left", thief)]);
}

/// A node that starts has revoked nothing itself; the board tells it who has departed in the last ten seconds.
#[test]
fn a_visit_that_has_just_ended_stays_so_when_the_server_starts_again() {
    let site = Site::open();
    let config = hall(&site.url(), 2, "session_duration = 600");
    let mut server = Server::builder(BINARY).config(config).start().expect("the server starts");
    let mut browser = Browser::new(server.public());
    browser.enter("/", SOON, TIMEOUT);
    assert!(browser.open("/confirmed").is_from_site());
    let thief = browser.copy();
    assert_eq!(browser.post("/.anteroom/line/leave", "").status, 200);
    server.terminate().expect("it ends");
    server.restart().expect("it starts again");
    let mut thief = thief.moved_to(server.public());
    assert_refused(&site, &mut thief, "left before the start");
}

/// Later than that, the store is asked before the first request of a visit is passed on.
#[test]
fn a_visit_that_ended_a_while_ago_stays_so_when_the_server_starts_again() {
    let site = Site::open();
    let config = hall(&site.url(), 6, "session_duration = 600");
    let mut server = Server::builder(BINARY).config(config).start().expect("the server starts");
    let ways = ["/complete", "/abandon", "/revoke", "/.anteroom/line/leave"];
    let thieves = ways.map(|way| {
        let mut browser = Browser::new(server.public());
        browser.enter("/", SOON, TIMEOUT);
        assert!(browser.open("/confirmed").is_from_site());
        let thief = browser.copy();
        if way.starts_with("/.anteroom") {
            browser.post(way, "")
        } else {
            browser.open(way)
        };
        (way, thief)
    });
    let mut kept = Browser::new(server.public());
    kept.enter("/", SOON, TIMEOUT);
    // For as long a board shows who has departed.
    let ended = now();
    while ended.elapsed() < Duration::from_secs(11) {
        pause();
    }
    server.terminate().expect("it ends");
    server.restart().expect("it starts again");
    for (way, thief) in thieves {
        assert_refused(&site, &mut thief.moved_to(server.public()), way);
    }
    assert_in(&mut kept.moved_to(server.public()));
}

#[test]
fn after_a_reset_every_cookie_is_of_another_line() {
    let stand = Stand::open(1, "");
    let mut inside = stand.inside();
    let (mut waiting, _) = stand.in_line();
    assert_in(&mut inside);
    let answer = stand.server.line("Hall").reset();
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_refused(&stand.site, &mut inside, "of a line that is gone");
    // A visitor who stood in line stands in none; the cookie came back, so they get a place, and there is room.
    let page = waiting.enter("/", SOON, TIMEOUT);
    assert_eq!(page.status, 200);
    assert_refused(&stand.site, &mut inside, "of a line that is gone");
}

#[test]
fn a_cookie_outlives_its_secret_for_as_long_as_that_is_listed() {
    let site = Site::open();
    let builder = Server::builder(BINARY).config(hall(&site.url(), 3, "")).env("ANTEROOM_SECRET", OLD_SECRET);
    let mut server = builder.start().expect("the server starts");
    let mut browser = Browser::new(server.public());
    browser.enter("/", SOON, TIMEOUT);
    browser.open("/confirmed");
    let old = browser.cookies.get(COOKIE).expect("a cookie").to_owned();
    server.set_env("ANTEROOM_SECRET", format!("{NEW_SECRET},{OLD_SECRET}"));
    server.restart().expect("it starts again");
    let mut browser = browser.moved_to(server.public());
    browser.cookies.put(COOKIE, &old);
    assert_in(&mut browser);
    server.set_env("ANTEROOM_SECRET", NEW_SECRET);
    server.restart().expect("it starts again");
    let mut browser = browser.moved_to(server.public());
    browser.cookies.put(COOKIE, &old);
    assert_refused(&site, &mut browser, "its secret was dropped");
    // One of the new secret works as any.
    let mut newcomer = Browser::new(server.public());
    newcomer.enter("/", SOON, TIMEOUT);
    assert_in(&mut newcomer);
}

#[test]
fn the_origin_sees_neither_our_cookies_nor_headers_that_a_client_made_up() {
    let stand = Stand::open(2, "");
    let mut browser = stand.inside();
    browser.cookies.put("basket", "full");
    browser.cookies.put("anteroom-Other", "x");
    browser.cookies.put("__Host-anteroom-Hall", "y");
    let visit = stand.site.last_seen("/confirmed").visit();
    let request = Request::new("GET", "/forged")
        .header("Anteroom-Visit", "of-somebody-else")
        .header("Anteroom-Room", "Yard")
        .header("anteroom-session", "complete")
        .header("ANTEROOM-Anything", "1");
    assert!(browser.send(request).is_from_site());
    let seen = stand.site.last_seen("/forged");
    assert_eq!(seen.header("Cookie"), Some("basket=full"), "{seen:?}");
    let ours: Vec<_> =
        seen.headers.iter().filter(|(name, _)| name.to_ascii_lowercase().starts_with("anteroom-")).collect();
    assert_eq!(ours.len(), 2, "{ours:?}");
    assert_eq!((seen.header("Anteroom-Room"), seen.visit()), (Some("Hall"), visit.clone()));
    // The same on the way that needs no visit, where the site must not see the visitor's cookies either.
    stand.set("bypass", &json!(["path:/open"]));
    assert!(browser.send(Request::new("GET", "/open").header("Anteroom-Visit", "forged")).is_from_site());
    let seen = stand.site.last_seen("/open");
    assert_eq!((seen.header("Cookie"), seen.visit()), (Some("basket=full"), visit), "{seen:?}");
}

/// Our cookie in an answer.
#[track_caller]
fn our_cookie(answer: &Answer) -> SetCookie {
    let mut set = answer.set_cookies().into_iter();
    set.find(|cookie| cookie.name == COOKIE).unwrap_or_else(|| panic!("our cookie is not in {answer:?}"))
}

#[test]
fn an_answer_that_sets_our_cookie_is_for_one_person() {
    let stand = Stand::open(1, "session_duration = 4");
    let public =
        Reply::new(200).header("Cache-Control", "public, max-age=600").header("Set-Cookie", "theirs=1");
    stand.site.answer("/cached", public);
    let mut browser = stand.browser();
    let arrived = browser.open_once("/cached");
    let door = arrived.header("Location").unwrap_or_else(|| panic!("{arrived:?}")).to_owned();
    let admitted = browser.open_once(&door);
    for (answer, age) in [(&arrived, 120..=120), (&admitted, 43_190..=43_201)] {
        assert_eq!(answer.status, 303, "{answer:?}");
        assert_not_kept(answer);
        let ours = our_cookie(answer);
        assert!(ours.has("HttpOnly") && ours.has("Path=/") && ours.has("SameSite=Lax"), "{ours:?}");
        assert!(!ours.has("Secure"), "in clear a browser would not take it: {ours:?}");
        assert!(age.contains(&ours.max_age_seconds().expect("an age")), "{ours:?}");
    }
    // There is nothing new to say, and the answer is as the site gave it.
    let plain = browser.open_once("/cached");
    assert!(
        plain.is_from_site() && plain.set_cookies().iter().all(|cookie| cookie.name != COOKIE),
        "{plain:?}"
    );
    assert!(plain.header_lists("Cache-Control", "public"), "{plain:?}");
    // When the visit is extended the site's answer carries our cookie.
    let renewed = wait_for("the visit is extended", TIMEOUT, || {
        let answer = browser.open_once("/cached");
        assert!(answer.is_from_site(), "{answer:?}");
        answer.set_cookies().iter().any(|cookie| cookie.name == COOKIE).then_some(answer)
    });
    assert!(
        renewed.set_cookies().iter().any(|cookie| cookie.name == "theirs"),
        "theirs goes through: {renewed:?}"
    );
    assert!(renewed.header_lists("Cache-Control", "private"), "{renewed:?}");
    assert!(!renewed.header_lists("Cache-Control", "public"), "{renewed:?}");
}

#[test]
fn a_place_in_line_is_remembered_for_longer_than_anybody_waits() {
    let stand = Stand::open(1, "");
    assert!(stand.browser().open("/").is_from_site());
    let mut browser = stand.browser();
    let arrived = browser.open_once("/");
    let waits = browser.open("/");
    assert!(waits.shown_position().is_some(), "{waits:?}");
    let ages = [&arrived, &waits].map(|page| our_cookie(page).max_age_seconds().expect("an age"));
    assert_eq!(ages[0], 120, "an arrival, before there is a place");
    assert_eq!(ages[1], 7 * 24 * 3600);
}

/// For how long after its begin the first visit of the room holds its slot, by the store of a server that has ended.
async fn slot_is_held_for(server: &Server) -> Duration {
    let store =
        EmbeddedStore::open(&server.data_directory(), Arc::new(SystemClock)).expect("the store opens");
    let id = RoomId::parse("Hall").expect("a room id");
    let room = store.load(&id, NodeId(1)).await.expect("it can be read").expect("the room is there").room;
    let (generation, position) = (room.newest().generation, Position::new(1).expect("a position"));
    let session = store.session(&id, SessionKey { generation, position }).await.expect("it can be read");
    let session = session.expect("a session");
    Duration::from_millis(session.ends_at().since(UnixMillis(session.issued_at_seconds * 1000)))
}

/// A visitor who has come in and asks for nothing more holds the slot for the whole visit, and the cookie works as long.
#[tokio::test]
async fn a_visitor_who_reads_one_page_for_90_seconds_keeps_the_place() {
    let site = Site::open();
    let config = hall(&site.url(), 1, "session_duration = 300");
    let mut server = Server::builder(BINARY).config(config).start().expect("the server starts");
    let mut browser = Browser::new(server.public());
    assert!(browser.open("/").is_from_site());
    server.terminate().expect("it ends");
    // The begin is kept in whole seconds, and a slot is held for five seconds beyond the cookie.
    let held = slot_is_held_for(&server).await;
    let expected = Duration::from_secs(305);
    assert!((expected..=expected + Duration::from_secs(1)).contains(&held), "{held:?}");
    if full() {
        server.restart().expect("it starts again");
        let mut browser = browser.moved_to(server.public());
        let began = now();
        while began.elapsed() < Duration::from_secs(90) {
            pause();
        }
        assert!(browser.open("/").is_from_site(), "the page was read for 90 seconds");
    }
}
