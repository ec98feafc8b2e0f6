//! "Auction discipline exactly as design section 6 has it, `POST /auction` in the seed's own field names", with the real binary.

use anteroom_testkit::{Answer, Request, Server, Wire, jwt, wait_for, wait_until};
use serde_json::{Value, json};

use crate::support::BINARY;
use crate::support::auction::{TIMEOUT, hall, present, rounds, subject};
use crate::support::auction_visits::{
    begin, check_in, client_for_a_round, join, one_slot_becomes_free, queued, seat,
};
use crate::support::metrics::metric;

fn start(config: &str) -> Server {
    Server::builder(BINARY).config(config).start().expect("the server starts")
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().expect("an object").keys().map(String::as_str).collect()
}

#[track_caller]
fn assert_told_to_return(answer: &Answer) {
    assert_eq!((answer.status, answer.problem().as_str()), (429, "no-slot"), "{answer:?}");
    let estimate = &answer.json()["estimated_wait_seconds"];
    assert!(estimate.is_null() || estimate.is_u64(), "{answer:?}");
    let seconds: u64 = answer.header("Retry-After").expect("Retry-After").parse().expect("whole seconds");
    assert!(seconds >= 1, "{answer:?}");
}

#[track_caller]
fn access_token(answer: &Answer) -> String {
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()["accessToken"].as_str().expect("a pass").to_owned()
}

#[test]
fn the_seeds_two_answers_and_its_429() {
    let server = start(&(hall("Hall", 1, 2) + "[[room]]\nid = \"Counter\"\n"));
    let mut client = client_for_a_round(&server);
    let first = join(&mut client, "Hall");
    assert_eq!(keys(&first), ["accessToken", "backendUri"]);
    assert_eq!(first["backendUri"], "https://shop.example.com/");
    let claims = jwt::claims(first["accessToken"].as_str().expect("a token"));
    let [enter_by, issued] = ["enter_by", "iat"].map(|name| claims[name].as_u64().expect(name));
    assert_eq!(enter_by - issued, 30, "{claims}");

    let second = client.send(&Request::new("POST", "/auction?room=Hall")).expect("an answer").json();
    assert_eq!(keys(&second), ["estimatedWaitSeconds", "queueToken"]);
    let ticket = second["queueToken"].as_str().expect("a ticket");
    assert_eq!(jwt::claims(ticket)["sub"], "2");
    // Shown in the body, as the seed's clients do.
    let response = client.post("/auction", &json!({ "queueToken": ticket })).expect("an answer");
    assert_told_to_return(&response);

    // A room without auctions says so, to everybody, and gives no place away.
    let other = client.post("/auction", &json!({ "room": "Counter" })).expect("an answer");
    assert_eq!((other.status, other.problem().as_str()), (409, "conflict"), "{other:?}");
    assert!(other.error().contains("/join"), "{other:?}");
    let mut line = server.line("Counter");
    let counted = line.join();
    let shown = Request::new("POST", "/auction?room=Counter").header("Authorization", &counted);
    assert_eq!(client.send(&shown).expect("an answer").status, 409);
    assert_eq!(line.waiting(), 1);
    // Bad input is refused, and takes no place.
    let mut hall = server.line("Hall");
    for (request, status) in [
        (Request::new("POST", "/auction?room=Hall").header("Authorization", "Basic x"), 401),
        (Request::new("POST", "/auction?room=Hall").header("Authorization", "Bearer nonsense"), 404),
        (Request::new("POST", "/auction?room=Hall").body("[]"), 400),
        (Request::new("POST", "/auction?room=Nowhere"), 404),
        (Request::new("POST", "/auction?room=Hall").body("{\"room\":\"Counter\"}"), 400),
        (Request::new("POST", "/auction?room=Hall").body("{\"queueToken\":5}"), 400),
    ] {
        let answer = client.send(&request).expect("an answer");
        assert_eq!(answer.status, status, "{answer:?}");
    }
    assert_eq!(hall.waiting(), 1);
}

#[test]
fn a_place_taken_twice_with_one_key_is_one_place() {
    let server = start(&hall("Hall", 1, 2));
    let mut client = client_for_a_round(&server);
    let keyed = Request::new("POST", "/auction").header("Idempotency-Key", "0123456789abcdef-first");
    let first = client.send(&keyed).expect("an answer");
    let again = client.send(&keyed).expect("an answer");
    assert_eq!(access_token(&first), access_token(&again), "the same pass, byte for byte");
    let keyed = Request::new("POST", "/auction").header("Idempotency-Key", "0123456789abcdef-second");
    let [first, again] = [(); 2].map(|()| client.send(&keyed).expect("an answer").json());
    assert!(first["queueToken"].is_string() && first["queueToken"] == again["queueToken"], "{first} {again}");
    assert_eq!(server.line("Hall").waiting(), 1);
}

#[test]
fn a_join_finds_a_spare_slot_and_else_a_place() {
    let server = start(&hall("Hall", 1, 2));
    let mut client = client_for_a_round(&server);
    let [first, second] = [(); 2].map(|()| client.post("/join", &json!({})).expect("an answer").json());
    assert_eq!(
        (&first["status"], &second["status"]),
        (&json!("admitted"), &json!("waiting")),
        "{first} {second}"
    );
    assert_eq!(second["serving"], 1, "the highest winner");
}

#[test]
fn round_after_round_the_earliest_present_wins_and_a_later_one_is_told_at_once() {
    let server = start(&hall("Hall", 1, 4));
    let tickets = one_slot_becomes_free(&server, "Hall", 4);
    let [second, third, fourth, fifth] = [0, 1, 2, 3].map(|index| tickets[index].as_str());
    // The last in line comes first, and has to make way: at once, not at the end of the round.
    let last = seat(&server, "Hall", fifth);
    let round = rounds(&server);
    let earlier = begin(&server, third);
    wait_until("the later one is told", TIMEOUT, || last.is_answered());
    let told_at_once = rounds(&server) == round;
    assert!(!told_at_once || present(&server, "Hall") <= 1);
    assert_told_to_return(&last.answer());
    let pass = access_token(&earlier.answer());
    assert_eq!(jwt::claims(&pass)["queue_position"], 3);
    assert_eq!(server.line("Hall").serving(), 3);

    // The next round: a client that was absent has lost nothing. A newcomer is behind everybody.
    assert_told_to_return(&check_in(&mut client_for_a_round(&server), fourth));
    assert_eq!(server.line("Hall").close(&subject(&pass), 1).status, 200);
    let newcomer = queued(&mut client_for_a_round(&server), "Hall");
    let waiting = seat(&server, "Hall", &newcomer);
    let absent_before = begin(&server, second);
    assert_told_to_return(&waiting.answer());
    let pass = access_token(&absent_before.answer());
    assert_eq!(jwt::claims(&pass)["queue_position"], 2);
    assert_eq!(server.line("Hall").serving(), 3, "the frontier does not go back");
}

#[test]
fn a_client_that_hangs_up_is_absent_and_keeps_its_place() {
    let server = start(&hall("Hall", 1, 3));
    let tickets = one_slot_becomes_free(&server, "Hall", 2);
    let wire = wait_for("the first in line has a seat", TIMEOUT, || {
        let mut wire = hold(&server, &tickets[0]);
        if present(&server, "Hall") == 1 {
            return Some(wire);
        }
        // Turned away: there was no free slot in this round.
        let answer = wire.read_answer().expect("an answer").expect("one");
        assert_ne!(answer.status, 200, "{answer:?}");
        None
    });
    drop(wire);
    wait_until("the seat is free", TIMEOUT, || present(&server, "Hall") == 0);
    let second = seat(&server, "Hall", &tickets[1]);
    let pass = access_token(&second.answer());
    assert_eq!(jwt::claims(&pass)["queue_position"], 3);
    // The place is what it was.
    assert_eq!(server.line("Hall").close(&subject(&pass), 1).status, 200);
    let pass = wait_for("the first in line wins", TIMEOUT, || {
        let answer = check_in(&mut client_for_a_round(&server), &tickets[0]);
        (answer.status == 200).then(|| access_token(&answer))
    });
    assert_eq!(jwt::claims(&pass)["queue_position"], 2);
}

/// A check-in over a connection that can be cut.
fn hold(server: &Server, ticket: &str) -> Wire {
    let mut wire = Wire::connect(server.public(), TIMEOUT).expect("a connection");
    let rounds_before = rounds(server);
    let request = format!("POST /auction HTTP/1.1\r\nHost: here\r\nAuthorization: Bearer {ticket}\r\n\r\n");
    wire.write(request.as_bytes()).expect("written");
    let told_to_return = || metric(server, "anteroom_auction_told_to_return_total");
    let before = told_to_return();
    // Seated or told: one of the two is so in a moment.
    wait_until("the check-in is seen", TIMEOUT, || {
        present(server, "Hall") > 0 || told_to_return() > before || rounds(server) > rounds_before
    });
    wire
}

#[test]
fn a_winner_whose_connection_died_gets_the_same_pass_on_asking_again_also_after_a_restart() {
    let mut server = start(&hall("Hall", 1, 2));
    let tickets = one_slot_becomes_free(&server, "Hall", 2);
    // Held until the round is won, and cut without the answer being read.
    let mut line = server.line("Hall");
    wait_until("the first in line has won", TIMEOUT, || {
        let wire = hold(&server, &tickets[0]);
        let round = rounds(&server);
        wait_until("the round is over", TIMEOUT, || present(&server, "Hall") == 0 || rounds(&server) > round);
        drop(wire);
        line.serving() == 2
    });
    let mut client = client_for_a_round(&server);
    let pass = access_token(&check_in(&mut client, &tickets[0]));
    assert_eq!(access_token(&check_in(&mut client, &tickets[0])), pass, "the same, byte for byte");
    assert_eq!(line.active(), 1, "one session");
    server.restart().expect("the server starts again");
    assert_eq!(
        access_token(&check_in(&mut client_for_a_round(&server), &tickets[0])),
        pass,
        "also after a restart"
    );
    assert_eq!(server.line("Hall").active(), 1);
}

#[test]
fn a_client_that_comes_back_every_round_wins_and_claims() {
    let server = start(&hall("Hall", 1, 2));
    let tickets = one_slot_becomes_free(&server, "Hall", 1);
    let id = jwt::claims(&tickets[0])["jti"].as_str().expect("a request id").to_owned();
    let mut line = server.line("Hall");
    assert_eq!(line.claim(&id).status, 202);
    let pass = wait_for("the poller wins", TIMEOUT, || {
        let answer = line.claim(&id);
        assert!(matches!(answer.status, 200 | 202), "{answer:?}");
        (answer.status == 200).then(|| answer.token_set()[0].clone())
    });
    assert!(jwt::claims(&pass)["enter_by"].is_u64());
    assert_eq!(
        access_token(&check_in(&mut client_for_a_round(&server), &tickets[0])),
        pass,
        "the same on both APIs"
    );
}

#[test]
fn the_status_of_a_ticket_goes_from_waiting_to_active_to_admitted() {
    let server = start(&hall("Hall", 1, 2));
    let tickets = one_slot_becomes_free(&server, "Hall", 1);
    let mut client = client_for_a_round(&server);
    let shown = |method: &str, path: &str| {
        Request::new(method, path).header("Authorization", &format!("Bearer {}", tickets[0]))
    };
    let mut status = || {
        let answer = client.send(&shown("GET", "/status")).expect("an answer");
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()["status"].as_str().expect("a status").to_owned()
    };
    assert_eq!(status(), "waiting");
    let mut caller = client_for_a_round(&server);
    let claim = shown("POST", "/claim");
    wait_until("the ticket has won", TIMEOUT, || {
        let now = status();
        assert!(now == "waiting" || now == "active", "{now}");
        if now == "waiting" {
            // Present at this round, without waiting. If it has won in this moment, the claim takes it.
            let answer = caller.send(&claim).expect("an answer");
            assert!(matches!(answer.status, 200 | 409), "{answer:?}");
            return answer.status == 200;
        }
        true
    });
    assert_eq!(caller.send(&claim).expect("an answer").status, 200);
    assert_eq!(status(), "admitted");
}

#[test]
fn a_second_connection_of_a_ticket_takes_over() {
    let server = start(&hall("Hall", 1, 3));
    let tickets = one_slot_becomes_free(&server, "Hall", 1);
    let first = seat(&server, "Hall", &tickets[0]);
    let second = begin(&server, &tickets[0]);
    let (first, second) = (first.answer(), second.answer());
    // If the round ended in between, the first has the pass, and the second finds it.
    if first.status == 200 {
        assert_eq!(access_token(&first), access_token(&second));
    } else {
        assert_told_to_return(&first);
        assert!(first.error().contains("Another connection"), "{first:?}");
        access_token(&second);
    }
}

#[test]
fn whatever_becomes_of_the_room_those_who_wait_are_told() {
    let mut config = String::new();
    let changes = [
        ("Paused", json!({"state": "paused"}), 429, "no-slot"),
        ("Closed", json!({"state": "closed"}), 410, "room-closed"),
        ("Counted", json!({"settings": {"discipline": "counter"}}), 409, "conflict"),
    ];
    for name in ["Paused", "Closed", "Counted", "Deleted", "Reset"] {
        config += &hall(name, 1, 5);
    }
    let server = start(&config);
    let mut operator = server.operator();
    for (room, change, status, problem) in changes {
        let tickets = one_slot_becomes_free(&server, room, 1);
        let waiting = seat(&server, room, &tickets[0]);
        let path = format!("/rooms/{room}");
        let patched =
            operator.send(&Request::new("PATCH", &path).body(change.to_string())).expect("an answer");
        assert_eq!(patched.status, 200, "{patched:?}");
        assert_told(&waiting.answer(), status, problem);
        assert_eq!(present(&server, room), 0);
    }
    let tickets = one_slot_becomes_free(&server, "Deleted", 1);
    let waiting = seat(&server, "Deleted", &tickets[0]);
    let deleted = operator.send(&Request::new("DELETE", "/rooms/Deleted")).expect("an answer");
    assert!(deleted.status < 300, "{deleted:?}");
    assert_told(&waiting.answer(), 404, "unknown-room");

    let tickets = one_slot_becomes_free(&server, "Reset", 1);
    let waiting = seat(&server, "Reset", &tickets[0]);
    assert!(server.line("Reset").reset().status < 300);
    assert_told(&waiting.answer(), 404, "unknown-ticket");
}

/// What it is told because of the change; or the pass, if the round ended in the very moment before.
#[track_caller]
fn assert_told(answer: &Answer, status: u16, problem: &str) {
    if answer.status != 200 {
        assert_eq!((answer.status, answer.problem().as_str()), (status, problem), "{answer:?}");
    }
}

#[test]
fn a_server_that_goes_down_tells_those_who_wait() {
    let mut server = start(&hall("Hall", 1, 4));
    let tickets = one_slot_becomes_free(&server, "Hall", 1);
    let waiting = seat(&server, "Hall", &tickets[0]);
    server.signal("TERM").expect("sent");
    let answer = waiting.answer();
    if answer.status != 200 {
        assert_eq!((answer.status, answer.problem().as_str()), (503, "unavailable"), "{answer:?}");
        assert!(answer.header("Retry-After").is_some(), "{answer:?}");
    }
    let ended = server.wait_for_end().expect("the server ends");
    assert!(ended.status.success(), "{}", ended.stderr);
}
