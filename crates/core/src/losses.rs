//! What a store has lost, and how a room goes on without it.
//!
//! A store can come back with less than it had acknowledged: a replica that was promoted too early, a disk that was behind, a
//! memory that is empty. The room must then hand out no position twice, must not move its frontier back, and must not let
//! more people in than fit. It gets there by four means.
//!
//! *A new line.* The line that was interrupted is closed to joins, and a new one opens behind it whose numbers begin beyond
//! everything that any node has seen ([`mend`]). Tickets of the old line keep their precedence.
//!
//! *Memory.* Every node remembers how far it has seen each line come ([`Line`]), and tells the room ([`recall`]). So does every visitor:
//! a ticket proves that its place and all before it were handed out, because the primary that did so counted without gaps
//! ([`show`]). Where nobody remembers a line at all, the first ticket of it starts [`LEARNING_MILLIS`] without offers, so that
//! those who stood in front have time to show themselves. Lines that nobody remembers are honoured for an hour after the loss
//! ([`HONOURED_SECONDS`]), and then only by tickets of the last day; and no ticket makes a line longer by more than
//! [`SHOWN_GROWTH_MAX`] places that nobody has shown. Old tickets, or a single one with a high number, are not worth more than that.
//!
//! *Moves.* Nodes remember which places have moved to another device too, and of several copies the highest counts: else the older
//! device would hold the place again, beside the newer one.
//!
//! *Phantoms.* A pass that left may have no session any more. It counts as one visitor inside until it has surely ended.

use crate::apply::open_segment;
use crate::auction;
use crate::board::CLOCK_SKEW_MAX_SECONDS;
use crate::effects::Effects;
use crate::events::Event;
use crate::ids::{Generation, MAX_POSITION, Ticket, UnixMillis};
use crate::inlet::make_offers;
use crate::moves::{self, MoveRecord, MovedPlaces, Mover};
use crate::operation::{Answer, Refusal, SERVING_MAX, key_of};
use crate::room::{Room, SEGMENTS_MAX};
use crate::segment::Segment;

/// How long a room makes no offers after the first ticket of a line that nobody remembers.
pub const LEARNING_MILLIS: u64 = 120_000;
/// How long after a loss, when the newest line was opened, unknown lines are honoured.
pub const HONOURED_SECONDS: u64 = 3_600;
/// How old a ticket of a line that nobody remembers may be.
pub const LOST_TICKET_AGE_MAX_SECONDS: u64 = 86_400;
/// By how many places one ticket makes a line longer. In a line with people in it the next ticket is nearer than that, and a holder who is
/// too far away asks again.
pub const SHOWN_GROWTH_MAX: u64 = 4_096;
/// The fewest numbers that a new line leaves out beyond everything seen.
pub const MARGIN_MIN: u64 = 256;
/// The most.
pub const MARGIN_MAX: u64 = 1 << 20;

/// A line as a node remembers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line {
    /// Which line.
    pub generation: Generation,
    /// The position before its first.
    pub base: u64,
    /// The last position handed out.
    pub joined: u64,
    /// The frontier; in an auction, the highest winner.
    pub serving: u64,
    /// Everything up to it was settled.
    pub floor: u64,
    /// How many offers were exchanged for passes that have left.
    pub claimed: u64,
    /// How many of these were still inside.
    pub inside: u64,
}

/// What a room must make up for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Losses {
    /// Visitors inside whose sessions were lost.
    pub phantoms: u64,
    /// When the last of them has surely left.
    pub phantoms_end_at: UnixMillis,
    /// Tickets of unknown lines opened after this one are honoured, for [`HONOURED_SECONDS`]; `None`: no unknown line's.
    pub honours_after: Option<Generation>,
    /// Offers that the rules had not made here: the frontier had come further on the side of the store that was lost.
    pub offers_recalled: u64,
    /// Until when nobody is offered a place, because those in front may not have shown themselves yet.
    pub learning_until: UnixMillis,
}

impl Losses {
    /// Of a room made in a store that can have lost one of its name: people may still hold tickets of that. Until `heard_at` nobody is
    /// let in, so that they can show them.
    pub fn of_a_room_that_may_have_been_lost(heard_at: UnixMillis) -> Self {
        let honours_after = Some(Generation { opened: 0, incarnation: 0 });
        Self { honours_after, learning_until: heard_at, ..Self::default() }
    }
}

impl Default for Losses {
    fn default() -> Self {
        let never = UnixMillis(0);
        Self {
            phantoms: 0,
            phantoms_end_at: never,
            honours_after: None,
            offers_recalled: 0,
            learning_until: never,
        }
    }
}

/// How many numbers to leave out, given the joins of the last half minute: nobody can have handed out more unseen.
pub const fn margin(recent_joins: u64) -> u64 {
    let wanted = recent_joins.saturating_mul(4);
    if wanted < MARGIN_MIN {
        MARGIN_MIN
    } else if wanted > MARGIN_MAX {
        MARGIN_MAX
    } else {
        wanted
    }
}

/// What mends a room after its store may have lost something.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mend {
    /// Random, see [`Generation`].
    pub incarnation: u8,
    /// How many numbers to leave out beyond everything seen.
    pub margin: u64,
    /// What the caller remembers.
    pub lines: Vec<Line>,
    /// The oldest line that the caller knows to be still there: all before it were closed for good.
    pub oldest: Option<Generation>,
    /// Whether the records of all sessions are gone.
    pub sessions_lost: bool,
    /// The places that the caller has seen to move.
    pub moved: MovedPlaces,
}

/// Part of every tick.
pub(crate) fn tick(room: &mut Room, now: UnixMillis, effects: &mut Effects) {
    let losses = &mut room.losses;
    if losses.phantoms > 0 && losses.phantoms_end_at <= now {
        losses.phantoms = 0;
        effects.changed = true;
    }
    if losses.learning_until != UnixMillis(0) && losses.learning_until <= now {
        losses.learning_until = UnixMillis(0);
        effects.changed = true;
    }
}

/// When time alone changes something here.
pub(crate) fn next_due(losses: &Losses) -> Option<UnixMillis> {
    let phantoms = (losses.phantoms > 0).then_some(losses.phantoms_end_at);
    let learning = Some(losses.learning_until).filter(|&until| until != UnixMillis(0));
    phantoms.into_iter().chain(learning).min()
}

/// Goes on after an interruption: whatever may be missing is made up for, and joins go to a new line.
pub(crate) fn mend(
    room: &mut Room,
    now: UnixMillis,
    mend: &Mend,
    effects: &mut Effects,
) -> Result<Answer, Refusal> {
    if mend.sessions_lost {
        forget_sessions(room, now);
    }
    close_before(room, now, mend.oldest, effects);
    for segment in &mut room.segments {
        segment.recalled = segment.counts.claimed;
    }
    let before = room.newest().generation;
    let sessions_lost = mend.sessions_lost;
    honour_lost_lines(room, mend);
    for line in &mend.lines {
        let was_lost_again = line.generation > before && is_plausible(line.generation, now);
        if room.segment_mut(line.generation).is_some() {
            recall_line(room, now, line);
        } else if was_lost_again || honours(room, now, line.generation) {
            restore_line(room, now, line);
        }
    }
    moves::recall(room, &mend.moved, effects);
    room.losses.offers_recalled += make_offers(room, now, effects);
    // Where the newest line was lost too, there is another newest now.
    close_before(room, now, mend.oldest, effects);
    effects.changed = true;
    let highest = room.segments.iter().map(|segment| segment.joined).max().unwrap_or(0);
    close_one_that_is_over(room, effects);
    let margin = mend.margin.min(MARGIN_MAX);
    let base = highest.saturating_add(margin);
    let has_places = base < MAX_POSITION;
    match open_segment(room, now, mend.incarnation, if has_places { base } else { 0 }, effects) {
        Err(Refusal::SegmentsFull) => {
            // Each repair leaves out a number of margins given by its incarnation. The line stays the same, so nothing but its
            // numbers tells this repair from one by another node, or from one after another loss.
            let left_out = margin.saturating_mul(1 + u64::from(mend.incarnation)).min(MARGIN_MAX);
            skip_positions(room, room.newest().joined.saturating_add(left_out).min(MAX_POSITION), effects);
            room.epoch += 1;
            Ok(())
        }
        opened => opened.map(drop),
    }?;
    let generation = room.newest().generation;
    effects.events.push(Event::LineMended { generation, sessions_lost });
    Ok(Answer::LineOpened(generation))
}

/// Lines opened after the newest that is stored may have been lost altogether; a node that remembers one, or a visitor with a ticket
/// of it, may come later. Those before the oldest that is still there were closed for good. In a store that was emptied nothing is
/// stored: there every line after the oldest that is given back may have been lost, and what was honoured before stays so.
fn honour_lost_lines(room: &mut Room, mend: &Mend) {
    let preceding =
        |oldest: Generation| Generation { opened: oldest.opened.saturating_sub(1), incarnation: u8::MAX };
    let honoured = room.losses.honours_after;
    room.losses.honours_after = Some(if mend.sessions_lost {
        let oldest = room.segments.front().map(|segment| segment.generation);
        honoured.into_iter().chain(oldest).min().unwrap_or(room.newest().generation)
    } else {
        let after = honoured.unwrap_or(room.newest().generation);
        mend.oldest.map_or(after, |oldest| after.max(preceding(oldest)))
    });
}

/// Whether a line can have been opened by now: generations run out if one from the end of time is believed.
fn is_plausible(generation: Generation, now: UnixMillis) -> bool {
    generation.opened_unix_seconds() <= now.seconds() + CLOCK_SKEW_MAX_SECONDS
}

/// Where there is no place for another line, the newest leaves numbers out: they count as places given up.
fn skip_positions(room: &mut Room, base: u64, effects: &mut Effects) {
    let segment = room.newest_mut();
    let skipped = segment.joined + 1..=base;
    let count = base.saturating_sub(segment.joined);
    if segment.serving >= segment.joined {
        // How far the frontier is ahead is owed to people, not to numbers.
        segment.serving += count;
    }
    if segment.joined == segment.base {
        // A line without people begins later.
        (segment.base, segment.floor, segment.joined) = (base, base, base);
        return;
    }
    segment.counts.left += count;
    segment.joined += count;
    for position in skipped {
        segment.take_unoffered(position, effects);
    }
}

/// Sessions without a record never end by name or by time: they become phantoms.
fn forget_sessions(room: &mut Room, now: UnixMillis) {
    let inside = room.active() - room.losses.phantoms;
    for segment in &mut room.segments {
        segment.counts.expired += segment.counts.live_sessions();
    }
    room.past.expired += room.past.live_sessions();
    room.exit_credits = 0;
    add_phantoms(room, now, inside);
}

fn add_phantoms(room: &mut Room, now: UnixMillis, count: u64) {
    if count > 0 {
        room.losses.phantoms += count;
        let end = now.plus(room.settings.longest_unseen_visit_millis());
        room.losses.phantoms_end_at = room.losses.phantoms_end_at.max(end);
    }
}

/// Takes in what a node remembers of lines that are closed to joins.
pub(crate) fn recall(
    room: &mut Room,
    now: UnixMillis,
    lines: &[Line],
    moved: &MovedPlaces,
    effects: &mut Effects,
) -> Answer {
    let newest = room.newest().generation;
    let known: Vec<_> = room.segments.iter().cloned().collect();
    for line in lines.iter().filter(|line| line.generation < newest) {
        if room.segment_mut(line.generation).is_some() {
            recall_line(room, now, line);
        } else if honours(room, now, line.generation) {
            restore_line(room, now, line);
        }
    }
    effects.changed |= !room.segments.iter().eq(known.iter());
    let has_moved = moves::recall(room, moved, effects);
    effects.changed |= has_moved;
    room.losses.offers_recalled += make_offers(room, now, effects);
    Answer::Done
}

/// Whether nobody of a line was served since it was lost.
const fn is_untouched(segment: &Segment) -> bool {
    segment.serving == segment.base && segment.floor == segment.base
}

/// A line of which nobody was served since it was lost, as a node remembers its beginning.
fn begin_earlier(segment: &mut Segment, line: &Line) {
    segment.base = segment.base.min(line.base);
    segment.floor = line.floor.clamp(segment.base, segment.joined);
    segment.serving = segment.floor;
    segment.counts.lapsed += segment.taken.live_between(segment.base, segment.floor);
}

/// A line of which nothing is left, as a node remembers it.
fn restore_line(room: &mut Room, now: UnixMillis, line: &Line) {
    let Line { generation, base, .. } = *line;
    if room.segments.len() == SEGMENTS_MAX || base >= MAX_POSITION {
        return;
    }
    let joined = line.joined.clamp(base, MAX_POSITION);
    let floor = line.floor.clamp(base, joined);
    let mut segment = Segment::open(generation, base);
    (segment.joined, segment.floor, segment.serving) = (joined, floor, floor);
    // What is at or below the floor was claimed, left or lapsed; which of it is not known any more.
    segment.counts.lapsed = floor - base;
    segment.recalled = line.claimed.min(joined - base);
    let inside = line.inside.min(joined - base);
    let place = room.segments.partition_point(|other| other.generation < generation);
    room.segments.insert(place, segment);
    recall_line(room, now, line);
    add_phantoms(room, now, inside);
}

/// Where there is no place for another line, one between the oldest and the newest goes that nobody is left in: several
/// interruptions in a row leave such lines.
fn close_one_that_is_over(room: &mut Room, effects: &mut Effects) {
    let is_over = |segment: &Segment| segment.waiting() == 0 && segment.counts.live_sessions() == 0;
    let last = room.segments.len() - 1;
    if room.segments.len() < SEGMENTS_MAX || is_over(&room.segments[0]) {
        return;
    }
    let place = room.segments.iter().take(last).position(is_over);
    if let Some(closed) = place.and_then(|place| room.segments.remove(place)) {
        room.past.add(&closed.counts);
        effects.closed_generations.push(closed.generation);
        // Its tickets are unknown for good; a holder who has claimed must not claim again.
        room.losses.honours_after = room.losses.honours_after.map(|after| after.max(closed.generation));
    }
}

/// Lines that were closed for good do not come back because a store has forgotten that they were.
fn close_before(room: &mut Room, now: UnixMillis, oldest: Option<Generation>, effects: &mut Effects) {
    let newest = room.newest().generation;
    while let Some(segment) = room.segments.front()
        && oldest.is_some_and(|oldest| segment.generation < oldest)
        && segment.generation != newest
    {
        let Some(mut closed) = room.segments.pop_front() else { return };
        let inside = closed.counts.live_sessions();
        // Nothing tells which of the visits that are counted by prefix were in it.
        room.visits_by_prefix.clear();
        closed.counts.expired += inside;
        room.past.add(&closed.counts);
        effects.closed_generations.push(closed.generation);
        auction::end_wins_of(room, closed.generation);
        let credits = room.exit_credits.min(inside);
        room.exit_credits -= credits;
        add_phantoms(room, now, inside - credits);
    }
}

fn recall_line(room: &mut Room, now: UnixMillis, line: &Line) {
    let is_auction = room.settings.is_auction();
    // Where everybody is to wait, a frontier ahead would let the next ones in.
    let may_run_ahead = !room.settings.inlet.is_capped() && !is_auction && !room.settings.queue_all;
    let newest = room.newest().generation;
    let honoured = honours(room, now, line.generation);
    let Some(segment) = room.segment_mut(line.generation) else { return };
    segment.joined = segment.joined.max(line.joined.min(MAX_POSITION));
    if honoured && line.base < segment.base && is_untouched(segment) {
        // So far it was known from tickets alone.
        begin_earlier(segment, line);
    }
    let ahead = may_run_ahead && line.generation == newest;
    let reached = if ahead { line.serving.min(SERVING_MAX) } else { line.serving.min(segment.joined) };
    let frontier = if is_auction { &mut segment.won } else { &mut segment.serving };
    *frontier = (*frontier).max(reached);
    let claimed = line.claimed.min(segment.joined - segment.base);
    let lost = claimed.saturating_sub(segment.recalled);
    segment.recalled += lost;
    let ahead = line.serving.min(SERVING_MAX).saturating_sub(segment.joined);
    if may_run_ahead && line.generation < newest && ahead > 0 {
        // What an operator let the frontier run ahead is owed to the visitors who join next, as where a line is opened.
        let newest = room.newest_mut();
        newest.serving = newest.serving.max(newest.base + ahead);
    }
    add_phantoms(room, now, lost);
}

fn honours(room: &Room, now: UnixMillis, generation: Generation) -> bool {
    let newest = room.newest().generation;
    is_honoured(room.losses.honours_after, newest, generation, now)
}

/// Whether an unknown line is honoured, given the one after which lines are and the newest, which was opened when the loss was found.
pub(crate) fn is_honoured(
    after: Option<Generation>,
    newest: Generation,
    generation: Generation,
    now: UnixMillis,
) -> bool {
    let until = newest.opened_unix_seconds().saturating_add(HONOURED_SECONDS);
    after.is_some_and(|after| generation > after) && generation < newest && now.seconds() < until
}

/// A visitor shows a ticket that is genuine, but beyond what the room knows.
pub(crate) fn show(
    room: &mut Room,
    now: UnixMillis,
    ticket: &Ticket,
    effects: &mut Effects,
) -> Result<Answer, Refusal> {
    let (generation, position) = (ticket.generation, ticket.position.get());
    let is_newest = generation == room.newest().generation;
    let is_recent = ticket.entry_time().saturating_add(LOST_TICKET_AGE_MAX_SECONDS) >= now.seconds();
    let honoured = honours(room, now, generation) && is_recent;
    let (full, knows_no_lost_line) = (room.segments.len() >= SEGMENTS_MAX, room.segments.len() == 1);
    match room.segment_mut(generation) {
        Some(segment) if position > segment.joined && !is_newest => {
            if position - segment.joined > SHOWN_GROWTH_MAX {
                return Err(Refusal::LineNotLearned);
            }
            segment.joined = position;
        }
        // Nobody of this line was served since it was lost, so it may begin earlier than thought.
        Some(segment) if position <= segment.base && honoured && is_untouched(segment) && !is_newest => {
            let base = position - 1;
            if segment.base - base > SHOWN_GROWTH_MAX {
                return Err(Refusal::LineNotLearned);
            }
            (segment.base, segment.floor, segment.serving) = (base, base, base);
        }
        Some(segment) if position > segment.base && position <= segment.joined => return Ok(Answer::Done),
        None if honoured && full => return Err(Refusal::SegmentsFull),
        None if honoured => {
            let segment = Segment { joined: position, ..Segment::open(generation, position - 1) };
            let place = room.segments.partition_point(|other| other.generation < generation);
            room.segments.insert(place, segment);
            if room.losses.learning_until == UnixMillis(0) || knows_no_lost_line {
                room.losses.learning_until = now.plus(LEARNING_MILLIS);
            }
        }
        _ => return Err(Refusal::UnknownTicket),
    }
    if ticket.copy > 0 {
        // Its holder proves that the place had moved to them.
        let newest = MoveRecord { copy: ticket.copy, by: Mover::UNNAMED };
        moves::recall(room, &MovedPlaces::new([(key_of(ticket), newest)].into()), effects);
    }
    effects.changed = true;
    Ok(Answer::Done)
}
