//! What stores and buckets promise, over memory and over the embedded database.

#![expect(clippy::unwrap_used, reason = "a test may fail loudly")]

mod buckets;
mod embedded;
mod scenarios;
