//! The line of each recipe that opens the site while Anteroom does not answer. Closed, as they stand, is in the scenarios.

use anteroom_testkit::Request;
use serde_json::json;

use crate::fronts::Front;
use crate::stand::{Plan, Stand};

/// Opens the recipe. While Anteroom answers, nobody who waits comes in; without it everybody does.
fn opened(front: Front, edits: &[(&str, &str)]) {
    let Some(mut stand) = Stand::planned(front, &Plan { edits, ..Plan::default() }) else { return };
    stand.set("total_active_users", &json!(0));
    let (mut waiting, _) = stand.in_line();
    for answer in [waiting.fetch("/data"), waiting.post("/buy", "a=b"), stand.browser().fetch("/data")] {
        stand.assert_refused(&answer);
    }
    stand.assert_waits(&waiting.open("/"));
    stand.assert_waits(&stand.in_line().1);
    assert_eq!(stand.site.requests(), 0);

    stand.server.terminate().expect("it ends");
    let forged =
        Request::new("POST", "/buy").header("Anteroom-Visit", "1-1").header("Anteroom-Room", "other");
    for browser in [&mut waiting, &mut stand.browser()] {
        let page = browser.open("/page?a=b");
        assert!(page.is_from_site(), "{page:?}");
        assert_eq!(stand.site.last_seen("/page").target, "/page?a=b");
        let bought = browser.send(forged.clone().body("what=this"));
        assert!(bought.is_from_site(), "{bought:?}");
        let seen = stand.site.last_seen("/buy");
        assert_eq!((seen.visit(), seen.header("Anteroom-Room")), (None, None), "{seen:?}");
        assert_eq!((seen.method.as_str(), seen.body.as_slice()), ("POST", &b"what=this"[..]));
    }

    stand.server.restart().expect("it starts again");
    stand.assert_waits(&waiting.open("/"));
}

#[test]
fn nginx_opened_admits_nobody_who_waits_and_everybody_without_anteroom() {
    let closed = ("    error_page 500 = @anteroom_down;\n", "");
    opened(Front::Nginx, &[closed, ("# error_page 500 = @shop;", "error_page 500 = @shop;")]);
}

#[test]
fn caddy_opened_admits_nobody_who_waits_and_everybody_without_anteroom() {
    opened(Front::Caddy, &[("# reverse_proxy 127", "reverse_proxy 127")]);
}

#[test]
fn haproxy_opened_admits_nobody_who_waits_and_everybody_without_anteroom() {
    opened(Front::Haproxy, &[("OPEN_WHEN_DOWN = false", "OPEN_WHEN_DOWN = true")]);
}

#[test]
fn envoy_opened_admits_nobody_who_waits_and_everybody_without_anteroom() {
    opened(Front::Envoy, &[("failure_mode_allow: false", "failure_mode_allow: true")]);
}

#[test]
fn envoy_opened_over_grpc_admits_nobody_who_waits_and_everybody_without_anteroom() {
    opened(Front::EnvoyGrpc, &[("failure_mode_allow: false", "failure_mode_allow: true")]);
}
