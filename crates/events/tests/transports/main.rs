//! Every way to a destination, against receivers that are not ours: webhooks verified by the libraries of Standard Webhooks and
//! CloudEvents in Python, Node and Rust (the files of `docs/integrating/webhooks` as they stand), an event bus by moto that checks
//! signatures, a real NATS server, and files.
//!
//! `scenarios.rs` is one list for all of them. What is special to one, and everything that can go wrong on the way there, is in
//! the file of its name.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod event_bridge;
mod file;
mod messages;
mod nats;
mod network;
mod program;
mod receivers;
mod scenarios;
mod tls;
mod webhook;

/// The verifying code of the documentation.
#[expect(unreachable_pub, reason = "the code of a site stands in a crate of its own")]
#[path = "../../../../docs/integrating/webhooks/receive.rs"]
mod documented;
