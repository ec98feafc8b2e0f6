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
    /// For so many milliseconds.
    Touch(usize, u64),
    /// From now on there is one node, or there are several.
    SeveralNodes(bool),
    /// So many others were ended by name that no more can be shown.
    ShownFully,
    Leave(usize),
    /// To another device.
    Move(usize),
    Close(usize, bool),
    /// A code that was made so many milliseconds after the beginning of the play.
    Redeem(usize, u64),
    /// The code of this number comes to its client.
    Grant(usize, u64),
    /// A refresh token of that grant, of this sequence.
    Refresh(usize, u64, u32),
    /// As many others as a visit remembers have come, of codes that were made so many milliseconds after the beginning.
    ManyGrants(usize, u64),
    KeepSignatures(usize, u8),
    Inspect(usize),
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
    SetClock,
    OpenSegment,
    Report(Report),
    ForgetReporter(u8),
    Alarms(u8),
    /// The end of a round, with those present whose bit is set. `wait` lets its time come first.
    SettleRound {
        present: u64,
        wait: bool,
        which: Round,
        alone: bool,
    },
    /// The store goes back to what it was so many steps ago; the node that mends it remembers all but the last so many steps.
    Lose {
        steps: usize,
        forgotten: usize,
    },
    /// The store is empty; a node that has the room gives it back.
    Empty,
    /// The store is empty, and the room is made anew by a node that knows nothing of it.
    MakeAnew,
    /// Another node tells what it remembers from before the last loss.
    Recall,
    /// A visitor shows a ticket.
    Show(usize),
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
    Validity(u64),
    StayDuration(u64),
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
            Self::Validity(seconds) => settings.validity_period = Seconds::new(seconds).unwrap(),
            Self::StayDuration(seconds) => settings.session_duration = Seconds::new(seconds).unwrap(),
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
        1 => (30u64..600).prop_map(|capacity| Change::Capacity(Some(capacity))),
        2 => prop::option::weighted(0.7, 1u64..90).prop_map(Change::Rate),
        1 => (1u64..6).prop_map(Change::Increment),
        2 => (1u64..20).prop_map(Change::Interval),
        1 => (0u64..200).prop_map(Change::Start),
        1 => prop_oneof![Just(0), 50u64..400].prop_map(Change::End),
        1 => any::<bool>().prop_map(Change::RunAhead),
        1 => (1u64..5).prop_map(Change::WindowSize),
        1 => (1u64..4).prop_map(Change::ActiveWindows),
        1 => prop_oneof![3 => 0u64..5, 1 => 5u64..40].prop_map(Change::Floor),
        1 => (1u64..15).prop_map(Change::Rounds),
        1 => (1u64..20).prop_map(Change::EnterBy),
        1 => (0u8..4).prop_map(Change::Alarms),
        1 => any::<bool>().prop_map(Change::Expiry),
        2 => prop::option::weighted(0.8, 1u64..20).prop_map(Change::ClaimWindow),
        1 => any::<bool>().prop_map(Change::MoveOn),
        2 => prop::bool::weighted(0.4).prop_map(Change::QueueAll),
        1 => any::<bool>().prop_map(Change::NoRenewal),
        1 => (10u64..120).prop_map(Change::LongestStay),
        1 => (5u64..60).prop_map(Change::Validity),
        1 => (5u64..60).prop_map(Change::StayDuration),
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

fn index() -> impl Strategy<Value = usize> {
    any::<prop::sample::Index>().prop_map(|index| index.index(60))
}

fn claim() -> impl Strategy<Value = Step> {
    (index(), prop::option::weighted(0.6, 1u64..40_000)).prop_map(|(index, stay)| Step::Claim(index, stay))
}

fn close() -> impl Strategy<Value = Step> {
    (index(), any::<bool>()).prop_map(|(index, done)| Step::Close(index, done))
}

fn grant() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (index(), 0u64..6).prop_map(|(index, grant)| Step::Grant(index, grant)),
        4 => (index(), 0u64..6, 0u32..3)
            .prop_map(|(index, grant, sequence)| Step::Refresh(index, grant, sequence)),
        1 => (index(), 0u64..200_000).prop_map(|(index, made)| Step::ManyGrants(index, made)),
    ]
}

fn settle_round() -> impl Strategy<Value = Step> {
    let which =
        prop_oneof![6 => Just(Round::Open), 2 => Just(Round::SettledLast), 1 => Just(Round::NeverHeard)];
    (any::<u64>(), prop::bool::weighted(0.8), which, prop::bool::weighted(0.7))
        .prop_map(|(present, wait, which, alone)| Step::SettleRound { present, wait, which, alone })
}

fn state() -> impl Strategy<Value = RoomState> {
    prop::sample::select(RoomState::ALL.to_vec())
}

fn of_the_store() -> impl Strategy<Value = Step> {
    let lose = (1usize..8, 0usize..8).prop_map(|(steps, forgotten)| Step::Lose { steps, forgotten });
    prop_oneof![
        4 => lose,
        1 => Just(Step::Empty),
        1 => Just(Step::MakeAnew),
        3 => Just(Step::Recall),
        6 => index().prop_map(Step::Show),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        7 => (1u64..6).prop_map(Step::Join),
        9 => claim(),
        5 => (index(), 1u64..40_000).prop_map(|(index, stay)| Step::Touch(index, stay)),
        1 => any::<bool>().prop_map(Step::SeveralNodes),
        1 => Just(Step::ShownFully),
        3 => index().prop_map(Step::Leave),
        3 => index().prop_map(Step::Move),
        4 => close(),
        3 => (index(), 0u64..5).prop_map(|(index, made)| Step::Redeem(index, made)),
        4 => grant(),
        1 => (index(), any::<u8>()).prop_map(|(index, byte)| Step::KeepSignatures(index, byte)),
        1 => index().prop_map(Step::Inspect),
        1 => (0u64..4).prop_map(Step::Exits),
        3 => (-6i64..12).prop_map(Step::Advance),
        9 => change().prop_map(Step::Set),
        2 => state().prop_map(Step::State),
        2 => (change(), state(), prop::bool::weighted(0.3))
            .prop_map(|(change, state, stale)| Step::Both { change, state, stale }),
        1 => Just(Step::Reset),
        2 => Just(Step::SetClock),
        2 => Just(Step::OpenSegment),
        4 => report().prop_map(Step::Report),
        1 => (0u8..4).prop_map(Step::ForgetReporter),
        2 => (0u8..4).prop_map(Step::Alarms),
        5 => settle_round(),
        4 => (-3_000i64..15_000).prop_map(Step::Clock),
        4 => (-3_000i64..15_000).prop_map(Step::Silence),
        1 => (15_000i64..90_000).prop_map(Step::Silence),
        2 => of_the_store(),
    ]
}

/// Up to 120 of them.
pub(crate) fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(step(), 1..120)
}

/// A store that loses something again and again, under a room that is in use.
pub(crate) fn steps_over_a_store_that_forgets() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        5 => (1u64..6).prop_map(Step::Join),
        5 => claim(),
        2 => index().prop_map(Step::Leave),
        2 => index().prop_map(Step::Move),
        2 => close(),
        3 => (1i64..6).prop_map(Step::Advance),
        1 => (-6i64..0).prop_map(Step::Advance),
        2 => Just(Step::OpenSegment),
        2 => (0i64..15_000).prop_map(Step::Clock),
        2 => (5u64..60).prop_map(|seconds| Step::Set(Change::StayDuration(seconds))),
        1 => (1u64..4).prop_map(Step::Exits),
        1 => Just(Step::Reset),
        8 => of_the_store(),
        6 => step(),
    ];
    prop::collection::vec(step, 1..80)
}

/// An adaptive room whose capacity is in use, and an origin that says how it fares.
pub(crate) fn steps_of_an_adaptive_room() -> impl Strategy<Value = Vec<Step>> {
    let beginning = (1u64..30, prop_oneof![1u64..40, 64u64..600], 1u64..15, 20u64..60).prop_map(
        |(floor, most, round_seconds, people)| {
            let settings = [
                Change::Capacity(Some(most)),
                Change::Floor(floor.min(most)),
                Change::Rounds(round_seconds),
                Change::Inlet(InletKind::Adaptive, true),
            ];
            settings.map(Step::Set).into_iter().chain([Step::Join(people)]).collect::<Vec<_>>()
        },
    );
    // No free slots are reported: the law alone decides.
    let health = report().prop_map(|report| Step::Report(Report { free: None, ..report }));
    let step = prop_oneof![
        8 => health,
        8 => (0i64..16_000).prop_map(Step::Clock),
        4 => (1u64..20).prop_map(Step::Join),
        6 => claim(),
        3 => close(),
        1 => step(),
    ];
    (beginning, prop::collection::vec(step, 1..60))
        .prop_map(|(beginning, steps)| beginning.into_iter().chain(steps).collect())
}
