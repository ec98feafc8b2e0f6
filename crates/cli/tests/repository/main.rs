//! The source tree itself: which crate may depend on which, what the documents cite, and in which order phases run.

mod citations;
mod layering;
mod phases;
