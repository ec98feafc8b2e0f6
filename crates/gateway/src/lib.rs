//! The gateway: a reverse proxy that lets in as many visitors as the site behind it can serve, keeps every client within its
//! budget of requests, and shows all others the line.
//!
//! # The path of a request
//!
//! Named phases, one module each, and the same words in code, metrics and documents (`path` puts them together):
//!
//! **identify** (`client`: whose request is it) → **limit** (`limiter`: is the client within its budget) → **classify**
//! (`classify`, `rooms`:
//! which room, and is it a visitor who could wait) → **verdict** (`verdict`: in, wait or no) → **proxy** (`proxy`) or **wait** (`wait`) or
//! **reject** (`reject`) → **account** (`account`).
//!
//! *Invariant:* every request ends in exactly one counted verdict.

mod account;
mod body;
mod classify;
mod gateway;
pub mod identify;
pub mod limiter;
mod line;
mod reject;
mod verdict;

pub use account::Verdict;
pub use body::GatewayBody;
pub use gateway::{Gateway, GatewayParts, LINE_PATH};
pub use reject::{ExpectedRefusal, LINE_PROBLEMS};
