//! GET `/events`: what happens, as server-sent events out of the outbox. A reader that comes back says where it was and misses nothing
//! that is still kept.

use std::io::Write as _;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use anteroom_core::{EventClass, EventKinds, RoomId, UnixMillis};
use anteroom_events::EventMessage;
use anteroom_events::destination::kinds_of;
use anteroom_store::clock::Stopwatch;
use anteroom_store::{OutboxState, StoreError, StoredEvent};
use axum::extract::State;
use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderValue};
use hyper::body::{Body as HyperBody, Frame};
use tokio::sync::watch;

use crate::access::{Permission, Principal};
use crate::app::App;
use crate::http::error::ApiError;
use crate::http::request::Parameters;
use crate::http::response::ApiResponse;
use crate::ops::events::last_before;

/// How many streams of events one node holds.
pub(crate) const EVENT_STREAMS_MAX: usize = 32;
/// How many events are read at a time.
const PAGE: usize = 200;
/// How often the outbox is read at most for one stream.
const READ_INTERVAL: Duration = Duration::from_millis(100);
/// How often it is read although nobody said that there is more.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// How often a quiet stream says that it lives.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
type Shared = State<Arc<App>>;
type Outcome = Result<ApiResponse, ApiError>;

const LAST_EVENT_ID: &str = "last-event-id";

/// How many streams of events are open.
#[derive(Debug, Default)]
pub(crate) struct EventStreams(Arc<AtomicUsize>);

/// The right to one stream, until it is dropped.
struct StreamPermit(Arc<AtomicUsize>);

impl Drop for StreamPermit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl EventStreams {
    fn acquire(&self) -> Option<StreamPermit> {
        let taken = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |open| {
            (open < EVENT_STREAMS_MAX).then_some(open + 1)
        });
        taken.ok().map(|_| StreamPermit(self.0.clone()))
    }

    /// How many are open.
    pub(crate) fn open(&self) -> u64 {
        self.0.load(Ordering::Relaxed) as u64
    }
}

/// Which events a stream has.
struct Filter {
    room: Option<RoomId>,
    kinds: EventKinds,
    with_request_ids: bool,
}

impl Filter {
    fn takes(&self, stored: &StoredEvent) -> bool {
        let is_of_room = self.room.is_none() || stored.room == self.room;
        is_of_room && self.kinds.contains(stored.event.kind())
    }

    /// What to say of events that are not there any more, and where to go on: where numbers were dropped, or taken back since `before`.
    fn gap(&self, now: &OutboxState, before: Option<&OutboxState>, after: u64) -> (Option<String>, u64) {
        let is_emptied = before.is_some_and(|before| before.incarnation != now.incarnation);
        let is_taken_back = before.is_some_and(|before| before.history != now.history);
        if is_emptied || after > now.last {
            return (Some(gap_text(now.last)), if is_emptied || is_taken_back { 0 } else { now.last });
        }
        let classes = EventClass::ALL.into_iter();
        let wanted = classes.filter(|&class| self.kinds.iter().any(|kind| kind.class() == class));
        let through = wanted.map(|class| now.dropped(class).through).max().unwrap_or(0);
        let was_known = before.is_some_and(|before| before.room == now.room && before.visitor == now.visitor);
        ((through > after && !was_known).then(|| gap_text(through)), after)
    }
}

/// GET `/events`.
pub(crate) async fn events(
    State(app): Shared,
    principal: Principal,
    headers: HeaderMap,
    parameters: Parameters,
) -> Outcome {
    let room = match parameters.one("room")? {
        None => None,
        Some(name) => {
            Some(RoomId::parse(name).map_err(|_| ApiError::bad_request("`room` is not a room's name"))?)
        }
    };
    let kinds = match parameters.one("types")? {
        None => EventKinds::all(),
        Some(patterns) => kinds_of(patterns.split(',').map(str::trim)).map_err(|unknown| {
            ApiError::bad_request(format!("`types` names no kind of event by `{unknown}`"))
        })?,
    };
    let follow = match parameters.one("follow")? {
        None | Some("true") => true,
        Some("false") => false,
        Some(_) => return Err(ApiError::bad_request("`follow` is `true` or `false`")),
    };
    let store = app.engine.store();
    let number = |text: &str, what: &str| {
        text.parse::<u64>()
            .map_err(|_| ApiError::bad_request(format!("{what} is not the number of an event")))
    };
    let resumed = headers.get(LAST_EVENT_ID).map(|value| value.to_str().unwrap_or_default());
    let outbox = store.outbox().await?;
    let after = match (resumed, parameters.one("after")?, parameters.one("since")?) {
        (Some(id), ..) => number(id, "`Last-Event-ID`")?,
        (None, Some(_), Some(_)) => {
            return Err(ApiError::bad_request("`after` and `since` exclude each other"));
        }
        (None, Some(after), None) => number(after, "`after`")?,
        (None, None, Some(since)) => {
            let moment: jiff::Timestamp = since
                .parse()
                .map_err(|_| ApiError::bad_request("`since` is a moment such as 2026-11-19T20:00:00Z"))?;
            let moment = UnixMillis(u64::try_from(moment.as_millisecond()).unwrap_or(0));
            last_before(&**store, moment).await?.unwrap_or(0)
        }
        // What is to come; or, without following, everything there is.
        (None, None, None) => {
            if follow {
                outbox.last
            } else {
                0
            }
        }
    };
    let permit = app
        .event_streams
        .acquire()
        .ok_or_else(|| ApiError::unavailable("There are too many streams of events; try again later"))?;
    let filter = Filter { room, kinds, with_request_ids: principal.role.may(Permission::Operate) };
    let mut first = String::from(": events of Anteroom\nretry: 1000\n\n");
    // Who says where they were is told of what is not there any more.
    let has_begun = resumed.is_some() || after > 0;
    let (gap, after) = if has_begun { filter.gap(&outbox, None, after) } else { (None, after) };
    first.extend(gap);
    let source = Source {
        growth: app.engine.outbox().growth(),
        principal,
        outbox,
        stop: app.closing.subscribe(),
        app,
        filter,
        after,
        follow,
        first: Some(Bytes::from(first)),
        last_read: None,
        last_sent: Stopwatch::start(),
        _permit: permit,
    };
    let body = axum::body::Body::new(EventBody { next: Some(Box::pin(source.next())) });
    let mut response = ApiResponse::new(body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(response)
}

/// Events as they are written, and whether there are no more of them now.
struct Page {
    text: Vec<u8>,
    is_last: bool,
}

/// Where the bytes of a stream come from.
struct Source {
    app: Arc<App>,
    filter: Filter,
    after: u64,
    follow: bool,
    first: Option<Bytes>,
    growth: watch::Receiver<u64>,
    /// Whose stream it is: it ends with the key.
    principal: Principal,
    outbox: OutboxState,
    stop: watch::Receiver<bool>,
    last_read: Option<Stopwatch>,
    last_sent: Stopwatch,
    _permit: StreamPermit,
}

impl Source {
    /// The next bytes, or nothing more.
    async fn next(mut self) -> Option<(Self, Result<Bytes, StoreError>)> {
        if let Some(first) = self.first.take() {
            return Some((self, Ok(first)));
        }
        loop {
            if !self.app.access.keys.is_valid(&self.principal, self.app.now()) {
                return None;
            }
            let page = match self.page().await {
                Ok(page) => page,
                // Where it is to end with what there is, half of it must not look like all of it.
                Err(error) if !self.follow => return Some((self, Err(error))),
                Err(_) => Page { text: vec![], is_last: true },
            };
            if !page.text.is_empty() {
                self.last_sent = Stopwatch::start();
                return Some((self, Ok(Bytes::from(page.text))));
            }
            if !page.is_last {
                // An embedded store reads without waiting: others have their turn.
                tokio::task::yield_now().await;
                continue;
            }
            if !self.follow || !self.wait().await {
                return None;
            }
            if self.last_sent.elapsed() >= KEEP_ALIVE {
                self.last_sent = Stopwatch::start();
                return Some((self, Ok(Bytes::from_static(b": keep-alive\n\n"))));
            }
        }
    }

    /// The next events, as they are written.
    async fn page(&mut self) -> Result<Page, StoreError> {
        let store = self.app.engine.store();
        let mut text = vec![];
        if self.follow {
            let outbox = store.outbox().await?;
            let (gap, after) = self.filter.gap(&outbox, Some(&self.outbox), self.after);
            text.extend_from_slice(gap.unwrap_or_default().as_bytes());
            (self.outbox, self.after) = (outbox, after);
        }
        let events = store.events(self.after, PAGE).await?;
        self.last_read = Some(Stopwatch::start());
        for (number, stored) in &events {
            self.after = *number;
            if self.filter.takes(stored) {
                let message = EventMessage::of(*number, stored);
                let _ = write!(text, "id: {number}\nevent: {}\ndata: ", message.kind);
                message.write_json(self.filter.with_request_ids, &mut text);
                text.extend_from_slice(b"\n\n");
            }
        }
        Ok(Page { text, is_last: events.len() < PAGE })
    }

    /// Waits until there may be more; false where the server closes.
    async fn wait(&mut self) -> bool {
        let growing = async {
            let grown = tokio::time::timeout(LOOK_INTERVAL, self.growth.changed()).await;
            if !matches!(grown, Ok(Err(_))) {
                let since = self.last_read.map_or(READ_INTERVAL, |read| read.elapsed());
                tokio::time::sleep(READ_INTERVAL.saturating_sub(since)).await;
            }
        };
        tokio::select! {
            () = growing => true,
            _ = self.stop.wait_for(|stopped| *stopped) => false,
        }
    }
}

fn gap_text(through: u64) -> String {
    format!("event: gap\ndata: {{\"dropped_through\":{through}}}\n\n")
}

type Next = Pin<Box<dyn Future<Output = Option<(Source, Result<Bytes, StoreError>)>> + Send>>;

/// The body of one stream.
struct EventBody {
    /// Nothing after the end.
    next: Option<Next>,
}

impl HyperBody for EventBody {
    type Data = Bytes;
    type Error = StoreError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, StoreError>>> {
        let this = self.get_mut();
        let Some(next) = &mut this.next else { return Poll::Ready(None) };
        match next.as_mut().poll(context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(None) => {
                this.next = None;
                Poll::Ready(None)
            }
            Poll::Ready(Some((source, bytes))) => {
                // After an error there is nothing more.
                this.next = bytes.is_ok().then(|| Box::pin(source.next()) as Next);
                Poll::Ready(Some(bytes.map(Frame::data)))
            }
        }
    }
}
