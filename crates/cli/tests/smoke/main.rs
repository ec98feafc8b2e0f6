//! One walk through the running product, for the inner loop: a visitor at the gateway, one who waits, a program with a ticket, an
//! operator who changes the room, a restart. What each step promises in full is tested by the other binaries.

use std::time::Duration;

use anteroom_testkit::{Answer, Asking, Browser, Client, Request, Server, Site};
use serde_json::{Value, json};

const BINARY: &str = env!("CARGO_BIN_EXE_anteroom");
/// How long a state may take. Generous: what is tested is that it comes, not how fast.
const TIMEOUT: Duration = Duration::from_mins(1);
const SOON: Asking = Asking::Every(Duration::from_millis(50));

/// A call of our API on a protected host.
fn post(client: &mut Client, path: &str, body: &Value) -> Answer {
    client.post(&format!("/.anteroom{path}"), body).expect("an answer")
}

#[test]
fn a_visitor_enters_another_waits_a_program_claims_and_a_restart_keeps_all_of_it() {
    let site = Site::open();
    let config = format!(
        "origin = \"{}\"\nsigning_algorithm = \"EdDSA\"\n\
         [[room]]\nid = \"Hall\"\ninlet = \"max-size\"\ntotal_active_users = 1\npaths = [\"/\"]\n\
         [[room]]\nid = \"Api\"\n",
        site.url()
    );
    let mut server = Server::builder(BINARY).config(config).start().expect("the server starts");

    // At the gateway: the first is inside, the second waits.
    let mut inside = Browser::new(server.public());
    assert!(inside.open("/").is_from_site());
    let mut waiting = Browser::new(server.public());
    waiting.open("/");
    let place = waiting.open("/").shown_position();
    assert!(place.is_some(), "the second visitor has a place in line");

    // Over the API: a place, not served until the operator says so, then a pass.
    let mut program = server.visitor();
    let joined = post(&mut program, "/join", &json!({"room": "Api"})).json();
    let ticket = joined["ticket"].as_str().expect("a ticket").to_owned();
    assert_eq!((&joined["position"], &joined["status"]), (&json!(1), &json!("waiting")));
    assert_eq!(post(&mut program, "/claim", &json!({"ticket": ticket})).status, 409);
    let advance = json!({"event_id": "Api", "increment_by": 1});
    let mut operator = server.operator();
    assert_eq!(operator.post("/increment_serving_counter", &advance).expect("an answer").status, 200);
    let pass = post(&mut program, "/claim", &json!({"ticket": ticket}));
    assert_eq!(pass.status, 200, "{pass:?}");
    let pass = pass.json()["access_token"].clone();

    // An operator changes a room while it runs.
    let change = Request::new("PATCH", "/rooms/Api")
        .body(json!({"settings": {"notice": "Doors open at eight."}}).to_string());
    assert_eq!(operator.send(&change).expect("an answer").status, 200);

    // After a restart everything is as it was, and the pass is the same.
    server.restart().expect("it starts again");
    assert!(inside.moved_to(server.public()).open("/").is_from_site());
    let mut waiting = waiting.moved_to(server.public());
    assert_eq!(waiting.open("/").shown_position(), place);
    let again = post(&mut server.visitor(), "/claim", &json!({"ticket": ticket})).json();
    assert_eq!(again["access_token"], pass);
    let board = server.visitor().get("/.anteroom/rooms/Api").expect("an answer").json();
    assert_eq!(board["notice"], "Doors open at eight.");

    // The first leaves, and the second comes in.
    assert!(inside.moved_to(server.public()).open("/complete").is_from_site());
    waiting.enter("/", SOON, TIMEOUT);
}
