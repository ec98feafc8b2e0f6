//! The documents and their page, as a running server serves them.

use std::fs;
use std::process::{Command, Stdio};

use anteroom_testkit::{Client, Request, Server, require, workspace_root};
use serde_json::json;

use crate::support::BINARY;

fn start() -> Server {
    Server::builder(BINARY).memory().start().expect("the server starts")
}

/// Somebody without a key.
fn stranger(server: &Server) -> Client {
    Client::new(server.private())
}

#[test]
fn the_documents_are_served_to_everybody_as_they_are_committed() {
    let server = start();
    for (target, listener) in [
        ("/openapi.json", "private"),
        ("/openapi.json?listener=private", "private"),
        ("/openapi.json?listener=public", "public"),
    ] {
        let answer = stranger(&server).get(target).unwrap();
        assert_eq!(answer.status, 200, "{target}");
        assert_eq!(answer.header("Content-Type"), Some("application/json"), "{target}");
        assert_eq!(answer.header("Cache-Control"), Some("public, max-age=300"), "{target}");
        let path = workspace_root().join(format!("docs/api/openapi.{listener}.json"));
        assert!(answer.text() == fs::read_to_string(path).unwrap(), "{target} is not the committed document");
    }
}

#[test]
fn a_listener_that_does_not_exist_has_no_document() {
    let server = start();
    for query in ["listener=", "listener=Public", "listener=both", "listener=public&listener=private"] {
        let answer = stranger(&server).get(&format!("/openapi.json?{query}")).unwrap();
        assert_eq!(answer.status, 400, "{query}");
        assert_eq!(answer.header("Content-Type"), Some("application/problem+json"), "{query}");
    }
    for path in ["/openapi.json", "/docs"] {
        assert_eq!(server.visitor().get(path).unwrap().status, 404, "{path} is not for visitors");
    }
}

#[test]
fn the_page_is_for_everybody_and_runs_nothing() {
    let server = start();
    let answer = stranger(&server).get("/docs").unwrap();
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("Content-Type"), Some("text/html; charset=utf-8"));
    assert!(
        answer.header("Content-Security-Policy").unwrap().starts_with("default-src 'none'"),
        "{answer:?}"
    );
    let page = answer.text();
    for text in
        ["/increment_serving_counter", "/join", "Anteroom, public listener", "Anteroom, private listener"]
    {
        assert!(page.contains(text), "{text}");
    }
    for active in ["<script", "javascript:", "<link", "<img", "http-equiv"] {
        assert!(!page.contains(active), "{active}");
    }
}

/// A name that is not UTF-8 was once refused in plain text, in the router's own words.
#[test]
fn a_path_that_cannot_be_decoded_is_a_problem_like_any_other() {
    let server = start();
    let private =
        ["/rooms/%FF", "/rooms/Sample/tickets/%FF", "/rooms/%FF/tickets/x"].map(|path| ("GET", path));
    let changes =
        [("PUT", "/rooms/%FF"), ("PATCH", "/rooms/%C3"), ("DELETE", "/rooms/%FF"), ("DELETE", "/keys/%FF")];
    for (method, path) in private.into_iter().chain(changes) {
        let answer = server.operator().send(&Request::new(method, path)).unwrap();
        assert_eq!(answer.status, 400, "{method} {path}: {answer:?}");
        assert_eq!(answer.header("Content-Type"), Some("application/problem+json"), "{method} {path}");
    }
    let answer = server.visitor().get("/rooms/%FF").unwrap();
    assert_eq!((answer.status, answer.header("Content-Type")), (400, Some("application/problem+json")));
}

#[test]
fn a_call_without_a_ticket_is_told_how_to_send_one() {
    let server = start();
    for (method, path) in [("GET", "/status"), ("POST", "/claim"), ("POST", "/leave")] {
        let answer = server.visitor().send(&Request::new(method, path)).unwrap();
        assert_eq!((answer.status, answer.header("WWW-Authenticate")), (401, Some("Bearer")), "{path}");
    }
}

/// The seventeenth signing key was once refused as if the server were at fault.
#[test]
fn rotating_too_often_is_a_conflict() {
    const KEYS_MAX: usize = 16;
    let server = Server::builder(BINARY)
        .memory()
        .config("signing_algorithm = \"EdDSA\"")
        .start()
        .expect("the server starts");
    let mut operator = server.operator();
    let rotate = Request::new("POST", "/signing_keys");
    for _ in 1..KEYS_MAX {
        assert_eq!(operator.send(&rotate).unwrap().status, 201);
    }
    let refused = operator.send(&rotate).unwrap();
    assert_eq!(refused.status, 409, "{refused:?}");
    assert!(refused.json()["type"].as_str().unwrap().ends_with("#conflict"), "{refused:?}");
}

/// `/leave?room=A` with room B in its body once went by the query and said nothing.
#[test]
fn two_rooms_in_one_request_are_refused() {
    let server = start();
    let ticket = server.visitor().post("/join", &json!({})).unwrap().json()["ticket"].clone();
    for path in ["/join", "/claim", "/leave"] {
        let body = json!({"ticket": ticket, "room": "Other"});
        let answer = server.visitor().post(&format!("{path}?room=Sample"), &body).unwrap();
        assert_eq!(answer.status, 400, "{path}: {answer:?}");
    }
    let body = json!({"ticket": ticket, "room": "Sample"});
    assert_eq!(server.visitor().post("/leave?room=Sample", &body).unwrap().status, 200);
}

#[test]
fn the_commands_of_the_api_page_work_as_they_stand() {
    let curl = Command::new("curl").arg("--version").stdout(Stdio::null()).status();
    if !require("curl", curl.is_ok_and(|status| status.success())) {
        return;
    }
    let page = fs::read_to_string(workspace_root().join("docs/api/README.md")).unwrap();
    let commands: Vec<&str> =
        page.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert!(commands.len() > 5, "{commands:?}");
    let server = start();
    let commands = commands
        .join("\n")
        .replace("http://127.0.0.1:8080", &format!("http://{}", server.public()))
        .replace("http://127.0.0.1:8081", &format!("http://{}", server.private()))
        .replace("demo-key-not-a-secret", server.admin_key());
    // What fails stops it, also in the middle of a pipe.
    let script = format!("set -euo pipefail\n{commands}\n[ -n \"$TICKET$REFRESH$ORIGIN$TAG\" ]\n");
    let ran = Command::new("bash").arg("-c").arg(&script).env("NO_PROXY", "*").output().unwrap();
    let (said, complained) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{}\n{said}\n{complained}\n{script}", ran.status);
    for expected in [
        "\"status\":\"waiting\"",
        "\"status\":\"active\"",
        "data: {\"room\"",
        "\"status\":412",
        "\"max-size\"",
    ] {
        assert!(said.contains(expected), "{expected} in {said}");
    }
}
