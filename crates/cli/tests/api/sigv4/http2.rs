//! The same over HTTP/2, which the server speaks over TLS only.

use std::sync::Arc;

use anteroom_testkit::Server;
use bytes::Bytes;
use http_body_util::Full;
use rustls::ClientConfig;
use serde_json::Value;

use super::raw::RawRequest;
use crate::support::tls::{Identity, connect, exchange};

/// Restarts the server with TLS on its private listener, and returns what makes a client trust it.
pub(crate) fn restart_with_tls(server: &mut Server) -> Arc<ClientConfig> {
    let identity = Identity::new();
    identity.install(server.directory(), "private");
    let tls = Identity::settings(server.directory(), "private");
    server.set_config(format!("{tls}[[room]]\nid = \"Sample\"\n"));
    server.restart().expect("the server starts with TLS");
    identity.trusted("h2")
}

/// Sends a request over a connection of its own. Its host goes as the authority of its address, not as a header.
pub(crate) async fn send(server: &Server, trust: &Arc<ClientConfig>, request: &RawRequest) -> (u16, Value) {
    let stream = connect(server.private(), trust).await.expect("TLS");
    let is_host = |(name, _): &&(String, String)| name == "Host";
    let (_, authority) = request.headers.iter().find(is_host).expect("a request has a host");
    let mut builder = hyper::Request::builder()
        .method(request.method.as_str())
        .uri(format!("https://{authority}{}", request.target()));
    for (name, value) in request.headers.iter().filter(|header| !is_host(header)) {
        builder = builder.header(name, value);
    }
    let sent = builder.body(Full::<Bytes>::from(request.body.clone())).expect("a request");
    let (answer, _) = exchange(stream, sent).await.expect("HTTP/2");
    (answer.status, answer.json())
}
