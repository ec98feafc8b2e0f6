//! The window inlet: who may claim are the last positions, as many as the active windows hold.

use anteroom_core::settings::{People, Seconds, Windows};
use anteroom_core::{InletKind, Operation, Refusal, RoomState, Settings};

use super::story::Story;

/// So many people every ten seconds; so many windows may claim.
fn windows(size: u64, active: u64) -> Story {
    Story::with(Settings {
        inlet: InletKind::Window,
        window_size: People::new(size),
        active_windows: Windows::new(active).unwrap(),
        interval_seconds: Seconds::new(10).unwrap(),
        ..Settings::default()
    })
}

#[test]
fn a_window_takes_those_who_are_there_and_the_oldest_one_lapses() {
    let mut story = windows(3, 2);
    let tickets = story.join_many(8);
    story.later(10);
    assert_eq!((story.room.serving(), story.room.offers()), (3, 3));
    story.claim(tickets[0]);
    story.later(10);
    assert_eq!((story.room.serving(), story.room.offers()), (6, 5), "two windows may claim");
    story.later(10);
    assert_eq!((story.room.serving(), story.room.offers()), (8, 6), "the last one holds two");
    assert_eq!(story.room.counts().lapsed, 1, "the last six positions may claim");
    assert_eq!(story.try_claim(tickets[1]), Err(Refusal::Gone));
    story.claim(tickets[2]);
    story.claim(tickets[7]);
}

/// Seed 001: "Based on static variables (namely the window size and number of active windows), each ticket's state can be derived
/// from its own position".
#[test]
fn windows_that_are_not_full_end_nobodys_turn() {
    let mut story = windows(3, 2);
    let mut tickets = vec![];
    for position in 1..=6 {
        tickets.push(story.join());
        story.later(10);
        let expected = (position, position, 0);
        assert_eq!((story.room.serving(), story.room.offers(), story.room.counts().lapsed), expected);
    }
    story.claim(tickets[0]);
    // The seventh position puts the first beyond the last six, and a claimed one counts as any other.
    tickets.push(story.join());
    story.later(10);
    assert_eq!((story.room.offers(), story.room.counts().lapsed), (6, 0));
    tickets.extend(story.join_many(2));
    story.later(10);
    assert_eq!((story.room.serving(), story.room.offers(), story.room.counts().lapsed), (9, 6, 2));
    for lapsed in [1, 2] {
        assert_eq!(story.try_claim(tickets[lapsed]), Err(Refusal::Gone));
    }
    story.claim(tickets[3]);
}

#[test]
fn what_is_active_is_counted_over_generations_and_a_window_can_end_in_the_middle_of_another() {
    let mut story = windows(3, 1);
    let old = story.join_many(4);
    story.later(10);
    story.does(Operation::OpenSegment { incarnation: 2 });
    let new = story.join_many(1);
    story.later(10);
    // Passed are 1 to 4 of the old line and 1 of the new; the last three are active.
    assert_eq!((story.room.counts().lapsed, story.room.offers()), (2, 3));
    assert_eq!(story.try_claim(old[1]), Err(Refusal::Gone));
    for ticket in [old[2], old[3], new[0]] {
        story.claim(ticket);
    }
}

#[test]
fn offers_made_by_hand_last_as_many_windows_as_any_other() {
    let mut story = windows(2, 2);
    let tickets = story.join_many(20);
    story.later(10);
    story.later(9);
    story.advance(10);
    story.later(1);
    assert_eq!((story.room.serving(), story.room.counts().lapsed), (14, 0));
    story.claim(tickets[4]);
    story.later(10);
    assert_eq!(
        (story.room.serving(), story.room.counts().lapsed),
        (16, 11),
        "all but the last four, and one that claimed"
    );
}

/// Seed 001: "This, however, leads to the edge case of a user requesting a ticket after a skipped increment and the window almost
/// instantly incrementing after, invalidating it. To avoid this, multiple active windows are recommended (at least 2)".
#[test]
fn a_ticket_taken_just_after_a_skipped_step_is_not_lost_at_once() {
    let mut story = windows(2, 2);
    story.later(10);
    assert_eq!(story.room.windows.len(), 0, "nobody waits: the step does not happen");
    story.later(9);
    let early = story.join();
    story.later(1);
    assert_eq!(story.room.serving(), 1, "almost at once it is in a window");
    story.join_many(2);
    story.later(10);
    assert_eq!(story.room.counts().lapsed, 0, "its own window and the next");
    story.claim(early);

    let mut story = windows(2, 1);
    story.later(19);
    let early = story.join();
    story.later(1);
    story.join_many(2);
    story.later(9);
    assert_eq!(story.room.offers(), 1);
    story.later(1);
    assert_eq!(story.try_claim(early), Err(Refusal::Gone), "with one window it is lost with the next");
}

#[test]
fn windows_that_did_not_happen_end_no_others() {
    let mut story = windows(2, 2);
    let ticket = story.join();
    (0..100).for_each(|_| story.later(10));
    assert_eq!(story.room.windows.len(), 1);
    story.claim(ticket);
}

#[test]
fn a_window_for_nobody_but_those_who_left_does_not_happen() {
    let mut story = windows(2, 1);
    let tickets = story.join_many(4);
    story.later(10);
    for &ticket in &tickets[2..] {
        story.does(Operation::Leave { ticket });
    }
    story.later(10);
    assert_eq!((story.room.counts().lapsed, story.room.offers()), (0, 2), "nobody waits");
    story.claim(tickets[0]);
    story.join();
    story.later(10);
    assert_eq!(story.room.counts().lapsed, 1);
}

#[test]
fn a_window_is_filled_from_older_generations_first() {
    let mut story = windows(3, 2);
    let old = story.join_many(4);
    story.does(Operation::OpenSegment { incarnation: 2 });
    let new = story.join_many(4);
    story.later(10);
    story.later(10);
    story.claim(old[3]);
    story.claim(new[1]);
    assert_eq!(story.try_claim(new[2]), Err(Refusal::NotServed));
    story.later(10);
    assert_eq!(story.try_claim(old[0]), Err(Refusal::Gone));
    story.claim(new[0]);
}

#[test]
fn a_pause_ends_no_window() {
    let mut story = windows(2, 2);
    let tickets = story.join_many(6);
    story.later(10);
    story.set(RoomState::Paused);
    story.later(1_000);
    story.set(RoomState::Open);
    assert_eq!(story.room.offers(), 2);
    story.later(10);
    assert_eq!((story.room.offers(), story.room.counts().lapsed), (4, 0));
    story.claim(tickets[0]);
}
