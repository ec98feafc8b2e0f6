//! The auction discipline: each round, the earliest of those who show up win the free slots.
//!
//! Rounds close on a grid of `round_seconds` since 1970, so every node knows them, and a round is named by the moment it closes.
//! How many slots it gives away is frozen when it opens; if fewer are left when it closes, it gives away those. The nodes know who is
//! present, the rules do not: nodes hand over those present in [`settle_round`], once a round.
//!
//! A win is an offer valid until the next round is settled. A winner who claims it gets a pass; one who does not keeps the place
//! in line, and the slot returns. If a round found a slot for everybody who came, those left over are *spare*: the next who come
//! are admitted immediately. Nodes need not remember everybody who came, only the earliest and whether there were others.

use std::collections::BTreeSet;

use crate::effects::Effects;
use crate::ids::{Generation, UnixMillis};
use crate::inlet::{self, MovedBy};
use crate::operation::{Answer, Refusal};
use crate::room::Room;
use crate::session::SessionKey;
use crate::shared::Shared;

/// The most winners of one round.
pub const ROUND_WINNERS_MAX: u64 = 65_536;
/// Weight of the last round in the moving average of winners: one in so many.
const AVERAGE_ROUNDS: u64 = 8;
/// How long after a round's end all nodes have told who came to it.
pub const COLLECTING_MILLIS: u64 = 500;

/// The auction of a room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Auction {
    /// The open round: the moment it closes.
    pub round: UnixMillis,
    /// How many slots it gives away, frozen when it opened; less those given by immediate admission.
    pub free: u64,
    /// How many of these are for immediate admission of the next who come.
    pub spare: u64,
    /// The round settled last.
    pub settled: UnixMillis,
    /// Unclaimed wins.
    pub wins: BTreeSet<SessionKey>,
    /// When they were won.
    pub won_at: UnixMillis,
    /// Winners per round in thousandths, a moving average; `None` before the first.
    pub average_thousandths: Option<u64>,
    /// Who came to the round that has just closed, as far as nodes have told.
    pub collected: Option<CollectedAttendance>,
}

/// Who came to a round, told by several nodes one after the other.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CollectedAttendance {
    /// The earliest of them: no more than can win.
    pub present: BTreeSet<SessionKey>,
    /// Whether there were others.
    pub turned_away: bool,
}

/// Who came to a round, as one node tells it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attendance<'a> {
    pub(crate) present: &'a [SessionKey],
    pub(crate) turned_away: bool,
}

impl Auction {
    /// An auction that nobody has come to yet.
    pub(crate) fn open(room: &Room, now: UnixMillis) -> Self {
        let free = inlet::free_slots(room, now).min(ROUND_WINNERS_MAX);
        Self {
            round: closing_after(now, room.settings.round_millis()),
            free,
            // Of those who wait already the earliest must win, not the first to ask.
            spare: if somebody_waits(room) { 0 } else { free },
            settled: UnixMillis(0),
            wins: BTreeSet::new(),
            won_at: now,
            average_thousandths: None,
            collected: None,
        }
    }

    /// When the round that has closed is settled, if anybody came to it.
    pub(crate) fn settles_at(&self) -> Option<UnixMillis> {
        self.collected.as_ref().map(|_| self.round.plus(COLLECTING_MILLIS))
    }

    /// Until when a win that is open now can be claimed at least.
    pub const fn wins_end_at(&self) -> UnixMillis {
        self.round
    }

    fn learn(&mut self, winners: u64) {
        let sample = winners * 1000;
        self.average_thousandths = Some(match self.average_thousandths {
            None => sample,
            Some(average) => (average * (AVERAGE_ROUNDS - 1) + sample) / AVERAGE_ROUNDS,
        });
    }
}

/// The first closing moment after `now`.
fn closing_after(now: UnixMillis, round_millis: u64) -> UnixMillis {
    UnixMillis((now.0 / round_millis + 1).saturating_mul(round_millis))
}

fn somebody_waits(room: &Room) -> bool {
    room.waiting() > room.offers()
}

/// Part of every tick: an auction begins or ends with its discipline, and a round that nobody settled for a whole round is
/// followed by another. Whether anybody came to it is not known (perhaps no node was running), so it leaves spare slots only
/// if there were some before, or if nobody waits who could have come.
pub(crate) fn tick(room: &mut Room, now: UnixMillis, effects: &mut Effects) {
    if !room.settings.is_auction() {
        if room.auction.take().is_some() {
            // What winners skipped still waits: the counter goes on where it was.
            room.segments.iter_mut().for_each(|segment| segment.won = 0);
            effects.changed = true;
        }
        return;
    }
    let Some(auction) = &room.auction else {
        room.auction = Some(Auction::open(room, now).into());
        effects.changed = true;
        return;
    };
    if auction.settles_at().is_some_and(|at| at <= now) {
        let round = auction.round;
        let collected =
            room.auction.as_mut().and_then(|auction| auction.collected.take()).unwrap_or_default();
        let present: Vec<SessionKey> = collected.present.into_iter().collect();
        let attendance = Attendance { present: &present, turned_away: collected.turned_away };
        settle_round(room, now, round, attendance, effects).expect("the round is over and not settled");
        return;
    }
    if now < auction.round.plus(room.settings.round_millis()) {
        return;
    }
    let all_were_served = auction.spare > 0 || !somebody_waits(room);
    effects.changed |= return_wins(room) > 0;
    open_round(room, now, all_were_served);
}

/// After a change of settings: where rounds have become shorter, so has the open one.
pub(crate) fn on_reconfigure(room: &mut Room, now: UnixMillis) {
    let round = closing_after(now, room.settings.round_millis());
    if let Some(auction) = &mut room.auction {
        auction.round = auction.round.min(round);
    }
}

/// A line is closed, and the open wins of its people with it.
pub(crate) fn end_wins_of(room: &mut Room, closed: Generation) {
    let has_wins = |auction: &&mut Shared<Auction>| auction.wins.iter().any(|key| key.generation == closed);
    if let Some(auction) = room.auction.as_mut().filter(has_wins) {
        auction.wins.retain(|key| key.generation != closed);
    }
}

/// Unclaimed wins end; their holders keep their places.
fn return_wins(room: &mut Room) -> usize {
    let with_wins = room.auction.as_mut().filter(|auction| !auction.wins.is_empty());
    with_wins.map_or(0, |auction| std::mem::take(&mut auction.wins).len())
}

fn open_round(room: &mut Room, now: UnixMillis, all_were_served: bool) {
    let free = inlet::free_slots(room, now).min(ROUND_WINNERS_MAX);
    let round = closing_after(now, room.settings.round_millis());
    if let Some(auction) = &mut room.auction {
        auction.round = round;
        auction.free = free;
        auction.spare = if all_were_served { free } else { 0 };
    }
}

/// Whether a round can end now: `Some` if it has been settled already, because a repeated request gets the same answer.
fn known_winners(room: &Room, now: UnixMillis, round: UnixMillis) -> Result<Option<Answer>, Refusal> {
    let Some(auction) = &room.auction else { return Err(Refusal::NoAuction) };
    if round == auction.settled {
        return Ok(Some(Answer::Won { winners: auction.wins.iter().copied().collect() }));
    }
    if round != auction.round || now < round { Err(Refusal::NotThisRound) } else { Ok(None) }
}

/// The end of a round: the earliest of those present win.
pub(crate) fn settle_round(
    room: &mut Room,
    now: UnixMillis,
    round: UnixMillis,
    attendance: Attendance<'_>,
    effects: &mut Effects,
) -> Result<Answer, Refusal> {
    if let Some(known) = known_winners(room, now, round)? {
        return Ok(known);
    }
    return_wins(room);
    let eligible: BTreeSet<SessionKey> =
        attendance.present.iter().copied().filter(|key| may_win(room, *key)).collect();
    let frozen = room.auction.as_ref().map_or(0, |auction| auction.free);
    let free = frozen.min(inlet::free_slots(room, now)).min(ROUND_WINNERS_MAX);
    let winners: Vec<SessionKey> =
        eligible.iter().copied().take(usize::try_from(free).unwrap_or(usize::MAX)).collect();
    // Visitors who were turned away during the round come back in the next, and its slots must not be given to passers-by.
    let all_were_served = winners.len() == eligible.len() && !attendance.turned_away;
    inlet::spend_rate(room, winners.len() as u64);
    let (before, passed_before) = (room.serving(), positions_passed(room));
    for winner in &winners {
        reach(room, *winner);
    }
    if let Some(auction) = &mut room.auction {
        auction.learn(winners.len() as u64);
        auction.settled = round;
        auction.won_at = now;
        auction.collected = None;
        auction.wins = winners.iter().copied().collect();
    }
    inlet::note_move(room, MovedBy::Auction, now, before);
    open_round(room, now, all_were_served);
    record_passed(room, now, passed_before);
    crate::forecast::on_frontier_move(room, now);
    effects.changed = true;
    Ok(Answer::Won { winners })
}

/// The end of a round on one of several nodes: those who came there are noted, and the round is settled when the other nodes have had
/// time for that too.
pub(crate) fn collect(
    room: &mut Room,
    now: UnixMillis,
    round: UnixMillis,
    attendance: Attendance<'_>,
    effects: &mut Effects,
) -> Result<Answer, Refusal> {
    if let Some(known) = known_winners(room, now, round)? {
        return Ok(known);
    }
    // Those who cannot win must not displace those who can.
    let eligible: Vec<SessionKey> =
        attendance.present.iter().copied().filter(|key| may_win(room, *key)).collect();
    let Some(auction) = &mut room.auction else { return Err(Refusal::NoAuction) };
    let most = usize::try_from(auction.free).unwrap_or(usize::MAX);
    let collected = auction.collected.get_or_insert_default();
    collected.present.extend(eligible);
    collected.turned_away |= attendance.turned_away;
    while collected.present.len() > most {
        collected.present.pop_last();
        collected.turned_away = true;
    }
    effects.changed = true;
    Ok(Answer::Collected)
}

/// Whether a ticket waits, in a line of this room.
fn may_win(room: &mut Room, key: SessionKey) -> bool {
    let position = key.position.get();
    room.segment_mut(key.generation).is_some_and(|segment| {
        position > segment.covered() && position <= segment.joined && !segment.taken.contains(position)
    })
}

/// The frontier of an auction is its highest winner.
fn reach(room: &mut Room, key: SessionKey) {
    if let Some(segment) = room.segment_mut(key.generation) {
        segment.won = segment.won.max(key.position.get());
    }
}

/// Part of a claim: takes a win, or a spare slot immediately; returns since when it was offered.
pub(crate) fn take_win(room: &mut Room, now: UnixMillis, key: SessionKey) -> Option<UnixMillis> {
    let auction = room.auction.as_mut()?;
    if auction.wins.contains(&key) {
        auction.wins.remove(&key);
        return Some(auction.won_at);
    }
    if auction.spare == 0 || inlet::free_slots(room, now) == 0 {
        return None;
    }
    let (before, passed_before) = (room.serving(), positions_passed(room));
    if let Some(auction) = &mut room.auction {
        auction.spare -= 1;
        auction.free = auction.free.saturating_sub(1);
    }
    inlet::spend_rate(room, 1);
    reach(room, key);
    inlet::note_move(room, MovedBy::Auction, now, before);
    record_passed(room, now, passed_before);
    Some(now)
}

/// Positions that the frontier has passed.
fn positions_passed(room: &Room) -> u64 {
    room.segments.iter().map(|segment| segment.frontier() - segment.base).sum()
}

/// The speed is that of the frontier: those who were not there when their turn came are passed too.
fn record_passed(room: &mut Room, now: UnixMillis, before: u64) {
    let moved = positions_passed(room).saturating_sub(before);
    if moved > 0 {
        room.pace.record(now, moved);
    }
}
