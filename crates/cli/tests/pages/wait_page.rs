//! The waiting page for sites that no gateway stands before, by plain HTTP with the real binary: join, wait, the turn, the three ways of handing a
//! visitor over, return addresses, the device that a place moves to, and leaving.

use std::time::Duration;

use anteroom_core::{RoomId, UnixMillis};
use anteroom_testkit::{Answer, Browser, Request, Server, jwt, unix_seconds, wait_for, wait_until};
use anteroom_tokens::codes::{Code, Codes, HAND_OFF_SECONDS, MOVE_SECONDS};
use anteroom_tokens::{MasterSecrets, RequestIds, request_id};
use serde_json::{Value, json};

use crate::support::BINARY;
use crate::support::metrics::metric;

/// How long a state may take. Generous: what is tested is that it comes, not how fast.
const TIMEOUT: Duration = Duration::from_mins(1);
const WAIT: &str = "/wait/Hall?return=https%3A%2F%2Fshop.example%2Fcart%3Fa%3D1%23top";
const LEAVE: &str = "/.anteroom/line/leave?room=Hall";

/// A server whose room has one slot, for the site `https://shop.example`, which it knows nothing else of.
fn start(more: &str) -> Server {
    let config = format!(
        "[[room]]\nid = \"Hall\"\ninlet = \"max-size\"\ntotal_active_users = 1\n\
         return_addresses = [\"https://shop.example\"]\n{more}\n[[room]]\nid = \"Other\"\n"
    );
    Server::builder(BINARY).memory().config(config).start().expect("the server starts")
}

fn browser(server: &Server) -> Browser {
    Browser::new(server.public())
}

/// Opens the page until it is something else than a line.
#[track_caller]
fn through(browser: &mut Browser, target: &str) -> Answer {
    wait_for("the turn", TIMEOUT, || {
        let answer = browser.open(target);
        (answer.status == 303 || answer.situation().as_deref() == Some("hand-off")).then_some(answer)
    })
}

/// A visitor in line, and the page that they see.
#[track_caller]
fn in_line(server: &Server, target: &str) -> (Browser, Answer) {
    let mut browser = browser(server);
    assert_eq!(browser.open(target).situation().as_deref(), Some("arriving"));
    let page = browser.open(target);
    assert_eq!(page.situation().as_deref(), Some("waiting"), "{page:?}");
    (browser, page)
}

fn status(browser: &mut Browser) -> Value {
    let ask = Request::new("GET", "/.anteroom/line?room=Hall").header("Accept", "application/json");
    browser.send(ask).json()
}

fn location(answer: &Answer) -> String {
    assert_eq!(answer.status, 303, "{answer:?}");
    answer.header("Location").expect("a Location").to_owned()
}

fn code_of(address: &str) -> String {
    let code = address.split_once("anteroom_code=").expect("a code").1;
    code.split(['#', '&']).next().expect("a code").to_owned()
}

fn exchange(server: &Server, code: &str) -> Answer {
    server.visitor().post("/claim", &json!({ "code": code })).expect("an answer")
}

#[test]
fn a_visitor_joins_waits_and_is_handed_over_with_a_code() {
    let server = start("");
    let mut first = browser(&server);
    let arriving = first.open(WAIT);
    assert_eq!(arriving.situation().as_deref(), Some("arriving"), "{arriving:?}");
    assert_eq!(arriving.refresh_seconds(), Some(1));
    let address = location(&first.open(WAIT));
    assert!(address.starts_with("https://shop.example/cart?a=1&anteroom_code="), "{address}");
    assert!(address.ends_with("#top"), "{address}");
    let pass = exchange(&server, &code_of(&address));
    assert_eq!(pass.status, 200, "{pass:?}");
    let claims = jwt::claims(pass.json()["access_token"].as_str().expect("a pass"));
    assert_eq!(claims["aud"], "Hall");
    // Once.
    let again = exchange(&server, &code_of(&address));
    assert_eq!(again.status, 410, "{again:?}");
    // The page can be opened again: it is the same visit, with a new code.
    let second_code = code_of(&location(&first.open(WAIT)));
    assert_eq!(exchange(&server, &second_code).json()["access_token"], pass.json()["access_token"]);

    let (mut second, page) = in_line(&server, WAIT);
    assert_eq!((page.shown_position(), page.shown_people_ahead()), (Some(2), Some(0)));
    assert!(page.forms().iter().any(|form| form.contains("/line/leave")), "{page:?}");
    let response = status(&mut second);
    assert_eq!((&response["status"], &response["position"]), (&json!("waiting"), &json!(2)), "{response}");
    assert!(response["generation"].is_u64() && response["people_ahead_at_first"].is_u64(), "{response}");
    // Programs are told where they stand, and take nothing.
    let program = Request::new("GET", WAIT).header("Accept", "application/json");
    assert_eq!(second.send(program.clone()).json()["status"], "waiting");
    let mut nobody = browser(&server);
    assert!(nobody.send(program).set_cookies().is_empty());
    assert_eq!(first.post(LEAVE, "").status, 200);
    let address = location(&through(&mut second, WAIT));
    assert_eq!(exchange(&server, &code_of(&address)).status, 200);
}

#[test]
fn a_code_is_good_for_a_minute_and_for_its_own_use() {
    let server = start("");
    let mut browser = browser(&server);
    browser.open(WAIT);
    let address = location(&browser.open(WAIT));
    let secrets = MasterSecrets::parse(server.secret()).expect("a secret");
    let (codes, room) = (Codes::new(&secrets), RoomId::parse("Hall").expect("a room"));
    let opened = codes.open_hand_off(&code_of(&address), UnixMillis(0)).expect("a code of this server");
    let made_before = |seconds: u64| Code {
        room: room.clone(),
        ticket: opened.ticket,
        issued_at: UnixMillis(opened.issued_at.0 - seconds * 1000),
    };
    let old = exchange(&server, &codes.seal_hand_off(&made_before(HAND_OFF_SECONDS)));
    assert_eq!(old.status, 410, "{old:?}");
    let of_another_kind = exchange(&server, &codes.seal_move(&made_before(0)));
    assert_eq!(of_another_kind.status, 410, "{of_another_kind:?}");
    assert_eq!(exchange(&server, "nonsense").status, 410);
    assert_eq!(exchange(&server, &code_of(&address)).status, 200);
}

#[test]
fn nobody_is_sent_to_an_address_that_is_not_listed() {
    let server = start("");
    let mut browser = browser(&server);
    for evil in [
        "https%3A%2F%2Fevil.example%2F",
        "https%3A%2F%2Fshop.example.evil.example%2F",
        "https%3A%2F%2Fshop.example%40evil.example%2F",
        "http%3A%2F%2Fshop.example%2F",
        "https%3A%2F%2Fshop.example%2Fa%2F..%2F..%2Fb%0d%0a",
        "%2F%2Fevil.example",
        "%2Fcart",
        "javascript%3Aalert(1)",
        "",
        "%zz",
    ] {
        for (method, path) in [("GET", "/wait/Hall"), ("POST", "/wait/Hall/enter")] {
            let request = Request::new(method, &format!("{path}?return={evil}"))
                .header("Accept", "text/html")
                .header("Sec-Fetch-Mode", "navigate")
                .header("Sec-Fetch-Dest", "document");
            let refused = browser.send(request);
            assert_eq!(refused.status, 400, "{method} {evil}: {refused:?}");
            assert!(refused.header("Location").is_none() && refused.set_cookies().is_empty(), "{refused:?}");
        }
    }
    assert_eq!(server.line("Hall").waiting(), 0, "and nobody took a place");
    assert_eq!(browser.open("/wait/Nowhere").status, 404);
    // Below the prefix of our own paths it is the same page.
    let mut other = Browser::new(server.public());
    assert_eq!(other.open("/.anteroom/wait/Hall").situation().as_deref(), Some("arriving"));
    let address = location(&other.open("/.anteroom/wait/Hall"));
    assert!(address.starts_with("https://shop.example/?anteroom_code="), "{address}");
}

#[test]
fn a_room_without_an_address_tells_its_visitors_that_they_are_in() {
    let server = start("");
    let operator = Request::new("PATCH", "/rooms/Other")
        .body(json!({"settings": {"inlet": "max-size", "total_active_users": 1}}).to_string());
    assert_eq!(server.operator().send(&operator).expect("an answer").status, 200);
    let mut browser = browser(&server);
    browser.open("/wait/Other");
    let page = wait_for("the turn", TIMEOUT, || {
        let page = browser.open("/wait/Other");
        (page.situation().as_deref() == Some("inside")).then_some(page)
    });
    assert_eq!(page.status, 200, "{page:?}");
}

#[test]
fn the_pass_is_handed_over_as_a_cookie_of_the_shared_domain() {
    let server = start("handoff = \"cookie\"\nhandoff_domain = \"shop.example\"");
    let mut browser = browser(&server);
    browser.open(WAIT);
    let answer = browser.open(WAIT);
    assert_eq!(location(&answer), "https://shop.example/cart?a=1#top");
    let cookies = answer.set_cookies();
    let pass = cookies.iter().find(|cookie| cookie.name == "anteroom_pass_Hall").expect("the pass");
    for attribute in ["Domain=shop.example", "Path=/", "HttpOnly", "SameSite=Lax"] {
        assert!(pass.has(attribute), "{attribute}: {pass:?}");
    }
    assert!(pass.max_age_seconds().is_some_and(|seconds| seconds > 0) && !pass.has("Secure"), "{pass:?}");
    assert_eq!(jwt::claims(&pass.value)["aud"], "Hall");
}

#[test]
fn the_pass_is_handed_over_as_a_form() {
    let server = start("handoff = \"post\"");
    let mut browser = browser(&server);
    browser.open(WAIT);
    let page = browser.open(WAIT);
    assert_eq!((page.status, page.situation().as_deref()), (200, Some("hand-off")), "{page:?}");
    assert_eq!(page.forms(), ["https://shop.example/cart?a=1#top"]);
    let pass = page.field("access_token").expect("the pass");
    assert_eq!(jwt::claims(&pass)["aud"], "Hall");
    for (name, value) in [("token_type", "Bearer"), ("room", "Hall")] {
        assert_eq!(page.field(name).as_deref(), Some(value));
    }
    for name in ["refresh_token", "id_token", "expires_in"] {
        assert!(page.field(name).is_some_and(|value| !value.is_empty()), "{name}");
    }
    let policy = page.header("Content-Security-Policy").expect("a policy");
    assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
}

#[test]
fn without_auto_enter_the_button_hands_over() {
    let server = start("auto_enter = false");
    let mut browser = browser(&server);
    browser.open(WAIT);
    let page = browser.open(WAIT);
    assert_eq!(page.situation().as_deref(), Some("turn"), "{page:?}");
    assert_eq!(status(&mut browser)["status"], "active");
    assert_eq!(server.line("Hall").waiting(), 1, "nothing is claimed by looking");
    // A page of another site cannot press it.
    let form = page.forms().into_iter().find(|form| form.contains("/enter")).expect("a button");
    let forged = Request::new("POST", &form)
        .header("Accept", "text/html")
        .header("Sec-Fetch-Site", "cross-site")
        .header("Origin", "https://evil.example");
    assert_eq!(browser.send(forged).status, 403);
    let address = location(&browser.post(&form, ""));
    assert_eq!(exchange(&server, &code_of(&address)).status, 200);
    // Pressed again, it is the same visit; without a place one begins anew.
    assert!(location(&browser.post(&form, "")).contains("anteroom_code="));
    let mut stranger = Browser::new(server.public());
    assert!(location(&stranger.post(&form, "")).starts_with("/.anteroom/wait/Hall?return="));
}

#[test]
fn a_place_is_taken_to_another_device_by_its_link_once() {
    let server = start("");
    let mut first = browser(&server);
    first.open(WAIT);
    location(&first.open(WAIT));
    let (mut old, page) = in_line(&server, WAIT);
    let request_id = status(&mut old)["request_id"].clone();
    let move_out = page.link("/line/move").expect("a link to the page with the link");
    let move_page = old.open(&move_out);
    assert_eq!(move_page.situation().as_deref(), Some("move-out"), "{move_page:?}");
    let link = move_page.field("link").expect("the link");
    let as_json = old.send(Request::new("GET", &move_out).header("Accept", "application/json")).json();
    assert!(as_json["url"].as_str().is_some_and(|url| url.contains("/line/take?")), "{as_json}");
    assert!(as_json["qr"].as_str().is_some_and(|qr| qr.starts_with("<svg")), "{as_json}");
    assert_eq!(as_json["expires_in_seconds"], MOVE_SECONDS);

    let target = link.strip_prefix(&format!("http://{}", server.public())).expect("a link to this host");
    let mut new = browser(&server);
    // Opening it takes nothing: programs that preview links open them too.
    let asked = new.open(target);
    assert_eq!((asked.status, asked.situation().as_deref()), (200, Some("move-in")), "{asked:?}");
    assert!(status(&mut new)["status"] == "none" && status(&mut old)["status"] == "waiting");
    let mut late = browser(&server);
    let asked_too = late.open(target);
    let here = new.press(&asked, "/line/take");
    assert_eq!(here.situation().as_deref(), Some("waiting"), "{here:?}");
    assert_eq!(here.shown_position(), page.shown_position());
    assert_ne!(status(&mut new)["request_id"], request_id, "another ticket for the same place");

    // The old one says so, to people and to programs, however often it is asked.
    for _ in 0..2 {
        let moved = old.open(WAIT);
        assert_eq!((moved.status, moved.situation().as_deref()), (410, Some("moved")), "{moved:?}");
    }
    let asking = Request::new("GET", "/.anteroom/line?room=Hall").header("Accept", "application/json");
    let response = old.send(asking);
    assert_eq!((response.status, response.json()["status"].clone()), (410, json!("moved")), "{response:?}");
    // The link is used; the browser that used it may press it again.
    let failed = late.press(&asked_too, "/line/take");
    assert_eq!((failed.status, failed.situation().as_deref()), (410, Some("move-failed")), "{failed:?}");
    assert_eq!(late.open(target).status, 410);
    assert_eq!(new.post(target, "").status, 303);
    // Leaving with the old one gives nothing up.
    assert_eq!(old.post(LEAVE, "").status, 410);
    assert_eq!(status(&mut new)["status"], "waiting");
    assert_eq!(first.post(LEAVE, "").status, 200);
    through(&mut new, WAIT);
}

/// A visitor in line behind one who is inside by `/wait`, and the target of the link to the place.
fn linked(server: &Server) -> (Browser, Browser, String) {
    let mut inside = browser(server);
    inside.open(WAIT);
    location(&inside.open(WAIT));
    let (mut waiting, page) = in_line(server, WAIT);
    let move_page = waiting.open(&page.link("/line/move").expect("a link"));
    let link = move_page.field("link").expect("the link");
    let target = link.strip_prefix(&format!("http://{}", server.public())).expect("a link to this host");
    (inside, waiting, target.to_owned())
}

#[test]
fn a_place_taken_whose_response_was_lost_is_there_on_a_retry() {
    let server = start("");
    let (mut first, mut old, target) = linked(&server);
    let mut phone = browser(&server);
    let asked = phone.open(&target);
    // Confirmed, twice; the network loses both responses, and the browser knows nothing of them.
    for _ in 0..2 {
        let lost = phone.copy().press(&asked, "/line/take");
        assert_eq!(lost.situation().as_deref(), Some("waiting"), "{lost:?}");
    }
    assert_eq!(
        (status(&mut phone)["status"].clone(), status(&mut old)["status"].clone()),
        (json!("none"), json!("moved"))
    );
    // Nobody else has it by the same link.
    assert_eq!(browser(&server).open(&target).status, 410);
    assert_eq!(browser(&server).post(&target, "").status, 410);
    // Opening the link again tells, and the place is there.
    let here = phone.open(&target);
    assert_eq!(here.status, 303, "{here:?}");
    assert_eq!(status(&mut phone)["status"], "waiting");
    assert_eq!(metric(&server, "anteroom_places_moved_total{room=\"Hall\"}"), 1, "it has moved once");
    assert_eq!(first.post(LEAVE, "").status, 200);
    through(&mut phone, WAIT);
    // Once inside, the button is pressed once more.
    assert_eq!(phone.post(&target, "").status, 303);
}

#[test]
fn a_visitor_inside_is_not_thrown_out_by_taking_another_place_and_has_none_to_give() {
    let server = start("");
    let (mut inside, mut waiting, target) = linked(&server);
    assert_eq!(inside.post(&target, "").status, 409, "the visitor is inside, by another site");
    let figures = server.operator().get("/rooms/Hall").expect("an answer").json()["figures"].clone();
    assert_eq!((&figures["active"], &figures["abandoned"]), (&json!(1), &json!(0)), "{figures}");
    assert_eq!(status(&mut waiting)["status"], "waiting", "and the place is where it was");
    let move_out = Request::new("GET", "/.anteroom/line/move?room=Hall").header("Accept", "application/json");
    assert_eq!(inside.send(move_out).status, 409, "their link would lead to nothing");
    let address = location(&inside.open(WAIT));
    assert_eq!(exchange(&server, &code_of(&address)).status, 200, "the pass is as good as before");
}

#[test]
fn there_is_no_link_to_a_place_that_is_gone_and_none_that_is_too_long_to_be_read() {
    let server = start("queue_position_expiry_period = 1");
    let (mut first, mut late, _) = linked(&server);
    let move_out = |more: &str| {
        let target = format!("/.anteroom/line/move?room=Hall{more}");
        Request::new("GET", &target).header("Accept", "application/json")
    };
    let url = |answer: Answer| answer.json()["url"].as_str().expect("a link").to_owned();
    let short = url(late.send(move_out("&return=/cart")));
    assert!(short.ends_with("&return=/cart"), "{short}");
    let long = url(late.send(move_out(&format!("&return=/{}", "a".repeat(2_900)))));
    assert!(!long.contains("return=") && long.len() < 500, "{long}");
    assert_eq!(first.post(LEAVE, "").status, 200);
    wait_until("the turn is over", TIMEOUT, || status(&mut late)["status"] == "expired");
    let gone = late.send(move_out(""));
    assert_eq!(
        (gone.status, gone.header("Content-Type")),
        (410, Some("application/problem+json")),
        "{gone:?}"
    );
}

#[test]
fn links_that_are_too_old_or_not_ours_and_pages_of_other_sites_move_nothing() {
    let server = start("");
    let mut first = browser(&server);
    first.open(WAIT);
    location(&first.open(WAIT));
    let (mut waiting, _) = in_line(&server, WAIT);
    let secrets = MasterSecrets::parse(server.secret()).expect("a secret");
    let room = RoomId::parse("Hall").expect("a room");
    let id = status(&mut waiting)["request_id"].as_str().and_then(request_id::parse).expect("a request id");
    let ticket = RequestIds::new(&secrets, &room).open(id, |_| true).expect("a ticket of this server");
    let codes = Codes::new(&secrets);
    let now = UnixMillis(unix_seconds() * 1000);
    let link = |code: &str, room: &str| format!("/.anteroom/line/take?room={room}&code={code}");
    let sealed = |issued_at: UnixMillis| codes.seal_move(&Code { room: room.clone(), ticket, issued_at });
    let good = sealed(now);
    let old = sealed(UnixMillis(now.0 - MOVE_SECONDS * 1000));
    let of_a_hand_off = codes.seal_hand_off(&Code { room: room.clone(), ticket, issued_at: now });
    let mut thief = browser(&server);
    for target in [link(&old, "Hall"), link(&of_a_hand_off, "Hall"), link("x", "Hall"), link(&good, "Other")]
    {
        assert_eq!(thief.open(&target).status, 410, "{target}");
        assert_eq!(thief.post(&target, "").status, 410, "{target}");
    }
    let forged = Request::new("POST", &link(&good, "Hall"))
        .header("Accept", "text/html")
        .header("Sec-Fetch-Site", "cross-site");
    assert_eq!(thief.send(forged).status, 403);
    assert_eq!(status(&mut waiting)["status"], "waiting");
    assert_eq!(thief.post(&link(&good, "Hall"), "").status, 303);
    // Without a place there is nothing to move.
    assert_eq!(browser(&server).open("/.anteroom/line/move?room=Hall").status, 409);
}

#[test]
fn visitors_who_leave_or_come_too_late_may_join_again() {
    let server = start("queue_position_expiry_period = 1");
    let mut first = browser(&server);
    first.open(WAIT);
    location(&first.open(WAIT));
    let (mut second, page) = in_line(&server, WAIT);
    let left = second.press(&page, "/line/leave");
    assert_eq!(left.situation().as_deref(), Some("left"), "{left:?}");
    assert!(left.link("/wait/Hall").is_some(), "{left:?}");
    assert_eq!(status(&mut second)["status"], "none");
    // The turn comes, and the visitor does not.
    let (mut third, _) = in_line(&server, WAIT);
    assert_eq!(first.post(LEAVE, "").status, 200);
    wait_until("the turn is over", TIMEOUT, || status(&mut third)["status"] == "expired");
    let gone = third.open(WAIT);
    assert_eq!(gone.situation().as_deref(), Some("gone"), "{gone:?}");
    let form = gone.forms().into_iter().find(|form| form.contains("/line/join")).expect("a button");
    let back = location(&third.post(&form, ""));
    assert!(back.starts_with("/.anteroom/wait/Hall?return="), "{back}");
    through(&mut third, &back);
}

#[test]
fn a_closed_room_says_so_and_keeps_places() {
    let server = start("");
    let mut first = browser(&server);
    first.open(WAIT);
    location(&first.open(WAIT));
    let (mut waiting, _) = in_line(&server, WAIT);
    let set = |state: &str| {
        let request = Request::new("PATCH", "/rooms/Hall").body(json!({ "state": state }).to_string());
        assert_eq!(server.operator().send(&request).expect("an answer").status, 200);
    };
    set("closed");
    let page = waiting.open(WAIT);
    assert_eq!((page.status, page.situation().as_deref()), (503, Some("closed")), "{page:?}");
    assert_eq!(status(&mut waiting)["status"], "closed");
    assert_eq!(browser(&server).open(WAIT).status, 503);
    set("open");
    assert_eq!(waiting.open(WAIT).situation().as_deref(), Some("waiting"));
}

#[test]
fn a_code_of_another_room_is_refused_where_the_room_is_named_and_stays_good() {
    let server = start("");
    let mut browser = browser(&server);
    browser.open(WAIT);
    let code = code_of(&location(&browser.open(WAIT)));
    let bring = |body: Value| server.visitor().post("/claim", &body).expect("an answer");
    assert_eq!(bring(json!({ "code": code, "room": "Cellar" })).status, 410);
    assert_eq!(bring(json!({ "code": code, "room": "Hall" })).status, 200);
    assert_eq!(bring(json!({ "code": code, "room": "Hall" })).status, 410);
    assert_eq!(metric(&server, "anteroom_codes_exchanged_total{room=\"Hall\"}"), 1, "once");
}

#[test]
fn a_visitor_who_was_inside_and_comes_again_stands_in_line_again() {
    let server = start("");
    let mut buyer = browser(&server);
    buyer.open(WAIT);
    let bought = exchange(&server, &code_of(&location(&buyer.open(WAIT))));
    assert_eq!(bought.status, 200, "{bought:?}");
    let visit = status(&mut buyer)["request_id"].as_str().expect("a request id").to_owned();
    let (mut next, _) = in_line(&server, WAIT);
    // The site says that the visit is over, and the next one is in. The buyer wants another ticket.
    assert_eq!(server.line("Hall").close(&visit, 1).status, 200);
    through(&mut next, WAIT);
    let page = buyer.open(WAIT);
    assert_eq!((page.situation().as_deref(), page.shown_position()), (Some("waiting"), Some(3)), "{page:?}");
    assert_eq!(buyer.open(WAIT).shown_position(), Some(3), "one place, however often they ask");
    assert_eq!(next.post(LEAVE, "").status, 200);
    let again = exchange(&server, &code_of(&location(&through(&mut buyer, WAIT))));
    assert_ne!(again.json()["access_token"], bought.json()["access_token"]);
}

#[test]
fn a_button_that_comes_too_late_leads_back_to_a_page_that_can_be_asked_again() {
    let server = start("auto_enter = false\nqueue_position_expiry_period = 1");
    let mut late = browser(&server);
    late.open(WAIT);
    let page = late.open(WAIT);
    let form = page.forms().into_iter().find(|form| form.contains("/enter")).expect("a button");
    wait_until("the turn is over", TIMEOUT, || status(&mut late)["status"] == "expired");
    let back = location(&late.post(&form, ""));
    assert!(back.starts_with("/.anteroom/wait/Hall?return="), "{back}");
    assert_eq!(late.open(&back).situation().as_deref(), Some("gone"), "which tells what has happened");
}

#[test]
fn rooms_of_one_domain_have_cookies_of_their_own_and_a_domain_that_does_not_fit_is_refused() {
    let server = start("handoff = \"cookie\"\nhandoff_domain = \"shop.example\"");
    let change = |room: &str, settings: Value| {
        let body = json!({ "settings": settings }).to_string();
        server
            .operator()
            .send(&Request::new("PATCH", &format!("/rooms/{room}")).body(body))
            .expect("an answer")
    };
    let other = json!({
        "inlet": "max-size", "total_active_users": 1, "handoff": "cookie", "handoff_domain": "shop.example",
        "return_addresses": ["https://www.shop.example"],
    });
    assert_eq!(change("Other", other).status, 200);
    let mut browser = browser(&server);
    for room in ["Hall", "Other"] {
        let target = format!("/wait/{room}");
        browser.open(&target);
        let answer = through(&mut browser, &target);
        let cookies = answer.set_cookies();
        let pass = cookies.iter().find(|cookie| cookie.name == format!("anteroom_pass_{room}"));
        assert_eq!(jwt::claims(&pass.expect("the pass").value)["aud"], room);
    }
    for (domain, listed) in [
        ("example", "https://shop.example"),
        ("127.0.0.1", "http://127.0.0.1:9000"),
        ("shop.example", "https://shop.elsewhere"),
        ("shop.example", "https://myshop.example"),
    ] {
        let refused = change("Hall", json!({ "handoff_domain": domain, "return_addresses": [listed] }));
        assert_eq!((refused.status, refused.problem().as_str()), (400, "bad-request"), "{domain} {listed}");
        assert!(refused.json()["detail"].as_str().is_some_and(|text| text.contains("handoff_domain")));
    }
    let localhost =
        json!({ "handoff_domain": "localhost", "return_addresses": ["http://localhost:9000/enter"] });
    assert_eq!(change("Hall", localhost).status, 200);
}

#[test]
fn in_a_frame_the_page_says_so_to_every_client_and_takes_no_place() {
    let server = start("");
    let (mut waiting, mut nobody) = (browser(&server), browser(&server));
    let (mut first, page) = (browser(&server), WAIT);
    first.open(page);
    location(&first.open(page));
    waiting.open(page);
    assert_eq!(waiting.open(page).situation().as_deref(), Some("waiting"));
    for (browser, who) in [(&mut waiting, "in line"), (&mut nobody, "nobody"), (&mut first, "inside")] {
        for destination in ["iframe", "object", "image"] {
            let framed = Request::new("GET", page)
                .header("Accept", "text/html,*/*;q=0.8")
                .header("Sec-Fetch-Mode", "navigate")
                .header("Sec-Fetch-Dest", destination);
            let refused = browser.send(framed);
            assert_eq!(refused.status, 403, "{who}, {destination}: {refused:?}");
            assert_eq!(refused.situation().as_deref(), Some("refused"), "{who}: {refused:?}");
            assert!(refused.text().contains("window of its own") && refused.set_cookies().is_empty());
        }
    }
    assert_eq!(server.line("Hall").waiting(), 1);
    // A program whose line was reset is told so, and that is no fault of the server's.
    let reset = json!({ "event_id": "Hall" });
    assert_eq!(server.operator().post("/reset_initial_state", &reset).expect("an answer").status, 200);
    let asks = Request::new("GET", page).header("Accept", "application/json");
    let response = waiting.send(asks);
    assert_eq!((response.status, response.json()["status"].clone()), (200, json!("expired")), "{response:?}");
}

#[test]
fn refused_calls_say_which_problem_it_is() {
    let server = start("");
    let json = |method: &str, target: &str| {
        let request = Request::new(method, target).header("Accept", "application/json");
        browser(&server).send(request)
    };
    let cross = Request::new("POST", LEAVE).header("Sec-Fetch-Site", "cross-site");
    for (answer, status, problem) in [
        (json("GET", "/.anteroom/line?room=Nowhere"), 404, "unknown-room"),
        (json("GET", "/wait/Nowhere"), 404, "unknown-room"),
        (json("GET", "/.anteroom/line/move?room=Hall"), 409, "conflict"),
        (json("POST", "/.anteroom/line/enter?room=Hall"), 409, "conflict"),
        (json("GET", "/.anteroom/line/take?room=Hall&code=x"), 410, "moved"),
        (json("POST", "/.anteroom/line/take?room=Hall&code=x"), 410, "moved"),
        (json("GET", "/wait/Hall?return=https%3A%2F%2Fevil.example"), 400, "bad-request"),
        (browser(&server).send(cross), 403, "forbidden"),
    ] {
        assert_eq!((answer.status, answer.problem().as_str()), (status, problem), "{answer:?}");
        assert_eq!(answer.header("Content-Type"), Some("application/problem+json"), "{answer:?}");
        let address = answer.json()["type"].as_str().expect("a type").to_owned();
        assert!(address.contains("/.anteroom/problems#"), "{address}");
    }
}

#[test]
fn a_code_brought_many_times_at_once_is_good_once_and_a_used_one_signs_nothing() {
    const TIMES: usize = 12;
    let server = start("");
    let mut browser = browser(&server);
    browser.open(WAIT);
    let code = code_of(&location(&browser.open(WAIT)));
    let exchanged: Vec<Answer> = std::thread::scope(|scope| {
        let bringing: Vec<_> = (0..TIMES).map(|_| scope.spawn(|| exchange(&server, &code))).collect();
        bringing.into_iter().map(|bringing| bringing.join().expect("an answer")).collect()
    });
    let good = exchanged.iter().filter(|answer| answer.status == 200).count();
    let used = exchanged.iter().filter(|answer| answer.problem() == "code-used").count();
    assert_eq!((good, used), (1, TIMES - 1), "{exchanged:?}");
    let made =
        || ["anteroom_passes_signed_total", "anteroom_passes_shared_total"].map(|name| metric(&server, name));
    let before = made();
    assert_eq!(exchange(&server, &code).problem(), "code-used");
    assert_eq!(made(), before);
}

#[test]
fn asking_at_the_turn_costs_the_room_one_look_a_second_and_what_happens_is_told_at_once() {
    const TIMES: u64 = 40;
    let server = start("auto_enter = false");
    let mut browser = browser(&server);
    browser.open(WAIT);
    assert_eq!(browser.open(WAIT).situation().as_deref(), Some("turn"));
    let id = status(&mut browser)["request_id"].as_str().expect("a request id").to_owned();
    let (looks_before, begun) = (metric(&server, "anteroom_place_lookups_total"), anteroom_testkit::now());
    for _ in 0..TIMES {
        // By the page, by its script, and by the API.
        assert_eq!(browser.open(WAIT).situation().as_deref(), Some("turn"));
        assert_eq!(status(&mut browser)["status"], "active");
        let asked = Request::new("GET", "/status?room=Hall").header("Authorization", &id);
        assert_eq!(server.visitor().send(&asked).expect("an answer").json()["status"], "active");
    }
    let looks = metric(&server, "anteroom_place_lookups_total") - looks_before;
    assert!(looks <= begun.elapsed().as_secs() + 2, "{looks} looks in {:?}", begun.elapsed());
    // Nobody is told what was so a moment ago.
    let paused = |state: &str| {
        let request = Request::new("PATCH", "/rooms/Hall").body(json!({ "state": state }).to_string());
        assert_eq!(server.operator().send(&request).expect("an answer").status, 200);
    };
    paused("paused");
    assert_eq!(status(&mut browser)["status"], "waiting");
    paused("open");
    assert_eq!(status(&mut browser)["status"], "active");
    let leave = Request::post_json("/leave", &json!({ "ticket": id, "room": "Hall" }));
    assert_eq!(server.visitor().send(&leave).expect("an answer").status, 200);
    assert_eq!(status(&mut browser)["status"], "expired");
}
