//! Memories and tickets that make no sense: nodes can be wrong, and a visitor can show any genuine ticket they ever had. Nothing of
//! it stops a room, overflows a number, or takes a place from anybody.

use anteroom_core::losses::{LEARNING_MILLIS, Line, Mend, SHOWN_GROWTH_MAX};
use anteroom_core::operation::SERVING_MAX;
use anteroom_core::room::SEGMENTS_MAX;
use anteroom_core::settings::{Discipline, People, Seconds};
use anteroom_core::{
    Answer, Board, Generation, InletKind, MAX_POSITION, Operation, Refusal, Room, Settings, UnixMillis,
};

use super::interruption::{memory_of, mend, recall, show, ticket_of};
use super::story::{SECOND, Story};

const EXTREMES: [u64; 7] = [0, 1, 7, MAX_POSITION - 1, MAX_POSITION, MAX_POSITION + 1, u64::MAX];

/// One room of each kind, in the middle of its life, with two lines.
fn rooms() -> Vec<Story> {
    let inlets = InletKind::ALL.map(|inlet| Settings {
        inlet,
        total_active_users: inlet.is_capped().then_some(3),
        window_size: People::new(2),
        interval_seconds: Seconds::new(10).unwrap(),
        ..Settings::default()
    });
    let auction = Settings { discipline: Discipline::Auction, ..inlets[2].clone() };
    let story = |settings: &Settings| {
        let mut story = Story::with(settings.clone());
        let tickets = story.join_many(6);
        story.later(10);
        drop(story.attempt(&Operation::Advance { by: 2 }));
        drop(story.try_claim(tickets[0]));
        mend(&mut story, vec![]);
        story.join_many(3);
        story
    };
    inlets.iter().chain([&auction]).map(story).collect()
}

/// A room that has been told anything still does all it should.
fn still_works(story: &mut Story) {
    story.room.assert_sound();
    let board = Board::of(&story.room);
    assert!(board.waiting >= 1 && board.serving <= SERVING_MAX + MAX_POSITION);
    if story.room.places_left() > 0 {
        story.join();
    }
    story.later(10);
    let memory = memory_of(&story.room);
    recall(story, memory.clone());
    mend(story, memory);
    if story.room.places_left() > 0 {
        story.join();
    }
    story.later(3_600);
    story.later(LEARNING_MILLIS / SECOND);
    story.does(Operation::Reset { incarnation: 3 });
    assert_eq!(story.join().position.get(), 1);
}

#[test]
fn any_memory_of_a_known_line_is_survived() {
    for base in EXTREMES {
        for joined in EXTREMES {
            for other in EXTREMES {
                for mut story in rooms() {
                    let generation = story.room.segments[0].generation;
                    let line = Line {
                        generation,
                        base,
                        joined,
                        serving: other,
                        floor: u64::MAX - other,
                        claimed: other,
                        inside: other,
                    };
                    recall(&mut story, vec![line, line]);
                    assert!(story.room.active() <= MAX_POSITION + 1);
                    still_works(&mut story);
                }
            }
        }
    }
}

#[test]
fn any_memory_of_a_lost_line_is_survived() {
    for base in EXTREMES {
        for joined in EXTREMES {
            for other in EXTREMES {
                for mut story in rooms() {
                    let newest = story.room.newest().generation;
                    let before = Generation { opened: newest.opened - 9, incarnation: 8 };
                    story.room.losses.honours_after = Some(Generation { opened: 0, incarnation: 0 });
                    let line = Line {
                        generation: before,
                        base,
                        joined,
                        serving: other,
                        floor: other,
                        claimed: u64::MAX - other,
                        inside: u64::MAX,
                    };
                    recall(&mut story, vec![line, line]);
                    assert!(story.room.losses.phantoms <= MAX_POSITION);
                    still_works(&mut story);
                }
            }
        }
    }
}

#[test]
fn any_mending_is_survived() {
    for joined in EXTREMES {
        for serving in EXTREMES {
            for margin in [0, 256, if joined == 7 { u64::MAX } else { 257 }] {
                for mut story in rooms() {
                    let lines = |opened: u32| Line {
                        generation: Generation { opened, incarnation: 200 },
                        base: joined / 2,
                        joined,
                        serving,
                        floor: serving,
                        claimed: joined,
                        inside: serving,
                    };
                    let newest = story.room.newest().generation;
                    let mut told = memory_of(&story.room);
                    for line in &mut told {
                        (line.joined, line.serving) = (joined, serving);
                    }
                    told.extend(
                        [0, newest.opened - 1, newest.opened, newest.opened + 1, u32::MAX].map(lines),
                    );
                    let sessions_lost = joined == 1;
                    if sessions_lost {
                        story.sessions.clear();
                    }
                    let mend =
                        Mend { incarnation: 200, margin, lines: told, sessions_lost, ..Mend::default() };
                    story.does(Operation::Mend(mend));
                    assert!(story.room.newest().generation.opened < newest.opened + 100, "time runs out");
                    still_works(&mut story);
                }
            }
        }
    }
}

#[test]
fn lines_are_told_apart_and_in_order_whatever_was_mended() {
    for mut story in rooms() {
        let newest = story.room.newest().generation;
        for opened in [newest.opened + 1, newest.opened + 2, newest.opened] {
            let template = memory_of(&story.room)[0];
            let generation = Generation { opened, incarnation: 9 };
            mend(&mut story, vec![Line { generation, ..template }]);
            let lines: Vec<Generation> = story.room.segments.iter().map(|line| line.generation).collect();
            assert!(lines.is_sorted_by(|one, other| one < other), "{lines:?}");
        }
    }
}

#[test]
fn thousands_of_lines_fill_a_room_no_further_than_it_goes() {
    let mut story = Story::max_size(2);
    story.room.losses.honours_after = Some(Generation { opened: 0, incarnation: 0 });
    let newest = story.room.newest().generation.opened;
    let line = |ago: u32| Line {
        generation: Generation { opened: newest - ago, incarnation: 1 },
        base: 0,
        joined: 5,
        serving: 5,
        floor: 5,
        claimed: 5,
        inside: 0,
    };
    recall(&mut story, (1..5_000).map(line).collect());
    assert_eq!(story.room.segments.len(), SEGMENTS_MAX);
    let oldest = Some(Generation { opened: u32::MAX, incarnation: 255 });
    let lines = (1..5_000).map(line).collect();
    story.does(Operation::Mend(Mend { incarnation: 1, margin: 1, lines, oldest, ..Mend::default() }));
    assert!(story.room.segments.len() <= SEGMENTS_MAX);
    let first = story.join();
    story.claim(first);
}

#[test]
fn any_ticket_may_be_shown_at_any_time() {
    for mut story in rooms() {
        for lost in [false, true] {
            if lost {
                story.room.losses.honours_after = Some(Generation { opened: 0, incarnation: 0 });
            }
            let (old, newest) = (story.room.segments[0].generation, story.room.newest().generation);
            let between = Generation { opened: newest.opened, incarnation: newest.incarnation - 1 };
            let future = Generation { opened: u32::MAX, incarnation: 255 };
            for generation in [Generation { opened: 0, incarnation: 1 }, old, between, newest, future] {
                for position in EXTREMES.into_iter().filter(|&number| (1..=MAX_POSITION).contains(&number)) {
                    drop(show(&mut story, ticket_of(generation, position)));
                    story.room.assert_sound();
                    assert!(story.room.segments.len() <= SEGMENTS_MAX);
                    assert_eq!(story.room.newest().generation, newest);
                }
            }
        }
        still_works(&mut story);
    }
}

#[test]
fn a_ticket_takes_no_offer_from_anybody() {
    let mut story = Story::max_size(2);
    let tickets = story.join_many(4);
    mend(&mut story, vec![]);
    let before = story.room.held();
    let line = tickets[0].generation;
    assert_eq!(show(&mut story, ticket_of(line, MAX_POSITION)), Err(Refusal::LineNotLearned));
    assert_eq!(show(&mut story, ticket_of(line, 4 + SHOWN_GROWTH_MAX)), Ok(Answer::Done));
    assert_eq!(story.room.held(), before);
    for &ticket in &tickets[..2] {
        story.claim(ticket);
    }
}

#[test]
fn a_clock_at_the_end_of_time_is_no_reason_to_stop() {
    let mut story = Story::max_size(2);
    story.now = UnixMillis(u64::MAX - 1);
    let memory = memory_of(&story.room);
    let line = |line: Line| Line { claimed: 1, joined: 9, ..line };
    mend(&mut story, memory.into_iter().map(line).collect());
    story.join_many(3);
    let room: &Room = &story.room;
    room.assert_sound();
    assert!(room.held() <= 3);
}
