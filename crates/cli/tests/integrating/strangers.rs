//! Who may ask for verdicts: the address, the secret, or both.

use anteroom_testkit::{Browser, Client, NAVIGATION, Request, Server};

use crate::fronts::Front;
use crate::recipe;
use crate::stand::{Plan, Stand, loopback};
use crate::support::BINARY;

/// A secret between a proxy and Anteroom.
const SECRET: &str = "a-secret-of-more-than-32-characters-for-checks";

/// A server with a recipe's configuration, in which a line is replaced.
fn server(from: &str, to: &str, environment: &[(&str, &str)]) -> Server {
    let config = recipe::read("nginx", "anteroom.toml");
    assert!(config.contains(from), "no {from} in {config}");
    let builder = Server::builder(BINARY).memory().config(config.replace(from, to));
    let builder = environment.iter().fold(builder, |builder, (name, value)| builder.env(name, *value));
    builder.start().expect("the server starts")
}

/// The statuses of a check in each dialect, asked from an address of loopback for a host.
fn statuses_at(host: &str, server: &Server, last: u8, secret: Option<&str>) -> Vec<u16> {
    let paths =
        ["/check/nginx/shop", "/check/nginx/shop/page", "/check/forward/shop", "/check/envoy/shop/page"];
    let ask = |path: &str| {
        let described = [
            ("X-Original-URL", "http://127.0.0.1/page"),
            ("X-Original-Method", "GET"),
            ("X-Forwarded-Method", "GET"),
            ("X-Forwarded-Proto", "http"),
            ("X-Forwarded-Host", "127.0.0.1"),
            ("X-Forwarded-Uri", "/page"),
            ("X-Forwarded-For", "203.0.113.7"),
        ];
        let request = NAVIGATION
            .iter()
            .chain(&described)
            .fold(Request::new("GET", path), |request, (name, value)| request.header(name, value));
        let request =
            secret.iter().fold(request, |request, secret| request.header("Anteroom-Check-Secret", secret));
        let mut client = Client::new(server.public()).with_source(loopback(last));
        let answer = client.send(&request.header("Host", host)).expect("an answer");
        assert_eq!(answer.header("Anteroom-Visit"), None, "{path}: {answer:?}");
        answer.status
    };
    paths.map(ask).to_vec()
}

/// The same for a host that is nobody's site.
fn statuses(server: &Server, last: u8, secret: Option<&str>) -> Vec<u16> {
    statuses_at("anteroom.internal", server, last, secret)
}

/// What those read who may ask about a visitor whose cookie has not come back.
const ANSWERED: [u16; 4] = [401, 303, 303, 303];
/// What others read.
const REFUSED: [u16; 4] = [403; 4];

#[test]
fn an_address_that_is_not_listed_cannot_ask() {
    let server = server("check_proxies = \"127.0.0.1\"", "check_proxies = \"127.0.0.1, 192.0.2.0/24\"", &[]);
    assert_eq!(statuses(&server, 1, None), ANSWERED);
    assert_eq!(statuses(&server, 2, None), REFUSED);
    assert_eq!(statuses(&server, 2, Some(SECRET)), REFUSED);
    // On a host of the site, too: what the site says there could be taken for permission.
    assert_eq!(statuses_at("127.0.0.1", &server, 1, None), ANSWERED);
    assert_eq!(statuses_at("127.0.0.1", &server, 2, None), REFUSED);
    // Neither do visitors reach it by the way that recipes leave open for them.
    let mut browser = Browser::new(server.public());
    for path in
        ["/.anteroom/check/nginx/shop", "/.anteroom/check/forward/shop", "/.anteroom/check/envoy/shop/"]
    {
        let answer = browser.fetch(path);
        assert!(matches!(answer.status, 403 | 404), "{path}: {answer:?}");
    }
}

#[test]
fn without_either_setting_nobody_can_ask() {
    let server = server("check_proxies = \"127.0.0.1\"", "", &[]);
    assert_eq!(statuses(&server, 1, None), REFUSED);
    assert_eq!(statuses(&server, 1, Some("")), REFUSED);
}

#[test]
fn a_secret_must_be_the_right_one() {
    let server = server("check_proxies = \"127.0.0.1\"", "", &[("ANTEROOM_CHECK_SECRET", SECRET)]);
    assert_eq!(statuses(&server, 1, None), REFUSED);
    assert_eq!(statuses(&server, 1, Some("wrong")), REFUSED);
    assert_eq!(statuses(&server, 1, Some(&SECRET[1..])), REFUSED);
    assert_eq!(statuses(&server, 2, Some(SECRET)), ANSWERED);
}

#[test]
fn where_both_are_set_both_must_hold() {
    let server = server("public_url", "public_url", &[("ANTEROOM_CHECK_SECRET", SECRET)]);
    assert_eq!(statuses(&server, 1, Some(SECRET)), ANSWERED);
    assert_eq!(statuses(&server, 1, None), REFUSED);
    assert_eq!(statuses(&server, 2, Some(SECRET)), REFUSED);
}

/// Each recipe's line for a secret. The site never reads it.
fn with_secret(front: Front, edits: &[(&str, &str)]) {
    let variable = ("ANTEROOM_CHECK_SECRET", SECRET);
    let plan = Plan { edits, environment: &[variable], server_environment: &[variable], ..Plan::default() };
    let Some(stand) = Stand::planned(front, &plan) else { return };
    stand.inside();
    stand.in_line();
    for seen in stand.site.request_log() {
        assert!(!seen.headers.iter().any(|(_, value)| value.contains(SECRET)), "{seen:?}");
    }
}

#[test]
fn nginx_shows_the_secret() {
    let line = |value: &str| format!("removed.\nproxy_set_header Anteroom-Check-Secret \"{value}\";");
    with_secret(Front::Nginx, &[(&line(""), &line(SECRET))]);
}

#[test]
fn caddy_shows_the_secret() {
    with_secret(Front::Caddy, &[("# header_up Anteroom-Check-Secret", "header_up Anteroom-Check-Secret")]);
}

#[test]
fn traefik_shows_the_secret() {
    let list = "[no-headers-of-ours, secret, anteroom-check, no-headers-of-ours]";
    let list = ("middlewares: [no-headers-of-ours, anteroom-check]", format!("middlewares: {list}"));
    with_secret(Front::Traefik, &[(list.0, &list.1), ("PUT-THE-SECRET-HERE", SECRET)]);
}

#[test]
fn haproxy_shows_the_secret() {
    with_secret(Front::Haproxy, &[]);
}

#[test]
fn envoy_shows_the_secret() {
    let edits = [
        ("# authorization_request:", "authorization_request:"),
        (
            "#   headers_to_add: [{ key: anteroom-check-secret",
            "  headers_to_add: [{ key: anteroom-check-secret",
        ),
        ("%ENVIRONMENT(ANTEROOM_CHECK_SECRET)%", SECRET),
    ];
    with_secret(Front::Envoy, &edits);
}

#[test]
fn envoy_shows_the_secret_over_grpc() {
    let edits = [
        (
            "# initial_metadata: [{ key: anteroom-check-secret",
            "initial_metadata: [{ key: anteroom-check-secret",
        ),
        ("%ENVIRONMENT(ANTEROOM_CHECK_SECRET)%", SECRET),
    ];
    with_secret(Front::EnvoyGrpc, &edits);
}
