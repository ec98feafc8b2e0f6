//! What survives: `kill -9`, restarts, a full disk, a Redis that is away, was restarted or has lost everything.

#[path = "../support/mod.rs"]
mod support;

mod kill_nine;
mod lifecycle;
mod lost_rooms;
mod machine_failures;
mod old_databases;
mod store_lost;
mod store_restart;
