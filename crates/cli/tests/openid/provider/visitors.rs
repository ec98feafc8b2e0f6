//! The way of a visitor, whatever happens to them on it.

use anteroom_testkit::jwt::claims;
use anteroom_testkit::{Browser, PAGE_ACCEPT, Request, Site, USER_AGENT, wait_until};
use serde_json::json;

use super::stand::{CALLBACK, ISSUER, Return, Stand, TIMEOUT, come_back, make_client, request_of};

#[test]
fn the_request_survives_a_reload_and_a_second_tab() {
    let stand = Stand::start();
    let first = stand.target("");
    let mut browser = stand.waiting(&first);
    let second = first.replace("nonce=n%2F1", "nonce=other").replace("state=s%26%3D+1", "state=two");
    let page = browser.open_once(&second);
    assert_eq!((page.situation().as_deref(), page.shown_position()), (Some("waiting"), Some(1)), "one place");
    stand.advance();
    assert_eq!(come_back(&mut browser, &second).get("state"), "two");
    assert_eq!(come_back(&mut browser, &first).get("state"), "s&= 1");
    assert_eq!(stand.line().figures().active, 1);
}

#[test]
fn a_place_that_lapsed_leads_to_another_one_with_the_same_request() {
    let stand = Stand::with("queue_position_expiry_period = 1\nauto_enter = false");
    let target = stand.target("");
    let mut browser = stand.waiting(&target);
    stand.advance();
    let mut page = browser.open_once(&target);
    assert_eq!(page.situation().as_deref(), Some("turn"), "{page:?}");
    wait_until("the place lapses", TIMEOUT, || {
        page = browser.open_once(&target);
        page.situation().as_deref() == Some("gone")
    });
    let mut page = browser.press(&page, "/authorize/join");
    assert_eq!((page.situation().as_deref(), page.shown_position()), (Some("waiting"), Some(2)), "{page:?}");
    stand.advance();
    wait_until("the turn comes", TIMEOUT, || {
        page = browser.open_once(&target);
        page.situation().as_deref() == Some("turn")
    });
    let form = page.forms().into_iter().find(|form| form.contains("/authorize/enter")).expect("a button");
    let back = Return::of(&browser.post(&form, ""));
    assert_eq!(back.get("state"), "s&= 1");
    assert_eq!(stand.exchange(back.get("code")).status, 200);
}

#[test]
fn a_visitor_who_is_inside_needs_no_button_where_others_do() {
    let stand = Stand::with("auto_enter = false");
    let target = stand.target("");
    let mut browser = stand.waiting(&target);
    stand.advance();
    let mut page = browser.open_once(&target);
    wait_until("the turn comes", TIMEOUT, || {
        page = browser.open_once(&target);
        page.situation().as_deref() == Some("turn")
    });
    let form = page.forms().into_iter().find(|form| form.contains("/authorize/enter")).expect("a button");
    let first = Return::of(&browser.post(&form, ""));
    assert_eq!(stand.exchange(first.get("code")).status, 200);
    let second = Return::of(&browser.open_once(&target));
    assert_eq!(stand.exchange(second.get("code")).status, 200, "at once");
    let asked = browser.open_once(&stand.target("&prompt=login"));
    assert_eq!(asked.situation().as_deref(), Some("confirm"), "{asked:?}");
    assert_eq!(stand.line().figures().active, 1);
}

/// A place is charged to the budget `join` where a page is opened; a button would take one for nothing.
#[test]
fn the_button_of_a_visit_that_is_over_leads_to_the_page_and_takes_no_place() {
    let target = request_of("Hall", CALLBACK, "");
    let query = target.split_once('?').expect("a query").1;
    for button in ["/wait/Hall/enter".to_owned(), format!("/rooms/Hall/authorize/enter?{query}")] {
        let stand = Stand::start();
        let (mut browser, back) = stand.log_in(&target);
        let tokens = stand.exchange(back.get("code")).json();
        let subject = claims(tokens["id_token"].as_str().expect("an ID token"))["sub"].clone();
        let visit = format!("/rooms/Hall/visits/{}", subject.as_str().expect("a subject"));
        let ended = stand.server.operator().post(&visit, &json!({"command": "complete"}));
        assert_eq!(ended.expect("an answer").status, 200);
        let pressed = browser.post(&button, "");
        assert_eq!(pressed.status, 303, "{pressed:?}");
        let page = pressed.header("Location").expect("the page").to_owned();
        assert!(page.starts_with("/.anteroom/"), "{page}");
        assert_eq!(stand.line().figures().waiting, 0, "{button}");
        assert_eq!(browser.open_once(&page).situation().as_deref(), Some("waiting"));
        assert_eq!(stand.line().figures().waiting, 1);
    }
}

#[test]
fn a_visitor_who_leaves_is_told_to_the_site() {
    let stand = Stand::start();
    let target = stand.target("");
    let mut browser = stand.waiting(&target);
    let page = browser.open_once(&target);
    let form = page.forms().into_iter().find(|form| form.contains("/authorize/leave")).expect("a button");
    let foreign = Request::new("POST", &form).header("Origin", "https://evil.example").body("");
    assert_eq!(browser.send(foreign).status, 403, "only this page may ask");
    let back = Return::of(&browser.post(&form, ""));
    assert_eq!((back.error(), back.get("state")), ("access_denied", "s&= 1"));
    let again = browser.open_once(&target);
    assert_eq!(again.situation().as_deref(), Some("arriving"), "{again:?}");
}

#[test]
fn a_place_goes_to_another_device_and_the_login_begins_there_anew() {
    let stand = Stand::start();
    let login = "https://app.example/login?x=1";
    let begins = json!({"id": "begins", "redirect_addresses": [CALLBACK], "login_address": login});
    make_client(&stand.server, "Hall", &begins);
    for (client, place) in [("Hall", 1), ("begins", 2)] {
        let target = request_of(client, CALLBACK, "");
        let mut first = stand.waiting(&target);
        let page = first.open_once(&target);
        let link =
            first.open_once(&page.link("/line/move").expect("a link")).field("link").expect("the link");
        let path = link.strip_prefix(ISSUER).expect("a link of the public address").to_owned();
        let mut second = stand.browser();
        let question = second.open_once(&path);
        assert_eq!(question.situation().as_deref(), Some("move-in"), "{question:?}");
        let form = question.forms().into_iter().find(|form| form.contains("/take")).expect("a button");
        let taken = second.post(&form, "");
        let on = taken.header("Location").expect("a redirect").to_owned();
        let moved = second.open_once(&on);
        if client == "Hall" {
            assert_eq!(moved.situation().as_deref(), Some("elsewhere"), "{moved:?}");
            assert!(moved.text().contains("The &#60;Shop&#62;"), "{moved:?}");
        } else {
            let location = moved.header("Location").expect("a redirect");
            assert_eq!(location, format!("{login}&iss=http%3A%2F%2Fqueue.example"));
        }
        let page = second.open_once(&target);
        assert_eq!(page.shown_position(), Some(place), "the place is kept: {page:?}");
        assert_eq!(first.open_once(&target).situation().as_deref(), Some("moved"));
    }
}

#[test]
fn a_confirmation_is_asked_for_where_the_site_wants_one() {
    let stand = Stand::start();
    let fresh = stand.target("&prompt=login");
    let (mut browser, back) = stand.log_in(&fresh);
    assert_eq!(stand.exchange(back.get("code")).status, 200, "a visit that begins now needs none");
    for asks in ["&prompt=login", "&prompt=consent", "&max_age=0"] {
        let mut page = browser.open_once(&stand.target(asks));
        if asks == "&max_age=0" {
            wait_until("the visit is older than that", TIMEOUT, || {
                page = browser.open_once(&stand.target(asks));
                page.status == 200
            });
        }
        assert_eq!(page.situation().as_deref(), Some("confirm"), "{asks}: {page:?}");
        let form = page.forms().into_iter().find(|form| form.contains("/authorize/enter")).expect("a button");
        let back = Return::of(&browser.post(&form, ""));
        assert_eq!(stand.exchange(back.get("code")).status, 200, "{asks}");
    }
    let silent = Return::of(&browser.open_once(&stand.target("&prompt=none&max_age=0")));
    assert_eq!(silent.error(), "login_required");
    assert!(browser.open_once(&stand.target("&max_age=1000")).status == 303);
}

#[test]
fn a_silent_login_shows_no_page_and_takes_no_place() {
    let stand = Stand::start();
    let silent = stand.target("&prompt=none");
    let mut stranger = stand.browser();
    let back = Return::of(&stranger.open_once(&silent));
    assert_eq!((back.error(), back.get("state")), ("login_required", "s&= 1"));
    assert_eq!(stand.line().figures().waiting, 0);
    let mut waiting = stand.waiting(&stand.target(""));
    assert_eq!(Return::of(&waiting.open_once(&silent)).error(), "login_required");
    stand.advance();
    wait_until("the one who is served gets a code", TIMEOUT, || {
        Return::of(&waiting.open_once(&silent)).parameters.contains_key("code")
    });
    // In a hidden frame of the site, as apps ask.
    let framed = waiting.load(&silent, "iframe");
    assert!(Return::of(&framed).parameters.contains_key("code"), "{framed:?}");
    assert_eq!(framed.header("X-Frame-Options"), None, "{framed:?}");
    let page = stand.browser().load(&stand.target(""), "iframe");
    assert!(page.status == 200 || page.status == 403, "{page:?}");
}

/// Any site can have the browser of a visitor ask for this address, in a frame, as an image, by a script.
#[test]
fn a_silent_login_that_no_visitor_has_opened_claims_no_place() {
    let stand = Stand::start();
    let silent = stand.target("&prompt=none");
    let mut browser = stand.waiting(&stand.target(""));
    stand.advance();
    let ask = |browser: &mut Browser, method: &str, (mode, destination): (&str, &str)| {
        let request = Request::new(method, &silent)
            .header("Accept", PAGE_ACCEPT)
            .header("User-Agent", USER_AGENT)
            .header("Sec-Fetch-Site", "cross-site")
            .header("Sec-Fetch-Mode", mode)
            .header("Sec-Fetch-Dest", destination);
        Return::of(&browser.send(request))
    };
    let hidden = [("navigate", "iframe"), ("no-cors", "image"), ("cors", "empty")];
    // The page says when the turn has come, and does not claim where a program asks for it.
    wait_until("the turn comes", TIMEOUT, || {
        let standing = browser.fetch("/.anteroom/line?room=Hall").json();
        standing["status"] == "active"
    });
    for what in hidden {
        assert_eq!(ask(&mut browser, "GET", what).error(), "login_required", "{what:?}");
    }
    assert_eq!(ask(&mut browser, "HEAD", ("navigate", "document")).error(), "login_required");
    assert_eq!(stand.line().figures().active, 0, "the place is still offered");
    let opened = ask(&mut browser, "GET", ("navigate", "document"));
    assert!(opened.parameters.contains_key("code"), "{opened:?}");
    assert_eq!(stand.line().figures().active, 1);
    for what in hidden {
        let renewed = ask(&mut browser, "GET", what);
        assert!(renewed.parameters.contains_key("code"), "inside already, {what:?}: {renewed:?}");
    }
}

#[test]
fn a_silent_login_for_another_visitor_takes_no_slot_and_a_page_is_for_everybody() {
    let stand = Stand::start();
    let id_token = |back: &Return| {
        stand.exchange(back.get("code")).json()["id_token"].as_str().expect("an ID token").to_owned()
    };
    let (mut first, back) = stand.log_in(&stand.target(""));
    let of_first = id_token(&back);
    let hint = |token: &str, more: &str| stand.target(&format!("{more}&id_token_hint={token}"));
    let mut second = stand.waiting(&stand.target(""));
    stand.advance();
    wait_until("the turn comes", TIMEOUT, || {
        second.fetch("/.anteroom/line?room=Hall").json()["status"] == "active"
    });
    for another in [of_first.as_str(), "x", "a.b.c"] {
        let silent = Return::of(&second.open_once(&hint(another, "&prompt=none")));
        assert_eq!(silent.error(), "login_required", "{another}");
    }
    assert_eq!(stand.line().figures().active, 1, "the place of the second one is still offered");
    let of_second = id_token(&Return::of(&second.open_once(&hint(&of_first, ""))));
    for (browser, token) in [(&mut first, &of_first), (&mut second, &of_second)] {
        let same = Return::of(&browser.open_once(&hint(token, "&prompt=none")));
        assert!(same.parameters.contains_key("code"), "{same:?}");
    }
    assert_eq!(stand.line().figures().active, 2);
}

#[test]
fn a_closed_room_and_a_paused_one_say_so() {
    let stand = Stand::start();
    let target = stand.target("");
    let mut operator = stand.server.operator();
    let mut set = |state: &str| {
        let request = Request::new("PATCH", "/rooms/Hall").body(json!({"state": state}).to_string());
        let answer = operator.send(&request).expect("an answer");
        assert_eq!(answer.status, 200, "{answer:?}");
    };
    let mut browser = stand.waiting(&target);
    set("paused");
    stand.advance();
    let page = browser.open_once(&target);
    assert!(page.text().contains("data-phase=\"paused\""), "{page:?}");
    assert_eq!(Return::of(&browser.open_once(&stand.target("&prompt=none"))).error(), "login_required");
    set("open");
    let back = come_back(&mut browser, &target);
    assert_eq!(stand.exchange(back.get("code")).status, 200);
    set("closed");
    let mut stranger = stand.browser();
    let page = stranger.open_once(&target);
    assert_eq!((page.status, page.situation().as_deref()), (503, Some("closed")), "{page:?}");
    assert_eq!(Return::of(&stranger.open_once(&stand.target("&prompt=none"))).error(), "access_denied");
}

#[test]
fn the_page_speaks_the_language_that_the_site_asks_for() {
    let stand = Stand::start();
    let page = stand.browser().open_once(&stand.target("&ui_locales=xx+de+fr"));
    assert!(page.text().contains("lang=\"de\""), "{page:?}");
    assert!(stand.browser().open_once(&stand.target("&ui_locales=xx")).text().contains("lang=\"en\""));
}

#[test]
fn a_reset_line_is_joined_anew_at_the_same_page() {
    let stand = Stand::start();
    let target = stand.target("");
    let mut browser = stand.waiting(&target);
    assert_eq!(stand.line().reset().status, 200);
    let mut page = browser.open_once(&target);
    wait_until("the visitor has another place", TIMEOUT, || {
        page = browser.open_once(&target);
        page.situation().as_deref() == Some("waiting")
    });
    stand.advance();
    assert_eq!(come_back(&mut browser, &target).get("state"), "s&= 1");
}

#[test]
fn places_and_claims_are_charged_to_their_budgets() {
    let one = |class: &str| {
        format!(
            "limits_exempt = \"none\"\n[[limit]]\nname = \"one\"\nby = \"ip\"\nclass = \"{class}\"\n\
             requests = 1\nper_seconds = 8640000\n"
        )
    };
    let stand = Stand::configured(&one("join"), "");
    let target = stand.target("");
    stand.waiting(&target);
    let mut second = stand.browser();
    assert_eq!(second.open_once(&target).situation().as_deref(), Some("arriving"));
    let page = second.open_once(&target);
    assert_eq!((page.status, page.situation().as_deref()), (429, Some("limited")), "{page:?}");
    assert!(
        page.link("/authorize?").is_some_and(|link| link.contains("nonce=n%2F1")),
        "it asks again: {page:?}"
    );
    let stand = Stand::configured(&one("claim"), "");
    let (mut browser, _) = stand.log_in(&target);
    let page = browser.open_once(&target);
    assert_eq!((page.status, page.situation().as_deref()), (429, Some("limited")), "{page:?}");
    let silent = Return::of(&browser.open_once(&stand.target("&prompt=none")));
    assert_eq!(silent.error(), "temporarily_unavailable");
    let stand = Stand::configured(&one("read"), "");
    let mut browser = stand.browser();
    let long = stand.target(&format!("&login_hint={}", "x".repeat(6_000)));
    assert_eq!(browser.open_once(&long).situation().as_deref(), Some("arriving"));
    let page = browser.open_once(&long);
    assert_eq!((page.status, page.situation().as_deref()), (429, Some("limited")), "{page:?}");
    assert!(page.link("/authorize?").is_some_and(|link| link.len() > 6_000), "it asks again: {page:?}");
    let policy = page.header("Content-Security-Policy").expect("a policy");
    assert!(policy.contains("frame-ancestors 'none'"), "{policy}");
}

/// `/authorize` of a host that the gateway stands before is the site's; below our prefix it is ours.
#[test]
fn on_a_protected_host_the_login_is_below_our_prefix() {
    let site = Site::open();
    let origin =
        format!("hosts = [\"shop.example\"]\norigins = [\"{}\"]\nbypass = [\"path:/authorize\"]", site.url());
    let issuer = format!("{ISSUER}/.anteroom/rooms/Hall");
    let stand = Stand::with(&format!("issuer = \"{issuer}\"\n{origin}"));
    let mut browser = stand.browser().of_host("shop.example");
    let target = stand.target("");
    assert!(browser.open_once(&target).is_from_site(), "the site's own login");
    let page = browser.open_once(&format!("/.anteroom{target}"));
    assert_eq!(page.situation().as_deref(), Some("arriving"), "{page:?}");
    let document = "/.anteroom/rooms/Hall/.well-known/openid-configuration";
    let document = browser.send(Request::new("GET", document)).json();
    assert_eq!(
        (&document["issuer"], &document["token_endpoint"]),
        (&json!(issuer), &json!(format!("{issuer}/token")))
    );
}
