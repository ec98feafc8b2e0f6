//! What a client may send and gains nothing by.

use anteroom_testkit::{Answer, Browser, NAVIGATION, Request, SeenRequest};
use serde_json::json;

use crate::fronts::Front;
use crate::stand::{Plan, Stand};

/// Requests that need no visit, which a client would like its own to be taken for.
const BYPASS: &str =
    "bypass = [\"path:/free/\", \"method:OPTIONS\", \"cidr:10.0.0.0/8\", \"header:x-monitor=secret\"]";

/// What a client says about its request, each of which one of the checks reads from its own proxy.
const FORGERIES: [(&str, &str); 17] = [
    ("X-Original-URL", "http://127.0.0.1/free/a"),
    ("X-Original-URL", "http://elsewhere.example/"),
    ("X-Original-URL", "/free/a"),
    ("X-Original-Method", "OPTIONS"),
    ("X-Rewrite-URL", "/free/a"),
    ("X-Forwarded-Method", "OPTIONS"),
    ("X-Forwarded-Uri", "/free/a"),
    ("X-Forwarded-Host", "elsewhere.example"),
    ("X-Forwarded-Proto", "https"),
    ("X-Forwarded-For", "10.1.2.3"),
    ("X-Real-IP", "10.1.2.3"),
    ("Forwarded", "for=10.1.2.3;host=elsewhere.example"),
    ("Anteroom-Visit", "1-1"),
    ("Anteroom_Visit", "1-1"),
    ("Anteroom-Room", "shop"),
    ("Anteroom-Session", "complete"),
    ("Anteroom-Check-Secret", "guessed"),
];

fn with(request: Request, headers: &[(&str, &str)]) -> Request {
    headers.iter().fold(request, |request, (name, value)| request.header(name, value))
}

pub(crate) fn what_a_client_says_about_itself_lets_nobody_in(front: Front) {
    let Some(stand) = Stand::planned(front, &Plan { room: BYPASS, ..Plan::default() }) else { return };
    stand.set("total_active_users", &json!(0));
    let mut each: Vec<&[(&str, &str)]> = FORGERIES.iter().map(std::slice::from_ref).collect();
    each.push(&FORGERIES);
    for forged in each {
        let mut browser = stand.browser_from(2);
        for (method, headers) in [("GET", &NAVIGATION[..]), ("GET", &[]), ("POST", &[]), ("HEAD", &[])] {
            let answer = browser.send(with(with(Request::new(method, "/secret"), headers), forged));
            assert!(!answer.is_from_site(), "{method} {forged:?}: {answer:?}");
        }
    }
    assert_eq!(stand.site.requests(), 0, "{:?}", stand.site.request_log());
    // The rules themselves work.
    let mut browser = stand.browser_from(2);
    assert!(browser.fetch("/free/a").is_from_site());
    assert!(browser.send(Request::new("OPTIONS", "/secret")).is_from_site());
}

/// The values of all headers that some sites take for this one.
fn values<'a>(seen: &'a SeenRequest, name: &str) -> Vec<&'a str> {
    let same = |other: &str| other.replace(['_', '.'], "-").eq_ignore_ascii_case(name);
    seen.headers.iter().filter(|(other, _)| same(other)).map(|(_, value)| value.as_str()).collect()
}

pub(crate) fn the_site_reads_the_visit_that_anteroom_says(front: Front) {
    let Some(stand) = Stand::planned(front, &Plan { room: BYPASS, ..Plan::default() }) else { return };
    let forged = [
        ("Anteroom-Visit", "1-999"),
        ("anteroom-visit", "1-998"),
        ("Anteroom_Visit", "1-997"),
        ("Anteroom-Room", "other"),
        ("Anteroom_Room", "other"),
        ("Anteroom-Session", "complete"),
        ("Anteroom-Check-Secret", "guessed"),
    ];
    let mut inside = stand.inside();
    let visit = stand.site.last_seen("/confirmed").visit().expect("a visit");
    let answer = inside.send(with(Request::new("GET", "/forged"), &forged));
    assert!(answer.is_from_site(), "{answer:?}");
    let seen = stand.site.last_seen("/forged");
    assert_eq!(values(&seen, "Anteroom-Visit"), [visit.as_str()], "{seen:?}");
    assert_eq!(values(&seen, "Anteroom-Room"), ["shop"], "{seen:?}");
    // Without a visit there is none to read, also by those who have none.
    for browser in [&mut stand.browser_from(2), &mut stand.browser()] {
        let answer = browser.send(with(Request::new("GET", "/free/forged"), &forged));
        assert!(answer.is_from_site(), "{answer:?}");
        let seen = stand.site.last_seen("/free/forged");
        assert_eq!(values(&seen, "Anteroom-Visit"), Vec::<&str>::new(), "{seen:?}");
        assert!(values(&seen, "Anteroom-Room").iter().all(|room| *room == "shop"), "{seen:?}");
    }
    for seen in stand.site.request_log() {
        assert_eq!(values(&seen, "Anteroom-Session"), Vec::<&str>::new(), "{seen:?}");
        assert_eq!(values(&seen, "Anteroom-Check-Secret"), Vec::<&str>::new(), "{seen:?}");
    }
}

/// Opens a page as somebody who claims to come from elsewhere, and follows redirects through the door.
fn open_as(browser: &mut Browser, claimed: &str) -> Answer {
    let mut target = "/".to_owned();
    for _ in 0..5 {
        let claims = [("X-Forwarded-For", claimed), ("X-Real-IP", claimed), ("CF-Connecting-IP", claimed)];
        let answer = browser.send(with(with(Request::new("GET", &target), &NAVIGATION), &claims));
        match answer.header("Location") {
            Some(location) => location.clone_into(&mut target),
            None => return answer,
        }
    }
    panic!("redirected in a circle: {target}");
}

pub(crate) fn an_address_does_not_use_the_budget_of_another(front: Front) {
    const BUDGET: u64 = 3;
    let server = "limits_exempt = \"none\"\n\
        [[limit]]\nname = \"few\"\nclass = \"join\"\nrequests = 3\nper_seconds = 3600\nburst = 3\n";
    let Some(stand) = Stand::planned(front, &Plan { server, ..Plan::default() }) else { return };
    stand.set("total_active_users", &json!(0));
    for visitor in 0..2 * BUDGET {
        let page = open_as(&mut stand.browser_from(2), &format!("203.0.113.{visitor}"));
        assert_eq!(page.shown_position().is_some(), visitor < BUDGET, "{visitor}: {page:?}");
    }
    assert_eq!(stand.figure("joined"), BUDGET);
    // Another address has a budget of its own, and those who claimed to be it have used nothing of it.
    for _ in 0..BUDGET {
        open_as(&mut stand.browser_from(2), "127.0.0.3");
    }
    for _ in 0..BUDGET {
        let page = open_as(&mut stand.browser_from(3), "127.0.0.2");
        assert!(page.shown_position().is_some(), "{page:?}");
    }
    assert_eq!(stand.figure("joined"), 2 * BUDGET);
}

pub(crate) fn no_check_is_reached_from_outside(front: Front) {
    let Some(stand) = Stand::open(front) else { return };
    let mut inside = stand.inside();
    let mut outside = stand.browser_from(2);
    let dialects = ["nginx/shop", "nginx/shop/page", "forward/shop", "envoy/shop", "envoy/shop/a"];
    let detours = [
        "/check/",
        "/.anteroom/check/",
        "/.anteroom/../check/",
        "/.anteroom/%2e%2e/check/",
        "/.anteroom/..%2fcheck/",
        "/.anteroom//../check/",
        "//check/",
        "/x/../check/",
    ];
    let mut targets: Vec<String> =
        detours.iter().flat_map(|detour| dialects.map(|dialect| format!("{detour}{dialect}"))).collect();
    targets.extend(dialects.map(|dialect| format!("/check/{dialect}/../../../.anteroom/line")));
    targets.extend(dialects.map(|dialect| format!("/check/{dialect}/../../../../.anteroom/line")));
    targets.extend(
        dialects.map(|dialect| format!("/check/{dialect}/%2e%2e/%2e%2e/%2e%2e/%2e%2e/.anteroom/line")),
    );
    for target in targets {
        // A check tells the proxy whose visit it is; nobody else is told.
        for browser in [&mut inside, &mut outside] {
            let answer = browser.send(with(Request::new("GET", &target), &NAVIGATION));
            let told =
                answer.headers.iter().any(|(name, _)| name.to_ascii_lowercase().starts_with("anteroom-"));
            assert!(!told, "{target}: {answer:?}");
        }
        let answer = outside.fetch(&target);
        assert!(!answer.is_from_site(), "{target}: {answer:?}");
        // An allowed check is an empty 200.
        assert!(answer.status != 200 || !answer.body.is_empty(), "{target}: {answer:?}");
    }
    // These are pages of the site like any other.
    let answer = inside.fetch("/check/forward/shop");
    assert!(answer.is_from_site(), "{answer:?}");
}

/// The operator's mistake, or another program on the way: the site stays closed.
pub(crate) fn a_proxy_that_may_not_ask_lets_nobody_in(front: Front) {
    if front == Front::Gateway {
        return;
    }
    let elsewhere = [("ANTEROOM_CHECK_PROXIES", "192.0.2.1")];
    let plan = Plan { server_environment: &elsewhere, ..Plan::default() };
    let Some(stand) = Stand::planned(front, &plan) else { return };
    let mut browser = stand.browser_from(2);
    for _ in 0..3 {
        for answer in [browser.open("/"), browser.fetch("/data"), browser.copy().post("/buy", "what=this")] {
            assert!(!answer.is_from_site(), "{answer:?}");
        }
    }
    assert_eq!(stand.site.requests(), 0);
}
