//! One visitor: a small state machine that asks, waits and asks again. The scenario says what it asks.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use hyper::header::HeaderValue;
use serde_json::Value;
use tokio::sync::watch;

use super::arguments::{Plan, Scenario};
use super::ledger::{Ledger, Step};
use super::moment::{Moment, RunClock};
use super::random::Random;
use super::record::{Outcome, PlaceInLine, Record, Repetition};
use super::scenarios;
use super::wire::{Call, Exchange, Wire};

/// How often the same question is asked in vain, in a row, before a visitor gives up.
const ATTEMPTS_MAX: u32 = 12;
/// The first pause after a question in vain; each further one is twice as long.
const BACK_OFF_FIRST: Duration = Duration::from_millis(250);
/// The longest of these pauses, beside what the server asks for.
const BACK_OFF_MAX: Duration = Duration::from_secs(8);
/// The longest Retry-After that a visitor believes.
const RETRY_AFTER_MAX: Duration = Duration::from_mins(2);
/// How much a pause between two polls varies to either side.
const JITTER: f64 = 0.2;
/// Who gives up waiting does so after at most so many polls.
const POLLS_BEFORE_LEAVING_MAX: u64 = 5;

/// What all visitors share.
pub(super) struct Shared {
    pub(super) plan: Plan,
    pub(super) clock: RunClock,
    pub(super) ledger: Arc<Ledger>,
    pub(super) wire: Wire,
    /// Turns true when the run is over before everybody has finished.
    pub(super) stop: watch::Receiver<bool>,
}

/// What a visitor will do, decided before the visit starts, so that a seed repeats it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Choices {
    /// Gives up waiting after so many polls.
    pub(super) leaves_after_polls: Option<u64>,
    /// Tries to get in as soon as the place is known.
    pub(super) claims_early: bool,
    /// Asks for place and pass twice.
    pub(super) asks_again: bool,
}

/// A visitor under way.
pub(super) struct Visitor<'a> {
    pub(super) shared: &'a Shared,
    pub(super) record: &'a mut Record,
    pub(super) choices: Choices,
    pub(super) random: Random,
    /// How many polls of the line were made.
    polls: u64,
}

/// A whole visit. Ends early when the run is over.
pub(super) async fn visit(shared: Arc<Shared>, index: u64, due: Moment) -> Record {
    let mut record = Record::new(index, due);
    let mut stop = shared.stop.clone();
    let outcome = tokio::select! {
        outcome = walk(&shared, &mut record) => outcome,
        // An error means that the sender is gone, and so is the run.
        _ = stop.wait_for(|stopped| *stopped) => Outcome::Unfinished,
    };
    shared.ledger.record_end(&outcome);
    record.outcome = outcome;
    record
}

async fn walk(shared: &Shared, record: &mut Record) -> Outcome {
    let mut random = Random::of_visitor(shared.plan.seed, record.index);
    let choices = Choices {
        leaves_after_polls: random
            .chance(shared.plan.leave_share)
            .then(|| random.one_to(POLLS_BEFORE_LEAVING_MAX)),
        claims_early: random.chance(shared.plan.early_share),
        asks_again: random.chance(shared.plan.again_share),
    };
    record.set_out = Some(shared.clock.now());
    shared.ledger.record_arrival();
    let visitor = Visitor { shared, record, choices, random, polls: 0 };
    let ended = match shared.plan.scenario {
        // On the heap: a visitor who waits should weigh what its own scenario needs, not what the largest does.
        Scenario::Aws => Box::pin(scenarios::aws::walk(visitor)).await,
        Scenario::Native => Box::pin(scenarios::native::walk(visitor)).await,
        Scenario::Watch => Box::pin(scenarios::watch::walk(visitor)).await,
        Scenario::Auction => Box::pin(scenarios::auction::walk(visitor)).await,
    };
    ended.unwrap_or_else(|early| early)
}

impl Visitor<'_> {
    /// The present moment.
    pub(super) fn now(&self) -> Moment {
        self.shared.clock.now()
    }

    /// Asks until there is an answer that is neither "busy" nor a failure of the server, with growing pauses.
    pub(super) async fn ask(&mut self, call: &Call, mut due: Moment) -> Result<Exchange, Outcome> {
        let mut last = String::new();
        for attempt in 0..ATTEMPTS_MAX {
            let mut asked_for = Duration::ZERO;
            match self.shared.wire.ask(call, due).await {
                Ok(exchange) if exchange.is_busy() => {
                    last = format!("{} (busy)", exchange.status);
                    asked_for = exchange.retry_after.unwrap_or_default().min(RETRY_AFTER_MAX);
                }
                Ok(exchange) if exchange.status >= 500 || exchange.status == 429 => {
                    self.shared.ledger.record_unexpected(call.step, exchange.status, &exchange.body);
                    last = exchange.status.to_string();
                }
                Ok(exchange) => return Ok(exchange),
                Err(error) => last = error.to_string(),
            }
            due = self.now().after(asked_for + self.back_off(attempt));
        }
        Err(Outcome::GaveUp(format!("{}, {ATTEMPTS_MAX} times in vain: {last}", call.step.name())))
    }

    /// A pause after a question in vain: longer each time, and random, so that those turned away together do not come
    /// back together.
    pub(super) fn back_off(&mut self, attempt: u32) -> Duration {
        let longest = BACK_OFF_FIRST.saturating_mul(1 << attempt.min(16)).min(BACK_OFF_MAX);
        longest.mul_f64(0.5 + self.random.fraction() / 2.0)
    }

    /// An answer that nobody should get here: written down, and the end of the visit.
    pub(super) fn give_up_after(&self, step: Step, exchange: &Exchange) -> Outcome {
        self.shared.ledger.record_unexpected(step, exchange.status, &exchange.body);
        Outcome::GaveUp(format!("{}: unexpected {}", step.name(), exchange.status))
    }

    /// The join was answered with a ticket.
    pub(super) fn record_ticket(&mut self, exchange: &Exchange) {
        self.record.sent = Some(exchange.sent);
        self.record.answered = Some(exchange.answered);
    }

    /// The place is known. A second word on it is compared with the first.
    pub(super) fn record_place(&mut self, place: PlaceInLine) {
        match self.record.place {
            None => {
                self.record.place = Some(place);
                self.shared.ledger.record_join(place);
            }
            Some(first) => self.compare_place(place == first, || format!("first {first:?}, then {place:?}")),
        }
    }

    fn compare_place(&mut self, same: bool, difference: impl FnOnce() -> String) {
        // What was once different stays so.
        if !matches!(self.record.place_again, Repetition::Different(_)) {
            self.record.place_again =
                if same { Repetition::Same } else { Repetition::Different(difference()) };
        }
    }

    /// Observes the frontier, and returns whether the place is served.
    pub(super) fn observe_serving(&mut self, serving: u64) -> bool {
        let served = self.record.place.is_some_and(|place| place.position <= serving);
        if served && self.record.seen_served.is_none() {
            self.record.seen_served = Some(self.now());
        }
        served
    }

    /// Whether this poll was the last one before giving up.
    pub(super) fn has_waited_enough(&mut self) -> bool {
        self.polls += 1;
        self.choices.leaves_after_polls.is_some_and(|most| self.polls >= most)
    }

    /// The same call with the visitor's Idempotency-Key, so that it is safe to send again after a lost answer.
    pub(super) fn repeatable(&self, mut call: Call) -> Call {
        let key = format!("load-{}-{}", self.shared.plan.run_id, self.record.index);
        let key = HeaderValue::from_str(&key).expect("base64url and digits are visible characters");
        call.headers.insert("idempotency-key", key);
        call
    }

    /// When to poll again after a pause that is never quite the same.
    pub(super) fn next_poll(&mut self, pause: Duration) -> Moment {
        let factor = 1.0 + JITTER * (2.0 * self.random.fraction() - 1.0);
        self.now().after(pause.mul_f64(factor))
    }

    /// A pass was handed out: it must name the place that was told.
    pub(super) fn record_admission(&mut self, answered: Moment, pass: &Value) {
        self.record.admitted = Some(answered);
        let told = self.record.place.map(|place| place.position);
        let named = position_in_pass(pass);
        let same = told.is_some() && named == told;
        self.compare_place(same, || format!("told {told:?}, the pass names {named:?}"));
    }

    /// Two answers to the same claim.
    pub(super) fn compare_passes(&mut self, first: &Value, second: &Exchange) {
        let again = second.json();
        let different = ["access_token", "refresh_token", "id_token"].into_iter().find(|name| {
            let text = first[*name].as_str();
            text.is_none() || text != again[*name].as_str()
        });
        self.record.pass_again = match different {
            None => Repetition::Same,
            Some(_) if second.status != 200 => {
                Repetition::Different(format!("the second answer was {}", second.status))
            }
            Some(name) => Repetition::Different(format!("the {name} of the second answer is another one")),
        };
    }
}

/// The position that an access token names in its claims. Its signature is for others to check.
fn position_in_pass(pass: &Value) -> Option<u64> {
    claims_of(pass["access_token"].as_str()?)["queue_position"].as_u64()
}

/// What a token claims; null when it is none.
pub(super) fn claims_of(token: &str) -> Value {
    let claims = token.split('.').nth(1).and_then(|part| BASE64_URL_SAFE_NO_PAD.decode(part).ok());
    claims.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_position_is_read_from_the_claims_of_a_pass() {
        let claims = BASE64_URL_SAFE_NO_PAD.encode(json!({ "queue_position": 7 }).to_string());
        assert_eq!(position_in_pass(&json!({ "access_token": format!("h.{claims}.s") })), Some(7));
        for bad in [json!({}), json!({ "access_token": "nonsense" }), json!({ "access_token": "a.b.c" })] {
            assert_eq!(position_in_pass(&bad), None);
        }
    }
}
