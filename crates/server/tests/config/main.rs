//! The configuration as an operator meets it.

mod clients;
mod file;
mod limits;
