//! The engine over every store, and over stores that fail.

#![expect(clippy::unwrap_used, reason = "a test may fail loudly")]

mod embedded;
mod faulty_store;
mod redis_scenarios;
mod scenarios;
