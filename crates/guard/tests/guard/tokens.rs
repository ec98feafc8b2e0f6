//! Tokens that are good, and every way in which one can be bad.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anteroom_guard::{BuildError, EnterBy, EnteredVisits, Guard, Refusal, TOKEN_MAX_BYTES, Visit};
use aws_lc_rs::hmac;
use serde_json::{Value, json};

use crate::support::{
    ISSUER, Key, KeyServer, NOW, ROOM, SUBJECT, Site, base64url, claims, claims_with, key_set,
};

const ALGORITHMS: [&str; 3] = ["RS256", "ES256", "EdDSA"];

#[tokio::test]
async fn a_pass_of_each_algorithm_is_verified_and_says_whose_it_is() {
    for algorithm in ALGORITHMS {
        let key = Key::new(algorithm, "one");
        let site = Site::with_keys(&[&key]).await;
        let pass = site.verify(&key.sign(&claims_with(&json!({"enter_by": NOW + 30})))).await.unwrap();
        assert_eq!((&*pass.room, &*pass.issuer, pass.subject.as_str()), (ROOM, ISSUER, SUBJECT));
        assert_eq!((pass.queue_position, pass.issued_at_seconds), (42, NOW));
        assert_eq!((pass.expires_at_seconds, pass.enter_by_seconds), (NOW + 3_600, Some(NOW + 30)));
        let without = site.verify(&key.pass()).await.unwrap();
        assert_eq!(without.enter_by_seconds, None, "{algorithm}");
    }
}

#[tokio::test]
async fn a_claim_edited_after_signing_is_refused_whichever_it_is() {
    let key = Key::ed("one");
    let site = Site::with_keys(&[&key]).await;
    let original = claims_with(&json!({"enter_by": NOW + 30}));
    let token = key.sign(&original);
    assert!(site.verify(&token).await.is_ok());
    let [header, _, signature] = token.split('.').collect::<Vec<_>>()[..] else { panic!("{token}") };
    let edits = [
        ("aud", json!("Vip")),
        ("enter_by", json!(NOW + 31)),
        ("exp", json!(NOW + 3_601)),
        ("iat", json!(NOW - 1)),
        ("iss", json!("https://elsewhere.example.com")),
        ("nbf", json!(NOW - 1)),
        ("queue_position", json!(1)),
        ("sub", json!("0123abcd-ef01-8234-9678-9abcdef01235")),
        ("token_use", json!("refresh")),
        ("more", json!(1)),
    ];
    let names: Vec<&String> = original.as_object().unwrap().keys().collect();
    assert!(names.iter().all(|name| edits.iter().any(|(edited, _)| name == edited)), "{names:?}");
    for (name, value) in edits {
        let mut edited = original.clone();
        edited[name] = value;
        let edited = format!("{header}.{}.{signature}", base64url(edited.to_string()));
        let expected = match name {
            "aud" => Refusal::WrongRoom,
            "iss" => Refusal::WrongIssuer,
            "token_use" => Refusal::NotAnAccessToken,
            _ => Refusal::WrongSignature,
        };
        assert_eq!(site.refusal(&edited).await, Some(expected), "{name}");
    }
    let without_enter_by = format!("{header}.{}.{signature}", base64url(claims().to_string()));
    assert_eq!(site.refusal(&without_enter_by).await, Some(Refusal::WrongSignature));
}

#[tokio::test]
async fn a_claim_that_is_wrong_is_refused_also_where_the_signature_is_right() {
    let key = Key::ed("one");
    let site = Site::with_keys(&[&key]).await;
    site.clock.advance(100);
    for (change, expected) in [
        (json!({"aud": "Vip"}), Refusal::WrongRoom),
        (json!({"aud": "sale"}), Refusal::WrongRoom),
        (json!({"aud": ""}), Refusal::WrongRoom),
        (json!({"aud": [ROOM]}), Refusal::Malformed),
        (json!({"iss": "https://wait.example.com/"}), Refusal::WrongIssuer),
        (json!({"iss": ""}), Refusal::WrongIssuer),
        (json!({"iss": [ISSUER]}), Refusal::Malformed),
        (json!({"token_use": "refresh"}), Refusal::NotAnAccessToken),
        (json!({"token_use": "id"}), Refusal::NotAnAccessToken),
        (json!({"token_use": "Access"}), Refusal::NotAnAccessToken),
        (json!({"exp": NOW + 100}), Refusal::Expired),
        (json!({"exp": 0}), Refusal::Expired),
        (json!({"exp": -1}), Refusal::Malformed),
        (json!({"exp": 1e300}), Refusal::Malformed),
        (json!({"exp": "9999999999"}), Refusal::Malformed),
        (json!({"nbf": NOW + 161}), Refusal::NotYetValid),
        (json!({"nbf": u64::MAX}), Refusal::NotYetValid),
        (json!({"nbf": true}), Refusal::Malformed),
        (json!({"enter_by": "never"}), Refusal::Malformed),
        (json!({"enter_by": -1}), Refusal::Malformed),
        (json!({"sub": 7}), Refusal::Malformed),
        (json!({"queue_position": "first"}), Refusal::Malformed),
    ] {
        let token = key.sign(&claims_with(&change));
        assert_eq!(site.refusal(&token).await, Some(expected), "{change}");
    }
    for name in claims().as_object().unwrap().keys() {
        let token = key.sign(&claims_with(&json!({ name: null })));
        assert_eq!(site.refusal(&token).await, Some(Refusal::Malformed), "without {name}");
        let twice = claims().to_string().replacen('{', &format!("{{\"{name}\":{},", claims()[name]), 1);
        let token = key.sign_text(&key.header().to_string(), &twice);
        assert_eq!(site.refusal(&token).await, Some(Refusal::Malformed), "{name} twice");
    }
    assert!(site.verify(&key.sign(&claims_with(&json!({"exp": u64::MAX})))).await.is_ok());
}

#[tokio::test]
async fn leeway_is_as_long_as_was_said_and_five_minutes_at_most() {
    let key = Key::ed("one");
    let server = KeyServer::with_keys(&[&key]).await;
    let site = Site::new(server, |builder| {
        builder.not_before_leeway(Duration::from_secs(5)).expiry_leeway(Duration::from_secs(10))
    });
    let token = |name: &str, seconds: u64| key.sign(&claims_with(&json!({ name: seconds })));
    assert!(site.verify(&token("nbf", NOW + 5)).await.is_ok());
    assert_eq!(site.refusal(&token("nbf", NOW + 6)).await, Some(Refusal::NotYetValid));
    assert!(site.verify(&token("exp", NOW - 9)).await.is_ok());
    assert_eq!(site.refusal(&token("exp", NOW - 10)).await, Some(Refusal::Expired));
    let too_long = Duration::from_secs(301);
    let builder = || Guard::builder("http://127.0.0.1").room(ROOM);
    assert_eq!(builder().not_before_leeway(too_long).build().err(), Some(BuildError::LeewayTooLong));
    assert_eq!(builder().expiry_leeway(too_long).build().err(), Some(BuildError::LeewayTooLong));
}

#[tokio::test]
async fn a_token_never_chooses_its_algorithm() {
    for algorithm in ALGORITHMS {
        let key = Key::new(algorithm, "one");
        let site = Site::with_keys(&[&key]).await;
        for other in
            ["none", "None", "", "HS256", "HS512", "RS256", "RS384", "PS256", "ES256", "EdDSA", "ED25519"]
        {
            if other == algorithm {
                continue;
            }
            let header = json!({"alg": other, "kid": "one", "typ": "JWT"});
            let token = key.sign_with_header(&header, &claims());
            assert_eq!(site.refusal(&token).await, Some(Refusal::WrongAlgorithm), "{algorithm} as {other}");
            let (message, _) = token.rsplit_once('.').unwrap();
            let unsigned = format!("{message}.");
            assert_eq!(
                site.refusal(&unsigned).await,
                Some(Refusal::WrongAlgorithm),
                "{algorithm} as {other}"
            );
        }
        for alg in [json!(null), json!(7), json!([algorithm])] {
            let header = json!({"alg": alg, "kid": "one", "typ": "JWT"});
            assert_eq!(
                site.refusal(&key.sign_with_header(&header, &claims())).await,
                Some(Refusal::Malformed)
            );
        }
    }
}

/// The classic confusion: everybody knows the public key, so everybody could make such a token.
#[tokio::test]
async fn a_token_signed_by_hmac_with_the_public_key_as_secret_is_refused() {
    for algorithm in ALGORITHMS {
        let key = Key::new(algorithm, "one");
        let site = Site::with_keys(&[&key]).await;
        let jwk = key.jwk();
        let secrets = [jwk["n"].as_str(), jwk["x"].as_str(), jwk["kid"].as_str()];
        let texts = secrets.into_iter().flatten().map(str::to_owned);
        for secret in texts.chain([jwk.to_string(), key_set(&[&key])]) {
            let mac = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
            for alg in ["HS256", algorithm] {
                let header = json!({"alg": alg, "kid": "one", "typ": "JWT"});
                let message =
                    format!("{}.{}", base64url(header.to_string()), base64url(claims().to_string()));
                let token = format!("{message}.{}", base64url(hmac::sign(&mac, message.as_bytes())));
                let expected = if alg == "HS256" { Refusal::WrongAlgorithm } else { Refusal::WrongSignature };
                assert_eq!(site.refusal(&token).await, Some(expected), "{alg}");
            }
        }
    }
}

#[tokio::test]
async fn a_key_is_used_for_its_own_tokens_only() {
    let keys = [Key::new("RS256", "rsa"), Key::new("ES256", "ec"), Key::ed("ed"), Key::ed("ed2")];
    let site = Site::with_keys(&keys.iter().collect::<Vec<_>>()).await;
    for signer in &keys {
        for named in &keys {
            let header = json!({"alg": signer.algorithm(), "kid": named.kid, "typ": "JWT"});
            let refusal = site.refusal(&signer.sign_with_header(&header, &claims())).await;
            let expected = match (signer.kid == named.kid, signer.algorithm() == named.algorithm()) {
                (true, _) => None,
                (false, true) => Some(Refusal::WrongSignature),
                (false, false) => Some(Refusal::WrongAlgorithm),
            };
            assert_eq!(refusal, expected, "{} as {}", signer.kid, named.kid);
        }
    }
    let stranger = Key::ed("ed");
    assert_eq!(site.refusal(&stranger.pass()).await, Some(Refusal::WrongSignature));
    let without_kid = json!({"alg": "EdDSA", "typ": "JWT"});
    assert_eq!(
        site.refusal(&keys[2].sign_with_header(&without_kid, &claims())).await,
        Some(Refusal::UnknownKey)
    );
    let kid_of_another_type = json!({"alg": "EdDSA", "kid": 7, "typ": "JWT"});
    assert_eq!(
        site.refusal(&keys[2].sign_with_header(&kid_of_another_type, &claims())).await,
        Some(Refusal::Malformed)
    );
    // A key that the token brings along, or an address of one, is nothing to go by.
    let mut header = stranger.header();
    header["jwk"] = stranger.jwk();
    header["jku"] = json!(site.server.url());
    assert_eq!(
        site.refusal(&stranger.sign_with_header(&header, &claims())).await,
        Some(Refusal::WrongSignature)
    );
}

#[tokio::test]
async fn headers_that_ask_for_something_unknown_are_refused() {
    let key = Key::ed("one");
    let site = Site::with_keys(&[&key]).await;
    let with = |name: &str, value: Value| {
        let mut header = key.header();
        header[name] = value;
        key.sign_with_header(&header, &claims())
    };
    for crit in [json!(["exp"]), json!(["b64"]), json!([]), json!("exp"), json!({})] {
        assert_eq!(site.refusal(&with("crit", crit)).await, Some(Refusal::UnsupportedHeader));
    }
    for typ in ["JWE", "", "application/json", "logout+jwt"] {
        assert_eq!(site.refusal(&with("typ", json!(typ))).await, Some(Refusal::UnsupportedHeader), "{typ}");
    }
    assert_eq!(site.refusal(&with("typ", json!(1))).await, Some(Refusal::Malformed));
    for typ in ["JWT", "jwt", "at+jwt"] {
        assert!(site.verify(&with("typ", json!(typ))).await.is_ok(), "{typ}");
    }
    assert!(site.verify(&with("more", json!("ignored"))).await.is_ok());
    let without_typ = json!({"alg": "EdDSA", "kid": "one"});
    assert!(site.verify(&key.sign_with_header(&without_typ, &claims())).await.is_ok());
    let twice = r#"{"alg":"EdDSA","alg":"EdDSA","kid":"one","typ":"JWT"}"#;
    assert_eq!(site.refusal(&key.sign_text(twice, &claims().to_string())).await, Some(Refusal::Malformed));
}

#[tokio::test]
async fn a_token_cut_off_anywhere_or_with_anything_added_is_refused() {
    for algorithm in ALGORITHMS {
        let key = Key::new(algorithm, "one");
        let site = Site::with_keys(&[&key]).await;
        let token = key.pass();
        for length in 0..token.len() {
            assert!(site.verify(&token[..length]).await.is_err(), "{length} of {}", token.len());
            assert!(site.verify(&token[token.len() - length..]).await.is_err(), "the last {length}");
        }
        for more in ["A", ".", "=", " ", "\n", ".AAAA", "\0"] {
            assert!(site.verify(&format!("{token}{more}")).await.is_err(), "{more:?} behind");
            assert!(site.verify(&format!("{more}{token}")).await.is_err(), "{more:?} before");
        }
    }
}

#[tokio::test]
async fn every_flipped_bit_of_a_signature_is_found() {
    for algorithm in ALGORITHMS {
        let key = Key::new(algorithm, "one");
        let site = Site::with_keys(&[&key]).await;
        let token = key.pass();
        let (message, signature) = token.rsplit_once('.').unwrap();
        let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        for (at, character) in signature.bytes().enumerate() {
            let value = alphabet.iter().position(|other| *other == character).unwrap();
            for bit in 0..6 {
                let mut flipped = signature.as_bytes().to_vec();
                flipped[at] = alphabet[value ^ (1 << bit)];
                let flipped = format!("{message}.{}", String::from_utf8(flipped).unwrap());
                let refusal = site.refusal(&flipped).await;
                // Bits of the last character that belong to no byte make it malformed.
                let is_found = matches!(refusal, Some(Refusal::WrongSignature | Refusal::Malformed));
                assert!(is_found, "{algorithm}: bit {bit} of character {at}: {refusal:?}");
            }
        }
    }
}

#[tokio::test]
async fn garbage_is_refused_and_nothing_is_fetched_for_it() {
    let key = Key::ed("one");
    let site = Site::with_keys(&[&key]).await;
    assert_eq!(site.refusal("").await, Some(Refusal::Missing));
    let nested = format!("{}.{}.AA", base64url("[".repeat(2_000)), base64url("{}"));
    for garbage in
        [".", "..", "...", "a.b.c", "e30.e30.", "e30.e30.e30", "\u{2028}", "null", "{}", "ä.ö.ü", &nested]
    {
        assert_eq!(site.refusal(garbage).await, Some(Refusal::Malformed), "{garbage}");
    }
    let long = "A".repeat(TOKEN_MAX_BYTES + 1);
    assert_eq!(site.refusal(&long).await, Some(Refusal::TooLong));
    assert_eq!(site.refusal(&long[1..]).await, Some(Refusal::Malformed));
    assert_eq!(site.server.requests(), 0);
}

#[tokio::test]
async fn several_rooms_each_with_its_issuer() {
    let key = Key::ed("one");
    let server = KeyServer::with_keys(&[&key]).await;
    let site = Site::new(server, |builder| {
        builder.room("Concert").room_of_issuer("Vip", "https://vip.example.com").room_of_issuer("Vip", ISSUER)
    });
    let token = |room: &str, issuer: &str| key.sign(&claims_with(&json!({"aud": room, "iss": issuer})));
    for (room, issuer) in
        [(ROOM, ISSUER), ("Concert", ISSUER), ("Vip", "https://vip.example.com"), ("Vip", ISSUER)]
    {
        let pass = site.verify(&token(room, issuer)).await.unwrap();
        assert_eq!((&*pass.room, &*pass.issuer), (room, issuer));
    }
    let borrowed = token("Concert", "https://vip.example.com");
    assert_eq!(site.refusal(&borrowed).await, Some(Refusal::WrongIssuer));
    assert_eq!(site.refusal(&token("Other", ISSUER)).await, Some(Refusal::WrongRoom));
}

#[tokio::test]
async fn a_first_use_after_enter_by_is_refused_and_later_ones_are_not() {
    let key = Key::ed("one");
    let site = Site::with_keys(&[&key]).await;
    site.clock.advance(10);
    let issued_at = NOW + 10;
    let pass = |subject: &str| {
        key.sign(&claims_with(&json!({"iat": issued_at, "enter_by": issued_at + 30, "sub": subject})))
    };
    let (in_time, late) = (pass("in-time"), pass("late"));
    site.clock.advance(30);
    assert!(site.verify(&in_time).await.is_ok(), "until that second is over");
    site.clock.advance(1);
    assert_eq!(site.refusal(&late).await, Some(Refusal::EnteredTooLate));
    site.clock.advance(600);
    assert!(site.verify(&in_time).await.is_ok(), "the visit goes on");
    let renewed = key
        .sign(&claims_with(&json!({"iat": issued_at + 600, "enter_by": issued_at + 30, "sub": "in-time"})));
    assert!(site.verify(&renewed).await.is_ok(), "and with a renewed token");
    assert_eq!(site.refusal(&late).await, Some(Refusal::EnteredTooLate));
}

#[tokio::test]
async fn a_forged_token_does_not_make_a_late_pass_good() {
    let (key, stranger) = (Key::ed("one"), Key::ed("one"));
    let site = Site::with_keys(&[&key]).await;
    site.clock.advance(10);
    let claims = claims_with(&json!({"iat": NOW + 10, "enter_by": NOW + 40}));
    assert_eq!(site.refusal(&stranger.sign(&claims)).await, Some(Refusal::WrongSignature));
    site.clock.advance(31);
    assert_eq!(site.refusal(&key.sign(&claims)).await, Some(Refusal::EnteredTooLate));
}

/// What the processes of a site would keep in a database.
#[derive(Default)]
struct Database(Mutex<Vec<String>>);

impl EnteredVisits for Database {
    fn enter<'visit>(
        &'visit self,
        visit: Visit<'visit>,
    ) -> Pin<Box<dyn Future<Output = bool> + Send + 'visit>> {
        Box::pin(async move {
            tokio::task::yield_now().await;
            let mut known = self.0.lock().unwrap();
            let is_known = known.iter().any(|subject| subject == visit.subject);
            if !is_known && !visit.is_late() {
                known.push(visit.subject.to_owned());
            }
            is_known || !visit.is_late()
        })
    }
}

#[tokio::test]
async fn processes_that_share_their_memory_take_each_others_visitors_and_an_unchecked_one_takes_all() {
    let key = Key::ed("one");
    let database = Arc::new(Database::default());
    let shared = || EnterBy::Shared(Arc::clone(&database) as Arc<dyn EnteredVisits>);
    let mut built = vec![];
    for rule in [shared(), shared(), EnterBy::Unchecked] {
        let site = Site::new(KeyServer::with_keys(&[&key]).await, |builder| builder.enter_by(rule));
        site.clock.advance(10);
        built.push(site);
    }
    let [first, second, unchecked] = &built[..] else { panic!() };
    let claims = |subject: &str| claims_with(&json!({"iat": NOW + 10, "enter_by": NOW + 40, "sub": subject}));
    assert!(first.verify(&key.sign(&claims("inside"))).await.is_ok());
    for site in &built {
        site.clock.advance(31);
    }
    assert!(second.verify(&key.sign(&claims("inside"))).await.is_ok());
    assert_eq!(second.refusal(&key.sign(&claims("late"))).await, Some(Refusal::EnteredTooLate));
    assert!(unchecked.verify(&key.sign(&claims("late"))).await.is_ok());
}

#[test]
fn what_cannot_work_is_found_when_the_guard_is_built() {
    let room = |name: &str| Guard::builder("http://127.0.0.1").room(name).build().err();
    assert_eq!(Guard::builder("http://127.0.0.1").build().err(), Some(BuildError::NoRoom));
    for bad in ["", "a room", "ä", "a/b", "a\"b", &"a".repeat(65)] {
        assert_eq!(room(bad), Some(BuildError::InvalidRoom(bad.to_owned())));
    }
    assert_eq!(room("Sale_1.a-b"), None);
    for bad in ["", "wait.example.com", "ftp://wait.example.com", "http://", "http://user@host", "http://a b"]
    {
        let error = Guard::builder(bad).room(ROOM).build().err();
        assert!(matches!(error, Some(BuildError::InvalidAddress(_))), "{bad}: {error:?}");
    }
}
