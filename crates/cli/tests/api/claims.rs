//! "100 concurrent claims of one ticket: one session, one token set, about one signing", and the promise of capped rooms:
//! zero overshoot however claims, joins and ends interleave.

use std::collections::BTreeSet;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread;
use std::time::Duration;

use anteroom_testkit::{Client, Line, Server, SetOnDrop, full, jwt, pause, wait_until};
use serde_json::json;

use crate::support::BINARY;

/// How long all visitors together may take.
const TIMEOUT: Duration = Duration::from_secs(90);

/// The sum of a metric over all its labels.
fn metric(operator: &mut Client, name: &str) -> f64 {
    let answer = operator.get("/metrics").expect("an answer");
    assert_eq!(answer.status, 200, "{answer:?}");
    let text = answer.text();
    let of_that_name = |line: &&str| line.split(['{', ' ']).next() == Some(name);
    let samples: Vec<f64> = text
        .lines()
        .filter(of_that_name)
        .map(|line| {
            line.rsplit(' ').next().and_then(|value| value.parse().ok()).expect("a sample ends in a number")
        })
        .collect();
    assert!(!samples.is_empty(), "no metric {name} in:\n{text}");
    samples.iter().sum()
}

#[test]
fn a_hundred_concurrent_claims_of_one_ticket_give_one_session_one_token_set_and_about_one_signing() {
    const CLAIMS: usize = 100;
    const SIGNINGS_MAX: f64 = 3.0;
    let server = Server::builder(BINARY).start().unwrap();
    let mut line = server.line("Sample");
    let ids = line.join_many(2);
    line.advance(2);
    assert!(metric(&mut line.operator, "anteroom_passes_signed_total").abs() < 0.5, "nothing is signed yet");
    // The connections are made beforehand, so that the claims themselves meet.
    let mut visitors: Vec<Line> = (0..CLAIMS).map(|_| line.another()).collect();
    for visitor in &mut visitors {
        assert_eq!(visitor.serving(), 2);
    }
    let barrier = Barrier::new(CLAIMS);
    let claim = |mut visitor: Line| {
        barrier.wait();
        visitor.tokens(&ids[0])
    };
    let sets: BTreeSet<[String; 3]> = thread::scope(|scope| {
        let claims: Vec<_> = visitors.into_iter().map(|visitor| scope.spawn(|| claim(visitor))).collect();
        claims.into_iter().map(|handle| handle.join().expect("a claim does not panic")).collect()
    });
    assert_eq!(sets.len(), 1, "{sets:?}");
    assert_eq!((line.active(), line.waiting()), (1, 1));
    let signed = metric(&mut line.operator, "anteroom_passes_signed_total");
    assert!((1.0..=SIGNINGS_MAX).contains(&signed), "{signed} signings for one pass");
    // The session ends once, so there was one.
    assert_eq!((line.close(&ids[0], 1).status, line.close(&ids[0], 1).status), (200, 404));
}

const CAPACITY: i64 = 5;

const CAPPED: &str = "
    [[room]]
    id = \"Small\"
    inlet = \"max-size\"
    total_active_users = 5
";

/// What all threads of a capped room know together.
#[derive(Debug, Default)]
struct Tally {
    /// Who holds a pass by the visitors' own count: raised after a claim's answer, lowered before the end is sent.
    inside: AtomicI64,
    /// Ends that have at least been sent.
    ended: AtomicI64,
    /// Looks that the watcher has taken.
    looks: AtomicI64,
    /// Everybody has been served.
    over: AtomicBool,
}

#[test]
fn a_max_size_room_is_never_over_its_capacity_and_serves_everybody_in_order() {
    let visitors = if full() { 400 } else { 40 };
    let server = Server::builder(BINARY).config(CAPPED).start().unwrap();
    let line = server.line("Small");
    let tally = Tally::default();
    let positions: BTreeSet<i64> = thread::scope(|scope| {
        let end = SetOnDrop(&tally.over);
        let watcher = scope.spawn(|| watch(line.another(), &tally));
        let visiting: Vec<_> = (0..visitors).map(|_| scope.spawn(|| visit(line.another(), &tally))).collect();
        let positions =
            visiting.into_iter().map(|handle| handle.join().expect("a visitor does not panic")).collect();
        drop(end);
        watcher.join().expect("the watcher saw nothing wrong");
        positions
    });
    let mut line = line.another();
    assert_eq!(positions, (1..=visitors).collect());
    assert_eq!((line.waiting(), line.active(), line.serving()), (0, 0, visitors));
}

/// Joins, waits for the turn, holds the pass until the watcher has looked twice, and ends it.
fn visit(mut line: Line, tally: &Tally) -> i64 {
    let id = line.join();
    let position = line.position(&id);
    wait_until("a visitor gets in", TIMEOUT, || {
        let answer = line.claim(&id);
        assert!([200, 202].contains(&answer.status), "{answer:?}");
        answer.status == 200
    });
    let inside = tally.inside.fetch_add(1, Ordering::SeqCst) + 1;
    assert!(inside <= CAPACITY, "{inside} are inside");
    // In order: the n-th gets in only after n - capacity before it have left.
    let ended = tally.ended.load(Ordering::SeqCst);
    assert!(position <= ended + CAPACITY, "position {position} got in after {ended} ends");
    let looks = tally.looks.load(Ordering::SeqCst);
    wait_until("the watcher has looked", TIMEOUT, || tally.looks.load(Ordering::SeqCst) >= looks + 2);
    tally.inside.fetch_sub(1, Ordering::SeqCst);
    tally.ended.fetch_add(1, Ordering::SeqCst);
    let status = if position % 2 == 0 { 1 } else { -1 };
    assert_eq!(line.close(&id, status).status, 200);
    position
}

/// Looks at the figures all the time. What is read first can only have become smaller than what is read afterwards allows.
fn watch(mut line: Line, tally: &Tally) {
    let mut served_before = 0;
    while !tally.over.load(Ordering::SeqCst) {
        let active = line.active();
        assert!(active <= CAPACITY, "{active} active");
        let serving = line.serving();
        assert!(serving >= served_before, "the frontier moved back from {served_before} to {serving}");
        served_before = serving;
        // Offers count as much as passes: the frontier is never further than the capacity beyond those who have left.
        let ended = tally.ended.load(Ordering::SeqCst);
        assert!(serving <= ended + CAPACITY, "serving {serving} after {ended} ends");
        line.waiting();
        tally.looks.fetch_add(1, Ordering::SeqCst);
        pause();
    }
}

#[test]
fn an_idle_max_size_room_admits_immediately() {
    let server = Server::builder(BINARY).config(CAPPED).memory().start().unwrap();
    let mut line = server.line("Small");
    let ids = line.join_many(7);
    for (id, position) in ids.iter().zip(1..) {
        let expected = if position <= CAPACITY { 200 } else { 202 };
        assert_eq!(line.claim(id).status, expected, "position {position}");
    }
    assert_eq!((line.serving(), line.waiting(), line.active()), (5, 2, 5));
    // One leaves, one comes in, and nobody else.
    assert_eq!(line.close(&ids[2], 1).status, 200);
    assert_eq!(line.serving(), 6);
    assert_eq!((line.claim(&ids[5]).status, line.claim(&ids[6]).status), (200, 202));
    assert_eq!((line.waiting(), line.active()), (1, 5));
}

#[test]
fn an_offer_nobody_claims_passes_on_in_a_max_size_room() {
    let config = format!("{CAPPED}\n    queue_position_expiry_period = 1\n");
    let server = Server::builder(BINARY).config(config).memory().start().unwrap();
    let mut line = server.line("Small");
    let ids = line.join_many(6);
    assert_eq!((line.serving(), line.expiry(&ids[5]).status), (5, 202));
    line.wait_until_lapsed(&ids[4]);
    wait_until("the sixth is served", TIMEOUT, || line.serving() == 6);
    assert_eq!(line.claim(&ids[0]).status, 410);
    line.wait_until_waiting(0);
    assert_eq!(line.active(), 0);
}

#[test]
fn a_pass_past_its_end_gives_its_place_to_the_next() {
    let config = format!("{CAPPED}\n    validity_period = 1\n");
    let server = Server::builder(BINARY).config(config).memory().start().unwrap();
    let mut line = server.line("Small");
    let ids = line.join_many(6);
    for id in &ids[..5] {
        assert_eq!(line.claim(id).status, 200);
    }
    wait_until("the sixth gets in without an operator's word", TIMEOUT, || line.claim(&ids[5]).status == 200);
    wait_until("all passes are past their end", TIMEOUT, || line.expired().len() == 6);
    assert_eq!((line.active(), line.waiting()), (0, 0));
}

#[test]
fn a_private_claim_before_the_place_is_served_answers_202_and_begins_nothing() {
    let server = Server::builder(BINARY).memory().start().unwrap();
    let mut line = server.line("Sample");
    let ids = line.join_many(2);
    line.advance(1);
    let before = line.figures();
    let signed = metric(&mut line.operator, "anteroom_passes_signed_total");
    for more in [json!({}), json!({ "issuer": "https://early.example.test", "validity_period": 60 })] {
        let early = line.claim_privately(&ids[1], &more);
        assert_eq!((early.status, early.error().as_str()), (202, "Request ID not being served yet"));
    }
    assert_eq!(line.figures(), before);
    assert!((metric(&mut line.operator, "anteroom_passes_signed_total") - signed).abs() < 0.5);
    assert_eq!(line.close(&ids[1], 1).status, 404, "there is no session to end");
    // What the early caller asked for is not remembered: the pass is the room's own.
    line.advance(1);
    let claimed = line.claim(&ids[1]);
    let claims = jwt::claims(&claimed.token_set()[0]);
    assert_eq!(claimed.json()["expires_in"], 3600);
    assert_ne!(claims["iss"], "https://early.example.test");
}

#[test]
fn passes_beyond_the_remembered_ones_are_signed_once_more_and_those_past_their_end_not_at_all() {
    // One more than are remembered, in which no pass is found again when they are claimed in turn.
    const PASSES: usize = 1_025;
    const SIGNINGS_MAX: f64 = 2_051.0;
    const CLAIMED_AGAIN: usize = 100;
    let config = "signing_algorithm = \"EdDSA\"\n[[room]]\nid = \"Sample\"\n";
    let server = Server::builder(BINARY).config(config).memory().start().unwrap();
    let mut line = server.line("Sample");
    let ids = line.join_many(PASSES + 1);
    line.advance(i64::try_from(ids.len()).expect("few"));
    let last = &ids[PASSES];
    let early = line.claim_privately(last, &json!({ "validity_period": 1 }));
    assert_eq!(early.status, 200, "{early:?}");
    let first: Vec<[String; 3]> = ids[..PASSES].iter().map(|id| line.tokens(id)).collect();
    let signed = |line: &mut Line| metric(&mut line.operator, "anteroom_passes_signed_total");
    for count in [PASSES, CLAIMED_AGAIN] {
        for (id, first) in ids.iter().zip(&first).take(count) {
            assert!(line.tokens(id) == *first, "the same bytes");
        }
    }
    let before = signed(&mut line);
    assert!(before <= SIGNINGS_MAX, "{before} signings of {PASSES} passes that were claimed again and again");
    wait_until("the pass is past its end", TIMEOUT, || line.expired() == [last.clone()]);
    for _ in 0..3 {
        assert_eq!(line.claim(last).status, 410);
    }
    assert!((signed(&mut line) - before).abs() < 0.5, "nobody can use it, so nobody signs it");
}
