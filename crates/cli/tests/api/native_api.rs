//! Our own API for visitors, as the reference describes it: every field, its unit and its format.

use std::time::Duration;

use anteroom_testkit::{Answer, Client, Request, Server, Wire, jwt};
use serde_json::{Value, json};

use crate::support::BINARY;

fn start() -> Server {
    Server::builder(BINARY).start().expect("the server starts")
}

fn start_with(config: &str) -> Server {
    Server::builder(BINARY).config(config).start().expect("the server starts")
}

fn join(client: &mut Client) -> Value {
    let answer = client.post("/join", &json!({})).expect("an answer as it should be");
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()
}

fn with_ticket(client: &mut Client, method: &str, path: &str, ticket: &str) -> Answer {
    client
        .send(&Request::new(method, path).header("Authorization", &format!("Bearer {ticket}")))
        .expect("an answer as it should be")
}

fn status_of(client: &mut Client, ticket: &str) -> String {
    let answer = with_ticket(client, "GET", "/status", ticket);
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()["status"].as_str().expect("an answer as it should be").to_owned()
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_else(|| panic!("{field} in {value}"))
}

#[test]
fn a_place_taken_to_another_device_goes_on_there_and_the_old_ticket_says_so() {
    let server = start();
    let mut client = server.visitor();
    join(&mut client);
    let old = join(&mut client);
    let (ticket, id) = (text(&old, "ticket").to_owned(), text(&old, "request_id").to_owned());
    let moved = with_ticket(&mut client, "POST", "/move", &ticket);
    assert_eq!(moved.status, 200, "{moved:?}");
    let new = moved.json();
    assert_eq!((&new["position"], &new["people_ahead"]), (&json!(2), &json!(1)));
    assert_ne!(text(&new, "request_id"), id);
    for (method, path) in [("GET", "/status"), ("POST", "/claim"), ("POST", "/leave"), ("POST", "/move")] {
        assert_problem(&with_ticket(&mut client, method, path, &ticket), 410, "moved");
        assert_problem(&with_ticket(&mut client, method, path, &id), 410, "moved");
    }
    let number = client.get(&format!("/queue_num?event_id=Sample&request_id={id}")).unwrap();
    assert_eq!((number.status, number.json()["error"].is_string()), (410, true), "{number:?}");
    let id = text(&new, "request_id");
    let number = client.get(&format!("/queue_num?event_id=Sample&request_id={id}")).unwrap();
    assert_eq!(number.json()["queue_number"], 2, "{number:?}");
    server.line("Sample").advance(2);
    let claimed = with_ticket(&mut client, "POST", "/claim", text(&new, "ticket"));
    assert_eq!(claimed.status, 200, "{claimed:?}");
    assert_problem(&with_ticket(&mut client, "POST", "/claim", &ticket), 410, "moved");
    assert_problem(&with_ticket(&mut client, "POST", "/move", text(&new, "ticket")), 409, "conflict");
    assert_eq!(status_of(&mut client, text(&new, "ticket")), "admitted");
}

#[test]
fn a_place_keeps_having_moved_over_a_restart() {
    let mut server = start();
    let old = join(&mut server.visitor());
    let ticket = text(&old, "ticket").to_owned();
    let moved = with_ticket(&mut server.visitor(), "POST", "/move", &ticket);
    assert_eq!(moved.status, 200, "{moved:?}");
    server.restart().expect("the server starts again");
    assert_problem(&with_ticket(&mut server.visitor(), "GET", "/status", &ticket), 410, "moved");
    assert_eq!(status_of(&mut server.visitor(), text(&moved.json(), "ticket")), "waiting");
}

fn moved_with_key(client: &mut Client, ticket: &str, key: &str) -> Answer {
    let request =
        Request::new("POST", "/move").header("Authorization", ticket).header("Idempotency-Key", key);
    client.send(&request).expect("an answer as it should be")
}

#[test]
fn a_move_whose_answer_was_lost_is_answered_the_same_again_also_after_a_restart() {
    let mut server = start();
    let old = join(&mut server.visitor());
    let (ticket, id) = (text(&old, "ticket").to_owned(), text(&old, "request_id").to_owned());
    let (key, other) = ("0123456789abcdef-phone", "0123456789abcdef-other");
    let first = moved_with_key(&mut server.visitor(), &ticket, key);
    assert_eq!(first.status, 200, "{first:?}");
    // Nobody has read it. A retry gets it, by either form of the ticket, and no other client does.
    for shown in [&ticket, &id] {
        let again = moved_with_key(&mut server.visitor(), shown, key);
        assert_eq!(
            (again.status, &again.json()["request_id"]),
            (200, &first.json()["request_id"]),
            "{again:?}"
        );
        assert_problem(&moved_with_key(&mut server.visitor(), shown, other), 410, "moved");
        assert_problem(&with_ticket(&mut server.visitor(), "POST", "/move", shown), 410, "moved");
    }
    let figures = server.operator().get("/metrics").expect("figures").text();
    assert!(figures.contains("anteroom_places_moved_total{room=\"Sample\"} 1\n"), "it has moved once");
    assert_problem(&moved_with_key(&mut server.visitor(), &ticket, "short"), 400, "bad-request");
    server.restart().expect("the server starts again");
    let again = moved_with_key(&mut server.visitor(), &ticket, key);
    assert_eq!((again.status, &again.json()["request_id"]), (200, &first.json()["request_id"]), "{again:?}");
    assert_eq!(status_of(&mut server.visitor(), text(&again.json(), "ticket")), "waiting");
    // The old ticket says so also when the new one has been given up, long before its turn.
    assert_eq!(
        with_ticket(&mut server.visitor(), "POST", "/leave", text(&again.json(), "ticket")).status,
        200
    );
    assert_problem(&with_ticket(&mut server.visitor(), "GET", "/status", &ticket), 410, "moved");
}

#[test]
fn a_join_that_is_repeated_when_its_place_has_moved_gets_no_dead_ticket() {
    let server = start();
    let mut client = server.visitor();
    let join = Request::new("POST", "/join").header("Idempotency-Key", "0123456789abcdef-join");
    let first = client.send(&join).expect("an answer as it should be");
    let ticket = text(&first.json(), "ticket").to_owned();
    assert_eq!(client.send(&join).expect("an answer").json()["request_id"], first.json()["request_id"]);
    assert_eq!(with_ticket(&mut client, "POST", "/move", &ticket).status, 200);
    assert_problem(&client.send(&join).expect("an answer as it should be"), 410, "moved");
    let board = server.operator().get("/rooms/Sample").expect("an answer").json();
    assert_eq!(board["figures"]["joined"], 1, "nor another place");
}

#[test]
fn a_code_that_is_none_of_ours_is_refused() {
    let server = start();
    for code in ["", "nonsense", &"A".repeat(300)] {
        let answer = server.visitor().post("/claim", &json!({ "code": code })).unwrap();
        assert_problem(&answer, 410, "code-used");
    }
}

/// The answer with everything that differs from run to run replaced by its kind.
fn shape(value: &Value) -> Value {
    let mut value = value.clone();
    for (field, content) in value.as_object_mut().expect("an object") {
        let replaced = match (field.as_str(), &*content) {
            ("ticket" | "token" | "access_token" | "refresh_token" | "id_token", Value::String(token)) => {
                assert_eq!(token.split('.').count(), 3, "{field} is a JWT");
                "<jwt>"
            }
            ("request_id", Value::String(id)) => {
                assert_eq!((id.len(), id.as_bytes()[14]), (36, b'8'), "a UUID of version 8: {id}");
                "<uuid>"
            }
            ("generation" | "next_poll_seconds" | "estimated_wait_seconds", Value::Number(number)) => {
                assert!(number.is_u64(), "{field} is a whole number: {number}");
                "<whole number>"
            }
            _ => continue,
        };
        *content = replaced.into();
    }
    value
}

fn assert_problem(answer: &Answer, status: u16, slug: &str) {
    assert_eq!(answer.status, status, "{answer:?}");
    assert_eq!(answer.header("Content-Type"), Some("application/problem+json"), "{answer:?}");
    let body = answer.json();
    assert_eq!(body["status"], status, "{body}");
    assert!(text(&body, "type").ends_with(&format!("/.anteroom/problems#{slug}")), "{body}");
    assert!(text(&body, "title").len() > 5 && text(&body, "detail").len() > 5, "{body}");
    assert_eq!(body.as_object().expect("an answer as it should be").len(), 4, "{body}");
}

#[test]
fn the_answers_of_join_status_claim_leave_and_refresh_are_as_documented() {
    let server = start();
    let mut client = server.visitor();
    let waiting = join(&mut client);
    let expected = json!({
        "ticket": "<jwt>", "request_id": "<uuid>", "room": "Sample", "generation": "<whole number>",
        "position": 1, "serving": 0, "people_ahead": 0, "status": "waiting",
        "estimated_wait_seconds": null, "estimated_wait_p90_seconds": null, "next_poll_seconds": "<whole number>",
    });
    let mut of_join = expected.clone();
    of_join["token"] = "<jwt>".into();
    assert_eq!(shape(&waiting), of_join);
    assert_eq!(waiting["token"], waiting["ticket"], "the name that some clients know");
    let ticket = text(&waiting, "ticket").to_owned();
    let status = with_ticket(&mut client, "GET", "/status", &ticket);
    assert_eq!(status.header("Cache-Control"), Some("no-store"));
    assert_eq!(shape(&status.json()), expected);

    assert_problem(&with_ticket(&mut client, "POST", "/claim", &ticket), 409, "not-served");
    server.line("Sample").advance(1);
    let mut active = expected.clone();
    active["status"] = "active".into();
    active["serving"] = 1.into();
    active["claim_expires_in_seconds"] = 900.into();
    let mut response = shape(&with_ticket(&mut client, "GET", "/status", &ticket).json());
    let remaining = response["claim_expires_in_seconds"].as_u64().expect("an answer as it should be");
    assert!((1..=900).contains(&remaining), "{remaining}");
    response["claim_expires_in_seconds"] = 900.into();
    assert_eq!(response, active);

    let claimed = with_ticket(&mut client, "POST", "/claim", &ticket);
    assert_eq!(claimed.status, 200, "{claimed:?}");
    let claimed = claimed.json();
    let mut admitted = expected.clone();
    admitted["status"] = "admitted".into();
    admitted["serving"] = 1.into();
    let mut with_pass = admitted.clone();
    for (field, value) in [
        ("access_token", json!("<jwt>")),
        ("refresh_token", json!("<jwt>")),
        ("id_token", json!("<jwt>")),
        ("token_type", json!("Bearer")),
        ("expires_in", json!(3600)),
        ("backend_uri", Value::Null),
    ] {
        with_pass[field] = value;
    }
    assert_eq!(shape(&claimed), with_pass);
    assert_eq!(shape(&with_ticket(&mut client, "GET", "/status", &ticket).json()), admitted);
    let again = with_ticket(&mut client, "POST", "/claim", &ticket).json();
    assert_eq!(again["access_token"], claimed["access_token"], "the same bytes every time");

    let refresh = json!({"refresh_token": claimed["refresh_token"]});
    let refreshed = client.post("/refresh", &refresh).expect("an answer as it should be");
    assert_eq!(refreshed.status, 200, "{refreshed:?}");
    let refreshed = refreshed.json();
    assert_eq!(refreshed["token_type"], "Bearer");
    assert!(
        (3590..=3600).contains(&refreshed["expires_in"].as_u64().expect("an answer as it should be")),
        "{refreshed}"
    );
    let old = jwt::claims(text(&claimed, "access_token"));
    let new = jwt::claims(text(&refreshed, "access_token"));
    assert_eq!((&new["sub"], &new["exp"], &new["token_use"]), (&old["sub"], &old["exp"], &json!("access")));

    let left = with_ticket(&mut client, "POST", "/leave", &ticket);
    assert_eq!((left.status, left.json()), (200, json!({"status": "left"})));
    assert_eq!(status_of(&mut client, &ticket), "expired");
    assert_problem(
        &client.post("/refresh", &refresh).expect("an answer as it should be"),
        410,
        "session-ended",
    );
    assert_problem(&with_ticket(&mut client, "POST", "/claim", &ticket), 410, "session-ended");
    assert_problem(&with_ticket(&mut client, "POST", "/leave", &ticket), 410, "session-ended");
}

#[test]
fn a_ticket_is_a_jwt_whose_subject_is_the_position() {
    let server = start();
    let mut client = server.visitor();
    join(&mut client);
    let second = join(&mut client);
    let claims = jwt::claims(text(&second, "ticket"));
    assert_eq!(jwt::header(text(&second, "ticket")), json!({"alg": "HS256", "typ": "JWT"}));
    assert_eq!(claims["sub"], "2");
    assert_eq!(claims["aud"], "Sample");
    assert_eq!(claims["jti"], second["request_id"]);
    assert!(claims["iat"].is_u64());
}

#[test]
fn a_ticket_is_shown_with_or_without_bearer_as_token_or_as_id() {
    let server = start();
    let mut client = server.visitor();
    let joined = join(&mut client);
    let (ticket, id) = (text(&joined, "ticket"), text(&joined, "request_id"));
    for shown in [ticket.to_owned(), format!("Bearer {ticket}"), format!("bearer {ticket}"), id.to_owned()] {
        for path in ["/status", "/status?room=Sample", "/.anteroom/status", "/status?room=Sampl%65"] {
            let answer = client
                .send(&Request::new("GET", path).header("Authorization", &shown))
                .expect("an answer as it should be");
            assert_eq!(
                (answer.status, &answer.json()["position"]),
                (200, &json!(1)),
                "{path} {shown}: {answer:?}"
            );
            assert_eq!(answer.json()["ticket"], joined["ticket"]);
        }
    }
    let claimed = client.post("/claim", &json!({"ticket": ticket})).expect("an answer as it should be");
    assert_problem(&claimed, 409, "not-served");
    let left =
        client.post("/leave", &json!({"ticket": id, "room": "Sample"})).expect("an answer as it should be");
    assert_eq!(left.status, 200, "{left:?}");
}

#[test]
fn a_place_that_is_served_at_once_is_claimed_in_the_same_call() {
    let room = "[[room]]\nid = \"shop\"\ninlet = \"max-size\"\ntotal_active_users = 2\n\
                backend_uri = \"https://shop.example/enter\"\n";
    let server = start_with(room);
    let mut client = server.visitor();
    for position in 1..=2 {
        let admitted = join(&mut client);
        assert_eq!((text(&admitted, "status"), &admitted["position"]), ("admitted", &json!(position)));
        assert_eq!(admitted["backend_uri"], "https://shop.example/enter");
        assert_eq!(jwt::claims(text(&admitted, "access_token"))["token_use"], "access");
    }
    let third = join(&mut client);
    assert_eq!(text(&third, "status"), "waiting");
    assert!(third.get("access_token").is_none(), "{third}");
    // A visitor goes, the next one comes in.
    let figures =
        server.operator().get("/rooms/shop").expect("an answer as it should be").json()["figures"].clone();
    assert_eq!((&figures["active"], &figures["waiting"]), (&json!(2), &json!(1)));
}

#[test]
fn statuses_follow_the_room_lapse_close_and_leave() {
    let server = start_with("[[room]]\nid = \"Sample\"\nqueue_position_expiry_period = 1\n");
    let mut client = server.visitor();
    let tickets: Vec<String> = (0..3).map(|_| text(&join(&mut client), "ticket").to_owned()).collect();
    let mut line = server.line("Sample");
    line.advance(1);
    anteroom_testkit::wait_until("the offer lapses", Duration::from_secs(20), || {
        status_of(&mut client, &tickets[0]) == "expired"
    });
    assert_problem(&with_ticket(&mut client, "POST", "/claim", &tickets[0]), 410, "place-gone");
    line.advance(1);
    let left = with_ticket(&mut client, "POST", "/leave", &tickets[1]);
    assert_eq!(left.status, 200, "{left:?}");
    assert_eq!(status_of(&mut client, &tickets[1]), "expired");
    let closed = server
        .operator()
        .send(&Request::new("PATCH", "/rooms/Sample").body(json!({"state": "closed"}).to_string()));
    assert_eq!(closed.expect("an answer as it should be").status, 200);
    assert_eq!(status_of(&mut client, &tickets[2]), "closed");
    assert_problem(&with_ticket(&mut client, "POST", "/claim", &tickets[2]), 410, "room-closed");
    assert_problem(
        &client.post("/join", &json!({})).expect("an answer as it should be"),
        409,
        "not-joinable",
    );
}

#[test]
fn bad_calls_get_a_problem_whose_type_leads_to_its_entry_and_change_nothing() {
    let server = start_with("[[room]]\nid = \"Sample\"\n[[room]]\nid = \"Other\"\n");
    let mut client = server.visitor();
    let joined = client.post("/join", &json!({"room": "Sample"})).expect("an answer as it should be").json();
    let ticket = text(&joined, "ticket");
    let before = server.line("Sample").figures();
    assert_problem(
        &client.post("/join", &json!({})).expect("an answer as it should be"),
        404,
        "unknown-room",
    );
    assert_problem(
        &client.post("/join", &json!({"room": "sample"})).expect("an answer as it should be"),
        404,
        "unknown-room",
    );
    assert_problem(
        &client.post("/join", &json!({"room": 7})).expect("an answer as it should be"),
        400,
        "bad-request",
    );
    assert_problem(
        &client.post("/join?room=Other", &json!({"room": "Sample"})).expect("an answer as it should be"),
        400,
        "bad-request",
    );
    assert_problem(
        &client.send(&Request::new("POST", "/join").body("[]")).expect("an answer as it should be"),
        400,
        "bad-request",
    );
    assert_problem(
        &client
            .send(&Request::new("POST", "/join").body("x".repeat(20_000)))
            .expect("an answer as it should be"),
        413,
        "too-large",
    );
    assert_problem(&client.get("/join").expect("an answer as it should be"), 405, "method-not-allowed");
    assert_problem(&client.get("/nothing").expect("an answer as it should be"), 404, "not-found");
    assert_problem(&client.get("/rooms/nothing").expect("an answer as it should be"), 404, "unknown-room");
    assert_problem(&client.get("/status").expect("an answer as it should be"), 401, "ticket-missing");
    assert_problem(
        &client.post("/claim", &json!({})).expect("an answer as it should be"),
        401,
        "ticket-missing",
    );
    let (head, tail) = ticket.split_at(ticket.len() - 3);
    let altered = format!("{head}{}", if tail == "AAA" { "BBB" } else { "AAA" });
    for wrong in [altered.as_str(), "x", "a.b.c", "0123abcd-ef01-8234-9678-9abcdef01234", "Bearer", ".."] {
        let answer = with_ticket(&mut client, "GET", "/status?room=Sample", wrong);
        assert_problem(&answer, 404, "unknown-ticket");
    }
    let other = with_ticket(&mut client, "GET", "/status?room=Other", ticket);
    assert_problem(&other, 404, "unknown-ticket");
    for wrong in ["", "x", ticket] {
        let answer =
            client.post("/refresh", &json!({"refresh_token": wrong})).expect("an answer as it should be");
        assert_problem(&answer, 404, "unknown-ticket");
    }
    assert_problem(
        &client.post("/refresh", &json!({})).expect("an answer as it should be"),
        400,
        "bad-request",
    );
    assert_eq!(server.line("Sample").figures(), before);

    // The type of a problem is the address of its entry.
    let problem = client.get("/nothing").expect("an answer as it should be").json();
    let (address, slug) = text(&problem, "type").split_once('#').expect("an answer as it should be");
    let path = address.strip_prefix(&format!("http://{}", server.public())).expect("our own address");
    let page = client.get(path).expect("an answer as it should be");
    assert_eq!(page.status, 200);
    assert!(page.text().contains(&format!("id=\"{slug}\"")), "{slug}");
}

#[test]
fn renewal_can_be_switched_off() {
    let server = start_with("[[room]]\nid = \"Sample\"\ndisable_session_renewal = true\n");
    let mut client = server.visitor();
    let joined = join(&mut client);
    server.line("Sample").advance(1);
    let pass = with_ticket(&mut client, "POST", "/claim", text(&joined, "ticket")).json();
    let refused = client
        .post("/refresh", &json!({"refresh_token": pass["refresh_token"]}))
        .expect("an answer as it should be");
    assert_problem(&refused, 409, "conflict");
    let access = client
        .post("/refresh", &json!({"refresh_token": pass["access_token"]}))
        .expect("an answer as it should be");
    assert_problem(&access, 404, "unknown-ticket");
}

#[test]
fn only_the_cdn_may_come_in_where_it_shows_a_secret() {
    let server = Server::builder(BINARY)
        .env("ANTEROOM_ORIGIN_SECRET_HEADER", "x-api-key")
        .env("ANTEROOM_ORIGIN_SECRET", "the-secret-of-the-cdn")
        .start()
        .expect("the server starts");
    let mut client = server.visitor();
    for path in ["/serving_num?event_id=Sample", "/rooms/Sample", "/nothing", "/.anteroom/rooms/Sample"] {
        for wrong in [None, Some("another-secret"), Some("")] {
            let mut request = Request::new("GET", path);
            if let Some(wrong) = wrong {
                request = request.header("x-api-key", wrong);
            }
            assert_problem(&client.send(&request).expect("an answer as it should be"), 403, "forbidden");
        }
    }
    let shown = Request::new("GET", "/rooms/Sample").header("X-Api-Key", "the-secret-of-the-cdn");
    assert_eq!(client.send(&shown).expect("an answer as it should be").status, 200);
    let join = Request::post_json("/join", &json!({}));
    assert_problem(&client.send(&join).expect("an answer as it should be"), 403, "forbidden");
    assert_eq!(
        client
            .send(&join.header("x-api-key", "the-secret-of-the-cdn"))
            .expect("an answer as it should be")
            .status,
        200
    );
    // The private listener has keys of its own.
    assert_eq!(server.operator().get("/rooms/Sample").expect("an answer as it should be").status, 200);
}

/// More people at once than passes can wait to be signed: those whose pass is not there yet have their ticket all the same.
#[test]
fn a_rush_into_an_empty_room_leaves_nobody_without_a_ticket() {
    const RUSH: usize = 1_400;
    let room = "[[room]]\nid = \"shop\"\ninlet = \"max-size\"\ntotal_active_users = 5000\n";
    let server = start_with(room);
    let wires: Vec<Wire> = (0..RUSH)
        .map(|_| {
            let mut wire = Wire::connect(server.public(), Duration::from_mins(2)).unwrap();
            wire.write(b"POST /join HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n").unwrap();
            wire
        })
        .collect();
    let mut client = server.visitor();
    let mut places = std::collections::BTreeSet::new();
    for mut wire in wires {
        let answer = wire.read_answer().unwrap().expect("an answer");
        assert_eq!(answer.status, 200, "{answer:?}");
        let joined = answer.json();
        assert!(places.insert(joined["position"].as_u64().unwrap()), "{joined}");
        let ticket = text(&joined, "ticket");
        if joined.get("access_token").is_none() {
            let claimed = with_ticket(&mut client, "POST", "/claim", ticket);
            assert_eq!(claimed.status, 200, "{claimed:?}");
        }
    }
    let figures = server.operator().get("/rooms/shop").unwrap().json()["figures"].clone();
    assert_eq!((&figures["joined"], &figures["active"]), (&json!(RUSH), &json!(RUSH)));
}
