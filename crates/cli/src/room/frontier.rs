//! What moves a room's frontier, in sentences: why it stands still, what moved it last, when it moves next.

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::output::{cell, count};

/// All that the private API says of it. A server of another version may say less.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Frontier {
    capacity: Option<u64>,
    last_move: Option<Move>,
    moves: Map<String, Value>,
    steps_missed: u64,
    next_step_at: Option<String>,
    standstill: Option<String>,
    stopped_by: Option<String>,
    stopped_since: Option<String>,
    firing: Vec<String>,
    adaptive: Option<Adaptive>,
    reports: Reports,
    auction: Option<Auction>,
    estimates: Estimates,
}

#[derive(Debug, Deserialize)]
struct Move {
    by: String,
    at: String,
    from: u64,
    to: u64,
}

#[derive(Debug, Deserialize)]
struct Adaptive {
    adjustment: String,
    adjusted_at: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Reports {
    heard: u64,
    silent: u64,
    free: Option<u64>,
    passes_in_flight: u64,
}

#[derive(Debug, Deserialize)]
struct Auction {
    closes_at: String,
    free: u64,
    spare: u64,
    wins: u64,
    average_winners: Value,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Estimates {
    checked: u64,
    within_p90: u64,
    median_quotient: Value,
}

impl Frontier {
    /// One sentence a line.
    pub(super) fn to_text(&self) -> String {
        let mut lines = vec![match &self.standstill {
            Some(_) => format!("the frontier stands still: {}", self.reason()),
            None => "the frontier moves".to_owned(),
        }];
        if let Some(moved) = &self.last_move {
            lines.push(format!("last moved by {} at {}: {} -> {}", moved.by, moved.at, moved.from, moved.to));
        }
        let moves = self.moves.iter().filter(|(_, number)| number.as_u64() != Some(0));
        let moves: Vec<String> = moves.map(|(by, number)| format!("{by} {}", cell(number))).collect();
        if !moves.is_empty() {
            lines.push(format!("moves so far: {}", moves.join(", ")));
        }
        if let Some(at) = &self.next_step_at {
            lines.push(format!("next step at {at}, {} missed so far", count(self.steps_missed, "step")));
        }
        if let Some(capacity) = self.capacity {
            let why = self.adaptive.as_ref();
            let why = why.map(|law| format!(" ({} at {})", law.adjustment, law.adjusted_at));
            lines.push(format!("capacity {capacity}{}", why.unwrap_or_default()));
        }
        if self.reports.heard + self.reports.silent > 0 {
            let Reports { heard, silent, free, passes_in_flight } = &self.reports;
            let free =
                free.map_or_else(|| "nothing said of what is free".to_owned(), |free| format!("{free} free"));
            lines.push(format!(
                "{} heard, {silent} silent: {free}, passes in flight: {passes_in_flight}",
                count(*heard, "reporter"),
            ));
        }
        if let Some(auction) = &self.auction {
            let Auction { closes_at, free, spare, wins, average_winners } = auction;
            lines.push(format!(
                "the round closes at {closes_at}: {free} free, {spare} spare, {wins} won and not claimed, {} winners a round",
                cell(average_winners)
            ));
        }
        if self.estimates.checked > 0 {
            let Estimates { checked, within_p90, median_quotient } = &self.estimates;
            lines.push(format!(
                "estimates: {checked} checked, {within_p90} within their p90, median quotient {}",
                cell(median_quotient)
            ));
        }
        lines.join("\n") + "\n"
    }

    fn reason(&self) -> String {
        let by = self.stopped_by.as_ref().map_or_else(String::new, |name| format!(" by {name}"));
        let since = self.stopped_since.as_ref().map_or_else(String::new, |at| format!(" since {at}"));
        match self.standstill.as_deref().unwrap_or_default() {
            "paused" => format!("paused{by}{since}"),
            "moved-back" => format!("moved back{by}{since}; `anteroom room resume` wakes the inlet"),
            "alarm" => format!("an alarm fires ({})", self.firing.join(", ")),
            "before-start" => "its time has not come".to_owned(),
            "after-end" => "its time is over".to_owned(),
            "by-hand-only" => "only operators move it".to_owned(),
            "nobody-waiting" => "nobody waits".to_owned(),
            "no-report" => "nobody reports free slots".to_owned(),
            "none-free" => "the site has no slot free".to_owned(),
            "at-capacity" => "the room is at its capacity".to_owned(),
            "rate-spent" => "this step's new users have been let in".to_owned(),
            other => other.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn to_text(room: Value) -> String {
        serde_json::from_value::<Frontier>(room).unwrap().to_text()
    }

    #[test]
    fn why_it_stands_still_is_a_sentence() {
        let paused = json!({"standstill": "paused", "stopped_by": "anna", "stopped_since": "2026-11-16T20:00:00.000Z"});
        assert_eq!(
            to_text(paused),
            "the frontier stands still: paused by anna since 2026-11-16T20:00:00.000Z\n"
        );
        let alarm = json!({"standstill": "alarm", "firing": ["HighLoad", "Disk"]});
        assert_eq!(to_text(alarm), "the frontier stands still: an alarm fires (HighLoad, Disk)\n");
        assert_eq!(to_text(json!({"standstill": "of-tomorrow"})), "the frontier stands still: of-tomorrow\n");
    }

    #[test]
    fn an_older_server_says_less() {
        assert_eq!(to_text(json!({})), "the frontier moves\n");
    }

    #[test]
    fn everything_has_its_line() {
        let room = json!({
            "capacity": 24, "standstill": null, "steps_missed": 1, "next_step_at": "T2",
            "last_move": {"by": "adaptive", "at": "T1", "from": 3, "to": 5},
            "moves": {"adaptive": 2, "hand": 0},
            "adaptive": {"capacity": 24, "adjusted_at": "T0", "adjustment": "raised"},
            "reports": {"heard": 1, "silent": 2, "free": 7, "passes_in_flight": 3},
            "auction": {"closes_at": "T3", "free": 4, "spare": 1, "wins": 2, "average_winners": 2.5},
            "estimates": {"checked": 10, "within_p90": 9, "median_quotient": 1.02},
        });
        let expected = "\
the frontier moves
last moved by adaptive at T1: 3 -> 5
moves so far: adaptive 2
next step at T2, 1 step missed so far
capacity 24 (raised at T0)
1 reporter heard, 2 silent: 7 free, passes in flight: 3
the round closes at T3: 4 free, 1 spare, 2 won and not claimed, 2.5 winners a round
estimates: 10 checked, 9 within their p90, median quotient 1.02
";
        assert_eq!(to_text(room), expected);
    }
}
