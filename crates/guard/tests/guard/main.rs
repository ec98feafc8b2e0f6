//! The guard as a site uses it: real key servers on free ports, a clock that tests set.
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "helpers of tests; a test's tasks end with its runtime"
)]

mod authorizer;
mod keys;
mod requests;
mod support;
mod tokens;
