//! The native API: join, ask for the status as often as the server says, claim.

use std::sync::Arc;
use std::time::Duration;

use hyper::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use serde_json::{Value, json};

use super::super::ledger::Step;
use super::super::record::{Outcome, PlaceInLine};
use super::super::visitor::Visitor;
use super::super::wire::{Call, Exchange};

/// The shortest pause between two looks, so that a very fast world does not become a busy loop.
const PAUSE_MIN: Duration = Duration::from_millis(10);

/// A visit.
pub(in super::super) async fn walk(mut visitor: Visitor<'_>) -> Result<Outcome, Outcome> {
    let ticket = match join(&mut visitor).await? {
        JoinOutcome::Admitted => return Ok(Outcome::Admitted),
        JoinOutcome::Waiting(ticket) => ticket,
    };
    if visitor.choices.claims_early && ticket.try_early(&mut visitor).await? {
        return Ok(Outcome::Admitted);
    }
    if !wait(&mut visitor, &ticket).await? {
        return ticket.leave(&mut visitor).await;
    }
    ticket.claim(&mut visitor).await
}

/// What a join leads to.
pub(super) enum JoinOutcome {
    /// Served at once.
    Admitted,
    /// A place in line.
    Waiting(Ticket),
}

/// POST `/join`. The Idempotency-Key makes it safe to ask again after a lost answer.
pub(super) async fn join(visitor: &mut Visitor<'_>) -> Result<JoinOutcome, Outcome> {
    let plan = &visitor.shared.plan;
    let call = visitor.repeatable(Call::post(Step::Join, "/join", &json!({ "room": plan.room })));
    let due = visitor.record.due;
    let exchange = visitor.ask(&call, due).await?;
    let body = exchange.json();
    let (200, Some(place), Some(ticket)) = (exchange.status, place(&body), body["ticket"].as_str()) else {
        return Err(refusal_or_give_up(visitor, call.step, &exchange));
    };
    visitor.record_ticket(&exchange);
    visitor.record_place(place);
    if body["status"] == "admitted" {
        visitor.record_admission(exchange.answered, &body);
        return Ok(JoinOutcome::Admitted);
    }
    read_frontier(visitor, &body, &exchange);
    Ticket::new(ticket, &body)
        .map(JoinOutcome::Waiting)
        .ok_or_else(|| visitor.give_up_after(call.step, &exchange))
}

/// GET `/status` until the place may be claimed. False: had enough of waiting.
async fn wait(visitor: &mut Visitor<'_>, ticket: &Ticket) -> Result<bool, Outcome> {
    let call =
        Call { headers: ticket.headers.clone(), ..Call::get(Step::Status, Arc::clone(&ticket.status_path)) };
    let mut pause = ticket.first_pause;
    loop {
        let due = visitor.next_poll(scaled(visitor, pause));
        let exchange = visitor.ask(&call, due).await?;
        let body = exchange.json();
        let (200, Some(place)) = (exchange.status, place(&body)) else {
            return Err(refusal_or_give_up(visitor, call.step, &exchange));
        };
        visitor.record_place(place);
        match body["status"].as_str() {
            Some("waiting") => read_frontier(visitor, &body, &exchange),
            // Admitted: an early claim whose answer was lost. Claiming again gives the same pass.
            Some("active" | "admitted") => {
                visitor.record.seen_served = Some(exchange.answered);
                return Ok(true);
            }
            Some(ended @ ("expired" | "closed")) => return Err(Outcome::Refused(ended.to_owned())),
            _ => return Err(visitor.give_up_after(call.step, &exchange)),
        }
        if visitor.has_waited_enough() {
            return Ok(false);
        }
        pause = next_pause(&body);
    }
}

/// Proof of a place, ready to be shown.
pub(super) struct Ticket {
    headers: HeaderMap,
    status_path: Arc<str>,
    first_pause: Option<Duration>,
}

impl Ticket {
    fn new(ticket: &str, body: &Value) -> Option<Self> {
        let mut value = HeaderValue::from_str(&format!("Bearer {ticket}")).ok()?;
        value.set_sensitive(true);
        let headers = HeaderMap::from_iter([(AUTHORIZATION, value)]);
        Some(Self { headers, status_path: Arc::from("/status"), first_pause: next_pause(body) })
    }

    fn post(&self, step: Step, path: &'static str) -> Call {
        let mut call = Call::post(step, path, &json!({}));
        call.headers.extend(self.headers.clone());
        call
    }

    /// POST `/claim` until it succeeds; once more, where the visitor compares.
    pub(super) async fn claim(&self, visitor: &mut Visitor<'_>) -> Result<Outcome, Outcome> {
        let call = self.post(Step::Claim, "/claim");
        let mut due = visitor.now();
        let pass = loop {
            let exchange = visitor.ask(&call, due).await?;
            match exchange.status {
                200 => {
                    let pass = exchange.json();
                    visitor.record_admission(exchange.answered, &pass);
                    break pass;
                }
                409 if problem(&exchange) == "not-served" => {
                    due = visitor.next_poll(visitor.shared.plan.poll);
                }
                _ => return Err(refusal_or_give_up(visitor, call.step, &exchange)),
            }
        };
        if visitor.choices.asks_again {
            let call = self.post(Step::ClaimAgain, "/claim");
            let again = visitor.ask(&call, visitor.now()).await?;
            visitor.compare_passes(&pass, &again);
        }
        Ok(Outcome::Admitted)
    }

    /// Tries the door before the turn has come. True: it opened, and the checks will ask whether it should have.
    pub(super) async fn try_early(&self, visitor: &mut Visitor<'_>) -> Result<bool, Outcome> {
        let call = self.post(Step::ClaimEarly, "/claim");
        let exchange = visitor.ask(&call, visitor.now()).await?;
        match exchange.status {
            409 if problem(&exchange) == "not-served" => {
                visitor.record.early_claims_refused += 1;
                Ok(false)
            }
            200 => {
                visitor.record_admission(exchange.answered, &exchange.json());
                Ok(true)
            }
            _ => Err(refusal_or_give_up(visitor, call.step, &exchange)),
        }
    }

    /// POST `/leave`.
    pub(super) async fn leave(&self, visitor: &mut Visitor<'_>) -> Result<Outcome, Outcome> {
        let call = self.post(Step::Leave, "/leave");
        let exchange = visitor.ask(&call, visitor.now()).await?;
        if exchange.status == 200 {
            return Ok(Outcome::Left);
        }
        Err(refusal_or_give_up(visitor, call.step, &exchange))
    }
}

/// A refusal that has a name in the API ends the visit properly; anything else is a surprise.
pub(super) fn refusal_or_give_up(visitor: &Visitor<'_>, step: Step, exchange: &Exchange) -> Outcome {
    let name = problem(exchange);
    if matches!(exchange.status, 403 | 409 | 410) && !name.is_empty() {
        return Outcome::Refused(format!("{} {name}", exchange.status));
    }
    visitor.give_up_after(step, exchange)
}

/// The last part of a problem's type: `…/problems#place-gone`.
fn problem(exchange: &Exchange) -> String {
    let body = exchange.json();
    let kind = body["type"].as_str().unwrap_or_default();
    kind.rsplit_once('#').map(|(_, name)| name.to_owned()).unwrap_or_default()
}

fn place(body: &Value) -> Option<PlaceInLine> {
    Some(PlaceInLine { generation: body["generation"].as_u64()?, position: body["position"].as_u64()? })
}

/// Only an answer to a waiting visitor comes straight from the board; others may be up to a second old.
fn read_frontier(visitor: &Visitor<'_>, body: &Value, exchange: &Exchange) {
    if let Some(serving) = body["serving"].as_u64() {
        visitor.shared.ledger.record_polled_frontier(serving, exchange.sent, exchange.answered);
    }
}

fn next_pause(body: &Value) -> Option<Duration> {
    body["next_poll_seconds"].as_u64().map(Duration::from_secs)
}

fn scaled(visitor: &Visitor<'_>, pause: Option<Duration>) -> Duration {
    let plan = &visitor.shared.plan;
    pause.map_or(plan.poll, |pause| pause.div_f64(plan.time_scale)).max(PAUSE_MIN)
}
