//! The OpenID provider: logging in means to wait in line.

#[path = "../support/mod.rs"]
mod support;

mod provider;
