//! The reverse proxy: from a request of a client to the answer of an origin.
