//! Each inlet through the running binary, over HTTP: small intervals, and waiting for states, never for time.

mod capacity;
mod hall;
mod standstill;

use anteroom_testkit::{now, unix_seconds};
use hall::{Hall, number};
use serde_json::json;

#[test]
fn periodic_moves_between_start_and_end_by_its_increment_and_by_nothing_else() {
    let mut hall = Hall::open(&json!({}));
    hall.line.join_many(100);
    let start = unix_seconds() + 600;
    let early = hall
        .set(&json!({"inlet": "periodic", "increment_by": 3, "interval_seconds": 1, "start_time": start}));
    assert_eq!((&early["standstill"], &early["figures"]["serving"]), (&json!("before-start"), &json!(0)));
    assert_eq!(hall.board()["next_step_at"], early["next_step_at"], "the next move is the beginning");
    hall.set(&json!({"start_time": unix_seconds() - 5}));
    let moving = hall.wait("two steps", |room| number(&room["moves"]["periodic"]) >= 2);
    assert_eq!(moving["last_move"]["by"], "periodic");
    for _ in 0..50 {
        let room = hall.room();
        assert_eq!(number(&room["figures"]["serving"]), 3 * number(&room["moves"]["periodic"]), "{room}");
    }
    hall.set(&json!({"end_time": unix_seconds() + 1}));
    let over = hall.wait_for_standstill("after-end");
    let after = hall.wait_for_steps(3);
    assert_eq!(after["figures"]["serving"], over["figures"]["serving"], "nothing moves after the end");
    assert!(number(&after["steps_missed"]) >= 2, "what was due then is gone: {after}");
    assert_eq!(number(&after["figures"]["serving"]), 3 * number(&after["moves"]["periodic"]));
    // Open again, it goes on step by step: what was missed is not caught up.
    hall.set(&json!({"end_time": 0}));
    let (from, moves) = (number(&after["figures"]["serving"]), number(&after["moves"]["periodic"]));
    let later = hall.wait("another step", |room| number(&room["moves"]["periodic"]) > moves);
    assert_eq!(
        number(&later["figures"]["serving"]) - from,
        3 * (number(&later["moves"]["periodic"]) - moves)
    );
}

#[test]
fn periodic_saves_up_one_step_at_most_and_as_many_as_it_likes_with_run_ahead() {
    let periodic = json!({"inlet": "periodic", "increment_by": 5, "interval_seconds": 1});
    let mut hall = Hall::open(&periodic);
    hall.line.join();
    hall.wait("one step beyond the tail", |room| room["figures"]["serving"] == 6);
    let quiet = hall.wait_for_steps(3);
    assert_eq!(quiet["figures"]["serving"], 6, "a quiet time saves up no burst");
    assert_eq!(quiet["standstill"], "nobody-waiting");
    let next = hall.line.join();
    assert_eq!(hall.line.claim(&next).status, 200, "a visitor who comes within that step is served at once");
    hall.set(&json!({"run_ahead": true}));
    hall.wait("the frontier runs ahead", |room| number(&room["figures"]["serving"]) >= 16);
}

#[test]
fn window_lets_the_last_windows_claim_and_older_offers_lapse() {
    let mut hall = Hall::open(&json!({"inlet": "window", "window_size": 2, "interval_seconds": 1}));
    let ids = hall.line.join_many(6);
    let room = hall.wait("three windows", |room| room["moves"]["window"] == 3);
    assert_eq!((&room["figures"]["serving"], &room["figures"]["lapsed"]), (&json!(6), &json!(2)));
    // Nobody waits: no step happens, and so nobody's offer lapses for it.
    let quiet = hall.wait_for_steps(3);
    assert_eq!((&quiet["moves"]["window"], &quiet["standstill"]), (&json!(3), &json!("nobody-waiting")));
    assert_eq!(
        ids.iter().map(|id| hall.status(id)).collect::<Vec<_>>(),
        ["expired", "expired", "active", "active", "active", "active"]
    );
    assert_eq!(hall.line.claim(&ids[1]).status, 410);
    for id in &ids[2..] {
        assert_eq!(hall.line.claim(id).status, 200);
    }
}

/// The seed's arithmetic: of windows of three, two of which are active, the last six positions are.
#[test]
fn in_a_slow_queue_windows_that_are_not_full_end_nobodys_turn() {
    let mut hall = Hall::open(&json!({"inlet": "window", "window_size": 3, "interval_seconds": 1}));
    let mut ids = vec![];
    for window in 1..=5 {
        ids.push(hall.line.join());
        hall.wait("a window of one", |room| room["moves"]["window"] == window);
    }
    let room = hall.room();
    assert_eq!((&room["figures"]["serving"], &room["figures"]["lapsed"]), (&json!(5), &json!(0)));
    assert!(ids.iter().all(|id| hall.status(id) == "active"));
    ids.extend(hall.line.join_many(3));
    hall.wait("a full window", |room| room["moves"]["window"] == 6);
    let statuses: Vec<_> = ids.iter().map(|id| hall.status(id)).collect();
    assert_eq!(statuses, ["expired", "expired", "active", "active", "active", "active", "active", "active"]);
}

/// Seed 001: "A ticket taken just after a skipped step can be expired by the next step at once", hence two active windows.
#[test]
fn a_ticket_taken_just_after_a_skipped_step_is_not_lost_at_once() {
    let mut hall = Hall::open(&json!({"inlet": "window", "window_size": 3, "interval_seconds": 1}));
    hall.line.join();
    hall.wait("the first window", |room| room["moves"]["window"] == 1);
    let skipped = hall.wait_for_steps(1);
    assert_eq!(skipped["moves"]["window"], 1, "a step was skipped, because nobody waits");
    let ticket = hall.line.join();
    hall.wait("the next step", |room| room["moves"]["window"] == 2);
    assert_eq!(hall.status(&ticket), "active", "the step that serves it does not expire it");
    hall.line.join();
    hall.wait("and the one after", |room| room["moves"]["window"] == 3);
    assert_eq!(hall.status(&ticket), "active", "nor does the next");
    assert_eq!(hall.line.claim(&ticket).status, 200);
}

#[test]
fn max_size_with_a_rate_keeps_both_limits() {
    let mut hall = Hall::open(
        &json!({"inlet": "max-size", "total_active_users": 6, "new_users_per_minute": 60, "interval_seconds": 1}),
    );
    hall.line.join_many(20);
    let began = now();
    let first = number(&hall.room()["figures"]["serving"]);
    let spent = hall.wait_for_standstill("rate-spent");
    assert_eq!(spent["rate_budget"], 0);
    assert!(hall.board()["next_step_at"].is_string(), "when it moves next is known");
    loop {
        let room = hall.room();
        let serving = number(&room["figures"]["serving"]);
        // A step sets the budget, it does not add to it: one a second, and one that was under way.
        assert!(serving - first <= began.elapsed().as_secs() + 1, "{serving} after {:?}", began.elapsed());
        assert!(serving <= 6, "{room}");
        if room["standstill"] == "at-capacity" {
            break;
        }
    }
    let full = hall.wait_for_steps(2);
    assert_eq!((&full["figures"]["serving"], &full["capacity"]), (&json!(6), &json!(6)));
    assert_eq!(full["moves"]["max-size"], 6, "one at a time: {full}");
}

#[test]
fn adaptive_follows_reports_up_and_down_and_holds_in_silence() {
    let mut hall = Hall::open(&json!({
        "inlet": "adaptive", "adaptive_floor": 2, "total_active_users": 12, "target_latency_ms": 100, "round_seconds": 1,
    }));
    hall.line.join_many(40);
    let begin = hall.room();
    assert_eq!(
        (&begin["capacity"], &begin["figures"]["offers"]),
        (&json!(2), &json!(2)),
        "it begins at the floor"
    );
    let well = json!({"latency_p95_ms": 20, "error_rate": 0.001});
    let drive = |hall: &mut Hall, report: &serde_json::Value, until: &dyn Fn(u64) -> bool| {
        let started = now();
        loop {
            hall.report(report);
            let room = hall.room();
            if until(number(&room["capacity"])) {
                return room;
            }
            assert!(started.elapsed() < hall::TIMEOUT, "{room}");
            anteroom_testkit::pause();
        }
    };
    let raised = drive(&mut hall, &well, &|capacity| capacity >= 5);
    assert_eq!(
        (&raised["adaptive"]["adjustment"], &raised["standstill"]),
        (&json!("raised"), &json!("at-capacity"))
    );
    assert_eq!(raised["last_move"]["by"], "adaptive");
    assert_eq!(raised["figures"]["offers"], raised["capacity"], "zero overshoot");
    // Silence holds: rounds go by, and nothing is raised or lowered.
    let silent = hall.wait("no samples", |room| room["adaptive"]["adjustment"] == "no-samples");
    let looked_at = silent["adaptive"]["adjusted_at"].clone();
    let still = hall.wait("another round", |room| room["adaptive"]["adjusted_at"] != looked_at);
    assert_eq!(still["capacity"], silent["capacity"]);
    let held = number(&silent["capacity"]);
    let slow = json!({"latency_p95_ms": 900});
    let lowered = drive(&mut hall, &slow, &|capacity| capacity < held);
    assert!(number(&lowered["capacity"]) >= 2, "{lowered}");
    assert!(
        ["lowered-by-latency", "draining"].contains(&lowered["adaptive"]["adjustment"].as_str().unwrap())
    );
}

#[test]
fn lapsed_positions_move_the_frontier_on_by_as_many_and_never_beyond_the_tail() {
    let mut hall =
        Hall::open(&json!({"queue_position_expiry_period": 1, "incr_svc_on_queue_position_expiry": true}));
    let ids = hall.line.join_many(6);
    hall.line.advance(2);
    let room = hall.wait("everybody lapsed", |room| room["figures"]["lapsed"] == 6);
    assert_eq!(
        (&room["figures"]["serving"], &room["moves"]["lapse"]),
        (&json!(6), &json!(2)),
        "by two and two"
    );
    assert_eq!(room["last_move"]["by"], "lapse");
    assert_eq!(hall.status(&ids[5]), "expired");
    let next = hall.line.join();
    assert_eq!(hall.status(&next), "waiting", "the frontier has not run ahead");
}

#[test]
fn the_inlet_changes_at_run_time_and_nobody_loses_a_place() {
    let mut hall = Hall::open(&json!({}));
    let ids = hall.line.join_many(6);
    hall.line.advance(1);
    assert_eq!(hall.line.claim(&ids[0]).status, 200);
    // Each with an interval so long that it moves nobody meanwhile, or with a capacity that is used up.
    for settings in [
        json!({"inlet": "periodic", "interval_seconds": 3600}),
        json!({"inlet": "window", "window_size": 2}),
        json!({"inlet": "max-size", "total_active_users": 1}),
        json!({"inlet": "adaptive", "adaptive_floor": 1}),
        json!({"new_users_per_minute": 5, "interval_seconds": 60}),
        json!({"discipline": "auction", "round_seconds": 3600}),
        json!({"discipline": "counter", "new_users_per_minute": null}),
        json!({"inlet": "manual"}),
    ] {
        hall.set(&settings);
        assert_eq!((hall.line.serving(), hall.line.waiting()), (1, 5), "{settings}");
        for (position, id) in (2..).zip(&ids[1..]) {
            assert_eq!(hall.line.position(id), position, "{settings}");
            assert_eq!(hall.status(id), "waiting", "{settings}");
        }
    }
    hall.set(&json!({"inlet": "max-size", "total_active_users": 3}));
    let statuses: Vec<String> = ids[1..].iter().map(|id| hall.status(id)).collect();
    assert_eq!(statuses, ["active", "active", "waiting", "waiting", "waiting"], "it goes on where it was");
}
