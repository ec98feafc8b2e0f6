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
/// How wide the screen is, in characters. A line that fills it is broken in two by some terminals.
const COLUMNS: usize = 80;
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
    pub(super) fn introduce(shown: &Shown<'_>) {
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
                "Ended after {}: {} let in, {} bought, never more than {most_inside} of {} inside at once.",
                duration(last.elapsed),
                last.let_in,
                last.bought,
                plan.capacity
            ),
        };
        print(&format!("{told}\n"));
    }
}

/// Nobody may read it, and that is no reason to stop.
fn print(text: &str) {
    let mut stdout = io::stdout().lock();
    let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
}

/// One line of figures, short enough not to be broken in two.
fn told(figures: &Figures, plan: Plan) -> String {
    let Figures { inside, coming, in_line, bought, .. } = figures;
    let places = plan.capacity;
    let rate = figures.let_in_a_minute.map_or_else(|| "-".to_owned(), |rate| format!("{rate}/min"));
    let waited = figures.waited_seconds.map_or_else(|| "-".to_owned(), |seconds| format!("{seconds} s"));
    let whole = format!(
        "inside {inside} of {places}, {coming} coming | line {in_line} | let in {rate} | waited {waited} | bought {bought}"
    );
    if whole.len() < COLUMNS {
        return whole;
    }
    format!("inside {inside}+{coming}/{places} | line {in_line} | {rate} | waited {waited} | bought {bought}")
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
                "A small shop with {capacity} places.\nAnteroom stands before it: as many as fit are let in, the others stand in line."
            ),
            format!("You are in at once. Open it in {capacity} more private windows: the last one waits."),
        )
    } else {
        let crowd = count(*visitors, "simulated visitor");
        (
            format!(
                "A small shop with {capacity} places, and {crowd} who want in.\nAnteroom stands before it: as many as fit are let in, the others stand in line."
            ),
            if visitors < capacity {
                "You are in at once, while there is room. With more visitors there is a line.".to_owned()
            } else {
                "You stand in line like everybody else, see it move, and are in within a minute.".to_owned()
            },
        )
    };
    format!(
        "\
{what}

Open  {public}/  in a browser.
{first}
Then try:

- Buy a ticket: your visit is over, and the next in line has your place.
- A second browser, or a private window: that is somebody else.
- Close the tab while you wait, and come back: your place is still yours.
- Do nothing for {SESSION_SECONDS} seconds inside: your place goes to the next.
- A line for a site elsewhere: {public}/.anteroom/wait/Sample
- What an operator sees: {private}/metrics
- The shop's API wants a pass: curl -s http://{shop}/api/search
"
    )
}

/// Calls to be pasted into a shell: indented, so that they are told apart from what is for the reader.
fn calls(shown: &Shown<'_>) -> String {
    let Shown { addresses: Addresses { public, private }, shop, .. } = shown;
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

The shop's own API wants a pass of the room `shop`. It moves by itself, so wait for the turn:

  T=$(curl -s $P/join -d '{{"room":"shop"}}' | cut -d'"' -f4)                           # a place in line: the ticket
  until curl -s $P/status -H "Authorization: $T" | grep -E '"(active|admitted)"' >/dev/null; do sleep 2; done
  PASS=$(curl -s -X POST $P/claim -H "Authorization: $T" | grep -o '"access_token":"[^"]*' | cut -d'"' -f4)
  curl -s "http://{shop}/api/search?q=row" -H "Authorization: Bearer $PASS"           # without a pass: 401
  curl -s http://{shop}/api/checkout -H "Authorization: Bearer $PASS" -d '{{"product":"stalls"}}'   # the visit is over
"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_fit_on_one_line_however_large_they_are() {
        let figures = Figures {
            inside: 2_657,
            coming: 500,
            in_line: 16_343,
            let_in: 1_200_000,
            bought: 999_999,
            let_in_a_minute: Some(21_000),
            waited_seconds: Some(47),
            elapsed: Duration::from_mins(57),
        };
        let large = told(&figures, Plan { visitors: 20_000, capacity: 3_157 });
        assert_eq!(large, "inside 2657+500/3157 | line 16343 | 21000/min | waited 47 s | bought 999999");
        let small = Figures {
            inside: 16,
            coming: 2,
            in_line: 94,
            bought: 8,
            let_in_a_minute: None,
            waited_seconds: None,
            ..figures
        };
        let small = told(&small, Plan { visitors: 120, capacity: 18 });
        assert_eq!(small, "inside 16 of 18, 2 coming | line 94 | let in - | waited - | bought 8");
        assert_eq!(
            [duration(Duration::from_secs(59)), duration(Duration::from_secs(130))],
            ["59 s", "2 min 10 s"]
        );
    }

    #[test]
    fn the_first_screen_fits_a_small_terminal() {
        let url = |port: u16| format!("http://127.0.0.1:{port}");
        let addresses = Addresses { public: url(65_535), private: url(65_534) };
        for visitors in [0, 1, 120, 20_000] {
            let plan = Plan { visitors, capacity: visitors.div_ceil(6).max(3) };
            let shown = Shown {
                addresses: &addresses,
                shop: SocketAddr::from(([127, 0, 0, 1], 65_533)),
                plan,
                api: false,
            };
            let text = introduction(&shown);
            // Below it stand an empty line, how to end it, another empty line, and the figures.
            assert!(text.lines().count() + 4 <= 24, "{text}");
            assert!(text.lines().all(|line| line.chars().count() < COLUMNS), "{text}");
        }
    }
}
