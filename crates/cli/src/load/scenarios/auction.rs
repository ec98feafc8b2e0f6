//! The auction: a place in line, then check-ins that are held until a round ends, as often as the server says.

use std::time::Duration;

use hyper::header::{AUTHORIZATION, HeaderValue};
use serde_json::{Value, json};

use super::super::ledger::Step;
use super::super::record::{CheckIn, Outcome, PlaceInLine, Repetition};
use super::super::visitor::{Visitor, claims_of};
use super::super::wire::{Call, Exchange};
use super::native::refusal_or_give_up;

/// How often in a row a check-in may go unanswered before a visitor gives up.
const ATTEMPTS_MAX: u32 = 12;
/// The pause of a visitor who was told to come back, but not when.
const PAUSE_DEFAULT: Duration = Duration::from_secs(1);

/// A visit.
pub(in super::super) async fn walk(mut visitor: Visitor<'_>) -> Result<Outcome, Outcome> {
    let Some(ticket) = join(&mut visitor).await? else { return Ok(Outcome::Admitted) };
    let call = checking_in(Step::CheckIn, &ticket);
    let mut due = visitor.now();
    let mut in_vain = 0;
    let won = loop {
        if visitor.random.chance(visitor.shared.plan.absent_share) {
            // Absent this time. The place must not suffer from it.
            due = visitor.next_poll(visitor.shared.plan.poll);
            visitor.shared.clock.sleep_until(due).await;
            continue;
        }
        if let Ok(exchange) = visitor.shared.wire.ask(&call, due).await {
            let won = exchange.status == 200;
            let told_to_return = exchange.status == 429 && exchange.retry_after.is_some();
            if won || told_to_return {
                let Exchange { sent, answered, .. } = exchange;
                visitor.record.check_ins.push(CheckIn { sent, answered, won });
                in_vain = 0;
            }
            if won {
                break exchange;
            }
            if !told_to_return && !exchange.is_busy() {
                return Err(refusal_or_give_up(&visitor, call.step, &exchange));
            }
            let pause = exchange.retry_after.unwrap_or(PAUSE_DEFAULT);
            due = visitor.now().after(pause);
        } else {
            due = visitor.now().after(visitor.back_off(in_vain));
        }
        in_vain += 1;
        if in_vain > ATTEMPTS_MAX {
            return Err(Outcome::GaveUp(format!("{}, {ATTEMPTS_MAX} times in vain", call.step.name())));
        }
        if visitor.has_waited_enough() {
            return leave(&mut visitor, &ticket).await;
        }
    };
    enter(&mut visitor, &won);
    let again = if visitor.choices.asks_again {
        Some(visitor.ask(&checking_in(Step::CheckInAgain, &ticket), visitor.now()).await)
    } else {
        None
    };
    // Only now: a visit that was ended in between would be answered 410, and rightly so.
    may_be_ended(&visitor, &won);
    if let Some(again) = again.transpose()? {
        let same = again.status == 200 && again.json()["accessToken"] == won.json()["accessToken"];
        let difference =
            || Repetition::Different(format!("{}, and not the pass of the first answer", again.status));
        visitor.record.pass_again = if same { Repetition::Same } else { difference() };
    }
    Ok(Outcome::Admitted)
}

/// POST `/auction` without a ticket. None: a slot was spare, and the visitor is in.
async fn join(visitor: &mut Visitor<'_>) -> Result<Option<String>, Outcome> {
    let plan = &visitor.shared.plan;
    let call = visitor.repeatable(Call::post(Step::Auction, "/auction", &json!({ "room": plan.room })));
    let due = visitor.record.due;
    let exchange = visitor.ask(&call, due).await?;
    let body = exchange.json();
    let position = match (body["queueToken"].as_str(), body["accessToken"].as_str()) {
        (Some(ticket), _) => claims_of(ticket)["sub"].as_str().and_then(|text| text.parse().ok()),
        (None, Some(pass)) => claims_of(pass)["queue_position"].as_u64(),
        (None, None) => None,
    };
    let (200, Some(position)) = (exchange.status, position) else {
        return Err(refusal_or_give_up(visitor, call.step, &exchange));
    };
    visitor.record_ticket(&exchange);
    visitor.record_place(PlaceInLine { generation: 0, position });
    let ticket = body["queueToken"].as_str().map(str::to_owned);
    if ticket.is_none() {
        enter(visitor, &exchange);
        may_be_ended(visitor, &exchange);
    }
    Ok(ticket)
}

fn checking_in(step: Step, ticket: &str) -> Call {
    with_ticket(Call::post(step, "/auction", &json!({})), ticket)
}

fn with_ticket(mut call: Call, ticket: &str) -> Call {
    let mut value =
        HeaderValue::from_str(&format!("Bearer {ticket}")).expect("a ticket is visible characters");
    value.set_sensitive(true);
    call.headers.insert(AUTHORIZATION, value);
    call
}

/// The pass is there: the visit begins.
fn enter(visitor: &mut Visitor<'_>, exchange: &Exchange) {
    let pass = exchange.json()["accessToken"].clone();
    visitor.record_admission(exchange.answered, &json!({ "access_token": pass }));
    let claims: Value = pass.as_str().map(claims_of).unwrap_or_default();
    let validity =
        claims["exp"].as_u64().zip(claims["iat"].as_u64()).map(|(end, start)| end.saturating_sub(start));
    // It began after the question was sent, so until then it certainly lasts.
    visitor.record.inside_until = validity.map(|seconds| exchange.sent.after(Duration::from_secs(seconds)));
}

/// The visitor has no more questions: the operator may end the visit.
fn may_be_ended(visitor: &Visitor<'_>, exchange: &Exchange) {
    let claims = exchange.json()["accessToken"].as_str().map(claims_of).unwrap_or_default();
    if let Some(subject) = claims["sub"].as_str() {
        visitor.shared.ledger.record_entry(visitor.record.index, subject);
    }
}

/// POST `/leave`.
async fn leave(visitor: &mut Visitor<'_>, ticket: &str) -> Result<Outcome, Outcome> {
    let call = with_ticket(Call::post(Step::Leave, "/leave", &json!({})), ticket);
    let exchange = visitor.ask(&call, visitor.now()).await?;
    if exchange.status == 200 {
        return Ok(Outcome::Left);
    }
    Err(refusal_or_give_up(visitor, call.step, &exchange))
}
