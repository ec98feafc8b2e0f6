//! The gateway: a reverse proxy that lets in as many visitors as the site behind it can serve, keeps every client within its
//! budget of requests, and shows everybody else the line.
//!
//! # The path of a request
//!
//! Named phases, one module each, and the same words in code, metrics and documents:
//!
//! **identify** (`client`: whose request is it) → **limit** (`limiter`: is he within his budget) → **classify** (`classify`: which
//! room, and is it a visitor who could wait) → **verdict** (`verdict`: in, wait or no) → **proxy** (`proxy`) or **wait** (`wait`) or
//! **reject** (`reject`) → **account** (`account`).
//!
//! *Invariant:* every request ends in exactly one counted verdict.

pub mod client;
pub mod limiter;
pub mod proxy;
