//! What a destination of events costs: one build of the server twice, one of them with a webhook that gets every kind, and how much an
//! event takes in the outbox.

use std::fmt;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anteroom_testkit::redis::RedisProcess;
use anyhow::{Context, Result, ensure};
use redb::{ReadOnlyDatabase, ReadableDatabase, ReadableTableMetadata, TableDefinition};
use serde_json::json;

use crate::CONNECTIONS;
use crate::figures::{Comparison, median};
use crate::load::{self, Requests, run_load};
use crate::proxy::cpu_seconds;
use crate::servers::Anteroom;

/// The destination.
const HOOK: &str = "hook";
/// How long delivery may take after a round.
const DELIVERY_TIMEOUT: Duration = Duration::from_mins(2);
/// How long a lag of nothing must last until everything counts as delivered.
const QUIET_TIME: Duration = Duration::from_millis(300);
/// How many places are claimed for a second of a round.
const CLAIMS_A_SECOND: f64 = 4_000.0;
/// Events of visitors, by their numbers, as the embedded store has them.
const VISITOR_EVENTS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("visitor_events");
/// The same on Redis.
const VISITOR_EVENTS_PATTERN: &str = "*visitor-events";

/// `EdDSA`, so that signing is not all that a claim takes. In `Sample` nobody is let in by itself, in `Hall` everybody is.
const CONFIGURATION: &str = r#"
destinations_private_allowed = ["127.0.0.0/8"]
signing_algorithm = "EdDSA"
[[room]]
id = "Sample"
[[room]]
id = "Hall"
inlet = "max-size"
total_active_users = 10000000
validity_period = 86400
"#;

/// What one round asks.
enum Ask {
    /// This, as often as it is answered.
    Joins(Requests),
    /// The claim of each of the places that were taken before and are served.
    Claims,
}

/// Joins and claims with and without a destination, in turn.
pub(crate) fn compare(binary: &str, rounds: usize, round: Duration, only: &str) -> Result<()> {
    let receiver = Receiver::start()?;
    let with = Anteroom::with_configuration(binary, CONFIGURATION)?;
    add_webhook(&with, &receiver)?;
    let without = Anteroom::with_configuration(binary, CONFIGURATION)?;
    println!(
        "| what | connections | with a destination, a second | without, a second | ratio (gate 0.95) | CPU µs a request: with, without | \
         events a request | events that wait at the end of a round | ms until they are delivered |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    let join = |room: &str| Ask::Joins(Requests::post("/join", &json!({ "room": room }).to_string()));
    let cases = [
        ("join, durable", join("Sample")),
        ("join with its claim, durable", join("Hall")),
        ("generate_token, durable", Ask::Claims),
    ];
    for (what, ask) in cases.iter().filter(|(what, _)| what.contains(only)) {
        for connections in CONNECTIONS {
            let (mut comparison, mut figures) = (Comparison::default(), Figures::default());
            // One round of each first that is not counted.
            for counted in std::iter::once(false).chain(std::iter::repeat_n(true, rounds)) {
                let ours = measure(&with, true, ask, connections, round)?;
                let theirs = measure(&without, false, ask, connections, round)?;
                if counted {
                    comparison.add(ours.a_second, theirs.a_second);
                    figures.add(&ours, &theirs);
                }
            }
            println!("| {what} | {connections} | {comparison} | {figures} |");
        }
    }
    ensure!(receiver.requests() > 0, "the receiver got nothing");
    Ok(())
}

/// One round of one server.
struct Measured {
    a_second: f64,
    /// What the server's process took for a request, delivery included.
    cpu_micros: f64,
    /// Events delivered for a request.
    events: f64,
    /// How many events waited when the last answer was there.
    waiting: f64,
    /// And how long until they were delivered.
    delivery_millis: f64,
}

/// What is told of rounds beside their rates: medians.
#[derive(Default)]
struct Figures {
    with: Vec<f64>,
    without: Vec<f64>,
    events: Vec<f64>,
    waiting: Vec<f64>,
    delivery_millis: Vec<f64>,
}

impl Figures {
    fn add(&mut self, with: &Measured, without: &Measured) {
        self.with.push(with.cpu_micros);
        self.without.push(without.cpu_micros);
        self.events.push(with.events);
        self.waiting.push(with.waiting);
        self.delivery_millis.push(with.delivery_millis);
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [with, without, events] = [&self.with, &self.without, &self.events].map(|values| median(values));
        let (waiting, delivery) = (median(&self.waiting), median(&self.delivery_millis));
        write!(formatter, "{with:.1}, {without:.1} | {events:.2} | {waiting:.0} | {delivery:.0}")
    }
}

/// A round of a server, and, where it has a destination, the time until everything is delivered: so that delivery takes nothing of the
/// other server's round, and its CPU time is counted.
fn measure(
    server: &Anteroom,
    delivers: bool,
    ask: &Ask,
    connections: usize,
    round: Duration,
) -> Result<Measured> {
    let claims = match ask {
        Ask::Joins(_) => vec![],
        Ask::Claims => served_places(server, round)?,
    };
    let delivered_before = if delivers { await_delivery(server)?.delivered } else { 0.0 };
    let (cpu, started) = (cpu_seconds(server.process_id())?, Instant::now());
    let (a_second, answered) = match ask {
        Ask::Joins(request) => {
            let rate = run_load(server.public(), std::slice::from_ref(request), connections, round)?;
            (rate, rate * started.elapsed().as_secs_f64())
        }
        Ask::Claims => {
            let count = claims.len() as f64;
            (load::run_each(server.public(), connections, claims.into_iter())?, count)
        }
    };
    let ended = Instant::now();
    let delivered = if delivers { await_delivery(server)? } else { Delivery::default() };
    Ok(Measured {
        a_second,
        cpu_micros: (cpu_seconds(server.process_id())? - cpu) / answered * 1e6,
        events: (delivered.delivered - delivered_before) / answered,
        waiting: delivered.waited,
        delivery_millis: delivered.done_at.map_or(0.0, |done| (done - ended).as_secs_f64() * 1_000.0),
    })
}

/// Takes places and serves them; returns the requests that claim them, as many as a round takes or some more.
fn served_places(server: &Anteroom, round: Duration) -> Result<Vec<Requests>> {
    #[expect(clippy::cast_possible_truncation, reason = "a round has some thousand claims at most")]
    let count = (CLAIMS_A_SECOND * round.as_secs_f64()).ceil() as i64;
    let tickets = server.join_many(usize::try_from(count)?)?;
    server.advance(count)?;
    let claim = |ticket: String| {
        let body = json!({"event_id": "Sample", "request_id": ticket}).to_string();
        Requests::post("/generate_token", &body)
    };
    Ok(tickets.into_iter().map(claim).collect())
}

/// What became of the events of a round.
#[derive(Default)]
struct Delivery {
    /// Delivered since the start.
    delivered: f64,
    /// How many waited when it was looked at first.
    waited: f64,
    done_at: Option<Instant>,
}

/// Waits until the destination has everything.
fn await_delivery(server: &Anteroom) -> Result<Delivery> {
    let (started, mut operator) = (Instant::now(), server.operator());
    let (mut waited, mut done_at) = (None, None);
    loop {
        let answer = operator.get(&format!("/destinations/{HOOK}"))?;
        ensure!(answer.status == 200, "status {}", answer.status);
        let status = &answer.json()["status"];
        let figure = |name: &str| status[name].as_f64().with_context(|| format!("no {name} in {status}"));
        let (lag, delivered) = (figure("lag_events")?, figure("delivered")?);
        let waited = *waited.get_or_insert(lag);
        ensure!(status["last_error"].is_null(), "the destination fails: {status}");
        done_at = if lag == 0.0 { done_at.or(Some(Instant::now())) } else { None };
        if done_at.is_some_and(|done: Instant| done.elapsed() > QUIET_TIME) {
            return Ok(Delivery { delivered, waited, done_at });
        }
        ensure!(started.elapsed() < DELIVERY_TIMEOUT, "not delivered: {status}");
        thread::sleep(Duration::from_millis(20));
    }
}

fn add_webhook(server: &Anteroom, receiver: &Receiver) -> Result<()> {
    let url = format!("http://{}/hook", receiver.address);
    let body = json!({"name": HOOK, "kind": "webhook", "url": url, "types": ["*"], "batch_max": 100});
    let answer = server.operator().post("/destinations", &body)?;
    ensure!(answer.status == 201, "status {}: {}", answer.status, answer.text());
    Ok(())
}

/// A receiver that answers 204 at once, on threads of this process, so on the core of the load.
struct Receiver {
    address: SocketAddr,
    requests: Arc<AtomicU64>,
}

impl Receiver {
    /// Serves until the process ends.
    fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let (address, requests) = (listener.local_addr()?, Arc::new(AtomicU64::new(0)));
        let counted = requests.clone();
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let counted = counted.clone();
                thread::spawn(move || drop(receive(&stream, &counted)));
            }
        });
        Ok(Self { address, requests })
    }

    fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }
}

fn receive(mut stream: &TcpStream, requests: &AtomicU64) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::with_capacity(64 * 1024, stream);
    let mut line = String::new();
    loop {
        let mut length = 0;
        loop {
            line.clear();
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
            let (name, value) = line.split_once(':').unwrap_or_default();
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse().unwrap_or(0);
            }
            if line.trim_end().is_empty() {
                break;
            }
        }
        std::io::copy(&mut reader.by_ref().take(length), &mut std::io::sink())?;
        requests.fetch_add(1, Ordering::Relaxed);
        stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n")?;
    }
}

/// How much an event of a visitor takes: in the tables of the embedded store, and in the memory of a Redis if there is one.
pub(crate) fn size(binary: &str, joins: usize) -> Result<()> {
    println!("| {joins} joins with their claims, two events of visitors each | bytes an event |");
    println!("|---|---|");
    embedded_size(binary, joins)?;
    let redis = Command::new("redis-server").arg("--version").stdout(Stdio::null()).status();
    if redis.is_ok_and(|status| status.success()) {
        redis_size(binary, joins)?;
    } else {
        println!("| Redis | not measured: there is no redis-server |");
    }
    Ok(())
}

/// Every event of visitors is kept, with nobody who reads them.
fn configuration_that_keeps_events() -> String {
    format!("{CONFIGURATION}visitor_events = \"always\"\n")
}

fn join_and_claim(server: &Anteroom, joins: usize) -> Result<()> {
    let join = Requests::post("/join", r#"{"room":"Hall"}"#);
    load::run_each(server.public(), CONNECTIONS[0], std::iter::repeat_n(join, joins))?;
    Ok(())
}

fn embedded_size(binary: &str, joins: usize) -> Result<()> {
    let mut server = Anteroom::with_configuration(binary, &configuration_that_keeps_events())?;
    join_and_claim(&server, joins)?;
    server.stop()?;
    let file = server.data_directory().join(anteroom_store::embedded::FILE_NAME);
    let table = ReadOnlyDatabase::open(file)?.begin_read()?.open_table(VISITOR_EVENTS)?;
    let (events, stats) = (table.len()?, table.stats()?);
    ensure!(events == 2 * joins as u64, "{events} events of {joins} joins");
    let pages = stats.stored_bytes() + stats.metadata_bytes() + stats.fragmented_bytes();
    let of_each = |bytes: u64| bytes as f64 / events as f64;
    println!("| embedded store, number and event | {:.0} |", of_each(stats.stored_bytes()));
    println!("| embedded store, pages of the table | {:.0} |", of_each(pages));
    Ok(())
}

fn redis_size(binary: &str, joins: usize) -> Result<()> {
    let redis = RedisProcess::start();
    let server = Anteroom::with_configuration_on(binary, &redis.url(), &configuration_that_keeps_events())?;
    join_and_claim(&server, joins)?;
    // Events are in the room's own stream until somebody reads the outbox.
    let answer = server.operator().get("/events?follow=false&after=0")?;
    ensure!(answer.status == 200, "status {}", answer.status);
    let keys = redis.command(&["KEYS", VISITOR_EVENTS_PATTERN]);
    let [key] = keys.array() else { anyhow::bail!("not one stream of events: {keys:?}") };
    let key = key.text();
    let events = redis.command(&["XLEN", &key]).integer();
    ensure!(events == 2 * i64::try_from(joins)?, "{events} events of {joins} joins");
    let bytes = redis.command(&["MEMORY", "USAGE", &key, "SAMPLES", "0"]).integer();
    println!("| Redis, `MEMORY USAGE` of the stream | {:.0} |", bytes as f64 / events as f64);
    Ok(())
}
