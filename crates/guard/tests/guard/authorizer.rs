//! The authorizer of the AWS solution, refusal by refusal: what stays, and what its faults are not brought along.

use anteroom_guard::{Guard, GuardLayer, Refusal, TokenPlace};
use axum::Router;
use axum::body::Body;
use http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use http::{Request, StatusCode};
use serde_json::json;
use tower::ServiceExt as _;

use crate::support::{ISSUER, Key, KeyServer, NOW, Site, claims, claims_with};

async fn ask(guard: &Guard, authorization: Option<&str>) -> (StatusCode, Option<String>) {
    let app = Router::new().fallback(|| async { "in" }).layer(GuardLayer::new(guard.clone()));
    let mut request = Request::new(Body::empty());
    if let Some(value) = authorization {
        request.headers_mut().insert(AUTHORIZATION, value.parse().unwrap());
    }
    let response = app.oneshot(request).await.unwrap();
    let challenge = response.headers().get(WWW_AUTHENTICATE).map(|value| value.to_str().unwrap().to_owned());
    (response.status(), challenge)
}

/// The authorizer denied a token after `Bearer`, and took a bare one.
#[tokio::test]
async fn a_bearer_prefix_is_taken_and_a_bare_token_where_the_site_says_so() {
    let key = Key::new("RS256", "one");
    let site = Site::with_keys(&[&key]).await;
    let token = key.pass();
    assert_eq!(ask(&site.guard, Some(&format!("Bearer {token}"))).await.0, StatusCode::OK);
    assert_eq!(ask(&site.guard, Some(&token)).await.0, StatusCode::UNAUTHORIZED);
    let server = KeyServer::with_keys(&[&key]).await;
    let aws = Site::new(server, |builder| builder.tokens_in([TokenPlace::Header(AUTHORIZATION)]));
    assert_eq!(ask(&aws.guard, Some(&token)).await.0, StatusCode::OK);
    assert_eq!(ask(&aws.guard, Some(&format!("Bearer {token}"))).await.0, StatusCode::OK);
}

/// The authorizer answered a missing header with 401, too.
#[tokio::test]
async fn a_missing_header_is_401() {
    let site = Site::with_keys(&[&Key::ed("one")]).await;
    let answer = ask(&site.guard, None).await;
    assert_eq!(answer, (StatusCode::UNAUTHORIZED, Some("Bearer realm=\"Sale\"".to_owned())));
}

/// The authorizer answered this with 500.
#[tokio::test]
async fn text_that_is_no_jwt_is_401_and_not_500() {
    let site = Site::with_keys(&[&Key::ed("one")]).await;
    for text in ["Bearer nonsense", "Bearer a.b.c", "Bearer e30.e30.e30", "Bearer {}"] {
        let (status, challenge) = ask(&site.guard, Some(text)).await;
        assert_eq!(status, StatusCode::UNAUTHORIZED, "{text}");
        assert!(challenge.unwrap().contains("error=\"invalid_token\""), "{text}");
    }
}

/// The authorizer answered this with 500.
#[tokio::test]
async fn an_empty_token_is_401_and_not_500() {
    let site = Site::with_keys(&[&Key::ed("one")]).await;
    for text in ["", " ", "Bearer", "Bearer ", "Bearer  "] {
        assert_eq!(ask(&site.guard, Some(text)).await.0, StatusCode::UNAUTHORIZED, "{text:?}");
    }
}

#[tokio::test]
async fn a_signature_by_another_key_is_refused() {
    let (key, stranger) = (Key::new("RS256", "one"), Key::new("RS256", "one"));
    let site = Site::with_keys(&[&key]).await;
    assert_eq!(site.refusal(&stranger.pass()).await, Some(Refusal::WrongSignature));
}

/// The authorizer took it.
#[tokio::test]
async fn rs512_with_the_right_rsa_key_is_refused() {
    let key = Key::new("RS256", "one");
    let site = Site::with_keys(&[&key]).await;
    let named = key.sign_rs512(&json!({"alg": "RS512", "kid": "one", "typ": "JWT"}), &claims());
    assert_eq!(site.refusal(&named).await, Some(Refusal::WrongAlgorithm));
    let under_another_name = key.sign_rs512(&key.header(), &claims());
    assert_eq!(site.refusal(&under_another_name).await, Some(Refusal::WrongSignature));
}

/// The authorizer read one key for the life of its container.
#[tokio::test]
async fn the_key_is_found_by_kid_and_a_new_one_is_fetched() {
    let (first, second) = (Key::new("RS256", "first"), Key::new("RS256", "second"));
    let site = Site::with_keys(&[&first]).await;
    assert!(site.verify(&first.pass()).await.is_ok());
    site.server.answer_with(crate::support::Answer::Body(crate::support::key_set(&[&first, &second])));
    site.clock.advance(5);
    assert!(site.verify(&second.pass()).await.is_ok());
    assert!(site.verify(&first.pass()).await.is_ok());
}

#[tokio::test]
async fn nbf_has_60_seconds_of_leeway() {
    let key = Key::ed("one");
    let site = Site::with_keys(&[&key]).await;
    let token = |nbf: u64| key.sign(&claims_with(&json!({ "nbf": nbf })));
    assert!(site.verify(&token(NOW + 60)).await.is_ok());
    assert_eq!(site.refusal(&token(NOW + 61)).await, Some(Refusal::NotYetValid));
}

/// The authorizer's answer was kept for five minutes, so a pass went on after its end.
#[tokio::test]
async fn exp_has_no_leeway_and_no_answer_is_kept_beyond_it() {
    let key = Key::ed("one");
    let site = Site::with_keys(&[&key]).await;
    let token = key.sign(&claims_with(&json!({"exp": NOW + 20})));
    site.clock.advance(19);
    assert!(site.verify(&token).await.is_ok());
    site.clock.advance(1);
    assert_eq!(site.refusal(&token).await, Some(Refusal::Expired));
}

#[tokio::test]
async fn aud_must_be_the_event() {
    let key = Key::ed("one");
    let site = Site::with_keys(&[&key]).await;
    let token = key.sign(&claims_with(&json!({"aud": "Other"})));
    assert_eq!(site.refusal(&token).await, Some(Refusal::WrongRoom));
}

#[tokio::test]
async fn iss_must_be_the_configured_issuer() {
    let key = Key::ed("one");
    let site = Site::with_keys(&[&key]).await;
    let token = key.sign(&claims_with(&json!({"iss": format!("{ISSUER}.elsewhere.example.com")})));
    assert_eq!(site.refusal(&token).await, Some(Refusal::WrongIssuer));
}

#[tokio::test]
async fn token_use_must_be_access() {
    let key = Key::ed("one");
    let site = Site::with_keys(&[&key]).await;
    for token_use in ["refresh", "id"] {
        let token = key.sign(&claims_with(&json!({ "token_use": token_use })));
        assert_eq!(site.refusal(&token).await, Some(Refusal::NotAnAccessToken), "{token_use}");
    }
}
