//! A restore: writes a whole new content beside the present one, and then switches. All or nothing, on any number of servers.
//!
//! 1. Only one restore runs at a time: it holds a key that goes by itself if the process dies.
//! 2. It *freezes* every room of the present content, and every name under which one could be made: scripts refuse to write there.
//! 3. It notes what must not be forgotten, and writes the next content under the next number. Nobody reads that yet.
//! 4. It *switches*: one script, which does nothing unless the restore is still the one that runs.
//! 5. What the old content has goes in the background. Its rooms stay frozen: nodes that do not know yet meet that, and look.
//!
//! What fails before the switch is undone. A node that meets a room frozen by a restore that is over without effect
//! unfreezes it.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use anteroom_core::RoomId;
use tokio::sync::mpsc;

use super::backup::NOBODY;
use super::command::{Command, CommandTimeout, FREEZE, Intent, RESTORING, THAW};
use super::content::{Content, Lines};
use super::keys::{KeyScope, Keys};
use super::persistence::persist;
use super::reply::{Parts, read};
use super::{Inner, tasks};
use crate::backup::restore::{HighWaterMarks, Restore, RestoreError, Target, replay};
use crate::clock::Stopwatch;
use crate::contract::{AuditRecord, StoreError};

/// How long the restore that runs may be silent.
const HOLD: Duration = Duration::from_mins(1);
/// How often it says that it goes on.
const HOLD_PAUSE: Duration = Duration::from_secs(5);
/// By how much the number of the next content may be beyond that of the present one.
const CONTENT_STEP_MAX: u64 = 1 << 40;
/// How many batches of commands may wait to be sent.
const BATCHES_MAX: usize = 4;
/// How often the switch is asked for again when nobody knows whether it happened.
const SWITCHES_MAX: u32 = 5;
/// How many rooms are asked for at a time.
const PAGE: usize = 500;
/// How long what is frozen stays for nodes that have not noticed, in seconds.
const FROZEN_SECONDS: u64 = 24 * 3600;

/// A restore at work.
struct Running {
    token: String,
    present: Keys,
    next: Keys,
    /// Every name under which there was or could be a room.
    names: Vec<RoomId>,
    /// Where the present content has keys.
    old: Lines,
    /// Where the next one has.
    new: Lines,
    held: Stopwatch,
}

impl Inner {
    pub(super) async fn restore(self: &Arc<Self>, restore: Restore) -> Result<(), RestoreError> {
        let present = (*self.keys.load_full()).clone();
        // A fresh hasher has random keys; a token needs no better randomness.
        let token = format!("{:016x}", RandomState::new().hash_one(present.content()));
        let store = KeyScope::Store;
        let begin = Command::plain(&store, "SET").arg(present.restoring()).arg(&token).arg("NX");
        let begin =
            [begin.arg("PX").arg(millis(HOLD)), Command::plain(&store, "GET").arg(present.restoring())];
        let mut replies = persist!(self.connections.all(&begin, Intent::Read, CommandTimeout::Short))?;
        if replies.pop().map_or(Ok(None), read::<Option<String>>)? != Some(token.clone()) {
            return Err(RestoreError::Busy);
        }
        // What a restore left behind that died half-way is under a number that nobody takes again.
        let beyond = RandomState::new().hash_one(&token) % CONTENT_STEP_MAX;
        let next = present.of_content(present.content() + 1 + beyond);
        let mut running = Running {
            token,
            present,
            next,
            names: vec![],
            old: Lines::default(),
            new: Lines::default(),
            held: Stopwatch::start(),
        };
        let values = restore.backup.values().clone();
        let outcome = self.restore_content(&mut running, restore).await;
        if let Err(error) = outcome {
            self.undo(&running).await;
            return Err(error);
        }
        self.move_to(running.next.content());
        self.remember_only(values);
        let inner = self.clone();
        drop(tasks::spawn(async move { inner.forget_old_content(&running).await }));
        Ok(())
    }

    async fn restore_content(&self, running: &mut Running, restore: Restore) -> Result<(), RestoreError> {
        let present = running.present.clone();
        if !persist!(self.is_up_to_date(&present))? {
            return Err(StoreError::Transient("another backup has just been restored".into()).into());
        }
        running.names = persist!(self.names(&present))?;
        self.for_all_names(running, |running, id| {
            Command::script(&id.into(), &FREEZE).key(running.present.room(id)).arg(&running.token)
        })
        .await?;
        let replaced = || StoreError::Transient("another backup has just been restored".into());
        let mut newer = persist!(self.audit(&present, None, None, usize::MAX))?.ok_or_else(replaced)?;
        newer.retain(|(number, _)| *number > restore.backup.last_audit());
        newer.reverse();
        let known = self.read_high_water_marks(running).await?;
        self.write_content(running, restore, known, newer).await?;
        Ok(self.switch(running).await?)
    }

    /// Sends a command for each name, a page at a time, and says that the restore goes on.
    async fn for_all_names(
        &self,
        running: &mut Running,
        command: impl Fn(&Running, &RoomId) -> Command,
    ) -> Result<(), StoreError> {
        let commands: Vec<Command> = running.names.iter().map(|id| command(running, id)).collect();
        for page in commands.chunks(PAGE) {
            persist!(self.connections.all(page, Intent::Read, CommandTimeout::Long))?;
            self.hold(running).await?;
        }
        Ok(())
    }

    /// What the store knows now and must not forget.
    async fn read_high_water_marks(&self, running: &mut Running) -> Result<HighWaterMarks, StoreError> {
        let keys = running.present.clone();
        let mut known = HighWaterMarks::default();
        let command = Command::plain(&KeyScope::Store, "HGET").arg(keys.numbers()).arg("events");
        known.last_event =
            read::<Option<u64>>(persist!(self.connections.one(command.clone(), Intent::Read))?)?.unwrap_or(0);
        for page in running.names.clone().chunks(PAGE) {
            let load = |id: &RoomId| self.load_command(&keys, id, NOBODY, true);
            let commands: Vec<Command> = page.iter().map(load).collect();
            let answers = persist!(self.connections.all(&commands, Intent::Read, CommandTimeout::Long))?;
            for (id, answer) in page.iter().zip(answers) {
                let reply = Parts::of(answer)?.next_value()?;
                if let Some(snapshot) = self.snapshot_of(id, Parts::of(reply)?)? {
                    let lines = snapshot.room.segments.iter().map(|segment| segment.generation).collect();
                    running.old.lock().unwrap_or_else(PoisonError::into_inner).insert(id.clone(), lines);
                    known.note_room(id.clone(), &snapshot.room);
                }
            }
            self.hold(running).await?;
        }
        for (name, trace) in self.traces(&keys, &running.names).await? {
            known.note_trace(&name, trace);
        }
        Ok(known)
    }

    /// Reads the backup on a thread of its own and sends what it becomes.
    async fn write_content(
        &self,
        running: &mut Running,
        restore: Restore,
        known: HighWaterMarks,
        newer: Vec<(u64, AuditRecord)>,
    ) -> Result<(), RestoreError> {
        let (batches, mut received) = mpsc::channel(BATCHES_MAX);
        let numbers = persist!(self.connections.one(self.store_command(&running.present), Intent::Read))?;
        let state = Self::store_state(numbers)?;
        let mut content = Content::new(
            running.next.clone(),
            self.seal.clone(),
            self.may_ask(),
            &state,
            known.last_event,
            running.new.clone(),
            batches,
        );
        let reading = tokio::task::spawn_blocking(move || {
            let Restore { mut backup, mut revise, audit, node } = restore;
            replay(&mut backup, known, (&mut revise, node), &mut content)?;
            for (number, record) in &newer {
                content.audit(*number, record)?;
            }
            if let Some(record) = audit {
                content.audit(content.last_audit() + 1, &record)?;
            }
            Ok::<(), RestoreError>(content.finish()?)
        });
        loop {
            match tokio::time::timeout(HOLD_PAUSE, received.recv()).await {
                Ok(Some(batch)) => {
                    let batch: Vec<Command> = batch;
                    persist!(self.connections.all(&batch, Intent::Read, CommandTimeout::Long))?;
                }
                Ok(None) => break,
                Err(_) => {}
            }
            self.hold(running).await?;
        }
        reading.await.map_err(|_| StoreError::Transient("the backup could not be read".into()))?
    }

    /// Says that the restore goes on, and makes sure that it is still the one that runs.
    async fn hold(&self, running: &mut Running) -> Result<(), StoreError> {
        if running.held.elapsed() < HOLD_PAUSE {
            return Ok(());
        }
        running.held = Stopwatch::start();
        let held = persist!(self.connections.one(running.command("hold"), Intent::Read))?;
        if read::<bool>(held)? {
            return Ok(());
        }
        Err(StoreError::Transient("the restore took too long to be the one that counts".into()))
    }

    async fn switch(&self, running: &Running) -> Result<(), StoreError> {
        let mut last = StoreError::Transient("the restore took too long to be the one that counts".into());
        for _ in 0..SWITCHES_MAX {
            match persist!(self.connections.one(running.command("switch"), Intent::Write)) {
                Ok(switched) if read::<bool>(switched.clone())? => return Ok(()),
                Ok(_) => {}
                Err(StoreError::Ambiguous(why)) => last = StoreError::Ambiguous(why),
                Err(error) => return Err(error),
            }
            // Nobody else switches to this content, so looking tells.
            let state = persist!(self.connections.one(self.store_command(&running.present), Intent::Read))?;
            let state = Self::store_state(state)?;
            if state.content == running.next.content() {
                return Ok(());
            }
            if state.restoring != running.token {
                return Err(StoreError::Transient(
                    "the restore took too long to be the one that counts".into(),
                ));
            }
        }
        Err(last)
    }

    /// Lets everything go again.
    async fn undo(&self, running: &Running) {
        let released = persist!(self.connections.one(running.command("release"), Intent::Read));
        if let Err(error) = released {
            tracing::warn!(%error, "undoing a failed restore failed, store stays locked for a minute");
            return;
        }
        let thaw = |id: &RoomId| {
            Command::script(&id.into(), &THAW).key(running.present.room(id)).arg(&running.token)
        };
        let commands: Vec<Command> = running.names.iter().map(thaw).collect();
        for page in commands.chunks(PAGE) {
            if let Err(error) = persist!(self.connections.all(page, Intent::Read, CommandTimeout::Long)) {
                tracing::warn!(%error, "unfreezing rooms failed, each is unfrozen by its next request");
            }
        }
        self.forget(&running.next, &[], &running.new).await;
    }

    /// What nobody reads any more goes.
    async fn forget_old_content(&self, running: &Running) {
        // Where a failover could bring the old content back, it is kept until it cannot.
        if let Err(error) = persist!(self.confirm_scope(&KeyScope::Store, None)) {
            tracing::warn!(%error, "restored content is not replicated yet, deleting the old content anyway");
        }
        self.forget(&running.present, &running.names, &running.old).await;
    }

    /// Removes everything of a content but that its rooms are frozen, for those who do not know yet that it does not count.
    async fn forget(&self, keys: &Keys, names: &[RoomId], lines: &Lines) {
        let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for name in names {
            lines.entry(name.clone()).or_default();
        }
        let mut commands = vec![];
        for (id, lines) in &lines {
            let scope = KeyScope::from(id);
            let mut command =
                Command::plain(&scope, "UNLINK").arg(keys.taken_positions(id)).arg(keys.lease(id));
            command.push(&keys.answers(id)[..]);
            command.push(keys.trace(id));
            command.push(keys.records(&scope));
            for &line in lines {
                command.push(&keys.line(id, line)[..]);
            }
            commands.push(command);
            let fields = ["b", "v", "e", "g", "j", "r", "s"];
            commands.push(Command::plain(&scope, "HDEL").arg(keys.room(id)).arg(&fields));
            commands.push(Command::plain(&scope, "EXPIRE").arg(keys.room(id)).arg(FROZEN_SECONDS));
        }
        let store = KeyScope::Store;
        let mut command = Command::plain(&store, "UNLINK").arg(keys.names()).arg(keys.shared_trace());
        for key in [
            keys.values(),
            keys.records(&store),
            keys.events(),
            keys.visitor_events(),
            keys.audit(),
            keys.collected(),
            keys.numbers(),
        ] {
            command.push(key);
        }
        commands.push(command);
        for page in commands.chunks(PAGE) {
            if let Err(error) = persist!(self.connections.all(page, Intent::Read, CommandTimeout::Long)) {
                tracing::warn!(%error, "deleting outdated content failed, some of it stays in the store");
            }
        }
    }
}

impl Running {
    fn command(&self, what: &str) -> Command {
        let (keys, store) = (&self.present, KeyScope::Store);
        let command = Command::script(&store, &RESTORING).key(keys.content_number()).key(keys.restoring());
        let command = command.arg(what).arg(&self.token).arg(millis(HOLD)).arg(keys.content());
        command.arg(self.next.content()).arg(keys.notifications(&store))
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
