//! What the test binaries share. Each of them includes this folder once.

#![allow(dead_code, reason = "each test binary uses its own part of this")]

pub(crate) mod auction;
pub(crate) mod auction_visits;
pub(crate) mod frontier;
pub(crate) mod hall;
pub(crate) mod joiners;
pub(crate) mod metrics;
pub(crate) mod moved_clock;
pub(crate) mod operator;
pub(crate) mod program;
pub(crate) mod service;
pub(crate) mod tls;
pub(crate) mod watch;

use std::path::PathBuf;

/// The binary under test, as Cargo built it.
pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_anteroom");

/// The binary under test, or the one that all tests are pointed at.
pub(crate) fn binary() -> PathBuf {
    std::env::var_os("ANTEROOM_TEST_BINARY").map_or_else(|| BINARY.into(), PathBuf::from)
}
