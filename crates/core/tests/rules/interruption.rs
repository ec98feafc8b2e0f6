//! What the stories of lost stores share: replicas, memories, and the operations that mend a room.

use anteroom_core::losses::{Line, MARGIN_MIN, Mend};
use anteroom_core::{Answer, Generation, MovedPlaces, Operation, Position, Refusal, Room, Ticket};

use super::story::Story;

/// The same room on a replica: whatever happens to one of them from now on, the other does not know.
pub(crate) fn replica_of(story: &Story) -> Story {
    let (room, sessions) = (story.room.clone(), story.sessions.clone());
    Story { room, now: story.now, sessions, events: vec![], spread_millis: 0 }
}

/// What a node remembers that has just seen a room, and whose claims are all confirmed.
pub(crate) fn memory_of(room: &Room) -> Vec<Line> {
    let line = |segment: &anteroom_core::Segment| Line {
        generation: segment.generation,
        base: segment.base,
        joined: segment.joined,
        serving: segment.serving.max(segment.won),
        floor: segment.floor,
        claimed: segment.counts.claimed,
        inside: segment.counts.live_sessions(),
    };
    room.segments.iter().map(line).collect()
}

/// A new primary goes on with what it has and what the first node remembers; returns the line that joins go to now.
pub(crate) fn mend(story: &mut Story, lines: Vec<Line>) -> Generation {
    mend_as(story, lines, false)
}

/// The same after the records of all sessions are gone.
pub(crate) fn mend_without_sessions(story: &mut Story, lines: Vec<Line>) -> Generation {
    story.sessions.clear();
    mend_as(story, lines, true)
}

fn mend_as(story: &mut Story, lines: Vec<Line>, sessions_lost: bool) -> Generation {
    let oldest = lines.iter().map(|line| line.generation).min();
    let mend = Mend { incarnation: 9, margin: MARGIN_MIN, lines, oldest, sessions_lost, ..Mend::default() };
    match story.does(Operation::Mend(mend)) {
        Answer::LineOpened(line) => {
            assert_eq!(line, story.room.newest().generation, "joins go to the line that is named");
            line
        }
        other => panic!("{other:?}"),
    }
}

/// Another node tells what it remembers.
pub(crate) fn recall(story: &mut Story, lines: Vec<Line>) {
    assert_eq!(story.does(Operation::Recall { lines, moved: MovedPlaces::default() }), Answer::Done);
}

/// A visitor shows a ticket.
pub(crate) fn show(story: &mut Story, ticket: Ticket) -> Result<Answer, Refusal> {
    story.attempt(&Operation::Show { ticket })
}

/// A genuine ticket of any line.
pub(crate) fn ticket_of(generation: Generation, position: u64) -> Ticket {
    Ticket { lane: 0, generation, position: Position::new(position).unwrap(), entered: 0, copy: 0 }
}

/// All visitors come as soon as they may, and go as soon as another waits for the slot; returns the order in which they got in.
pub(crate) fn let_everybody_through(story: &mut Story, tickets: &[Ticket]) -> Vec<Ticket> {
    let capacity = story.room.capacity().unwrap();
    let (mut order, mut inside) = (vec![], std::collections::VecDeque::new());
    let mut waiting = tickets.to_vec();
    while !waiting.is_empty() {
        let before = waiting.len();
        waiting.retain(|&ticket| match story.try_claim(ticket) {
            Ok(session) => {
                order.push(ticket);
                inside.push_back(session);
                assert!(story.room.held() <= capacity, "more than fit");
                false
            }
            Err(refusal) => {
                assert_eq!(refusal, Refusal::NotServed);
                true
            }
        });
        if waiting.len() == before {
            assert_eq!(story.room.held(), capacity, "somebody waits, and a slot is not used");
            let session = inside.pop_front().expect("somebody inside whose slot can be given on");
            story.close(&session).unwrap();
        }
    }
    order
}

/// Every order of three things.
pub(crate) const ORDERS: [[usize; 3]; 6] = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
