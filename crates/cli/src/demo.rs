//! `anteroom demo`: a shop that more people want to visit than it has places, Anteroom before it, and the user who opens it in a
//! browser among them. Everything is on this machine and in a temporary directory, and goes away with Ctrl-C.
//!
//! [`shop`] is the site that is protected, [`visitors`] are the people who want in, [`figures`] what the server says about
//! them, [`screen`] what is printed. The server itself is the one that `serve` runs.

mod figures;
mod screen;
mod shop;
mod visitors;

use std::ffi::OsString;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use anteroom_server::Addresses;
use anteroom_server::config::{Config, DEFAULT_FILE_NAME};
use anyhow::Context;
use secrecy::SecretString;
use tokio::sync::watch;

use crate::failure::{Exit, Failure};
use crate::http_client::{ClientOptions, HttpClient};
use crate::output::talk;
use crate::serve::{self, Hangup, Stop};

use figures::Figures;
use screen::{FirstScreen, Screen};
use shop::Shop;

/// The room before the shop.
const ROOM: &str = "shop";
/// The room of a site that is not behind the gateway, and sends its visitors over to wait.
const ROOM_OF_OTHER_HOST: &str = "Premiere";
const ADMIN_KEY: &str = "demo-key-not-a-secret";
/// Where the listeners are: what the environment says under this name, else at this port if it is free.
const ADDRESSES: [(&str, u16); 2] = [("ANTEROOM_PUBLIC_ADDR", 8080), ("ANTEROOM_PRIVATE_ADDR", 8081)];
/// The most simulated visitors: they share the machine with the server.
const VISITORS_MAX: u64 = 20_000;
/// The fewest places the shop has. With one, already the second who comes waits: two browsers are enough to see a line.
const CAPACITY_MIN: u64 = 1;
/// How long an idle visitor stays in, in seconds: long enough to read a page, short enough to see it happen.
const SESSION_SECONDS: u64 = 120;
/// How long a pass claimed over the API is good for, in seconds.
const PASS_SECONDS: u64 = 300;
/// How often those are let in who wait for the site on another host, and how many at a time: often enough not to bore one who is alone there.
const OTHER_HOST_STEP_SECONDS: u64 = 10;
const OTHER_HOST_STEP_PEOPLE: u64 = 20;
/// How long requests under way may take once the demo is told to end, in seconds.
const DRAIN_SECONDS: u64 = 5;

/// Try it: a sample shop, simulated visitors and a line, on this machine, until Ctrl-C
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  anteroom demo\n  anteroom demo --visitors 1000\n  anteroom demo --visitors 0 --api"
)]
pub(crate) struct Arguments {
    // Wider than any number that makes sense, so that those that do not are refused in our words, with a hint.
    /// How many simulated visitors want to get in, at most 20000; 0 for none
    #[arg(long, value_name = "N", default_value_t = 120, allow_negative_numbers = true)]
    visitors: i128,
    /// Also print calls of the API, to be pasted into another terminal
    #[arg(long)]
    api: bool,
}

/// How large the demo is.
#[derive(Debug, Clone, Copy)]
struct Plan {
    visitors: u64,
    capacity: u64,
}

impl Plan {
    fn of(arguments: &Arguments) -> Result<Self, Failure> {
        let visitors = u64::try_from(arguments.visitors).ok().filter(|visitors| *visitors <= VISITORS_MAX);
        let visitors = visitors.ok_or_else(|| {
            let what = format!("--visitors {}: the demo has 0 to {VISITORS_MAX}", arguments.visitors);
            let hint =
                "they share this machine with the server; 120 make a line, and `anteroom load` sends more";
            Failure::new(Exit::CommandLine, what).hint(hint)
        })?;
        Ok(Self { visitors, capacity: visitors::capacity_for(visitors).max(CAPACITY_MIN) })
    }

    /// How long a newcomer is to wait; zero where there is hardly a line.
    const fn wait_seconds(self) -> u64 {
        visitors::wait_seconds(self.visitors, self.capacity)
    }
}

/// Runs until Ctrl-C; the directory goes away with it.
pub(crate) fn demo(arguments: &Arguments) -> anyhow::Result<()> {
    let plan = Plan::of(arguments)?;
    let directory = tempfile::Builder::new().prefix("anteroom-demo-").tempdir()?;
    let shop = Shop::open()?;
    std::fs::write(directory.path().join(DEFAULT_FILE_NAME), rooms(plan, &shop))?;
    let (public, private) = (Address::choose(ADDRESSES[0])?, Address::choose(ADDRESSES[1])?);
    let taken = [public.taken, private.taken, shop.taken_port()].into_iter().flatten().collect();
    let environment = [
        (public.variable, public.text),
        (private.variable, private.text),
        ("ANTEROOM_STORE_URL", format!("file:{}", directory.path().display())),
        ("ANTEROOM_ADMIN_KEY", ADMIN_KEY.to_owned()),
        ("ANTEROOM_METRICS_OPEN", "true".to_owned()),
        // The own alarms tell of every few calls that are refused; in a demo refusals are expected.
        ("ANTEROOM_LOG", "warn,anteroom_server::alarms=error".to_owned()),
        ("ANTEROOM_DRAIN_TIMEOUT_SECONDS", DRAIN_SECONDS.to_string()),
    ];
    let environment = environment.map(|(name, value)| (OsString::from(name), OsString::from(value)));
    let loaded = Config::load(None, directory.path(), environment)?;
    let screen = Arc::new(Screen::new());
    let simulation = Mutex::new(None);
    let ready = |addresses: &Addresses, _| {
        shop.accept_passes_of(addresses);
        Screen::introduce(&FirstScreen { addresses, shop: shop.address(), taken, plan, api: arguments.api });
        match Simulation::start(plan.visitors, addresses, Arc::clone(&screen)) {
            Ok(gathered) => *simulation.lock().unwrap_or_else(PoisonError::into_inner) = Some(gathered),
            Err(error) => talk(&format!("nobody comes: {error:#}")),
        }
    };
    let stopping = |stop| {
        screen.close();
        if let Some(simulation) = simulation.lock().unwrap_or_else(PoisonError::into_inner).as_ref() {
            simulation.stop();
        }
        if stop == Stop::AtOnce {
            // The process ends immediately, so nothing would drop the directory any more.
            let _ = std::fs::remove_dir_all(directory.path());
        }
    };
    let outcome = serve::run(loaded, Hangup::Ends, ready, stopping);
    let last = simulation.into_inner().unwrap_or_else(PoisonError::into_inner).and_then(Simulation::end);
    let most_inside = shop.close();
    directory.close().context("the demo's directory is still there")?;
    if outcome.is_ok() {
        screen.conclude(last.as_ref(), most_inside);
    }
    outcome
}

/// The room before the shop; one for a site on another host, whose line moves by itself a few times a minute; and one whose line moves by
/// hand, for the API.
fn rooms(plan: Plan, shop: &Shop) -> String {
    let (address, capacity) = (shop.address(), plan.capacity);
    format!(
        "[[room]]\nid = \"{ROOM}\"\norigins = [\"http://{address}\"]\njoin = \"open\"\ninlet = \"max-size\"\n\
         total_active_users = {capacity}\nsession_duration = {SESSION_SECONDS}\nvalidity_period = {PASS_SECONDS}\n\
         page_heading = \"The Sample Theatre\"\n\
         [[room]]\nid = \"{ROOM_OF_OTHER_HOST}\"\ninlet = \"window\"\nwindow_size = {OTHER_HOST_STEP_PEOPLE}\n\
         interval_seconds = {OTHER_HOST_STEP_SECONDS}\nvalidity_period = {PASS_SECONDS}\n\
         return_addresses = [\"{}\"]\npage_heading = \"The Premiere\"\n\
         [[room]]\nid = \"Sample\"\n",
        shop::premiere_url(address)
    )
}

/// Where a listener is to be.
struct Address {
    variable: &'static str,
    text: String,
    /// The usual port, if another process has it.
    taken: Option<u16>,
}

impl Address {
    /// What the environment says, else the usual port if it is free, else any other. Nothing but this machine: the demo's key is known
    /// to everybody.
    fn choose((variable, port): (&'static str, u16)) -> Result<Self, Failure> {
        let Some(given) = std::env::var_os(variable) else {
            let is_free = TcpListener::bind(("127.0.0.1", port)).is_ok();
            let text = format!("127.0.0.1:{}", if is_free { port } else { 0 });
            return Ok(Self { variable, text, taken: (!is_free).then_some(port) });
        };
        let text = given.to_string_lossy().into_owned();
        match text.parse::<SocketAddr>() {
            Ok(address) if address.ip().is_loopback() => Ok(Self { variable, text, taken: None }),
            _ => {
                let what = format!("{variable}={text}: the demo listens on this machine only");
                Err(Failure::new(Exit::CommandLine, what)
                    .hint("unset it, or name an address such as 127.0.0.1:9000; port 0 takes a free one"))
            }
        }
    }
}

/// A client of one of the listeners, with a key where it needs one.
fn client(url: &str, key: Option<&str>, connections: usize) -> anyhow::Result<HttpClient> {
    let mut options = ClientOptions::new(url);
    options.key = key.map(SecretString::from);
    options.idle_connections_max = connections;
    Ok(HttpClient::new(&options)?)
}

/// The simulated visitors, and the reader of the figures once a second: on a thread of their own, so that they disturb the server as
/// little as the machine lets them.
struct Simulation {
    stop: watch::Sender<bool>,
    thread: JoinHandle<Option<Figures>>,
}

impl Simulation {
    fn start(visitors: u64, addresses: &Addresses, screen: Arc<Screen>) -> anyhow::Result<Self> {
        let (stop, mut stopped) = watch::channel(false);
        let crowd = visitors::Crowd::new(visitors, &addresses.public)?;
        let private = client(&addresses.private, Some(ADMIN_KEY), 1)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let thread = std::thread::Builder::new().name("visitors".into()).spawn(move || {
            let last = runtime.block_on(async {
                let mut last = None;
                tokio::select! {
                    never = crowd.run() => match never {},
                    never = figures::follow(&private, &mut last, |figures| screen.show(figures)) => match never {},
                    // Nobody may be left to say it, which says it too.
                    _ = stopped.wait_for(|stopped| *stopped) => {}
                }
                last
            });
            runtime.shutdown_background();
            last
        })?;
        Ok(Self { stop, thread })
    }

    fn stop(&self) {
        self.stop.send_replace(true);
    }

    /// The figures that were seen last.
    fn end(self) -> Option<Figures> {
        self.stop();
        self.thread.join().ok().flatten()
    }
}
