//! What happens to a request, by who sends it: only somebody who opens a page, or asks for a place by name, ever takes one; nobody
//! else takes anything, and nothing that would change something is ever answered as if it had been carried out.

use anteroom_testkit::{Answer, Browser, NAVIGATION, PAGE_ACCEPT, Request, USER_AGENT, wait_until};
use serde_json::json;

use crate::stand::{COOKIE, SOON, Stand, TIMEOUT, assert_not_inside, assert_not_kept, assert_waits};

fn request(method: &str, headers: &[(&str, &str)]) -> Request {
    let asked = format!("/{}", method.to_ascii_lowercase());
    headers.iter().fold(Request::new(method, &asked), |request, (name, value)| request.header(name, value))
}

/// Requests that take no place, each by its name.
fn takes_nothing() -> Vec<(&'static str, Request)> {
    let page = ("Accept", PAGE_ACCEPT);
    let navigates = [("Sec-Fetch-Mode", "navigate"), ("Sec-Fetch-Dest", "document")];
    let fetched =
        |destination| [("Accept", "*/*"), ("Sec-Fetch-Mode", "no-cors"), ("Sec-Fetch-Dest", destination)];
    let ahead = |name, value| [page, navigates[0], navigates[1], (name, value)];
    let crawler = |agent| [page, ("User-Agent", agent)];
    let robot = "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)";
    vec![
        ("curl", request("GET", &[("Accept", "*/*"), ("User-Agent", "curl/8.5.0")])),
        ("a probe", request("GET", &[])),
        ("an app", request("GET", &[("Accept", "application/json")])),
        (
            "a script of a page",
            request("GET", &[("Accept", "*/*"), ("Sec-Fetch-Mode", "cors"), ("Sec-Fetch-Dest", "empty")]),
        ),
        (
            "a script that asks for HTML",
            request("GET", &[page, ("Sec-Fetch-Mode", "cors"), ("Sec-Fetch-Dest", "empty")]),
        ),
        ("an image", request("GET", &fetched("image"))),
        ("a script", request("GET", &fetched("script"))),
        ("a style", request("GET", &fetched("style"))),
        (
            "a frame of another site",
            request(
                "GET",
                &[
                    page,
                    ("Sec-Fetch-Mode", "navigate"),
                    ("Sec-Fetch-Dest", "iframe"),
                    ("Sec-Fetch-Site", "cross-site"),
                ],
            ),
        ),
        ("a prefetch", request("GET", &ahead("Sec-Purpose", "prefetch"))),
        ("a prerender", request("GET", &ahead("Sec-Purpose", "prefetch;prerender"))),
        ("an older prefetch", request("GET", &ahead("Purpose", "prefetch"))),
        ("a prefetch of Firefox", request("GET", &ahead("X-Moz", "prefetch"))),
        ("a crawler", request("GET", &crawler(robot))),
        ("a preview of links", request("GET", &crawler("facebookexternalhit/1.1"))),
        ("a monitor", request("GET", &crawler("UptimeRobot/2.0"))),
        ("a HEAD", request("HEAD", &[page, ("User-Agent", USER_AGENT)])),
        ("an OPTIONS", request("OPTIONS", &[("Origin", "https://shop.example.com")])),
    ]
}

/// Requests that would change something.
fn changes() -> Vec<(&'static str, Request)> {
    ["POST", "PUT", "PATCH", "DELETE"]
        .map(|method| (method, request(method, &NAVIGATION).body("amount=1")))
        .into()
}

#[test]
fn what_opens_no_page_takes_nothing_whether_or_not_there_is_room() {
    let stand = Stand::open(2, "");
    let mut client = stand.server.visitor();
    let nobody_got_anything = |stand: &Stand| {
        let room = stand.server.operator().get("/rooms/Hall").expect("an answer").json();
        (room["figures"]["joined"].clone(), stand.site.requests())
    };
    for occupied in [0, 2] {
        let _inside: Vec<Browser> = (0..occupied).map(|_| stand.inside()).collect();
        let before = nobody_got_anything(&stand);
        for (who, request) in takes_nothing().into_iter().chain(changes()) {
            let answer = client.send(&request).unwrap_or_else(|error| panic!("{who}: {error:#}"));
            assert_eq!(answer.status, 503, "{who}: {answer:?}");
            assert_not_inside(&answer);
        }
        assert_eq!(nobody_got_anything(&stand), before);
    }
}

/// What a request carries for those who trace it belongs to the site, for visitors inside and on paths that no visit is needed for.
#[test]
fn the_context_of_a_trace_reaches_the_site_as_it_came_and_none_is_made_up() {
    const FIELDS: [(&str, &str); 4] = [
        ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        ("tracestate", "congo=t61rcWkgMzE,rojo=00f067aa0ba902b7"),
        ("tracestate", "other=1"),
        ("baggage", "userId=alice,serverNode=DF%2028;isProduction=false"),
    ];
    let stand = Stand::open(1, "bypass = [\"path:/free/\"]");
    let mut browser = stand.inside();
    let context = |path: &str| -> Vec<(String, String)> {
        let seen = stand.site.last_seen(path).headers.into_iter();
        let is_context = |name: &str| ["traceparent", "tracestate", "baggage"].contains(&name);
        seen.map(|(name, value)| (name.to_ascii_lowercase(), value))
            .filter(|(name, _)| is_context(name))
            .collect()
    };
    for path in ["/traced", "/free/traced"] {
        let traced = FIELDS
            .iter()
            .fold(Request::new("GET", path), |request, (name, value)| request.header(name, value));
        assert!(browser.send(traced).is_from_site(), "{path}");
        assert_eq!(context(path), FIELDS.map(|(name, value)| (name.to_owned(), value.to_owned())), "{path}");
    }
    for path in ["/plain", "/free/plain"] {
        assert!(browser.send(Request::new("GET", path)).is_from_site(), "{path}");
        assert_eq!(context(path), [], "{path}");
    }
}

#[test]
fn a_page_is_a_page_and_a_problem_is_a_problem() {
    let stand = Stand::open(0, "");
    let mut browser = stand.browser();
    let page = browser.send(request(
        "GET",
        &[("Accept", PAGE_ACCEPT), ("Sec-Fetch-Mode", "cors"), ("Sec-Fetch-Dest", "empty")],
    ));
    assert_eq!(page.header("Content-Type"), Some("text/html; charset=utf-8"), "{page:?}");
    let problem = browser.fetch("/data");
    assert_eq!(problem.header("Content-Type"), Some("application/problem+json"), "{problem:?}");
    assert_eq!(problem.json()["status"], 503);
    problem.error();
    let vary = problem.header_lists("Vary", "Accept");
    assert!(vary, "which of the two depends on what is asked for: {problem:?}");
}

#[test]
fn a_change_that_is_not_passed_on_is_said_not_to_have_been_carried_out() {
    let stand = Stand::open(1, "");
    let inside = stand.inside();
    let (mut waiting, _) = stand.in_line();
    let mut stranger = stand.browser();
    let (mut inside, before) = (inside, stand.site.requests());
    for (who, browser) in [("in line", &mut waiting), ("a stranger", &mut stranger)] {
        for (method, request) in changes() {
            let answer = browser.send(request);
            assert_eq!(answer.status, 503, "{method} of {who}: {answer:?}");
            // Browsers get the page that says so, programs the same in words.
            let is_told = match answer.situation() {
                Some(situation) => situation == "not-done",
                None => answer.text().contains("not passed on"),
            };
            assert!(is_told, "{method} of {who}: {answer:?}");
            assert!(answer.header("Retry-After").is_some(), "{answer:?}");
        }
    }
    assert_eq!(stand.site.requests(), before, "none of them has reached the site, then or later");
    for (method, request) in changes() {
        let answer = inside.send(request);
        assert!(answer.is_from_site(), "{method}: {answer:?}");
        let seen = stand.site.last_seen(&format!("/{}", method.to_ascii_lowercase()));
        assert_eq!((seen.method.as_str(), seen.body.as_slice()), (method, &b"amount=1"[..]));
    }
    assert!(inside.open("/complete").is_from_site());
    waiting.enter("/", SOON, TIMEOUT);
    let passed_on = stand.site.request_log().iter().filter(|seen| seen.path() == "/post").count();
    assert_eq!(passed_on, 1, "nothing was kept to be sent later");
}

#[test]
fn a_new_visitor_comes_in_or_waits_by_the_cookie_that_comes_back() {
    let stand = Stand::open(1, "");
    let mut first = stand.browser();
    let page = first.open("/welcome?a=1");
    assert!(page.is_from_site() && page.status == 200 && page.text().contains("/welcome?a=1"), "{page:?}");
    let mut second = stand.browser();
    let arriving = second.open_once("/late?b=2");
    let door = "/.anteroom/enter?return=/late%3Fb%3D2";
    assert_eq!((arriving.status, arriving.header("Location")), (303, Some(door)), "{arriving:?}");
    assert_not_kept(&arriving);
    assert!(second.cookies.get(COOKIE).is_some());
    assert_eq!(stand.figure("joined"), 1, "no place before the cookie has come back");
    let through = second.open_once(door);
    assert_eq!((through.status, through.header("Location")), (303, Some("/late?b=2")), "{through:?}");
    assert_not_kept(&through);
    let again = second.copy().open_once(door);
    assert_eq!((again.status, stand.figure("joined")), (303, 2), "one cookie, one place: {again:?}");
    let waits = second.open("/late?b=2");
    assert_waits(&waits);
    assert_eq!((stand.figure("waiting"), waits.shown_people_ahead()), (1, Some(0)));
    assert_eq!(
        waits.refresh_seconds().map(|seconds| seconds.to_string()).as_deref(),
        waits.header("Retry-After")
    );
    assert!(
        waits.text().contains("href=\"/late?b=2\"") || waits.text().contains("href=\"/late?b&#61;2\""),
        "{waits:?}"
    );
    // People who wait go first: a slot that comes free is theirs, not that of somebody new.
    let (mut third, page) = stand.in_line();
    assert_eq!(page.shown_people_ahead(), Some(1));
    assert!(first.open("/complete").is_from_site());
    stand.wait_for_figure("offers", 1);
    let mut fourth = stand.browser();
    assert!(!fourth.open("/").is_from_site());
    let page = second.open("/late?b=2");
    assert!(page.is_from_site() && page.text().contains("/late?b=2"), "by this very request: {page:?}");
    assert_waits(&third.open("/"));
}

#[test]
fn without_sec_fetch_headers_a_client_that_asks_for_html_opens_a_page() {
    let stand = Stand::open(1, "");
    let mut browser = stand.browser();
    let mut older = |target: &str| {
        let request = Request::new("GET", target).header("Accept", "text/html");
        browser.send(request.header("User-Agent", "Lynx/2.9"))
    };
    let door = older("/old").header("Location").expect("a redirect").to_owned();
    let back = older(&door).header("Location").expect("a redirect").to_owned();
    assert!(older(&back).is_from_site());
    assert!(stand.site.last_seen("/old").visit().is_some());
}

#[test]
fn in_line_programs_read_json_and_parts_of_pages_are_refused() {
    let stand = Stand::open(1, "notice = \"Doors open at eight.\"");
    let mut inside = stand.inside();
    let (mut waiting, page) = stand.in_line();
    assert!(page.text().contains("Doors open at eight."), "{page:?}");
    let response = waiting.send(request("GET", &[("Accept", "application/json")]));
    assert_eq!(
        (response.status, response.header("Content-Type")),
        (200, Some("application/json")),
        "{response:?}"
    );
    assert_not_kept(&response);
    let body = response.json();
    assert_eq!(
        (&body["status"], &body["room"], &body["people_ahead"]),
        (&json!("waiting"), &json!("Hall"), &json!(0))
    );
    assert_eq!(body["position"].as_u64(), page.shown_position());
    assert_eq!(
        body["next_poll_seconds"].as_u64().map(|seconds| seconds.to_string()).as_deref(),
        response.header("Retry-After")
    );
    for destination in ["image", "script", "style"] {
        let answer = waiting.load("/part", destination);
        assert_eq!(answer.status, 503, "{destination}: {answer:?}");
    }
    // A frame of this very site shows the line.
    assert_waits(&waiting.load("/part", "iframe"));
    let head = waiting.send(request("HEAD", &NAVIGATION));
    assert!(head.status == 200 && head.body.is_empty() && head.header("Retry-After").is_some(), "{head:?}");
    assert_eq!(stand.figure("waiting"), 1, "the place is kept, and it is only one");
    // Also a request of a program lets the visitor in at their turn.
    assert!(inside.open("/complete").is_from_site());
    wait_until("the visitor is let in", TIMEOUT, || waiting.fetch("/data").is_from_site());
    assert!(stand.site.last_seen("/data").visit().is_some());
}

#[test]
fn a_turn_that_has_passed_is_told_and_another_place_can_be_taken() {
    let stand = Stand::open(1, "queue_position_expiry_period = 1");
    let mut inside = stand.inside();
    let (mut waiting, page) = stand.in_line();
    let position = page.shown_position();
    assert!(inside.open("/complete").is_from_site());
    stand.wait_for_figure("lapsed", 1);
    let _again = stand.inside();
    let gone = waiting.open("/cart?x=1&y=2");
    assert!(!gone.is_from_site() && gone.shown_position().is_none(), "{gone:?}");
    assert_not_kept(&gone);
    assert!(gone.text().contains("has passed"), "{gone:?}");
    let next = waiting.press(&gone, "/.anteroom/line/join");
    assert_waits(&next);
    assert!(next.shown_position() > position, "{position:?}: {next:?}");
    assert!(next.text().contains("/cart?x=1"), "the requested page is kept: {next:?}");
}

#[test]
fn the_status_of_the_waiting_page_is_the_operators_choice() {
    let stand = Stand::open(1, "");
    let _inside = stand.inside();
    let (mut waiting, _) = stand.in_line();
    for status in [202, 429, 200] {
        stand.set("queueing_status_code", &json!(status));
        let first = stand.browser().open("/");
        assert_eq!(first.status, status, "{first:?}");
        let page = waiting.open("/");
        assert_eq!(page.status, status, "{page:?}");
        assert_waits(&page);
        let response = waiting.send(request("GET", &[("Accept", "application/json")]));
        assert_eq!(
            (response.status, response.json()["status"].clone()),
            (status, json!("waiting")),
            "{response:?}"
        );
    }
    let refused =
        Request::new("PATCH", "/rooms/Hall").body("{\"settings\": {\"queueing_status_code\": 503}}");
    let answer: Answer = stand.server.operator().send(&refused).expect("an answer");
    assert!((400..500).contains(&answer.status), "{answer:?}");
}
