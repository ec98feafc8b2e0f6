//! The gateway: a reverse proxy that lets in as many visitors as the site behind it can serve, keeps every client within its
//! budget of requests, and shows all others the line.
//!
//! # The path of a request
//!
//! Named phases ([`PHASES`]), one module each, and the same words in code, metrics and documents (`gateway` puts them together):
//! **identify** → **classify** → **limit** → **verdict** → **proxy**, **wait** or **reject** → **account**.
//!
//! *Invariant:* every request ends in exactly one counted verdict.

/// The phases of a request for a protected site, in order, each with what it decides.
pub const PHASES: [(&str, &str); 8] = [
    ("identify", "whose request it is (`identify`)"),
    ("classify", "which room, and whether it is a visitor who could wait (`classify`)"),
    ("limit", "whether the client is within its budgets (`limiter`)"),
    ("verdict", "in, wait or no (`verdict`)"),
    ("proxy", "in: to an origin and back (`anteroom_proxy`)"),
    ("wait", "wait: the place in line, as a page or as JSON (`line`)"),
    ("reject", "no: a page or a problem (`reject`)"),
    ("account", "the one counted verdict (`account`)"),
];

mod account;
mod body;
pub mod check;
mod classify;
mod gateway;
pub mod identify;
pub mod limiter;
mod line;
mod reject;
pub mod trace;
mod verdict;

pub use account::Verdict;
pub use body::GatewayBody;
pub use gateway::check::{Allowance, CheckAnswer};
pub use gateway::{Gateway, GatewayParts, LINE_PATH};
pub use line::line_call_class;
pub use line::openid::{ExpectedVisitor, OpenIdEnd, OpenIdLogin, OpenIdStep};
pub use reject::{ExpectedRefusal, LINE_PROBLEMS};
