//! A round that nobody comes to, in which a slot becomes free: in the next one the earliest present wins, in whatever order they check in.

use anteroom_testkit::{Answer, Request, Server, jwt, wait_for, wait_until};
use serde_json::json;

use crate::support::BINARY;
use crate::support::auction::{TIMEOUT, hall, next_round, present, report};
use crate::support::auction_visits::{begin, check_in, client_for_a_round, join, queued};

const ROUND_SECONDS: u64 = 2;

fn start(config: &str) -> Server {
    Server::builder(BINARY).config(config).start().expect("the server starts")
}

/// Two who wait behind a slot that is taken, and come to two rounds in vain.
fn two_who_come_in_vain(server: &Server, each_round: impl Fn()) -> [String; 2] {
    let mut client = client_for_a_round(server);
    let tickets = [(); 2].map(|()| queued(&mut client, "Hall"));
    for _ in 0..2 {
        next_round(ROUND_SECONDS);
        each_round();
        for ticket in &tickets {
            let answer = check_in(&mut client, ticket);
            assert_eq!((answer.status, answer.problem().as_str()), (429, "no-slot"), "{answer:?}");
        }
    }
    next_round(ROUND_SECONDS);
    each_round();
    tickets
}

/// Nobody comes to this round, in which the slot has become free; in the next one the later ticket comes after the earlier one.
fn the_earlier_one_wins(server: &Server, [second, third]: &[String; 2]) {
    let earlier = begin(server, second);
    wait_until("the earlier one has a seat or an answer", TIMEOUT, || {
        present(server, "Hall") > 0 || earlier.is_answered()
    });
    let later = check_in(&mut client_for_a_round(server), third);
    let won = earlier.answer();
    assert_eq!(won.status, 200, "the earliest present wins: {won:?}");
    assert_eq!(jwt::claims(won.json()["accessToken"].as_str().expect("a pass"))["queue_position"], 2);
    assert_eq!((later.status, later.problem().as_str()), (429, "no-slot"), "{later:?}");
}

#[test]
fn the_earliest_present_wins_after_a_round_that_nobody_came_to() {
    let server = start(&hall("Hall", 1, ROUND_SECONDS));
    join(&mut client_for_a_round(&server), "Hall");
    let tickets = two_who_come_in_vain(&server, || {});
    report(&server, "Hall", &json!({"exited": 1}));
    next_round(ROUND_SECONDS);
    the_earlier_one_wins(&server, &tickets);
}

#[test]
fn the_earliest_present_wins_where_reports_say_what_is_free() {
    let config = hall("Hall", 1, ROUND_SECONDS)
        .replace("inlet = \"max-size\"\ntotal_active_users = 1\n", "inlet = \"manual\"\n");
    let server = start(&config);
    let free = |free: u64| report(&server, "Hall", &json!({"reporter": "web", "free": free}));
    free(0);
    let mut client = client_for_a_round(&server);
    queued(&mut client, "Hall");
    let tickets = two_who_come_in_vain(&server, || free(0));
    free(1);
    next_round(ROUND_SECONDS);
    free(1);
    // The first in line has gone away without a word.
    the_earlier_one_wins(&server, &tickets);
}

#[test]
fn the_earliest_that_comes_back_wins_after_a_round_that_nobody_came_to() {
    let server = start(&hall("Hall", 1, ROUND_SECONDS));
    join(&mut client_for_a_round(&server), "Hall");
    let tickets = two_who_come_in_vain(&server, || {});
    report(&server, "Hall", &json!({"exited": 1}));
    next_round(ROUND_SECONDS);
    let mut client = client_for_a_round(&server);
    let mut claim = |ticket: &String| -> Answer {
        let request = Request::new("POST", "/claim").header("Authorization", &format!("Bearer {ticket}"));
        client.send(&request).expect("an answer")
    };
    let first_to_be_admitted = wait_for("one of them is admitted", TIMEOUT, || {
        // Both come again and again, the earlier one first.
        tickets.iter().position(|ticket| {
            let answer = claim(ticket);
            assert!(matches!(answer.status, 200 | 409), "{answer:?}");
            answer.status == 200
        })
    });
    assert_eq!(first_to_be_admitted, 0, "the earliest present wins");
}
