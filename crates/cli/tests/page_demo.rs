//! "1,000 simulated visitors in `demo` while a browser waits: the page stays smooth and truthful (its place against the server's)."
//!
//! At many moments the browser's figure is held against what the server says, before and after: it never gets worse, is never ahead
//! of the truth, and never old.

mod page_support;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anteroom_testkit::{Chromium, Client, Server, full, now, require_chromium, wait_for, wait_until};
use page_support::{BINARY, PATIENCE, ahead, digits, situation, wait_for_situation};
use serde_json::Value;

/// How many simulated visitors there are.
const VISITORS: u64 = 1_000;
const VISITORS_REDUCED: u64 = 150;
/// How old the figure that is shown may be. The line is told of once a second; the rest is for machines with other things to do. How
/// old it was is printed.
const AGE_MAX: Duration = Duration::from_secs(30);
/// Nearly always it is younger than this.
const OLD: Duration = Duration::from_secs(5);
/// How long he may wait until he is in: the demo promises a minute or so.
const WAIT_MAX: Duration = Duration::from_mins(8);
/// A pause of the page that a person notices, and how much longer one may be on a busy machine.
const NOTICEABLE: Duration = Duration::from_millis(100);
const BUSY_FACTOR: u32 = 10;
/// Asks the server, looks at the page, asks again.
const COMPARE: &str = "const done = arguments[0]; \
    const truth = async () => (await (await fetch('/.anteroom/line', { headers: { accept: 'application/json' } })).json()); \
    (async () => { const before = await truth(); const shown = document.querySelector('#ahead')?.innerText ?? ''; \
    return [before, shown, await truth()] })().then(done, () => done(null))";
const WATCH_TASKS: &str = "window.longestInTest = 0; new PerformanceObserver(list => { for (const task of list.getEntries()) \
    longestInTest = Math.max(longestInTest, task.duration) }).observe({ type: 'longtask', buffered: true })";

/// One look at page and server.
struct Look {
    at: Instant,
    /// The least that the server said.
    truth: u64,
}

/// What a whole wait came to.
#[derive(Default)]
struct Wait {
    looks: Vec<Look>,
    shown: Vec<u64>,
    oldest: Duration,
    /// How many looks found an old figure.
    old: usize,
}

impl Wait {
    /// Takes a look in; nothing if his turn has come meanwhile.
    fn take(&mut self, at: Instant, compared: &Value) -> Option<()> {
        let told = |answer: &Value| answer["people_ahead"].as_u64().filter(|_| answer["status"] == "waiting");
        let (before, after) = (told(&compared[0])?, told(&compared[2])?);
        let shown = digits(compared[1].as_str()?)?;
        assert!(shown >= after, "the page says {shown} where the server says {before}, then {after}");
        if let Some(&last) = self.shown.last() {
            assert!(shown <= last, "the page said {last} before, and {shown} now");
        }
        // Since when the server has said less than the page shows.
        let since = self.looks.iter().find(|look| look.truth < shown).map(|look| look.at);
        let age = since.map_or(Duration::ZERO, |since| at.duration_since(since));
        assert!(age <= AGE_MAX, "the page says {shown}, which was true {age:?} ago; the server says {after}");
        self.oldest = self.oldest.max(age);
        self.old += usize::from(age > OLD);
        self.shown.push(shown);
        self.looks.push(Look { at: now(), truth: after });
        Some(())
    }
}

fn address_of(demo: &Server) -> SocketAddr {
    wait_for("the demo says what to open", PATIENCE, || {
        let stdout = demo.stdout();
        let rest = stdout.split_once("Open  http://")?.1;
        rest.split_once('/')?.0.parse().ok()
    })
}

fn waiting(address: SocketAddr) -> u64 {
    let board = Client::new(address).get("/.anteroom/rooms/shop");
    board.ok().and_then(|board| board.json()["waiting"].as_u64()).unwrap_or(0)
}

#[test]
fn among_a_thousand_visitors_the_page_stays_smooth_and_truthful() {
    if !require_chromium() {
        return;
    }
    let visitors = if full() { VISITORS } else { VISITORS_REDUCED };
    let demo = Server::builder(BINARY).command("demo").argument("--visitors").argument(visitors.to_string());
    let mut demo = demo.start_without_waiting().expect("the demo starts");
    let address = address_of(&demo);
    wait_until("there is a line", PATIENCE * 2, || waiting(address) >= visitors / 2);
    let browser = Chromium::open();
    browser.go(&format!("http://{address}/"));
    wait_for_situation(&browser, "waiting");
    browser.run(WATCH_TASKS, &[]);
    let (began, mut wait, mut longest) = (now(), Wait::default(), 0.0);
    while situation(&browser) == "waiting" {
        assert!(began.elapsed() < WAIT_MAX, "he waits for {WAIT_MAX:?}, and {:?} are ahead", ahead(&browser));
        longest = browser.run("return window.longestInTest", &[]).as_f64().unwrap_or(longest);
        let at = now();
        if wait.take(at, &browser.run_until_called_back(COMPARE, &[])).is_none() {
            break;
        }
    }
    wait_until("he is in the shop", PATIENCE, || situation(&browser).is_empty());
    println!(
        "{visitors} visitors: {} looks in {:?}, from {:?} to {:?} people ahead, never older than {:?}, longest task {longest} ms",
        wait.looks.len(),
        began.elapsed(),
        wait.shown.first(),
        wait.shown.last(),
        wait.oldest
    );
    let first = wait.shown.first().copied().unwrap_or(0);
    assert!(wait.old * 10 <= wait.looks.len(), "{} of {} figures were old", wait.old, wait.looks.len());
    assert!(wait.looks.len() >= 10 && first >= visitors / 4, "the wait was worth the name");
    assert!(Duration::from_secs_f64(longest / 1_000.0) < NOTICEABLE * BUSY_FACTOR, "{longest} ms");
    browser.assert_no_faults();
    assert!(demo.interrupt().expect("it ends").status.success());
}
