//! What is refused at `/authorize`, one test for each rule: by a page where nobody can be told in safety, else at the site.

use anteroom_testkit::{Answer, Request, Server};
use serde_json::json;

use super::stand::{CALLBACK, CHALLENGE, ISSUER, Return, Stand, escape, make_client, request_of};
use crate::support::BINARY;

/// A page, and nothing else: no visitor is sent anywhere.
#[track_caller]
fn assert_page(answer: &Answer, status: u16) {
    assert_eq!((answer.status, answer.header("Location")), (status, None), "{answer:?}");
    assert_eq!(answer.situation().as_deref(), Some("refused"), "{answer:?}");
    assert_eq!(answer.header("Referrer-Policy"), Some("no-referrer"), "{answer:?}");
    let policy = answer.header("Content-Security-Policy").expect("a policy");
    assert!(policy.contains("frame-ancestors 'none'"), "{policy}");
    assert_eq!(answer.header("Access-Control-Allow-Origin"), None, "{answer:?}");
}

fn open(stand: &Stand, target: &str) -> Answer {
    stand.browser().open_once(target)
}

/// The error of a request that is good but for this.
#[track_caller]
fn error(stand: &Stand, target: &str) -> String {
    Return::of(&open(stand, target)).error().to_owned()
}

#[test]
fn an_unknown_client_or_room_gets_a_page() {
    let stand = Stand::start();
    for client in ["", "Nobody", "hall", "Other"] {
        assert_page(&open(&stand, &request_of(client, CALLBACK, "")), 400);
    }
    assert_page(&open(&stand, &format!("/rooms/Nowhere{}", stand.target(""))), 404);
    assert_page(&open(&stand, &format!("/rooms/Other{}", stand.target(""))), 400);
    assert_page(&open(&stand, "/authorize"), 400);
}

#[test]
fn at_the_root_without_a_default_room_there_is_nothing() {
    let config = format!("public_url = \"{ISSUER}\"\n[[room]]\nid = \"Hall\"\n[[room]]\nid = \"Other\"\n");
    let server = Server::builder(BINARY).config(config).start().expect("the server starts");
    let secret = make_client(&server, "Hall", &json!({"redirect_addresses": [CALLBACK]}));
    let stand = Stand { server, secret };
    let target = stand.target("");
    assert_page(&open(&stand, &target), 404);
    let page = open(&stand, &format!("/rooms/Hall{target}"));
    assert_eq!(page.situation().as_deref(), Some("arriving"), "{page:?}");
    for (method, path) in
        [("GET", "/.well-known/openid-configuration"), ("POST", "/token"), ("GET", "/userInfo")]
    {
        assert_eq!(stand.send(&Request::new(method, path)).status, 404, "{path}");
    }
    let document = stand.send(&Request::new("GET", "/rooms/Hall/.well-known/openid-configuration"));
    assert_eq!(document.json()["issuer"], format!("{ISSUER}/rooms/Hall"));
}

#[test]
fn a_redirect_address_that_differs_in_any_way_gets_a_page() {
    let stand = Stand::start();
    let app = json!({"id": "app", "redirect_addresses": ["http://127.0.0.1/app"], "public": true});
    make_client(&stand.server, "Hall", &app);
    for other in [
        "",
        "https://evil.example/callback?from=line",
        // prefix
        "https://shop.example/callback",
        "https://shop.example/",
        "https://shop.example/callback?from=line&more=1",
        "https://shop.example/callback/../evil?from=line",
        // case
        "https://shop.example/Callback?from=line",
        "HTTPS://shop.example/callback?from=line",
        "https://SHOP.example/callback?from=line",
        // scheme, port
        "http://shop.example/callback?from=line",
        "https://shop.example:443/callback?from=line",
        "https://shop.example:8443/callback?from=line",
        // user information
        "https://shop.example@evil.example/callback?from=line",
        "https://evil@shop.example/callback?from=line",
        // fragment
        "https://shop.example/callback?from=line#",
        "https://shop.example/callback?from=line#x",
        // encoded
        "https://shop.example/%63allback?from=line",
        "https://shop.example/callback?from=line%20",
        "https://shop.example/callback%3Ffrom=line",
        "https://shop.example%2Fcallback?from=line",
        // other hosts in disguise
        "https://shop.example.evil.example/callback?from=line",
        "https://shop.example\\@evil.example/callback?from=line",
        "//shop.example/callback?from=line",
        "javascript:alert(1)",
        "https://shop.example/callback?from=line\r\nSet-Cookie: a=b",
    ] {
        assert_page(&open(&stand, &request_of("Hall", other, "")), 400);
    }
    for other in
        ["http://127.0.0.1/app/", "http://localhost/app", "http://127.0.0.2/app", "https://127.0.0.1/app"]
    {
        assert_page(&open(&stand, &request_of("app", other, "")), 400);
    }
    let missing = "/authorize?client_id=Hall&response_type=code&scope=openid";
    assert_page(&open(&stand, missing), 400);
}

#[test]
fn what_stands_there_twice_is_not_guessed() {
    let stand = Stand::start();
    assert_page(&open(&stand, &stand.target("&client_id=Hall")), 400);
    let again = escape(CALLBACK);
    assert_page(&open(&stand, &stand.target(&format!("&redirect_uri={again}"))), 400);
    assert_page(&open(&stand, &stand.target("&redirect_uri=https%3A%2F%2Fevil.example")), 400);
    for twice in ["&scope=openid", "&response_type=code", "&nonce=n", "&resource=a&resource=b"] {
        assert_eq!(error(&stand, &stand.target(twice)), "invalid_request", "{twice}");
    }
    let back = Return::of(&open(&stand, &stand.target("&state=other")));
    assert_eq!(back.error(), "invalid_request");
    assert!(!back.parameters.contains_key("state"), "nobody could say which: {back:?}");
}

#[test]
fn requests_that_are_too_large_or_unreadable_get_a_page() {
    let stand = Stand::start();
    let with_state =
        |length: usize| stand.target("").replace("state=s%26%3D+1", &format!("state={}", "x".repeat(length)));
    assert_eq!(open(&stand, &with_state(4_096)).situation().as_deref(), Some("arriving"));
    assert_page(&open(&stand, &with_state(4_097)), 400);
    assert_page(&open(&stand, &with_state(10 * 1024)), 400);
    assert_page(&open(&stand, &stand.target("&x=%ff")), 400);
    assert_page(&open(&stand, &stand.target(&"&a=".repeat(100))), 400);
    let (path, query) = with_state(4_097)
        .split_once('?')
        .map(|(path, query)| (path.to_owned(), query.to_owned()))
        .expect("a query");
    let mut browser = stand.browser();
    let posted = Request::new("POST", &path).header("Content-Type", "application/x-www-form-urlencoded");
    let html = |request: Request| request.header("Accept", "text/html");
    assert_page(&browser.send(html(posted.clone().body(query))), 400);
    assert_page(&browser.send(html(posted.body("client_id=Nobody"))), 400);
    let json = Request::new("POST", "/authorize").header("Content-Type", "application/json");
    let json = browser.send(json.header("Accept", "text/html").body("{}"));
    assert_page(&json, 400);
}

#[test]
fn the_longest_request_survives_the_whole_way() {
    let stand = Stand::start();
    let state = "x".repeat(4_096);
    let target = stand.target("").replace("state=s%26%3D+1", &format!("state={state}"));
    let (_, back) = stand.log_in(&target);
    assert_eq!(back.get("state"), state);
}

/// The page's buttons write it with every slash escaped, and would be refused at the end of the wait.
#[test]
fn a_request_that_is_too_long_when_it_is_escaped_is_refused_at_once() {
    let stand = Stand::start();
    let target = stand.target("").replace("state=s%26%3D+1", &format!("state={}", "/".repeat(4_000)));
    assert_page(&open(&stand, &target), 400);
    let fits = stand.target("").replace("state=s%26%3D+1", &format!("state={}", "/".repeat(2_000)));
    let mut browser = stand.waiting(&fits);
    let page = browser.open_once(&fits);
    let leave = page.forms().into_iter().find(|form| form.contains("/authorize/leave")).expect("a button");
    assert_eq!(Return::of(&browser.post(&leave, "")).get("state"), "/".repeat(2_000));
}

#[test]
fn every_other_mistake_is_told_to_the_site() {
    let stand = Stand::start();
    let with = |from: &str, to: &str| stand.target("").replace(from, to);
    let pkce = |more: &str| stand.target(&format!("&code_challenge={CHALLENGE}{more}"));
    for (target, expected) in [
        (with("response_type=code", "response_type=token"), "unsupported_response_type"),
        (with("response_type=code", "response_type=code+id_token"), "unsupported_response_type"),
        (with("&response_type=code", ""), "invalid_request"),
        (with("scope=openid", "scope=email"), "invalid_scope"),
        (with("&scope=openid", ""), "invalid_scope"),
        (stand.target("&response_mode=fragment"), "invalid_request"),
        (stand.target("&response_mode=form_post"), "invalid_request"),
        (stand.target("&request=eyJhbGciOiJub25lIn0.e30."), "request_not_supported"),
        (stand.target("&request_uri=https%3A%2F%2Fevil.example%2Fr"), "request_uri_not_supported"),
        (stand.target("&registration=%7B%7D"), "registration_not_supported"),
        (stand.target("&prompt=none+login"), "invalid_request"),
        (stand.target("&max_age=soon"), "invalid_request"),
        (pkce(""), "invalid_request"),
        (pkce("&code_challenge_method=plain"), "invalid_request"),
        (stand.target("&code_challenge=short&code_challenge_method=S256"), "invalid_request"),
        (stand.target("&code_challenge_method=S256"), "invalid_request"),
    ] {
        let back = Return::of(&open(&stand, &target));
        assert_eq!((back.error(), back.get("state")), (expected, "s&= 1"), "{target}");
        assert!(!back.get("error_description").is_empty());
    }
    assert_eq!(stand.line().figures().waiting, 0, "nobody has taken a place by mistake");
}

#[test]
fn what_is_not_known_is_passed_over() {
    let stand = Stand::start();
    let more = "&display=popup&acr_values=1+2&claims=%7B%7D&login_hint=x&unknown=1&response_mode=query&prompt=create";
    let target = stand.target(more).replace("scope=openid", "scope=profile+openid+email");
    assert_eq!(open(&stand, &target).situation().as_deref(), Some("arriving"));
}

#[test]
fn a_public_client_needs_pkce() {
    let stand = Stand::start();
    let app = json!({"id": "app", "redirect_addresses": [CALLBACK], "public": true});
    make_client(&stand.server, "Hall", &app);
    assert_eq!(error(&stand, &request_of("app", CALLBACK, "")), "invalid_request");
    let plain = format!("&code_challenge={CHALLENGE}&code_challenge_method=plain");
    assert_eq!(error(&stand, &request_of("app", CALLBACK, &plain)), "invalid_request");
}

#[test]
fn no_page_of_another_site_reads_a_login() {
    let stand = Stand::start();
    for path in ["/authorize", "/rooms/Hall/authorize", "/rooms/Hall/authorize/moved"] {
        for method in ["OPTIONS", "GET", "DELETE"] {
            let request = Request::new(method, path).header("Origin", "https://evil.example");
            let answer = stand.send(&request.header("Access-Control-Request-Method", "GET"));
            let granted: Vec<_> = answer
                .headers
                .iter()
                .filter(|(name, _)| name.to_lowercase().starts_with("access-control"))
                .collect();
            assert!(granted.is_empty(), "{method} {path}: {answer:?}");
        }
    }
    for path in ["/token", "/userInfo", "/rooms/Hall/token", "/.well-known/openid-configuration"] {
        let request = Request::new("OPTIONS", path).header("Origin", "https://app.example");
        let answer = stand.send(&request.header("Access-Control-Request-Method", "POST"));
        assert_eq!(answer.header("Access-Control-Allow-Origin"), Some("*"), "{path}: {answer:?}");
        let headers = answer.header("Access-Control-Allow-Headers").expect("headers");
        assert!(headers.contains("Authorization"), "{path}: {headers}");
    }
}

#[test]
fn buttons_of_other_sites_and_made_up_requests_do_nothing() {
    let stand = Stand::start();
    let mut browser = stand.waiting(&stand.target(""));
    let query = stand.target("").split_once('?').expect("a query").1.to_owned();
    for call in ["enter", "join", "leave"] {
        let path = format!("/rooms/Hall/authorize/{call}?{query}");
        let foreign = Request::new("POST", &path).header("Sec-Fetch-Site", "cross-site").body("");
        assert_eq!(browser.send(foreign).status, 403, "{call}");
        let evil = path.replace("shop.example", "evil.example");
        assert_page(&browser.post(&evil, ""), 400);
    }
    assert_eq!(browser.open_once(&stand.target("")).shown_position(), Some(1), "the place is still there");
}
