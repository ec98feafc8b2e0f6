//! The promises that a room keeps, checked after every operation of random interleavings.
//!
//! Beside the room runs a model that knows nothing of segments, steps or bits: a plain list of visitors, each with a
//! story, moved by loops that spell out the rules the slow way. Room and model must agree on every figure and every answer.
//! `origin.rs` has a true origin behind the room, and `engines.rs` several nodes that take the steps of one timetable.

#![expect(clippy::unwrap_used, reason = "a test may fail loudly")]

#[path = "promises/adaptive.rs"]
mod adaptive;
#[path = "promises/answers.rs"]
mod answers;
#[path = "promises/checks.rs"]
mod checks;
#[path = "promises/engines.rs"]
mod engines;
#[path = "promises/grants.rs"]
mod grants;
#[path = "promises/interruptions.rs"]
mod interruptions;
#[path = "promises/losses.rs"]
mod losses;
#[path = "promises/model.rs"]
mod model;
#[path = "promises/origin.rs"]
mod origin;
#[path = "promises/play.rs"]
mod play;
#[path = "promises/reports.rs"]
mod reports;
#[path = "promises/rounds.rs"]
mod rounds;
#[path = "promises/stays.rs"]
mod stays;
#[path = "promises/steps.rs"]
mod steps;

use std::collections::BTreeSet;

use play::Play;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use steps::Step;

/// How many random interleavings a property is tried on, unless `PROPTEST_CASES` says otherwise.
fn cases(usual: u32) -> ProptestConfig {
    let asked = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok());
    ProptestConfig { cases: asked.unwrap_or(usual), ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases(2_000))]

    /// Random interleavings of joins, claims, no-shows, leaves, closes, anonymous exits, hand advances both ways, all inlets and
    /// both disciplines switched with all their settings, reports, alarms, rounds settled by those present, states,
    /// resets, new generations, stays by cookie touched and ended on one node or on several, codes redeemed, logins and their refreshes, stores that lose
    /// something, clock steps and silences.
    #[test]
    fn promises_1_to_6_and_8_and_12_hold_after_every_operation(steps in steps::steps()) {
        play(&steps);
    }

    #[test]
    fn promises_hold_over_a_store_that_forgets(steps in steps::steps_over_a_store_that_forgets()) {
        play(&steps);
    }

    #[test]
    fn promises_hold_while_the_capacity_follows_the_origin(steps in steps::steps_of_an_adaptive_room()) {
        play(&steps);
    }
}

fn play(steps: &[Step]) -> Play {
    let mut play = Play::new();
    for step in steps {
        play.run(step);
    }
    play.check_that_places_were_unique();
    play
}

/// An operation that is not played keeps no promise here.
#[test]
fn every_operation_is_played() {
    let mut runner = TestRunner::deterministic();
    let mut played = BTreeSet::new();
    for _ in 0..100 {
        let steps = steps::steps().new_tree(&mut runner).unwrap().current();
        played.append(&mut play(&steps).played);
    }
    let all: BTreeSet<&str> = play::KINDS.iter().copied().collect();
    assert_eq!(played, all);
}
