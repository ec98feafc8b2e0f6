//! What a verdict costs behind nginx: its `auth_request` asking Anteroom, asking a bare hyper server that always says 200,
//! and the same nginx asking nobody. All of them before one origin, in turn.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::figures::median;
use crate::load::{Connection, Requests, block_on, run_load};
use crate::proxy::{LIMIT_A_SECOND, Nginx, cpu_seconds};
use crate::servers::{Anteroom, Baseline};

/// A navigation, as a browser sends it.
const NAVIGATION: &str = "user-agent: Mozilla/5.0 (X11; Linux x86_64) bench\r\naccept: text/html,application/xhtml+xml\r\n\
    accept-encoding: gzip, deflate, br\r\naccept-language: en\r\n";
/// What nginx writes for a check.
const CHECK: &str = "x-forwarded-method: GET\r\nx-forwarded-uri: /\r\nx-forwarded-for: 203.0.113.7\r\n";

/// Everything that is measured, one after the other.
pub(crate) fn compare(binary: &str, rounds: usize, round: Duration) -> Result<()> {
    let origin = Nginx::origin()?;
    let anteroom = Anteroom::with_configuration(binary, &configuration())?;
    let cookie = cookie_of_visitor(&anteroom)?;
    let asks =
        Requests::with_head("/check/forward/site", &format!("{NAVIGATION}{CHECK}cookie: {cookie}\r\n"));
    // The first answers renew the visit; later ones only permit.
    anteroom.call(&asks)?;
    let baseline = Baseline::repeating_answer_of(&anteroom, &asks)?;
    let request = [Requests::with_head("/", &format!("{NAVIGATION}cookie: {cookie}\r\n"))];
    let asking = |server| Nginx::checking(origin.address, server);
    let fronts = [
        ("nginx asking Anteroom", asking(Some(anteroom.public()))?, Some(anteroom.process_id())),
        ("nginx asking a bare hyper server", asking(Some(baseline.address()))?, Some(baseline.process_id())),
        ("nginx asking nobody", asking(None)?, None),
    ];
    for (name, front, _) in &fronts {
        ensure!(status(front.address, &request[0])? == 200, "{name}: the visitor is not let in");
    }
    let stranger = status(fronts[0].1.address, &Requests::with_head("/", NAVIGATION))?;
    ensure!(stranger == 401, "a visitor without a cookie gets {stranger}");
    println!(
        "| GET of 1 KiB through nginx, pinned | connections | a second | of asking a bare server (gate 0.9) | of asking nobody \
         | CPU µs of the server asked |"
    );
    println!("|---|---|---|---|---|---|");
    for connections in [64, 256] {
        let mut rates = vec![vec![]; fronts.len()];
        let mut micros = vec![vec![]; fronts.len()];
        // One round of each first that is not counted.
        for counted in std::iter::once(false).chain(std::iter::repeat_n(true, rounds)) {
            for ((_, front, server), (rates, micros)) in fronts.iter().zip(rates.iter_mut().zip(&mut micros))
            {
                let cpu = || server.map_or(Ok(0.0), cpu_seconds);
                let (before, started) = (cpu()?, Instant::now());
                let rate = run_load(front.address, &request, connections, round)?;
                let requests = rate * started.elapsed().as_secs_f64();
                if counted {
                    rates.push(rate);
                    micros.push((cpu()? - before) / requests * 1e6);
                }
            }
        }
        let medians: Vec<f64> = rates.iter().map(|rates| median(rates)).collect();
        for (((name, ..), rate), micros) in fronts.iter().zip(&medians).zip(&micros) {
            let (of_bare, of_nobody, micros) = (rate / medians[1], rate / medians[2], median(micros));
            println!(
                "| {name} | {connections} | {rate:.0} | **{of_bare:.2}** | {of_nobody:.2} | {micros:.1} |"
            );
        }
    }
    Ok(())
}

/// Everybody is limited, and the site has a line.
fn configuration() -> String {
    format!(
        "check_proxies = \"127.0.0.0/8\"\nlimits_exempt = \"none\"\n[[limit]]\nname = \"site\"\nby = \"ip\"\nclass = \"gateway\"\n\
         requests = {LIMIT_A_SECOND}\nper_seconds = 1\n[[room]]\nid = \"site\"\nhosts = [\"bench\"]\ninlet = \"max-size\"\n\
         total_active_users = 100000\n"
    )
}

/// The cookie of a visitor who is inside: it comes in by way of the door.
fn cookie_of_visitor(anteroom: &Anteroom) -> Result<String> {
    let asks = |request: Requests| {
        block_on(async {
            let mut connection = Connection::open(anteroom.public()).await?;
            let (_, body_at) = connection.call(&request).await?;
            let (answer, _) = connection.last(body_at)?;
            let line = answer.lines().find_map(|line| line.strip_prefix("set-cookie: "));
            let cookie = line.and_then(|line| line.split(';').next());
            Ok(cookie.with_context(|| format!("no cookie in {answer}"))?.to_owned())
        })
    };
    let arrived = asks(Requests::with_head("/check/forward/site", &format!("{NAVIGATION}{CHECK}")))?;
    asks(Requests::with_head(
        "/.anteroom/enter?return=/&room=site",
        &format!("{NAVIGATION}cookie: {arrived}\r\n"),
    ))
}

fn status(address: SocketAddr, request: &Requests) -> Result<u16> {
    block_on(async { Ok(Connection::open(address).await?.call(request).await?.0) })
}
