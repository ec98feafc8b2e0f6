//! The sockets that were taken out of hyper: a few threads, each with its own epoll and a table of the streams it holds.
//!
//! A held stream costs its entry in the table and nothing else: no task, no timer, no buffer. What there is to send is the same
//! bytes for everybody ([`super::feed`]), so a hub only goes through its streams and writes. A client that does not take
//! a frame at once is closed: its kernel buffer is full of what it has not read, and it can come back for the present board.
//!
//! A hub is a thread rather than a task because sending costs 10 to 15 µs of kernel time each, and thousands are sent in a row. On
//! the runtime's threads every slice would delay the requests queued behind it; here the kernel's scheduler shares the cores out.
//! Between slices the hub takes in who comes and lets go who leaves.

mod group;

use std::collections::{HashMap, VecDeque};
use std::io::{self, ErrorKind, Read, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token, Waker};
use slab::Slab;
use socket2::SockRef;

use self::group::Group;
use super::counts::{Counts, PushClock, add};
use super::feed::{ALIVE, Frame, Watching};
use super::wheel::{SLOTS, Tick, is_quiet, slot_of};
use crate::http::listener::takeout::Socket;
use crate::http::listener::{Slot, WRITE_STALL_TIMEOUT};

/// How many streams are handled before the hub looks for joined and closed streams. At 15 µs a send, 4 ms.
const SLICE_STREAMS: usize = 256;
/// Events taken from the kernel at once.
const EVENTS_MAX: usize = 1_024;
/// The kernel's send buffer of one stream. A few dozen boards; without this a client that never reads could hold megabytes.
const SEND_BUFFER_BYTES: usize = 16 * 1024;
/// How much a client may still send once its stream has begun. There is nothing left to say, but some send a body with a GET.
const DISCARD_MAX_BYTES: usize = 16 * 1024;
/// The inbox's token; streams have small ones.
const INBOX: Token = Token(usize::MAX);

/// A stream to be added to a hub.
pub(super) struct Adoption {
    /// Status line, header, and what stands before the first event.
    pub(super) greeting: Vec<u8>,
    /// The edition that the client has already, if it comes back.
    pub(super) known_edition: Option<String>,
    pub(super) watching: Watching,
}

/// A command to a hub.
enum Command {
    Adopt(std::net::TcpStream, Slot, Adoption),
    Push { feed: u64, frame: Arc<Frame>, clock: Arc<PushClock> },
    Turn(Tick),
    Close,
}

/// A hub as everybody else sees it.
#[derive(Clone)]
pub(super) struct Hub(Arc<Inbox>);

/// Commands wait here for the end of a slice. Their number is bounded: a stream to be added holds one of the listener's
/// slots,
/// and a room pushes once in each interval.
struct Inbox {
    waiting: Mutex<Waiting>,
    waker: Waker,
}

#[derive(Default)]
struct Waiting {
    commands: Vec<Command>,
    /// Nobody will look any more; what comes is dropped.
    closed: bool,
}

impl Hub {
    /// Starts a hub's thread.
    pub(super) fn start(number: usize, counts: &Arc<Counts>) -> io::Result<Self> {
        let poll = Poll::new()?;
        let inbox = Arc::new(Inbox { waiting: Mutex::default(), waker: Waker::new(poll.registry(), INBOX)? });
        let rounds = Rounds {
            poll,
            streams: Slab::new(),
            groups: HashMap::new(),
            work: VecDeque::new(),
            tick: 0,
            counts: Arc::clone(counts),
        };
        let ending = CloseAtEnd(Arc::clone(&inbox));
        std::thread::Builder::new().name(format!("watch-{number}")).spawn(move || rounds.run(&ending.0))?;
        Ok(Self(inbox))
    }

    /// Adds a stream. It is sent the greeting, the present board, and then what the others are sent.
    pub(super) fn adopt(&self, socket: Socket, adoption: Adoption) {
        // Fails for a socket that is broken; then there is nobody to greet.
        if let Ok(stream) = socket.stream.into_std() {
            self.tell(Command::Adopt(stream, socket.slot, adoption));
        }
    }

    /// Sends a frame to everybody who watches a feed.
    pub(super) fn push(&self, feed: u64, frame: Arc<Frame>, clock: Arc<PushClock>) {
        self.tell(Command::Push { feed, frame, clock });
    }

    /// Turns the wheel.
    pub(super) fn turn(&self, tick: Tick) {
        self.tell(Command::Turn(tick));
    }

    /// Closes every stream, and ends.
    pub(super) fn close(&self) {
        self.tell(Command::Close);
    }

    fn tell(&self, command: Command) {
        let mut waiting = self.0.waiting();
        if waiting.closed {
            return;
        }
        let was_empty = waiting.commands.is_empty();
        waiting.commands.push(command);
        drop(waiting);
        // Fails only if the eventfd is broken, and then every poll of the hub fails too.
        if was_empty && let Err(error) = self.0.waker.wake() {
            tracing::error!(%error, "waking a hub of live streams failed");
        }
    }
}

impl Inbox {
    /// No invariant spans two statements, so a panic elsewhere leaves nothing half done.
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// However the thread ends, nothing is left waiting for it.
struct CloseAtEnd(Arc<Inbox>);

impl Drop for CloseAtEnd {
    fn drop(&mut self) {
        *self.0.waiting() = Waiting { commands: Vec::new(), closed: true };
    }
}

/// One held stream: all the memory it costs.
struct Stream {
    socket: TcpStream,
    watching: Watching,
    /// The last frame it was sent.
    sequence: u64,
    last_sent: Tick,
    /// Its place in its group.
    place: u32,
    discarded: u16,
    /// Freed with the socket.
    _slot: Slot,
}

/// Something that takes more than one slice.
enum Work {
    /// Frames of a feed.
    Push { feed: u64 },
    /// Comments for the quiet ones of a slot, from this key on.
    KeepAlive { next: usize },
}

/// The hub's own side.
struct Rounds {
    poll: Poll,
    streams: Slab<Stream>,
    /// The streams of each feed.
    groups: HashMap<u64, Group>,
    work: VecDeque<Work>,
    tick: Tick,
    counts: Arc<Counts>,
}

impl Rounds {
    fn run(mut self, inbox: &Inbox) {
        let mut events = Events::with_capacity(EVENTS_MAX);
        loop {
            let timeout = (!self.work.is_empty()).then_some(Duration::ZERO);
            match self.poll.poll(&mut events, timeout) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => {
                    tracing::error!(%error, "hub of live streams failed, closing its streams");
                    return;
                }
            }
            for event in &events {
                if event.token() != INBOX {
                    self.discard_input(event.token().0);
                }
            }
            let commands = std::mem::take(&mut inbox.waiting().commands);
            for command in commands {
                match command {
                    Command::Adopt(socket, slot, adoption) => self.adopt(socket, slot, adoption),
                    Command::Push { feed, frame, clock } => self.begin_push(feed, frame, clock),
                    Command::Turn(tick) => self.turn(tick),
                    Command::Close => return,
                }
            }
            self.work_a_slice();
        }
    }

    fn adopt(&mut self, socket: std::net::TcpStream, slot: Slot, adoption: Adoption) {
        let Adoption { mut greeting, known_edition, watching } = adoption;
        let frame = watching.feed.present();
        greeting.extend_from_slice(&frame.first_for(known_edition.as_deref()));
        let options = SockRef::from(&socket);
        // Without these a client that vanished, or never reads, is noticed later and costs the kernel more; no reason to refuse.
        let _ = options.set_send_buffer_size(SEND_BUFFER_BYTES);
        let _ = options.set_tcp_user_timeout(Some(WRITE_STALL_TIMEOUT));
        let mut socket = TcpStream::from_std(socket);
        let feed = watching.feed.number;
        let entry = self.streams.vacant_entry();
        let key = entry.key();
        if self.poll.registry().register(&mut socket, Token(key), Interest::READABLE).is_err() {
            return;
        }
        let (sequence, last_sent) = (frame.sequence, self.tick);
        let place = self.groups.entry(feed).or_insert_with(|| Group::new(Arc::clone(&frame))).add(key);
        entry.insert(Stream { socket, watching, sequence, last_sent, place, discarded: 0, _slot: slot });
        if self.send(key, &greeting.into()) {
            add(&self.counts.events, 1);
            if frame.last {
                self.remove(key);
            }
        }
    }

    /// Reads what a client sends, which nobody asked for, and notices that it leaves.
    fn discard_input(&mut self, key: usize) {
        let mut buffer = [0; 1_024];
        loop {
            let Some(stream) = self.streams.get_mut(key) else { return };
            match stream.socket.read(&mut buffer) {
                Ok(read) if read > 0 => {
                    let discarded = usize::from(stream.discarded) + read;
                    stream.discarded = u16::try_from(discarded).unwrap_or(u16::MAX);
                    if discarded > DISCARD_MAX_BYTES {
                        return self.remove(key);
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Ok(_) | Err(_) => return self.remove(key),
            }
        }
    }

    fn begin_push(&mut self, feed: u64, frame: Arc<Frame>, clock: Arc<PushClock>) {
        if let Some(group) = self.groups.get_mut(&feed)
            && group.begin(frame, clock)
        {
            self.work.push_back(Work::Push { feed });
        }
    }

    fn turn(&mut self, tick: Tick) {
        self.tick = tick;
        // A round that has not come to its end goes on in the new slot: who is late is served by the next turn of its own.
        self.work.retain(|work| !matches!(work, Work::KeepAlive { .. }));
        self.work.push_back(Work::KeepAlive { next: slot_of(tick) });
    }

    fn work_a_slice(&mut self) {
        let more = match self.work.pop_front() {
            None => return,
            Some(Work::Push { feed }) => self.push_a_slice(feed).then_some(Work::Push { feed }),
            Some(Work::KeepAlive { next }) => {
                self.keep_alive_a_slice(next).map(|next| Work::KeepAlive { next })
            }
        };
        self.work.extend(more);
        if !self.work.is_empty() {
            std::thread::yield_now();
        }
    }

    /// Sends a feed's frame to the next streams; returns whether there are more.
    fn push_a_slice(&mut self, feed: u64) -> bool {
        let mut sent = 0;
        let mut more = true;
        for _ in 0..SLICE_STREAMS {
            let Some((key, frame)) = self.groups.get_mut(&feed).and_then(Group::next) else {
                more = false;
                break;
            };
            let Some(stream) = self.streams.get_mut(key) else { continue };
            if stream.sequence >= frame.sequence {
                continue;
            }
            stream.sequence = frame.sequence;
            if frame.bytes.is_empty() || self.send(key, &frame.bytes) {
                sent += 1;
                if frame.last {
                    self.remove(key);
                }
            }
        }
        add(&self.counts.events, sent);
        more
    }

    /// Sends a keep-alive to the quiet ones among the next streams of a slot; returns where to go on.
    fn keep_alive_a_slice(&mut self, first: usize) -> Option<usize> {
        let mut sent = 0;
        let end = self.streams.capacity();
        let mut slice = (first..end).step_by(SLOTS).take(SLICE_STREAMS);
        for key in slice.clone() {
            let quiet = self.streams.get(key).is_some_and(|stream| is_quiet(self.tick, stream.last_sent));
            if quiet && self.send(key, &ALIVE) {
                sent += 1;
            }
        }
        add(&self.counts.keep_alives, sent);
        slice.next_back().map(|last| last + SLOTS).filter(|next| *next < end)
    }

    /// Writes to a stream at once and whole, or closes it; returns whether it is still there.
    fn send(&mut self, key: usize, bytes: &Bytes) -> bool {
        let Some(stream) = self.streams.get_mut(key) else { return false };
        let taken = stream.socket.write(bytes);
        if matches!(taken, Ok(count) if count == bytes.len()) {
            stream.last_sent = self.tick;
            return true;
        }
        let is_slow = match taken {
            Ok(_) => true,
            Err(error) => matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
        };
        add(&self.counts.slow_readers, u64::from(is_slow));
        self.remove(key);
        false
    }

    /// Closes a stream.
    fn remove(&mut self, key: usize) {
        let Some(stream) = self.streams.try_remove(key) else { return };
        let feed = stream.watching.feed.number;
        let Some(group) = self.groups.get_mut(&feed) else { return };
        if let Some(moved) = group.remove(stream.place)
            && let Some(stream_moved) = self.streams.get_mut(moved)
        {
            stream_moved.place = stream.place;
        }
        if group.is_empty() {
            self.groups.remove(&feed);
        }
    }
}
