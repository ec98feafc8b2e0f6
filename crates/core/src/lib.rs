//! The rules of a waiting room, and nothing else: no IO, clock, randomness, async or HTTP.
//!
//! A [`Room`] is a value, and [`apply()`] is a pure function from a room, a moment and an [`Operation`] to the next room, an
//! answer, and what to write down. The same code runs in production, in the property tests and in simulations.
//!
//! *The path of one position:* [`Operation::Join`] hands it out (`apply.rs`); the frontier passes it, by an operator's
//! [`Operation::Advance`] or an inlet's settle (`inlet.rs`), and it becomes an offer in a [`Step`] (`segment.rs`);
//! [`Operation::Claim`] turns the offer into a [`Session`], or its claim window ends and it lapses in a tick (`apply.rs`). How the
//! visit goes on and ends is in `visits.rs`; how a place moves to another device in `moves.rs`.
//! Readers see all of it on the [`Board`] (`board.rs`). What happens when a store has lost some of it is in `losses.rs`.

pub mod adaptive;
pub mod address_prefix;
pub mod alarms;
pub mod apply;
pub mod auction;
pub mod board;
pub mod bucket;
pub mod effects;
pub mod estimate;
pub mod events;
pub mod forecast;
mod grants;
pub mod ids;
pub mod inlet;
pub mod losses;
pub mod moves;
pub mod operation;
pub mod prefixes;
pub mod reports;
pub mod room;
mod room_clock;
pub mod segment;
pub mod session;
pub mod settings;
pub mod shared;
pub mod standstill;
pub mod taken_positions;
mod visits;

pub use adaptive::{Adaptive, Adjustment};
pub use address_prefix::AddressPrefix;
pub use apply::{Applied, apply};
pub use auction::Auction;
pub use board::{Board, Recognition, Standing};
pub use effects::Effects;
pub use events::{EndCause, Event, EventClass, EventKind, EventKinds};
pub use forecast::{Forecast, Wait};
pub use ids::{Generation, MAX_POSITION, Position, RequestId, RoomId, Ticket, UnixMillis};
pub use inlet::{FrontierMove, MovedBy};
pub use losses::{Line, Losses, Mend};
pub use moves::{MoveRecord, MovedPlaces, Mover};
pub use operation::{Answer, Claim, Operation, PlaceStatus, Reads, Reconfigure, Refusal};
pub use prefixes::{DeferredPlace, PrefixTag};
pub use reports::{Report, ReportOutcome, Reporter, Reports};
pub use room::{Room, RoomState};
pub use segment::{Counts, Segment, Step};
pub use session::{Departed, Grant, NotAVisit, Outcome, Session, SessionKey, SessionStatus, Stay};
pub use settings::{BypassRule, Discipline, InletKind, Settings, SettingsError, Value};
pub use shared::Shared;
pub use standstill::Standstill;
