//! The guard as a site uses it: real key servers on free ports, a clock that tests set.

mod authorizer;
mod keys;
mod requests;
mod support;
mod tokens;
