//! The admin key that a first start makes: told once, kept as a digest only, and overridden by the environment.

use std::fs;
use std::time::Duration;

use anteroom_testkit::{Client, Server, wait_for};

use crate::support::BINARY;

const VARIABLE: &str = "ANTEROOM_ADMIN_KEY";
const KEY_LINE: &str = "admin key, shown only now: ";
/// How long the line may take to arrive: it follows those that say where the server listens.
const TIMEOUT: Duration = Duration::from_secs(15);

/// What the private listener answers to somebody with this key.
fn status_with(server: &Server, key: &str) -> u16 {
    let mut operator = Client::new(server.private()).with_bearer(key);
    operator.get("/num_active_tokens?event_id=Sample").expect("an answer").status
}

fn printed_key(server: &Server) -> String {
    wait_for("the key is told", TIMEOUT, || {
        let stderr = server.stderr();
        let (_, rest) = stderr.split_once(KEY_LINE)?;
        rest.split_once('\n').map(|(key, _)| key.to_owned())
    })
}

#[test]
fn the_first_start_tells_a_key_that_stays_valid_and_is_never_told_again() {
    let mut server = Server::builder(BINARY).without_env(VARIABLE).start().unwrap();
    let key = printed_key(&server);
    assert!(key.len() >= 32, "{} characters could be guessed", key.len());
    assert_eq!((status_with(&server, &key), status_with(&server, "demo")), (200, 401));
    let first = server.terminate().unwrap();
    assert_eq!(first.stderr.matches(&key).count(), 1, "{}", first.stderr);
    assert!(!first.stdout.contains(&key), "the key is talk, not data");
    for entry in fs::read_dir(server.data_directory()).unwrap() {
        let path = entry.unwrap().path();
        let bytes = fs::read(&path).unwrap();
        assert!(!bytes.windows(key.len()).any(|window| window == key.as_bytes()), "in {}", path.display());
    }

    server.restart().unwrap();
    assert_eq!((status_with(&server, &key), status_with(&server, "")), (200, 401));
    let second = server.terminate().unwrap();
    assert!(!second.stderr.contains("admin key") && !second.stderr.contains(&key), "{}", second.stderr);
}

#[test]
fn a_key_in_the_environment_works_beside_the_told_one_while_it_is_there() {
    let mut server = Server::builder(BINARY).without_env(VARIABLE).start().unwrap();
    let first_key = printed_key(&server);
    let chosen = "chosen-by-the-operator-0123456789";
    server.set_env(VARIABLE, chosen);
    server.restart().unwrap();
    assert_eq!((status_with(&server, chosen), status_with(&server, &first_key)), (200, 200));
    server.remove_env(VARIABLE);
    server.restart().unwrap();
    assert_eq!((status_with(&server, chosen), status_with(&server, &first_key)), (401, 200));
    server.terminate().unwrap();
    assert_eq!(server.stderr().matches(KEY_LINE).count(), 1);
}

#[test]
fn a_start_with_a_key_in_the_environment_makes_none() {
    let mut server = Server::builder(BINARY).start().unwrap();
    assert_eq!(status_with(&server, server.admin_key()), 200);
    let ended = server.terminate().unwrap();
    assert!(!ended.stderr.contains("admin key") && !ended.stderr.contains(server.admin_key()));
}

#[test]
fn two_first_starts_make_different_keys() {
    let keys = [(); 2].map(|()| {
        let server = Server::builder(BINARY).memory().without_env(VARIABLE).start().unwrap();
        printed_key(&server)
    });
    assert_ne!(keys[0], keys[1]);
}
