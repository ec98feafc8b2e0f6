//! What may happen in a play, in random order.

use anteroom_core::settings::{AlarmNames, Bounded, People, Seconds, ShortSeconds, Windows};
use anteroom_core::{Discipline, InletKind, Report, RoomState, Settings};
use proptest::prelude::*;

/// One thing that happens.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    Join(u64),
    /// With how long a stay, in milliseconds, where a cookie goes with it.
    Claim(usize, Option<u64>),
    /// For so many milliseconds; and whether it confirms.
    Touch(usize, u64, bool),
    /// From now on there is one node, or there are several.
    SeveralNodes(bool),
    /// So many others were ended by name that no more can be shown.
    ShownFully,
    Leave(usize),
    /// To another device.
    Move(usize),
    Close(usize, bool),
    Exits(u64),
    Advance(i64),
    /// One setting, or several that belong together.
    Set(Change),
    State(RoomState),
    /// Settings and state at once, by an operator who has seen the room as it is, or as it never was.
    Both {
        change: Change,
        state: RoomState,
        stale: bool,
    },
    Reset,
    OpenSegment,
    Report(Report),
    ForgetReporter(u8),
    Alarms(u8),
    /// The end of a round, with those present whose bit is set. `wait` lets its time come first.
    SettleRound {
        present: u64,
        wait: bool,
        which: Round,
    },
    /// The clock moves by so many milliseconds, also backwards.
    Clock(i64),
    /// The same, but nobody ticks: the next operation meets all that has become due.
    Silence(i64),
}

/// Which round somebody wants to settle.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Round {
    Open,
    SettledLast,
    NeverHeard,
}

/// A change of settings.
#[derive(Debug, Clone)]
pub(crate) enum Change {
    /// Another inlet; `tidy` takes away the settings that contradict it.
    Inlet(InletKind, bool),
    Discipline(Discipline, bool),
    Capacity(Option<u64>),
    Rate(Option<u64>),
    Increment(u64),
    Interval(u64),
    /// Seconds from the beginning of the play.
    Start(u64),
    End(u64),
    RunAhead(bool),
    WindowSize(u64),
    ActiveWindows(u64),
    Floor(u64),
    Rounds(u64),
    EnterBy(u64),
    Alarms(u8),
    Expiry(bool),
    ClaimWindow(Option<u64>),
    MoveOn(bool),
    QueueAll(bool),
    NoRenewal(bool),
    LongestStay(u64),
}

/// The names of the alarms of a play whose bits are set.
pub(crate) fn alarm_names(bits: u8) -> Vec<String> {
    let names = ["OriginSlow", "OriginDown"];
    names
        .iter()
        .enumerate()
        .filter(|(bit, _)| bits >> bit & 1 == 1)
        .map(|(_, name)| (*name).to_owned())
        .collect()
}

impl Change {
    pub(crate) fn make(&self, settings: &mut Settings, start: u64) {
        let moment = |seconds: u64| if seconds == 0 { 0 } else { start + seconds };
        match *self {
            Self::Inlet(inlet, tidy) => {
                settings.inlet = inlet;
                if tidy && !inlet.is_capped() {
                    settings.new_users_per_minute = None;
                }
                if tidy && inlet != InletKind::Manual {
                    settings.enable_queue_position_expiry = true;
                }
                if tidy && matches!(inlet, InletKind::Periodic | InletKind::Window) {
                    settings.discipline = Discipline::Counter;
                }
            }
            Self::Discipline(discipline, tidy) => {
                settings.discipline = discipline;
                if tidy && matches!(settings.inlet, InletKind::Periodic | InletKind::Window) {
                    settings.inlet = InletKind::MaxSize;
                }
            }
            Self::Capacity(capacity) => settings.total_active_users = capacity,
            Self::Rate(rate) => settings.new_users_per_minute = rate.and_then(People::new),
            Self::Increment(people) => settings.increment_by = People::new(people).unwrap(),
            Self::Interval(seconds) => settings.interval_seconds = Seconds::new(seconds).unwrap(),
            Self::Start(seconds) => settings.start_time = moment(seconds),
            Self::End(seconds) => settings.end_time = moment(seconds),
            Self::RunAhead(on) => settings.run_ahead = on,
            Self::WindowSize(people) => settings.window_size = People::new(people),
            Self::ActiveWindows(windows) => settings.active_windows = Windows::new(windows).unwrap(),
            Self::Floor(people) => settings.adaptive_floor = people,
            Self::Rounds(seconds) => settings.round_seconds = ShortSeconds::new(seconds).unwrap(),
            Self::EnterBy(seconds) => settings.enter_by_seconds = Bounded::new(seconds).unwrap(),
            Self::Alarms(bits) => settings.alarms = AlarmNames::new(alarm_names(bits)).unwrap(),
            Self::Expiry(on) => settings.enable_queue_position_expiry = on,
            Self::ClaimWindow(seconds) => {
                settings.queue_position_expiry_period = seconds.and_then(Seconds::new);
            }
            Self::MoveOn(on) => settings.incr_svc_on_queue_position_expiry = on,
            Self::QueueAll(on) => settings.queue_all = on,
            Self::NoRenewal(on) => settings.disable_session_renewal = on,
            Self::LongestStay(seconds) => settings.session_max = Seconds::new(seconds).unwrap(),
        }
    }
}

fn change() -> impl Strategy<Value = Change> {
    let tidy = || prop::bool::weighted(0.9);
    prop_oneof![
        6 => (prop::sample::select(InletKind::ALL.to_vec()), tidy()).prop_map(|(inlet, tidy)| Change::Inlet(inlet, tidy)),
        4 => (prop::sample::select(Discipline::ALL.to_vec()), tidy())
            .prop_map(|(discipline, tidy)| Change::Discipline(discipline, tidy)),
        3 => prop::option::weighted(0.9, 0u64..8).prop_map(Change::Capacity),
        2 => prop::option::weighted(0.7, 1u64..90).prop_map(Change::Rate),
        1 => (1u64..6).prop_map(Change::Increment),
        2 => (1u64..20).prop_map(Change::Interval),
        1 => (0u64..200).prop_map(Change::Start),
        1 => prop_oneof![Just(0), 50u64..400].prop_map(Change::End),
        1 => any::<bool>().prop_map(Change::RunAhead),
        1 => (1u64..5).prop_map(Change::WindowSize),
        1 => (1u64..4).prop_map(Change::ActiveWindows),
        1 => (0u64..5).prop_map(Change::Floor),
        1 => (1u64..15).prop_map(Change::Rounds),
        1 => (1u64..20).prop_map(Change::EnterBy),
        1 => (0u8..4).prop_map(Change::Alarms),
        1 => any::<bool>().prop_map(Change::Expiry),
        2 => prop::option::weighted(0.8, 1u64..20).prop_map(Change::ClaimWindow),
        1 => any::<bool>().prop_map(Change::MoveOn),
        2 => prop::bool::weighted(0.4).prop_map(Change::QueueAll),
        1 => any::<bool>().prop_map(Change::NoRenewal),
        1 => (10u64..120).prop_map(Change::LongestStay),
    ]
}

fn report() -> impl Strategy<Value = Report> {
    let figures = (prop::option::weighted(0.8, 0u64..8), prop::option::weighted(0.6, 0u64..30));
    let health = (prop::option::weighted(0.6, 0u64..1_500), prop::option::weighted(0.4, 0u32..60_000));
    (0u8..3, prop::option::weighted(0.7, 0u64..60), figures, health).prop_map(
        |(name, sequence, (free, entered), (latency, errors))| Report {
            reporter: reporter_name(name),
            sequence,
            free,
            entered,
            latency_p95_millis: latency,
            errors_per_million: errors,
            in_flight: None,
        },
    )
}

pub(crate) fn reporter_name(number: u8) -> String {
    format!("origin-{number}")
}

/// Up to 120 of them.
pub(crate) fn steps() -> impl Strategy<Value = Vec<Step>> {
    let index = || any::<prop::sample::Index>().prop_map(|index| index.index(60));
    let state = || prop::sample::select(RoomState::ALL.to_vec());
    let which =
        prop_oneof![6 => Just(Round::Open), 2 => Just(Round::SettledLast), 1 => Just(Round::NeverHeard)];
    let step = prop_oneof![
        7 => (1u64..6).prop_map(Step::Join),
        9 => (index(), prop::option::weighted(0.6, 1u64..40_000))
            .prop_map(|(index, stay)| Step::Claim(index, stay)),
        5 => (index(), 1u64..40_000, any::<bool>())
            .prop_map(|(index, stay, confirms)| Step::Touch(index, stay, confirms)),
        1 => any::<bool>().prop_map(Step::SeveralNodes),
        1 => Just(Step::ShownFully),
        3 => index().prop_map(Step::Leave),
        3 => index().prop_map(Step::Move),
        4 => (index(), any::<bool>()).prop_map(|(index, done)| Step::Close(index, done)),
        1 => (0u64..4).prop_map(Step::Exits),
        3 => (-6i64..12).prop_map(Step::Advance),
        9 => change().prop_map(Step::Set),
        2 => state().prop_map(Step::State),
        2 => (change(), state(), prop::bool::weighted(0.3))
            .prop_map(|(change, state, stale)| Step::Both { change, state, stale }),
        1 => Just(Step::Reset),
        2 => Just(Step::OpenSegment),
        4 => report().prop_map(Step::Report),
        1 => (0u8..4).prop_map(Step::ForgetReporter),
        2 => (0u8..4).prop_map(Step::Alarms),
        5 => (any::<u64>(), prop::bool::weighted(0.8), which)
            .prop_map(|(present, wait, which)| Step::SettleRound { present, wait, which }),
        4 => (-3_000i64..15_000).prop_map(Step::Clock),
        4 => (-3_000i64..15_000).prop_map(Step::Silence),
        1 => (15_000i64..90_000).prop_map(Step::Silence),
    ];
    prop::collection::vec(step, 1..120)
}
