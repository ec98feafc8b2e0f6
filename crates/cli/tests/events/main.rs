//! Events as others hear of them: delivered to a receiver whatever it and the nodes do, and streamed to who asks.

#[path = "../support/mod.rs"]
mod support;

mod delivery;
mod receiver;
mod references;
mod stream;
