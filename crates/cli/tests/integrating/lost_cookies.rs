//! A proxy that loses what a permission sets.

use anteroom_testkit::{full, wait_until};
use serde_json::json;

use crate::fronts::Front;
use crate::scenarios::walk::SESSION;
use crate::stand::{Plan, Stand, TIMEOUT, enter, keep_asking};

#[test]
fn a_visit_goes_on_where_the_proxy_loses_the_cookies_of_permissions() {
    if !full() {
        return;
    }
    let edits = [("addAuthCookiesToResponse: [anteroom-shop, ", "addAuthCookiesToResponse: [other, ")];
    let Some(stand) = Stand::planned(Front::Traefik, &Plan { edits: &edits, ..Plan::default() }) else {
        return;
    };
    stand.set("session_duration", &json!(SESSION.as_secs()));
    let mut browser = stand.inside();
    let visit = stand.site.last_seen("/confirmed").visit();
    let asked = keep_asking(&mut browser, SESSION * 5 / 2, SESSION);
    assert_eq!(asked.cookies_set, 0, "the proxy loses them");
    if asked.was_out {
        return;
    }
    assert_eq!(stand.site.last_seen("/asks").visit(), visit, "one visit all the time");
    // A page that a person opens brings the cookie, by a redirect.
    let before = browser.cookies.header();
    wait_until("a page brings the cookie", TIMEOUT, || {
        enter(&mut browser, "/page");
        browser.cookies.header() != before
    });
    assert_eq!(stand.site.last_seen("/page").visit(), visit);
}
