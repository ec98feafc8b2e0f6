//! The native calls by name. An error means that there was no answer; any status is an answer.

use serde_json::json;

use crate::http::{Answer, Client, Request};

/// Takes a place in line; where it is served at once, its pass comes with it.
pub fn join(public: &mut Client, room: &str) -> anyhow::Result<Answer> {
    public.post("/join", &json!({ "room": room }))
}

/// Where a ticket stands, in either of its written forms.
pub fn status(public: &mut Client, room: &str, ticket: &str) -> anyhow::Result<Answer> {
    let request = Request::new("GET", &format!("/status?room={room}"));
    public.send(&request.header("Authorization", ticket))
}

/// Exchanges an offer for a pass.
pub fn claim(public: &mut Client, room: &str, ticket: &str) -> anyhow::Result<Answer> {
    public.post("/claim", &json!({ "room": room, "ticket": ticket }))
}

/// Gives the place up.
pub fn leave(public: &mut Client, room: &str, ticket: &str) -> anyhow::Result<Answer> {
    public.post("/leave", &json!({ "room": room, "ticket": ticket }))
}

/// A room's figures, as everybody sees them.
pub fn board(public: &mut Client, room: &str) -> anyhow::Result<Answer> {
    public.get(&format!("/rooms/{room}"))
}

/// A place in line, as its holder got it. Places are ordered as they are served: older lines first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct LinePlace {
    /// Which line of the room.
    pub generation: u64,
    /// The number in that line.
    pub position: u64,
    /// The short form of the ticket, which the AWS calls take.
    pub request_id: String,
    /// The ticket token, which names its room.
    pub ticket: String,
    /// Whether the pass came with it.
    pub is_admitted: bool,
}

impl LinePlace {
    /// The place that a successful join, or a status, tells of.
    #[track_caller]
    pub fn of(answer: &Answer) -> Self {
        assert_eq!(answer.status, 200, "{answer:?}");
        let body = answer.json();
        let number = |name: &str| body[name].as_u64().unwrap_or_else(|| panic!("no {name}: {answer:?}"));
        let text =
            |name: &str| body[name].as_str().unwrap_or_else(|| panic!("no {name}: {answer:?}")).to_owned();
        Self {
            generation: number("generation"),
            position: number("position"),
            request_id: text("request_id"),
            ticket: text("ticket"),
            is_admitted: body["access_token"].is_string(),
        }
    }
}
