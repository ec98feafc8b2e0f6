//! Capacity reports: what the origin says is free, less the passes in flight.

use anteroom_core::reports::SILENT_ROUNDS;
use anteroom_core::settings::{Seconds, ShortSeconds};
use anteroom_core::{Answer, InletKind, Operation, Report, ReportOutcome, Settings, Standstill, Ticket};

use super::story::{SECOND, START, Story};

/// Room for a thousand, were it not for the origin.
fn reporting() -> Story {
    Story::with(Settings {
        inlet: InletKind::MaxSize,
        total_active_users: Some(1_000),
        ..Settings::default()
    })
}

fn report(sequence: u64, free: u64, entered: Option<u64>) -> Report {
    Report {
        reporter: "origin".into(),
        sequence: Some(sequence),
        free: Some(free),
        entered,
        ..Report::default()
    }
}

fn tell(story: &mut Story, report: Report) -> ReportOutcome {
    match story.does(Operation::Report(report)) {
        Answer::Reported(reported) => reported,
        other => panic!("{other:?}"),
    }
}

fn free(story: &Story) -> u64 {
    story.room.reports.free(&story.room.settings, story.room.clock).unwrap()
}

fn claim_all(story: &mut Story, tickets: &[Ticket]) -> usize {
    tickets.iter().filter(|&&ticket| story.try_claim(ticket).is_ok()).count()
}

#[test]
fn a_room_with_a_capacity_is_bound_by_the_reports_too() {
    let mut story = reporting();
    tell(&mut story, report(1, 3, Some(0)));
    let tickets = story.join_many(10);
    assert_eq!((story.room.offers(), story.board().standstill), (3, Some(Standstill::NoneFree)));
    assert_eq!(claim_all(&mut story, &tickets), 3);
    tell(&mut story, report(2, 1, Some(2)));
    assert_eq!(story.room.offers(), 0, "the one that is free is for the third, whose pass is in flight");
    tell(&mut story, report(3, 1, Some(3)));
    assert_eq!(story.room.offers(), 1);
}

#[test]
fn without_a_count_every_pass_of_late_is_taken_to_be_in_flight() {
    let mut story = reporting();
    tell(&mut story, report(1, 2, None));
    let tickets = story.join_many(10);
    assert_eq!(claim_all(&mut story, &tickets), 2);
    story.later(10);
    tell(&mut story, report(2, 2, None));
    assert_eq!(story.room.offers(), 0, "safe, and wasteful");
    story.later(25);
    tell(&mut story, report(3, 2, None));
    assert_eq!(
        story.room.offers(),
        0,
        "the report may be five seconds old, and passes live to the end of a second"
    );
    story.later(1);
    tell(&mut story, report(4, 2, None));
    assert_eq!(story.room.offers(), 2, "a visitor who has not come by now never will");
}

#[test]
fn a_pass_that_is_never_used_gives_its_slot_back() {
    let mut story = reporting();
    tell(&mut story, report(1, 1, Some(0)));
    let tickets = story.join_many(2);
    assert_eq!(claim_all(&mut story, &tickets), 1);
    for second in 1..36 {
        story.later(1);
        tell(&mut story, report(1 + second, 1, Some(0)));
        assert_eq!(story.room.offers(), 0, "{second}");
    }
    story.later(1);
    tell(&mut story, report(99, 1, Some(0)));
    assert_eq!(story.room.offers(), 1);
}

#[test]
fn a_lower_sequence_is_ignored() {
    let mut story = reporting();
    assert_eq!(tell(&mut story, report(5, 3, Some(0))), ReportOutcome::Accepted);
    assert_eq!(tell(&mut story, report(4, 9, Some(0))), ReportOutcome::Late);
    assert_eq!(tell(&mut story, report(5, 9, Some(0))), ReportOutcome::Late);
    assert_eq!(free(&story), 3);
}

#[test]
fn a_reporter_silent_for_three_rounds_counts_nothing_until_it_is_heard_again() {
    let mut story = reporting();
    tell(&mut story, report(5, 3, Some(0)));
    story.later(SILENT_ROUNDS * 10);
    assert_eq!(free(&story), 3);
    story.now = story.now.plus(1);
    let tickets = story.join_many(2);
    assert_eq!((free(&story), story.room.offers()), (0, 0));
    assert_eq!(story.board().standstill, Some(Standstill::NoReport));
    assert_eq!(tell(&mut story, report(1, 2, Some(0))), ReportOutcome::Accepted, "it has begun anew");
    assert_eq!(claim_all(&mut story, &tickets), 2);
}

#[test]
fn a_report_overtaken_within_a_short_silence_is_late_all_the_same() {
    let mut story = reporting();
    story.change(|settings| settings.round_seconds = ShortSeconds::new(1).unwrap());
    tell(&mut story, report(1, 5, Some(0)));
    let tickets = story.join_many(20);
    assert_eq!(claim_all(&mut story, &tickets), 5);
    // Three of them have come in, and the report sent before that is still in flight.
    tell(&mut story, report(3, 2, Some(3)));
    story.later(4);
    assert_eq!(tell(&mut story, report(2, 5, Some(0))), ReportOutcome::Late);
    // Else the three would now be counted a second time.
    tell(&mut story, report(4, 2, Some(3)));
    assert_eq!((free(&story), story.room.offers()), (0, 0));
}

#[test]
fn lowering_enter_by_takes_no_pass_for_dead_that_may_still_enter() {
    let mut story = reporting();
    tell(&mut story, report(1, 1, None));
    let tickets = story.join_many(2);
    assert_eq!(claim_all(&mut story, &tickets), 1);
    story.change(|settings| settings.enter_by_seconds = ShortSeconds::new(1).unwrap());
    story.later(20);
    tell(&mut story, report(2, 1, None));
    assert_eq!(story.room.offers(), 0, "this pass has thirty seconds");
    story.later(16);
    tell(&mut story, report(3, 1, None));
    assert_eq!(story.room.offers(), 1);
}

#[test]
fn a_longer_round_makes_nobody_heard_who_was_silent() {
    let mut story = reporting();
    tell(&mut story, report(1, 5, Some(0)));
    story.later(31);
    story.change(|settings| settings.round_seconds = ShortSeconds::new(60).unwrap());
    assert_eq!(free(&story), 0);
    tell(&mut story, report(2, 4, Some(1)));
    assert_eq!(free(&story), 4);
}

#[test]
fn moments_of_issue_reach_back_as_far_as_a_report_may_lie() {
    let mut story = reporting();
    story.change(|settings| {
        settings.round_seconds = ShortSeconds::new(60).unwrap();
        settings.queue_position_expiry_period = Seconds::new(900);
    });
    tell(&mut story, report(1, 500, None));
    let tickets = story.join_many(400);
    let mut waiting = tickets.iter();
    let mut one_a_second = |story: &mut Story, seconds: u64| {
        for _ in 0..seconds {
            story.later(1);
            story.claim(*waiting.next().unwrap());
        }
    };
    one_a_second(&mut story, 100);
    tell(&mut story, report(2, 500, None));
    let issued_then = 500 - free(&story);
    assert!((35..=38).contains(&issued_then), "{issued_then} in the last 36 seconds");
    one_a_second(&mut story, 150);
    let passes_in_flight = 500 - free(&story);
    assert!((185..=189).contains(&passes_in_flight), "{passes_in_flight}, not all that were ever issued");
}

#[test]
fn a_reset_keeps_what_the_origin_said_and_the_passes_in_flight() {
    let mut story = reporting();
    tell(&mut story, report(1, 3, Some(0)));
    let tickets = story.join_many(3);
    assert_eq!(claim_all(&mut story, &tickets), 3);
    story.does(Operation::Reset { incarnation: 2 });
    assert_eq!(story.room.held(), 0);
    story.join_many(5);
    assert_eq!(story.room.offers(), 0, "three passes are still in flight");
    tell(&mut story, report(2, 1, Some(3)));
    assert_eq!(story.room.offers(), 1);
}

#[test]
fn a_reset_out_of_a_future_brings_reporters_and_the_law_along() {
    let mut story = Story::with(Settings {
        inlet: InletKind::Adaptive,
        total_active_users: Some(100),
        ..Settings::default()
    });
    story.now = START.plus(86_400 * SECOND);
    tell(&mut story, report(1, 3, Some(0)));
    story.now = START;
    story.does(Operation::Reset { incarnation: 2 });
    story.later(31);
    assert_eq!(free(&story), 0, "silent for three rounds of this time");
    assert!(
        story.room.next_due().is_some_and(|due| due <= START.plus(60 * SECOND)),
        "adjusted today, not tomorrow"
    );
}

#[test]
fn a_forgotten_reporter_counts_for_nothing_and_no_longer_binds() {
    let mut story = reporting();
    story.join_many(10);
    story.does(Operation::Report(report(1, 0, None)));
    story.does(Operation::ForgetReporter { reporter: "origin".into() });
    assert_eq!(story.room.reports.free(&story.room.settings, story.now), None);
    let again = Operation::ForgetReporter { reporter: "origin".into() };
    assert_eq!(story.attempt(&again), Err(anteroom_core::Refusal::UnknownReporter));
}
