//! Clocks that go wrong: each test is named after what broke, or would.

#![expect(clippy::unwrap_used, reason = "a test may fail loudly")]

#[path = "rules/story.rs"]
#[expect(dead_code, reason = "shared with rules.rs, which needs all of it")]
mod story;

use anteroom_core::settings::Seconds;
use anteroom_core::{Board, Operation, Recognition, Refusal};
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
