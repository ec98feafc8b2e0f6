//! Requests that were found to crash a program of a recipe, to come past the check, or to end a visit of somebody else.

use anteroom_testkit::{Browser, NAVIGATION, Request, Wire, full};

use crate::fronts::Front;
use crate::recipe;
use crate::stand::{Plan, Stand, TIMEOUT, enter};

/// How often a visit is used that must not have ended. More than enough for a call about it to arrive.
const USES: u32 = 20;

fn with(request: Request, headers: &[(&str, &str)]) -> Request {
    headers.iter().fold(request, |request, (name, value)| request.header(name, value))
}

/// A request with so many short header fields of its own.
fn with_fields(count: usize) -> Request {
    (0..count).fold(Request::new("GET", "/many"), |request, index| request.header(&format!("x-{index}"), "a"))
}

#[test]
fn haproxy_survives_every_number_of_header_fields() {
    let Some(stand) = Stand::open(Front::Haproxy) else { return };
    let mut browser = stand.inside();
    for count in [70, 95, 96, 97, 98, 99, 100, 101, 110] {
        let answer = browser.send(with_fields(count));
        assert_eq!(answer.is_from_site(), count == 70, "{count}: {answer:?}");
    }
    assert!(browser.fetch("/after").is_from_site());
}

/// What a client may send so that the check fails although Anteroom is well.
fn failing_checks() -> Vec<Request> {
    let mut requests: Vec<Request> = [70, 86, 90, 94, 96, 98, 99, 100, 101, 110].map(with_fields).to_vec();
    for length in [2_000, 3_900, 7_000, 7_900, 14_000, 15_000, 16_000] {
        let filled = |letter: &str| letter.repeat(length / letter.len());
        requests.push(Request::new("GET", &format!("/p?{}", filled("a"))));
        requests.push(Request::new("GET", &format!("/p?{}", filled("\""))));
        requests.push(Request::new("GET", &format!("/p?{}", filled("%"))));
        requests.push(Request::new("GET", "/long").header("X-Long", &filled("a")));
        requests.push(with_fields(60).header("X-Long", &filled("a")));
    }
    requests
}

/// The opened recipe lets nobody in while Anteroom is well, whatever they send.
fn opened(front: Front, edits: &[(&str, &str)]) {
    if !full() {
        return;
    }
    let Some(stand) = Stand::planned(front, &Plan { edits, ..Plan::default() }) else { return };
    for request in failing_checks() {
        for headers in [&NAVIGATION[..], &[]] {
            let mut browser = stand.browser();
            // Some are refused before they were read to their end.
            if let Ok(answer) = browser.try_send(with(request.clone(), headers)) {
                assert!(!answer.is_from_site(), "{request:?}: {answer:?}");
            }
        }
    }
    assert_eq!(stand.site.requests(), 0);
}

#[test]
fn nginx_opened_admits_nobody_by_a_check_that_fails() {
    let closed = ("    error_page 500 = @anteroom_down;\n", "");
    opened(Front::Nginx, &[closed, ("# error_page 500 = @shop;", "error_page 500 = @shop;")]);
}

#[test]
fn caddy_opened_admits_nobody_by_a_check_that_fails() {
    opened(Front::Caddy, &[("# reverse_proxy 127", "reverse_proxy 127")]);
}

#[test]
fn haproxy_opened_admits_nobody_by_a_check_that_fails() {
    opened(Front::Haproxy, &[("OPEN_WHEN_DOWN = false", "OPEN_WHEN_DOWN = true")]);
}

#[test]
fn envoy_opened_admits_nobody_by_a_check_that_fails() {
    opened(Front::Envoy, &[("failure_mode_allow: false", "failure_mode_allow: true")]);
}

#[test]
fn envoy_opened_over_grpc_admits_nobody_by_a_check_that_fails() {
    opened(Front::EnvoyGrpc, &[("failure_mode_allow: false", "failure_mode_allow: true")]);
}

/// Opened recipes that can tell an Anteroom without free connections from one that is down: neither opens then.
fn opened_without_free_connections(front: Front, edits: &[(&str, &str)]) {
    let plan = Plan { server: "max_connections = 8", edits, ..Plan::default() };
    let Some(stand) = Stand::planned(front, &plan) else { return };
    // Who is asked about over a connection that was open before has to wait.
    stand.set("total_active_users", &serde_json::json!(0));
    let taken: Vec<Wire> = (0..16)
        .map(|_| Wire::connect(stand.server.public(), TIMEOUT).expect("the operating system accepts it"))
        .collect();
    for _ in 0..5 {
        for answer in [stand.browser().open("/"), stand.browser().fetch("/data")] {
            assert!(!answer.is_from_site() && answer.status >= 300, "{answer:?}");
        }
    }
    assert_eq!(stand.site.requests(), 0);
    drop(taken);
}

#[test]
fn nginx_opened_stays_closed_while_all_connections_are_taken() {
    if !full() {
        return;
    }
    let closed = ("    error_page 500 = @anteroom_down;\n", "");
    // A new connection for each check, as under load.
    let edits =
        [closed, ("# error_page 500 = @shop;", "error_page 500 = @shop;"), ("    keepalive 32;\n", "")];
    opened_without_free_connections(Front::Nginx, &edits);
}

#[test]
fn haproxy_opened_stays_closed_while_all_connections_are_taken() {
    if !full() {
        return;
    }
    opened_without_free_connections(Front::Haproxy, &[("OPEN_WHEN_DOWN = false", "OPEN_WHEN_DOWN = true")]);
}

/// The header fields by which Anteroom recognizes a method override or a prefetch, in the spelling of HTTP.
const RECOGNIZED: [&str; 6] =
    ["x-http-method-override", "x-http-method", "x-method-override", "x-moz", "purpose", "sec-purpose"];

#[test]
fn envoy_shows_method_overrides() {
    let room = "bypass = [\"method:OPTIONS\"]";
    for front in [Front::Envoy, Front::EnvoyGrpc] {
        if front == Front::EnvoyGrpc && !full() {
            continue;
        }
        let Some(stand) = Stand::planned(front, &Plan { room, ..Plan::default() }) else { return };
        for name in &RECOGNIZED[..3] {
            for name in [(*name).to_owned(), name.replace('-', "_")] {
                let answer = stand.browser().send(Request::new("OPTIONS", "/secret").header(&name, "POST"));
                assert!(!answer.is_from_site(), "{front:?} {name}: {answer:?}");
            }
        }
        assert_eq!(stand.site.requests(), 0);
        assert!(stand.browser().send(Request::new("OPTIONS", "/free")).is_from_site());
    }
}

#[test]
fn recipes_that_list_headers_list_all_that_anteroom_reads() {
    let lists = [("envoy", "envoy.yaml"), ("kubernetes", "istio.yaml"), ("kubernetes", "gateway-api.yaml")];
    for (recipe, file) in lists {
        let text = recipe::read(recipe, file);
        let words: Vec<&str> =
            text.split(|letter: char| !(letter.is_ascii_alphanumeric() || "-_".contains(letter))).collect();
        let overrides = RECOGNIZED[..3].iter().map(|name| name.replace('-', "_"));
        for name in RECOGNIZED.iter().map(|name| (*name).to_owned()).chain(overrides) {
            assert!(words.contains(&name.as_str()), "{file} does not list {name}");
        }
    }
}

#[test]
fn istio_asks_about_a_host_with_a_port() {
    let text = recipe::read("kubernetes", "istio.yaml");
    assert!(text.contains("hosts: [shop.example.com, \"shop.example.com:*\"], notPaths"), "{text}");
}

/// Asks for an upgrade of a connection, and says with what status it was answered.
fn upgrade(stand: &Stand, browser: &Browser, fields: &str) -> u16 {
    let cookies = browser.cookies.header().map_or(String::new(), |cookies| format!("Cookie: {cookies}\r\n"));
    let mut wire = Wire::connect(stand.address, TIMEOUT).expect("it connects");
    let request = format!("GET /upgrade HTTP/1.1\r\nHost: {}\r\n{fields}{cookies}\r\n", stand.address);
    wire.write(request.as_bytes()).expect("it is sent");
    wire.read_answer().expect("an answer").expect("an answer").status
}

/// An upgrade that is no WebSocket would be a tunnel past the check: the site answers in plain HTTP or not at all.
fn only_websockets_are_upgraded(front: Front) {
    let Some(stand) = Stand::open(front) else { return };
    let browser = stand.inside();
    let socket = "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    for fields in [
        "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n",
        "Connection: Upgrade\r\nUpgrade: h2c\r\n",
        "Connection: Upgrade\r\nUpgrade: other\r\n",
        "Connection: Upgrade\r\nUpgrade: websocket2\r\n",
    ] {
        let status = upgrade(&stand, &browser, fields);
        assert_ne!(status, 101, "{fields}");
    }
    // Whatever is sent beside it, the site reads nothing but a WebSocket.
    for upgrades in
        ["h2c\r\nUpgrade: websocket", "websocket\r\nUpgrade: h2c", "h2c, websocket", "websocket, h2c"]
    {
        upgrade(&stand, &browser, &format!("Connection: Upgrade\r\n{socket}Upgrade: {upgrades}\r\n"));
    }
    for seen in stand.site.request_log() {
        for (name, value) in &seen.headers {
            let is_upgrade = name.eq_ignore_ascii_case("Upgrade");
            // Traefik cannot tell other upgrades apart, but never passes this one on.
            let is_allowed = |value: &str| match front {
                Front::Traefik => !value.to_ascii_lowercase().starts_with("h2c"),
                _ => value.eq_ignore_ascii_case("websocket"),
            };
            assert!(!is_upgrade || is_allowed(value), "{seen:?}");
        }
    }
    for name in ["websocket", "WebSocket"] {
        let status =
            upgrade(&stand, &browser, &format!("Connection: Upgrade\r\n{socket}Upgrade: {name}\r\n"));
        assert_eq!(status, 101, "{name}");
    }
}

#[test]
fn nginx_upgrades_only_websockets() {
    only_websockets_are_upgraded(Front::Nginx);
}

#[test]
fn caddy_upgrades_only_websockets() {
    only_websockets_are_upgraded(Front::Caddy);
}

#[test]
fn traefik_upgrades_only_websockets() {
    if full() {
        only_websockets_are_upgraded(Front::Traefik);
    }
}

#[test]
fn haproxy_upgrades_only_websockets() {
    only_websockets_are_upgraded(Front::Haproxy);
}

#[test]
fn envoy_upgrades_only_websockets() {
    if full() {
        only_websockets_are_upgraded(Front::Envoy);
    }
}

#[test]
fn nginx_leads_long_addresses_in() {
    let Some(stand) = Stand::open(Front::Nginx) else { return };
    let target = format!("/p?{}", "a".repeat(3_900));
    enter(&mut stand.browser(), &target);
    assert_eq!(stand.site.last_seen("/p").target, target);
}

#[test]
fn nginx_says_that_the_site_is_closed_when_only_the_page_fails() {
    // Nothing listens there.
    let page = "rewrite ^ /check/nginx/shop/page? break;\n      proxy_pass http://";
    let edits = [(&*format!("{page}anteroom;"), &*format!("{page}127.0.0.1:1;"))];
    let Some(stand) = Stand::planned(Front::Nginx, &Plan { edits: &edits, ..Plan::default() }) else {
        return;
    };
    let answer = stand.browser().open("/");
    assert_eq!((answer.status, answer.header("Retry-After")), (503, Some("10")), "{answer:?}");
}

#[test]
fn nginx_lets_no_other_site_end_a_visit_by_an_image() {
    let Some(stand) = Stand::open(Front::Nginx) else { return };
    let mut browser = stand.inside();
    let sent_as = |mode, destination| {
        let fields =
            [("Sec-Fetch-Site", "cross-site"), ("Sec-Fetch-Mode", mode), ("Sec-Fetch-Dest", destination)];
        with(Request::new("GET", "/thanks"), &fields)
    };
    for (mode, destination) in [("no-cors", "image"), ("no-cors", "script"), ("cors", "empty")] {
        assert!(browser.send(sent_as(mode, destination)).is_from_site());
    }
    for _ in 0..USES {
        assert!(browser.fetch("/after").is_from_site());
    }
    // A payment provider leads back by a navigation.
    assert!(browser.send(sent_as("navigate", "document")).is_from_site());
    stand.wait_for_figure("active", 0);
}

/// A visitor who hid their visit from the site could not be turned out by it.
fn a_client_cannot_hide_its_visit(front: Front) {
    let Some(stand) = Stand::open(front) else { return };
    let mut browser = stand.inside();
    let visit = stand.site.last_seen("/confirmed").visit();
    for hidden in ["Anteroom-Room, Anteroom-Visit", "close, anteroom-visit", "Cookie, X-Forwarded-For"] {
        let answer = browser.send(Request::new("GET", "/hidden").header("Connection", hidden));
        if answer.is_from_site() {
            assert_eq!(stand.site.last_seen("/hidden").visit(), visit, "{hidden}");
        }
    }
}

#[test]
fn nginx_does_not_let_a_client_hide_its_visit() {
    if full() {
        a_client_cannot_hide_its_visit(Front::Nginx);
    }
}

#[test]
fn caddy_does_not_let_a_client_hide_its_visit() {
    a_client_cannot_hide_its_visit(Front::Caddy);
}

#[test]
fn traefik_does_not_let_a_client_hide_its_visit() {
    if full() {
        a_client_cannot_hide_its_visit(Front::Traefik);
    }
}

#[test]
fn haproxy_does_not_let_a_client_hide_its_visit() {
    if full() {
        a_client_cannot_hide_its_visit(Front::Haproxy);
    }
}

#[test]
fn envoy_does_not_let_a_client_hide_its_visit() {
    if full() {
        a_client_cannot_hide_its_visit(Front::Envoy);
    }
}
