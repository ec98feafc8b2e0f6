//! The part of a room that moves its frontier: timetable, adaptive law, reports, auction, alarms, estimates.

use anteroom_core::auction::ROUND_WINNERS_MAX;
use anteroom_core::forecast::{NOTES_MAX, QUOTIENTS_MAX, WIDTH_MAX_THOUSANDTHS, WIDTH_MIN_THOUSANDTHS};
use anteroom_core::losses::LEARNING_MILLIS;
use anteroom_core::operation::SERVING_MAX;
use anteroom_core::reports::{ISSUES_MAX, REPORTERS_MAX, is_reporter_name};
use anteroom_core::settings::{DURATION_MAX_SECONDS, ShortSeconds, Windows, is_alarm_name};
use anteroom_core::{InletKind, Reports, Room, SessionKey, UnixMillis};

use super::{COUNT_MAX, Generation};

/// The most alarms of a room that ever fired at once.
const FIRING_MAX: usize = 4_096;
/// The longest name of an actor who paused a room, in bytes.
const ACTOR_MAX_LENGTH: usize = 256;
/// The longest round, in milliseconds.
const ROUND_MAX_MILLIS: u64 = 3_600_000;
const _: () = assert!(ShortSeconds::new(ROUND_MAX_MILLIS / 1000).is_some());
/// The most windows that may claim at once.
const WINDOWS_MAX: usize = 64;
const _: () = assert!(Windows::new(WINDOWS_MAX as u64 + 1).is_none());

/// What is wrong with it, if anything is.
pub(super) fn unsound(room: &Room) -> Option<&'static str> {
    let counted = [
        room.steps_missed,
        room.rate_budget,
        room.forecast.checked,
        room.losses.phantoms,
        room.losses.offers_recalled,
    ];
    if counted.into_iter().chain(room.moves).any(|count| count > COUNT_MAX) {
        Some("its figures")
    } else if unsound_timetable(room) {
        Some("its timetable")
    } else if unsound_adaptive(room) {
        Some("its adaptive capacity")
    } else if unsound_reports(&room.reports, room.clock) {
        Some("its capacity reports")
    } else if unsound_auction(room) {
        Some("its auction")
    } else if room.firing.len() > FIRING_MAX || !room.firing.iter().all(|name| is_alarm_name(name)) {
        Some("its alarms")
    } else if unsound_last_move(room) {
        Some("the last move of its frontier")
    } else if unsound_forecast(room) {
        Some("its estimates")
    } else if unsound_losses(room) {
        Some("what its store had lost")
    } else {
        None
    }
}

fn ascending<T: PartialOrd>(values: impl Iterator<Item = T> + Clone) -> bool {
    values.clone().zip(values.skip(1)).all(|(one, next)| one <= next)
}

/// A step too far in the future would never come, and hold the inlet for ever.
fn unsound_timetable(room: &Room) -> bool {
    let start = UnixMillis(room.settings.start_time.saturating_mul(1000));
    let interval = room.settings.step_interval_millis().unwrap_or(0);
    let latest = room.clock.plus(interval).max(start);
    room.next_step_at.is_some_and(|at| at > latest)
        || room.windows.len() > WINDOWS_MAX
        || room.windows.iter().any(|&at| at > room.clock)
        || !ascending(room.windows.iter())
}

fn unsound_adaptive(room: &Room) -> bool {
    let most = room.settings.total_active_users.unwrap_or(0);
    let bounds = room.settings.adaptive_floor.min(most)..=most;
    match &room.adaptive {
        None => room.settings.inlet == InletKind::Adaptive,
        Some(adaptive) => {
            room.settings.inlet != InletKind::Adaptive
                || !bounds.contains(&adaptive.capacity)
                || adaptive.adjusted_at > room.clock
                || adaptive.worst_latency_millis.is_some_and(|worst| worst > COUNT_MAX)
        }
    }
}

/// A pass whose time to enter was shortened counts as issued later, by no more than the longest such time and a whole second.
const ENTER_BY_MAX_MILLIS: u64 = 3_601_000;

fn unsound_reports(reports: &Reports, clock: UnixMillis) -> bool {
    let Reports { reporters, issued, recent, entered, unused } = reports;
    let names = reporters.iter().map(|reporter| reporter.last.reporter.as_str());
    let in_order = names.clone().zip(names.clone().skip(1)).all(|(one, next)| one < next);
    let too_large = |number: Option<u64>| number.is_some_and(|number| number > COUNT_MAX);
    let unsound_reporter = |reporter: &anteroom_core::Reporter| {
        let last = &reporter.last;
        reporter.heard_at > clock
            || too_large(last.free)
            || too_large(last.entered)
            || too_large(last.latency_p95_millis)
            || too_large(last.in_flight)
    };
    reporters.len() > REPORTERS_MAX
        || !in_order
        || !names.clone().all(is_reporter_name)
        || reporters.iter().any(unsound_reporter)
        || *issued > COUNT_MAX
        || *entered > *issued
        || *unused > *issued - *entered
        || recent.len() > ISSUES_MAX
        || recent.iter().any(|issue| issue.at > clock.plus(ENTER_BY_MAX_MILLIS) || issue.issued > *issued)
        || !ascending(recent.iter().map(|issue| issue.at))
        || !ascending(recent.iter().map(|issue| issue.issued))
}

fn unsound_auction(room: &Room) -> bool {
    let Some(auction) = &room.auction else { return false };
    auction.round > room.clock.plus(ROUND_MAX_MILLIS)
        || auction.settled > auction.round
        || auction.won_at > room.clock
        || auction.wins.len() as u64 > ROUND_WINNERS_MAX
        || auction.free > ROUND_WINNERS_MAX
        || auction.spare > auction.free
        || auction.average_thousandths.is_some_and(|average| average > ROUND_WINNERS_MAX * 1000)
        || auction.wins.iter().any(|key| !may_hold_a_win(room, *key))
        || auction
            .collected
            .as_ref()
            .is_some_and(|collected| collected.present.len() as u64 > ROUND_WINNERS_MAX)
}

/// Whether a visitor waits there, beyond what the counter has offered.
fn may_hold_a_win(room: &Room, key: SessionKey) -> bool {
    let of = |generation: Generation| room.segments.iter().find(|segment| segment.generation == generation);
    let position = key.position.get();
    of(key.generation).is_some_and(|segment| {
        position > segment.covered() && position <= segment.joined && !segment.taken.contains(position)
    })
}

fn unsound_last_move(room: &Room) -> bool {
    let unsound =
        room.last_move.is_some_and(|moved| moved.at > room.clock || moved.from.max(moved.to) > SERVING_MAX);
    unsound || room.stopped_by.as_ref().is_some_and(|name| name.len() > ACTOR_MAX_LENGTH)
}

/// Phantoms that never end would hold their slots for ever, and so would a wait for tickets.
fn unsound_losses(room: &Room) -> bool {
    room.losses.phantoms_end_at > room.clock.plus(DURATION_MAX_SECONDS * 1000)
        || room.losses.learning_until > room.clock.plus(LEARNING_MILLIS)
        || room.segments.iter().any(|segment| segment.recalled > COUNT_MAX)
}

fn unsound_forecast(room: &Room) -> bool {
    let forecast = &room.forecast;
    forecast.within_p90 > forecast.checked
        || forecast.notes.len() > NOTES_MAX
        || forecast.quotients.len() > QUOTIENTS_MAX
        || !(WIDTH_MIN_THOUSANDTHS..=WIDTH_MAX_THOUSANDTHS).contains(&forecast.width_thousandths)
        || forecast.notes.iter().any(|note| note.made_at > room.clock)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use anteroom_core::forecast::Note;
    use anteroom_core::reports::Issue;
    use anteroom_core::{
        Adaptive, Adjustment, Auction, Discipline, FrontierMove, MovedBy, Operation, Position, Reads, Report,
        Reporter, Settings, apply,
    };

    use super::super::unsound;
    use super::*;

    const NOW: UnixMillis = UnixMillis(1_800_000_000_000);

    fn reporter(name: &str) -> Reporter {
        let last = Report { reporter: name.into(), free: Some(3), entered: Some(1), ..Report::default() };
        Reporter { last, heard_at: NOW }
    }

    /// An adaptive auction with everything set.
    fn lively() -> Room {
        let settings = Settings {
            inlet: InletKind::Adaptive,
            total_active_users: Some(9),
            discipline: Discipline::Auction,
            ..Settings::default()
        };
        let room = Room::open(settings, NOW, 3);
        let mut room = apply(room, NOW, &Operation::Join { count: 9 }, Reads::default()).room;
        let generation = room.newest().generation;
        let key = |position| SessionKey { generation, position: Position::new(position).unwrap() };
        room.windows = [NOW].into();
        room.adaptive = Some(Adaptive {
            capacity: 4,
            adjusted_at: NOW,
            adjustment: Adjustment::Raised,
            worst_latency_millis: None,
            worst_errors_per_million: None,
        });
        *room.reports = Reports {
            reporters: vec![reporter("a"), reporter("b")],
            issued: 5,
            recent: [Issue { at: NOW, issued: 5 }].into(),
            entered: 3,
            unused: 1,
        };
        room.auction = Some(
            Auction {
                round: NOW.plus(10_000),
                free: 4,
                spare: 1,
                settled: NOW,
                wins: BTreeSet::from([key(2), key(7)]),
                won_at: NOW,
                average_thousandths: Some(2_000),
                collected: None,
            }
            .into(),
        );
        room.firing = vec!["High load".into()];
        room.stopped_by = Some("anna".into());
        room.last_move = Some(FrontierMove { by: MovedBy::Auction, at: NOW, from: 0, to: 7 });
        room.forecast.notes =
            [Note { generation, position: 9, made_at: NOW, p50_millis: 5, p90_millis: 9 }].into();
        room.forecast.quotients = [1000].into();
        room
    }

    #[test]
    fn a_lively_room_is_sound_and_the_rules_go_on_with_it() {
        let room = lively();
        assert_eq!(unsound(&room), None);
        let later = NOW.plus(86_400_000);
        apply(room, later, &Operation::Join { count: 1 }, Reads::default()).answer.unwrap();
    }

    #[test]
    fn whatever_the_rules_could_not_have_made_is_refused() {
        type Spoil = fn(&mut Room);
        let spoils: &[(&str, Spoil)] = &[
            ("its figures", |room| room.steps_missed = COUNT_MAX + 1),
            ("its figures", |room| room.rate_budget = u64::MAX),
            ("its figures", |room| room.losses.phantoms = u64::MAX),
            ("its figures", |room| room.moves[3] = u64::MAX),
            ("its timetable", |room| room.next_step_at = Some(NOW.plus(1))),
            ("its timetable", |room| room.windows = vec![NOW; WINDOWS_MAX + 1].into()),
            ("its timetable", |room| room.windows = [NOW.plus(1)].into()),
            ("its timetable", |room| room.windows = [NOW, UnixMillis(5)].into()),
            ("its adaptive capacity", |room| room.adaptive = None),
            ("its adaptive capacity", |room| room.adaptive.as_mut().unwrap().capacity = 10),
            ("its adaptive capacity", |room| room.adaptive.as_mut().unwrap().capacity = 0),
            ("its adaptive capacity", |room| room.adaptive.as_mut().unwrap().adjusted_at = NOW.plus(1)),
            ("its capacity reports", |room| room.reports.reporters.swap(0, 1)),
            ("its capacity reports", |room| room.reports.reporters[1] = reporter("a")),
            ("its capacity reports", |room| room.reports.reporters[1] = reporter("z z")),
            ("its capacity reports", |room| room.reports.reporters[1].heard_at = NOW.plus(1)),
            ("its capacity reports", |room| room.reports.reporters[1].last.entered = Some(u64::MAX)),
            ("its capacity reports", |room| {
                room.reports.reporters[1].last.latency_p95_millis = Some(u64::MAX);
            }),
            ("its capacity reports", |room| {
                room.reports.reporters =
                    (0..=REPORTERS_MAX).map(|number| reporter(&format!("{number:03}"))).collect();
            }),
            ("its capacity reports", |room| room.reports.issued = u64::MAX),
            ("its capacity reports", |room| room.reports.entered = 6),
            ("its capacity reports", |room| room.reports.unused = 3),
            ("its capacity reports", |room| room.reports.recent[0].issued = 6),
            ("its capacity reports", |room| room.reports.recent[0].at = NOW.plus(ENTER_BY_MAX_MILLIS + 1)),
            ("its capacity reports", |room| {
                room.reports.recent = vec![Issue { at: NOW, issued: 5 }; ISSUES_MAX + 1].into();
            }),
            ("its auction", |room| room.auction.as_mut().unwrap().round = UnixMillis(u64::MAX)),
            ("its auction", |room| room.auction.as_mut().unwrap().settled = NOW.plus(10_001)),
            ("its auction", |room| room.auction.as_mut().unwrap().won_at = NOW.plus(1)),
            ("its auction", |room| room.auction.as_mut().unwrap().spare = 5),
            ("its auction", |room| room.auction.as_mut().unwrap().free = ROUND_WINNERS_MAX + 1),
            ("its auction", |room| room.auction.as_mut().unwrap().average_thousandths = Some(u64::MAX)),
            ("its auction", |room| {
                let generation = room.newest().generation;
                let beyond = SessionKey { generation, position: Position::new(10).unwrap() };
                room.auction.as_mut().unwrap().wins.insert(beyond);
            }),
            ("its auction", |room| {
                let generation = Generation { opened: 1, incarnation: 1 };
                let strange = SessionKey { generation, position: Position::new(1).unwrap() };
                room.auction.as_mut().unwrap().wins.insert(strange);
            }),
            ("its alarms", |room| room.firing = vec![String::new()]),
            ("its alarms", |room| room.firing = vec!["x".into(); FIRING_MAX + 1]),
            ("the last move of its frontier", |room| room.last_move.as_mut().unwrap().at = NOW.plus(1)),
            ("the last move of its frontier", |room| room.last_move.as_mut().unwrap().to = u64::MAX),
            ("the last move of its frontier", |room| room.stopped_by = Some("x".repeat(257))),
            ("its estimates", |room| room.forecast.within_p90 = 1),
            ("its estimates", |room| room.forecast.quotients = vec![1; QUOTIENTS_MAX + 1].into()),
            ("its estimates", |room| room.forecast.notes[0].made_at = NOW.plus(1)),
            ("what its store had lost", |room| room.losses.phantoms_end_at = UnixMillis(u64::MAX)),
            ("what its store had lost", |room| room.losses.learning_until = NOW.plus(LEARNING_MILLIS + 1)),
            ("the positions of a line", |room| room.segments[0].won = 10),
        ];
        for (what, spoil) in spoils {
            let mut room = lively();
            spoil(&mut room);
            assert_eq!(unsound(&room), Some(*what));
        }
    }
}
