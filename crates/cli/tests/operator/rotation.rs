//! Keys that change between two starts: the master secret, by a list whose first one seals, and the signing algorithm, by a
//! key that is published before it signs. In neither case does anybody lose a place or a pass.

use std::collections::BTreeSet;
use std::fs;

use anteroom_testkit::{Line, Server, jwt};

use crate::support::BINARY;
use crate::support::moved_clock::MovedClock;
use crate::support::operator::Operator;

const VARIABLE: &str = "ANTEROOM_SECRET";
const OLD: &str = "A-master-secret-of-this-house-for-many-years";
const NEW: &str = "B-master-secret-of-this-house-from-today-on";

/// Stops the server, which must then refuse to start; returns what it says.
fn refusal(server: &mut Server) -> String {
    server.terminate().expect("the server ends");
    let error = server.restart().expect_err("the server must not start").to_string();
    assert!(error.contains("did not start") && !error.contains("panicked"), "{error}");
    assert!(!error.contains(OLD) && !error.contains(NEW), "a secret is never repeated: {error}");
    error
}

/// What a request id that means nothing gets.
#[track_caller]
fn assert_unknown(line: &mut Line, id: &str) {
    assert_eq!((line.place(id).status, line.claim(id).status, line.expiry(id).status), (400, 404, 404));
}

#[test]
fn a_new_master_secret_in_front_of_the_old_one_loses_nobody_and_then_stands_alone() {
    let mut server = Server::builder(BINARY).env(VARIABLE, OLD).start().unwrap();
    let mut line = server.line("Sample");
    let old_ids = line.join_many(3);
    line.advance(2);
    let held = line.tokens(&old_ids[0]);
    let before = line.figures();

    server.set_env(VARIABLE, format!("{NEW},{OLD}"));
    server.restart().unwrap();
    let mut line = server.line("Sample");
    assert_eq!(line.figures(), before);
    assert_eq!(line.tokens(&old_ids[0]), held, "the same pass, byte for byte");
    assert_eq!((line.position(&old_ids[2]), line.claim(&old_ids[1]).status), (3, 200));
    assert_eq!(line.close(&old_ids[1], 1).status, 200);
    let between = line.join();
    assert_eq!(line.position(&between), 4);

    // The check value and the key ring lie under the new secret by now.
    server.set_env(VARIABLE, NEW);
    server.restart().unwrap();
    let mut line = server.line("Sample");
    assert_eq!(line.position(&between), 4);
    for id in &old_ids {
        assert_unknown(&mut line, id);
    }
    let next = line.join();
    assert_eq!(line.position(&next), 5, "the line goes on");
    line.advance(3);
    let newly_held = line.tokens(&next);
    assert_eq!(jwt::header(&newly_held[0])["kid"], jwt::header(&held[0])["kid"], "the signing key is kept");

    server.set_env(VARIABLE, OLD);
    let error = refusal(&mut server);
    assert!(error.contains("the master secret is not the one this store was made with"), "{error}");
    assert!(error.contains("\nhint: give that one too"), "{error}");
    // The attempt has spoilt nothing.
    server.set_env(VARIABLE, NEW);
    server.restart().unwrap();
    assert_eq!(server.line("Sample").tokens(&next), newly_held);
}

#[test]
fn a_new_master_secret_without_the_old_one_is_refused_and_changes_nothing() {
    let mut server = Server::builder(BINARY).env(VARIABLE, OLD).start().unwrap();
    let id = server.line("Sample").join();
    server.set_env(VARIABLE, NEW);
    assert!(refusal(&mut server).contains("master secret"));
    server.set_env(VARIABLE, OLD);
    server.restart().unwrap();
    assert_eq!(server.line("Sample").position(&id), 1);
}

#[test]
fn secret_file_gives_the_secrets_and_the_environment_wins_over_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("secrets");
    fs::write(&path, format!("# since the beginning\n{OLD}\n")).unwrap();
    let config = format!("secret_file = \"{}\"\n", path.display());
    let mut server = Server::builder(BINARY).without_env(VARIABLE).config(config).start().unwrap();
    let id = server.line("Sample").join();
    assert!(!server.data_directory().join("master-secret").exists(), "none is made beside the given one");

    // It is the very secret that the file names: the same one from the environment opens the id.
    fs::write(&path, NEW).unwrap();
    server.set_env(VARIABLE, OLD);
    server.restart().unwrap();
    assert_eq!(server.line("Sample").position(&id), 1);

    server.remove_env(VARIABLE);
    assert!(refusal(&mut server).contains("master secret"), "the file holds another one by now");

    fs::write(&path, format!("# the new one seals\n{NEW}\n\n# the old one opens\n{OLD}\n")).unwrap();
    server.restart().unwrap();
    assert_eq!(server.line("Sample").position(&id), 1);
}

#[test]
fn a_secret_file_that_cannot_be_used_is_named_with_a_hint_and_not_repeated() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("secrets");
    for content in [None, Some("tooshorttobeasecret"), Some("# only a comment\n"), Some("")] {
        if let Some(content) = content {
            fs::write(&path, content).unwrap();
        }
        let config = format!("secret_file = \"{}\"\n", path.display());
        let ended =
            Server::builder(BINARY).without_env(VARIABLE).config(config).memory().run_to_end().unwrap();
        assert_eq!(ended.status.code(), Some(1), "{content:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(&path.display().to_string()), "{content:?}: {}", ended.stderr);
        assert!(ended.stderr.contains("\nhint: "), "{content:?}: {}", ended.stderr);
        assert!(!ended.stderr.contains("tooshort"), "{}", ended.stderr);
    }
}

/// The ids of the published keys.
fn published(line: &mut Line) -> BTreeSet<String> {
    let answer = line.public.get("/.well-known/jwks.json").expect("an answer");
    assert_eq!(answer.status, 200, "{answer:?}");
    let json = answer.json();
    let keys = json["keys"].as_array().expect("a list of keys");
    keys.iter().map(|key| key["kid"].as_str().expect("every key has an id").to_owned()).collect()
}

/// Id and algorithm of the key that signs.
fn signing(line: &mut Line) -> (String, String) {
    let answer = line.public.get("/public_key?event_id=Sample").expect("an answer");
    assert_eq!(answer.status, 200, "{answer:?}");
    let json = answer.json();
    (json["kid"].as_str().expect("an id").to_owned(), json["alg"].as_str().expect("an algorithm").to_owned())
}

fn a_change_of_algorithm_is_announced_before_it_signs(from: &str, to: &str) {
    let file = |algorithm: &str| format!("signing_algorithm = \"{algorithm}\"\n[[room]]\nid = \"Sample\"\n");
    let mut server = Server::builder(BINARY).config(file(from)).start().expect("the server starts");
    let mut line = server.line("Sample");
    let ids = line.join_many(2);
    line.advance(2);
    let held = line.tokens(&ids[0]);
    let (old_key, algorithm) = signing(&mut line);
    assert_eq!(algorithm, from);
    assert_eq!(published(&mut line), BTreeSet::from([old_key.clone()]));

    server.set_config(file(to));
    server.restart().expect("the server starts with another algorithm");
    let mut line = server.line("Sample");
    let both = published(&mut line);
    assert!(both.len() == 2 && both.contains(&old_key), "{both:?}");
    assert_eq!(
        signing(&mut line),
        (old_key.clone(), from.to_owned()),
        "verifiers do not know the new one yet"
    );
    assert_eq!(line.tokens(&ids[0]), held, "byte for byte");
    let header = jwt::header(&line.tokens(&ids[1])[0]);
    assert_eq!((&header["kid"], &header["alg"]), (&old_key.as_str().into(), &from.into()));

    // Announced once is enough.
    server.restart().expect("the server starts again");
    let mut line = server.line("Sample");
    assert_eq!(published(&mut line), both);
    assert_eq!(line.tokens(&ids[0]), held);
}

#[test]
fn a_change_from_rs256_to_eddsa_is_announced_before_it_signs() {
    a_change_of_algorithm_is_announced_before_it_signs("RS256", "EdDSA");
}

#[test]
fn a_change_from_es256_to_rs256_is_announced_before_it_signs() {
    a_change_of_algorithm_is_announced_before_it_signs("ES256", "RS256");
}

/// The key that `/public_key` answers for a room, and for how many seconds it may be kept.
fn public_key(server: &Server, room: &str) -> (String, u64) {
    let answer = server.visitor().get(&format!("/public_key?event_id={room}")).expect("an answer");
    let kid = answer.json()["kid"].as_str().expect("an id").to_owned();
    let cached = answer.header("Cache-Control").and_then(|value| value.strip_prefix("public, max-age="));
    (kid, cached.expect("keys may be kept for a while").parse().expect("seconds"))
}

/// The key that signs the pass of a new visitor.
fn key_of_new_pass(server: &Server, room: &str) -> String {
    let mut line = server.line(room);
    let id = line.join();
    line.advance(1);
    jwt::header(&line.tokens(&id)[0])["kid"].as_str().expect("an id").to_owned()
}

#[test]
fn a_room_whose_verifiers_keep_one_key_stays_with_it_for_longer_and_is_told_when_that_ends() {
    const ROOMS: &str = "[[room]]\nid = \"Hall\"\n[[room]]\nid = \"Lambda\"\nkey_overlap_seconds = 3600\n";
    let Some(clock) = MovedClock::build() else { return };
    let mut server =
        clock.applied_to(Server::builder(BINARY).config(ROOMS)).start().expect("the server starts");
    let (old, kept) = public_key(&server, "Hall");
    assert_eq!(kept, 300);
    let operator = Operator::of(&server);
    let rotated = operator.run(&["key", "rotate-signing"]);
    assert!(rotated.stderr.contains("warning: a verifier that keeps one key"), "{rotated:?}");
    assert!(rotated.stdout.contains("\nroom Lambda: from "), "{rotated:?}");
    assert!(!rotated.stdout.contains("Hall") && !rotated.stdout.contains("warning"), "{rotated:?}");
    let keys = server.operator().get("/signing_keys").expect("an answer").json();
    let new = keys["keys"][1]["kid"].as_str().expect("an id").to_owned();

    // Shortly before it takes over, no answer outlives that moment.
    let mut at = |seconds: i64| {
        server.terminate().expect("the server ends");
        clock.set(seconds);
        server.restart().expect("the server starts again");
        let [hall, lambda] = ["Hall", "Lambda"].map(|room| {
            let (key, kept) = public_key(&server, room);
            assert_eq!(
                key_of_new_pass(&server, room),
                key,
                "at {seconds} s, {room}: what is signed is what verifies"
            );
            (key, kept)
        });
        assert_eq!(published(&mut server.line("Hall")).len(), 2, "both verify");
        (hall, lambda)
    };
    let ((hall, kept), (lambda, kept_for_long)) = at(400);
    assert_eq!(
        (&hall, &lambda, kept_for_long),
        (&old, &old, 300),
        "not even the newest key is answered early"
    );
    assert!(kept <= 200, "{kept}");
    let ((hall, kept), (lambda, _)) = at(700);
    assert_eq!((&hall, &lambda, kept), (&new, &old, 300));
    let ((hall, _), (lambda, kept)) = at(4_000);
    assert_eq!((&hall, &lambda), (&new, &old));
    assert!(kept <= 200, "{kept}");
    let ((hall, _), (lambda, kept)) = at(4_300);
    assert_eq!((&hall, &lambda, kept), (&new, &new, 300));
}
