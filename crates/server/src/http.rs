//! HTTP on both listeners: accept loop, the path of a request, the route table, reading requests and writing responses.

pub(crate) mod aws_addresses;
pub(crate) mod error;
pub(crate) mod ext_authz;
pub(crate) mod fast_path;
pub(crate) mod html_frame;
pub mod listener;
pub(crate) mod prepared;
pub mod problem;
pub(crate) mod rate_limits;
pub(crate) mod request;
pub(crate) mod response;
pub(crate) mod router;
pub mod routes;
pub(crate) mod service;
pub(crate) mod staleness;
pub(crate) mod timestamp;
pub mod tls;
