//! Lines that a room has lost sight of, learned again from the tickets that visitors show.

use anteroom_core::losses::{HONOURED_SECONDS, LEARNING_MILLIS, Line, SHOWN_GROWTH_MAX};
use anteroom_core::room::SEGMENTS_MAX;
use anteroom_core::settings::{Discipline, People, Seconds};
use anteroom_core::{
    Answer, Board, Generation, InletKind, Losses, MAX_POSITION, Operation, Recognition, Refusal, Settings,
    Standing, Standstill, Ticket,
};

use super::interruption::{let_everybody_through, memory_of, mend, recall, replica_of, show, ticket_of};
use super::story::Story;

const LEARNING_SECONDS: u64 = LEARNING_MILLIS / 1000;

/// A room made in a store that may have lost an earlier one.
fn made_again(settings: Settings) -> Story {
    let mut story = Story::with(settings);
    story.room.losses.honours_after = Some(Generation { opened: 0, incarnation: 0 });
    story
}

fn max_size(capacity: u64) -> Settings {
    Settings { inlet: InletKind::MaxSize, total_active_users: Some(capacity), ..Settings::default() }
}

/// A line opened so many seconds before the room was made again.
fn lost_line(story: &Story, seconds: u32) -> Generation {
    Generation { opened: story.room.newest().generation.opened - seconds, incarnation: 77 }
}

#[test]
fn a_ticket_beyond_what_is_known_proves_everybody_before_it() {
    let mut primary = Story::max_size(2);
    primary.join_many(4);
    let mut replica = replica_of(&primary);
    let unseen = primary.join_many(6);
    mend(&mut replica, vec![]);
    let new = replica.join();
    assert_eq!(replica.board().recognise(&unseen[4], replica.now), Recognition::Newer);
    assert_eq!(replica.try_claim(unseen[4]), Err(Refusal::UnknownTicket));
    assert_eq!(show(&mut replica, unseen[4]), Ok(Answer::Done));
    assert_eq!((replica.room.segments[0].joined, replica.room.waiting()), (9, 10));
    assert_eq!(replica.room.losses.learning_until.0, 0, "the line was never lost, only its end");
    assert_eq!(replica.try_claim(unseen[5]), Err(Refusal::UnknownTicket), "until its holder shows it too");
    show(&mut replica, unseen[5]).unwrap();
    let waiting = [&unseen[..], &[new]].concat();
    let first: Vec<_> = (1..=4).map(|position| ticket_of(unseen[0].generation, position)).collect();
    let line = [first, waiting].concat();
    assert_eq!(let_everybody_through(&mut replica, &line), line, "before those who joined after the loss");
}

#[test]
fn showing_a_ticket_again_or_one_that_is_known_changes_nothing() {
    let mut story = Story::max_size(2);
    let tickets = story.join_many(4);
    mend(&mut story, vec![]);
    show(&mut story, ticket_of(tickets[0].generation, 8)).unwrap();
    let once = story.room.clone();
    for position in [1, 4, 8] {
        assert_eq!(show(&mut story, ticket_of(tickets[0].generation, position)), Ok(Answer::Done));
    }
    assert_eq!(story.room, once);
}

#[test]
fn no_ticket_lengthens_the_line_that_still_grows() {
    let mut story = Story::manual();
    let newest = story.join().generation;
    let before = story.room.clone();
    assert_eq!(show(&mut story, ticket_of(newest, 2)), Err(Refusal::UnknownTicket));
    assert_eq!(show(&mut story, ticket_of(newest, MAX_POSITION)), Err(Refusal::UnknownTicket));
    assert_eq!(story.room, before);
}

#[test]
fn a_line_nobody_knew_of_is_unknown_where_nothing_was_lost() {
    let mut story = Story::manual();
    let now = story.room.newest().generation.opened;
    for opened in [0, 1, now - 1, now + 1, u32::MAX] {
        let stranger = ticket_of(Generation { opened, incarnation: 3 }, 5);
        assert_eq!(show(&mut story, stranger), Err(Refusal::UnknownTicket));
    }
    assert_eq!(story.room.segments.len(), 1);
}

#[test]
fn the_first_ticket_of_a_lost_line_gives_those_in_front_two_minutes_to_show_themselves() {
    let mut story = made_again(max_size(2));
    let lost = lost_line(&story, 100);
    show(&mut story, ticket_of(lost, 500)).unwrap();
    assert_eq!(story.board().standstill, Some(Standstill::Recovering));
    assert_eq!(story.room.next_due(), Some(story.now.plus(LEARNING_MILLIS)));
    let new = story.join_many(2);
    assert_eq!((story.room.offers(), story.room.serving() < 500), (0, true));
    story.later(60);
    show(&mut story, ticket_of(lost, 300)).unwrap();
    show(&mut story, ticket_of(lost, 302)).unwrap();
    story.later(LEARNING_SECONDS - 61);
    assert_eq!(story.room.offers(), 0);
    assert_eq!(story.try_claim(ticket_of(lost, 300)), Err(Refusal::NotServed));
    story.later(1);
    assert_eq!(story.room.offers(), 2, "the window was not begun again by the second ticket");
    story.claim(ticket_of(lost, 300));
    assert!(matches!(story.board().standing(&ticket_of(lost, 301), story.now), Standing::Offered { .. }));
    assert_eq!(story.try_claim(ticket_of(lost, 302)), Err(Refusal::NotServed));
    assert_eq!(story.try_claim(new[0]), Err(Refusal::NotServed));
    assert_eq!(show(&mut story, ticket_of(lost, 299)), Err(Refusal::UnknownTicket), "it is shown too late");
    show(&mut story, ticket_of(lost, 501)).unwrap();
}

#[test]
fn one_old_ticket_with_a_high_number_creates_no_silent_places() {
    let mut story = made_again(max_size(2));
    let lost = lost_line(&story, 100);
    let far = SHOWN_GROWTH_MAX * 3;
    show(&mut story, ticket_of(lost, far)).unwrap();
    let before = story.room.clone();
    for position in [1, far - SHOWN_GROWTH_MAX - 1, far + SHOWN_GROWTH_MAX + 1, MAX_POSITION] {
        assert_eq!(show(&mut story, ticket_of(lost, position)), Err(Refusal::LineNotLearned), "{position}");
    }
    assert_eq!((story.room.waiting(), &story.room), (1, &before), "a refused one changes nothing");
    // Of a line with people in it the next ticket is nearer, and those who asked too early ask again.
    for position in [far - SHOWN_GROWTH_MAX, far + SHOWN_GROWTH_MAX, far - 2 * SHOWN_GROWTH_MAX, 1] {
        show(&mut story, ticket_of(lost, position)).unwrap();
    }
    assert_eq!(story.room.waiting(), far + SHOWN_GROWTH_MAX);
    // The same where a store has lost the end of a line.
    let mut replica = Story::max_size(2);
    let known = replica.join_many(4);
    mend(&mut replica, vec![]);
    let far = ticket_of(known[0].generation, 5 + SHOWN_GROWTH_MAX);
    assert_eq!(show(&mut replica, far), Err(Refusal::LineNotLearned));
    show(&mut replica, ticket_of(known[0].generation, 4 + SHOWN_GROWTH_MAX)).unwrap();
}

#[test]
fn tickets_of_an_older_sale_are_worth_nothing_in_a_new_store() {
    let mut story = made_again(max_size(2));
    let (last_month, yesterday) = (lost_line(&story, 30 * 86_400), lost_line(&story, 86_000));
    let before = story.room.clone();
    assert_eq!(show(&mut story, ticket_of(last_month, 5)), Err(Refusal::UnknownTicket));
    assert_eq!(story.room, before);
    show(&mut story, ticket_of(yesterday, 5)).unwrap();
    // A line that is a month old may have a ticket of today.
    let entered = 30 * 86_400 - 60;
    show(&mut story, Ticket { entered, ..ticket_of(last_month, 7) }).unwrap();
}

#[test]
fn lines_that_nobody_remembers_are_honoured_for_an_hour() {
    let mut story = made_again(max_size(2));
    let (known, unknown) = (lost_line(&story, 100), lost_line(&story, 50));
    show(&mut story, ticket_of(known, 5)).unwrap();
    story.later(HONOURED_SECONDS - 1);
    assert_eq!(story.board().recognise(&ticket_of(unknown, 9), story.now), Recognition::Newer);
    story.later(1);
    assert_eq!(story.board().recognise(&ticket_of(unknown, 9), story.now), Recognition::Foreign);
    assert_eq!(show(&mut story, ticket_of(unknown, 9)), Err(Refusal::UnknownTicket));
    assert_eq!(
        story.board().recognise(&ticket_of(known, 5), story.now),
        Recognition::Ours,
        "learned in time"
    );
}

#[test]
fn a_room_of_an_emptied_store_lets_nobody_in_before_those_with_older_tickets_are_heard() {
    let mut story = Story::with(max_size(2));
    story.room.losses = Losses::of_a_room_that_may_have_been_lost(story.now.plus(20_000));
    let newcomers = story.join_many(2);
    assert_eq!((story.room.offers(), story.board().standstill), (0, Some(Standstill::Recovering)));
    let lost = lost_line(&story, 100);
    story.later(10);
    show(&mut story, ticket_of(lost, 5)).unwrap();
    story.later(LEARNING_SECONDS - 1);
    assert_eq!(story.room.offers(), 0, "the first of them gives the others two minutes");
    show(&mut story, ticket_of(lost, 4)).unwrap();
    story.later(1);
    story.claim(ticket_of(lost, 4));
    story.claim(ticket_of(lost, 5));
    assert_eq!(story.try_claim(newcomers[0]), Err(Refusal::NotServed));
    // Where nobody comes, it goes on by itself.
    let mut story = Story::with(max_size(2));
    story.room.losses = Losses::of_a_room_that_may_have_been_lost(story.now.plus(20_000));
    let newcomers = story.join_many(2);
    assert_eq!(story.room.next_due(), Some(story.now.plus(20_000)));
    story.later(20);
    story.claim(newcomers[0]);
}

#[test]
fn those_who_joined_meanwhile_are_served_behind_the_lost_line_in_order() {
    let mut story = made_again(max_size(3));
    let (older, old) = (lost_line(&story, 200), lost_line(&story, 100));
    let mut line: Vec<_> = [(old, 2), (old, 1), (older, 7), (older, 8), (old, 3), (older, 9)]
        .map(|(generation, position)| ticket_of(generation, position))
        .to_vec();
    for &ticket in &line {
        show(&mut story, ticket).unwrap();
    }
    line.extend(story.join_many(3));
    story.later(LEARNING_SECONDS);
    line.sort_by_key(|ticket| (ticket.generation, ticket.position));
    assert_eq!(let_everybody_through(&mut story, &line), line);
}

#[test]
fn nobody_is_let_in_by_steps_windows_or_rounds_while_the_line_is_learned() {
    let timetable = |inlet| Settings {
        inlet,
        window_size: People::new(2),
        increment_by: People::new(2).unwrap(),
        interval_seconds: Seconds::new(10).unwrap(),
        ..Settings::default()
    };
    for inlet in [InletKind::Periodic, InletKind::Window] {
        let mut story = made_again(timetable(inlet));
        let lost = lost_line(&story, 100);
        for position in 1..=4 {
            show(&mut story, ticket_of(lost, position)).unwrap();
        }
        for _ in 0..LEARNING_SECONDS / 10 - 1 {
            story.later(10);
        }
        assert_eq!(story.room.offers(), 0, "{inlet:?}");
        for _ in 0..3 {
            story.later(10);
        }
        assert_eq!(story.room.offers(), 4, "{inlet:?}");
    }
    let mut story = made_again(Settings { discipline: Discipline::Auction, ..max_size(2) });
    let lost = lost_line(&story, 100);
    show(&mut story, ticket_of(lost, 9)).unwrap();
    let passer_by = story.join();
    assert_eq!(story.try_claim(passer_by), Err(Refusal::NotServed), "no immediate admission");
    let present =
        vec![anteroom_core::SessionKey { generation: passer_by.generation, position: passer_by.position }];
    let round = story.room.auction.as_ref().unwrap().round;
    story.now = round;
    let settle = Operation::SettleRound { round, present, turned_away: false, alone: true };
    assert_eq!(story.does(settle), Answer::Won { winners: vec![] });
}

#[test]
fn an_operators_word_counts_while_the_line_is_learned() {
    let mut story = made_again(Settings::default());
    let lost = lost_line(&story, 100);
    show(&mut story, ticket_of(lost, 5)).unwrap();
    story.advance(1);
    story.claim(ticket_of(lost, 5));
}

#[test]
fn what_a_node_remembers_comes_before_what_tickets_have_shown() {
    let lines = |generation| {
        vec![Line { generation, base: 0, joined: 900, serving: 300, floor: 290, claimed: 280, inside: 4 }]
    };
    let after = |first_shown: bool| {
        let mut story = made_again(max_size(20));
        let lost = lost_line(&story, 100);
        if first_shown {
            show(&mut story, ticket_of(lost, 500)).unwrap();
        }
        recall(&mut story, lines(lost));
        show(&mut story, ticket_of(lost, 500)).unwrap();
        let place = |position| Board::of(&story.room).standing(&ticket_of(lost, position), story.now);
        assert!(matches!(place(290), Standing::Settled));
        assert!(matches!(place(291), Standing::Offered { .. }));
        let segment = story.room.segments[0].clone();
        (segment.base, segment.joined, segment.floor, segment.waiting(), story.room.losses.phantoms)
    };
    let first_told = after(false);
    assert_eq!(first_told, (0, 900, 290, 610, 4));
    let (base, joined, floor, waiting, phantoms) = after(true);
    assert_eq!((base, joined, floor, waiting), (0, 900, 290, 610));
    assert!(phantoms >= 4, "never fewer inside than there may be");
}

#[test]
fn a_line_is_restored_once_whichever_node_remembers_it() {
    let mut story = made_again(max_size(16));
    let lost = lost_line(&story, 100);
    let line = Line { generation: lost, base: 0, joined: 50, serving: 30, floor: 20, claimed: 18, inside: 6 };
    recall(&mut story, vec![line]);
    assert_eq!((story.room.losses.phantoms, story.room.offers()), (6, 10));
    assert_eq!(story.room.losses.learning_until.0, 0, "somebody remembers it");
    let once = story.room.clone();
    recall(&mut story, vec![line]);
    recall(&mut story, vec![line, line]);
    assert_eq!(story.room, once);
    recall(&mut story, vec![Line { joined: 60, claimed: 19, ..line }]);
    assert_eq!((story.room.segments[0].joined, story.room.losses.phantoms), (60, 7));
}

#[test]
fn more_lost_lines_than_a_room_can_have_are_refused_and_a_finished_one_does_not_come_back() {
    let mut story = made_again(max_size(5));
    for line in 1..u32::try_from(SEGMENTS_MAX).unwrap() {
        let ticket = ticket_of(lost_line(&story, line * 10), 5);
        show(&mut story, ticket).unwrap();
    }
    let another = ticket_of(lost_line(&story, 5), 1);
    let before = story.room.clone();
    assert_eq!(show(&mut story, another), Err(Refusal::SegmentsFull));
    assert_eq!(story.room, before);
    story.later(LEARNING_SECONDS);
    let oldest = story.room.segments[0].generation;
    let session = story.claim(ticket_of(oldest, 5));
    story.close(&session).unwrap();
    mend(&mut story, vec![]);
    assert_eq!(story.room.segments.len(), SEGMENTS_MAX);
    assert_eq!(story.try_claim(ticket_of(oldest, 5)), Err(Refusal::UnknownTicket));
    assert_ne!(show(&mut story, ticket_of(oldest, 6)), Ok(Answer::Done), "its line is closed for good");
    assert!(story.room.segments.iter().all(|segment| segment.generation != oldest));
}

#[test]
fn a_reset_ends_the_time_of_lost_lines() {
    let mut story = made_again(max_size(2));
    let lost = lost_line(&story, 100);
    show(&mut story, ticket_of(lost, 5)).unwrap();
    story.does(Operation::Reset { incarnation: 4 });
    assert_eq!(show(&mut story, ticket_of(lost, 5)), Err(Refusal::UnknownTicket));
    let line = memory_of(&story.room)[0];
    recall(&mut story, vec![Line { generation: lost, joined: 9, ..line }]);
    assert_eq!(story.room.segments.len(), 1);
    let first = story.join();
    story.claim(first);
}
