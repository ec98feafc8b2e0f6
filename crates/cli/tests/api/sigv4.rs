//! "`SigV4`: requests signed by npm's aws4fetch and `PyPI`'s aws-requests-auth and boto's signer accepted unmodified; each of a list of
//! tamperings refused; clock skew refused."
//!
//! The scripts in `sigv4/` are what a user of the AWS waiting room has: the signer, and an address. Nothing of ours is in them.

mod http2;
pub(crate) mod raw;
pub(crate) mod signers;

use anteroom_testkit::{Answer, Request, Server, aws};
use serde_json::{Value, json};

use raw::{KeyPair, RawRequest};
use signers::Signer;

use crate::support::BINARY;

/// In seconds.
const MINUTE: i64 = 60;

fn start() -> Server {
    Server::builder(BINARY).memory().start().expect("the server starts")
}

fn event() -> Value {
    json!({ "event_id": "Sample" })
}

/// The evening of an operator of the AWS waiting room: everything its clients call on the private API.
fn walk(signer: &Signer, session_token: Option<&str>) {
    let server = start();
    let pair = KeyPair::create(&server, "operator");
    let mut line = server.line("Sample");
    let ids = line.join_many(3);
    let call = |calls: Value| signer.call(&server, &pair, session_token, &calls);

    let advanced = call(json!([
        { "method": "POST", "path": "/increment_serving_counter", "body": { "event_id": "Sample", "increment_by": 2 } },
    ]));
    assert_eq!(advanced, [(200, json!({ "serving_num": 2 }))]);
    assert_eq!(line.serving(), 2);
    assert_eq!(line.claim(&ids[0]).status, 200);
    assert_eq!(line.claim(&ids[1]).status, 200);

    let over = json!({ "event_id": "Sample", "request_id": ids[0], "status": 1 });
    let answers = call(json!([
        { "method": "GET", "path": "/num_active_tokens", "query": event() },
        { "method": "GET", "path": "/expired_tokens", "query": event() },
        { "method": "POST", "path": "/update_session", "body": over },
        { "method": "POST", "path": "/update_session", "body": over },
        { "method": "GET", "path": "/num_active_tokens", "query": event() },
        { "method": "GET", "path": "/num_active_tokens", "query": { "event_id": "Grüße & mehr" } },
        { "method": "GET", "path": format!("/rooms/Sample/tickets/{}", ids[2]) },
    ]));
    assert_eq!(answers[0], (200, json!({ "active_tokens": 2 })));
    assert_eq!(answers[1], (200, json!([])));
    assert_eq!(answers[2], (200, json!({})));
    assert_eq!(answers[3].0, 404, "a session ends once: {:?}", answers[3]);
    assert_eq!(answers[4], (200, json!({ "active_tokens": 1 })));
    assert_eq!(answers[5].0, 404, "signed, but no such room: {:?}", answers[5]);
    assert_eq!((answers[6].0, &answers[6].1["position"]), (200, &json!(3)));

    let reset = call(json!([{ "method": "POST", "path": "/reset_initial_state", "body": event() }]));
    assert_eq!(reset[0].0, 200, "{reset:?}");
    assert!(reset[0].1["message"].is_string(), "{reset:?}");
    assert_eq!((line.serving(), line.waiting(), line.active()), (0, 0, 0));

    // With a wrong secret the same calls get nowhere.
    let stranger = KeyPair { secret: KeyPair::create(&server, "viewer").secret, ..pair };
    let refused = signer.call(
        &server,
        &stranger,
        session_token,
        &json!([
            { "method": "POST", "path": "/increment_serving_counter", "body": { "event_id": "Sample", "increment_by": 2 } },
            { "method": "GET", "path": "/num_active_tokens", "query": event() },
        ]),
    );
    for (status, body) in refused {
        assert_eq!(status, 401, "{body}");
        assert!(body["error"].is_string(), "{body}");
    }
    assert_eq!(line.serving(), 0);
}

#[test]
fn aws4fetch_is_accepted_unmodified() {
    let Some(signer) = Signer::aws4fetch() else { return };
    walk(&signer, None);
    walk(&signer, Some("a/session+token=="));
}

#[test]
fn aws_requests_auth_is_accepted_unmodified() {
    let Some(signer) = Signer::aws_requests_auth() else { return };
    walk(&signer, None);
    walk(&signer, Some("a/session+token=="));
}

#[test]
fn botos_signer_is_accepted_unmodified() {
    let Some(signer) = Signer::botocore() else { return };
    walk(&signer, None);
    walk(&signer, Some("a/session+token=="));
}

/// What a real signer can be asked to do and we do not take: each is signed as it should be.
#[test]
fn unsigned_bodies_presigned_urls_and_wrong_clocks_of_a_real_signer_are_refused() {
    let Some(signer) = Signer::aws4fetch() else { return };
    let server = start();
    let pair = KeyPair::create(&server, "operator");
    let mut line = server.line("Sample");
    line.join_many(2);
    let before = line.figures();
    let advance = json!({ "event_id": "Sample", "increment_by": 1 });
    let asked = |headers: Value, aws: Value| json!({ "method": "POST", "path": "/increment_serving_counter", "body": advance, "headers": headers, "aws": aws });
    let unsigned = json!({ "X-Amz-Content-Sha256": "UNSIGNED-PAYLOAD" });
    let at = |offset: i64| json!({ "datetime": raw::timestamp_in(offset) });
    let refused = signer.call(
        &server,
        &pair,
        None,
        &json!([
            asked(unsigned, json!({})),
            asked(json!({}), json!({ "signQuery": true })),
            asked(json!({}), at(-6 * MINUTE)),
            asked(json!({}), at(6 * MINUTE)),
            asked(json!({}), json!({ "service": "s3" })),
        ]),
    );
    for (status, body) in &refused {
        assert!(matches!(status, 401 | 403), "{status} {body}");
        assert!(body["error"].is_string(), "{body}");
    }
    assert_eq!(line.figures(), before);
    // The same clock a little less wrong is accepted, so it was the clock that was refused.
    let accepted = signer.call(
        &server,
        &pair,
        None,
        &json!([asked(json!({}), at(-4 * MINUTE)), asked(json!({}), at(4 * MINUTE))]),
    );
    assert_eq!(accepted, [(200, json!({ "serving_num": 1 })), (200, json!({ "serving_num": 2 }))]);
}

/// A change to a request between its signer and us.
type Tampering = fn(&mut RawRequest);

/// Everything an attacker in between, or a mistaken client, might change. `set` replaces a header after signing.
const TAMPERINGS: [(&str, Tampering); 24] = [
    ("body", |request| request.body = request.body.replace("\"increment_by\":1", "\"increment_by\":9")),
    ("an empty body", |request| request.body.clear()),
    ("a longer body", |request| request.body.push(' ')),
    ("query", |request| request.query.push_str("&b=2")),
    ("a query's value", |request| "a=2".clone_into(&mut request.query)),
    ("no query", |request| request.query.clear()),
    ("path", |request| "/reset_initial_state".clone_into(&mut request.path)),
    ("another spelling of the path", |request| "/%69ncrement_serving_counter".clone_into(&mut request.path)),
    ("a path with dots", |request| "/x/../increment_serving_counter".clone_into(&mut request.path)),
    ("method", |request| "PUT".clone_into(&mut request.method)),
    ("host", |request| request.set("Host", "elsewhere.example")),
    ("one signed header more", |request| {
        request.set("X-Extra", "1");
        request.edit_authorization("host;x-amz-date", "host;x-amz-date;x-extra");
    }),
    ("a signed header that is not there", |request| {
        request.edit_authorization("host;x-amz-date", "host;x-absent;x-amz-date");
    }),
    ("one signed header less", |request| request.edit_authorization("host;x-amz-date", "x-amz-date")),
    ("date", |request| {
        let date = raw::timestamp_in(2);
        request.set("X-Amz-Date", &date);
    }),
    ("no date", |request| request.remove("X-Amz-Date")),
    ("day", |request| {
        let day = raw::timestamp_in(-25 * 60 * MINUTE)[..8].to_owned();
        let scope = request.authorization().find("/20").expect("a credential has a date");
        let signed = request.authorization()[scope..scope + 10].to_owned();
        request.edit_authorization(&signed, &format!("/{day}/"));
    }),
    ("region", |request| request.edit_authorization("/eu-west-1/", "/eu-west-2/")),
    ("service", |request| request.edit_authorization("/execute-api/", "/s3/")),
    ("signature", |request| {
        let last = request.authorization().pop().expect("a signature has digits");
        let other = if last == '0' { '1' } else { '0' };
        let edited = request.authorization();
        request.set("Authorization", &format!("{}{other}", &edited[..edited.len() - 1]));
    }),
    ("no signature", |request| {
        let edited = request.authorization();
        let end = edited.find(", Signature").expect("there is one");
        request.set("Authorization", &edited[..end]);
    }),
    ("key id", |request| request.edit_authorization("Credential=AK", "Credential=AZ")),
    ("an unsigned header of Amazon's", |request| request.set("X-Amz-Security-Token", "anything")),
    ("a declared hash of another body", |request| {
        request
            .set("X-Amz-Content-Sha256", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    }),
];

fn advance_by_one(server: &Server, pair: &KeyPair) -> RawRequest {
    let mut request = RawRequest::new(server, "POST", "/increment_serving_counter?a=1");
    r#"{"event_id":"Sample","increment_by":1}"#.clone_into(&mut request.body);
    request.sign(pair, &["host", "x-amz-date"]);
    request
}

#[track_caller]
fn assert_refused(answer: &Answer, what: &str) {
    assert!(matches!(answer.status, 401 | 403), "{what}: {answer:?}");
    assert!(answer.error().len() > 5, "{what}: {answer:?}");
    assert_eq!(answer.header("Access-Control-Allow-Origin"), None, "{what}: {answer:?}");
}

#[test]
fn each_tampering_with_a_signed_request_is_refused_and_changes_nothing() {
    let server = start();
    let pair = KeyPair::create(&server, "operator");
    let mut line = server.line("Sample");
    line.join_many(3);
    let before = line.figures();
    for (what, tamper) in TAMPERINGS {
        let mut request = advance_by_one(&server, &pair);
        tamper(&mut request);
        let answer = request.send(&server);
        // What is no route at all may be refused before its signature is looked at.
        let is_route = request.method == "POST" && aws::PRIVATE_ROUTES.contains(&("POST", &request.path));
        if is_route {
            assert_refused(&answer, what);
        } else {
            assert!((400..500).contains(&answer.status), "{what}: {answer:?}");
        }
        assert_eq!(line.figures(), before, "{what}");
    }
    let untouched = advance_by_one(&server, &pair).send(&server);
    assert_eq!((untouched.status, untouched.json()), (200, json!({ "serving_num": 1 })));
    let log = server.stderr();
    assert!(!log.contains(&pair.secret), "no secret in the log");
}

/// Where one path has several methods, a look must not be turned into a deed.
#[test]
fn a_signed_look_at_a_room_cannot_be_sent_as_its_deletion() {
    let server = start();
    let pair = KeyPair::create(&server, "operator");
    let mut request = RawRequest::new(&server, "GET", "/rooms/Sample");
    request.sign(&pair, &["host", "x-amz-date"]);
    assert_eq!(request.send(&server).status, 200);
    "DELETE".clone_into(&mut request.method);
    let refused = request.send(&server);
    assert_eq!(refused.status, 401, "{refused:?}");
    assert_eq!(refused.json()["status"], 401, "a problem, because this path is not AWS's: {refused:?}");
    assert_eq!(server.operator().get("/rooms/Sample").unwrap().status, 200, "it is still there");
}

#[test]
fn what_is_signed_wrongly_from_the_start_is_refused() {
    let server = start();
    let pair = KeyPair::create(&server, "operator");
    let mut line = server.line("Sample");
    line.join_many(3);
    let before = line.figures();
    let refuse = |what: &str, change: fn(&mut RawRequest), signed: &[&str]| {
        let mut request = advance_by_one(&server, &pair);
        request.remove("Authorization");
        change(&mut request);
        request.sign(&pair, signed);
        assert_refused(&request.send(&server), what);
    };
    refuse("host not signed", |_| {}, &["x-amz-date"]);
    refuse("date not signed", |_| {}, &["host"]);
    let with_hash = ["host", "x-amz-content-sha256", "x-amz-date"];
    refuse("an unsigned body", |request| request.set("X-Amz-Content-Sha256", "UNSIGNED-PAYLOAD"), &with_hash);
    let chunked =
        |request: &mut RawRequest| request.set("X-Amz-Content-Sha256", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD");
    refuse("a body in chunks", chunked, &with_hash);
    let presigned = |request: &mut RawRequest| {
        "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Signature=00".clone_into(&mut request.query);
    };
    refuse("a presigned URL", presigned, &["host", "x-amz-date"]);
    refuse("a stale date", |request| request.set_date(-6 * MINUTE), &["host", "x-amz-date"]);
    refuse("a future date", |request| request.set_date(6 * MINUTE), &["host", "x-amz-date"]);
    refuse(
        "the beginning of time",
        |request| request.set("X-Amz-Date", "19700101T000000Z"),
        &["host", "x-amz-date"],
    );
    refuse(
        "the end of time",
        |request| request.set("X-Amz-Date", "99991230T000000Z"),
        &["host", "x-amz-date"],
    );
    assert_eq!(line.figures(), before);
    for (offset, serving) in [(-4 * MINUTE, 1), (4 * MINUTE, 2)] {
        let mut request = advance_by_one(&server, &pair);
        request.set_date(offset);
        request.sign(&pair, &["host", "x-amz-date"]);
        let answer = request.send(&server);
        assert_eq!((answer.status, answer.json()), (200, json!({ "serving_num": serving })), "{offset} s");
    }
}

#[test]
fn a_key_that_does_not_exist_is_refused_in_the_same_words_as_a_wrong_signature() {
    let server = start();
    let pair = KeyPair::create(&server, "operator");
    let unknown = KeyPair { access_key_id: "AK234567234567234567".to_owned(), ..pair.clone() };
    let wrong = KeyPair { secret: "w".repeat(40), ..pair };
    let answers = [unknown, wrong].map(|pair| advance_by_one(&server, &pair).send(&server));
    assert_refused(&answers[0], "unknown");
    assert_eq!(answers[0].status, answers[1].status);
    assert_eq!(answers[0].body, answers[1].body);
}

#[test]
fn a_key_pair_has_its_role_survives_a_restart_and_ends_when_it_is_revoked() {
    let mut server = Server::builder(BINARY).start().expect("the server starts");
    let pair = KeyPair::create(&server, "viewer");
    let look = |server: &Server| {
        let mut request = RawRequest::new(server, "GET", "/num_active_tokens?event_id=Sample");
        request.sign(&pair, &["host", "x-amz-date"]);
        request.send(server).status
    };
    assert_eq!(look(&server), 200);
    assert_eq!(advance_by_one(&server, &pair).send(&server).status, 403, "a viewer only looks");
    server.terminate().expect("the server ends");
    server.restart().expect("the server starts again");
    assert_eq!(look(&server), 200);
    let revoked = server.operator().send(&Request::new("DELETE", &format!("/keys/{}", pair.name))).unwrap();
    assert_eq!(revoked.status, 204);
    assert_eq!(look(&server), 401);
}

#[test]
fn the_pair_is_shown_once_and_its_secret_is_nowhere_in_the_clear() {
    let mut server = Server::builder(BINARY).start().expect("the server starts");
    let pair = KeyPair::create(&server, "operator");
    assert_eq!(pair.access_key_id.len(), 20);
    assert!(pair.access_key_id.starts_with("AK"));
    assert_eq!(pair.secret.len(), 40);
    let listed = server.operator().get("/keys").unwrap();
    assert!(listed.text().contains(&pair.access_key_id) && !listed.text().contains(&pair.secret));
    server.terminate().expect("the server ends");
    let files = std::fs::read_dir(server.data_directory()).expect("the store has a directory");
    let mut searched = 0;
    for file in files.map(|entry| entry.expect("an entry").path()).filter(|path| path.is_file()) {
        let bytes = std::fs::read(&file).expect("a file of the store");
        let found = bytes.windows(pair.secret.len()).any(|window| window == pair.secret.as_bytes());
        assert!(!found, "{}", file.display());
        searched += bytes.len();
    }
    assert!(searched > 0, "there was something to search");
}

/// Over HTTP/2 there is no `Host` header, and what is signed as `host` is the address's authority. Browsers do this.
#[tokio::test]
async fn a_request_over_http_2_is_accepted_by_its_authority() {
    let mut server = Server::builder(BINARY).start().expect("the server starts");
    let pair = KeyPair::create(&server, "operator");
    let trust = http2::restart_with_tls(&mut server);
    let mut request = RawRequest::new(&server, "GET", "/num_active_tokens?event_id=Sample");
    request.set("Host", &format!("localhost:{}", server.private().port()));
    request.sign(&pair, &["host", "x-amz-date"]);
    let (status, body) = http2::send(&server, &trust, &request).await;
    assert_eq!((status, body), (200, json!({ "active_tokens": 0 })));
    request.set("Host", &format!("elsewhere:{}", server.private().port()));
    let (status, body) = http2::send(&server, &trust, &request).await;
    assert_eq!(status, 401, "signed for another host");
    assert!(body["error"].is_string(), "{body}");
}
