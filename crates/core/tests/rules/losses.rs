//! A store that has lost something: what it acknowledged is never handed out again, those who waited keep their turn, and nobody
//! is let in twice for the same slot.

use anteroom_core::losses::{Line, MARGIN_MIN, Mend};
use anteroom_core::room::SEGMENTS_MAX;
use anteroom_core::{Answer, MovedPlaces, Mover, Operation, Refusal, Standing, Standstill, Ticket};

use super::interruption::{
    ORDERS, let_everybody_through, memory_of, mend, mend_without_sessions, recall, replica_of, show,
    ticket_of,
};
use super::story::Story;

#[test]
fn a_new_line_begins_beyond_everything_remembered_and_a_margin() {
    let mut primary = Story::manual();
    primary.join_many(10);
    let mut replica = replica_of(&primary);
    primary.join_many(5);
    let (old, epoch) = (replica.room.newest().generation, replica.room.epoch);
    let new = mend(&mut replica, memory_of(&primary.room));
    assert!(new > old);
    assert_eq!(replica.room.segments[0].joined, 15, "those five have tickets that the replica never saw");
    assert_eq!(replica.join().position.get(), 15 + MARGIN_MIN + 1);
    assert_eq!((replica.room.epoch, replica.room.waiting()), (epoch + 1, 16), "numbers left out are nobody");
}

#[test]
fn where_nobody_remembers_anything_the_stored_line_counts() {
    let mut replica = Story::manual();
    let old = replica.join_many(10);
    mend(&mut replica, vec![]);
    assert_eq!(replica.join().position.get(), 10 + MARGIN_MIN + 1);
    assert_eq!(replica.room.segments.len(), 2);
    replica.advance(10);
    for ticket in old {
        replica.claim(ticket);
    }
}

#[test]
fn nobody_ahead_is_counted_for_the_numbers_left_out() {
    let mut replica = Story::manual();
    replica.join_many(10);
    mend(&mut replica, vec![]);
    let ticket = replica.join_many(2)[1];
    assert_eq!(replica.board().standing(&ticket, replica.now), Standing::Waiting { people_ahead: 11 });
}

#[test]
fn tickets_of_both_sides_are_served_in_order_and_numbers_left_out_take_no_slot() {
    let mut primary = Story::max_size(3);
    let mut line = primary.join_many(7);
    let mut replica = replica_of(&primary);
    line.extend(primary.join_many(4));
    mend(&mut replica, memory_of(&primary.room));
    line.extend(replica.join_many(5));
    assert_eq!(let_everybody_through(&mut replica, &line), line);
    assert_eq!((replica.room.waiting(), replica.room.active()), (0, 3));
}

#[test]
fn the_frontier_does_not_go_back_to_what_the_replica_had_seen() {
    let mut primary = Story::manual();
    let tickets = primary.join_many(20);
    primary.advance(4);
    let mut replica = replica_of(&primary);
    primary.advance(8);
    mend(&mut replica, memory_of(&primary.room));
    assert_eq!(replica.room.serving(), 12);
    assert_eq!(replica.room.offers(), 12);
    replica.claim(tickets[11]);
    assert_eq!(replica.try_claim(tickets[12]), Err(Refusal::NotServed));
}

#[test]
fn a_node_that_comes_later_raises_what_the_first_one_did_not_know() {
    let mut primary = Story::manual();
    primary.join_many(10);
    let mut replica = replica_of(&primary);
    primary.join_many(10);
    let early = memory_of(&primary.room);
    let late_tickets = primary.join_many(10);
    primary.advance(25);
    let late = memory_of(&primary.room);
    let new = mend(&mut replica, early);
    recall(&mut replica, late);
    assert_eq!((replica.room.segments[0].joined, replica.room.segments[0].serving), (30, 25));
    assert_eq!(replica.room.newest().generation, new, "nothing else was opened");
    replica.claim(late_tickets[4]);
    assert_eq!(replica.try_claim(late_tickets[5]), Err(Refusal::NotServed));
}

#[test]
fn a_line_that_still_grows_is_not_raised_by_anybodys_memory() {
    let mut story = Story::manual();
    story.join_many(3);
    let before = story.room.clone();
    let wrong =
        memory_of(&before).into_iter().map(|line| Line { joined: 50, serving: 40, claimed: 9, ..line });
    recall(&mut story, wrong.collect());
    assert_eq!(story.room, before);
}

#[test]
fn a_repair_names_the_line_that_goes_on_where_the_lost_one_filled_the_room() {
    let mut primary = Story::manual();
    for incarnation in 1..u8::try_from(SEGMENTS_MAX).unwrap() - 1 {
        primary.join();
        primary.does(Operation::OpenSegment { incarnation });
    }
    primary.join();
    let mut replica = replica_of(&primary);
    primary.does(Operation::OpenSegment { incarnation: 9 });
    let lost = primary.join();
    assert_eq!(mend(&mut replica, memory_of(&primary.room)), lost.generation);
    assert!(replica.join().position > lost.position);
}

#[test]
fn nobody_is_let_in_by_a_memory_of_a_frontier_ahead_while_everybody_is_to_wait() {
    let mut primary = Story::manual();
    primary.advance(3);
    let mut replica = replica_of(&primary);
    mend(&mut replica, vec![]);
    replica.change(|settings| settings.queue_all = true);
    recall(&mut replica, memory_of(&primary.room));
    replica.join_many(2);
    assert_eq!((replica.room.offers(), replica.room.waiting()), (0, 2));
}

#[test]
fn telling_the_same_again_changes_nothing() {
    let mut primary = Story::max_size(4);
    primary.join_many(6);
    let mut replica = replica_of(&primary);
    let tickets = primary.join_many(3);
    primary.advance(2);
    let served = ticket_of(tickets[0].generation, 5);
    primary.claim(served);
    let memory = memory_of(&primary.room);
    mend(&mut replica, vec![]);
    recall(&mut replica, memory.clone());
    let once = replica.room.clone();
    assert_eq!((once.segments[0].joined, once.losses.phantoms), (9, 1));
    recall(&mut replica, memory.clone());
    recall(&mut replica, memory);
    assert_eq!(replica.room, once);
}

#[test]
fn nodes_may_tell_what_they_remember_in_any_order() {
    let mut primary = Story::max_size(5);
    let tickets = primary.join_many(8);
    let replica = replica_of(&primary);
    let memories: Vec<_> = (0..3)
        .map(|round: usize| {
            primary.join_many(round as u64 + 1);
            let session = primary.claim(tickets[round]);
            primary.close(&session).unwrap();
            memory_of(&primary.room)
        })
        .collect();
    let ends = ORDERS.map(|order| {
        let mut replica = replica_of(&replica);
        mend(&mut replica, vec![]);
        for &node in &order {
            recall(&mut replica, memories[node].clone());
        }
        replica.room
    });
    assert_eq!((ends[0].segments[0].joined, ends[0].segments[0].serving), (14, 8));
    assert_eq!(ends[0].losses.phantoms, 3, "the most that anybody remembers, not the sum");
    assert!(ends.iter().all(|end| end == &ends[0]));
}

#[test]
fn a_lost_claim_counts_as_a_visitor_until_the_pass_has_ended() {
    let mut primary = Story::max_size(2);
    let tickets = primary.join_many(4);
    let mut replica = replica_of(&primary);
    primary.claim(tickets[0]);
    primary.claim(tickets[1]);
    mend(&mut replica, memory_of(&primary.room));
    assert_eq!((replica.board().phantoms, replica.room.active()), (2, 2));
    replica.later(120);
    assert_eq!((replica.room.offers(), replica.room.held()), (0, 2), "their offers lapsed, their passes not");
    assert_eq!(replica.try_claim(tickets[2]), Err(Refusal::NotServed));
    assert_eq!(replica.board().standstill, Some(Standstill::AtCapacity));
    replica.later(3_600 - 121);
    assert_eq!(replica.room.active(), 2);
    assert_eq!(replica.room.next_due(), Some(replica.now.plus(1_000)), "their end is due by itself");
    replica.later(1);
    assert_eq!((replica.room.active(), replica.room.offers()), (0, 2));
    replica.claim(tickets[2]);
}

#[test]
fn claims_after_the_mending_do_not_hide_lost_ones() {
    let mut primary = Story::max_size(4);
    let tickets = primary.join_many(8);
    let mut replica = replica_of(&primary);
    primary.claim(tickets[0]);
    primary.claim(tickets[1]);
    mend(&mut replica, vec![]);
    replica.claim(tickets[2]);
    replica.claim(tickets[3]);
    recall(&mut replica, memory_of(&primary.room));
    assert_eq!((replica.room.losses.phantoms, replica.room.active()), (2, 4));
    let late = Line { claimed: 3, ..memory_of(&primary.room)[0] };
    recall(&mut replica, vec![late]);
    assert_eq!(replica.room.losses.phantoms, 3, "one more than was known of");
}

#[test]
fn nothing_is_offered_beyond_the_capacity_while_phantoms_fill_it() {
    let mut primary = Story::max_size(3);
    let tickets = primary.join_many(3);
    let mut replica = replica_of(&primary);
    for &ticket in &tickets {
        primary.claim(ticket);
    }
    mend(&mut replica, memory_of(&primary.room));
    replica.later(120);
    let new = replica.join_many(5);
    for seconds in [1, 600, 2_000] {
        assert_eq!((replica.room.held(), replica.room.offers()), (3, 0));
        assert_eq!(replica.try_claim(new[0]), Err(Refusal::NotServed));
        replica.later(seconds);
    }
    replica.later(3_600);
    assert_eq!((replica.room.held(), replica.room.offers()), (3, 3), "then all slots are in use again");
}

#[test]
fn without_records_everybody_inside_is_a_phantom_and_no_ticket_is_claimed_twice() {
    let mut story = Story::max_size(3);
    let tickets = story.join_many(5);
    let first = story.claim(tickets[0]);
    story.claim(tickets[1]);
    story.claim(tickets[2]);
    story.does(Operation::Exits { count: 1 });
    story.close(&first).unwrap();
    assert_eq!((story.room.active(), story.room.offers()), (2, 1));
    let memory = memory_of(&story.room);
    mend_without_sessions(&mut story, memory.clone());
    assert_eq!((story.room.losses.phantoms, story.room.active(), story.room.held()), (2, 2, 3));
    assert_eq!(story.try_claim(tickets[1]), Err(Refusal::Gone), "the holder has a pass");
    story.claim(tickets[3]);
    recall(&mut story, memory);
    assert_eq!(story.room.losses.phantoms, 2, "nobody is counted twice");
    story.later(3_600);
    assert_eq!((story.room.losses.phantoms, story.room.held()), (0, 1), "only the last one still waits");
}

#[test]
fn a_closed_line_does_not_come_back() {
    let mut story = Story::manual();
    let old = story.join_many(5);
    let memory = memory_of(&story.room);
    story.does(Operation::Reset { incarnation: 5 });
    let after_reset = memory_of(&story.room);
    mend(&mut story, after_reset);
    recall(&mut story, memory.clone());
    assert_eq!(show(&mut story, old[4]), Err(Refusal::UnknownTicket));
    mend(&mut story, memory);
    assert_eq!(story.room.segments.len(), 3);
    assert!(story.room.segments.iter().all(|segment| segment.generation > old[0].generation));
    assert_eq!(story.try_claim(old[0]), Err(Refusal::UnknownTicket));
}

#[test]
fn a_reset_that_the_replica_never_saw_stays_a_reset() {
    let mut primary = Story::max_size(2);
    let old = primary.join_many(5);
    primary.claim(old[0]);
    let mut replica = replica_of(&primary);
    primary.does(Operation::Reset { incarnation: 5 });
    let new = primary.join_many(3);
    mend(&mut replica, memory_of(&primary.room));
    assert_eq!(replica.try_claim(old[1]), Err(Refusal::UnknownTicket));
    assert_eq!(show(&mut replica, old[1]), Err(Refusal::UnknownTicket));
    recall(&mut replica, memory_of(&primary.room));
    assert_eq!(replica.room.losses.phantoms, 1, "the visitor who was inside still is");
    for ticket in new.into_iter().take(2) {
        replica.claim(ticket);
    }
}

#[test]
fn a_line_that_was_opened_and_lost_again_is_given_back() {
    let mut first = Story::max_size(2);
    let oldest = first.join_many(3);
    let before = replica_of(&first);
    let memory = memory_of(&first.room);
    mend(&mut first, memory);
    let older = first.join_many(3);
    let mut second = replica_of(&before);
    second.now = first.now.plus(1_000);
    mend(&mut second, memory_of(&first.room));
    let newest = second.join();
    assert!(newest.generation > older[0].generation);
    assert!(newest.position.get() > older[2].position.get() + MARGIN_MIN);
    let line = [oldest, older, vec![newest]].concat();
    assert_eq!(let_everybody_through(&mut second, &line), line);
}

#[test]
fn a_line_that_only_another_node_remembers_is_given_back_too() {
    let mut first = Story::manual();
    first.join_many(3);
    let (mut second, memory) = (replica_of(&first), memory_of(&first.room));
    mend(&mut first, memory.clone());
    let lost = first.join_many(4);
    second.now = first.now.plus(5_000);
    // The node that mends has not seen the line that was lost; the one that comes later has.
    let newest = mend(&mut second, memory);
    assert!(newest > lost[0].generation);
    recall(&mut second, memory_of(&first.room));
    second.advance(3);
    assert_eq!(second.try_claim(lost[0]), Err(Refusal::NotServed));
    second.advance(4);
    for ticket in lost {
        second.claim(ticket);
    }
}

/// As many lines as a room can have, one waiting in each.
fn full_of_lines(mut story: Story) -> (Story, Vec<Ticket>) {
    let mut line = vec![story.join()];
    while story.room.segments.len() < SEGMENTS_MAX {
        mend(&mut story, vec![]);
        line.push(story.join());
    }
    (story, line)
}

#[test]
fn where_there_is_no_place_for_another_line_the_newest_leaves_numbers_out() {
    let (mut primary, mut line) = full_of_lines(Story::max_size(2));
    let mut replica = replica_of(&primary);
    let lost = primary.join_many(2);
    let epoch = replica.room.epoch;
    let newest = mend(&mut replica, memory_of(&primary.room));
    assert_eq!((newest, replica.room.epoch), (lost[0].generation, epoch + 1));
    let new = replica.join_many(2);
    assert!(new[0].position.get() > lost[1].position.get() + MARGIN_MIN);
    assert_eq!(replica.room.waiting(), SEGMENTS_MAX as u64 + 4);
    let left_out = ticket_of(newest, new[0].position.get() - 1);
    assert_eq!(replica.try_claim(left_out), Err(Refusal::Gone));
    line.extend(lost.into_iter().chain(new));
    assert_eq!(let_everybody_through(&mut replica, &line), line, "the numbers between take no slot");
}

#[test]
fn two_primaries_without_place_for_another_line_hand_out_different_numbers() {
    let (story, _) = full_of_lines(Story::max_size(2));
    let mut handed_out = std::collections::BTreeSet::new();
    for incarnation in 0..=u8::MAX {
        let mut side = replica_of(&story);
        let mend = Mend { incarnation, margin: MARGIN_MIN, ..Mend::default() };
        side.does(Operation::Mend(mend));
        for ticket in side.join_many(MARGIN_MIN) {
            assert!(handed_out.insert((ticket.generation, ticket.position)), "{ticket:?} came twice");
        }
    }
}

#[test]
fn lines_in_which_nobody_is_left_make_place_for_new_ones() {
    let mut story = Story::max_size(5);
    for _ in 0..3 * SEGMENTS_MAX {
        let ticket = story.join();
        let session = story.claim(ticket);
        story.close(&session).unwrap();
        let memory = memory_of(&story.room);
        mend(&mut story, memory);
    }
    assert_eq!(story.room.segments.len(), SEGMENTS_MAX);
    assert_eq!(story.room.counts().completed, 3 * SEGMENTS_MAX as u64);
    assert_eq!(story.room.active(), 0);
}

#[test]
fn a_line_without_numbers_left_is_followed_by_one_that_begins_anew() {
    let mut story = super::near_the_end(Story::manual(), MARGIN_MIN);
    let last = story.join();
    let memory = memory_of(&story.room);
    mend(&mut story, memory);
    let first = story.join();
    assert_eq!(first.position.get(), 1);
    assert!(first.generation > last.generation, "older tickets rank first");
    story.advance(1);
    story.claim(last);
}

#[test]
fn a_margin_is_never_wider_than_the_widest() {
    let (mut story, _) = full_of_lines(Story::manual());
    let joined = story.room.newest().joined;
    let mend = Mend { incarnation: 1, margin: u64::MAX, ..Mend::default() };
    story.does(Operation::Mend(mend));
    assert_eq!(story.room.newest().joined, joined + anteroom_core::losses::MARGIN_MAX);
}

#[test]
fn exits_without_names_are_of_those_inside_whose_sessions_are_known() {
    let mut story = Story::max_size(5);
    for ticket in story.join_many(5) {
        story.claim(ticket);
    }
    let lines = memory_of(&story.room);
    mend_without_sessions(&mut story, lines);
    assert_eq!((story.room.losses.phantoms, story.room.active()), (5, 5));
    assert_eq!(story.does(Operation::Exits { count: 3 }), Answer::Exited { counted: 0 });
    assert_eq!(story.room.active(), 5, "nobody knows whether a phantom has gone");
}

#[test]
fn a_line_between_others_that_is_over_makes_place_and_its_tickets_stay_gone() {
    let mut story = Story::manual();
    story.join_many(3);
    mend(&mut story, vec![]);
    let gone = story.join_many(1)[0];
    story.does(Operation::Leave { ticket: gone });
    for _ in 2..SEGMENTS_MAX {
        mend(&mut story, vec![]);
        story.join_many(2);
    }
    assert_eq!(story.room.segments.len(), SEGMENTS_MAX);
    let lines = memory_of(&story.room);
    let newest = mend_without_sessions(&mut story, lines);
    let left: Vec<_> = story.room.segments.iter().map(|segment| segment.generation).collect();
    assert_eq!(
        (left.len(), left.last()),
        (SEGMENTS_MAX, Some(&newest)),
        "a line was opened, not numbers left out"
    );
    assert!(!left.contains(&gone.generation));
    assert_eq!(
        show(&mut story, gone),
        Err(Refusal::UnknownTicket),
        "a visitor who gave up does not come back"
    );
    assert_eq!(story.room.waiting(), 3 + 2 * (SEGMENTS_MAX as u64 - 2));
}

/// A place that has moved on the primary since the replica heard of it; returns both tickets.
fn moved_unheard(primary: &mut Story, old: Ticket) -> Ticket {
    match primary.does(Operation::Move { ticket: old, by: Mover(5) }) {
        Answer::Moved { ticket, .. } => ticket,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_place_that_moved_is_not_back_on_its_old_device_because_a_store_has_forgotten_it() {
    let mut primary = Story::manual();
    let tickets = primary.join_many(6);
    let (before, mut replica) = (primary.room.moved.clone(), replica_of(&primary));
    let early = moved_unheard(&mut primary, tickets[2]);
    let seen_early = primary.room.moved.clone();
    let late = moved_unheard(&mut primary, early);
    let gone = moved_unheard(&mut primary, tickets[3]);
    primary.does(Operation::Leave { ticket: gone });
    // The first node has seen less than the second, and a third nothing at all.
    let mend = Mend { incarnation: 9, margin: MARGIN_MIN, moved: seen_early, ..Mend::default() };
    replica.does(Operation::Mend(mend));
    assert!(replica.board().is_moved(&tickets[2]) && !replica.board().is_moved(&early));
    for moved in [primary.room.moved.clone(), before, primary.room.moved.clone()] {
        replica.does(Operation::Recall { lines: vec![], moved });
        assert!(
            replica.board().is_moved(&early) && !replica.board().is_moved(&late),
            "the highest copy counts"
        );
    }
    replica.advance(6);
    for old in [tickets[2], early] {
        assert_eq!(replica.try_claim(old), Err(Refusal::Moved));
    }
    // A repeated move by the same mover is idempotent, also here.
    let again = replica.attempt(&Operation::Move { ticket: early, by: Mover(5) });
    assert_eq!(again, Ok(Answer::Moved { ticket: late, is_repeated: true }));
    replica.claim(late);
    // What is settled by now is not remembered again.
    replica.does(Operation::Recall { lines: vec![], moved: primary.room.moved.clone() });
    assert!(
        !replica.room.moved.contains_key(&anteroom_core::SessionKey {
            generation: late.generation,
            position: late.position
        })
    );
}

#[test]
fn what_nodes_remember_of_moves_fills_no_room_further_than_it_goes() {
    let mut story = Story::manual();
    let tickets = story.join_many(anteroom_core::moves::MOVED_MAX as u64 + 3_000);
    let key = |ticket: &Ticket| anteroom_core::SessionKey {
        generation: ticket.generation,
        position: ticket.position,
    };
    let entry = |ticket: &Ticket| (key(ticket), anteroom_core::MoveRecord { copy: 1, by: Mover(1) });
    let mut moved: std::collections::BTreeMap<_, _> = tickets.iter().map(entry).collect();
    moved.insert(key(&tickets[0]), anteroom_core::MoveRecord { copy: 200, by: Mover(1) });
    let moved = MovedPlaces::new(moved);
    story.does(Operation::Recall { lines: vec![], moved: moved.clone() });
    assert_eq!(story.room.moved.len(), anteroom_core::moves::MOVED_MAX);
    assert!(!story.board().is_moved(&tickets[0]), "there is no such copy");
    story.does(Operation::Mend(Mend { incarnation: 1, margin: 1, moved, ..Mend::default() }));
    assert_eq!(story.room.moved.len(), anteroom_core::moves::MOVED_MAX);
}

#[test]
fn a_ticket_of_a_lost_line_proves_that_its_place_had_moved() {
    let mut story = Story::manual();
    let old = story.join_many(5)[4];
    mend(&mut story, vec![]);
    let lost = Ticket { position: anteroom_core::Position::new(9).unwrap(), copy: 2, ..old };
    assert_eq!(show(&mut story, lost), Ok(Answer::Done));
    let board = story.board();
    assert!(board.is_moved(&Ticket { copy: 1, ..lost }) && !board.is_moved(&lost));
}
