//! One Redis process: started, killed, stopped, paused and started again on the same port in the same directory.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, bail, ensure};

use crate::components::redis_server;
use crate::ports::ReservedPort;
use crate::redis::settings::{Kind, RedisBuilder, Tls};
use crate::redis::wire::{Connection, Reply};
use crate::signal;
use crate::wait::{now, pause, wait_for, wait_until};

/// How long a process may take to answer after its start. Generous, because it may share two cores with a build.
const START_DEADLINE: Duration = Duration::from_mins(1);
/// How long a process may take to end, or to stand still, after a signal.
const SIGNAL_DEADLINE: Duration = Duration::from_mins(1);
/// How often a start is tried on another port, should a stranger have taken the first.
const START_ATTEMPTS: usize = 3;
/// The configuration file in a process's directory.
const CONFIGURATION_FILE: &str = "redis.conf";
/// What a process wrote, in its directory.
const LOG_FILE: &str = "redis.log";

/// A real Redis server. Every method may be called from several threads, so that one can kill what others use.
#[derive(Debug)]
pub struct RedisProcess {
    // The process ends before its directory and its ports are given back.
    running: Mutex<Option<Running>>,
    setup: RedisBuilder,
    port: ReservedPort,
    tls: Option<Tls>,
    directory: tempfile::TempDir,
}

impl RedisProcess {
    /// A server that keeps nothing on disk and asks for no password.
    #[track_caller]
    pub fn start() -> Self {
        Self::builder().start()
    }

    /// A server with other settings.
    pub fn builder() -> RedisBuilder {
        RedisBuilder::new()
    }

    #[track_caller]
    pub(super) fn start_with(setup: &RedisBuilder) -> Self {
        let mut failures = Vec::new();
        for _attempt in 0..START_ATTEMPTS {
            let process = Self::prepare(setup);
            match process.try_start() {
                Ok(()) => return process,
                Err(error) => failures.push(format!("{error:#}")),
            }
        }
        panic!("Redis does not start: {}", failures.join("\n"));
    }

    /// The number of its port.
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// The number of the port where it speaks TLS; a panic unless it was built with [`RedisBuilder::tls`].
    #[track_caller]
    pub fn tls_port(&self) -> u16 {
        self.tls.as_ref().expect("the process was built with TLS").port.number()
    }

    /// The certificate it shows, in PEM, which is also the authority to trust; a panic unless it was built with TLS.
    #[track_caller]
    pub fn certificate_file(&self) -> &Path {
        &self.tls.as_ref().expect("the process was built with TLS").certificate_file
    }

    /// Where a client finds it: `redis://127.0.0.1:PORT`, with the password if it has one, or `rediss://` if it speaks TLS.
    pub fn url(&self) -> String {
        self.url_through(self.tls.as_ref().map_or(self.port(), |tls| tls.port.number()))
    }

    /// The same by way of another port, such as that of a [`ChaosProxy`](crate::ChaosProxy) before it.
    pub fn url_through(&self, port: u16) -> String {
        format!("{}://{}127.0.0.1:{port}", self.scheme(), self.access())
    }

    /// Where a client finds it as a user made by [`RedisBuilder::user`].
    #[track_caller]
    pub fn url_as(&self, user: &str) -> String {
        let user = self.setup.users.iter().find(|known| known.name == user).expect("the user was added");
        let port = self.tls.as_ref().map_or(self.port(), |tls| tls.port.number());
        format!("{}://{}:{}@127.0.0.1:{port}", self.scheme(), user.name, user.password)
    }

    /// Where it keeps its files.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Everything all runs wrote to their log so far.
    pub fn log(&self) -> String {
        fs::read_to_string(self.log_file()).unwrap_or_default()
    }

    /// Whether there is a process, running or paused.
    pub fn is_started(&self) -> bool {
        self.running().is_some()
    }

    /// Whether there is a process and it is not paused.
    pub fn is_running(&self) -> bool {
        self.running().as_ref().is_some_and(|running| !signal::is_stopped(&running.child))
    }

    /// The process id.
    #[track_caller]
    pub fn process_id(&self) -> u32 {
        self.running().as_ref().expect("Redis runs").child.id()
    }

    /// Ends it as a power cut would: SIGKILL, no farewell.
    #[track_caller]
    pub fn kill(&self) {
        drop(self.running().take().expect("Redis runs"));
    }

    /// Asks it to end with SIGTERM and waits until it has; a paused one is resumed for that.
    #[track_caller]
    pub fn stop(&self) {
        let mut running = self.running().take().expect("Redis runs");
        for name in ["TERM", "CONT"] {
            signal::send(&running.child, name).unwrap_or_else(|error| panic!("{error:#}"));
        }
        let ended = || running.child.try_wait().expect("a child can be asked whether it has ended");
        let status = wait_for("Redis has ended", SIGNAL_DEADLINE, ended);
        assert!(status.success(), "Redis did not end well ({status}):\n{}", self.log());
    }

    /// Starts it again after [`kill`](Self::kill) or [`stop`](Self::stop): the same port, the same directory with what it
    /// has kept there, the same configuration. What was changed by a command meanwhile, such as whom it follows, is
    /// forgotten unless `CONFIG REWRITE` wrote it down.
    #[track_caller]
    pub fn start_again(&self) {
        assert!(!self.is_started(), "Redis still runs");
        self.try_start().unwrap_or_else(|error| panic!("Redis does not start again: {error:#}"));
    }

    /// Makes it stand still (SIGSTOP) and returns when it does. Connections stay open and the system goes on to take
    /// bytes for it, so this is a pause and not a partition.
    #[track_caller]
    pub fn pause(&self) {
        let running = self.running();
        let child = &running.as_ref().expect("Redis runs").child;
        signal::send(child, "STOP").unwrap_or_else(|error| panic!("{error:#}"));
        wait_until("Redis stands still", SIGNAL_DEADLINE, || signal::is_stopped(child));
    }

    /// Lets it go on after a pause (SIGCONT).
    #[track_caller]
    pub fn resume(&self) {
        let running = self.running();
        let child = &running.as_ref().expect("Redis runs").child;
        signal::send(child, "CONT").unwrap_or_else(|error| panic!("{error:#}"));
    }

    /// Sends one command over a connection of its own; no answer is a panic, an error is an answer.
    #[track_caller]
    pub fn command(&self, arguments: &[&str]) -> Reply {
        self.try_command(arguments).unwrap_or_else(|error| panic!("{arguments:?}: {error:#}\n{}", self.log()))
    }

    /// Sends one command over a connection of its own; an error means that there was no answer.
    pub fn try_command(&self, arguments: &[&str]) -> anyhow::Result<Reply> {
        self.connect()?.command(arguments)
    }

    /// A connection with all rights.
    pub fn connect(&self) -> anyhow::Result<Connection> {
        let mut connection = Connection::open(self.port())?;
        if let Some(password) = &self.setup.password {
            let reply = connection.command(&["AUTH", password])?;
            ensure!(reply == Reply::Status("OK".to_owned()), "the password was not accepted: {reply:?}");
        }
        Ok(connection)
    }

    /// What stands before the address in a URL.
    pub(super) fn access(&self) -> String {
        self.setup.password.as_ref().map_or_else(String::new, |password| format!(":{password}@"))
    }

    fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "rediss" } else { "redis" }
    }

    fn log_file(&self) -> PathBuf {
        self.directory().join(LOG_FILE)
    }

    fn running(&self) -> MutexGuard<'_, Option<Running>> {
        // A panic in another thread leaves the process as it was, so that it can still be ended.
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[track_caller]
    fn prepare(setup: &RedisBuilder) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory can be made");
        let port = match setup.kind {
            Kind::ClusterNode => ReservedPort::take_with_cluster_bus(),
            Kind::Server | Kind::Sentinel(_) => ReservedPort::take(),
        };
        let tls = setup.has_tls.then(|| Tls::new(directory.path()));
        let configuration = setup.configuration(port.number(), tls.as_ref());
        fs::write(directory.path().join(CONFIGURATION_FILE), configuration).expect("a file can be written");
        Self { running: Mutex::new(None), setup: setup.clone(), port, tls, directory }
    }

    fn try_start(&self) -> anyhow::Result<()> {
        let mut running = self.spawn()?;
        let started = now();
        while !self.answers(running.child.id()) {
            if let Some(status) = running.child.try_wait().context("asking whether Redis has ended")? {
                bail!("it ended at once ({status}):\n{}", self.log());
            }
            ensure!(
                started.elapsed() < START_DEADLINE,
                "no answer within {START_DEADLINE:?}:\n{}",
                self.log()
            );
            pause();
        }
        *self.running() = Some(running);
        Ok(())
    }

    fn spawn(&self) -> anyhow::Result<Running> {
        let log =
            File::options().create(true).append(true).open(self.log_file()).context("opening its log")?;
        let mut command = Command::new(redis_server());
        command.arg(CONFIGURATION_FILE).current_dir(self.directory());
        if matches!(self.setup.kind, Kind::Sentinel(_)) {
            command.arg("--sentinel");
        }
        command.stdin(Stdio::null()).stderr(log.try_clone().context("sharing its log")?).stdout(log);
        Ok(Running { child: command.spawn().context("starting redis-server")? })
    }

    /// Whether this very process answers, and not a stranger that was faster to take the port.
    fn answers(&self, process_id: u32) -> bool {
        let Ok(mut connection) = self.connect() else {
            return false;
        };
        // It says LOADING for as long as it reads back what it had kept.
        if !matches!(connection.command(&["PING"]), Ok(Reply::Status(_))) {
            return false;
        }
        let Ok(Reply::Bulk(information)) = connection.command(&["INFO", "server"]) else {
            return false;
        };
        let own_line = format!("process_id:{process_id}");
        String::from_utf8_lossy(&information).lines().any(|line| line == own_line)
    }
}

/// One run of a process.
#[derive(Debug)]
struct Running {
    child: Child,
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail only when the process has already been reaped, and then there is nothing left to end.
        let _killed = self.child.kill();
        let _reaped = self.child.wait();
    }
}
