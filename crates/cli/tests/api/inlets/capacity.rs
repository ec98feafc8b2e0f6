//! Capacity reports and the message of a max-size inlet, as an origin sends them.

use std::collections::VecDeque;

use anteroom_testkit::Request;
use serde_json::{Value, json};

use super::hall::{Hall, number};

/// Rounds so long that no reporter falls silent and no pass runs out while a slow machine runs the test.
fn reported(total_active_users: u64) -> Value {
    json!({"inlet": "max-size", "total_active_users": total_active_users, "round_seconds": 3600, "enter_by_seconds": 3600})
}

/// Seed 000: the origin reports what is free while passes are in flight that it has not seen.
#[test]
fn free_slots_reported_while_passes_are_in_flight_admit_nobody_twice() {
    let mut hall = Hall::open(&reported(1000));
    let first = hall.report(&json!({"sequence": 1, "free": 5, "entered": 0}));
    assert_eq!((&first["free"], &first["passes_in_flight"]), (&json!(5), &json!(0)));
    let ids = hall.line.join_many(12);
    assert_eq!(hall.line.serving(), 5);
    for id in &ids[..5] {
        assert_eq!(hall.line.claim(id).status, 200);
    }
    // The five are in flight, and the origin still counts five free slots.
    let again = hall.report(&json!({"sequence": 2, "free": 5, "entered": 0}));
    assert_eq!((&again["free"], &again["passes_in_flight"]), (&json!(0), &json!(5)));
    assert_eq!((&again["standstill"], hall.line.serving()), (&json!("none-free"), 5));
    // Two have come in: the other three slots are taken by those still in flight.
    let two = hall.report(&json!({"sequence": 3, "free": 3, "entered": 2}));
    assert_eq!((&two["free"], &two["passes_in_flight"], hall.line.serving()), (&json!(0), &json!(3), 5));
    hall.report(&json!({"sequence": 4, "free": 0, "entered": 5}));
    assert_eq!(hall.line.serving(), 5);
    // One has left: one more.
    hall.report(&json!({"sequence": 5, "free": 1, "entered": 5}));
    assert_eq!(hall.line.serving(), 6);
    // A report that was overtaken says nothing any more.
    let late = hall.say(&json!({"sequence": 4, "free": 9, "entered": 5}));
    assert_eq!((late.status, &late.json()["reported"]), (200, &json!("late")));
    assert_eq!(hall.line.serving(), 6);
}

/// An origin that can take so many, with visitors inside and passes in flight to it.
struct Origin {
    slots: usize,
    inside: usize,
    in_flight: usize,
    entered: u64,
    sequence: u64,
    /// Reports that were made and have not arrived.
    mail: VecDeque<Value>,
}

/// The same race at random: reports travel while visitors claim, enter and leave.
#[test]
fn no_order_of_reports_claims_entries_and_exits_overfills_the_origin() {
    const STEPS: u64 = 500;
    let mut hall = Hall::open(&reported(100_000));
    // Until somebody reports, the room's own capacity is all it goes by.
    hall.report(&json!({"sequence": 0, "free": 7, "entered": 0}));
    let mut waiting: VecDeque<String> = hall.line.join_many(150).into();
    let mut origin =
        Origin { slots: 7, inside: 0, in_flight: 0, entered: 0, sequence: 0, mail: VecDeque::new() };
    let mut chance: u64 = 20_261_116;
    let mut admitted = 0;
    for step in 0..STEPS {
        chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        match (chance >> 33) % 6 {
            0 => {
                origin.sequence += 1;
                let free = origin.slots - origin.inside;
                origin
                    .mail
                    .push_back(json!({"sequence": origin.sequence, "free": free, "entered": origin.entered}));
            }
            1 => {
                if let Some(report) = origin.mail.pop_front() {
                    hall.report(&report);
                }
            }
            2 | 3 => {
                let next = waiting.front().expect("more visitors than steps admit");
                if hall.line.claim(next).status == 200 {
                    waiting.pop_front();
                    origin.in_flight += 1;
                    admitted += 1;
                }
            }
            4 if origin.in_flight > 0 => {
                origin.in_flight -= 1;
                origin.inside += 1;
                origin.entered += 1;
            }
            5 if origin.inside > 0 => origin.inside -= 1,
            _ => {}
        }
        assert!(origin.inside + origin.in_flight <= origin.slots, "overfilled in step {step}");
    }
    assert!(admitted > 2 * origin.slots, "slots were used again and again: {admitted}");
}

/// AWS issue #154: a visitor who was served and never came held a slot for ever.
#[test]
fn aws_issue_154_abandoned_visitors_do_not_block_a_max_size_room() {
    let mut hall =
        Hall::open(&json!({"inlet": "max-size", "total_active_users": 2, "queue_position_expiry_period": 1}));
    let ids = hall.line.join_many(9);
    let last = ids.last().expect("nine");
    let drained = hall.wait("the line drains to the last", |room| number(&room["figures"]["serving"]) == 9);
    assert!(number(&drained["figures"]["offers"]) <= 2, "{drained}");
    let next = hall.line.join();
    hall.wait("the next is served", |room| number(&room["figures"]["serving"]) == 10);
    assert_eq!(hall.line.claim(&next).status, 200);
    hall.wait("those who never came are gone", |room| room["figures"]["lapsed"] == 9);
    assert_eq!(hall.status(last), "expired");
    // A visitor who abandoned the visit frees the slot by the message, once.
    let gone = hall.say(&json!({"abandoned": [next]})).json();
    assert_eq!((&gone["abandoned"], hall.line.active()), (&json!([next]), 0));
}

#[test]
fn the_max_size_message_ends_visits_and_tells_back_what_it_does_not_know() {
    let mut hall = Hall::open(&json!({"inlet": "max-size", "total_active_users": 6}));
    let ids = hall.line.join_many(12);
    for id in &ids[..6] {
        assert_eq!(hall.line.claim(id).status, 200);
    }
    // A numeric string, as AWS's message allows; the names are among the number.
    let response = hall.say(&json!({"exited": "3", "completed": [ids[0], "no-id-at-all", ids[11]], "abandoned": [ids[1], ids[0]]}));
    let expected = json!({
        "exited": 3, "completed": [ids[0]], "abandoned": [ids[1]], "unknown": ["no-id-at-all", ids[11]], "already_ended": [ids[0]],
    });
    assert_eq!((response.status, response.json()), (200, expected));
    let room = hall.room();
    assert_eq!(
        (&room["figures"]["active"], &room["figures"]["serving"]),
        (&json!(3), &json!(9)),
        "three slots, three offers"
    );
    // Another room's tickets are unknown here, and more exits than visitors inside are not counted.
    let more = hall.say(&json!({"exited": 100})).json();
    assert_eq!((&more["exited"], hall.room()["figures"]["active"].clone()), (&json!(3), json!(0)));
    assert_eq!(hall.room()["figures"]["serving"], 12);
    assert_eq!(hall.say(&json!({"exited": 0})).json()["exited"], 0);
    assert_eq!(hall.say(&json!({"completed": []})).status, 200);
    let recorded = hall.line.operator.get("/audit?room=Hall").expect("an answer").text();
    assert!(recorded.contains("exits") && recorded.contains("close"), "{recorded}");
}

#[test]
fn what_is_wrong_is_named_and_changes_nothing() {
    let mut hall = Hall::open(&reported(50));
    hall.report(&json!({"reporter": "web-1", "sequence": 4, "free": 3, "entered": 1}));
    let ids = hall.line.join_many(4);
    assert_eq!(hall.line.claim(&ids[0]).status, 200);
    let (before, version) = (hall.capacity(), hall.room()["version"].clone());
    for (body, named) in [
        (json!({}), "`free`"),
        (json!({"free": -1}), "`free`"),
        (json!({"free": "many"}), "`free`"),
        (json!({"free": 1, "surplus": 2}), "`surplus`"),
        (json!({"free": 1, "exited": 1}), "`exited`"),
        (json!({"free": 1, "error_rate": 1.5}), "`error_rate`"),
        (json!({"free": 1, "latency_p95_ms": -1}), "`latency_p95_ms`"),
        (json!({"free": 1, "reporter": "a b"}), "`reporter`"),
        (json!({"completed": [ids[0]], "exited": -1}), "`exited`"),
        (json!({"completed": [ids[0]], "abandoned": [7]}), "`abandoned`"),
        (json!({"completed": ids[0]}), "`completed`"),
    ] {
        let answer = hall.say(&body);
        assert_eq!((answer.status, answer.problem()), (400, "bad-request".to_owned()), "{body}: {answer:?}");
        assert!(answer.error().contains(named), "{body}: {}", answer.error());
    }
    for raw in ["", "[]", "{\"free\": NaN}", "{\"free\": 1, \"free\": 2}", "{\"free\": 1e999}", "nonsense"] {
        let answer = hall
            .line
            .operator
            .send(&Request::new("POST", "/rooms/Hall/capacity").body(raw))
            .expect("an answer");
        assert_eq!(answer.status, 400, "{raw}: {answer:?}");
    }
    let unknown = hall.line.operator.post("/rooms/Nowhere/capacity", &json!({"free": 1})).expect("an answer");
    assert_eq!((unknown.status, unknown.problem()), (404, "unknown-room".to_owned()));
    let after = hall.capacity();
    assert_eq!(
        (&after["reporters"][0]["heard_at"], &after["free"]),
        (&before["reporters"][0]["heard_at"], &before["free"])
    );
    assert_eq!((hall.room()["version"].clone(), hall.line.active()), (version, 1));
}

#[test]
fn reporters_are_listed_counted_and_forgotten() {
    let mut hall = Hall::open(&reported(50));
    assert_eq!((&hall.capacity()["reporters"], &hall.capacity()["free"]), (&json!([]), &Value::Null));
    hall.report(&json!({"reporter": "web/2", "free": 2}));
    hall.report(&json!({"reporter": "web-1", "sequence": 9, "free": 3, "latency_p95_ms": 80.4, "error_rate": 0.25, "in_flight": 4}));
    let response = hall.report(&json!({"in_flight": 1}));
    assert_eq!(response["free"], 5, "one that does not say what is free takes nothing away");
    let report = hall.capacity();
    assert_eq!((&report["free_reported"], &report["silent_after_seconds"]), (&json!(5), &json!(10800)));
    let names: Vec<&Value> =
        report["reporters"].as_array().unwrap().iter().map(|one| &one["reporter"]).collect();
    assert_eq!(names, ["origin", "web-1", "web/2"]);
    let web = &report["reporters"][1];
    assert_eq!(
        (&web["latency_p95_ms"], &web["error_rate"], &web["silent"]),
        (&json!(81), &json!(0.25), &json!(false))
    );
    for _ in 0..60 {
        hall.line.join();
    }
    assert_eq!(hall.line.serving(), 5, "the origin's word is the tighter bound");
    let forgotten = Request::new("DELETE", "/rooms/Hall/capacity/web%2F2");
    assert_eq!(hall.line.operator.send(&forgotten).expect("an answer").status, 204);
    let again = hall.line.operator.send(&forgotten).expect("an answer");
    assert_eq!((again.status, again.problem()), (404, "unknown-name".to_owned()));
    assert_eq!(hall.capacity()["free_reported"], 3);
    let recorded = hall.line.operator.get("/audit?room=Hall").expect("an answer").text();
    assert!(recorded.contains("forget-reporter web/2"), "{recorded}");
    assert!(
        !recorded.contains("\"report\""),
        "reports come every few seconds and are not recorded: {recorded}"
    );
}

#[test]
fn a_room_listens_to_a_bounded_number_of_reporters() {
    let mut hall = Hall::open(&reported(50));
    for number in 0..64 {
        hall.report(&json!({"reporter": format!("web-{number}"), "free": 1}));
    }
    let refused = hall.say(&json!({"reporter": "one-more", "free": 1}));
    assert_eq!((refused.status, refused.problem()), (409, "conflict".to_owned()));
    assert_eq!(hall.capacity()["free_reported"], 64);
}
