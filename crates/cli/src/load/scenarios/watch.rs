//! The live stream: join, follow the board over a connection of one's own, claim when the frontier has come.

use std::time::Duration;

use hyper::StatusCode;
use serde_json::Value;
use tokio::time::timeout;

use crate::http_client::percent_encode;

use super::super::ledger::Step;
use super::super::record::{Outcome, Place};
use super::super::server_sent_events::Events;
use super::super::visitor::Visitor;
use super::super::wire::{Call, retry_after};
use super::native::{self, Joined};

/// A stream that is silent for longer is taken for lost: the server sends a comment now and then.
const SILENCE_MAX: Duration = Duration::from_secs(90);
/// How often a stream is opened in vain, in a row, before a visitor gives up.
const ATTEMPTS_MAX: u32 = 12;

/// A visit.
pub(in super::super) async fn walk(mut visitor: Visitor<'_>) -> Result<Outcome, Outcome> {
    let ticket = match native::join(&mut visitor).await? {
        Joined::Admitted => return Ok(Outcome::Admitted),
        Joined::Waiting(ticket) => ticket,
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
enum Followed {
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
                        break Followed::Lost;
                    };
                    heard_something = true;
                    events.feed(&bytes);
                    if let Some(followed) = look(visitor, &mut events) {
                        break followed;
                    }
                };
                match followed {
                    Followed::Served => return Ok(true),
                    Followed::HadEnough => return Ok(false),
                    Followed::Lost if heard_something => attempt = 0,
                    Followed::Lost => attempt += 1,
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
fn look(visitor: &mut Visitor<'_>, events: &mut Events) -> Option<Followed> {
    while let Some(event) = events.next() {
        if event.name != "board" {
            continue;
        }
        let Ok(board) = serde_json::from_str::<Value>(&event.data) else {
            visitor.shared.ledger.unexpected(Step::Watch, 200, event.data.as_bytes());
            continue;
        };
        let Some(serving) = visitor.record.place.and_then(|place| serving(&board, place)) else {
            visitor.shared.ledger.unexpected(Step::Watch, 200, event.data.as_bytes());
            continue;
        };
        visitor.shared.ledger.told_frontier(serving, visitor.now());
        // A closed room lets nobody in: the claim will say so by name.
        if visitor.sees(serving) || board["state"] == "closed" {
            return Some(Followed::Served);
        }
        if visitor.has_waited_enough() {
            return Some(Followed::HadEnough);
        }
    }
    None
}

/// The frontier of the line that this place is in.
fn serving(board: &Value, place: Place) -> Option<u64> {
    let lines = board["generations"].as_array()?;
    let own = lines.iter().find(|line| line["generation"].as_u64() == Some(place.generation))?;
    own["serving"].as_u64()
}
