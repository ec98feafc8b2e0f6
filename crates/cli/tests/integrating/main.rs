//! The recipes of `deploy/recipes`: the same scenarios behind every program that asks for verdicts, and behind the gateway.
//!
//! Each program is started with the recipe's own files, in which only ports, addresses and the key are replaced. A plain
//! `./test` runs one walk behind each; `ANTEROOM_TEST_FULL=1` runs everything.

#[path = "../support/mod.rs"]
mod support;

mod attacks;
mod fronts;
mod lost_cookies;
mod matrix;
mod outages;
mod recipe;
mod scenarios;
mod stand;
mod strangers;
