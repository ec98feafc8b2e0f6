//! The HTTP surface around the calls: CORS on every answer, caching that lets a CDN carry the polls, the `/.anteroom/`
//! prefix, HEAD, and JSON whatever the Content-Type. Who may call the private listener is in `access.rs`.

use anteroom_testkit::{Answer, Client, Request, Server, aws};
use serde_json::json;

use crate::support::BINARY;

const CORS: &str = "Access-Control-Allow-Origin";

fn start() -> Server {
    Server::builder(BINARY).memory().start().expect("the server starts")
}

#[track_caller]
fn send(client: &mut Client, request: &Request) -> Answer {
    client.send(request).unwrap_or_else(|error| panic!("{request:?}: {error:#}"))
}

/// A good request for a route, as a first visitor would send it.
fn good_request(method: &str, path: &str, id: &str) -> Request {
    let query = [("event_id", "Sample"), ("request_id", id)];
    let request = Request::new(method, &aws::target(path, &query));
    let body = json!({ "event_id": "Sample", "request_id": id, "increment_by": 0, "status": 1 });
    if method == "POST" { request.body(body.to_string()) } else { request }
}

#[test]
fn every_answer_can_be_read_from_any_web_page() {
    let server = start();
    let mut line = server.line("Sample");
    let id = line.join();
    let mut answers = Vec::new();
    for (method, path) in aws::PUBLIC_ROUTES {
        for method in [method, "GET", "POST", "HEAD", "PUT"] {
            answers
                .push((format!("{method} {path}"), send(&mut line.public, &good_request(method, path, &id))));
            answers
                .push((format!("bare {method} {path}"), send(&mut line.public, &Request::new(method, path))));
        }
    }
    let mut anonymous = Client::new(server.private());
    for (method, path) in aws::PRIVATE_ROUTES {
        for method in [method, "GET", "POST", "HEAD", "PUT"] {
            answers.push((
                format!("{method} {path}"),
                send(&mut line.operator, &good_request(method, path, &id)),
            ));
            answers.push((
                format!("bare {method} {path}"),
                send(&mut line.operator, &Request::new(method, path)),
            ));
            let keyless = send(&mut anonymous, &good_request(method, path, &id));
            // A panel takes for success what it can read: `aws_move.rs` has the rest of it.
            assert_eq!((keyless.status, keyless.header(CORS)), (401, None), "{method} {path}");
        }
    }
    for path in ["/nothing", "/", "/.well-known/jwks.json", "/.anteroom/", "/livez", "/readyz", "/metrics"] {
        answers.push((format!("GET {path}"), send(&mut line.public, &Request::new("GET", path))));
        answers.push((format!("private GET {path}"), send(&mut line.operator, &Request::new("GET", path))));
        answers.push((format!("keyless GET {path}"), send(&mut anonymous, &Request::new("GET", path))));
    }
    for (what, answer) in answers {
        let origins: Vec<&String> = answer
            .headers
            .iter()
            .filter(|(name, _)| name.eq_ignore_ascii_case(CORS))
            .map(|(_, value)| value)
            .collect();
        assert_eq!(origins, ["*"], "{what}: {answer:?}");
        assert_eq!(answer.header("Access-Control-Allow-Credentials"), None, "{what}: {answer:?}");
        assert!(answer.status < 500, "{what}: {answer:?}");
    }
}

#[test]
fn preflights_allow_what_the_sample_site_and_the_control_panel_send() {
    const HEADERS: [&str; 6] = [
        "Content-Type",
        "X-Amz-Date",
        "Authorization",
        "X-Api-Key",
        "X-Amz-Security-Token",
        "X-Amz-Content-Sha256",
    ];
    let server = start();
    // A browser sends no credentials with a preflight, so the private listener must answer it without a key.
    let mut clients = [
        (server.visitor(), &aws::PUBLIC_ROUTES[..]),
        (Client::new(server.private()), &aws::PRIVATE_ROUTES[..]),
    ];
    for (client, routes) in &mut clients {
        for (method, path) in *routes {
            let preflight = Request::new("OPTIONS", path)
                .header("Origin", "https://shop.example.test")
                .header("Access-Control-Request-Method", method)
                .header("Access-Control-Request-Headers", "authorization,content-type,x-amz-date");
            let answer = send(client, &preflight);
            assert!([200, 204].contains(&answer.status), "{path}: {answer:?}");
            assert_eq!(answer.header("Access-Control-Allow-Origin"), Some("*"), "{path}: {answer:?}");
            assert!(answer.header_lists("Access-Control-Allow-Methods", method), "{path}: {answer:?}");
            assert!(answer.header_lists("Access-Control-Allow-Methods", "OPTIONS"), "{path}: {answer:?}");
            for header in HEADERS {
                assert!(
                    answer.header_lists("Access-Control-Allow-Headers", header),
                    "{path} {header}: {answer:?}"
                );
            }
            // Without the browser's own headers, as AWS's mock answered it.
            assert!([200, 204].contains(&send(client, &Request::new("OPTIONS", path)).status), "{path}");
        }
    }
}

#[test]
fn polls_may_be_cached_for_a_second_and_validated_by_etag() {
    let server = start();
    let mut line = server.line("Sample");
    for path in ["/serving_num", "/waiting_num", "/.anteroom/serving_num", "/.anteroom/waiting_num"] {
        let target = format!("{path}?event_id=Sample");
        let answer = line.public.get(&target).unwrap();
        assert!(answer.header_lists("Cache-Control", "max-age=1"), "{path}: {answer:?}");
        let etag = answer.header("ETag").unwrap_or_else(|| panic!("{path}: no ETag: {answer:?}")).to_owned();
        assert!(etag.trim_start_matches("W/").starts_with('"') && etag.ends_with('"'), "{etag}");
        let again = Request::new("GET", &target).header("If-None-Match", &etag);
        let listed = Request::new("GET", &target).header("If-None-Match", &format!("\"zzz\", {etag}"));
        for request in [&again, &listed] {
            let unchanged = send(&mut line.public, request);
            assert_eq!((unchanged.status, unchanged.body.len()), (304, 0), "{path}: {unchanged:?}");
            assert_eq!(unchanged.header("ETag"), Some(etag.as_str()), "{path}: {unchanged:?}");
            assert!(unchanged.header_lists("Cache-Control", "max-age=1"), "{path}: {unchanged:?}");
            assert_eq!(unchanged.header("Access-Control-Allow-Origin"), Some("*"), "{path}: {unchanged:?}");
        }
        // A change is seen at once, under another tag.
        line.join();
        line.advance(1);
        let changed = send(&mut line.public, &again);
        assert_eq!(changed.status, 200, "{path}: {changed:?}");
        assert_ne!(changed.header("ETag"), Some(etag.as_str()), "{path}");
        let unequal = Request::new("GET", &target).header("If-None-Match", "\"zzz\"");
        assert_eq!(send(&mut line.public, &unequal).status, 200, "{path}");
    }
}

#[test]
fn keys_may_be_cached_for_five_minutes_and_answers_about_one_visitor_never() {
    let server = start();
    let mut line = server.line("Sample");
    let id = line.join();
    line.advance(1);
    for target in
        ["/public_key?event_id=Sample", "/.well-known/jwks.json", "/.anteroom/public_key?event_id=Sample"]
    {
        let answer = line.public.get(target).unwrap();
        assert_eq!(answer.status, 200, "{target}: {answer:?}");
        assert!(answer.header_lists("Cache-Control", "max-age=300"), "{target}: {answer:?}");
    }
    let about_one = [
        ("GET", "/queue_num"),
        ("GET", "/queue_pos_expiry"),
        ("POST", "/assign_queue_num"),
        ("POST", "/generate_token"),
    ];
    for (method, path) in about_one {
        for id in [id.as_str(), "00000000-0000-8000-8000-000000000000", "malformed"] {
            let answer = send(&mut line.public, &good_request(method, path, id));
            assert!(answer.header_lists("Cache-Control", "no-store"), "{method} {path} {id}: {answer:?}");
        }
    }
    for (method, path) in aws::PRIVATE_ROUTES {
        let answer = send(&mut line.operator, &good_request(method, path, &id));
        assert!(answer.header_lists("Cache-Control", "no-store"), "{method} {path}: {answer:?}");
    }
}

#[test]
fn answers_are_json_and_say_so() {
    let server = start();
    let mut line = server.line("Sample");
    let id = line.join();
    for (method, path) in aws::PUBLIC_ROUTES {
        for request in [good_request(method, path, &id), Request::new(method, path)] {
            let answer = send(&mut line.public, &request);
            assert_eq!(answer.header("Content-Type"), Some("application/json"), "{path}: {answer:?}");
            answer.json();
        }
    }
    for (method, path) in aws::PRIVATE_ROUTES {
        for request in [good_request(method, path, &id), Request::new(method, path)] {
            let answer = send(&mut line.operator, &request);
            assert_eq!(answer.header("Content-Type"), Some("application/json"), "{path}: {answer:?}");
            answer.json();
        }
    }
}

#[test]
fn every_public_route_also_answers_under_the_prefix() {
    let server = start();
    let mut line = server.line("Sample");
    let id = line.join();
    let joined = line.public.post("/.anteroom/assign_queue_num", &json!({ "event_id": "Sample" })).unwrap();
    assert_eq!(joined.status, 200, "{joined:?}");
    let second = joined.json()["api_request_id"].as_str().unwrap().to_owned();
    assert_eq!((line.position(&second), line.waiting()), (2, 2));
    line.advance(1);
    for (method, path) in aws::PUBLIC_ROUTES.into_iter().filter(|(_, path)| *path != "/assign_queue_num") {
        let plain = send(&mut line.public, &good_request(method, path, &id));
        let prefixed = send(&mut line.public, &good_request(method, &format!("/.anteroom{path}"), &id));
        assert_eq!(plain.status, 200, "{path}: {plain:?}");
        assert_eq!(prefixed.status, 200, "{path}: {prefixed:?}");
        let without_clock = |answer: &Answer| {
            let mut body = answer.json();
            // The one member that a second between the two calls may change.
            body.as_object_mut().map(|members| members.remove("expires_in"));
            body
        };
        assert_eq!(without_clock(&prefixed), without_clock(&plain), "{path}");
    }
    let jwks = line.public.get("/.anteroom/.well-known/jwks.json").unwrap();
    assert_eq!(jwks.json(), line.public.get("/.well-known/jwks.json").unwrap().json());
}

#[test]
fn head_answers_like_get_without_the_body() {
    let server = start();
    let mut line = server.line("Sample");
    let id = line.join();
    line.advance(1);
    for (_, path) in aws::PUBLIC_ROUTES.into_iter().filter(|(method, _)| *method == "GET") {
        for path in [path.to_owned(), format!("/.anteroom{path}")] {
            let get = send(&mut line.public, &good_request("GET", &path, &id));
            let head = send(&mut line.public, &good_request("HEAD", &path, &id));
            assert_eq!((get.status, head.status, head.body.len()), (200, 200, 0), "{path}: {head:?}");
            for name in ["Content-Type", "Cache-Control", "ETag"] {
                assert_eq!(head.header(name), get.header(name), "{path} {name}");
            }
            let length = head.header("Content-Length").and_then(|value| value.parse().ok());
            assert!(length.is_none_or(|length: usize| length == get.body.len()), "{path}: {head:?}");
        }
    }
}

#[test]
fn json_is_read_whatever_the_content_type_says() {
    let server = start();
    let mut line = server.line("Sample");
    let types = [
        None,
        Some("application/json"),
        Some("text/plain;charset=UTF-8"),
        Some("application/x-www-form-urlencoded"),
        Some("x"),
    ];
    for (content_type, expected) in types.into_iter().zip(1..) {
        let post = |path: &str, body: String| match content_type {
            Some(value) => Request::new("POST", path).header("Content-Type", value).body(body),
            None => Request::new("POST", path).body(body),
        };
        let answer =
            send(&mut line.public, &post("/assign_queue_num", json!({ "event_id": "Sample" }).to_string()));
        assert_eq!(answer.status, 200, "{content_type:?}: {answer:?}");
        let id = answer.json()["api_request_id"].as_str().unwrap().to_owned();
        assert_eq!(line.position(&id), expected);
        let by_one = json!({ "event_id": "Sample", "increment_by": 1 }).to_string();
        let answer = send(&mut line.operator, &post("/increment_serving_counter", by_one));
        assert_eq!(answer.json(), json!({ "serving_num": expected }), "{content_type:?}");
        let claim = json!({ "event_id": "Sample", "request_id": id }).to_string();
        assert_eq!(send(&mut line.public, &post("/generate_token", claim)).status, 200, "{content_type:?}");
        let end = json!({ "event_id": "Sample", "request_id": id, "status": 1 }).to_string();
        assert_eq!(send(&mut line.operator, &post("/update_session", end)).status, 200, "{content_type:?}");
    }
}

#[test]
fn further_members_and_parameters_are_ignored() {
    let server = start();
    let mut line = server.line("Sample");
    let body = json!({ "event_id": "Sample", "extra": { "deep": [1, 2, 3] }, "issuer": 7 });
    let answer = line.public.post("/assign_queue_num?whatever=1", &body).unwrap();
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(line.public.get("/serving_num?x=y&event_id=Sample&_=1731700000").unwrap().status, 200);
    assert_eq!(
        line.public.get("/serving_num?event_id=Sampl%65").unwrap().status,
        200,
        "percent-encoding is undone"
    );
}
