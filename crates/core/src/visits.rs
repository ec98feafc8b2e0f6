//! How a visit goes on, and how it ends: swept when its time is over, ended by name, or prolonged by a cookie that came back.
//!
//! *Invariant:* the slot of a visit is freed once, and never before the latest end that a touch was answered with, unless all nodes
//! have been shown that it was ended by name.

use crate::effects::Effects;
use crate::events::{EndCause, Event};
use crate::ids::UnixMillis;
use crate::operation::{Answer, Refusal};
use crate::prefixes;
use crate::room::Room;
use crate::session::{
    DEPARTED_MAX, DEPARTED_SHOWN_MILLIS, Departed, Outcome, STAY_GRACE_MILLIS, Session, SessionKey,
    SessionStatus, Stay,
};
use crate::settings::Settings;

/// Part of every tick: frees the slots of visits that are over. What was shown for long enough is shown no more; that need not be
/// written, because every later reader of the room computes the same.
pub(crate) fn tick(room: &mut Room, now: UnixMillis, ended: Vec<Session>, effects: &mut Effects) {
    for mut session in ended {
        if session.status == SessionStatus::Active && session.ends_at() <= now {
            let outcome = session.outcome();
            free_slot(room, &mut session, outcome, effects);
        }
    }
    while room.departed.front().is_some_and(|oldest| oldest.at.plus(DEPARTED_SHOWN_MILLIS) <= now) {
        room.departed.pop_front();
    }
}

/// An active visit is over, by name or by time, and its slot is free.
fn free_slot(room: &mut Room, session: &mut Session, outcome: Option<Outcome>, effects: &mut Effects) {
    let Some(segment) = room.segment_mut(session.key.generation) else { return };
    match outcome {
        Some(outcome) => segment.counts.end_by_name(outcome),
        None => segment.counts.expired += 1,
    }
    session.status = outcome.map_or(SessionStatus::Expired, SessionStatus::Ended);
    prefixes::end_visit(room, session.prefix);
    // Each end first pays off an exit that was reported without a name.
    room.exit_credits = room.exit_credits.saturating_sub(1);
    effects.changed = true;
    let cause = outcome.map_or(EndCause::Expired, EndCause::Ended);
    effects.events.push(Event::SessionEnded { visit: session.key, cause });
    effects.sessions.push(session.clone());
}

/// The latest end of a stay that began in that second. It is counted from the end of the second, so that a cookie which counts
/// by milliseconds does not outlast it.
pub(crate) fn latest_end(issued_at_seconds: u64, settings: &Settings) -> UnixMillis {
    let began = UnixMillis(issued_at_seconds.saturating_add(1).saturating_mul(1000));
    began.plus(settings.session_max.get() * 1000).plus(STAY_GRACE_MILLIS)
}

/// A code is exchanged for the pass that it stands for: the newest one made, and each once.
pub(crate) fn redeem(
    now: UnixMillis,
    issued_at: UnixMillis,
    session: Option<Session>,
    effects: &mut Effects,
) -> Result<Answer, Refusal> {
    let mut session = session.ok_or(Refusal::UnknownSession)?;
    if !session.is_alive(now) {
        return Err(Refusal::AlreadyEnded);
    }
    if issued_at <= session.redeemed_at {
        return Err(Refusal::CodeUsed);
    }
    session.redeemed_at = issued_at;
    effects.changed = true;
    effects.sessions.push(session.clone());
    Ok(Answer::Session(session))
}

/// A session that had a pass alone has a cookie too from now on: to end it by name, all nodes must be told.
pub(crate) fn give_cookie(session: &mut Session, now: UnixMillis, effects: &mut Effects) {
    if session.stay.is_none() && session.is_alive(now) {
        session.stay = Some(Stay { until: session.ends_at(), ending: None });
        effects.changed = true;
        effects.sessions.push(session.clone());
    }
}

/// From now on a pass is out that goes with a stay: the slot is held for as long as it is valid.
pub(crate) fn give_pass(session: &mut Session, now: UnixMillis, effects: &mut Effects) {
    let pass_ends_at = UnixMillis(session.expires_at_seconds.saturating_mul(1000));
    if let Some(stay) = session.stay
        && session.is_alive(now)
        && stay.until < pass_ends_at
    {
        session.stay = Some(Stay { until: pass_ends_at, ..stay });
        effects.changed = true;
        effects.sessions.push(session.clone());
    }
}

/// The visitor came back: their stay ends no earlier than before, and later if it may.
pub(crate) fn touch(
    room: &mut Room,
    now: UnixMillis,
    stay_millis: u64,
    session: Option<Session>,
    effects: &mut Effects,
) -> Result<Answer, Refusal> {
    let mut session = session.ok_or(Refusal::UnknownSession)?;
    if !session.is_alive(now) {
        return Err(Refusal::AlreadyEnded);
    }
    let mut until = session.ends_at();
    if !room.settings.disable_session_renewal && !prefixes::is_beyond_share(room, session.prefix) {
        let latest = latest_end(session.issued_at_seconds, &room.settings);
        until = until.max(now.plus(stay_millis).min(latest));
    }
    // One that had a pass alone has a cookie from now on, even if that makes its visit no longer.
    let stay = Some(Stay { until, ending: None });
    if session.stay != stay {
        session.stay = stay;
        effects.changed = true;
        effects.sessions.push(session.clone());
    }
    Ok(Answer::Session(session))
}

/// The visit is ended by name, once. Where a cookie is out, all nodes are shown that it is worth nothing any more, and the slot is
/// freed when they have had time to see it.
pub(crate) fn end(
    room: &mut Room,
    now: UnixMillis,
    outcome: Outcome,
    session: Option<Session>,
    spread_millis: u64,
    effects: &mut Effects,
) -> Result<Answer, Refusal> {
    let mut session = session.ok_or(Refusal::UnknownSession)?;
    let segment = room.segment_mut(session.key.generation).ok_or(Refusal::UnknownSession)?;
    if session.outcome().is_some() {
        return Err(Refusal::AlreadyEnded);
    }
    effects.changed = true;
    let (request_id, visit) = (session.request_id, session.key);
    effects.events.push(Event::SessionUpdated { request_id, visit, outcome });
    match session.stay {
        _ if session.status == SessionStatus::Expired => {
            // Only the label changes: its slot was freed when it expired.
            segment.counts.expired -= 1;
            segment.counts.end_by_name(outcome);
            session.status = SessionStatus::Ended(outcome);
            effects.sessions.push(session.clone());
        }
        Some(stay) if stay.until > now => {
            let is_shown = show_departed(room, now, session.key, spread_millis);
            // Where it cannot be shown, the slot is free when the cookie has run out.
            let until = if is_shown { stay.until.min(now.plus(spread_millis)) } else { stay.until };
            session.stay = Some(Stay { until, ending: Some(outcome) });
            if until > now {
                effects.sessions.push(session.clone());
            } else {
                free_slot(room, &mut session, Some(outcome), effects);
            }
        }
        _ => free_slot(room, &mut session, Some(outcome), effects),
    }
    Ok(Answer::Session(session))
}

/// Puts a visit on the board as ended; says whether there was space. Where many end at once, the oldest makes room as soon as every
/// node has had the time to see it.
fn show_departed(room: &mut Room, now: UnixMillis, key: SessionKey, spread_millis: u64) -> bool {
    // In one process nobody has to be waited for.
    if room.departed.len() >= DEPARTED_MAX
        && room.departed.front().is_some_and(|oldest| oldest.at.plus(spread_millis) <= now)
    {
        room.departed.pop_front();
    }
    let has_space = room.departed.len() < DEPARTED_MAX;
    if has_space {
        room.departed.push_back(Departed { key, at: now });
    }
    has_space
}
