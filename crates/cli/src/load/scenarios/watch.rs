//! The live stream: join, follow the board over a connection of one's own, claim when the frontier has come.

use std::time::Duration;

use hyper::StatusCode;
use serde_json::Value;
use tokio::time::timeout;

use crate::http_client::percent_encode;

use super::super::ledger::Step;
use super::super::record::{Outcome, PlaceInLine};
use super::super::server_sent_events::Events;
use super::super::visitor::Visitor;
use super::super::wire::{Call, retry_after};
use super::native::{self, JoinOutcome};

/// A stream that is silent for longer is taken for lost: the server sends a comment now and then.
const SILENCE_MAX: Duration = Duration::from_secs(90);
/// How often a stream is opened in vain, in a row, before a visitor gives up.
const ATTEMPTS_MAX: u32 = 12;

/// A visit.
pub(in super::super) async fn walk(mut visitor: Visitor<'_>) -> Result<Outcome, Outcome> {
    let ticket = match native::join(&mut visitor).await? {
        JoinOutcome::Admitted => return Ok(Outcome::Admitted),
        JoinOutcome::Waiting(ticket) => ticket,
    };
    if visitor.choices.claims_early && ticket.try_early(&mut visitor).await? {
        return Ok(Outcome::Admitted);
    }
    if !follow(&mut visitor).await? {
        return ticket.leave(&mut visitor).await;
    }
    ticket.claim(&mut visitor).await
}

/// Why a stream is no longer followed.
enum StreamEnd {
    Served,
    HadEnough,
    Lost,
}

/// Follows the board until the place is served, over as many streams as it takes. False: had enough of waiting.
async fn follow(visitor: &mut Visitor<'_>) -> Result<bool, Outcome> {
    let room = percent_encode(&visitor.shared.plan.room);
    let call = Call::get(Step::Watch, format!("/watch?room={room}"));
    let mut attempt = 0;
    let mut due = visitor.now();
    loop {
        let mut asked_for = Duration::ZERO;
        match visitor.shared.wire.open(&call, due).await {
            Ok(mut stream) if stream.status == StatusCode::OK => {
                let mut events = Events::default();
                let mut heard_something = false;
                let followed = loop {
                    let Ok(Ok(Some(bytes))) = timeout(SILENCE_MAX, stream.next()).await else {
                        break StreamEnd::Lost;
                    };
                    heard_something = true;
                    events.feed(&bytes);
                    if let Some(followed) = read_boards(visitor, &mut events) {
                        break followed;
                    }
                };
                match followed {
                    StreamEnd::Served => return Ok(true),
                    StreamEnd::HadEnough => return Ok(false),
                    StreamEnd::Lost if heard_something => attempt = 0,
                    StreamEnd::Lost => attempt += 1,
                }
            }
            Ok(stream) => {
                asked_for = retry_after(&stream.headers).unwrap_or_default();
                attempt += 1;
            }
            Err(_) => attempt += 1,
        }
        if attempt >= ATTEMPTS_MAX {
            return Err(Outcome::GaveUp(format!("watch: opened {ATTEMPTS_MAX} times in vain")));
        }
        due = visitor.now().after(asked_for + visitor.back_off(attempt));
    }
}

/// Looks at every board that has come. None: nothing to be done yet.
fn read_boards(visitor: &mut Visitor<'_>, events: &mut Events) -> Option<StreamEnd> {
    while let Some(event) = events.next() {
        if event.name != "board" {
            continue;
        }
        let Ok(board) = serde_json::from_str::<Value>(&event.data) else {
            visitor.shared.ledger.record_unexpected(Step::Watch, 200, event.data.as_bytes());
            continue;
        };
        let Some(serving) = visitor.record.place.and_then(|place| serving(&board, place)) else {
            visitor.shared.ledger.record_unexpected(Step::Watch, 200, event.data.as_bytes());
            continue;
        };
        visitor.shared.ledger.record_streamed_frontier(serving, visitor.now());
        // A closed room lets nobody in: the claim will say so by name.
        if visitor.observe_serving(serving) || board["state"] == "closed" {
            return Some(StreamEnd::Served);
        }
        if visitor.has_waited_enough() {
            return Some(StreamEnd::HadEnough);
        }
    }
    None
}

/// The frontier of the line that this place is in.
fn serving(board: &Value, place: PlaceInLine) -> Option<u64> {
    let lines = board["generations"].as_array()?;
    let own = lines.iter().find(|line| line["generation"].as_u64() == Some(place.generation))?;
    own["serving"].as_u64()
}
