//! What an operator says of a destination, and what is wrong with it.

use std::ops::RangeInclusive;
use std::time::Duration;

use anteroom_core::{EventKind, RoomId};
use anteroom_tokens::WebhookAlgorithm;

use super::DestinationRules;
use crate::addresses::{HTTP, NATS, Schemes, check_url};
use crate::destination::{
    BACKOFF_MAX_SECONDS, BATCH_MAX, Destination, DestinationKind, EventBridgeTarget, FileTarget,
    GIVE_UP_AFTER_SECONDS, NatsTarget, RetrySchedule, TIMEOUT_SECONDS, Target, WebhookTarget, kinds_of,
};

/// How many rooms a destination may name.
pub const ROOMS_MAX: usize = 256;
/// How many patterns of kinds it may name.
pub const TYPES_MAX: usize = 64;
/// How long an attempt may take, in seconds.
pub const TIMEOUTS_SECONDS: RangeInclusive<u64> = 1..=30;
/// How long it may wait between two attempts at most, in seconds.
pub const BACKOFFS_SECONDS: RangeInclusive<u64> = 1..=86_400;
/// How long after an event it may try, in seconds.
pub const GIVE_UPS_SECONDS: RangeInclusive<u64> = 60..=30 * 86_400;
/// How large a file may become before it is rotated.
pub const FILE_SIZES_BYTES: RangeInclusive<u64> = 65_536..=1 << 40;
/// How many rotated files may be kept.
pub const FILES: RangeInclusive<u64> = 1..=1_000;
/// How large a file becomes, unless set.
pub const FILE_SIZE_BYTES: u64 = 100 * 1024 * 1024;
/// How many rotated files are kept, unless set.
pub const FILES_KEPT: u32 = 10;
/// What subjects of NATS begin with, unless set.
pub const SUBJECT_PREFIX: &str = "anteroom";
/// Longest beginning of subjects.
const SUBJECT_PREFIX_MAX_BYTES: usize = 128;
/// Longest name of a region.
const REGION_MAX_BYTES: usize = 32;
/// Longest name or ARN of a bus.
const BUS_MAX_BYTES: usize = 512;
/// How long the id of an access key may be.
const ACCESS_KEY_ID_BYTES: RangeInclusive<usize> = 16..=128;
/// How alike a pattern and a name must be, from 0 to 1, for the name to be offered.
const SIMILARITY_MIN: f64 = 0.75;

/// Everything an operator says of a destination, beside its name and its secrets. What is not said is at its default in a new
/// destination, and stays as it is in one that is changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DestinationTerms {
    /// What takes the events: `webhook`, `eventbridge`, `nats` or `file`. Never changes.
    pub kind: Option<String>,
    /// Where a webhook or a NATS server is.
    pub url: Option<String>,
    /// How many events one request to a webhook has at most.
    pub batch_max: Option<u64>,
    /// How webhooks are signed: `hmac-sha256` or `ed25519`. Changes with the secret only.
    pub algorithm: Option<String>,
    /// The region of an event bus.
    pub region: Option<String>,
    /// Its name or ARN.
    pub bus: Option<String>,
    /// Where it is asked, if not at AWS's address of the region.
    pub endpoint: Option<String>,
    /// The key that requests to it are signed with.
    pub access_key_id: Option<String>,
    /// What subjects of NATS begin with.
    pub subject_prefix: Option<String>,
    /// How large a file may become.
    pub size_max_bytes: Option<u64>,
    /// How many rotated files are kept.
    pub files_max: Option<u64>,
    /// How long an attempt may take.
    pub timeout_seconds: Option<u64>,
    /// The rooms whose events it gets; none: all, and what concerns no room.
    pub rooms: Option<Vec<String>>,
    /// The kinds that it gets.
    pub types: Option<Vec<String>>,
    /// Whether it gets the request ids of visitors.
    pub with_request_ids: Option<bool>,
    /// `exponential` or `standard`.
    pub schedule: Option<String>,
    /// How long it waits between two attempts at most; of `exponential` only.
    pub backoff_max_seconds: Option<u64>,
    /// How long after an event it is tried again.
    pub give_up_after_seconds: Option<u64>,
}

/// What is wrong with one field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{field}` {why}")]
pub struct FieldProblem {
    /// Its name in the API and in the configuration file.
    pub field: &'static str,
    /// As a clause whose subject is the field.
    pub why: String,
}

impl FieldProblem {
    pub(crate) fn new(field: &'static str, why: impl Into<String>) -> Self {
        Self { field, why: why.into() }
    }
}

/// Terms that make sense, with what was not said filled in.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct CheckedTerms {
    pub(super) target: Target,
    /// How the first key of a new webhook signs.
    pub(super) algorithm: WebhookAlgorithm,
    pub(super) rooms: Vec<RoomId>,
    pub(super) types: Vec<String>,
    pub(super) with_request_ids: bool,
    pub(super) schedule: RetrySchedule,
    pub(super) backoff_max: Duration,
    pub(super) give_up_after: Duration,
}

/// Whether a name is that of a file which another destination renames its own to, as `NAME.1`.
fn is_rotated_name(name: &str) -> bool {
    let end = name.rsplit_once('.').map(|(_, end)| end);
    end.is_some_and(|end| !end.is_empty() && end.bytes().all(|byte| byte.is_ascii_digit()))
}

/// What is wrong with the name of a new destination.
pub(super) fn check_name_of(name: &str, kind: DestinationKind) -> Result<(), FieldProblem> {
    if kind == DestinationKind::File && is_rotated_name(name) {
        return Err(FieldProblem::new(
            "name",
            "of a file must not end with a dot and a number, as rotated files do",
        ));
    }
    check_name(name)
}

/// What is wrong with a name.
pub(super) fn check_name(name: &str) -> Result<(), FieldProblem> {
    // It is also the name of a file, and one with a dot in front would be hidden, or another directory.
    if RoomId::parse(name).is_ok() && !name.starts_with('.') {
        return Ok(());
    }
    let why = "must be 1 to 64 letters, digits, dots, hyphens or underscores, and must not begin with a dot";
    Err(FieldProblem::new("name", why))
}

impl DestinationTerms {
    /// Fills in what was not said, from the destination as it is, or the defaults; or everything that is wrong, in the order of the
    /// fields.
    pub(super) fn check(
        &self,
        before: Option<&Destination>,
        rules: &DestinationRules,
    ) -> Result<CheckedTerms, Vec<FieldProblem>> {
        let mut checker = Checker { terms: self, rules, problems: vec![] };
        let Some(kind) = checker.kind(before) else { return Err(checker.problems) };
        checker.refuse_fields_of_others(kind);
        let target = checker.target(kind, before.map(|before| &before.target));
        let algorithm = checker.algorithm(before.is_some());
        let rooms = checker.rooms(before);
        let types = checker.types(kind, before);
        let schedule = checker.schedule(before);
        let seconds = |time: Duration| time.as_secs();
        let backoff_max = checker.number(
            "backoff_max_seconds",
            self.backoff_max_seconds,
            before.map_or(BACKOFF_MAX_SECONDS, |before| seconds(before.backoff_max)),
            BACKOFFS_SECONDS,
        );
        if self.backoff_max_seconds.is_some() && schedule == RetrySchedule::Standard {
            checker.found("backoff_max_seconds", "is for the schedule `exponential`; `standard` is fixed");
        }
        let give_up_after = checker.number(
            "give_up_after_seconds",
            self.give_up_after_seconds,
            before.map_or(GIVE_UP_AFTER_SECONDS, |before| seconds(before.give_up_after)),
            GIVE_UPS_SECONDS,
        );
        let with_request_ids = self.with_request_ids.unwrap_or_else(|| {
            // AWS's details have them.
            before.map_or(kind == DestinationKind::EventBridge, |before| before.with_request_ids)
        });
        if !checker.problems.is_empty() {
            return Err(checker.problems);
        }
        Ok(CheckedTerms {
            target,
            algorithm,
            rooms,
            types,
            with_request_ids,
            schedule,
            backoff_max: Duration::from_secs(backoff_max),
            give_up_after: Duration::from_secs(give_up_after),
        })
    }

    /// The fields that some kinds have and others do not, whether they were said, and who has them.
    fn fields_of_kinds(&self) -> [(&'static str, bool, &'static [DestinationKind]); 10] {
        use DestinationKind::{EventBridge, File, Nats, Webhook};
        [
            ("url", self.url.is_some(), &[Webhook, Nats]),
            ("batch_max", self.batch_max.is_some(), &[Webhook]),
            ("algorithm", self.algorithm.is_some(), &[Webhook]),
            ("region", self.region.is_some(), &[EventBridge]),
            ("bus", self.bus.is_some(), &[EventBridge]),
            ("endpoint", self.endpoint.is_some(), &[EventBridge]),
            ("access_key_id", self.access_key_id.is_some(), &[EventBridge]),
            ("subject_prefix", self.subject_prefix.is_some(), &[Nats]),
            ("size_max_bytes", self.size_max_bytes.is_some(), &[File]),
            ("files_max", self.files_max.is_some(), &[File]),
        ]
    }
}

struct Checker<'a> {
    terms: &'a DestinationTerms,
    rules: &'a DestinationRules,
    problems: Vec<FieldProblem>,
}

impl Checker<'_> {
    fn found(&mut self, field: &'static str, why: impl Into<String>) {
        self.problems.push(FieldProblem::new(field, why));
    }

    fn kind(&mut self, before: Option<&Destination>) -> Option<DestinationKind> {
        let before = before.map(|before| before.target.kind());
        let given = self.terms.kind.as_deref();
        let names = DestinationKind::ALL.map(DestinationKind::as_str).join(", ");
        match (before, given.map(|name| (name, DestinationKind::parse(name)))) {
            (Some(before), None) => Some(before),
            (Some(before), Some((_, Some(kind)))) if kind == before => Some(kind),
            (Some(before), Some((_, Some(_)))) => {
                let why = format!("cannot be changed from {}; make another destination", before.as_str());
                self.found("kind", why);
                None
            }
            (None, Some((_, Some(kind)))) => Some(kind),
            (_, Some((name, None))) => {
                let known = DestinationKind::ALL.map(DestinationKind::as_str);
                let hint =
                    similar(name, known).map_or_else(String::new, |name| format!("; did you mean {name}?"));
                self.found("kind", format!("must be one of {names}{hint}"));
                None
            }
            (None, None) => {
                self.found("kind", format!("must say what takes the events: one of {names}"));
                None
            }
        }
    }

    fn refuse_fields_of_others(&mut self, kind: DestinationKind) {
        for (field, is_given, kinds) in self.terms.fields_of_kinds() {
            if is_given && !kinds.contains(&kind) {
                let owners = kinds.iter().map(|kind| kind.as_str()).collect::<Vec<_>>().join(" and ");
                self.found(
                    field,
                    format!("is of {owners}, and this is a destination of the kind {}", kind.as_str()),
                );
            }
        }
        if kind == DestinationKind::File && self.terms.timeout_seconds.is_some() {
            self.found("timeout_seconds", "is not of files");
        }
        if kind == DestinationKind::File && !self.rules.has_events_directory {
            self.found("kind", "file needs the server setting events_directory, which says where");
        }
    }

    fn target(&mut self, kind: DestinationKind, before: Option<&Target>) -> Target {
        let seconds = before.and_then(Target::timeout).map_or(TIMEOUT_SECONDS, |before| before.as_secs());
        let timeout = self.number("timeout_seconds", self.terms.timeout_seconds, seconds, TIMEOUTS_SECONDS);
        let timeout = Duration::from_secs(timeout);
        match (kind, before) {
            (DestinationKind::Webhook, before) => {
                let before = before.and_then(|before| match before {
                    Target::Webhook(before) => Some(before),
                    _ => None,
                });
                let batch_max = before.map_or(1, |before| u64::from(before.batch_max));
                let batch_max =
                    self.number("batch_max", self.terms.batch_max, batch_max, 1..=u64::from(BATCH_MAX));
                Target::Webhook(WebhookTarget {
                    url: self.url(HTTP, before.map(|before| before.url.as_str())),
                    batch_max: u32::try_from(batch_max).unwrap_or(1),
                    timeout,
                })
            }
            (DestinationKind::EventBridge, before) => {
                let before = before.and_then(|before| match before {
                    Target::EventBridge(before) => Some(before),
                    _ => None,
                });
                Target::EventBridge(self.event_bridge(before, timeout))
            }
            (DestinationKind::Nats, before) => {
                let before = before.and_then(|before| match before {
                    Target::Nats(before) => Some(before),
                    _ => None,
                });
                let prefix = before.map_or(SUBJECT_PREFIX, |before| before.subject_prefix.as_str());
                Target::Nats(NatsTarget {
                    url: self.url(NATS, before.map(|before| before.url.as_str())),
                    subject_prefix: self.subject_prefix(prefix),
                    timeout,
                })
            }
            (DestinationKind::File, before) => {
                let (size, files) = match before {
                    Some(Target::File(before)) => (before.size_max_bytes, before.files_max),
                    _ => (FILE_SIZE_BYTES, FILES_KEPT),
                };
                let files = self.number("files_max", self.terms.files_max, files.into(), FILES);
                Target::File(FileTarget {
                    size_max_bytes: self.number(
                        "size_max_bytes",
                        self.terms.size_max_bytes,
                        size,
                        FILE_SIZES_BYTES,
                    ),
                    files_max: u32::try_from(files).unwrap_or(FILES_KEPT),
                })
            }
        }
    }

    fn event_bridge(&mut self, before: Option<&EventBridgeTarget>, timeout: Duration) -> EventBridgeTarget {
        let terms = self.terms;
        let region = terms.region.as_deref().or(before.map(|before| before.region.as_str()));
        let is_in_region = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if !region.is_some_and(|region| {
            (1..=REGION_MAX_BYTES).contains(&region.len()) && region.bytes().all(is_in_region)
        }) {
            self.found("region", "must name a region of AWS, such as eu-central-1");
        }
        let bus = terms.bus.as_deref().or(before.map(|before| before.bus.as_str())).unwrap_or("default");
        let is_in_bus = |byte: u8| byte.is_ascii_alphanumeric() || b"/.-_:".contains(&byte);
        if !(1..=BUS_MAX_BYTES).contains(&bus.len()) || !bus.bytes().all(is_in_bus) {
            self.found("bus", "must be the name or the ARN of an event bus");
        }
        let endpoint = terms.endpoint.as_deref().or(before.and_then(|before| before.endpoint.as_deref()));
        if let Some(Err(why)) = endpoint.map(|url| check_url(url, HTTP, &self.rules.networks)) {
            self.found("endpoint", why);
        }
        let key = terms.access_key_id.as_deref().or(before.map(|before| before.access_key_id.as_str()));
        if !key.is_some_and(is_access_key_id) {
            self.found(
                "access_key_id",
                "must be the id of an access key of AWS: 16 to 128 letters, digits or underscores",
            );
        }
        EventBridgeTarget {
            region: region.unwrap_or_default().to_owned(),
            bus: bus.to_owned(),
            endpoint: endpoint.map(str::to_owned),
            access_key_id: key.unwrap_or_default().to_owned(),
            timeout,
        }
    }

    fn url(&mut self, schemes: Schemes, before: Option<&str>) -> String {
        let Some(url) = self.terms.url.as_deref().or(before) else {
            self.found(
                "url",
                format!("must say where events go, such as {}://example.com/", schemes.encrypted),
            );
            return String::new();
        };
        if let Err(why) = check_url(url, schemes, &self.rules.networks) {
            self.found("url", why);
        }
        url.to_owned()
    }

    fn subject_prefix(&mut self, before: &str) -> String {
        let prefix = self.terms.subject_prefix.as_deref().unwrap_or(before);
        let is_token = |token: &str| {
            !token.is_empty()
                && token.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
        };
        if prefix.len() > SUBJECT_PREFIX_MAX_BYTES || !prefix.split('.').all(is_token) {
            let why = format!(
                "must be letters, digits, hyphens and underscores, with single dots between them, at most {SUBJECT_PREFIX_MAX_BYTES} in all"
            );
            self.found("subject_prefix", why);
        }
        prefix.to_owned()
    }

    /// How keys sign: a name that there is not, or one that would change keys that are there, is refused.
    fn algorithm(&mut self, is_change: bool) -> WebhookAlgorithm {
        let Some(name) = self.terms.algorithm.as_deref() else { return WebhookAlgorithm::HmacSha256 };
        if is_change {
            self.found("algorithm", "is changed with the secret: give the destination a new one");
        }
        WebhookAlgorithm::parse(name).unwrap_or_else(|| {
            let names = WebhookAlgorithm::ALL.map(WebhookAlgorithm::as_str).join(" or ");
            self.found("algorithm", format!("must be {names}"));
            WebhookAlgorithm::HmacSha256
        })
    }

    fn rooms(&mut self, before: Option<&Destination>) -> Vec<RoomId> {
        let Some(names) = &self.terms.rooms else {
            return before.map_or_else(Vec::new, |before| before.rooms.clone());
        };
        if names.len() > ROOMS_MAX {
            self.found("rooms", format!("must be a list of at most {ROOMS_MAX} rooms"));
            return vec![];
        }
        let mut rooms: Vec<RoomId> = vec![];
        for name in names {
            match RoomId::parse(name) {
                Ok(room) if rooms.contains(&room) => {
                    self.found("rooms", format!("has the room {name} twice"));
                }

                Ok(room) => rooms.push(room),
                Err(error) => self.found("rooms", format!("has {}: {error}", shown(name))),
            }
        }
        rooms
    }

    fn types(&mut self, kind: DestinationKind, before: Option<&Destination>) -> Vec<String> {
        let Some(patterns) = &self.terms.types else {
            let usual = if kind == DestinationKind::EventBridge { "aws" } else { "default" };
            return before.map_or_else(|| vec![usual.to_owned()], |before| before.types.clone());
        };
        if !(1..=TYPES_MAX).contains(&patterns.len()) {
            self.found(
                "types",
                format!("must be a list of 1 to {TYPES_MAX} kinds of events, such as room.* or default"),
            );
        }
        for pattern in patterns.iter().take(TYPES_MAX) {
            if kinds_of([pattern.as_str()]).is_err() {
                let names = EventKind::ALL.iter().map(|kind| kind.as_str());
                let groups = names.clone().filter_map(|name| name.split_once('.')).map(|(group, _)| group);
                let groups: Vec<String> = groups.map(|group| format!("{group}.*")).collect();
                let known = names.chain(groups.iter().map(String::as_str)).chain(["default", "aws", "*"]);
                let hint = match similar(pattern, known) {
                    Some(name) => format!("did you mean {name}?"),
                    None => "docs/operating/events.md lists every kind".to_owned(),
                };
                self.found("types", format!("has {}, which names no kind of event; {hint}", shown(pattern)));
            }
        }
        patterns.clone()
    }

    fn schedule(&mut self, before: Option<&Destination>) -> RetrySchedule {
        let Some(name) = self.terms.schedule.as_deref() else {
            return before.map_or_else(RetrySchedule::default, |before| before.schedule);
        };
        RetrySchedule::parse(name).unwrap_or_else(|| {
            let names = RetrySchedule::ALL.map(RetrySchedule::as_str).join(" or ");
            self.found("schedule", format!("must be {names}"));
            RetrySchedule::default()
        })
    }

    fn number(
        &mut self,
        field: &'static str,
        given: Option<u64>,
        otherwise: u64,
        range: RangeInclusive<u64>,
    ) -> u64 {
        let number = given.unwrap_or(otherwise);
        if !range.contains(&number) {
            self.found(field, format!("must be {} to {}", range.start(), range.end()));
        }
        number
    }
}

/// Whether a text can be the id of an access key.
pub(super) fn is_access_key_id(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    ACCESS_KEY_ID_BYTES.contains(&text.len()) && text.bytes().all(allowed)
}

/// The name most like another, if any is like it at all.
fn similar<'a>(name: &str, valid: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let lower = name.to_ascii_lowercase();
    let rated = valid.into_iter().map(|candidate| (strsim::jaro_winkler(&lower, candidate), candidate));
    let similar = rated.filter(|(similarity, _)| *similarity >= SIMILARITY_MIN);
    similar.max_by(|left, right| left.0.total_cmp(&right.0)).map(|(_, candidate)| candidate)
}

/// A refused text as it may be repeated.
fn shown(text: &str) -> String {
    format!("{:?}", text.chars().take(64).collect::<String>())
}
