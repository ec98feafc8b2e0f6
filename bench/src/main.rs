//! Speed as ratios: Anteroom against a bare hyper server that answers the same bytes, in one run on one machine.
//!
//! `bench/run` builds and calls this. The machine is shared and noisy, so nothing here is compared with a clock alone: rounds of
//! both servers alternate, medians are compared, and the ratio is what counts. Servers are pinned to core 0, the load to core 1.
#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::cast_precision_loss,
    reason = "a bench prints, looks at the clock, and divides"
)]

mod baseline;
mod check;
mod events;
mod fan_out;
mod figures;
mod forward;
mod guard;
mod limiter;
mod load;
mod memory;
mod proxy;
mod redis;
mod servers;
mod versions;
mod watch;

use std::time::Duration;

use anyhow::{Context, Result, bail};

use figures::Comparison;
use load::{Requests, run_load};
use servers::{Anteroom, Baseline};

/// How long one round of one server lasts.
const ROUND: Duration = Duration::from_secs(1);
/// How many rounds each server gets.
const ROUNDS: usize = 5;
/// How many connections the load keeps open: a run of each.
const CONNECTIONS: [usize; 2] = [64, 256];

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["baseline", answer_file] => baseline::serve(answer_file),
        ["http", binary] => http(binary, ROUNDS, ROUND, ""),
        ["http", binary, "--quick"] => http(binary, 1, Duration::from_millis(300), ""),
        ["http", binary, "--only", name] => http(binary, ROUNDS, ROUND, name),
        ["claims", binary] => claims(binary, 5, 600),
        ["claims", binary, "--quick"] => claims(binary, 1, 30),
        ["memory", binary] => memory::compare(binary, 10_000_000, 100_000),
        ["memory", binary, "--quick"] => memory::compare(binary, 1_000_000, 2_000),
        ["redis", binary] => redis::compare(binary, ROUNDS, ROUND),
        ["redis", binary, "--quick"] => redis::compare(binary, 1, Duration::from_millis(300)),
        ["limiter-memory", binary, peer] => limiter::in_memory(binary, peer, ROUNDS, ROUND),
        ["limiter-memory", binary, peer, "--quick"] => {
            limiter::in_memory(binary, peer, 1, Duration::from_millis(300))
        }
        ["limiter-redis", binary] => limiter::on_redis(binary, ROUNDS, ROUND, Duration::from_secs(20)),
        ["limiter-redis", binary, "--quick"] => {
            limiter::on_redis(binary, 1, Duration::from_millis(300), Duration::from_millis(500))
        }
        ["proxy", binary] => proxy::compare(binary, ROUNDS, ROUND),
        ["proxy", binary, "--quick"] => proxy::compare(binary, 1, Duration::from_millis(300)),
        ["check", binary] => check::compare(binary, ROUNDS, ROUND),
        ["check", binary, "--quick"] => check::compare(binary, 1, Duration::from_millis(300)),
        ["guard"] => guard::compare(ROUNDS, ROUND),
        ["guard", "--quick"] => guard::compare(1, Duration::from_millis(300)),
        ["versions", binary, other] => versions::compare(binary, other, ROUNDS, ROUND),
        ["versions", binary, other, "--quick"] => {
            versions::compare(binary, other, 1, Duration::from_millis(300))
        }
        ["events", binary] => events::compare(binary, ROUNDS, ROUND, ""),
        ["events", binary, "--quick"] => events::compare(binary, 1, Duration::from_millis(300), ""),
        ["events", binary, "--only", name] => events::compare(binary, ROUNDS, ROUND, name),
        ["events-size", binary] => events::size(binary, 20_000),
        ["events-size", binary, "--quick"] => events::size(binary, 500),
        ["forward", runtimes, origin] => forward::serve(runtimes, origin),
        ["fan-out", event_file, connections] => fan_out::serve(event_file, connections),
        ["watch", binary] => watch::hold(binary, 15_000, 5),
        ["watch", binary, "--quick"] => watch::hold(binary, 500, 2),
        _ => bail!(
            "usage: anteroom-bench http|claims|memory|watch|redis|proxy|check|events|events-size|limiter-redis BINARY [--quick], or limiter-memory BINARY PEER [--quick], \
             or versions BINARY OTHER_BINARY [--quick], or guard [--quick]"
        ),
    }
}

/// Reads and durable joins against a bare hyper server that answers the same bytes.
fn http(binary: &str, rounds: usize, round: Duration, only: &str) -> Result<()> {
    let anteroom = Anteroom::start(binary, None)?;
    println!("| what | connections | Anteroom a second | bare hyper a second | ratio | gate / goal |");
    println!("|---|---|---|---|---|---|");
    for Case { what, requests, gate } in cases(&anteroom)?.into_iter().filter(|case| case.what.contains(only))
    {
        let baseline = Baseline::repeating_answer_of(&anteroom, &requests[0])?;
        for connections in CONNECTIONS {
            let mut comparison = Comparison::default();
            // One round of each first that is not counted: caches, buffers, the branch predictor.
            for counted in std::iter::once(false).chain(std::iter::repeat_n(true, rounds)) {
                let ours = run_load(anteroom.public(), &requests, connections, round)?;
                let theirs = run_load(baseline.address(), &requests, connections, round)?;
                if counted {
                    comparison.add(ours, theirs);
                }
            }
            println!("| {what} | {connections} | {comparison} | {gate} |");
        }
    }
    Ok(())
}

/// Requests that are measured, and the gate and goal of their ratio to a bare server.
struct Case {
    what: &'static str,
    requests: Vec<Requests>,
    gate: &'static str,
}

/// Reads and durable joins of one server; its tickets are its own.
fn cases(anteroom: &Anteroom) -> Result<Vec<Case>> {
    // Many tickets, because the cost of opening one depends on the ticket.
    let queue_nums = anteroom
        .join_many(1_000)?
        .iter()
        .map(|ticket| Requests::get(&format!("/queue_num?event_id=Sample&request_id={ticket}")))
        .collect();
    let statuses =
        anteroom.tickets(1_000)?.into_iter().map(|ticket| Requests::get_with("/status", &ticket)).collect();
    let join = Requests::post("/join", r#"{"room":"Sample"}"#);
    let assign = Requests::post("/assign_queue_num", r#"{"event_id":"Sample"}"#);
    let case = |what, requests, gate| Case { what, requests, gate };
    Ok(vec![
        case("serving_num", vec![Requests::get("/serving_num?event_id=Sample")], "0.9 / 1.0"),
        case("waiting_num", vec![Requests::get("/waiting_num?event_id=Sample")], "0.9 / 1.0"),
        case("the board", vec![Requests::get("/rooms/Sample")], "0.9 / 1.0"),
        case("queue_num of a ticket", queue_nums, "0.8 / 0.9"),
        case("status of a ticket token", statuses, "0.8 / 0.9"),
        case("join, durable", vec![join], "0.5 / 0.7"),
        case("assign_queue_num, durable", vec![assign], "0.5 / 0.7"),
    ])
}

/// Claims, each with three RS256 signatures, against a third of what `openssl speed` signs on the same core.
fn claims(binary: &str, rounds: usize, claims_a_round: usize) -> Result<()> {
    let anteroom = Anteroom::start(binary, None)?;
    let mut comparison = Comparison::default();
    for _ in 0..rounds {
        let tickets = anteroom.join_many(claims_a_round)?;
        anteroom.advance(i64::try_from(claims_a_round)?)?;
        let ours = load::run_each(
            anteroom.public(),
            64,
            tickets.into_iter().map(|ticket| {
                Requests::post(
                    "/generate_token",
                    &format!(r#"{{"event_id":"Sample","request_id":"{ticket}"}}"#),
                )
            }),
        )?;
        comparison.add(ours, openssl_signatures_a_second()? / 3.0);
    }
    println!("| what | connections | Anteroom a second | openssl speed rsa2048 / 3 | ratio | gate |");
    println!("|---|---|---|---|---|---|");
    println!("| claim (3 RS256 signatures, durable) | 64 | {comparison} | 0.9 |");
    Ok(())
}

fn openssl_signatures_a_second() -> Result<f64> {
    let mut command = servers::pinned_command("openssl");
    let output = command.args(["speed", "-seconds", "2", "rsa2048"]).output().context("openssl speed")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().find(|line| line.trim_start().starts_with("rsa") && line.contains("2048"));
    let line = line.with_context(|| format!("openssl speed printed no rsa 2048 line:\n{text}"))?;
    let rate = line.split_whitespace().rev().nth(1).context("no rate in openssl's line")?;
    Ok(rate.parse()?)
}
