//! What holds behind every front.

pub(crate) mod forgeries;
pub(crate) mod walk;
