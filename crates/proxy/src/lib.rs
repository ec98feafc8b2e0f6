//! The reverse proxy: from a request of a client to the answer of an origin.
//!
//! # The way of one request
//!
//! [`forward`]: the request is checked and made fit for the origin (`headers`), an origin is chosen and a connection to it
//! taken (`origins`, `pool`, `connect`), the request goes out with its body behind it (`outgoing`), and the answer comes back
//! as a head and a body that is still being read (`body`) or, after an upgrade, as a tunnel (`tunnel`).
//!
//! An HTTP/1 connection has no task of its own: the request that waits for its response drives it, and an unused one
//! needs no driving ([ADR 31](../../../docs/adr/0031-our-own-pool-to-origins.md)). So a request costs no hand-over
//! between tasks.
//!
//! *Invariant:* how a message is framed is never copied from one side to the other. Each side is framed anew from the body
//! that was really there, so what one side might read differently than we did does not exist on the other.
//! *Invariant:* a connection is used again only when both its messages were over and nothing else had come in.
//! *Invariant:* a request that may have reached an origin is sent again only if it is idempotent, has no body, and not one byte
//! was answered.

mod address;
mod body;
mod client_paced;
mod client_prefix;
mod connect;
mod error;
mod forward;
mod headers;
mod health;
mod http1;
mod observations;
mod origins;
mod outgoing;
mod pool;
mod settings;
mod transport;
mod tunnel;
mod uploads;
mod visit_shares;
mod wait_timeout;

pub use address::{OriginAddress, OriginAddressError};
pub use body::{ProxyBody, ProxyBodyError};
pub use client_prefix::ClientCounts;
pub use error::{ProxyError, RequestFault, ResponseFault};
pub use forward::{ForwardedResponse, Hop, VisitTag, forward};
pub use observations::Observations;
pub use origins::{OriginView, Origins, OriginsError};
pub use settings::{ForwardedPolicy, HealthCheck, Http2ToOrigin, OriginTrust, ProxySettings};
pub use tunnel::{Tunnel, TunnelEnd};
