//! What the demo prints: once what this is and what to try, on a screen of 24 lines of 80 columns; then a line of figures, redrawn in
//! place on a terminal, now and then to a file; at last what it came to.

use std::io::{self, IsTerminal, Write};
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anteroom_server::Addresses;

use crate::output::count;

use super::figures::Figures;
use super::{ADMIN_KEY, Plan, SESSION_SECONDS, shop};

/// Without a terminal there is a line this often.
const LINE_INTERVAL: Duration = Duration::from_secs(10);
/// How wide the screen is, in characters. A line that fills it is broken in two by some terminals.
const COLUMNS: usize = 80;
/// Around the line of figures: back to its beginning and no new line at the edge, which a window may have nearer than our 80 columns; then
/// forget what stands to the right, and break lines again.
const REDRAW: (&str, &str) = ("\r\x1b[?7l", "\x1b[K\x1b[?7h");
/// Says what the line of figures says.
const LEGEND: &str = "Below: inside the shop | coming: their turn, on their way | line: behind them";
const LAST_WORDS: &str = "Ctrl-C ends it and deletes its data.";

/// Everything that the first screen tells.
pub(super) struct FirstScreen<'demo> {
    pub(super) addresses: &'demo Addresses,
    pub(super) shop: SocketAddr,
    /// The usual ports that other processes have.
    pub(super) taken: Vec<u16>,
    pub(super) plan: Plan,
    pub(super) api: bool,
}

/// Where the demo prints to: standard output.
pub(super) struct Screen {
    /// Whether a line can be written over: on a terminal that knows more than to print.
    redraws: bool,
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
        let is_capable = std::env::var_os("TERM").is_some_and(|name| !name.is_empty() && name != "dumb");
        Self { redraws: is_capable && io::stdout().is_terminal(), line: Mutex::default() }
    }

    /// Says what this is.
    pub(super) fn introduce(shown: &FirstScreen<'_>) {
        print(&first_screen(shown));
    }

    /// Shows the figures of this second.
    pub(super) fn show(&self, figures: &Figures) {
        let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        if line.is_closed_for_good {
            return;
        }
        let text = figures_line(figures);
        if self.redraws {
            line.is_open = true;
            print(&format!("{}{text}{}", REDRAW.0, REDRAW.1));
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
    pub(super) fn conclude(&self, last: Option<&Figures>, most_inside: u64) {
        self.close();
        let told = match last {
            None => "Ended before anybody came.".to_owned(),
            Some(last) => format!(
                "Ended after {}: {} let in, {} bought, never more than {} inside at once.",
                duration(last.elapsed),
                last.let_in,
                last.bought,
                of_places(most_inside, last.most_places)
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
fn figures_line(figures: &Figures) -> String {
    let Figures { inside, coming, in_line, bought, places, .. } = *figures;
    let rate = figures.let_in_a_minute.map_or_else(|| "-".to_owned(), |rate| format!("{rate}/min"));
    let waited = figures.waited_seconds.map_or_else(|| "-".to_owned(), |seconds| format!("{seconds} s"));
    let taken = of_places(inside, places);
    let whole = format!(
        "inside {taken}, {coming} coming | line {in_line} | let in {rate} | waited {waited} | bought {bought}"
    );
    if whole.len() < COLUMNS {
        return whole;
    }
    let places = places.map_or_else(String::new, |places| format!("/{places}"));
    format!("inside {inside}+{coming}{places} | line {in_line} | {rate} | waited {waited} | bought {bought}")
}

fn of_places(inside: u64, places: Option<u64>) -> String {
    places.map_or_else(|| inside.to_string(), |places| format!("{inside} of {places}"))
}

fn duration(elapsed: Duration) -> String {
    let seconds = elapsed.as_secs();
    if seconds < 60 { format!("{seconds} s") } else { format!("{} min {} s", seconds / 60, seconds % 60) }
}

/// Everything above the line of figures.
fn first_screen(shown: &FirstScreen<'_>) -> String {
    let calls = if shown.api { format!("\n{}", calls(shown)) } else { String::new() };
    format!("{}{calls}\n{LEGEND}\n{LAST_WORDS}\n\n", introduction(shown))
}

fn introduction(shown: &FirstScreen<'_>) -> String {
    let FirstScreen { addresses: Addresses { public, private, .. }, shop, plan, .. } = shown;
    let premiere = shop::premiere_url(*shop);
    let crowd = match plan.visitors {
        0 => "nobody else is here.".to_owned(),
        visitors => format!("{} want in.", count(visitors, "simulated visitor")),
    };
    let (taken, second_visitor_hint) = (taken_ports(&shown.taken), second_visitor_hint(*plan));
    format!(
        "\
A ticket shop serves {places} at a time; {crowd}
Anteroom stands before it: as many as fit are let in, the others wait in line.

Open  {public}/  in a browser.
{taken}{first}
Then try:

- Buy a ticket: your visit is over, and the next in line has your place.
{second_visitor_hint}- Close the tab while you wait, and come back: your place is still yours.
- \"Continue on another device\": no phone gets here, so try another browser.
- Do nothing inside for {SESSION_SECONDS} seconds: your place goes to the next.
- A site elsewhere sends visitors here to wait: {premiere}
- An API for those who bring a pass: curl -s http://{shop}/api/search
- Operators: {private}/docs with the key {ADMIN_KEY}
",
        places = count(plan.capacity, "visitor"),
        first = first_visit(*plan),
    )
}

/// What happens to the first visitor.
fn first_visit(plan: Plan) -> &'static str {
    match (plan.visitors, plan.wait_seconds()) {
        (0, _) => "You are in at once. A private window, or another browser, waits until you\nbuy or leave.",
        (_, 0) => "You are in at once or nearly so. With more visitors there is a line.",
        (_, ..60) => "You stand in line like everybody else, see it move, and are in within a minute.",
        _ => "You stand in line like everybody else, and are in within two minutes or so.",
    }
}

/// How to be a second visitor, unless that has been said.
fn second_visitor_hint(plan: Plan) -> &'static str {
    if plan.visitors == 0 {
        ""
    } else {
        "- Another browser, or a private window: that is somebody else in line.\n"
    }
}

/// Why the addresses are not the usual ones.
fn taken_ports(taken: &[u16]) -> String {
    let ports: Vec<String> = taken.iter().map(u16::to_string).collect();
    match ports.as_slice() {
        [] => String::new(),
        [port] => format!("(Port {port} is taken, so another one is used.)\n"),
        ports => format!("(Ports {} are taken, so others are used.)\n", ports.join(" and ")),
    }
}

/// Calls to be pasted into a shell: indented, so that they are told apart from what is for the reader.
fn calls(shown: &FirstScreen<'_>) -> String {
    let FirstScreen { addresses: Addresses { public, private, .. }, shop, .. } = shown;
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
            places: Some(3_157),
            most_places: Some(3_157),
            coming: 500,
            in_line: 16_343,
            let_in: 1_200_000,
            bought: 999_999,
            let_in_a_minute: Some(21_000),
            waited_seconds: Some(47),
            elapsed: Duration::from_mins(57),
        };
        let large = figures_line(&figures);
        assert_eq!(large, "inside 2657+500/3157 | line 16343 | 21000/min | waited 47 s | bought 999999");
        let small = Figures {
            inside: 16,
            places: Some(18),
            coming: 2,
            in_line: 94,
            bought: 8,
            let_in_a_minute: None,
            waited_seconds: None,
            ..figures
        };
        assert_eq!(
            figures_line(&small),
            "inside 16 of 18, 2 coming | line 94 | let in - | waited - | bought 8"
        );
        let unlimited = figures_line(&Figures { places: None, ..small });
        assert_eq!(unlimited, "inside 16, 2 coming | line 94 | let in - | waited - | bought 8");
        assert_eq!(
            [duration(Duration::from_secs(59)), duration(Duration::from_secs(130))],
            ["59 s", "2 min 10 s"]
        );
    }

    #[test]
    fn the_first_screen_fits_a_small_terminal() {
        let url = |port: u16| format!("http://127.0.0.1:{port}");
        let addresses = Addresses { public: url(65_535), private: url(65_534), ext_authz: None };
        let taken = [vec![], vec![8_080], vec![8_080, 8_081, 8_082]];
        for (visitors, taken) in [0, 1, 12, 120, 20_000]
            .into_iter()
            .flat_map(|visitors| taken.iter().map(move |taken| (visitors, taken.clone())))
        {
            let plan = Plan { visitors, capacity: (visitors * 9 / 57).max(1) };
            let shown = FirstScreen {
                addresses: &addresses,
                shop: SocketAddr::from(([127, 0, 0, 1], 65_533)),
                taken,
                plan,
                api: false,
            };
            let text = first_screen(&shown);
            // Below it stand the figures.
            assert!(text.lines().count() < 24, "{text}");
            assert!(text.lines().all(|line| line.chars().count() < COLUMNS), "{text}");
        }
    }

    #[test]
    fn what_is_promised_follows_from_the_plan() {
        let promised = |visitors, capacity| first_visit(Plan { visitors, capacity });
        assert!(promised(0, 1).starts_with("You are in at once. A private window"));
        assert!(promised(1, 1).starts_with("You are in at once or nearly so"));
        for (visitors, capacity) in [(2, 1), (6, 1), (120, 18), (20_000, 3_157)] {
            assert!(promised(visitors, capacity).ends_with("within a minute."), "{visitors}");
        }
        assert!(promised(12, 1).ends_with("within two minutes or so."));
    }

    #[test]
    fn taken_ports_are_named() {
        assert_eq!(taken_ports(&[]), "");
        assert_eq!(taken_ports(&[8_080]), "(Port 8080 is taken, so another one is used.)\n");
        let three = taken_ports(&[8_080, 8_081, 8_082]);
        assert_eq!(three, "(Ports 8080 and 8081 and 8082 are taken, so others are used.)\n");
    }
}
