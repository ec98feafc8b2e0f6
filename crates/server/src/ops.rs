//! What runs the server: stores, configured rooms, templates, alarms, metrics, what other nodes change, shutdown.

pub(crate) mod alarms;
pub mod configured_rooms;
pub(crate) mod events;
pub(crate) mod master_secret;
pub(crate) mod metrics;
pub mod page_templates;
pub(crate) mod peer_changes;
pub mod shared_issuers;
pub mod shutdown;
pub(crate) mod stores;
