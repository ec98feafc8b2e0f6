//! The token bucket: how many requests a client has left.
