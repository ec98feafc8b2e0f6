//! The answer to somebody who waits: a page for people, JSON for programs, with the room's `queueing_status_code`.

use std::fmt::Write;

use anteroom_core::estimate::next_poll_seconds;
use anteroom_core::{Board, Standing, Ticket, UnixMillis};
use anteroom_tokens::request_id;
use http::header::{self, HeaderValue};
use http::{Response, StatusCode};
use serde_json::json;

use crate::body::GatewayBody;
use crate::page::{self, Page, PlaceShown, wait_in_words, with_thousands};
use crate::rooms::GatewayRoom;

/// How soon somebody whose cookie is still on its way asks again.
const ARRIVED_REFRESH_SECONDS: u64 = 1;
/// How soon somebody asks again while the store is lost.
const HELD_REFRESH_SECONDS: u64 = 5;
/// How soon somebody asks again in whose room nobody is let in.
const PASSED_REFRESH_SECONDS: u64 = 30;
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// Why somebody is shown the line.
#[derive(Debug, Clone)]
pub(crate) enum Wait {
    /// He has this place.
    InLine(Ticket),
    /// He gets a place when his cookie comes back.
    Arriving,
    /// Nobody gets anything until the store is back; a place that he has stays his.
    Held(Option<Ticket>),
    /// His turn came and went, or he gave his place up.
    Gone,
}

/// What the answer needs to know beside why.
pub(crate) struct Shown<'request> {
    pub(crate) room: &'request GatewayRoom,
    pub(crate) board: &'request Board,
    pub(crate) now: UnixMillis,
    pub(crate) wants_page: bool,
    /// The path and query that he asked for.
    pub(crate) address: &'request str,
}

/// The answer.
pub(crate) fn answer(wait: &Wait, shown: &Shown<'_>) -> Response<GatewayBody> {
    let status = match wait {
        Wait::Held(_) => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::from_u16(shown.board.settings.queueing_status_code.get()).unwrap_or(StatusCode::OK),
    };
    let place = match wait {
        Wait::InLine(ticket) | Wait::Held(Some(ticket)) => Some(Place::of(ticket, shown)),
        Wait::Arriving | Wait::Held(None) | Wait::Gone => None,
    };
    let refresh_seconds = match (wait, &place) {
        (Wait::Arriving, _) => ARRIVED_REFRESH_SECONDS,
        (Wait::Held(_), _) => HELD_REFRESH_SECONDS,
        (Wait::Gone, _) => PASSED_REFRESH_SECONDS,
        (_, Some(place)) => place.refresh_seconds,
        (_, None) => HELD_REFRESH_SECONDS,
    };
    let mut response = if shown.wants_page {
        as_page(status, wait, place.as_ref(), refresh_seconds, shown)
    } else {
        as_json(status, wait, place.as_ref(), refresh_seconds, shown)
    };
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(refresh_seconds));
    response
}

/// A place in line at this moment.
struct Place {
    ticket: Ticket,
    people_ahead: u64,
    likely_seconds: Option<u64>,
    at_most_seconds: Option<u64>,
    refresh_seconds: u64,
}

impl Place {
    fn of(ticket: &Ticket, shown: &Shown<'_>) -> Self {
        let people_ahead = match shown.board.standing(ticket, shown.now) {
            Standing::Waiting { people_ahead } => people_ahead,
            Standing::Offered { .. } | Standing::Passed | Standing::Settled => 0,
        };
        let wait = shown.board.wait(ticket, people_ahead, shown.now);
        let likely_seconds = wait.map(|wait| wait.p50_seconds);
        Self {
            ticket: *ticket,
            people_ahead,
            likely_seconds,
            at_most_seconds: wait.map(|wait| wait.p90_seconds),
            refresh_seconds: next_poll_seconds(people_ahead, likely_seconds, ticket.position.get()),
        }
    }
}

fn as_page(
    status: StatusCode,
    wait: &Wait,
    place: Option<&Place>,
    refresh_seconds: u64,
    shown: &Shown<'_>,
) -> Response<GatewayBody> {
    let (title, lead) = match wait {
        Wait::InLine(_) if !shown.board.state.admits() || shown.board.settings.queue_all => {
            ("You are in line", "Nobody is being let in at the moment. Your place is safe.")
        }
        Wait::InLine(_) => (
            "You are in line",
            "Many people want to come in just now. You keep your place, also if you close this page.",
        ),
        Wait::Arriving => ("You are joining the line", "One moment: your place is being taken."),
        Wait::Held(Some(_)) => ("You are in line", "The line stands still for a moment. Your place is safe."),
        Wait::Held(None) => {
            ("One moment, please", "The line cannot be reached just now. This page tries again by itself.")
        }
        Wait::Gone => (
            "Your turn has passed",
            "Your place was given to the next in line, because nobody came for it, or because you left.",
        ),
    };
    let mut remarks = vec![];
    match wait {
        Wait::InLine(_) | Wait::Held(_) => {
            remarks.push(format!(
                "This page asks again by itself every {refresh_seconds} seconds, and lets you in when it is your turn. Cookies must be on."
            ));
        }
        Wait::Arriving => {
            remarks
                .push("If nothing happens: your browser must accept cookies to hold a place for you.".into());
        }
        Wait::Gone => {}
    }
    let room = shown.room.handle.id();
    let line = |call: &str| format!("{}{call}?room={room}", crate::LINE_PATH);
    let gone = matches!(wait, Wait::Gone);
    let page = Page {
        title,
        lead,
        notice: shown.board.settings.notice.as_ref().map(anteroom_core::settings::Notice::as_str),
        place: place.map(|place| PlaceShown {
            position: with_thousands(place.ticket.position.get()),
            people_ahead: with_thousands(place.people_ahead),
            estimate: wait_in_words(place.likely_seconds, place.at_most_seconds),
            updated: time_of_day(shown.now),
        }),
        refresh_seconds: (!gone).then_some(refresh_seconds),
        remarks,
        link: match wait {
            Wait::Gone => None,
            _ => Some((shown.address.to_owned(), "Ask again now")),
        },
        leave: matches!(wait, Wait::InLine(_)).then(|| line("/leave")),
        join: gone.then(|| format!("{}&return={}", line("/join"), escaped(shown.address))),
    };
    page::answer(status, &page)
}

fn as_json(
    status: StatusCode,
    wait: &Wait,
    place: Option<&Place>,
    refresh_seconds: u64,
    shown: &Shown<'_>,
) -> Response<GatewayBody> {
    let word = match wait {
        // As the API says it: whoever asks for a page of the site now is let in.
        Wait::InLine(ticket)
            if matches!(shown.board.standing(ticket, shown.now), Standing::Offered { .. }) =>
        {
            "active"
        }
        Wait::InLine(_) => "waiting",
        Wait::Arriving => "arriving",
        Wait::Held(_) => "held",
        Wait::Gone => "expired",
    };
    let mut body = json!({
        "room": shown.room.handle.id().as_str(),
        "status": word,
        "notice": shown.board.settings.notice.as_ref().map(anteroom_core::settings::Notice::as_str),
        "next_poll_seconds": refresh_seconds,
    });
    if let Some(place) = place {
        let request_id = shown.room.request_ids.seal(&place.ticket);
        body["request_id"] = request_id::format(request_id).into();
        body["position"] = place.ticket.position.get().into();
        body["people_ahead"] = place.people_ahead.into();
        body["estimated_wait_seconds"] = place.likely_seconds.into();
        body["estimated_wait_p90_seconds"] = place.at_most_seconds.into();
    }
    page::json(status, JSON, &body)
}

/// The time of day, as a page shows it.
fn time_of_day(now: UnixMillis) -> String {
    let seconds = now.seconds() % 86_400;
    format!("{:02}:{:02}:{:02} UTC", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

/// An address as the value of a query parameter.
pub(crate) fn escaped(address: &str) -> String {
    let mut text = String::with_capacity(address.len());
    for byte in address.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            text.push(char::from(byte));
        } else {
            write!(text, "%{byte:02X}").expect("a String takes everything");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_times_are_written_plainly() {
        assert_eq!(escaped("/a b?c=d&e"), "/a%20b%3Fc%3Dd%26e");
        assert_eq!(time_of_day(UnixMillis(1_794_830_400_000 + 3_661_000)), "13:01:01 UTC");
    }
}
