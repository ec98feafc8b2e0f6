//! Starting and ending: graceful drain on SIGTERM and SIGINT with a request in flight, what survives a restart, and one
//! clear line with a hint when a server cannot start.

use std::collections::BTreeMap;
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::time::Duration;

use anteroom_testkit::{Builder, ProcessExit, Server, Wire, wait_until};

use crate::support::BINARY;

/// How long a drain may take to become visible on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(15);

const BODY: &str = "{\"event_id\": \"Sample\"}";

/// A join of which the server has the head and, until the caller sends it, not the body.
fn half_a_join(server: &Server) -> Wire {
    let head = format!(
        "POST /assign_queue_num HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: {}\r\n\r\n",
        BODY.len()
    );
    let mut in_flight = Wire::connect(server.public(), TIMEOUT).expect("the server accepts");
    in_flight.write(head.as_bytes()).expect("the head can be sent");
    let interim = in_flight.read_answer().expect("an interim answer");
    // The server asks for the body: it has the head and is at work on the request.
    assert_eq!(interim.map(|answer| answer.status), Some(100));
    in_flight
}

/// Ends the server by `signal` while a join is half sent: it must be finished, answered and kept.
fn drains_with_a_request_in_flight(signal: &str) {
    let mut server = Server::builder(BINARY).start().expect("the server starts");
    let mut in_flight = half_a_join(&server);
    // An idle kept-alive connection must not hold the drain up.
    let mut idle = server.visitor();
    assert_eq!(idle.get("/serving_num?event_id=Sample").expect("an answer").status, 200);

    let public = server.public();
    server.signal(signal).expect("the signal is sent");
    wait_until("new connections are refused", TIMEOUT, || TcpStream::connect(public).is_err());
    in_flight.write(BODY.as_bytes()).expect("the body can still be sent");
    let answer = in_flight.read_answer().expect("an answer").expect("the request in flight is answered");
    assert_eq!(answer.status, 200, "{answer:?}");
    let ended = server.wait_for_end().expect("the server ends");
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    assert!(!ended.stderr.contains("panicked"), "{}", ended.stderr);

    server.restart().expect("the server starts again");
    let id = answer.json()["api_request_id"].as_str().expect("a request id").to_owned();
    assert_eq!(server.line("Sample").position(&id), 1);
    drop(idle);
}

#[test]
fn sigterm_drains_with_a_request_in_flight_and_exits_0() {
    drains_with_a_request_in_flight("TERM");
}

#[test]
fn sigint_drains_with_a_request_in_flight_and_exits_0() {
    drains_with_a_request_in_flight("INT");
}

#[test]
fn a_second_sigterm_ends_the_process_at_once_with_a_request_in_flight() {
    for second in ["TERM", "INT"] {
        let mut server = Server::builder(BINARY).start().unwrap();
        let id = server.line("Sample").join();
        let mut in_flight = half_a_join(&server);
        let public = server.public();
        server.signal("TERM").unwrap();
        wait_until("new connections are refused", TIMEOUT, || TcpStream::connect(public).is_err());
        server.signal(second).unwrap();
        let ended = server.wait_for_end().unwrap();
        // A drain that came to its end, or to its time-out, would exit with 0.
        assert_eq!(ended.status.code(), Some(130), "{}", ended.stderr);
        assert!(ended.stderr.contains("stopping at once"), "{}", ended.stderr);
        assert_eq!(in_flight.read_answer().unwrap(), None);
        // What was acknowledged is there, and what was half sent has taken no number.
        server.restart().unwrap();
        let mut line = server.line("Sample");
        assert_eq!((line.position(&id), line.waiting()), (1, 1));
    }
}

#[test]
fn an_idle_server_ends_at_once_and_says_exactly_where_it_listened() {
    let mut server = Server::builder(BINARY).memory().start().unwrap();
    let expected = format!(
        "public listening on http://{}\nprivate listening on http://{}\n",
        server.public(),
        server.private()
    );
    assert_ne!(server.public(), server.private());
    let ended = server.interrupt().unwrap();
    assert_eq!((ended.status.code(), ended.stdout), (Some(0), expected));
}

#[test]
fn everything_survives_a_gentle_restart() {
    let mut server = Server::builder(BINARY).start().unwrap();
    let mut line = server.line("Sample");
    let ids = line.join_many(5);
    line.advance(3);
    let held = line.tokens(&ids[0]);
    assert_eq!(line.claim(&ids[1]).status, 200);
    assert_eq!(line.close(&ids[1], -1).status, 200);
    let before = line.figures();
    server.restart().unwrap();
    let mut line = server.line("Sample");
    assert_eq!(line.figures(), before);
    assert_eq!(line.tokens(&ids[0]), held);
    let statuses: Vec<u16> = ids[1..].iter().map(|id| line.claim(id).status).collect();
    assert_eq!(statuses, [410, 200, 202, 202]);
    let next = line.join();
    assert_eq!(line.position(&next), 6);
}

#[test]
fn without_a_secret_one_is_made_and_found_again() {
    let mut server = Server::builder(BINARY).without_env("ANTEROOM_SECRET").start().unwrap();
    let id = server.line("Sample").join();
    server.restart().unwrap();
    assert_eq!(server.line("Sample").position(&id), 1);
}

/// Name, length and content of every file in a directory but the database, which notes each start.
fn files_of(directory: &Path) -> BTreeMap<String, Option<Vec<u8>>> {
    let entries = fs::read_dir(directory).expect("a directory");
    let file = |entry: std::io::Result<fs::DirEntry>| {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        let content = (name != "anteroom.redb").then(|| fs::read(&path).expect("a file"));
        (name, content)
    };
    entries.map(file).collect()
}

#[test]
fn a_database_without_its_master_secret_is_left_as_it_is() {
    let mut server = Server::builder(BINARY).without_env("ANTEROOM_SECRET").start().unwrap();
    let id = server.line("Sample").join();
    server.terminate().unwrap();
    let file = server.data_directory().join("master-secret");
    let secret = fs::read(&file).expect("it was made here");
    fs::remove_file(&file).expect("it can be lost");
    let before = files_of(&server.data_directory());
    for _ in 0..2 {
        let error = server.restart().unwrap_err().to_string();
        assert!(error.contains("master-secret") && error.contains("put the file back"), "{error}");
        assert_eq!(files_of(&server.data_directory()), before, "nothing is made in place of what was lost");
    }
    fs::write(&file, secret).expect("it can be put back");
    server.restart().unwrap();
    assert_eq!(server.line("Sample").position(&id), 1);
}

#[test]
fn a_master_secret_without_its_database_is_left_alone_until_it_is_named() {
    let mut server = Server::builder(BINARY).without_env("ANTEROOM_SECRET").start().unwrap();
    server.terminate().unwrap();
    let (directory, elsewhere) = (server.data_directory(), server.directory().join("kept.redb"));
    let database = directory.join("anteroom.redb");
    fs::rename(&database, &elsewhere).expect("it can be lost");
    let before = files_of(&directory);
    assert_eq!(before.keys().map(String::as_str).collect::<Vec<_>>(), ["master-secret"]);
    let error = server.restart().unwrap_err().to_string();
    assert!(error.contains("anteroom.redb") && error.contains("put the database back"), "{error}");
    assert_eq!(files_of(&directory), before, "nothing is made in place of what was lost");
    // An operator who names the secret wants to begin with an empty database, as before a restore.
    server.set_env("ANTEROOM_SECRET_FILE", directory.join("master-secret").to_string_lossy());
    server.restart().unwrap();
    assert!(database.exists());
}

#[test]
fn a_secret_file_that_is_missing_leaves_no_database_behind() {
    let directory = tempfile::tempdir().expect("a directory");
    let missing = directory.path().join("no-such-file");
    let started = Server::builder(BINARY)
        .directory(directory.path())
        .without_env("ANTEROOM_SECRET")
        .env("ANTEROOM_SECRET_FILE", missing.to_string_lossy())
        .start();
    let error = started.expect_err("it does not start").to_string();
    assert!(error.contains("no-such-file"), "{error}");
    assert!(!directory.path().join("data").exists(), "nothing is made");
}

#[test]
fn another_secret_on_the_same_data_is_refused_at_the_start() {
    let mut server = Server::builder(BINARY).start().unwrap();
    server.line("Sample").join();
    server.set_env("ANTEROOM_SECRET", "quite-another-master-secret-of-32-characters");
    server.terminate().unwrap();
    let error = server.restart().unwrap_err().to_string();
    assert!(error.contains("did not start") && error.to_lowercase().contains("secret"), "{error}");
}

// What does not start says why: one line, then a hint.

#[track_caller]
fn refuse(builder: Builder, clues: &[&str]) -> ProcessExit {
    let ended = builder.env("ANTEROOM_LOG", "error").run_to_end().expect("the process ends by itself");
    let code = ended.status.code();
    assert!(code.is_some_and(|code| code != 0), "exit code {code:?}: {}", ended.stderr);
    assert_eq!(ended.stdout, "", "nothing listens, so nothing is said on stdout");
    let lines: Vec<&str> = ended.stderr.lines().filter(|line| !line.trim().is_empty()).collect();
    assert!((1..=3).contains(&lines.len()), "one clear line and a hint, not:\n{}", ended.stderr);
    assert!(ended.stderr.to_lowercase().contains("hint"), "no hint in:\n{}", ended.stderr);
    assert!(!ended.stderr.contains("panicked"), "{}", ended.stderr);
    for clue in clues {
        assert!(ended.stderr.contains(clue), "no {clue:?} in:\n{}", ended.stderr);
    }
    ended
}

#[test]
fn a_port_in_use_is_named_with_a_hint() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for variable in ["ANTEROOM_PUBLIC_ADDR", "ANTEROOM_PRIVATE_ADDR"] {
        refuse(Server::builder(BINARY).memory().env(variable, &address), &[&address]);
    }
}

#[test]
fn a_data_directory_in_use_is_named_with_a_hint() {
    let server = Server::builder(BINARY).start().unwrap();
    let store = format!("file:{}", server.data_directory().display());
    refuse(Server::builder(BINARY).env("ANTEROOM_STORE_URL", store), &["data"]);
    assert_eq!(server.line("Sample").waiting(), 0, "the first one is not disturbed");
}

#[test]
fn a_data_directory_that_cannot_be_made_is_named_with_a_hint_and_exit_code_1() {
    let directory = tempfile::tempdir().unwrap();
    // Nothing can be made below a regular file, not even by root, whom permissions do not bind.
    let file = directory.path().join("a-file");
    fs::write(&file, "no directory").unwrap();
    for path in [file.clone(), file.join("data")] {
        let store = format!("file:{}", path.display());
        let ended =
            refuse(Server::builder(BINARY).env("ANTEROOM_STORE_URL", store), &["a-file", "store_url"]);
        assert_eq!(ended.status.code(), Some(1), "{}", ended.stderr);
    }
    assert_eq!(fs::read(&file).unwrap(), b"no directory");
}

#[test]
fn a_misspelt_key_is_refused_with_the_nearest_one() {
    let misspelt = [
        ("public_adr = \"127.0.0.1:0\"\n", "public_adr", "public_addr"),
        ("signing_algoritm = \"RS256\"\n", "signing_algoritm", "signing_algorithm"),
        ("[[room]]\nid = \"A\"\nvalidity_periode = 60\n", "validity_periode", "validity_period"),
        ("[[room]]\nid = \"A\"\ntotal_active_user = 60\n", "total_active_user", "total_active_users"),
    ];
    for (config, given, nearest) in misspelt {
        let ended = refuse(Server::builder(BINARY).memory().config(config), &[given]);
        let mentions = ended.stderr.matches(nearest).count();
        assert!(mentions > usize::from(given.contains(nearest)), "no {nearest:?} in:\n{}", ended.stderr);
    }
}

#[test]
fn bad_values_in_the_file_are_refused_with_their_key() {
    let bad = [
        ("this is not toml", "="),
        ("signing_algorithm = \"HS256\"\n", "signing_algorithm"),
        ("header_read_timeout_seconds = \"soon\"\n", "header_read_timeout_seconds"),
        ("max_connections = -1\n", "max_connections"),
        ("[[room]]\nid = \"A&B\"\n", "id"),
        ("[[room]]\nid = \"\"\n", "id"),
        ("[[room]]\nvalidity_period = 60\n", "id"),
        ("[[room]]\nid = \"A\"\n[[room]]\nid = \"A\"\n", "A"),
        ("[[room]]\nid = \"A\"\ninlet = \"hourly\"\n", "inlet"),
        ("[[room]]\nid = \"A\"\ninlet = \"max-size\"\n", "total_active_users"),
        ("[[room]]\nid = \"A\"\nstate = \"ajar\"\n", "state"),
        ("[[room]]\nid = \"A\"\nvalidity_period = -1\n", "validity_period"),
        ("[[room]]\nid = \"A\"\nvalidity_period = 1.5\n", "validity_period"),
        ("[[room]]\nid = \"A\"\nqueue_position_expiry_period = \"x\"\n", "queue_position_expiry_period"),
        (
            "public_tls_cert = \"/nowhere/cert.pem\"\npublic_tls_key = \"/nowhere/key.pem\"\n",
            "/nowhere/cert.pem",
        ),
        ("public_tls_cert = \"/nowhere/cert.pem\"\n", "public_tls_key"),
    ];
    for (config, clue) in bad {
        refuse(Server::builder(BINARY).memory().config(config), &[clue]);
    }
}

#[test]
fn bad_values_in_the_environment_are_refused_with_their_name() {
    let bad = [
        ("ANTEROOM_PUBLIC_ADDR", "nowhere"),
        ("ANTEROOM_PRIVATE_ADDR", "127.0.0.1:99999"),
        ("ANTEROOM_STORE_URL", "carrier-pigeon:coop"),
        ("ANTEROOM_SECRET", "too short"),
    ];
    for (variable, value) in bad {
        let ended = refuse(Server::builder(BINARY).memory().env(variable, value), &[variable]);
        // A secret is never repeated, not even one that is too short to be used.
        assert!(variable != "ANTEROOM_SECRET" || !ended.stderr.contains(value), "{}", ended.stderr);
    }
}

#[test]
fn a_configuration_file_that_is_not_there_is_named() {
    let missing = Server::builder(BINARY).memory().argument("--config").argument("nowhere/anteroom.toml");
    refuse(missing, &["nowhere/anteroom.toml"]);
}
