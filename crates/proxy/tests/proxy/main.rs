//! The proxy from outside: a gateway that does nothing but forward, clients and origins that behave and that do not.
//!
//! One program, because each costs a linking of its own.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod site;
mod support;

mod evictions;
mod failures;
mod http2;
mod messages;
mod real_origins;
mod smuggling;
mod streams;
mod upgrades;
