//! What a decision of the limiter costs: in memory against `throttlecrab-server` over HTTP, and on a Redis that is well used.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use anteroom_testkit::redis::RedisProcess;
use anyhow::{Context, Result, bail, ensure};

use crate::figures::{Comparison, median};
use crate::load::{Connection, Requests, block_on, run_load, run_paced};
use crate::servers::{Anteroom, pinned_command};

/// How many clients take turns.
const CLIENTS: u32 = 10_000;
/// What each of them may do in a second: more than any of them does, so that every decision is to let it through.
const REQUESTS_A_SECOND: u32 = 1_000;
/// How much of what Redis can do at most it is asked for.
const SHARE_OF_SATURATION: f64 = 0.6;
/// Connections over which Redis is asked.
const CONNECTIONS: usize = 64;
/// How long the other server may take to start.
const START_TIMEOUT: Duration = Duration::from_secs(10);
/// The name of the budget: that of the default, which it replaces.
const POLICY: &str = "read";

/// The load comes from one address, so the clients are those that a trusted proxy names.
fn configuration(more: &str) -> String {
    format!(
        "trusted_proxies = \"127.0.0.0/8\"\n{more}\n[[limit]]\nname = \"{POLICY}\"\nby = \"ip\"\nclass = \"read\"\n\
         requests = {REQUESTS_A_SECOND}\nper_seconds = 1\n[[room]]\nid = \"Sample\"\n"
    )
}

fn clients() -> impl Iterator<Item = String> {
    (0..CLIENTS).map(|number| Ipv4Addr::from_bits(0x0a00_0000 + number * 7).to_string())
}

fn reads() -> Vec<Requests> {
    clients().map(|client| Requests::get_for("/serving_num?event_id=Sample", &client)).collect()
}

/// A read that is charged to a budget in memory, against the same decision by a server made for nothing else.
pub(crate) fn in_memory(binary: &str, peer: &str, rounds: usize, round: Duration) -> Result<()> {
    let anteroom = Anteroom::with_configuration(binary, &configuration(""))?;
    let throttlecrab = Throttlecrab::start(peer)?;
    let ours = reads();
    let theirs: Vec<Requests> = clients().map(|client| Throttlecrab::question(&client)).collect();
    anteroom.call(&ours[0])?;
    ensure!(Figures::of(&anteroom)?.decisions() == 1, "reads are not charged to the budget");
    println!(
        "| a decision over HTTP, in memory | connections | Anteroom a second | throttlecrab-server a second | ratio | gate |"
    );
    println!("|---|---|---|---|---|---|");
    for connections in [64, 256] {
        let mut comparison = Comparison::default();
        for counted in std::iter::once(false).chain(std::iter::repeat_n(true, rounds)) {
            let our_rate = run_load(anteroom.public(), &ours, connections, round)?;
            let their_rate = run_load(throttlecrab.address, &theirs, connections, round)?;
            if counted {
                comparison.add(our_rate, their_rate);
            }
        }
        println!("| {CLIENTS} clients in turn | {connections} | {comparison} | 1.3 |");
    }
    let figures = Figures::of(&anteroom)?;
    println!();
    println!(
        "{} decisions by the limiter, {} of them refusals; the mean decision took {:.2} µs of those a request takes.",
        figures.decisions(),
        figures.count("dropped"),
        figures.mean_micros()
    );
    Ok(())
}

/// How long decisions take while Redis is asked for six tenths of what it can do, and how many are made without it.
pub(crate) fn on_redis(binary: &str, rounds: usize, round: Duration, time: Duration) -> Result<()> {
    let redis = RedisProcess::builder().start();
    let requests = reads();
    let store = format!("limits_store_url = \"{}\"", redis.url());
    // With a long timeout, so that it is Redis that is measured and not how much is let through without it.
    let generous = Anteroom::with_configuration(
        binary,
        &configuration(&format!("{store}\nlimits_budget_milliseconds = 1000")),
    )?;
    let mut rates = vec![];
    for counted in std::iter::once(false).chain(std::iter::repeat_n(true, rounds)) {
        let rate = run_load(generous.public(), &requests, CONNECTIONS, round)?;
        if counted {
            rates.push(rate);
        }
    }
    let figures = Figures::of(&generous)?;
    ensure!(
        figures.count("failed_open") == 0,
        "decisions were made without Redis while saturation was measured"
    );
    drop(generous);
    let saturation = median(&rates);
    let anteroom = Anteroom::with_configuration(binary, &configuration(&store))?;
    let wanted = saturation * SHARE_OF_SATURATION;
    // Connections, and the code that hardly ever runs, are warm before anything counts.
    run_paced(anteroom.public(), &requests, CONNECTIONS, wanted, round)?;
    let before = Figures::of(&anteroom)?;
    let started = Instant::now();
    let mut latencies = run_paced(anteroom.public(), &requests, CONNECTIONS, wanted, time)?;
    let rate = latencies.len() as f64 / started.elapsed().as_secs_f64();
    let figures = Figures::of(&anteroom)?.since(&before);
    println!("| a decision on Redis, everything on the same cores | |");
    println!("|---|---|");
    println!("| saturation: requests a second over {CONNECTIONS} connections | {saturation:.0} |");
    println!("| asked for: {SHARE_OF_SATURATION} of it; done a second | {wanted:.0}; {rate:.0} |");
    println!("| decisions | {} |", figures.decisions());
    println!("| 99 of 100 decisions took at most (gate: 5 ms) | **{}** |", figures.percentile(99));
    println!("| 999 of 1000 took at most | {} |", figures.percentile_of_thousand(999));
    println!("| mean | {:.0} µs |", figures.mean_micros());
    let share = figures.count("failed_open") as f64 / figures.decisions().max(1) as f64 * 100.0;
    println!("| let through without an answer of Redis (gate: 0.1 %) | **{share:.4} %** |");
    latencies.sort_by(f64::total_cmp);
    let at = |share: usize| latencies.get(latencies.len() * share / 100).copied().unwrap_or(f64::NAN);
    println!("| the whole answer over HTTP: p50, p99 | {:.2} ms, {:.2} ms |", at(50), at(99));
    println!();
    println!("| decisions that took up to | how many | share |");
    println!("|---|---|---|");
    for (name, count) in figures.histogram() {
        println!("| {name} | {count} | {:.3} % |", count as f64 / figures.timed().max(1) as f64 * 100.0);
    }
    Ok(())
}

/// The other server, on a port of its own.
struct Throttlecrab {
    child: Child,
    address: SocketAddr,
}

impl Throttlecrab {
    fn start(program: &str) -> Result<Self> {
        // It cannot choose a port by itself; so one that was free just now.
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let mut command = pinned_command(program);
        command.args(["--http", "--http-host", "127.0.0.1", "--http-port", &address.port().to_string()]);
        command.args(["--log-level", "error"]).stdout(Stdio::null());
        let child = command.spawn().with_context(|| format!("{program} does not start"))?;
        let server = Self { child, address };
        let started = Instant::now();
        while let Err(error) = server.check() {
            if started.elapsed() > START_TIMEOUT {
                bail!("throttlecrab-server does not answer: {error}");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(server)
    }

    /// The same limit as ours, told with each question as it wants it.
    fn question(client: &str) -> Requests {
        let body = serde_json::json!({
            "key": client,
            "max_burst": REQUESTS_A_SECOND,
            "count_per_period": REQUESTS_A_SECOND,
            "period": 1,
            "quantity": 1,
        });
        Requests::post("/throttle", &body.to_string())
    }

    fn check(&self) -> Result<()> {
        block_on(async {
            let mut connection = Connection::open(self.address).await?;
            let (status, body_at) = connection.call(&Self::question("first")).await?;
            let (_, body) = connection.last(body_at)?;
            ensure!(status == 200 && body.contains("\"allowed\":true"), "status {status}: {body}");
            Ok(())
        })
    }
}

impl Drop for Throttlecrab {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What the server's own metrics say about its limiter.
struct Figures {
    /// By the word of the decision.
    decisions: BTreeMap<String, u64>,
    /// How many took at most so many microseconds; the last one stands for all.
    at_most: Vec<(f64, u64)>,
    seconds: f64,
}

impl Figures {
    fn of(anteroom: &Anteroom) -> Result<Self> {
        let told = anteroom.metrics()?;
        let mut figures = Self { decisions: BTreeMap::new(), at_most: vec![], seconds: 0.0 };
        for line in told.lines().filter(|line| line.starts_with("anteroom_limiter_")) {
            let (name, value) = line.rsplit_once(' ').context("a line without a value")?;
            let label = |wanted: &str| {
                let (_, behind) = name.split_once(&format!("{wanted}=\""))?;
                behind.split('"').next().map(str::to_owned)
            };
            if name.starts_with("anteroom_limiter_decisions_total{") {
                if label("policy").as_deref() == Some(POLICY) {
                    figures.decisions.insert(label("decision").context("no decision")?, value.parse()?);
                }
            } else if name.starts_with("anteroom_limiter_decision_seconds_bucket{") {
                let end = label("le").context("no upper end")?;
                let end = if end == "+Inf" { f64::INFINITY } else { end.parse::<f64>()? * 1e6 };
                figures.at_most.push((end, value.parse()?));
            } else if name == "anteroom_limiter_decision_seconds_sum" {
                figures.seconds = value.parse()?;
            }
        }
        ensure!(!figures.at_most.is_empty(), "the server tells nothing about its limiter:\n{told}");
        Ok(figures)
    }

    fn since(mut self, before: &Self) -> Self {
        for (word, count) in &mut self.decisions {
            *count -= before.count(word);
        }
        for ((_, count), (_, earlier)) in self.at_most.iter_mut().zip(&before.at_most) {
            *count -= earlier;
        }
        self.seconds -= before.seconds;
        self
    }

    fn count(&self, word: &str) -> u64 {
        self.decisions.get(word).copied().unwrap_or(0)
    }

    fn decisions(&self) -> u64 {
        self.decisions.values().sum()
    }

    fn timed(&self) -> u64 {
        self.at_most.last().map_or(0, |(_, count)| *count)
    }

    fn mean_micros(&self) -> f64 {
        self.seconds * 1e6 / self.timed().max(1) as f64
    }

    fn percentile(&self, hundredths: u64) -> String {
        self.percentile_of_thousand(hundredths * 10)
    }

    fn percentile_of_thousand(&self, thousandths: u64) -> String {
        let enough = |(_, count): &&(f64, u64)| count * 1_000 >= self.timed() * thousandths;
        self.at_most.iter().find(enough).map_or_else(String::new, |(end, _)| time_of(*end))
    }

    /// How many decisions there are between one end and the next.
    fn histogram(&self) -> Vec<(String, u64)> {
        let mut so_far = 0;
        let rows = self.at_most.iter().map(|(end, count)| {
            let row = (time_of(*end), count - so_far);
            so_far = *count;
            row
        });
        rows.collect()
    }
}

fn time_of(micros: f64) -> String {
    match micros {
        micros if micros.is_infinite() => "longer".to_owned(),
        micros if micros >= 1_000.0 => format!("{:.0} ms", micros / 1_000.0),
        micros => format!("{micros:.0} µs"),
    }
}
