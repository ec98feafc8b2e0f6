//! "Malformed bodies, wrong types, huge and negative numbers, overflow, 1.5, missing and duplicate fields, wrong methods,
//! unknown paths: clear 4xx …, never 5xx, nothing changed."
//!
//! Each test is a table of bad calls to a busy room between two looks at everything that the room tells. What is not even
//! good HTTP is in `bad_http.rs`, slow and half-open connections are in `bad_connections.rs`.

use anteroom_testkit::{Answer, Client, Line, Request, Server, aws};
use serde_json::json;

use crate::busy_room::{Scene, assert_refused};
use crate::support::BINARY;

/// Bodies that are wrong on every POST, one a line (the first is empty).
const BODIES_WRONG_EVERYWHERE: &str = r#"
null
true
7
"Busy"
[]
{}
[{}]
{
}
{"event_id"
{"event_id":}
{'event_id': 'Busy'}
event_id=Busy
{"event_id": "Busy",}
{"event_id": "Busy"} x
NaN
{"event_id": null}
{"event_id": 7}
{"event_id": 1.5}
{"event_id": true}
{"event_id": ["Busy"]}
{"event_id": {"S": "Busy"}}
{"event_id": ""}
{"event_id": "Other"}
{"event_id": "busy"}
{"event_id": "Busy\u0000"}
{"event_id": "\ud800"}
{"Event_Id": "Busy"}
{"event_id": "<b>Busy</b>"}"#;

fn bodies_wrong_everywhere() -> Vec<Vec<u8>> {
    let mut bodies: Vec<Vec<u8>> = BODIES_WRONG_EVERYWHERE.split('\n').map(Vec::from).collect();
    bodies.push("[".repeat(4000).into_bytes());
    bodies.push(format!("{{\"event_id\": \"{}\"}}", "B".repeat(4000)).into_bytes());
    bodies.push(vec![0xff, 0xfe, 0x00]);
    bodies.push(b"{\"event_id\": \"Busy\xff\"}".to_vec());
    bodies.push(b"\xef\xbb\xbf\x00".to_vec());
    bodies
}

/// Sends each body to the path and expects 400.
fn refuse_bodies(client: &mut Client, path: &str, bodies: &[Vec<u8>]) {
    for body in bodies {
        let what = format!("{path} {}", String::from_utf8_lossy(&body[..body.len().min(200)]));
        let answer = client.send(&Request::new("POST", path).body(body.clone())).expect(&what);
        assert_refused(&answer, &[400], &what);
    }
}

/// One body for each line of the table, which gives the members after a good `event_id`; `ID` stands for `id`.
fn with_event(table: &str, id: &str) -> Vec<Vec<u8>> {
    let body = |members: &str| {
        let separator = if members.is_empty() { "" } else { ", " };
        format!("{{\"event_id\": \"Busy\"{separator}{}}}", members.replace("ID", id)).into_bytes()
    };
    table.split('\n').map(body).collect()
}

/// What is wrong with `request_id` on every POST that takes one.
const REQUEST_IDS_WRONG: &str = r#"
"request_id": null
"request_id": 7
"request_id": []
"request_id": {}
"request_id": true
"request_id": ""
"request_id": "x"
"requestId": "ID"
"request_id": "ID", "request_id": "ID"
"request_id": "ID", "event_id": "Busy"
"request_id": "ID "
"request_id": ["ID"]"#;

const OVERRIDES_WRONG: &str = r#""validity_period": -1
"validity_period": 1.5
"validity_period": "60"
"validity_period": true
"validity_period": []
"validity_period": {}
"validity_period": 1e400
"validity_period": 1e30
"validity_period": 9223372036854775807
"validity_period": 18446744073709551616
"validity_period": -9223372036854775808
"validity_period": 60, "validity_period": 60
"issuer": 7
"issuer": []
"issuer": {}
"issuer": true
"issuer": "a", "issuer": "a""#;

const INCREMENTS_WRONG: &str = r#"
"increment_by": null
"increment_by": "10"
"increment_by": ""
"increment_by": true
"increment_by": []
"increment_by": {}
"increment_by": 1.5
"increment_by": -0.5
"increment_by": 1e400
"increment_by": 1e19
"increment_by": -1e19
"increment_by": 9223372036854775807
"increment_by": 9223372036854775808
"increment_by": -9223372036854775809
"increment_by": 99999999999999999999999999999999999999
"increment_by": 1, "increment_by": 1
"increment_by": 1, "event_id": "Busy"
"increment_by": +1
"increment_by": 01
"increment_by": 0x1
"incrementBy": 1"#;

const STATUSES_WRONG: &str = r#""request_id": "ID"
"request_id": "ID", "status": null
"request_id": "ID", "status": "1"
"request_id": "ID", "status": "completed"
"request_id": "ID", "status": true
"request_id": "ID", "status": []
"request_id": "ID", "status": {}
"request_id": "ID", "status": 0
"request_id": "ID", "status": 2
"request_id": "ID", "status": -2
"request_id": "ID", "status": 7
"request_id": "ID", "status": 1.5
"request_id": "ID", "status": 1e400
"request_id": "ID", "status": 9223372036854775808
"request_id": "ID", "status": 1, "status": 1"#;

#[test]
fn malformed_bodies_and_wrong_types_are_refused_on_every_post() {
    let mut scene = Scene::start("");
    let everywhere = bodies_wrong_everywhere();
    for path in
        ["/assign_queue_num", "/generate_token", "/.anteroom/assign_queue_num", "/.anteroom/generate_token"]
    {
        refuse_bodies(&mut scene.line.public, path, &everywhere);
    }
    let private =
        ["/generate_token", "/increment_serving_counter", "/reset_initial_state", "/update_session"];
    for path in private {
        refuse_bodies(&mut scene.line.operator, path, &everywhere);
    }
    let twice = [b"{\"event_id\": \"Busy\", \"event_id\": \"Busy\"}".to_vec()];
    refuse_bodies(&mut scene.line.public, "/assign_queue_num", &twice);
    refuse_bodies(&mut scene.line.operator, "/reset_initial_state", &twice);
    scene.assert_nothing_changed();
}

#[test]
fn missing_wrong_and_duplicate_request_ids_are_refused_on_every_post() {
    let mut scene = Scene::start("");
    let wrong = with_event(REQUEST_IDS_WRONG, scene.served());
    refuse_bodies(&mut scene.line.public, "/generate_token", &wrong);
    refuse_bodies(&mut scene.line.operator, "/generate_token", &wrong);
    let closed = with_event(&REQUEST_IDS_WRONG.replace('\n', "\n\"status\": 1, "), scene.served());
    refuse_bodies(&mut scene.line.operator, "/update_session", &closed);
    scene.assert_nothing_changed();
}

#[test]
fn bad_overrides_of_the_private_generate_token_are_refused() {
    let mut scene = Scene::start("");
    let table = OVERRIDES_WRONG.replace('\n', "\n\"request_id\": \"ID\", ");
    let bodies = with_event(&format!("\"request_id\": \"ID\", {table}"), scene.served());
    refuse_bodies(&mut scene.line.operator, "/generate_token", &bodies);
    scene.assert_nothing_changed();
}

#[test]
fn bad_increments_are_refused() {
    let mut scene = Scene::start("");
    let bodies = with_event(INCREMENTS_WRONG, "");
    refuse_bodies(&mut scene.line.operator, "/increment_serving_counter", &bodies);
    scene.assert_nothing_changed();
}

#[test]
fn bad_session_statuses_are_refused() {
    let mut scene = Scene::start("");
    // The first visitor has a session that a bad call could end.
    let bodies = with_event(STATUSES_WRONG, &scene.ids[0]);
    refuse_bodies(&mut scene.line.operator, "/update_session", &bodies);
    scene.assert_nothing_changed();
}

/// Queries that name no room, one a line (the first is empty).
const QUERIES_WRONG: &str = "
?
?event_id
?event_id=
?event_id=Other
?event_id=busy
?Event_id=Busy
?event_id=Busy%20
?event_id=Busy&event_id=Busy
?event_id=Busy&event_id=Other
?event_id=%
?event_id=%ZZ
?event_id=%FF%FE
?event_id=Busy%00
?event_id=%3Cb%3EBusy%3C%2Fb%3E
?event_id[]=Busy
?=Busy
?&&&
?event_id=Busy%26";

/// What may follow a good `event_id` and is no request id; `ID` stands for a good one.
const QUERY_IDS_WRONG: &str = "
&request_id
&request_id=
&request_id=x
&request_id=%FF
&request_id=ID&request_id=ID
&request_id=ID%00
&request_id=ID%0A
&Request_id=ID";

#[test]
fn bad_queries_are_refused_on_every_get() {
    let mut scene = Scene::start("");
    let id = scene.served().to_owned();
    let mut queries: Vec<String> = QUERIES_WRONG.split('\n').map(String::from).collect();
    queries.push(format!("?event_id={}", "B".repeat(4000)));
    // What the guide says about a wrong room: 404 for the key and for the active count, else 400.
    let gets: [(bool, &str, &[u16]); 5] = [
        (true, "/serving_num", &[400]),
        (true, "/waiting_num", &[400]),
        (true, "/public_key", &[400, 404]),
        (false, "/num_active_tokens", &[400, 404]),
        (false, "/expired_tokens", &[400]),
    ];
    for (public, path, allowed) in gets {
        let client = if public { &mut scene.line.public } else { &mut scene.line.operator };
        for query in &queries {
            let target = format!("{path}{query}");
            assert_refused(&client.get(&target).unwrap(), allowed, &target);
        }
    }
    for path in ["/queue_num", "/queue_pos_expiry"] {
        for query in &queries {
            let separator = if query.contains('?') { "&" } else { "?" };
            let target = format!("{path}{query}{separator}request_id={id}");
            assert_refused(&scene.line.public.get(&target).unwrap(), &[400], &target);
        }
        let mut ids: Vec<String> =
            QUERY_IDS_WRONG.split('\n').map(|table| table.replace("ID", &id)).collect();
        ids.push(format!("&request_id={}", "a".repeat(4000)));
        for request_id in ids {
            let target = format!("{path}?event_id=Busy{request_id}");
            assert_refused(&scene.line.public.get(&target).unwrap(), &[400], &target);
        }
    }
    scene.assert_nothing_changed();
}

/// A query with `needed` and as many further parameters as it takes to have `count`.
fn query_of(needed: &str, count: usize) -> String {
    let mut parameters: Vec<String> = needed.split('&').map(String::from).collect();
    parameters.extend((parameters.len()..count).map(|number| format!("p{number}=x")));
    parameters.join("&")
}

#[test]
fn more_than_32_parameters_are_refused() {
    let mut scene = Scene::start("");
    let event = "event_id=Busy".to_owned();
    let both = format!("{event}&request_id={}", scene.served());
    let gets = [
        (true, "/serving_num", &event),
        (true, "/waiting_num", &event),
        (true, "/queue_num", &both),
        (true, "/public_key", &event),
        (true, "/queue_pos_expiry", &both),
        (false, "/num_active_tokens", &event),
        (false, "/expired_tokens", &event),
    ];
    for (public, path, needed) in gets {
        let client = if public { &mut scene.line.public } else { &mut scene.line.operator };
        assert_eq!(client.get(&format!("{path}?{}", query_of(needed, 32))).unwrap().status, 200, "{path}");
        assert_refused(&client.get(&format!("{path}?{}", query_of(needed, 33))).unwrap(), &[400], path);
    }
    let reset = Request::new("POST", &format!("/reset_initial_state?{}", query_of(&event, 33)));
    assert_refused(&scene.line.operator.send(&reset).unwrap(), &[400], "a reset");
    scene.assert_nothing_changed();
}

#[test]
fn a_reset_that_names_two_rooms_is_refused_and_resets_neither() {
    let config = "[[room]]\nid = \"One\"\n[[room]]\nid = \"Two\"\n";
    let server = Server::builder(BINARY).config(config).memory().start().unwrap();
    let mut lines = ["One", "Two"].map(|event| server.line(event));
    let before = lines.each_mut().map(|line| {
        line.join_many(2);
        line.advance(1);
        line.figures()
    });
    let mut operator = server.operator();
    for (queried, in_body) in
        [("One", "Two"), ("Two", "One"), ("One", "one"), ("One", ""), ("", "Two"), ("Other", "One")]
    {
        let target = format!("/reset_initial_state?event_id={queried}");
        let answer = operator.post(&target, &json!({ "event_id": in_body })).unwrap();
        assert_refused(&answer, &[400], &format!("{queried} in the query, {in_body} in the body"));
    }
    assert_eq!(lines.each_mut().map(Line::figures), before);
    // Named twice but alike, it is one room.
    let alike = operator.post("/reset_initial_state?event_id=One", &json!({ "event_id": "One" })).unwrap();
    assert_eq!(alike.status, 200, "{alike:?}");
    assert_eq!((lines[0].waiting(), lines[1].figures()), (0, before[1].clone()));
}

#[test]
fn a_wrong_event_gets_the_status_and_the_text_that_the_guide_names() {
    let mut scene = Scene::start("");
    let id = scene.served().to_owned();
    let event = |answer: &Answer| (answer.status, answer.error());
    let invalid_event = (400, "Invalid event ID".to_owned());
    let invalid_either = (400, "Invalid event or request ID".to_owned());
    let (public, operator) = (&mut scene.line.public, &mut scene.line.operator);
    assert_eq!(event(&aws::serving_num(public, "Other").unwrap()), invalid_event);
    assert_eq!(event(&aws::waiting_num(public, "Other").unwrap()), invalid_event);
    assert_eq!(event(&aws::increment_serving_counter(operator, "Other", 1).unwrap()), invalid_event);
    assert_eq!(event(&aws::expired_tokens(operator, "Other").unwrap()), invalid_event);
    assert_eq!(aws::num_active_tokens(operator, "Other").unwrap().status, 404);
    assert_eq!(aws::public_key(public, "Other").unwrap().status, 404);
    assert_eq!(public.get("/public_key").unwrap().status, 404);
    assert_eq!(event(&aws::queue_num(public, "Other", &id).unwrap()), invalid_either);
    assert_eq!(event(&aws::queue_pos_expiry(public, "Other", &id).unwrap()), invalid_either);
    assert_eq!(event(&aws::generate_token(public, "Other", &id).unwrap()), invalid_either);
    assert_eq!(event(&aws::generate_token(operator, "Other", &id).unwrap()), invalid_either);
    assert_eq!(event(&aws::update_session(operator, "Other", &id, 1).unwrap()), invalid_either);
    scene.assert_nothing_changed();
}

const UNKNOWN_PATHS: &str = "/nothing
/serving_num/
//serving_num
/Serving_num
/serving_num/x
/api/serving_num
/.anteroom/nothing
/.anteroom/.anteroom/serving_num
/..
/../serving_num
/%2e%2e/serving_num
/%00
/increment_serving_num
/get_queue_num
/waiting_room_size
/serving%5Fnum%2F
/favicon.ico?x=1";

#[test]
fn wrong_methods_and_unknown_paths_are_refused() {
    let mut scene = Scene::start("");
    let methods = ["GET", "POST", "PUT", "PATCH", "DELETE", "TRACE", "PROPFIND", "BREW"];
    let mut routes: Vec<(bool, String, &str)> = Vec::new();
    for (method, path) in aws::PUBLIC_ROUTES {
        routes.push((true, path.to_owned(), method));
        routes.push((true, format!("/.anteroom{path}"), method));
    }
    routes.extend(aws::PRIVATE_ROUTES.iter().map(|(method, path)| (false, (*path).to_owned(), *method)));
    for (public, path, right) in routes {
        let client = if public { &mut scene.line.public } else { &mut scene.line.operator };
        for method in methods.into_iter().filter(|method| *method != right) {
            let what = format!("{method} {path}");
            let request =
                Request::new(method, &format!("{path}?event_id=Busy")).body("{\"event_id\": \"Busy\"}");
            let answer = client.send(&request).expect(&what);
            assert_refused(&answer, &[405], &what);
            assert!(answer.header_lists("Allow", right), "{what}: {answer:?}");
            assert!(!answer.header_lists("Allow", method), "{what}: {answer:?}");
        }
    }
    for path in UNKNOWN_PATHS.split('\n') {
        for method in ["GET", "POST"] {
            let what = format!("{method} {path}");
            let answer = scene.line.public.send(&Request::new(method, path)).expect(&what);
            assert_refused(&answer, &[400, 404], &what);
            let answer = scene.line.operator.send(&Request::new(method, path)).expect(&what);
            assert_refused(&answer, &[400, 404], &what);
        }
    }
    scene.assert_nothing_changed();
}

#[test]
fn private_calls_do_not_exist_on_the_public_listener() {
    let mut scene = Scene::start("");
    let id = scene.served().to_owned();
    let mut keyed = scene.server.visitor().with_bearer(scene.server.admin_key());
    let body =
        format!("{{\"event_id\": \"Busy\", \"request_id\": \"{id}\", \"status\": 1, \"increment_by\": 5}}");
    for client in [&mut scene.line.public, &mut keyed] {
        for (method, path) in aws::PRIVATE_ROUTES.into_iter().filter(|(_, path)| *path != "/generate_token") {
            for path in [path.to_owned(), format!("/.anteroom{path}")] {
                let request = Request::new(method, &format!("{path}?event_id=Busy")).body(body.clone());
                assert_refused(&client.send(&request).unwrap(), &[404], &path);
            }
        }
    }
    scene.assert_nothing_changed();
}
