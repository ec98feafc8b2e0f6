//! The response to a visitor who waits: a page for people, JSON for programs, with the room's `queueing_status_code`.

use anteroom_core::estimate::next_poll_seconds;
use anteroom_core::settings::Notice;
use anteroom_core::{Board, RoomState, Settings, Standing, Standstill, Ticket, UnixMillis};
use anteroom_pages::{Live, Page, Situation};
use anteroom_tokens::cookie::CookieContent;
use anteroom_tokens::request_id;
use http::header::{self, HeaderValue};
use http::{Response, StatusCode};
use serde_json::json;

use crate::account::Verdict;
use crate::body::GatewayBody;
use crate::classify::rooms::GatewayRoom;
use crate::line::page::{self, Reader};
use crate::line::query::escape;
use crate::reject::ExpectedRefusal;

/// How soon a visitor whose cookie has not come back yet asks again.
const ARRIVED_REFRESH_SECONDS: u64 = 1;
/// How soon a visitor asks again while the store is lost.
const HELD_REFRESH_SECONDS: u64 = 5;
/// How soon a visitor asks again in whose room no visitor is let in.
const PASSED_REFRESH_SECONDS: u64 = 30;
/// How soon a visitor asks again whose turn it is: they may come in by another window.
const TURN_REFRESH_SECONDS: u64 = 10;
/// The least time between two loads of a page by a visitor in line whose browser runs no scripts.
const PAGE_REFRESH_MIN_SECONDS: u64 = 10;
/// In an auction, a visitor who waits for fewer rounds than this checks in to each of them.
const ATTENDED_ROUNDS: u64 = 10;
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// A visitor with a place, by what their cookie says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Waiter {
    pub(crate) ticket: Ticket,
    /// How many were ahead when the place was taken; 0 where that is not known.
    pub(crate) people_ahead_at_first: u64,
}

impl Waiter {
    /// A visitor whose place is new to this browser.
    pub(crate) const fn new(ticket: Ticket) -> Self {
        Self { ticket, people_ahead_at_first: 0 }
    }

    /// The same, with the number of people ahead that a board shows, where it is larger.
    pub(crate) fn with_people_ahead(self, board: &Board, now: UnixMillis) -> Self {
        let ahead = people_ahead(board, &self.ticket, now);
        Self { people_ahead_at_first: self.people_ahead_at_first.max(ahead), ..self }
    }

    pub(crate) const fn cookie(self) -> CookieContent {
        let Self { ticket, people_ahead_at_first } = self;
        CookieContent::Waiting { ticket, people_ahead_at_first }
    }
}

/// How many are ahead of a ticket.
pub(crate) fn people_ahead(board: &Board, ticket: &Ticket, now: UnixMillis) -> u64 {
    match board.standing(ticket, now) {
        Standing::Waiting { people_ahead } => people_ahead,
        Standing::Offered { .. } | Standing::Passed | Standing::Settled => 0,
    }
}

/// Why a visitor waits.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Wait {
    /// The visitor has this place.
    InLine(Waiter),
    /// The visitor may come in, and has not.
    Turn(Waiter),
    /// The visitor gets a place when their cookie comes back.
    Arriving,
    /// The visitor gets a place when fewer arrive at once.
    ManyArriving { retry_after_seconds: u64 },
    /// No visitor gets anything until the store is back; a place that this one has stays theirs.
    Held(Option<Waiter>),
    /// The visitor has a place, and the room is closed.
    Closed,
    /// The turn was missed, or the place was given up.
    Gone,
    /// The place has moved to another device.
    Moved,
}

/// Where a visitor enters when it is their turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WayIn<'request> {
    /// By the request itself, or, in rooms that do not enter by themselves, by a button.
    Gateway,
    /// The same, and this is where the button posts to.
    HandOff { enter: &'request str },
    /// The same, for a site that the visitor logs in to by OpenID.
    OpenId(&'request OpenIdPage<'request>),
    /// By a site without a gateway, not from here.
    OtherSite,
}

/// What the page of a visitor who logs in by OpenID names in place of the calls about the line: the authorization request would not fit
/// into their `return`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct OpenIdPage<'request> {
    /// The name of the site.
    pub(crate) site: &'request str,
    /// Where the button posts to.
    pub(crate) enter: String,
    /// Where another place is asked for.
    pub(crate) join: String,
    /// Where the place is given up.
    pub(crate) leave: String,
    /// Where another device goes on that takes the place: it has nothing of what the site keeps in this browser.
    pub(crate) moved: String,
}

/// What the response to a waiting visitor is made from, beside why they wait.
pub(crate) struct WaitView<'request> {
    pub(crate) room: &'request GatewayRoom,
    pub(crate) board: &'request Board,
    pub(crate) now: UnixMillis,
    pub(crate) reader: &'request Reader<'request>,
    /// The path and query of the request.
    pub(crate) address: &'request str,
    pub(crate) way_in: WayIn<'request>,
}

/// The answer.
pub(crate) fn answer(wait: Wait, view: &WaitView<'_>) -> Response<GatewayBody> {
    let wait = view.current(wait);
    let status = match wait {
        Wait::Held(_) | Wait::Closed => StatusCode::SERVICE_UNAVAILABLE,
        Wait::Moved => StatusCode::GONE,
        Wait::ManyArriving { .. } => StatusCode::TOO_MANY_REQUESTS,
        _ => StatusCode::from_u16(view.board.settings.queueing_status_code.get()).unwrap_or(StatusCode::OK),
    };
    let place = match wait {
        Wait::InLine(waiter) | Wait::Turn(waiter) | Wait::Held(Some(waiter)) => {
            Some(PlaceView::of(waiter, view))
        }
        Wait::Arriving
        | Wait::ManyArriving { .. }
        | Wait::Held(None)
        | Wait::Closed
        | Wait::Gone
        | Wait::Moved => None,
    };
    let refresh_seconds = match (wait, &place) {
        (Wait::Arriving, _) => ARRIVED_REFRESH_SECONDS,
        (Wait::ManyArriving { retry_after_seconds }, _) => retry_after_seconds,
        // A lost store is no reason to ask more often than before.
        (Wait::Held(_), Some(place)) => place.refresh_seconds.max(HELD_REFRESH_SECONDS),
        (Wait::Gone | Wait::Moved | Wait::Closed, _) => PASSED_REFRESH_SECONDS,
        (Wait::Turn(_), _) => TURN_REFRESH_SECONDS,
        (_, Some(place)) => place.refresh_seconds,
        (_, None) => HELD_REFRESH_SECONDS,
    };
    let (mut response, retry_after_seconds) = if view.reader.wants_page {
        let refresh = RefreshTimes {
            script_seconds: refresh_seconds,
            page_seconds: page_refresh_seconds(wait, refresh_seconds, &view.board.settings),
        };
        (as_page(status, wait, place.as_ref(), refresh, view), refresh.page_seconds)
    } else {
        (as_json(status, wait, place.as_ref(), refresh_seconds, view), refresh_seconds)
    };
    if !matches!(wait, Wait::Moved) {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(retry_after_seconds));
    }
    // Only a lost store counts as a failure.
    if !matches!(wait, Wait::Held(_)) {
        response.extensions_mut().insert(ExpectedRefusal);
    }
    response
}

impl Wait {
    /// As which a request counts that gets this answer.
    pub(crate) const fn verdict(self) -> Verdict {
        match self {
            Self::Arriving => Verdict::Arrived,
            Self::ManyArriving { .. } => Verdict::Limited,
            Self::Held(_) => Verdict::Held,
            Self::InLine(_) | Self::Turn(_) | Self::Closed | Self::Gone | Self::Moved => Verdict::Waiting,
        }
    }
}

impl WaitView<'_> {
    /// The reason to wait at this moment: the turn may have come, and the room may have closed.
    fn current(&self, wait: Wait) -> Wait {
        match wait {
            Wait::InLine(_) | Wait::Turn(_) if self.board.state == RoomState::Closed => Wait::Closed,
            // While a room is paused, offers stand and cannot be claimed.
            Wait::InLine(waiter)
                if self.board.state.admits()
                    && matches!(self.board.standing(&waiter.ticket, self.now), Standing::Offered { .. }) =>
            {
                Wait::Turn(waiter)
            }
            other => other,
        }
    }

    /// A call about this line.
    fn line(&self, call: &str) -> String {
        self.line_returning_to(call, self.address)
    }

    fn line_returning_to(&self, call: &str, address: &str) -> String {
        let room = self.room.handle.id();
        format!("{}{call}?room={room}&return={}", crate::LINE_PATH, escape(address))
    }

    fn openid(&self) -> Option<&OpenIdPage<'_>> {
        match self.way_in {
            WayIn::OpenId(page) => Some(page),
            WayIn::Gateway | WayIn::HandOff { .. } | WayIn::OtherSite => None,
        }
    }
}

/// A place in line at this moment.
struct PlaceView {
    ticket: Ticket,
    people_ahead: u64,
    people_ahead_at_first: u64,
    likely_seconds: Option<u64>,
    at_most_seconds: Option<u64>,
    /// At the turn: how long the place is held, where that is limited.
    remaining_seconds: Option<u64>,
    refresh_seconds: u64,
}

impl PlaceView {
    fn of(waiter: Waiter, view: &WaitView<'_>) -> Self {
        let (board, ticket) = (view.board, waiter.ticket);
        let people_ahead = people_ahead(board, &ticket, view.now);
        let wait = board.wait(&ticket, people_ahead, view.now);
        let likely_seconds = wait.map(|wait| wait.p50_seconds);
        let remaining_millis = match board.standing(&ticket, view.now) {
            Standing::Offered { remaining_millis } => remaining_millis,
            _ => None,
        };
        let by_place = next_poll_seconds(people_ahead, likely_seconds, ticket.position.get());
        Self {
            ticket,
            people_ahead,
            people_ahead_at_first: waiter.people_ahead_at_first.max(people_ahead),
            likely_seconds,
            at_most_seconds: wait.map(|wait| wait.p90_seconds),
            remaining_seconds: remaining_millis.map(|millis| millis / 1000),
            refresh_seconds: attendance_seconds(board, likely_seconds)
                .map_or(by_place, |max| by_place.min(max)),
        }
    }

    /// As pages show it.
    fn for_page(&self, now: UnixMillis) -> anteroom_pages::PlaceFigures {
        anteroom_pages::PlaceFigures {
            position: self.ticket.position.get(),
            people_ahead: self.people_ahead,
            people_ahead_at_first: self.people_ahead_at_first,
            likely_seconds: self.likely_seconds,
            at_most_seconds: self.at_most_seconds,
            remaining_seconds: self.remaining_seconds,
            now,
        }
    }
}

/// The longest time between two requests of a visitor who may win a round soon: they have to check in to each.
fn attendance_seconds(board: &Board, likely_seconds: Option<u64>) -> Option<u64> {
    let round_seconds = board.settings.round_millis() / 1000;
    let is_near = likely_seconds.is_none_or(|seconds| seconds <= round_seconds * ATTENDED_ROUNDS);
    (board.settings.is_auction() && is_near).then_some(round_seconds.max(1))
}

/// How soon a page asks again: by its script, or by being loaded anew.
#[derive(Debug, Clone, Copy)]
struct RefreshTimes {
    script_seconds: u64,
    page_seconds: u64,
}

fn as_page(
    status: StatusCode,
    wait: Wait,
    place: Option<&PlaceView>,
    refresh: RefreshTimes,
    view: &WaitView<'_>,
) -> Response<GatewayBody> {
    let situation = match wait {
        Wait::InLine(_) => Situation::Waiting,
        Wait::Turn(_) => Situation::Turn,
        Wait::Arriving => Situation::Arriving,
        Wait::ManyArriving { .. } => Situation::ManyArriving,
        Wait::Held(_) => Situation::Held,
        Wait::Closed => Situation::Closed,
        Wait::Gone => Situation::Gone,
        Wait::Moved => Situation::Moved,
    };
    let settings = &*view.board.settings;
    let is_over = matches!(wait, Wait::Gone | Wait::Moved);
    // Also while the store is lost: the script goes on with this page when it is back.
    let is_in_line = matches!(wait, Wait::InLine(_) | Wait::Turn(_) | Wait::Held(Some(_)));
    let enter = match view.way_in {
        WayIn::Gateway => view.line("/enter"),
        WayIn::HandOff { enter } => enter.to_owned(),
        WayIn::OpenId(page) => page.enter.clone(),
        WayIn::OtherSite => String::new(),
    };
    let has_button = is_in_line && !settings.auto_enter && !enter.is_empty();
    let openid = view.openid();
    let join = || openid.map_or_else(|| view.line("/join"), |page| page.join.clone());
    let leave = || openid.map_or_else(|| view.line("/leave"), |page| page.leave.clone());
    let returns_to = openid.map_or(view.address, |page| page.moved.as_str());
    let move_out = || view.line_returning_to("/move", returns_to);
    let page = Page {
        situation,
        settings: Some(settings),
        room: Some(view.room.handle.id().as_str()),
        is_standing_still: is_standing_still(view.board),
        place: place.map(|place| place.for_page(view.now)),
        live: place.map(|place| live(place, refresh.script_seconds, view)),
        refresh_seconds: (!is_over).then_some(refresh.page_seconds),
        home: (!is_over).then(|| view.address.to_owned()),
        join: is_over.then(join),
        enter: has_button.then_some(enter),
        leave: is_in_line.then(leave),
        move_out: matches!(wait, Wait::InLine(_) | Wait::Held(Some(_))).then(move_out),
        site: openid.map(|page| page.site),
        ..Page::default()
    };
    view.reader.page(status, &page)
}

/// How often a page without scripts is loaded anew: not while the visitor is still reading it, or confirms leaving. In
/// an auction every load is a check-in.
fn page_refresh_seconds(wait: Wait, refresh_seconds: u64, settings: &Settings) -> u64 {
    match wait {
        Wait::InLine(_) if !settings.is_auction() => refresh_seconds.max(PAGE_REFRESH_MIN_SECONDS),
        _ => refresh_seconds,
    }
}

/// What the page's script needs to go on by itself.
fn live(place: &PlaceView, refresh_seconds: u64, view: &WaitView<'_>) -> Live {
    let (room, settings) = (view.room.handle.id(), &view.board.settings);
    let opens = settings.auto_enter && view.way_in != WayIn::OtherSite;
    Live {
        request_id: request_id::format(view.room.request_ids.seal(&place.ticket)),
        generation: place.ticket.generation.number(),
        next_poll_seconds: refresh_seconds,
        watch: format!("/.anteroom/watch?room={room}"),
        ask: format!("{}?room={room}", crate::LINE_PATH),
        open_at_turn: opens.then(|| view.address.to_owned()),
        check_in: settings.is_auction().then(|| format!("/.anteroom/auction?room={room}")),
    }
}

/// Whether no visitor is let in at the moment, however many slots are free.
fn is_standing_still(board: &Board) -> bool {
    let is_held = board.standstill.is_some_and(Standstill::is_held);
    is_held || !board.state.admits() || board.settings.queue_all
}

fn as_json(
    status: StatusCode,
    wait: Wait,
    place: Option<&PlaceView>,
    refresh_seconds: u64,
    view: &WaitView<'_>,
) -> Response<GatewayBody> {
    let status_name = match wait {
        Wait::InLine(_) => "waiting",
        // As the API says it.
        Wait::Turn(_) => "active",
        Wait::Arriving => "arriving",
        Wait::ManyArriving { .. } => "many-arriving",
        Wait::Held(_) => "held",
        Wait::Closed => "closed",
        Wait::Gone => "expired",
        Wait::Moved => "moved",
    };
    let mut body = json!({
        "room": view.room.handle.id().as_str(),
        "status": status_name,
        "notice": view.board.settings.notice.as_ref().map(Notice::as_str),
        "next_poll_seconds": refresh_seconds,
        "is_standing_still": is_standing_still(view.board),
    });
    if let Some(place) = place {
        let request_id = view.room.request_ids.seal(&place.ticket);
        body["request_id"] = request_id::format(request_id).into();
        body["generation"] = place.ticket.generation.number().into();
        body["position"] = place.ticket.position.get().into();
        body["people_ahead"] = place.people_ahead.into();
        body["people_ahead_at_first"] = place.people_ahead_at_first.into();
        body["estimated_wait_seconds"] = place.likely_seconds.into();
        body["estimated_wait_p90_seconds"] = place.at_most_seconds.into();
    }
    if let (Wait::Turn(_), Some(place)) = (wait, place) {
        body["claim_expires_in_seconds"] = place.remaining_seconds.into();
    }
    page::json(status, JSON, &body)
}
