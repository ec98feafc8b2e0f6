//! Clocks that go wrong: each test is named after what broke, or would.

#![expect(clippy::unwrap_used, reason = "a test may fail loudly")]

#[path = "rules/story.rs"]
#[expect(dead_code, reason = "shared with rules.rs, which needs all of it")]
mod story;

use anteroom_core::settings::Seconds;
use anteroom_core::{
    Answer, Board, Discipline, InletKind, Operation, Recognition, Refusal, Report, Settings,
};
use story::{SECOND, START, Story};

const HOUR: u64 = 3_600 * SECOND;

#[test]
fn a_machine_whose_clock_steps_back_still_knows_the_tickets_of_its_future() {
    let mut story = Story::manual();
    story.now = START.plus(HOUR);
    let ticket = story.join();
    // The machine's clock was an hour ahead when the visitor joined; somebody has put it right.
    let right = START.plus(5 * SECOND);
    assert_eq!(Board::of(&story.room).recognise(&ticket, right), Recognition::Ours);
    story.now = right;
    story.attempt(&Operation::Advance { by: 1 }).unwrap();
    story.claim(ticket);
}

#[test]
fn a_reset_gets_a_room_out_of_a_future_it_once_saw() {
    let mut story = Story::manual();
    story.now = START.plus(24 * HOUR);
    story.join();
    story.now = START.plus(SECOND);
    story.attempt(&Operation::Tick).unwrap();
    assert_eq!(story.room.clock, START.plus(24 * HOUR), "by itself the clock never goes back");
    story.attempt(&Operation::Reset { incarnation: 2 }).unwrap();
    assert_eq!(story.room.clock, story.now);
    let ticket = story.join();
    story.attempt(&Operation::Advance { by: 1 }).unwrap();
    let session = story.claim(ticket);
    assert_eq!(session.issued_at_seconds, story.now.seconds(), "passes begin now, not tomorrow");
}

/// Everything that has a time, a day ahead and then set right.
#[test]
fn an_operator_sets_a_clock_right_and_nobody_loses_a_place() {
    let mut story = Story::max_size(2);
    story.now = START.plus(24 * HOUR);
    let mut tickets = story.join_many(5);
    let inside = story.claim(tickets[0]);
    tickets.push(story.join());
    let before = story.room.clone();
    story.now = START.plus(SECOND);
    assert_eq!(story.attempt(&Operation::Tick), Ok(Answer::Done));
    assert_eq!(story.room.clock, START.plus(24 * HOUR), "by itself the clock never goes back");
    let set = story.attempt(&Operation::SetClock);
    assert_eq!(set, Ok(Answer::ClockSet { before: START.plus(24 * HOUR), clock: story.now }));
    let after = &story.room;
    assert_eq!(
        (after.clock, after.waiting(), after.active()),
        (story.now, before.waiting(), before.active())
    );
    assert_eq!((after.serving(), after.newest().generation), (before.serving(), before.newest().generation));
    let again = story.attempt(&Operation::SetClock);
    assert_eq!(
        again,
        Ok(Answer::ClockSet { before: story.now, clock: story.now }),
        "and a second time nothing"
    );
    assert!(
        tickets.iter().all(|ticket| Board::of(&story.room).recognise(ticket, story.now) == Recognition::Ours)
    );
    // Time goes on from there: the visit ends, and the next one comes in.
    story.close(&inside).unwrap();
    story.claim(tickets[1]);
    story.claim(tickets[2]);
    let window = story.room.settings.claim_window_millis().unwrap();
    assert_eq!(
        story.room.next_due(),
        None,
        "nothing is due in a future that has not come: {:?}",
        story.room.next_due()
    );
    let session = story.claim(tickets[1]);
    assert_eq!(session.issued_at_seconds, story.now.seconds(), "passes begin now, not tomorrow");
    story.close(&session).unwrap();
    assert_eq!(story.room.next_due(), Some(story.now.plus(window)), "an offer lapses a window from now");
}

#[test]
fn a_clock_that_is_set_right_takes_every_moment_with_it() {
    for discipline in [Discipline::Counter, Discipline::Auction] {
        let mut story = Story::with(Settings {
            inlet: InletKind::Adaptive,
            discipline,
            total_active_users: Some(5),
            new_users_per_minute: None,
            ..Settings::default()
        });
        story.now = START.plus(24 * HOUR);
        let report = Report { reporter: "web".into(), free: Some(5), ..Report::default() };
        story.attempt(&Operation::Report(report)).unwrap();
        story.join_many(3);
        story.now = START.plus(SECOND);
        story.attempt(&Operation::SetClock).unwrap();
        let room = &story.room;
        assert!(room.reports.reporters[0].heard_at <= story.now);
        assert!(room.adaptive.unwrap().adjusted_at <= story.now);
        let due = room.next_due().unwrap();
        assert!(due <= story.now.plus(15 * 60 * SECOND), "{discipline:?}: {due:?}");
        if let Some(auction) = &room.auction {
            assert!(
                auction.round <= story.now.plus(room.settings.round_seconds.get() * SECOND),
                "{auction:?}"
            );
        }
    }
}

#[test]
fn many_resets_in_one_second_do_not_make_the_tickets_after_them_unknown() {
    let mut story = Story::manual();
    for incarnation in 0..200 {
        story.attempt(&Operation::Reset { incarnation }).unwrap();
    }
    let ticket = story.join();
    assert_eq!(Board::of(&story.room).recognise(&ticket, story.now), Recognition::Ours);
}

#[test]
fn a_claim_whose_own_tick_moves_the_frontier_gets_the_place_it_served() {
    let mut story = Story::manual();
    story.change(|settings| {
        settings.incr_svc_on_queue_position_expiry = true;
        settings.queue_position_expiry_period = Seconds::new(10);
    });
    let tickets = story.join_many(10);
    story.attempt(&Operation::Advance { by: 2 }).unwrap();
    // Nobody has ticked since: this claim itself lets two lapse and serves the next two.
    story.now = story.now.plus(10 * SECOND);
    story.claim(tickets[2]);
    assert_eq!(story.try_claim(tickets[0]), Err(Refusal::Gone));
    assert_eq!((story.room.serving(), story.room.offers()), (4, 1));
}
