//! Spans of the phases of requests, as a collector gets them and as origins are told of them. Only with the feature `otlp`:
//!
//! ```sh
//! cargo nextest run --cargo-profile ci -p anteroom --features otlp --test tracing
//! ```

#![cfg(feature = "otlp")]

#[path = "../support/mod.rs"]
mod support;

mod collector;
mod spans;
