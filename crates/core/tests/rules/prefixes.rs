//! How much of a capacity the visitors of one address prefix hold while others wait.

use anteroom_core::prefixes::DEFERRED_MAX;
use anteroom_core::session::STAY_GRACE_MILLIS;
use anteroom_core::settings::Percent;
use anteroom_core::{
    Answer, Claim, Mover, Operation, PlaceStatus, PrefixTag, Refusal, RequestId, Session, SessionKey,
    SessionStatus, Standing, Ticket,
};

use super::story::{SECOND, Story};

const STAY: u64 = 300 * SECOND + STAY_GRACE_MILLIS;

fn tag(number: u16) -> PrefixTag {
    PrefixTag::new(number).unwrap()
}

fn key(ticket: &Ticket) -> SessionKey {
    SessionKey { generation: ticket.generation, position: ticket.position }
}

/// A claim by a visitor from there.
fn claim_from(story: &mut Story, ticket: Ticket, prefix: u16) -> Result<Answer, Refusal> {
    story.attempt(&Operation::Claim(Claim {
        ticket,
        request_id: RequestId(u128::from(ticket.position.get()).to_be_bytes()),
        issuer: "https://issuer.example".into(),
        validity_seconds: None,
        key_id: "key".into(),
        stay_millis: Some(STAY),
        prefix: Some(tag(prefix)),
    }))
}

#[track_caller]
fn enters(story: &mut Story, ticket: Ticket, prefix: u16) -> Session {
    match claim_from(story, ticket, prefix) {
        Ok(Answer::Claimed { session, .. }) => session,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn is_deferred(story: &mut Story, ticket: Ticket, prefix: u16) {
    assert_eq!(claim_from(story, ticket, prefix), Ok(Answer::Deferred));
}

fn visits_from(story: &Story, prefix: u16) -> u64 {
    story.room.visits_by_prefix.get(&tag(prefix)).copied().unwrap_or(0)
}

#[test]
fn while_others_wait_one_prefix_holds_its_share_and_the_line_goes_on_behind_it() {
    let mut story = Story::max_size(8);
    let crowd: Vec<Ticket> = (0..10).map(|_| story.join()).collect();
    let others: Vec<Ticket> = (0..7).map(|_| story.join()).collect();
    assert_eq!(story.room.offers(), 8);
    for ticket in &crowd[..2] {
        enters(&mut story, *ticket, 7);
    }
    for ticket in &crowd[2..8] {
        is_deferred(&mut story, *ticket, 7);
        let standing = story.board().standing(ticket, story.now);
        assert_eq!(standing, Standing::Waiting { people_ahead: 0 }, "the place is kept");
        let inspected = story.attempt(&Operation::Inspect { ticket: *ticket });
        assert_eq!(inspected, Ok(Answer::Place(PlaceStatus::Waiting)));
    }
    // The slots went on at once: to the two behind, who are of the same prefix, and then to the others.
    for ticket in &crowd[8..] {
        is_deferred(&mut story, *ticket, 7);
    }
    let inside: Vec<Session> =
        others[..6].iter().zip(100..).map(|(ticket, prefix)| enters(&mut story, *ticket, prefix)).collect();
    assert_eq!((visits_from(&story, 7), story.room.held(), story.room.waiting()), (2, 8, 9));
    assert_eq!(claim_from(&mut story, others[6], 200), Err(Refusal::NotServed), "it is full");
    // A slot of others goes to others.
    story.close(&inside[0]).unwrap();
    assert_eq!(story.room.offers(), 1);
    is_deferred(&mut story, crowd[2], 7);
    let last = enters(&mut story, others[6], 200);
    // Nobody else waits: the prefix has what is free, the earliest first.
    story.close(&inside[1]).unwrap();
    assert_eq!(story.board().standing(&crowd[3], story.now), Standing::Waiting { people_ahead: 0 });
    assert!(matches!(story.board().standing(&crowd[2], story.now), Standing::Offered { .. }));
    enters(&mut story, crowd[2], 7);
    story.close(&last).unwrap();
    enters(&mut story, crowd[3], 7);
    assert_eq!((visits_from(&story, 7), story.room.held()), (4, 8));
}

#[test]
fn a_deferred_visitor_is_the_next_when_a_visit_of_the_prefix_ends() {
    let mut story = Story::max_size(8);
    let crowd: Vec<Ticket> = (0..4).map(|_| story.join()).collect();
    let others: Vec<Ticket> = (0..9).map(|_| story.join()).collect();
    let first = enters(&mut story, crowd[0], 7);
    enters(&mut story, crowd[1], 7);
    is_deferred(&mut story, crowd[2], 7);
    is_deferred(&mut story, crowd[3], 7);
    for (ticket, prefix) in others[..6].iter().zip(100..) {
        enters(&mut story, *ticket, prefix);
    }
    assert_eq!(story.room.held(), 8);
    story.close(&first).unwrap();
    assert!(
        matches!(story.board().standing(&crowd[2], story.now), Standing::Offered { .. }),
        "before those behind"
    );
    assert_eq!(story.room.held(), 8);
    enters(&mut story, crowd[2], 7);
    assert_eq!((visits_from(&story, 7), story.room.deferred.len()), (2, 1));
}

#[test]
fn a_prefix_that_took_everything_while_nobody_waited_is_not_prolonged_beyond_its_share() {
    let mut story = Story::max_size(8);
    let sessions: Vec<Session> = (0..8)
        .map(|_| {
            let ticket = story.join();
            enters(&mut story, ticket, 7)
        })
        .collect();
    assert_eq!(visits_from(&story, 7), 8, "nobody else wants them");
    story.later(100);
    let touch = |story: &mut Story, session: &Session| match story
        .attempt(&Operation::Touch { key: session.key, stay_millis: STAY })
    {
        Ok(Answer::Session(session)) => session.ends_at(),
        other => panic!("{other:?}"),
    };
    for session in &sessions {
        assert!(touch(&mut story, session) > session.ends_at(), "still nobody waits");
    }
    let other = story.join();
    story.later(100);
    let before: Vec<_> = sessions.iter().map(|session| story.sessions[&session.key].ends_at()).collect();
    for (session, before) in sessions.iter().zip(&before) {
        assert_eq!(touch(&mut story, session), *before, "what was promised is kept, and no more");
    }
    let ends_in = before[0].since(story.now) / SECOND;
    story.later(ends_in + 1);
    assert_eq!(visits_from(&story, 7), 0);
    enters(&mut story, other, 8);
}

#[test]
fn a_place_that_has_moved_and_is_deferred_is_still_that_of_the_newer_device() {
    let mut story = Story::max_size(4);
    let tickets: Vec<Ticket> = (0..7).map(|_| story.join()).collect();
    let moving = Operation::Move { ticket: tickets[2], by: Mover::UNNAMED };
    assert!(story.attempt(&moving).is_ok());
    let moved = Ticket { copy: 1, ..tickets[2] };
    story.later(1);
    for ticket in &tickets[..2] {
        enters(&mut story, *ticket, 7);
    }
    is_deferred(&mut story, moved, 7);
    // The floor has passed it.
    enters(&mut story, tickets[3], 8);
    assert!(story.room.segments[0].floor >= 3);
    assert_eq!(story.attempt(&Operation::Leave { ticket: tickets[2] }), Err(Refusal::Moved));
    assert!(story.room.deferred.contains_key(&key(&moved)));
}

#[test]
fn a_deferred_place_can_be_left_lapses_and_does_not_move() {
    let mut story = Story::max_size(4);
    let crowd: Vec<Ticket> = (0..6).map(|_| story.join()).collect();
    let _others: Vec<Ticket> = (0..4).map(|_| story.join()).collect();
    let first = enters(&mut story, crowd[0], 7);
    enters(&mut story, crowd[1], 7);
    is_deferred(&mut story, crowd[2], 7);
    is_deferred(&mut story, crowd[3], 7);
    let waiting = story.room.waiting();
    assert_eq!(story.attempt(&Operation::Leave { ticket: crowd[2] }), Ok(Answer::Done));
    assert_eq!((story.room.waiting(), story.room.counts().left), (waiting - 1, 1));
    assert_eq!(claim_from(&mut story, crowd[2], 7), Err(Refusal::Gone));
    assert_eq!(story.attempt(&Operation::Leave { ticket: crowd[2] }), Err(Refusal::Gone));
    story.close(&first).unwrap();
    assert!(matches!(story.board().standing(&crowd[3], story.now), Standing::Offered { .. }));
    let lapsed = story.room.counts().lapsed;
    story.later(120);
    assert!(story.room.counts().lapsed > lapsed);
    assert_eq!(claim_from(&mut story, crowd[3], 7), Err(Refusal::Gone));
    assert!(story.room.deferred.is_empty());
}

#[test]
fn where_the_share_is_everything_or_there_is_no_capacity_nobody_is_deferred() {
    let mut story = Story::max_size(4);
    story.change(|settings| settings.visits_per_prefix_share = Percent::new(100).unwrap());
    let tickets: Vec<Ticket> = (0..6).map(|_| story.join()).collect();
    for ticket in &tickets[..4] {
        enters(&mut story, *ticket, 7);
    }
    let mut story = Story::manual();
    let tickets: Vec<Ticket> = (0..6).map(|_| story.join()).collect();
    story.advance(4);
    for ticket in &tickets[..4] {
        enters(&mut story, *ticket, 7);
    }
}

#[test]
fn deferred_places_are_bounded_and_those_beyond_keep_their_offers_until_they_lapse() {
    let mut story = Story::max_size(4);
    let tickets: Vec<Ticket> = (0..DEFERRED_MAX + 20).map(|_| story.join()).collect();
    for ticket in &tickets[..2] {
        enters(&mut story, *ticket, 7);
    }
    for ticket in &tickets[2..DEFERRED_MAX + 2] {
        is_deferred(&mut story, *ticket, 7);
    }
    assert_eq!(claim_from(&mut story, tickets[DEFERRED_MAX + 2], 7), Err(Refusal::NotServed));
    assert_eq!(story.room.held(), 4);
    story.later(120);
    assert_eq!(claim_from(&mut story, tickets[DEFERRED_MAX + 2], 7), Err(Refusal::Gone));
    assert_eq!(story.room.deferred.len(), DEFERRED_MAX);
}

/// Random plays: whatever happens, nothing is held beyond the capacity, figures add up, and no prefix gets a slot beyond its
/// share while others wait.
#[test]
fn random_plays_never_exceed_the_capacity_or_a_share() {
    let mut state = 20_261_118_u64;
    let mut below = |most: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap() % most
    };
    for _ in 0..60 {
        let mut story = Story::max_size(8);
        let (mut tickets, mut sessions): (Vec<Ticket>, Vec<Session>) = (vec![], vec![]);
        for _ in 0..300 {
            match below(10) {
                0..=2 => tickets.push(story.join()),
                3..=6 if !tickets.is_empty() => {
                    let (ticket, prefix) = (tickets[below(tickets.len())], u16::try_from(below(3)).unwrap());
                    let others = story.room.waiting()
                        - story.room.deferred.values().filter(|place| place.prefix == tag(prefix)).count()
                            as u64;
                    let was_offered = story.room.deferred.get(&key(&ticket)).is_some();
                    let before = visits_from(&story, prefix);
                    if let Ok(Answer::Claimed { session, begun: true }) =
                        claim_from(&mut story, ticket, prefix)
                    {
                        assert!(was_offered || others <= 1 || before < 2, "{before} visits, {others} others");
                        sessions.push(session);
                    }
                }
                7 if !sessions.is_empty() => {
                    let session = sessions.swap_remove(below(sessions.len()));
                    let _ = story.close(&session);
                }
                8 if !tickets.is_empty() => {
                    let ticket = tickets[below(tickets.len())];
                    let _ = story.attempt(&Operation::Leave { ticket });
                }
                _ => story.later(u64::try_from(below(90)).unwrap()),
            }
            assert!(story.room.held() <= 8, "{} held", story.room.held());
            let inside: u64 = story.room.visits_by_prefix.values().sum();
            let active = story.sessions.values().filter(|session| session.status == SessionStatus::Active);
            assert_eq!(inside, active.count() as u64);
            assert!(story.room.deferred.len() as u64 <= story.room.waiting());
        }
    }
}
