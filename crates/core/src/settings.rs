//! A room's settings as one table: name, kind, default and meaning of each, spelt once.
//!
//! Configuration files, the API, stores and the reference all read [`FIELDS`]; so a setting added here exists everywhere. How
//! each kind of setting is read and written is in `settings/kinds.rs`, and in `settings/gateway.rs` for what only the gateway uses.

mod gateway;
mod kinds;
mod page;

pub use gateway::{
    BypassRule, Cidr, HostName, JoinMode, LISTED_MAX, LISTED_MAX_LENGTH, List, NameAndValue, OnStoreLoss,
    OriginUrl, PathPrefix, QueueingMethod, QueueingStatus, VisitorEvents,
};

pub use kinds::{
    ALARM_NAME_MAX_LENGTH, ALARMS_MAX, AlarmNames, Bounded, DURATION_MAX_SECONDS, Discipline,
    ISSUER_MAX_LENGTH, InletKind, KEY_OVERLAP_MAX_SECONDS, KeyOverlap, Latency, NOTICE_MAX_LENGTH, Notice,
    People, Percent, Seconds, ShortSeconds, Thousandths, Value, WebAddress, Windows, is_alarm_name,
    is_issuer,
};

pub use page::{
    Colour, HEADING_MAX_LENGTH, HandOff, Heading, LOGO_MAX_LENGTH, Logo, ReturnAddress,
    TEMPLATE_NAME_MAX_LENGTH, TemplateName,
};

use kinds::Kind;

use crate::session::STAY_GRACE_MILLIS;

/// Claim window of a room without capacity, unless set.
pub const CLAIM_WINDOW_SECONDS: u64 = 900;
/// Claim window of a room with a capacity, unless set: an unclaimed offer holds a slot.
pub const CLAIM_WINDOW_CAPPED_SECONDS: u64 = 120;

/// Why a setting, or the settings together, are refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// The name is not in the table.
    #[error("unknown setting `{0}`")]
    Unknown(String),
    /// The value does not fit the setting.
    #[error("`{name}` must be {expected}, not {found}")]
    Invalid {
        /// The setting.
        name: &'static str,
        /// What it takes.
        expected: String,
        /// What was given.
        found: String,
    },
    /// The values contradict each other.
    #[error("{0}")]
    Contradiction(&'static str),
}

/// One row of the table of settings.
pub struct Field {
    /// Its name in files, APIs and documents.
    pub name: &'static str,
    /// What it means.
    pub meaning: &'static str,
    /// What values it takes.
    pub expected: &'static str,
    /// Reads it.
    pub get: fn(&Settings) -> Value,
    set: fn(&mut Settings, &Value) -> bool,
}

macro_rules! settings {
    ($( $(#[doc = $meaning:literal])+ $name:ident: $kind:ty = $default:expr, )+) => {
        /// What an operator may set on a room; everything can change while it runs.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct Settings { $( $(#[doc = $meaning])+ pub $name: $kind, )+ }

        impl Default for Settings {
            fn default() -> Self {
                Self { $( $name: $default, )+ }
            }
        }

        /// Every setting, in the order of the reference.
        pub const FIELDS: &[Field] = &[ $( Field {
            name: stringify!($name),
            meaning: concat!($($meaning),+),
            expected: <$kind as Kind>::EXPECTED,
            get: |settings| settings.$name.to_value(),
            set: |settings, value| {
                let parsed = <$kind as Kind>::from_value(value);
                parsed.map(|parsed| settings.$name = parsed).is_some()
            },
        }, )+ ];
    };
}

settings! {
    /// What moves the frontier.
    inlet: InletKind = InletKind::Manual,
    /// The capacity of a `max-size` room: visitors inside plus open offers. The most that an `adaptive` room may let in.
    total_active_users: Option<u64> = None,
    /// How many more people a room with a capacity offers a place to within a minute, spread over steps of `interval_seconds`.
    new_users_per_minute: Option<People> = None,
    /// How many positions a `periodic` step moves the frontier.
    increment_by: People = Bounded(10),
    /// Time between two steps of a `periodic` or `window` inlet, and of `new_users_per_minute`.
    interval_seconds: Seconds = Seconds(60),
    /// When an automatic inlet begins to move the frontier, in seconds since 1970; 0 means at once.
    start_time: u64 = 0,
    /// When it ends, in seconds since 1970; 0 means never.
    end_time: u64 = 0,
    /// Alarms that hold an automatic inlet while one of them fires.
    alarms: AlarmNames = AlarmNames(Vec::new()),
    /// Whether `periodic` steps go on while nobody waits, so that a quiet time saves up places for the next visitors.
    run_ahead: bool = false,
    /// How many people a `window` holds.
    window_size: Option<People> = None,
    /// How many windows may claim at once: the last so many times `window_size` positions; older offers lapse. At least 2 is advised.
    active_windows: Windows = Bounded(2),
    /// The least that an `adaptive` room lets in, however the origin fares.
    adaptive_floor: u64 = 1,
    /// The latency, as the origin's 95th percentile in milliseconds, that an `adaptive` room aims at.
    target_latency_ms: Latency = Bounded(500),
    /// The share of failed requests, in thousandths, that an `adaptive` room tolerates.
    target_errors_per_thousand: Thousandths = Bounded(20),
    /// Who among the waiting may claim: everybody up to the frontier, or each round's winners.
    discipline: Discipline = Discipline::Counter,
    /// Time between two rounds of an auction, and between two adjustments of an `adaptive` inlet. A reporter silent for three
    /// of them counts as full.
    round_seconds: ShortSeconds = Bounded(10),
    /// How long after it was issued a pass may be used for the first time, where the origin reports its capacity. The slot of one that
    /// is not used is free six seconds later: a pass is good until its second is over, and a report may be five seconds old.
    enter_by_seconds: ShortSeconds = Bounded(30),
    /// What the operator tells those who wait.
    notice: Option<Notice> = None,
    /// How long a pass, and the session that goes with it, is valid.
    validity_period: Seconds = Seconds(3600),
    /// Whether an offer that is not claimed in time lapses.
    enable_queue_position_expiry: bool = true,
    /// The claim window; 900 when not set, 120 in a room with a capacity.
    queue_position_expiry_period: Option<Seconds> = None,
    /// Whether the frontier moves on by as many positions as lapsed (inherent in a room with a capacity).
    incr_svc_on_queue_position_expiry: bool = false,
    /// `iss` of the passes; the server's public URL when not set.
    issuer: Option<String> = None,
    /// How long after a new signing key has taken over elsewhere this room's passes are still signed by the one before, for verifiers that
    /// keep one key for long.
    key_overlap_seconds: KeyOverlap = Bounded(0),
    /// Where an admitted visitor goes, told together with the pass.
    backend_uri: Option<WebAddress> = None,
    /// Whether `/refresh` gives no new access token, and coming back to the gateway prolongs no visit: it ends with its first pass,
    /// or `session_duration` after it began.
    disable_session_renewal: bool = false,
    /// How long a visitor whom the gateway has let in stays without coming back.
    session_duration: Seconds = Seconds(300),
    /// How long such a visitor stays at most, however often they come back.
    session_max: Seconds = Seconds(43_200),
    /// The hosts whose requests the gateway takes to this room; none means every host.
    hosts: List<HostName> = List::default(),
    /// The paths, with all below them, whose requests it takes to this room; none means every path.
    paths: List<PathPrefix> = List::default(),
    /// Whether `paths` are taken to the letter. Otherwise they are also meant in other case and with an ending, because some sites
    /// answer to `/CHECKOUT`, `/checkout.json` and `/checkout;a=1` as to `/checkout`.
    paths_exact: bool = false,
    /// Where it forwards to; none means the server's `origin`.
    origins: List<OriginUrl> = List::default(),
    /// Who may take a place: visitors who open a page and bring its cookie back, or also programs by the API. `page` when not
    /// set in a room that the gateway stands before, `open` in any other.
    join: Option<JoinMode> = None,
    /// Whether `/join` claims a place that is served at once. Otherwise its status is `active`, and the client claims it by `/claim`.
    join_claims: bool = true,
    /// While others wait, the most that the visitors of one address prefix hold of a capacity, in hundredths; two visits at
    /// least. 100 means no limit.
    visits_per_prefix_share: Percent = Bounded(25),
    /// What becomes of a visitor at the gateway for whom no slot is free: a place in line, straight to the origin, or turned away.
    queueing_method: QueueingMethod = QueueingMethod::Fifo,
    /// Whether everybody waits: while it is true nobody is offered a place by itself. Offers that were made can be claimed.
    queue_all: bool = false,
    /// How many may join in a second, over all nodes. Beyond it networks share what there is, and the others are asked to try again.
    join_rate_max: Option<People> = None,
    /// Whether the room's figures are told every minute as the event `waiting_room_metrics`.
    enable_events_generation: bool = false,
    /// Whether events that come with each visitor are kept: where a destination asks for them, always, or never.
    visitor_events: VisitorEvents = VisitorEvents::Auto,
    /// The status of the gateway's waiting page.
    queueing_status_code: QueueingStatus = QueueingStatus::OK,
    /// Which requests at the gateway pass by the room, neither counted nor held up.
    bypass: List<BypassRule> = List::default(),
    /// What becomes of new visitors at the gateway while the store cannot be reached: they wait, are let in at the last known
    /// rate, or all are let in.
    on_store_loss: OnStoreLoss = OnStoreLoss::Hold,
    /// Whether the waiting page goes in by itself at the turn; otherwise by a button.
    auto_enter: bool = true,
    /// How the page `/wait/{room}` hands the pass to the site that the visitor goes on to.
    handoff: HandOff = HandOff::Query,
    /// The domain of the cookie by which `handoff` `cookie` does that: one that this server's host and the site share.
    handoff_domain: Option<HostName> = None,
    /// Where `/wait/{room}` may send visitors on to; `backend_uri` is always among them.
    return_addresses: List<ReturnAddress> = List::default(),
    /// What the waiting page is headed with, above what it says itself.
    page_heading: Option<Heading> = None,
    /// What the waiting page says below its title, in place of its own words.
    page_text: Option<Notice> = None,
    /// The colour of the waiting page's buttons and bar.
    page_color: Option<Colour> = None,
    /// The colour behind the waiting page in light mode.
    page_background: Option<Colour> = None,
    /// The picture on top of the waiting page.
    page_logo: Option<Logo> = None,
    /// What that picture says, for those who do not see it. Not needed where `page_heading` says it.
    page_logo_text: Option<Heading> = None,
    /// A page of the operator's own in place of the waiting page: a file of the server's `page_templates`.
    page_template: Option<TemplateName> = None,
}

/// A setting that a later version brings: refused, but not reported as a typing error.
pub struct PlannedSetting {
    /// Its name.
    pub name: &'static str,
    /// Its default, as the reference will write it.
    pub default: &'static str,
}

/// Settings that do nothing yet, so that nobody relies on them.
pub const PLANNED: &[PlannedSetting] = &[PlannedSetting { name: "proof_of_work", default: "off" }];

impl Settings {
    /// Sets one setting by its name.
    pub fn set(&mut self, name: &str, value: &Value) -> Result<(), SettingsError> {
        let field = FIELDS.iter().find(|field| field.name == name);
        let field = field.ok_or_else(|| SettingsError::Unknown(name.to_owned()))?;
        if (field.set)(self, value) {
            return Ok(());
        }
        Err(SettingsError::Invalid {
            name: field.name,
            expected: field.expected.to_owned(),
            found: value.to_string(),
        })
    }

    /// Checks that the settings make sense together.
    pub fn check(&self) -> Result<(), SettingsError> {
        let contradictions: [(bool, &'static str); 10] = [
            (
                self.inlet.is_capped() && self.total_active_users.is_none(),
                "an inlet with a capacity (\"max-size\", \"adaptive\") needs `total_active_users`",
            ),
            (
                self.inlet.is_capped() && !self.enable_queue_position_expiry,
                "an inlet with a capacity needs `enable_queue_position_expiry`: an offer that never lapses would hold its slot for ever",
            ),
            (
                self.inlet == InletKind::Window && self.window_size.is_none(),
                "inlet \"window\" needs `window_size`",
            ),
            (
                self.inlet == InletKind::Window && !self.enable_queue_position_expiry,
                "inlet \"window\" needs `enable_queue_position_expiry`: what is older than `active_windows` lapses",
            ),
            (
                self.end_time != 0 && self.end_time <= self.start_time,
                "`end_time` must be later than `start_time`, or 0",
            ),
            (
                self.inlet == InletKind::Adaptive
                    && self.total_active_users.is_some_and(|most| most < self.adaptive_floor),
                "`adaptive_floor` must not be above `total_active_users`",
            ),
            (
                self.new_users_per_minute.is_some() && !self.inlet.is_capped(),
                "`new_users_per_minute` goes with `total_active_users`, in a room whose inlet has a capacity",
            ),
            (
                self.new_users_per_minute.is_some() && self.interval_seconds.get() > 60,
                "with `new_users_per_minute`, `interval_seconds` must be at most 60",
            ),
            (
                self.discipline == Discipline::Auction
                    && matches!(self.inlet, InletKind::Periodic | InletKind::Window),
                "an auction gives away free slots: its inlet is \"max-size\", \"adaptive\", or \"manual\" with capacity reports alone",
            ),
            (
                self.session_duration > self.session_max,
                "`session_duration` must not be longer than `session_max`",
            ),
        ];
        let contradiction = contradictions.into_iter().find(|(contradicts, _)| *contradicts);
        match contradiction.map(|(_, text)| text).or_else(|| page::handoff_contradiction(self)) {
            Some(text) => Err(SettingsError::Contradiction(text)),
            None => Ok(()),
        }
    }

    /// The capacity as it was set, for an inlet that keeps one.
    pub fn capacity(&self) -> Option<u64> {
        if self.inlet.is_capped() { self.total_active_users } else { None }
    }

    /// Whether it holds auctions.
    pub fn is_auction(&self) -> bool {
        self.discipline == Discipline::Auction
    }

    /// How long an offer stands, in milliseconds; `None` if no clock ends it. In a `window` room newer windows do, and a clock
    /// only if one is set.
    pub fn claim_window_millis(&self) -> Option<u64> {
        let by_inlet = match self.inlet {
            InletKind::MaxSize | InletKind::Adaptive => Some(CLAIM_WINDOW_CAPPED_SECONDS),
            InletKind::Manual | InletKind::Periodic => Some(CLAIM_WINDOW_SECONDS),
            InletKind::Window => None,
        };
        let seconds = self.queue_position_expiry_period.map(Seconds::get).or(by_inlet);
        seconds.filter(|_| self.enable_queue_position_expiry).map(|seconds| seconds * 1000)
    }

    /// Whether the frontier moves on by as many positions as lapsed. With a capacity it does so anyway, and in an auction only
    /// rounds move it.
    pub(crate) fn moves_on_over_lapsed(&self) -> bool {
        self.incr_svc_on_queue_position_expiry && !self.inlet.is_capped() && !self.is_auction()
    }

    /// Time between two steps of the timetable, in milliseconds, for an inlet that has one.
    pub fn step_interval_millis(&self) -> Option<u64> {
        let stepped = match self.inlet {
            InletKind::Periodic | InletKind::Window => true,
            InletKind::MaxSize | InletKind::Adaptive => self.new_users_per_minute.is_some(),
            InletKind::Manual => false,
        };
        stepped.then_some(self.interval_seconds.get() * 1000)
    }

    /// How long a visitor may be inside unseen: with a pass, or with a cookie that was just renewed.
    pub(crate) const fn longest_unseen_visit_millis(&self) -> u64 {
        let by_pass = self.validity_period.get() * 1000;
        let by_cookie = self.session_duration.get() * 1000 + STAY_GRACE_MILLIS;
        if by_pass > by_cookie { by_pass } else { by_cookie }
    }

    /// Time between two rounds, in milliseconds.
    pub const fn round_millis(&self) -> u64 {
        self.round_seconds.get() * 1000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_reads_back_what_was_set() {
        let defaults = Settings::default();
        for field in FIELDS {
            let mut settings = Settings::default();
            settings.set(field.name, &(field.get)(&defaults)).unwrap();
            assert_eq!(settings, defaults, "{}", field.name);
            assert!(!field.meaning.trim().is_empty());
        }
    }

    #[test]
    fn refusals_name_the_setting_and_what_it_takes() {
        let mut settings = Settings::default();
        let refused = settings.set("validity_period", &Value::Number(0)).unwrap_err().to_string();
        assert_eq!(refused, "`validity_period` must be a whole number of seconds from 1 to 31536000, not 0");
        let refused = settings.set("inlet", &Value::Text("fast".into())).unwrap_err().to_string();
        assert_eq!(
            refused,
            "`inlet` must be \"manual\", \"periodic\", \"max-size\", \"window\" or \"adaptive\", not \"fast\""
        );
        assert_eq!(settings.set("nope", &Value::None), Err(SettingsError::Unknown("nope".into())));
        assert_eq!(settings, Settings::default());
    }

    #[test]
    fn a_capped_inlet_needs_a_capacity_and_a_claim_window() {
        let mut settings = Settings { inlet: InletKind::MaxSize, ..Settings::default() };
        assert!(settings.check().is_err());
        settings.total_active_users = Some(5);
        settings.check().unwrap();
        assert_eq!(settings.claim_window_millis(), Some(120_000));
        settings.enable_queue_position_expiry = false;
        assert!(settings.check().is_err());
    }
}
