//! What deleted rooms leave behind, so that one made again under their name can never be taken for them.

use std::collections::BTreeMap;

use anteroom_core::RoomId;
use redis::Value;

use super::command::{Command, CommandTimeout, DROP_NAME, DROP_TRACE, Intent, SHARE_TRACE};
use super::keys::{KeyScope, Keys};
use super::persistence::persist;
use super::reply::read;
use super::rooms::generation_of;
use super::{ContentResult, Inner};
use crate::contract::{StoreError, TRACES_MAX, Trace};

/// How many traces are read at a time.
const PAGE: usize = 1_000;
/// How many more than it must a look at too many traces lets go, so that not every deletion has to look.
const SLACK: usize = 100;
/// A name that was noted longer ago than this belongs to nobody who is still about to make a room, in seconds.
const NOTED_LONG_AGO_SECONDS: u64 = 3_600;
pub(super) const TRACE_FIELDS: [&str; 3] = ["g", "v", "e"];

impl Inner {
    pub(super) async fn trace(&self, keys: &Keys, id: &RoomId) -> ContentResult<Option<Trace>> {
        let command =
            |scope: &KeyScope, key: String| Command::plain(scope, "HMGET").arg(key).arg(&TRACE_FIELDS);
        let commands = [command(&id.into(), keys.trace(id)), command(&KeyScope::Store, keys.shared_trace())];
        let mut traces = vec![];
        for answer in self.connections.all(&commands, Intent::Read, CommandTimeout::Short).await? {
            traces.extend(trace_of_reply(answer)?);
        }
        let trace = traces.into_iter().reduce(Trace::merge);
        let is_believed = trace.is_some() || self.is_up_to_date(keys).await?;
        Ok(is_believed.then_some(trace))
    }

    /// Traces of deleted rooms by name; the empty name stands for all that have none of their own.
    pub(super) async fn traces(
        &self,
        keys: &Keys,
        names: &[RoomId],
    ) -> Result<BTreeMap<String, Trace>, StoreError> {
        let command =
            |scope: &KeyScope, key: String| Command::plain(scope, "HMGET").arg(key).arg(&TRACE_FIELDS);
        let mut traces = BTreeMap::new();
        let shared =
            persist!(self.connections.one(command(&KeyScope::Store, keys.shared_trace()), Intent::Read))?;
        traces.extend(trace_of_reply(shared)?.map(|trace| (String::new(), trace)));
        for page in names.chunks(PAGE) {
            let commands: Vec<Command> =
                page.iter().map(|name| command(&name.into(), keys.trace(name))).collect();
            let answers = persist!(self.connections.all(&commands, Intent::Read, CommandTimeout::Long))?;
            for (name, answer) in page.iter().zip(answers) {
                traces.extend(trace_of_reply(answer)?.map(|trace| (name.as_str().to_owned(), trace)));
            }
        }
        Ok(traces)
    }

    /// Where more names have a trace of their own than are kept, the oldest share one.
    pub(super) async fn bound_traces(&self, keys: &Keys) {
        if let Err(error) = self.share_oldest(keys).await {
            // The room is deleted; the next deletion looks again.
            tracing::debug!(%error, "trimming traces of deleted rooms failed");
        }
    }

    async fn share_oldest(&self, keys: &Keys) -> Result<(), StoreError> {
        let store = KeyScope::Store;
        let command = Command::plain(&store, "ZCARD").arg(keys.names());
        let names: u64 = read(self.connections.one(command, Intent::Read).await?)?;
        if names <= TRACES_MAX {
            return Ok(());
        }
        let command = Command::plain(&store, "ZRANGE").arg(keys.names()).arg(0).arg(-1).arg("WITHSCORES");
        let noted: Vec<(String, f64)> = read(self.connections.one(command, Intent::Read).await?)?;
        let noted =
            noted.into_iter().filter_map(|(name, at)| Some((RoomId::parse(&name).ok()?, format!("{at}"))));
        let noted: Vec<(RoomId, String)> = noted.collect();
        let names: Vec<RoomId> = noted.iter().map(|(name, _)| name.clone()).collect();
        let traces = self.traces(keys, &names).await?;
        let kept = usize::try_from(TRACES_MAX).unwrap_or(usize::MAX);
        let own = traces.len() - usize::from(traces.contains_key(""));
        if own <= kept {
            return Ok(());
        }
        // The pending records of a room are found by its name.
        self.collect(keys).await?;
        let oldest = noted.iter().filter_map(|(name, at)| Some((name, at, traces.get(name.as_str())?)));
        for (name, at, trace) in oldest.take(own - kept + SLACK) {
            self.share(keys, name, at, trace).await?;
        }
        Ok(())
    }

    async fn share(&self, keys: &Keys, name: &RoomId, at: &str, trace: &Trace) -> Result<(), StoreError> {
        let command = Command::script(&KeyScope::Store, &SHARE_TRACE).key(keys.shared_trace());
        let command = command.arg(trace.generation.number()).arg(trace.version).arg(trace.epoch);
        self.connections.one(command, Intent::Read).await?;
        let command = Command::script(&name.into(), &DROP_TRACE).key(keys.trace(name)).arg(trace.version);
        self.connections.one(command, Intent::Read).await?;
        let now_seconds = self.clock_seconds();
        if at.parse::<u64>().is_ok_and(|at| at + NOTED_LONG_AGO_SECONDS < now_seconds) {
            let command =
                Command::script(&KeyScope::Store, &DROP_NAME).key(keys.names()).arg(name.as_str()).arg(at);
            self.connections.one(command, Intent::Read).await?;
        }
        Ok(())
    }
}

/// A trace as a server tells it.
pub(super) fn trace_of_reply(answer: Value) -> Result<Option<Trace>, StoreError> {
    let [generation, version, epoch]: [Option<String>; 3] = read(answer)?;
    Ok(trace_of([generation, version, epoch].map(Option::unwrap_or_default)))
}

pub(super) fn trace_of([generation, version, epoch]: [String; 3]) -> Option<Trace> {
    let generation = generation_of(generation.parse().ok()?)?;
    Some(Trace { generation, version: version.parse().ok()?, epoch: epoch.parse().ok()? })
}
