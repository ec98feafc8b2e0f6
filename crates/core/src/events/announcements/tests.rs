use super::*;
use crate::settings::Settings;
use crate::{Operation, Reads, apply};

const START: UnixMillis = UnixMillis(1_800_000_000_000);

fn capped(capacity: u64) -> Settings {
    Settings { inlet: InletKind::MaxSize, total_active_users: Some(capacity), ..Settings::default() }
}

/// Applies operations at their moments; returns the room and all that was told.
fn play(room: Room, steps: &[(u64, Operation)]) -> (Room, Vec<Event>) {
    let mut told = vec![];
    let room = steps.iter().fold(room, |room, (seconds, operation)| {
        let applied = apply(room, START.plus(seconds * 1000), operation, Reads::default());
        told.extend(applied.effects.events);
        applied.room
    });
    (room, told)
}

fn change(settings: Settings) -> Operation {
    Operation::reconfigure(settings, None)
}

#[test]
fn what_holds_the_inlet_is_told_once_and_so_is_its_end() {
    let named = |settings: Settings| Settings {
        alarms: crate::settings::AlarmNames::new(vec!["Load".into()]).unwrap(),
        ..settings
    };
    let room = Room::open(named(capped(0)), START, 1);
    let fires = Operation::Alarms { firing: vec!["Load".into()] };
    let is_ok = Operation::Alarms { firing: vec![] };
    let steps = [(20, fires.clone()), (21, Operation::Tick), (22, fires), (23, is_ok), (24, Operation::Tick)];
    let (room, told) = play(room, &steps);
    let of_inlet: Vec<Event> =
        told.into_iter().filter(|event| event.kind().as_str().starts_with("inlet.")).collect();
    let reason = Standstill::Alarm;
    assert_eq!(of_inlet, [Event::InletHeld { reason }, Event::InletReleased { reason }]);
    assert_eq!(room.announced.held_by, None);
}

#[test]
fn a_start_in_the_future_holds_the_inlet_until_it_comes() {
    let settings = Settings { start_time: START.seconds() + 60, ..capped(5) };
    let (room, told) = play(Room::open(settings, START, 1), &[(0, Operation::Tick)]);
    assert!(told.contains(&Event::InletHeld { reason: Standstill::BeforeStart }));
    assert!(room.next_due().is_some_and(|due| due <= START.plus(60_000)), "it wakes up by itself");
    let (_, told) = play(room, &[(59, Operation::Tick), (60, Operation::Tick)]);
    assert_eq!(told, [Event::InletReleased { reason: Standstill::BeforeStart }]);
}

#[test]
fn capacity_is_told_when_it_is_reached_and_when_there_is_room_again_and_not_with_every_visitor() {
    let room = Room::open(capped(2), START, 1);
    let (room, told) = play(room, &[(20, Operation::Join { count: 3 })]);
    assert_eq!(told, [Event::CapacityReached { capacity: 2, held: 2, waiting: 3 }]);
    // It flickers: nothing is told within the pause, and then what is so.
    let (room, told) =
        play(room, &[(21, change(capped(3))), (22, change(capped(2))), (23, change(capped(9)))]);
    assert!(!told.iter().any(|event| event.kind() == crate::EventKind::CapacityFree), "{told:?}");
    assert_eq!(room.next_due().map(|due| due.0), Some(START.0 + 30_000));
    let (room, told) = play(room, &[(30, Operation::Tick), (31, Operation::Tick)]);
    assert!(told.contains(&Event::CapacityFree { capacity: 9, held: 3 }), "{told:?}");
    assert!(!room.announced.at_capacity.holds);
}

#[test]
fn an_empty_line_is_told_where_there_was_one() {
    let room = Room::open(capped(0), START, 1);
    let (room, told) = play(room, &[(20, Operation::Join { count: 2 })]);
    assert!(!told.iter().any(|event| event.kind() == crate::EventKind::LineEmpty), "{told:?}");
    let (_, told) = play(room, &[(40, change(capped(2))), (50, Operation::Tick)]);
    assert!(told.contains(&Event::LineEmpty { joined: 2 }), "{told:?}");
    // Visitors who are let in on the spot make no line.
    let room = Room::open(capped(100), START, 1);
    let joins: Vec<_> = (20..60).map(|second| (second, Operation::Join { count: 1 })).collect();
    let (_, told) = play(room, &joins);
    assert_eq!(told, []);
}

#[test]
fn figures_are_told_at_every_full_minute_and_none_is_caught_up() {
    let settings = Settings { enable_events_generation: true, ..Settings::default() };
    let room = Room::open(settings, START, 1);
    let told_at = |room, seconds: u64| {
        let (room, told) = play(room, &[(seconds, Operation::Tick)]);
        (room, told.len())
    };
    let (room, told) = told_at(room, 1);
    assert_eq!((told, room.next_due()), (0, Some(START.plus(60_000))), "it begins on a full minute");
    let (room, told) = told_at(room, 60);
    assert_eq!((told, room.next_due()), (1, Some(START.plus(120_000))));
    let (room, told) = told_at(room, 119);
    assert_eq!(told, 0);
    let (room, told) = told_at(room, 300);
    assert_eq!((told, room.next_due()), (1, Some(START.plus(360_000))));
    let (room, told) = play(room, &[(301, change(Settings::default()))]);
    assert!(room.next_due().is_none() && told.len() == 1, "{told:?}");
}

#[test]
fn a_clock_that_was_set_back_keeps_nothing_from_being_told() {
    let room = Room::open(capped(1), START, 1);
    let (room, told) = play(room, &[(86_400, Operation::Join { count: 1 })]);
    assert_eq!(told.len(), 1);
    let (_, told) = play(room, &[(0, Operation::Reset { incarnation: 7 }), (20, Operation::Tick)]);
    assert!(told.iter().any(|event| event.kind() == crate::EventKind::CapacityFree), "{told:?}");
}

#[test]
fn a_refused_change_and_one_that_changes_nothing_tell_nothing() {
    let room = Room::open(capped(5), START, 1);
    let broken = Settings { total_active_users: None, ..capped(5) };
    let (_, told) = play(room, &[(20, change(broken)), (21, change(capped(5)))]);
    assert_eq!(told, []);
}
