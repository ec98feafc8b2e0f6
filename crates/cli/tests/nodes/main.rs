//! Several nodes on one Redis, a Cluster or Sentinels: one line for all of them, leases, failover.

#[path = "../support/mod.rs"]
mod support;

mod auction;
mod basic;
mod cluster;
mod crowd;
mod failover;
mod failover_sentinel;
mod lease;
mod lost;
mod lost_lines;
mod pair;
