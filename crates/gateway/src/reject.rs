//! The answer to a request that is not passed on, or that no origin answered: a page for people, a problem (RFC 9457) for programs.

use anteroom_core::{RoomId, Settings};
use anteroom_pages::{Page, Situation};
use http::header::{self, HeaderValue};
use http::{Response, StatusCode};
use serde_json::json;

use crate::account::Verdict;
use crate::body::GatewayBody;
use crate::limiter::Quota;
use crate::line::page::{self, Reader};
use anteroom_proxy::ProxyError;

/// When a client that we could not serve should come back.
const RETRY_AFTER_SECONDS: u64 = 5;
/// When a client that the room does not take should come back.
const CLOSED_RETRY_AFTER_SECONDS: u64 = 30;
const PROBLEM_JSON: HeaderValue = HeaderValue::from_static("application/problem+json");
/// The registered type of the problem that a budget is used up.
const QUOTA_EXCEEDED: &str = "https://iana.org/assignments/http-problem-types#quota-exceeded";

/// The problems of calls about a line, each with its status, its name and its title. Its `type` leads to its entry on the page
/// `/problems` of the API, which has the same table; a test there compares them.
pub const LINE_PROBLEMS: [(StatusCode, &str, &str); 8] = [
    (StatusCode::BAD_REQUEST, "bad-request", "The request cannot be understood"),
    (StatusCode::FORBIDDEN, "forbidden", "This is not allowed"),
    UNKNOWN_ROOM,
    (StatusCode::NOT_FOUND, "not-found", "There is nothing at this path"),
    (StatusCode::METHOD_NOT_ALLOWED, "method-not-allowed", "The path has no such method"),
    (StatusCode::CONFLICT, "conflict", "This contradicts what is there"),
    (StatusCode::GONE, "moved", "The place has moved to another device"),
    (StatusCode::SERVICE_UNAVAILABLE, "unavailable", "Not possible at the moment"),
];
const UNKNOWN_ROOM: (StatusCode, &str, &str) =
    (StatusCode::NOT_FOUND, "unknown-room", "There is no such room");
/// Of a problem that says no more than its status.
const NO_TYPE: &str = "about:blank";

/// Marks a response (`Response::extensions`) as an expected refusal: whatever its status, it does not count as a failure
/// of the server. The client has to wait or to slow down, or an operator keeps it outside.
#[derive(Debug, Clone, Copy)]
pub struct ExpectedRefusal;

/// Why a request is not answered by the origin.
#[derive(Debug)]
pub(crate) enum Rejection {
    /// Too many requests.
    Limited(Box<Quota>),
    /// The room takes no joins: it is closed, or only lets those in who wait already.
    Closed,
    /// The room refuses every visitor who is not inside.
    TurnedAway,
    /// Not inside, and nothing that could wait in line.
    NotInside {
        /// Whether it would have changed something.
        is_change: bool,
    },
    /// No origin for this host.
    Misdirected,
    /// A configured room is not known yet, so nothing is passed on.
    NotReady,
    /// The origin did not do its part.
    Origin(ProxyError),
    /// A call about the line of a room that is not there.
    UnknownRoom,
    /// A call about a line that cannot be answered.
    Line(StatusCode, &'static str),
    /// A check of another proxy that its operator has to put right.
    Check(String),
}

impl Rejection {
    /// As which it counts.
    pub(crate) const fn verdict(&self) -> Verdict {
        match self {
            Self::Limited(_) | Self::Origin(ProxyError::UploadsOfClient | ProxyError::UploadsFull) => {
                Verdict::Limited
            }
            Self::Closed | Self::TurnedAway => Verdict::Closed,
            Self::NotInside { .. } => Verdict::NotInside,
            Self::Misdirected | Self::Check(_) => Verdict::Misdirected,
            Self::NotReady => Verdict::Held,
            Self::Origin(ProxyError::Request(_) | ProxyError::ClientStalled | ProxyError::ClientBroke) => {
                Verdict::Malformed
            }
            Self::Origin(_) => Verdict::OriginFailed,
            Self::UnknownRoom | Self::Line(..) => Verdict::Line,
        }
    }

    fn status(&self) -> StatusCode {
        match self {
            Self::Limited(_) => StatusCode::TOO_MANY_REQUESTS,
            Self::Closed | Self::TurnedAway | Self::NotInside { .. } | Self::NotReady => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            Self::Misdirected => StatusCode::MISDIRECTED_REQUEST,
            Self::Origin(error) => error.status(),
            Self::UnknownRoom => UNKNOWN_ROOM.0,
            Self::Line(status, _) => *status,
            Self::Check(_) => StatusCode::FORBIDDEN,
        }
    }

    const fn situation(&self) -> Situation {
        match self {
            Self::Limited(_) => Situation::Limited,
            Self::Closed => Situation::Closed,
            Self::TurnedAway => Situation::TurnedAway,
            Self::NotInside { is_change: true } => Situation::NotDone,
            Self::NotInside { is_change: false } => Situation::Outside,
            Self::Misdirected => Situation::UnknownSite,
            Self::Origin(_) | Self::NotReady => Situation::Failed,
            Self::UnknownRoom | Self::Line(..) | Self::Check(_) => Situation::Refused,
        }
    }

    fn texts(&self) -> (&'static str, String) {
        match self {
            Self::Limited(_) => ("Too many requests", "You have asked more often than this site allows. Wait a moment, then go on.".into()),
            Self::Closed => ("Closed", "Nobody can join the line at the moment.".into()),
            Self::TurnedAway => ("Not now", "This site lets nobody in at the moment. Please come back later.".into()),
            Self::NotInside { is_change: true } => {
                ("Not carried out", "You are not inside, so this request was not passed on. Open the site to take a place in line, and send it again when you are in.".into())
            }
            Self::NotInside { is_change: false } => {
                ("Not inside", "You are not inside. Open the site in a browser, or post to /.anteroom/line/join, to take a place in line.".into())
            }
            Self::Misdirected => ("Unknown site", "There is no site of this name here.".into()),
            Self::NotReady => ("Not ready", "The rooms of this site are not known yet. Try again in a moment.".into()),
            Self::Origin(error) => ("The site does not answer", error.sentence().to_owned()),
            Self::UnknownRoom => (UNKNOWN_ROOM.2, "There is no room of this name".into()),
            Self::Check(text) => ("The proxy asks in a wrong way", text.clone()),
            Self::Line(_, text) => (self.line_problem().map_or("This did not work", |(_, title)| title), (*text).to_owned()),
        }
    }

    /// The name and the title of the problem of a call about a line.
    fn line_problem(&self) -> Option<(&'static str, &'static str)> {
        let status = match self {
            Self::UnknownRoom => return Some((UNKNOWN_ROOM.1, UNKNOWN_ROOM.2)),
            Self::Line(status, _) => *status,
            _ => return None,
        };
        let mut others = LINE_PROBLEMS.into_iter().filter(|problem| *problem != UNKNOWN_ROOM);
        others.find(|(of, ..)| *of == status).map(|(_, slug, title)| (slug, title))
    }

    /// Whether it is an expected refusal: the client asked too often, or an operator keeps it outside.
    const fn is_expected(&self) -> bool {
        matches!(
            self,
            Self::Limited(_)
                | Self::Closed
                | Self::TurnedAway
                | Self::NotInside { .. }
                | Self::Origin(ProxyError::UploadsOfClient | ProxyError::UploadsFull)
        )
    }

    /// After how many seconds a page about it asks again by itself.
    fn refresh_seconds(&self) -> Option<u64> {
        match self {
            Self::Limited(quota) => quota.retry_after_seconds(),
            Self::Closed | Self::TurnedAway | Self::Origin(_) | Self::NotReady => self.retry_after_seconds(),
            Self::NotInside { .. }
            | Self::Misdirected
            | Self::UnknownRoom
            | Self::Line(..)
            | Self::Check(_) => None,
        }
    }

    fn retry_after_seconds(&self) -> Option<u64> {
        match self {
            Self::Closed | Self::TurnedAway => Some(CLOSED_RETRY_AFTER_SECONDS),
            Self::NotInside { .. } | Self::NotReady => Some(RETRY_AFTER_SECONDS),
            Self::Origin(error)
                if matches!(
                    error.status(),
                    StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS
                ) =>
            {
                Some(RETRY_AFTER_SECONDS)
            }
            Self::Line(status, _) if *status == StatusCode::SERVICE_UNAVAILABLE => Some(RETRY_AFTER_SECONDS),
            _ => None,
        }
    }
}

/// The room whose look the page of a refusal has.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Branding<'room> {
    pub(crate) room: &'room RoomId,
    pub(crate) settings: &'room Settings,
}

/// The answer.
pub(crate) fn answer(
    rejection: &Rejection,
    reader: &Reader<'_>,
    branding: Option<Branding<'_>>,
) -> Response<GatewayBody> {
    let status = rejection.status();
    let (title, detail) = rejection.texts();
    let mut response = if reader.wants_page {
        let is_about_a_line = matches!(rejection, Rejection::UnknownRoom | Rejection::Line(..));
        let is_particular = is_about_a_line
            || matches!(rejection, Rejection::Origin(_) | Rejection::NotReady | Rejection::Check(_));
        let page = Page {
            situation: rejection.situation(),
            settings: branding.map(|branding| branding.settings),
            room: branding.map(|branding| branding.room.as_str()),
            detail: is_particular.then_some(&*detail),
            home: reader.address.clone().filter(|_| !is_about_a_line),
            refresh_seconds: reader.address.as_ref().and_then(|_| rejection.refresh_seconds()),
            ..Page::default()
        };
        reader.page(status, &page)
    } else {
        let kind = match rejection {
            Rejection::Limited(_) => QUOTA_EXCEEDED.to_owned(),
            other => {
                other.line_problem().map_or_else(|| NO_TYPE.to_owned(), |(slug, _)| reader.problem(slug))
            }
        };
        let mut body = json!({ "type": kind, "title": title, "status": status.as_u16(), "detail": detail });
        if let Rejection::Limited(quota) = rejection {
            body["violated-policies"] = quota.violated_policies().collect::<Vec<_>>().into();
        }
        page::json(status, PROBLEM_JSON, &body)
    };
    if let Some(seconds) = rejection.retry_after_seconds() {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    if let Rejection::Limited(quota) = rejection {
        quota.write(response.headers_mut());
    }
    if rejection.is_expected() {
        response.extensions_mut().insert(ExpectedRefusal);
    }
    response
}
