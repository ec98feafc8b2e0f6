//! The configuration as an operator meets it.

mod clients;
mod destinations;
mod file;
mod limits;
