//! What the demo prints: once what this is and what to try, on a screen of 24 lines of 80 columns; then a line of figures, redrawn in
//! place on a terminal, now and then elsewhere; at last what it came to.

use std::io::{self, IsTerminal, Write};
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anteroom_server::Addresses;

use crate::output::count;

use super::figures::Figures;
use super::{ADMIN_KEY, Plan, SESSION_SECONDS};

/// Without a terminal there is a line this often.
const LINE_INTERVAL: Duration = Duration::from_secs(10);
/// Forgets what stands to the right of the cursor.
const CLEAR_TO_END: &str = "\x1b[K";

/// Everything that the first screen tells.
pub(super) struct Shown<'demo> {
    pub(super) addresses: &'demo Addresses,
    pub(super) shop: SocketAddr,
    pub(super) plan: Plan,
    pub(super) api: bool,
}

/// Where the demo prints to: standard output.
pub(super) struct Screen {
    is_terminal: bool,
    line: Mutex<Line>,
}

/// The line of figures.
#[derive(Debug, Default)]
struct Line {
    /// Whether one stands there without an end.
    is_open: bool,
    is_closed_for_good: bool,
    plain_lines: u32,
}

impl Screen {
    pub(super) fn new() -> Self {
        Self { is_terminal: io::stdout().is_terminal(), line: Mutex::default() }
    }

    /// Says what this is.
    pub(super) fn introduce(&self, shown: &Shown<'_>) {
        let mut text = introduction(shown);
        if shown.api {
            text.push('\n');
            text.push_str(&calls(shown));
        }
        print(&format!("{text}\nCtrl-C ends it and deletes its data.\n\n"));
    }

    /// Shows the figures of this second.
    pub(super) fn show(&self, figures: &Figures, plan: Plan) {
        let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        if line.is_closed_for_good {
            return;
        }
        let text = told(figures, plan);
        if self.is_terminal {
            line.is_open = true;
            print(&format!("\r{text}{CLEAR_TO_END}"));
        } else if figures.elapsed >= LINE_INTERVAL * line.plain_lines {
            line.plain_lines += 1;
            print(&format!("{text}\n"));
        }
    }

    /// Ends the line of figures, so that whatever is printed next begins a line.
    pub(super) fn close(&self) {
        let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        line.is_closed_for_good = true;
        if std::mem::take(&mut line.is_open) {
            print("\n");
        }
    }

    /// Says what it came to.
    pub(super) fn conclude(&self, last: Option<&Figures>, most_inside: u64, plan: Plan) {
        self.close();
        let told = match last {
            None => "Ended before anybody came.".to_owned(),
            Some(last) => format!(
                "Ended after {}: {} let in, {} bought; never more than {most_inside} inside at once, of {} places.",
                duration(last.elapsed),
                count(last.let_in, "visitor"),
                last.bought,
                plan.capacity
            ),
        };
        print(&format!("{told} Its data is deleted.\n"));
    }
}

/// Nobody may read it, and that is no reason to stop.
fn print(text: &str) {
    let mut stdout = io::stdout().lock();
    let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
}

/// One line of figures, below 80 characters as long as there are fewer than a million of anything.
fn told(figures: &Figures, plan: Plan) -> String {
    let known = |figure: Option<u64>, unit: &str| {
        figure.map_or_else(|| "-".to_owned(), |figure| format!("{figure}{unit}"))
    };
    format!(
        "inside {}/{} | waiting {} | let in {} | waited {} | bought {}",
        figures.inside,
        plan.capacity,
        figures.waiting,
        known(figures.let_in_a_minute, "/min"),
        known(figures.waited_seconds, " s"),
        figures.bought,
    )
}

fn duration(elapsed: Duration) -> String {
    let seconds = elapsed.as_secs();
    if seconds < 60 { format!("{seconds} s") } else { format!("{} min {} s", seconds / 60, seconds % 60) }
}

fn introduction(shown: &Shown<'_>) -> String {
    let Shown { addresses: Addresses { public, private }, shop, plan: Plan { visitors, capacity }, .. } =
        shown;
    let (what, first) = if *visitors == 0 {
        (
            format!(
                "A small shop with {capacity} places. Anteroom stands before it: who finds no place\nfree stands in line."
            ),
            format!(
                "You are in at once. In {capacity} more (private windows, other browsers), the last one waits."
            ),
        )
    } else {
        let crowd = count(*visitors, "simulated visitor");
        (
            format!(
                "A small shop with {capacity} places, and {crowd} who want in. Anteroom\nstands before it and lets in as many as fit; everybody else stands in line."
            ),
            "You stand in line like everybody else, see it move, and are in within a minute.".to_owned(),
        )
    };
    format!(
        "\
{what}

Open  {public}/  in a browser.
{first}

  Then try      buy a ticket: your visit is over, and the next one has your place
                a second browser, or a private window: that is somebody else
                close the tab while you wait and come back: your place is yours
                do nothing for {SESSION_SECONDS} s inside: your place goes to the next
  Site elsewhere  {public}/.anteroom/wait/Sample
  Operators     curl -s {private}/metrics \\
                  -H 'Authorization: Bearer {ADMIN_KEY}'
  Shop's API    http://{shop}/api/search  wants a pass: see `demo --api`
"
    )
}

/// Calls to be pasted into a shell: indented, so that they are told apart from what is for the reader.
fn calls(shown: &Shown<'_>) -> String {
    let Shown { addresses: Addresses { public, private }, .. } = shown;
    format!(
        r#"The room `Sample` has a line that moves when you say so. In another terminal:

  P={public}/.anteroom A={private} K='Authorization: Bearer {ADMIN_KEY}'
  ID=$(curl -s $P/assign_queue_num -d '{{"event_id":"Sample"}}' | cut -d'"' -f4)        # take a place in line
  curl -s "$P/queue_num?event_id=Sample&request_id=$ID"; echo                         # its number: 1
  curl -s "$P/serving_num?event_id=Sample"; echo                                      # who is being served: nobody yet
  curl -s $P/generate_token -d "{{\"event_id\":\"Sample\",\"request_id\":\"$ID\"}}"; echo   # too early: not being served yet
  curl -s $A/increment_serving_counter -H "$K" -d '{{"event_id":"Sample","increment_by":100}}'; echo   # let 100 in
  curl -s $P/generate_token -d "{{\"event_id\":\"Sample\",\"request_id\":\"$ID\"}}"; echo   # your pass: three signed tokens
  curl -s "$P/public_key?event_id=Sample"; echo                                       # the key that any JWT library checks them with
  curl -s "$A/num_active_tokens?event_id=Sample" -H "$K"; echo                        # visitors inside
"#
    )
}
