//! What the tests in a real browser share: a site with the real server before it, and how one reads our pages.
//!
//! The browser reaches the server through a proxy whose port stays the same, so that a server that was started again is still
//! the same address, and so that a test can cut the way. The names of elements, which the page has for scripts and for tests,
//! are written here and nowhere else.

use std::time::Duration;

use anteroom_testkit::{ChaosProxy, Chromium, Line, Server, Site, wait_until};
use serde_json::Value;

use crate::support::{BINARY, hall};

/// How long a state may take. Generous: what is tested is that it comes, not how fast.
pub(crate) const TIMEOUT: Duration = Duration::from_mins(1);
/// How often the line may be told of, in milliseconds: a test moves it faster than an operator does.
const WATCH_INTERVAL: &str = "100";
/// The protected site, as browsers know it.
pub(crate) const SHOP: &str = "shop.test";
/// The same by a name that browsers trust without TLS, so that pages may notify, and tabs may share one stream.
pub(crate) const SAFE_SHOP: &str = "shop.localhost";
/// A host that is ours alone, for sites that send their visitors to us.
pub(crate) const WAIT: &str = "wait.test";

/// The buttons of the page.
pub(crate) const ENTER: &str = "#enter button, a#enter";
pub(crate) const JOIN: &str = "#join button";
/// Leads back to the site, and so to the end of the line.
pub(crate) const HOME: &str = ".actions a.button[href]:not(#move)";
pub(crate) const LEAVE: &str = "#leave > summary";
pub(crate) const LEAVE_CONFIRM: &str = "#leave-confirm";
pub(crate) const MOVE: &str = "#move";
pub(crate) const MOVE_DIALOG: &str = "#move-dialog";
pub(crate) const TAKE: &str = "#take button";
/// How long the place is held, at the turn.
pub(crate) const REMAINING: &str = "[data-anteroom=remaining]";
/// The line that says that there is no connection.
pub(crate) const CONNECTION: &str = "#connection";
/// What is read out to those who do not see.
pub(crate) const SPOKEN: &str = "#spoken";

/// A site, the server before it, and the way there.
pub(crate) struct Scene {
    pub(crate) server: Server,
    pub(crate) site: Site,
    pub(crate) way: ChaosProxy,
}

impl Scene {
    /// With the one room `Hall`, whose line an operator moves by hand, and further settings of it.
    #[track_caller]
    pub(crate) fn by_hand(more: &str) -> Self {
        Self::configured(&room_by_hand("ORIGIN", more))
    }

    /// With a configuration of its own, in which `ORIGIN` is the site.
    #[track_caller]
    pub(crate) fn configured(config: &str) -> Self {
        let site = Site::open();
        let config = config.replace("ORIGIN", &site.url());
        let server = Server::builder(BINARY).env("ANTEROOM_WATCH_INTERVAL_MILLISECONDS", WATCH_INTERVAL);
        let server = server.config(config).start().expect("the server starts");
        let way = ChaosProxy::before(server.public().port());
        Self { server, site, way }
    }

    /// An address of the shop, as a browser writes it.
    pub(crate) fn shop(&self, path: &str) -> String {
        self.at(SHOP, path)
    }

    /// An address of any host that leads to the server.
    pub(crate) fn at(&self, host: &str, path: &str) -> String {
        format!("http://{host}:{}{path}", self.way.port())
    }

    /// The room, for those who wait before and behind, and for the operator.
    pub(crate) fn line(&self) -> Line {
        self.server.line("Hall")
    }

    /// So many people take a place; they never claim it.
    #[track_caller]
    pub(crate) fn crowd(&self, people: usize) {
        self.line().join_many(people);
    }

    /// The operator lets so many more in.
    #[track_caller]
    pub(crate) fn advance(&self, by: i64) {
        self.line().advance(by);
    }

    /// Changes settings or the state of the room.
    #[track_caller]
    pub(crate) fn change(&self, body: &Value) {
        hall::change(&self.server, body);
    }

    /// Changes one setting of the room.
    #[track_caller]
    pub(crate) fn set(&self, name: &str, value: &Value) {
        hall::set(&self.server, name, value);
    }

    /// A figure of the room.
    #[track_caller]
    pub(crate) fn figure(&self, name: &str) -> u64 {
        hall::figure(&self.server, name)
    }

    /// Ends the server and starts it again on the same data, at the same address.
    #[track_caller]
    pub(crate) fn restart(&mut self) {
        self.server.restart().expect("the server starts again");
        self.way.forward_to(self.server.public().port());
    }

    /// A new visitor who opens the shop and gets a place.
    #[track_caller]
    pub(crate) fn wait_in_line(&self, browser: &Chromium, path: &str) {
        browser.go(&self.shop(path));
        wait_for_situation(browser, "waiting");
    }
}

/// The configuration of the room `Hall` before an origin: on the hosts of the shop, and on no other, so that everybody else
/// finds the calls of the API where they usually are.
pub(crate) fn room_by_hand(origin: &str, more: &str) -> String {
    let hosts = format!("hosts = [\"{SHOP}\", \"{SAFE_SHOP}\"]");
    // The crowd joins by the API.
    format!("[[room]]\nid = \"Hall\"\njoin = \"open\"\norigins = [\"{origin}\"]\n{hosts}\n{more}\n")
}

impl Drop for Scene {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- the server's log:\n{}", self.server.stderr());
        }
    }
}

/// What the page tells; empty on a page that is not ours.
#[track_caller]
pub(crate) fn situation(browser: &Chromium) -> String {
    browser.attribute("html", "data-situation").unwrap_or_default()
}

/// Waits until the page tells this.
#[track_caller]
pub(crate) fn wait_for_situation(browser: &Chromium, expected: &str) {
    wait_until(&format!("the page tells {expected}"), TIMEOUT, || situation(browser) == expected);
}

/// How the page gets events: by `stream`, by `poll`, or not at all (`offline`).
#[track_caller]
pub(crate) fn event_source(browser: &Chromium) -> String {
    browser.attribute("html", "data-live").unwrap_or_default()
}

#[track_caller]
pub(crate) fn wait_for_event_source(browser: &Chromium, expected: &str) {
    wait_until(&format!("the page hears by {expected}"), TIMEOUT, || event_source(browser) == expected);
}

/// How many people are ahead, as the page shows it.
#[track_caller]
pub(crate) fn ahead(browser: &Chromium) -> Option<u64> {
    number(browser, "#ahead")
}

/// The number in line that the page shows.
#[track_caller]
pub(crate) fn position(browser: &Chromium) -> Option<u64> {
    number(browser, "#position")
}

/// The number that a person sees in an element.
#[track_caller]
fn number(browser: &Chromium, selector: &str) -> Option<u64> {
    browser.text(selector).as_deref().and_then(digits)
}

/// The number that a text shows, however it sets thousands apart.
pub(crate) fn digits(text: &str) -> Option<u64> {
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    digits.parse().ok()
}

/// Waits until so many people are shown ahead.
#[track_caller]
pub(crate) fn wait_for_ahead(browser: &Chromium, expected: u64) {
    wait_until(&format!("{expected} people are ahead"), TIMEOUT, || ahead(browser) == Some(expected));
}

/// Waits until the site's own page is there.
#[track_caller]
pub(crate) fn wait_until_inside(browser: &Chromium, path: &str) {
    wait_until(&format!("the site shows {path}"), TIMEOUT, || is_inside(browser, path));
}

/// Whether the site's own page is there.
#[track_caller]
pub(crate) fn is_inside(browser: &Chromium, path: &str) -> bool {
    browser.text("p").is_some_and(|text| text == format!("GET {path}"))
}

/// Puts a mark into the page that only stays while the page is not loaded again.
#[track_caller]
pub(crate) fn mark(browser: &Chromium) {
    browser.run("window.markOfTest = true", &[]);
}

/// Whether the page is still the one that was marked.
#[track_caller]
pub(crate) fn is_marked(browser: &Chromium) -> bool {
    browser.run("return window.markOfTest === true", &[]) == true
}
