//! Many nodes on one Redis: joins against a bare hyper server, calls to Redis per join, and what conflicts cost.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anteroom_core::{Operation, RoomId, RoomState, Settings};
use anteroom_engine::{Actor, Engine, RoomHandle};
use anteroom_store::redis::{RedisOptions, RedisStore, RedisUrl};
use anteroom_store::{NodeId, Store, SystemClock};
use anteroom_testkit::redis::{AppendOnly, RedisProcess};
use anyhow::{Context, Result};

use crate::figures::{Comparison, median};
use crate::load::{Requests, run_load};
use crate::servers::{Anteroom, Baseline};

/// Everything that is measured, one after the other.
pub(crate) fn compare(binary: &str, rounds: usize, round: Duration) -> Result<()> {
    joins(binary, rounds, round)?;
    println!();
    conflicts(round)
}

fn redis() -> RedisProcess {
    RedisProcess::builder().append_only(AppendOnly::EverySecond).start()
}

/// Scripts that Redis has been asked to run so far: each is one call of a node.
fn scripts_run(redis: &RedisProcess) -> Result<f64> {
    let statistics = redis.information("commandstats");
    let line = statistics.get("cmdstat_evalsha").context("no script was ever run")?;
    let calls = line.split(',').find_map(|part| part.strip_prefix("calls=")).context("no number of calls")?;
    Ok(calls.parse()?)
}

/// Joins through one node, Redis, node and load on the same cores.
fn joins(binary: &str, rounds: usize, round: Duration) -> Result<()> {
    let redis = redis();
    let anteroom = Anteroom::start_on(binary, &redis.url())?;
    println!(
        "| what | connections | Anteroom a second | bare hyper a second | ratio | gate | calls to Redis a join (gate 0.1) |"
    );
    println!("|---|---|---|---|---|---|---|");
    let cases = [
        ("join on Redis", Requests::post("/join", r#"{"room":"Sample"}"#)),
        ("assign_queue_num on Redis", Requests::post("/assign_queue_num", r#"{"event_id":"Sample"}"#)),
    ];
    for (what, request) in cases {
        let baseline = Baseline::repeating_answer_of(&anteroom, &request)?;
        let requests = [request];
        for connections in [64, 256] {
            let (mut comparison, mut calls) = (Comparison::default(), vec![]);
            for counted in std::iter::once(false).chain(std::iter::repeat_n(true, rounds)) {
                let (before, started) = (scripts_run(&redis)?, Instant::now());
                let ours = run_load(anteroom.public(), &requests, connections, round)?;
                let joins = ours * started.elapsed().as_secs_f64();
                let per_join = (scripts_run(&redis)? - before) / joins;
                let theirs = run_load(baseline.address(), &requests, connections, round)?;
                if counted {
                    comparison.add(ours, theirs);
                    calls.push(per_join);
                }
            }
            println!("| {what} | {connections} | {comparison} | 0.4 | {:.3} |", median(&calls));
        }
    }
    Ok(())
}

/// Nodes in this process that all change one room as fast as they can.
fn conflicts(time: Duration) -> Result<()> {
    let redis = redis();
    println!("| nodes on one room | changes a second | against one node | conflicts a change | p50 | p99 |");
    println!("|---|---|---|---|---|---|");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let mut alone = None;
    for nodes in [1u128, 3, 8] {
        let measured = runtime.block_on(change_at_once(&redis, nodes, time))?;
        let rate = measured.changes as f64 / time.as_secs_f64();
        let ratio = rate / *alone.get_or_insert(rate);
        let conflicts = measured.conflicts as f64 / measured.changes as f64;
        let [p50, p99] = measured.latencies;
        println!("| {nodes} | {rate:.0} | {ratio:.2} | {conflicts:.2} | {p50:.1} ms | {p99:.1} ms |");
    }
    Ok(())
}

struct ConflictFigures {
    changes: usize,
    conflicts: u64,
    /// Half of the changes took no longer, and 99 of 100, in milliseconds.
    latencies: [f64; 2],
}

async fn change_at_once(redis: &RedisProcess, nodes: u128, time: Duration) -> Result<ConflictFigures> {
    let mut engines = vec![];
    for node in 1..=nodes {
        let mut options = RedisOptions::new(RedisUrl::parse(&redis.url())?);
        options.prefix = format!("bench-{nodes}");
        let store: Arc<dyn Store> = Arc::new(RedisStore::open(&options).await?);
        let engine = Engine::start(store, Arc::new(SystemClock), NodeId(node)).await?;
        let id = RoomId::parse("room")?;
        let actor = Actor::System("bench");
        let (room, _) = engine.create_room(id, Settings::default(), RoomState::Open, 1, actor).await?;
        engines.push((engine, room));
    }
    let mut tasks = tokio::task::JoinSet::new();
    let started = Instant::now();
    for (_, room) in &engines {
        tasks.spawn(change_one_after_the_other(Arc::clone(room), started, time));
    }
    let mut latencies: Vec<f64> = tasks.join_all().await.into_iter().flatten().collect();
    latencies.sort_by(f64::total_cmp);
    let mut conflicts = 0;
    for (engine, _) in &engines {
        conflicts += engine.counters().conflicts.load(std::sync::atomic::Ordering::Relaxed);
        engine.stop().await;
    }
    let at = |share: usize| latencies.get(latencies.len() * share / 100).copied().unwrap_or(f64::NAN);
    Ok(ConflictFigures { changes: latencies.len(), conflicts, latencies: [at(50), at(99)] })
}

/// Each change needs a commit of its own; returns how long those took that worked.
async fn change_one_after_the_other(room: Arc<RoomHandle>, started: Instant, time: Duration) -> Vec<f64> {
    let mut latencies = vec![];
    while started.elapsed() < time {
        let begun = Instant::now();
        if room.operate(Operation::Advance { by: 1 }, Actor::Clockwork).await.is_ok() {
            latencies.push(begun.elapsed().as_secs_f64() * 1000.0);
        }
    }
    latencies
}
