//! Rooms at run time: made, changed, deleted, with nobody's change lost and nothing half done.

use anteroom_testkit::{Answer, Client, Request, Server};
use serde_json::{Value, json};

use crate::support::BINARY;

fn start() -> Server {
    Server::builder(BINARY).start().expect("the server starts")
}

fn send(client: &mut Client, method: &str, path: &str, body: &Value) -> Answer {
    client.send(&Request::new(method, path).body(body.to_string())).expect("an answer as it should be")
}

fn with(client: &mut Client, method: &str, path: &str, header: (&str, &str), body: &Value) -> Answer {
    client
        .send(&Request::new(method, path).header(header.0, header.1).body(body.to_string()))
        .expect("an answer as it should be")
}

#[test]
fn a_room_is_made_changed_and_deleted_while_the_server_runs() {
    let server = start();
    let (mut operator, mut visitor) = (server.operator(), server.visitor());
    let made = send(&mut operator, "PUT", "/rooms/sale", &json!({"settings": {"validity_period": 60}}));
    assert_eq!(made.status, 201, "{made:?}");
    let body = made.json();
    assert_eq!((&body["id"], &body["state"]), (&json!("sale"), &json!("open")));
    assert_eq!(body["settings"]["validity_period"], 60);
    assert_eq!(body["settings"]["issuer"], Value::Null);
    assert_eq!(body["figures"]["joined"], 0);
    let time = body["updated_at"].as_str().expect("an answer as it should be");
    assert!(time.len() == 24 && time.ends_with('Z') && time.as_bytes()[10] == b'T', "{time}");
    // It works at once, on both APIs.
    assert_eq!(
        visitor.post("/join", &json!({"room": "sale"})).expect("an answer as it should be").json()["position"],
        1
    );
    assert_eq!(
        visitor
            .post("/assign_queue_num", &json!({"event_id": "sale"}))
            .expect("an answer as it should be")
            .status,
        200
    );
    assert_eq!(visitor.get("/rooms/sale").expect("an answer as it should be").json()["joined"], 2);
    let names = |client: &mut Client| -> Vec<String> {
        let rooms = client.get("/rooms").expect("an answer as it should be").json();
        rooms["rooms"]
            .as_array()
            .expect("an answer as it should be")
            .iter()
            .map(|room| room["id"].as_str().expect("an answer as it should be").to_owned())
            .collect()
    };
    assert_eq!(names(&mut operator), ["Sample", "sale"]);

    let changed = send(
        &mut operator,
        "PATCH",
        "/rooms/sale",
        &json!({"state": "paused", "settings": {"issuer": "me"}}),
    );
    assert_eq!(changed.status, 200, "{changed:?}");
    let body = changed.json();
    assert_eq!((&body["state"], &body["settings"]["issuer"]), (&json!("paused"), &json!("me")));
    assert_eq!(body["settings"]["validity_period"], 60, "what was not named stays");
    assert_eq!(body["figures"]["joined"], 2, "nobody loses a place");
    let back = send(
        &mut operator,
        "PATCH",
        "/rooms/sale",
        &json!({"settings": {"issuer": null, "validity_period": null}}),
    );
    assert_eq!(back.json()["settings"]["validity_period"], 3600, "null is the default");
    assert_eq!(back.json()["state"], "paused");
    let replaced = send(&mut operator, "PUT", "/rooms/sale", &json!({}));
    assert_eq!(
        (replaced.status, &replaced.json()["state"]),
        (200, &json!("open")),
        "everything at its default"
    );

    let ticket =
        visitor.post("/join", &json!({"room": "sale"})).expect("an answer as it should be").json()["ticket"]
            .clone();
    assert_eq!(send(&mut operator, "DELETE", "/rooms/sale", &json!(null)).status, 204);
    assert_eq!(names(&mut operator), ["Sample"]);
    assert_eq!(visitor.get("/rooms/sale").expect("an answer as it should be").status, 404);
    assert_eq!(
        visitor
            .post("/assign_queue_num", &json!({"event_id": "sale"}))
            .expect("an answer as it should be")
            .status,
        400
    );
    assert_eq!(send(&mut operator, "DELETE", "/rooms/sale", &json!(null)).status, 404);
    // Made again, it is another room: old tickets are unknown.
    assert_eq!(send(&mut operator, "PUT", "/rooms/sale", &json!({})).status, 201);
    let shown = Request::new("GET", "/status")
        .header("Authorization", ticket.as_str().expect("an answer as it should be"));
    assert_eq!(visitor.send(&shown).expect("an answer as it should be").status, 404);
    assert_eq!(
        visitor.post("/join", &json!({"room": "sale"})).expect("an answer as it should be").json()["position"],
        1
    );
}

#[test]
fn changes_survive_a_restart_and_a_deleted_room_of_the_file_stays_deleted() {
    let mut server = Server::builder(BINARY)
        .config("[[room]]\nid = \"one\"\n[[room]]\nid = \"two\"\n")
        .start()
        .expect("the server starts");
    let mut operator = server.operator();
    let changed = send(&mut operator, "PATCH", "/rooms/one", &json!({"settings": {"validity_period": 77}}));
    assert_eq!(changed.status, 200, "{changed:?}");
    assert_eq!(send(&mut operator, "DELETE", "/rooms/two", &json!(null)).status, 204);
    assert_eq!(send(&mut operator, "PUT", "/rooms/three", &json!({})).status, 201);
    server.terminate().expect("an answer as it should be");
    server.restart().expect("an answer as it should be");
    let mut operator = server.operator();
    assert_eq!(
        operator.get("/rooms/one").expect("an answer as it should be").json()["settings"]["validity_period"],
        77
    );
    assert_eq!(
        operator.get("/rooms/two").expect("an answer as it should be").status,
        404,
        "deleted by an operator, not by the file"
    );
    assert_eq!(operator.get("/rooms/three").expect("an answer as it should be").status, 200);
    // An edited file wins, for the rooms it changes.
    server.terminate().expect("an answer as it should be");
    server.set_config(
        "[[room]]\nid = \"one\"\nvalidity_period = 88\n[[room]]\nid = \"two\"\nvalidity_period = 99\n",
    );
    server.restart().expect("an answer as it should be");
    let mut operator = server.operator();
    assert_eq!(
        operator.get("/rooms/one").expect("an answer as it should be").json()["settings"]["validity_period"],
        88
    );
    assert_eq!(
        operator.get("/rooms/two").expect("an answer as it should be").json()["settings"]["validity_period"],
        99
    );
}

#[test]
fn nobody_overwrites_what_they_have_not_seen() {
    let server = start();
    let mut operator = server.operator();
    let seen = operator.get("/rooms/Sample").expect("an answer as it should be");
    let tag = seen.header("ETag").expect("an answer as it should be").to_owned();
    // Visitors do not change the tag.
    server.visitor().post("/join", &json!({})).expect("an answer as it should be");
    assert_eq!(
        operator.get("/rooms/Sample").expect("an answer as it should be").header("ETag"),
        Some(tag.as_str())
    );
    let mine = json!({"settings": {"validity_period": 100}});
    let first = with(&mut operator, "PATCH", "/rooms/Sample", ("If-Match", &tag), &mine);
    assert_eq!(first.status, 200, "{first:?}");
    let newer = first.header("ETag").expect("an answer as it should be").to_owned();
    assert_ne!(newer, tag);
    for method in ["PATCH", "PUT", "DELETE"] {
        let late = with(&mut operator, method, "/rooms/Sample", ("If-Match", &tag), &json!({}));
        assert_eq!((late.status, late.problem().as_str()), (412, "changed"), "{method}: {late:?}");
    }
    assert_eq!(
        operator.get("/rooms/Sample").expect("an answer as it should be").json()["settings"]["validity_period"],
        100
    );
    let taken = with(&mut operator, "PUT", "/rooms/Sample", ("If-None-Match", "*"), &json!({}));
    assert_eq!((taken.status, taken.problem().as_str()), (412, "changed"));
    let nothing = with(&mut operator, "PUT", "/rooms/new", ("If-Match", "*"), &json!({}));
    assert_eq!((nothing.status, nothing.problem().as_str()), (412, "changed"));
    let made = with(&mut operator, "PUT", "/rooms/new", ("If-None-Match", "*"), &json!({}));
    assert_eq!(made.status, 201, "{made:?}");
    let gone = with(&mut operator, "DELETE", "/rooms/Sample", ("If-Match", &newer), &json!(null));
    assert_eq!(gone.status, 204, "{gone:?}");
}

#[test]
fn changes_at_the_same_time_are_all_there_in_the_end() {
    let server = start();
    let fields = ["validity_period", "queue_position_expiry_period", "total_active_users"];
    let threads: Vec<_> = fields
        .into_iter()
        .map(|field| {
            let mut operator = server.operator();
            std::thread::spawn(move || {
                for value in 1..=20 {
                    let body = json!({"settings": {field: value}});
                    let answer = send(&mut operator, "PATCH", "/rooms/Sample", &body);
                    assert_eq!(answer.status, 200, "{answer:?}");
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("every change was made");
    }
    let settings =
        server.operator().get("/rooms/Sample").expect("an answer as it should be").json()["settings"].clone();
    for field in fields {
        assert_eq!(settings[field], 20, "{field}");
    }
}

#[test]
fn bad_changes_are_refused_by_name_and_change_nothing() {
    let server = start();
    let mut operator = server.operator();
    let before = operator.get("/rooms/Sample").expect("an answer as it should be").json()["settings"].clone();
    let bad = [
        (json!({"settings": {"validity_period": 0}}), "validity_period"),
        (json!({"settings": {"validity_period": 1.5}}), "validity_period"),
        (json!({"settings": {"validity_period": "60"}}), "validity_period"),
        (json!({"settings": {"validity_perod": 60}}), "validity_period"),
        (json!({"settings": {"inlet": "fast"}}), "inlet"),
        (json!({"settings": {"inlet": "max-size"}}), "total_active_users"),
        (json!({"settings": {"issuer": ""}}), "issuer"),
        (json!({"settings": {"backend_uri": "javascript:alert(1)"}}), "backend_uri"),
        (json!({"settings": {"total_active_users": 18_446_744_073_709_551_615_u64}}), "total_active_users"),
        (json!({"settings": {"issuer": ["a"]}}), "issuer"),
        (json!({"state": "ajar"}), "state"),
        (json!({"staet": "open"}), "staet"),
        (json!({"settings": []}), ""),
        (json!([]), ""),
    ];
    for (body, named) in bad {
        for (method, path) in [("PATCH", "/rooms/Sample"), ("PUT", "/rooms/Sample"), ("PUT", "/rooms/new")] {
            let answer = send(&mut operator, method, path, &body);
            assert_eq!(
                (answer.status, answer.problem().as_str()),
                (400, "bad-request"),
                "{method} {body}: {answer:?}"
            );
            let detail = answer.json()["detail"].as_str().expect("an answer as it should be").to_owned();
            assert!(detail.contains(named), "{body}: {detail}");
        }
    }
    for name in ["a%20b", "%C3%BC", &"x".repeat(65), "a%2Fb"] {
        let answer = send(&mut operator, "PUT", &format!("/rooms/{name}"), &json!({}));
        assert_eq!(answer.status, 400, "{name}: {answer:?}");
    }
    assert_eq!(operator.get("/rooms/Sample").expect("an answer as it should be").json()["settings"], before);
    assert_eq!(
        operator.get("/rooms").expect("an answer as it should be").json()["rooms"]
            .as_array()
            .expect("an answer as it should be")
            .len(),
        1
    );
}

#[test]
fn opening_a_room_again_wakes_an_inlet_that_rests() {
    let server = start();
    let mut operator = server.operator();
    let capped = json!({"settings": {"inlet": "max-size", "total_active_users": 5}});
    assert_eq!(send(&mut operator, "PATCH", "/rooms/Sample", &capped).status, 200);
    let mut line = server.line("Sample");
    line.join_many(2);
    line.advance(-1);
    let figures = |operator: &mut Client| {
        operator.get("/rooms/Sample").expect("an answer as it should be").json()["figures"].clone()
    };
    assert_eq!(figures(&mut operator)["inlet_rests"], true);
    // A change of something else lets it rest.
    let other = json!({"settings": {"validity_period": 5}});
    assert_eq!(send(&mut operator, "PATCH", "/rooms/Sample", &other).json()["figures"]["inlet_rests"], true);
    let opened = send(&mut operator, "PATCH", "/rooms/Sample", &json!({"state": "open"})).json();
    assert_eq!(
        (&opened["figures"]["inlet_rests"], &opened["figures"]["serving"]),
        (&json!(false), &json!(2))
    );
}

#[test]
fn an_operator_reads_what_a_ticket_says() {
    let server = start();
    let mut line = server.line("Sample");
    let ids = line.join_many(2);
    line.advance(1);
    let path = |id: &str| format!("/rooms/Sample/tickets/{id}");
    let waiting = line.operator.get(&path(&ids[1])).expect("an answer as it should be");
    assert_eq!(waiting.status, 200, "{waiting:?}");
    let waiting = waiting.json();
    assert_eq!((&waiting["position"], &waiting["status"]), (&json!(2), &json!("waiting")));
    assert_eq!((&waiting["people_ahead"], &waiting["session"]), (&json!(0), &Value::Null));
    line.claim(&ids[0]);
    let admitted = line.operator.get(&path(&ids[0])).expect("an answer as it should be").json();
    assert_eq!((&admitted["status"], &admitted["session"]["status"]), (&json!("admitted"), &json!("active")));
    line.close(&ids[0], 1);
    let over = line.operator.get(&path(&ids[0])).expect("an answer as it should be").json();
    assert_eq!(over["session"]["status"], "completed");
    for unknown in ["x", "0123abcd-ef01-8234-9678-9abcdef01234"] {
        assert_eq!(line.operator.get(&path(unknown)).expect("an answer as it should be").status, 404);
    }
}
