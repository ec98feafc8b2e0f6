//! One room seen from both listeners, for tests that read like a story: `line.join()`, `line.advance(3)`, `line.waiting()`.
//! Whatever the story takes for granted panics when it is not so.

use std::time::Duration;

use serde_json::Value;

use crate::aws;
use crate::http::{Answer, Client};
use crate::wait::wait_until;

/// How long a figure may take to become what a test expects, beside the time the rules themselves ask for.
const FIGURE_DEADLINE: Duration = Duration::from_secs(15);

/// A room's figures, to see that something changed nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Figures {
    /// The frontier.
    pub serving: i64,
    /// How many wait.
    pub waiting: i64,
    /// How many hold an unexpired, unfinished pass.
    pub active: i64,
    /// Whose passes are past their end, sorted.
    pub expired: Vec<String>,
}

impl Figures {
    /// Figures of a room in which no pass is past its end.
    pub fn of(serving: i64, waiting: i64, active: i64) -> Self {
        Self { serving, waiting, active, expired: Vec::new() }
    }
}

/// A room, a visitor's connection and an operator's connection.
#[derive(Debug)]
pub struct Line {
    event: String,
    /// The public listener.
    pub public: Client,
    /// The private listener, with the admin key.
    pub operator: Client,
}

impl Line {
    /// The room `event` behind these two listeners.
    pub fn new(event: &str, public: Client, operator: Client) -> Self {
        Self { event: event.to_owned(), public, operator }
    }

    /// The room id.
    pub fn event(&self) -> &str {
        &self.event
    }

    /// The same room over connections of its own, for another thread.
    #[must_use]
    pub fn another(&self) -> Self {
        Self { event: self.event.clone(), public: self.public.another(), operator: self.operator.another() }
    }

    /// Takes a place and returns its request id.
    #[track_caller]
    pub fn join(&mut self) -> String {
        let answer = expect_answer(aws::assign_queue_num(&mut self.public, &self.event));
        text_field(&expect_status(&answer, 200), "api_request_id")
    }

    /// Takes several places, one after the other.
    #[track_caller]
    pub fn join_many(&mut self, visitors: usize) -> Vec<String> {
        (0..visitors).map(|_| self.join()).collect()
    }

    /// The answer of `queue_num`.
    #[track_caller]
    pub fn place(&mut self, request_id: &str) -> Answer {
        expect_answer(aws::queue_num(&mut self.public, &self.event, request_id))
    }

    /// The position.
    #[track_caller]
    pub fn position(&mut self, request_id: &str) -> i64 {
        let answer = self.place(request_id);
        number_field(&expect_status(&answer, 200), "queue_number")
    }

    /// The frontier.
    #[track_caller]
    pub fn serving(&mut self) -> i64 {
        let answer = expect_answer(aws::serving_num(&mut self.public, &self.event));
        number_field(&expect_status(&answer, 200), "serving_counter")
    }

    /// How many wait; a negative number is a panic, because it never may be one.
    #[track_caller]
    pub fn waiting(&mut self) -> i64 {
        let answer = expect_answer(aws::waiting_num(&mut self.public, &self.event));
        let waiting = number_field(&expect_status(&answer, 200), "waiting_num");
        assert!(waiting >= 0, "waiting_num is negative: {waiting}");
        waiting
    }

    /// Moves the frontier and returns where it stands.
    #[track_caller]
    pub fn advance(&mut self, by: i64) -> i64 {
        let answer = expect_answer(aws::increment_serving_counter(&mut self.operator, &self.event, by));
        number_field(&expect_status(&answer, 200), "serving_num")
    }

    /// The answer of `queue_pos_expiry`.
    #[track_caller]
    pub fn expiry(&mut self, request_id: &str) -> Answer {
        expect_answer(aws::queue_pos_expiry(&mut self.public, &self.event, request_id))
    }

    /// The answer of the public `generate_token`.
    #[track_caller]
    pub fn claim(&mut self, request_id: &str) -> Answer {
        expect_answer(aws::generate_token(&mut self.public, &self.event, request_id))
    }

    /// The answer of the private `generate_token` with further fields.
    #[track_caller]
    pub fn claim_privately(&mut self, request_id: &str, more: &Value) -> Answer {
        expect_answer(aws::generate_token_with(&mut self.operator, &self.event, request_id, more))
    }

    /// The token set of a claim that must succeed: access, refresh and id token.
    #[track_caller]
    pub fn tokens(&mut self, request_id: &str) -> [String; 3] {
        let answer = self.claim(request_id);
        token_set(&answer)
    }

    /// The answer of `update_session`.
    #[track_caller]
    pub fn close(&mut self, request_id: &str, status: i64) -> Answer {
        expect_answer(aws::update_session(&mut self.operator, &self.event, request_id, status))
    }

    /// How many hold an unexpired, unfinished pass.
    #[track_caller]
    pub fn active(&mut self) -> i64 {
        let answer = expect_answer(aws::num_active_tokens(&mut self.operator, &self.event));
        number_field(&expect_status(&answer, 200), "active_tokens")
    }

    /// Whose passes are past their end, sorted.
    #[track_caller]
    pub fn expired(&mut self) -> Vec<String> {
        let answer = expect_answer(aws::expired_tokens(&mut self.operator, &self.event));
        let listed = expect_status(&answer, 200);
        let ids = listed.as_array().unwrap_or_else(|| panic!("expired_tokens is an array, not {listed}"));
        let texts =
            ids.iter().map(|id| id.as_str().unwrap_or_else(|| panic!("not a request id: {id}")).to_owned());
        let mut expired: Vec<String> = texts.collect();
        expired.sort();
        expired
    }

    /// Begins the line anew.
    #[track_caller]
    pub fn reset(&mut self) -> Answer {
        expect_answer(aws::reset_initial_state(&mut self.operator, &self.event))
    }

    /// All figures at once.
    #[track_caller]
    pub fn figures(&mut self) -> Figures {
        Figures {
            serving: self.serving(),
            waiting: self.waiting(),
            active: self.active(),
            expired: self.expired(),
        }
    }

    /// Waits until so many wait. Meant for figures that follow the clock: after a call they are right at once.
    #[track_caller]
    pub fn wait_until_waiting(&mut self, expected: i64) {
        let what = format!("waiting_num of {} is {expected}", self.event);
        wait_until(&what, FIGURE_DEADLINE, || self.waiting() == expected);
    }

    /// Waits until a served place has lapsed.
    #[track_caller]
    pub fn wait_until_lapsed(&mut self, request_id: &str) {
        let what = format!("{request_id} has lapsed");
        wait_until(&what, FIGURE_DEADLINE, || self.expiry(request_id).status == 410);
    }
}

/// The three tokens of a successful `generate_token`.
#[track_caller]
pub(crate) fn token_set(answer: &Answer) -> [String; 3] {
    let body = expect_status(answer, 200);
    assert_eq!(body["token_type"], "Bearer", "{answer:?}");
    ["access_token", "refresh_token", "id_token"].map(|name| text_field(&body, name))
}

impl Answer {
    /// The access, refresh and id token of a successful `generate_token`.
    #[track_caller]
    pub fn token_set(&self) -> [String; 3] {
        token_set(self)
    }
}

#[track_caller]
fn expect_answer(result: anyhow::Result<Answer>) -> Answer {
    result.unwrap_or_else(|error| panic!("no answer: {error:#}"))
}

#[track_caller]
fn expect_status(answer: &Answer, status: u16) -> Value {
    assert_eq!(answer.status, status, "{answer:?}");
    answer.json()
}

#[track_caller]
fn text_field(body: &Value, name: &str) -> String {
    body[name].as_str().unwrap_or_else(|| panic!("{name} is not a text in {body}")).to_owned()
}

#[track_caller]
fn number_field(body: &Value, name: &str) -> i64 {
    body[name].as_i64().unwrap_or_else(|| panic!("{name} is not an integer in {body}"))
}
