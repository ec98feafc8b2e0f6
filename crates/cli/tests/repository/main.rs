//! The source tree itself: which crate may depend on which, and what the documents cite.

mod citations;
mod layering;
