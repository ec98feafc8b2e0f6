//! The five steps of the AWS waiting room's own load test: take a number, learn it, watch the serving counter, sometimes
//! ask how many wait, fetch the token.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::http_client::percent_encode;

use super::super::ledger::Step;
use super::super::record::{Outcome, PlaceInLine};
use super::super::visitor::Visitor;
use super::super::wire::{Call, Exchange};

/// The pause between two questions for a number that is not there yet, before scaling.
const NUMBER_PAUSE: Duration = Duration::from_millis(500);

/// A visit.
pub(in super::super) async fn walk(mut visitor: Visitor<'_>) -> Result<Outcome, Outcome> {
    let event = visitor.shared.plan.room.clone();
    let request_id = assign(&mut visitor, &event).await?;
    learn_number(&mut visitor, &event, &request_id).await?;
    let mut claim = Claim::new(&event, &request_id);
    if visitor.choices.claims_early && try_early(&mut visitor, &claim).await? {
        return Ok(Outcome::Admitted);
    }
    if !wait(&mut visitor, &event).await? {
        return Ok(Outcome::Left);
    }
    let pass = claim.until_admitted(&mut visitor).await?;
    if visitor.choices.asks_again {
        let again = visitor.ask(claim.again(), visitor.now()).await?;
        visitor.compare_passes(&pass, &again);
        learn_number(&mut visitor, &event, &request_id).await?;
    }
    Ok(Outcome::Admitted)
}

/// Step 1: `assign_queue_num`.
async fn assign(visitor: &mut Visitor<'_>, event: &str) -> Result<String, Outcome> {
    let call = Call::post(Step::AssignQueueNum, "/assign_queue_num", &json!({ "event_id": event }));
    let due = visitor.record.due;
    let exchange = visitor.ask(&call, due).await?;
    match (exchange.status, exchange.json()["api_request_id"].as_str()) {
        (200, Some(request_id)) => {
            visitor.record_ticket(&exchange);
            Ok(request_id.to_owned())
        }
        (403 | 409 | 410, _) => Err(refusal(&exchange)),
        _ => Err(visitor.give_up_after(call.step, &exchange)),
    }
}

/// Step 2: `queue_num` until it tells the number.
async fn learn_number(visitor: &mut Visitor<'_>, event: &str, request_id: &str) -> Result<(), Outcome> {
    let event = percent_encode(event);
    let call = Call::get(Step::QueueNum, format!("/queue_num?event_id={event}&request_id={request_id}"));
    let mut due = visitor.now();
    loop {
        let exchange = visitor.ask(&call, due).await?;
        match (exchange.status, exchange.json()["queue_number"].as_u64()) {
            (200, Some(position)) => {
                visitor.record_place(PlaceInLine { generation: 0, position });
                return Ok(());
            }
            (202, _) => due = visitor.next_poll(NUMBER_PAUSE.div_f64(visitor.shared.plan.time_scale)),
            _ => return Err(visitor.give_up_after(call.step, &exchange)),
        }
    }
}

/// Steps 3 and 4: `serving_num` until the place is served, now and then `waiting_num`. False: had enough of waiting.
async fn wait(visitor: &mut Visitor<'_>, event: &str) -> Result<bool, Outcome> {
    let event = percent_encode(event);
    let serving = Call::get(Step::ServingNum, format!("/serving_num?event_id={event}"));
    let waiting: Arc<str> = format!("/waiting_num?event_id={event}").into();
    let mut due = visitor.now();
    loop {
        let exchange = visitor.ask(&serving, due).await?;
        let Some(counter) = counter(&exchange) else {
            return Err(visitor.give_up_after(serving.step, &exchange));
        };
        visitor.shared.ledger.record_polled_frontier(counter, exchange.sent, exchange.answered);
        if visitor.observe_serving(counter) {
            return Ok(true);
        }
        if visitor.has_waited_enough() {
            return Ok(false);
        }
        let share = visitor.shared.plan.waiting_num_share;
        if visitor.random.chance(share) {
            let call = Call::get(Step::WaitingNum, Arc::clone(&waiting));
            let exchange = visitor.ask(&call, visitor.now()).await?;
            if exchange.status != 200 || exchange.json()["waiting_num"].as_u64().is_none() {
                return Err(visitor.give_up_after(call.step, &exchange));
            }
        }
        due = visitor.next_poll(visitor.shared.plan.poll);
    }
}

/// The serving counter. The original wrote it as a string, its guide and we as a number.
fn counter(exchange: &Exchange) -> Option<u64> {
    let body = exchange.json();
    let value = &body["serving_counter"];
    let counter = value.as_i64().or_else(|| value.as_str()?.parse().ok())?;
    // Moved back below zero by an operator: nobody is served.
    (exchange.status == 200).then(|| u64::try_from(counter).unwrap_or(0))
}

/// Step 5: `generate_token`, as itself and as the calls that must fail or repeat it.
struct Claim {
    call: Call,
}

impl Claim {
    fn new(event: &str, request_id: &str) -> Self {
        let body = json!({ "event_id": event, "request_id": request_id });
        Self { call: Call::post(Step::GenerateToken, "/generate_token", &body) }
    }

    fn early(&self) -> Call {
        Call { step: Step::GenerateTokenEarly, ..self.call.clone() }
    }

    fn again(&mut self) -> &Call {
        self.call.step = Step::GenerateTokenAgain;
        &self.call
    }

    async fn until_admitted(&self, visitor: &mut Visitor<'_>) -> Result<Value, Outcome> {
        let mut due = visitor.now();
        loop {
            let exchange = visitor.ask(&self.call, due).await?;
            match exchange.status {
                200 => {
                    let pass = exchange.json();
                    visitor.record_admission(exchange.answered, &pass);
                    return Ok(pass);
                }
                202 => due = visitor.next_poll(visitor.shared.plan.poll),
                410 => return Err(refusal(&exchange)),
                _ => return Err(visitor.give_up_after(self.call.step, &exchange)),
            }
        }
    }
}

/// Tries the door before the turn has come. True: it opened, and the checks will ask whether it should have.
async fn try_early(visitor: &mut Visitor<'_>, claim: &Claim) -> Result<bool, Outcome> {
    let call = claim.early();
    let exchange = visitor.ask(&call, visitor.now()).await?;
    match exchange.status {
        202 => {
            visitor.record.early_claims_refused += 1;
            Ok(false)
        }
        200 => {
            visitor.record_admission(exchange.answered, &exchange.json());
            Ok(true)
        }
        410 => Err(refusal(&exchange)),
        _ => Err(visitor.give_up_after(call.step, &exchange)),
    }
}

/// The server's own words for it.
fn refusal(exchange: &Exchange) -> Outcome {
    let body = exchange.json();
    let text = body["error"].as_str().unwrap_or("no reason given");
    Outcome::Refused(format!("{} {text}", exchange.status))
}
