//! A small honest site for a gateway to stand before. It answers fast, keeps connections open, echoes on upgraded ones, and
//! remembers every request it has seen, and above all whose: which visits were alive, how many of them at once, and in which
//! order they began.
//!
//! A visit, by the header `Anteroom-Visit`, is alive from its first request until the site itself ends it by an answer with
//! `Anteroom-Session`, or until the test says so, or until it has been silent for as long as the test has said. The end is noted
//! before the answer leaves, so a count of the living never holds anybody whom the gateway may already have replaced.

mod message;
mod record;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufReader, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::wait::wait_until;
use record::Record;

pub use record::SeenRequest;

/// Begins or ends a visit in an answer of the site.
const COMMAND: &str = "Anteroom-Session";
/// By this header of a response a test knows that it is the site's.
pub(crate) const SERVED_BY: (&str, &str) = ("Served-By", "site");
/// How long a request that a test waits for may take to arrive.
const ARRIVAL_DEADLINE: Duration = Duration::from_mins(1);
/// How long one attempt to wake the accepting thread may take; then the next one is made.
const WAKE_TIMEOUT: Duration = Duration::from_millis(100);

/// What the site answers at a path. Without one it is a small page.
#[derive(Debug, Clone)]
pub struct Reply {
    status: u16,
    headers: Vec<(String, String)>,
    body: Arc<Vec<u8>>,
    delay: Duration,
}

impl Reply {
    /// An answer with this status.
    pub fn new(status: u16) -> Self {
        Self { status, headers: vec![], body: Arc::default(), delay: Duration::ZERO }
    }

    /// An answer that ends the visit with a word: `complete`, `abandon` or `revoke`.
    pub fn ending(word: &str) -> Self {
        Self::new(200).header(COMMAND, word).body("The visit is over.")
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Gives it a body.
    #[must_use]
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = Arc::new(body.into());
        self
    }

    /// Lets so much time pass before it.
    #[must_use]
    pub fn after(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }
}

/// The site, on a port of 127.0.0.1 of its own. It ends, with all its connections, when it is dropped.
#[derive(Debug)]
pub struct Site {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// Notified when something is released, and when everything ends.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    record: Record,
    replies: BTreeMap<String, Reply>,
    /// Paths whose requests are answered when the test says so.
    held: BTreeSet<String>,
    connections: Vec<TcpStream>,
    is_closed: bool,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Site {
    /// A site that answers everything with a small page, except `/complete`, `/abandon` and `/revoke`, which end the visit.
    #[track_caller]
    pub fn open() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port of loopback is free");
        let address = listener.local_addr().expect("a listener has an address");
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        let site =
            Self { address, shared, accepting: Some(thread::spawn(move || accept(&listener, &theirs))) };
        for word in ["complete", "abandon", "revoke"] {
            site.answer(&format!("/{word}"), Reply::ending(word));
        }
        site
    }

    /// Its address as an origin.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// What it answers at a path from now on, whatever the query.
    pub fn answer(&self, path: &str, reply: Reply) {
        self.shared.state().replies.insert(path.to_owned(), reply);
    }

    /// Answers requests for a path only when they are let go.
    pub fn hold(&self, path: &str) {
        self.shared.state().held.insert(path.to_owned());
    }

    /// Answers those requests, and does not hold new ones.
    pub fn let_go(&self, path: &str) {
        self.shared.state().held.remove(path);
        self.shared.changed.notify_all();
    }

    /// A visit counts as alive only for so long after its last request.
    pub fn visits_last(&self, lifetime: Duration) {
        self.shared.state().record.set_lifetime(lifetime);
    }

    /// A visit is over, because the test knows so.
    pub fn visit_is_over(&self, visit: &str) {
        self.shared.state().record.end(visit);
    }

    /// All requests so far, in the order of their arrival.
    pub fn request_log(&self) -> Vec<SeenRequest> {
        self.shared.state().record.request_log().to_vec()
    }

    /// The last request for a path.
    #[track_caller]
    pub fn last_seen(&self, path: &str) -> SeenRequest {
        let state = self.shared.state();
        let mut seen = state.record.request_log().iter().rev();
        seen.find(|seen| seen.path() == path)
            .cloned()
            .unwrap_or_else(|| panic!("nobody has asked for {path}"))
    }

    /// How many requests there were so far.
    pub fn requests(&self) -> usize {
        self.shared.state().record.request_log().len()
    }

    /// Waits until a path was requested.
    #[track_caller]
    pub fn wait_for_request(&self, path: &str) {
        let is_there = || self.shared.state().record.request_log().iter().any(|seen| seen.path() == path);
        wait_until(&format!("the site is asked for {path}"), ARRIVAL_DEADLINE, is_there);
    }

    /// All visits so far, in the order of their first requests.
    pub fn visits(&self) -> Vec<String> {
        self.shared.state().record.visits().to_vec()
    }

    /// How many visits are alive.
    pub fn live_visits(&self) -> usize {
        self.shared.state().record.live_visits()
    }

    /// How many visits were alive at once, at most.
    pub fn live_visits_max(&self) -> usize {
        self.shared.state().record.live_visits_max()
    }

    /// Requests of visits that the site had ended before, by path. There must be none.
    pub fn after_the_end(&self) -> Vec<String> {
        self.shared.state().record.after_the_end().to_vec()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let connections = {
            let mut state = self.shared.state();
            state.is_closed = true;
            std::mem::take(&mut state.connections)
        };
        self.shared.changed.notify_all();
        for connection in connections {
            let _closed = connection.shutdown(Shutdown::Both);
        }
        if let Some(accepting) = self.accepting.take() {
            // A thread that waits in `accept` sees the end only with the next connection.
            while !accepting.is_finished() {
                let _woken = TcpStream::connect_timeout(&self.address, WAKE_TIMEOUT);
                thread::yield_now();
            }
            let _ended = accepting.join();
        }
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    loop {
        let accepted = listener.accept();
        let mut state = shared.state();
        if state.is_closed {
            return;
        }
        let Ok((stream, _)) = accepted else { continue };
        state.connections.retain(|connection| connection.peer_addr().is_ok());
        state.connections.extend(stream.try_clone());
        drop(state);
        let shared = Arc::clone(shared);
        thread::spawn(move || {
            // The end must be said: the copy among the connections would keep this one open.
            let end = stream.try_clone();
            // An error is a client that has gone.
            let _served = serve(&shared, stream);
            let _closed = end.map(|end| end.shutdown(Shutdown::Both));
        });
    }
}

/// Answers the requests of one connection.
fn serve(shared: &Shared, stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream);
    while let Some(seen) = message::read(&mut reader)? {
        let is_upgrade = seen.header("Upgrade").is_some();
        let Some((reply, is_head)) = reply_to(shared, seen) else { return Ok(()) };
        if is_upgrade {
            reader.get_mut().write_all(message::SWITCHING)?;
            return echo(&mut reader);
        }
        message::send(reader.get_mut(), &reply, is_head)?;
    }
    Ok(())
}

/// Takes a request in, and says what to answer, when it is time to; `None` if the site has closed meanwhile.
fn reply_to(shared: &Shared, seen: SeenRequest) -> Option<(Reply, bool)> {
    let (path, visit, is_head) = (seen.path().to_owned(), seen.visit(), seen.method == "HEAD");
    let text = format!("<!doctype html><title>Site</title><p>{} {}", seen.method, seen.target);
    let mut state = shared.state();
    state.record.take(seen);
    while state.held.contains(&path) && !state.is_closed {
        state = shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
    }
    let page = || Reply::new(200).header("Content-Type", "text/html; charset=utf-8").body(text);
    let reply = state.replies.get(&path).cloned().unwrap_or_else(page);
    if !reply.delay.is_zero() {
        drop(state);
        thread::sleep(reply.delay);
        state = shared.state();
    }
    if let Some(visit) = visit.filter(|_| reply.headers.iter().any(|(name, _)| name == COMMAND)) {
        state.record.end(&visit);
    }
    (!state.is_closed).then_some((reply, is_head))
}

/// Sends back what comes, until it ends.
fn echo(reader: &mut BufReader<TcpStream>) -> io::Result<()> {
    let mut bytes = [0; 4096];
    loop {
        match reader.read(&mut bytes)? {
            0 => return Ok(()),
            read => reader.get_mut().write_all(&bytes[..read])?,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::{Client, Request, Wire};

    const TIMEOUT: Duration = Duration::from_secs(20);

    fn client(site: &Site) -> Client {
        Client::new(site.address)
    }

    fn visit(site: &Site, visit: &str, path: &str) -> u16 {
        let request = Request::new("GET", path).header("Anteroom-Visit", visit);
        client(site).send(&request).unwrap().status
    }

    #[test]
    fn it_answers_as_configured_and_remembers_who_asked_for_what() {
        let site = Site::open();
        site.answer("/teapot", Reply::new(418).header("X-Pot", "tea").body("short and stout"));
        let mut client = client(&site);
        let answer = client.get("/teapot?big").unwrap();
        assert_eq!(
            (answer.status, answer.header("x-pot"), answer.text().as_str()),
            (418, Some("tea"), "short and stout")
        );
        assert_eq!(answer.header("served-by"), Some("site"));
        let head = client.send(&Request::new("HEAD", "/page")).unwrap();
        assert_eq!((head.status, head.body.len()), (200, 0));
        let posted = client.send(&Request::new("POST", "/cart").header("A", "b").body("three")).unwrap();
        assert!(posted.text().contains("POST /cart"), "{posted:?}");
        let seen = site.last_seen("/cart");
        assert_eq!(
            (seen.method.as_str(), seen.header("a"), seen.body.as_slice()),
            ("POST", Some("b"), &b"three"[..])
        );
        assert_eq!(site.requests(), 3);
        let mut wire = Wire::connect(site.address, TIMEOUT).unwrap();
        wire.write(
            b"POST /chunks HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
        )
        .unwrap();
        assert_eq!(wire.read_answer().unwrap().unwrap().status, 200);
        assert_eq!(site.last_seen("/chunks").body, b"abcde");
    }

    #[test]
    fn the_living_are_counted_until_their_end() {
        let site = Site::open();
        assert_eq!(
            (visit(&site, "a", "/"), visit(&site, "b", "/"), visit(&site, "a", "/more")),
            (200, 200, 200)
        );
        assert_eq!((site.live_visits(), site.live_visits_max()), (2, 2));
        visit(&site, "a", "/complete");
        visit(&site, "c", "/");
        assert_eq!((site.live_visits(), site.live_visits_max()), (2, 2));
        assert_eq!(site.visits(), ["a", "b", "c"]);
        assert!(site.after_the_end().is_empty());
        site.visit_is_over("b");
        visit(&site, "a", "/again");
        assert_eq!(site.after_the_end(), ["a /again"]);
        assert_eq!(site.live_visits(), 1, "a visit that comes back after its end is reported, not counted");
        site.visits_last(Duration::ZERO);
        assert_eq!((site.live_visits(), site.live_visits_max()), (0, 2));
    }

    #[test]
    fn what_is_held_is_answered_when_it_is_let_go() {
        let site = Site::open();
        site.hold("/slow");
        thread::scope(|scope| {
            let asking = scope.spawn(|| client(&site).get("/slow").unwrap().status);
            site.wait_for_request("/slow");
            assert_eq!(client(&site).get("/fast").unwrap().status, 200);
            assert!(!asking.is_finished());
            site.let_go("/slow");
            assert_eq!(asking.join().unwrap(), 200);
        });
    }

    #[test]
    fn an_upgraded_connection_echoes() {
        let site = Site::open();
        let mut wire = Wire::connect(site.address, TIMEOUT).unwrap();
        wire.write(b"GET /socket HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n").unwrap();
        assert_eq!(wire.read_answer().unwrap().unwrap().status, 101);
        wire.write(b"HTTP/1.1 200 said back\r\nContent-Length: 0\r\n\r\n").unwrap();
        assert_eq!(wire.read_answer().unwrap().unwrap().status, 200);
        drop(site);
        assert!(wire.closed_within(TIMEOUT));
    }
}
