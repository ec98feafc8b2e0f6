//! Our proxy alone: hyper in front, the origin behind, no phases in between. On one runtime for all cores, or on one a core, each
//! with a listener of the same port and connections to the origin of its own.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::thread;

use anteroom_proxy::{Hop, Origins, ProxyBody, ProxySettings, VisitTag, forward};
use anyhow::{Result, bail};
use http::{HeaderMap, Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::TcpListener;

/// How many connections may wait to be accepted.
const BACKLOG: i32 = 1024;

/// Forwards everything to `origin` until it is killed.
pub(crate) fn serve(runtimes: &str, origin: &str) -> Result<()> {
    let listener = listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
    let address = listener.local_addr()?;
    println!("listening on {address}");
    match runtimes {
        "shared" => {
            let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
            runtime.block_on(accept(listener, origin))
        }
        "per-core" => {
            for _ in 1..thread::available_parallelism()?.get() {
                let (listener, origin) = (listen(address)?, origin.to_owned());
                thread::spawn(move || on_this_thread(listener, &origin));
            }
            on_this_thread(listener, origin)
        }
        _ => bail!("usage: anteroom-bench forward shared|per-core ORIGIN"),
    }
}

fn on_this_thread(listener: std::net::TcpListener, origin: &str) -> Result<()> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(accept(listener, origin))
}

fn listen(address: SocketAddr) -> Result<std::net::TcpListener> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_port(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

async fn accept(listener: std::net::TcpListener, origin: &str) -> Result<()> {
    let listener = TcpListener::from_std(listener)?;
    let origins = Origins::new(vec![origin.parse()?], ProxySettings::default())?;
    tokio::spawn(Arc::clone(&origins).watch_health());
    loop {
        let (stream, peer) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let origins = Arc::clone(&origins);
        let hop = Hop { client: peer.ip(), is_tls: false, visit: Some(VisitTag(1)) };
        tokio::spawn(async move {
            let service = service_fn(|request| answer(&origins, request, hop));
            // A client that goes away ends its connection; there is nothing to say about it.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn answer(
    origins: &Arc<Origins>,
    request: Request<Incoming>,
    hop: Hop,
) -> Result<Response<ProxyBody>, Infallible> {
    let Ok(forwarded) = forward(origins, request, &hop, &HeaderMap::new()).await else {
        let mut response = Response::new(ProxyBody::empty());
        *response.status_mut() = StatusCode::BAD_GATEWAY;
        return Ok(response);
    };
    Ok(forwarded.response)
}
