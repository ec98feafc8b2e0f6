//! What the product tests and the bench share: the real binary as a child process, a small blocking HTTP client that can
//! also misbehave, the AWS calls by name, real Redis processes, a site and its visitors, a proxy that disturbs connections, an
//! origin that plays a part, a real browser, and waiting for states instead of sleeping.
//!
//! Everything here panics or returns an [`anyhow::Error`] with the whole story, because its only readers look at a failed
//! test. It depends on none of our other crates: what it knows about Anteroom is what a client on the wire knows.

pub mod aws;
pub mod jwt;
pub mod native;
pub mod redis;

mod browser;
mod chaos;
mod chromium;
mod components;
mod crowd;
mod http;
mod ledger;
mod line;
mod nodes;
mod origin;
mod ports;
mod prng;
mod server;
mod signal;
mod site;
mod wait;

pub use browser::{Asking, Browser, CookieJar, DOOR, NAVIGATION, PAGE_ACCEPT, SetCookie, USER_AGENT};
pub use chaos::{ChaosProxy, Counts, Direction, Fault, Mode, Odds};
pub use chromium::{
    Chromium, ChromiumBuilder, Key, LoadedResource, LogEntry, Scheme, Tab, axe_core, require_chromium,
};
pub use components::{full, monitoring_program, python_with, require, require_redis, workspace_root};
pub use crowd::{Crowd, Tally};
pub use http::{Answer, Client, Request, Wire};
pub use ledger::{JoinRecord, assert_order_is_kept, assert_unique};
pub use line::{Figures, Line};
pub use nodes::Nodes;
pub use origin::{Origin, OriginConnection, ReceivedRequest};
pub use ports::ReservedPort;
pub use prng::Prng;
pub use server::{Builder, ProcessExit, Server};
pub use site::{Reply, SeenRequest, Site};
pub use wait::{POLL_INTERVAL, SetOnDrop, now, pause, unix_seconds, wait_for, wait_until};
