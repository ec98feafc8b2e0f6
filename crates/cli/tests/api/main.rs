//! The public and the private API of the real binary, over HTTP: the AWS calls, the native calls, `/watch`, auctions, signatures,
//! limits, TLS, the `OpenAPI` documents, and what bad requests get.

#[path = "../support/mod.rs"]
mod support;

mod access;
mod admin_key;
mod auction;
mod auction_absence;
mod auction_crowd;
mod aws_defects;
mod aws_defects_expiry;
mod aws_move;
mod aws_walk;
mod bad_connections;
mod bad_http;
mod bad_input;
mod busy_room;
mod claims;
mod clients_api;
mod destinations_api;
mod forgeries;
mod full_queue;
mod http_surface;
mod idempotent_joins;
mod inlets;
mod join_rate;
mod keys_api;
mod limiter;
mod limiter_redis;
mod limiter_support;
mod native_api;
mod openapi;
mod openid_subjects;
mod room_states;
mod rooms_api;
mod route_coverage;
mod schemathesis;
mod sigv4;
mod tls;
mod watch;
mod watch_slow;
mod watch_tls;
