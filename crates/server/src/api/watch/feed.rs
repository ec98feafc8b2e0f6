//! What the watchers of one room are sent: frames, made once and the same bytes for all.
//!
//! A board says everything and a newer one replaces it, so nobody ever needs a frame that was missed. The pacer
//! ([`Feed::pace`]) sends a new board to all at once if the last one is long enough ago, else when that time has come, and then
//! the board of that moment: however often the room changes, there are few frames, and the last state always arrives.
//!
//! While the store is lost, each frame ends with an event that says how old its board may be. So a board without that event behind
//! it is fresh, whatever was missed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use anteroom_engine::RoomHandle;
use anteroom_store::clock::Stopwatch;
use bytes::Bytes;
use serde_json::json;
use tokio::sync::watch;

use super::counts::{Counts, Kind, PushClock, add};
use super::hub::Hub;
use crate::app::ServedRoom;

/// What the stream says when it has nothing to say. An event and not a comment: browsers hide comments from scripts, which then cannot
/// tell a quiet stream from one that has died without a word.
pub(super) const ALIVE: Bytes = Bytes::from_static(b"event: alive\ndata: 1\n\n");

/// Something to send.
#[derive(Debug, Default)]
pub(super) struct Frame {
    /// Rises with every frame of a feed, so that nobody is sent an older one after a newer one.
    pub(super) sequence: u64,
    /// How many seconds ago its board was known to be right, while the store is lost.
    pub(super) staleness: Option<u64>,
    /// What is said about that: the end of `bytes`.
    pub(super) notice: Bytes,
    /// The event's id, which a client that comes back shows as `Last-Event-ID`.
    pub(super) edition: String,
    /// The event as it is sent; empty if there is nothing to say.
    pub(super) bytes: Bytes,
    /// Whether the stream ends here.
    pub(super) last: bool,
}

impl Frame {
    /// The first frame of a feed, or the next after another.
    fn of_board(after: Option<&Self>, room: &ServedRoom, staleness: Option<u64>) -> Self {
        let prepared = room.prepared();
        let was_stale = after.is_some_and(|frame| frame.staleness.is_some());
        let notice = if staleness.is_some() || was_stale {
            let data = json!({"room": room.handle.id().as_str(), "stale_seconds": staleness.unwrap_or(0)});
            Bytes::from(format!("event: stale\ndata: {data}\n\n"))
        } else {
            Bytes::new()
        };
        let edition = prepared.edition().to_owned();
        let mut bytes = format!("event: board\nid: {edition}\ndata: ").into_bytes();
        bytes.extend_from_slice(&prepared.figures().body);
        bytes.extend_from_slice(b"\n\n");
        bytes.extend_from_slice(&notice);
        let sequence = after.map_or(0, |frame| frame.sequence) + 1;
        Self { sequence, staleness, notice, edition, bytes: bytes.into(), last: false }
    }

    /// What a client that knows this edition, or another or none, is sent first.
    pub(super) fn first_for(&self, known_edition: Option<&str>) -> Bytes {
        if self.last || known_edition != Some(self.edition.as_str()) {
            self.bytes.clone()
        } else if self.notice.is_empty() {
            ALIVE
        } else {
            self.notice.clone()
        }
    }
}

/// One room's stream.
pub(crate) struct Feed {
    /// Tells feeds apart; a room that is deleted and made again has another one.
    pub(super) number: u64,
    /// Gone when the room is: the view holds its feed.
    room: Weak<ServedRoom>,
    handle: Arc<RoomHandle>,
    /// The newest frame. Its maker holds the lock while it reads the board, so that frames are in the order of boards.
    newest: Mutex<Arc<Frame>>,
    staleness: watch::Receiver<Option<u64>>,
    /// The last frame that was sent to all.
    pushed: watch::Sender<Arc<Frame>>,
    watchers: AtomicU64,
    counts: Arc<Counts>,
}

impl Feed {
    pub(super) fn new(
        number: u64,
        room: &Arc<ServedRoom>,
        staleness: watch::Receiver<Option<u64>>,
        counts: &Arc<Counts>,
    ) -> Self {
        let frame = Arc::new(Frame::of_board(None, room, *staleness.borrow()));
        Self {
            number,
            room: Arc::downgrade(room),
            handle: Arc::clone(&room.handle),
            newest: Mutex::new(Arc::clone(&frame)),
            staleness,
            pushed: watch::Sender::new(frame),
            watchers: AtomicU64::new(0),
            counts: Arc::clone(counts),
        }
    }

    /// The present board's frame; the last one of a feed that has ended.
    pub(super) fn present(&self) -> Arc<Frame> {
        let mut newest = self.newest();
        if let Some(room) = self.room.upgrade().filter(|_| !newest.last) {
            let staleness = *self.staleness.borrow();
            if room.prepared().edition() != newest.edition || staleness != newest.staleness {
                *newest = Arc::new(Frame::of_board(Some(&newest), &room, staleness));
            }
        }
        Arc::clone(&newest)
    }

    /// Hears every frame that is sent to all, or the newest of them.
    pub(super) fn subscribe(&self) -> watch::Receiver<Arc<Frame>> {
        self.pushed.subscribe()
    }

    /// Enters a watcher, unless there are `max` of its kind on this server already.
    pub(super) fn enter(self: &Arc<Self>, kind: Kind, max: u64) -> Option<Watching> {
        self.counts.enter(kind, max).then(|| {
            self.watchers.fetch_add(1, Ordering::SeqCst);
            Watching { feed: Arc::clone(self), kind }
        })
    }

    /// Sends new boards to all, at most one in each `interval`, until the room is gone or the server closes.
    pub(super) async fn pace(
        self: Arc<Self>,
        mut closing: watch::Receiver<bool>,
        interval: Duration,
        hubs: Arc<[Hub]>,
    ) {
        let (mut changes, mut staleness) = (self.handle.changes(), self.staleness.clone());
        let mut last_push: Option<Stopwatch> = None;
        loop {
            let next = async {
                tokio::select! {
                    news = changes.changed() => news.ok()?,
                    told = staleness.changed() => told.ok()?,
                }
                let since = last_push.as_ref().map_or(interval, Stopwatch::elapsed);
                tokio::time::sleep(interval.saturating_sub(since)).await;
                changes.borrow_and_update();
                staleness.borrow_and_update();
                Some(())
            };
            let due = tokio::select! {
                due = next => due,
                // A server that is gone altogether counts as closing.
                _ = closing.wait_for(|closing| *closing) => None,
            };
            if due.is_none() {
                break;
            }
            // A later watcher sees a board that is at least as new.
            if self.watchers.load(Ordering::SeqCst) == 0 {
                continue;
            }
            let frame = self.present();
            if frame.sequence > self.pushed.borrow().sequence {
                last_push = Some(Stopwatch::start());
                self.push(frame, &hubs);
            }
        }
        self.push(self.end(), &hubs);
    }

    fn push(&self, frame: Arc<Frame>, hubs: &[Hub]) {
        if !frame.last {
            add(&self.counts.pushes, 1);
        }
        let clock = PushClock::start(&self.counts);
        for hub in hubs {
            hub.push(self.number, Arc::clone(&frame), Arc::clone(&clock));
        }
        self.pushed.send_replace(frame);
    }

    /// The last frame of a feed. Where the room was deleted, it says so.
    fn end(&self) -> Arc<Frame> {
        let mut newest = self.newest();
        let bytes = if self.handle.is_deleted() {
            let data = json!({"room": self.handle.id().as_str()});
            Bytes::from(format!("event: gone\ndata: {data}\n\n"))
        } else {
            Bytes::new()
        };
        *newest = Arc::new(Frame { sequence: newest.sequence + 1, bytes, last: true, ..Frame::default() });
        Arc::clone(&newest)
    }

    /// A frame is replaced as a whole, so a panic elsewhere leaves nothing half done.
    fn newest(&self) -> MutexGuard<'_, Arc<Frame>> {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One stream, counted as long as this is there.
pub(super) struct Watching {
    pub(super) feed: Arc<Feed>,
    kind: Kind,
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.feed.watchers.fetch_sub(1, Ordering::SeqCst);
        self.feed.counts.leave(self.kind);
    }
}
