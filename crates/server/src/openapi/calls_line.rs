//! The calls by which pages go on. The cookie of the room says who asks.

use super::answers::{LineAnswer, MoveLink};
use super::call::{Call, Group};
use super::schemas::RoomName;
use super::{GENERATION, REQUEST_ID};
use crate::http::problem::Problem;

const ROOM: &str = "The room; the default room if it is not named.";
const RETURN: &str = "Where a browser goes on to: a path of this very host.";
const CODE: &str = "The code of the link.";
pub(super) const MOVED: &str = "The place is on another device.";
const PAGE: &str = "text/html";
const PAGE_EXAMPLE: &str = "<!doctype html>…";
const SCRIPT: &str = "text/javascript";

fn new(id: &'static str, summary: &'static str, description: &str) -> Call {
    Call::new(id, Group::Pages, summary, description)
}

fn waiting() -> LineAnswer {
    LineAnswer {
        room: Some("Sample"),
        status: "waiting",
        notice: None,
        next_poll_seconds: Some(5),
        is_standing_still: Some(false),
        request_id: Some(REQUEST_ID),
        generation: Some(GENERATION),
        position: Some(42),
        people_ahead: Some(11),
        people_ahead_at_first: Some(30),
        estimated_wait_seconds: Some(66),
        estimated_wait_p90_seconds: Some(90),
        claim_expires_in_seconds: None,
    }
}

pub(super) fn moved() -> LineAnswer {
    LineAnswer { status: "moved", ..LineAnswer::default() }
}

/// With what a waiting visitor is answered; the room's `queueing_status_code` decides which of these it is.
pub(super) fn line_answers(call: Call) -> Call {
    let text = "Where the visitor stands. JSON for programs, a page for browsers (`Accept: text/html`).";
    [200, 202, 429, 503].into_iter().fold(call, |call, status| {
        call.json(status, text, &waiting()).text(status, "The page.", PAGE, PAGE_EXAMPLE)
    })
}

fn of_room(call: Call) -> Call {
    call.optional_query::<RoomName>("room", ROOM, "Sample")
        .optional_query::<String>("return", RETURN, "/cart")
}

pub(crate) fn ask() -> Call {
    let call = new(
        "lineStatus",
        "Where the visitor of this browser stands",
        "Nothing is taken or entered by asking. `status` is `none`, `arriving`, `waiting`, `active` (it is the visitor's turn), `held` (the store is lost), `closed`, `expired`, `moved` \
         or `admitted`. The HTTP status is the room's `queueing_status_code` while the visitor waits, 503 for `held` and `closed`, 410 for `moved`.",
    );
    line_answers(of_room(call)).json(410, MOVED, &moved()).problems(&[Problem::UnknownRoom])
}

pub(crate) fn join() -> Call {
    let call = new(
        "lineJoin",
        "Takes a place in line, and gives the browser its cookie",
        "A browser is sent on to `return`. Pages of other sites cannot ask for it. In a room whose `join` is `page`, a client without the cookie of \
         an earlier answer gets that cookie and the status `arriving`; repeated with the cookie, the call takes the place.",
    );
    line_answers(of_room(call))
        .empty(303, "A browser is sent on to `return`, or first through `/.anteroom/enter`, where it has to bring its cookie.")
        .json(
            429,
            "More want to join than the room takes in a second; no place was taken.",
            &LineAnswer { status: "many-arriving", ..LineAnswer::default() },
        )
        .problems(&[Problem::UnknownRoom, Problem::Forbidden])
}

pub(crate) fn enter() -> Call {
    let call = new(
        "lineEnter",
        "Comes in, where it is the visitor's turn",
        "For rooms that a gateway stands before, and whose `auto_enter` is false: the button at the turn. A browser is sent on to `return`, which lets it in, or shows the line.",
    );
    line_answers(of_room(call))
        .empty(303, "A browser is sent on to `return`.")
        .json(410, MOVED, &moved())
        .problems(&[Problem::UnknownRoom, Problem::Forbidden, Problem::Conflict])
}

pub(crate) fn leave() -> Call {
    let left = LineAnswer { room: Some("Sample"), status: "left", ..LineAnswer::default() };
    of_room(new(
        "lineLeave",
        "Gives the place up, or ends the visit",
        "The cookie is forgotten. Asked again, it answers the same.",
    ))
    .json(200, "The visitor has no place any more.", &left)
    .json(410, MOVED, &moved())
    .problems(&[Problem::UnknownRoom, Problem::Forbidden, Problem::Unavailable])
}

pub(crate) fn move_out() -> Call {
    let link = MoveLink {
        url: "https://shop.example.com/.anteroom/line/take?room=Sample&code=AQ…",
        qr: "<svg xmlns=\"http://www.w3.org/2000/svg\">…</svg>",
        expires_in_seconds: 600,
    };
    let call = of_room(new(
        "lineMove",
        "A link that takes the place to another device",
        "Opened there, it asks, and takes the place. It works for ten minutes, and once. A visitor who has come in has no place to take elsewhere: `conflict`.",
    ));
    call.json(200, "The link.", &link)
        .json(
            410,
            "The place is on another device already.",
            &LineAnswer { status: "moved", ..LineAnswer::default() },
        )
        .json(503, "The line cannot be reached.", &LineAnswer { status: "held", ..waiting() })
        .problems(&[Problem::UnknownRoom, Problem::Conflict, Problem::BadRequest, Problem::PlaceGone])
}

pub(crate) fn ask_to_take() -> Call {
    let movable =
        LineAnswer { room: Some("Sample"), status: "movable", position: Some(42), ..LineAnswer::default() };
    of_room(new(
        "lineTakeAsk",
        "The link to another device: asks",
        "Nothing is taken by opening it: programs that preview links open them too. It sets a cookie by which the browser is known again: if the answer to the `POST` is lost, opening the link again gives the browser the place that it took.",
    ))
    .optional_query::<String>("code", CODE, "AQ")
    .json(200, "It works.", &movable)
    .empty(303, "This browser has the place already.")
    .problems(&[Problem::UnknownRoom, Problem::Moved])
}

pub(crate) fn take() -> Call {
    let call = of_room(new(
        "lineTake",
        "Takes the place to this device",
        "The device that had it is told `moved` from then on. A browser is sent on to `return`. Asked again with the cookie of the question, it answers the same. A room remembers 1,024 \
         places that have moved and whose turn has not passed; beyond that, and for a visitor who is inside already, the answer is `conflict`.",
    ))
    .optional_query::<String>("code", CODE, "AQ");
    line_answers(call).empty(303, "A browser is sent on to `return`.").problems(&[
        Problem::UnknownRoom,
        Problem::Forbidden,
        Problem::Moved,
        Problem::Conflict,
        Problem::Unavailable,
    ])
}

fn elsewhere(call: Call) -> Call {
    call.path::<RoomName>("room", "The room.", "Sample").optional_query::<String>(
        "return",
        "Where the visitor goes with the pass: an address that the room lists. Left out: its `backend_uri`, or the first that it lists.",
        "https://shop.example.com/",
    )
}

pub(crate) fn wait() -> Call {
    let call = elsewhere(new(
        "waitPage",
        "The waiting page for a site elsewhere",
        "A site without a gateway sends its visitors here. They take a place, wait, and at their turn are handed over to `return` with their pass, as `handoff` \
         says: `query` adds `anteroom_code`, which the site exchanges at `/claim`; `cookie` sets `anteroom_pass_{room}` for `handoff_domain`; `post` posts a form. In rooms \
         whose `auto_enter` is false there is a button. A program that asks for JSON is told where the browser stands. In a frame of another page, or as part of one \
         (`Sec-Fetch-Dest`), it is refused: it wants a window of its own.",
    ));
    line_answers(call)
        .empty(303, "The turn has come: the visitor goes on to `return`.")
        .json(410, MOVED, &moved())
        .problems(&[Problem::UnknownRoom, Problem::BadRequest, Problem::Forbidden])
}

pub(crate) fn enter_elsewhere() -> Call {
    let call = elsewhere(new(
        "waitEnter",
        "The button of the waiting page",
        "Claims the pass and hands it over, if it is the visitor's turn; else shows the line.",
    ));
    line_answers(call)
        .empty(303, "The visitor goes on to `return`, or to the waiting page.")
        .json(410, MOVED, &moved())
        .problems(&[Problem::UnknownRoom, Problem::BadRequest, Problem::Forbidden])
}

pub(crate) fn script() -> Call {
    new(
        "pageScript",
        "What pages do in a browser",
        "Named by pages with a version, and kept by browsers for as long as it is the same.",
    )
    .optional_query::<String>("v", "The version that the page names.", "0")
    .text(200, "The script.", SCRIPT, "…")
}
