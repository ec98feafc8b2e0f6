//! Memory and read speed with millions waiting, against an empty server.

use std::sync::Arc;

use anteroom_core::RoomId;
use anteroom_store::contract::{JoinBatch, JoinOutcome};
use anteroom_store::{EmbeddedStore, NodeId, Store, SystemClock};
use anyhow::{Context, Result, bail};

use crate::figures::Comparison;
use crate::load::{Requests, run_each, run_load};
use crate::servers::Anteroom;
use crate::{ROUND, ROUNDS};

/// How much more memory a line may take than an empty one.
const DIFFERENCE_MAX_KB: i128 = 10_000;

/// Resident memory after the same HTTP load: on an empty line, and on one of `waiting` people of whom the last came by HTTP.
pub(crate) fn compare(binary: &str, waiting: u64, by_http: u64) -> Result<()> {
    let join = || Requests::post("/assign_queue_num", r#"{"event_id":"Sample"}"#);
    let read = || Requests::get("/serving_num?event_id=Sample");
    let http = usize::try_from(by_http)?;

    let empty = Anteroom::start(binary, None)?;
    run_each(empty.public(), 256, std::iter::repeat_with(read).take(http))?;
    let full_directory = std::env::temp_dir().join(format!("anteroom-bench-full-{}", std::process::id()));
    std::fs::create_dir_all(&full_directory)?;
    // Started once so that the room exists, then filled in bulk with the server stopped.
    drop(Anteroom::start(binary, Some(&full_directory))?);
    fill(&full_directory, waiting - by_http)?;
    let full = Anteroom::start(binary, Some(&full_directory))?;
    run_each(full.public(), 256, std::iter::repeat_with(join).take(http))?;
    let (_, body) = full.call(&Requests::get("/waiting_num?event_id=Sample"))?;
    let (empty_kb, full_kb) = (resident_kb(empty.process_id())?, resident_kb(full.process_id())?);
    println!("| resident memory | kB |");
    println!("|---|---|");
    println!("| empty, after {by_http} reads over 256 connections | {empty_kb} |");
    println!("| {body}, after {by_http} joins over 256 connections | {full_kb} |");
    let difference_kb = i128::from(full_kb) - i128::from(empty_kb);
    println!("| difference (gate: + {DIFFERENCE_MAX_KB} kB) | **{difference_kb}** |");

    let mut comparison = Comparison::default();
    for _ in 0..ROUNDS {
        let read = [read()];
        comparison
            .add(run_load(full.public(), &read, 64, ROUND)?, run_load(empty.public(), &read, 64, ROUND)?);
    }
    println!("\n| what | connections | full, a second | empty, a second | ratio | gate |");
    println!("|---|---|---|---|---|---|");
    println!("| serving_num with {waiting} waiting against an empty line | 64 | {comparison} | 1.0 |");
    drop(full);
    std::fs::remove_dir_all(&full_directory)?;
    if difference_kb > DIFFERENCE_MAX_KB {
        bail!("{waiting} waiting people cost {difference_kb} kB, and may cost {DIFFERENCE_MAX_KB}");
    }
    Ok(())
}

/// Joins in bulk, straight into the store.
fn fill(directory: &std::path::Path, count: u64) -> Result<()> {
    let store = EmbeddedStore::open(&directory.join("data"), Arc::new(SystemClock))?;
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    runtime.block_on(async {
        let room = RoomId::parse("Sample")?;
        let node = NodeId(1);
        let snapshot = store.load(&room, node).await?.context("the room does not exist")?;
        let batch =
            JoinBatch { room, node, number: 1, epoch: snapshot.room.epoch, lineage: snapshot.lineage, count };
        match store.join(&batch).await? {
            JoinOutcome::Joined { .. } => Ok(()),
            JoinOutcome::Conflict(_) => bail!("the bulk was refused"),
        }
    })
}

/// Resident memory of a process.
pub(crate) fn resident_kb(process_id: u32) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process_id}/status"))?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).context("no VmRSS")?;
    Ok(line.split_whitespace().nth(1).context("no figure")?.parse()?)
}
