//! Rounds of an auction told by several nodes: all who came to any of them are considered, and the round is settled once, half a
//! second after its end.

use std::collections::BTreeSet;

use anteroom_core::auction::COLLECTING_MILLIS;
use anteroom_core::{
    Answer, Discipline, InletKind, Operation, Refusal, SessionKey, Settings, Ticket, UnixMillis,
};

use super::interruption::ORDERS;
use super::story::{SECOND, Story};

const ROUND_SECONDS: u64 = 10;

/// So many slots are free in the round that is open, and so many people wait.
fn auction(free: u64, waiting: u64) -> (Story, Vec<Ticket>) {
    let mut story = Story::with(Settings {
        inlet: InletKind::MaxSize,
        total_active_users: Some(free),
        discipline: Discipline::Auction,
        ..Settings::default()
    });
    let tickets = story.join_many(waiting);
    let first = story.room.auction.as_ref().unwrap().round;
    // A round that turned somebody away leaves nothing to passers-by.
    story.now = first;
    story.does(Operation::SettleRound { round: first, present: vec![], turned_away: true, alone: true });
    assert_eq!(story.room.auction.as_ref().unwrap().free, free);
    (story, tickets)
}

fn open_round(story: &Story) -> UnixMillis {
    story.room.auction.as_ref().unwrap().round
}

fn keys(tickets: &[Ticket]) -> Vec<SessionKey> {
    let key = |ticket: &Ticket| SessionKey { generation: ticket.generation, position: ticket.position };
    tickets.iter().map(key).collect()
}

/// One node tells who came to it.
fn tell(story: &mut Story, round: UnixMillis, present: &[Ticket]) -> Result<Answer, Refusal> {
    tell_all(story, round, present, false)
}

fn tell_all(
    story: &mut Story,
    round: UnixMillis,
    present: &[Ticket],
    turned_away: bool,
) -> Result<Answer, Refusal> {
    story.attempt(&Operation::SettleRound { round, present: keys(present), turned_away, alone: false })
}

/// The round is over; half a second later it is settled by itself.
fn settle(story: &mut Story, round: UnixMillis) -> Vec<SessionKey> {
    story.now = story.now.max(round.plus(COLLECTING_MILLIS));
    story.does(Operation::Tick);
    winners(story)
}

fn winners(story: &Story) -> Vec<SessionKey> {
    story.room.auction.as_ref().unwrap().wins.iter().copied().collect()
}

#[test]
fn the_earliest_of_all_who_came_to_any_node_win_whichever_reports_first() {
    for order in ORDERS {
        let (mut story, tickets) = auction(3, 12);
        let nodes = [&tickets[7..10], &[tickets[11], tickets[4], tickets[2]], &[tickets[10], tickets[5]]];
        let round = open_round(&story);
        story.now = round;
        for node in order {
            assert_eq!(tell(&mut story, round, nodes[node]), Ok(Answer::Collected));
        }
        assert_eq!(story.room.offers(), 0, "nobody has won yet");
        assert_eq!(settle(&mut story, round), keys(&[tickets[2], tickets[4], tickets[5]]), "{order:?}");
        assert_eq!(story.room.held(), 3);
    }
}

#[test]
fn every_way_of_spreading_people_over_three_nodes_has_the_same_winners() {
    let (story, tickets) = auction(2, 6);
    let round = open_round(&story);
    for spread in 0..3usize.pow(6) {
        let mut story = Story {
            room: story.room.clone(),
            now: round,
            sessions: story.sessions.clone(),
            events: vec![],
            spread_millis: 0,
        };
        for node in 0..3 {
            let here: Vec<Ticket> = (0..6u32)
                .filter(|&index| spread / 3usize.pow(index) % 3 == node)
                .map(|index| tickets[index as usize])
                .collect();
            tell(&mut story, round, &here).unwrap();
        }
        assert_eq!(settle(&mut story, round), keys(&tickets[..2]), "{spread}");
    }
}

#[test]
fn telling_again_changes_nothing() {
    let (mut story, tickets) = auction(2, 6);
    let round = open_round(&story);
    story.now = round;
    tell(&mut story, round, &tickets[2..4]).unwrap();
    let once = story.room.clone();
    tell(&mut story, round, &tickets[2..4]).unwrap();
    tell(&mut story, round, &tickets[3..4]).unwrap();
    assert_eq!(story.room, once);
    let won = settle(&mut story, round);
    let settled = story.room.clone();
    for _ in 0..3 {
        let told = tell(&mut story, round, &tickets);
        assert_eq!(told, Ok(Answer::Won { winners: won.clone() }), "what was decided");
    }
    assert_eq!(story.room, settled);
}

#[test]
fn a_round_is_settled_once_and_at_its_time() {
    let (mut story, tickets) = auction(2, 6);
    let round = open_round(&story);
    story.now = round;
    tell(&mut story, round, &tickets[..3]).unwrap();
    assert_eq!(story.room.next_due(), Some(round.plus(COLLECTING_MILLIS)));
    story.now = round.plus(COLLECTING_MILLIS - 1);
    story.does(Operation::Tick);
    assert_eq!(winners(&story), []);
    story.now = round.plus(COLLECTING_MILLIS);
    story.does(Operation::Tick);
    assert_eq!(winners(&story), keys(&tickets[..2]));
    let auction = story.room.auction.clone().unwrap();
    assert_eq!((auction.settled, auction.round), (round, round.plus(ROUND_SECONDS * SECOND)));
    for seconds in 1..ROUND_SECONDS {
        story.now = round.plus(seconds * SECOND);
        story.does(Operation::Tick);
        assert_eq!(story.room.auction.as_ref(), Some(&auction), "nothing until the next one");
    }
}

#[test]
fn nobody_tells_before_the_round_is_over_nor_after_the_next_one() {
    let (mut story, tickets) = auction(2, 6);
    let round = open_round(&story);
    story.now = UnixMillis(round.0 - 1);
    assert_eq!(tell(&mut story, round, &tickets), Err(Refusal::NotThisRound));
    story.now = round;
    tell(&mut story, round, &tickets[..1]).unwrap();
    settle(&mut story, round);
    let next = open_round(&story);
    story.now = next;
    tell(&mut story, next, &tickets[1..2]).unwrap();
    settle(&mut story, next);
    assert_eq!(tell(&mut story, round, &tickets), Err(Refusal::NotThisRound));
}

#[test]
fn a_node_that_tells_too_late_hears_who_has_won() {
    let (mut story, tickets) = auction(2, 6);
    let round = open_round(&story);
    story.now = round;
    tell(&mut story, round, &tickets[3..6]).unwrap();
    settle(&mut story, round);
    let late = tell(&mut story, round, &tickets[..2]);
    assert_eq!(late, Ok(Answer::Won { winners: keys(&tickets[3..5]) }));
    assert_eq!(story.try_claim(tickets[0]), Err(Refusal::NotServed));
    for expected in [&[], &tickets[..2]] {
        // One round long the slots belong to those who have won.
        let next = open_round(&story);
        story.now = next;
        tell(&mut story, next, &tickets[3..4]).unwrap();
        tell(&mut story, next, &tickets[..2]).unwrap();
        assert_eq!(settle(&mut story, next), keys(expected), "they are the earliest");
    }
}

#[test]
fn where_nobody_tells_anything_the_round_ends_without_winners() {
    let (mut story, tickets) = auction(2, 6);
    let round = open_round(&story);
    story.now = round.plus(COLLECTING_MILLIS);
    story.does(Operation::Tick);
    assert_eq!((winners(&story), open_round(&story)), (vec![], round), "somebody may still tell");
    tell(&mut story, round, &tickets[4..]).unwrap();
    assert_eq!(winners(&story), keys(&tickets[4..]), "then it is time at once");
    let (mut story, tickets) = auction(2, 6);
    story.now = round.plus(ROUND_SECONDS * SECOND);
    story.does(Operation::Tick);
    assert_eq!(tell(&mut story, round, &tickets), Err(Refusal::NotThisRound));
    assert_eq!(open_round(&story), round.plus(2 * ROUND_SECONDS * SECOND));
}

#[test]
fn nodes_to_which_nobody_came_settle_the_round_for_nobody() {
    let (mut story, tickets) = auction(2, 6);
    let round = open_round(&story);
    story.now = round;
    tell(&mut story, round, &[]).unwrap();
    tell(&mut story, round, &[]).unwrap();
    assert_eq!(settle(&mut story, round), []);
    assert_eq!(story.room.auction.as_ref().unwrap().spare, 2, "the next who come are admitted immediately");
    story.claim(tickets[5]);
}

#[test]
fn slots_are_left_to_passers_by_only_if_no_node_turned_anybody_away() {
    for (turned_away, spare) in [([false, false], 1), ([true, false], 0), ([false, true], 0)] {
        let (mut story, tickets) = auction(2, 6);
        let round = open_round(&story);
        story.now = round;
        tell_all(&mut story, round, &tickets[..1], turned_away[0]).unwrap();
        tell_all(&mut story, round, &[], turned_away[1]).unwrap();
        settle(&mut story, round);
        assert_eq!(story.room.auction.as_ref().unwrap().spare, spare, "{turned_away:?}");
    }
    // Two nodes with two people each: together more than could win, though neither knew.
    let (mut story, tickets) = auction(3, 6);
    let round = open_round(&story);
    story.now = round;
    tell(&mut story, round, &tickets[..2]).unwrap();
    tell(&mut story, round, &tickets[2..4]).unwrap();
    assert_eq!(settle(&mut story, round), keys(&tickets[..3]));
    story.does(Operation::Leave { ticket: tickets[0] });
    assert_eq!(story.try_claim(tickets[5]), Err(Refusal::NotServed), "the fourth was turned away");
}

#[test]
fn those_who_cannot_win_do_not_displace_those_who_can() {
    let (mut story, tickets) = auction(2, 8);
    story.does(Operation::Leave { ticket: tickets[0] });
    let round = open_round(&story);
    story.now = round;
    let strangers: Vec<Ticket> = (0..50)
        .map(|opened| super::interruption::ticket_of(anteroom_core::Generation { opened, incarnation: 1 }, 1))
        .collect();
    tell(&mut story, round, &[tickets[0], tickets[6]]).unwrap();
    tell(&mut story, round, &strangers).unwrap();
    tell(&mut story, round, &tickets[3..5]).unwrap();
    assert_eq!(settle(&mut story, round), keys(&tickets[3..5]));
}

#[test]
fn no_more_people_are_noted_than_can_win() {
    let (mut story, tickets) = auction(2, 200);
    let round = open_round(&story);
    story.now = round;
    for node in tickets[100..].chunks(10).rev() {
        tell(&mut story, round, node).unwrap();
        let noted = story.room.auction.as_ref().unwrap().collected.clone().unwrap();
        assert!(noted.present.len() <= 2);
    }
    let noted = story.room.auction.as_ref().unwrap().collected.clone().unwrap();
    assert_eq!(noted.present, keys(&tickets[100..102]).into_iter().collect::<BTreeSet<_>>());
    assert!(noted.turned_away);
}

#[test]
fn a_round_that_was_told_is_settled_although_everybody_slept_through_the_next() {
    let (mut story, tickets) = auction(2, 6);
    let round = open_round(&story);
    story.now = round;
    tell(&mut story, round, &tickets[1..4]).unwrap();
    story.now = round.plus(25 * SECOND);
    story.does(Operation::Tick);
    assert_eq!(winners(&story), keys(&tickets[1..3]));
    let auction = story.room.auction.clone().unwrap();
    assert_eq!((auction.settled, auction.round), (round, round.plus(30 * SECOND)));
    assert_eq!(story.room.held(), 2);
    story.claim(tickets[1]);
    // The rounds in between are over and gone.
    for missed in [ROUND_SECONDS, 2 * ROUND_SECONDS] {
        assert_eq!(tell(&mut story, round.plus(missed * SECOND), &tickets), Err(Refusal::NotThisRound));
    }
}

#[test]
fn a_win_is_kept_until_the_next_round_is_settled_not_only_until_it_closes() {
    let (mut story, tickets) = auction(1, 4);
    let round = open_round(&story);
    story.now = round;
    tell(&mut story, round, &tickets[..2]).unwrap();
    settle(&mut story, round);
    let next = open_round(&story);
    story.now = next.plus(COLLECTING_MILLIS / 2);
    tell(&mut story, next, &tickets[1..]).unwrap();
    story.claim(tickets[0]);
    assert_eq!(settle(&mut story, next), [], "the slot is taken");
    assert_eq!(story.room.held(), 1);
}

#[test]
fn who_leaves_while_others_are_waited_for_does_not_win() {
    let (mut story, tickets) = auction(1, 4);
    let round = open_round(&story);
    story.now = round;
    tell(&mut story, round, &tickets[..1]).unwrap();
    story.does(Operation::Leave { ticket: tickets[0] });
    assert_eq!(settle(&mut story, round), []);
    assert_eq!(story.room.held(), 0);
}

#[test]
fn a_pause_or_another_discipline_ends_what_was_collected() {
    let (mut story, tickets) = auction(2, 6);
    let round = open_round(&story);
    story.now = round;
    tell(&mut story, round, &tickets[..2]).unwrap();
    story.set(anteroom_core::RoomState::Paused);
    assert_eq!(settle(&mut story, round), [], "a pause gives nothing away");
    let (mut story, tickets) = auction(2, 6);
    story.now = round;
    tell(&mut story, round, &tickets[..2]).unwrap();
    story.change(|settings| settings.discipline = Discipline::Counter);
    assert_eq!(tell(&mut story, round, &tickets), Err(Refusal::NoAuction));
    assert_ne!(story.room.next_due(), Some(round.plus(COLLECTING_MILLIS)));
    story.claim(tickets[1]);
}

#[test]
fn shorter_rounds_do_not_settle_what_was_collected_twice() {
    let (mut story, tickets) = auction(2, 6);
    let round = open_round(&story);
    story.now = round;
    tell(&mut story, round, &tickets[..2]).unwrap();
    story.change(|settings| settings.round_seconds = anteroom_core::settings::ShortSeconds::new(1).unwrap());
    assert_eq!(open_round(&story), round, "it is over, and only waits to be settled");
    assert_eq!(settle(&mut story, round), keys(&tickets[..2]));
    assert_eq!(open_round(&story), round.plus(SECOND));
}
