//! The bare hyper server: reads a request, answers fixed bytes, does nothing else.

use std::convert::Infallible;

use anyhow::Result;
use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{HeaderName, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

/// Answers every request with the headers and the body in a file, until it is killed.
pub(crate) fn serve(answer_file: &str) -> Result<()> {
    let text = std::fs::read_to_string(answer_file)?;
    let (head, body) = text.split_once("\n\n").unwrap_or(("", &text));
    let headers: Vec<(HeaderName, HeaderValue)> = head
        .lines()
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| Ok((name.parse()?, value.parse()?)))
        .collect::<Result<_>>()?;
    let headers: &'static [(HeaderName, HeaderValue)] = headers.leak();
    let body = Bytes::copy_from_slice(body.as_bytes());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async move {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        println!("listening on {}", listener.local_addr()?);
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            let body = body.clone();
            tokio::spawn(async move {
                let service = service_fn(move |_: Request<hyper::body::Incoming>| {
                    let mut response = Response::new(Full::new(body.clone()));
                    for (name, value) in headers {
                        response.headers_mut().insert(name, value.clone());
                    }
                    async move { Ok::<_, Infallible>(response) }
                });
                // A client that goes away ends its connection; there is nothing to say about it.
                let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
            });
        }
    })
}
