//! The same without tower: a plain hyper server that asks the guard by a function.
//!
//! ```sh
//! cargo run --example hyper -- http://127.0.0.1:8080 Sample 127.0.0.1:3000
//! ```
#![expect(clippy::print_stdout, reason = "an example says where it is")]

use std::convert::Infallible;
use std::error::Error;

use anteroom_guard::{Guard, WaitingPage};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let waiting_room = arguments.next().unwrap_or_else(|| "http://127.0.0.1:8080".to_owned());
    let room = arguments.next().unwrap_or_else(|| "Sample".to_owned());
    let listener = TcpListener::bind(arguments.next().unwrap_or_else(|| "127.0.0.1:0".to_owned())).await?;
    let site = format!("http://{}", listener.local_addr()?);

    let guard = Guard::builder(waiting_room).room(&room).build()?;
    let waiting_page = WaitingPage::of_room(&site);
    println!("open {site}/");
    let mut connections = JoinSet::new();
    loop {
        let (socket, _) = listener.accept().await?;
        while connections.try_join_next().is_some() {}
        let (guard, waiting_page) = (guard.clone(), waiting_page.clone());
        connections.spawn(async move {
            let service = service_fn(|request| answer(&guard, &waiting_page, request));
            if let Err(error) = http1::Builder::new().serve_connection(TokioIo::new(socket), service).await {
                println!("a connection broke: {error}");
            }
        });
    }
}

async fn answer(
    guard: &Guard,
    waiting_page: &WaitingPage,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (parts, _body) = request.into_parts();
    Ok(match guard.verify_parts(&parts.headers, &parts.uri).await {
        Ok(pass) => Response::new(Full::from(format!("You are number {}.\n", pass.queue_position))),
        Err(refusal) => {
            guard.response(refusal, &parts.method, &parts.uri, &parts.headers, Some(waiting_page))
        }
    })
}
