//! Several servers on one store, which must look like one.

use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use serde_json::{Map, Value};

use crate::server::Server;
use crate::wait::{now, pause};

/// How long nodes may take to agree.
const AGREEMENT_DEADLINE: Duration = Duration::from_mins(1);
/// What operators see of a room that nodes must agree on when nothing happens any more. Not the time of the last look,
/// nor steps of a timetable that did not have to be taken: those are counted when the next one is.
const AGREED_FIELDS: [&str; 8] =
    ["id", "state", "settings", "figures", "generations", "version", "moves", "last_move"];
/// How much of the log of each node is shown when a test has failed.
const LOG_LINES_SHOWN: usize = 60;

/// The servers, in the order in which their store URLs were given.
#[derive(Debug)]
pub struct Nodes(Vec<Server>);

impl Nodes {
    /// One server for each store URL, all with the same configuration, secret and admin key, started at the same moment.
    #[track_caller]
    pub fn start(binary: impl Into<PathBuf>, config: &str, store_urls: &[String]) -> Self {
        let setup = Server::builder(binary).config(config);
        let starting = |url: &String| {
            let node = setup.clone().env("ANTEROOM_STORE_URL", url.as_str());
            thread::spawn(move || node.start())
        };
        // All are under way before the first is waited for.
        let under_way: Vec<_> = store_urls.iter().map(starting).collect();
        let started = under_way.into_iter().map(|starting| {
            let node = starting.join().expect("starting a server does not panic");
            node.unwrap_or_else(|error| panic!("a node does not start: {error:#}"))
        });
        Self(started.collect())
    }

    /// All of them.
    pub fn all(&self) -> &[Server] {
        &self.0
    }

    /// All of them, to be killed and started again.
    pub fn all_mut(&mut self) -> &mut [Server] {
        &mut self.0
    }

    /// Waits until all nodes show the same of a room, and returns it.
    #[track_caller]
    pub fn agreed(&self, room: &str) -> Value {
        self.agreed_when(room, |_| true)
    }

    /// Waits until all nodes show the same of a room, and that is so.
    #[track_caller]
    pub fn agreed_when(&self, room: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let started = now();
        loop {
            let shown: Vec<_> = self.0.iter().map(|server| shown_by(server, room)).collect();
            if let Some(Some(first)) = shown.first()
                && shown.iter().all(|other| other.as_ref() == Some(first))
                && holds(first)
            {
                return first.clone();
            }
            assert!(started.elapsed() < AGREEMENT_DEADLINE, "the nodes do not agree on {room}: {shown:#?}");
            pause();
        }
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        // A failed test needs the log of every node.
        for (index, server) in self.0.iter().enumerate().filter(|_| thread::panicking()) {
            let log = server.stderr();
            let lines: Vec<&str> = log.lines().collect();
            let tail = &lines[lines.len().saturating_sub(LOG_LINES_SHOWN)..];
            eprintln!("--- the last lines of node {index}:\n{}", tail.join("\n"));
        }
    }
}

/// What operators see of a room on one server; `None` if it has no such room, or does not answer.
fn shown_by(server: &Server, room: &str) -> Option<Value> {
    let answer =
        server.operator().get(&format!("/rooms/{room}")).ok().filter(|answer| answer.status == 200)?;
    let Value::Object(mut room) = answer.json() else {
        return None;
    };
    let fields = AGREED_FIELDS.map(|name| (name.to_owned(), room.remove(name).unwrap_or_default()));
    Some(Value::Object(Map::from_iter(fields)))
}
