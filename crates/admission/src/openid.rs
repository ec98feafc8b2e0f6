//! What `OpenID` adds to a room: the clients that may log visitors in.

pub mod clients;
pub mod redirect;
