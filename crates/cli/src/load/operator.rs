//! The operator's side of a run: sees that the room is there, and lets people out at an even rate.

use std::sync::Arc;
use std::time::Duration;

use anteroom_store::clock::{Clock, SystemClock};
use anyhow::{Context, ensure};
use bytes::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderValue, IF_NONE_MATCH};
use hyper::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::failure::{Exit, Failure};
use crate::http_client::{HttpClient, Reply, percent_encode};

use super::ledger::{Ledger, Step};
use super::moment::{Moment, RunClock};
use super::rate::Rate;
use super::rounds::Auction;

/// The pause between two steps of the frontier: small steps, so that admission is even.
const STEP_PAUSE: Duration = Duration::from_millis(100);
/// The pause after a step whose answer was lost or refused for now.
const FAILURE_PAUSE: Duration = Duration::from_millis(500);
/// How many steps in a row may fail before the run is given up.
const FAILURES_MAX: u32 = 60;

/// The room seen by the operator.
pub(super) struct Operator {
    pub(super) public: HttpClient,
    pub(super) private: HttpClient,
    pub(super) room: String,
    /// What a room is made with.
    pub(super) settings: Value,
    /// Whether it has a key.
    pub(super) has_key: bool,
}

/// What the operator did.
#[derive(Debug, Clone, Default)]
pub(super) struct FrontierSteps {
    /// The frontier before the first step.
    pub(super) start: u64,
    /// For each step: when it was sent, and the value it was to reach.
    pub(super) steps: Vec<(Moment, u64)>,
    /// Every answer told the value that was expected: nobody else moved the line.
    pub(super) alone: bool,
}

impl FrontierSteps {
    /// How far the frontier was moved.
    pub(super) fn total(&self) -> u64 {
        self.steps.last().map_or(0, |(_, value)| value.saturating_sub(self.start))
    }

    /// The highest value the frontier can have had at a moment: steps in flight count.
    pub(super) fn at_most_at(&self, moment: Moment) -> u64 {
        let sent = self.steps.partition_point(|(sent, _)| *sent <= moment);
        self.steps[..sent].last().map_or(self.start, |(_, value)| *value)
    }

    /// When the step that served this position was sent.
    pub(super) fn served_at(&self, position: u64) -> Option<Moment> {
        let before = self.steps.partition_point(|(_, value)| *value < position);
        self.steps.get(before).map(|(sent, _)| *sent)
    }
}

impl Operator {
    /// Makes the room, unless it is there.
    pub(super) async fn create_room(&self) -> anyhow::Result<()> {
        let path = format!("/rooms/{}", percent_encode(&self.room));
        let mut headers = json_headers();
        headers.insert(IF_NONE_MATCH, HeaderValue::from_static("*"));
        let body = json!({ "settings": self.settings }).to_string();
        let reply = self.private.request(Method::PUT, &path, headers, Some(Bytes::from(body))).await?;
        match reply.status {
            StatusCode::OK | StatusCode::CREATED | StatusCode::PRECONDITION_FAILED => Ok(()),
            _ => Err(refusal("the room could not be created", &reply)),
        }
    }

    /// The frontier, as the public listener tells it; an error with a hint when there is no such room.
    pub(super) async fn serving(&self) -> anyhow::Result<u64> {
        let path = format!("/serving_num?event_id={}", percent_encode(&self.room));
        let reply = self.public.request(Method::GET, &path, HeaderMap::new(), None).await?;
        if reply.status == StatusCode::BAD_REQUEST {
            let what = format!("there is no room `{}` at {}", self.room, self.public.target());
            return Err(Failure::new(Exit::NotFound, what)
                .hint("name one that is there with --room, or let --create-room make it")
                .into());
        }
        let body: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
        let serving = &body["serving_counter"];
        let serving = serving.as_i64().or_else(|| serving.as_str()?.parse().ok());
        match serving {
            Some(serving) if reply.status == StatusCode::OK => Ok(u64::try_from(serving).unwrap_or(0)),
            _ => Err(refusal("the room's serving_num could not be read", &reply)),
        }
    }

    /// Sees beforehand that the key is a key, so that nobody is sent into a line that will not move.
    pub(super) async fn check_key(&self) -> anyhow::Result<()> {
        let path = format!("/num_active_tokens?event_id={}", percent_encode(&self.room));
        let reply = self.private.request(Method::GET, &path, HeaderMap::new(), None).await?;
        if reply.status.is_success() {
            Ok(())
        } else {
            Err(refusal("the operator's key does not work", &reply))
        }
    }

    /// What a run must know of an auction, told with the operator's key.
    pub(super) async fn auction(&self, clock: RunClock) -> anyhow::Result<Auction> {
        let path = format!("/rooms/{}", percent_encode(&self.room));
        let reply = self.private.request(Method::GET, &path, HeaderMap::new(), None).await?;
        let body: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
        let settings = &body["settings"];
        let (Some("auction"), Some(seconds)) = (
            settings["discipline"].as_str(),
            settings["round_seconds"].as_u64().filter(|&seconds| seconds > 0),
        ) else {
            let what = format!("the room `{}` holds no auction", self.room);
            return Err(Failure::new(Exit::Failed, what)
                .hint("set discipline = \"auction\", or let --create-room make another room")
                .into());
        };
        let round = Duration::from_secs(seconds);
        let since = SystemClock.now().0 % (seconds * 1000);
        let first_closing = clock.now().after(round.saturating_sub(Duration::from_millis(since)));
        let slots = settings["total_active_users"].as_u64().filter(|_| settings["inlet"] != "manual");
        Ok(Auction { first_closing, round, slots })
    }

    /// Ends visits at `rate` until `stop` turns true, the oldest first; returns when each was ended.
    pub(super) async fn end_visits(
        &self,
        rate: Rate,
        clock: RunClock,
        ledger: Arc<Ledger>,
        mut stop: watch::Receiver<bool>,
    ) -> anyhow::Result<Vec<(u64, Moment)>> {
        let began = clock.now();
        let mut ended = Vec::new();
        let mut due = clock.now();
        loop {
            due = due.after(STEP_PAUSE).max(clock.now());
            tokio::select! {
                () = clock.sleep_until(due) => {}
                _ = stop.wait_for(|stopped| *stopped) => return Ok(ended),
            }
            let target = rate.due_after(clock.now().seconds() - began.seconds());
            while (ended.len() as u64) < target && !*stop.borrow() {
                let Some((visitor, visit)) = ledger.take_first_inside() else { break };
                ended.push((visitor, clock.now()));
                self.end_visit(&visit, clock, &ledger).await?;
            }
        }
    }

    async fn end_visit(&self, visit: &str, clock: RunClock, ledger: &Ledger) -> anyhow::Result<()> {
        let body = json!({ "event_id": self.room, "request_id": visit, "status": 1 }).to_string();
        for _ in 0..FAILURES_MAX {
            let sent = clock.now();
            let body = Some(Bytes::from(body.clone()));
            let reply = self.private.request(Method::POST, "/update_session", json_headers(), body).await;
            match reply {
                // Not found: it has run out, or an answer that was lost had ended it.
                Ok(reply) if matches!(reply.status, StatusCode::OK | StatusCode::NOT_FOUND) => {
                    ledger.record_answer(Step::UpdateSession, clock.now().microseconds_since(sent));
                    return Ok(());
                }
                Ok(reply) if !reply.status.is_server_error() => {
                    return Err(refusal("a visit could not be ended", &reply));
                }
                Ok(_) | Err(_) => ledger.record_busy(Step::UpdateSession),
            }
            tokio::time::sleep(FAILURE_PAUSE).await;
        }
        anyhow::bail!("a visit could not be ended {FAILURES_MAX} times in a row")
    }

    /// Moves the frontier at `rate` until `stop` turns true, never beyond the last visitor who has joined: what the line
    /// does not need today must not be waiting for the visitors of tomorrow.
    pub(super) async fn let_out(
        &self,
        rate: Rate,
        clock: RunClock,
        ledger: Arc<Ledger>,
        mut stop: watch::Receiver<bool>,
    ) -> anyhow::Result<FrontierSteps> {
        let start = self.serving().await?;
        let mut done = FrontierSteps { start, steps: Vec::new(), alone: true };
        let mut serving = start;
        let mut failures = 0;
        let mut due = clock.now();
        loop {
            due = due.after(STEP_PAUSE).max(clock.now());
            tokio::select! {
                () = clock.sleep_until(due) => {}
                _ = stop.wait_for(|stopped| *stopped) => return Ok(done),
            }
            let target = start + rate.due_after(clock.now().seconds());
            let target = target.min(ledger.figures().highest_position);
            let Some(by @ 1..) = target.checked_sub(serving) else { continue };
            let sent = clock.now();
            done.steps.push((sent, target));
            if let Some(told) = self.advance(by).await? {
                let answered = clock.now();
                ledger.record_answer(Step::IncrementServingCounter, answered.microseconds_since(due));
                ledger.record_polled_frontier(told, sent, answered);
                done.alone &= told == target;
                serving = told;
                failures = 0;
                continue;
            }
            ledger.record_busy(Step::IncrementServingCounter);
            failures += 1;
            ensure!(failures < FAILURES_MAX, "the line could not be moved {FAILURES_MAX} times in a row");
            tokio::time::sleep(FAILURE_PAUSE).await;
            // The step may have happened: only the server knows.
            serving = self.serving().await.unwrap_or(serving);
        }
    }

    /// One step. None: the server was busy, or its answer was lost.
    async fn advance(&self, by: u64) -> anyhow::Result<Option<u64>> {
        let body = json!({ "event_id": self.room, "increment_by": by }).to_string();
        let reply = self
            .private
            .request(Method::POST, "/increment_serving_counter", json_headers(), Some(Bytes::from(body)))
            .await;
        let Ok(reply) = reply else { return Ok(None) };
        if reply.status.is_server_error() || reply.status == StatusCode::TOO_MANY_REQUESTS {
            return Ok(None);
        }
        if reply.status != StatusCode::OK {
            return Err(refusal("the line could not be moved", &reply));
        }
        let body: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
        let told = body["serving_num"].as_u64().context("increment_serving_counter told no serving_num")?;
        Ok(Some(told))
    }
}

fn json_headers() -> HeaderMap {
    HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("application/json"))])
}

/// A refusal in the server's words, with a hint.
fn refusal(what: &str, reply: &Reply) -> anyhow::Error {
    let body: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
    let reason = ["detail", "error", "title"].into_iter().find_map(|name| body[name].as_str());
    let (exit, hint) = match reply.status.as_u16() {
        401 => (
            Exit::Access,
            "is this the key of that server? its first start prints one, or ANTEROOM_ADMIN_KEY sets it",
        ),
        403 => (Exit::Access, "this needs a key with the role operator or admin"),
        404 | 405 => (Exit::Failed, "is --private the private listener of that server?"),
        _ => (Exit::Failed, "the server's log may say more"),
    };
    let what = format!("{what}: {} {}", reply.status.as_u16(), reason.unwrap_or("without a reason"));
    Failure::new(exit, what).hint(hint).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(microseconds: u64) -> Moment {
        Moment::from_microseconds(microseconds)
    }

    #[test]
    fn steps_bound_the_frontier_from_the_moment_they_are_sent() {
        let done = FrontierSteps { start: 3, steps: vec![(at(10), 5), (at(20), 9)], alone: true };
        assert_eq!([9, 10, 19, 20].map(|moment| done.at_most_at(at(moment))), [3, 5, 5, 9]);
        assert_eq!(
            [4, 5, 6, 9, 10].map(|position| done.served_at(position)),
            [Some(at(10)), Some(at(10)), Some(at(20)), Some(at(20)), None]
        );
        assert_eq!(done.total(), 6);
    }
}
