//! Inlets with a timetable: periodic steps, and the budget of new users that a step sets.

use anteroom_core::settings::{AlarmNames, People, Seconds};
use anteroom_core::{InletKind, MovedBy, Operation, Refusal, RoomState, Settings, Standstill};

use super::story::{SECOND, START, Story};

/// Ten people every sixty seconds.
fn periodic() -> Settings {
    Settings { inlet: InletKind::Periodic, ..Settings::default() }
}

fn rated(rate: u64, interval_seconds: u64) -> Settings {
    Settings {
        inlet: InletKind::MaxSize,
        total_active_users: Some(1_000_000_000),
        new_users_per_minute: People::new(rate),
        interval_seconds: Seconds::new(interval_seconds).unwrap(),
        ..Settings::default()
    }
}

fn later_millis(story: &mut Story, millis: u64) {
    story.now = story.now.plus(millis);
    story.does(Operation::Tick);
}

#[test]
fn a_periodic_step_serves_so_many_positions_every_interval() {
    let mut story = Story::with(periodic());
    story.join_many(25);
    story.later(59);
    assert_eq!((story.room.serving(), story.board().standstill), (0, None));
    for (seconds, serving) in [(1, 10), (59, 10), (1, 20), (60, 30)] {
        story.later(seconds);
        assert_eq!(story.room.serving(), serving);
    }
    assert_eq!(story.room.moves[MovedBy::Periodic as usize], 3);
    assert_eq!(story.board().standstill, Some(Standstill::NobodyWaiting));
}

#[test]
fn a_newcomer_will_wait_as_long_as_the_next_ticket_is_told() {
    let mut story = Story::with(periodic());
    story.join_many(25);
    let foretold = story.board().wait_of_newcomer(story.now).unwrap();
    assert_eq!((foretold.p50_seconds, foretold.p90_seconds), (180, 180), "in the third step");
    let ticket = story.join();
    assert_eq!(story.board().wait(&ticket, 25, story.now), Some(foretold));
    story.change(|settings| settings.queue_all = true);
    assert_eq!(story.board().wait_of_newcomer(story.now), None, "nobody knows how long");
}

#[test]
fn a_quiet_night_saves_up_no_burst() {
    let mut story = Story::with(periodic());
    (0..600).for_each(|_| story.later(60));
    assert_eq!(story.room.serving(), 10, "one step beyond the tail and no further");
    story.join_many(100);
    assert_eq!(story.room.offers(), 10);
    story.later(60);
    assert_eq!(story.room.serving(), 20);
}

#[test]
fn run_ahead_saves_up_as_aws_does() {
    let mut story = Story::with(Settings { run_ahead: true, ..periodic() });
    (0..5).for_each(|_| story.later(60));
    assert_eq!(story.room.serving(), 50);
    story.join_many(45);
    assert_eq!(story.room.offers(), 45);
}

#[test]
fn a_step_is_taken_up_to_half_an_interval_late_and_then_it_is_gone() {
    for (late_millis, serving, missed) in [(30_000, 10, 0), (30_001, 0, 1), (59_999, 0, 1), (60_000, 10, 1)] {
        let mut story = Story::with(periodic());
        story.join_many(100);
        later_millis(&mut story, 60_000 + late_millis);
        assert_eq!(
            (story.room.serving(), story.room.steps_missed),
            (serving, missed),
            "{late_millis} ms late"
        );
        let next = if serving > 0 { story.now.plus(60_000) } else { START.plus(120_000) };
        assert_eq!(
            story.room.next_step_at,
            Some(next),
            "a late step moves the next, one that is gone does not"
        );
    }
    let mut story = Story::with(Settings { interval_seconds: Seconds::new(1).unwrap(), ..periodic() });
    story.join_many(100);
    later_millis(&mut story, 1_999);
    assert_eq!(story.room.serving(), 10, "a second is always in time");
}

/// Another node has taken over a second after a step was due.
#[test]
fn two_steps_are_never_closer_than_an_interval() {
    for inlet in [InletKind::Periodic, InletKind::Window] {
        let mut story = Story::with(Settings {
            inlet,
            interval_seconds: Seconds::new(1).unwrap(),
            increment_by: People::new(1).unwrap(),
            window_size: People::new(1),
            ..Settings::default()
        });
        story.join_many(100);
        let mut steps = vec![];
        for millis in [1_740, 260, 740, 999, 1, 1_000, 3_900, 100, 900, 10, 990] {
            let before = story.room.serving();
            later_millis(&mut story, millis);
            if story.room.serving() > before {
                steps.push(story.now);
            }
        }
        let gaps: Vec<u64> = steps.windows(2).map(|pair| pair[1].since(pair[0])).collect();
        assert!(steps.len() >= 5 && gaps.iter().all(|&gap| gap >= 1_000), "{gaps:?}");
        // Where nobody waits, a late step moves nothing: the timetable stays where it was.
        let mut story = Story::with(Settings { increment_by: People::new(1).unwrap(), ..periodic() });
        story.later(60);
        later_millis(&mut story, 60_500);
        assert_eq!(story.room.next_step_at, Some(START.plus(180_000)));
    }
}

#[test]
fn the_first_step_is_at_the_start_and_none_is_at_the_end() {
    let (start, end) = (START.seconds() + 100, START.seconds() + 220);
    let mut story = Story::with(Settings { start_time: start, end_time: end, ..periodic() });
    story.join_many(100);
    later_millis(&mut story, 99_999);
    assert_eq!((story.room.serving(), story.board().standstill), (0, Some(Standstill::BeforeStart)));
    assert_eq!(story.board().next_step_at, Some(START.plus(100_000)));
    later_millis(&mut story, 1);
    assert_eq!(story.room.serving(), 10);
    story.later(60);
    assert_eq!(story.room.serving(), 20);
    story.later(60);
    assert_eq!((story.room.serving(), story.board().standstill), (20, Some(Standstill::AfterEnd)));
}

#[test]
fn a_start_in_the_past_gives_the_grid() {
    let mut story = Story::with(Settings {
        start_time: START.seconds() - 25,
        interval_seconds: Seconds::new(10).unwrap(),
        ..periodic()
    });
    assert_eq!(story.room.next_step_at, Some(START.plus(5 * SECOND)));
    // Switching to and fro takes no slot twice.
    story.join_many(100);
    story.later(5);
    story.change(|settings| settings.inlet = InletKind::Manual);
    story.change(|settings| settings.inlet = InletKind::Periodic);
    assert_eq!((story.room.serving(), story.room.next_step_at), (10, Some(START.plus(15 * SECOND))));
}

#[test]
fn an_alarm_holds_the_periodic_inlet_which_resumes_without_a_burst() {
    let alarms = AlarmNames::new(vec!["OriginDown".into()]).unwrap();
    let mut story = Story::with(Settings { alarms, ..periodic() });
    story.join_many(200);
    story.does(Operation::Alarms { firing: vec!["AnotherOne".into()] });
    story.later(60);
    assert_eq!(story.room.serving(), 10, "not one of its alarms");
    story.does(Operation::Alarms { firing: vec!["AnotherOne".into(), "OriginDown".into()] });
    (0..5).for_each(|_| story.later(60));
    assert_eq!((story.room.serving(), story.board().standstill), (10, Some(Standstill::Alarm)));
    assert_eq!(story.board().firing, ["OriginDown"]);
    story.later(5);
    story.does(Operation::Alarms { firing: vec![] });
    story.later(54);
    assert_eq!(story.room.serving(), 10, "nothing is caught up");
    story.later(1);
    assert_eq!((story.room.serving(), story.room.steps_missed), (20, 5));
}

#[test]
fn an_alarm_holds_a_rate_which_resumes_without_a_burst() {
    let alarms = AlarmNames::new(vec!["OriginDown".into()]).unwrap();
    let mut story = Story::with(Settings { alarms, ..rated(60, 10) });
    story.join_many(200);
    assert_eq!(story.room.offers(), 10, "the share of the first ten seconds");
    story.does(Operation::Alarms { firing: vec!["OriginDown".into()] });
    (0..5).for_each(|_| story.later(10));
    story.later(5);
    assert_eq!(story.room.offers(), 10);
    story.does(Operation::Alarms { firing: vec![] });
    story.later(4);
    assert_eq!(story.room.offers(), 10);
    story.later(1);
    assert_eq!(story.room.offers(), 20, "one share, not six");
}

#[test]
fn a_pause_is_caught_up_by_nobody() {
    let mut story = Story::with(periodic());
    story.join_many(100);
    story.set(RoomState::Paused);
    story.later(600);
    story.set(RoomState::Open);
    assert_eq!((story.room.serving(), story.room.steps_missed), (0, 10));
    story.later(60);
    assert_eq!(story.room.serving(), 10);
}

#[test]
fn the_shares_of_a_rate_add_up_exactly() {
    for rate in [1, 7, 59, 61, 100, 997] {
        for interval in [1, 7, 10, 13, 59, 60] {
            let mut story = Story::with(rated(rate, interval));
            story.join_many(100_000);
            let before = story.room.serving();
            // Sixty steps are as many minutes as an interval has seconds.
            (0..60).for_each(|_| story.later(interval));
            assert_eq!(story.room.serving() - before, rate * interval, "{rate} a minute, every {interval} s");
            assert_eq!(story.room.steps_missed, 0);
        }
    }
}

#[test]
fn any_minute_of_whole_intervals_lets_in_the_rate() {
    let mut story = Story::with(rated(100, 12));
    story.join_many(10_000);
    let mut served = vec![story.room.serving()];
    for _ in 0..50 {
        story.later(12);
        served.push(story.room.serving());
    }
    assert!(served.windows(6).all(|minute| minute[5] - minute[0] == 100), "{served:?}");
}

#[test]
fn a_step_sets_the_budget_and_does_not_add_to_it() {
    let mut story = Story::with(rated(60, 10));
    (0..60).for_each(|_| story.later(10));
    story.join_many(100);
    assert_eq!(story.room.offers(), 10, "ten minutes without anybody are worth nothing");
    assert_eq!(story.board().standstill, Some(Standstill::RateSpent));
    story.later(10);
    assert_eq!(story.room.offers(), 20);
}

#[test]
fn capacity_and_rate_bound_together() {
    let mut story = Story::with(Settings { total_active_users: Some(15), ..rated(60, 10) });
    story.join_many(100);
    assert_eq!(story.room.held(), 10);
    story.later(10);
    assert_eq!((story.room.held(), story.board().standstill), (15, Some(Standstill::AtCapacity)));
}

#[test]
fn a_hand_over_a_timetable_is_a_one_off_and_a_hand_back_lays_it_to_rest() {
    let mut story = Story::with(periodic());
    story.join_many(100);
    story.later(30);
    assert_eq!(story.advance(5), 5);
    assert_eq!(story.room.offers_by_hand, 5);
    story.later(30);
    assert_eq!(story.room.serving(), 15, "the timetable goes on where it was");
    assert_eq!(story.advance(-3), 12);
    (0..3).for_each(|_| story.later(60));
    assert_eq!((story.room.serving(), story.board().standstill), (12, Some(Standstill::MovedBack)));
    story.later(10);
    story.set(RoomState::Open);
    assert_eq!(story.room.serving(), 12, "it resumes at its next step");
    story.later(50);
    assert_eq!(story.room.serving(), 22);
}

#[test]
fn a_switch_between_inlets_loses_no_place() {
    let mut story = Story::with(periodic());
    let tickets = story.join_many(40);
    story.later(60);
    let inside = story.claim(tickets[3]);
    story.change(|settings| {
        settings.inlet = InletKind::MaxSize;
        settings.total_active_users = Some(12);
    });
    assert_eq!((story.room.serving(), story.room.held()), (12, 12));
    story.change(|settings| settings.inlet = InletKind::Periodic);
    story.later(60);
    assert_eq!(story.room.serving(), 22);
    assert_eq!(story.claim(tickets[3]), inside);
    story.claim(tickets[0]);
    story.claim(tickets[21]);
}

#[test]
fn a_step_is_not_spent_on_those_who_left_an_older_generation() {
    let mut story = Story::max_size(1);
    let old = story.join_many(3);
    let inside = story.claim(old[0]);
    for &ticket in &old[1..] {
        story.does(Operation::Leave { ticket });
    }
    story.does(Operation::OpenSegment { incarnation: 2 });
    let new = story.join_many(5);
    story.close(&inside).unwrap();
    story.claim(new[0]);
    story.change(|settings| {
        settings.inlet = InletKind::Periodic;
        settings.increment_by = People::new(2).unwrap();
    });
    story.later(60);
    story.claim(new[1]);
    story.claim(new[2]);
    assert_eq!(story.advance(-3), 3, "a hand back takes these three, and the older generation stays served");
    assert_eq!(story.try_claim(new[3]), Err(Refusal::NotServed));
}
