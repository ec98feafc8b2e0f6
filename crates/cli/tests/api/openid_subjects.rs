//! Sites that know their visitors by OpenID alone say that a visit is over by the subject that their client was told.

use std::sync::Arc;

use anteroom_admission::openid::OpenIdClients;
use anteroom_admission::openid::clients::ClientTerms;
use anteroom_core::{RoomId, UnixMillis};
use anteroom_store::{EmbeddedStore, SystemClock};
use anteroom_testkit::{Answer, Request, Server, aws};
use anteroom_tokens::{MasterSecrets, OpenIdSubjects, RequestIds, request_id};
use serde_json::json;

use crate::support::BINARY;

/// A server with a room that has a client of the OpenID provider.
async fn start() -> Server {
    let mut server = Server::builder(BINARY).start().expect("the server starts");
    let settings = json!({"settings": {}}).to_string();
    let request =
        Request::new("PUT", "/rooms/Shop").header("Content-Type", "application/json").body(settings);
    let made = server.operator().send(&request).expect("an answer");
    assert_eq!(made.status, 201, "{made:?}");
    server.terminate().expect("the server stops");
    let store = EmbeddedStore::open(&server.data_directory(), Arc::new(SystemClock)).expect("its store");
    let clients = OpenIdClients::open(Arc::new(store)).await.expect("the clients");
    let terms = ClientTerms {
        id: Some("site".into()),
        redirect_addresses: vec!["https://shop.example/callback".into()],
        ..ClientTerms::default()
    };
    clients.create(&room(), terms, "test", UnixMillis(0)).await.expect("a client");
    drop(clients);
    server.restart().expect("the server starts again");
    server
}

fn room() -> RoomId {
    RoomId::parse("Shop").expect("a room id")
}

/// How the client knows the visitor of a ticket.
fn subject_of(server: &Server, id: &str) -> String {
    let secrets = MasterSecrets::parse(server.secret()).expect("the master secret");
    let id = request_id::parse(id).expect("a request id");
    let ticket = RequestIds::new(&secrets, &room()).open(id, |_| true).expect("a ticket");
    OpenIdSubjects::new(&secrets, &room(), "site").seal(&ticket).to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_visit_is_ended_by_the_subject_that_a_client_was_told() {
    let server = start().await;
    let (mut line, mut operator) = (server.line("Shop"), server.operator());
    let visitors: Vec<String> = (0..3).map(|_| line.join()).collect();
    line.advance(3);
    for id in &visitors {
        line.tokens(id);
    }
    let [one, two, three] = [0, 1, 2].map(|index: usize| subject_of(&server, &visitors[index]));
    let status = |result: anyhow::Result<Answer>| result.expect("an answer").status;

    assert_eq!(status(aws::update_session(&mut operator, "Shop", &one, 1)), 200);
    assert_eq!(status(aws::update_session(&mut operator, "Shop", &one, 1)), 404, "a visit ends once");
    assert_eq!(
        status(aws::update_session(&mut operator, "Shop", &visitors[0], 1)),
        404,
        "it is the same visit"
    );

    let path = |subject: &str| format!("/rooms/Shop/visits/{subject}");
    let ended = operator.post(&path(&two), &json!({"command": "abandon"})).expect("an answer");
    assert_eq!((ended.status, &ended.json()["status"]), (200, &json!("abandoned")), "{ended:?}");
    let visit = ended.json()["visit"].as_str().expect("a name").to_owned();
    assert!(visit.ends_with("-2"), "the visit by its name: {visit}");
    assert_eq!(status(operator.post(&path(&two), &json!({"command": "abandon"}))), 410);

    // What is no subject of a client of this room changes nothing.
    let unknown = "AAAAAAAAAAAAAAAAAAAAAA";
    assert_eq!(status(aws::update_session(&mut operator, "Shop", unknown, 1)), 404);
    assert_eq!(status(operator.post(&path(unknown), &json!({"command": "complete"}))), 410);
    for malformed in ["AAAAAAAAAAAAAAAAAAAAAB", &three[1..], "AAAAAAAAAAAAAAAAAAAA%3D"] {
        assert_eq!(status(aws::update_session(&mut operator, "Shop", malformed, 1)), 400, "{malformed}");
        assert_eq!(
            status(operator.post(&path(malformed), &json!({"command": "complete"}))),
            400,
            "{malformed}"
        );
    }
    let active = aws::num_active_tokens(&mut operator, "Shop").expect("an answer");
    assert_eq!(active.json()["active_tokens"], 1, "{active:?}");
    assert_eq!(status(aws::update_session(&mut operator, "Shop", &three, -1)), 200);
}
