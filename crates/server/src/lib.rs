//! Anteroom as a server: configuration, composition, listeners, and the API on top of the engine.
//!
//! [`run`] is the only way in. The path of one request is the header of `service`, its routes are the tables of [`routes`].

mod access;
mod administration;
mod alarm_api;
mod alarms;
mod answer;
mod api_keys;
mod app;
mod auction;
mod aws;
mod backup_api;
mod capacity_api;
pub mod config;
mod error;
mod follow;
mod frontier;
mod health;
mod hot;
mod idempotency;
mod keys;
mod limits;
mod line_api;
pub mod listener;
mod metrics;
mod native;
pub mod offline;
pub mod openapi;
mod page;
pub mod page_templates;
mod passes;
mod prepared;
mod preview_api;
pub mod problem;
mod request;
mod room_api;
pub mod rooms;
pub mod routes;
mod service;
pub mod shutdown;
mod staleness;
mod stores;
mod tickets;
mod timestamp;
pub mod tls;
mod watch;

mod run;

pub use access::{Permission, Role};
pub use anteroom_store::embedded::FILE_NAME as STORE_FILE_NAME;
pub use api_keys::{CreatedKey, KeyKind, NewKey};
pub use run::{Addresses, Bound, FirstStart, Hinted, run};
