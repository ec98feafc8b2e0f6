//! One room, `Hall`, as these stories need it: changed, looked at from both sides, and waited for.

use std::time::Duration;

use anteroom_testkit::{Answer, Line, Request, Server, wait_for, wait_until};
use serde_json::{Value, json};

use crate::support::BINARY;

/// How long a state may take to come about, beside what the rules themselves ask for.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(40);

/// The room, and who looks at it.
pub(crate) struct Hall {
    pub(crate) server: Server,
    pub(crate) line: Line,
}

impl Hall {
    /// A server with the room at these settings.
    pub(crate) fn open(settings: &Value) -> Self {
        let config =
            "watch_interval_milliseconds = 10\nsigning_algorithm = \"EdDSA\"\n[[room]]\nid = \"Hall\"\n";
        let server = Server::builder(BINARY).config(config).memory().start();
        let server = server.expect("the server starts");
        let line = server.line("Hall");
        let mut hall = Self { server, line };
        hall.set(settings);
        hall
    }

    /// Changes settings; the room as it is then.
    #[track_caller]
    pub(crate) fn set(&mut self, settings: &Value) -> Value {
        self.patch(&json!({ "settings": settings }))
    }

    /// Changes settings and state.
    #[track_caller]
    pub(crate) fn patch(&mut self, change: &Value) -> Value {
        let request = Request::new("PATCH", "/rooms/Hall").body(change.to_string());
        let answer = self.line.operator.send(&request).expect("an answer");
        assert_eq!(answer.status, 200, "{change}: {answer:?}");
        answer.json()
    }

    /// As operators see it.
    pub(crate) fn room(&mut self) -> Value {
        self.line.operator.get("/rooms/Hall").expect("an answer").json()
    }

    /// As everybody sees it.
    pub(crate) fn board(&mut self) -> Value {
        self.line.public.get("/rooms/Hall").expect("an answer").json()
    }

    /// Sends something about capacity.
    pub(crate) fn say(&mut self, body: &Value) -> Answer {
        self.line.operator.post("/rooms/Hall/capacity", body).expect("an answer")
    }

    /// A capacity report that must be taken.
    #[track_caller]
    pub(crate) fn report(&mut self, body: &Value) -> Value {
        let answer = self.say(body);
        assert_eq!(answer.status, 200, "{body}: {answer:?}");
        assert_eq!(answer.json()["reported"], "taken", "{body}");
        answer.json()
    }

    pub(crate) fn capacity(&mut self) -> Value {
        self.line.operator.get("/rooms/Hall/capacity").expect("an answer").json()
    }

    /// Waits for a room that is so, and returns it.
    #[track_caller]
    pub(crate) fn wait(&mut self, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        wait_for(what, TIMEOUT, || Some(self.room()).filter(&holds))
    }

    /// Waits until the frontier stands still for this reason, on both sides.
    #[track_caller]
    pub(crate) fn wait_for_standstill(&mut self, word: &str) -> Value {
        let room = self.wait(&format!("standstill is {word}"), |room| room["standstill"] == word);
        wait_until("the public board says so too", TIMEOUT, || self.board()["standstill"] == word);
        room
    }

    /// Waits until the timetable has gone on by so many steps, taken or not; returns the room.
    #[track_caller]
    pub(crate) fn wait_for_steps(&mut self, steps: usize) -> Value {
        let mut last = self.room();
        for _ in 0..steps {
            let before = last["next_step_at"].clone();
            last = self.wait("the timetable goes on", |room| room["next_step_at"] != before);
        }
        last
    }

    /// Where the ticket stands, as its holder is told.
    pub(crate) fn status(&mut self, id: &str) -> String {
        let request = Request::new("GET", "/status?room=Hall").header("Authorization", id);
        let answer = self.line.public.send(&request).expect("an answer").json();
        answer["status"].as_str().unwrap_or_else(|| panic!("no status: {answer}")).to_owned()
    }
}

pub(crate) fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("not a number: {value}"))
}
