//! Backup and restore of everything, while the server runs.
//!
//! A restore ends every owner after what has queued up for it, has the store replace its content, and begins anew with
//! what is there then. In the meantime every change is refused, to be retried. Handles of before are replaced: a holder
//! of one finds it closed and asks the engine for the new one.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use anteroom_core::reports::SILENT_ROUNDS;
use anteroom_core::room::SEGMENTS_MAX;
use anteroom_core::{Effects, Generation, Operation, Reads, Refusal, Room, Segment, UnixMillis, apply};
use anteroom_store::backup::BackupStream;
use anteroom_store::backup::reader::{BackupSource, VerifiedBackup};
use anteroom_store::backup::restore::{Restore, RestoreError, ReturningRoom};
use anteroom_store::contract::{AuditRecord, StoreError};

use super::{ENDED_ERA, Engine};
use crate::Actor;

/// How often the rooms are tried to be loaded again after a restore.
const RELOADS_MAX: u32 = 40;
/// How long to wait in between.
const RELOAD_PAUSE: Duration = Duration::from_millis(250);

/// Decides whether the values of a backup fit this server; says why if not.
pub type AcceptValues = Box<dyn FnOnce(&BTreeMap<String, Vec<u8>>) -> Result<(), String> + Send>;

/// A backup to restore, and what the caller adds to it.
pub struct RestoreRequest {
    /// Where to read it from, twice.
    pub source: Box<dyn BackupSource>,
    /// Asked before anything changes.
    pub accept_values: AcceptValues,
    /// Random, see [`Generation`]; asked for each room.
    pub incarnation: Box<dyn FnMut() -> u8 + Send>,
    /// Who asks.
    pub actor: Actor,
}

/// What was restored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Restored {
    /// When the backup had been taken.
    pub taken_at: UnixMillis,
    /// How many rooms there are now.
    pub rooms: u64,
    /// How many sessions came with them.
    pub sessions: u64,
}

impl Engine {
    /// Everything the store has, as of one moment.
    pub async fn backup(&self) -> Result<BackupStream, StoreError> {
        self.store.backup(self.clock.now()).await
    }

    /// Replaces everything by what a backup has. It runs to its end also if the caller is cancelled.
    pub async fn restore(self: &Arc<Self>, request: RestoreRequest) -> Result<Restored, RestoreError> {
        let engine = self.clone();
        let task = super::spawn(async move { engine.restore_to_the_end(request).await });
        let lost = |_| Err(StoreError::Ambiguous("the restore did not come to its end".into()).into());
        task.await.unwrap_or_else(lost)
    }

    async fn restore_to_the_end(&self, request: RestoreRequest) -> Result<Restored, RestoreError> {
        let RestoreRequest { source, accept_values, incarnation, actor } = request;
        let _only_one = OnlyOne::take(&self.restore_running).ok_or(RestoreError::Busy)?;
        let verified = tokio::task::spawn_blocking(move || VerifiedBackup::verify(source)).await;
        let backup =
            verified.map_err(|_| StoreError::Transient("the backup could not be verified".into()))??;
        accept_values(backup.values()).map_err(RestoreError::Refused)?;
        let (taken_at, rooms, sessions) = (backup.taken_at(), backup.rooms(), backup.sessions());
        let _no_room_is_made = self.changing_rooms.lock().await;
        if *self.era.borrow() == ENDED_ERA {
            return Err(RestoreError::Stopped);
        }
        self.end_owners().await;
        let now = self.clock.now();
        let audit = actor.name().map(|actor| {
            let detail = format!("taken at {} ms, {rooms} rooms, {sessions} sessions", taken_at.0);
            AuditRecord::new(now, None, actor, "restore").with_detail(&detail)
        });
        let mut incarnation = incarnation;
        let revise = Box::new(move |returning: ReturningRoom<'_>| revise(returning, now, incarnation()));
        let outcome = self.store.restore(Restore { backup, revise, audit, node: self.node }).await;
        self.outbox.note_growth();
        self.begin_anew().await?;
        outcome?;
        tracing::warn!(rooms, sessions, taken_at_millis = taken_at.0, "backup restored");
        Ok(Restored { taken_at, rooms, sessions })
    }

    /// Every owner does what has queued up for it; what comes later is refused.
    async fn end_owners(&self) {
        self.restoring.store(true, Ordering::Release);
        for handle in self.rooms.all() {
            handle.mark_replaced();
        }
        self.era.send_if_modified(|era| {
            let goes_on = *era != ENDED_ERA;
            *era += u64::from(goes_on);
            goes_on
        });
        let owners = std::mem::take(&mut *self.owners.lock().unwrap_or_else(PoisonError::into_inner));
        for owned in owners {
            let _ = owned.task.await;
        }
        // Those that failed are gone; the next ones begin with a room just loaded.
        self.counters.rooms_failing.store(0, Ordering::Relaxed);
    }

    /// Takes hold of every room the store has now. While that fails the engine is not ready and refuses everything.
    async fn begin_anew(&self) -> Result<(), StoreError> {
        let mut tries = 0;
        while let Err(error) = self.own_all().await {
            tries += 1;
            if tries >= RELOADS_MAX || *self.era.borrow() == ENDED_ERA {
                tracing::error!(%error, "reloading the rooms failed, restart the server");
                return Err(error);
            }
            tokio::time::sleep(RELOAD_PAUSE).await;
        }
        for handle in self.rooms.all().into_iter().filter(|handle| handle.is_replaced()) {
            handle.mark_deleted();
            self.rooms.remove(&handle);
        }
        self.restoring.store(false, Ordering::Release);
        Ok(())
    }
}

/// Held by the one restore that runs.
struct OnlyOne<'a>(&'a AtomicBool);

impl<'a> OnlyOne<'a> {
    fn take(running: &'a AtomicBool) -> Option<Self> {
        let free = running.compare_exchange(false, true, Ordering::AcqRel, Ordering::Acquire).is_ok();
        free.then_some(Self(running))
    }
}

impl Drop for OnlyOne<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// A room of a backup as it goes on from here.
///
/// Nobody knows which positions were handed out after the backup was taken, so joins go to a new line behind all others: no
/// position is ever handed out again, and older tickets come first. Where the store still knows how far a line had come, the
/// tickets issued since then keep their places.
fn revise(
    returning: ReturningRoom<'_>,
    now: UnixMillis,
    incarnation: u8,
) -> Result<(Room, Effects), Refusal> {
    let ReturningRoom { mut room, known, later_than, .. } = returning;
    let newest = room.newest().generation;
    for line in known {
        let segment = room.segments.iter_mut().find(|segment| segment.generation == line.generation);
        if let Some(segment) = segment {
            segment.joined = segment.joined.max(line.joined);
        }
    }
    // Lines that were opened behind the backup's newest, without a reset in between. One place is left for the new line.
    if known.iter().any(|line| line.generation == newest) {
        for line in known.iter().filter(|line| line.generation > newest) {
            if room.segments.len() < SEGMENTS_MAX - 1 {
                let joined = line.joined;
                room.segments.push_back(Segment { joined, ..Segment::open(line.generation, line.base) });
            }
        }
    }
    // What was reported before the backup says nothing about now, when passes are in flight that this room knows nothing
    // of. So these reports admit no visitor: each reporter counts as silent until it reports again.
    let silence = room.settings.round_millis() * SILENT_ROUNDS + 1;
    for reporter in &mut room.reports.reporters {
        reporter.heard_at = reporter.heard_at.min(UnixMillis(now.0.saturating_sub(silence)));
    }
    if let Some(before) = later_than {
        room.version = room.version.max(before.version);
        room.epoch = room.epoch.max(before.epoch);
    }
    // Where the store itself knows the last line, it knows every position that was handed out. So a room that has no place for
    // another line can do without one.
    let knows_last = known.last().is_some_and(|line| line.generation == room.newest().generation);
    let mut applied = apply(room, now, &Operation::OpenSegment { incarnation }, Reads::default());
    if matches!(applied.answer, Err(Refusal::SegmentsFull)) && knows_last {
        applied.room.version += 1;
        applied.room.epoch += 1;
        return Ok((applied.room, applied.effects));
    }
    applied.answer?;
    let mut room = applied.room;
    room.version += 1;
    let previous = room.segments.iter().rev().nth(1).map(|segment| segment.generation);
    let latest = previous.max(later_than.map(|before| before.generation));
    if let Some(segment) = room.segments.back_mut() {
        segment.generation = Generation::following(latest, now, incarnation);
    }
    Ok((room, applied.effects))
}
