//! What a page tells, before it is written in anybody's language: the contract with those who answer visitors.

use anteroom_core::{Settings, UnixMillis};

/// What a page tells. Its title and its first words are the messages of this name in `languages/`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Situation {
    /// The visitor gets a place when their cookie comes back.
    #[default]
    Arriving,
    /// The visitor gets a place when fewer arrive at once.
    ManyArriving,
    /// The visitor's cookie does not come back, so they get no place.
    CookiesNeeded,
    /// The visitor stands in line.
    Waiting,
    /// The visitor may come in.
    Turn,
    /// The store cannot be reached; places are kept.
    Held,
    /// The visitor's turn came and went.
    Gone,
    /// The visitor gave the place up.
    Left,
    /// The visitor took the place to another device.
    Moved,
    /// The link that takes the place to another device ([`Page::link`]).
    MoveOut,
    /// The visitor came by that link, and is asked.
    MoveIn,
    /// That link was used, or is too old.
    MoveFailed,
    /// The visitor is posted on to a site with the pass ([`Page::handoff`]).
    HandOff,
    /// The visitor is in, and there is nowhere to go on to.
    Inside,
    /// The visitor is in, and the site asks for a confirmation ([`Page::confirm`]).
    Confirm,
    /// The visitor took the place to this device, and logs in again at the site ([`Page::site`]).
    Elsewhere,
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

impl Situation {
    /// All of them.
    pub const ALL: [Self; 24] = [
        Self::Arriving,
        Self::ManyArriving,
        Self::CookiesNeeded,
        Self::Waiting,
        Self::Turn,
        Self::Held,
        Self::Gone,
        Self::Left,
        Self::Moved,
        Self::MoveOut,
        Self::MoveIn,
        Self::MoveFailed,
        Self::HandOff,
        Self::Inside,
        Self::Confirm,
        Self::Elsewhere,
        Self::Closed,
        Self::TurnedAway,
        Self::Limited,
        Self::Outside,
        Self::NotDone,
        Self::UnknownSite,
        Self::Failed,
        Self::Refused,
    ];

    /// Its name, as `data-situation` of the page and templates have it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Arriving => "arriving",
            Self::ManyArriving => "many-arriving",
            Self::CookiesNeeded => "cookies-needed",
            Self::Waiting => "waiting",
            Self::Turn => "turn",
            Self::Held => "held",
            Self::Gone => "gone",
            Self::Left => "left",
            Self::Moved => "moved",
            Self::MoveOut => "move-out",
            Self::MoveIn => "move-in",
            Self::MoveFailed => "move-failed",
            Self::HandOff => "hand-off",
            Self::Inside => "inside",
            Self::Confirm => "confirm",
            Self::Elsewhere => "elsewhere",
            Self::Closed => "closed",
            Self::TurnedAway => "turned-away",
            Self::Limited => "limited",
            Self::Outside => "outside",
            Self::NotDone => "not-done",
            Self::UnknownSite => "unknown-site",
            Self::Failed => "failed",
            Self::Refused => "refused",
        }
    }

    /// The situation of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|situation| situation.name() == name)
    }

    /// The messages that are its title and its first words.
    pub(crate) const fn messages(self) -> (&'static str, &'static str) {
        match self {
            Self::Arriving => ("arriving-title", "arriving-lead"),
            Self::ManyArriving => ("many-arriving-title", "many-arriving-lead"),
            Self::CookiesNeeded => ("cookies-needed-title", "cookies-needed-lead"),
            Self::Waiting => ("waiting-title", "waiting-lead"),
            Self::Turn => ("turn-title", "turn-lead"),
            Self::Held => ("held-title", "held-lead"),
            Self::Gone => ("gone-title", "gone-lead"),
            Self::Left => ("left-title", "left-lead"),
            Self::Moved => ("moved-title", "moved-lead"),
            Self::MoveOut => ("move-title", "move-lead"),
            Self::MoveIn => ("take-title", "take-lead"),
            Self::MoveFailed => ("take-failed-title", "take-failed-lead"),
            Self::HandOff => ("handoff-title", "handoff-lead"),
            Self::Inside => ("inside-title", "inside-lead"),
            Self::Confirm => ("confirm-title", "confirm-lead"),
            Self::Elsewhere => ("elsewhere-title", "elsewhere-lead"),
            Self::Closed => ("closed-title", "closed-lead"),
            Self::TurnedAway => ("away-title", "away-lead"),
            Self::Limited => ("limited-title", "limited-lead"),
            Self::Outside => ("outside-title", "outside-lead"),
            Self::NotDone => ("not-done-title", "not-done-lead"),
            Self::UnknownSite => ("unknown-site-title", "unknown-site-lead"),
            Self::Failed => ("failed-title", "failed-lead"),
            Self::Refused => ("refused-title", "refused-lead"),
        }
    }
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
    /// The name of the site that the visitor logs in to, where they come by OpenID.
    pub site: Option<&'a str>,
    /// Whether nobody is let in at the moment: the line is paused.
    pub is_standing_still: bool,
    /// Where the visitor stands.
    pub place: Option<PlaceFigures>,
    /// What the script needs to go on by itself; without it the page only refreshes.
    pub live: Option<Live>,
    /// After how many seconds it asks again where scripts do not run.
    pub refresh_seconds: Option<u64>,
    /// A sentence in English about what exactly went wrong, for those who can use it.
    pub detail: Option<&'a str>,
    /// Where the visitor wanted to go: to ask again, or back to the site.
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
    /// Whether that would give up another place, which this browser holds.
    pub gives_up_place: bool,
    /// The link to another device, whole, and for how many seconds it works.
    pub link: Option<(String, u64)>,
    /// Where the button for going on to the site posts to.
    pub confirm: Option<String>,
    /// Where the visitor is posted on to.
    pub handoff: Option<Handoff>,
}

/// A place in line at this moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlaceFigures {
    /// The position.
    pub position: u64,
    /// How many positions are before it.
    pub people_ahead: u64,
    /// How many were at the join, as far as that is known.
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
    /// Where the visitor stands, as JSON: `/.anteroom/line?room=…`.
    pub ask: String,
    /// What the browser opens at the turn, where that alone lets the visitor in (at the gateway); else the form `enter` is posted.
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
