//! Two builds of Anteroom against each other: what a change costs, without the noise between two runs.

use std::time::Duration;

use anyhow::Result;

use crate::figures::Comparison;
use crate::load::{Requests, run_load};
use crate::proxy::Site;
use crate::servers::Anteroom;
use crate::{CONNECTIONS, Case, cases};

/// Reads, durable joins and a proxied GET of both builds, in turn.
pub(crate) fn compare(binary: &str, other: &str, rounds: usize, round: Duration) -> Result<()> {
    println!("| what | connections | this build a second | other build a second | ratio |");
    println!("|---|---|---|---|---|");
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
        for counted in std::iter::once(false).chain(std::iter::repeat_n(true, rounds)) {
            let ours = run_load(servers[0].public(), requests[0], connections, round)?;
            let theirs = run_load(servers[1].public(), requests[1], connections, round)?;
            if counted {
                comparison.add(ours, theirs);
            }
        }
        println!("| {what} | {connections} | {comparison} |");
    }
    Ok(())
}
