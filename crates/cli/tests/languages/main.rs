//! The pages of `docs/integrating` about other languages and about API gateways: their code and their configurations as they
//! stand there, run against the real binary.

#[path = "../support/mod.rs"]
mod support;

mod anteroom;
mod forgery;
mod gateways;
mod issuer;
mod languages;
mod page;
mod program;
mod rotation;
