//! The rules by example: one named story per rule of the line. `promises.rs` checks the same rules at random.

#![expect(clippy::unwrap_used, reason = "a test may fail loudly")]

#[path = "rules/adaptive.rs"]
mod adaptive;
#[path = "rules/auctions.rs"]
mod auctions;
#[path = "rules/automatic_advance.rs"]
mod automatic_advance;
#[path = "rules/capacity_reports.rs"]
mod capacity_reports;
#[path = "rules/collected_rounds.rs"]
mod collected_rounds;
#[path = "rules/grants.rs"]
mod grants;
#[path = "rules/hostile_memories.rs"]
mod hostile_memories;
#[path = "rules/interruption.rs"]
mod interruption;
#[path = "rules/losses.rs"]
mod losses;
#[path = "rules/losses_by_inlet.rs"]
mod losses_by_inlet;
#[path = "rules/prefixes.rs"]
mod prefixes;
#[path = "rules/queue_all.rs"]
mod queue_all;
#[path = "rules/reconfigure.rs"]
mod reconfigure;
#[path = "rules/shown_tickets.rs"]
mod shown_tickets;
#[path = "rules/stays.rs"]
mod stays;
#[path = "rules/story.rs"]
mod story;
#[path = "rules/timetable.rs"]
mod timetable;
#[path = "rules/turned_away.rs"]
mod turned_away;
#[path = "rules/windows.rs"]
mod windows;

use anteroom_core::operation::SERVING_MAX;
use anteroom_core::room::SEGMENTS_MAX;
use anteroom_core::settings::Seconds;
use anteroom_core::{
    Answer, Event, EventKind, Generation, InletKind, MAX_POSITION, Operation, Outcome, Position, Refusal,
    Room, RoomState, Session, SessionKey, SessionStatus, Ticket, UnixMillis,
};
use story::{SECOND, START, Story, near_the_end};

fn generations(room: &Room) -> Vec<Generation> {
    room.segments.iter().map(|segment| segment.generation).collect()
}

#[test]
fn an_idle_max_size_room_admits_at_once() {
    let mut story = Story::max_size(2);
    let first = story.join();
    assert_eq!(story.room.serving(), 1, "the join's own settle moves the frontier");
    story.claim(first);
    let (second, third) = (story.join(), story.join());
    story.claim(second);
    assert_eq!(story.try_claim(third), Err(Refusal::NotServed));
    assert_eq!((story.room.serving(), story.room.held()), (2, 2));
}

#[test]
fn a_claim_is_repeated_without_a_second_session() {
    let mut story = Story::max_size(5);
    let ticket = story.join();
    let session = story.claim(ticket);
    story.now = story.now.plus(10 * SECOND);
    assert_eq!(story.claim(ticket), session);
    assert_eq!(story.room.active(), 1);
    let begun = |event: &&Event| event.kind() == EventKind::TokenGenerated;
    assert_eq!(story.events.iter().filter(begun).count(), 1);
}

#[test]
fn capacity_lowered_then_nothing_is_offered_until_below() {
    let mut story = Story::max_size(3);
    let tickets = story.join_many(6);
    let inside: Vec<Session> = tickets[..3].iter().map(|&ticket| story.claim(ticket)).collect();
    story.change(|settings| settings.total_active_users = Some(1));
    assert_eq!(story.room.active(), 3, "nobody is thrown out");
    story.close(&inside[0]).unwrap();
    story.close(&inside[1]).unwrap();
    assert_eq!(story.room.offers(), 0, "one inside, room for one");
    story.close(&inside[2]).unwrap();
    assert_eq!((story.room.offers(), story.room.serving()), (1, 4));
    story.claim(tickets[3]);
    story.change(|settings| settings.total_active_users = Some(0));
    story.later(3_600);
    assert_eq!((story.room.active(), story.room.offers()), (0, 0), "nobody is let in");
    story.change(|settings| settings.total_active_users = Some(2));
    assert_eq!((story.room.offers(), story.room.serving()), (2, 6));
}

#[test]
fn a_lapse_frees_the_slot_for_the_next_aws_issue_154() {
    let mut story = Story::max_size(1);
    let tickets = story.join_many(3);
    story.later(119);
    assert_eq!(story.room.serving(), 1);
    story.later(1);
    assert_eq!((story.room.serving(), story.room.counts().lapsed), (2, 1));
    assert_eq!(story.try_claim(tickets[0]), Err(Refusal::Gone));
    story.claim(tickets[1]);
    assert_eq!(story.room.held(), 1);
    assert_eq!(story.try_claim(tickets[2]), Err(Refusal::NotServed));
}

#[test]
fn leaving_gives_the_slot_or_the_place_away() {
    let mut story = Story::max_size(1);
    let tickets = story.join_many(4);
    story.does(Operation::Leave { ticket: tickets[1] });
    story.does(Operation::Leave { ticket: tickets[0] });
    assert_eq!(story.room.serving(), 3, "the offer went past the one who had left");
    let session = story.claim(tickets[2]);
    story.does(Operation::Leave { ticket: tickets[2] });
    assert_eq!(story.room.counts().abandoned, 1, "leaving from inside ends the session");
    assert_eq!(story.close(&session), Err(Refusal::AlreadyEnded));
    story.claim(tickets[3]);
    assert_eq!(story.attempt(&Operation::Leave { ticket: tickets[0] }), Err(Refusal::Gone));
    assert_eq!(story.room.waiting(), 0);
}

#[test]
fn anonymous_exits_are_credits_paid_off_by_later_closes() {
    let mut story = Story::max_size(2);
    let tickets = story.join_many(4);
    let inside: Vec<Session> = tickets[..2].iter().map(|&ticket| story.claim(ticket)).collect();
    assert_eq!(story.does(Operation::Exits { count: 1 }), Answer::Exited { counted: 1 });
    assert_eq!((story.room.active(), story.room.offers()), (1, 1));
    story.claim(tickets[2]);
    story.close(&inside[0]).unwrap();
    assert_eq!(story.room.active(), 2, "this end was counted already");
    assert_eq!(story.room.offers(), 0);
    story.close(&inside[1]).unwrap();
    assert_eq!((story.room.active(), story.room.offers()), (1, 1));
}

#[test]
fn anonymous_exits_never_exceed_those_inside() {
    let mut story = Story::max_size(3);
    let ticket = story.join();
    story.claim(ticket);
    assert_eq!(story.does(Operation::Exits { count: u64::MAX }), Answer::Exited { counted: 1 });
    assert_eq!(story.does(Operation::Exits { count: 1 }), Answer::Exited { counted: 0 });
    assert_eq!(story.room.active(), 0);
    story.later(3_600);
    assert_eq!((story.room.active(), story.room.exit_credits), (0, 0), "the expiry pays it off");
}

#[test]
fn a_session_ends_once() {
    let mut story = Story::max_size(1);
    let tickets = story.join_many(3);
    let session = story.claim(tickets[0]);
    story.close(&session).unwrap();
    assert_eq!(story.close(&session), Err(Refusal::AlreadyEnded));
    assert_eq!((story.room.active(), story.room.offers()), (0, 1), "one slot, freed once");
    assert_eq!(
        story.attempt(&Operation::Close {
            key: SessionKey { generation: tickets[1].generation, position: tickets[1].position },
            outcome: Outcome::Completed
        }),
        Err(Refusal::UnknownSession)
    );
}

#[test]
fn an_update_on_an_expired_session_only_relabels() {
    let mut story = Story::max_size(1);
    let tickets = story.join_many(3);
    let session = story.claim(tickets[0]);
    story.later(3_600);
    assert_eq!((story.room.counts().expired, story.room.offers()), (1, 1));
    let Answer::Session(relabelled) = story.close(&session).unwrap() else {
        panic!("the session is answered")
    };
    assert_eq!(relabelled.status, SessionStatus::Ended(Outcome::Completed));
    let counts = story.room.counts();
    assert_eq!((counts.expired, counts.completed), (0, 1));
    assert_eq!((story.room.active(), story.room.offers()), (0, 1), "nothing is freed twice");
    assert_eq!(story.close(&session), Err(Refusal::AlreadyEnded));
}

#[test]
fn a_hand_advance_over_a_max_size_room_is_a_one_off_and_stops_at_the_tail() {
    let mut story = Story::max_size(1);
    story.join_many(5);
    assert_eq!(story.advance(2), 3);
    assert_eq!((story.room.held(), story.room.offers_by_hand), (3, 2));
    assert_eq!(story.advance(100), 5, "not beyond the last join");
    assert_eq!(story.room.offers_by_hand, 4);
    let late = story.join();
    assert_eq!(story.try_claim(late), Err(Refusal::NotServed), "the capacity rules again");
    story.later(120);
    assert_eq!((story.room.held(), story.room.serving()), (1, 6));
}

#[test]
fn a_hand_back_lays_the_inlet_to_rest_until_opened() {
    let mut story = Story::max_size(3);
    let tickets = story.join_many(5);
    let session = story.claim(tickets[2]);
    assert_eq!(story.advance(-2), 1);
    assert_eq!((story.room.offers(), story.room.active()), (1, 1), "claimed stays claimed");
    assert_eq!(story.try_claim(tickets[1]), Err(Refusal::NotServed));
    story.join();
    story.close(&session).unwrap();
    story.later(60);
    assert_eq!(story.room.serving(), 1, "the inlet rests");
    story.set(RoomState::Open);
    assert_eq!((story.room.serving(), story.room.held()), (4, 3));
    story.claim(tickets[1]);
    assert_eq!(story.claim(tickets[2]).key, session.key);
}

#[test]
fn a_manual_frontier_may_run_ahead_and_later_joins_have_their_own_clock() {
    let mut story = Story::manual();
    assert_eq!(story.advance(10), 10);
    assert_eq!(story.room.offers(), 0);
    let early = story.join();
    story.later(600);
    let late = story.join();
    assert_eq!(story.remaining_seconds(&early), Some(300));
    assert_eq!(story.remaining_seconds(&late), Some(900));
    story.later(300);
    assert_eq!(story.try_claim(early), Err(Refusal::Gone));
    assert_eq!(story.claim(late).offered_at, START.plus(600 * SECOND));
}

#[test]
fn a_manual_frontier_goes_back_by_hand_and_withdraws_offers() {
    let mut story = Story::manual();
    let tickets = story.join_many(4);
    story.advance(4);
    story.claim(tickets[3]);
    assert_eq!(story.advance(-3), 1);
    assert_eq!(story.try_claim(tickets[1]), Err(Refusal::NotServed));
    assert_eq!(story.room.active(), 1);
    assert!(!story.room.inlet_rests, "there is no inlet to rest");
    story.advance(1);
    story.claim(tickets[1]);
}

#[test]
fn expiry_switched_on_in_mid_event_starts_the_clocks_then() {
    let mut story = Story::manual();
    story.change(|settings| settings.enable_queue_position_expiry = false);
    let ticket = story.join();
    story.advance(1);
    story.later(100_000);
    assert_eq!(story.remaining_seconds(&ticket), None);
    story.change(|settings| settings.enable_queue_position_expiry = true);
    assert_eq!(story.remaining_seconds(&ticket), Some(900));
    story.later(899);
    assert_eq!(story.room.counts().lapsed, 0);
    story.later(1);
    assert_eq!(story.try_claim(ticket), Err(Refusal::Gone));
}

#[test]
fn a_shortened_window_takes_no_offer_at_once_and_leaves_none_more_than_the_new_window() {
    let mut story = Story::manual();
    let (old, new) = (story.join(), story.join());
    story.advance(1);
    story.later(890);
    story.advance(1);
    story.change(|settings| settings.queue_position_expiry_period = Seconds::new(60));
    assert_eq!(story.remaining_seconds(&old), Some(10), "what it had left");
    assert_eq!(story.remaining_seconds(&new), Some(60), "a whole new window");
    story.later(10);
    assert_eq!(story.try_claim(old), Err(Refusal::Gone));
    story.claim(new);
}

#[test]
fn a_lengthened_window_counts_from_the_offer() {
    let mut story = Story::manual();
    let ticket = story.join();
    story.advance(1);
    story.later(890);
    story.change(|settings| settings.queue_position_expiry_period = Seconds::new(1_000));
    assert_eq!(story.remaining_seconds(&ticket), Some(110));
}

#[test]
fn a_pause_freezes_claim_clocks() {
    let mut story = Story::max_size(1);
    let tickets = story.join_many(2);
    story.later(100);
    story.set(RoomState::Paused);
    story.later(5_000);
    assert_eq!(story.try_claim(tickets[0]), Err(Refusal::NotServed), "nobody is admitted");
    assert_eq!(story.remaining_seconds(&tickets[0]), Some(20));
    story.join();
    story.set(RoomState::Open);
    assert_eq!(story.remaining_seconds(&tickets[0]), Some(20));
    story.later(20);
    assert_eq!(story.room.serving(), 2);
}

#[test]
fn a_paused_room_takes_joins_and_offers_nothing() {
    let mut story = Story::max_size(5);
    story.set(RoomState::Paused);
    let ticket = story.join();
    assert_eq!((story.room.serving(), story.room.offers()), (0, 0));
    story.set(RoomState::Open);
    story.claim(ticket);
}

#[test]
fn a_draining_room_admits_and_takes_no_joins() {
    let mut story = Story::max_size(1);
    let tickets = story.join_many(2);
    let session = story.claim(tickets[0]);
    story.set(RoomState::Draining);
    assert_eq!(story.attempt(&Operation::Join { count: 1 }), Err(Refusal::NotJoinable(RoomState::Draining)));
    story.close(&session).unwrap();
    story.claim(tickets[1]);
}

#[test]
fn a_closed_room_does_neither_and_keeps_the_sessions_it_has() {
    let mut story = Story::max_size(2);
    let tickets = story.join_many(3);
    let session = story.claim(tickets[0]);
    story.set(RoomState::Closed);
    assert_eq!(story.attempt(&Operation::Join { count: 1 }), Err(Refusal::NotJoinable(RoomState::Closed)));
    assert_eq!(story.try_claim(tickets[1]), Err(Refusal::RoomClosed));
    assert_eq!(story.try_claim(tickets[2]), Err(Refusal::RoomClosed));
    assert_eq!(story.claim(tickets[0]), session);
    story.close(&session).unwrap();
    assert_eq!(story.room.serving(), 2, "a free slot is offered to nobody");
}

#[test]
fn an_older_generation_is_served_before_a_newer_one() {
    let mut story = Story::max_size(2);
    let old = story.join_many(3);
    story.does(Operation::OpenSegment { incarnation: 2 });
    let new = story.join_many(2);
    assert_eq!(new[0].position.get(), 1);
    let inside = [story.claim(old[0]), story.claim(old[1])];
    assert_eq!(story.try_claim(new[0]), Err(Refusal::NotServed));
    story.close(&inside[0]).unwrap();
    assert_eq!(story.try_claim(new[0]), Err(Refusal::NotServed));
    story.claim(old[2]);
    story.close(&inside[1]).unwrap();
    story.claim(new[0]);
    assert_eq!(story.try_claim(new[1]), Err(Refusal::NotServed));
}

#[test]
fn a_frontier_ahead_of_the_tail_is_owed_to_the_next_generation() {
    let mut story = Story::manual();
    story.join();
    story.advance(3);
    story.does(Operation::OpenSegment { incarnation: 2 });
    let tickets = story.join_many(3);
    story.claim(tickets[0]);
    story.claim(tickets[1]);
    assert_eq!(story.try_claim(tickets[2]), Err(Refusal::NotServed));
}

#[test]
fn four_generations_at_most_while_people_wait() {
    let mut story = Story::manual();
    let mut tickets = vec![story.join()];
    for incarnation in 2..=4 {
        story.does(Operation::OpenSegment { incarnation });
        tickets.push(story.join());
    }
    assert_eq!(story.room.segments.len(), SEGMENTS_MAX);
    let another = Operation::OpenSegment { incarnation: 5 };
    assert_eq!(story.attempt(&another), Err(Refusal::SegmentsFull), "somebody waits in the oldest");
    story.advance(1);
    let session = story.claim(tickets[0]);
    assert_eq!(story.attempt(&another), Err(Refusal::SegmentsFull), "somebody is inside from the oldest");
    story.close(&session).unwrap();
    story.does(another);
    assert_eq!(story.room.segments.len(), SEGMENTS_MAX);
    assert_eq!(story.try_claim(tickets[0]), Err(Refusal::UnknownTicket));
    assert_eq!(story.room.counts().completed, 1, "what happened still counts");
    story.advance(1);
    story.claim(tickets[1]);
    let ordered = generations(&story.room);
    assert!(ordered.is_sorted() && !ordered.contains(&tickets[0].generation));
}

#[test]
fn a_reset_forgets() {
    let mut story = Story::max_size(2);
    let tickets = story.join_many(4);
    let session = story.claim(tickets[0]);
    story.does(Operation::Exits { count: 1 });
    let Answer::LineOpened(generation) = story.does(Operation::Reset { incarnation: 2 }) else {
        panic!("a reset opens a line")
    };
    assert!(generation > tickets[0].generation);
    assert_eq!((story.room.serving(), story.room.waiting(), story.room.held()), (0, 0, 0));
    for &ticket in &tickets {
        assert_eq!(story.try_claim(ticket), Err(Refusal::UnknownTicket));
        assert_eq!(story.attempt(&Operation::Leave { ticket }), Err(Refusal::UnknownTicket));
    }
    // A store may still have the record of the old session; it counts no more.
    story.sessions.insert(session.key, session.clone());
    assert_eq!(story.close(&session), Err(Refusal::UnknownSession));
    let (key, signatures) = (session.key, vec![1]);
    assert_eq!(story.attempt(&Operation::KeepSignatures { key, signatures }), Err(Refusal::UnknownSession));
    story.later(3_600);
    assert_eq!(story.room.counts(), anteroom_core::Counts::default());
    let again = story.join();
    assert_eq!((again.position.get(), again.generation), (1, generation));
    story.claim(again);
}

#[test]
fn incr_svc_moves_on_by_what_lapsed_and_never_beyond_the_tail() {
    let mut story = Story::manual();
    story.change(|settings| settings.incr_svc_on_queue_position_expiry = true);
    let tickets = story.join_many(5);
    story.advance(3);
    story.claim(tickets[1]);
    story.later(900);
    assert_eq!(story.room.serving(), 5, "two lapsed, two more are served");
    let moved = Event::AutomaticServingCounterIncrease { previous: 3, current: 5 };
    let increases = |story: &Story| {
        let is_move = |event: &&Event| event.kind() == EventKind::AutomaticServingCounterIncrease;
        story.events.iter().filter(is_move).cloned().collect::<Vec<_>>()
    };
    assert_eq!(increases(&story), std::slice::from_ref(&moved));
    story.later(900);
    assert_eq!((story.room.serving(), story.room.counts().lapsed), (5, 4));
    assert_eq!(increases(&story), [moved], "nobody is left to be served");
}

#[test]
fn without_incr_svc_a_lapse_moves_nothing() {
    let mut story = Story::manual();
    story.join_many(2);
    story.advance(1);
    story.later(900);
    assert_eq!((story.room.serving(), story.room.counts().lapsed), (1, 1));
}

#[test]
fn serving_never_falls_below_zero_and_an_overflow_is_refused() {
    let mut story = Story::manual();
    story.join_many(2);
    assert_eq!(story.advance(-5), 0);
    assert_eq!(story.advance(i64::MIN), 0);
    story.advance(1);
    let before = story.room.clone();
    let too_far = Operation::Advance { by: i64::MAX };
    assert_eq!(story.attempt(&too_far), Err(Refusal::CounterOverflow));
    assert_eq!(story.room, before, "a refused operation changes nothing");
    let rest = i64::try_from(SERVING_MAX).unwrap() - 2;
    assert_eq!(story.advance(rest), SERVING_MAX - 1, "counted from the tail, so that it never passes");
    assert_eq!(story.attempt(&Operation::Advance { by: 2 }), Err(Refusal::CounterOverflow));
    assert_eq!(story.advance(1), SERVING_MAX);
    let ticket = story.join();
    story.claim(ticket);
    assert_eq!(story.advance(i64::MIN), 0);
}

#[test]
fn positions_end_where_a_ticket_ends_and_the_line_goes_on_behind() {
    let mut story = near_the_end(Story::manual(), 2);
    assert_eq!(story.attempt(&Operation::Join { count: 3 }), Err(Refusal::LineFull(2)));
    assert_eq!(story.attempt(&Operation::Join { count: u64::MAX }), Err(Refusal::LineFull(2)));
    let last = story.join_many(2);
    assert_eq!(last[1].position.get(), MAX_POSITION);
    assert_eq!(story.attempt(&Operation::Join { count: 1 }), Err(Refusal::LineFull(0)));
    story.does(Operation::OpenSegment { incarnation: 2 });
    let next = story.join();
    assert_eq!(next.position.get(), 1);
    story.advance(3);
    for ticket in [last[0], last[1], next] {
        story.claim(ticket);
    }
    story.later(3_600);
    assert_eq!((story.room.active(), story.room.waiting()), (0, 0));
}

#[test]
fn a_ticket_of_nobody_is_unknown() {
    let mut story = near_the_end(Story::manual(), 2);
    let ticket = story.join();
    story.advance(2);
    let beyond = Ticket { position: Position::new(ticket.position.get() + 1).unwrap(), ..ticket };
    let below = Ticket { position: Position::new(ticket.position.get() - 1).unwrap(), ..ticket };
    let foreign = Ticket { generation: Generation { opened: 1, incarnation: 1 }, ..ticket };
    for nobody in [beyond, below, foreign] {
        assert_eq!(story.try_claim(nobody), Err(Refusal::UnknownTicket));
    }
    story.claim(ticket);
}

#[test]
fn the_rooms_clock_never_goes_back() {
    let mut story = Story::max_size(1);
    let ticket = story.join();
    story.later(100);
    story.now = UnixMillis(START.0 - 1_000_000);
    let session = story.claim(ticket);
    assert_eq!(session.issued_at_seconds, START.plus(100 * SECOND).seconds());
    assert_eq!(story.room.clock, START.plus(100 * SECOND));
}

#[test]
fn switching_to_a_capacity_takes_back_what_the_frontier_ran_ahead() {
    let mut story = Story::manual();
    story.join_many(2);
    story.advance(50);
    story.change(|settings| {
        settings.inlet = InletKind::MaxSize;
        settings.total_active_users = Some(2);
    });
    assert_eq!(story.room.serving(), 2);
    let late = story.join();
    assert_eq!(story.try_claim(late), Err(Refusal::NotServed));
}
