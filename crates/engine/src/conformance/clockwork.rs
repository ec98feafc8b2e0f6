//! What moves a room's frontier: brought back by a restore, and never audited where programs report it every few seconds.

use std::sync::Arc;

use anteroom_core::{Answer, InletKind, Operation, ReportOutcome, Settings};
use anteroom_store::conformance::backups::read;
use anteroom_store::conformance::caller::{NODE, report};
use anteroom_store::{Clock, Store, SystemClock};

use super::backups::restore;
use super::engines::operate_with_retries;
use crate::{Actor, Engine};

/// The word of a reporter is about its moment. After a restore nobody is let in on one of before.
pub(super) async fn after_a_restore_reporters_are_silent_until_they_are_heard_again(store: Arc<dyn Store>) {
    let engine = Engine::start(store.clone(), Arc::new(SystemClock), NODE).await.unwrap();
    let room = super::engines::make_room(&engine).await;
    let settings = Settings { inlet: InletKind::MaxSize, total_active_users: Some(9), ..Settings::default() };
    operate_with_retries(&room, Operation::reconfigure(settings, None)).await;
    operate_with_retries(&room, report(1, 4)).await;
    let bytes = read(engine.backup().await.unwrap()).await;
    restore(&engine, &bytes).await.unwrap();
    let room = engine.room("room").unwrap();
    let board = room.board();
    assert_eq!(board.reports.reporters.len(), 1, "it is remembered");
    assert!(!board.reports.has_live_reporter(&board.settings, SystemClock.now()));
    room.join().await.unwrap();
    assert_eq!(
        (room.board().serving, room.board().standstill),
        (0, Some(anteroom_core::Standstill::NoReport))
    );
    // The same number again: after a silence, a reporter may have begun anew.
    assert_eq!(operate_with_retries(&room, report(1, 4)).await, Answer::Reported(ReportOutcome::Accepted));
    assert_eq!(room.board().serving, 1);
    engine.stop().await;
}

pub(super) async fn what_programs_say_every_few_seconds_is_not_audited(store: Arc<dyn Store>) {
    let engine = Engine::start(store.clone(), Arc::new(SystemClock), NODE).await.unwrap();
    let room = super::engines::make_room(&engine).await;
    let actor = || Actor::Operator("web".into());
    let audited = || async { store.audit(None, None, 100).await.unwrap().len() };
    let before = audited().await;
    room.operate(report(1, 4), actor()).await.unwrap();
    assert_eq!(audited().await, before);
    room.operate(Operation::ForgetReporter { reporter: "web-1".into() }, actor()).await.unwrap();
    assert_eq!(audited().await, before + 1, "an operator's word is");
    room.operate(Operation::Alarms { firing: vec!["Disk full".into()] }, actor()).await.unwrap();
    assert_eq!(audited().await, before + 2, "and so is what held an inlet");
    engine.stop().await;
}
