//! The AWS calls of both listeners.

use serde_json::json;

use super::answers::{
    ActiveTokens, AssignedPlace, AwsPass, Done, ExpiredTokens, Jwk, Jwks, Message, NumberOfPlace,
    PositionExpiry, ServingCounter, ServingNumber, WaitingNumber,
};
use super::call::{AnswerHeader, Call, Group};
use super::schemas::{EntityTags, IdempotencyKey, RequestIdText, RoomName};
use super::{JWT, REQUEST_ID};
use crate::api::aws::{ClaimBody, EventBody, IncrementBody, PrivateClaimBody, ResetBody, UpdateBody};

const INVALID_EVENT: (u16, &str) = (400, "Invalid event ID");
const INVALID_EVENT_OR_REQUEST: (u16, &str) = (400, "Invalid event or request ID");
const INVALID_REQUEST: (u16, &str) = (404, "Invalid request ID");
const NOT_YET: (u16, &str) = (202, "Request ID not being served yet");
const EXPIRED: (u16, &str) = (410, "Queue position has expired");
const CLOSED: (u16, &str) = (410, "The waiting room is closed");
const VISIT_OVER: (u16, &str) = (410, "Token corresponding to request id has expired");

const PASS: AwsPass =
    AwsPass { access_token: JWT, refresh_token: JWT, id_token: JWT, token_type: "Bearer", expires_in: 3600 };

fn new(id: &'static str, summary: &'static str, description: &str) -> Call {
    Call::new(id, Group::Aws, summary, description)
}

/// A call whose query names the event.
fn of_event(id: &'static str, summary: &'static str, description: &str) -> Call {
    new(id, summary, description).query::<RoomName>("event_id", "The room.", "Sample")
}

/// A call whose query names event and ticket.
fn of_ticket(id: &'static str, summary: &'static str, description: &str) -> Call {
    of_event(id, summary, description).query::<RequestIdText>("request_id", "The ticket.", REQUEST_ID)
}

pub(crate) fn assign_queue_num() -> Call {
    new(
        "assignQueueNum",
        "Takes a place in line",
        "The place is durable, and its number is there, when this is answered. A client whose connection broke may ask again with the same \
         `Idempotency-Key` within two minutes, and gets the same place.",
    )
    .header::<IdempotencyKey>("Idempotency-Key", "Makes the call repeatable.", REQUEST_ID)
    .body::<EventBody>(json!({"event_id": "Sample"}))
    .json(200, "The ticket.", &AssignedPlace { api_request_id: REQUEST_ID })
    .leads_to("queueNum", &[("request_id", "$response.body#/api_request_id"), ("event_id", "$request.body#/event_id")])
    .leads_to("queuePosExpiry", &[("request_id", "$response.body#/api_request_id"), ("event_id", "$request.body#/event_id")])
    .leads_to(
        "generateToken",
        &[("body.request_id", "$response.body#/api_request_id"), ("body.event_id", "$request.body#/event_id")],
    )
    .errors(&[
        INVALID_EVENT,
        (403, "In this room a place is taken by opening a page in a browser that keeps cookies, by /.anteroom/enter"),
        (409, "The waiting room is draining and takes nobody in"),
    ])
}

pub(crate) fn queue_num() -> Call {
    let example =
        NumberOfPlace { queue_number: 42, entry_time: 1_794_859_200, event_id: "Sample", status: 1 };
    of_ticket(
        "queueNum",
        "The number of a place",
        "The number is read from the ticket itself, so this may be asked as often as one likes.",
    )
    .json(200, "The number.", &example)
    .errors(&[INVALID_EVENT_OR_REQUEST])
}

pub(crate) fn serving_num() -> Call {
    figure(
        of_event(
            "servingNum",
            "How far the line is served",
            "A place whose number is not above it may be exchanged for a pass. The same for everybody, for a second.",
        )
        .json(200, "The counter.", &ServingCounter { serving_counter: 30 }),
    )
}

pub(crate) fn waiting_num() -> Call {
    figure(of_event("waitingNum", "How many people wait", "The same for everybody, for a second.").json(
        200,
        "The number.",
        &WaitingNumber { waiting_num: 12 },
    ))
}

/// A figure of the board, after its answer.
fn figure(call: Call) -> Call {
    call.with(AnswerHeader::EntityTag)
        .with(AnswerHeader::CachedForASecond)
        .header::<EntityTags>("If-None-Match", "What was answered before.", "\"30\"")
        .empty(304, "It is still what `If-None-Match` says.")
        .with(AnswerHeader::EntityTag)
        .with(AnswerHeader::CachedForASecond)
        .errors(&[INVALID_EVENT])
}

pub(crate) fn generate_token() -> Call {
    claim(
        new(
            "generateToken",
            "Exchanges a served place for a pass",
            "Asked again, it answers with the same tokens, byte for byte, and with what is left of `expires_in`.",
        )
        .body::<ClaimBody>(json!({"event_id": "Sample", "request_id": REQUEST_ID})),
    )
    .errors(&[(403, "In this room visitors come in by opening a page, and by no pass")])
}

pub(crate) fn generate_token_private() -> Call {
    claim(
        new(
            "generateTokenPrivate",
            "Exchanges a served place for a pass of one's own making",
            "As on the public listener; issuer and validity may be set otherwise than the room does, for a pass that does not exist yet.",
        )
        .body::<PrivateClaimBody>(
            json!({"event_id": "Sample", "request_id": REQUEST_ID, "issuer": "https://queue.example.com", "validity_period": 900}),
        ),
    )
}

fn claim(call: Call) -> Call {
    call.json(200, "The pass.", &PASS).errors(&[
        NOT_YET,
        INVALID_EVENT_OR_REQUEST,
        INVALID_REQUEST,
        EXPIRED,
        CLOSED,
        VISIT_OVER,
    ])
}

pub(crate) fn queue_pos_expiry() -> Call {
    of_ticket(
        "queuePosExpiry",
        "How long an offer still stands",
        "The clock of a place starts when the line is served up to it. A place that is not claimed until then is gone.",
    )
    .json(200, "The time left.", &PositionExpiry { expires_in: 612 })
    .errors(&[NOT_YET, (202, "Queue position expiration not enabled"), INVALID_EVENT_OR_REQUEST, INVALID_REQUEST, EXPIRED, CLOSED])
}

pub(crate) fn public_key() -> Call {
    of_event(
        "publicKey",
        "The key that signs passes now",
        "Passes may be signed with other keys too, before and after a rotation: verifiers should take `/.well-known/jwks.json`.",
    )
    .json(200, "The key.", &Jwk::example())
    .with(AnswerHeader::CachedForMinutes)
    .errors(&[(404, "Invalid event ID")])
}

pub(crate) fn jwks() -> Call {
    new(
        "jwks",
        "Every key that a valid pass may be signed with",
        "A JSON Web Key Set (RFC 7517), for any JWT library.",
    )
    .json(200, "The keys.", &Jwks { keys: vec![Jwk::example()] })
    .with(AnswerHeader::CachedForMinutes)
}

pub(crate) fn increment_serving_counter() -> Call {
    new(
        "incrementServingCounter",
        "Moves the serving counter",
        "The operator's hand, either way, never below the beginning of the line. Over an automatic inlet, forward is a one-off; back makes the \
         inlet rest until the room is set to `open` again.",
    )
    .body::<IncrementBody>(json!({"event_id": "Sample", "increment_by": 10}))
    .json(200, "Where it is now.", &ServingNumber { serving_num: 30 })
    .errors(&[INVALID_EVENT])
}

pub(crate) fn num_active_tokens() -> Call {
    of_event("numActiveTokens", "How many visitors are inside", "Visits that neither ended nor ran out.")
        .json(200, "The number.", &ActiveTokens { active_tokens: 120 })
        .errors(&[(404, "Invalid event ID")])
}

pub(crate) fn expired_tokens() -> Call {
    of_event(
        "expiredTokens",
        "Tickets whose pass has run out",
        "Without those that were ended by name. Kept for a day after their end.",
    )
    .json(200, "The tickets.", &ExpiredTokens(vec![REQUEST_ID]))
    .errors(&[INVALID_EVENT])
}

pub(crate) fn update_session() -> Call {
    new(
        "updateSession",
        "Tells that a visit is over",
        "Its slot is free at once, and where the room has a capacity the next visitor is let in. A visit ends once. A site that knows its \
         visitors by OpenID alone gives their subject (`sub`) as the `request_id`.",
    )
    .body::<UpdateBody>(json!({"event_id": "Sample", "request_id": REQUEST_ID, "status": 1}))
    .json(200, "It is over.", &Done {})
    .errors(&[INVALID_EVENT_OR_REQUEST, (404, "Request ID doesn't exist or status already set.")])
}

pub(crate) fn reset_initial_state() -> Call {
    new(
        "resetInitialState",
        "Throws the line away and begins a new one",
        "All tickets and visits of the room are unknown from then on. The event may stand in the body or in the query.",
    )
    .optional_query::<RoomName>("event_id", "The room, if the body does not name it.", "Sample")
    .optional_body::<ResetBody>(json!({"event_id": "Sample"}))
    .json(200, "It was done.", &Message { message: "Counters reset. DynamoDB table recreated." })
    .errors(&[INVALID_EVENT])
}
