//! One look at everything that other nodes may have changed.

use std::sync::Arc;
use std::time::Duration;

use anteroom_core::RoomId;
use redis::Value;

use super::command::{Command, CommandTimeout, Intent, POLL};
use super::keys::{KeyScope, Keys};
use super::records::PENDING_RECORDS_MAX;
use super::reply::{Parts, lineage_of, strange};
use super::rooms::generation_of;
use super::{ContentResult, Inner, tasks};
use crate::clock::Stopwatch;
use crate::contract::{Lineage, NodeId, PollAnswer, RoomPoll, StoreError};

/// How many rooms one script looks at, where all are on one server.
const ROOMS_PER_SCRIPT: usize = 100;

/// Rooms seen, and how many of their records are not numbered yet.
type PolledRoom = (Option<RoomPoll>, u64);

impl Inner {
    pub(super) async fn poll(
        self: &Arc<Self>,
        keys: &Keys,
        rooms: &[RoomId],
        node: NodeId,
        lease: Duration,
    ) -> ContentResult<PollAnswer> {
        let groups = self.groups_of(rooms);
        let lease = u64::try_from(lease.as_millis()).unwrap_or(u64::MAX).max(1);
        let look = |group: &&[RoomId]| {
            let mut command = Command::script(&KeyScope::from(&group[0]), &POLL);
            for room in *group {
                command = command.key(keys.room(room)).key(keys.lease(room)).key(keys.records(&room.into()));
            }
            command.arg(self.may_ask()).arg(format!("{:x}", node.0)).arg(lease)
        };
        let mut commands = vec![self.store_command(keys)];
        commands.extend(groups.iter().map(look));
        let watch = Stopwatch::start();
        let mut answers =
            self.connections.all(&commands, Intent::Read, CommandTimeout::Short).await?.into_iter();
        let took = watch.elapsed();
        let state = Self::store_state(answers.next().ok_or_else(strange)?)?;
        self.clock.note(state.now_millis, took);
        self.subscriptions.follow(rooms);
        if !self.take_note(keys, &state).await? {
            return Ok(None);
        }
        let mut seen: Vec<PolledRoom> = vec![];
        for answer in answers {
            let Some(of_group) = polls_of(answer)? else {
                // Frozen, and it is not known to have been restored: the room is as it was last seen.
                return Ok(None);
            };
            seen.extend(of_group);
        }
        self.collect_if_many_pending(keys, seen.iter().map(|(_, records)| *records).sum());
        // A failover may take a number back, so the server's identity is part of the answer.
        let history =
            fold(&[&state.lineage.0.to_be_bytes(), state.mark.as_bytes(), &state.content.to_be_bytes()]);
        let rooms = seen.into_iter().map(|(poll, _)| poll).collect();
        Ok(Some(PollAnswer { rooms, values: state.values ^ history, names: state.names ^ history }))
    }

    /// Rooms that one script can look at.
    fn groups_of<'a>(&self, rooms: &'a [RoomId]) -> Vec<&'a [RoomId]> {
        let are_on_one_server = self.connections.topology().shards.len() == 1;
        rooms.chunks(if are_on_one_server && !self.is_cluster { ROOMS_PER_SCRIPT } else { 1 }).collect()
    }

    /// Where many records are pending and nothing reads them, they are collected all the same.
    fn collect_if_many_pending(self: &Arc<Self>, keys: &Keys, records: u64) {
        if records > PENDING_RECORDS_MAX && self.collecting.try_lock().is_ok() {
            let (inner, keys) = (self.clone(), keys.clone());
            drop(tasks::spawn(async move {
                if let Err(error) = inner.collect(&keys).await {
                    tracing::debug!(%error, "collecting events and audit records failed, retrying later");
                }
            }));
        }
    }
}

/// What was seen of a group of rooms; `None` if one of them is frozen.
fn polls_of(answer: Value) -> Result<Option<Vec<PolledRoom>>, StoreError> {
    let mut parts = Parts::of(answer)?;
    let lineage = parts.next::<String>()?;
    let lineage = (lineage_of(&lineage)?, lineage);
    let mut seen = vec![];
    for part in parts.rest() {
        match part {
            Value::Array(_) => seen.push(poll_of(part, &lineage)?),
            Value::BulkString(mark) if mark.is_empty() => seen.push((None, 0)),
            _ => return Ok(None),
        }
    }
    Ok(Some(seen))
}

fn poll_of(part: Value, (lineage, digits): &(Lineage, String)) -> Result<PolledRoom, StoreError> {
    let mut parts = Parts::of(part)?;
    let generation = generation_of(parts.next()?).ok_or_else(strange)?;
    let (version, joined) = (parts.next()?, parts.next()?);
    let is_continuous = parts.next::<String>()? == *digits;
    let (holds_lease, records): (bool, u64) = (parts.next()?, parts.next()?);
    Ok((
        Some(RoomPoll { generation, version, joined, lineage: *lineage, is_continuous, holds_lease }),
        records,
    ))
}

/// A number made of all these bytes (FNV-1a).
pub(super) fn fold(parts: &[&[u8]]) -> u64 {
    let mix = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    parts.iter().flat_map(|part| part.iter()).fold(0xcbf2_9ce4_8422_2325, mix)
}
