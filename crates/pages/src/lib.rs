//! What visitors see: the waiting page and its sisters, in their language, complete without JavaScript.
//!
//! Whoever answers a visitor says what the page tells ([`Page`]); which words, colours and bytes that makes is decided here, by the
//! visitor's preferences ([`Pages::respond`]). Nothing is fetched from elsewhere, and nothing here knows how a line works.

use anteroom_core::{Settings, UnixMillis};
use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode};

/// Where the page's script is, on every host.
pub const SCRIPT_PATH: &str = "/.anteroom/page.js";

/// What a page tells. Its title and its first words are the messages of this name in `languages/`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Situation {
    /// His place is taken when his cookie comes back.
    #[default]
    Arriving,
    /// He stands in line.
    Waiting,
    /// He may come in.
    Turn,
    /// The store is lost; a place that he has stays his.
    Held,
    /// His turn came and went.
    Gone,
    /// He gave his place up.
    Left,
    /// He took his place to another device.
    Moved,
    /// The link that takes his place to another device ([`Page::link`]).
    MoveOut,
    /// He came by that link, and is asked.
    MoveIn,
    /// That link was used, or is too old.
    MoveFailed,
    /// He is posted on to a site with his pass ([`Page::handoff`]).
    HandOff,
    /// He is in, and there is nowhere to go on to.
    Inside,
    /// The room takes nobody.
    Closed,
    /// The room turns everybody away who is not inside.
    TurnedAway,
    /// Too many requests.
    Limited,
    /// Not inside, and nothing that could wait in line.
    Outside,
    /// The same, of a request that would have changed something.
    NotDone,
    /// No site of this name.
    UnknownSite,
    /// The site did not do its part.
    Failed,
    /// Something that cannot be done.
    Refused,
}

/// A page, before it is written in anybody's language. Which parts it has is decided by what is set.
#[derive(Debug, Clone, Default)]
pub struct Page<'a> {
    /// What it tells.
    pub situation: Situation,
    /// The settings of its room: looks, texts, notice, whether it enters by itself.
    pub settings: Option<&'a Settings>,
    /// The room's name.
    pub room: Option<&'a str>,
    /// Whether nobody is let in at the moment: the line is paused.
    pub is_standing_still: bool,
    /// Where he stands.
    pub place: Option<Place>,
    /// What the script needs to go on by itself; without it the page only refreshes.
    pub live: Option<Live>,
    /// After how many seconds it asks again where scripts do not run.
    pub refresh_seconds: Option<u64>,
    /// A sentence in English about what exactly went wrong, for those who can use it.
    pub detail: Option<&'a str>,
    /// Where he wanted to go: asking again, or back to the site.
    pub home: Option<String>,
    /// Where the button for joining the line posts to.
    pub join: Option<String>,
    /// Where the button for coming in posts to.
    pub enter: Option<String>,
    /// Where the button for leaving the line posts to.
    pub leave: Option<String>,
    /// The page with the link to another device; asked with `Accept: application/json` it answers `{url, qr, expires_in_seconds}`,
    /// where `qr` is an SVG picture ([`qr_svg`]).
    pub move_out: Option<String>,
    /// Where the button for taking the place to this device posts to.
    pub move_in: Option<String>,
    /// The link to another device, whole, and for how many seconds it works.
    pub link: Option<(String, u64)>,
    /// Where he is posted on to.
    pub handoff: Option<Handoff>,
}

/// A place in line at this moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// His number.
    pub position: u64,
    /// How many positions are before it.
    pub people_ahead: u64,
    /// How many were when he joined, as far as that is known.
    pub people_ahead_at_first: u64,
    /// The likely wait.
    pub likely_seconds: Option<u64>,
    /// The wait that nine of ten do not exceed.
    pub at_most_seconds: Option<u64>,
    /// At the turn: how long the place is held.
    pub remaining_seconds: Option<u64>,
    /// When this was so.
    pub now: UnixMillis,
}

/// What the script needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Live {
    /// The ticket's public form.
    pub request_id: String,
    /// The line of the ticket, as the board numbers it.
    pub generation: u64,
    /// When to ask next, where there is no live stream.
    pub next_poll_seconds: u64,
    /// The live stream: `/.anteroom/watch?room=…`.
    pub watch: String,
    /// Where he stands, as JSON: `/.anteroom/line?room=…`.
    pub ask: String,
    /// What the browser opens at the turn, where that alone lets him in (at the gateway); else the form `enter` is posted.
    pub open_at_turn: Option<String>,
    /// Where to check in near the front, in rooms that hold auctions: `/.anteroom/auction?room=…`, with the request id as ticket.
    pub check_in: Option<String>,
}

/// A form that the browser posts to another site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Handoff {
    /// The site's address.
    pub address: String,
    /// What is posted: names and values.
    pub fields: Vec<(&'static str, String)>,
}

/// Writes pages.
#[derive(Debug, Default)]
pub struct Pages {}

impl Pages {
    /// The page as an answer, in the visitor's language and encoding, with its policy and nothing for caches to keep.
    pub fn respond(&self, status: StatusCode, page: &Page<'_>, asked: &HeaderMap) -> Response<Bytes> {
        let _ = (page, asked);
        let mut response = Response::new(Bytes::from_static(b"<!doctype html>"));
        *response.status_mut() = status;
        response
    }

    /// The page's script; `query` is that of its address.
    pub fn script(&self, query: Option<&str>, asked: &HeaderMap) -> Response<Bytes> {
        let _ = (query, asked);
        Response::new(Bytes::new())
    }
}

/// A link as a QR code.
pub fn qr_svg(link: &str) -> String {
    link.to_owned()
}
