//! What a site has seen: requests, and the visits they belong to.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::wait::now;

/// A request as it reached the site.
#[derive(Debug, Clone)]
pub struct SeenRequest {
    /// The method.
    pub method: String,
    /// The path and the query.
    pub target: String,
    /// Names as they were sent, and values, in order.
    pub headers: Vec<(String, String)>,
    /// The body with its transfer coding undone.
    pub body: Vec<u8>,
}

impl SeenRequest {
    /// The value of the first header of that name, in any case of letters.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut named = self.headers.iter().filter(|(other, _)| other.eq_ignore_ascii_case(name));
        named.next().map(|(_, value)| value.as_str())
    }

    /// The target without its query.
    pub fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }

    /// The visit it belongs to.
    pub fn visit(&self) -> Option<String> {
        self.header("Anteroom-Visit").map(str::to_owned)
    }
}

#[derive(Debug)]
struct Visit {
    last_seen: Instant,
    is_over: bool,
}

/// All requests and visits.
#[derive(Debug, Default)]
pub(super) struct Record {
    seen: Vec<SeenRequest>,
    known: BTreeMap<String, Visit>,
    visits: Vec<String>,
    live_visits_max: usize,
    after_the_end: Vec<String>,
    lifetime: Option<Duration>,
}

impl Record {
    pub(super) fn take(&mut self, seen: SeenRequest) {
        if let Some(visit) = seen.visit() {
            self.note(visit, seen.path());
        }
        self.seen.push(seen);
    }

    fn note(&mut self, visit: String, path: &str) {
        let moment = now();
        if let Some(known) = self.known.get_mut(&visit) {
            known.last_seen = moment;
            if known.is_over {
                self.after_the_end.push(format!("{visit} {path}"));
            }
        } else {
            self.known.insert(visit.clone(), Visit { last_seen: moment, is_over: false });
            self.visits.push(visit);
        }
        // With lifetimes a known visit may come to life again, so every request is looked at.
        self.live_visits_max = self.live_visits_max.max(self.live_visits());
    }

    pub(super) fn end(&mut self, visit: &str) {
        if let Some(known) = self.known.get_mut(visit) {
            known.is_over = true;
        }
    }

    pub(super) fn set_lifetime(&mut self, lifetime: Duration) {
        self.lifetime = Some(lifetime);
    }

    pub(super) fn live_visits(&self) -> usize {
        let lives = |visit: &&Visit| {
            !visit.is_over && self.lifetime.is_none_or(|lifetime| visit.last_seen.elapsed() < lifetime)
        };
        self.known.values().filter(lives).count()
    }

    pub(super) fn request_log(&self) -> &[SeenRequest] {
        &self.seen
    }

    pub(super) fn visits(&self) -> &[String] {
        &self.visits
    }

    pub(super) fn live_visits_max(&self) -> usize {
        self.live_visits_max
    }

    pub(super) fn after_the_end(&self) -> &[String] {
        &self.after_the_end
    }
}
