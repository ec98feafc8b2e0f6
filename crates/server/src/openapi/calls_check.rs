//! Checks of other proxies, and what the site behind them says of a visit.

use serde_json::json;

use super::call::{Call, Group};
use super::calls_private::of_room;
use super::schemas::RoomName;
use crate::api::visits::{VisitAnswer, VisitBody};
use crate::http::problem::Problem;

const PAGE: &str = "text/html";
const PAGE_EXAMPLE: &str = "<!doctype html>…";
const INSIDE: &str = "The request may pass. `Anteroom-Room` and `Anteroom-Visit` are for the origin; a `Set-Cookie` renews the visit.";
const OUTSIDE: &str =
    "The request may not pass: the line, as page or JSON by what the visitor's request accepts.";
const REDIRECT: &str = "The visitor goes through `/.anteroom/enter` first, or comes in.";

fn check(id: &'static str, summary: &'static str, description: &str) -> Call {
    let who = "Only for proxies that `check_proxies` lists or that show the secret of checks, with any method, on the public listener \
               and not below `/.anteroom/`; everybody else gets 403.";
    Call::new(id, Group::Checks, summary, &format!("{description} {who}")).path::<RoomName>(
        "room",
        "The room.",
        "shop",
    )
}

pub(crate) fn nginx() -> Call {
    check(
        "checkNginx",
        "A verdict for nginx's auth_request",
        "Reads `X-Original-Method`, `X-Original-URL` and the rightmost untrusted address of `X-Forwarded-For`. Changes nothing.",
    )
    .empty(200, INSIDE)
    .empty(401, "The request may not pass; its response is at `/page`.")
    .problems(&[Problem::Forbidden])
}

pub(crate) fn nginx_page() -> Call {
    check(
        "checkNginxPage",
        "What nginx shows after a 401",
        "Reads the same header fields. Lets nothing pass: a visitor who is inside by now is redirected to their own address, or asked to repeat the request.",
    )
    .text(429, OUTSIDE, PAGE, PAGE_EXAMPLE)
    .empty(303, REDIRECT)
    .problems(&[Problem::Forbidden])
}

pub(crate) fn forward() -> Call {
    check(
        "checkForward",
        "A verdict for Caddy, Traefik and HAProxy",
        "Reads `X-Forwarded-Method`, `X-Forwarded-Uri` and the rightmost untrusted address of `X-Forwarded-For`.",
    )
    .empty(200, INSIDE)
    .text(429, OUTSIDE, PAGE, PAGE_EXAMPLE)
    .empty(303, REDIRECT)
    .problems(&[Problem::Forbidden])
}

pub(crate) fn envoy() -> Call {
    check(
        "checkEnvoy",
        "A verdict for Envoy's ext_authz over HTTP",
        "Has the method of the visitor's request, and its path and query behind the room.",
    )
    .path::<String>("target", "The path of the visitor's request.", "cart")
    .empty(200, INSIDE)
    .text(429, OUTSIDE, PAGE, PAGE_EXAMPLE)
    .empty(303, REDIRECT)
    .problems(&[Problem::Forbidden])
}

pub(crate) fn end_visit() -> Call {
    let ended = VisitAnswer { room: "shop".into(), visit: "23295488005-17".into(), status: "completed" };
    of_room(
        "endVisit",
        "A visit is over, by the word of its site",
        "For sites behind a proxy that asks for checks: the visit is what their requests have in `Anteroom-Visit`, and the commands are those of the \
         header `Anteroom-Session`. The next request of the visitor finds the visit over; its slot is free a moment later.",
    )
    .path::<String>("visit", "The visit, as `Anteroom-Visit` names it, or the subject (`sub`) that an OpenID client knows its visitor by.", "23295488005-17")
    .body::<VisitBody>(json!({"command": "complete"}))
    .json(200, "The visit is over.", &ended)
    .problems(&[Problem::UnknownRoom, Problem::SessionEnded])
}
