//! How the keys get here, how long they are good, and what a site notices when they do not come.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use anteroom_guard::{
    BoxError, FetchError, Guard, HttpFetcher, KEY_SET_MAX_BYTES, KEYS_WAITING_MAX, Pass, Refusal,
};
use rcgen::{CertificateParams, KeyPair};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};

use crate::support::{
    Answer, ISSUER, Key, KeyServer, NOW, ROOM, Site, TestClock, claims_with, key_set, wait_until,
};

#[tokio::test]
async fn many_first_requests_at_once_cause_one_fetch() {
    let key = Key::ed("one");
    let site = Site::new(KeyServer::start(Answer::Held(key_set(&[&key]))).await, |builder| builder);
    let token = key.pass();
    let mut requests = JoinSet::new();
    for _ in 0..200 {
        let (guard, token) = (site.guard.clone(), token.clone());
        requests.spawn(async move { guard.verify(&token).await });
    }
    wait_until("the fetch has begun", || site.server.requests() == 1).await;
    site.server.release();
    let answers = requests.join_all().await;
    assert!(answers.iter().all(Result::is_ok));
    assert_eq!(site.server.requests(), 1);
}

#[tokio::test]
async fn keys_fetched_before_the_first_visitor_are_there_for_all() {
    let key = Key::ed("one");
    let site = Site::with_keys(&[&key]).await;
    assert_eq!(site.guard.key_status().age, None);
    assert_eq!(site.guard.fetch_keys().await, Ok(()));
    assert_eq!(site.guard.fetch_keys().await, Ok(()), "they are new enough");
    assert!(site.verify(&key.pass()).await.is_ok());
    let status = site.guard.key_status();
    assert_eq!((status.keys, status.usable, status.last_error), (1, true, None));
    assert_eq!(site.server.requests(), 1);
}

#[tokio::test]
async fn a_slow_fetch_holds_up_no_request_whose_key_is_cached() {
    let key = Key::ed("one");
    let site = Site::with_keys(&[&key]).await;
    let token = key.pass();
    assert!(site.verify(&token).await.is_ok());
    site.server.answer_with(Answer::Held(key_set(&[&key])));
    site.clock.advance(300);
    for _ in 0..50 {
        assert!(site.verify(&token).await.is_ok());
    }
    wait_until("the fetch is in flight", || site.server.requests() == 2).await;
    for _ in 0..50 {
        assert!(site.verify(&token).await.is_ok());
    }
    assert_eq!(site.guard.key_status().age, Some(Duration::from_mins(5)));
    site.server.release();
    wait_until("the new set is there", || site.guard.key_status().age == Some(Duration::ZERO)).await;
    assert!(site.verify(&token).await.is_ok());
    assert_eq!(site.server.requests(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rotation_while_requests_flow_refuses_nobody() {
    let (old, new) = (Key::ed("old"), Key::new("ES256", "new"));
    let site = Site::with_keys(&[&old]).await;
    let stop = Arc::new(AtomicBool::new(false));
    let verified = Arc::new(AtomicUsize::new(0));
    let mut visitors = JoinSet::new();
    for _ in 0..4 {
        let (guard, stop, verified, token) =
            (site.guard.clone(), Arc::clone(&stop), Arc::clone(&verified), old.pass());
        visitors.spawn(async move {
            while !stop.load(Ordering::SeqCst) {
                guard.verify(&token).await.expect("an old pass is good until its key is gone");
                verified.fetch_add(1, Ordering::SeqCst);
                tokio::task::yield_now().await;
            }
        });
    }
    let some_more = async || {
        let before = verified.load(Ordering::SeqCst);
        wait_until("requests flow", || verified.load(Ordering::SeqCst) > before + 20).await;
    };
    some_more().await;
    // The new key is announced and signs at once, which is sooner than the server does it.
    site.server.answer_with(Answer::Body(key_set(&[&old, &new])));
    site.clock.advance(5);
    assert!(site.verify(&new.pass()).await.is_ok());
    some_more().await;
    assert_eq!((site.server.requests(), site.guard.key_status().keys), (2, 2));
    stop.store(true, Ordering::SeqCst);
    visitors.join_all().await;
    // The old one retires: the next refresh forgets it.
    site.server.answer_with(Answer::Body(key_set(&[&new])));
    site.clock.advance(300);
    assert!(site.verify(&new.pass()).await.is_ok());
    wait_until("the old key is forgotten", || site.guard.key_status().keys == 1).await;
    assert_eq!(site.refusal(&old.pass()).await, Some(Refusal::UnknownKey));
    assert!(site.verify(&new.pass()).await.is_ok());
}

#[tokio::test]
async fn unknown_keys_have_the_set_fetched_at_most_once_in_five_seconds() {
    let (key, stranger) = (Key::ed("one"), Key::ed("stranger"));
    let site = Site::with_keys(&[&key]).await;
    assert!(site.verify(&key.pass()).await.is_ok());
    let unknown = |number: u64| Key::ed(&format!("unknown-{number}")).pass();
    for round in 1..=3 {
        for number in 0..30 {
            assert_eq!(site.refusal(&unknown(number)).await, Some(Refusal::UnknownKey));
        }
        assert_eq!(site.server.requests(), round, "the first was fetched less than five seconds ago");
        site.clock.advance(4);
        assert_eq!(site.refusal(&stranger.pass()).await, Some(Refusal::UnknownKey));
        assert_eq!(site.server.requests(), round);
        site.clock.advance(1);
        assert_eq!(site.refusal(&stranger.pass()).await, Some(Refusal::UnknownKey));
        assert_eq!(site.server.requests(), round + 1);
    }
    assert!(site.verify(&key.pass()).await.is_ok());
}

#[tokio::test]
async fn a_token_that_would_be_refused_anyway_has_nothing_fetched() {
    let (key, stranger) = (Key::ed("one"), Key::ed("stranger"));
    let site = Site::with_keys(&[&key]).await;
    for change in [
        json!({"aud": "Other"}),
        json!({"iss": "https://login.example.com"}),
        json!({"exp": NOW}),
        json!({"token_use": "id"}),
    ] {
        assert!(site.verify(&stranger.sign(&claims_with(&change))).await.is_err());
    }
    assert_eq!(site.server.requests(), 0);
}

#[tokio::test]
async fn cached_keys_are_good_for_the_stated_time_while_the_server_is_down_and_then_refused_as_unavailable() {
    let key = Key::ed("one");
    let server = KeyServer::with_keys(&[&key]).await;
    let site = Site::new(server, |builder| builder.stale_max(Duration::from_mins(20)));
    let token = key.sign(&claims_with(&json!({"exp": NOW + 100_000})));
    assert!(site.verify(&token).await.is_ok());
    site.server.answer_with(Answer::HangUp);
    for _ in 0..4 {
        site.clock.advance(300);
        let before = site.server.requests();
        assert!(site.verify(&token).await.is_ok());
        wait_until("a refresh was tried", || site.server.requests() > before).await;
        wait_until("it failed", || site.guard.key_status().last_error.is_some()).await;
    }
    // Of a key that is not cached nobody knows now whether there is one.
    assert_eq!(site.refusal(&Key::ed("new").pass()).await, Some(Refusal::KeysUnavailable));
    site.clock.advance(1);
    let status = site.guard.key_status();
    assert_eq!((status.usable, status.age), (false, Some(Duration::from_secs(1_201))));
    assert_eq!(site.refusal(&token).await, Some(Refusal::KeysUnavailable));
    site.server.answer_with(Answer::Body(key_set(&[&key])));
    site.clock.advance(1);
    assert!(site.verify(&token).await.is_ok(), "a second later it is tried again");
}

#[tokio::test]
async fn without_any_keys_a_token_is_refused_as_unavailable_and_the_server_is_asked_once_a_second() {
    let key = Key::ed("one");
    let site = Site::new(KeyServer::start(Answer::Status(503)).await, |builder| builder);
    for _ in 0..20 {
        assert_eq!(site.refusal(&key.pass()).await, Some(Refusal::KeysUnavailable));
    }
    assert_eq!(site.server.requests(), 1);
    let error = site.guard.fetch_keys().await.unwrap_err();
    assert!(matches!(&error, FetchError::Failed(text) if text.contains("503")), "{error}");
    site.server.answer_with(Answer::Body(key_set(&[&key])));
    site.clock.advance(1);
    assert!(site.verify(&key.pass()).await.is_ok());
    assert_eq!(site.server.requests(), 2);
}

#[tokio::test]
async fn a_key_set_that_is_slow_huge_garbage_or_empty_is_refused_and_the_cached_one_kept() {
    let key = Key::ed("one");
    let timeout = Duration::from_millis(200);
    let padded = |bytes: usize| {
        let set = key_set(&[&key]);
        format!("{}{set}", " ".repeat(bytes - set.len()))
    };
    let secret = json!({"keys": [{"kty": "oct", "kid": "one", "alg": "HS256", "k": "c2VjcmV0"}]}).to_string();
    for (answer, expected) in [
        (Answer::Held(String::new()), FetchError::TimedOut(timeout)),
        (Answer::Endless, FetchError::TooLarge),
        (Answer::Body(padded(KEY_SET_MAX_BYTES + 1)), FetchError::TooLarge),
        (Answer::Body("<html>Sign in</html>".into()), FetchError::NotAKeySet),
        (Answer::Body("{\"keys\":[".into()), FetchError::NotAKeySet),
        (Answer::Body("{\"keys\":[]}".into()), FetchError::NoUsableKey),
        (Answer::Body(secret), FetchError::NoUsableKey),
    ] {
        // The clock of the timeout is the real one; a machine under load may need longer for what is not slow.
        let is_slow = matches!(answer, Answer::Held(_));
        let fetch_timeout = if is_slow { timeout } else { Duration::from_mins(1) };
        let site =
            Site::new(KeyServer::start(answer.clone()).await, |builder| builder.fetch_timeout(fetch_timeout));
        assert_eq!(site.refusal(&key.pass()).await, Some(Refusal::KeysUnavailable));
        assert_eq!(site.guard.key_status().last_error.as_ref(), Some(&expected));
        site.server.answer_with(Answer::Body(padded(KEY_SET_MAX_BYTES)));
        site.clock.advance(1);
        assert!(site.verify(&key.pass()).await.is_ok(), "exactly the largest");
        site.server.answer_with(answer);
        site.clock.advance(300);
        assert!(site.verify(&key.pass()).await.is_ok());
        wait_until("the refresh has failed", || {
            site.guard.key_status().last_error.as_ref() == Some(&expected)
        })
        .await;
        assert!(site.verify(&key.pass()).await.is_ok(), "the cached set is kept");
    }
}

#[tokio::test]
async fn an_error_page_and_a_redirect_are_no_key_set() {
    for status in [204, 301, 302, 404, 500] {
        let site = Site::new(KeyServer::start(Answer::Status(status)).await, |builder| builder);
        let error = site.guard.fetch_keys().await.unwrap_err().to_string();
        assert!(error.contains(&status.to_string()), "{error}");
    }
}

#[tokio::test]
async fn a_request_that_is_given_up_does_not_end_the_fetch_for_the_others() {
    let key = Key::ed("one");
    let site = Site::new(KeyServer::start(Answer::Held(key_set(&[&key]))).await, |builder| builder);
    let (guard, token) = (site.guard.clone(), key.pass());
    let first = tokio::task::spawn(async move { guard.verify(&token).await });
    wait_until("the fetch has begun", || site.server.requests() == 1).await;
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    site.server.release();
    assert!(site.verify(&key.pass()).await.is_ok());
    assert_eq!(site.server.requests(), 1);
}

#[tokio::test]
async fn more_requests_than_may_wait_are_refused_at_once() {
    let key = Key::ed("one");
    let site = Site::new(KeyServer::start(Answer::Held(key_set(&[&key]))).await, |builder| builder);
    let token: Arc<str> = key.pass().into();
    let refused = Arc::new(AtomicUsize::new(0));
    let mut requests = JoinSet::new();
    for _ in 0..KEYS_WAITING_MAX + 10 {
        let (guard, token, refused) = (site.guard.clone(), Arc::clone(&token), Arc::clone(&refused));
        requests.spawn(async move {
            let result = guard.verify(&token).await;
            refused.fetch_add(usize::from(result.is_err()), Ordering::SeqCst);
            result
        });
    }
    wait_until("ten are refused", || refused.load(Ordering::SeqCst) == 10).await;
    site.server.release();
    let answers: Vec<Result<Pass, Refusal>> = requests.join_all().await;
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), KEYS_WAITING_MAX);
    assert_eq!(answers.iter().filter(|answer| **answer == Err(Refusal::KeysUnavailable)).count(), 10);
}

#[tokio::test]
async fn a_site_may_fetch_the_keys_by_its_own_client() {
    let key = Key::ed("one");
    let fetches = Arc::new(AtomicUsize::new(0));
    let (set, counted) = (key_set(&[&key]), Arc::clone(&fetches));
    let fetch = move || {
        let set = set.clone();
        let number = counted.fetch_add(1, Ordering::SeqCst);
        async move {
            match number {
                0 => Err(BoxError::from("the proxy is down")),
                1 => panic!("a fault in the client"),
                2 => Ok(" ".repeat(KEY_SET_MAX_BYTES + 1)),
                _ => Ok(set),
            }
        }
    };
    let clock = Arc::new(TestClock::default());
    let guard = Guard::builder(ISSUER).room(ROOM).fetcher(fetch).clock(clock.clone()).build().unwrap();
    let failed = FetchError::Failed("the proxy is down".into());
    assert_eq!(guard.fetch_keys().await, Err(failed));
    for expected in [FetchError::NoRuntime, FetchError::TooLarge] {
        clock.advance(1);
        assert_eq!(guard.verify(&key.pass()).await, Err(Refusal::KeysUnavailable));
        assert_eq!(guard.key_status().last_error, Some(expected));
    }
    clock.advance(1);
    assert!(guard.verify(&key.pass()).await.is_ok());
    assert_eq!(fetches.load(Ordering::SeqCst), 4);
}

#[test]
fn a_fetch_that_ends_with_its_runtime_is_begun_again_on_another() {
    let key = Key::ed("one");
    let set = key_set(&[&key]);
    let is_first = Arc::new(AtomicBool::new(true));
    let fetch = move || {
        let (set, hangs) = (set.clone(), is_first.swap(false, Ordering::SeqCst));
        async move {
            if hangs {
                std::future::pending::<()>().await;
            }
            Ok::<_, BoxError>(set)
        }
    };
    let clock = Arc::new(TestClock::default());
    let guard = Guard::builder(ISSUER).room(ROOM).fetcher(fetch).clock(clock.clone()).build().unwrap();
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let first = runtime();
    let (waiting, token) = (guard.clone(), key.pass());
    let request = first.spawn(async move { waiting.verify(&token).await });
    first.block_on(tokio::task::yield_now());
    drop((first, request));
    clock.advance(1);
    assert!(runtime().block_on(guard.verify(&key.pass())).is_ok());
}

#[tokio::test]
async fn keys_come_over_tls_from_a_server_whose_certificate_is_trusted_and_from_no_other() {
    let key = Key::ed("one");
    let pair = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(["localhost".to_owned()]).unwrap().self_signed(&pair).unwrap();
    let provider = Arc::new(aws_lc_rs::default_provider());
    let server = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], pair.into())
        .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(server));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("https://localhost:{}/keys", listener.local_addr().unwrap().port());
    let set = key_set(&[&key]);
    tokio::task::spawn(async move {
        loop {
            let Ok((socket, _)) = listener.accept().await else { continue };
            let Ok(mut socket) = acceptor.accept(socket).await else { continue };
            let _ = socket.read(&mut [0; 4_096]).await;
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", set.len());
            let _ = socket.write_all(format!("{head}{set}").as_bytes()).await;
        }
    });
    let guard = |roots: RootCertStore| {
        let tls = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let fetcher = HttpFetcher::with_tls(&address, tls).unwrap();
        let clock = Arc::new(TestClock::default());
        Guard::builder(ISSUER).room(ROOM).fetcher(fetcher).clock(clock).build().unwrap()
    };
    let mut roots = RootCertStore::empty();
    let error = guard(roots.clone()).fetch_keys().await.unwrap_err().to_string();
    assert!(error.contains("certificate"), "{error}");
    roots.add(certificate.der().clone()).unwrap();
    assert!(guard(roots).verify(&key.pass()).await.is_ok());
}
