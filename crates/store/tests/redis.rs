//! The store in Redis, against real servers: the one list of scenarios, and what only a server of its own can do to a store.

#![expect(clippy::unwrap_used, reason = "a test may fail loudly")]

#[path = "redis/buckets.rs"]
mod buckets;
#[path = "redis/contract.rs"]
mod contract;
#[path = "redis/losses.rs"]
mod losses;
#[path = "redis/nodes.rs"]
mod nodes;
#[path = "redis/opening.rs"]
mod opening;
#[path = "redis/outages.rs"]
mod outages;
#[path = "redis/records.rs"]
mod records;
#[path = "redis/restores.rs"]
mod restores;
#[path = "redis/retrying_store.rs"]
mod retrying_store;
#[path = "redis/support.rs"]
mod support;
