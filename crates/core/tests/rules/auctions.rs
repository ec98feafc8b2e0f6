//! The auction: each round, exactly the earliest of those present, as many as slots are free.

use anteroom_core::settings::Seconds;
use anteroom_core::{
    Answer, Discipline, InletKind, Operation, Refusal, RoomState, SessionKey, Settings, Standing, Standstill,
    Ticket, UnixMillis,
};

use super::interruption::{memory_of, mend, replica_of};
use super::story::{SECOND, START, Story};

/// So many may be inside; a round every ten seconds.
fn auction(capacity: u64) -> Story {
    let mut story = Story::with(Settings {
        inlet: InletKind::MaxSize,
        total_active_users: Some(capacity),
        discipline: Discipline::Auction,
        ..Settings::default()
    });
    story.does(Operation::Tick);
    story
}

fn key_of(ticket: Ticket) -> SessionKey {
    SessionKey { generation: ticket.generation, position: ticket.position }
}

fn open_round(story: &Story) -> UnixMillis {
    story.room.auction.as_ref().unwrap().round
}

/// Ends the open round in time.
fn settle(story: &mut Story, present: &[Ticket]) -> Vec<SessionKey> {
    let round = open_round(story);
    story.now = round;
    settle_again(story, round, present).unwrap()
}

fn settle_again(
    story: &mut Story,
    round: UnixMillis,
    present: &[Ticket],
) -> Result<Vec<SessionKey>, Refusal> {
    let present = present.iter().copied().map(key_of).collect();
    match story.attempt(&Operation::SettleRound { round, present, turned_away: false, alone: true })? {
        Answer::Won { winners } => Ok(winners),
        other => panic!("{other:?}"),
    }
}

fn keys(tickets: &[Ticket]) -> Vec<SessionKey> {
    tickets.iter().copied().map(key_of).collect()
}

/// An auction in which everybody who is there loses the first round, because its slots were taken by immediate admission.
fn full(capacity: u64, waiting: u64) -> (Story, Vec<Ticket>, Vec<Ticket>) {
    let mut story = auction(capacity);
    let inside = story.join_many(capacity);
    for &ticket in &inside {
        story.claim(ticket);
    }
    let tickets = story.join_many(waiting);
    (story, inside, tickets)
}

#[test]
fn rounds_close_on_the_grid_of_their_length() {
    let story = auction(1);
    assert_eq!(open_round(&story), START.plus(10 * SECOND));
    let mut story = Story::with((*story.room.settings).clone());
    story.now = START.plus(3_456);
    story.does(Operation::Tick);
    assert_eq!(open_round(&story), START.plus(10 * SECOND));
}

#[test]
fn exactly_the_earliest_of_those_present_win() {
    let (mut story, inside, tickets) = full(3, 10);
    for &ticket in &inside {
        story.does(Operation::Leave { ticket });
    }
    assert_eq!(settle(&mut story, &tickets), [], "what became free in this round belongs to the next");
    // The first is not there, the third has left, and the order in which they are named does not matter.
    story.does(Operation::Leave { ticket: tickets[2] });
    let present = [tickets[8], tickets[2], tickets[4], tickets[1], tickets[4], tickets[3], tickets[6]];
    let winners = settle(&mut story, &present);
    assert_eq!(winners, keys(&[tickets[1], tickets[3], tickets[4]]));
    assert_eq!((story.room.serving(), story.room.held()), (8, 3), "the highest winner");
    assert_eq!(story.try_claim(tickets[0]), Err(Refusal::NotServed));
    assert_eq!(story.try_claim(tickets[6]), Err(Refusal::NotServed));
    assert!(matches!(story.board().standing(&tickets[0], story.now), Standing::Passed));
    for index in [1, 3, 4] {
        assert!(matches!(story.board().standing(&tickets[index], story.now), Standing::Offered { .. }));
        story.claim(tickets[index]);
    }
    assert_eq!((story.room.active(), story.room.offers()), (3, 0));
}

#[test]
fn a_round_is_settled_once_and_told_again_the_same() {
    let (mut story, inside, tickets) = full(2, 6);
    for &ticket in &inside {
        story.does(Operation::Leave { ticket });
    }
    let first = open_round(&story);
    assert_eq!(settle_again(&mut story, first, &tickets), Err(Refusal::NotThisRound), "it is still open");
    settle(&mut story, &tickets);
    let round = open_round(&story);
    let winners = settle(&mut story, &tickets[1..]);
    assert_eq!(winners, keys(&tickets[1..3]));
    // Another node, with others present, is told what was decided.
    assert_eq!(settle_again(&mut story, round, &tickets), Ok(winners));
    story.claim(tickets[1]);
    assert_eq!(
        settle_again(&mut story, round, &tickets),
        Ok(keys(&tickets[2..3])),
        "who has not claimed yet"
    );
    assert_eq!(settle_again(&mut story, first, &tickets), Err(Refusal::NotThisRound));
    let next = open_round(&story).plus(10 * SECOND);
    assert_eq!(settle_again(&mut story, next, &tickets), Err(Refusal::NotThisRound));
}

#[test]
fn a_win_nobody_claims_returns_and_its_holder_keeps_the_place() {
    let (mut story, inside, tickets) = full(1, 3);
    story.does(Operation::Leave { ticket: inside[0] });
    settle(&mut story, &tickets);
    assert_eq!(settle(&mut story, &tickets), keys(&tickets[..1]));
    assert_eq!(settle(&mut story, &tickets[1..]), [], "the slot was won for this round");
    assert_eq!(story.room.offers(), 0);
    assert_eq!(story.try_claim(tickets[0]), Err(Refusal::NotServed));
    assert_eq!(settle(&mut story, &tickets), keys(&tickets[..1]), "the first ticket wins again");
    // And if nobody settles any more, a win ends with the next round.
    story.now = open_round(&story).plus(10 * SECOND);
    story.does(Operation::Tick);
    assert_eq!((story.room.offers(), story.room.counts().lapsed), (0, 0));
}

#[test]
fn a_winner_who_leaves_gives_the_slot_back() {
    let (mut story, inside, tickets) = full(1, 3);
    story.does(Operation::Leave { ticket: inside[0] });
    settle(&mut story, &tickets);
    settle(&mut story, &tickets);
    story.does(Operation::Leave { ticket: tickets[0] });
    assert_eq!((story.room.held(), story.room.waiting()), (0, 2));
    assert_eq!(story.try_claim(tickets[0]), Err(Refusal::Gone));
}

#[test]
fn slots_that_nobody_wanted_are_given_immediately() {
    let mut story = auction(3);
    let tickets = story.join_many(3);
    assert_eq!(settle(&mut story, &tickets[..1]), keys(&tickets[..1]));
    let round = story.room.auction.as_ref().unwrap();
    assert_eq!((round.free, round.spare), (2, 2));
    story.claim(tickets[2]);
    story.claim(tickets[1]);
    let late = story.join();
    assert_eq!(story.try_claim(late), Err(Refusal::NotServed), "the win is held for its winner");
    assert_eq!(story.room.held(), 3);
}

#[test]
fn a_ticket_from_before_a_restart_comes_first() {
    let (mut story, inside, old) = full(2, 3);
    story.does(Operation::OpenSegment { incarnation: 2 });
    let new = story.join_many(3);
    for &ticket in &inside {
        story.does(Operation::Leave { ticket });
    }
    let present = [new[0], new[1], old[2], old[1]];
    settle(&mut story, &present);
    assert_eq!(settle(&mut story, &present), keys(&old[1..]), "though their positions are higher");
}

#[test]
fn what_a_round_gives_away_is_frozen_and_never_above_what_is_free() {
    let (mut story, inside, tickets) = full(4, 10);
    story.does(Operation::Leave { ticket: inside[0] });
    story.does(Operation::Leave { ticket: inside[1] });
    settle(&mut story, &tickets);
    assert_eq!(story.room.auction.as_ref().unwrap().free, 2, "frozen when the round opens");
    story.does(Operation::Leave { ticket: inside[2] });
    assert_eq!(settle(&mut story, &tickets), keys(&tickets[..2]), "not what became free since");
    let (mut story, inside, tickets) = full(4, 10);
    for &ticket in &inside {
        story.does(Operation::Leave { ticket });
    }
    settle(&mut story, &tickets);
    story.change(|settings| settings.total_active_users = Some(1));
    assert_eq!(settle(&mut story, &tickets), keys(&tickets[..1]), "nor what is not free any more");
}

#[test]
fn a_pause_gives_nothing_away() {
    let (mut story, inside, tickets) = full(2, 4);
    story.does(Operation::Leave { ticket: inside[0] });
    settle(&mut story, &tickets);
    story.set(RoomState::Paused);
    assert_eq!(settle(&mut story, &tickets), []);
    assert_eq!(story.try_claim(tickets[0]), Err(Refusal::NotServed));
    story.set(RoomState::Open);
    assert_eq!(settle(&mut story, &tickets), [], "the round had opened without slots");
    assert_eq!(settle(&mut story, &tickets), keys(&tickets[..1]));
}

#[test]
fn only_rounds_move_the_frontier_of_an_auction() {
    let (mut story, ..) = full(1, 3);
    assert_eq!(story.attempt(&Operation::Advance { by: 1 }), Err(Refusal::MovedByRounds));
    assert_eq!(story.attempt(&Operation::Advance { by: -1 }), Err(Refusal::MovedByRounds));
    assert_eq!(story.board().standstill, Some(Standstill::AtCapacity));
    let mut story = Story::manual();
    let round = START.plus(10 * SECOND);
    assert_eq!(settle_again(&mut story, round, &[]), Err(Refusal::NoAuction));
}

#[test]
fn a_room_that_becomes_an_auction_gives_its_slots_to_the_earliest_not_to_the_first_who_asks() {
    let mut story = Story::max_size(2);
    let tickets = story.join_many(6);
    let inside: Vec<_> = tickets[..2].iter().map(|&ticket| story.claim(ticket)).collect();
    story.change(|settings| settings.discipline = Discipline::Auction);
    for session in &inside {
        story.close(session).unwrap();
    }
    story.later(20);
    assert_eq!(story.try_claim(tickets[5]), Err(Refusal::NotServed), "others have waited for longer");
    assert_eq!(settle(&mut story, &tickets[3..]), keys(&tickets[3..5]));
}

#[test]
fn after_a_time_without_nodes_the_earliest_win_not_the_first_who_comes_back() {
    let (mut story, inside, tickets) = full(2, 6);
    for &ticket in &inside {
        story.does(Operation::Leave { ticket });
    }
    settle(&mut story, &tickets);
    // No node runs for ten minutes: nobody settles a round.
    story.later(600);
    assert_eq!(story.try_claim(tickets[5]), Err(Refusal::NotServed));
    assert_eq!(settle(&mut story, &tickets), keys(&tickets[..2]));
}

#[test]
fn switched_back_the_counter_goes_on_where_it_was_and_forgets_nobody() {
    let mut story = Story::max_size(2);
    story.change(|settings| settings.queue_position_expiry_period = Seconds::new(600));
    let tickets = story.join_many(6);
    let inside: Vec<_> = tickets[..2].iter().map(|&ticket| story.claim(ticket)).collect();
    story.change(|settings| settings.discipline = Discipline::Auction);
    story.close(&inside[0]).unwrap();
    story.later(20);
    settle(&mut story, &tickets[4..]);
    let winner = story.claim(tickets[4]);
    story.close(&inside[1]).unwrap();
    story.later(20);
    assert_eq!(settle(&mut story, &tickets[5..]), keys(&tickets[5..]));
    story.change(|settings| settings.discipline = Discipline::Counter);
    assert_eq!((story.room.serving(), story.room.held()), (3, 2), "the one who was passed over is the next");
    assert_eq!(story.try_claim(tickets[5]), Err(Refusal::NotServed), "a win ends with the auction");
    assert_eq!(story.claim(tickets[4]), winner);
    story.claim(tickets[2]);
    story.close(&winner).unwrap();
    story.claim(tickets[3]);
}

#[test]
fn a_win_of_a_line_that_was_closed_for_good_takes_no_slot() {
    let mut primary = auction(1);
    let winner = primary.join();
    assert_eq!(settle(&mut primary, &[winner]), keys(&[winner]));
    let mut replica = replica_of(&primary);
    primary.does(Operation::Reset { incarnation: 5 });
    // The replica has forgotten that the line was closed, and is told.
    mend(&mut replica, memory_of(&primary.room));
    assert_eq!((replica.room.offers(), replica.room.waiting()), (0, 0), "nobody is there");
}
