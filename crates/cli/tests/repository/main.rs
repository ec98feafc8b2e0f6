//! The source tree itself: which crate may depend on which, what the documents cite and map, and in which order phases run.

mod citations;
mod code_map;
mod guard_package;
mod guard_passes;
mod layering;
mod phases;
