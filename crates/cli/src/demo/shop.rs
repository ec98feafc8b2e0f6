//! The demo's sample shop: a small site that stands for the one to protect. To be behind the gateway it needs to know nothing of Anteroom. It uses two
//! headers all the same: it counts its visitors by the one that names a visit, and when a visitor has bought something or goes, it says so by the other,
//! so that the place is free for the next.
//!
//! Two parts of it stand for sites that Anteroom is not before: a page that sends its visitors over to wait ([`premiere`]), and an API for
//! programs ([`api`]). Their visitors bring a pass, and the shop verifies that by itself ([`passes`]).

mod api;
mod goods;
mod pages;
mod passes;
mod premiere;
mod visits;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;

use anteroom_server::Addresses;
use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::output::talk;

use api::Api;
use pages::Standing;
use premiere::Premiere;
use visits::Visits;

pub(super) use goods::{NAMES, name_of};
pub(super) use premiere::premiere_url;

/// By what an answer of the shop is told from one of Anteroom's.
pub(super) const SERVED_BY: (&str, HeaderValue) = ("served-by", HeaderValue::from_static("site"));
/// How the shop tells the gateway that a visit is over.
const SESSION: &str = "anteroom-session";
/// How the gateway names a visit to the shop.
const VISIT: &str = "anteroom-visit";
const PREFERRED_PORT: u16 = 8082;
/// The most connections at a time; the gateway keeps a few.
const CONNECTIONS_MAX: usize = 1_024;
/// The largest form or JSON text that is read, in bytes.
const BODY_MAX_BYTES: usize = 16 * 1024;
/// What nothing of the shop's pages needs is forbidden: whatever a visitor types into the search box stays text.
const CONTENT_SECURITY_POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'self'; base-uri 'none'; frame-ancestors 'self'",
);

type Answer = Response<Full<Bytes>>;

/// The open shop.
pub(super) struct Shop {
    address: SocketAddr,
    counter: Arc<Counter>,
    stop: watch::Sender<bool>,
    thread: JoinHandle<()>,
}

/// What everybody in the shop works with.
struct Counter {
    visits: Visits,
    /// There once the server has said where it is.
    with_passes: OnceLock<WithPasses>,
}

/// What is open to those who bring a pass.
struct WithPasses {
    api: Api,
    premiere: Premiere,
}

impl Shop {
    /// Opens it on its usual port or another one of this machine, on a thread of its own.
    pub(super) fn open() -> anyhow::Result<Self> {
        let bind = |port: u16| std::net::TcpListener::bind(("127.0.0.1", port));
        let listener = bind(PREFERRED_PORT).or_else(|_| bind(0))?;
        let address = listener.local_addr()?;
        listener.set_nonblocking(true)?;
        let counter = Arc::new(Counter { visits: Visits::new(), with_passes: OnceLock::new() });
        let (stop, mut stopped) = watch::channel(false);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let shared = Arc::clone(&counter);
        let thread = std::thread::Builder::new().name("shop".into()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    () = serve(listener, shared) => {}
                    _ = stopped.wait_for(|stopped| *stopped) => {}
                }
            });
        })?;
        Ok(Self { address, counter, stop, thread })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The usual port, if another process has it.
    pub(super) fn taken_port(&self) -> Option<u16> {
        (self.address.port() != PREFERRED_PORT).then_some(PREFERRED_PORT)
    }

    /// Learns where the server is whose passes it takes.
    pub(super) fn accept_passes_of(&self, addresses: &Addresses) {
        let opened = Api::new(addresses)
            .and_then(|api| Ok(WithPasses { api, premiere: Premiere::new(addresses, self.address)? }));
        match opened {
            Ok(opened) => drop(self.counter.with_passes.set(opened)),
            Err(error) => talk(&format!("the shop takes no passes: {error:#}")),
        }
    }

    /// Closes it, and says how many visitors it had at once at most, by its own count.
    pub(super) fn close(self) -> u64 {
        self.stop.send_replace(true);
        // A thread that panicked has said so.
        let _ = self.thread.join();
        self.counter.visits.most_inside()
    }
}

async fn serve(listener: std::net::TcpListener, counter: Arc<Counter>) {
    let listener = match TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return talk(&format!("the sample shop does not open: {error}")),
    };
    // Ends with this function, and with it every connection.
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        if connections.len() >= CONNECTIONS_MAX {
            connections.join_next().await;
        }
        let Ok((socket, _)) = listener.accept().await else { continue };
        let counter = Arc::clone(&counter);
        connections.spawn(async move {
            let service = service_fn(|request| {
                let counter = Arc::clone(&counter);
                async move { Ok::<_, Infallible>(counter.answer(request).await) }
            });
            let mut builder = hyper::server::conn::http1::Builder::new();
            // A customer who hangs up has no complaint to make.
            let _ = builder.timer(TokioTimer::new()).serve_connection(TokioIo::new(socket), service).await;
        });
    }
}

impl Counter {
    async fn answer(&self, request: Request<Incoming>) -> Answer {
        let mut response = match request.uri().path() {
            path if path.starts_with("/api/") => self.program(request).await,
            premiere::PATH => self.premiere(request).await,
            "/inside" => self.inside(),
            _ => self.person(request).await,
        };
        let headers = response.headers_mut();
        headers.insert(SERVED_BY.0, SERVED_BY.1);
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY);
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        response
    }

    /// A call of the API.
    async fn program(&self, request: Request<Incoming>) -> Answer {
        match self.with_passes.get() {
            Some(WithPasses { api, .. }) => api.answer(request).await,
            None => not_ready(),
        }
    }

    /// A visitor who goes to the premiere.
    async fn premiere(&self, request: Request<Incoming>) -> Answer {
        match self.with_passes.get() {
            Some(WithPasses { premiere, .. }) => premiere.answer(&request).await,
            None => not_ready(),
        }
    }

    /// How many visitors there are, by the shop's own count.
    fn inside(&self) -> Answer {
        let (visits, bought) = (&self.visits, self.visits.bought());
        let figures = serde_json::json!({
            "inside": visits.inside(), "most_inside": visits.most_inside(), "bought": bought,
        });
        api::json(StatusCode::OK, &figures)
    }

    /// A person at a browser.
    async fn person(&self, request: Request<Incoming>) -> Answer {
        let visit = request.headers().get(VISIT).and_then(|visit| visit.to_str().ok()).map(str::to_owned);
        if let Some(visit) = &visit {
            self.visits.record_request(visit);
        }
        let standing = match &visit {
            Some(_) => Standing::Inside { visitors: self.visits.inside() },
            None => Standing::BackDoor,
        };
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        match (&method, path.as_str()) {
            (&Method::GET | &Method::HEAD, "/") => pages::front_page(standing),
            (&Method::GET | &Method::HEAD, "/search") => {
                pages::search_results(standing, &value_of("q", request.uri().query()))
            }
            (&Method::GET | &Method::HEAD, path) => {
                pages::product(standing, path.strip_prefix("/product/").and_then(goods::find))
            }
            (&Method::POST, "/checkout") => {
                let Some(form) = text_of(request).await else { return pages::bad_request_page(standing) };
                let Some(good) = goods::find(&value_of("product", Some(&form))) else {
                    return pages::product(standing, None);
                };
                self.visits.bought_one();
                match visit {
                    Some(visit) => self.ends(pages::bought(Standing::Over, good), &visit, "complete"),
                    None => pages::bought(standing, good),
                }
            }
            (&Method::POST, "/leave") => match visit {
                Some(visit) => self.ends(pages::farewell(), &visit, "abandon"),
                None => pages::bad_request_page(standing),
            },
            _ => pages::bad_request_page(standing),
        }
    }

    /// The last answer of a visit.
    fn ends(&self, mut last: Answer, visit: &str, how: &'static str) -> Answer {
        self.visits.record_end(visit);
        last.headers_mut().insert(SESSION, HeaderValue::from_static(how));
        last
    }
}

fn not_ready() -> Answer {
    api::refusal(StatusCode::SERVICE_UNAVAILABLE, "The shop is just opening; try again")
}

/// A body as text; nothing if it is too long or no text.
async fn text_of(request: Request<Incoming>) -> Option<String> {
    let collected = Limited::new(request.into_body(), BODY_MAX_BYTES).collect().await.ok()?;
    String::from_utf8(collected.to_bytes().to_vec()).ok()
}

/// The value of a field of a form, as it was typed; empty if it is not there.
fn value_of(name: &str, form: Option<&str>) -> String {
    let pairs = form.unwrap_or_default().split('&');
    let value = pairs.filter_map(|pair| pair.split_once('=')).find(|(found, _)| *found == name);
    let mut bytes = vec![];
    let mut rest = value.map_or("", |(_, value)| value).as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let hexadecimal = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let decoded = hexadecimal.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        let (read, unread) = match (byte, decoded) {
            (b'%', Some(decoded)) => (decoded, &after[2..]),
            (b'+', _) => (b' ', after),
            _ => (byte, after),
        };
        bytes.push(read);
        rest = unread;
    }
    String::from_utf8_lossy(&bytes).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_a_form_are_read_as_typed() {
        let form = Some("q=row+12%20%26%20more&p=%zz%C3%A9%&empty=");
        assert_eq!(value_of("q", form), "row 12 & more");
        assert_eq!(value_of("p", form), "%zzé%");
        assert_eq!(
            (value_of("empty", form), value_of("none", form), value_of("q", None)),
            Default::default()
        );
    }
}
