//! While everybody is to wait.

use anteroom_core::settings::{People, Seconds};
use anteroom_core::{InletKind, Operation, Refusal, Settings, Standstill};

use super::story::Story;

#[test]
fn nobody_is_offered_a_place_but_open_offers_can_be_claimed() {
    let mut story = Story::max_size(2);
    let (first, second) = (story.join(), story.join());
    story.change(|settings| settings.queue_all = true);
    story.claim(first);
    let third = story.join();
    story.claim(second);
    for session in story.sessions.clone().values() {
        story.close(session).unwrap();
    }
    assert_eq!((story.room.held(), story.room.serving()), (0, 2), "slots are free, and nobody is let in");
    assert_eq!(story.try_claim(third), Err(Refusal::NotServed));
    assert_eq!(story.board().standstill, Some(Standstill::QueueAll));
    assert_eq!(story.board().wait(&third, 0, story.now), None, "nobody knows how long");
    story.change(|settings| settings.queue_all = false);
    assert_eq!(story.room.serving(), 3, "as soon as it is over");
    story.claim(third);
}

#[test]
fn steps_of_the_timetable_are_gone() {
    let mut story = Story::with(Settings {
        inlet: InletKind::Periodic,
        increment_by: People::new(2).unwrap(),
        interval_seconds: Seconds::new(10).unwrap(),
        queue_all: true,
        ..Settings::default()
    });
    story.join_many(9);
    story.later(10);
    story.later(10);
    assert_eq!((story.room.serving(), story.room.steps_missed), (0, 2));
    story.change(|settings| settings.queue_all = false);
    story.later(10);
    assert_eq!((story.room.serving(), story.room.steps_missed), (2, 2), "and not caught up");
}

#[test]
fn a_frontier_that_ran_ahead_is_taken_back_to_the_last_join() {
    let mut story = Story::manual();
    story.join();
    assert_eq!(story.advance(5), 5);
    story.change(|settings| settings.queue_all = true);
    assert_eq!(story.room.serving(), 1);
    let waits = story.join();
    assert_eq!(story.try_claim(waits), Err(Refusal::NotServed));
    assert_eq!(story.board().standstill, Some(Standstill::QueueAll), "also where only the hand moves it");
    assert_eq!(story.advance(7), 2, "the operator's hand lets in who is there, and nobody who comes later");
    story.claim(waits);
    let later = story.join();
    assert_eq!(story.try_claim(later), Err(Refusal::NotServed));
}

#[test]
fn what_lapses_moves_nobody_on() {
    let mut story = Story::manual();
    story.change(|settings| settings.incr_svc_on_queue_position_expiry = true);
    story.join_many(4);
    story.advance(2);
    story.change(|settings| settings.queue_all = true);
    story.later(900);
    assert_eq!((story.room.counts().lapsed, story.room.serving()), (2, 2));
    assert_eq!(story.attempt(&Operation::Tick), Ok(anteroom_core::Answer::Done));
    assert_eq!(story.room.offers(), 0);
}
