//! An auction whose people come to two nodes: each round's slots go to the earliest of all of them.

use anteroom_testkit::redis::RedisProcess;
use anteroom_testkit::{Server, jwt, require_redis, wait_until};

use crate::pair::two_nodes;
use crate::support::auction::{TIMEOUT, hall, present, subject};
use crate::support::auction_visits::{begin, check_in, client_for_a_round, join, queued};

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
                assert_eq!(answer.status, 429, "{answer:?}");
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
