//! What each kind of inlet does with a line that was interrupted: the frontier goes on from where any node has seen it.

use anteroom_core::losses::MARGIN_MIN;
use anteroom_core::room::SEGMENTS_MAX;
use anteroom_core::settings::{Discipline, People, Seconds, Windows};
use anteroom_core::{
    Answer, InletKind, Operation, Refusal, Report, SessionKey, Settings, Standing, Standstill, Ticket,
};

use super::interruption::{let_everybody_through, memory_of, mend, recall, replica_of, show, ticket_of};
use super::story::Story;

fn keys(tickets: &[Ticket]) -> Vec<SessionKey> {
    let key = |ticket: &Ticket| SessionKey { generation: ticket.generation, position: ticket.position };
    tickets.iter().map(key).collect()
}

#[test]
fn manual_what_the_operator_let_run_ahead_is_owed_to_the_next_who_join() {
    let mut primary = Story::manual();
    primary.join_many(5);
    let mut replica = replica_of(&primary);
    let unseen = primary.join_many(3);
    primary.advance(12);
    mend(&mut replica, memory_of(&primary.room));
    assert_eq!(replica.room.serving(), 8 + MARGIN_MIN + 4, "twelve people, eight of whom have joined");
    for ticket in unseen {
        replica.claim(ticket);
    }
    let new = replica.join_many(5);
    for &ticket in &new[..4] {
        replica.claim(ticket);
    }
    assert_eq!(replica.try_claim(new[4]), Err(Refusal::NotServed));
}

#[test]
fn manual_an_advance_that_only_a_later_node_saw_counts_the_same() {
    let mut primary = Story::manual();
    primary.join_many(5);
    let mut replica = replica_of(&primary);
    primary.advance(9);
    mend(&mut replica, vec![]);
    let new = replica.join_many(5);
    for _ in 0..3 {
        recall(&mut replica, memory_of(&primary.room));
        assert_eq!(replica.room.segments[0].serving, 5, "as far as anybody has joined");
        assert_eq!(
            replica.room.newest().serving,
            5 + MARGIN_MIN + 4,
            "the others are owed to those who joined next"
        );
    }
    replica.claim(new[3]);
    assert_eq!(replica.try_claim(new[4]), Err(Refusal::NotServed));
    assert_eq!(replica.room.losses.offers_recalled, 9);
}

#[test]
fn manual_a_frontier_moved_back_before_the_loss_stays_where_it_was_put() {
    let mut primary = Story::manual();
    primary.join_many(10);
    primary.advance(8);
    let mut replica = replica_of(&primary);
    primary.advance(-3);
    let memory = memory_of(&primary.room);
    mend(&mut replica, memory.clone());
    recall(&mut replica, memory);
    assert!(replica.room.serving() <= 8, "nobody remembers more than eight");
}

#[test]
fn manual_by_hand_the_frontier_moves_on_through_old_and_new_lines() {
    let mut story = Story::manual();
    let old = story.join_many(3);
    mend(&mut story, vec![]);
    let new = story.join_many(3);
    story.advance(4);
    for ticket in old {
        story.claim(ticket);
    }
    story.claim(new[0]);
    assert_eq!(story.try_claim(new[1]), Err(Refusal::NotServed));
    story.advance(-1);
    story.advance(2);
    story.claim(new[1]);
    assert_eq!(story.try_claim(new[2]), Err(Refusal::NotServed));
}

/// Two people every ten seconds.
fn by_timetable(inlet: InletKind) -> Story {
    Story::with(Settings {
        inlet,
        increment_by: People::new(2).unwrap(),
        window_size: People::new(2),
        active_windows: Windows::new(3).unwrap(),
        interval_seconds: Seconds::new(10).unwrap(),
        ..Settings::default()
    })
}

#[test]
fn periodic_steps_and_windows_go_on_where_the_lost_side_was_and_pass_no_empty_numbers() {
    for inlet in [InletKind::Periodic, InletKind::Window] {
        let mut primary = by_timetable(inlet);
        let mut line = primary.join_many(4);
        let mut replica = replica_of(&primary);
        line.extend(primary.join_many(1));
        primary.later(10);
        mend(&mut replica, memory_of(&primary.room));
        line.extend(replica.join_many(4));
        assert_eq!(replica.room.serving(), 2, "{inlet:?}: the step was taken");
        replica.now = primary.now;
        for served in [2, 4, 6, 8] {
            let waits = |ticket: &&Ticket| {
                matches!(replica.board().standing(ticket, replica.now), Standing::Waiting { .. })
            };
            assert_eq!(line.iter().filter(waits).count(), line.len() - served, "{inlet:?}");
            replica.later(10);
        }
    }
}

#[test]
fn a_step_that_was_taken_on_both_sides_of_a_split_is_not_added_up() {
    let mut old_side = by_timetable(InletKind::Periodic);
    old_side.join_many(10);
    let mut new_side = replica_of(&old_side);
    mend(&mut new_side, memory_of(&old_side.room));
    old_side.later(10);
    new_side.later(10);
    recall(&mut new_side, memory_of(&old_side.room));
    assert_eq!(new_side.room.serving(), 2);
    old_side.later(10);
    recall(&mut new_side, memory_of(&old_side.room));
    assert_eq!(new_side.room.serving(), 4, "the frontier that anybody saw");
}

#[test]
fn a_periodic_frontier_ahead_of_the_tail_does_not_lose_its_step_where_there_is_no_place_for_another_line() {
    let mut story = by_timetable(InletKind::Periodic);
    for _ in 1..SEGMENTS_MAX {
        story.join();
        mend(&mut story, vec![]);
    }
    story.join();
    for _ in 0..5 {
        story.later(10);
    }
    assert_eq!(story.room.newest().serving, story.room.newest().joined + 2, "one step ahead of the tail");
    mend(&mut story, vec![]);
    let new = story.join_many(3);
    for &ticket in &new[..2] {
        story.claim(ticket);
    }
    assert_eq!(story.try_claim(new[2]), Err(Refusal::NotServed));
    story.later(10);
    story.claim(new[2]);
}

#[test]
fn max_size_never_offers_beyond_its_capacity_what_nobody_had_offered_before() {
    let mut primary = Story::max_size(3);
    let old = primary.join_many(6);
    let mut replica = replica_of(&primary);
    let session = primary.claim(old[0]);
    primary.close(&session).unwrap();
    assert_eq!(primary.room.serving(), 4);
    mend(&mut replica, memory_of(&primary.room));
    let recalled = replica.room.losses.offers_recalled;
    assert_eq!(
        (replica.room.offers(), recalled),
        (4, 1),
        "the fourth was offered on the lost side, and counted"
    );
    // From here on nothing is offered before somebody has gone.
    for taken in 1..=4 {
        replica.claim(old[taken - 1]);
        assert_eq!(replica.room.serving(), 4);
    }
    assert_eq!(replica.room.losses.offers_recalled, recalled);
}

#[test]
fn max_size_everybody_of_many_losses_comes_in_order_at_full_capacity() {
    let mut story = Story::max_size(4);
    let mut line = vec![];
    for round in 0..3 {
        line.extend(story.join_many(3));
        let mut replica = replica_of(&story);
        let unseen = story.join_many(round);
        line.extend(&unseen);
        mend(&mut replica, vec![]);
        for &ticket in unseen.iter().rev() {
            show(&mut replica, ticket).unwrap();
        }
        story = replica;
    }
    line.extend(story.join_many(5));
    assert_eq!(let_everybody_through(&mut story, &line), line);
    assert_eq!((story.room.waiting(), story.room.held()), (0, 4));
}

#[test]
fn adaptive_a_lost_side_leaves_the_capacity_as_it_was_stored() {
    let mut primary = Story::with(Settings {
        inlet: InletKind::Adaptive,
        total_active_users: Some(5),
        adaptive_floor: 2,
        ..Settings::default()
    });
    let line = primary.join_many(8);
    let report = |free| Report { reporter: "web".into(), free: Some(free), ..Report::default() };
    primary.does(Operation::Report(report(9)));
    let mut replica = replica_of(&primary);
    let capacity = replica.room.capacity();
    mend(&mut replica, memory_of(&primary.room));
    assert_eq!(replica.room.capacity(), capacity);
    assert!(replica.room.held() <= capacity.unwrap());
    replica.claim(line[0]);
}

#[test]
fn a_paused_room_stays_paused_and_offers_nothing() {
    let mut primary = Story::max_size(2);
    let tickets = primary.join_many(4);
    primary.set(anteroom_core::RoomState::Paused);
    let mut replica = replica_of(&primary);
    mend(&mut replica, memory_of(&primary.room));
    assert_eq!(replica.board().standstill, Some(Standstill::Paused));
    assert_eq!(replica.try_claim(tickets[0]), Err(Refusal::NotServed));
    replica.set(anteroom_core::RoomState::Open);
    replica.claim(tickets[0]);
}

/// Two may be inside, a round every ten seconds, and everybody who waits has lost a round.
fn auction() -> (Story, Vec<Ticket>) {
    let mut story = Story::with(Settings {
        inlet: InletKind::MaxSize,
        total_active_users: Some(2),
        discipline: Discipline::Auction,
        ..Settings::default()
    });
    let tickets = story.join_many(8);
    let [first, second] = [tickets[0], tickets[1]].map(|ticket| story.claim(ticket));
    story.close(&first).unwrap();
    story.close(&second).unwrap();
    settle(&mut story, &tickets);
    (story, tickets)
}

fn settle(story: &mut Story, present: &[Ticket]) -> Vec<SessionKey> {
    let round = story.room.auction.as_ref().unwrap().round;
    story.now = round;
    let settle = Operation::SettleRound { round, present: keys(present), turned_away: false, alone: true };
    match story.does(settle) {
        Answer::Won { winners } => winners,
        other => panic!("{other:?}"),
    }
}

#[test]
fn auction_the_highest_winner_is_remembered_and_gives_nobody_an_offer() {
    let (mut primary, tickets) = auction();
    let mut replica = replica_of(&primary);
    assert_eq!(settle(&mut primary, &tickets[5..]), keys(&tickets[5..7]));
    replica.now = primary.now;
    mend(&mut replica, memory_of(&primary.room));
    assert_eq!(
        (replica.room.serving(), replica.room.offers()),
        (7, 0),
        "seen by everybody, won by nobody here"
    );
    assert_eq!(replica.board().standing(&tickets[3], replica.now), Standing::Passed);
    assert_eq!(replica.try_claim(tickets[3]), Err(Refusal::NotServed));
}

#[test]
fn auction_a_lost_win_is_won_again_by_the_earliest() {
    let (mut primary, tickets) = auction();
    let mut replica = replica_of(&primary);
    settle(&mut primary, &tickets[5..]);
    mend(&mut replica, memory_of(&primary.room));
    let new = replica.join_many(2);
    let present = [&new[..], &tickets[5..]].concat();
    assert_eq!(settle(&mut replica, &present), keys(&tickets[5..7]), "the old line first");
    for &ticket in &tickets[5..7] {
        replica.claim(ticket);
    }
    assert_eq!(replica.room.held(), 2);
}

#[test]
fn auction_a_lost_claim_takes_a_slot_until_it_has_ended() {
    let (mut primary, tickets) = auction();
    let mut replica = replica_of(&primary);
    settle(&mut primary, &tickets[2..4]);
    primary.claim(tickets[2]);
    primary.claim(tickets[3]);
    replica.now = primary.now;
    mend(&mut replica, memory_of(&primary.room));
    assert_eq!((replica.room.losses.phantoms, replica.room.held()), (2, 2));
    replica.later(1);
    assert_eq!(settle(&mut replica, &tickets[4..]), []);
    assert_eq!(settle(&mut replica, &tickets[4..]), [], "nothing is free");
    replica.later(3_600);
    settle(&mut replica, &tickets[4..]);
    assert_eq!(settle(&mut replica, &tickets[4..]), keys(&tickets[4..6]));
}

#[test]
fn auction_a_line_given_back_makes_no_offers_to_those_whom_winners_passed() {
    let (mut story, tickets) = auction();
    let lost = anteroom_core::Generation { opened: tickets[0].generation.opened - 50, incarnation: 2 };
    story.room.losses.honours_after = Some(anteroom_core::Generation { opened: 0, incarnation: 0 });
    let line = anteroom_core::losses::Line {
        generation: lost,
        base: 0,
        joined: 40,
        serving: 30,
        floor: 0,
        claimed: 4,
        inside: 0,
    };
    recall(&mut story, vec![line]);
    assert_eq!(story.room.offers(), 0);
    let old = [ticket_of(lost, 12), ticket_of(lost, 35)];
    assert_eq!(story.board().standing(&old[0], story.now), Standing::Passed);
    let present = [&tickets[2..], &old[..]].concat();
    assert_eq!(settle(&mut story, &present), keys(&old), "the oldest line first");
}
