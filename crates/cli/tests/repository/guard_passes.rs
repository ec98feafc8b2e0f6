//! The guard knows no crate of ours, so this compares both sides: it takes passes just as the server signs them.

use std::time::Duration;

use anteroom_core::ids::{Position, RoomId, UnixMillis};
use anteroom_guard::{BoxError, Clock, Guard, Refusal};
use anteroom_tokens::openid::token_pair;
use anteroom_tokens::pass::{self, PassClaims};
use anteroom_tokens::request_id;
use anteroom_tokens::signing_key::{SigningAlgorithm, SigningKey};
use anteroom_tokens::{OpenIdClaims, OpenIdSubject};

const NOW_SECONDS: u64 = 1_800_000_000;
const ISSUER: &str = "https://wait.example.com";
const SUBJECT: &str = "0123abcd-ef01-8234-9678-9abcdef01234";

struct FixedClock;

impl Clock for FixedClock {
    fn unix_seconds(&self) -> u64 {
        NOW_SECONDS
    }

    fn elapsed(&self) -> Duration {
        Duration::ZERO
    }
}

fn guard_of(key: &SigningKey) -> Guard {
    let key_set = serde_json::json!({ "keys": [key.public_jwk()] }).to_string();
    let fetch = move || {
        let key_set = key_set.clone();
        async move { Ok::<_, BoxError>(key_set) }
    };
    let clock = std::sync::Arc::new(FixedClock);
    Guard::builder(ISSUER).room("Sale").fetcher(fetch).clock(clock).build().expect("a guard")
}

#[test]
fn the_guard_takes_passes_of_each_algorithm_as_the_server_signs_them() {
    let now = UnixMillis(NOW_SECONDS * 1_000);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    for algorithm in SigningAlgorithm::ALL {
        let key = SigningKey::generate(algorithm, now, now).unwrap();
        let claims = PassClaims {
            audience: RoomId::parse("Sale").unwrap(),
            subject: request_id::parse(SUBJECT).unwrap(),
            issuer: ISSUER.to_owned(),
            queue_position: Position::new(42).unwrap(),
            issued_at_seconds: NOW_SECONDS,
            expires_at_seconds: NOW_SECONDS + 3_600,
            enter_by_seconds: Some(NOW_SECONDS + 30),
        };
        let tokens = pass::sign(&key, &claims).unwrap().tokens;
        let guard = guard_of(&key);
        let verify = |token: &str| runtime.block_on(guard.verify(token));
        let pass = verify(&tokens.access_token).unwrap();
        assert_eq!((pass.subject.as_str(), pass.queue_position), (SUBJECT, 42), "{algorithm}");
        assert_eq!(
            (pass.enter_by_seconds, pass.expires_at_seconds),
            (claims.enter_by_seconds, claims.expires_at_seconds)
        );
        for other in [&tokens.refresh_token, &tokens.id_token] {
            assert_eq!(verify(other), Err(Refusal::NotAnAccessToken), "{algorithm}");
        }
    }
}

/// The client is named as the room is, so that both tokens have its audience.
#[test]
fn the_guard_takes_access_tokens_of_openid_clients_and_no_id_tokens() {
    let now = UnixMillis(NOW_SECONDS * 1_000);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let key = SigningKey::generate(SigningAlgorithm::EdDsa, now, now).unwrap();
    let claims = OpenIdClaims {
        room: RoomId::parse("Sale").unwrap(),
        client_id: "Sale".to_owned(),
        subject: OpenIdSubject([7; 16]),
        issuer: ISSUER.to_owned(),
        queue_position: Position::new(42).unwrap(),
        grant: 1,
        issued_at_seconds: NOW_SECONDS,
        access_expires_at_seconds: NOW_SECONDS + 3_600,
        id_expires_at_seconds: NOW_SECONDS + 3_600,
        auth_time_seconds: NOW_SECONDS,
        nonce: None,
        enter_by_seconds: None,
    };
    let tokens = token_pair::sign(&key, &claims).unwrap();
    let guard = guard_of(&key);
    let verify = |token: &str| runtime.block_on(guard.verify(token));
    let pass = verify(&tokens.access_token).unwrap();
    assert_eq!((pass.subject, pass.queue_position), (claims.subject.to_string(), 42));
    assert_eq!(verify(&tokens.id_token), Err(Refusal::NotAnAccessToken));
}
