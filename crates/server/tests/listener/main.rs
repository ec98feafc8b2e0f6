//! Listeners against real sockets.

mod clear_text;
mod support;
mod takeout;
mod tls;
