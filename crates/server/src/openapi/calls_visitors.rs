//! Our own calls for visitors.

use serde_json::{Value as Json, json};

use super::answers::{AuctionAnswer, JoinAnswer, LeftAnswer, RefreshedPass};
use super::call::{AnswerHeader, Call, Group, Ticket};
use super::schemas::{EntityTags, EventId, IdempotencyKey, RoomName};
use super::{GENERATION, JWT, MOMENT, REQUEST_ID};
use crate::api::auction::{AuctionBody, QueuedAnswer, WonAnswer};
use crate::api::frontier::PublicMove;
use crate::api::ticket_request::TicketBody;
use crate::api::visitors::answers::{AdmittedAnswer, ClaimExpiry, PassAnswer, TicketAnswer};
use crate::api::visitors::{ClaimBody, RefreshBody, RoomBody};
use crate::http::prepared::{GenerationFigures, PublicFigures};
use crate::http::problem::Problem;

const ROOM: &str = "The room; the default room if it is not named. A ticket token names its own.";

fn new(id: &'static str, summary: &'static str, description: &str) -> Call {
    Call::new(id, Group::Visitors, summary, description)
}

fn waiting() -> TicketAnswer<'static> {
    TicketAnswer {
        ticket: JWT.to_owned(),
        token: None,
        request_id: REQUEST_ID.to_owned(),
        room: "Sample",
        generation: GENERATION,
        position: 42,
        serving: 30,
        people_ahead: 11,
        status: "waiting",
        estimated_wait_seconds: Some(66),
        estimated_wait_p90_seconds: None,
        next_poll_seconds: 5,
        claim_expires_in_seconds: None,
        stale_seconds: None,
    }
}

fn active() -> TicketAnswer<'static> {
    TicketAnswer {
        serving: 50,
        people_ahead: 0,
        status: "active",
        estimated_wait_seconds: None,
        claim_expires_in_seconds: Some(ClaimExpiry(Some(612))),
        ..waiting()
    }
}

fn admitted() -> AdmittedAnswer<'static> {
    AdmittedAnswer {
        ticket: TicketAnswer { status: "admitted", claim_expires_in_seconds: None, ..active() },
        pass: PassAnswer {
            access_token: JWT.to_owned(),
            refresh_token: JWT.to_owned(),
            id_token: JWT.to_owned(),
            token_type: "Bearer",
            expires_in: 3600,
            backend_uri: Some("https://shop.example.com/".to_owned()),
        },
    }
}

fn board() -> PublicFigures<'static> {
    PublicFigures {
        room: "Sample",
        version: 17,
        updated_at: MOMENT.to_owned(),
        state: "open",
        serving: 30,
        waiting: 12,
        joined: 42,
        admitted_per_minute: Some(10.0),
        notice: Some("Doors open at eight."),
        inlet: "periodic",
        discipline: "counter",
        last_move: Some(PublicMove { by: "periodic", at: MOMENT.to_owned() }),
        next_step_at: Some("2026-11-16T20:01:00.000Z".to_owned()),
        standstill: None,
        round: None,
        generations: vec![GenerationFigures { generation: GENERATION, base: 0, joined: 42, serving: 30 }],
        stale_seconds: None,
    }
}

fn value(example: &impl serde::Serialize) -> Json {
    serde_json::to_value(example).expect("our own structures can be written as JSON")
}

pub(crate) fn join() -> Call {
    new(
        "join",
        "Takes a place in line",
        "The place is durable when this is answered. Where it is served at once, it is claimed in the same call: the status is `admitted`, and \
         the pass is there too; unless the room's `join_claims` is false, then the status is `active`, and `/claim` gives the pass. A client whose connection broke may ask again with the same `Idempotency-Key` within two minutes, and gets \
         the same place; if it has moved to another device since, that is `moved`.\n\nThe room is named in the body or in the query.",
    )
    .optional_query::<RoomName>("room", "The room, if the body does not name it; else the default room.", "Sample")
    .header::<IdempotencyKey>("Idempotency-Key", "Makes the call repeatable.", REQUEST_ID)
    .optional_body::<RoomBody>(json!({"room": "Sample"}))
    .json_like::<JoinAnswer>(
        200,
        "The ticket, and where it stands; its pass too, if it was served at once.",
        vec![("waiting", value(&waiting().of_join())), ("admitted", value(&admitted().of_join()))],
    )
    .leads_to("claim", &[("body.ticket", "$response.body#/ticket")])
    .leads_to("leave", &[("body.ticket", "$response.body#/ticket")])
    .problems(&[
        Problem::JoinByPage,
        Problem::UnknownRoom,
        Problem::UnknownTicket,
        Problem::NotJoinable,
        Problem::ManyArriving,
        Problem::PlaceGone,
        Problem::Moved,
        Problem::SessionEnded,
        Problem::RoomClosed,
    ])
}

pub(crate) fn status() -> Call {
    new(
        "status",
        "Where a ticket stands",
        "Ask again after `next_poll_seconds`; or follow `/watch`, and ask when `serving` has reached your position.",
    )
    .ticket(Ticket::InHeader)
    .optional_query::<RoomName>("room", ROOM, "Sample")
    .json_like::<TicketAnswer>(
        200,
        "Where it stands.",
        vec![("waiting", value(&waiting())), ("active", value(&active()))],
    )
    .problems(&[Problem::TicketMissing, Problem::UnknownTicket, Problem::UnknownRoom, Problem::Moved])
}

pub(crate) fn claim() -> Call {
    new(
        "claim",
        "Exchanges a served place for a pass",
        "Asked again, it answers with the same tokens, byte for byte, and with what is left of `expires_in`.\n\nA site to which `/wait/{room}` handed a visitor over sends the `code` that came with the visitor instead of a ticket. Each code is good once, and for a minute. A site should name its `room` with it, so that a code of another room is refused; on `code-used` it sends the visitor back to `/wait/{room}`.",
    )
    .ticket(Ticket::InHeaderOrBody)
    .optional_query::<RoomName>("room", ROOM, "Sample")
    .optional_body::<ClaimBody>(json!({"ticket": JWT}))
    .json(200, "The pass.", &admitted())
    .leads_to("refresh", &[("body.refresh_token", "$response.body#/refresh_token")])
    .problems(&[
        Problem::TicketMissing,
        Problem::JoinByPage,
        Problem::UnknownTicket,
        Problem::UnknownRoom,
        Problem::NotServed,
        Problem::PlaceGone,
        Problem::Moved,
        Problem::CodeUsed,
        Problem::SessionEnded,
        Problem::RoomClosed,
    ])
}

pub(crate) fn auction() -> Call {
    let won =
        WonAnswer { access_token: JWT.to_owned(), backend_uri: Some("https://shop.example.com/".to_owned()) };
    let queued = QueuedAnswer { queue_token: JWT.to_owned(), estimated_wait_seconds: Some(300) };
    new(
        "auction",
        "Checks in to the open round, or takes a place in line",
        "For rooms with `discipline` `auction`. Without a ticket: a slot on the spot if one is spare, else a place in line. With one: the answer comes when the round \
         closes. The earliest of those whose connections are open then win its free slots; a client that hangs up before is not there, and loses nothing but \
         this round. Those who cannot win are told `no-slot` at once. A winner whose connection broke asks again and gets the same pass. If \
         the same ticket comes twice, the later connection waits and the earlier one is told `no-slot`.\n\nThe room is named in the body or in the query; a ticket token names its own.",
    )
    .ticket(Ticket::InHeaderOrBody)
    .optional_query::<RoomName>("room", ROOM, "Sample")
    .header::<IdempotencyKey>("Idempotency-Key", "Makes taking a place repeatable.", REQUEST_ID)
    .optional_body::<AuctionBody>(json!({"queueToken": JWT}))
    .json_like::<AuctionAnswer>(
        200,
        "A slot; or, for a client without a ticket that found none, a place in line.",
        vec![("won", value(&won)), ("queued", value(&queued))],
    )
    .leads_to("leave", &[("body.ticket", "$response.body#/queueToken")])
    .problems(&[
        Problem::TicketMissing,
        Problem::JoinByPage,
        Problem::UnknownTicket,
        Problem::UnknownRoom,
        Problem::NotJoinable,
        Problem::Conflict,
        Problem::ManyArriving,
        Problem::NoSlot,
        Problem::PlaceGone,
        Problem::Moved,
        Problem::SessionEnded,
        Problem::RoomClosed,
    ])
}

pub(crate) fn move_place() -> Call {
    new(
        "move",
        "Takes the place to another device",
        "The place goes on under a new ticket with the same position. The old one answers `moved` from then on. A place can move fifteen times, and a room remembers 1,024 places that have moved and whose turn has not passed; beyond that the answer is `conflict`.\n\nA client whose connection broke may ask again with the same ticket and the same `Idempotency-Key`, for as long as the place waits, and gets the same new ticket. Without a key a place whose answer is lost is lost with it.",
    )
    .ticket(Ticket::InHeaderOrBody)
    .optional_query::<RoomName>("room", ROOM, "Sample")
    .header::<IdempotencyKey>("Idempotency-Key", "Makes the call repeatable.", REQUEST_ID)
    .optional_body::<TicketBody>(json!({"ticket": JWT}))
    .json(200, "The new ticket.", &waiting())
    .leads_to("leave", &[("body.ticket", "$response.body#/ticket")])
    .problems(&[
        Problem::TicketMissing,
        Problem::UnknownTicket,
        Problem::UnknownRoom,
        Problem::PlaceGone,
        Problem::Moved,
        Problem::Conflict,
    ])
}

pub(crate) fn leave() -> Call {
    new(
        "leave",
        "Gives the place up, or ends the visit",
        "The slot of a visit is free at once, and the next visitor is let in.",
    )
    .ticket(Ticket::InHeaderOrBody)
    .optional_query::<RoomName>("room", ROOM, "Sample")
    .optional_body::<TicketBody>(json!({"ticket": JWT}))
    .json(200, "It was given up.", &LeftAnswer { status: "left" })
    .problems(&[
        Problem::TicketMissing,
        Problem::UnknownTicket,
        Problem::UnknownRoom,
        Problem::PlaceGone,
        Problem::Moved,
        Problem::SessionEnded,
    ])
}

pub(crate) fn refresh() -> Call {
    new(
        "refresh",
        "A new access token while the visit lasts",
        "It ends when the visit does; asking again does not make the visit longer.",
    )
    .body::<RefreshBody>(json!({"refresh_token": JWT}))
    .json(200, "The token.", &RefreshedPass { access_token: JWT, token_type: "Bearer", expires_in: 1800 })
    .problems(&[Problem::UnknownTicket, Problem::Conflict, Problem::SessionEnded])
}

pub(crate) fn figures() -> Call {
    new("board", "A room's public figures", "The board. The same for everybody, for a second.")
        .path::<RoomName>("id", "The room.", "Sample")
        .header::<EntityTags>(
            "If-None-Match",
            "What was answered before.",
            "\"17-42-5d0c3a7be1f24689-1794859200000\"",
        )
        .json(200, "The board.", &board())
        .with(AnswerHeader::EntityTag)
        .with(AnswerHeader::CachedForASecond)
        .empty(304, "It is still what `If-None-Match` says.")
        .with(AnswerHeader::EntityTag)
        .with(AnswerHeader::CachedForASecond)
        .problems(&[Problem::UnknownRoom])
}

pub(crate) fn watch() -> Call {
    let data = serde_json::to_string(&board()).expect("our own structures can be written as JSON");
    let event = format!("retry: 4711\n\nevent: board\nid: 42-5d0c3a7be1f24689\ndata: {data}\n\n");
    new(
        "watch",
        "A room's public figures, live",
        "Server-sent events, for the browser's `EventSource`: `event: board`, and as `data` the same JSON as `GET /rooms/{id}`. One event comes at \
         once, unless `Last-Event-ID` names the present board; then one for each change, at most one a second unless configured otherwise; and `alive` while nothing happens. \
         `retry:` says when to come back if the stream ends.",
    )
    .optional_query::<RoomName>("room", "The room; the default room if it is not named.", "Sample")
    .header::<EventId>("Last-Event-ID", "The `id` of the last event seen, as browsers send it when they come back.", "42-5d0c3a7be1f24689")
    .text(200, "The stream. It does not end by itself.", "text/event-stream", &event)
    .problems(&[Problem::UnknownRoom, Problem::NotAcceptable])
}

pub(crate) fn problems() -> Call {
    Call::new(
        "problems",
        Group::Server,
        "What each problem means",
        "A readable page with one entry for each kind of problem.",
    )
    .text(200, "The page.", "text/html", "<!doctype html>…")
    .with(AnswerHeader::CachedForMinutes)
}
