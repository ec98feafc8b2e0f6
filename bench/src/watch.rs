//! Live streams: resident memory of each, and how long a change takes until the last client has it, against the bare loop.
//!
//! The client is this process, the servers are processes of their own; all share the cores. Clients' work counts: the last one has a
//! change when it has read it.

use std::cell::{Cell, RefCell};
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::{Notify, Semaphore};

use crate::fan_out::{PLACEHOLDER, change_text, marker};
use crate::figures::median;
use crate::load::block_on;
use crate::memory::resident_kb;
use crate::servers::Anteroom;

/// Connections being made at once.
const CONNECTING_MAX: usize = 64;
/// Longer than the server's interval between two pushes, so that each change goes out at once.
const PAUSE: Duration = Duration::from_millis(1_300);
/// How long anything may take.
const DEADLINE: Duration = Duration::from_mins(2);
/// Streams opened and closed before memory is looked at, so that what every server has once is there.
const WARM_UP: usize = 200;

/// Prints what so many streams cost and how long so many changes take.
pub(crate) fn hold(binary: &str, streams: usize, changes: u64) -> Result<()> {
    let (memory, ours, event, polls) = block_on(hold_ours(binary, streams, changes))?;
    let theirs = block_on(hold_bare_loop(&event, streams, changes))?;
    println!("| resident memory of the server | |");
    println!("|---|---|");
    println!("| before, after {WARM_UP} streams came and went | {} kB |", memory.before);
    println!("| with {streams} streams held | {} kB |", memory.held);
    println!("| after {changes} changes | {} kB |", memory.end);
    let each = (memory.held.max(memory.end) as f64 - memory.before as f64) * 1024.0 / streams as f64;
    println!("| each (gate: 2048 bytes) | **{each:.0} bytes** |\n");
    println!("| milliseconds until a change is there | first client | last client: median | best | worst |");
    println!("|---|---|---|---|---|");
    let (ours_last, theirs_last) =
        (ours.row("Anteroom, from the operator's call on"), theirs.row("bare loop of writes"));
    println!(
        "\nratio of the medians: **{:.2}**. An event has {} bytes.\n",
        ours_last / theirs_last,
        event.len()
    );
    println!(
        "| `serving_num` asked in turn by one client, milliseconds | median | 99th percentile | worst |"
    );
    println!("|---|---|---|---|");
    polls.print();
    Ok(())
}

/// Kilobytes.
struct Memory {
    before: u64,
    held: u64,
    end: u64,
}

/// Milliseconds, one figure for each change.
#[derive(Default)]
struct Arrivals {
    first: Vec<f64>,
    last: Vec<f64>,
}

impl Arrivals {
    fn row(&self, name: &str) -> f64 {
        let best = self.last.iter().copied().fold(f64::INFINITY, f64::min);
        let worst = self.last.iter().copied().fold(0.0, f64::max);
        println!(
            "| {name} | {:.0} | **{:.0}** | {best:.0} | {worst:.0} |",
            median(&self.first),
            median(&self.last)
        );
        median(&self.last)
    }
}

async fn hold_ours(binary: &str, streams: usize, changes: u64) -> Result<(Memory, Arrivals, String, Polls)> {
    let anteroom = Anteroom::start(binary, None)?;
    drop(Clients::open(anteroom.public(), WARM_UP).await?);
    tokio::time::sleep(PAUSE).await;
    let before = resident_kb(anteroom.process_id())?;
    let clients = Clients::open(anteroom.public(), streams).await?;
    let event = clients.first_event()?;
    tokio::time::sleep(PAUSE).await;
    let held = resident_kb(anteroom.process_id())?;
    let poller = Poller::start(anteroom.public());
    tokio::time::sleep(PAUSE).await;
    let anteroom = Arc::new(anteroom);
    let mut arrivals = Arrivals::default();
    for change in 1..=changes {
        poller.in_push.store(true, Ordering::Relaxed);
        let operator = Arc::clone(&anteroom);
        clients
            .measure(change, &mut arrivals, move || {
                tokio::task::spawn_blocking(move || operator.advance(1));
                Ok(())
            })
            .await?;
        poller.in_push.store(false, Ordering::Relaxed);
        tokio::time::sleep(PAUSE).await;
    }
    let polls = poller.stop()?;
    let end = resident_kb(anteroom.process_id())?;
    Ok((Memory { before, held, end }, arrivals, event, polls))
}

async fn hold_bare_loop(event: &str, streams: usize, changes: u64) -> Result<Arrivals> {
    let mut bare = BareLoop::start(event, streams)?;
    let clients = Clients::open(bare.address, streams).await?;
    let mut arrivals = Arrivals::default();
    for change in 1..=changes {
        tokio::time::sleep(PAUSE).await;
        clients.measure(change, &mut arrivals, || Ok(writeln!(bare.lines, "{change}")?)).await?;
    }
    Ok(arrivals)
}

/// Clients that read what comes and look for the text of the present change.
struct Clients {
    seen: Rc<ChangeReceipts>,
    tasks: tokio::task::JoinSet<Result<()>>,
    count: usize,
}

/// What all clients have seen of the present change.
#[derive(Default)]
struct ChangeReceipts {
    change: Cell<u64>,
    first: Cell<Option<Instant>>,
    count: Cell<usize>,
    all: Notify,
    greeting: RefCell<String>,
}

impl ChangeReceipts {
    fn record_client(&self, of: usize) {
        if self.first.get().is_none() {
            self.first.set(Some(Instant::now()));
        }
        self.count.set(self.count.get() + 1);
        if self.count.get() == of {
            self.all.notify_one();
        }
    }
}

impl Clients {
    /// Opens streams and waits until each has been shown the board.
    async fn open(address: SocketAddr, count: usize) -> Result<Self> {
        let seen = Rc::new(ChangeReceipts::default());
        let connecting = Rc::new(Semaphore::new(CONNECTING_MAX));
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..count {
            let (seen, connecting) = (Rc::clone(&seen), Rc::clone(&connecting));
            tasks.spawn_local(async move {
                let permit = connecting.acquire().await?;
                let mut stream = TcpStream::connect(address).await?;
                stream.write_all(b"GET /watch?room=Sample HTTP/1.1\r\nhost: bench\r\n\r\n").await?;
                let mut text = String::new();
                read_until(&mut stream, &mut text, PLACEHOLDER).await?;
                seen.greeting.replace(std::mem::take(&mut text));
                drop(permit);
                seen.record_client(count);
                for change in 1.. {
                    read_until(&mut stream, &mut text, &marker(change)).await?;
                    text = String::new();
                    ensure!(seen.change.get() == change, "a change that was not made");
                    seen.record_client(count);
                }
                Ok(())
            });
        }
        let mut clients = Self { seen, tasks, count };
        clients.wait_for_all_clients().await?;
        Ok(clients)
    }

    /// The event they were greeted with.
    fn first_event(&self) -> Result<String> {
        let greeting = self.seen.greeting.borrow();
        let start = greeting.find("event: board").context("no board in the greeting")?;
        let event = greeting[start..].to_owned();
        ensure!(event.ends_with("}\n\n") && change_text(&event, 1) != event, "half an event: {event}");
        Ok(event)
    }

    async fn measure(
        &self,
        change: u64,
        arrivals: &mut Arrivals,
        make: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        self.seen.count.set(0);
        self.seen.first.set(None);
        self.seen.change.set(change);
        let started = Instant::now();
        make()?;
        tokio::time::timeout(DEADLINE, self.seen.all.notified()).await.with_context(|| {
            format!("only {} of {} have change {change}", self.seen.count.get(), self.count)
        })?;
        let first = self.seen.first.get().context("nobody was first")?;
        arrivals.first.push((first - started).as_secs_f64() * 1_000.0);
        arrivals.last.push(started.elapsed().as_secs_f64() * 1_000.0);
        Ok(())
    }

    async fn wait_for_all_clients(&mut self) -> Result<()> {
        tokio::select! {
            waited = tokio::time::timeout(DEADLINE, self.seen.all.notified()) => waited.context("not all are greeted"),
            Some(ended) = self.tasks.join_next() => ended?.and_then(|()| anyhow::bail!("a stream has ended")),
        }
    }
}

/// Reads on until a text has come, and then what has come with it.
async fn read_until(stream: &mut TcpStream, text: &mut String, wanted: &str) -> Result<()> {
    // On the stack of the task only while it reads, so that 15,000 waiting clients are small.
    while !(text.contains(wanted) && text.ends_with("\n\n")) {
        stream.readable().await?;
        let mut buffer = [0; 2_048];
        match stream.try_read(&mut buffer) {
            Ok(0) => anyhow::bail!("closed after {text:?}"),
            Ok(count) => text.push_str(std::str::from_utf8(&buffer[..count])?),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// The bare loop as a process.
struct BareLoop {
    child: Child,
    lines: ChildStdin,
    address: SocketAddr,
}

impl BareLoop {
    fn start(event: &str, streams: usize) -> Result<Self> {
        let path = std::env::temp_dir().join(format!("anteroom-bench-event-{}", std::process::id()));
        std::fs::write(&path, event)?;
        let mut child = Command::new(std::env::current_exe()?)
            .arg("fan-out")
            .arg(&path)
            .arg(streams.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("the bare loop does not start")?;
        let lines = child.stdin.take().context("no stdin")?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("no stdout")?).read_line(&mut line)?;
        std::fs::remove_file(&path)?;
        let address = line.trim().rsplit(' ').next().unwrap_or_default().parse()?;
        Ok(Self { child, lines, address })
    }
}

impl Drop for BareLoop {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One client that asks again and again while streams are held.
struct Poller {
    thread: JoinHandle<Result<()>>,
    over: Arc<AtomicBool>,
    in_push: Arc<AtomicBool>,
    polls: Arc<Mutex<Polls>>,
}

/// Milliseconds of each answer.
#[derive(Default)]
struct Polls {
    quiet: Vec<f64>,
    in_push: Vec<f64>,
}

impl Poller {
    fn start(address: SocketAddr) -> Self {
        let (over, in_push) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
        let polls = Arc::<Mutex<Polls>>::default();
        let shared = (Arc::clone(&over), Arc::clone(&in_push), Arc::clone(&polls));
        let thread = std::thread::spawn(move || poll(address, &shared.0, &shared.1, &shared.2));
        Self { thread, over, in_push, polls }
    }

    fn stop(self) -> Result<Polls> {
        self.over.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| anyhow::anyhow!("the poller panicked"))??;
        Ok(std::mem::take(&mut *self.polls.lock().map_err(|_| anyhow::anyhow!("the poller panicked"))?))
    }
}

fn poll(address: SocketAddr, over: &AtomicBool, in_push: &AtomicBool, polls: &Mutex<Polls>) -> Result<()> {
    let mut stream = std::net::TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    let mut buffer = [0; 1_024];
    while !over.load(Ordering::Relaxed) {
        let pushing = in_push.load(Ordering::Relaxed);
        let started = Instant::now();
        stream.write_all(b"GET /serving_num?event_id=Sample HTTP/1.1\r\nhost: bench\r\n\r\n")?;
        ensure!(std::io::Read::read(&mut stream, &mut buffer)? > 0, "closed");
        let millis = started.elapsed().as_secs_f64() * 1_000.0;
        let mut polls = polls.lock().map_err(|_| anyhow::anyhow!("poisoned"))?;
        if pushing {
            polls.in_push.push(millis);
        } else {
            polls.quiet.push(millis);
        }
        drop(polls);
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

impl Polls {
    fn print(&self) {
        for (name, values) in [("while nothing is pushed", &self.quiet), ("during the pushes", &self.in_push)]
        {
            let mut sorted = values.clone();
            sorted.sort_by(f64::total_cmp);
            let at =
                |share: usize| sorted.get((sorted.len() * share / 100).min(sorted.len().saturating_sub(1)));
            let figure = |value: Option<&f64>| value.copied().unwrap_or(f64::NAN);
            let (middle, high, worst) = (figure(at(50)), figure(at(99)), figure(sorted.last()));
            println!("| {name} ({} answers) | {middle:.2} | {high:.2} | {worst:.2} |", sorted.len());
        }
    }
}
