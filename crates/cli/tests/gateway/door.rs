//! The door: a newcomer's cookie makes one round trip before anything is held, whichever way they come.

use std::time::Duration;

use anteroom_testkit::{Answer, Browser, DOOR, NAVIGATION, Request, now, wait_until};
use serde_json::json;

use crate::stand::{COOKIE, SOON, Stand, TIMEOUT, assert_not_kept, assert_waits};
use crate::support::metrics::metric;

/// How long real visitors may take to come in.
const ENTRY_MAX: Duration = Duration::from_secs(5);

/// Ten joins by the API from one host once held all five slots of a shop for an hour.
#[test]
fn ten_joins_without_cookies_leave_all_slots_to_real_visitors() {
    const CAPACITY: usize = 5;
    let stand = Stand::open(CAPACITY, "");
    let mut client = stand.server.visitor();
    for _ in 0..10 {
        for (path, body) in [
            ("/.anteroom/join", json!({"room": "Hall"})),
            ("/.anteroom/assign_queue_num", json!({"event_id": "Hall"})),
        ] {
            let refused = client.post(path, &body).expect("an answer");
            assert_eq!(refused.status, 403, "{path}: {refused:?}");
            assert!(refused.text().contains(DOOR), "it says how: {refused:?}");
        }
        for path in ["/.anteroom/line/join", "/.anteroom/line/join?room=Hall"] {
            stand.browser().send(Request::new("POST", path).header("Accept", "application/json").body(""));
            stand.browser().post(path, "");
        }
        stand.browser().open_once("/");
        stand.browser().open_once(DOOR);
    }
    assert_eq!((stand.figure("joined"), stand.figure("active"), stand.figure("offers")), (0, 0, 0));
    let began = now();
    let visitors: Vec<Browser> = (0..CAPACITY)
        .map(|_| {
            let mut browser = stand.browser();
            browser.enter("/", SOON, TIMEOUT);
            browser
        })
        .collect();
    assert!(began.elapsed() < ENTRY_MAX, "after {:?}", began.elapsed());
    assert_eq!((visitors.len(), stand.site.visits().len()), (CAPACITY, CAPACITY));
}

#[test]
fn a_join_by_the_api_says_how_to_join_and_is_taken_where_the_room_is_open() {
    let config = "origin = \"ORIGIN\"\n\
        [[room]]\nid = \"Hall\"\npaths = [\"/hall\"]\ninlet = \"max-size\"\ntotal_active_users = 1\n\
        [[room]]\nid = \"App\"\npaths = [\"/app\"]\njoin = \"open\"\ninlet = \"max-size\"\ntotal_active_users = 1\n\
        [[room]]\nid = \"Plain\"\ninlet = \"max-size\"\ntotal_active_users = 1\n\
        [[room]]\nid = \"Strict\"\njoin = \"page\"\ndiscipline = \"auction\"\ninlet = \"max-size\"\ntotal_active_users = 1\n";
    let stand = Stand::configured(config);
    let mut client = stand.server.visitor();
    let mut join = |room: &str| client.post("/.anteroom/join", &json!({"room": room})).expect("an answer");
    for (room, way) in [("Hall", DOOR), ("Strict", "/.anteroom/wait/Strict")] {
        let refused = join(room);
        let problem = refused.json();
        assert_eq!(refused.status, 403, "{refused:?}");
        assert!(problem["type"].as_str().is_some_and(|kind| kind.ends_with("#join-by-page")), "{problem}");
        assert!(problem["detail"].as_str().is_some_and(|detail| detail.contains(way)), "{problem}");
    }
    for room in ["App", "Plain"] {
        assert_eq!(join(room).json()["status"], "admitted", "{room}");
    }
    let auction = stand.server.visitor().post("/.anteroom/auction", &json!({"room": "Strict"}));
    assert_eq!(auction.expect("an answer").status, 403);
    // An operator's word counts from then on.
    stand.set("join", &json!("open"));
    assert_eq!(join("Hall").json()["status"], "admitted");
    stand.set("join", &json!(null));
    assert_eq!(join("Hall").status, 403);
}

#[track_caller]
fn assert_cookies_needed(page: &Answer, address: &str) {
    assert_eq!((page.status, page.situation().as_deref()), (403, Some("cookies-needed")), "{page:?}");
    assert_not_kept(page);
    assert_eq!(page.refresh_seconds(), None, "it goes on by itself nowhere: {page:?}");
    assert!(page.link(address).is_some(), "a link to try again: {page:?}");
}

#[test]
fn a_browser_that_keeps_no_cookies_reads_so_and_is_not_redirected_in_a_circle() {
    let stand = Stand::open(1, "");
    for _ in 0..3 {
        let mut browser = stand.browser();
        let away = browser.open_once("/cart?a=1");
        browser.cookies.clear();
        let page = browser.open_once(away.header("Location").expect("a redirect"));
        assert_cookies_needed(&page, "/cart?a=1");
    }
    assert_eq!((stand.figure("joined"), stand.site.requests()), (0, 0));
    // With the cookie of that page the visitor goes on.
    let mut browser = stand.browser();
    let page = browser.open_once(&format!("{DOOR}?return=/cart"));
    assert_cookies_needed(&page, "/cart");
    assert!(browser.cookies.get(COOKIE).is_some());
    assert!(browser.open_once(&page.link("/cart").expect("a link")).is_from_site(), "by that cookie");
}

#[test]
fn the_door_leads_to_pages_of_this_site_and_of_this_room_only() {
    let config = "origin = \"ORIGIN\"\n[[room]]\nid = \"Hall\"\npaths = [\"/hall\"]\ninlet = \"max-size\"\n\
        total_active_users = 0\n[[room]]\nid = \"Idle\"\n";
    let stand = Stand::configured(config);
    let mut browser = stand.browser();
    for evil in ["//evil.example", "https://evil.example/", "/%5Cevil.example", "/%0d%0aSet-Cookie:a=b", ""] {
        let answer = browser.open_once(&format!("{DOOR}?return={evil}"));
        assert_eq!((answer.status, answer.header("Location")), (303, Some("/")), "{evil}: {answer:?}");
    }
    let free = browser.open_once(&format!("{DOOR}?return=/free"));
    assert_eq!((free.header("Location"), free.set_cookies().len()), (Some("/free"), 0), "{free:?}");
    assert_waits(&browser.open("/hall/x?y=%20&z=/?"));
    assert_eq!(stand.figure("joined"), 1);
    for (method, status) in [("HEAD", 200), ("POST", 503)] {
        let answer = browser.send(Request::new(method, &format!("{DOOR}?return=/hall")));
        assert_eq!(answer.status, status, "{method}: {answer:?}");
    }
    let program = stand.browser().fetch(&format!("{DOOR}?return=/hall"));
    assert_eq!((program.status, stand.figure("joined")), (503, 1), "programs take nothing: {program:?}");
}

#[test]
fn one_arrived_cookie_is_good_for_one_place() {
    let stand = Stand::open(5, "");
    let mut first = stand.browser();
    let arrived = first.open_once("/");
    let value = first.cookies.get(COOKIE).expect("a cookie").to_owned();
    let door = arrived.header("Location").expect("a redirect");
    std::thread::scope(|scope| {
        for number in 0..8 {
            let (stand, value) = (&stand, &value);
            scope.spawn(move || {
                let mut copy = stand.browser();
                copy.cookies.put(COOKIE, value);
                // By the door, or by opening a page.
                let answer = copy.open_once(if number % 2 == 0 { door } else { "/" });
                assert!(answer.status == 303 || answer.is_from_site(), "{answer:?}");
            });
        }
    });
    assert_eq!((stand.figure("joined"), stand.figure("active")), (1, 1), "however many show it");
}

#[test]
fn entering_counts_as_a_join_for_every_limit() {
    let config = "limits_exempt = \"none\"\norigin = \"ORIGIN\"\n\
        [[limit]]\nname = \"few\"\nclass = \"join\"\nrequests = 3\nper_seconds = 3600\nburst = 3\n\
        [[room]]\nid = \"Hall\"\ninlet = \"max-size\"\ntotal_active_users = 9\n";
    let stand = Stand::configured(config);
    for visitor in 0..6 {
        let mut browser = stand.browser();
        let arrived = browser.open_once("/");
        assert_eq!(arrived.status, 303, "arriving takes nothing: {arrived:?}");
        let at_the_door = browser.open_once(arrived.header("Location").expect("a redirect"));
        assert_eq!((at_the_door.status, at_the_door.header("Location")), (303, Some("/")), "{at_the_door:?}");
        let page = browser.open_once("/");
        if visitor < 3 {
            assert!(page.is_from_site(), "{visitor}: {page:?}");
        } else {
            assert_eq!((page.status, page.situation().as_deref()), (429, Some("limited")), "{page:?}");
            assert!(page.refresh_seconds().is_some(), "it asks again by itself: {page:?}");
        }
    }
    assert_eq!(stand.figure("joined"), 3);
}

/// A visitor who comes from this address, by a proxy that says so.
struct VisitorFrom {
    browser: Browser,
    address: String,
}

impl VisitorFrom {
    fn new(stand: &Stand, address: &str) -> Self {
        Self { browser: stand.browser(), address: address.to_owned() }
    }

    /// Opens a page, and follows redirects through the door.
    fn open(&mut self, target: &str) -> Answer {
        let mut target = target.to_owned();
        loop {
            let request = Request::new("GET", &target).header("X-Forwarded-For", &self.address);
            let request =
                NAVIGATION.iter().fold(request, |request, (name, value)| request.header(name, value));
            let answer = self.browser.send(request);
            match answer.header("Location") {
                Some(location) => location.clone_into(&mut target),
                None => return answer,
            }
        }
    }
}

/// How many of them open a page and are inside.
fn count_inside(visitors: &mut [VisitorFrom], target: &str) -> usize {
    let pages = visitors.iter_mut().map(|visitor| visitor.open(target));
    pages.filter(Answer::is_from_site).count()
}

/// The address with many cookie jars.
const JARS_FROM: &str = "203.0.113.7";

/// How many visits that address has by the room itself. What browsers are shown one after the other is no count of one moment.
fn visits_of_jars(stand: &Stand) -> usize {
    let seen = stand.server.operator().get("/rooms/Hall/arrivals").expect("an answer").json();
    let prefixes = seen["prefixes"].as_array().expect("a list");
    let jars = prefixes.iter().find(|counted| counted["prefix"] == format!("{JARS_FROM}/32"));
    let visits = jars.expect("it has joined")["visits"].as_u64();
    usize::try_from(visits.expect("a count")).expect("few")
}

/// One address with ten cookie jars once held every slot for as long as it came back.
///
/// Nothing here depends on how fast the visitors are asked one after the other: the first visits last seconds, so that those of the
/// address end; all others last longer than the test.
#[test]
fn ten_cookie_jars_of_one_address_hold_two_of_eight_slots_once_others_wait() {
    const CAPACITY: usize = 8;
    const JARS: usize = 10;
    let config = format!(
        "trusted_proxies = \"127.0.0.1\"\norigin = \"ORIGIN\"\n[[room]]\nid = \"Hall\"\ninlet = \"max-size\"\n\
         total_active_users = {CAPACITY}\nsession_duration = 8\n"
    );
    let stand = Stand::configured(&config);
    let mut jars: Vec<VisitorFrom> = (0..JARS).map(|_| VisitorFrom::new(&stand, JARS_FROM)).collect();
    wait_until("the address has all slots", TIMEOUT, || {
        count_inside(&mut jars, "/jar");
        visits_of_jars(&stand) == CAPACITY
    });
    let mut others: Vec<VisitorFrom> =
        (0..12).map(|number| VisitorFrom::new(&stand, &format!("198.51.100.{number}"))).collect();
    for other in &mut others {
        other.open("/other");
    }
    stand.set("session_duration", &json!(600));
    // Everybody asks all the time.
    wait_until("the slots have gone to others", TIMEOUT, || {
        count_inside(&mut jars, "/jar");
        let inside = count_inside(&mut others, "/other");
        visits_of_jars(&stand) <= 2 && inside + visits_of_jars(&stand) == CAPACITY
    });
    // And it stays so for as long as others wait; nobody has lost the place.
    for _ in 0..20 {
        count_inside(&mut jars, "/jar");
        count_inside(&mut others, "/other");
        let (of_jars, of_all) = (visits_of_jars(&stand), stand.figure("active"));
        assert!(
            of_jars <= 2 && of_all <= CAPACITY as u64,
            "{of_jars} visits of the address, {of_all} of all"
        );
    }
    for page in jars.iter_mut().map(|jar| jar.open("/jar")).filter(|page| !page.is_from_site()) {
        assert_waits(&page);
    }
    // When it is the turn of those who wait, they let others who came later go before.
    let mut later: Vec<VisitorFrom> =
        (100..112).map(|number| VisitorFrom::new(&stand, &format!("198.51.100.{number}"))).collect();
    for visitor in &mut later {
        assert_waits(&visitor.open("/later"));
    }
    wait_until("the others have gone", TIMEOUT, || {
        others.retain_mut(|other| !leaves(other));
        count_inside(&mut jars, "/jar");
        let of_jars = visits_of_jars(&stand);
        assert!(of_jars <= 2, "{of_jars} visits of the address");
        let deferred = metric(&stand.server, "anteroom_room_deferred{room=\"Hall\"}");
        let of_others = count_inside(&mut later, "/later");
        others.is_empty() && (of_jars, of_others, deferred) == (2, CAPACITY - 2, JARS as u64 - 2)
    });
    // When these have gone too, the rest of the address comes in.
    wait_until("the address has all slots", TIMEOUT, || {
        later.retain_mut(|later| !leaves(later));
        count_inside(&mut jars, "/jar") == CAPACITY
    });
    assert!(later.is_empty());
}

/// Whether a visitor is inside, and then has left.
fn leaves(visitor: &mut VisitorFrom) -> bool {
    let is_inside = visitor.open("/other").is_from_site();
    if is_inside {
        visitor.open("/complete");
    }
    is_inside
}
