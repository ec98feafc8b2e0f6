//! Visits to an auction: places, check-ins, and those who wait for the end of a round.

use std::thread::{self, JoinHandle};

use anteroom_testkit::{Answer, Client, Request, Server, wait_until};
use serde_json::{Value, json};

use crate::support::auction::{TIMEOUT, present, subject};

/// A client with a timeout that is longer than a round.
pub(crate) fn client_for_a_round(server: &Server) -> Client {
    server.visitor().with_read_timeout(TIMEOUT)
}

/// POST `/auction` without a ticket.
#[track_caller]
pub(crate) fn join(client: &mut Client, room: &str) -> Value {
    let answer = client.post("/auction", &json!({ "room": room })).expect("an answer");
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()
}

/// A place in line that must be one: its ticket.
#[track_caller]
pub(crate) fn queued(client: &mut Client, room: &str) -> String {
    let joined = join(client, room);
    joined["queueToken"].as_str().unwrap_or_else(|| panic!("a place, not {joined}")).to_owned()
}

/// A check-in, answered when it is.
#[track_caller]
pub(crate) fn check_in(client: &mut Client, ticket: &str) -> Answer {
    client.send(&checking_in(ticket)).expect("an answer")
}

fn checking_in(ticket: &str) -> Request {
    Request::new("POST", "/auction").header("Authorization", &format!("Bearer {ticket}"))
}

/// A check-in that waits for the end of the round.
pub(crate) struct Waiting(JoinHandle<Answer>);

impl Waiting {
    pub(crate) fn is_answered(&self) -> bool {
        self.0.is_finished()
    }

    #[track_caller]
    pub(crate) fn answer(self) -> Answer {
        self.0.join().expect("the check-in ends")
    }
}

/// Checks in without waiting for the answer.
pub(crate) fn begin(server: &Server, ticket: &str) -> Waiting {
    let (mut client, ticket) = (client_for_a_round(server), ticket.to_owned());
    Waiting(thread::spawn(move || check_in(&mut client, &ticket)))
}

/// Checks in until there is a seat: rounds without free slots turn everybody away.
#[track_caller]
pub(crate) fn seat(server: &Server, room: &str, ticket: &str) -> Waiting {
    let before = present(server, room);
    let mut waiting = begin(server, ticket);
    wait_until("there is a seat", TIMEOUT, || {
        if waiting.is_answered() {
            waiting = begin(server, ticket);
        }
        present(server, room) > before
    });
    waiting
}

/// A hall with one slot, which is taken, and so many who wait; then it is freed, in a round that turned them away.
pub(crate) fn one_slot_becomes_free(server: &Server, room: &str, waiting: usize) -> Vec<String> {
    let mut client = client_for_a_round(server);
    let inside = join(&mut client, room)["accessToken"].as_str().expect("immediate admission").to_owned();
    let tickets: Vec<String> = (0..waiting).map(|_| queued(&mut client, room)).collect();
    let turned_away = check_in(&mut client, tickets.last().expect("somebody waits"));
    assert_eq!(turned_away.status, 429, "{turned_away:?}");
    assert_eq!(server.line(room).close(&subject(&inside), 1).status, 200);
    tickets
}
