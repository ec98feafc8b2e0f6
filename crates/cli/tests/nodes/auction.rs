//! An auction whose people come to two nodes: each round's slots go to the earliest of all of them.

use anteroom_testkit::redis::RedisProcess;
use anteroom_testkit::{Server, jwt, require_redis, wait_until};
use serde_json::json;

use crate::pair::{call, two_nodes};
use crate::support::auction::{TIMEOUT, hall, next_round, present, report, subject};
use crate::support::auction_visits::{begin, check_in, client_for_a_round, join, queued};
use crate::support::metrics::metric;

/// The position of the ticket that a pass was given for.
fn position(access_token: &str) -> u64 {
    jwt::claims(access_token)["queue_position"].as_u64().expect("a position")
}

#[test]
fn the_earliest_win_whichever_node_they_came_to() {
    if !require_redis() {
        return;
    }
    let redis = RedisProcess::start();
    let nodes = two_nodes(&redis, &hall("Hall", 3, 4));
    let mut client = client_for_a_round(&nodes[0]);
    // The hall is full, so that those who come now wait.
    let inside: Vec<String> = (0..3)
        .map(|_| join(&mut client, "Hall")["accessToken"].as_str().expect("immediate admission").to_owned())
        .collect();
    let mut tickets = vec![];
    for number in 0..6 {
        tickets.push(queued(&mut client_for_a_round(&nodes[number % 2]), "Hall"));
    }
    for access_token in &inside {
        assert_eq!(nodes[1].line("Hall").close(&subject(access_token), 1).status, 200);
    }
    // A client that is turned away because nothing was free yet comes again, as clients do.
    let mut won: Vec<u64> = vec![];
    let mut waiting: Vec<_> = tickets
        .iter()
        .enumerate()
        .map(|(number, ticket)| (number, begin(&nodes[number % 2], ticket)))
        .collect();
    wait_until("three have won", TIMEOUT, || {
        let answered: Vec<_> = waiting.extract_if(.., |(_, check_in)| check_in.is_answered()).collect();
        for (number, check_in) in answered {
            let answer = check_in.answer();
            if answer.status == 200 {
                won.push(position(answer.json()["accessToken"].as_str().expect("a pass")));
            } else {
                // On a busy machine a store may answer too late once.
                assert!(matches!(answer.status, 429 | 503), "{answer:?}");
                waiting.push((number, begin(&nodes[number % 2], &tickets[number])));
            }
        }
        won.len() >= 3
    });
    won.sort_unstable();
    assert_eq!(won, [4, 5, 6], "the three earliest of those who waited, of both nodes");
    let figures = |node: &Server| node.line("Hall").active();
    wait_until("both boards agree", TIMEOUT, || nodes.iter().all(|node| figures(node) == 3));
    // A winner may ask any node for the pass, and gets the same.
    let [here, there] =
        [0, 1].map(|node: usize| check_in(&mut client_for_a_round(&nodes[node]), &tickets[0]));
    assert_eq!((here.status, here.text()), (200, there.text()));
    drop(waiting);
    assert!(present(&nodes[0], "Hall") <= 3);
}

#[test]
fn the_earliest_of_two_nodes_wins_after_a_round_that_nobody_came_to() {
    if !require_redis() {
        return;
    }
    let redis = RedisProcess::start();
    let nodes = two_nodes(&redis, "");
    // On a busy machine a store may answer too late once; then the story is told again in another room.
    let told = ["Hall", "Yard", "Attic"].into_iter().any(|room| {
        let hall = json!({"settings": {"inlet": "max-size", "total_active_users": 1, "discipline": "auction",
            "round_seconds": 2, "backend_uri": "https://shop.example.com/"}});
        call(&mut nodes[0].operator(), "PUT", &format!("/rooms/{room}"), &hall, 201);
        wait_until("both nodes know the room", TIMEOUT, || {
            nodes[1].operator().get(&format!("/rooms/{room}")).is_ok_and(|answer| answer.status == 200)
        });
        earliest_wins(&nodes, room)
    });
    assert!(told, "the store answered late every time");
    let commits = metric(&nodes[0], "anteroom_store_commits_total");
    assert!(commits < 300, "a round is settled once: {commits} commits");
}

/// Tells the story; says whether the store answered all the time.
fn earliest_wins(nodes: &[Server; 2], room: &str) -> bool {
    let mut clients = nodes.each_ref().map(client_for_a_round);
    join(&mut clients[0], room);
    let tickets = [0, 1].map(|node: usize| queued(&mut clients[node], room));
    for _ in 0..2 {
        next_round(2);
        for (client, ticket) in clients.iter_mut().zip(&tickets) {
            let answer = check_in(client, ticket);
            if answer.status == 503 {
                return false;
            }
            assert_eq!((answer.status, answer.problem().as_str()), (429, "no-slot"), "{answer:?}");
        }
    }
    next_round(2);
    report(&nodes[1], room, &json!({"exited": 1}));
    next_round(2);
    let earlier = begin(&nodes[0], &tickets[0]);
    wait_until("the earlier one has a seat or an answer", TIMEOUT, || {
        present(&nodes[0], room) > 0 || earlier.is_answered()
    });
    let later = begin(&nodes[1], &tickets[1]);
    let (won, lost) = (earlier.answer(), later.answer());
    if [&won, &lost].into_iter().any(|answer| answer.status == 503) {
        return false;
    }
    assert_eq!(won.status, 200, "the earliest present wins: {won:?}");
    assert_eq!(position(won.json()["accessToken"].as_str().expect("a pass")), 2);
    assert_eq!(lost.status, 429);
    true
}
