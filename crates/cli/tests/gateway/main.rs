//! The gateway before a site: visits by cookie, capacity, rooms by host and path, several nodes, and a store that is lost.

#[path = "../support/mod.rs"]
mod support;

mod account;
mod auction;
mod capacity;
mod check;
mod cookies;
mod door;
mod line;
mod nodes;
mod requests;
mod rooms;
mod serve;
mod slow_clients;
mod spellings;
mod stand;
mod store_lost;
mod tls;
mod visits;
