//! Tokens in requests, and what refused ones are answered with; under axum and under plain hyper.

use std::convert::Infallible;
use std::time::Duration;

use anteroom_guard::{Guard, GuardLayer, Pass, Refusal, TOKENS_MAX, TokenPlace, WaitingPage};
use axum::body::Body;
use axum::routing::get;
use axum::{Extension, Router};
use bytes::Bytes;
use http::header::{self, HeaderMap};
use http::{Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt as _, Empty, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::service::TowerToHyperService;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tower::{Layer as _, ServiceExt as _, service_fn};

use crate::support::{Answer, Key, KeyServer, NOW, Site, claims_with};

const SITE: &str = "https://shop.example.com";

/// A request with these headers.
fn request(method: &str, uri: &str, headers: &[(&str, &str)]) -> Request<Body> {
    let mut request = Request::builder().method(method).uri(uri);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(Body::empty()).unwrap()
}

fn app(layer: GuardLayer) -> Router {
    let greet =
        |Extension(pass): Extension<Pass>| async move { format!("{} of {}", pass.queue_position, pass.room) };
    Router::new().route("/", get(greet).post(greet)).route("/seats", get(greet)).layer(layer)
}

async fn answer(layer: &GuardLayer, request: Request<Body>) -> (StatusCode, HeaderMap, String) {
    let response = app(layer.clone()).oneshot(request).await.unwrap();
    let (head, body) = response.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    (head.status, head.headers, String::from_utf8(body.to_vec()).unwrap())
}

async fn site_with_places(key: &Key, places: &[TokenPlace]) -> Site {
    let server = KeyServer::with_keys(&[key]).await;
    Site::new(server, |builder| builder.tokens_in(places.iter().cloned()))
}

#[tokio::test]
async fn a_token_is_found_in_each_place_that_was_named_and_in_no_other() {
    let key = Key::ed("one");
    let token = key.pass();
    let places = [
        TokenPlace::Bearer,
        TokenPlace::cookie_of_room("Sale"),
        TokenPlace::Query("pass".into()),
        TokenPlace::Header("x-pass".parse().unwrap()),
    ];
    let requests = || {
        [
            request("GET", "/", &[("authorization", &format!("bearer  {token}"))]),
            request("GET", "/", &[("cookie", &format!("a=b; anteroom_pass_Sale={token}; c=d"))]),
            request("GET", &format!("/?q=row&pass={token}&page=2"), &[]),
            request("GET", "/", &[("x-pass", &token)]),
        ]
    };
    for (at, place) in places.iter().enumerate() {
        let site = site_with_places(&key, std::slice::from_ref(place)).await;
        for (other, request) in requests().into_iter().enumerate() {
            let (status, _, body) = answer(&GuardLayer::new(site.guard.clone()), request).await;
            let expected = if at == other { StatusCode::OK } else { StatusCode::UNAUTHORIZED };
            assert_eq!(status, expected, "{place:?}, {other}: {body}");
        }
    }
    let everywhere = site_with_places(&key, &places).await;
    for request in requests() {
        let (status, _, body) = answer(&GuardLayer::new(everywhere.guard.clone()), request).await;
        assert_eq!((status, body.as_str()), (StatusCode::OK, "42 of Sale"));
    }
}

#[tokio::test]
async fn the_first_good_token_counts_and_of_many_only_a_few_are_tried() {
    let key = Key::ed("one");
    let site = site_with_places(&key, &[TokenPlace::Bearer, TokenPlace::Cookie("pass".into())]).await;
    let expired = key.sign(&claims_with(&json!({"exp": NOW})));
    let with_cookies = |cookies: &[&str]| {
        let cookies: Vec<String> = cookies.iter().map(|token| format!("pass={token}")).collect();
        let cookies = cookies.join("; ");
        request("GET", "/", &[("authorization", &format!("Bearer {expired}")), ("cookie", &cookies)])
    };
    let good = key.pass();
    let verify = async |request: Request<Body>| site.guard.verify_request(&request.map(|_| ())).await;
    assert!(verify(with_cookies(&["old", &good])).await.is_ok());
    assert_eq!(verify(with_cookies(&["old", "older"])).await, Err(Refusal::Expired), "the first reason");
    let mut many = vec!["old"; TOKENS_MAX - 1];
    many.push(&good);
    assert_eq!(verify(with_cookies(&many)).await, Err(Refusal::Expired));
}

#[tokio::test]
async fn two_authorization_headers_name_no_token() {
    let key = Key::ed("one");
    let site = Site::with_keys(&[&key]).await;
    let bearer = format!("Bearer {}", key.pass());
    let twice = request("GET", "/", &[("authorization", &bearer), ("authorization", &bearer)]);
    assert_eq!(site.guard.verify_request(&twice.map(|_| ())).await, Err(Refusal::Missing));
    let basic = request("GET", "/", &[("authorization", "Basic dXNlcjpwYXNz")]);
    assert_eq!(site.guard.verify_request(&basic.map(|_| ())).await, Err(Refusal::Missing));
}

#[tokio::test]
async fn without_a_good_pass_a_program_gets_401_with_a_challenge_that_may_not_be_cached() {
    let key = Key::ed("one");
    let site = Site::with_keys(&[&key]).await;
    let layer = GuardLayer::new(site.guard.clone());
    let expired = format!("Bearer {}", key.sign(&claims_with(&json!({"exp": NOW}))));
    let (status, headers, body) = answer(&layer, request("GET", "/", &[("authorization", &expired)])).await;
    assert_eq!(status, StatusCode::UNAUTHORIZED);
    assert_eq!(
        headers[header::WWW_AUTHENTICATE],
        "Bearer realm=\"Sale\", error=\"invalid_token\", error_description=\"the pass has expired\""
    );
    assert_eq!(headers[header::CACHE_CONTROL], "no-store");
    assert_eq!(headers[header::CONTENT_TYPE], "application/problem+json");
    let problem: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(problem, json!({"title": "Unauthorized", "status": 401, "detail": "the pass has expired"}));
    // Also for a page, where no waiting page was named.
    let page = request("GET", "/", &[("accept", "text/html")]);
    assert_eq!(answer(&layer, page).await.0, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn a_visitor_who_opens_a_page_is_sent_to_the_waiting_page_and_comes_back_to_it() {
    let key = Key::ed("one");
    let site = site_with_places(&key, &[TokenPlace::Query("pass".into())]).await;
    let layer = GuardLayer::new(site.guard.clone()).redirect_to(WaitingPage::of_room(format!("{SITE}/")));
    let location = async |layer: &GuardLayer, uri: &str| {
        let (status, headers, _) =
            answer(layer, request("GET", uri, &[("accept", "text/html,*/*;q=0.8")])).await;
        assert_eq!(
            (status, &headers[header::CACHE_CONTROL].to_str().unwrap()),
            (StatusCode::SEE_OTHER, &"no-store")
        );
        headers[header::LOCATION].to_str().unwrap().to_owned()
    };
    let wait = "https://wait.example.com/.anteroom/wait/Sale?return=https%3A%2F%2Fshop.example.com%2Fseats";
    assert_eq!(location(&layer, "/seats").await, wait);
    assert_eq!(location(&layer, "/seats?row=1&x=%C3%A4").await, format!("{wait}%3Frow%3D1%26x%3D%25C3%25A4"));
    // Neither a pass that has expired nor a used code comes back.
    assert_eq!(location(&layer, "/seats?pass=old").await, wait);
    assert_eq!(location(&layer, "/seats?anteroom_code=used&row=1&pass=a").await, format!("{wait}%3Frow%3D1"));
    let page = WaitingPage::of_room(SITE).room("Vip").return_to("https://shop.example.com/vip");
    let vip = GuardLayer::new(site.guard.clone()).redirect_to(page);
    let expected = "https://wait.example.com/.anteroom/wait/Vip?return=https%3A%2F%2Fshop.example.com%2Fvip";
    assert_eq!(location(&vip, "/seats").await, expected);
    let page = WaitingPage::of_room(SITE).address("https://queue.example.com/wait/Sale");
    let elsewhere = GuardLayer::new(site.guard.clone()).redirect_to(page);
    assert!(
        location(&elsewhere, "/").await.starts_with("https://queue.example.com/wait/Sale?return=https%3A")
    );
}

#[tokio::test]
async fn what_opens_no_page_gets_401_and_no_redirect() {
    let key = Key::ed("one");
    let site = Site::with_keys(&[&key]).await;
    let layer = GuardLayer::new(site.guard.clone()).redirect_to(WaitingPage::of_room(SITE));
    let html = ("accept", "text/html");
    let navigates = ("sec-fetch-mode", "navigate");
    for (method, headers, expected) in [
        ("GET", vec![html], StatusCode::SEE_OTHER),
        ("GET", vec![navigates, ("sec-fetch-dest", "document")], StatusCode::SEE_OTHER),
        ("GET", vec![], StatusCode::UNAUTHORIZED),
        ("GET", vec![("accept", "application/json")], StatusCode::UNAUTHORIZED),
        (
            "GET",
            vec![html, ("sec-fetch-mode", "cors"), ("sec-fetch-dest", "empty")],
            StatusCode::UNAUTHORIZED,
        ),
        ("GET", vec![html, navigates, ("sec-fetch-dest", "iframe")], StatusCode::UNAUTHORIZED),
        ("POST", vec![html, navigates, ("sec-fetch-dest", "document")], StatusCode::UNAUTHORIZED),
        ("HEAD", vec![html], StatusCode::UNAUTHORIZED),
    ] {
        let (status, ..) = answer(&layer, request(method, "/", &headers)).await;
        assert_eq!(status, expected, "{method} {headers:?}");
    }
}

/// The waiting page would give the same pass again, and the visitor would go back and forth.
#[tokio::test]
async fn a_visitor_whom_waiting_does_not_help_is_not_sent_to_the_waiting_page() {
    let key = Key::ed("one");
    let site = Site::with_keys(&[&key]).await;
    site.clock.advance(100);
    let layer = GuardLayer::new(site.guard.clone()).redirect_to(WaitingPage::of_room(SITE));
    for (change, expected) in [
        (json!({"exp": NOW + 50}), StatusCode::SEE_OTHER),
        (json!({"aud": "Other"}), StatusCode::SEE_OTHER),
        (json!({"iat": NOW + 10, "enter_by": NOW + 40}), StatusCode::UNAUTHORIZED),
        (json!({"nbf": NOW + 1_000}), StatusCode::UNAUTHORIZED),
        (json!({"iss": "https://old.example.com"}), StatusCode::UNAUTHORIZED),
    ] {
        let bearer = format!("Bearer {}", key.sign(&claims_with(&change)));
        let page = request("GET", "/", &[("accept", "text/html"), ("authorization", &bearer)]);
        assert_eq!(answer(&layer, page).await.0, expected, "{change}");
    }
}

#[tokio::test]
async fn where_the_keys_are_unavailable_everybody_gets_503_with_retry_after() {
    let key = Key::ed("one");
    let site = Site::new(KeyServer::start(Answer::HangUp).await, |builder| builder);
    let layer = GuardLayer::new(site.guard.clone()).redirect_to(WaitingPage::of_room(SITE));
    let bearer = format!("Bearer {}", key.pass());
    for accept in ["text/html", "application/json"] {
        let page = request("GET", "/", &[("accept", accept), ("authorization", &bearer)]);
        let (status, headers, body) = answer(&layer, page).await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{body}");
        assert_eq!(
            (&headers[header::RETRY_AFTER], &headers[header::CACHE_CONTROL]),
            (&"5".parse().unwrap(), &"no-store".parse().unwrap())
        );
        assert!(!headers.contains_key(header::WWW_AUTHENTICATE));
    }
    // Who has no token at all needs no keys.
    let page = request("GET", "/", &[("accept", "text/html")]);
    assert_eq!(answer(&layer, page).await.0, StatusCode::SEE_OTHER);
}

/// A service as plain hyper has it, behind the layer, over a real connection.
#[tokio::test]
async fn the_layer_guards_a_plain_hyper_server() {
    let key = Key::ed("one");
    let site = Site::with_keys(&[&key]).await;
    let service = service_fn(|request: Request<hyper::body::Incoming>| async move {
        let pass = request.extensions().get::<Pass>().cloned();
        let body = pass.map_or_else(String::new, |pass| pass.subject);
        Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(body))))
    });
    let service = GuardLayer::new(site.guard.clone()).layer(service);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::task::spawn(async move {
        loop {
            let Ok((socket, _)) = listener.accept().await else { continue };
            let service = TowerToHyperService::new(service.clone());
            tokio::task::spawn(async move {
                let builder = hyper::server::conn::http1::Builder::new();
                let _ = builder.serve_connection(TokioIo::new(socket), service).await;
            });
        }
    });
    let client = hyper_util::client::legacy::Client::builder(TokioExecutor::new())
        .build::<_, Empty<Bytes>>(hyper_util::client::legacy::connect::HttpConnector::new());
    let ask = async |bearer: Option<String>| {
        let mut request = Request::new(Empty::new());
        *request.uri_mut() = Uri::try_from(format!("http://{address}/")).unwrap();
        if let Some(bearer) = bearer {
            request.headers_mut().insert(header::AUTHORIZATION, format!("Bearer {bearer}").parse().unwrap());
        }
        let response = tokio::time::timeout(Duration::from_mins(1), client.request(request)).await;
        let response = response.unwrap().unwrap();
        let status = response.status();
        (status, response.into_body().collect().await.unwrap().to_bytes())
    };
    assert_eq!(ask(Some(key.pass())).await, (StatusCode::OK, Bytes::from(crate::support::SUBJECT)));
    assert_eq!(ask(None).await.0, StatusCode::UNAUTHORIZED);
    assert_eq!(ask(Some(format!("{}x", key.pass()))).await.0, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn a_request_can_be_judged_and_answered_without_the_layer() {
    let key = Key::ed("one");
    let site = Site::with_keys(&[&key]).await;
    let headers = HeaderMap::new();
    let uri = Uri::from_static("/seats");
    let refusal = site.guard.verify_parts(&headers, &uri).await.unwrap_err();
    let response: Response<Full<Bytes>> =
        site.guard.response(refusal, &Method::GET, &uri, &headers, Some(&WaitingPage::of_room(SITE)));
    assert_eq!((refusal, response.status()), (Refusal::Missing, StatusCode::UNAUTHORIZED));
}

#[test]
fn no_output_for_developers_holds_a_token() {
    let guard = Guard::builder("http://127.0.0.1").room("Sale").build().unwrap();
    let shown = format!("{guard:?} {:?}", GuardLayer::new(guard.clone()));
    assert!(shown.contains("Sale") && shown.len() < 600, "{shown}");
}
