//! Confirmations: a write counts when a replica has it. `WAIT` blocks its connection, so it has one of its own for each
//! server, and requests that arrive meanwhile share the next one.
//!
//! `WAIT` counts replicas that have everything this *connection* has written. So each confirmation writes something small
//! behind what is to be confirmed; and as it may have been written to another primary, the lineage of the last write
//! to the room must be that of the server that is asked now.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anteroom_core::RoomId;
use redis::{Pipeline, Value};
use tokio::sync::{mpsc, oneshot};

use super::Inner;
use super::address::Address;
use super::connection::Lane;
use super::keys::KeyScope;
use super::reply::read;
use super::tasks;
use crate::contract::{Lineage, StoreError};

/// How long replicas have to say that they have it.
const REPLICAS_MILLIS: u64 = 500;
/// How long what a confirmation writes stays, in seconds.
const TRACE_SECONDS: u64 = 60;
/// How many share one `WAIT`.
const SHARED_MAX: usize = 256;
/// How many may wait for the next one.
const WAITING_MAX: usize = 4_096;
/// How long a connection without work is kept.
const IDLE: Duration = Duration::from_mins(5);

/// Where confirmations wait for their turn, by server.
#[derive(Default)]
pub(super) struct ConfirmationQueues(Mutex<HashMap<Address, mpsc::Sender<Request>>>);

struct Request {
    key: String,
    /// Under which it was written, where that is known.
    lineage: Option<Lineage>,
    replicas: u32,
    answer: oneshot::Sender<Result<(), StoreError>>,
}

impl Inner {
    pub(super) async fn confirm(&self, room: &RoomId, lineage: Lineage) -> Result<(), StoreError> {
        self.confirm_scope(&KeyScope::from(room), Some(lineage).filter(|_| self.may_ask_lineage)).await
    }

    pub(super) async fn confirm_scope(
        &self,
        scope: &KeyScope,
        lineage: Option<Lineage>,
    ) -> Result<(), StoreError> {
        let replicas = self.needs_replicas();
        if replicas == 0 {
            return Ok(());
        }
        let lane = self.connections.lane_of(scope.slot())?;
        let key = self.keys.load().confirmed(scope);
        let (answer, answered) = oneshot::channel();
        let full = |_| StoreError::Transient("too many confirmations wait".into());
        self.queue_of(lane).try_send(Request { key, lineage, replicas, answer }).map_err(full)?;
        answered.await.unwrap_or_else(|_| Err(StoreError::Transient("the confirmation was cut short".into())))
    }

    fn queue_of(&self, lane: Lane) -> mpsc::Sender<Request> {
        let mut queues = self.confirmations.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(queue) = queues.get(&lane.address).filter(|queue| !queue.is_closed()) {
            return queue.clone();
        }
        let (queue, requests) = mpsc::channel(WAITING_MAX);
        queues.retain(|_, queue| !queue.is_closed());
        queues.insert(lane.address.clone(), queue.clone());
        let connections = self.connections.clone();
        drop(tasks::spawn(serve(lane, requests, self.may_ask_lineage, move || connections.note_call())));
        queue
    }
}

/// Confirms whatever is asked for, until nobody asks any more.
async fn serve(lane: Lane, mut requests: mpsc::Receiver<Request>, may_ask: bool, note_call: impl Fn()) {
    while let Ok(Some(first)) = tokio::time::timeout(IDLE, requests.recv()).await {
        let mut batch = vec![first];
        while let Ok(request) = requests.try_recv() {
            batch.push(request);
            if batch.len() == SHARED_MAX {
                break;
            }
        }
        note_call();
        let outcome = wait_for_replicas(&lane, &batch, may_ask).await;
        for request in batch {
            let answer = match &outcome {
                Ok((lineage, _))
                    if lineage.is_some() && request.lineage.is_some_and(|known| Some(known) != *lineage) =>
                {
                    Err(StoreError::Transient("the primary changed before it was confirmed".into()))
                }
                Ok((_, replicas)) if *replicas >= request.replicas => Ok(()),
                Ok(_) => Err(StoreError::Transient("not replicated yet".into())),
                Err(error) => Err(error.clone()),
            };
            // The caller may have gone away.
            let _ = request.answer.send(answer);
        }
    }
}

/// The lineage of the server, and how many replicas have everything.
async fn wait_for_replicas(
    lane: &Lane,
    batch: &[Request],
    may_ask: bool,
) -> Result<(Option<Lineage>, u32), StoreError> {
    let mut pipeline = Pipeline::new();
    if may_ask {
        pipeline.cmd("INFO").arg("replication");
    }
    for request in batch {
        pipeline.cmd("SET").arg(&request.key).arg(1).arg("EX").arg(TRACE_SECONDS);
    }
    let replicas = batch.iter().map(|request| request.replicas).max().unwrap_or(0);
    pipeline.cmd("WAIT").arg(replicas).arg(REPLICAS_MILLIS);
    let mut answers: Vec<Value> = lane.exchange(pipeline).await?;
    let acknowledged: u32 = answers.pop().map_or(Ok(0), read)?;
    let lineage = match answers.first() {
        Some(info) if may_ask => {
            let info: String = read(info.clone())?;
            super::open::lineage_from_info(&info)
        }
        _ => None,
    };
    Ok((lineage, acknowledged))
}
