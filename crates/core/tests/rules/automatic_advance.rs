//! Automatic advance: by as many positions as lapsed, at once, and never beyond the tail.

use anteroom_core::settings::{AlarmNames, Seconds};
use anteroom_core::{Discipline, InletKind, Operation, Refusal, Settings};

use super::story::Story;

/// By hand, with offers that stand for ten seconds.
fn moving_on() -> Story {
    Story::with(Settings {
        incr_svc_on_queue_position_expiry: true,
        queue_position_expiry_period: Seconds::new(10),
        ..Settings::default()
    })
}

#[test]
fn absent_visitors_stall_nobody() {
    let mut story = moving_on();
    let tickets = story.join_many(6);
    story.advance(1);
    for absent in 1..=5 {
        story.later(9);
        assert_eq!((story.room.serving(), story.room.offers()), (absent, 1));
        story.later(1);
        assert_eq!(
            (story.room.serving(), story.room.offers()),
            (absent + 1, 1),
            "one for one, to the second"
        );
    }
    story.claim(tickets[5]);
}

#[test]
fn what_holds_the_inlet_holds_this_too_and_a_room_moved_by_hand_knows_no_alarm() {
    for (inlet, moves) in [(InletKind::Periodic, 0), (InletKind::Manual, 2)] {
        let mut settings = (*moving_on().room.settings).clone();
        settings.inlet = inlet;
        settings.alarms = AlarmNames::new(vec!["slow".into()]).unwrap();
        let mut story = Story::with(settings);
        story.join_many(6);
        story.advance(2);
        story.does(Operation::Alarms { firing: vec!["slow".into()] });
        story.later(10);
        assert_eq!(story.room.serving(), 2 + moves, "{inlet:?}");
    }
}

#[test]
fn a_late_tick_moves_on_by_what_lapsed_and_starts_the_clocks_then() {
    let mut story = moving_on();
    let tickets = story.join_many(9);
    story.advance(3);
    story.claim(tickets[1]);
    story.later(500);
    assert_eq!((story.room.serving(), story.room.offers()), (5, 2));
    assert_eq!(story.remaining_seconds(&tickets[3]), Some(10));
    story.later(10);
    assert_eq!((story.room.serving(), story.room.counts().lapsed), (7, 4));
}

#[test]
fn it_goes_on_in_the_next_generation() {
    let mut story = moving_on();
    story.join_many(3);
    story.advance(2);
    story.does(Operation::OpenSegment { incarnation: 2 });
    let new = story.join_many(5);
    story.later(10);
    story.claim(new[0]);
    assert_eq!(story.try_claim(new[1]), Err(Refusal::NotServed), "two lapsed, two were served");
    story.later(10);
    story.claim(new[1]);
    assert_eq!(story.try_claim(new[2]), Err(Refusal::NotServed));
}

#[test]
fn what_lapsed_before_an_empty_line_is_owed_to_nobody() {
    let mut story = moving_on();
    story.join_many(2);
    story.advance(2);
    story.later(10);
    assert_eq!((story.room.serving(), story.room.counts().lapsed), (2, 2));
    let late = story.join();
    assert_eq!(story.try_claim(late), Err(Refusal::NotServed));
    story.advance(1);
    story.claim(late);
}

#[test]
fn beside_a_timetable_both_move_the_frontier() {
    let mut story = moving_on();
    story.change(|settings| {
        settings.inlet = InletKind::Periodic;
        settings.interval_seconds = Seconds::new(15).unwrap();
    });
    story.join_many(100);
    story.later(15);
    assert_eq!(story.room.serving(), 10);
    story.later(10);
    assert_eq!(story.room.serving(), 20);
    story.later(5);
    assert_eq!(story.room.serving(), 30);
}

#[test]
fn in_an_auction_a_lapse_moves_nothing() {
    let mut story = moving_on();
    story.join_many(10);
    story.advance(3);
    story.change(|settings| settings.discipline = Discipline::Auction);
    assert_eq!(story.room.offers(), 3, "an offer stays one, until its clock is over");
    story.later(10);
    assert_eq!((story.room.offers(), story.room.counts().lapsed), (0, 3), "only rounds move the frontier");
}

/// AWS issue #154: visitors who took their turn and went away, or never came, block a max-size room.
#[test]
fn abandoned_visitors_do_not_block_a_max_size_room_aws_issue_154() {
    let mut story = Story::max_size(5);
    let tickets = story.join_many(100);
    // Half of those whose turn comes never ask, the others never say that they are done: time alone drains the room.
    let mut served = 0;
    for _ in 0..2_000 {
        story.later(60);
        let frontier = story.room.serving();
        for &ticket in &tickets[usize::try_from(served).unwrap()..usize::try_from(frontier).unwrap()] {
            if ticket.position.get() % 2 == 0 {
                story.claim(ticket);
            }
        }
        served = frontier;
        assert!(story.room.held() <= 5);
    }
    let counts = story.room.counts();
    assert_eq!((story.room.waiting(), story.room.held()), (0, 0), "the line has drained");
    assert_eq!((counts.lapsed, counts.expired), (50, 50));
}
