//! What visitors do, one file a scenario. `Err` is the end of a visit before its last step.

pub(super) mod auction;
pub(super) mod aws;
pub(super) mod native;
pub(super) mod watch;
