//! "The whole AWS walk over HTTP against the real binary": what a client of the AWS waiting room sees, step by step, with
//! `waiting_num` right at every step and the tokens verified by a JWT library that is not ours.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anteroom_testkit::{
    Answer, Figures, Line, Server, aws, jwt, now, pause, python_with, require, unix_seconds, wait_until,
};
use serde_json::{Value, json};

use crate::support::BINARY;

const ISSUER: &str = "https://line.example.test";
/// How long something that the clock brings about may be late on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(15);

/// Reads `{"token", "key", "audience", "issuer"}` and prints the claims once `PyJWT` accepts the token.
const VERIFY_WITH_PYJWT: &str = "
import json, sys, jwt
given = json.load(sys.stdin)
key = jwt.PyJWK(given['key'])
claims = jwt.decode(given['token'], key, algorithms=[given['key']['alg']], audience=given['audience'],
                    issuer=given['issuer'], options={'require': ['exp', 'iat', 'nbf', 'aud', 'iss', 'sub']})
json.dump(claims, sys.stdout)
";

/// What `PyJWT` reads from the token when it accepts it, else what it says against it.
fn verify_with_pyjwt(python: &Path, token: &str, key: &Value, audience: &str) -> Result<Value, String> {
    let mut child = Command::new(python)
        .args(["-c", VERIFY_WITH_PYJWT])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("python starts");
    let given = json!({ "token": token, "key": key, "audience": audience, "issuer": ISSUER }).to_string();
    let mut stdin = child.stdin.take().expect("stdin is piped");
    stdin.write_all(given.as_bytes()).expect("python reads its input");
    drop(stdin);
    let output = child.wait_with_output().expect("python ends");
    if output.status.success() {
        Ok(serde_json::from_slice(&output.stdout).expect("the script prints JSON"))
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

#[track_caller]
fn assert_error(answer: &Answer, status: u16, text: &str) {
    assert_eq!((answer.status, answer.error().as_str()), (status, text), "{answer:?}");
}

#[track_caller]
fn number(answer: &Answer, name: &str) -> i64 {
    let body = answer.json();
    body[name].as_i64().unwrap_or_else(|| panic!("{name} is not a number: {answer:?}"))
}

/// A lower-case UUID, as AWS's gateway mints them.
fn is_request_id(text: &str) -> bool {
    let groups: Vec<&str> = text.split('-').collect();
    let lower_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    groups.iter().map(|group| group.len()).eq([8, 4, 4, 4, 12])
        && groups.iter().all(|group| group.bytes().all(lower_hex))
}

/// Everything that a repeated claim must repeat byte for byte.
fn identical_part(answer: &Answer) -> (u16, [String; 3]) {
    (answer.status, answer.token_set())
}

const NOT_SERVED: &str = "Request ID not being served yet";
const NO_SESSION: &str = "Request ID doesn't exist or status already set.";

#[test]
fn the_whole_aws_walk_with_waiting_num_right_at_every_step() {
    // No configuration file: the room `Sample` is simply there.
    let server = Server::builder(BINARY).env("ANTEROOM_PUBLIC_URL", ISSUER).start().unwrap();
    let mut line = server.line("Sample");
    assert_eq!(line.figures(), Figures::of(0, 0, 0));

    let first = arrives_and_has_a_place_at_once(&mut line);
    let second = line.join();
    assert_eq!((line.position(&second), line.waiting()), (2, 2));

    // Not served yet.
    assert_eq!(line.serving(), 0);
    assert_error(&line.expiry(&first), 202, NOT_SERVED);
    assert_error(&line.claim(&first), 202, NOT_SERVED);
    assert_eq!(line.waiting(), 2);

    // The operator serves a hundred: who is served but holds no token still waits.
    assert_eq!(line.advance(100), 100);
    assert_eq!(line.figures(), Figures::of(100, 2, 0));
    let expires_in = number(&line.expiry(&first), "expires_in");
    assert!((850..=900).contains(&expires_in), "{expires_in}");

    claims_three_times_with_identical_bytes(&mut line, &first);
    assert_eq!(line.figures(), Figures::of(100, 1, 1));

    // The session ends, once.
    let closed = line.close(&first, 1);
    assert_eq!((closed.status, closed.json()), (200, json!({})));
    assert_error(&line.close(&first, 1), 404, NO_SESSION);
    assert_error(&line.close(&first, -1), 404, NO_SESSION);
    assert_error(&line.claim(&first), 410, "Token corresponding to request id has expired");
    assert_eq!(line.figures(), Figures::of(100, 1, 0));

    // The second one abandons; before the claim there is no session to end.
    assert_error(&line.close(&second, -1), 404, NO_SESSION);
    assert_eq!(line.waiting(), 1);
    assert_eq!(line.claim(&second).status, 200);
    assert_eq!(line.figures(), Figures::of(100, 0, 1));
    assert_eq!(line.close(&second, -1).status, 200);
    assert_eq!(line.figures(), Figures::of(100, 0, 0));

    // A third arrives at a frontier that ran ahead, and is served at once.
    let third = line.join();
    assert_eq!((line.position(&third), line.waiting()), (3, 1));
    assert_eq!(line.claim(&third).status, 200);
    assert_eq!(line.waiting(), 0);

    reset_is_instant_and_atomic_and_old_ids_are_refused(&mut line, &[first, second, third]);
}

fn arrives_and_has_a_place_at_once(line: &mut Line) -> String {
    let before = unix_seconds();
    let id = line.join();
    let after = unix_seconds();
    assert!(is_request_id(&id), "{id}");
    assert_eq!(line.waiting(), 1);
    let place = line.place(&id);
    assert_eq!(place.status, 200);
    let entry_time = place.json()["entry_time"].as_u64().expect("entry_time is a number");
    assert!((before..=after).contains(&entry_time), "{entry_time} is not within {before}..={after}");
    let expected = json!({ "queue_number": 1, "entry_time": entry_time, "event_id": "Sample", "status": 1 });
    assert_eq!(place.json(), expected);
    id
}

fn claims_three_times_with_identical_bytes(line: &mut Line, id: &str) {
    let claimed = line.claim(id);
    assert_eq!(number(&claimed, "expires_in"), 3600);
    let body = claimed.json();
    let members: BTreeSet<&str> = body.as_object().expect("an object").keys().map(String::as_str).collect();
    assert_eq!(members, ["access_token", "refresh_token", "id_token", "token_type", "expires_in"].into());
    for _ in 0..2 {
        let repeated = line.claim(id);
        assert_eq!(identical_part(&repeated), identical_part(&claimed));
        let left = number(&repeated, "expires_in");
        assert!((3550..=3600).contains(&left), "{left}");
    }
}

fn reset_is_instant_and_atomic_and_old_ids_are_refused(line: &mut Line, old: &[String]) {
    let reset = line.reset();
    assert_eq!(reset.status, 200, "{reset:?}");
    assert_eq!(reset.json(), json!({ "message": "Counters reset. DynamoDB table recreated." }));
    assert_eq!(line.figures(), Figures::of(0, 0, 0));
    let refused = |line: &mut Line| {
        for id in old {
            assert_eq!(line.place(id).status, 400);
            assert_error(&line.claim(id), 404, "Invalid request ID");
            assert_error(&line.expiry(id), 404, "Invalid request ID");
            assert_error(&line.close(id, 1), 404, NO_SESSION);
        }
    };
    refused(line);
    let newcomer = line.join();
    assert_eq!((line.position(&newcomer), line.waiting()), (1, 1));
    // The frontier beyond the old positions must not bring the old ids back to life.
    assert_eq!(line.advance(100), 100);
    refused(line);
    assert_eq!(line.waiting(), 1);
    assert_eq!(line.claim(&newcomer).status, 200);
    assert_eq!(line.waiting(), 0);
}

#[test]
fn reset_takes_the_event_id_from_the_body_or_the_query() {
    let server = Server::builder(BINARY).memory().start().unwrap();
    let mut line = server.line("Sample");
    line.join();
    let answer = line.operator.post("/reset_initial_state?event_id=Sample", &json!({})).unwrap();
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(line.waiting(), 0);
    line.join();
    assert_eq!(line.reset().status, 200);
    assert_eq!(line.waiting(), 0);
}

#[test]
fn queue_pos_expiry_counts_down_then_410() {
    const PERIOD: Duration = Duration::from_secs(2);
    let config = "
        [[room]]
        id = \"Sale\"
        inlet = \"manual\"
        queue_position_expiry_period = 2
    ";
    let server = Server::builder(BINARY).config(config).start().unwrap();
    let mut line = server.line("Sale");
    let visitors = line.join_many(2);
    let earliest_start = now();
    line.advance(1);
    let latest_start = now();
    let mut seen = Vec::new();
    let (last_alive, gone) = loop {
        let asked = now();
        let answer = line.expiry(&visitors[0]);
        let received_at = now();
        if answer.status == 410 {
            assert_error(&answer, 410, "Queue position has expired");
            // The rules count whole milliseconds of the wall clock; this test looks at another clock.
            let lasted = received_at - earliest_start + Duration::from_millis(2);
            assert!(lasted >= PERIOD, "lapsed after {lasted:?}");
            break (seen.last().copied(), received_at);
        }
        assert_eq!(answer.status, 200, "{answer:?}");
        assert!(asked - latest_start < PERIOD + TIMEOUT, "still not lapsed");
        seen.push(answer.json()["expires_in"].as_i64().expect("expires_in is a number"));
        pause();
    };
    // Rounded up, so a place that can still be claimed never says 0.
    assert_eq!(seen.first(), Some(&2));
    assert_eq!(last_alive, Some(1));
    assert!(seen.windows(2).all(|pair| pair[0] >= pair[1]), "{seen:?}");
    assert_error(&line.claim(&visitors[0]), 410, "Queue position has expired");
    line.wait_until_waiting(1);
    assert!(gone.elapsed() < TIMEOUT);
    // Lapsed for good: serving more does not bring the place back, nor does it touch who still waits.
    line.advance(1);
    assert_eq!(line.expiry(&visitors[0]).status, 410);
    assert_eq!(line.expiry(&visitors[1]).status, 200);
    assert_eq!(line.claim(&visitors[1]).status, 200);
    assert_eq!((line.waiting(), line.active(), line.expired()), (0, 1, Vec::new()));
}

#[test]
fn expired_tokens_lists_a_pass_past_its_end_and_a_repeated_claim_says_expires_in_0() {
    let server = Server::builder(BINARY).start().unwrap();
    let mut line = server.line("Sample");
    let visitors = line.join_many(2);
    line.advance(2);
    let claimed = line.claim_privately(&visitors[0], &json!({ "validity_period": 2 }));
    assert_eq!(claimed.json()["expires_in"], 2);
    assert_eq!(line.tokens(&visitors[1]).len(), 3);
    assert_eq!(line.waiting(), 0);
    wait_until("the pass is past its end", TIMEOUT, || line.expired() == visitors[..1]);
    assert_eq!((line.active(), line.waiting()), (1, 0));
    let repeated = line.claim(&visitors[0]);
    assert_eq!(identical_part(&repeated), identical_part(&claimed));
    assert_eq!(repeated.json()["expires_in"], 0);
    // A late word about an expired session is taken, frees nothing twice, and the id stays listed.
    assert_eq!(line.close(&visitors[0], 1).status, 200);
    assert_eq!((line.active(), line.expired()), (1, visitors[..1].to_vec()));
}

#[test]
fn private_generate_token_overrides_do_not_leak_into_later_calls() {
    let server = Server::builder(BINARY).env("ANTEROOM_PUBLIC_URL", ISSUER).start().unwrap();
    let mut line = server.line("Sample");
    let visitors = line.join_many(4);
    line.advance(4);
    let overrides = json!({ "issuer": "https://other.example.test", "validity_period": 60 });
    let overridden = line.claim_privately(&visitors[0], &overrides);
    assert_eq!(overridden.json()["expires_in"], 60);
    for token in overridden.token_set() {
        let claims = jwt::claims(&token);
        assert_eq!(claims["iss"], "https://other.example.test");
        assert_eq!(lifetime(&claims), 60);
    }
    let privately = line.claim_privately(&visitors[1], &json!({}));
    let publicly = line.claim(&visitors[2]);
    // The public call ignores the fields, as AWS's did.
    let request = json!({
        "event_id": "Sample", "request_id": visitors[3],
        "issuer": "https://other.example.test", "validity_period": 60
    });
    let ignoring = line.public.post("/generate_token", &request).unwrap();
    for answer in [privately, publicly, ignoring] {
        assert_eq!(answer.json()["expires_in"], 3600);
        let claims = jwt::claims(&answer.token_set()[0]);
        assert_eq!(claims["iss"], ISSUER);
        assert_eq!(lifetime(&claims), 3600);
    }
    // What was issued stays as it was issued, whichever client asks again and with whatever overrides.
    let again = line.claim_privately(&visitors[0], &json!({ "validity_period": 7200 }));
    assert_eq!(identical_part(&again), identical_part(&overridden));
    assert_eq!(identical_part(&line.claim(&visitors[0])), identical_part(&overridden));
}

fn lifetime(claims: &Value) -> i64 {
    let second = |name: &str| claims[name].as_i64().unwrap_or_else(|| panic!("no {name} in {claims}"));
    second("exp") - second("iat")
}

#[test]
fn rs256_tokens_are_identical_on_repeat_and_accepted_by_pyjwt() {
    let key = json!({ "kty": "RSA", "e": "AQAB" });
    tokens_are_identical_on_repeat_and_accepted_by_pyjwt("RS256", &key);
}

#[test]
fn es256_tokens_are_identical_on_repeat_and_accepted_by_pyjwt() {
    let key = json!({ "kty": "EC", "crv": "P-256" });
    tokens_are_identical_on_repeat_and_accepted_by_pyjwt("ES256", &key);
}

#[test]
fn eddsa_tokens_are_identical_on_repeat_and_accepted_by_pyjwt() {
    let key = json!({ "kty": "OKP", "crv": "Ed25519" });
    tokens_are_identical_on_repeat_and_accepted_by_pyjwt("EdDSA", &key);
}

fn tokens_are_identical_on_repeat_and_accepted_by_pyjwt(algorithm: &str, key_members: &Value) {
    let config = format!(
        "signing_algorithm = \"{algorithm}\"\n[[room]]\nid = \"Signed\"\nissuer = \"{ISSUER}\"\nvalidity_period = 600\n"
    );
    let mut server = Server::builder(BINARY).config(config).start().expect("the server starts");
    let mut line = server.line("Signed");
    let request_id = line.join_many(3).pop().expect("three have joined");
    line.advance(3);
    let claimed = line.claim(&request_id);
    for _ in 0..3 {
        assert_eq!(identical_part(&line.claim(&request_id)), identical_part(&claimed));
        let privately = line.claim_privately(&request_id, &json!({}));
        assert_eq!(identical_part(&privately), identical_part(&claimed));
    }
    let key = aws::public_key(&mut line.public, "Signed").expect("an answer");
    assert_eq!(key.status, 200, "{key:?}");
    let key = key.json();
    assert_eq!(key["alg"], algorithm);
    for (name, value) in key_members.as_object().expect("the members are an object") {
        assert_eq!(&key[name.as_str()], value, "{key}");
    }
    let set = line.public.get("/.well-known/jwks.json").expect("an answer").json();
    assert_eq!(
        set["keys"].as_array().map_or(0, |keys| keys.iter().filter(|other| **other == key).count()),
        1
    );

    server.restart().expect("the server starts again");
    let mut line = server.line("Signed");
    assert_eq!(identical_part(&line.claim(&request_id)), identical_part(&claimed), "after a restart");
    assert_eq!(aws::public_key(&mut line.public, "Signed").expect("an answer").json(), key);

    let uses = ["access", "refresh", "id"];
    for (token, token_use) in claimed.token_set().iter().zip(uses) {
        assert_claims(token, token_use, &request_id, algorithm, &key);
    }
    let python = python_with("jwt, cryptography");
    if !require("Python with PyJWT and cryptography", python.is_some()) {
        return;
    }
    let python = python.expect("it has just been required");
    for (token, token_use) in claimed.token_set().iter().zip(uses) {
        let claims = verify_with_pyjwt(&python, token, &key, "Signed").expect("PyJWT accepts the token");
        assert_eq!(claims, jwt::claims(token));
        assert_eq!(claims["token_use"], token_use);
        // And it does look: an edited token and one for another room are refused.
        let edited = with_position_edited(token);
        let refused = verify_with_pyjwt(&python, &edited, &key, "Signed").expect_err("an edited token");
        assert!(refused.contains("InvalidSignatureError"), "{refused}");
        let refused = verify_with_pyjwt(&python, token, &key, "Other").expect_err("another audience");
        assert!(refused.contains("InvalidAudienceError"), "{refused}");
    }
}

fn assert_claims(token: &str, token_use: &str, request_id: &str, algorithm: &str, key: &Value) {
    assert_eq!(jwt::header(token), json!({ "alg": algorithm, "kid": key["kid"], "typ": "JWT" }));
    let claims = jwt::claims(token);
    let issued = claims["iat"].as_u64().expect("iat is a number");
    assert!(unix_seconds().abs_diff(issued) < 120, "{claims}");
    let expected = json!({
        "aud": "Signed", "sub": request_id, "queue_position": 3, "token_use": token_use,
        "iat": issued, "nbf": issued, "exp": issued + 600, "iss": ISSUER
    });
    assert_eq!(claims, expected);
}

/// The same token with another position in its claims.
fn with_position_edited(token: &str) -> String {
    let parts: Vec<&str> = token.split('.').collect();
    let mut claims = jwt::claims(token);
    claims["queue_position"] = json!(1);
    let edited = jwt::encode_base64url(claims.to_string().as_bytes());
    format!("{}.{edited}.{}", parts[0], parts[2])
}
