//! Two people before Apache with `mod_auth_openidc`, in a real browser: one is inside, the other waits and is let in by the page
//! itself.

use anteroom_testkit::{Chromium, full, require_chromium, wait_until};

use crate::clients::{Client, Pair};
use crate::providers::Which;
use crate::walk::TIMEOUT;

fn two_people_log_in(which: Which) {
    if !require_chromium() {
        return;
    }
    let Some(pair) = Pair::open(Client::Apache, which, Client::Apache.modes()[0]) else { return };
    let home = pair.client.at("/tickets?row=3&seat=7");
    let is_inside = |browser: &Chromium| {
        browser.address() == home && browser.text("p").as_deref() == Some("GET /tickets?row=3&seat=7")
    };
    let first = Chromium::open();
    first.go(&home);
    wait_until("the first sees the site", TIMEOUT, || is_inside(&first));
    let subject = pair.client.subject("/tickets");

    let second = Chromium::open();
    second.go(&home);
    let is_waiting = || second.attribute("html", "data-situation").as_deref() == Some("waiting");
    wait_until("the second waits", TIMEOUT, is_waiting);
    assert!(second.address().starts_with(&pair.provider.registration().issuer), "{}", second.address());
    second.reload();
    wait_until("the second still waits", TIMEOUT, is_waiting);

    pair.provider.end_visit(&subject);
    wait_until("the second sees the site", TIMEOUT, || is_inside(&second));
    assert_ne!(pair.client.subject("/tickets"), subject);
    // Nothing that opens anything stays in an address.
    assert_eq!(second.run("return location.search", &[]), "?row=3&seat=7");
}

#[test]
fn apache_lets_the_second_in_when_the_first_has_gone() {
    two_people_log_in(Which::Anteroom);
}

#[test]
fn the_same_at_the_reference_provider() {
    if full() {
        two_people_log_in(Which::Reference);
    }
}
