//! The adaptive law, row by row: a capacity that follows the origin's latency and errors.

use anteroom_core::settings::AlarmNames;
use anteroom_core::{Adjustment, InletKind, Operation, Report, Settings};

use super::story::Story;

const MOST: u64 = 320;

/// A room whose capacity has come to 100, with as many inside as `used` says.
fn adaptive(used: u64) -> Story {
    let mut story = Story::with(Settings {
        inlet: InletKind::Adaptive,
        total_active_users: Some(MOST),
        adaptive_floor: 100,
        ..Settings::default()
    });
    story.change(|settings| settings.adaptive_floor = 10);
    let tickets = story.join_many(used);
    for &ticket in &tickets {
        story.claim(ticket);
    }
    assert_eq!((story.room.capacity(), story.room.held()), (Some(100), used));
    story
}

fn report(latency_p95_millis: Option<u64>, errors_per_million: Option<u32>) -> Operation {
    Operation::Report(Report {
        reporter: "origin".into(),
        latency_p95_millis,
        errors_per_million,
        ..Report::default()
    })
}

fn after_a_round(story: &mut Story, told: Option<Operation>) -> (u64, Adjustment) {
    story.later(5);
    if let Some(report) = told {
        story.does(report);
    }
    story.later(5);
    let law = story.board().adaptive.unwrap();
    (law.capacity, law.adjustment)
}

#[test]
fn each_row_of_the_law() {
    let rows = [
        (100, None, 100, Adjustment::NoSamples),
        (100, Some(report(Some(100), Some(20_001))), 70, Adjustment::LoweredByErrors),
        (100, Some(report(Some(1_000), None)), 70, Adjustment::LoweredByLatency),
        (100, Some(report(Some(999), None)), 90, Adjustment::LoweredByLatency),
        (100, Some(report(Some(501), None)), 90, Adjustment::LoweredByLatency),
        (60, Some(report(Some(501), None)), 54, Adjustment::LoweredByLatency),
        (100, Some(report(Some(500), Some(20_000))), 100, Adjustment::NearTarget),
        (100, Some(report(Some(451), None)), 100, Adjustment::NearTarget),
        (100, Some(report(Some(100), None)), 100 + MOST / 32, Adjustment::Raised),
        (88, Some(report(None, Some(0))), 100 + MOST / 32, Adjustment::Raised),
        (87, Some(report(Some(100), None)), 100, Adjustment::NotUsed),
    ];
    for (used, told, capacity, adjustment) in rows {
        let mut story = adaptive(used);
        assert_eq!(after_a_round(&mut story, told.clone()), (capacity, adjustment), "{used} used, {told:?}");
        assert!(story.room.held() <= used.max(capacity));
    }
}

#[test]
fn a_good_report_at_the_end_of_a_bad_round_hides_nothing() {
    let mut story = adaptive(100);
    story.does(report(Some(2_000), Some(500_000)));
    assert_eq!(after_a_round(&mut story, Some(report(Some(50), Some(0)))), (70, Adjustment::LoweredByErrors));
}

#[test]
fn what_was_heard_once_counts_for_one_round() {
    let mut story = adaptive(100);
    assert_eq!(after_a_round(&mut story, Some(report(Some(100), None))).1, Adjustment::Raised);
    let (capacity, why) = after_a_round(&mut story, None);
    assert_eq!((capacity, why), (100 + MOST / 32, Adjustment::NoSamples), "no fresh samples: never raised");
}

#[test]
fn it_stays_between_floor_and_ceiling() {
    let mut story = adaptive(100);
    for _ in 0..100 {
        story.join_many(20);
        after_a_round(&mut story, Some(report(Some(1), Some(0))));
        assert!(story.room.held() <= story.room.capacity().unwrap());
    }
    assert_eq!(story.room.capacity(), Some(MOST));
    let mut story = adaptive(100);
    for _ in 0..100 {
        after_a_round(&mut story, Some(report(Some(9_000), Some(1_000_000))));
        story.does(Operation::Exits { count: 1_000 });
    }
    assert_eq!(story.room.capacity(), Some(10));
}

#[test]
fn while_the_last_decrease_takes_effect_there_is_no_other() {
    let mut story = adaptive(100);
    assert_eq!(after_a_round(&mut story, Some(report(Some(2_000), None))).0, 70);
    for _ in 0..5 {
        let (capacity, why) = after_a_round(&mut story, Some(report(Some(2_000), None)));
        assert_eq!((capacity, why), (70, Adjustment::Draining), "100 are still inside");
    }
}

#[test]
fn an_alarm_holds_an_adaptive_room_too() {
    let mut story = adaptive(0);
    story.change(|settings| settings.alarms = AlarmNames::new(vec!["OriginDown".into()]).unwrap());
    story.does(Operation::Alarms { firing: vec!["OriginDown".into()] });
    story.join_many(5);
    assert_eq!(story.room.offers(), 0);
    story.does(Operation::Alarms { firing: vec![] });
    assert_eq!(story.room.offers(), 5);
}
