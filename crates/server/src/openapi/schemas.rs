//! The small types of the documents: names, ids, tokens, moments, and the settings of a room, which come from the one table
//! in `core`.
//!
//! Bodies and answers refer to them as the types of their fields; nothing is ever made of them.

use anteroom_admission::openid::redirect::REDIRECT_ADDRESS_MAX_BYTES;
use anteroom_core::settings::{DURATION_MAX_SECONDS, FIELDS, Field, ISSUER_MAX_LENGTH};
use anteroom_core::{Adjustment, Discipline, InletKind, MovedBy, RoomState, Settings, Standstill, Value};
use anteroom_events::{DestinationKind, RetrySchedule};
use anteroom_tokens::WebhookAlgorithm;
use serde_json::Value as Json;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{AdditionalProperties, KnownFormat, ObjectBuilder, Schema, SchemaFormat, Type};
use utoipa::{PartialSchema, ToSchema};

use crate::access::Role;
use crate::access::api_keys::KeyKind;

/// Names of rooms and keys.
pub(super) const NAME_PATTERN: &str = "^[A-Za-z0-9_.-]{1,64}$";
/// A UUID, or 16 bytes in base64url.
const REQUEST_ID_OR_SUBJECT_PATTERN: &str =
    "^([0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}|[A-Za-z0-9_-]{21}[AQgw])$";
/// Three parts in base64url.
const JWT_PATTERN: &str = r"^[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+$";
/// Visible ASCII without spaces.
const VISIBLE_PATTERN: &str = "^[!-~]+$";
/// Anything but control characters, line ends aside.
const PROSE_PATTERN: &str = r"^[^\x00-\x09\x0B-\x1F\x7F]+$";
/// Redirect addresses in the plainest form: what else is allowed is for the words.
const REDIRECT_PATTERN: &str =
    r"^(https://|http://(localhost|127\.0\.0\.1|\[::1\])|[a-z][a-z0-9+-]*\.[a-z0-9+.-]*:/)[!-~]*$";
const ADDRESS_PATTERN: &str = r"^https?://[A-Za-z0-9\[][!-~]*$";

/// Types without values: each has a name in the documents, its doc comment as the description, and what it allows.
macro_rules! small_types {
    ($( $(#[doc = $meaning:literal])+ $name:ident, $documented:literal: $allows:expr; )+) => { $(
        $(#[doc = $meaning])+
        pub(crate) enum $name {}

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                let described: ObjectBuilder = $allows;
                described.description(Some(concat!($($meaning),+).trim())).into()
            }
        }

        impl ToSchema for $name {
            fn name() -> std::borrow::Cow<'static, str> {
                $documented.into()
            }
        }
    )+ };
}

small_types! {
    /// A destination's name.
    DestinationName, "DestinationName": text().pattern(Some("^[A-Za-z0-9_-][A-Za-z0-9_.-]{0,63}$")).examples(["shop"]);
    /// What takes events. `webhook`: an address that takes webhooks by Standard Webhooks. `eventbridge`: an event bus of AWS. `nats`: a stream of
    /// NATS `JetStream`. `file`: a file of JSON lines on the server's machine.
    DestinationKindName, "DestinationKind": text().enum_values(Some(DestinationKind::ALL.map(DestinationKind::as_str)));
    /// Whether a destination gets events. `active`: it does. `paused`: an operator paused it, and its events wait. `disabled`: it wants no more
    /// events, or cannot take any; they wait until an operator resumes it.
    DestinationStateName, "DestinationState": text().enum_values(Some(["active", "paused", "disabled"]));
    /// How webhooks are signed. `hmac-sha256`: with a shared secret (`v1`). `ed25519`: with a key pair, of which the receiver has the public half
    /// (`v1a`).
    WebhookAlgorithmName, "WebhookAlgorithm": text().enum_values(Some(WebhookAlgorithm::ALL.map(WebhookAlgorithm::as_str)));
    /// How long a destination is left alone after an attempt that failed.
    RetryScheduleName, "RetrySchedule": text().enum_values(Some(RetrySchedule::ALL.map(RetrySchedule::as_str)));
    /// Kinds of events: the name of one, a group such as `room.*`, `default` (those of rooms and of the server), `aws` (the four of Virtual Waiting
    /// Room on AWS), or `*`.
    EventTypePattern, "EventTypePattern": text().pattern(Some(r"^([a-z_]+(\.([a-z_]+|\*))?|\*)$")).examples(["room.*"]);
    /// Kinds of events with commas between them, each as in a destination.
    EventTypePatterns, "EventTypePatterns": text().pattern(Some(r"^ *([a-z_]+(\.([a-z_]+|\*))?|\*) *(, *([a-z_]+(\.([a-z_]+|\*))?|\*) *)*$")).examples(["room.*,alarm.fired"]);
    /// Whether to wait for what is to come.
    FollowFlag, "FollowFlag": text().enum_values(Some(["true", "false"]));
    /// The number of an event in the outbox.
    EventNumber, "EventNumber": whole_number(0, None).examples([1203]);
    /// A moment in any offset, or in seconds since 1970.
    MomentOrSeconds, "MomentOrSeconds": ObjectBuilder::new()
        .schema_type([Type::Integer, Type::String].into_iter().collect::<utoipa::openapi::schema::SchemaType>())
        .examples([Json::from(1_794_859_200), Json::from(super::MOMENT)]);
    /// An event as a `CloudEvent` 1.0.
    CloudEvent, "CloudEvent": ObjectBuilder::new()
        .schema_type(Type::Object)
        .property("id", text().description(Some("Unique within its source.")))
        .property("type", text().description(Some("Its kind.")))
        .required("id")
        .required("type")
        .additional_properties(Some(AdditionalProperties::FreeForm(true)));
    /// How many dead letters a page has.
    DeadLetterCount, "DeadLetterCount": whole_number(1, i64::try_from(crate::api::destinations::DEAD_LETTERS_PAGE_MAX).ok())
        .default(Some(crate::api::destinations::DEAD_LETTERS_PAGE.into()));
    /// A room's name. Upper and lower case differ.
    RoomName, "RoomName": text().pattern(Some(NAME_PATTERN)).examples(["Sample"]);
    /// The `client_id` of a site that logs its visitors in.
    ClientId, "ClientId": text().pattern(Some(NAME_PATTERN)).examples(["shop"]);
    /// An address at which a site gets visitors back: `https://`, or `http://` of the visitor's own machine, or an app's own scheme with
    /// a dot. Without `#`, user name, `*`, and `.` and `..` between slashes.
    RedirectAddress, "RedirectAddress": text()
        .pattern(Some(REDIRECT_PATTERN))
        .max_length(Some(REDIRECT_ADDRESS_MAX_BYTES))
        .examples(["https://shop.example/callback"]);
    /// A key's name.
    KeyName, "KeyName": text().pattern(Some(NAME_PATTERN)).examples(["grafana"]);
    /// A ticket in its short form: a UUID that says where it stands to the server and nothing to anybody else.
    RequestIdText, "RequestId": text().format(Some(SchemaFormat::Custom("uuid".into()))).examples([super::REQUEST_ID]);
    /// A ticket in its short form, or the subject (`sub`) that an OpenID client knows its visitor by.
    RequestIdOrSubject, "RequestIdOrSubject": text().pattern(Some(REQUEST_ID_OR_SUBJECT_PATTERN)).examples([super::REQUEST_ID]);
    /// A ticket in either of its written forms: the ticket token, or the request id.
    TicketText, "TicketText": text().examples([super::JWT]);
    /// A JSON Web Token.
    Jwt, "Jwt": text().pattern(Some(JWT_PATTERN)).examples([super::JWT]);
    /// A moment in UTC, with milliseconds.
    Moment, "Moment": text().format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime))).examples([super::MOMENT]);
    /// An address that a browser can go to.
    WebAddressText, "WebAddress": text().pattern(Some(ADDRESS_PATTERN)).max_length(Some(ISSUER_MAX_LENGTH));
    /// Who signed a pass, as its `iss` says.
    IssuerText, "Issuer": text().pattern(Some(VISIBLE_PATTERN)).max_length(Some(ISSUER_MAX_LENGTH));
    /// One line of a room, as one number: the seconds from the beginning of 2024 to when it was opened, times 256, plus a random byte.
    /// A later line has a greater number.
    Generation, "Generation": whole_number(0, None).examples([super::GENERATION]);
    /// Where a ticket stands. `waiting`: its turn has not come. `active`: it may claim its pass now. `admitted`: it has its pass.
    /// `expired`: the turn was not taken in time, the place was given up, or the visit is over. `closed`: the room closed before its turn.
    TicketStatus, "TicketStatus": text().enum_values(Some(["waiting", "active", "admitted", "expired", "closed"]));
    /// What a room does. `open`: takes people in and admits them. `paused`: takes them in and admits nobody. `draining`: admits and takes
    /// nobody in. `closed`: neither.
    RoomStateName, "RoomState": text().enum_values(Some(RoomState::ALL.map(RoomState::as_str)));
    /// What a key may do. `viewer`: look. `origin`: tell that visits are over, and how much the site can take. `operator`: both, and change rooms. `admin`: everything.
    RoleName, "Role": text().enum_values(Some(Role::ALL.map(Role::as_str)));
    /// What a key is made of. `bearer`: shown in each request. `sigv4`: a pair that signs requests as AWS's clients do.
    KeyKindName, "KeyKind": text().enum_values(Some([KeyKind::Bearer, KeyKind::SigV4].map(KeyKind::as_str)));
    /// Whether an alarm fires. `unknown`: a room names it, and nobody has told of it; it counts as OK.
    AlarmState, "AlarmState": text().enum_values(Some(["ok", "firing", "unknown"]));
    /// Who says whether an alarm fires. `own`: this server, by counting. `outside`: a caller of `POST /alarms`.
    AlarmSource, "AlarmSource": text().enum_values(Some(["own", "outside"]));
    /// Whether an alert fires.
    AlertStatus, "AlertStatus": text().enum_values(Some(["firing", "resolved"]));
    /// How many alerts.
    AlertCount, "AlertCount": ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(0));
    /// A moment, in any offset.
    AlertMoment, "AlertMoment": text().format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)));
    /// Tells alerts of one name apart.
    AlertFingerprint, "AlertFingerprint": text()
        .pattern(Some("^[!-~]*$"))
        .max_length(Some(anteroom_core::alarms::FINGERPRINT_MAX_BYTES));
    /// How an access token is shown.
    TokenType, "TokenType": text().enum_values(Some(["Bearer"]));
    /// How a visit ended: 1 completed, -1 abandoned.
    VisitOutcome, "VisitOutcome": ObjectBuilder::new().schema_type(Type::Integer).enum_values(Some([1, -1]));
    /// What makes the same join the same: at least 128 random bits, for example a UUID.
    IdempotencyKey, "IdempotencyKey": text()
        .pattern(Some(VISIBLE_PATTERN))
        .min_length(Some(*crate::api::idempotency::KEY_LENGTHS.start()))
        .max_length(Some(*crate::api::idempotency::KEY_LENGTHS.end()));
    /// Tags of versions, quoted, with commas in between; or `*` for any.
    EntityTags, "EntityTags": text().examples(["\"5d0c3a7be1f24689a0b1c2d3\""]);
    /// Who reports capacity: one process of the protected site.
    ReporterName, "ReporterName": text()
        .pattern(Some(VISIBLE_PATTERN))
        .max_length(Some(anteroom_core::reports::REPORTER_NAME_MAX_LENGTH))
        .examples(["web-1"]);
    /// A number of a report.
    ReportedCount, "ReportedCount": whole_number(0, i64::try_from(crate::api::capacity::REPORTED_MAX).ok());
    /// A number, or the digits of one as a text.
    CountOrDigits, "CountOrDigits": ObjectBuilder::new()
        .schema_type([Type::Integer, Type::String].into_iter().collect::<utoipa::openapi::schema::SchemaType>())
        .minimum(Some(0))
        .maximum(Some(crate::api::capacity::REPORTED_MAX))
        .pattern(Some("^[0-9]{1,15}$"))
        .examples([Json::from(3), Json::from("3")]);
    /// A latency in milliseconds.
    LatencyMillis, "LatencyMillis": ObjectBuilder::new()
        .schema_type(Type::Number)
        .minimum(Some(0))
        .maximum(Some(crate::api::capacity::LATENCY_MAX_MILLIS))
        .examples([180]);
    /// A share: 0 is none, 1 is all.
    ErrorRate, "ErrorRate": ObjectBuilder::new()
        .schema_type(Type::Number)
        .minimum(Some(0))
        .maximum(Some(1))
        .examples([0.002]);
    /// The ticket of a visit, in its short form. One that is not known is told back.
    VisitId, "VisitId": text().examples([super::REQUEST_ID]);
    /// What moves the frontier.
    InletName, "Inlet": text().enum_values(Some(InletKind::ALL.map(InletKind::as_str)));
    /// Who among the waiting may claim. `counter`: everybody up to the frontier. `auction`: each round's winners.
    DisciplineName, "Discipline": text().enum_values(Some(Discipline::ALL.map(Discipline::as_str)));
    /// Who moved the frontier. `hand`: an operator. `lapse`: offers that lapsed. The others are inlets, and rounds of an auction.
    MovedByName, "MovedBy": text().enum_values(Some(MovedBy::ALL.map(MovedBy::as_str)));
    /// Why the frontier stands still. `paused`: an operator paused or closed the room. `queue-all`: the room has everybody wait. `moved-back`:
    /// an operator moved it back, and the inlet rests. `alarm`: one of the room's alarms fires. `before-start`, `after-end`: it is not the
    /// inlet's time. `by-hand-only`: only operators move it. `nobody-waiting`: the line is empty. `no-report`: nobody reports free slots.
    /// `none-free`: the site reports that none is free, or passes in flight will take them. `at-capacity`: as many are inside, or have an
    /// offer, as may be. `rate-spent`: this minute's new users have been let in.
    StandstillName, "Standstill": text().enum_values(Some(Standstill::ALL.map(Standstill::as_str)));
    /// What came of the last look at how the site fares.
    AdjustmentName, "Adjustment": text().enum_values(Some(Adjustment::ALL.map(Adjustment::as_str)));
    /// What a stream's last event had as its `id`.
    EventId, "EventId": text().max_length(Some(64)).examples(["42-5d0c3a7be1f24689"]);
    /// One of the two documents.
    ListenerName, "ListenerName": text().enum_values(Some(["private", "public"])).default(Some("private".into()));
    /// A document such as this one.
    OpenApiDocument, "OpenApiDocument": ObjectBuilder::new()
        .schema_type(Type::Object)
        .property("openapi", text().description(Some("The version of the format.")))
        .required("openapi")
        .additional_properties(Some(AdditionalProperties::FreeForm(true)));
    /// How many records a page has.
    PageLength, "PageLength": whole_number(1, i64::try_from(crate::api::administration::AUDIT_PAGE_MAX).ok())
        .default(Some(crate::api::administration::AUDIT_PAGE.into()));
    /// The number of a record.
    RecordNumber, "RecordNumber": ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(0)).examples([17]);
    /// Every setting of a room, by name; null where one is not set.
    RoomSettings, "RoomSettings": FIELDS.iter().fold(ObjectBuilder::new(), |settings, field| {
        settings.property(field.name, setting(field, is_optional(field))).required(field.name)
    });
    /// Settings of a room, by name; null sets one back to its default.
    WantedSettings, "WantedSettings": FIELDS
        .iter()
        .fold(ObjectBuilder::new(), |settings, field| settings.property(field.name, setting(field, true)))
        .additional_properties(Some(AdditionalProperties::FreeForm(false)));
}

fn text() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String)
}

fn whole_number(minimum: i64, maximum: Option<i64>) -> ObjectBuilder {
    ObjectBuilder::new()
        .schema_type(Type::Integer)
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::Int64)))
        .minimum(Some(minimum))
        .maximum(maximum)
}

/// What a setting takes, read from what its row says in words. A test holds the words against what the table really takes.
#[derive(Debug, PartialEq, Eq)]
enum Shape {
    Flag,
    Number { minimum: i64, maximum: i64 },
    Choice(Vec<&'static str>),
    Address { length_max: usize },
    Text { length_max: usize },
    Prose { length_max: usize },
    Names { count_max: usize, length_max: usize },
    Entries { count_max: usize, example: &'static str },
    Codes(Vec<i64>),
    Spelt { pattern: &'static str, example: &'static str },
}

/// How settings are spelt that are neither free text nor one of a few words, by how the words about them begin.
const SPELT: [(&str, &str); 4] = [
    (
        "a domain",
        r"^[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?){0,3}$",
    ),
    ("a colour", "^#[0-9A-Fa-f]{6}$"),
    (
        "a path of the site",
        r"^(/([A-Za-z0-9._~-][A-Za-z0-9._~/-]{0,1000})?|data:image/(svg\+xml|png|jpeg|webp|gif);base64,[A-Za-z0-9+/=]{1,8000})$",
    ),
    ("a name", "^[A-Za-z0-9_-]{1,64}$"),
];

impl Shape {
    fn of(expected: &'static str) -> Option<Self> {
        let mut numbers = expected
            .split(|character: char| !character.is_ascii_digit())
            .filter_map(|digits| digits.parse().ok());
        if expected == "true or false" {
            return Some(Self::Flag);
        }
        if expected.starts_with("a whole number") {
            return Some(Self::Number { minimum: numbers.next()?, maximum: numbers.next()? });
        }
        if expected.starts_with('"') {
            return Some(Self::Choice(expected.split('"').skip(1).step_by(2).collect()));
        }
        if expected.starts_with(|first: char| first.is_ascii_digit()) {
            return Some(Self::Codes(numbers.collect()));
        }
        if expected.starts_with("a list") && expected.contains("such as") {
            let count_max = usize::try_from(numbers.next()?).ok()?;
            return Some(Self::Entries { count_max, example: expected.split('"').nth(1)? });
        }
        if let Some((_, pattern)) = SPELT.iter().find(|(beginning, _)| expected.starts_with(beginning)) {
            return Some(Self::Spelt { pattern, example: expected.split('"').nth(1)? });
        }
        let length_max = usize::try_from(numbers.next_back()?).ok()?;
        if expected.starts_with("a list") {
            let count_max = usize::try_from(numbers.next()?).ok()?;
            return Some(Self::Names { count_max, length_max });
        }
        if expected.ends_with("without control characters") {
            return Some(Self::Prose { length_max });
        }
        if expected.starts_with("an address") {
            return Some(Self::Address { length_max });
        }
        expected.starts_with("a text").then_some(Self::Text { length_max })
    }

    fn schema(self, nullable: bool) -> ObjectBuilder {
        let typed = |kind: Type| {
            let kinds = if nullable { vec![kind, Type::Null] } else { vec![kind] };
            match kinds.as_slice() {
                [only] => ObjectBuilder::new().schema_type(only.clone()),
                _ => ObjectBuilder::new()
                    .schema_type(kinds.into_iter().collect::<utoipa::openapi::schema::SchemaType>()),
            }
        };
        match self {
            Self::Flag => typed(Type::Boolean),
            Self::Number { minimum, maximum } => {
                let int64 = SchemaFormat::KnownFormat(KnownFormat::Int64);
                typed(Type::Integer).format(Some(int64)).minimum(Some(minimum)).maximum(Some(maximum))
            }
            Self::Choice(names) => {
                let mut names: Vec<Json> = names.into_iter().map(Json::from).collect();
                if nullable {
                    names.push(Json::Null);
                }
                typed(Type::String).enum_values(Some(names))
            }
            Self::Address { length_max } => {
                typed(Type::String).pattern(Some(ADDRESS_PATTERN)).max_length(Some(length_max))
            }
            Self::Text { length_max } => {
                typed(Type::String).pattern(Some(VISIBLE_PATTERN)).max_length(Some(length_max))
            }
            Self::Prose { length_max } => {
                typed(Type::String).pattern(Some(PROSE_PATTERN)).max_length(Some(length_max))
            }
            Self::Names { .. } | Self::Entries { .. } => typed(Type::Array),
            Self::Spelt { pattern, .. } => typed(Type::String).pattern(Some(pattern)),
            Self::Codes(codes) => {
                let null = nullable.then_some(Json::Null);
                typed(Type::Integer).enum_values(Some(codes.into_iter().map(Json::from).chain(null)))
            }
        }
    }
}

fn is_optional(field: &Field) -> bool {
    default_of(field).is_null()
}

/// What a setting is unless it is set.
pub(super) fn default_of(field: &Field) -> Json {
    match (field.get)(&Settings::default()) {
        Value::None => Json::Null,
        Value::Flag(flag) => flag.into(),
        Value::Number(number) => number.into(),
        Value::Text(text) => text.into(),
        Value::List(texts) => texts.into(),
    }
}

fn setting(field: &Field, nullable: bool) -> ObjectBuilder {
    let schema = Shape::of(field.expected).map_or_else(ObjectBuilder::new, |shape| shape.schema(nullable));
    let default = default_of(field);
    let text = format!("{} Takes {}.", field.meaning.trim(), field.expected);
    schema.description(Some(text)).default(Some(default))
}

/// The longest time a call may name, as its schema says; spelt there because attributes take literals only.
const _: () =
    assert!(DURATION_MAX_SECONDS == 31_536_000, "mend `maximum` in the bodies of aws and administration");

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether the table takes a value.
    #[expect(clippy::needless_pass_by_value, reason = "values are written where they are tried")]
    fn takes(field: &Field, value: Value) -> bool {
        Settings::default().set(field.name, &value).is_ok()
    }

    #[test]
    fn what_each_setting_takes_is_what_its_schema_says() {
        for field in FIELDS {
            let name = field.name;
            let shape = Shape::of(field.expected);
            let shape =
                shape.unwrap_or_else(|| panic!("no schema for {name}, which takes {}", field.expected));
            let text = |length: usize, beginning: &str| Value::Text(format!("{beginning:x<length$}"));
            match shape {
                Shape::Flag => {
                    assert!(takes(field, Value::Flag(true)) && !takes(field, Value::Number(1)), "{name}");
                }
                Shape::Number { minimum, maximum } => {
                    assert!(
                        takes(field, Value::Number(minimum)) && takes(field, Value::Number(maximum)),
                        "{name}"
                    );
                    assert!(!takes(field, Value::Number(minimum - 1)), "{name}");
                    assert!(maximum == i64::MAX || !takes(field, Value::Number(maximum + 1)), "{name}");
                }
                Shape::Choice(choices) => {
                    assert!(choices.len() > 1, "{name}");
                    assert!(
                        choices.iter().all(|choice| takes(field, Value::Text((*choice).into()))),
                        "{name}"
                    );
                    assert!(!takes(field, Value::Text("something-else".into())), "{name}");
                }
                Shape::Address { length_max } => {
                    assert!(
                        takes(field, text(length_max, "https://"))
                            && !takes(field, text(length_max + 1, "https://")),
                        "{name}"
                    );
                    assert!(!takes(field, text(20, "javascript:")), "{name}");
                }
                Shape::Text { length_max } => {
                    assert!(
                        takes(field, text(length_max, "")) && !takes(field, text(length_max + 1, "")),
                        "{name}"
                    );
                    assert!(!takes(field, Value::Text("with space".into())), "{name}");
                }
                Shape::Prose { length_max } => {
                    assert!(
                        takes(field, text(length_max, "with space "))
                            && !takes(field, text(length_max + 1, "with space ")),
                        "{name}"
                    );
                    assert!(!takes(field, Value::Text("\u{7}".into())), "{name}");
                }
                Shape::Names { count_max, length_max } => {
                    let names = |count: usize, length: usize| {
                        Value::List((0..count).map(|number| format!("{number:x>length$}")).collect())
                    };
                    assert!(takes(field, names(count_max, length_max)), "{name}");
                    assert!(!takes(field, names(count_max + 1, 3)), "{name}");
                    assert!(!takes(field, names(1, length_max + 1)), "{name}");
                }
                Shape::Entries { count_max, example } => {
                    let entries = |count: usize| Value::List(vec![example.to_owned(); count]);
                    assert!(
                        takes(field, entries(count_max)) && !takes(field, entries(count_max + 1)),
                        "{name}"
                    );
                    assert!(!takes(field, Value::List(vec!["with space".into()])), "{name}");
                }
                Shape::Spelt { example, .. } => {
                    assert!(takes(field, Value::Text(example.into())), "{name}");
                    assert!(!takes(field, Value::Text("with space".into())), "{name}");
                }
                Shape::Codes(codes) => {
                    assert!(codes.len() > 1, "{name}");
                    assert!(codes.iter().all(|&code| takes(field, Value::Number(code))), "{name}");
                    assert!(!takes(field, Value::Number(codes[0] + 1)), "{name}");
                }
            }
        }
    }
}
