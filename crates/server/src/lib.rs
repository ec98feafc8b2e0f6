//! Anteroom as a server: configuration, composition, listeners, and the API on top of the engine.
//!
//! [`run`] is the only way in. The path of one request is the header of `http::service`, its routes are the tables of [`routes`].

mod access;
mod api;
mod app;
pub mod config;
mod http;
pub mod openapi;
mod openid;
mod ops;
mod run;

pub use access::api_keys::{CreatedKey, KeyKind, NewKey};
pub use access::{Permission, Role, offline};
pub use anteroom_gateway::PHASES as GATEWAY_PHASES;
#[cfg(feature = "otlp")]
pub use anteroom_gateway::trace::TARGET as TRACE_TARGET;
pub use anteroom_store::embedded::FILE_NAME as STORE_FILE_NAME;
pub use http::service::PHASES as API_PHASES;
pub use http::{listener, problem, routes, tls};
pub use ops::{configured_rooms, page_templates, shared_issuers, shutdown};
pub use run::{Addresses, Bound, FirstStart, Hinted, run};
