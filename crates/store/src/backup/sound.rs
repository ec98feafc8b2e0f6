//! Whether a room from outside can be one that the rules made. The rules stop at a contradiction, and rightly so; a
//! foreign room must be refused before it comes to that. Sums here cannot overflow, because each part is bounded first.

mod clockwork;

use std::collections::HashMap;

use anteroom_core::estimate::SAMPLES_MAX;
use anteroom_core::ids::{COPY_MAX, GENERATION_EPOCH_UNIX_SECONDS};
use anteroom_core::moves::MOVED_MAX;
use anteroom_core::operation::SERVING_MAX;
use anteroom_core::prefixes::{DEFERRED_MAX, DeferredPlace};
use anteroom_core::room::SEGMENTS_MAX;
use anteroom_core::segment::STEPS_MAX;
use anteroom_core::session::DEPARTED_MAX;
use anteroom_core::taken_positions::{FIRST_MOVES_CHUNK, chunk_of, moves_chunk_of};
use anteroom_core::{
    Counts, Generation, MAX_POSITION, Room, Segment, Session, SessionKey, SessionStatus, UnixMillis,
};

use crate::contract::Trace;

/// The largest count, version or epoch: what comes after must be countable too.
const COUNT_MAX: u64 = 1 << 60;
/// The latest opening of a line, in seconds since the generations' epoch: others must be able to follow it.
const OPENED_MAX: u32 = u32::MAX - (1 << 24);
/// The latest moment a room may have seen.
const CLOCK_MAX: UnixMillis = UnixMillis((GENERATION_EPOCH_UNIX_SECONDS + u32::MAX as u64) * 1000);

/// What is wrong with a room, if anything is.
pub(crate) fn unsound(room: &Room) -> Option<&'static str> {
    let sums = [room.version, room.epoch, room.offers_by_hand, room.pace.offers_made];
    let wrong_numbers = sums.into_iter().any(|sum| sum > COUNT_MAX);
    let late = |at: UnixMillis| at > room.clock;
    let generations: Vec<Generation> = room.segments.iter().map(|segment| segment.generation).collect();
    if room.segments.is_empty() || room.segments.len() > SEGMENTS_MAX {
        Some("the number of its lines")
    } else if !generations.is_sorted_by(|one, next| one < next) || generations.iter().copied().any(too_late) {
        Some("the order of its lines")
    } else if wrong_numbers || unsound_counts(&room.past) {
        Some("its figures")
    } else if room.clock > CLOCK_MAX || room.halted_since.is_some_and(late) {
        Some("its clock")
    } else if room.halted_since.is_some() == room.state.admits() {
        Some("its state")
    } else if room.settings.check().is_err() {
        Some("its settings")
    } else if unsound_pace(room) {
        Some("its pace")
    } else if let Some(wrong) = room.segments.iter().find_map(|segment| unsound_segment(segment, room.clock))
    {
        Some(wrong)
    } else if room.exit_credits > room.counts().live_sessions() {
        Some("its exits")
    } else if unsound_departed(room) {
        Some("the visits it shows as ended")
    } else if unsound_prefixes(room) {
        Some("where its visits come from")
    } else if room.moved.len() > MOVED_MAX || room.moved.values().any(|moved| moved.copy > COPY_MAX) {
        Some("the places that have moved")
    } else {
        clockwork::unsound(room)
    }
}

/// Whether no room can be made after the deleted one.
pub(super) fn unsound_trace(trace: &Trace) -> bool {
    trace.version > COUNT_MAX || trace.epoch > COUNT_MAX || too_late(trace.generation)
}

const fn too_late(generation: Generation) -> bool {
    generation.opened > OPENED_MAX
}

const fn unsound_counts(counts: &Counts) -> bool {
    let Counts { claimed, completed, abandoned, expired, lapsed, left } = *counts;
    claimed > COUNT_MAX
        || completed > COUNT_MAX
        || abandoned > COUNT_MAX
        || expired > COUNT_MAX
        || lapsed > COUNT_MAX
        || left > COUNT_MAX
        || completed + abandoned + expired > claimed
}

/// One from the future would be shown for ever, and in the end there would be no space for others.
fn unsound_departed(room: &Room) -> bool {
    room.departed.len() > DEPARTED_MAX
        || room.departed.iter().any(|departed| departed.at > room.clock)
        || !room.departed.iter().is_sorted_by_key(|departed| departed.at)
}

/// A deferred place is one that nobody else can have, and waits.
fn unsound_prefixes(room: &Room) -> bool {
    let is_wrong = |key: &SessionKey, place: &DeferredPlace| {
        let segment = room.segments.iter().find(|segment| segment.generation == key.generation);
        let position = key.position.get();
        place.offered_at.is_some_and(|at| at > room.clock)
            || segment.is_some_and(|segment| {
                position <= segment.base
                    || position > segment.joined
                    || position > segment.floor && !segment.taken.contains(position)
            })
    };
    let of_line = |segment: &Segment| {
        room.deferred.keys().filter(|key| key.generation == segment.generation).count() as u64
    };
    room.deferred.len() > DEFERRED_MAX
        || room.deferred.iter().any(|(key, place)| is_wrong(key, place))
        || room.segments.iter().any(|segment| of_line(segment) > segment.waiting())
        || room.visits_by_prefix.values().any(|visits| *visits > COUNT_MAX)
}

fn unsound_pace(room: &Room) -> bool {
    let samples = &room.pace.samples;
    let ascending = samples.iter().zip(samples.iter().skip(1));
    samples.len() > SAMPLES_MAX
        || room.pace.offers_before > room.pace.offers_made
        || samples.iter().any(|sample| sample.at > room.clock || sample.offers_made > room.pace.offers_made)
        || ascending.into_iter().any(|(one, next)| one.at > next.at || one.offers_made > next.offers_made)
}

fn unsound_segment(segment: &Segment, clock: UnixMillis) -> Option<&'static str> {
    let Segment { base, joined, serving, floor, ref counts, .. } = *segment;
    let in_order = base <= floor && floor <= joined && joined <= MAX_POSITION;
    if !in_order || serving < base || serving > SERVING_MAX || segment.won > joined {
        return Some("the positions of a line");
    }
    if unsound_counts(counts) || counts.claimed + counts.lapsed + counts.left > joined - base {
        return Some("the figures of a line");
    }
    let is_out_of_range = |index: u64| {
        index > chunk_of(MAX_POSITION) && !(FIRST_MOVES_CHUNK..=moves_chunk_of(MAX_POSITION)).contains(&index)
    };
    if segment.taken.chunks().any(|(index, _)| is_out_of_range(index)) {
        return Some("the places taken in a line");
    }
    let mut covered = floor;
    for step in segment.steps.iter() {
        let wanted = segment.taken.live_between(covered, step.up_to);
        if step.up_to <= covered || step.up_to > joined.min(serving) || step.at > clock || step.open != wanted
        {
            return Some("the offers of a line");
        }
        covered = step.up_to;
    }
    (segment.steps.len() > STEPS_MAX).then_some("the offers of a line")
}

/// How many sessions a room can have, by what its lines have counted.
#[derive(Debug, Default)]
pub(super) struct SessionBudget {
    /// By generation: still active, and expired.
    left: HashMap<Generation, (u64, u64)>,
}

impl SessionBudget {
    /// That of a room which is sound otherwise.
    pub(super) fn of(room: &Room) -> Self {
        let of_segment = |segment: &Segment| {
            (segment.generation, (segment.counts.live_sessions(), segment.counts.expired))
        };
        Self { left: room.segments.iter().map(of_segment).collect() }
    }

    /// Takes a session out of it; says what is wrong if there cannot be one more.
    pub(super) fn spend(&mut self, session: &Session) -> Option<&'static str> {
        let Some((active, expired)) = self.left.get_mut(&session.key.generation) else {
            return Some("a session of no line");
        };
        let left = match session.status {
            SessionStatus::Active => active,
            SessionStatus::Expired => expired,
            SessionStatus::Ended(_) => return None,
        };
        match left.checked_sub(1) {
            Some(fewer) => {
                *left = fewer;
                None
            }
            None => Some("more sessions than were begun"),
        }
    }
}
