//! Two builds of Anteroom against each other: what a change costs, without the noise between two runs.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::figures::{Comparison, median};
use crate::load::{Requests, run_load};
use crate::proxy::{Site, cpu_seconds};
use crate::servers::Anteroom;
use crate::{CONNECTIONS, Case, cases};

/// Reads, durable joins and a proxied GET of both builds, in turn.
pub(crate) fn compare(binary: &str, other: &str, rounds: usize, round: Duration) -> Result<()> {
    println!(
        "| what | connections | this build a second | other build a second | ratio | CPU µs a request: this, other |"
    );
    println!("|---|---|---|---|---|---|");
    {
        let servers = [Anteroom::start(binary, None)?, Anteroom::start(other, None)?];
        let [ours, theirs] = [cases(&servers[0])?, cases(&servers[1])?];
        for (Case { what, requests, .. }, Case { requests: others, .. }) in ours.into_iter().zip(theirs) {
            take_turns(what, &servers, [&requests, &others], rounds, round)?;
        }
    }
    let site = Site::start()?;
    let servers = [site.protect(binary)?, site.protect(other)?];
    let requests = [[Site::visitor(&servers[0])?], [Site::visitor(&servers[1])?]];
    take_turns("proxied GET of 1 KiB", &servers, [&requests[0], &requests[1]], rounds, round)
}

/// Rounds of both alternate; one of each first that is not counted.
fn take_turns(
    what: &str,
    servers: &[Anteroom; 2],
    requests: [&[Requests]; 2],
    rounds: usize,
    round: Duration,
) -> Result<()> {
    for connections in CONNECTIONS {
        let mut comparison = Comparison::default();
        let mut micros = [vec![], vec![]];
        for counted in std::iter::once(false).chain(std::iter::repeat_n(true, rounds)) {
            let ours = measure(&servers[0], requests[0], connections, round)?;
            let theirs = measure(&servers[1], requests[1], connections, round)?;
            if counted {
                comparison.add(ours.a_second, theirs.a_second);
                micros[0].push(ours.cpu_micros);
                micros[1].push(theirs.cpu_micros);
            }
        }
        let [ours, theirs] = micros.map(|micros| median(&micros));
        println!("| {what} | {connections} | {comparison} | {ours:.1}, {theirs:.1} |");
    }
    Ok(())
}

/// One round of one server.
struct Measured {
    a_second: f64,
    /// What the server's process took for a request. Neighbours on the machine change it less than the rate.
    cpu_micros: f64,
}

fn measure(
    server: &Anteroom,
    requests: &[Requests],
    connections: usize,
    round: Duration,
) -> Result<Measured> {
    let (process, address): (u32, SocketAddr) = (server.process_id(), server.public());
    let (cpu, started) = (cpu_seconds(process)?, Instant::now());
    let a_second = run_load(address, requests, connections, round)?;
    let answered = a_second * started.elapsed().as_secs_f64();
    Ok(Measured { a_second, cpu_micros: (cpu_seconds(process)? - cpu) / answered * 1e6 })
}
