//! The promise of the timetable with several nodes: a slot of the timetable is taken at most once, and exactly once if any node ticks
//! in time; whichever node ticks, how often, how late, and from however old a copy. Two steps are never closer than an interval.

use anteroom_core::settings::{People, Seconds};
use anteroom_core::{InletKind, Operation, Reads, Room, Settings, UnixMillis, apply};
use proptest::prelude::*;

use super::cases;

const START: UnixMillis = UnixMillis(1_800_000_000_000);
const NODES: usize = 3;

/// A node ticks the room: so long after the last one, by a clock that is off by so much.
#[derive(Debug, Clone)]
struct NodeTick {
    after_millis: u64,
    clock_off_millis: i64,
    node: usize,
    /// Whether it reads the store first, or trusts the copy it has.
    reads: bool,
    /// Whether it keeps what it computed when there was nothing to write.
    keeps: bool,
}

fn node_ticks() -> impl Strategy<Value = Vec<NodeTick>> {
    let after = prop_oneof![4 => 0u64..800, 2 => 800u64..4_000, 1 => 4_000u64..40_000];
    let tick = (after, -900i64..900, 0..NODES, any::<bool>(), any::<bool>()).prop_map(
        |(after_millis, clock_off_millis, node, reads, keeps)| NodeTick {
            after_millis,
            clock_off_millis,
            node,
            reads,
            keeps,
        },
    );
    prop::collection::vec(tick, 1..150)
}

fn room_with_a_long_line(inlet: InletKind, interval: u64) -> Room {
    let settings = Settings {
        inlet,
        interval_seconds: Seconds::new(interval).unwrap(),
        increment_by: People::new(1).unwrap(),
        window_size: People::new(1),
        ..Settings::default()
    };
    let room = Room::open(settings, START, 1);
    apply(room, START, &Operation::Join { count: 10_000 }, Reads::default()).room
}

/// A store that takes a write only from a node that has seen the last one.
struct SharedStore {
    room: Room,
    copies: Vec<Room>,
}

impl SharedStore {
    fn tick(&mut self, tick: &NodeTick, now: UnixMillis) {
        if tick.reads {
            self.copies[tick.node] = self.room.clone();
        }
        loop {
            let ticked = apply(self.copies[tick.node].clone(), now, &Operation::Tick, Reads::default());
            if !ticked.effects.changed {
                if tick.keeps {
                    self.copies[tick.node] = ticked.room;
                }
                return;
            }
            if self.copies[tick.node].version == self.room.version {
                self.room = Room { version: self.room.version + 1, ..ticked.room };
                self.copies[tick.node] = self.room.clone();
                return;
            }
            // Another node was faster: the same again, from what it wrote.
            self.copies[tick.node] = self.room.clone();
        }
    }
}

#[test]
fn a_slot_that_a_fast_clock_has_missed_is_taken_once_by_a_slower_one_in_time() {
    let room = room_with_a_long_line(InletKind::Periodic, 14);
    let mut shared = SharedStore { copies: vec![room.clone(); NODES], room };
    let tick = |node| NodeTick { after_millis: 0, clock_off_millis: 0, node, reads: true, keeps: false };
    // Half an interval after the slot at 28 s is too late.
    for (node, after_millis, taken) in [(0, 35_001, 0), (1, 34_193, 1), (2, 34_193, 1), (0, 35_001, 1)] {
        shared.tick(&tick(node), START.plus(after_millis));
        assert_eq!(shared.room.serving(), taken, "{after_millis}");
    }
}

proptest! {
    #![proptest_config(cases(2_000))]

    #[test]
    fn each_slot_is_taken_at_most_once_whichever_node_ticks(
        node_ticks in node_ticks(), interval in 1u64..20, by_windows in any::<bool>(),
    ) {
        let inlet = if by_windows { InletKind::Window } else { InletKind::Periodic };
        let room = room_with_a_long_line(inlet, interval);
        let mut shared = SharedStore { copies: vec![room.clone(); NODES], room };
        let interval = interval * 1000;
        let (mut true_now, mut latest, mut goes_back) = (START, START, false);
        let mut steps: Vec<UnixMillis> = vec![];
        let mut due_and_in_time = 0;
        let mut due = START.0 + interval;
        for tick in &node_ticks {
            true_now = true_now.plus(tick.after_millis);
            let now = UnixMillis(true_now.0.saturating_add_signed(tick.clock_off_millis));
            goes_back |= now < latest;
            latest = latest.max(now);
            let before = shared.room.serving();
            // The timetable as on a wall: a step that was taken is followed by a whole interval.
            let clock = now.max(shared.room.clock).0;
            if clock >= due {
                let slot = due + (clock - due) / interval * interval;
                let is_in_time = clock - slot <= (interval / 2).max(1_000);
                due_and_in_time += u64::from(is_in_time);
                due = if is_in_time { clock + interval } else { slot + interval };
            }
            shared.tick(tick, now);
            prop_assert!(shared.room.serving() - before <= 1, "one slot at a time");
            if shared.room.serving() > before {
                steps.push(shared.room.clock);
            }
        }
        prop_assert!(steps.windows(2).all(|pair| pair[1].since(pair[0]) >= interval), "closer than an interval");
        // A slot that is missed by a fast clock is written down by nobody, and may be in time by a slower one.
        if !goes_back && node_ticks.iter().all(|tick| tick.reads && tick.clock_off_millis >= 0) {
            prop_assert_eq!(shared.room.serving(), due_and_in_time, "a slot was lost");
        }
    }

    #[test]
    fn one_late_tick_catches_nothing_up_and_many_ticks_take_each_slot_once(
        interval in 1u64..20, span in 0u64..200_000, spacing in 1u64..1_000, by_windows in any::<bool>(),
    ) {
        let inlet = if by_windows { InletKind::Window } else { InletKind::Periodic };
        let room = room_with_a_long_line(inlet, interval);
        let end = START.plus(span);
        let late = apply(room.clone(), end, &Operation::Tick, Reads::default()).room;
        let slots = span / (interval * 1000);
        prop_assert!(late.serving() <= slots.min(1));
        prop_assert_eq!(late.serving() + late.steps_missed, slots, "each slot is taken or missed");
        let mut ticking = room;
        let mut now = START;
        while now < end {
            now = now.plus(spacing).min(end);
            ticking = apply(ticking, now, &Operation::Tick, Reads::default()).room;
        }
        // Each step is as late as the tick that takes it, and an interval later comes the next.
        let interval = interval * 1000;
        let cycle = interval.div_ceil(spacing) * spacing;
        let steps = span / cycle + u64::from(span % cycle >= interval);
        prop_assert_eq!((ticking.serving(), ticking.steps_missed), (steps, 0));
        // The other engine, with its old copy, comes too late for everything.
        let again = apply(ticking.clone(), end, &Operation::Tick, Reads::default()).room;
        prop_assert_eq!(again.serving(), ticking.serving());
    }
}
