//! One connection through the proxy: two threads that read pieces, each from one side, and do with them what the mode
//! of that moment says.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use socket2::SockRef;

use super::faults::{Direction, Fault, Mode};
use crate::prng::Prng;
use crate::wait::now;

/// The largest piece.
const PIECE_MAX_BYTES: usize = 64 * 1024;
/// How long a write waits for a slow reader before it looks whether the connection is still wanted.
const WRITE_LOOK_INTERVAL: Duration = Duration::from_millis(50);
/// How long the server may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// What a proxy and its connections share.
#[derive(Debug)]
pub(super) struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    pub(super) counts: Counters,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) mode: Mode,
    /// Counts how often the mode was set.
    pub(super) epoch: u64,
    pub(super) upstream: SocketAddr,
    pub(super) connections: Vec<Weak<Connection>>,
}

impl Shared {
    pub(super) fn new(upstream: SocketAddr) -> Self {
        let state = State { mode: Mode::Pass, epoch: 0, upstream, connections: Vec::new() };
        Self { state: Mutex::new(state), changed: Condvar::new(), counts: Counters::default() }
    }

    /// Sets the mode, and tells those who wait for the end of a delay.
    pub(super) fn set_mode(&self, mode: Mode) {
        let mut state = self.state();
        state.mode = mode;
        state.epoch += 1;
        drop(state);
        self.changed.notify_all();
    }

    /// Wakes those who wait for the end of a delay, so that they look at what has changed before this call.
    pub(super) fn wake(&self) {
        // Nobody is then between having looked and beginning to wait.
        drop(self.state());
        self.changed.notify_all();
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere does not leave the state half changed: each change is one assignment.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a proxy has counted since it was started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Connections that were accepted.
    pub connections: u64,
    /// Pieces received from clients.
    pub requests: u64,
    /// Pieces that were held, either way.
    pub delays: u64,
    /// Pieces and ends that were swallowed, either way.
    pub black_holes: u64,
    /// Connections that were reset, other than by a cut.
    pub resets: u64,
    /// Connections that were cut after the server had answered.
    pub cuts: u64,
}

impl Counts {
    /// How many faults have happened.
    pub fn faults(&self) -> u64 {
        self.delays + self.black_holes + self.resets + self.cuts
    }
}

#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) connections: AtomicU64,
    requests: AtomicU64,
    delays: AtomicU64,
    black_holes: AtomicU64,
    pub(super) resets: AtomicU64,
    cuts: AtomicU64,
}

impl Counters {
    pub(super) fn read(&self) -> Counts {
        Counts {
            connections: self.connections.load(Ordering::Relaxed),
            requests: self.requests.load(Ordering::Relaxed),
            delays: self.delays.load(Ordering::Relaxed),
            black_holes: self.black_holes.load(Ordering::Relaxed),
            resets: self.resets.load(Ordering::Relaxed),
            cuts: self.cuts.load(Ordering::Relaxed),
        }
    }
}

/// A client and the server it is connected to. Both sockets are closed when the last of the two threads has ended.
#[derive(Debug)]
pub(super) struct Connection {
    client: TcpStream,
    server: TcpStream,
    number: u64,
    condition: Mutex<Condition>,
}

/// What has befallen one connection.
#[derive(Debug, Default)]
struct Condition {
    is_ended: bool,
    /// Something was swallowed.
    has_lost: bool,
    /// Swallows this way until it is closed.
    black_hole: Option<Direction>,
    /// The next answer is not delivered, but ends the connection.
    is_cut_at_answer: bool,
    /// The next answer is held for so long.
    answer_delay: Option<Duration>,
    /// The chances of this connection, and the epoch of the odds they belong to.
    random: Option<(u64, Prng)>,
}

/// What to do with a piece.
#[derive(Debug, Clone, Copy)]
enum Verdict {
    Deliver,
    DeliverAfter(Duration),
    Swallow,
    Reset,
    Cut,
}

/// Connects a client to the server and serves the connection to its end.
pub(super) fn serve(shared: &Arc<Shared>, client: TcpStream, number: u64) {
    let upstream = shared.state().upstream;
    let Ok(server) = TcpStream::connect_timeout(&upstream, CONNECT_TIMEOUT) else {
        // As if the client had come to the server itself.
        close_with_reset(&client);
        return;
    };
    for stream in [&client, &server] {
        // Options of a connection that is already gone cannot be set, and then its first read says so.
        let _set = stream.set_nodelay(true).and(stream.set_write_timeout(Some(WRITE_LOOK_INTERVAL)));
    }
    let connection = Arc::new(Connection { client, server, number, condition: Mutex::default() });
    {
        let mut state = shared.state();
        if matches!(state.mode, Mode::Refuse | Mode::Always(Fault::Reset)) {
            connection.reset();
            shared.counts.resets.fetch_add(1, Ordering::Relaxed);
            return;
        }
        state.connections.retain(|known| known.strong_count() > 0);
        state.connections.push(Arc::downgrade(&connection));
    }
    let (answers, shared_by_answers) = (Arc::clone(&connection), Arc::clone(shared));
    thread::spawn(move || answers.pump(&shared_by_answers, Direction::ToClient));
    connection.pump(shared, Direction::ToServer);
}

impl Connection {
    /// Whether it has lost something, or is about to: it must not be used any more.
    pub(super) fn is_spoilt(&self) -> bool {
        let condition = self.condition();
        condition.has_lost || condition.black_hole.is_some()
    }

    /// What was to happen to its next answer does not.
    pub(super) fn forget_plans(&self) {
        let mut condition = self.condition();
        (condition.is_cut_at_answer, condition.answer_delay) = (false, None);
    }

    /// Ends it with a reset towards both sides; false if it had been ended before.
    pub(super) fn reset(&self) -> bool {
        self.end(true)
    }

    /// Ends it. The client is reset; the server may finish reading what it was sent, unless it is reset too.
    fn end(&self, resets_server: bool) -> bool {
        if std::mem::replace(&mut self.condition().is_ended, true) {
            return false;
        }
        close_with_reset(&self.client);
        if resets_server {
            close_with_reset(&self.server);
        } else {
            let _closed = self.server.shutdown(Shutdown::Both);
        }
        true
    }

    fn condition(&self) -> MutexGuard<'_, Condition> {
        self.condition.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Moves pieces one way until the connection ends.
    fn pump(&self, shared: &Shared, direction: Direction) {
        let (mut from, to) = match direction {
            Direction::ToClient => (&self.server, &self.client),
            _ => (&self.client, &self.server),
        };
        let mut buffer = vec![0; PIECE_MAX_BYTES];
        loop {
            let read = match from.read(&mut buffer) {
                Ok(read @ 1..) => read,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Ok(_) | Err(_) => break,
            };
            if direction == Direction::ToServer {
                shared.counts.requests.fetch_add(1, Ordering::Relaxed);
            }
            if !self.handle(shared, direction, &buffer[..read], to) {
                return;
            }
        }
        self.pass_on_the_end(shared, direction, to);
    }

    /// Does with a piece what it should meet; false when the connection is over.
    fn handle(&self, shared: &Shared, direction: Direction, piece: &[u8], to: &TcpStream) -> bool {
        loop {
            let (verdict, epoch) = self.judge(shared, direction);
            match verdict {
                Verdict::Deliver => return self.deliver(piece, to),
                Verdict::DeliverAfter(delay) => {
                    shared.counts.delays.fetch_add(1, Ordering::Relaxed);
                    if self.wait(shared, epoch, delay) {
                        return self.deliver(piece, to);
                    }
                    // The mode was set meanwhile, so the piece is judged by the new one.
                }
                Verdict::Swallow => {
                    shared.counts.black_holes.fetch_add(1, Ordering::Relaxed);
                    return true;
                }
                Verdict::Reset => {
                    if self.end(true) {
                        shared.counts.resets.fetch_add(1, Ordering::Relaxed);
                    }
                    shared.wake();
                    return false;
                }
                Verdict::Cut => {
                    if self.end(false) {
                        shared.counts.cuts.fetch_add(1, Ordering::Relaxed);
                    }
                    shared.wake();
                    return false;
                }
            }
        }
    }

    /// Decides over a piece, and notes on the connection what will happen to later ones; also in which epoch.
    fn judge(&self, shared: &Shared, direction: Direction) -> (Verdict, u64) {
        let mut state = shared.state();
        let mut condition = self.condition();
        let epoch = state.epoch;
        if condition.is_ended {
            return (Verdict::Reset, epoch);
        }
        let fault = match &state.mode {
            Mode::Pass | Mode::Refuse => None,
            Mode::Once(_) | Mode::Random(_) if direction == Direction::ToClient => None,
            Mode::Always(fault) | Mode::Once(fault) => Some(*fault),
            Mode::Random(odds) => {
                let known = condition.random.take().filter(|(known, _)| *known == epoch);
                let (_, mut random) =
                    known.unwrap_or((epoch, Prng::from_seed_and_stream(odds.seed, self.number)));
                let met = odds.roll(&mut random);
                condition.random = Some((epoch, random));
                met
            }
        };
        if direction == Direction::ToServer && matches!(state.mode, Mode::Once(_)) {
            state.mode = Mode::Pass;
        }
        let lasts = matches!(state.mode, Mode::Always(_));
        (condition.verdict(fault, lasts, direction), epoch)
    }

    /// Waits for the end of a delay; false if the mode was set or the connection ended before.
    fn wait(&self, shared: &Shared, epoch: u64, delay: Duration) -> bool {
        let started = now();
        let mut state = shared.state();
        loop {
            let left = delay.saturating_sub(started.elapsed());
            if state.epoch != epoch || self.condition().is_ended {
                return false;
            }
            if left.is_zero() {
                return true;
            }
            (state, _) = shared.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Writes a whole piece, for as long as the connection is wanted; false when it is over.
    fn deliver(&self, mut piece: &[u8], mut to: &TcpStream) -> bool {
        while !piece.is_empty() {
            if self.condition().is_ended {
                return false;
            }
            match to.write(piece) {
                Ok(written) => piece = &piece[written..],
                Err(error) if is_read_timeout(error.kind()) => {}
                Err(_) => {
                    self.end(true);
                    return false;
                }
            }
        }
        true
    }

    /// One side has closed: so does the other one, unless that direction is a black hole.
    fn pass_on_the_end(&self, shared: &Shared, direction: Direction, to: &TcpStream) {
        let state = shared.state();
        let mut condition = self.condition();
        let swallows = |fault| matches!(fault, Fault::BlackHole(hole) if hole.covers(direction));
        let by_mode = matches!(state.mode, Mode::Always(fault) if swallows(fault));
        if by_mode || condition.black_hole.is_some_and(|hole| hole.covers(direction)) {
            condition.has_lost = true;
            shared.counts.black_holes.fetch_add(1, Ordering::Relaxed);
        } else if !condition.is_ended {
            let _shut_down = to.shutdown(Shutdown::Write);
        }
    }
}

impl Condition {
    /// What a piece that meets this fault, or none, has to expect; `lasts` if the fault is everybody's for now.
    fn verdict(&mut self, fault: Option<Fault>, lasts: bool, direction: Direction) -> Verdict {
        let is_request = direction == Direction::ToServer;
        let mut verdict = Verdict::Deliver;
        match fault {
            Some(Fault::Delay(way, delay)) if way.covers(direction) => verdict = Verdict::DeliverAfter(delay),
            Some(Fault::Delay(_, delay)) if !lasts => self.answer_delay = Some(delay),
            Some(Fault::BlackHole(way)) if lasts && way.covers(direction) => verdict = Verdict::Swallow,
            Some(Fault::BlackHole(way)) if !lasts => self.black_hole = Some(way),
            Some(Fault::Reset) => verdict = Verdict::Reset,
            Some(Fault::CutAfterSending) if is_request => self.is_cut_at_answer = true,
            _ => {}
        }
        if !is_request {
            if let Some(delay) = self.answer_delay.take() {
                verdict = Verdict::DeliverAfter(delay);
            }
            if self.is_cut_at_answer {
                verdict = Verdict::Cut;
            }
        }
        if self.black_hole.is_some_and(|way| way.covers(direction)) {
            verdict = Verdict::Swallow;
        }
        self.has_lost |= matches!(verdict, Verdict::Swallow);
        verdict
    }
}

/// Whether a write may be tried again.
fn is_read_timeout(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

/// Has the socket say "reset" when it is closed, and wakes who reads from it so that it is.
fn close_with_reset(stream: &TcpStream) {
    // Both fail only on a socket that the peer has reset already.
    let _set = SockRef::from(stream).set_linger(Some(Duration::ZERO));
    let _woken = stream.shutdown(Shutdown::Read);
}
