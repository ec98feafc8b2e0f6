//! The rules: what each operation does to a room.
//!
//! [`apply`] is a pure function. Every operation is *tick* (time passes: sessions end, offers lapse, inlets step), then the
//! *change* itself, then *settle* (free capacity becomes offers). A refused operation changes nothing beyond what time did.
//!
//! *Why held cannot exceed the capacity:* only settle raises it, by at most capacity - held; a claim moves one from offers to
//! active; everything else lowers it. So it exceeds the capacity only after an operator's word, and then nothing is offered
//! until it is below again.

use crate::auction;
use crate::effects::Effects;
use crate::events::{self, Event};
use crate::ids::{Generation, Position, Ticket, UnixMillis};
use crate::inlet::{self, MovedBy};
use crate::losses::{self, Losses};
use crate::operation::{
    Answer, Claim, Operation, PlaceStatus, Reads, Reconfigure, Refusal, SERVING_MAX, key_of,
};
use crate::reports::ReportOutcome;
use crate::room::{Room, RoomState, SEGMENTS_MAX};
use crate::segment::Segment;
use crate::session::{Grant, Outcome, Session, SessionStatus, Stay};
use crate::settings::{FIELDS, Field, InletKind, Settings};
use crate::standstill::Standstill;
use crate::{grants, moves, prefixes, room_clock, visits};

/// A room after an operation.
#[derive(Debug)]
pub struct Applied {
    /// The new room.
    pub room: Room,
    /// The answer, or why there is none.
    pub answer: Result<Answer, Refusal>,
    /// What to write with it.
    pub effects: Effects,
}

/// Applies one operation to a room at a moment.
pub fn apply(mut room: Room, now: UnixMillis, operation: &Operation, reads: Reads) -> Applied {
    let mut effects = Effects::default();
    let machine_now = now;
    let now = tick(&mut room, now, reads.ended, &mut effects);
    let answer = match operation {
        // A new line begins with the machine's clock: that is how an operator gets a room out of a future it once saw.
        Operation::Reset { incarnation } => {
            Ok(reset(&mut room, machine_now, *incarnation, reads.actor, &mut effects))
        }
        Operation::SetClock => Ok(room_clock::set_right(&mut room, machine_now, &mut effects)),
        other => {
            let input = ChangeInput {
                session: reads.session,
                actor: reads.actor,
                spread_millis: reads.spread_millis,
            };
            change(&mut room, now, other, input, &mut effects)
        }
    };
    let now = room.clock.min(now);
    inlet::settle(&mut room, now, &mut effects);
    events::tick(&mut room, now, &mut effects);
    room.assert_sound();
    Applied { room, answer, effects }
}

/// Time passes; returns the room's own now.
fn tick(room: &mut Room, now: UnixMillis, ended: Vec<Session>, effects: &mut Effects) -> UnixMillis {
    let now = now.max(room.clock);
    room.clock = now;
    visits::tick(room, now, ended, effects);
    if let Some(window) = room.settings.claim_window_millis().filter(|_| room.state.admits()) {
        let lapsed = room.segments.iter_mut().map(|segment| segment.lapse(now, window, effects)).sum();
        let by_hand_only = room.settings.inlet == InletKind::Manual;
        let is_held = room.settings.queue_all || !by_hand_only && Standstill::held(room, now).is_some();
        if lapsed > 0 && room.settings.moves_on_over_lapsed() && !is_held {
            move_on_over_lapsed(room, now, lapsed, effects);
        }
    }
    inlet::due_steps(room, now, effects);
    auction::tick(room, now, effects);
    losses::tick(room, now, effects);
    moves::tick(room);
    prefixes::tick(room, now, effects);
    // What the tick served is an offer before anybody can claim it.
    inlet::make_offers(room, now, effects);
    now
}

fn move_on_over_lapsed(room: &mut Room, now: UnixMillis, lapsed: u64, effects: &mut Effects) {
    let previous = room.serving();
    advance_within_line(room, lapsed);
    let current = room.serving();
    inlet::note_move(room, MovedBy::Lapse, now, previous);
    if current != previous {
        effects.changed = true;
        effects.events.push(Event::AutomaticServingCounterIncrease { previous, current });
    }
}

/// Moves the frontier by `by` positions, oldest generation first, nowhere beyond a last join; returns what is left over.
pub(crate) fn advance_within_line(room: &mut Room, by: u64) -> u64 {
    let mut left_over = by;
    for segment in &mut room.segments {
        let moved = segment.joined.saturating_sub(segment.serving).min(left_over);
        segment.serving += moved;
        left_over -= moved;
    }
    left_over
}

/// What a change needs to know beside the room.
struct ChangeInput {
    session: Option<Session>,
    actor: Option<String>,
    spread_millis: u64,
}

fn change(
    room: &mut Room,
    now: UnixMillis,
    operation: &Operation,
    input: ChangeInput,
    effects: &mut Effects,
) -> Result<Answer, Refusal> {
    let ChangeInput { session, actor, spread_millis } = input;
    // A store may still have the record of a line that is closed for good; nothing counts it any more.
    let session = session.filter(|session| room.segment_mut(session.key.generation).is_some());
    match operation {
        Operation::Tick => Ok(Answer::Done),
        Operation::Join { count } => join(room, now, *count),
        Operation::Claim(claim) => begin_or_find_session(room, now, claim, session, effects),
        Operation::Leave { ticket } => match session {
            _ if moves::refuse_older(room, ticket, session.as_ref()).is_err() => Err(Refusal::Moved),
            Some(_) => visits::end(room, now, Outcome::Abandoned, session, spread_millis, effects),
            None => leave(room, ticket, effects),
        },
        Operation::Move { ticket, by } => moves::move_place(room, ticket, *by, session.as_ref(), effects),
        Operation::Redeem { issued_at, .. } => visits::redeem(now, *issued_at, session, effects),
        Operation::Grant { grant, client, issued_at, .. } => {
            let wanted = Grant::new(*grant, *client, *issued_at);
            grants::grant(now, wanted, session, effects)
        }
        Operation::Refresh { grant, sequence, .. } => {
            let token = grants::RefreshToken { grant: *grant, sequence: *sequence };
            grants::refresh(room, now, token, session, spread_millis, effects)
        }
        Operation::Close { outcome, .. } => visits::end(room, now, *outcome, session, spread_millis, effects),
        Operation::Touch { stay_millis, .. } => visits::touch(room, now, *stay_millis, session, effects),
        Operation::Exits { count } => {
            let counted = (*count).min(room.active() - room.losses.phantoms);
            room.exit_credits += counted;
            effects.changed |= counted > 0;
            Ok(Answer::Exited { counted })
        }
        Operation::Advance { by } => advance(room, now, *by, actor, effects),
        Operation::Reconfigure(change) => reconfigure(room, now, change, actor, effects),
        Operation::Reset { .. } => unreachable!("a reset is not a change of the line but another one"),
        Operation::SetClock => unreachable!("the clock is set by what the machine's shows"),
        Operation::OpenSegment { incarnation } => open_segment(room, now, *incarnation, 0, effects),
        Operation::Mend(mend) => losses::mend(room, now, mend, effects),
        Operation::Recall { lines, moved } => Ok(losses::recall(room, now, lines, moved, effects)),
        Operation::Show { ticket } => losses::show(room, now, ticket, effects),
        Operation::Report(report) => match room.reports.take(now, &room.settings, report) {
            ReportOutcome::TooMany => Err(Refusal::TooManyReporters),
            reported => {
                if let Some(adaptive) = room.adaptive.as_mut().filter(|_| reported == ReportOutcome::Accepted)
                {
                    adaptive.observe(report);
                }
                effects.changed |= reported == ReportOutcome::Accepted;
                Ok(Answer::Reported(reported))
            }
        },
        Operation::ForgetReporter { reporter } => {
            if !room.reports.forget(reporter) {
                return Err(Refusal::UnknownReporter);
            }
            effects.changed = true;
            Ok(Answer::Done)
        }
        Operation::Alarms { firing } => {
            effects.changed |= room.firing != *firing;
            room.firing.clone_from(firing);
            Ok(Answer::Done)
        }
        Operation::SettleRound { round, present, turned_away, alone } => {
            let attendance = auction::Attendance { present, turned_away: *turned_away };
            if *alone {
                auction::settle_round(room, now, *round, attendance, effects)
            } else {
                auction::collect(room, now, *round, attendance, effects)
            }
        }
        Operation::Inspect { ticket } => {
            moves::refuse_older(room, ticket, session.as_ref())?;
            inspect(room, ticket, session).map(Answer::Place)
        }
        Operation::KeepSignatures { signatures, .. } => {
            let mut session = session.ok_or(Refusal::UnknownSession)?;
            if session.signatures.is_empty() {
                session.signatures.clone_from(signatures);
                effects.changed = true;
                effects.sessions.push(session.clone());
            }
            Ok(Answer::Session(session))
        }
    }
}

fn join(room: &mut Room, now: UnixMillis, count: u64) -> Result<Answer, Refusal> {
    if !room.state.takes_joins() {
        return Err(Refusal::NotJoinable(room.state));
    }
    let places_left = room.places_left();
    if count > places_left {
        return Err(Refusal::LineFull(places_left));
    }
    let segment = room.newest_mut();
    let first = Position::new(segment.joined + 1).ok_or(Refusal::LineFull(places_left))?;
    segment.joined += count;
    let entered = entered_seconds(segment.generation, now);
    Ok(Answer::Joined { generation: segment.generation, first, count, entered })
}

/// The time of a join as a ticket carries it; a line older than 34 years stops counting.
fn entered_seconds(generation: Generation, now: UnixMillis) -> u32 {
    let since = now.seconds().saturating_sub(generation.opened_unix_seconds());
    u32::try_from(since).unwrap_or(u32::MAX).min(crate::ids::MAX_ENTERED_SECONDS)
}

fn begin_or_find_session(
    room: &mut Room,
    now: UnixMillis,
    claim: &Claim,
    session: Option<Session>,
    effects: &mut Effects,
) -> Result<Answer, Refusal> {
    let key = key_of(&claim.ticket);
    if room.segment_mut(key.generation).is_none() {
        return Err(Refusal::UnknownTicket);
    }
    moves::refuse_older(room, &claim.ticket, session.as_ref())?;
    if let Some(mut session) = session {
        if claim.stay_millis.is_some() {
            visits::give_cookie(&mut session, now, effects);
        } else {
            visits::give_pass(&mut session, now, effects);
        }
        return Ok(Answer::Claimed { session, begun: false });
    }
    let state = room.state;
    if room.deferred.contains_key(&key) {
        if state == RoomState::Closed {
            return Err(Refusal::RoomClosed);
        }
        if !state.admits() {
            return Err(Refusal::NotServed);
        }
        return Ok(match prefixes::claim(room, key, effects) {
            Some(offered_at) => begin_session(room, now, claim, offered_at, effects),
            None => Answer::Deferred,
        });
    }
    let segment = room.segment_mut(key.generation).ok_or(Refusal::UnknownTicket)?;
    let position = key.position.get();
    if position <= segment.base || position > segment.joined {
        return Err(Refusal::UnknownTicket);
    }
    if position <= segment.floor || segment.taken.contains(position) {
        return Err(Refusal::Gone);
    }
    if state == RoomState::Closed {
        return Err(Refusal::RoomClosed);
    }
    if !state.admits() {
        return Err(Refusal::NotServed);
    }
    let won_at = if position > segment.covered() { auction::take_win(room, now, key) } else { None };
    let segment = room.segment_mut(key.generation).ok_or(Refusal::UnknownTicket)?;
    if position > segment.covered() && won_at.is_none() {
        return Err(Refusal::NotServed);
    }
    if let Some(prefix) = claim.prefix.filter(|_| won_at.is_none() && prefixes::must_wait(room, claim.prefix))
    {
        return prefixes::defer(room, key, prefix, effects);
    }
    let segment = room.segment_mut(key.generation).ok_or(Refusal::UnknownTicket)?;
    let offered_at = segment.take(position, effects).or(won_at).expect("an offer has a step, or was won");
    Ok(begin_session(room, now, claim, offered_at, effects))
}

/// A place that was offered is claimed.
fn begin_session(
    room: &mut Room,
    now: UnixMillis,
    claim: &Claim,
    offered_at: UnixMillis,
    effects: &mut Effects,
) -> Answer {
    let key = key_of(&claim.ticket);
    if let Some(segment) = room.segment_mut(key.generation) {
        segment.counts.claimed += 1;
    }
    moves::forget_claimed(room, key, effects);
    prefixes::begin_visit(room, claim.prefix);
    let validity_seconds = claim.validity_seconds.unwrap_or(room.settings.validity_period.get());
    let enter_by_seconds = room.enter_by_seconds(now);
    room.reports.record_pass(now, &room.settings);
    let session = Session {
        key,
        request_id: claim.request_id,
        offered_at,
        issued_at_seconds: now.seconds(),
        expires_at_seconds: now.seconds().saturating_add(validity_seconds),
        issuer: claim.issuer.clone(),
        key_id: claim.key_id.clone(),
        status: SessionStatus::Active,
        signatures: Vec::new(),
        enter_by_seconds,
        stay: claim.stay_millis.map(|millis| Stay {
            until: visits::latest_end(now.seconds(), &room.settings).min(now.plus(millis)),
            ending: None,
        }),
        copy: claim.ticket.copy,
        redeemed_at: UnixMillis(0),
        prefix: claim.prefix,
        grants: Vec::new(),
    };
    effects.sessions.push(session.clone());
    effects.events.push(Event::TokenGenerated { request_id: session.request_id, visit: key });
    effects.events.push(Event::SessionBegun { visit: key });
    Answer::Claimed { session, begun: true }
}

fn inspect(room: &mut Room, ticket: &Ticket, session: Option<Session>) -> Result<PlaceStatus, Refusal> {
    let admits = room.state.admits();
    let won = room.auction.as_ref().is_some_and(|auction| auction.wins.contains(&key_of(ticket)));
    if let (None, Some(place)) = (&session, room.deferred.get(&key_of(ticket))) {
        let is_offered = admits && place.offered_at.is_some();
        return Ok(if is_offered { PlaceStatus::Offered } else { PlaceStatus::Waiting });
    }
    let segment = room.segment_mut(ticket.generation).ok_or(Refusal::UnknownTicket)?;
    let position = ticket.position.get();
    Ok(match session {
        Some(session) => PlaceStatus::Claimed(session),
        None if position <= segment.base || position > segment.joined => return Err(Refusal::UnknownTicket),
        None if position <= segment.floor || segment.taken.contains(position) => PlaceStatus::Gone,
        None if !won && position > segment.serving || !admits => PlaceStatus::Waiting,
        None => PlaceStatus::Offered,
    })
}

fn leave(room: &mut Room, ticket: &Ticket, effects: &mut Effects) -> Result<Answer, Refusal> {
    let segment = room.segment_mut(ticket.generation).ok_or(Refusal::UnknownTicket)?;
    let position = ticket.position.get();
    if position <= segment.base || position > segment.joined {
        return Err(Refusal::UnknownTicket);
    }
    if prefixes::leave(room, key_of(ticket), effects) {
        return Ok(Answer::Done);
    }
    let segment = room.segment_mut(ticket.generation).ok_or(Refusal::UnknownTicket)?;
    if position <= segment.floor || segment.taken.contains(position) {
        return Err(Refusal::Gone);
    }
    segment.counts.left += 1;
    segment.take(position, effects);
    if let Some(auction) = room.auction.as_mut().filter(|auction| auction.wins.contains(&key_of(ticket))) {
        auction.wins.remove(&key_of(ticket));
    }
    Ok(Answer::Done)
}

/// The operator's hand. Forward over an inlet with a capacity is a one-off, counted, and stops at the last join (a frontier
/// ahead of the tail would admit later joins past the capacity), and so it does where everybody is to wait. Back over an automatic inlet lays it to rest.
fn advance(
    room: &mut Room,
    now: UnixMillis,
    by: i64,
    actor: Option<String>,
    effects: &mut Effects,
) -> Result<Answer, Refusal> {
    if room.settings.is_auction() {
        return Err(Refusal::MovedByRounds);
    }
    let automatic = room.settings.inlet != InletKind::Manual;
    let before = room.serving();
    if by < 0 {
        withdraw(room, by.unsigned_abs(), effects);
        room.inlet_rests |= automatic;
        if automatic {
            room.stopped_by = actor;
        }
    } else {
        let newest = room.newest();
        let beyond = newest.serving.max(newest.joined).checked_add(by.unsigned_abs());
        let runs_ahead = !room.settings.inlet.is_capped() && !room.settings.queue_all;
        if runs_ahead && beyond.is_none_or(|reach| reach > SERVING_MAX) {
            return Err(Refusal::CounterOverflow);
        }
        let left_over = advance_within_line(room, by.unsigned_abs());
        if runs_ahead {
            room.newest_mut().serving += left_over;
        }
        effects.changed |= by > 0;
        let offers = inlet::make_offers(room, now, effects);
        if automatic {
            room.offers_by_hand += offers;
        }
    }
    inlet::note_move(room, MovedBy::Hand, now, before);
    Ok(Answer::Advanced { serving: room.serving() })
}

/// Moves the frontier back by `by` positions, newest generation first, nowhere below a line's beginning.
fn withdraw(room: &mut Room, by: u64, effects: &mut Effects) {
    let mut left_over = by;
    for segment in room.segments.iter_mut().rev() {
        let moved = (segment.serving - segment.base).min(left_over);
        if moved > 0 {
            segment.withdraw_to(segment.serving - moved, effects);
        }
        left_over -= moved;
    }
    prefixes::withdraw(room);
}

/// Settings and state at once: nobody ever sees one without the other.
fn reconfigure(
    room: &mut Room,
    now: UnixMillis,
    change: &Reconfigure,
    actor: Option<String>,
    effects: &mut Effects,
) -> Result<Answer, Refusal> {
    if let Some((settings, state)) = &change.expected
        && !room.is_configured(settings, *state)
    {
        return Err(Refusal::Changed);
    }
    change.settings.check()?;
    set_settings(room, now, &change.settings, actor.clone(), effects);
    if let Some(state) = change.state {
        set_state(room, now, state, actor, effects);
    }
    Ok(Answer::Done)
}

fn set_settings(
    room: &mut Room,
    now: UnixMillis,
    settings: &Settings,
    by: Option<String>,
    effects: &mut Effects,
) {
    let before = std::mem::replace(&mut room.settings, settings.clone().into());
    effects.changed = true;
    let differs = |field: &&Field| (field.get)(&before) != (field.get)(settings);
    let names: Vec<String> = FIELDS.iter().filter(differs).map(|field| field.name.to_owned()).collect();
    if !names.is_empty() {
        effects.events.push(Event::SettingsChanged { names, by });
    }
    match (before.claim_window_millis(), settings.claim_window_millis()) {
        // Switched on in mid-event: the clocks start now.
        (None, Some(_)) => restart_claim_clocks(room, |_| now),
        // Shortened: nobody loses an offer at once, nobody keeps more than a whole new window.
        (Some(old), Some(new)) if new < old => {
            let reference = room.halted_since.unwrap_or(now);
            restart_claim_clocks(room, |at| {
                let remaining = at.plus(old).since(reference).min(new);
                UnixMillis((reference.0 + remaining).saturating_sub(new)).max(at)
            });
        }
        _ => {}
    }
    room.reports.on_reconfigure(now, &before, settings);
    inlet::on_reconfigure(room, now, &before);
    auction::on_reconfigure(room, now);
    auction::tick(room, now, effects);
    if settings.inlet.is_capped() || settings.is_auction() || settings.queue_all {
        // What the frontier ran ahead would admit later joins past the capacity, or past everybody who is to wait.
        for segment in &mut room.segments {
            segment.serving = segment.serving.min(segment.joined.max(segment.base));
        }
    }
}

fn restart_claim_clocks(room: &mut Room, clock: impl Fn(UnixMillis) -> UnixMillis) {
    prefixes::restart_claim_clocks(room, &clock);
    for step in room.segments.iter_mut().flat_map(|segment| segment.steps.iter_mut()) {
        step.at = clock(step.at);
    }
    for began_at in &mut room.windows {
        *began_at = clock(*began_at);
    }
}

fn set_state(
    room: &mut Room,
    now: UnixMillis,
    state: RoomState,
    actor: Option<String>,
    effects: &mut Effects,
) {
    if room.state != state {
        effects.events.push(Event::StateChanged { state, by: actor.clone() });
        room.stopped_by = actor.filter(|_| !state.admits());
        room.epoch += 1;
        effects.changed = true;
    }
    room.state = state;
    if state == RoomState::Open && room.inlet_rests {
        room.inlet_rests = false;
        room.stopped_by = None;
        effects.changed = true;
    }
    match (room.halted_since, state.admits()) {
        (None, false) => room.halted_since = Some(now),
        (Some(since), true) => {
            // The clocks stood still: each goes on with the time it had left.
            restart_claim_clocks(room, |at| at.plus(now.since(at.max(since))));
            room.halted_since = None;
        }
        _ => {}
    }
}

fn reset(
    room: &mut Room,
    now: UnixMillis,
    incarnation: u8,
    by: Option<String>,
    effects: &mut Effects,
) -> Answer {
    let generation = Generation::following(Some(room.newest().generation), now, incarnation);
    effects.closed_generations.extend(room.segments.iter().map(|segment| segment.generation));
    // Sessions expired by this very tick go with their generation, and so do their events.
    effects.sessions.clear();
    effects.touched_chunks.clear();
    effects.changed = true;
    let (waiting, active) = (room.waiting(), room.active());
    let before = room.newest().generation;
    effects.events.push(Event::RoomReset { before, generation, waiting, active, by });
    let mut fresh = Room::open(room.settings.clone(), now, generation.incarnation);
    fresh.segments[0] = Segment::open(generation, 0);
    fresh.version = room.version;
    fresh.epoch = room.epoch + 1;
    fresh.state = room.state;
    fresh.halted_since = room.halted_since.map(|_| now);
    // What is outside the line goes on: the origin and its passes, the alarms, and what was learned about waiting.
    fresh.reports = std::mem::take(&mut room.reports);
    let went_back = room.clock.since(now);
    fresh.reports.shift_back(went_back);
    fresh.firing = std::mem::take(&mut room.firing);
    fresh.stopped_by = room.stopped_by.take().filter(|_| fresh.halted_since.is_some());
    fresh.adaptive = room.adaptive;
    if let Some(adaptive) = &mut fresh.adaptive {
        adaptive.adjusted_at = UnixMillis(adaptive.adjusted_at.0.saturating_sub(went_back));
    }
    fresh.forecast = std::mem::take(&mut room.forecast);
    fresh.forecast.forget_notes();
    fresh.moves = room.moves;
    fresh.losses = Losses { honours_after: None, learning_until: UnixMillis(0), ..room.losses.clone() };
    // Like everything else it comes out of a future that the clock once saw.
    let latest_end = now.plus(fresh.settings.longest_unseen_visit_millis());
    fresh.losses.phantoms_end_at = fresh.losses.phantoms_end_at.min(latest_end);
    fresh.steps_missed = room.steps_missed;
    fresh.announced = room.announced;
    *room = fresh;
    Answer::LineOpened(generation)
}

/// Opens a line behind the present ones, whose first position is `base + 1`.
pub(crate) fn open_segment(
    room: &mut Room,
    now: UnixMillis,
    incarnation: u8,
    base: u64,
    effects: &mut Effects,
) -> Result<Answer, Refusal> {
    if room.segments.len() == SEGMENTS_MAX {
        let oldest = &room.segments[0];
        if oldest.waiting() > 0 || oldest.counts.live_sessions() > 0 {
            return Err(Refusal::SegmentsFull);
        }
        let oldest = room.segments.pop_front().expect("there are four");
        room.past.add(&oldest.counts);
        effects.closed_generations.push(oldest.generation);
        // Its tickets are unknown for good.
        room.losses.honours_after = room.losses.honours_after.map(|after| after.max(oldest.generation));
    }
    let generation = Generation::following(Some(room.newest().generation), now, incarnation);
    let ahead = room.newest().serving.saturating_sub(room.newest().joined);
    let mut segment = Segment::open(generation, base);
    // What an operator let the frontier run ahead is owed to the visitors who join next, in whatever generation.
    segment.serving = segment.base + ahead;
    room.newest_mut().serving -= ahead;
    room.segments.push_back(segment);
    room.epoch += 1;
    effects.changed = true;
    Ok(Answer::LineOpened(generation))
}
