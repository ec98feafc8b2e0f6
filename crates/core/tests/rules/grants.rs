//! Logins at clients of the OpenID provider: codes and refresh tokens that are good once.

use anteroom_core::session::{GRANT_KEPT_MILLIS, GRANTS_MAX, REFRESH_GRACE_MILLIS};
use anteroom_core::{
    Answer, Event, Grant, Operation, Outcome, Refusal, Session, SessionKey, SessionStatus, UnixMillis,
};

use super::story::{START, Story};

const SHOP: u64 = 77;
const BLOG: u64 = 78;
const STAY: u64 = 300_000;

fn inside(story: &mut Story) -> SessionKey {
    story.advance(1);
    let ticket = story.join();
    story.claim(ticket).key
}

fn login(story: &mut Story, key: SessionKey, grant: u64) -> Result<Answer, Refusal> {
    login_by_code_of(story, key, grant, START)
}

fn login_by_code_of(
    story: &mut Story,
    key: SessionKey,
    grant: u64,
    issued_at: UnixMillis,
) -> Result<Answer, Refusal> {
    story.attempt(&Operation::Grant { key, grant, client: SHOP, issued_at })
}

fn refresh(story: &mut Story, key: SessionKey, grant: u64, sequence: u32) -> Result<Answer, Refusal> {
    story.attempt(&Operation::Refresh { key, grant, sequence })
}

fn session(story: &Story, key: SessionKey) -> &Session {
    &story.sessions[&key]
}

#[test]
fn a_code_is_good_once_and_its_reuse_revokes_what_it_gave() {
    let mut story = Story::manual();
    let key = inside(&mut story);
    assert!(matches!(login(&mut story, key, 1), Ok(Answer::Session(_))));
    assert_eq!(session(&story, key).grant(1), Some(&Grant::new(1, SHOP, START)));
    assert!(matches!(refresh(&mut story, key, 1, 0), Ok(Answer::Session(_))));
    assert!(matches!(login(&mut story, key, 2), Ok(Answer::Session(_))));
    assert_eq!(login(&mut story, key, 1), Ok(Answer::GrantReused));
    assert_eq!(session(&story, key).grant(1), None);
    assert_eq!(refresh(&mut story, key, 1, 1), Err(Refusal::UnknownGrant), "its refresh token is dead");
    assert_eq!(login(&mut story, key, 1), Ok(Answer::GrantReused), "it stays revoked");
    assert!(session(&story, key).grant(2).is_some(), "another login of the visit goes on");
    assert!(session(&story, key).is_alive(story.now), "and so does the visit");
}

#[test]
fn refresh_tokens_rotate_and_a_used_one_ends_the_visit() {
    let mut story = Story::max_size(1);
    let ticket = story.join();
    let key = story.claim(ticket).key;
    story.join();
    login(&mut story, key, 1).unwrap();
    for sequence in 0..3 {
        assert!(matches!(refresh(&mut story, key, 1, sequence), Ok(Answer::Session(_))));
    }
    assert_eq!(refresh(&mut story, key, 2, 0), Err(Refusal::UnknownGrant));
    assert_eq!(story.room.serving(), 1);
    assert_eq!(refresh(&mut story, key, 1, 1), Ok(Answer::GrantReused));
    assert_eq!(session(&story, key).status, SessionStatus::Ended(Outcome::Abandoned));
    assert_eq!(story.room.serving(), 2, "the slot is free");
    let request_id = session(&story, key).request_id;
    assert!(story.events.contains(&Event::SessionUpdated {
        request_id,
        visit: key,
        outcome: Outcome::Abandoned
    }));
    assert_eq!(refresh(&mut story, key, 1, 3), Err(Refusal::AlreadyEnded));
    assert_eq!(login(&mut story, key, 4), Err(Refusal::AlreadyEnded));
}

#[test]
fn a_used_refresh_token_ends_a_visit_by_cookie_on_every_node() {
    let mut story = Story::manual();
    story.spread_millis = 2_000;
    story.advance(1);
    let ticket = story.join();
    let key = story.try_claim_for(ticket, Some(STAY)).unwrap().key;
    login(&mut story, key, 1).unwrap();
    refresh(&mut story, key, 1, 0).unwrap();
    story.later(REFRESH_GRACE_MILLIS / 1_000);
    assert_eq!(refresh(&mut story, key, 1, 0), Ok(Answer::GrantReused));
    assert_eq!(session(&story, key).outcome(), Some(Outcome::Abandoned));
    assert!(!session(&story, key).is_alive(story.now));
    assert_eq!(session(&story, key).grant(1), None);
    assert_eq!(story.board().departed.iter().map(|departed| departed.key).collect::<Vec<_>>(), [key]);
}

/// Two tabs of one visitor, or a response that was lost: the first one's token is good, and nobody is thrown out.
#[test]
fn a_refresh_token_that_comes_again_at_once_is_refused_and_ends_nothing() {
    let mut story = Story::manual();
    let (key, other) = (inside(&mut story), inside(&mut story));
    login(&mut story, key, 1).unwrap();
    login(&mut story, other, 2).unwrap();
    story.later(100);
    for sequence in 0..2 {
        refresh(&mut story, key, 1, sequence).unwrap();
        let before = session(&story, key).clone();
        assert_eq!(before.grants[0].refreshed_at, story.now);
        for _ in 0..2 {
            assert_eq!(refresh(&mut story, key, 1, sequence), Err(Refusal::JustRefreshed));
        }
        story.now = story.now.plus(REFRESH_GRACE_MILLIS - 1);
        assert_eq!(refresh(&mut story, key, 1, sequence), Err(Refusal::JustRefreshed));
        assert_eq!(*session(&story, key), before, "a refusal changes nothing");
    }
    refresh(&mut story, other, 2, 0).unwrap();
    refresh(&mut story, other, 2, 1).unwrap();
    assert_eq!(refresh(&mut story, other, 2, 0), Ok(Answer::GrantReused), "at once, but older");
    refresh(&mut story, key, 1, 2).unwrap();
    story.now = story.now.plus(REFRESH_GRACE_MILLIS);
    assert_eq!(refresh(&mut story, key, 1, 2), Ok(Answer::GrantReused), "later");
    assert_eq!(session(&story, key).status, SessionStatus::Ended(Outcome::Abandoned));
}

/// A store that went back to an older copy knows fewer refreshes than its clients.
#[test]
fn a_refresh_token_that_is_newer_than_the_session_is_taken() {
    let mut story = Story::manual();
    let key = inside(&mut story);
    login(&mut story, key, 1).unwrap();
    assert!(matches!(refresh(&mut story, key, 1, 5), Ok(Answer::Session(_))));
    assert_eq!(session(&story, key).grants[0].refresh_sequence, 6);
    assert_eq!(refresh(&mut story, key, 1, u32::MAX), Err(Refusal::UnknownGrant), "there is no next one");
    assert_eq!(refresh(&mut story, key, 1, 4), Ok(Answer::GrantReused));
}

#[test]
fn a_session_remembers_a_bounded_number_of_logins_and_each_longer_than_its_code_is_good() {
    let mut story = Story::manual();
    let key = inside(&mut story);
    let most = GRANTS_MAX as u64;
    for grant in 1..=most {
        // The first is the youngest, the last the oldest.
        let issued_at = START.plus(1_000 * (most - grant));
        assert!(matches!(login_by_code_of(&mut story, key, grant, issued_at), Ok(Answer::Session(_))));
    }
    assert_eq!(login(&mut story, key, 99), Err(Refusal::TooManyGrants));
    assert_eq!(session(&story, key).grants.len(), GRANTS_MAX);
    assert_eq!(login(&mut story, key, 2), Ok(Answer::GrantReused), "a known one is found all the same");
    story.later(GRANT_KEPT_MILLIS / 1_000 - 1);
    assert_eq!(login(&mut story, key, 99), Err(Refusal::TooManyGrants));
    story.later(1);
    let now = story.now;
    assert!(matches!(login_by_code_of(&mut story, key, 99, now), Ok(Answer::Session(_))));
    assert_eq!(session(&story, key).grant(most), None, "the oldest is forgotten");
    assert_eq!(refresh(&mut story, key, most, 0), Err(Refusal::UnknownGrant));
    story.later(60);
    let now = story.now;
    assert!(matches!(login_by_code_of(&mut story, key, 100, now), Ok(Answer::Session(_))));
    let ids: Vec<u64> = session(&story, key).grants.iter().map(|grant| grant.id).collect();
    assert!(!ids.contains(&2), "a revoked one goes before older ones: {ids:?}");
    assert!(ids.contains(&(most - 1)));
    assert_eq!(ids.len(), GRANTS_MAX);
}

#[test]
fn a_client_that_logs_in_again_and_again_ends_no_login_of_another() {
    let mut story = Story::manual();
    let key = inside(&mut story);
    let login_at = |story: &mut Story, client, grant| {
        let issued_at = story.now;
        story.attempt(&Operation::Grant { key, grant, client, issued_at })
    };
    assert!(matches!(login_at(&mut story, SHOP, 1), Ok(Answer::Session(_))));
    for grant in 100..120 {
        story.later(120);
        assert!(matches!(login_at(&mut story, BLOG, grant), Ok(Answer::Session(_))));
    }
    assert_eq!(session(&story, key).grants.len(), GRANTS_MAX);
    assert!(matches!(refresh(&mut story, key, 1, 0), Ok(Answer::Session(_))), "the first client's goes on");
    assert_eq!(session(&story, key).grant(104), None, "its own oldest are forgotten");
    assert!(session(&story, key).grant(105).is_some());
    // A client without a login of its own takes the oldest.
    story.later(120);
    assert!(matches!(login_at(&mut story, 79, 200), Ok(Answer::Session(_))));
    assert_eq!(session(&story, key).grant(1), None);
}

#[test]
fn there_is_no_login_without_a_visit() {
    let mut story = Story::manual();
    let key = inside(&mut story);
    let mut stranger = key;
    stranger.position = anteroom_core::Position::new(7).unwrap();
    assert_eq!(login(&mut story, stranger, 1), Err(Refusal::UnknownSession));
    assert_eq!(refresh(&mut story, stranger, 1, 0), Err(Refusal::UnknownSession));
    login(&mut story, key, 1).unwrap();
    story.later(3_600);
    assert_eq!(login(&mut story, key, 2), Err(Refusal::AlreadyEnded));
    assert_eq!(refresh(&mut story, key, 1, 0), Err(Refusal::AlreadyEnded));
    assert_eq!(session(&story, key).grants, [Grant::new(1, SHOP, START)]);
}
