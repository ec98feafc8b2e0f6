//! Slots that become free belong to those who were turned away, not to passers-by.

use anteroom_core::{Answer, InletKind, Operation, Outcome, Refusal, Settings, Ticket};

use super::story::{SECOND, Story};
use anteroom_core::settings::Discipline;

/// One may be inside, and one is; `turned_away` says whether others came to the round in which that changed.
fn after_a_round_without_slots(turned_away: bool) -> (Story, Vec<Ticket>) {
    let mut story = Story::with(Settings {
        inlet: InletKind::MaxSize,
        total_active_users: Some(1),
        discipline: Discipline::Auction,
        ..Settings::default()
    });
    let tickets = story.join_many(3);
    story.claim(tickets[0]);
    let key = anteroom_core::SessionKey { generation: tickets[0].generation, position: tickets[0].position };
    story.does(Operation::Close { key, outcome: Outcome::Completed });
    let round = story.room.auction.as_ref().unwrap().round;
    story.now = round;
    let settled = story.does(Operation::SettleRound { round, present: vec![], turned_away, alone: true });
    assert_eq!(settled, Answer::Won { winners: vec![] });
    (story, tickets)
}

#[test]
fn a_round_that_turned_somebody_away_leaves_no_slot_for_passers_by() {
    let (mut story, tickets) = after_a_round_without_slots(true);
    assert_eq!(
        story.try_claim(tickets[2]),
        Err(Refusal::NotServed),
        "the second in line was told to come back"
    );
    let round = story.room.auction.as_ref().unwrap().round;
    story.now = round;
    let present = [tickets[2], tickets[1]]
        .map(|ticket| anteroom_core::SessionKey { generation: ticket.generation, position: ticket.position });
    let settle = Operation::SettleRound { round, present: present.to_vec(), turned_away: false, alone: true };
    assert_eq!(story.does(settle), Answer::Won { winners: vec![present[1]] });
    story.now = story.now.plus(SECOND);
    story.claim(tickets[1]);
}

#[test]
fn where_rounds_become_shorter_the_open_one_does_too() {
    let (mut story, _) = after_a_round_without_slots(true);
    let mut settings = (*story.room.settings).clone();
    settings.round_seconds = anteroom_core::settings::ShortSeconds::new(3600).unwrap();
    story.does(Operation::reconfigure(settings.clone(), None));
    let before = story.room.auction.as_ref().unwrap().round;
    story.now = before;
    story.does(Operation::SettleRound { round: before, present: vec![], turned_away: true, alone: true });
    assert!(story.room.auction.as_ref().unwrap().round.since(story.now) > 60 * SECOND);
    settings.round_seconds = anteroom_core::settings::ShortSeconds::new(5).unwrap();
    story.does(Operation::reconfigure(settings, None));
    assert!(story.room.auction.as_ref().unwrap().round.since(story.now) <= 5 * SECOND);
}

#[test]
fn a_round_that_nobody_came_to_leaves_its_slots_to_the_next_visitors() {
    let (mut story, tickets) = after_a_round_without_slots(false);
    story.claim(tickets[2]);
}
