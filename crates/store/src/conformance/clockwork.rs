//! What moves a room's frontier is kept exactly.

use std::sync::Arc;

use anteroom_core::forecast::Note;
use anteroom_core::settings::{AlarmNames, Bounded, Notice, Seconds};
use anteroom_core::{
    Adaptive, Adjustment, Answer, Discipline, FrontierMove, InletKind, MovedBy, Operation, Room, SessionKey,
    Settings, UnixMillis,
};

use super::caller::{Caller, NODE, claim, report};
use crate::contract::Store;

/// Every new setting other than by default.
fn settings() -> Settings {
    Settings {
        inlet: InletKind::Adaptive,
        total_active_users: Some(6),
        new_users_per_minute: Bounded::new(30),
        increment_by: Bounded::new(3).unwrap(),
        interval_seconds: Seconds::new(2).unwrap(),
        start_time: 5,
        end_time: 4_000_000_000,
        alarms: AlarmNames::new(vec!["Disk full".into(), "High load".into()]).unwrap(),
        run_ahead: true,
        window_size: Bounded::new(4),
        active_windows: Bounded::new(3).unwrap(),
        adaptive_floor: 2,
        target_latency_ms: Bounded::new(250).unwrap(),
        target_errors_per_thousand: Bounded::new(7).unwrap(),
        discipline: Discipline::Auction,
        round_seconds: Bounded::new(5).unwrap(),
        enter_by_seconds: Bounded::new(20).unwrap(),
        notice: Notice::new("Doors open at eight.\nBring your ticket."),
        ..Settings::default()
    }
}

/// A room in which nothing is as it begins.
fn everything_set(mut room: Room) -> Room {
    let (now, generation) = (room.clock, room.newest().generation);
    room.next_step_at = Some(now.plus(1_500));
    room.steps_missed = 7;
    room.windows = [UnixMillis(now.0 - 4_000), now].into();
    room.rate_budget = 11;
    room.adaptive = Some(Adaptive {
        capacity: 5,
        adjusted_at: now,
        adjustment: Adjustment::LoweredByErrors,
        worst_latency_millis: Some(900),
        worst_errors_per_million: Some(7),
    });
    room.firing = vec!["Disk full".into(), "Somebody else's".into()];
    room.stopped_by = Some("anna".into());
    room.last_move = Some(FrontierMove { by: MovedBy::Auction, at: now, from: 1, to: 2 });
    room.moves = [1, 2, 3, 4, 5, 6, 7];
    room.forecast.checked = 12;
    room.forecast.within_p90 = 11;
    room.forecast.next_note_at = now.plus(99);
    room.forecast.quotients = [900, 1_000, u32::MAX].into();
    room.forecast.notes =
        [Note { generation, position: 9, made_at: now, p50_millis: 4_000, p90_millis: 6_000 }].into();
    room
}

pub(super) async fn a_room_with_everything_set_reads_back_exactly(store: Arc<dyn Store>) {
    let mut caller = Caller::open(&store, "room").await;
    let round = UnixMillis((caller.now.0 / 5_000 + 1) * 5_000);
    let generation = caller.room.newest().generation;
    let place =
        |position| SessionKey { generation, position: anteroom_core::Position::new(position).unwrap() };
    let change = Operation::reconfigure(settings(), None);
    let join = Operation::Join { count: 9 };
    caller.perform(change).await;
    caller.perform(join).await;
    caller.perform(report(1, 4)).await;
    caller.now = round;
    let present = vec![place(2), place(5), place(6)];
    let won =
        caller.perform(Operation::SettleRound { round, present, turned_away: false, alone: true }).await;
    assert!(matches!(&won, Answer::Won { winners } if !winners.is_empty()), "{won:?}");
    let (mut commit, _) = caller.prepare(&[report(2, 3)]).await;
    commit.next = everything_set(commit.next);
    caller.commit(&commit).await;
    let loaded = store.load(&caller.id, NODE).await.unwrap().unwrap().room;
    assert_eq!(loaded, caller.room);
    assert!(loaded.auction.is_some_and(|auction| !auction.wins.is_empty()) && loaded.segments[0].won > 0);
}

pub(super) async fn a_pass_to_be_used_in_time_reads_back_with_that_time(store: Arc<dyn Store>) {
    let mut caller = Caller::open(&store, "room").await;
    let settings = Settings { inlet: InletKind::MaxSize, total_active_users: Some(5), ..Settings::default() };
    for operation in [Operation::reconfigure(settings, None), report(1, 5), Operation::Join { count: 1 }] {
        caller.perform(operation).await;
    }
    let ticket = anteroom_core::Ticket {
        lane: 0,
        generation: caller.room.newest().generation,
        position: anteroom_core::Position::new(1).unwrap(),
        entered: 0,
        copy: 0,
    };
    let Answer::Claimed { session, begun: true } = caller.perform(claim(ticket, None)).await else {
        panic!("a place that is served can be claimed")
    };
    assert_eq!(session.enter_by_seconds, Some(session.issued_at_seconds + 30));
    let stored = store.session(&caller.id, session.key).await.unwrap();
    assert_eq!(stored, Some(session));
}
