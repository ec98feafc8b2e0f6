//! Who may call the private listener: health is open, everything else needs the admin key, and nobody learns more by guessing.

use anteroom_testkit::{Client, Request, Server, aws};
use serde_json::json;

use crate::support::BINARY;

fn start() -> Server {
    Server::builder(BINARY).memory().start().expect("the server starts")
}

#[test]
fn health_is_open_and_metrics_need_the_key() {
    let server = start();
    let mut anonymous = Client::new(server.private());
    for path in ["/livez", "/readyz"] {
        assert_eq!(anonymous.get(path).unwrap().status, 200, "{path}");
    }
    assert_eq!(anonymous.get("/metrics").unwrap().status, 401);
    let mut line = server.line("Sample");
    line.join();
    let metrics = line.operator.get("/metrics").unwrap();
    assert_eq!(metrics.status, 200);
    let content_type = metrics.header("Content-Type").unwrap_or_default();
    assert!(
        content_type.starts_with("text/plain") || content_type.starts_with("application/openmetrics-text")
    );
    let text = metrics.text();
    assert!(text.contains("# TYPE anteroom_") && text.contains("anteroom_passes_signed"), "{text}");
    // What is for operators is not on the public listener.
    assert_eq!(server.visitor().with_bearer(server.admin_key()).get("/metrics").unwrap().status, 404);
}

#[test]
fn the_private_listener_refuses_everybody_without_the_key() {
    let server = start();
    let mut line = server.line("Sample");
    let ids = line.join_many(2);
    line.advance(1);
    assert_eq!(line.claim(&ids[0]).status, 200);
    let before = line.figures();
    let key = server.admin_key();
    let wrong = [
        None,
        Some(String::new()),
        Some("Bearer".to_owned()),
        Some("Bearer ".to_owned()),
        Some("Bearer wrong".to_owned()),
        Some(format!("Bearer {}", &key[..key.len() - 1])),
        Some(format!("Bearer {key}x")),
        Some(format!("Bearer {}", key.to_uppercase())),
        Some(format!("Basic {key}")),
        Some(format!("Bearer {key}, Bearer {key}")),
        Some(format!("Bearer {}", line.tokens(&ids[0])[0])),
    ];
    let mut anonymous = Client::new(server.private());
    for authorization in wrong {
        for (method, path) in aws::PRIVATE_ROUTES.into_iter().chain([("GET", "/metrics")]) {
            // Everything but the key is as it should be.
            let query = [("event_id", "Sample"), ("request_id", ids[0].as_str())];
            let body = json!({ "event_id": "Sample", "request_id": ids[0], "increment_by": 9, "status": 1 });
            let mut request = Request::new(method, &aws::target(path, &query)).body(body.to_string());
            if let Some(value) = &authorization {
                request = request.header("Authorization", value);
            }
            let answer = anonymous.send(&request).unwrap();
            assert_eq!(answer.status, 401, "{method} {path} {authorization:?}: {answer:?}");
            assert!(answer.error().len() > 5, "{answer:?}");
            assert!(
                answer.header("WWW-Authenticate").is_some(),
                "a 401 says how to authenticate: {answer:?}"
            );
        }
    }
    assert_eq!(line.figures(), before);
    // The scheme's name is not case-sensitive.
    let lower = Request::new("GET", "/num_active_tokens?event_id=Sample")
        .header("Authorization", &format!("bearer {key}"));
    assert_eq!(anonymous.send(&lower).unwrap().status, 200);
}

#[test]
fn without_an_admin_key_the_private_calls_are_closed_to_everybody() {
    let server = Server::builder(BINARY).memory().without_env("ANTEROOM_ADMIN_KEY").start().unwrap();
    let mut anonymous = Client::new(server.private());
    let empty = Request::new("GET", "/num_active_tokens?event_id=Sample").header("Authorization", "Bearer ");
    assert_eq!(anonymous.send(&empty).unwrap().status, 401);
    assert_eq!(anonymous.get("/num_active_tokens?event_id=Sample").unwrap().status, 401);
    assert_eq!(anonymous.get("/livez").unwrap().status, 200);
}
