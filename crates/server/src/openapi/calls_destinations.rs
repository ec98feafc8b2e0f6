//! Calls about where events go.

use anteroom_events::DestinationStatus;
use serde_json::json;

use super::MOMENT;
use super::call::{Call, Group};
use super::schemas::{
    DeadLetterCount, DestinationName, EventNumber, EventTypePatterns, FollowFlag, Moment, RoomName,
};
use crate::api::destinations::{
    CommandView, DeadLetterView, DeadLettersView, DestinationBody, DestinationSecretView,
    DestinationStatusView, DestinationTestView, DestinationView, DestinationsView, NewDestinationBody,
    NewDestinationView, ReplayBody, ReplayView, SecretBody,
};
use crate::http::problem::Problem;

fn destination() -> DestinationView {
    let status = DestinationStatus { delivered: 41, position: 1203, ..DestinationStatus::default() };
    DestinationView {
        name: "shop".to_owned(),
        kind: "webhook",
        state: "active",
        disabled_because: None,
        url: Some("https://shop.example/hooks/anteroom".to_owned()),
        batch_max: Some(1),
        region: None,
        bus: None,
        endpoint: None,
        access_key_id: None,
        subject_prefix: None,
        size_max_bytes: None,
        files_max: None,
        timeout_seconds: Some(15),
        rooms: vec!["Sample".to_owned()],
        types: vec!["default".to_owned(), "session.*".to_owned()],
        with_request_ids: false,
        schedule: "exponential",
        backoff_max_seconds: 60,
        give_up_after_seconds: 259_200,
        created_at: MOMENT.to_owned(),
        begins_after: 1162,
        from_file: false,
        secrets: vec![DestinationSecretView {
            algorithm: Some("hmac-sha256"),
            public_key: None,
            created_at: MOMENT.to_owned(),
            expires_at: None,
        }],
        status: DestinationStatusView::of(&status),
    }
}

fn with_key() -> NewDestinationView {
    let secret = Some("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".to_owned());
    NewDestinationView { destination: destination(), secret, public_key: None }
}

fn call(id: &'static str, summary: &'static str, description: &str) -> Call {
    Call::new(id, Group::Destinations, summary, description)
}

fn of_destination(id: &'static str, summary: &'static str, description: &str) -> Call {
    call(id, summary, description)
        .path::<DestinationName>("name", "The destination's name.", "shop")
        .problems(&[Problem::UnknownName])
}

pub(crate) fn list_destinations() -> Call {
    call("listDestinations", "Where events go", "Every destination with how it fares, without secrets.").json(
        200,
        "The destinations.",
        &DestinationsView { destinations: vec![destination()] },
    )
}

pub(crate) fn show_destination() -> Call {
    of_destination("showDestination", "A destination of events", "Without its secrets.").json(
        200,
        "The destination.",
        &destination(),
    )
}

pub(crate) fn create_destination() -> Call {
    let taken = [("name", "$response.body#/name")];
    call(
        "createDestination",
        "Makes a destination of events",
        "It gets the events from now on. A webhook gets a key, which is shown this once (its public half later, too). Private addresses and \
         clear text are refused unless the server setting `destinations_private_allowed` lists the network. There are at most 64.",
    )
    .body::<NewDestinationBody>(json!({
        "name": "shop",
        "kind": "webhook",
        "url": "https://shop.example/hooks/anteroom",
        "rooms": ["Sample"],
        "types": ["default", "session.*"],
    }))
    .json(201, "The destination.", &with_key())
    .leads_to("showDestination", &taken)
    .leads_to("changeDestination", &taken)
    .leads_to("pauseDestination", &taken)
    .leads_to("rotateDestinationSecret", &taken)
    .leads_to("deleteDestination", &taken)
    .problems(&[Problem::NameTaken, Problem::Conflict])
}

pub(crate) fn change_destination() -> Call {
    of_destination(
        "changeDestination",
        "Changes a destination of events",
        "What is not said stays as it is. Its name, its kind and its secrets are not changed here; one of the configuration file is \
         changed there.",
    )
    .body::<DestinationBody>(json!({"types": ["*"], "batch_max": 100}))
    .json(200, "The destination.", &destination())
    .problems(&[Problem::Conflict])
}

pub(crate) fn delete_destination() -> Call {
    of_destination(
        "deleteDestination",
        "Deletes a destination of events",
        "What waits for it, and its dead letters, are nobody's any more. One of the configuration file is deleted there.",
    )
    .empty(204, "It was deleted.")
    .problems(&[Problem::Conflict])
}

pub(crate) fn test_destination() -> Call {
    of_destination(
        "testDestination",
        "Sends a destination one event that says it is a test",
        "Apart from all other events: it is sent once, whatever waits, and also to a destination that is paused or disabled.",
    )
    .json(
        200,
        "What came of it.",
        &DestinationTestView { delivered: true, milliseconds: Some(38), reason: None },
    )
}

pub(crate) fn pause_destination() -> Call {
    of_destination(
        "pauseDestination",
        "Pauses a destination of events",
        "Its events wait, for as long as the outbox keeps them.",
    )
    .json(200, "The destination.", &destination())
    .problems(&[Problem::Conflict])
}

pub(crate) fn resume_destination() -> Call {
    of_destination(
        "resumeDestination",
        "Resumes a destination of events",
        "One that was paused, or disabled by its receiver: it gets what waits.",
    )
    .json(200, "The destination.", &destination())
}

pub(crate) fn replay_destination() -> Call {
    of_destination(
        "replayDestination",
        "Sends a destination events once more",
        "Those behind a number of the outbox, from a moment on, or from an event on; as far as the outbox keeps them. They have the same ids \
         as before.",
    )
    .body::<ReplayBody>(json!({"after": 1162}))
    .json(202, "It will be done.", &ReplayView { number: 1, after: 1162 })
}

pub(crate) fn rotate_destination_secret() -> Call {
    of_destination(
        "rotateDestinationSecret",
        "Gives a destination a new secret",
        "A webhook gets a new key, which is shown this once; the key before goes on signing beside it for a day, or for as long as is said, so \
         that the receiver can change over. Others get the secret that is given, at once.",
    )
    .optional_body::<SecretBody>(json!({"previous_expires_in_seconds": 86_400}))
    .json(201, "The destination.", &with_key())
    .leads_to("revokePreviousDestinationSecret", &[("name", "$request.path.name")])
    .problems(&[Problem::Conflict])
}

pub(crate) fn revoke_previous_destination_secret() -> Call {
    of_destination(
        "revokePreviousDestinationSecret",
        "Ends the key before the newest one of a webhook",
        "For when the receiver has changed over. Only the newest key signs from then on.",
    )
    .empty(204, "It was revoked.")
    .problems(&[Problem::Conflict])
}

pub(crate) fn list_dead_letters() -> Call {
    let event = json!({
        "specversion": "1.0",
        "id": "5d0c3a7be1f24689a0b1c2d35d0c3a7b-17-0",
        "source": "/rooms/Sample",
        "type": "room.opened",
        "time": MOMENT,
        "sequence": "00000000000000001203",
        "datacontenttype": "application/json",
        "data": {},
    });
    let letter = DeadLetterView {
        event,
        number: 1203,
        failed_at: MOMENT.to_owned(),
        attempts: 4321,
        reason: "the receiver answered 500".to_owned(),
    };
    of_destination(
        "listDeadLetters",
        "The events that a destination did not take",
        "Those that were given up, the oldest first.",
    )
    .optional_query::<DeadLetterCount>("limit", "How many, at most.", 100)
    .json(200, "The dead letters.", &DeadLettersView { dead_letters: vec![letter] })
}

pub(crate) fn replay_dead_letters() -> Call {
    of_destination(
        "replayDeadLetters",
        "Sends the dead letters of a destination again",
        "All of them, before anything else that waits.",
    )
    .json(202, "It will be done.", &CommandView { number: 1 })
}

pub(crate) fn drop_dead_letters() -> Call {
    of_destination("dropDeadLetters", "Drops the dead letters of a destination", "All of them, for good.")
        .json(202, "It will be done.", &CommandView { number: 2 })
}

pub(crate) fn events() -> Call {
    let data = json!({
        "specversion": "1.0", "id": "0d3f7a51c4be4d2f9a6e1b80c5d7e2f4-17-12-0", "source": "/rooms/Sample", "type": "room.paused",
        "time": MOMENT, "sequence": "00000000000000001203", "datacontenttype": "application/json",
        "data": {"state": "paused", "by": "night shift"},
    });
    let event = format!("retry: 1000\n\nid: 1203\nevent: room.paused\ndata: {data}\n\n");
    call(
        "streamEvents",
        "What happens, as it happens",
        "Server-sent events out of the outbox: `event` is the kind, `id` the number, `data` the CloudEvent. Without `after`, `since` and `Last-Event-ID` \
         it begins with what is to come; a reader that comes back with `Last-Event-ID` misses nothing that is still kept, and `event: gap` says where \
         something is not. Tickets (`request_id`) are for operators; others know a visit by `subject`. Events of visitors are there only where a destination or the room's \
         `visitor_events` asks for them.",
    )
    .optional_query::<RoomName>("room", "Only events of this room.", "Sample")
    .optional_query::<EventTypePatterns>("types", "Only these kinds.", "room.*,alarm.fired")
    .optional_query::<EventNumber>("after", "Only events behind the one of this number.", 1200)
    .optional_query::<Moment>("since", "Only events from this moment on.", MOMENT)
    .optional_query::<FollowFlag>("follow", "`false` ends the stream with what there is; it then begins with the oldest.", "true")
    .header::<EventNumber>("Last-Event-ID", "The `id` of the last event seen, as browsers send it when they come back.", 1200)
    .text(200, "The stream.", "text/event-stream", &event)
}
