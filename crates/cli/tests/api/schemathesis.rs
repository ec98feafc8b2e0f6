//! "schemathesis (`PyPI`) against the `OpenAPI` document over both listeners: no 5xx, no undocumented answer." And what it cannot
//! see by trying: answers that need a story behind them, such as a place that lapsed, are visited by a walk whose answers
//! schemathesis checks. The walk also finds answers that are documented and never given.

mod trial;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anteroom_testkit::{Server, full, python_with, require, wait_for, workspace_root};
use serde_json::{Value, json};

use crate::support::BINARY;

/// How long one run may take. It shares two cores with everything else.
const TIMEOUT: Duration = Duration::from_mins(20);
/// Tries of each call, beside the examples of the document and the edges of each field.
const TRIES: usize = 25;
const TRIES_FULL: usize = 300;
/// What every answer is checked for. Beside what it is asked to look for: bad input is refused, a method that is not there says
/// which are, nobody gets through without a key, and what was deleted is gone.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,\
    response_headers_conformance,response_schema_conformance,negative_data_rejection,missing_required_header,\
    unsupported_method,allow_header_conformance,use_after_free,ensure_resource_availability,ignored_auth";
/// Preconditions, and on AWS's paths 202, come before a look at the rest of a request; so does who may ask for a verdict.
const SETTINGS: &str = "
    [checks]
    negative_data_rejection.expected-statuses = [202, 400, 401, 403, 404, 405, 406, 409, 410, 412, 413]
    ";
/// Rooms of every kind, with a signing algorithm that costs nothing: the keys are not what is tried here.
const CONFIG: &str = "
    signing_algorithm = \"EdDSA\"
    default_room = \"Sample\"
    events_directory = \"events\"
    [[destination]]
    name = \"of-the-file\"
    kind = \"webhook\"
    url = \"https://shop.example.com/hooks\"
    algorithm = \"ed25519\"
    [[destination]]
    name = \"log-of-the-file\"
    kind = \"file\"
    [[room]]
    id = \"Sample\"
    [[room.client]]
    id = \"of-the-file\"
    redirect_addresses = [\"https://shop.example.com/callback\"]
    public = true
    [[room]]
    id = \"Doomed\"
    [[room]]
    id = \"Reset\"
    [[room]]
    id = \"Small\"
    inlet = \"max-size\"
    total_active_users = 1000
    ";

fn python() -> Option<PathBuf> {
    let python = python_with("schemathesis, openapi_spec_validator");
    require("Python with schemathesis and openapi-spec-validator", python.is_some()).then_some(python)?
}

fn start() -> Server {
    Server::builder(BINARY).memory().config(CONFIG).start().expect("the server starts")
}

/// The same for a client that may ask for verdicts: these take any method, which the trial would not understand.
fn start_for_check_proxy() -> Server {
    let builder =
        Server::builder(BINARY).memory().config(CONFIG).env("ANTEROOM_CHECK_PROXIES", "127.0.0.0/8");
    builder.start().expect("the server starts")
}

/// The document as it is served.
fn served(server: &Server, listener: &str) -> Value {
    let answer = server.operator().get(&format!("/openapi.json?listener={listener}")).expect("an answer");
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()
}

/// Runs a command to its end, in the server's directory, and panics with what it said if it did not succeed.
fn run(server: &Server, name: &str, command: &mut Command) -> String {
    let path = server.directory().join(format!("{name}.log"));
    let log = File::create(&path).expect("a log");
    let mut child = command
        .current_dir(server.directory())
        .env("NO_PROXY", "*")
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdin(Stdio::null())
        .stdout(log.try_clone().expect("the same log"))
        .stderr(log)
        .spawn()
        .expect("Python starts");
    let started = anteroom_testkit::now();
    let status = wait_for(&format!("{name} ends"), TIMEOUT + Duration::from_mins(1), || {
        if started.elapsed() > TIMEOUT {
            child.kill().expect("a child of ours");
        }
        child.try_wait().expect("a child of ours")
    });
    let said = fs::read_to_string(&path).expect("the log");
    assert!(status.success(), "{name} ended with {status}:\n{said}");
    let alive = server.operator().get("/livez").map(|answer| answer.status);
    assert_eq!(alive.ok(), Some(200), "the server went away:\n{}", server.stderr());
    said
}

/// Tries one listener.
fn try_listener(
    server: &Server,
    python: &Path,
    document: &Value,
    address: std::net::SocketAddr,
    more: &[&str],
) {
    let path = server.directory().join("openapi.json");
    fs::write(&path, document.to_string()).expect("the document is written");
    fs::write(server.directory().join("schemathesis.toml"), SETTINGS).expect("the settings are written");
    let tries = if full() { TRIES_FULL } else { TRIES };
    let mut command = Command::new(python);
    command.args(["-m", "schemathesis.cli", "run"]).arg(path);
    command.args([
        "--url",
        &format!("http://{address}"),
        "--checks",
        CHECKS,
        "--max-examples",
        &tries.to_string(),
    ]);
    // The same tries each time.
    command.arg("--generation-deterministic");
    command.args([
        "--workers",
        "1",
        "--request-timeout",
        "60",
        "--warnings",
        "off",
        "--no-color",
        "--continue-on-failure",
    ]);
    command.args(more);
    let said = run(server, "schemathesis", &mut command);
    eprintln!("{said}");
}

/// A ticket of a room, and the pass it became if it was served.
fn join(server: &Server, room: &str) -> Value {
    let answer = server.visitor().post("/join", &json!({"room": room})).expect("an answer");
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()
}

#[test]
fn both_documents_are_valid_openapi() {
    let Some(python) = python() else { return };
    let server = start();
    for listener in ["public", "private"] {
        let path = server.directory().join(format!("{listener}.json"));
        fs::write(&path, served(&server, listener).to_string()).expect("the document is written");
        run(
            &server,
            listener,
            Command::new(&python).args(["-m", "openapi_spec_validator", "--schema", "3.1"]).arg(path),
        );
    }
}

#[test]
fn the_public_listener_answers_as_documented_whatever_it_is_asked() {
    let Some(python) = python() else { return };
    let server = start();
    let (waiting, admitted, other) =
        (join(&server, "Sample"), join(&server, "Small"), join(&server, "Sample"));
    let known = |_: &str, name: &str| match name {
        "event_id" | "room" | "id" => vec![json!("Sample"), json!("Small")],
        "request_id" => vec![waiting["request_id"].clone(), admitted["request_id"].clone()],
        "ticket" => vec![waiting["ticket"].clone(), admitted["ticket"].clone()],
        "refresh_token" => vec![admitted["refresh_token"].clone()],
        _ => vec![],
    };
    let document = trial::document(&served(&server, "public"), &known);
    // A stream does not end; the walk looks at one. A ticket that is not known is 404, because it is no key.
    let but_not = ["--exclude-path", "/watch", "--exclude-checks", "ignored_auth"];
    try_listener(&server, &python, &document, server.public(), &but_not);
    let ticket = format!("Authorization: Bearer {}", other["ticket"].as_str().expect("a ticket"));
    let with_ticket = ["--include-path-regex", "^/(status|claim|leave)$", "--header", &ticket];
    let with_ticket = [&with_ticket[..], &["--phases", "examples,coverage,fuzzing"], &but_not[2..]].concat();
    try_listener(&server, &python, &document, server.public(), &with_ticket);
}

#[test]
fn the_private_listener_answers_as_documented_whatever_it_is_asked() {
    let Some(python) = python() else { return };
    let server = start();
    let (waiting, admitted) = (join(&server, "Sample"), join(&server, "Small"));
    let known = |operation: &str, name: &str| match (operation, name) {
        // What these take away is not needed by the others.
        ("deleteRoom", "id") => vec![json!("Doomed")],
        ("resetInitialState", "event_id") => vec![json!("Reset")],
        (_, "event_id" | "room" | "id") => vec![json!("Sample"), json!("Small")],
        (_, "request_id") => vec![waiting["request_id"].clone(), admitted["request_id"].clone()],
        (_, "If-Match") => vec![json!("*")],
        _ => vec![],
    };
    let document = trial::document(&served(&server, "private"), &known);
    let key = format!("Authorization: Bearer {}", server.admin_key());
    // Random bytes are no backup; that a real one is taken and restored is the walk's part. A stream does not end; the walk looks at one.
    let but_not = ["--exclude-path", "/events", "--header", &key];
    try_listener(&server, &python, &document, server.private(), &but_not);
}

#[test]
fn a_walk_through_every_story_gets_documented_answers_only_and_every_documented_answer() {
    let Some(python) = python() else { return };
    let server = start_for_check_proxy();
    let mut arguments = vec![];
    for (listener, address) in [("public", server.public()), ("private", server.private())] {
        let path = server.directory().join(format!("{listener}.json"));
        let document = trial::document(&served(&server, listener), &|_, _| vec![]);
        fs::write(&path, document.to_string()).expect("the document is written");
        arguments.extend([path.display().to_string(), format!("http://{address}")]);
    }
    let script = workspace_root().join("crates/cli/tests/api/schemathesis/walk.py");
    let mut command = Command::new(python);
    command.arg(script).args(arguments).env("ANTEROOM_ADMIN_KEY", server.admin_key());
    println!("{}", run(&server, "walk", &mut command));
}
