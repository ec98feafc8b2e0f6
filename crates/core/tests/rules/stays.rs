//! Visitors whom a cookie lets in: how long they stay, and when their slot is free.

use anteroom_core::session::{DEPARTED_MAX, STAY_GRACE_MILLIS};
use anteroom_core::settings::Seconds;
use anteroom_core::{
    Answer, Departed, Event, Operation, Outcome, Refusal, Session, SessionKey, SessionStatus, Stay,
};

use super::story::{SECOND, START, Story};

/// What the gateway asks for: five minutes, and the grace.
const STAY: u64 = 300 * SECOND + STAY_GRACE_MILLIS;
/// What it asks for in a room with short visits.
const SHORT: u64 = 30 * SECOND + STAY_GRACE_MILLIS;

fn let_in(story: &mut Story, stay_millis: u64) -> Session {
    let ticket = story.join();
    story.try_claim_for(ticket, Some(stay_millis)).unwrap()
}

fn touch(story: &mut Story, session: &Session) -> Result<Session, Refusal> {
    let touch = Operation::Touch { key: session.key, stay_millis: STAY };
    story.attempt(&touch).map(|answer| match answer {
        Answer::Session(session) => session,
        other => panic!("{other:?}"),
    })
}

fn close(story: &mut Story, session: &Session) -> Session {
    match story.close(session) {
        Ok(Answer::Session(session)) => session,
        other => panic!("{other:?}"),
    }
}

fn until(session: &Session) -> u64 {
    session.ends_at().since(START)
}

fn departed(story: &Story) -> Vec<SessionKey> {
    story.board().departed.iter().map(|departed| departed.key).collect()
}

#[test]
fn a_stay_ends_by_itself_unless_the_visitor_comes_back() {
    let mut story = Story::max_size(1);
    let session = let_in(&mut story, SHORT);
    assert_eq!(session.stay, Some(Stay { until: START.plus(35_000), ending: None }));
    assert_eq!(session.expires_at_seconds, START.seconds() + 3_600, "the pass is another matter");
    story.join();
    story.later(20);
    let touched = touch(&mut story, &session).unwrap();
    assert_eq!(until(&touched), 20_000 + STAY);
    story.later(304);
    assert_eq!((story.room.held(), story.room.serving()), (1, 1), "the slot is not free yet");
    story.later(1);
    assert_eq!(story.room.counts().expired, 1);
    assert_eq!(story.room.serving(), 2, "the next one's turn");
    assert_eq!(touch(&mut story, &session), Err(Refusal::AlreadyEnded));
    assert_eq!(departed(&story), [], "every cookie of that visit has run out by itself");
}

#[test]
fn a_touch_never_shortens_a_stay() {
    let mut story = Story::manual();
    story.advance(1);
    let session = let_in(&mut story, 2 * STAY);
    assert_eq!(until(&touch(&mut story, &session).unwrap()), 2 * STAY);
}

#[test]
fn nobody_stays_longer_than_session_max_however_often_they_come_back() {
    let mut story = Story::manual();
    story.change(|settings| settings.session_max = Seconds::new(400).unwrap());
    story.advance(1);
    story.now = story.now.plus(700);
    let session = let_in(&mut story, STAY);
    // Counted from the end of the second in which it began.
    let latest = 1_000 + 400_000 + STAY_GRACE_MILLIS;
    for _ in 0..4 {
        story.now = story.now.plus(100 * SECOND);
        let touched = touch(&mut story, &session).unwrap();
        assert!(until(&touched) <= latest && touched.ends_at() > story.now);
    }
    assert_eq!(until(&story.sessions[&session.key]), latest);
    story.later(10);
    assert_eq!(story.sessions[&session.key].status, SessionStatus::Expired);

    let endless = let_in_for_ever(&mut story);
    assert!(endless.ends_at().since(story.now) <= latest, "nor does a claim give more");
}

fn let_in_for_ever(story: &mut Story) -> Session {
    story.advance(1);
    let_in(story, u64::MAX)
}

#[test]
fn without_renewal_no_return_prolongs_a_stay() {
    let mut story = Story::manual();
    story.change(|settings| settings.disable_session_renewal = true);
    story.advance(1);
    let session = let_in(&mut story, STAY);
    for _ in 0..2 {
        story.later(100);
        assert_eq!(until(&touch(&mut story, &session).unwrap()), STAY);
    }
}

#[test]
fn only_who_is_inside_can_be_touched() {
    let mut story = Story::manual();
    story.advance(3);
    let stranger = story.join();
    let key = SessionKey { generation: stranger.generation, position: stranger.position };
    let unknown = story.attempt(&Operation::Touch { key, stay_millis: STAY });
    assert_eq!(unknown, Err(Refusal::UnknownSession));
    let session = let_in(&mut story, STAY);
    close(&mut story, &session);
    assert_eq!(touch(&mut story, &session), Err(Refusal::AlreadyEnded));

    // Its time is over, but nobody has swept it yet: the answer is the same.
    let session = let_in(&mut story, STAY);
    let reads = anteroom_core::Reads { session: Some(session.clone()), ..anteroom_core::Reads::default() };
    let touch = Operation::Touch { key: session.key, stay_millis: STAY };
    let applied = anteroom_core::apply(story.room.clone(), session.ends_at(), &touch, reads);
    assert_eq!(applied.answer, Err(Refusal::AlreadyEnded));
    assert_eq!(applied.effects.sessions, []);
}

#[test]
fn on_one_node_a_visit_ended_by_name_is_over_at_once_and_its_cookie_is_named() {
    let mut story = Story::max_size(1);
    let session = let_in(&mut story, STAY);
    let next = story.join();
    let ended = close(&mut story, &session);
    assert_eq!(ended.status, SessionStatus::Ended(Outcome::Completed));
    assert_eq!(departed(&story), [session.key]);
    story.claim(next);
    assert_eq!(story.room.counts().completed, 1);
}

#[test]
fn on_several_nodes_all_are_shown_the_end_before_the_slot_is_free() {
    let mut story = Story::max_size(1);
    story.spread_millis = 2_000;
    let session = let_in(&mut story, STAY);
    story.join();
    story.later(10);
    let ending = close(&mut story, &session);
    assert_eq!(ending.status, SessionStatus::Active);
    assert_eq!(ending.stay, Some(Stay { until: START.plus(12_000), ending: Some(Outcome::Completed) }));
    assert_eq!((ending.outcome(), ending.is_alive(story.now)), (Some(Outcome::Completed), false));
    assert_eq!((departed(&story), story.room.held(), story.room.serving()), (vec![session.key], 1, 1));

    assert_eq!(story.close(&session), Err(Refusal::AlreadyEnded), "once");
    assert_eq!(touch(&mut story, &session), Err(Refusal::AlreadyEnded));
    story.later(2);
    let counts = story.room.counts();
    assert_eq!((counts.completed, counts.expired), (1, 0), "it counts as what it was ended as");
    assert_eq!(story.sessions[&session.key].status, SessionStatus::Ended(Outcome::Completed));
    assert_eq!(story.room.serving(), 2, "now it is the next one's turn");
    assert_eq!(story.close(&session), Err(Refusal::AlreadyEnded));
    let told = story.events.iter().filter(|event| matches!(event, Event::SessionUpdated { .. })).count();
    assert_eq!(told, 1, "told at the command, and not again");
}

#[test]
fn a_stay_that_ends_sooner_than_all_nodes_know_is_not_made_longer() {
    let mut story = Story::max_size(1);
    story.spread_millis = 2_000;
    let session = let_in(&mut story, 10_000);
    story.later(9);
    assert_eq!(until(&close(&mut story, &session)), 10_000);
    story.later(1);
    assert_eq!((story.room.counts().completed, story.room.held()), (1, 0));
}

#[test]
fn a_visitor_who_leaves_from_inside_is_an_ended_visit_too() {
    let mut story = Story::max_size(1);
    story.spread_millis = 2_000;
    let ticket = story.join();
    let session = story.try_claim_for(ticket, Some(STAY)).unwrap();
    let answer = story.does(Operation::Leave { ticket });
    let Answer::Session(left) = answer else { panic!("{answer:?}") };
    assert_eq!((left.outcome(), departed(&story)), (Some(Outcome::Abandoned), vec![session.key]));
    assert_eq!(story.attempt(&Operation::Leave { ticket }), Err(Refusal::AlreadyEnded));
    story.later(2);
    assert_eq!(story.room.counts().abandoned, 1);
}

#[test]
fn where_no_more_can_be_shown_the_slot_is_free_when_the_cookie_has_run_out() {
    let mut story = Story::max_size(1);
    story.spread_millis = 2_000;
    let session = let_in(&mut story, STAY);
    let others = Departed { key: session.key, at: story.now };
    *story.room.departed = std::iter::repeat_n(others, DEPARTED_MAX).collect();
    let ending = close(&mut story, &session);
    assert_eq!((ending.status, until(&ending)), (SessionStatus::Active, STAY));
    assert_eq!(story.board().departed.len(), DEPARTED_MAX);
    story.later(304);
    assert_eq!((story.room.held(), story.board().departed.len()), (1, 0));
    story.later(1);
    assert_eq!((story.room.held(), story.room.counts().completed), (0, 1));
}

#[test]
fn where_many_end_at_once_the_oldest_that_everybody_has_seen_makes_room() {
    for (spread_millis, seconds) in [(0, 0), (2_000, 2)] {
        let mut story = Story::max_size(1);
        story.spread_millis = spread_millis;
        let session = let_in(&mut story, STAY);
        let others = Departed { key: session.key, at: story.now };
        *story.room.departed = std::iter::repeat_n(others, DEPARTED_MAX).collect();
        story.later(seconds);
        close(&mut story, &session);
        assert_eq!(story.board().departed.len(), DEPARTED_MAX);
        story.later(spread_millis / 1_000);
        assert_eq!((story.room.held(), story.room.counts().completed), (0, 1));
    }
}

#[test]
fn an_ended_visit_is_shown_for_ten_seconds_and_not_beyond_a_reset() {
    let mut story = Story::max_size(2);
    let (first, second) = (let_in(&mut story, STAY), let_in(&mut story, STAY));
    close(&mut story, &first);
    story.later(4);
    close(&mut story, &second);
    story.later(5);
    assert_eq!(departed(&story), [first.key, second.key]);
    story.later(1);
    assert_eq!(departed(&story), [second.key]);
    story.does(Operation::Reset { incarnation: 2 });
    assert_eq!(departed(&story), []);
}

#[test]
fn who_holds_a_pass_gets_a_stay_with_the_cookie_that_is_no_shorter() {
    let mut story = Story::max_size(2);
    story.spread_millis = 2_000;
    let (ticket, other) = (story.join(), story.join());
    let with_pass = story.claim(ticket);
    assert_eq!(with_pass.stay, None);
    let touched = touch(&mut story, &with_pass).unwrap();
    assert_eq!(touched.stay, Some(Stay { until: with_pass.ends_at(), ending: None }));
    assert_eq!(close(&mut story, &touched).status, SessionStatus::Active);

    let with_pass = story.claim(other);
    let again = story.try_claim_for(other, Some(STAY)).unwrap();
    assert_eq!(again.stay, Some(Stay { until: with_pass.ends_at(), ending: None }));
    close(&mut story, &again);
    assert_eq!(departed(&story), [touched.key, again.key]);
}

#[test]
fn who_has_a_cookie_and_asks_for_a_pass_holds_the_slot_for_as_long_as_it_is_valid() {
    let mut story = Story::max_size(1);
    let ticket = story.join();
    story.try_claim_for(ticket, Some(SHORT)).unwrap();
    story.later(10);
    let with_pass = story.claim(ticket);
    assert_eq!(until(&with_pass), 3_600_000);
    story.later(3_589);
    assert_eq!(story.room.held(), 1);
    story.later(1);
    assert_eq!((story.room.held(), story.room.counts().expired), (0, 1));
    assert_eq!(until(&story.claim(ticket)), 3_600_000, "what is over is not prolonged");
}

#[test]
fn without_a_cookie_there_is_nobody_to_tell() {
    let mut story = Story::max_size(1);
    story.spread_millis = 2_000;
    let ticket = story.join();
    let session = story.claim(ticket);
    assert_eq!(close(&mut story, &session).status, SessionStatus::Ended(Outcome::Completed));
    assert_eq!((departed(&story), story.room.held()), (vec![], 0));
}

#[test]
fn an_exit_without_a_name_is_paid_off_when_the_slot_is_freed_and_once() {
    let mut story = Story::max_size(3);
    story.spread_millis = 2_000;
    let session = let_in(&mut story, STAY);
    let_in(&mut story, STAY);
    story.does(Operation::Exits { count: 1 });
    close(&mut story, &session);
    assert_eq!((story.room.active(), story.room.exit_credits), (1, 1));
    story.later(2);
    assert_eq!((story.room.active(), story.room.exit_credits), (1, 0));
}

#[test]
fn a_lost_visit_counts_until_its_cookie_has_surely_run_out() {
    let mut story = Story::max_size(1);
    story.change(|settings| {
        settings.validity_period = Seconds::new(60).unwrap();
        settings.session_duration = Seconds::new(300).unwrap();
    });
    let_in(&mut story, STAY);
    story.sessions.clear();
    let lost = anteroom_core::Mend {
        incarnation: 3,
        margin: 256,
        sessions_lost: true,
        ..anteroom_core::Mend::default()
    };
    story.does(Operation::Mend(lost));
    story.later(304);
    assert_eq!((story.room.losses.phantoms, story.room.held()), (1, 1));
    story.later(1);
    assert_eq!((story.room.losses.phantoms, story.room.held()), (0, 0));
}
