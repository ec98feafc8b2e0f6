//! How many slots the visitors of one address prefix hold, and those of them who wait although it is their turn.
//!
//! While others wait, the visits of one prefix are at most a share of the capacity. A visitor whose prefix has its share is
//! *deferred*: they keep the place and hold no slot, so that the line goes on behind them. As soon as a visit of the prefix
//! has ended, or nobody else waits, a free slot is offered to them before everybody behind. Visits beyond the share are not
//! prolonged while others wait.
//!
//! No address comes here. A prefix is known by one of [`PREFIX_TAGS`] tags, a keyed digest that all nodes compute alike. Two
//! prefixes may share a tag, and then share the share.
//!
//! *Invariant:* the position of a deferred place is taken, and still counts as waiting; it is an offer exactly while
//! `offered_at` is set.

use std::collections::BTreeMap;

use crate::effects::Effects;
use crate::ids::UnixMillis;
use crate::inlet;
use crate::operation::{Answer, Refusal};
use crate::room::Room;
use crate::session::SessionKey;

/// How many prefixes can be told apart.
pub const PREFIX_TAGS: u16 = 1_024;
/// How many places a room defers at once. Beyond it a visitor whose prefix has its share keeps the offer until it lapses.
pub const DEFERRED_MAX: usize = 1_024;
/// The visits that a prefix may have, however small its share is.
pub const VISITS_PER_PREFIX_MIN: u64 = 2;

/// An address prefix, as far as a room knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PrefixTag(u16);

impl PrefixTag {
    /// The tag of that number, if there is one.
    pub const fn new(number: u16) -> Option<Self> {
        if number < PREFIX_TAGS { Some(Self(number)) } else { None }
    }

    /// The tag for a digest.
    #[expect(clippy::cast_possible_truncation, reason = "the remainder is below PREFIX_TAGS")]
    pub const fn of_digest(digest: u64) -> Self {
        Self((digest % PREFIX_TAGS as u64) as u16)
    }

    /// Its number.
    pub const fn get(self) -> u16 {
        self.0
    }
}

/// Visits inside, by the prefix that they come from.
pub type VisitsByPrefix = BTreeMap<PrefixTag, u64>;

/// A place whose visitor waits although the frontier has passed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeferredPlace {
    /// Where the visitor comes from.
    pub prefix: PrefixTag,
    /// Since when the place may be claimed; `None` while the prefix has its share.
    pub offered_at: Option<UnixMillis>,
}

/// All of them, in the order of the line.
pub type DeferredPlaces = BTreeMap<SessionKey, DeferredPlace>;

/// How many visits a prefix may have while others wait; `None` where that is not limited.
fn visits_max(room: &Room) -> Option<u64> {
    let share = room.settings.visits_per_prefix_share.get();
    let capacity = room.capacity().filter(|_| share < 100 && !room.settings.is_auction())?;
    let visits = u128::from(capacity) * u128::from(share) / 100;
    Some(u64::try_from(visits).unwrap_or(u64::MAX).max(VISITS_PER_PREFIX_MIN))
}

/// How many wait that are not known to be of this prefix.
fn others_waiting(room: &Room, prefix: PrefixTag) -> u64 {
    let own = room.deferred.values().filter(|place| place.prefix == prefix).count() as u64;
    room.waiting().saturating_sub(own)
}

/// Slots that a prefix holds: visits, and deferred places that were offered again.
fn slots_held(room: &Room, prefix: PrefixTag) -> u64 {
    let is_offered = |place: &&DeferredPlace| place.prefix == prefix && place.offered_at.is_some();
    let offered = room.deferred.values().filter(is_offered).count() as u64;
    room.visits_by_prefix.get(&prefix).copied().unwrap_or(0) + offered
}

/// Whether a visitor from there may not have one more slot: they wait, and so do others.
fn has_share(room: &Room, prefix: PrefixTag, others: u64) -> bool {
    others > 0 && visits_max(room).is_some_and(|most| slots_held(room, prefix) >= most)
}

/// Whether a visit from there is not prolonged: the prefix has more than its share, and others wait.
pub(crate) fn is_beyond_share(room: &Room, prefix: Option<PrefixTag>) -> bool {
    let Some(prefix) = prefix else { return false };
    let visits = room.visits_by_prefix.get(&prefix).copied().unwrap_or(0);
    visits_max(room).is_some_and(|most| visits > most) && others_waiting(room, prefix) > 0
}

/// Whether the holder of an offer has to wait on, because their prefix has its share.
pub(crate) fn must_wait(room: &Room, prefix: Option<PrefixTag>) -> bool {
    // The visitor who asks is one of those who wait.
    prefix.is_some_and(|prefix| has_share(room, prefix, others_waiting(room, prefix).saturating_sub(1)))
}

/// Takes an offer back, and keeps its place. The caller has made sure that it is an offer.
pub(crate) fn defer(
    room: &mut Room,
    key: SessionKey,
    prefix: PrefixTag,
    effects: &mut Effects,
) -> Result<Answer, Refusal> {
    if room.deferred.len() >= DEFERRED_MAX {
        return Err(Refusal::NotServed);
    }
    let segment = room.segment_mut(key.generation).ok_or(Refusal::UnknownTicket)?;
    segment.take(key.position.get(), effects);
    room.deferred.insert(key, DeferredPlace { prefix, offered_at: None });
    effects.changed = true;
    Ok(Answer::Deferred)
}

/// A visitor whose place is deferred claims it: since when it was offered, if it was.
pub(crate) fn claim(room: &mut Room, key: SessionKey, effects: &mut Effects) -> Option<UnixMillis> {
    let offered_at = room.deferred.get(&key)?.offered_at?;
    room.deferred.remove(&key);
    effects.changed = true;
    Some(offered_at)
}

/// A deferred place is given up; says whether there was one.
pub(crate) fn leave(room: &mut Room, key: SessionKey, effects: &mut Effects) -> bool {
    if !room.deferred.contains_key(&key) {
        return false;
    }
    room.deferred.remove(&key);
    if let Some(segment) = room.segment_mut(key.generation) {
        segment.counts.left += 1;
    }
    effects.changed = true;
    true
}

/// A visit has begun.
pub(crate) fn begin_visit(room: &mut Room, prefix: Option<PrefixTag>) {
    if let Some(prefix) = prefix {
        *room.visits_by_prefix.entry(prefix).or_default() += 1;
    }
}

/// A visit is over. After a loss the room may not have counted it.
pub(crate) fn end_visit(room: &mut Room, prefix: Option<PrefixTag>) {
    let Some(prefix) = prefix.filter(|prefix| room.visits_by_prefix.contains_key(prefix)) else { return };
    let visits = room.visits_by_prefix.entry(prefix).or_default();
    *visits = visits.saturating_sub(1);
    if *visits == 0 {
        room.visits_by_prefix.remove(&prefix);
    }
}

/// Part of every tick: deferred places that were offered again lapse like any offer, and those of closed lines are gone.
pub(crate) fn tick(room: &mut Room, now: UnixMillis, effects: &mut Effects) {
    if room.deferred.is_empty() {
        return;
    }
    let window = room.settings.claim_window_millis().filter(|_| room.state.admits());
    let lines: Vec<_> = room.segments.iter().map(|segment| segment.generation).collect();
    let has_lapsed = |place: &DeferredPlace| {
        window.zip(place.offered_at).is_some_and(|(window, offered_at)| offered_at.plus(window) <= now)
    };
    let gone: Vec<SessionKey> = room
        .deferred
        .iter()
        .filter(|(key, place)| has_lapsed(place) || !lines.contains(&key.generation))
        .map(|(key, _)| *key)
        .collect();
    for key in gone {
        room.deferred.remove(&key);
        if let Some(segment) = room.segment_mut(key.generation) {
            segment.counts.lapsed += 1;
        }
        effects.changed = true;
    }
}

/// Offers deferred places again, as far as slots are free, the earliest first.
pub(crate) fn offer_again(room: &mut Room, now: UnixMillis, effects: &mut Effects) {
    if room.deferred.values().all(|place| place.offered_at.is_some()) || !room.state.admits() {
        return;
    }
    let mut free = if room.settings.inlet.is_capped() { inlet::free_slots(room, now) } else { u64::MAX };
    let waiting: Vec<(SessionKey, PrefixTag)> = room
        .deferred
        .iter()
        .filter(|(_, place)| place.offered_at.is_none())
        .map(|(key, place)| (*key, place.prefix))
        .collect();
    // Of each prefix the earliest decides: those behind it find no more.
    let mut full = std::collections::BTreeSet::new();
    for (key, prefix) in waiting {
        if free == 0 {
            return;
        }
        if full.contains(&prefix) {
            continue;
        }
        if has_share(room, prefix, others_waiting(room, prefix)) {
            full.insert(prefix);
            continue;
        }
        room.deferred.insert(key, DeferredPlace { prefix, offered_at: Some(now) });
        effects.changed = true;
        free -= 1;
    }
}

/// The operator moves the frontier back: deferred places beyond it are offers no more.
pub(crate) fn withdraw(room: &mut Room) {
    if room.deferred.is_empty() {
        return;
    }
    let serving: Vec<_> = room.segments.iter().map(|segment| (segment.generation, segment.serving)).collect();
    let is_beyond = |key: &SessionKey| {
        serving.iter().any(|(line, serving)| *line == key.generation && key.position.get() > *serving)
    };
    for (_, place) in room.deferred.iter_mut().filter(|(key, _)| is_beyond(key)) {
        place.offered_at = None;
    }
}

/// Moves the claim clocks of deferred places.
pub(crate) fn restart_claim_clocks(room: &mut Room, clock: impl Fn(UnixMillis) -> UnixMillis) {
    if room.deferred.is_empty() {
        return;
    }
    for place in room.deferred.values_mut() {
        place.offered_at = place.offered_at.map(&clock);
    }
}

/// Deferred places that may be claimed.
pub(crate) fn offers(room: &Room) -> u64 {
    room.deferred.values().filter(|place| place.offered_at.is_some()).count() as u64
}
