//! An auction room behind the gateway: people get in by refreshing alone, each round the earliest of those who show up.

mod gateway_support;

use anteroom_testkit::wait_for;
use gateway_support::{PATIENCE, SOON, Stand};

const AUCTION: &str = "discipline = \"auction\"\nround_seconds = 1";

#[test]
fn people_get_in_by_refreshing_alone() {
    let stand = Stand::open(1, AUCTION);
    // A slot is spare: whoever comes first has it.
    let mut first = stand.browser();
    first.enter("/", SOON, PATIENCE);
    assert!(first.open("/confirmed").is_from_site());
    let (mut second, page) = stand.in_line();
    assert!(page.text().contains("/.anteroom/auction?room=Hall"), "the script knows where to check in");
    assert!(page.refresh_seconds().is_some_and(|seconds| seconds <= 1), "he comes to every round: {page:?}");
    let (mut third, _) = stand.in_line();
    assert!(!second.open("/").is_from_site(), "the slot is taken");
    assert!(first.open("/complete").is_from_site());
    second.enter("/", SOON, PATIENCE);
    assert!(!third.open("/").is_from_site());
    assert!(second.open("/complete").is_from_site());
    third.enter("/", SOON, PATIENCE);
    assert_eq!(stand.figure("claimed"), 3);
}

#[test]
fn whoever_does_not_come_to_a_round_is_passed_and_keeps_his_place() {
    let stand = Stand::open(1, AUCTION);
    let mut inside = stand.inside();
    let (mut away, _) = stand.in_line();
    let (mut there, _) = stand.in_line();
    assert!(inside.open("/complete").is_from_site());
    there.enter("/", SOON, PATIENCE);
    assert!(there.open("/complete").is_from_site());
    // He shows up at last.
    let page = wait_for("the one who was away gets in", PATIENCE, || {
        let page = away.open("/");
        page.is_from_site().then_some(page)
    });
    assert_eq!(page.status, 200);
}
