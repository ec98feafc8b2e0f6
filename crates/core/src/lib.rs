//! The rules of a waiting room, and nothing else: no IO, clock, randomness, async or HTTP.

pub mod ids;

pub use ids::{Generation, MAX_POSITION, Position, RequestId, RoomId, Ticket, UnixMillis};
