//! "Each defect of aws-contract.md … as a named test that passes here": the entry of visitors (section 3.3) and the
//! defects of single calls that the head of the contract names. The clockwork (3.4, 3.5) is in `aws_defects_expiry.rs`.

use std::collections::BTreeSet;
use std::sync::Barrier;
use std::thread;

use anteroom_testkit::{Line, Request, Server, aws, full, jwt, unix_seconds};
use serde_json::{Value, json};

use crate::support::BINARY;

fn start() -> Server {
    Server::builder(BINARY).memory().start().expect("the server starts")
}

// Section 3.3: taking a place.

#[test]
fn a_wrong_event_id_is_refused_and_consumes_no_number() {
    let server = start();
    let mut line = server.line("Sample");
    let first = line.join();
    for event in ["Other", "sample", "Sample ", "Sampl", "", "Sample/../Sample"] {
        let answer = aws::assign_queue_num(&mut line.public, event).unwrap();
        assert_eq!(answer.status, 400, "{event:?}: {answer:?}");
        answer.error();
    }
    let second = line.join();
    assert_eq!((line.position(&first), line.position(&second)), (1, 2));
    assert_eq!(line.waiting(), 2);
}

#[test]
fn a_malformed_entry_among_good_ones_shifts_loses_and_repeats_no_number() {
    let server = start();
    let line = server.line("Sample");
    let (threads, joins_each) = if full() { (16, 100) } else { (8, 25) };
    let barrier = Barrier::new(threads);
    let ids: Vec<String> = thread::scope(|scope| {
        let join_amid_garbage = || {
            let mut line = line.another();
            barrier.wait();
            let one = |_| {
                let garbage = Request::new("POST", "/assign_queue_num").body("{\"event_id\": ");
                assert_eq!(line.public.send(&garbage).expect("an answer").status, 400);
                line.join()
            };
            (0..joins_each).map(one).collect::<Vec<_>>()
        };
        let joined: Vec<_> = (0..threads).map(|_| scope.spawn(join_amid_garbage)).collect();
        joined.into_iter().flat_map(|handle| handle.join().expect("a joiner does not panic")).collect()
    });
    let mut line = line.another();
    // Nobody polls 202 for ever: each acknowledged id has its place at once, and together they fill 1..=n without gap.
    let positions: BTreeSet<i64> = ids.iter().map(|id| line.position(id)).collect();
    let visitors = i64::try_from(ids.len()).unwrap();
    assert_eq!(positions, (1..=visitors).collect());
    assert_eq!(line.waiting(), visitors);
}

#[test]
fn entry_time_is_the_moment_of_the_call() {
    let server = start();
    let mut line = server.line("Sample");
    let before = unix_seconds();
    let id = line.join();
    let after = unix_seconds();
    let entry_time = line.place(&id).json()["entry_time"].as_u64().unwrap();
    assert!((before..=after).contains(&entry_time), "{entry_time} is not within {before}..={after}");
    // And it stays that moment, however late and often it is asked for.
    line.advance(1);
    assert_eq!(line.claim(&id).status, 200);
    assert_eq!(line.place(&id).json()["entry_time"], entry_time);
}

#[test]
fn a_position_never_changes_once_it_was_shown_not_even_across_restarts() {
    let mut server = Server::builder(BINARY).start().unwrap();
    let mut line = server.line("Sample");
    let ids = line.join_many(20);
    let shown: Vec<Value> = ids.iter().map(|id| line.place(id).json()).collect();
    let same = |line: &mut Line, when: &str| {
        let again: Vec<Value> = ids.iter().map(|id| line.place(id).json()).collect();
        assert_eq!(again, shown, "{when}");
    };
    line.join_many(5);
    line.advance(10);
    assert_eq!(line.claim(&ids[0]).status, 200);
    line.advance(-5);
    same(&mut line, "after joins, increments and a claim");
    server.restart().unwrap();
    let mut line = server.line("Sample");
    same(&mut line, "after a restart");
    let newcomer = line.join();
    assert_eq!(line.position(&newcomer), 26);
    server.kill_nine().unwrap();
    server.restart().unwrap();
    let mut line = server.line("Sample");
    same(&mut line, "after kill -9");
    assert_eq!(line.position(&newcomer), 26);
    assert_eq!((line.serving(), line.waiting(), line.active()), (5, 25, 1));
}

#[test]
fn positions_follow_the_order_of_arrival_and_the_first_is_one() {
    let server = start();
    let mut lines: Vec<Line> = (0..4).map(|_| server.line("Sample")).collect();
    let ids: Vec<String> = (0..40).map(|turn| lines[turn % 4].join()).collect();
    let positions: Vec<i64> = ids.iter().map(|id| lines[0].position(id)).collect();
    assert_eq!(positions, (1..=40).collect::<Vec<_>>());
}

#[test]
fn text_in_the_entry_is_data_and_never_reaches_a_neighbour() {
    // AWS interpolated the body into a form: `&` and `%` in strings became parameters of its own queue.
    let server = start();
    let mut line = server.line("Sample");
    let body = json!({ "event_id": "Sample", "note": "&MessageAttribute.1.Name=x%26DelaySeconds=900" });
    let answer = line.public.post("/assign_queue_num", &body).unwrap();
    assert_eq!(answer.status, 200, "{answer:?}");
    let id = answer.json()["api_request_id"].as_str().unwrap().to_owned();
    assert_eq!((line.position(&id), line.waiting()), (1, 1));
}

// Sections 1 and 2: single calls.

#[test]
fn ids_that_html_cleaning_would_change_are_refused_not_rewritten() {
    let server = start();
    let mut line = server.line("Sample");
    for event in ["<b>Sample</b>", "Sample&amp;", "Sample&", "&Sample", "Sample<script>", "S&a"] {
        let answer = aws::serving_num(&mut line.public, event).unwrap();
        assert_eq!((answer.status, answer.error().as_str()), (400, "Invalid event ID"), "{event}");
        assert_eq!(aws::assign_queue_num(&mut line.public, event).unwrap().status, 400, "{event}");
        assert_eq!(
            aws::increment_serving_counter(&mut line.operator, event, 1).unwrap().status,
            400,
            "{event}"
        );
    }
    assert_eq!((line.serving(), line.waiting()), (0, 0));
}

#[test]
fn the_pattern_of_request_ids_is_anchored_at_both_ends() {
    let server = start();
    let mut line = server.line("Sample");
    let id = line.join();
    line.advance(1);
    for padded in [format!("{id}x"), format!("x{id}"), format!("{id} "), format!(" {id}"), format!("{id}\n")]
    {
        assert_eq!(line.place(&padded).status, 400, "{padded:?}");
        assert_eq!(line.expiry(&padded).status, 400, "{padded:?}");
        assert_eq!(line.claim(&padded).status, 400, "{padded:?}");
        assert_eq!(line.close(&padded, 1).status, 400, "{padded:?}");
    }
    assert_eq!((line.waiting(), line.active()), (1, 0));
}

#[test]
fn bad_json_gets_a_400_with_a_sentence_on_every_post_and_never_a_502() {
    let server = start();
    let mut line = server.line("Sample");
    let posts = [
        (&mut line.public, &["/assign_queue_num", "/generate_token"][..]),
        (
            &mut line.operator,
            &["/generate_token", "/increment_serving_counter", "/reset_initial_state", "/update_session"][..],
        ),
    ];
    for (client, paths) in posts {
        for path in paths {
            for body in ["", "null", "{", "{}", "[]", "\"Sample\"", "{\"event_id\": 7}", "\u{0}"] {
                let answer = client.send(&Request::new("POST", path).body(body)).unwrap();
                assert_eq!(answer.status, 400, "{path} {body:?}: {answer:?}");
                assert!(answer.error().len() > 10, "{path} {body:?}: a sentence, not {answer:?}");
            }
        }
    }
}

#[test]
fn serving_counter_is_a_number_from_the_first_moment() {
    let server = start();
    let mut visitor = server.visitor();
    assert_eq!(aws::serving_num(&mut visitor, "Sample").unwrap().json(), json!({ "serving_counter": 0 }));
    assert_eq!(aws::waiting_num(&mut visitor, "Sample").unwrap().json(), json!({ "waiting_num": 0 }));
}

#[test]
fn the_serving_counter_never_goes_below_zero() {
    let server = start();
    let mut line = server.line("Sample");
    assert_eq!(line.advance(-1), 0);
    assert_eq!(line.advance(3), 3);
    assert_eq!(line.advance(-100), 0);
    assert_eq!(line.advance(i64::MIN), 0);
    // What was cut off is not owed: the next step counts from 0.
    assert_eq!(line.advance(2), 2);
    assert_eq!(line.serving(), 2);
}

#[test]
fn fractions_and_overflow_are_refused_and_one_point_zero_counts_as_one() {
    let server = start();
    let mut line = server.line("Sample");
    let mut increment = |by: &str| {
        let body = format!("{{\"event_id\": \"Sample\", \"increment_by\": {by}}}");
        line.operator.send(&Request::new("POST", "/increment_serving_counter").body(body)).expect("an answer")
    };
    assert_eq!(increment("1.0").json(), json!({ "serving_num": 1 }));
    for refused in
        ["1.5", "0.1", "9223372036854775808", "-9223372036854775809", "1e30", "9223372036854775807"]
    {
        let answer = increment(refused);
        assert_eq!(answer.status, 400, "{refused}: {answer:?}");
        answer.error();
    }
    assert_eq!(increment("9223372036854775806").json(), json!({ "serving_num": i64::MAX }));
    assert_eq!(increment("1").status, 400);
    assert_eq!(increment("0").json(), json!({ "serving_num": i64::MAX }));
    assert_eq!(line.serving(), i64::MAX);
    // A line whose frontier stands at the very end still works.
    let id = line.join();
    assert_eq!(line.claim(&id).status, 200);
}

#[test]
fn a_private_override_does_not_become_the_default_of_later_calls() {
    let server = start();
    let mut line = server.line("Sample");
    let ids = line.join_many(3);
    line.advance(3);
    let overrides = json!({ "issuer": "https://elsewhere.example.test", "validity_period": 7 });
    assert_eq!(line.claim_privately(&ids[0], &overrides).json()["expires_in"], 7);
    let privately = line.claim_privately(&ids[1], &json!({}));
    let publicly = line.claim(&ids[2]);
    assert_eq!(
        (&privately.json()["expires_in"], &publicly.json()["expires_in"]),
        (&json!(3600), &json!(3600))
    );
    // One issuer: whichever listener issued first, a verifier pinned to the room's issuer accepts both.
    let issuer = |answer: &anteroom_testkit::Answer| jwt::claims(&answer.token_set()[0])["iss"].clone();
    assert_eq!(issuer(&privately), issuer(&publicly));
    assert_ne!(issuer(&publicly), "https://elsewhere.example.test");
}

#[test]
fn a_private_re_issue_keeps_kid_and_bytes() {
    let server = start();
    let mut line = server.line("Sample");
    let ids = line.join_many(2);
    line.advance(2);
    let first_public = line.tokens(&ids[0]);
    let then_private = line.claim_privately(&ids[0], &json!({})).token_set();
    assert_eq!(first_public, then_private);
    let first_private = line.claim_privately(&ids[1], &json!({})).token_set();
    let then_public = line.tokens(&ids[1]);
    assert_eq!(first_private, then_public);
    let kid = aws::public_key(&mut line.public, "Sample").unwrap().json()["kid"].clone();
    assert!(kid.is_string());
    for token in first_public.iter().chain(&first_private) {
        assert_eq!(jwt::header(token)["kid"], kid);
    }
}

#[test]
fn concurrent_first_claims_over_both_listeners_give_one_token_set_and_one_session() {
    const CLAIMS: usize = 12;
    let server = start();
    let mut line = server.line("Sample");
    let id = line.join();
    line.join();
    line.advance(2);
    let barrier = Barrier::new(CLAIMS);
    let sets: BTreeSet<[String; 3]> = thread::scope(|scope| {
        let claim = |turn: usize| {
            let (mut line, barrier, id) = (line.another(), &barrier, &id);
            scope.spawn(move || {
                barrier.wait();
                let claimed = if turn.is_multiple_of(2) {
                    line.claim(id)
                } else {
                    line.claim_privately(id, &json!({}))
                };
                claimed.token_set()
            })
        };
        let claims: Vec<_> = (0..CLAIMS).map(claim).collect();
        claims.into_iter().map(|handle| handle.join().expect("a claim does not panic")).collect()
    });
    assert_eq!(sets.len(), 1, "{sets:?}");
    assert_eq!((line.active(), line.waiting()), (1, 1));
}

#[test]
fn a_late_claim_does_not_revive_a_session_that_has_ended() {
    let server = start();
    let mut line = server.line("Sample");
    let ids = line.join_many(2);
    line.advance(2);
    for (id, status) in ids.iter().zip([1, -1]) {
        assert_eq!(line.claim(id).status, 200);
        assert_eq!(line.close(id, status).status, 200);
        for _ in 0..3 {
            assert_eq!(line.claim(id).status, 410);
            assert_eq!(line.claim_privately(id, &json!({ "validity_period": 60 })).status, 410);
        }
        assert_eq!(line.active(), 0);
    }
    assert_eq!(line.waiting(), 0);
}

#[test]
fn an_unknown_session_status_is_refused_and_writes_nothing() {
    let server = start();
    let mut line = server.line("Sample");
    let id = line.join();
    line.advance(1);
    assert_eq!(line.claim(&id).status, 200);
    for status in [0, 2, 7, -2, i64::MAX] {
        let answer = line.close(&id, status);
        assert_eq!(answer.status, 400, "{status}: {answer:?}");
        answer.error();
        assert_eq!(line.active(), 1);
    }
    // The session is still there to be ended.
    assert_eq!(line.close(&id, 1).status, 200);
    assert_eq!(line.active(), 0);
}

#[test]
fn a_reset_of_a_wrong_event_is_refused_and_resets_nothing() {
    let server = start();
    let mut line = server.line("Sample");
    line.join();
    line.advance(7);
    assert_eq!(aws::reset_initial_state(&mut line.operator, "Other").unwrap().status, 400);
    let neither = line.operator.post("/reset_initial_state", &json!({})).unwrap();
    assert_eq!(neither.status, 400);
    assert_eq!((line.serving(), line.waiting()), (7, 1));
}

#[test]
fn who_holds_a_pass_keeps_it_when_the_counter_moves_back() {
    let server = start();
    let mut line = server.line("Sample");
    let ids = line.join_many(2);
    line.advance(2);
    let held = line.tokens(&ids[1]);
    assert_eq!(line.advance(-2), 0);
    assert_eq!(line.tokens(&ids[1]), held);
    assert_eq!(line.claim(&ids[0]).status, 202);
    assert_eq!((line.waiting(), line.active()), (1, 1));
}

#[test]
fn concurrent_increments_are_all_counted() {
    const THREADS: usize = 8;
    let each = if full() { 200 } else { 25 };
    let server = start();
    let mut line = server.line("Sample");
    let barrier = Barrier::new(THREADS);
    let answers: Vec<i64> = thread::scope(|scope| {
        let advance = || {
            let mut line = line.another();
            barrier.wait();
            (0..each).map(|_| line.advance(1)).collect::<Vec<_>>()
        };
        let advanced: Vec<_> = (0..THREADS).map(|_| scope.spawn(advance)).collect();
        advanced.into_iter().flat_map(|handle| handle.join().expect("an operator does not panic")).collect()
    });
    // Each operator is told the figure that their own step made.
    let total = i64::try_from(THREADS * each).unwrap();
    assert_eq!(answers.into_iter().collect::<BTreeSet<_>>(), (1..=total).collect());
    assert_eq!(line.serving(), total);
}
