//! A restore: writes a whole new content beside the present one, and then switches. All or nothing, on any number of servers.
//!
//! 1. Only one restore runs at a time: it holds a key that goes by itself if the process dies.
//! 2. It *freezes* every room of the present content, and every name under which one could be made: scripts refuse to write there.
//! 3. It notes what must not be forgotten, and writes the next content under the next number. Nobody reads that yet.
//! 4. It *switches*: one script, which does nothing unless the restore is still the one that runs.
//! 5. What the old content has goes in the background. Its rooms stay frozen: nodes that do not know yet meet that, and look.
//!
//! What fails before the switch is undone. Whoever meets a room frozen by a restore that is over without effect lets it go.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use anteroom_core::{Generation, RoomId};
use tokio::sync::mpsc;

use super::backup::NOBODY;
use super::command::{Command, FREEZE, Intent, Patience, RESTORING, THAW};
use super::content::Content;
use super::keys::{Keys, Place};
use super::reply::{Parts, read};
use super::{Inner, tasks};
use crate::backup::restore::{Known, Restore, RestoreError, Target, replay};
use crate::clock::Stopwatch;
use crate::contract::{AuditRecord, StoreError};

/// How long the restore that runs may be silent.
const HOLD: Duration = Duration::from_mins(1);
/// How often it says that it goes on.
const HOLD_PAUSE: Duration = Duration::from_secs(5);
/// How many batches of commands may wait to be sent.
const BATCHES_MAX: usize = 4;
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
    /// The lines of those that there were.
    lines: Vec<(RoomId, Vec<Generation>)>,
    held: Stopwatch,
}

impl Inner {
    pub(super) async fn restore(self: &Arc<Self>, restore: Restore) -> Result<(), RestoreError> {
        let present = (*self.keys.load_full()).clone();
        // A fresh hasher has random keys; a token needs no better randomness.
        let token = format!("{:016x}", RandomState::new().hash_one(present.content()));
        let store = Place::Store;
        let begin = Command::plain(&store, "SET").arg(present.restoring()).arg(&token).arg("NX");
        let begun = self.connections.one(begin.arg("PX").arg(millis(HOLD)), Intent::Read).await?;
        if !read::<Option<String>>(begun)?.is_some_and(|said| said == "OK") {
            return Err(RestoreError::Busy);
        }
        let next = present.of_content(present.content() + 1);
        let mut running =
            Running { token, present, next, names: vec![], lines: vec![], held: Stopwatch::start() };
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
        if !self.is_up_to_date(&present).await? {
            return Err(StoreError::Transient("another backup has just been restored".into()).into());
        }
        running.names = self.names(&present).await?;
        self.for_all_names(running, |running, id| {
            Command::script(&id.into(), &FREEZE).key(running.present.room(id)).arg(&running.token)
        })
        .await?;
        let replaced = || StoreError::Transient("another backup has just been restored".into());
        let mut newer = self.audit(&present, None, None, usize::MAX).await?.ok_or_else(replaced)?;
        newer.retain(|(number, _)| *number > restore.backup.last_audit());
        newer.reverse();
        let known = self.known(running).await?;
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
            self.connections.all(page, Intent::Read, Patience::Long).await?;
            self.hold(running).await?;
        }
        Ok(())
    }

    /// What the store knows now and must not forget.
    async fn known(&self, running: &mut Running) -> Result<Known, StoreError> {
        let keys = running.present.clone();
        let mut known = Known::default();
        let command = Command::plain(&Place::Store, "HGET").arg(keys.numbers()).arg("events");
        known.last_event =
            read::<Option<u64>>(self.connections.one(command, Intent::Read).await?)?.unwrap_or(0);
        for page in running.names.clone().chunks(PAGE) {
            let load = |id: &RoomId| self.load_command(&keys, id, NOBODY, true);
            let commands: Vec<Command> = page.iter().map(load).collect();
            let answers = self.connections.all(&commands, Intent::Read, Patience::Long).await?;
            for (id, answer) in page.iter().zip(answers) {
                let told = Parts::of(answer)?.next_value()?;
                if let Some(snapshot) = self.snapshot_of(id, Parts::of(told)?)? {
                    let lines = snapshot.room.segments.iter().map(|segment| segment.generation);
                    running.lines.push((id.clone(), lines.collect()));
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
        known: Known,
        newer: Vec<(u64, AuditRecord)>,
    ) -> Result<(), RestoreError> {
        let (batches, mut received) = mpsc::channel(BATCHES_MAX);
        let numbers = self.connections.one(self.store_command(&running.present), Intent::Read).await?;
        let state = Self::store_state(numbers)?;
        let mut content = Content::new(
            running.next.clone(),
            self.seal.clone(),
            self.may_ask(),
            &state,
            known.last_event,
            batches,
        );
        let reading = tokio::task::spawn_blocking(move || {
            let Restore { mut backup, mut revise, audit } = restore;
            replay(&mut backup, known, &mut revise, &mut content)?;
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
                    self.connections.all(&batch, Intent::Read, Patience::Long).await?;
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
        let held = self.connections.one(running.command("hold"), Intent::Read).await?;
        if read::<bool>(held)? {
            return Ok(());
        }
        Err(StoreError::Transient("the restore took too long to be the one that counts".into()))
    }

    async fn switch(&self, running: &Running) -> Result<(), StoreError> {
        match self.connections.one(running.command("switch"), Intent::Write).await {
            Ok(switched) if read::<bool>(switched.clone())? => Ok(()),
            Ok(_) => Err(StoreError::Transient("the restore took too long to be the one that counts".into())),
            Err(StoreError::Ambiguous(why)) => {
                // Nobody else switches to this content while the restore runs, so looking tells.
                let state = self.connections.one(self.store_command(&running.present), Intent::Read).await;
                match state.and_then(Self::store_state) {
                    Ok(state) if state.content == running.next.content() => Ok(()),
                    Ok(state) if state.restoring == running.token => Err(StoreError::Transient(why)),
                    _ => Err(StoreError::Ambiguous(why)),
                }
            }
            Err(error) => Err(error),
        }
    }

    /// Lets everything go again.
    async fn undo(&self, running: &Running) {
        let released = self.connections.one(running.command("release"), Intent::Read).await;
        match released.and_then(read::<bool>) {
            Ok(true) => {}
            // It has switched after all, or somebody else has let everything go; then there is nothing to undo.
            Ok(false) => return,
            Err(error) => tracing::warn!(%error, "a failed restore holds the store for a minute more"),
        }
        let thaw = |id: &RoomId| {
            Command::script(&id.into(), &THAW).key(running.present.room(id)).arg(&running.token)
        };
        let commands: Vec<Command> = running.names.iter().map(thaw).collect();
        for page in commands.chunks(PAGE) {
            if let Err(error) = self.connections.all(page, Intent::Read, Patience::Long).await {
                tracing::warn!(%error, "rooms stay frozen until somebody asks for them");
            }
        }
    }

    /// What nobody reads any more goes.
    async fn forget_old_content(&self, running: &Running) {
        // Where a failover could bring the old content back, it is kept until it cannot.
        if let Err(error) = self.confirm_place(&Place::Store, None).await {
            tracing::warn!(%error, "the content before the restore is forgotten although no replica has the new one");
        }
        let keys = &running.present;
        let mut commands = vec![];
        for id in &running.names {
            let place = Place::from(id);
            let lines = running.lines.iter().find(|(name, _)| name == id).map_or(&[][..], |(_, lines)| lines);
            let mut command = Command::plain(&place, "UNLINK").arg(keys.taken(id)).arg(keys.lease(id));
            command.push(keys.trace(id));
            command.push(keys.records(&place));
            for &line in lines {
                command.push(&keys.line(id, line)[..]);
            }
            commands.push(command);
            let fields = ["b", "v", "e", "g", "j", "r", "s"];
            commands.push(Command::plain(&place, "HDEL").arg(keys.room(id)).arg(&fields));
            commands.push(Command::plain(&place, "EXPIRE").arg(keys.room(id)).arg(FROZEN_SECONDS));
        }
        let store = Place::Store;
        let mut command = Command::plain(&store, "UNLINK").arg(keys.names()).arg(keys.shared_trace());
        for key in [
            keys.values(),
            keys.records(&store),
            keys.events(),
            keys.audit(),
            keys.collected(),
            keys.numbers(),
        ] {
            command.push(key);
        }
        commands.push(command);
        for page in commands.chunks(PAGE) {
            if let Err(error) = self.connections.all(page, Intent::Read, Patience::Long).await {
                tracing::warn!(%error, "some of the content before the restore stays in the store for good");
            }
        }
    }
}

impl Running {
    fn command(&self, what: &str) -> Command {
        let (keys, store) = (&self.present, Place::Store);
        let command = Command::script(&store, &RESTORING).key(keys.content_number()).key(keys.restoring());
        let command = command.arg(what).arg(&self.token).arg(millis(HOLD)).arg(keys.content());
        command.arg(self.next.content()).arg(keys.news(&store))
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
