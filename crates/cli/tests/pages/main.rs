//! The waiting page: in a real browser where there is one, and its calls by plain HTTP (`wait_page`, `templates`) and under Node
//! (`script`).

#[path = "../support/mod.rs"]
mod support;

mod access;
mod bytes;
mod demo;
mod door;
mod fallback;
mod handoff;
mod languages;
mod openid;
mod page_checks;
mod pictures;
mod scene;
mod script;
mod templates;
mod wait_page;
mod waiting;
