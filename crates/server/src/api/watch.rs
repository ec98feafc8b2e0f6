//! GET `/watch`: a room's board as server-sent events, the same bytes for all watchers.
//!
//! # The path of a stream
//! request ([`watch`]: room, `Accept`, places left) → a feed for the room ([`feed`]) → over clear HTTP/1.1 the socket leaves hyper
//! (`listener::takeout`) for a hub ([`hub`]); over TLS it stays and becomes a body ([`body`]) → the present board → from then on what
//! the feed's pacer pushes, and keep-alives from the one wheel ([`wheel`]) while nothing happens → the client leaves,
//! does not take what it is sent, the room is deleted, or the server closes.
//!
//! *Invariant:* nothing is queued for a stream. A board says everything, so a newer one replaces an older one.

mod body;
mod counts;
mod feed;
mod hub;
mod wheel;

#[cfg(test)]
mod tests;

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anteroom_gateway::identify::{Peer, identify};
use anteroom_tokens::random;
use axum::body::Body;
use axum::extract::State;
use http::header::{self, HeaderName, HeaderValue};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use self::body::{Source, WatchBody};
pub(crate) use self::counts::{Counts, Kind};
pub(crate) use self::feed::Feed;
use self::feed::Watching;
use self::hub::{Adoption, Hub};
use self::wheel::{Bells, tick_length};
use crate::app::{App, ServedRoom};
use crate::http::error::ApiError;
use crate::http::listener::client_slots::ClientSlots;
use crate::http::listener::takeout::Takeout;
use crate::http::problem::Problem;
use crate::http::request::Parameters;
use crate::http::response::{ApiResponse, mark_cross_origin};
use crate::http::timestamp::http_date;

/// Where the stream is, and the paths on which sockets are taken out.
pub(crate) const WATCH_PATHS: &[&str] = &[PATH, "/.anteroom/watch"];
const PATH: &str = "/watch";
/// When a client that lost its stream should come back, at the earliest and at the latest. Each gets a random moment in
/// between, so that a hundred thousand that were cut at once do not come back at once.
const RETRY_MIN_MILLIS: u32 = 2_000;
const RETRY_MAX_MILLIS: u32 = 8_000;
/// One hub for so many cores: sending to everybody may take half the machine, not all of it.
const CORES_PER_HUB: usize = 2;
/// The most hubs. Beyond that the kernel's network path is what everybody waits for.
const HUBS_MAX: usize = 4;
/// The longest `Last-Event-ID` that can be one of ours.
const EDITION_MAX_BYTES: usize = 64;

const EVENT_STREAM: &str = "text/event-stream";
/// Tells nginx not to hold events back until a buffer is full.
const ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// What the live stream allows.
#[derive(Debug, Clone)]
pub(crate) struct StreamLimits {
    /// At most one board is sent to the watchers of a room in this time.
    pub(crate) interval: Duration,
    /// No stream is quiet for longer than this.
    pub(crate) keep_alive: Duration,
    /// Streams over TLS at once.
    pub(crate) tls_max: u64,
    /// Streams at once of each kind, so that they leave connections for other requests.
    pub(crate) streams_max: u64,
    /// How many of those over TLS one client has: a connection of HTTP/2 carries many.
    pub(crate) clients: Arc<ClientSlots>,
}

/// Everything behind `/watch`.
pub(crate) struct Watch {
    limits: StreamLimits,
    counts: Arc<Counts>,
    hubs: Arc<[Hub]>,
    bells: Bells,
    /// Streams and feeds so far: the next one's number.
    numbers: AtomicU64,
    closing: watch::Sender<bool>,
    /// How many seconds ago boards were known to be right, while the store is lost.
    staleness: watch::Sender<Option<u64>>,
    /// Pacers and the wheel. Each ends when the server closes.
    tasks: Mutex<JoinSet<()>>,
}

impl Watch {
    /// Starts the hubs and the wheel.
    pub(crate) fn start(limits: StreamLimits) -> io::Result<Self> {
        let counts = Arc::new(Counts::new());
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let hubs = (0..(cores / CORES_PER_HUB).clamp(1, HUBS_MAX)).map(|number| Hub::start(number, &counts));
        let watch = Self {
            hubs: hubs.collect::<io::Result<_>>()?,
            counts,
            bells: Bells::new(),
            numbers: AtomicU64::new(0),
            closing: watch::Sender::new(false),
            staleness: watch::Sender::new(None),
            tasks: Mutex::default(),
            limits,
        };
        watch.spawn(watch.turn_wheel());
        Ok(watch)
    }

    /// Counts since the start.
    pub(crate) fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Ends every stream at once; a later client is told to come back. Clients reconnect, each at a moment of its own.
    pub(crate) fn close(&self) {
        self.closing.send_replace(true);
        for hub in &*self.hubs {
            hub.close();
        }
    }

    /// Tells every stream how old what it shows may be; `None`: it is fresh again.
    pub(crate) fn tell_staleness(&self, seconds: Option<u64>) {
        self.staleness.send_replace(seconds);
    }

    /// The room's feed, which the first watcher sets going.
    fn feed(&self, room: &Arc<ServedRoom>) -> Arc<Feed> {
        let start = || {
            let staleness = self.staleness.subscribe();
            let feed = Arc::new(Feed::new(self.number(), room, staleness, &self.counts));
            let hubs = Arc::clone(&self.hubs);
            self.spawn(Arc::clone(&feed).pace(self.closing.subscribe(), self.limits.interval, hubs));
            feed
        };
        Arc::clone(room.feed.get_or_init(start))
    }

    /// A place among the streams.
    fn enter(&self, feed: &Arc<Feed>, kind: Kind) -> Result<Watching, ApiError> {
        if *self.closing.borrow() {
            return Err(ApiError::unavailable("The server is shutting down"));
        }
        let max = match kind {
            Kind::Taken => self.limits.streams_max,
            Kind::Tls => self.limits.tls_max.min(self.limits.streams_max),
        };
        feed.enter(kind, max).ok_or_else(too_many_streams)
    }

    fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// Turns the wheel until the server closes.
    fn turn_wheel(&self) -> impl Future<Output = ()> + Send + 'static {
        let (hubs, bells, counts) = (Arc::clone(&self.hubs), self.bells.clone(), Arc::clone(&self.counts));
        let mut closing = self.closing.subscribe();
        let mut turns = tokio::time::interval(tick_length(self.limits.keep_alive));
        turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
        async move {
            for tick in 1.. {
                tokio::select! {
                    _ = turns.tick() => {}
                    _ = closing.wait_for(|closing| *closing) => return,
                }
                bells.ring(tick);
                if counts.open(Kind::Taken) > 0 {
                    hubs.iter().for_each(|hub| hub.turn(tick));
                }
            }
        }
    }

    /// The one place where tasks of the live stream begin. Each watches `closing`, and the set ends with the server.
    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task);
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.close();
    }
}

/// GET `/watch`.
pub(crate) async fn watch(
    State(app): State<Arc<App>>,
    request: Request<Body>,
) -> Result<ApiResponse, ApiError> {
    let parameters = Parameters::of(request.uri())?;
    let room = app.named_room(parameters.one("room")?)?;
    if !accepts_event_stream(request.headers()) {
        return Err(ApiError::problem(Problem::NotAcceptable, format!("The answer is {EVENT_STREAM}")));
    }
    if request.method() == Method::HEAD {
        return Ok(streaming(Body::empty()));
    }
    let feed = app.watch.feed(&room);
    let known_edition = known_edition(request.headers());
    if let Some(takeout) = request.extensions().get::<Takeout>().cloned() {
        let watching = app.watch.enter(&feed, Kind::Taken)?;
        // Counted here, because the code that counts responses is dropped with hyper's connection.
        app.metrics.count_response("public", PATH, StatusCode::OK.as_u16());
        let adoption = Adoption { greeting: greeting(&app), known_edition, watching };
        let hubs = &app.watch.hubs;
        let next = usize::try_from(app.watch.number()).unwrap_or(0) % hubs.len();
        let hub = hubs[next].clone();
        match takeout.take(move |socket| hub.adopt(socket, adoption)).await {}
    }
    let client = request.extensions().get::<Peer>();
    let client = client.map(|peer| identify(peer, request.headers(), &app.identification).address);
    let client = client.map(|address| app.watch.limits.clients.take(address).ok_or_else(too_many_streams));
    let client = client.transpose()?;
    let watching = app.watch.enter(&feed, Kind::Tls)?;
    let frames = feed.subscribe();
    let frame = feed.present();
    let mut first = retry_hint().into_bytes();
    first.extend_from_slice(&frame.first_for(known_edition.as_deref()));
    let bell = app.watch.bells.subscribe(app.watch.number());
    let last_sent = *bell.borrow();
    let source = Source {
        first: Some(first.into()),
        sequence: frame.sequence,
        frames,
        last_sent,
        bell,
        counts: Arc::clone(&app.watch.counts),
        _watching: watching,
        _client: client,
    };
    Ok(streaming(Body::new(WatchBody::new(source, app.watch.limits.keep_alive))))
}

fn too_many_streams() -> ApiError {
    ApiError::unavailable("Too many live streams; poll instead, or try again shortly")
}

/// Whether the client takes a stream of events; the most specific range of its `Accept` decides.
fn accepts_event_stream(headers: &HeaderMap) -> bool {
    let lists = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut best: Option<(u8, bool)> = None;
    let mut said_nothing = true;
    for range in lists.flat_map(|list| list.split(',')).map(str::trim).filter(|range| !range.is_empty()) {
        said_nothing = false;
        let mut parts = range.split(';').map(str::trim);
        let specific = match parts.next().unwrap_or_default().to_ascii_lowercase().as_str() {
            EVENT_STREAM => 2,
            "text/*" => 1,
            "*/*" => 0,
            _ => continue,
        };
        let weight = parts.find_map(|part| part.strip_prefix("q=").or(part.strip_prefix("Q=")));
        let wanted =
            weight.is_none_or(|weight| weight.trim().parse::<f32>().is_ok_and(|weight| weight > 0.0));
        if best.is_none_or(|(before, _)| specific > before) {
            best = Some((specific, wanted));
        }
    }
    said_nothing || best.is_some_and(|(_, wanted)| wanted)
}

/// The edition a client that comes back has seen last.
fn known_edition(headers: &HeaderMap) -> Option<String> {
    let edition = headers.get(LAST_EVENT_ID)?.to_str().ok()?;
    (edition.len() <= EDITION_MAX_BYTES).then(|| edition.to_owned())
}

/// The answer of a stream that stays in hyper.
fn streaming(body: Body) -> ApiResponse {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(EVENT_STREAM));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(ACCEL_BUFFERING, HeaderValue::from_static("no"));
    mark_cross_origin(headers);
    response
}

/// The same for a stream that leaves it, as bytes. It ends with its connection.
fn greeting(app: &App) -> Vec<u8> {
    let date = http_date(app.now());
    let retry = retry_hint();
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: {EVENT_STREAM}\r\ncache-control: no-store\r\naccess-control-allow-origin: *\r\n\
         x-accel-buffering: no\r\nconnection: close\r\ndate: {date}\r\n\r\n{retry}"
    )
    .into_bytes()
}

/// When to come back after the end.
fn retry_hint() -> String {
    let spread = RETRY_MAX_MILLIS - RETRY_MIN_MILLIS + 1;
    format!("retry: {}\n\n", RETRY_MIN_MILLIS + u32::from_le_bytes(random::bytes()) % spread)
}

#[cfg(test)]
mod request_tests {
    use super::*;

    fn accepts(values: &[&'static str]) -> bool {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(header::ACCEPT, HeaderValue::from_static(value));
        }
        accepts_event_stream(&headers)
    }

    #[test]
    fn the_most_specific_range_decides_what_is_accepted() {
        for accepted in [
            &[][..],
            &[""],
            &["text/event-stream"],
            &["Text/Event-Stream; q=0.1"],
            &["text/html, */*"],
            &["text/html", "text/*;q=0.5"],
            &["*/*;q=0, text/event-stream"],
        ] {
            assert!(accepts(accepted), "{accepted:?}");
        }
        for refused in [
            &["text/html"][..],
            &["application/json, text/plain"],
            &["text/event-stream;q=0"],
            &["text/event-stream; q=0.0, */*"],
            &["text/*;q=0", "*/*"],
            &["*/*;q=nonsense"],
        ] {
            assert!(!accepts(refused), "{refused:?}");
        }
    }

    #[test]
    fn clients_are_sent_back_at_different_moments() {
        let mut hints: Vec<u32> = Vec::new();
        for _ in 0..200 {
            let hint = retry_hint();
            let millis = hint.strip_prefix("retry: ").and_then(|rest| rest.strip_suffix("\n\n")).unwrap();
            hints.push(millis.parse().unwrap());
        }
        assert!(hints.iter().all(|hint| (RETRY_MIN_MILLIS..=RETRY_MAX_MILLIS).contains(hint)), "{hints:?}");
        hints.sort_unstable();
        hints.dedup();
        assert!(hints.len() > 100, "{} different ones of 200", hints.len());
    }

    #[test]
    fn sockets_are_taken_out_on_the_path_and_under_the_prefix() {
        assert_eq!(WATCH_PATHS, [PATH, &format!("{}{PATH}", crate::http::routes::PREFIX)]);
    }
}
