//! What the tests of the gateway share: a site, the real server before it, and its visitors.

use std::collections::BTreeMap;
use std::time::Duration;

use anteroom_testkit::{Answer, Asking, Browser, SeenRequest, Server, Site, wait_until};
use serde_json::Value;

use crate::support::{BINARY, hall as room};

/// How long a state may take. Generous: what is tested is that it comes, not how fast.
pub(crate) const TIMEOUT: Duration = Duration::from_mins(1);
/// Asks sooner than the page says, where a test need not wait for it.
pub(crate) const SOON: Asking = Asking::Every(Duration::from_millis(50));
/// The cookie of the room `Hall` in clear.
pub(crate) const COOKIE: &str = "anteroom-Hall";

/// A site with a server before it, whose one room is `Hall`.
pub(crate) struct Stand {
    pub(crate) server: Server,
    pub(crate) site: Site,
}

/// The configuration of a room `Hall` before an origin, with further settings.
pub(crate) fn hall(origin: &str, capacity: usize, more: &str) -> String {
    format!(
        "origin = \"{origin}\"\n[[room]]\nid = \"Hall\"\ninlet = \"max-size\"\ntotal_active_users = {capacity}\n{more}\n"
    )
}

impl Stand {
    /// With so much capacity and further settings of the room.
    #[track_caller]
    pub(crate) fn open(capacity: usize, more: &str) -> Self {
        let site = Site::open();
        let config = hall(&site.url(), capacity, more);
        let server = Server::builder(BINARY).memory().config(config).start().expect("the server starts");
        Self { server, site }
    }

    /// With a configuration of its own, in which `ORIGIN` is the site.
    #[track_caller]
    pub(crate) fn configured(config: &str) -> Self {
        let site = Site::open();
        let config = config.replace("ORIGIN", &site.url());
        let server = Server::builder(BINARY).memory().config(config).start().expect("the server starts");
        Self { server, site }
    }

    /// A visitor who has never been here.
    #[track_caller]
    pub(crate) fn browser(&self) -> Browser {
        Browser::new(self.server.public())
    }

    /// A visitor who is inside, whose cookie has come back.
    #[track_caller]
    pub(crate) fn inside(&self) -> Browser {
        let mut browser = self.browser();
        browser.enter("/", SOON, TIMEOUT);
        assert!(browser.open("/confirmed").is_from_site());
        browser
    }

    /// A visitor in line, and the page that they see.
    #[track_caller]
    pub(crate) fn in_line(&self) -> (Browser, Answer) {
        let mut browser = self.browser();
        browser.open("/");
        let page = browser.open("/");
        assert!(page.shown_position().is_some(), "{page:?}");
        (browser, page)
    }

    /// Changes settings or the state of the room.
    #[track_caller]
    pub(crate) fn change(&self, body: &Value) {
        room::change(&self.server, body);
    }

    /// Changes one setting of the room.
    #[track_caller]
    pub(crate) fn set(&self, name: &str, value: &Value) {
        room::set(&self.server, name, value);
    }

    /// A figure of the room.
    #[track_caller]
    pub(crate) fn figure(&self, name: &str) -> u64 {
        room::figure(&self.server, name)
    }

    /// Waits until a figure of the room has a value.
    #[track_caller]
    pub(crate) fn wait_for_figure(&self, name: &str, value: u64) {
        wait_until(&format!("{name} is {value}"), TIMEOUT, || self.figure(name) == value);
    }

    /// How often each verdict was given, over all rooms.
    #[track_caller]
    pub(crate) fn verdicts(&self) -> BTreeMap<String, u64> {
        verdicts(&self.server)
    }
}

impl Drop for Stand {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- the server's log:\n{}", self.server.stderr());
        }
    }
}

/// How often each verdict was given by a server, over all rooms.
#[track_caller]
pub(crate) fn verdicts(server: &Server) -> BTreeMap<String, u64> {
    count_verdicts(server, |_| true)
}

/// The same in one room.
#[track_caller]
pub(crate) fn verdicts_of(server: &Server, room: &str) -> BTreeMap<String, u64> {
    let label = format!("room=\"{room}\"");
    count_verdicts(server, |labels| labels.contains(&label))
}

#[track_caller]
fn count_verdicts(server: &Server, fits: impl Fn(&str) -> bool) -> BTreeMap<String, u64> {
    let text = server.operator().get("/metrics").expect("an answer").text();
    let mut verdicts = BTreeMap::new();
    for line in text.lines() {
        let Some(labels) = line.strip_prefix("anteroom_gateway_requests_total{") else { continue };
        let (labels, count) = labels.split_once("} ").expect("a sample");
        if !fits(labels) {
            continue;
        }
        let verdict = labels.split_once("verdict=\"").and_then(|(_, rest)| rest.split_once('"'));
        let verdict = verdict.expect("each sample names its verdict").0;
        *verdicts.entry(verdict.to_owned()).or_default() += count.parse::<u64>().expect("a count");
    }
    verdicts
}

/// An answer of ours that nobody may keep.
#[track_caller]
pub(crate) fn assert_not_kept(answer: &Answer) {
    assert!(!answer.is_from_site(), "{answer:?}");
    assert!(answer.header_lists("Cache-Control", "no-store"), "{answer:?}");
}

/// The waiting page, with a place.
#[track_caller]
pub(crate) fn assert_waits(answer: &Answer) {
    assert_not_kept(answer);
    assert!(answer.shown_position().is_some() && answer.shown_people_ahead().is_some(), "{answer:?}");
    assert!(answer.header("Retry-After").is_some(), "{answer:?}");
}

/// A refusal of something that could not wait: 503 with a text and when to come back, and nothing to remember.
#[track_caller]
pub(crate) fn assert_not_inside(answer: &Answer) {
    assert_eq!(answer.status, 503, "{answer:?}");
    assert_not_kept(answer);
    assert!(answer.header("Retry-After").is_some(), "{answer:?}");
    assert!(answer.set_cookies().is_empty(), "nothing is taken: {answer:?}");
}

/// How many visits were at the site at once, each from its first request to its last: what nobody can dispute.
pub(crate) fn most_at_once(seen: &[SeenRequest]) -> usize {
    let mut stays: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for (index, seen) in seen.iter().enumerate() {
        if let Some(visit) = seen.visit() {
            stays.entry(visit).or_insert((index, index)).1 = index;
        }
    }
    let inside_at = |index| stays.values().filter(|(first, last)| (*first..=*last).contains(index)).count();
    let starts: Vec<usize> = stays.values().map(|(first, _)| *first).collect();
    starts.iter().map(inside_at).max().unwrap_or(0)
}
