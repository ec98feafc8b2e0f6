//! What the board says when nothing moves, who may know what of it, and what reaches those who watch.

use anteroom_testkit::unix_seconds;
use serde_json::{Value, json};

use super::hall::Hall;
use crate::support::metrics::metric;
use crate::support::watch::Watcher;

#[test]
fn each_standstill_has_its_word() {
    let mut hall = Hall::open(&json!({}));
    hall.wait_for_standstill("by-hand-only");
    hall.set(&json!({"inlet": "max-size", "total_active_users": 1}));
    hall.wait_for_standstill("nobody-waiting");
    hall.line.join_many(3);
    hall.wait_for_standstill("at-capacity");
    hall.set(&json!({"total_active_users": 9, "start_time": unix_seconds() + 3600}));
    hall.wait_for_standstill("before-start");
    hall.set(&json!({"start_time": 0, "end_time": unix_seconds() - 1}));
    hall.wait_for_standstill("after-end");
    hall.set(&json!({"end_time": 0}));
    hall.wait_for_standstill("nobody-waiting");
    hall.line.join_many(20);
    hall.report(&json!({"free": 0}));
    hall.set(&json!({"total_active_users": 20}));
    hall.wait_for_standstill("none-free");
    hall.line.advance(-1);
    let back = hall.wait_for_standstill("moved-back");
    assert!(back["stopped_by"].is_string() && back["stopped_since"].is_string(), "{back}");
    hall.patch(&json!({"state": "open"}));
    hall.wait_for_standstill("none-free");
    hall.set(&json!({"inlet": "manual", "discipline": "auction"}));
    hall.wait_for_standstill("none-free");
}

#[test]
fn who_paused_the_room_is_for_operators_to_know() {
    let mut hall = Hall::open(&json!({"inlet": "max-size", "total_active_users": 1}));
    let made = hall.line.operator.post("/keys", &json!({"name": "anna", "role": "operator"})).unwrap().json();
    let mut anna =
        anteroom_testkit::Client::new(hall.server.private()).with_bearer(made["key"].as_str().unwrap());
    let pause = anteroom_testkit::Request::new("PATCH", "/rooms/Hall").body("{\"state\": \"paused\"}");
    assert_eq!(anna.send(&pause).unwrap().status, 200);
    let room = hall.wait_for_standstill("paused");
    assert_eq!((&room["stopped_by"], room["stopped_since"].is_string()), (&json!("anna"), true));
    let board = hall.board();
    assert!(!board.to_string().contains("anna"), "{board}");
    let known: Vec<&String> = board.as_object().unwrap().keys().collect();
    let public = [
        "room",
        "version",
        "updated_at",
        "state",
        "serving",
        "waiting",
        "joined",
        "admitted_per_minute",
        "notice",
        "inlet",
        "discipline",
        "last_move",
        "next_step_at",
        "standstill",
        "round",
        "generations",
    ];
    assert!(known.iter().all(|name| public.contains(&name.as_str())), "{known:?}");
    let open = hall.patch(&json!({"state": "open"}));
    assert_eq!((&open["stopped_by"], &open["stopped_since"]), (&Value::Null, &Value::Null));
}

#[test]
fn a_reporter_that_falls_silent_shows_by_time_alone() {
    let mut hall = Hall::open(&json!({"inlet": "max-size", "total_active_users": 9, "round_seconds": 1}));
    let mut watcher = Watcher::open(&hall.server, "Hall");
    hall.report(&json!({"free": 0}));
    hall.line.join();
    watcher.board_with("standstill", "none-free");
    // Nobody asks anything from here on: the owner of the room notices by itself.
    let silent = watcher.board_with("standstill", "no-report").board();
    assert_eq!(silent["serving"], 0);
    let room = hall.wait_for_standstill("no-report");
    assert_eq!((&room["reports"]["heard"], &room["reports"]["silent"]), (&json!(0), &json!(1)));
    hall.report(&json!({"free": 1}));
    assert_eq!(hall.room()["figures"]["serving"], 1, "heard again, its word counts again");
}

#[test]
fn the_notice_is_on_the_board_and_on_the_stream() {
    let mut hall = Hall::open(&json!({}));
    assert_eq!(hall.board()["notice"], Value::Null);
    let mut watcher = Watcher::open(&hall.server, "Hall");
    assert_eq!(watcher.next_board().board()["notice"], Value::Null);
    hall.set(&json!({"notice": "Doors open at eight.\n\"Bring your ticket\""}));
    let pushed = watcher.next_board().board();
    assert_eq!(pushed["notice"], "Doors open at eight.\n\"Bring your ticket\"");
    assert_eq!(hall.board()["notice"], pushed["notice"]);
    hall.set(&json!({"notice": null}));
    assert_eq!(watcher.next_board().board()["notice"], Value::Null);
}

/// Reports come every few seconds from every process of the origin. Each is a commit, and none of them concerns a visitor.
#[test]
fn a_watcher_is_not_notified_of_changes_it_cannot_see() {
    let mut hall = Hall::open(&json!({"inlet": "window", "window_size": 5, "interval_seconds": 1}));
    let mut watcher = Watcher::open(&hall.server, "Hall");
    let before = watcher.next_board();
    let version = hall.room()["version"].clone();
    for sequence in 1..=30 {
        hall.report(&json!({"sequence": sequence, "free": 30 + sequence, "latency_p95_ms": sequence}));
    }
    let after = hall.wait_for_steps(2);
    assert_ne!(after["version"], version, "reports are commits");
    assert_eq!(metric(&hall.server, "anteroom_watch_pushes_total"), 0);
    hall.line.join();
    let next = watcher.next_board();
    assert_eq!(
        (&next.board()["joined"], &before.board()["joined"]),
        (&json!(1), &json!(0)),
        "nothing came in between"
    );
}

#[test]
fn a_firing_alarm_holds_the_inlet_and_its_name_is_for_operators_to_know() {
    let periodic =
        json!({"inlet": "periodic", "increment_by": 2, "interval_seconds": 1, "alarms": ["High load"]});
    let mut hall = Hall::open(&periodic);
    hall.line.join_many(200);
    hall.wait("a step", |room| room["moves"]["periodic"] != 0);
    let tell = |hall: &mut Hall, status: &str| {
        let alert = json!({
            "status": status, "labels": {"alertname": "High load"}, "annotations": {}, "fingerprint": "5ef77f1f8a3ecf8d",
            "startsAt": "2026-11-16T12:00:00Z", "endsAt": "0001-01-01T00:00:00Z", "generatorURL": "",
        });
        let body = json!({"version": "4", "groupKey": "{}", "status": status, "receiver": "anteroom", "alerts": [alert]});
        let answer = hall.line.operator.post("/alarms", &body).expect("an answer");
        assert_eq!(answer.status, 200, "{answer:?}");
    };
    tell(&mut hall, "firing");
    let held = hall.wait_for_standstill("alarm");
    assert_eq!(held["firing"], json!(["High load"]));
    assert!(!hall.board().to_string().contains("High load"));
    let still = hall.wait_for_steps(2);
    assert_eq!(
        (&still["figures"]["serving"], &still["moves"]),
        (&held["figures"]["serving"], &held["moves"])
    );
    tell(&mut hall, "resolved");
    let moves = &held["moves"]["periodic"];
    let on = hall.wait("it goes on", |room| room["moves"]["periodic"] != *moves);
    assert_eq!(
        super::hall::number(&on["figures"]["serving"]),
        2 * super::hall::number(&on["moves"]["periodic"]),
        "without a burst"
    );
}
