//! The configuration as an operator meets it.

mod file;
mod limits;
