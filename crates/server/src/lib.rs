//! Anteroom as a server: configuration, composition, listeners, and the API on top of the engine.
//!
//! [`run`] is the only way in. The path of one request is the header of `routes`.

mod answer;
mod app;
mod aws;
pub mod config;
mod hot;
mod keys;
pub mod listener;
mod metrics;
mod passes;
mod prepared;
mod request;
pub mod rooms;
mod routes;
pub mod shutdown;
mod timestamp;
pub mod tls;
mod watch;

mod run;

pub use anteroom_store::embedded::FILE_NAME as STORE_FILE_NAME;
pub use run::{Addresses, Bound, FirstStart, Hinted, open_store, run};
