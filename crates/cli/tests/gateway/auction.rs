//! An auction room behind the gateway: people get in by refreshing alone, each round the earliest of those who show up.

use anteroom_testkit::wait_for;

use crate::stand::{SOON, Stand, TIMEOUT};

const AUCTION: &str = "discipline = \"auction\"\nround_seconds = 1";

#[test]
fn people_get_in_by_refreshing_alone() {
    let stand = Stand::open(1, AUCTION);
    // A slot is spare: the first to come has it.
    let mut first = stand.browser();
    first.enter("/", SOON, TIMEOUT);
    assert!(first.open("/confirmed").is_from_site());
    let (mut second, page) = stand.in_line();
    assert!(page.text().contains("/.anteroom/auction?room=Hall"), "the script knows where to check in");
    assert!(
        page.refresh_seconds().is_some_and(|seconds| seconds <= 1),
        "the page comes to every round: {page:?}"
    );
    let (mut third, _) = stand.in_line();
    assert!(!second.open("/").is_from_site(), "the slot is taken");
    assert!(first.open("/complete").is_from_site());
    second.enter("/", SOON, TIMEOUT);
    assert!(!third.open("/").is_from_site());
    assert!(second.open("/complete").is_from_site());
    third.enter("/", SOON, TIMEOUT);
    assert_eq!(stand.figure("claimed"), 3);
}

#[test]
fn a_visitor_who_misses_a_round_is_passed_and_keeps_the_place() {
    let stand = Stand::open(1, AUCTION);
    let mut inside = stand.inside();
    let (mut away, _) = stand.in_line();
    let (mut there, _) = stand.in_line();
    assert!(inside.open("/complete").is_from_site());
    there.enter("/", SOON, TIMEOUT);
    assert!(there.open("/complete").is_from_site());
    // The absent visitor shows up at last.
    let page = wait_for("the one who was away gets in", TIMEOUT, || {
        let page = away.open("/");
        page.is_from_site().then_some(page)
    });
    assert_eq!(page.status, 200);
}
