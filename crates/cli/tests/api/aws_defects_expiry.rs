//! "Each defect of aws-contract.md sections 3.4 and 3.5 as a named test that passes here": the claim clock of served
//! places and what happens when it runs out.
//!
//! Periods are one or two seconds, and every wait is for a state, so each test takes about as long as its clocks.

use std::thread;
use std::time::Duration;

use anteroom_testkit::{Line, Server, aws, now, pause, wait_until};

use crate::support::BINARY;

/// How long something that the clock brings about may be late on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(15);

/// A room whose served places lapse after `period` seconds.
fn expiring(period: u32, moves_on: bool) -> String {
    format!(
        "[[room]]\nid = \"Sale\"\ninlet = \"manual\"\nenable_queue_position_expiry = true\n\
         queue_position_expiry_period = {period}\nincr_svc_on_queue_position_expiry = {moves_on}\n"
    )
}

/// A room whose served places never lapse.
const NOT_EXPIRING: &str = "[[room]]\nid = \"Sale\"\nenable_queue_position_expiry = false\n";

fn start(config: impl Into<String>) -> Server {
    Server::builder(BINARY).config(config).memory().start().expect("the server starts")
}

/// Serving and waiting as they were at one moment: a lapse changes both, so a waiting figure that is the same before and
/// after means that the frontier in between belongs to it.
fn serving_and_waiting(line: &mut Line) -> (i64, i64) {
    loop {
        let before = line.waiting();
        let serving = line.serving();
        if line.waiting() == before {
            return (serving, before);
        }
    }
}

// Section 3.4.

#[test]
fn increments_of_zero_and_back_and_forth_do_not_restart_the_clocks_of_others() {
    let server = start(expiring(2, false));
    let mut line = server.line("Sale");
    let ids = line.join_many(2);
    line.advance(10);
    let begun = now();
    let mut left_before = i64::MAX;
    loop {
        line.advance(0);
        line.advance(5);
        line.advance(-5);
        let answer = line.expiry(&ids[0]);
        if answer.status == 410 {
            break;
        }
        let left = answer.json()["expires_in"].as_i64().expect("expires_in is a number");
        assert!(left <= left_before, "the clock went back from {left_before} to {left}");
        left_before = left;
        assert!(begun.elapsed() < TIMEOUT, "increments keep the place alive for ever");
        pause();
    }
    assert_eq!(left_before, 1);
    assert_eq!(line.expiry(&ids[1]).status, 410);
    line.wait_until_waiting(0);
}

#[test]
fn an_increment_of_zero_does_not_forget_who_has_claimed() {
    // AWS overwrote the row of the step with a served count of 0, and moved on for people who held tokens.
    const JOINED: i64 = 11;
    const SERVED: i64 = 5;
    let server = start(expiring(2, true));
    let mut line = server.line("Sale");
    let ids = line.join_many(11);
    line.advance(SERVED);
    assert_eq!((line.claim(&ids[0]).status, line.claim(&ids[3]).status), (200, 200));
    for _ in 0..3 {
        line.advance(0);
    }
    line.wait_until_waiting(JOINED - SERVED);
    let (serving, waiting) = serving_and_waiting(&mut line);
    let lapsed = JOINED - 2 - waiting;
    assert_eq!(serving, SERVED + lapsed, "moved on by exactly what lapsed");
    line.wait_until_waiting(0);
    assert_eq!((line.serving(), line.active()), (JOINED, 2));
}

#[test]
fn the_clock_starts_only_when_a_place_is_both_joined_and_served() {
    let server = start(expiring(2, false));
    let mut line = server.line("Sale");
    // Served long before anybody came: the first visitor's lapse is the proof that a period has passed since.
    line.advance(10);
    let first = line.join();
    line.wait_until_lapsed(&first);
    let second = line.join();
    let joined = now();
    let response = line.expiry(&second);
    assert_eq!((response.status, response.json()["expires_in"].as_i64()), (200, Some(2)), "{response:?}");
    line.wait_until_lapsed(&second);
    assert!(joined.elapsed() > Duration::from_millis(1900), "lapsed after {:?}", joined.elapsed());
}

#[test]
fn who_waits_never_expires() {
    let server = start(expiring(2, false));
    let mut line = server.line("Sale");
    let ids = line.join_many(3);
    line.advance(1);
    line.wait_until_lapsed(&ids[0]);
    for id in &ids[1..] {
        assert_eq!(line.expiry(id).status, 202);
        assert_eq!(line.claim(id).status, 202);
    }
    line.wait_until_waiting(2);
    line.advance(2);
    for id in &ids[1..] {
        assert_eq!(line.expiry(id).status, 200);
        assert_eq!(line.claim(id).status, 200);
    }
    assert_eq!(line.waiting(), 0);
}

#[test]
fn who_has_claimed_does_not_lapse_and_the_pass_outlives_the_period() {
    let server = start(expiring(2, false));
    let mut line = server.line("Sale");
    let ids = line.join_many(2);
    line.advance(2);
    let held = line.tokens(&ids[0]);
    line.wait_until_lapsed(&ids[1]);
    line.wait_until_waiting(0);
    assert_eq!(line.tokens(&ids[0]), held);
    assert_eq!(line.active(), 1);
}

#[test]
fn expiry_switched_on_after_the_counter_moved_gives_no_502_and_starts_the_clocks_then() {
    let mut server = Server::builder(BINARY).config(NOT_EXPIRING).start().unwrap();
    let mut line = server.line("Sale");
    let ids = line.join_many(3);
    line.advance(2);
    let answer = line.expiry(&ids[0]);
    assert_eq!((answer.status, answer.error().as_str()), (202, "Queue position expiration not enabled"));

    server.set_config(expiring(600, false));
    server.restart().unwrap();
    let mut line = server.line("Sale");
    let left = line.expiry(&ids[0]).json()["expires_in"].as_i64().expect("a served place tells its rest");
    assert!((540..=600).contains(&left), "{left}");
    assert_eq!(line.expiry(&ids[2]).status, 202);
    assert_eq!(line.claim(&ids[0]).status, 200);
    assert_eq!(line.waiting(), 2);

    server.set_config(expiring(1, false));
    server.restart().unwrap();
    let mut line = server.line("Sale");
    line.wait_until_lapsed(&ids[1]);
    line.wait_until_waiting(1);
    assert_eq!(line.expiry(&ids[2]).status, 202);

    // And off again: nobody lapses, who has lapsed stays so, and again nothing breaks.
    server.set_config(NOT_EXPIRING);
    server.restart().unwrap();
    let mut line = server.line("Sale");
    assert_eq!(line.expiry(&ids[2]).status, 202);
    assert_eq!(line.claim(&ids[1]).status, 410);
    line.advance(1);
    assert_eq!(line.claim(&ids[2]).status, 200);
    assert_eq!((line.waiting(), line.active()), (0, 2));
}

#[test]
fn sweep_and_single_check_agree_on_the_moment_of_lapse() {
    let server = start(expiring(2, false));
    let mut line = server.line("Sale");
    let id = line.join();
    line.advance(1);
    let begun = now();
    loop {
        // A session that is alive in the later of two looks was alive in the earlier one: the sweep may not be ahead.
        let waiting = line.waiting();
        let answer = line.expiry(&id);
        if answer.status == 410 {
            break;
        }
        assert_eq!((answer.status, waiting), (200, 1), "swept, though {answer:?}");
        assert!(begun.elapsed() < TIMEOUT, "still not lapsed");
    }
    // Nor may a claim still succeed once the check has said that it is too late, and the sweep follows.
    assert_eq!(line.claim(&id).status, 410);
    line.wait_until_waiting(0);
    assert_eq!(line.expiry(&id).status, 410);
    assert_eq!(line.active(), 0);
}

#[test]
fn a_claim_in_the_last_moment_either_succeeds_or_lapses_but_never_both() {
    const VISITORS: u32 = 16;
    let server = start(expiring(2, true));
    let mut line = server.line("Sale");
    let ids = line.join_many(16);
    line.advance(i64::from(VISITORS));
    let begun = now();
    let claimed: i64 = thread::scope(|scope| {
        let claim = |(id, turn): (&String, u32)| {
            let (mut line, id) = (line.another(), id.clone());
            // One claim every five milliseconds, from shortly before the end to shortly after it.
            let moment = Duration::from_millis(1960) + Duration::from_millis(5) * turn;
            scope.spawn(move || {
                assert_eq!(line.expiry(&id).status, 200);
                wait_until("its moment has come", TIMEOUT, || begun.elapsed() >= moment);
                let status = line.claim(&id).status;
                assert!([200, 410].contains(&status), "{status}");
                i64::from(status == 200)
            })
        };
        let claims: Vec<_> = ids.iter().zip(0..VISITORS).map(claim).collect();
        claims.into_iter().map(|handle| handle.join().expect("a claim does not panic")).sum()
    });
    line.wait_until_waiting(0);
    assert_eq!((line.active(), line.serving()), (claimed, i64::from(VISITORS)));
}

// Section 3.5.

#[test]
fn a_frontier_beyond_the_tail_does_not_stop_expiry() {
    for moves_on in [false, true] {
        let server = start(expiring(1, moves_on));
        let mut line = server.line("Sale");
        let ids = line.join_many(3);
        line.advance(100);
        // Nobody asks about an individual: the clockwork alone must bring the figure down.
        line.wait_until_waiting(0);
        assert_eq!(line.serving(), 100, "nobody waits, so nothing moves on");
        for id in &ids {
            assert_eq!(line.expiry(id).status, 410);
        }
    }
}

#[test]
fn a_refused_entry_at_a_boundary_does_not_stall_expiry() {
    let server = start(expiring(1, true));
    let mut line = server.line("Sale");
    line.join();
    let hostile = aws::assign_queue_num(&mut line.public, "Other").unwrap();
    assert_eq!(hostile.status, 400);
    line.join();
    line.advance(2);
    let last = line.join();
    line.wait_until_waiting(0);
    assert_eq!((line.serving(), line.expiry(&last).status), (3, 410));
}

#[test]
fn a_boundary_position_that_has_claimed_or_ended_does_not_stall_expiry() {
    let server = start(expiring(2, true));
    let mut line = server.line("Sale");
    let ids = line.join_many(8);
    line.advance(2);
    line.advance(2);
    // The visitors exactly at both boundaries are gone from the line in different ways.
    assert_eq!((line.claim(&ids[1]).status, line.claim(&ids[3]).status), (200, 200));
    assert_eq!(line.close(&ids[3], -1).status, 200);
    line.wait_until_waiting(0);
    assert_eq!((line.serving(), line.active()), (8, 1));
}

#[test]
fn moving_on_after_a_lapse_never_passes_the_tail() {
    let server = start(expiring(1, true));
    let mut line = server.line("Sale");
    line.join_many(9);
    line.advance(4);
    line.advance(2);
    line.wait_until_waiting(0);
    assert_eq!(line.serving(), 9);
    // Had it run past the tail, the next to come would be served without an operator's word.
    let tenth = line.join();
    assert_eq!((line.position(&tenth), line.claim(&tenth).status), (10, 202));
    assert_eq!((line.serving(), line.waiting()), (9, 1));
}

#[test]
fn lapsed_visitors_leave_waiting_num_although_the_counter_does_not_move_on() {
    let server = start(expiring(1, false));
    let mut line = server.line("Sale");
    line.join_many(5);
    line.advance(3);
    line.wait_until_waiting(2);
    assert_eq!(line.serving(), 3);
}

#[test]
fn after_a_decrement_nobody_unserved_is_expired_and_waiting_num_is_never_negative() {
    for moves_on in [false, true] {
        let server = start(expiring(2, moves_on));
        let mut line = server.line("Sale");
        let ids = line.join_many(5);
        line.advance(5);
        assert_eq!(line.advance(-5), 0);
        line.advance(2);
        // With `moves_on` the third to fifth are served in turn after the first two lapse; without, they wait for ever.
        line.wait_until_lapsed(&ids[1]);
        if moves_on {
            line.wait_until_waiting(0);
            assert_eq!(line.serving(), 5);
        } else {
            line.wait_until_waiting(3);
            for id in &ids[2..] {
                assert_eq!(line.expiry(id).status, 202, "never served, so not expired");
            }
            line.advance(3);
            for id in &ids[2..] {
                assert_eq!(line.claim(id).status, 200);
            }
            assert_eq!(line.waiting(), 0);
        }
    }
}

#[test]
fn increments_amid_lapses_are_counted_once_each() {
    const JOINED: i64 = 300;
    const FIRST: i64 = 10;
    let server = start(expiring(1, true));
    let mut line = server.line("Sale");
    line.join_many(300);
    line.advance(FIRST);
    let begun = now();
    let by_hand: i64 = thread::scope(|scope| {
        let advance = || {
            let mut line = line.another();
            let mut steps = 0;
            while line.waiting() == JOINED {
                assert!(begun.elapsed() < TIMEOUT, "nobody has lapsed");
                steps += 1;
                line.advance(i64::from(steps <= 5));
            }
            steps.min(5)
        };
        let operators: Vec<_> = (0..4).map(|_| scope.spawn(advance)).collect();
        operators.into_iter().map(|handle| handle.join().expect("an operator does not panic")).sum()
    });
    // Serving is what operators added plus what has lapsed, at every moment until it reaches the tail.
    let mut looks = 0;
    loop {
        let (serving, waiting) = serving_and_waiting(&mut line);
        if waiting < JOINED / 2 {
            break;
        }
        assert_eq!(serving, FIRST + by_hand + (JOINED - waiting));
        assert!(begun.elapsed() < TIMEOUT * 2, "the line stands still");
        looks += 1;
        pause();
    }
    assert!(looks > 0, "the line was gone before it could be looked at");
}
