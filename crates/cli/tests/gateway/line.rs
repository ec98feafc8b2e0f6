//! Calls about the line, by cookie: asking where one stands, taking a place by name, giving it up; and where forms lead to.

use anteroom_testkit::{Answer, Browser, Request, native, wait_until};
use serde_json::json;

use crate::stand::{COOKIE, SOON, Stand, TIMEOUT, assert_not_kept, assert_waits};

const LINE: &str = "/.anteroom/line";

/// Asks where somebody stands, as a program does.
fn line_response(browser: &mut Browser) -> Answer {
    let answer = browser.send(Request::new("GET", LINE).header("Accept", "application/json"));
    assert_not_kept(&answer);
    answer
}

fn status(browser: &mut Browser) -> String {
    let answer = line_response(browser);
    assert_eq!((answer.status, answer.json()["room"].clone()), (200, json!("Hall")), "{answer:?}");
    answer.json()["status"].as_str().expect("a status").to_owned()
}

/// Takes a place by name, as a program does.
fn join(browser: &mut Browser) -> Answer {
    browser.send(Request::new("POST", "/.anteroom/line/join").header("Accept", "application/json").body(""))
}

#[test]
fn where_one_stands_is_told_and_asking_changes_nothing() {
    let stand = Stand::open(1, "queue_position_expiry_period = 2");
    let mut inside = stand.inside();
    let mut browser = stand.browser();
    assert_eq!(status(&mut browser), "none");
    assert_eq!(browser.cookies.get(COOKIE), None, "asking takes nothing");
    browser.open_once("/");
    assert_eq!(status(&mut browser), "arriving");
    assert_eq!(stand.figure("joined"), 1);
    let page = browser.open("/");
    let response = line_response(&mut browser).json();
    assert_eq!(
        (&response["status"], &response["people_ahead"]),
        (&json!("waiting"), &json!(0)),
        "{response}"
    );
    assert_eq!(response["position"].as_u64(), page.shown_position());
    assert!(response.get("estimated_wait_seconds").is_some(), "{response}");
    let id = response["request_id"].as_str().expect("a request id").to_owned();
    let status_call = Request::new("GET", "/.anteroom/status").header("Authorization", &id);
    let by_api = stand.server.visitor().send(&status_call).expect("an answer").json();
    assert_eq!(by_api["position"], response["position"], "the same ticket on the API");
    assert_eq!(status(&mut inside), "admitted");
    // The turn comes, and asking does not take it.
    assert!(inside.open("/complete").is_from_site());
    stand.wait_for_figure("offers", 1);
    let before = stand.figure("claimed");
    line_response(&mut browser);
    assert_eq!(stand.figure("claimed"), before);
    stand.wait_for_figure("lapsed", 1);
    assert_eq!(status(&mut browser), "expired");
}

/// A place asked for by name was once given to clients without a cookie too, and a slot with it.
#[test]
fn a_place_asked_for_by_name_is_given_when_the_cookie_has_come_back() {
    let stand = Stand::open(1, "");
    for _ in 0..3 {
        let arriving = join(&mut stand.browser());
        assert_eq!(
            (arriving.status, arriving.json()["status"].clone()),
            (200, json!("arriving")),
            "{arriving:?}"
        );
        assert_not_kept(&arriving);
        let form = stand.browser().post("/.anteroom/line/join?return=/cart", "");
        let door = "/.anteroom/enter?return=/cart";
        assert_eq!((form.status, form.header("Location")), (303, Some(door)), "{form:?}");
    }
    assert_eq!((stand.figure("joined"), stand.figure("active")), (0, 0));
    let mut program = stand.browser();
    join(&mut program);
    let joined = join(&mut program);
    assert_eq!(joined.json()["status"], "admitted", "{joined:?}");
    let mut visitor = stand.browser();
    let form = visitor.post("/.anteroom/line/join?return=/cart", "");
    let page = visitor.open(form.header("Location").expect("a redirect"));
    assert_waits(&page);
    assert_eq!((stand.figure("joined"), stand.figure("active")), (2, 1));
}

#[test]
fn where_programs_may_join_a_place_asked_for_by_name_is_given_also_without_a_cookie() {
    let stand = Stand::open(1, "join = \"open\"");
    let mut first = stand.browser();
    let joined = join(&mut first);
    assert_eq!((joined.status, joined.json()["status"].clone()), (200, json!("admitted")), "{joined:?}");
    assert!(first.fetch("/in").is_from_site());
    let mut second = stand.browser();
    let joined = join(&mut second);
    assert_eq!(joined.json()["status"], "waiting", "{joined:?}");
    assert!(joined.header("Retry-After").is_some() && second.cookies.get(COOKIE).is_some(), "{joined:?}");
    let position = joined.json()["position"].clone();
    assert!(position.is_u64());
    // Asking again is the same place.
    assert_eq!(join(&mut second).json()["position"], position);
    assert_eq!(stand.figure("waiting"), 1);
    assert_eq!(join(&mut first).json()["status"], "admitted");
    assert_eq!((stand.figure("joined"), stand.figure("active")), (2, 1));
    assert!(first.open("/complete").is_from_site());
    wait_until("the turn comes", TIMEOUT, || second.fetch("/second").is_from_site());
}

#[test]
fn a_place_that_was_given_up_goes_to_the_next_by_form_and_by_call() {
    let stand = Stand::open(1, "");
    let mut inside = stand.inside();
    let (mut second, page) = stand.in_line();
    let (mut third, behind) = stand.in_line();
    assert_eq!(behind.shown_people_ahead(), Some(1));
    let thief = second.copy();
    let left = second.press(&page, "/.anteroom/line/leave");
    assert_eq!(left.status, 200, "{left:?}");
    assert_not_kept(&left);
    assert!(left.text().contains("<h1") && second.cookies.get(COOKIE).is_none(), "{left:?}");
    assert_eq!((stand.figure("left"), stand.figure("waiting")), (1, 1));
    assert!(third.open("/").shown_people_ahead() <= Some(1), "a place never gets worse");
    // The ticket is good for nothing now, by any client.
    let mut thief = thief;
    let gone = thief.open("/");
    assert!(!gone.is_from_site() && gone.shown_position().is_none(), "{gone:?}");
    let leaving = Request::new("POST", "/.anteroom/line/leave").header("Accept", "application/json").body("");
    let left = third.send(leaving.clone());
    assert_eq!((left.status, left.json()["status"].clone()), (200, json!("left")), "{left:?}");
    assert_eq!(third.send(leaving.clone()).status, 200, "who has left has left");
    assert_eq!((stand.figure("left"), stand.figure("waiting")), (2, 0));
    let left = inside.send(leaving);
    assert_eq!(left.status, 200);
    stand.wait_for_figure("active", 0);
    assert_eq!(status(&mut inside), "none");
    // At the end of the line the visitor is welcome again.
    second.enter("/", SOON, TIMEOUT);
}

#[test]
fn a_form_leads_back_to_a_page_of_this_site_and_to_no_other() {
    let stand = Stand::open(9, "join = \"open\"");
    let location = |target: &str| {
        let answer = stand.browser().post(&format!("/.anteroom/line/join{target}"), "");
        assert_eq!(answer.status, 303, "{target}: {answer:?}");
        answer.header("Location").expect("somewhere to go").to_owned()
    };
    assert_eq!(location("?return=/cart"), "/cart");
    assert_eq!(location("?return=%2Fcart%3Fa%3D1%26b%3D2"), "/cart?a=1&b=2");
    assert_eq!(location("?room=Hall&return=/cart"), "/cart");
    for evil in [
        "",
        "?return=",
        "?return=https://evil.example/",
        "?return=//evil.example/",
        "?return=%2F%2Fevil.example",
        "?return=/%2Fevil.example",
    ] {
        assert_eq!(location(evil), "/", "{evil}");
    }
    // Full by now.
    for evil in [
        "?return=/%5Cevil.example",
        "?return=/%0d%0aSet-Cookie:%20a=b",
        "?return=javascript:alert(1)",
        "?return=/%ff",
    ] {
        let answer = stand.browser().post(&format!("/.anteroom/line/join{evil}"), "");
        assert_eq!((answer.status, answer.header("Location")), (303, Some("/")), "{evil}: {answer:?}");
        assert!(answer.set_cookies().iter().all(|cookie| cookie.name == COOKIE), "{answer:?}");
    }
}

#[test]
fn other_methods_and_paths_are_refused_clearly() {
    let stand = Stand::open(1, "");
    let mut client = stand.server.visitor();
    for (method, path, status) in [
        ("GET", "/.anteroom/line/join", 405),
        ("DELETE", "/.anteroom/line/leave", 405),
        ("POST", "/.anteroom/line", 405),
        ("GET", "/.anteroom/line/nothing", 404),
        ("HEAD", "/.anteroom/line", 200),
    ] {
        let answer = client.send(&Request::new(method, path)).expect("an answer");
        assert_eq!(answer.status, status, "{method} {path}: {answer:?}");
        assert_eq!(answer.header("Allow").is_some(), status == 405, "{answer:?}");
    }
    assert_eq!((stand.site.requests(), stand.figure("joined")), (0, 0));
}

#[test]
fn places_of_the_api_and_of_the_gateway_are_one_line() {
    let stand = Stand::open(1, "join = \"open\"");
    let mut inside = stand.inside();
    let (mut second, page) = stand.in_line();
    let mut client = stand.server.visitor();
    let joined = client.post("/.anteroom/join", &json!({"room": "Hall"})).expect("an answer");
    let place = native::LinePlace::of(&joined);
    assert!(Some(place.position) > page.shown_position(), "{joined:?}");
    assert_eq!(joined.json()["people_ahead"], 1);
    let (mut fourth, page) = stand.in_line();
    assert_eq!(page.shown_people_ahead(), Some(2));
    assert!(inside.open("/complete").is_from_site());
    second.enter("/", SOON, TIMEOUT);
    assert!(second.open("/complete").is_from_site());
    let claim = json!({"room": "Hall", "ticket": place.ticket});
    wait_until("the API's ticket is served", TIMEOUT, || {
        client.post("/.anteroom/claim", &claim).is_ok_and(|answer| answer.status == 200)
    });
    assert_waits(&fourth.open("/"));
    assert_eq!(stand.figure("active"), 1);
}

#[test]
fn a_page_of_another_site_can_neither_take_nor_give_up_a_place() {
    let stand = Stand::open(1, "");
    let _inside = stand.inside();
    let (mut waiting, _) = stand.in_line();
    for call in ["join", "leave"] {
        let cross_origin =
            Request::new("POST", &format!("{LINE}/{call}")).header("Sec-Fetch-Site", "cross-site").body("");
        assert_eq!(waiting.send(cross_origin).status, 403, "{call}");
        let by_origin =
            Request::new("POST", &format!("{LINE}/{call}")).header("Origin", "https://evil.example").body("");
        assert_eq!(waiting.send(by_origin).status, 403, "{call}");
    }
    assert_eq!((stand.figure("waiting"), stand.figure("left")), (1, 0));
    assert_waits(&waiting.open("/"));
}

#[test]
fn without_auto_enter_the_turn_waits_for_the_button() {
    let stand = Stand::open(1, "auto_enter = false");
    // There is room: nobody has to press anything.
    let mut inside = stand.inside();
    let (mut browser, page) = stand.in_line();
    assert_eq!(page.situation().as_deref(), Some("waiting"), "{page:?}");
    let enter = page.forms().into_iter().find(|form| form.contains("/line/enter")).expect("a button");
    let early = browser.press(&page, "/line/enter");
    assert_waits(&early);
    assert!(inside.open("/complete").is_from_site());
    stand.wait_for_figure("offers", 1);
    let before = stand.figure("claimed");
    let turn = browser.open("/cart?a=1");
    assert_eq!(turn.situation().as_deref(), Some("turn"), "{turn:?}");
    assert!(!browser.fetch("/in").is_from_site(), "nor do programs come in by asking");
    let response = line_response(&mut browser).json();
    assert_eq!(response["status"], "active", "{response}");
    assert!(response.get("claim_expires_in_seconds").is_some(), "{response}");
    assert_eq!(stand.figure("claimed"), before, "nothing is claimed by looking");
    let forged =
        Request::new("POST", &enter).header("Accept", "text/html").header("Sec-Fetch-Site", "cross-site");
    assert_eq!(browser.send(forged).status, 403);
    let there = browser.press(&turn, "/line/enter");
    assert!(there.is_from_site() && there.text().contains("/cart?a=1"), "{there:?}");
    assert_eq!((stand.figure("claimed"), stand.figure("active")), (before + 1, 1));
    // Pressed again, the visitor is in.
    assert_eq!(browser.post(&enter, "").status, 303);
    assert!(browser.fetch("/in").is_from_site());
    // Who has no place cannot come in by the button.
    assert_eq!(stand.browser().post("/.anteroom/line/enter", "").status, 409);
}

#[test]
fn a_program_comes_in_by_call() {
    let stand = Stand::open(1, "auto_enter = false");
    let mut inside = stand.inside();
    let mut program = stand.browser();
    assert_eq!(join(&mut program).json()["status"], "arriving");
    assert_eq!(join(&mut program).json()["status"], "waiting");
    let enter = Request::new("POST", "/.anteroom/line/enter").header("Accept", "application/json").body("");
    assert_eq!(program.send(enter.clone()).json()["status"], "waiting");
    assert!(inside.open("/complete").is_from_site());
    wait_until("the turn comes", TIMEOUT, || line_response(&mut program).json()["status"] == "active");
    assert_eq!(program.send(enter).json()["status"], "admitted");
    assert!(program.fetch("/in").is_from_site());
}

#[test]
fn a_place_moves_to_another_device_and_the_old_one_is_told() {
    let stand = Stand::open(1, "");
    let mut inside = stand.inside();
    let (mut old, page) = stand.in_line();
    let link = old.open(&page.link("/line/move").expect("a link")).field("link").expect("the link");
    let target = link.split_once(&stand.server.public().to_string()).expect("a link to this host").1;
    let mut new = stand.browser();
    let asked_for = new.open(target);
    assert_eq!(asked_for.situation().as_deref(), Some("move-in"), "{asked_for:?}");
    let here = new.press(&asked_for, "/line/take");
    assert_eq!(here.shown_position(), page.shown_position(), "{here:?}");
    let moved = old.open("/");
    assert_eq!((moved.status, moved.situation().as_deref()), (410, Some("moved")), "{moved:?}");
    let response = line_response(&mut old);
    assert_eq!((response.status, response.json()["status"].clone()), (410, json!("moved")), "{response:?}");
    assert!(!old.fetch("/in").is_from_site());
    assert!(inside.open("/complete").is_from_site());
    new.enter("/", SOON, TIMEOUT);
    assert!(!old.open("/").is_from_site(), "the turn is the new one's");
    // The visitor may take another place here, by asking for it.
    let join = old.press(&old.copy().open("/"), "/line/join");
    assert_waits(&join);
    assert_eq!(stand.figure("joined"), 3);
}

#[test]
fn a_link_leads_to_a_host_that_the_room_names_or_to_the_public_address() {
    let config = "public_url = \"http://wait.example\"\n[[room]]\nid = \"Hall\"\ninlet = \"max-size\"\n\
                  total_active_users = 0\nhosts = [\"shop.example\"]\norigins = [\"ORIGIN\"]\n";
    let stand = Stand::configured(config);
    for (host, site) in [("shop.example", "http://shop.example/"), ("10.0.0.7", "http://wait.example/")] {
        let mut browser = stand.browser().of_host(host);
        let call = |method: &str, call: &str| {
            Request::new(method, &format!("{LINE}{call}?room=Hall")).header("Accept", "application/json")
        };
        assert_eq!(browser.send(call("POST", "/join")).json()["status"], "arriving", "{host}");
        assert_eq!(browser.send(call("POST", "/join")).json()["status"], "waiting", "{host}");
        let link = browser.send(call("GET", "/move")).json()["url"].as_str().expect("a link").to_owned();
        assert!(link.starts_with(site), "{host}: {link}");
    }
}

#[test]
fn one_address_cannot_take_places_without_end() {
    let config = "limits_exempt = \"none\"\norigin = \"ORIGIN\"\n[[room]]\nid = \"Hall\"\ninlet = \"max-size\"\ntotal_active_users = 0\n";
    let stand = Stand::configured(config);
    let mut browser = stand.browser();
    // Whether they are any good is not known before.
    let take = || {
        Request::new("POST", &format!("{LINE}/take?room=Hall&code=x")).header("Accept", "application/json")
    };
    let allowed = (0..1_000).take_while(|_| browser.send(take()).status == 410).count();
    assert!((60..100).contains(&allowed), "{allowed}");
    let refused = browser.send(take());
    assert_eq!(
        (refused.status, refused.json()["violated-policies"].clone()),
        (429, json!(["move"])),
        "{refused:?}"
    );
    assert_eq!(browser.send(Request::new("GET", LINE).header("Accept", "application/json")).status, 200);
}

#[test]
fn the_line_of_any_room_answers_on_any_host() {
    let config = "[[room]]\nid = \"Hall\"\ninlet = \"max-size\"\ntotal_active_users = 0\nhosts = [\"shop.example\"]\norigins = [\"ORIGIN\"]\n\
                  [[room]]\nid = \"Plain\"\ninlet = \"max-size\"\ntotal_active_users = 1\n";
    let stand = Stand::configured(config);
    for (host, room) in [("api.example", "Plain"), ("shop.example", "Plain"), ("api.example", "Hall")] {
        let mut browser = stand.browser().of_host(host);
        let call = |call: &str| {
            let method = if call.is_empty() { "GET" } else { "POST" };
            Request::new(method, &format!("{LINE}{call}?room={room}")).header("Accept", "application/json")
        };
        assert_eq!(browser.send(call("")).json()["status"], "none", "{host} {room}");
        if room == "Hall" {
            // The gateway stands before it: the cookie has to come back first.
            assert_eq!(browser.send(call("/join")).json()["status"], "arriving", "{host} {room}");
        }
        let joined = browser.send(call("/join"));
        // A cookie lets nobody into a site without a gateway: the visitor is told that the turn has come.
        let expected = if room == "Plain" && host == "api.example" { "active" } else { "waiting" };
        assert_eq!(joined.json()["status"], expected, "{host} {room}: {joined:?}");
        assert_eq!(browser.send(call("")).json()["room"], room);
        if expected == "active" {
            assert_eq!(browser.send(call("/enter")).status, 409, "there is no site here to enter");
        }
    }
    let nowhere = stand.browser().of_host("api.example").open("/.anteroom/line?room=Nowhere");
    assert_eq!(nowhere.status, 404, "{nowhere:?}");
    let script = stand.browser().of_host("shop.example").fetch("/.anteroom/page.js");
    assert_eq!(
        (script.status, script.header("Content-Type")),
        (200, Some("text/javascript; charset=utf-8")),
        "{script:?}"
    );
}

#[test]
fn a_visitor_inside_by_the_gateway_is_handed_over_to_another_site_too() {
    let stand = Stand::open(1, "return_addresses = [\"https://other.example\"]");
    let mut inside = stand.inside();
    let answer = inside.open("/.anteroom/wait/Hall");
    let location = answer.header("Location").unwrap_or_else(|| panic!("{answer:?}")).to_owned();
    let code = location.strip_prefix("https://other.example/?anteroom_code=").expect("a code");
    let pass = stand.server.visitor().post("/.anteroom/claim", &json!({"code": code, "room": "Hall"}));
    assert_eq!(pass.expect("an answer").status, 200);
    assert!(inside.open("/in").is_from_site(), "the visitor is inside here as before");
    assert_eq!((stand.figure("claimed"), stand.figure("active")), (1, 1));
}

#[test]
fn while_the_room_is_paused_nobody_is_told_that_their_turn_has_come() {
    let stand = Stand::open(1, "");
    let mut inside = stand.inside();
    let (mut waiting, _) = stand.in_line();
    assert!(inside.open("/complete").is_from_site());
    stand.wait_for_figure("offers", 1);
    stand.change(&json!({"state": "paused"}));
    assert_eq!(line_response(&mut waiting).json()["status"], "waiting");
    let page = waiting.open("/");
    assert_eq!(page.situation().as_deref(), Some("waiting"), "{page:?}");
    stand.change(&json!({"state": "open"}));
    waiting.enter("/", SOON, TIMEOUT);
}

#[test]
fn forms_work_behind_a_proxy_that_names_another_host() {
    let stand = Stand::open(0, "");
    let (mut browser, _) = stand.in_line();
    let leaving = |site: &str| {
        Request::new("POST", "/.anteroom/line/leave")
            .header("Accept", "text/html")
            .header("Origin", "https://shop.example")
            .header("Sec-Fetch-Site", site)
            .body("")
    };
    assert_eq!(browser.send(leaving("cross-site")).status, 403);
    assert_eq!(browser.send(leaving("same-site")).status, 403, "another host of the same domain");
    assert_eq!(browser.send(leaving("same-origin")).status, 200, "the browser says that it is the same site");
}

#[test]
fn taking_a_place_gives_up_ones_own_and_nobody_inside_takes_one() {
    let stand = Stand::open(1, "");
    let mut inside = stand.inside();
    let (mut first, page) = stand.in_line();
    let (mut second, _) = stand.in_line();
    let link = first.open(&page.link("/line/move").expect("a link")).field("link").expect("the link");
    let target = link.split_once(&stand.server.public().to_string()).expect("a link to this host").1;
    assert_eq!(inside.post(target, "").status, 409, "the visitor is inside");
    assert!(inside.open("/in").is_from_site());
    let says_so = "You give up the place that this browser holds now.";
    assert!(second.open(target).text().contains(says_so), "the page says what it costs");
    assert!(!Browser::new(stand.server.public()).open(target).text().contains(says_so));
    assert_eq!(second.post(target, "").status, 303);
    assert_eq!(second.open("/").shown_position(), page.shown_position());
    assert_eq!((stand.figure("waiting"), stand.figure("left")), (1, 1));
}

#[test]
fn a_visitor_of_the_waiting_page_holds_a_slot_no_longer_than_any_other() {
    let stand = Stand::open(1, "session_duration = 3");
    let mut silent = stand.browser();
    wait_until("the slot is taken", TIMEOUT, || {
        silent.open("/.anteroom/wait/Hall");
        stand.figure("active") == 1
    });
    // A pass is valid for an hour.
    let mut next = stand.browser();
    assert!(next.enter("/", SOON, TIMEOUT).is_from_site());
}
