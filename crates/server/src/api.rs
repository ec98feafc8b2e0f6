//! The handlers of both listeners, one module for each group of calls.
//!
//! For visitors: `visitors`, `aws`, `auction`, `watch`, `waiting_pages`. For other proxies: `checks`. For operators and origins: `rooms`, `capacity`, `alarms`,
//! `visits`, `administration`, `backup`, `preview`, and the private calls of `aws`. For both: `health`, `idempotency`, `frontier`.

pub(crate) mod administration;
pub(crate) mod alarms;
pub(crate) mod arrivals;
pub(crate) mod auction;
pub(crate) mod aws;
pub(crate) mod backup;
pub(crate) mod capacity;
pub(crate) mod checks;
pub(crate) mod clients;
pub(crate) mod destinations;
pub(crate) mod events;
pub(crate) mod frontier;
pub(crate) mod health;
pub(crate) mod idempotency;
pub(crate) mod preview;
pub(crate) mod rooms;
pub(crate) mod ticket_request;
pub(crate) mod ticket_status;
pub(crate) mod visitors;
pub(crate) mod visits;
pub(crate) mod waiting_pages;
pub(crate) mod watch;
