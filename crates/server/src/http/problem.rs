//! Every kind of problem our own API reports: one table, from which come the responses, the page at `/problems` and the
//! document `docs/api/problems.md`.
//!
//! The `type` of a problem leads to its entry on that page, so that a client's developer can look up what to do.

use std::fmt::Write;

use http::StatusCode;

use crate::http::routes::PREFIX;

/// What clients branch on: a problem's name, its status, and what its reader should know.
macro_rules! problems {
    ($( $(#[doc = $meaning:literal])+ $name:ident = $status:ident, $slug:literal, $title:literal; )+) => {
        /// A kind of problem.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Problem { $( $(#[doc = $meaning])+ $name, )+ }

        impl Problem {
            /// Every kind, in the order of the reference.
            pub(crate) const ALL: &[Self] = &[ $( Self::$name, )+ ];

            /// The status it is answered with.
            pub(crate) const fn status(self) -> StatusCode {
                match self { $( Self::$name => StatusCode::$status, )+ }
            }

            /// Its name in addresses.
            pub(crate) const fn slug(self) -> &'static str {
                match self { $( Self::$name => $slug, )+ }
            }

            /// Its name for people.
            pub(crate) const fn title(self) -> &'static str {
                match self { $( Self::$name => $title, )+ }
            }

            /// What it means and what to do.
            pub(crate) fn meaning(self) -> &'static str {
                match self { $( Self::$name => concat!($($meaning),+), )+ }
            }
        }
    };
}

problems! {
    /// A parameter, a header or the body is missing, malformed or out of range; `detail` says which. Nothing was changed.
    /// Mend the request before you send it again.
    BadRequest = BAD_REQUEST, "bad-request", "The request cannot be understood";
    /// On the private listener every call needs an API key (`Authorization: Bearer …`) or an AWS Signature Version 4. The key
    /// is missing, unknown, expired or revoked, or the signature does not fit the request.
    Unauthorized = UNAUTHORIZED, "unauthorized", "A valid key is needed";
    /// The key is known, but its role does not allow this call; or the public listener expects a header that only your CDN
    /// knows (`origin_secret_header`) and the request came past it.
    Forbidden = FORBIDDEN, "forbidden", "This is not allowed";
    /// In this room (`join` is `page`) places are taken by visitors who open a page and keep its cookie, not by programs.
    /// `detail` names the page. An app without pages needs a room with `join` `open`.
    JoinByPage = FORBIDDEN, "join-by-page", "Places are taken by the page";
    /// There is nothing at this path.
    NotFound = NOT_FOUND, "not-found", "There is nothing at this path";
    /// No room has this name, or the call named none and there is no default room. Names distinguish upper and lower case.
    UnknownRoom = NOT_FOUND, "unknown-room", "There is no such room";
    /// The ticket is not of this room's line: it was altered, belongs to another room, or the line was reset since. Join again.
    UnknownTicket = NOT_FOUND, "unknown-ticket", "The ticket is not of this line";
    /// No ticket came with the request. Send it as `Authorization: Bearer TICKET`.
    TicketMissing = UNAUTHORIZED, "ticket-missing", "A ticket is needed";
    /// There is nothing of this name: no such key, for example.
    UnknownName = NOT_FOUND, "unknown-name", "There is nothing of this name";
    /// The path exists, but not for this method; `Allow` lists those it has.
    MethodNotAllowed = METHOD_NOT_ALLOWED, "method-not-allowed", "The path has no such method";
    /// The answer exists only as `text/event-stream` or JSON, and the request's `Accept` allows neither.
    NotAcceptable = NOT_ACCEPTABLE, "not-acceptable", "The answer's format is not accepted";
    /// The body did not arrive in time. Send it again.
    BodyTimeout = REQUEST_TIMEOUT, "body-timeout", "The body came too slowly";
    /// The ticket's turn has not come, or the room is paused. Wait `next_poll_seconds` as `/status` tells, then ask again.
    NotServed = CONFLICT, "not-served", "It is not this ticket's turn yet";
    /// The room is draining or closed and hands out no places.
    NotJoinable = CONFLICT, "not-joinable", "The room takes nobody in";
    /// The name is taken. Choose another, or revoke the old one first.
    NameTaken = CONFLICT, "name-taken", "The name is taken";
    /// What was asked for contradicts what is there; `detail` says how.
    Conflict = CONFLICT, "conflict", "This contradicts what is there";
    /// The visit was ended by name before, or its pass has run out; a session ends once.
    SessionEnded = GONE, "session-ended", "The visit is over";
    /// The turn came and was not taken in time, or the place was given up. Join again.
    PlaceGone = GONE, "place-gone", "The place is gone";
    /// The place was taken to another device, and goes on under the ticket that was made there. This one is worth nothing any more.
    Moved = GONE, "moved", "The place has moved to another device";
    /// The code was exchanged before, is too old, or is not one of ours. The visitor comes back to the waiting page for a new one.
    CodeUsed = GONE, "code-used", "The code is not good any more";
    /// The room is closed, and waiting ended with it.
    RoomClosed = GONE, "room-closed", "The room is closed";
    /// `If-Match` or `If-None-Match` does not hold: somebody changed or made it meanwhile. Read it again, then decide.
    Changed = PRECONDITION_FAILED, "changed", "It was changed meanwhile";
    /// The body is larger than this call reads.
    TooLarge = PAYLOAD_TOO_LARGE, "too-large", "The body is too large";
    /// In an auction: no slot for this ticket in this round, because others were earlier, none is free, or the room is paused. The
    /// place is kept. Check in again after `Retry-After` seconds; `estimated_wait_seconds` says how long it will probably take.
    NoSlot = TOO_MANY_REQUESTS, "no-slot", "No slot in this round";
    /// More want to join than the room takes in a second (`join_rate_max`). No place was taken. Join again after `Retry-After` seconds.
    ManyArriving = TOO_MANY_REQUESTS, "many-arriving", "Many are arriving at the moment";
    /// The client has asked more than one of its budgets of requests allows; `violated-policies` names it. Ask again after
    /// `Retry-After` seconds; the `RateLimit` fields of every answer say how much is left.
    QuotaExceeded = TOO_MANY_REQUESTS, "quota-exceeded", "Too many requests";
    /// The server cannot do it now; `Retry-After` says when to ask again. Nothing was changed, unless `detail` says that this
    /// is not known.
    Unavailable = SERVICE_UNAVAILABLE, "unavailable", "Not possible at the moment";
}

impl Problem {
    /// The kind of an error of which only the status is known.
    pub(crate) const fn of_status(status: StatusCode) -> Self {
        match status {
            StatusCode::UNAUTHORIZED => Self::Unauthorized,
            StatusCode::FORBIDDEN => Self::Forbidden,
            StatusCode::NOT_FOUND => Self::NotFound,
            StatusCode::METHOD_NOT_ALLOWED => Self::MethodNotAllowed,
            StatusCode::REQUEST_TIMEOUT => Self::BodyTimeout,
            StatusCode::CONFLICT => Self::Conflict,
            StatusCode::GONE => Self::PlaceGone,
            StatusCode::PRECONDITION_FAILED => Self::Changed,
            StatusCode::PAYLOAD_TOO_LARGE => Self::TooLarge,
            StatusCode::TOO_MANY_REQUESTS => Self::NoSlot,
            StatusCode::SERVICE_UNAVAILABLE => Self::Unavailable,
            _ => Self::BadRequest,
        }
    }

    /// The address of its entry.
    pub(crate) fn address(self, public_url: &str) -> String {
        format!("{}#{}", page_address(public_url), self.slug())
    }
}

/// The address of the page with all entries.
pub(crate) fn page_address(public_url: &str) -> String {
    format!("{}{PREFIX}/problems", public_url.trim_end_matches('/'))
}

/// The longest line of Markdown that is written for people.
const MARKDOWN_LINE_MAX_BYTES: usize = 120;

/// The reference as Markdown: `docs/api/problems.md` is exactly this.
pub fn reference() -> String {
    let introduction = wrap(
        "Errors of our own API are RFC 9457 problem details (`application/problem+json`): `type` leads to an entry \
         below, `title` is its heading, `detail` says what it was this time. The AWS paths answer `{\"error\": …}` instead. A running \
         server shows this page at `/problems`.",
    );
    let mut text = format!("# Problems\n\n{introduction}\n");
    for problem in Problem::ALL {
        let (slug, status) = (problem.slug(), problem.status().as_u16());
        let entry = wrap(&format!("**{status} {}.**{}", problem.title(), problem.meaning()));
        write!(text, "\n## {slug}\n\n{entry}\n").expect("a String takes everything");
    }
    text
}

/// Breaks a paragraph into lines as all our Markdown has them, so that a diff shows what changed.
fn wrap(paragraph: &str) -> String {
    let (mut lines, mut length) = (String::new(), 0);
    for word in paragraph.split_whitespace() {
        if length > 0 && length + 1 + word.len() > MARKDOWN_LINE_MAX_BYTES {
            lines.push('\n');
            length = 0;
        } else if length > 0 {
            lines.push(' ');
            length += 1;
        }
        lines.push_str(word);
        length += word.len();
    }
    lines
}

/// The reference as a page.
pub(crate) fn page() -> String {
    let mut entries = String::new();
    for problem in Problem::ALL {
        let (slug, status, title) = (problem.slug(), problem.status().as_u16(), problem.title());
        let meaning = code_marked(problem.meaning().trim());
        writeln!(
            entries,
            "<section id=\"{slug}\"><h2>{slug}</h2><p><strong>{status} {title}.</strong> {meaning}</p></section>"
        )
        .expect("a String takes everything");
    }
    crate::http::html_frame::page(
        "Problems",
        "What our API reports when something is wrong, and what to do.",
        &entries,
    )
}

/// Turns `code` between back-quotes into markup. The texts are ours and hold no other markup.
fn code_marked(text: &str) -> String {
    let mut marked = String::new();
    for (index, part) in text.split('`').enumerate() {
        let (open, close) = if index % 2 == 0 { ("", "") } else { ("<code>", "</code>") };
        marked.extend([open, part, close]);
    }
    marked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_is_the_reference() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/api/problems.md");
        if std::env::var_os("ANTEROOM_WRITE_REFERENCES").is_some() {
            std::fs::write(path, reference()).unwrap();
        }
        let written = std::fs::read_to_string(path).unwrap();
        assert_eq!(written, reference(), "run this test with ANTEROOM_WRITE_REFERENCES=1 to write it anew");
    }

    #[test]
    fn the_gateway_names_problems_as_they_are_named_here() {
        for (status, slug, title) in anteroom_gateway::LINE_PROBLEMS {
            let problem = Problem::ALL.iter().find(|problem| problem.slug() == slug).expect(slug);
            assert_eq!((problem.status(), problem.title()), (status, title), "{slug}");
        }
    }

    #[test]
    fn every_problem_has_an_entry_of_its_own() {
        let page = page();
        for problem in Problem::ALL {
            assert_eq!(page.matches(&format!("id=\"{}\"", problem.slug())).count(), 1);
            assert!(problem.status().is_client_error() || problem.status().is_server_error());
        }
    }
}
