//! What can happen to a room, what it answers, and why it may refuse. The rules themselves are in [`crate::apply`].

use crate::ids::{Generation, Position, RequestId, Ticket, UnixMillis};
use crate::losses::{Line, Mend};
use crate::moves::{MovedPlaces, Mover};
use crate::prefixes::PrefixTag;
use crate::reports::{REPORTERS_MAX, Report, ReportOutcome};
use crate::room::{Room, RoomState, SEGMENTS_MAX};
use crate::session::{GRANTS_MAX, Outcome, Session, SessionKey};
use crate::settings::{FIELDS, Settings, SettingsError};

/// The largest value of the serving counter: what an AWS client can read back.
pub const SERVING_MAX: u64 = i64::MAX as u64;

/// Something that happens to a room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// Nothing but the passing of time.
    Tick,
    /// `count` visitors join, in order.
    Join {
        /// How many; at least 1.
        count: u64,
    },
    /// A visitor exchanges an offer for a pass, or repeats the claim.
    Claim(Claim),
    /// A visitor gives their place up.
    Leave {
        /// Whose place.
        ticket: Ticket,
    },
    /// A visitor takes their place to another device, or repeats the move.
    Move {
        /// Whose place.
        ticket: Ticket,
        /// Who takes it.
        by: Mover,
    },
    /// A code is exchanged for the pass that it stands for. Each is good once.
    Redeem {
        /// Whose pass.
        key: SessionKey,
        /// When the code was made.
        issued_at: UnixMillis,
    },
    /// A client of the OpenID provider exchanges a code. The second time the grant is revoked.
    Grant {
        /// Whose visit.
        key: SessionKey,
        /// The grant that the code is for.
        grant: u64,
        /// The client, by its tag.
        client: u64,
        /// When the code was made.
        issued_at: UnixMillis,
    },
    /// A client exchanges a refresh token. One that was exchanged before ends the visit, because somebody else has it too; but for the
    /// one before the present one, for [`REFRESH_GRACE_MILLIS`](crate::session::REFRESH_GRACE_MILLIS).
    Refresh {
        /// Whose visit.
        key: SessionKey,
        /// The grant of the token.
        grant: u64,
        /// How often the grant had been refreshed when the token was made.
        sequence: u32,
    },
    /// A visit is over, by name.
    Close {
        /// Whose.
        key: SessionKey,
        /// How it ended.
        outcome: Outcome,
    },
    /// A visitor has come back with their cookie: the stay goes on.
    Touch {
        /// Whose.
        key: SessionKey,
        /// How long from now on, with [`STAY_GRACE_MILLIS`](crate::session::STAY_GRACE_MILLIS) in it.
        stay_millis: u64,
    },
    /// Visits are over, without names.
    Exits {
        /// How many.
        count: u64,
    },
    /// The operator moves the frontier, either way.
    Advance {
        /// By how many positions.
        by: i64,
    },
    /// The operator changes settings and state, both at once.
    Reconfigure(Box<Reconfigure>),
    /// Takes the room's clock back to the machine's, where it had seen a future that has not come. Nobody loses a place.
    SetClock,
    /// The operator starts a new line; every ticket so far is unknown from now on.
    Reset {
        /// Random, see [`Generation`].
        incarnation: u8,
    },
    /// A new generation opens behind the present ones, whose tickets keep their precedence.
    OpenSegment {
        /// Random, see [`Generation`].
        incarnation: u8,
    },
    /// The store may have lost something: the room makes up for it, and goes on with a new line.
    Mend(Mend),
    /// A node remembers more of closed lines than the room does.
    Recall {
        /// What it remembers.
        lines: Vec<Line>,
        /// The places that it has seen to move.
        moved: MovedPlaces,
    },
    /// A visitor shows a genuine ticket of a line that had come further than the room knows.
    Show {
        /// The ticket.
        ticket: Ticket,
    },
    /// The origin reports its capacity.
    Report(Report),
    /// The operator tells the room not to listen to a reporter any more.
    ForgetReporter {
        /// Its name.
        reporter: String,
    },
    /// These alarms fire now, and no others.
    Alarms {
        /// Their names.
        firing: Vec<String>,
    },
    /// The end of a round of the auction.
    SettleRound {
        /// The round: the moment it closes.
        round: UnixMillis,
        /// Those present, in any order; of more than can win, the earliest suffice.
        present: Vec<SessionKey>,
        /// Whether anybody else came who could not win: then no slot is spare.
        turned_away: bool,
        /// Whether these are all who came. Otherwise others are waited for, and the round is settled a moment later.
        alone: bool,
    },
    /// Nothing changes; the room says where a ticket stands.
    Inspect {
        /// Which.
        ticket: Ticket,
    },
    /// Keeps the signatures that leave with a pass, unless some are kept already.
    KeepSignatures {
        /// Whose.
        key: SessionKey,
        /// The signatures.
        signatures: Vec<u8>,
    },
}

/// What a claim would begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The place.
    pub ticket: Ticket,
    /// Its public form.
    pub request_id: RequestId,
    /// `iss` of the pass, if it begins one.
    pub issuer: String,
    /// Its validity, if other than the room's.
    pub validity_seconds: Option<u64>,
    /// The key that will sign it.
    pub key_id: String,
    /// How long the visitor stays unless they come back, where a cookie lets them in; with
    /// [`STAY_GRACE_MILLIS`](crate::session::STAY_GRACE_MILLIS) in it.
    pub stay_millis: Option<u64>,
    /// The address prefix that the visitor comes from, where it is known.
    pub prefix: Option<PrefixTag>,
}

/// What a room is changed to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reconfigure {
    /// What the caller has seen. If the room is no longer that, nothing is changed.
    pub expected: Option<(Settings, RoomState)>,
    /// All settings as they should be.
    pub settings: Settings,
    /// The state as it should be; `None` leaves it. `Open` also resumes an inlet that rests, in a room that is open already too.
    pub state: Option<RoomState>,
}

impl Reconfigure {
    /// What it changes in a room, in words: `change: validity_period 3600 -> 60, state open -> paused`.
    pub fn describe(&self, room: &Room) -> String {
        let different = FIELDS.iter().filter_map(|field| {
            let (before, after) = ((field.get)(&room.settings), (field.get)(&self.settings));
            (before != after).then(|| format!("{} {before} -> {after}", field.name))
        });
        let mut changes: Vec<String> = different.collect();
        if let Some(state) = self.state.filter(|&state| state != room.state) {
            changes.push(format!("state {} -> {}", room.state.as_str(), state.as_str()));
        }
        if room.inlet_rests && self.state == Some(RoomState::Open) {
            changes.push("inlet wakes".into());
        }
        if changes.is_empty() { "change: nothing".into() } else { format!("change: {}", changes.join(", ")) }
    }
}

impl Operation {
    /// Changes settings and state, whatever they are now.
    pub fn reconfigure(settings: Settings, state: Option<RoomState>) -> Self {
        Self::Reconfigure(Box::new(Reconfigure { expected: None, settings, state }))
    }

    /// The session the operation must be able to read.
    pub fn session_key(&self) -> Option<SessionKey> {
        match self {
            Self::Claim(claim) => Some(key_of(&claim.ticket)),
            Self::Leave { ticket } | Self::Inspect { ticket } | Self::Move { ticket, .. } => {
                Some(key_of(ticket))
            }
            Self::Close { key, .. }
            | Self::Touch { key, .. }
            | Self::Redeem { key, .. }
            | Self::Grant { key, .. }
            | Self::Refresh { key, .. }
            | Self::KeepSignatures { key, .. } => Some(*key),
            _ => None,
        }
    }

    /// The word for it in audits, logs and metrics.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Tick => "tick",
            Self::Join { .. } => "join",
            Self::Claim(_) => "claim",
            Self::Leave { .. } => "leave",
            Self::Move { .. } => "move",
            Self::Redeem { .. } => "redeem",
            Self::Grant { .. } => "grant",
            Self::Refresh { .. } => "refresh",
            Self::Close { .. } => "close",
            Self::Touch { .. } => "touch",
            Self::Exits { .. } => "exits",
            Self::Advance { .. } => "advance",
            Self::Reconfigure(_) => "change",
            Self::Reset { .. } => "reset",
            Self::SetClock => "set-clock",
            Self::OpenSegment { .. } => "open-segment",
            Self::Mend(_) => "mend",
            Self::Recall { .. } => "recall",
            Self::Show { .. } => "show",
            Self::Report(_) => "report",
            Self::ForgetReporter { .. } => "forget-reporter",
            Self::Alarms { .. } => "alarms",
            Self::SettleRound { .. } => "settle-round",
            Self::Inspect { .. } => "inspect",
            Self::KeepSignatures { .. } => "keep-signatures",
        }
    }
}

pub(crate) fn key_of(ticket: &Ticket) -> SessionKey {
    SessionKey { generation: ticket.generation, position: ticket.position }
}

/// What an operation reads beside the room, fetched beforehand.
#[derive(Debug, Clone, Default)]
pub struct Reads {
    /// The session of [`Operation::session_key`], if there is one. If it stands in `ended` too, it must be given here as
    /// already ended.
    pub session: Option<Session>,
    /// Active sessions past their end, some or all of them: those not swept yet still count as active, which is safe.
    pub ended: Vec<Session>,
    /// The operator who asks, by name; `None` for visitors and clocks.
    pub actor: Option<String>,
    /// How long it may take until every node has seen a board: 0 where there is only one.
    pub spread_millis: u64,
}

/// What an operation answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Nothing to say.
    Done,
    /// The places of a join: `count` positions from `first` on.
    Joined {
        /// The line.
        generation: Generation,
        /// The first place.
        first: Position,
        /// How many.
        count: u64,
        /// Seconds between the opening of the line and this join.
        entered: u32,
    },
    /// The session that a claim began, or found.
    Claimed {
        /// The session.
        session: Session,
        /// Whether this claim began it.
        begun: bool,
    },
    /// The place is kept and waits on: the visitor's address prefix has its share of the slots.
    Deferred,
    /// The ticket by which a place goes on, on another device.
    Moved {
        /// The same place.
        ticket: Ticket,
        /// Whether it had moved before, and this says so again.
        is_repeated: bool,
    },
    /// The session as it is now.
    Session(Session),
    /// The code or the refresh token had been used before: the grant is revoked, or the visit has ended.
    GrantReused,
    /// Where a ticket stands.
    Place(PlaceStatus),
    /// How many of the reported exits counted.
    Exited {
        /// At most the number of visitors inside.
        counted: u64,
    },
    /// Where the frontier is now.
    Advanced {
        /// The serving counter.
        serving: u64,
    },
    /// The room's clock was set.
    ClockSet {
        /// What it showed.
        before: UnixMillis,
        /// What it shows.
        clock: UnixMillis,
    },
    /// The line that is open now.
    LineOpened(Generation),
    /// What became of a report.
    Reported(ReportOutcome),
    /// Those present were noted; the round is settled when others have had time to be noted too.
    Collected,
    /// The winners of a round, in order. Told again, those who have not claimed yet.
    Won {
        /// Whose.
        winners: Vec<SessionKey>,
    },
}

/// Where a ticket stands, as the room itself knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlaceStatus {
    /// The frontier has not reached it, or the room admits nobody.
    Waiting,
    /// It may be claimed.
    Offered,
    /// It was claimed; the session says what became of it.
    Claimed(Session),
    /// It lapsed, or its holder left.
    Gone,
}

/// Why an operation is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The room does not take joins.
    #[error("the room is {}", .0.as_str())]
    NotJoinable(RoomState),
    /// The newest generation cannot take that many; open another segment first.
    #[error("the line has {0} places left")]
    LineFull(u64),
    /// Four generations still have people waiting.
    #[error("all {SEGMENTS_MAX} generations still have people waiting")]
    SegmentsFull,
    /// The ticket is of a line that was lost, and nobody near it has shown theirs yet.
    #[error("the line of this ticket is being learned again")]
    LineNotLearned,
    /// The ticket is of no line of this room.
    #[error("the ticket is not of this line")]
    UnknownTicket,
    /// The frontier has not reached the ticket, or the room admits nobody.
    #[error("the ticket is not being served yet")]
    NotServed,
    /// The offer lapsed, or the holder left.
    #[error("the place is gone")]
    Gone,
    /// The place goes on under a newer ticket.
    #[error("the place has moved to another device")]
    Moved,
    /// The place has moved too often, too many places have, or its holder is inside.
    #[error("the place cannot be moved")]
    NotMovable,
    /// The code was exchanged before, or a newer one was.
    #[error("the code has been used")]
    CodeUsed,
    /// The login was revoked, or is forgotten.
    #[error("the login is no longer good")]
    UnknownGrant,
    /// The refresh token was exchanged a moment ago, and there is a newer one.
    #[error("the refresh token was used a moment ago; the newer one is good")]
    JustRefreshed,
    /// The visit has as many logins of the last moments as it can remember.
    #[error("{GRANTS_MAX} logins of this visit are younger than two minutes; try again later")]
    TooManyGrants,
    /// The room is closed.
    #[error("the room is closed")]
    RoomClosed,
    /// No session of that ticket.
    #[error("no such session")]
    UnknownSession,
    /// The session was ended by name before, or by time.
    #[error("the session has already ended")]
    AlreadyEnded,
    /// The counter would leave its range.
    #[error("the serving counter would exceed {SERVING_MAX}")]
    CounterOverflow,
    /// Settings or state are no longer what the caller has seen.
    #[error("the room was changed meanwhile")]
    Changed,
    /// The room's discipline is not the auction.
    #[error("the room holds no auction")]
    NoAuction,
    /// The round is still open, or was followed by others.
    #[error("this round is not the one to be settled")]
    NotThisRound,
    /// In an auction only its rounds move the frontier.
    #[error("in an auction room the frontier moves with the rounds, not by hand")]
    MovedByRounds,
    /// The room has as many reporters as it listens to.
    #[error("the room listens to {REPORTERS_MAX} reporters already")]
    TooManyReporters,
    /// There is no such reporter.
    #[error("there is no such reporter")]
    UnknownReporter,
    /// The settings are refused.
    #[error(transparent)]
    Settings(#[from] SettingsError),
}
