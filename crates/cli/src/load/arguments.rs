//! The command line of `anteroom load`, and the plan that comes out of it: checked, and scaled in time.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::failure::{Exit, Failure};
use crate::output::Format;
use anteroom_tokens::random;
use clap::ValueEnum;
use hyper::Uri;

use super::rate::Rate;

/// What `--help` ends with.
const EXAMPLES: &str = "\
Examples:
  anteroom load --clients 500 --arrivals 100/s --let-out 6000/min --poll 1
  anteroom load --scenario native --clients 300 --let-out 6000/min --html report.html
  anteroom load --scenario watch --room Try --create-room --clients 300 --let-out 6000/min
  anteroom load --scenario auction --room Bids --create-room --clients 100 --let-out 30/s

Exit codes: 0 all is green; 1 a check is red, or the deadline came; others as everywhere.
docs/load.md explains the checks and the report.";
/// The most visitors of one run.
const CLIENTS_MAX: u64 = 5_000_000;
/// The most sockets the visitors share unless told otherwise.
const CONNECTIONS_DEFAULT_MAX: u64 = 2_048;
/// Open files kept for everything that is not a visitor's socket: reports, the operator's connection, the runtime.
const FILES_RESERVED: u64 = 128;

/// Send visitors in numbers, and check that the line is kept
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Where visitors call
    #[arg(long, value_name = "URL", env = "ANTEROOM_PUBLIC_URL", hide_env_values = true)]
    #[arg(default_value = "http://127.0.0.1:8080")]
    pub(super) public: String,
    /// Where the operator calls, with the key in `ANTEROOM_ADMIN_KEY`; only used with --let-out and --create-room
    #[arg(long, value_name = "URL", env = "ANTEROOM_URL", hide_env_values = true)]
    #[arg(default_value = "http://127.0.0.1:8081")]
    pub(super) private: String,
    /// A file with the operator's key, in place of the variable `ANTEROOM_ADMIN_KEY`
    #[arg(long, value_name = "FILE")]
    pub(super) key_file: Option<PathBuf>,
    /// Certificates (PEM) to trust beside the system's
    #[arg(long, value_name = "FILE")]
    pub(super) ca_file: Option<PathBuf>,
    /// The room (AWS: the event)
    #[arg(long, value_name = "ID", default_value = "Sample")]
    pub(super) room: String,
    /// Create the room first, with a line that is moved by hand or with an auction, if it is not there yet
    #[arg(long)]
    pub(super) create_room: bool,
    /// What a visitor does
    #[arg(long, value_enum, default_value_t = Scenario::Aws)]
    pub(super) scenario: Scenario,
    /// How many visitors come
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=CLIENTS_MAX))]
    pub(super) clients: u64,
    /// How fast they come, whatever the answers: 500/s, 30000/min
    #[arg(long, value_name = "RATE", default_value = "100/s")]
    pub(super) arrivals: Rate,
    /// Move the line by hand at this rate: 1000/min [default: somebody else moves it]; in an auction, end visits at this rate
    #[arg(long, value_name = "RATE")]
    pub(super) let_out: Option<Rate>,
    /// Let the world run X times as fast: rates times X, pauses divided by X
    #[arg(long, value_name = "X", default_value_t = 1.0, value_parser = time_scale)]
    pub(super) time_scale: f64,
    /// Pause between two looks at the line, before scaling; each is made up to a fifth longer or shorter
    #[arg(long, value_name = "SECONDS", default_value_t = 3.0, value_parser = seconds)]
    pub(super) poll: f64,
    /// Share of looks that also ask how many wait (aws)
    #[arg(long, value_name = "0..1", default_value_t = 0.1, value_parser = share)]
    pub(super) waiting_num_share: f64,
    /// Share of visitors who give up waiting after one to five looks
    #[arg(long, value_name = "0..1", default_value_t = 0.0, value_parser = share)]
    pub(super) leave_share: f64,
    /// Share of visitors who try to get in before their turn; nobody may succeed
    #[arg(long, value_name = "0..1", default_value_t = 0.05, value_parser = share)]
    pub(super) early_share: f64,
    /// Share of visitors who ask for their place and their pass twice; both answers must be the same
    #[arg(long, value_name = "0..1", default_value_t = 0.05, value_parser = share)]
    pub(super) again_share: f64,
    /// Share of check-ins that are missed, because the visitor is absent (auction)
    #[arg(long, value_name = "0..1", default_value_t = 0.1, value_parser = share)]
    pub(super) absent_share: f64,
    /// Slots of an auction that --create-room makes
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=CLIENTS_MAX))]
    pub(super) slots: u64,
    /// How old a figure may be that visitors are told: a cache in between, several nodes
    #[arg(long, value_name = "SECONDS", default_value_t = 0.0, value_parser = seconds)]
    pub(super) figures_lag: f64,
    /// Repeat the choices of an earlier run [default: random]
    #[arg(long, value_name = "N")]
    pub(super) seed: Option<u64>,
    /// End the run after so many seconds, and fail
    #[arg(long, value_name = "SECONDS", default_value_t = 900, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(super) deadline: u64,
    /// The most sockets that visitors share [default: the number of clients, at most 2048; less where the file limit is low]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub(super) connections: Option<u64>,
    /// Write the whole report as JSON
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
    /// Write the report as one page for a browser
    #[arg(long, value_name = "FILE")]
    pub(super) html: Option<PathBuf>,
    /// No progress on standard error
    #[arg(long)]
    pub(super) quiet: bool,
    /// What is printed at the end: text for people, json for programs (the report without its series)
    #[arg(long, value_name = "FORMAT", value_enum, default_value = "text", hide_possible_values = true)]
    pub(super) format: Format,
    /// I may put load on this target although it is not this machine
    #[arg(long)]
    pub(super) target_is_mine: bool,
}

/// What a visitor does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Scenario {
    /// The five steps of the AWS waiting room: `assign_queue_num`, `queue_num`, `serving_num`, sometimes `waiting_num`, `generate_token`
    Aws,
    /// The native API: POST /join, GET /status when told to, POST /claim
    Native,
    /// POST /join, follow the live stream /watch over a connection of one's own, POST /claim
    Watch,
    /// POST /auction for a place, then for each round until it is won, holding the connection
    Auction,
}

impl Scenario {
    /// As it is written on the command line.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Aws => "aws",
            Self::Native => "native",
            Self::Watch => "watch",
            Self::Auction => "auction",
        }
    }
}

/// What will be done, with every rate and pause as the clock sees it.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) scenario: Scenario,
    pub(super) room: String,
    pub(super) clients: u64,
    pub(super) arrivals: Rate,
    pub(super) let_out: Option<Rate>,
    pub(super) time_scale: f64,
    pub(super) poll: Duration,
    pub(super) waiting_num_share: f64,
    pub(super) leave_share: f64,
    pub(super) early_share: f64,
    pub(super) again_share: f64,
    pub(super) absent_share: f64,
    pub(super) slots: u64,
    pub(super) figures_lag: Duration,
    pub(super) seed: u64,
    pub(super) deadline: Duration,
    pub(super) connections: u64,
    /// Whether the server's clock is this machine's.
    pub(super) same_clock: bool,
    /// Sets this run's Idempotency-Keys apart from those of any other.
    pub(super) run_id: String,
}

impl Arguments {
    /// Looks at the options together. `file_limit` is how many files this process may have open.
    pub(super) fn plan(&self, file_limit: u64) -> Result<Plan, Failure> {
        self.check_targets()?;
        let connections = self.connections_within(file_limit)?;
        Ok(Plan {
            scenario: self.scenario,
            room: self.room.clone(),
            clients: self.clients,
            arrivals: self.arrivals.scaled(self.time_scale),
            let_out: self.let_out.map(|rate| rate.scaled(self.time_scale)),
            time_scale: self.time_scale,
            poll: Duration::from_secs_f64(self.poll / self.time_scale),
            waiting_num_share: self.waiting_num_share,
            leave_share: self.leave_share,
            early_share: self.early_share,
            again_share: self.again_share,
            absent_share: self.absent_share,
            slots: self.slots,
            figures_lag: Duration::from_secs_f64(self.figures_lag),
            seed: self.seed.unwrap_or_else(|| u64::from(u32::from_le_bytes(random::bytes()))),
            deadline: Duration::from_secs(self.deadline),
            connections,
            same_clock: is_loopback(&self.public),
            run_id: random::text(12),
        })
    }

    /// Whether anything is asked of the private listener.
    pub(super) fn needs_operator(&self) -> bool {
        self.let_out.is_some() || self.create_room
    }

    fn check_targets(&self) -> Result<(), Failure> {
        let private = self.needs_operator().then_some(&self.private);
        let stranger = [Some(&self.public), private].into_iter().flatten().find(|url| !is_loopback(url));
        match stranger {
            Some(url) if !self.target_is_mine => {
                Err(Failure::new(Exit::CommandLine, format!("{url} is not this machine")).hint(
                    "load on other people's servers is an attack; if this one is yours, say --target-is-mine",
                ))
            }
            _ => Ok(()),
        }
    }

    /// How many sockets visitors share. Followers of the live stream have one each beside these.
    fn connections_within(&self, file_limit: u64) -> Result<u64, Failure> {
        let streams = if self.scenario == Scenario::Watch { self.clients } else { 0 };
        // A socket can be in the making while another becomes free, so there may be twice as many for a moment.
        let room_for = file_limit.saturating_sub(FILES_RESERVED + streams) / 2;
        // A visitor who waits for the end of a round holds a socket.
        let most = if self.scenario == Scenario::Auction { self.clients } else { CONNECTIONS_DEFAULT_MAX };
        let wanted = self.connections.unwrap_or_else(|| self.clients.min(most).min(room_for));
        if wanted == 0 || wanted > room_for {
            let what = format!(
                "{streams} live streams and {} shared sockets are more than {file_limit} open files allow",
                wanted.max(1)
            );
            return Err(Failure::new(Exit::CommandLine, what)
                .hint("fewer --clients or --connections, or a higher limit: `ulimit -n`"));
        }
        Ok(wanted)
    }
}

/// Whether a URL surely leads to this machine. A name other than `localhost` could lead anywhere.
fn is_loopback(url: &str) -> bool {
    let host = url.parse::<Uri>().ok().and_then(|uri| uri.host().map(str::to_owned));
    let Some(host) = host else { return false };
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
}

fn share(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| "a share is a number from 0 to 1".to_owned())?;
    if (0.0..=1.0).contains(&value) { Ok(value) } else { Err("a share is a number from 0 to 1".to_owned()) }
}

fn seconds(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| "not a number of seconds".to_owned())?;
    if (0.0..=3600.0).contains(&value) { Ok(value) } else { Err("seconds from 0 to 3600".to_owned()) }
}

fn time_scale(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if (0.01..=1000.0).contains(&value) { Ok(value) } else { Err("from 0.01 to 1000".to_owned()) }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn parse(line: &str) -> Result<Arguments, clap::Error> {
        // The environment of the tests may name other servers.
        let public = if line.contains("--public") { "" } else { "--public http://127.0.0.1:8080" };
        let private = if line.contains("--private") { "" } else { "--private http://127.0.0.1:8081" };
        let words = ["load", public, private, line].into_iter().flat_map(str::split_whitespace);
        Line::try_parse_from(words).map(|line| line.arguments)
    }

    #[track_caller]
    fn plan_error(line: &str) -> Failure {
        let failure = parse(line).unwrap().plan(20_000).unwrap_err();
        assert_eq!(failure.exit(), Exit::CommandLine);
        failure
    }

    #[test]
    fn rates_and_pauses_are_scaled_in_time() {
        let line = "--clients 10000 --arrivals 500/s --let-out 1000/min --time-scale 10 --poll 30 --seed 7";
        let plan = parse(line).unwrap().plan(20_000).unwrap();
        assert_eq!(
            (plan.arrivals.to_string(), plan.let_out.unwrap().to_string()),
            ("5,000/s".into(), "10,000/min".into())
        );
        assert_eq!(
            (plan.poll, plan.seed, plan.connections),
            (Duration::from_secs(3), 7, CONNECTIONS_DEFAULT_MAX)
        );
    }

    #[test]
    fn only_this_machine_is_a_target_unless_said_otherwise() {
        for url in ["http://127.0.0.1:8080", "http://127.9.9.9", "http://localhost:1", "http://[::1]:8080"] {
            parse(&format!("--public {url}")).unwrap().plan(20_000).unwrap();
        }
        for url in
            ["http://192.0.2.1", "https://line.example.com", "http://localhost.example.com", "nonsense"]
        {
            let error = plan_error(&format!("--public {url}"));
            assert_eq!(error.to_string(), format!("{url} is not this machine"));
            parse(&format!("--public {url} --target-is-mine")).unwrap().plan(20_000).unwrap();
        }
        let other = "--private http://192.0.2.1:8081";
        parse(other).unwrap().plan(20_000).unwrap();
        assert!(plan_error(&format!("{other} --let-out 1/s")).to_string().contains("192.0.2.1"));
    }

    #[test]
    fn sockets_stay_within_the_file_limit() {
        assert_eq!(parse("--clients 100").unwrap().plan(20_000).unwrap().connections, 100);
        assert_eq!(parse("--clients 9999").unwrap().plan(1_024).unwrap().connections, 448);
        assert!(plan_error("--connections 19000").to_string().contains("19000 shared sockets"));
        assert_eq!(parse("--scenario watch --clients 19000").unwrap().plan(20_000).unwrap().connections, 436);
        assert!(plan_error("--scenario watch --clients 20000").to_string().contains("20000 live streams"));
    }

    #[test]
    fn values_out_of_range_are_refused_by_the_parser() {
        for line in [
            "--clients 0",
            "--clients many",
            "--arrivals 500",
            "--let-out 0/s",
            "--time-scale 0",
            "--poll -1",
            "--poll=NaN",
            "--leave-share 1.5",
            "--scenario raffle",
            "--absent-share 2",
            "--deadline 0",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
