//! Calls for operators, admins, and those who run the server.

use anteroom_admission::arrivals::JoinRefusal;
use anteroom_core::MovedBy;
use anteroom_core::settings::FIELDS;
use serde_json::json;

use super::answers::{
    AnnouncedSigningKey, AuditPage, AuditRecord, Health, Key, Keys, NewKey, Room, RoomFigures,
    RoomGeneration, Rooms, SigningKey, SigningKeys, TicketDetails, Visit,
};
use super::answers_alarms::{Alarm, Alarms, HeardOfAlarms, Notification};
use super::call::{AnswerHeader, Call, Group};
use super::schemas::{
    EntityTags, KeyName, ListenerName, Moment, OpenApiDocument, PageLength, RecordNumber, RequestIdText,
    RoomName, default_of,
};
use super::{GENERATION, MOMENT, REQUEST_ID};
use crate::api::administration::{NewKeyBody, ROTATION_WARNING};
use crate::api::arrivals::{ArrivalsView, PrefixView};
use crate::api::frontier::{AdaptiveView, EstimatesView, FrontierView, MoveView, ReportsView};
use crate::api::preview::PreviewBody;
use crate::api::rooms::{ChangeBody, ClockAnswer};
use crate::http::problem::Problem;

const KEY_ID: &str = "7f3a9c5e-52a1-4d0b-9c44-0f6c2f1f8a11";
const TAG: &str = "\"5d0c3a7be1f24689a0b1c2d3\"";

fn room() -> Room {
    Room {
        id: "Sample",
        state: "open",
        settings: FIELDS.iter().map(|field| (field.name.to_owned(), default_of(field))).collect(),
        figures: RoomFigures {
            serving: 30,
            joined: 42,
            waiting: 12,
            active: 20,
            offers: 4,
            live_sessions: 20,
            claimed: 25,
            completed: 3,
            abandoned: 1,
            expired: 1,
            lapsed: 1,
            left: 0,
            offers_by_hand: 0,
            inlet_rests: false,
        },
        generations: vec![RoomGeneration {
            generation: GENERATION,
            base: 0,
            joined: 42,
            serving: 30,
            floor: 22,
        }],
        version: 17,
        updated_at: MOMENT,
        frontier: frontier(),
    }
}

fn frontier() -> FrontierView {
    let moment = || MOMENT.to_owned();
    FrontierView {
        capacity: Some(24),
        rate_budget: None,
        last_move: Some(MoveView { by: "adaptive", at: moment(), from: 29, to: 30 }),
        moves: MovedBy::ALL
            .into_iter()
            .map(|by| (by.as_str(), u64::from(by == MovedBy::Adaptive) * 21))
            .collect(),
        steps_missed: 0,
        next_step_at: None,
        standstill: Some("at-capacity"),
        stopped_by: None,
        stopped_since: None,
        firing: vec![],
        adaptive: Some(AdaptiveView { capacity: 24, adjusted_at: moment(), adjustment: "near-target" }),
        reports: ReportsView {
            heard: 2,
            silent: 0,
            free_reported: Some(9),
            passes_in_flight: 3,
            free: Some(2),
        },
        auction: None,
        estimates: EstimatesView { checked: 40, within_p90: 36, median_quotient: Some(0.98) },
    }
}

pub(crate) fn of_room(id: &'static str, summary: &'static str, description: &str) -> Call {
    Call::new(id, Group::Rooms, summary, description).path::<RoomName>("id", "The room.", "Sample")
}

pub(crate) fn list_rooms() -> Call {
    Call::new("listRooms", Group::Rooms, "Every room", "With settings, state and figures, by name.").json(
        200,
        "The rooms.",
        &Rooms { rooms: vec![room()] },
    )
}

pub(crate) fn show_room() -> Call {
    of_room("showRoom", "A room", "The `ETag` stands for settings and state only, so it changes when an operator changes something and not with every visitor.")
        .json(200, "The room.", &room())
        .with(AnswerHeader::EntityTag)
        .problems(&[Problem::UnknownRoom])
}

pub(crate) fn create_or_replace_room() -> Call {
    of_room(
        "putRoom",
        "Makes a room, or replaces everything that operators set",
        "Settings that are not given are at their defaults, and the state is `open` if none is given. The line of a room that is there \
         stays. `If-None-Match: *` only makes, `If-Match` only replaces what one has seen.",
    )
    .header::<EntityTags>("If-Match", "Only if the room is still so.", TAG)
    .header::<EntityTags>("If-None-Match", "`*`: only if there is no such room.", "*")
    .optional_body::<ChangeBody>(json!({"state": "open", "settings": {"inlet": "max-size", "total_active_users": 100}}))
    .json(200, "It was replaced.", &room())
    .with(AnswerHeader::EntityTag)
    .json(201, "It was made.", &room())
    .with(AnswerHeader::EntityTag)
    .leads_to("showRoom", &[("id", "$request.path.id")])
    .leads_to("changeRoom", &[("id", "$request.path.id")])
    .leads_to("deleteRoom", &[("id", "$request.path.id")])
    .problems(&[Problem::Changed])
}

pub(crate) fn change_room() -> Call {
    of_room(
        "changeRoom",
        "Changes a room in part",
        "What is given changes, and nothing else; null sets a setting back to its default. The state `open` also wakes an inlet that rests.",
    )
    .header::<EntityTags>("If-Match", "Only if the room is still so.", TAG)
    .header::<EntityTags>("If-None-Match", "Only if it is not so.", TAG)
    .optional_body::<ChangeBody>(json!({"state": "paused", "settings": {"validity_period": 900}}))
    .json(200, "It was changed.", &room())
    .with(AnswerHeader::EntityTag)
    .problems(&[Problem::UnknownRoom, Problem::Changed])
}

pub(crate) fn delete_room() -> Call {
    of_room(
        "deleteRoom",
        "Deletes a room",
        "With its line, its tickets and its visits. Passes that were issued stay valid until they end.",
    )
    .header::<EntityTags>("If-Match", "Only if the room is still so.", TAG)
    .header::<EntityTags>("If-None-Match", "Only if it is not so.", TAG)
    .empty(204, "It was deleted.")
    .problems(&[Problem::UnknownRoom, Problem::Changed])
}

pub(crate) fn show_arrivals() -> Call {
    of_room(
        "showArrivals",
        "Who joins a room",
        "The address prefixes with the most joins on this node in the last 10 to 20 minutes, the largest first, and how many joins were refused since it started. Prefixes are counted by a bounded sketch: each with more than one join in 256 is listed, and `joins` is too large by at most `joins_error`.",
    )
    .json(
        200,
        "What this node has seen.",
        &ArrivalsView {
            prefixes: vec![PrefixView { prefix: "203.0.113.7/32".to_owned(), joins: 412, joins_error: 0, visits: Some(2) }],
            refusals: JoinRefusal::ALL
                .into_iter()
                .map(|reason| (reason.as_str(), u64::from(reason == JoinRefusal::Limited) * 97))
                .collect(),
        },
    )
    .problems(&[Problem::UnknownRoom])
}

pub(crate) fn set_room_clock() -> Call {
    of_room(
        "setRoomClock",
        "Sets a room's clock right",
        "A room's clock never goes back by itself. Where the machine's clock was ahead once, and is right again, this takes the room back to it. Nobody loses a place: whatever the room remembers is as long ago as it was. What has ended stays ended. A room that is not ahead stays as it is.",
    )
    .json(200, "What it showed, and what it shows.", &ClockAnswer { before: MOMENT.to_owned(), clock: MOMENT.to_owned() })
    .problems(&[Problem::UnknownRoom])
}

pub(crate) fn preview_room() -> Call {
    Call::new(
        "previewRoom",
        Group::Rooms,
        "The room's page with sample figures",
        "What visitors would see, by the room's settings and its template, or by one that is not in use yet. A template that does not work is answered with the line and the reason.",
    )
    .path::<RoomName>("id", "The room.", "Sample")
    .optional_body::<PreviewBody>(json!({"situation": "turn", "language": "de"}))
    .text(200, "The page.", "text/html", "<!doctype html>…")
    .problems(&[Problem::UnknownRoom])
}

pub(crate) fn show_ticket() -> Call {
    let example = TicketDetails {
        request_id: REQUEST_ID,
        room: "Sample",
        generation: GENERATION,
        position: 7,
        lane: 0,
        copy: 0,
        entered_at: MOMENT,
        status: "admitted",
        people_ahead: None,
        session: Some(Visit {
            status: "active",
            issued_at: MOMENT,
            expires_at: "2026-11-16T21:00:00.000Z",
            issuer: "https://queue.example.com",
            key_id: KEY_ID,
        }),
    };
    of_room("showTicket", "What a ticket says, and where it stands", "For operators who help a visitor.")
        .path::<RequestIdText>("request_id", "The ticket, in its short form.", REQUEST_ID)
        .json(200, "The ticket.", &example)
        .problems(&[Problem::UnknownRoom, Problem::UnknownTicket])
}

fn alarm() -> Alarm {
    Alarm {
        name: "HighLoad",
        state: "firing",
        source: Some("outside"),
        since: Some(MOMENT),
        last_heard: Some(MOMENT),
        stale: false,
        threshold: None,
        count: None,
        summary: Some("The shop's database is busy"),
        labels: Some("instance=\"shop-1\", severity=\"page\""),
        fingerprints: vec!["1a30ba71cca2921f"],
        rooms: vec!["Sample"],
    }
}

pub(crate) fn list_alarms() -> Call {
    let own = Alarm {
        name: "Anteroom-Public-5xx-Alarm",
        state: "ok",
        source: Some("own"),
        since: None,
        last_heard: None,
        threshold: Some(0),
        count: Some(0),
        summary: None,
        labels: None,
        fingerprints: vec![],
        rooms: vec![],
        ..alarm()
    };
    Call::new(
        "listAlarms",
        Group::Alarms,
        "Every alarm",
        "Those that this server counts itself, those it was told of, and names that rooms mention without anybody having told of them, \
         by name.",
    )
    .json(200, "The alarms.", &Alarms { alarms: vec![own, alarm()] })
}

pub(crate) fn notify_of_alarms() -> Call {
    Call::new(
        "notifyOfAlarms",
        Group::Alarms,
        "Alertmanager's webhook: which alerts fire, and which do not any more",
        "An alarm is an alert's name (`labels.alertname`); it fires while any alert of that name does, told apart by `fingerprint` or, \
         without one, by their labels. What is not told of stays as it is. `receiver`, `groupKey`, `version` and whatever else \
         Alertmanager sends is passed over. Alerts without a name, and with the name of an own alarm, are ignored. The body is taken \
         in whole or not at all.",
    )
    .body::<Notification>(json!({
        "status": "firing",
        "alerts": [{
            "status": "firing",
            "labels": {"alertname": "HighLoad", "instance": "shop-1"},
            "annotations": {"summary": "The shop's database is busy"},
            "startsAt": "2026-11-16T20:00:00Z",
            "endsAt": "0001-01-01T00:00:00Z",
            "fingerprint": "1a30ba71cca2921f",
        }],
    }))
    .json(200, "It was taken in.", &HeardOfAlarms { received: 1, firing: 1, resolved: 0, ignored: 0 })
    .problems(&[Problem::Conflict])
}

fn access(id: &'static str, summary: &'static str, description: &str) -> Call {
    Call::new(id, Group::Access, summary, description)
}

fn key() -> Key {
    Key {
        name: "grafana",
        role: "viewer",
        kind: "bearer",
        access_key_id: None,
        created_at: MOMENT,
        expires_at: Some("2027-11-16T20:00:00.000Z"),
        expired: false,
    }
}

pub(crate) fn list_keys() -> Call {
    access("listKeys", "Every API key", "Without what would let anybody use it.").json(
        200,
        "The keys.",
        &Keys { keys: vec![key()] },
    )
}

pub(crate) fn create_key() -> Call {
    let bearer = NewKey { described: key(), key: Some("ar_viewer_3mJ8q0Zt5xW2"), secret_access_key: None };
    let pair = Key {
        name: "lambda",
        role: "origin",
        kind: "sigv4",
        access_key_id: Some("AKIDEXAMPLE"),
        expires_at: None,
        ..key()
    };
    let pair = NewKey {
        described: pair,
        key: None,
        secret_access_key: Some("wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY"),
    };
    let value =
        |example: &NewKey| serde_json::to_value(example).expect("our own structures can be written as JSON");
    access("createKey", "Makes an API key", "The key, or the secret of a pair, is shown this once.")
        .body::<NewKeyBody>(json!({"name": "grafana", "role": "viewer", "expires_in_seconds": 31_536_000}))
        .json_like::<NewKey>(201, "The key.", vec![("bearer", value(&bearer)), ("sigv4", value(&pair))])
        .leads_to("revokeKey", &[("name", "$request.body#/name")])
        .problems(&[Problem::NameTaken, Problem::Conflict])
}

pub(crate) fn revoke_key() -> Call {
    access(
        "revokeKey",
        "Revokes an API key",
        "It stops working at once. The last admin key that works cannot be revoked.",
    )
    .path::<KeyName>("name", "The key's name.", "grafana")
    .empty(204, "It was revoked.")
    .problems(&[Problem::UnknownName, Problem::Conflict])
}

fn signing_key(status: &'static str) -> SigningKey {
    SigningKey { kid: KEY_ID, algorithm: "RS256", status, active_from: MOMENT }
}

pub(crate) fn list_signing_keys() -> Call {
    access("listSigningKeys", "The keys that sign passes", "Without their private halves.").json(
        200,
        "The keys.",
        &SigningKeys { keys: vec![signing_key("current")] },
    )
}

pub(crate) fn rotate_signing_key() -> Call {
    access(
        "rotateSigningKey",
        "Announces a new key that will sign passes",
        "It is published at once and signs once every verifier has had time to fetch it. The key before it verifies until the last pass that \
         it signed has ended.",
    )
    .json(
        201,
        "The new key.",
        &AnnouncedSigningKey {
            key: signing_key("announced"),
            warning: ROTATION_WARNING,
            later_in_rooms: [("Sample", "2026-11-17T20:00:00.000Z")].into(),
        },
    )
    .problems(&[Problem::Conflict])
}

pub(crate) fn audit() -> Call {
    let record = AuditRecord {
        number: 17,
        at: MOMENT,
        actor: "grafana",
        action: "create room",
        room: Some("Sample"),
        detail: None,
    };
    access("audit", "Who changed what", "Newest first, in pages: give `next_before` as `before` to go on.")
        .optional_query::<PageLength>("limit", "How many records a page has.", 50)
        .optional_query::<RecordNumber>("before", "Only records before this one.", 17)
        .optional_query::<RoomName>("room", "Only records of this room.", "Sample")
        .json(200, "A page.", &AuditPage { records: vec![record], next_before: None })
}

fn server(id: &'static str, summary: &'static str, description: &str) -> Call {
    Call::new(id, Group::Server, summary, description)
}

pub(crate) fn backup() -> Call {
    let what = "Taken of one moment while everything goes on, and sent as it is read. One that breaks off has no end, and `/restore` refuses it.";
    server("backup", "Everything the store has", what).text(
        200,
        "The backup.",
        "application/octet-stream",
        "ANTEROOM…",
    )
}

/// What was restored.
#[derive(serde::Serialize, utoipa::ToSchema)]
#[schema(as = Restored)]
struct Restored {
    /// How many rooms there are now.
    rooms: u64,
    /// How many sessions came with them.
    sessions: u64,
    /// When the backup had been taken.
    #[schema(value_type = Moment)]
    taken_at: &'static str,
}

pub(crate) fn restore() -> Call {
    server(
        "restore",
        "Replaces everything by what a backup has",
        "All of it or nothing. Keys that were revoked since the backup are back; people who joined since keep their places where this \
         store knows them, and new ones join behind everybody.",
    )
    .bytes_body("A backup.")
    .json(200, "What was restored.", &Restored { rooms: 3, sessions: 120, taken_at: MOMENT })
    .problems(&[Problem::Conflict])
}

pub(crate) fn metrics() -> Call {
    server("metrics", "Figures for Prometheus", "In the OpenMetrics format.").text(
        200,
        "The figures.",
        "application/openmetrics-text",
        "# TYPE anteroom_room_waiting gauge\nanteroom_room_waiting{room=\"Sample\"} 12\n# EOF\n",
    )
}

pub(crate) fn live() -> Call {
    server("live", "Whether the process answers", "For an orchestrator that restarts what hangs.").json(
        200,
        "It does.",
        &Health { status: "live" },
    )
}

pub(crate) fn ready() -> Call {
    server(
        "ready",
        "Whether the store and every room work",
        "For a load balancer. It answers 503 while they do not.",
    )
    .json(200, "They do.", &Health { status: "ready" })
}

pub(crate) fn openapi() -> Call {
    server("openapi", "This document", "OpenAPI 3.1, for either listener.")
        .optional_query::<ListenerName>("listener", "Whose document.", "private")
        .json_like::<OpenApiDocument>(
            200,
            "The document.",
            vec![(
                "example",
                json!({"openapi": "3.1.0", "info": {"title": "Anteroom, private listener"}, "paths": {}}),
            )],
        )
        .with(AnswerHeader::CachedForMinutes)
}

pub(crate) fn docs() -> Call {
    server("docs", "The documents of both listeners as a page", "For people.")
        .text(200, "The page.", "text/html", "<!doctype html>…")
        .with(AnswerHeader::CachedForMinutes)
}
