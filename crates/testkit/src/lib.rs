//! What the product tests and the bench share: the real binary as a child process, a small blocking HTTP client that can
//! also misbehave, the AWS calls by name, real Redis processes, a proxy that disturbs connections, and waiting for states
//! instead of sleeping.
//!
//! Everything here panics or returns an [`anyhow::Error`] with the whole story, because its only readers look at a failed
//! test. It depends on none of our other crates: what it knows about Anteroom is what a client on the wire knows.

pub mod aws;
pub mod jwt;
pub mod redis;

mod chaos;
mod components;
mod http;
mod line;
mod ports;
mod server;
mod signal;
mod wait;

pub use chaos::{ChaosProxy, Counts, Direction, Fault, Mode, Odds};
pub use components::{full, python_with, require, require_redis, workspace_root};
pub use http::{Answer, Client, Request, Wire};
pub use line::{Figures, Line};
pub use server::{Builder, Ended, Server};
pub use wait::{POLL_INTERVAL, SetOnDrop, now, pause, unix_seconds, wait_for, wait_until};
