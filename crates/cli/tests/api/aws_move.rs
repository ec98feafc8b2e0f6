//! What a customer of the AWS waiting room trips over on the way to us: keys that are wrong and look right, slashes and stages in URLs,
//! an inlet that was left running, clients that poll before they claim. `docs/operating/aws.md` has a step for each.

use std::time::Duration;

use anteroom_testkit::{Answer, Client, Request, Server, aws, wait_until};
use serde_json::{Value, json};

use crate::limiter_support::TIMEOUT;
use crate::sigv4::raw::{KeyPair, RawRequest};
use crate::sigv4::signers::Signer;
use crate::support::BINARY;

const CORS: &str = "Access-Control-Allow-Origin";

fn start(config: &str) -> Server {
    Server::builder(BINARY).memory().config(config).start().expect("the server starts")
}

/// A signed request of the panel that moves the line by one.
fn advance_at(server: &Server, pair: &KeyPair, path: &str) -> RawRequest {
    let mut request = RawRequest::new(server, "POST", path);
    r#"{"event_id":"Sample","increment_by":1}"#.clone_into(&mut request.body);
    request.sign(pair, &["host", "x-amz-date"]);
    request
}

fn is_readable_by_pages(answer: &Answer) -> bool {
    let is_exposed = answer.header("Access-Control-Expose-Headers").is_some();
    assert_eq!(answer.header(CORS).is_some(), is_exposed, "{answer:?}");
    is_exposed
}

#[test]
fn that_a_key_is_wrong_cannot_be_read_by_a_page_on_private_aws_paths_and_everything_else_can() {
    let server = start("[[room]]\nid = \"Sample\"\n");
    let pair = KeyPair::create(&server, "viewer");
    let wrong = KeyPair { secret: "w".repeat(40), ..pair.clone() };
    let mut nobody = Client::new(server.private());
    for (method, path) in aws::PRIVATE_ROUTES {
        for method in [method, "PUT"] {
            let answer = nobody.send(&Request::new(method, path)).expect("an answer");
            assert_eq!((answer.status, is_readable_by_pages(&answer)), (401, false), "{method} {path}");
        }
    }
    let unsigned = advance_at(&server, &wrong, "/increment_serving_counter").send(&server);
    assert_eq!((unsigned.status, is_readable_by_pages(&unsigned)), (401, false), "a wrong secret");
    let role = advance_at(&server, &pair, "/increment_serving_counter").send(&server);
    assert_eq!((role.status, is_readable_by_pages(&role)), (403, false), "a role without the permission");
    assert!(role.error().contains("viewer"), "the text is there for who asks by hand: {role:?}");

    let mut operator = server.operator();
    for (what, request, status) in [
        ("success", Request::new("GET", "/num_active_tokens?event_id=Sample"), 200),
        ("a wrong event", Request::new("GET", "/num_active_tokens?event_id=Other"), 404),
        ("a missing field", Request::post_json("/increment_serving_counter", &json!({})), 400),
        ("a wrong method", Request::new("DELETE", "/num_active_tokens"), 405),
        ("a preflight", Request::new("OPTIONS", "/num_active_tokens"), 200),
    ] {
        let answer = operator.send(&request).expect("an answer");
        assert_eq!((answer.status, is_readable_by_pages(&answer)), (status, true), "{what}: {answer:?}");
    }
    // Our own paths on that listener, and the public AWS paths, are as they were.
    let own = nobody.get("/rooms").expect("an answer");
    assert_eq!((own.status, is_readable_by_pages(&own)), (401, true), "{own:?}");
    let public = server.visitor().get("/serving_num?event_id=Other").expect("an answer");
    assert_eq!((public.status, is_readable_by_pages(&public)), (400, true), "{public:?}");
}

#[test]
fn a_doubled_slash_is_refused_as_what_it_is_and_not_as_a_wrong_key() {
    for config in ["", "aws_stage = \"api\"\n"] {
        refuses_doubled_slashes(&start(&format!("{config}[[room]]\nid = \"Sample\"\n")));
    }
}

fn refuses_doubled_slashes(server: &Server) {
    let pair = KeyPair::create(server, "operator");
    let mut line = server.line("Sample");
    line.join_many(2);
    let before = line.figures();
    for path in
        ["//increment_serving_counter", "/api//increment_serving_counter", "//api/increment_serving_counter"]
    {
        let mut request = advance_at(server, &pair, "/increment_serving_counter");
        path.clone_into(&mut request.path);
        let answer = request.send(server);
        assert_eq!(answer.status, 404, "{path}: {answer:?}");
        assert!(answer.text().contains("two slashes in a row"), "{path}: {answer:?}");
        assert!(!is_readable_by_pages(&answer), "AWS's panel would take it for success: {answer:?}");
        // With a Bearer key it is the same.
        let by_key = line.operator.post(path, &json!({ "event_id": "Sample", "increment_by": 1 }));
        assert_eq!(by_key.expect("an answer").body, answer.body, "{path}");
        // As the panel's own signer sends it.
        if let Some(signer) = Signer::aws4fetch() {
            let body = json!({ "event_id": "Sample", "increment_by": 1 });
            let calls = json!([{ "method": "POST", "path": path, "body": body }]);
            assert_eq!(signer.call(server, &pair, None, &calls)[0].0, 404, "{path}");
        }
    }
    assert_eq!(line.figures(), before);
    let public =
        server.visitor().post("//assign_queue_num", &json!({ "event_id": "Sample" })).expect("an answer");
    assert_eq!((public.status, public.text().contains("two slashes in a row")), (404, true), "{public:?}");
}

#[test]
fn with_aws_stage_the_calls_of_aws_and_no_others_are_taken_behind_it() {
    // The limit is of the path, which is the same with the stage.
    let config = "limits_exempt = \"none\"\naws_stage = \"api\"\n\
        [[limit]]\nname = \"place\"\nby = \"ip\"\nrequests = 3\nper_seconds = 8640000\npaths = [\"/assign_queue_num\"]\n\
        [[room]]\nid = \"Sample\"\n";
    let server = start(config);
    let pair = KeyPair::create(&server, "operator");
    let mut visitor = server.visitor();
    let body = json!({ "event_id": "Sample" });
    let joined = visitor.post("/api/assign_queue_num", &body).expect("an answer");
    assert_eq!(joined.status, 200, "{joined:?}");
    let id = joined.json()["api_request_id"].as_str().expect("an id").to_owned();
    let place = visitor.get(&format!("/api/queue_num?event_id=Sample&request_id={id}")).expect("an answer");
    assert_eq!((place.status, &place.json()["queue_number"]), (200, &json!(1)), "{place:?}");

    // The signature is over the path as it was sent: one for the other path is refused.
    let advanced = advance_at(&server, &pair, "/api/increment_serving_counter").send(&server);
    assert_eq!((advanced.status, advanced.json()), (200, json!({ "serving_num": 1 })), "{advanced:?}");
    let mut moved = advance_at(&server, &pair, "/api/increment_serving_counter");
    "/increment_serving_counter".clone_into(&mut moved.path);
    assert_eq!(moved.send(&server).status, 401);
    let mut moved = advance_at(&server, &pair, "/increment_serving_counter");
    assert_eq!(moved.send(&server).json(), json!({ "serving_num": 2 }), "without the stage as before");
    "/api/increment_serving_counter".clone_into(&mut moved.path);
    let refused = moved.send(&server);
    assert_eq!((refused.status, is_readable_by_pages(&refused)), (401, false), "{refused:?}");

    let claim = json!({ "event_id": "Sample", "request_id": id });
    assert_eq!(visitor.post("/.anteroom/api/generate_token", &claim).expect("an answer").status, 200);
    for path in [
        "/api/join",
        "/api/rooms/Sample",
        "/api/status",
        "/api",
        "/api/",
        "/api/api/serving_num?event_id=Sample",
    ] {
        assert_eq!(visitor.get(path).expect("an answer").status, 404, "{path}");
    }
    for path in ["/api/rooms", "/api/livez", "/prod/num_active_tokens?event_id=Sample"] {
        assert_eq!(server.operator().get(path).expect("an answer").status, 404, "{path}");
    }
    // Both spellings share one budget.
    let statuses = ["/assign_queue_num", "/api/assign_queue_num", "/api/assign_queue_num"]
        .map(|path| visitor.post(path, &body).expect("an answer").status);
    assert_eq!(statuses, [200, 200, 429]);
}

#[test]
fn without_aws_stage_an_url_with_one_is_told_what_to_do() {
    let server = start("[[room]]\nid = \"Sample\"\n");
    let pair = KeyPair::create(&server, "operator");
    let answer = advance_at(&server, &pair, "/api/increment_serving_counter").send(&server);
    assert_eq!(answer.status, 404, "{answer:?}");
    assert!(answer.text().contains("aws_stage") && !is_readable_by_pages(&answer), "{answer:?}");
    let public = server.visitor().get("/api/serving_num?event_id=Sample").expect("an answer");
    assert_eq!((public.status, public.text().contains("aws_stage")), (404, true), "{public:?}");
    let ended = Server::builder(BINARY).memory().config("aws_stage = \"api/v1\"\n").run_to_end().unwrap();
    assert!(ended.stderr.contains("aws_stage = \"api/v1\": expected a stage's name"), "{}", ended.stderr);
}

/// Moves the line by one with a new key of that name.
fn advance_by_key(server: &Server, name: &str, room: &str) {
    let made =
        server.operator().post("/keys", &json!({ "name": name, "role": "operator" })).expect("an answer");
    let key = made.json()["key"].as_str().expect("the key, once").to_owned();
    let mut lambda = Client::new(server.private()).with_bearer(&key);
    for _ in 0..3 {
        let moved = aws::increment_serving_counter(&mut lambda, room, 1).expect("an answer");
        assert_eq!(moved.status, 200, "{moved:?}");
    }
}

#[test]
fn an_old_inlet_left_running_beside_ours_is_warned_of_once_and_stands_in_the_audit() {
    let server = start(
        "[[room]]\nid = \"Hall\"\ninlet = \"max-size\"\ntotal_active_users = 1\n[[room]]\nid = \"ByHand\"\n",
    );
    server.line("Hall").join_many(5);
    advance_by_key(&server, "old-lambda", "Hall");
    advance_by_key(&server, "another-lambda", "Hall");
    advance_by_key(&server, "panel", "ByHand");
    let warnings = |key: &str| {
        let log = server.stderr();
        log.lines()
            .filter(|line| line.contains("serving counter moved by a key") && line.contains(key))
            .count()
    };
    wait_until("both are warned of", TIMEOUT, || {
        warnings("old-lambda") > 0 && warnings("another-lambda") > 0
    });
    assert_eq!((warnings("old-lambda"), warnings("another-lambda"), warnings("panel")), (1, 1, 0));
    let audit = server.operator().get("/audit?room=Hall").expect("an answer").json();
    let actions: Vec<&str> = audit["records"]
        .as_array()
        .expect("records")
        .iter()
        .filter_map(|record| record["action"].as_str())
        .collect();
    assert_eq!(
        actions.iter().filter(|action| **action == "advance by 1 beside the inlet max-size").count(),
        6
    );
    let figures = server.operator().get("/rooms/Hall").expect("an answer").json();
    assert_eq!(figures["figures"]["offers_by_hand"], 4, "counted: {figures}");
    let by_hand = server.operator().get("/audit?room=ByHand&limit=1").expect("an answer").json();
    assert_eq!(by_hand["records"][0]["action"], "advance by 1", "{by_hand}");
}

const AWAY: &str = "limits_exempt = \"none\"\n[[room]]\nid = \"Hall\"\n";

#[test]
fn a_cdn_that_is_not_trusted_is_recognised_by_its_many_visitors_and_warned_of_once() {
    for header in ["X-Forwarded-For", "CF-Connecting-IP", "CloudFront-Viewer-Address"] {
        let server = start(AWAY);
        let mut edge = server.visitor();
        let warnings = || server.stderr().matches("name its networks in trusted_proxies").count();
        let mut join = |visitor: u32| {
            let request = Request::post_json("/join", &json!({ "room": "Hall" }))
                .header(header, &format!("203.0.113.{visitor}"));
            assert_eq!(edge.send(&request).expect("an answer").status, 200);
        };
        // One visitor whose own proxy says so is no CDN.
        (0..20).for_each(|_| join(1));
        (2..16).for_each(&mut join);
        assert_eq!(warnings(), 0, "{header}");
        (16..40).for_each(&mut join);
        wait_until("a warning says so", TIMEOUT, || warnings() > 0);
        assert_eq!(warnings(), 1, "{header}: {}", server.stderr());
        let metrics = server.operator().get("/metrics").expect("figures").text();
        assert!(metrics.contains("anteroom_limiter_untrusted_forwards_total 58\n"), "{header}");
    }
    let server = start(&format!("trusted_proxies = \"127.0.0.1\"\n{AWAY}"));
    for visitor in 0..40 {
        let request = Request::post_json("/join", &json!({ "room": "Hall" }))
            .header("X-Forwarded-For", &format!("203.0.113.{visitor}"));
        assert_eq!(server.visitor().send(&request).expect("an answer").status, 200);
    }
    assert!(!server.stderr().contains("trusted_proxies"), "{}", server.stderr());
}

/// A client of a service where a ticket is called a token, which polls until it is active.
fn join_and_poll(client: &mut Client, join: &Request) -> (Value, String) {
    let joined = client.send(join).expect("an answer");
    assert_eq!(joined.status, 200, "{joined:?}");
    let joined = joined.json();
    assert_eq!(joined["token"], joined["ticket"], "{joined}");
    let token = joined["token"].as_str().expect("a token").to_owned();
    let polled = client.send(&Request::new("GET", "/status").header("Authorization", &token));
    let polled = polled.expect("an answer").json();
    assert_eq!(polled["token"], Value::Null, "only the join tells it: {polled}");
    (joined, polled["status"].as_str().expect("a status").to_owned())
}

#[test]
fn where_joins_do_not_claim_a_client_that_polls_sees_that_it_is_active_and_claims() {
    let rooms = "[[room]]\nid = \"Polls\"\ninlet = \"max-size\"\ntotal_active_users = 1\njoin_claims = false\n\
        [[room]]\nid = \"Claims\"\ninlet = \"max-size\"\ntotal_active_users = 2\n";
    // Ahead of the handler, and, because the query names the room, by it.
    let ways: [fn(&str) -> Request; 2] = [
        |room| Request::post_json("/join", &json!({ "room": room })),
        |room| Request::new("POST", &format!("/join?room={room}")),
    ];
    for way in ways {
        let server = start(rooms);
        let mut client = server.visitor();
        let (joined, status) = join_and_poll(&mut client, &way("Polls"));
        assert_eq!((&joined["status"], status.as_str()), (&json!("active"), "active"), "{joined}");
        assert_eq!(joined["access_token"], Value::Null, "{joined}");
        let remaining = joined["claim_expires_in_seconds"].as_u64().expect("how long it stands");
        assert!((100..=120).contains(&remaining), "{joined}");
        assert_eq!(server.line("Polls").active(), 0, "nobody is inside yet");
        let (second, status) = join_and_poll(&mut client, &way("Polls"));
        assert_eq!(
            (&second["status"], status.as_str()),
            (&json!("waiting"), "waiting"),
            "the offer holds the slot"
        );
        let claim = Request::new("POST", "/claim").header("Authorization", joined["token"].as_str().unwrap());
        let claimed = client.send(&claim).expect("an answer");
        assert_eq!((claimed.status, &claimed.json()["status"]), (200, &json!("admitted")), "{claimed:?}");
        assert_eq!(server.line("Polls").active(), 1);

        let (joined, status) = join_and_poll(&mut client, &way("Claims"));
        assert_eq!((&joined["status"], status.as_str()), (&json!("admitted"), "admitted"), "{joined}");
        assert!(joined["access_token"].is_string(), "{joined}");
        // The setting changes while the room runs.
        let off = json!({ "settings": { "join_claims": false } }).to_string();
        let changed = server.operator().send(&Request::new("PATCH", "/rooms/Claims").body(off));
        assert_eq!(changed.expect("an answer").status, 200);
        let (joined, status) = join_and_poll(&mut client, &way("Claims"));
        assert_eq!((&joined["status"], status.as_str()), (&json!("active"), "active"), "{joined}");
    }
}

#[test]
fn an_auction_gives_nothing_to_a_join_that_does_not_claim() {
    let server = start(
        "[[room]]\nid = \"Hall\"\ninlet = \"max-size\"\ntotal_active_users = 1\ndiscipline = \"auction\"\n\
         round_seconds = 1\njoin_claims = false\n",
    );
    let mut client = server.visitor().with_read_timeout(Duration::from_mins(1));
    let (joined, _) = join_and_poll(&mut client, &Request::post_json("/join", &json!({ "room": "Hall" })));
    assert_eq!(joined["status"], "waiting", "{joined}");
    let check_in =
        Request::new("POST", "/auction").header("Authorization", joined["token"].as_str().unwrap());
    let won = client.send(&check_in).expect("an answer");
    assert_eq!(won.status, 200, "the free slot is still there: {won:?}");
}

#[test]
fn where_guide_and_deployed_api_differ_the_guide_wins() {
    let server = start("[[room]]\nid = \"Sample\"\n");
    let mut line = server.line("Sample");
    let reset = line.reset();
    assert_eq!(
        (reset.status, reset.json()),
        (200, json!({ "message": "Counters reset. DynamoDB table recreated." }))
    );
    let key = |query: &str| server.visitor().get(&format!("/public_key{query}")).expect("an answer");
    for query in ["?event_id=Other", ""] {
        let answer = key(query);
        assert_eq!((answer.status, answer.error().as_str()), (404, "Invalid event ID"), "{answer:?}");
    }
    assert_eq!(key("?event_id=Sample").status, 200);
    let active = line.operator.get("/num_active_tokens?event_id=Other").expect("an answer");
    assert_eq!(active.status, 404, "{active:?}");
}
