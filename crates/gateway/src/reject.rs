//! The answer to a request that is not passed on, or that no origin answered: a page for people, a problem (RFC 9457) for programs.

use anteroom_core::{RoomId, Settings};
use anteroom_pages::{Page, Situation};
use http::header::{self, HeaderValue};
use http::{Response, StatusCode};
use serde_json::json;

use crate::account::Verdict;
use crate::body::GatewayBody;
use crate::limiter::Quota;
use crate::page::{self, Reader};
use crate::proxy::ProxyError;

/// When somebody whom we could not serve should come back.
const RETRY_AFTER_SECONDS: u64 = 5;
/// When somebody should come back whom the room takes no more.
const CLOSED_RETRY_AFTER_SECONDS: u64 = 30;
const PROBLEM_JSON: HeaderValue = HeaderValue::from_static("application/problem+json");
/// The registered type of the problem that a budget is used up.
const QUOTA_EXCEEDED: &str = "https://iana.org/assignments/http-problem-types#quota-exceeded";

/// Why a request is not answered by the origin.
#[derive(Debug)]
pub(crate) enum Rejection {
    /// Too many requests.
    Limited(Box<Quota>),
    /// The room takes nobody: it is closed, or lets only those in who wait already.
    Closed,
    /// The room turns everybody away who is not inside.
    TurnedAway,
    /// Not inside, and nothing that could wait in line.
    NotInside {
        /// Whether it would have changed something.
        is_change: bool,
    },
    /// No origin for this host.
    Misdirected,
    /// The origin did not do its part.
    Origin(ProxyError),
    /// A call about a line that cannot be answered.
    Line(StatusCode, &'static str),
}

impl Rejection {
    /// As which it counts.
    pub(crate) const fn verdict(&self) -> Verdict {
        match self {
            Self::Limited(_) => Verdict::Limited,
            Self::Closed | Self::TurnedAway => Verdict::Closed,
            Self::NotInside { .. } => Verdict::NotInside,
            Self::Misdirected => Verdict::Misdirected,
            Self::Origin(ProxyError::Request(_) | ProxyError::ClientStalled | ProxyError::ClientBroke) => {
                Verdict::Malformed
            }
            Self::Origin(_) => Verdict::OriginFailed,
            Self::Line(..) => Verdict::Line,
        }
    }

    fn status(&self) -> StatusCode {
        match self {
            Self::Limited(_) => StatusCode::TOO_MANY_REQUESTS,
            Self::Closed | Self::TurnedAway | Self::NotInside { .. } => StatusCode::SERVICE_UNAVAILABLE,
            Self::Misdirected => StatusCode::MISDIRECTED_REQUEST,
            Self::Origin(error) => error.status(),
            Self::Line(status, _) => *status,
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
            Self::Origin(_) => Situation::Failed,
            Self::Line(..) => Situation::Refused,
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
            Self::Origin(error) => ("The site does not answer", error.sentence().to_owned()),
            Self::Line(_, text) => ("This did not work", (*text).to_owned()),
        }
    }

    /// After how many seconds a page that tells it asks again by itself.
    fn refresh_seconds(&self) -> Option<u64> {
        match self {
            Self::Limited(quota) => quota.retry_after_seconds(),
            Self::Closed | Self::TurnedAway | Self::Origin(_) => self.retry_after_seconds(),
            Self::NotInside { .. } | Self::Misdirected | Self::Line(..) => None,
        }
    }

    fn retry_after_seconds(&self) -> Option<u64> {
        match self {
            Self::Closed | Self::TurnedAway => Some(CLOSED_RETRY_AFTER_SECONDS),
            Self::NotInside { .. } => Some(RETRY_AFTER_SECONDS),
            Self::Origin(error) if error.status() == StatusCode::SERVICE_UNAVAILABLE => {
                Some(RETRY_AFTER_SECONDS)
            }
            Self::Line(status, _) if *status == StatusCode::SERVICE_UNAVAILABLE => Some(RETRY_AFTER_SECONDS),
            _ => None,
        }
    }
}

/// The room that refuses, as its pages look.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Looks<'room> {
    pub(crate) room: &'room RoomId,
    pub(crate) settings: &'room Settings,
}

/// The answer.
pub(crate) fn answer(
    rejection: &Rejection,
    reader: &Reader<'_>,
    looks: Option<Looks<'_>>,
) -> Response<GatewayBody> {
    let status = rejection.status();
    let (title, detail) = rejection.texts();
    let mut response = if reader.wants_page {
        let is_particular = matches!(rejection, Rejection::Origin(_) | Rejection::Line(..));
        let page = Page {
            situation: rejection.situation(),
            settings: looks.map(|looks| looks.settings),
            room: looks.map(|looks| looks.room.as_str()),
            detail: is_particular.then_some(&*detail),
            home: reader.address.clone().filter(|_| !matches!(rejection, Rejection::Line(..))),
            refresh_seconds: reader.address.as_ref().and_then(|_| rejection.refresh_seconds()),
            ..Page::default()
        };
        reader.page(status, &page)
    } else {
        let kind = if matches!(rejection, Rejection::Limited(_)) { QUOTA_EXCEEDED } else { "about:blank" };
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
    response
}
