//! The answers of calls that write their JSON by hand, as types: one field a line, with its meaning. An example is a value of
//! such a type. That the server really answers so is checked from outside, by schemathesis.

use std::collections::BTreeMap;

use serde::Serialize;
use utoipa::openapi::schema::{AnyOfBuilder, Schema};
use utoipa::openapi::{Ref, RefOr};
use utoipa::{PartialSchema, ToSchema};

use super::schemas::{
    Generation, IssuerText, Jwt, KeyKindName, KeyName, Moment, RequestIdText, RoleName, RoomName,
    RoomSettings, RoomStateName, TicketStatus, TokenType,
};
use crate::api::auction::{QueuedAnswer, WonAnswer};
use crate::api::frontier::FrontierView;
use crate::api::visitors::answers::{AdmittedAnswer, TicketAnswer};
use crate::http::problem::Problem;

/// What went wrong: RFC 9457 problem details.
#[derive(Serialize, ToSchema)]
#[schema(as = Problem)]
pub(super) struct ProblemDetails {
    /// The kind of problem: an address that leads to its entry in the reference. Branch on what stands behind `#`.
    #[schema(format = "uri")]
    r#type: String,
    /// The kind in words.
    title: &'static str,
    /// The status of the answer.
    status: u16,
    /// What it was this time.
    detail: String,
    /// Told with `no-slot`: how long the ticket will probably wait; null while that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    estimated_wait_seconds: Option<u64>,
    /// Told with `quota-exceeded`: the budgets that are used up.
    #[serde(rename = "violated-policies", skip_serializing_if = "Vec::is_empty")]
    violated_policies: Vec<&'static str>,
}

impl ProblemDetails {
    pub(super) fn of(problem: Problem) -> Self {
        let meaning = problem.meaning().trim();
        Self {
            r#type: problem.address("https://queue.example.com"),
            title: problem.title(),
            status: problem.status().as_u16(),
            detail: meaning.split_inclusive(". ").next().unwrap_or(meaning).trim_end().to_owned(),
            estimated_wait_seconds: (problem == Problem::NoSlot).then_some(120),
            violated_policies: if problem == Problem::QuotaExceeded { vec!["join"] } else { vec![] },
        }
    }
}

/// What went wrong, as clients of AWS's waiting room expect it.
#[derive(Serialize, ToSchema)]
pub(super) struct AwsError {
    /// In words.
    pub(super) error: String,
}

/// What went wrong, as OAuth has it (RFC 6749, section 5.2).
#[derive(Serialize, ToSchema)]
pub(super) struct OAuthError {
    /// What clients branch on.
    pub(super) error: &'static str,
    /// In words, for those who look for the mistake.
    pub(super) error_description: String,
}

/// A ticket; with its pass, if it was served at once.
pub(super) enum JoinAnswer {}

impl PartialSchema for JoinAnswer {
    fn schema() -> RefOr<Schema> {
        let ticket = Ref::from_schema_name(TicketAnswer::name());
        let admitted = Ref::from_schema_name(AdmittedAnswer::name());
        let text = "A ticket; with its pass, if it was served at once.";
        AnyOfBuilder::new().item(admitted).item(ticket).description(Some(text)).into()
    }
}

impl ToSchema for JoinAnswer {
    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        schemas.push((TicketAnswer::name().into_owned(), TicketAnswer::schema()));
        schemas.push((AdmittedAnswer::name().into_owned(), AdmittedAnswer::schema()));
        AdmittedAnswer::schemas(schemas);
    }
}

/// A slot; else a place in line.
pub(super) enum AuctionAnswer {}

impl PartialSchema for AuctionAnswer {
    fn schema() -> RefOr<Schema> {
        let won = Ref::from_schema_name(WonAnswer::name());
        let queued = Ref::from_schema_name(QueuedAnswer::name());
        let text = "A slot; or, for a client without a ticket that found none, a place in line.";
        AnyOfBuilder::new().item(won).item(queued).description(Some(text)).into()
    }
}

impl ToSchema for AuctionAnswer {
    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        schemas.push((WonAnswer::name().into_owned(), WonAnswer::schema()));
        schemas.push((QueuedAnswer::name().into_owned(), QueuedAnswer::schema()));
        WonAnswer::schemas(schemas);
        QueuedAnswer::schemas(schemas);
    }
}

/// The place was given up.
#[derive(Serialize, ToSchema)]
pub(super) struct LeftAnswer {
    /// Always `left`.
    pub(super) status: &'static str,
}

/// Where the visitor of a browser stands. What does not apply is missing.
#[derive(Serialize, ToSchema, Default)]
pub(super) struct LineAnswer {
    /// The room.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<RoomName>)]
    pub(super) room: Option<&'static str>,
    /// How it stands.
    pub(super) status: &'static str,
    /// What the operator tells those who wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) notice: Option<&'static str>,
    /// When to ask again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) next_poll_seconds: Option<u64>,
    /// Whether nobody is let in at the moment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) is_standing_still: Option<bool>,
    /// The place, as other calls take it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) request_id: Option<&'static str>,
    /// Its line, as the board numbers it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) generation: Option<u64>,
    /// Its number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) position: Option<u64>,
    /// How many are before it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) people_ahead: Option<u64>,
    /// How many were when it was taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) people_ahead_at_first: Option<u64>,
    /// The likely wait; null while it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) estimated_wait_seconds: Option<u64>,
    /// The wait that nine of ten do not exceed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) estimated_wait_p90_seconds: Option<u64>,
    /// At the turn: how long the place is held; null if without a limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) claim_expires_in_seconds: Option<u64>,
}

/// A link that takes a place to another device.
#[derive(Serialize, ToSchema)]
pub(super) struct MoveLink {
    /// The link.
    pub(super) url: &'static str,
    /// The same as a picture: SVG.
    pub(super) qr: &'static str,
    /// For how long it works.
    pub(super) expires_in_seconds: u64,
}

/// A new access token.
#[derive(Serialize, ToSchema)]
pub(super) struct RefreshedPass {
    /// The new access token. Those before it stay valid until they end.
    #[schema(value_type = Jwt)]
    pub(super) access_token: &'static str,
    /// How it is shown.
    #[schema(value_type = TokenType)]
    pub(super) token_type: &'static str,
    /// For how many more seconds it is valid: as long as the visit.
    pub(super) expires_in: u64,
}

/// A place in line was taken.
#[derive(Serialize, ToSchema)]
pub(super) struct AssignedPlace {
    /// The ticket.
    #[schema(value_type = RequestIdText)]
    pub(super) api_request_id: &'static str,
}

/// The number of a place.
#[derive(Serialize, ToSchema)]
#[schema(as = QueueNumber)]
pub(super) struct NumberOfPlace {
    /// Its number in line: 1, 2, 3, …
    pub(super) queue_number: u64,
    /// When it was taken, in seconds since 1970.
    pub(super) entry_time: u64,
    /// The room.
    #[schema(value_type = RoomName)]
    pub(super) event_id: &'static str,
    /// Always 1.
    pub(super) status: u8,
}

/// How far the line is served.
#[derive(Serialize, ToSchema)]
pub(super) struct ServingCounter {
    /// The last position that is being served.
    pub(super) serving_counter: u64,
}

/// How many people wait.
#[derive(Serialize, ToSchema)]
pub(super) struct WaitingNumber {
    /// People who have joined and neither claimed, left nor lapsed.
    pub(super) waiting_num: u64,
}

/// How long an offer still stands.
#[derive(Serialize, ToSchema)]
pub(super) struct PositionExpiry {
    /// In seconds.
    pub(super) expires_in: u64,
}

/// A pass, as AWS's clients expect it.
#[derive(Serialize, ToSchema)]
pub(super) struct AwsPass {
    /// Shown to the protected site.
    #[schema(value_type = Jwt)]
    pub(super) access_token: &'static str,
    /// Exchanged for a new access token.
    #[schema(value_type = Jwt)]
    pub(super) refresh_token: &'static str,
    /// Who was let in.
    #[schema(value_type = Jwt)]
    pub(super) id_token: &'static str,
    /// How the access token is shown.
    #[schema(value_type = TokenType)]
    pub(super) token_type: &'static str,
    /// For how many more seconds it is valid.
    pub(super) expires_in: u64,
}

/// A public key as RFC 7517 has it. Which members there are depends on `kty`.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
pub(super) enum Jwk {
    /// RS256.
    Rsa {
        /// `RSA`.
        #[schema(pattern = "^RSA$")]
        kty: &'static str,
        /// The algorithm it signs with.
        alg: &'static str,
        /// Its name in the header of tokens.
        kid: &'static str,
        /// The modulus, base64url.
        n: &'static str,
        /// The exponent, base64url.
        e: &'static str,
    },
    /// ES256.
    #[expect(dead_code, reason = "what a server with other keys answers; the example shows the usual ones")]
    Ec {
        /// `EC`.
        #[schema(pattern = "^EC$")]
        kty: &'static str,
        /// The curve.
        crv: &'static str,
        /// The algorithm it signs with.
        alg: &'static str,
        /// Its name in the header of tokens.
        kid: &'static str,
        /// A coordinate, base64url.
        x: &'static str,
        /// The other one, base64url.
        y: &'static str,
    },
    /// `EdDSA`.
    #[expect(dead_code, reason = "what a server with other keys answers; the example shows the usual ones")]
    Okp {
        /// `OKP`.
        #[schema(pattern = "^OKP$")]
        kty: &'static str,
        /// The curve.
        crv: &'static str,
        /// The algorithm it signs with.
        alg: &'static str,
        /// Its name in the header of tokens.
        kid: &'static str,
        /// The public key, base64url.
        x: &'static str,
    },
}

impl Jwk {
    pub(super) fn example() -> Self {
        Self::Rsa {
            kty: "RSA",
            alg: "RS256",
            kid: "7f3a9c5e-52a1-4d0b-9c44-0f6c2f1f8a11",
            n: "s3hW0dYm0n9Qe8bT",
            e: "AQAB",
        }
    }
}

/// Every key that a valid pass may be signed with.
#[derive(Serialize, ToSchema)]
pub(super) struct Jwks {
    /// Those that sign now, will sign soon, or have signed passes that are still valid.
    pub(super) keys: Vec<Jwk>,
}

/// Where the counter is now.
#[derive(Serialize, ToSchema)]
pub(super) struct ServingNumber {
    /// The last position that is being served.
    pub(super) serving_num: u64,
}

/// How many visitors are inside.
#[derive(Serialize, ToSchema)]
pub(super) struct ActiveTokens {
    /// Visits that neither ended nor ran out.
    pub(super) active_tokens: u64,
}

/// Tickets whose pass has run out.
#[derive(Serialize, ToSchema)]
#[schema(value_type = Vec<RequestIdText>)]
pub(super) struct ExpiredTokens(pub(super) Vec<&'static str>);

/// It was done, and there is nothing to say of it.
#[derive(Serialize, ToSchema)]
pub(super) struct Done {}

/// It was done.
#[derive(Serialize, ToSchema)]
pub(super) struct Message {
    /// In AWS's words.
    pub(super) message: &'static str,
}

/// Every room.
#[derive(Serialize, ToSchema)]
pub(super) struct Rooms {
    /// By name.
    pub(super) rooms: Vec<Room>,
}

/// A room as operators see it.
#[derive(Serialize, ToSchema)]
pub(super) struct Room {
    /// Its name.
    #[schema(value_type = RoomName)]
    pub(super) id: &'static str,
    /// What it does.
    #[schema(value_type = RoomStateName)]
    pub(super) state: &'static str,
    /// What operators set.
    #[schema(value_type = RoomSettings)]
    pub(super) settings: serde_json::Value,
    /// How it goes.
    pub(super) figures: RoomFigures,
    /// Its lines, oldest first.
    pub(super) generations: Vec<RoomGeneration>,
    /// The commit that these figures are of.
    pub(super) version: u64,
    /// The room's clock at that commit.
    #[schema(value_type = Moment)]
    pub(super) updated_at: &'static str,
    #[serde(flatten)]
    pub(super) frontier: FrontierView,
}

/// How a room goes.
#[derive(Serialize, ToSchema)]
pub(super) struct RoomFigures {
    /// The last position that is being served.
    pub(super) serving: u64,
    /// The last position handed out.
    pub(super) joined: u64,
    /// People who have joined and neither claimed, left nor lapsed.
    pub(super) waiting: u64,
    /// Visitors who count as being inside.
    pub(super) active: u64,
    /// Places that may be claimed now.
    pub(super) offers: u64,
    /// Visits that neither ended nor ran out.
    pub(super) live_sessions: u64,
    /// Places that became a visit.
    pub(super) claimed: u64,
    /// Visits that were ended as completed.
    pub(super) completed: u64,
    /// Visits that were ended as abandoned.
    pub(super) abandoned: u64,
    /// Visits whose pass ran out.
    pub(super) expired: u64,
    /// Offers that nobody claimed in time.
    pub(super) lapsed: u64,
    /// Places that were given up.
    pub(super) left: u64,
    /// Offers that an operator made over the inlet's head.
    pub(super) offers_by_hand: u64,
    /// Whether the inlet rests, because an operator moved the counter back; the state `open` wakes it.
    pub(super) inlet_rests: bool,
}

/// One line of a room.
#[derive(Serialize, ToSchema)]
pub(super) struct RoomGeneration {
    /// Its number.
    #[schema(value_type = Generation)]
    pub(super) generation: u64,
    /// The position before its first.
    pub(super) base: u64,
    /// The last position handed out.
    pub(super) joined: u64,
    /// The last position that is being served.
    pub(super) serving: u64,
    /// Everything up to here is settled: claimed, lapsed or left.
    pub(super) floor: u64,
}

/// What a ticket says, and where it stands.
#[derive(Serialize, ToSchema)]
pub(super) struct TicketDetails {
    /// The ticket.
    #[schema(value_type = RequestIdText)]
    pub(super) request_id: &'static str,
    /// Its room.
    #[schema(value_type = RoomName)]
    pub(super) room: &'static str,
    /// Its line.
    #[schema(value_type = Generation)]
    pub(super) generation: u64,
    /// Its number in line.
    pub(super) position: u64,
    /// Its lane; 0 is everybody's.
    pub(super) lane: u8,
    /// How often it was moved to another device.
    pub(super) copy: u8,
    /// When it was taken.
    #[schema(value_type = Moment)]
    pub(super) entered_at: &'static str,
    /// As its holder is told.
    #[schema(value_type = TicketStatus)]
    pub(super) status: &'static str,
    /// How many people stand before it; null once it was served.
    #[schema(required)]
    pub(super) people_ahead: Option<u64>,
    /// The visit it became; null if it did not.
    #[schema(required)]
    pub(super) session: Option<Visit>,
}

/// A visit.
#[derive(Serialize, ToSchema)]
pub(super) struct Visit {
    /// `active`, `completed`, `abandoned` or `expired`.
    #[schema(pattern = "^(active|completed|abandoned|expired)$")]
    pub(super) status: &'static str,
    /// When its pass was issued.
    #[schema(value_type = Moment)]
    pub(super) issued_at: &'static str,
    /// When its pass ends.
    #[schema(value_type = Moment)]
    pub(super) expires_at: &'static str,
    /// `iss` of its pass.
    #[schema(value_type = IssuerText)]
    pub(super) issuer: &'static str,
    /// The key that signed its pass.
    pub(super) key_id: &'static str,
}

/// Every key.
#[derive(Serialize, ToSchema)]
pub(super) struct Keys {
    /// In the order in which they were made.
    pub(super) keys: Vec<Key>,
}

/// A key, without what would let anybody use it.
#[derive(Serialize, ToSchema)]
pub(super) struct Key {
    /// How it is called in lists and in the audit.
    #[schema(value_type = KeyName)]
    pub(super) name: &'static str,
    /// What it may do.
    #[schema(value_type = RoleName)]
    pub(super) role: &'static str,
    /// What it is made of.
    #[schema(value_type = KeyKindName)]
    pub(super) kind: &'static str,
    /// The public half of a pair.
    #[schema(required)]
    pub(super) access_key_id: Option<&'static str>,
    /// When it was made.
    #[schema(value_type = Moment)]
    pub(super) created_at: &'static str,
    /// When it stops working; null if never.
    #[schema(value_type = Option<Moment>, required)]
    pub(super) expires_at: Option<&'static str>,
    /// Whether that has come.
    pub(super) expired: bool,
}

/// A new key, with what is shown this once.
#[derive(Serialize, ToSchema)]
pub(super) struct NewKey {
    #[serde(flatten)]
    pub(super) described: Key,
    /// The key itself, of a bearer key.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(super) key: Option<&'static str>,
    /// What signs, of a pair.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(super) secret_access_key: Option<&'static str>,
}

/// The keys that sign passes.
#[derive(Serialize, ToSchema)]
pub(super) struct SigningKeys {
    /// In the order in which they sign.
    pub(super) keys: Vec<SigningKey>,
}

/// A key that signs passes, without its private half.
#[derive(Serialize, ToSchema)]
pub(super) struct SigningKey {
    /// Its name in the header of tokens.
    pub(super) kid: &'static str,
    /// The algorithm it signs with.
    pub(super) algorithm: &'static str,
    /// `announced`: published, signs later. `current`: signs now. `retired`: verifies what it signed.
    #[schema(pattern = "^(announced|current|retired)$")]
    pub(super) status: &'static str,
    /// When it began to sign, or will.
    #[schema(value_type = Moment)]
    pub(super) active_from: &'static str,
}

/// A new key that will sign passes.
#[derive(Serialize, ToSchema)]
pub(super) struct AnnouncedSigningKey {
    #[serde(flatten)]
    pub(super) key: SigningKey,
    /// What has to be done about verifiers that keep one key for long.
    pub(super) warning: &'static str,
    /// When it begins to sign in rooms that stay with the key before it for longer (`key_overlap_seconds`).
    #[schema(value_type = BTreeMap<String, Moment>)]
    pub(super) later_in_rooms: BTreeMap<&'static str, &'static str>,
}

/// A page of the audit.
#[derive(Serialize, ToSchema)]
pub(super) struct AuditPage {
    /// Newest first.
    pub(super) records: Vec<AuditRecord>,
    /// What to give as `before` for the next page; null on the last one.
    #[schema(required)]
    pub(super) next_before: Option<u64>,
}

/// One change.
#[derive(Serialize, ToSchema)]
pub(super) struct AuditRecord {
    /// Its number; a later record has a greater one.
    pub(super) number: u64,
    /// When.
    #[schema(value_type = Moment)]
    pub(super) at: &'static str,
    /// By whom: the name of a key, or the server itself.
    pub(super) actor: &'static str,
    /// What was done.
    pub(super) action: &'static str,
    /// To which room; null if to none.
    #[schema(value_type = Option<RoomName>, required)]
    pub(super) room: Option<&'static str>,
    /// More about it.
    #[schema(required)]
    pub(super) detail: Option<&'static str>,
}

/// How the server is.
#[derive(Serialize, ToSchema)]
pub(super) struct Health {
    /// `live` or `ready`.
    #[schema(pattern = "^(live|ready)$")]
    pub(super) status: &'static str,
}
