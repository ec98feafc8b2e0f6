//! The room `Hall`, which most tests have, as its operator changes and sees it.

use anteroom_testkit::{Request, Server};
use serde_json::{Value, json};

/// Changes settings or the state of the room.
#[track_caller]
pub(crate) fn change(server: &Server, body: &Value) {
    let request = Request::new("PATCH", "/rooms/Hall").body(body.to_string());
    let answer = server.operator().send(&request).expect("an answer");
    assert_eq!(answer.status, 200, "{answer:?}");
}

/// Changes one setting of the room.
#[track_caller]
pub(crate) fn set(server: &Server, name: &str, value: &Value) {
    change(server, &json!({ "settings": { name: value } }));
}

/// A figure of the room.
#[track_caller]
pub(crate) fn figure(server: &Server, name: &str) -> u64 {
    let room = server.operator().get("/rooms/Hall").expect("an answer").json();
    room["figures"][name].as_u64().unwrap_or_else(|| panic!("no figure {name}: {room}"))
}
