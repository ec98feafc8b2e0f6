//! The store in Redis, against real servers: the one list of scenarios, and what only a server of its own can do to a store.

#![expect(clippy::unwrap_used, reason = "a test may fail loudly")]

mod buckets;
mod losses;
mod nodes;
mod opening;
mod outages;
mod records;
mod restores;
mod scenarios;
mod support;
