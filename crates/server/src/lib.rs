//! Configuration, listeners, shutdown.

pub mod config;
pub mod listener;
pub mod shutdown;
pub mod tls;
