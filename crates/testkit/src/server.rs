//! The real binary as a child process on ports of its own choice, with a data directory that outlives restarts.
//!
//! Every server started here ends here: by its own process id, at the latest when the [`Server`] is dropped.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Read;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use std::{env, fs, mem};

use anyhow::{Context, bail};

use crate::http::Client;
use crate::line::Line;
use crate::signal;
use crate::wait::{now, pause, wait_until};

/// How long a server may take to say where it listens. Generous, because it may share two cores with a build.
const START_DEADLINE: Duration = Duration::from_mins(1);
/// How long a server may take to end after a signal.
const END_DEADLINE: Duration = Duration::from_mins(1);
/// The variable with which all tests run against another binary, such as a release build.
const BINARY_VARIABLE: &str = "ANTEROOM_TEST_BINARY";
/// The master secret of a server that is not given another.
const DEFAULT_SECRET: &str = "testkit-master-secret-of-more-than-32-characters";
/// The admin key of a server that is not given another.
const DEFAULT_ADMIN_KEY: &str = "testkit-admin-key-0123456789abcdef";

/// What a server is started with.
#[derive(Debug, Clone)]
pub struct Builder {
    binary: PathBuf,
    command: String,
    environment: BTreeMap<String, String>,
    config: Option<String>,
    arguments: Vec<String>,
    directory: Option<PathBuf>,
}

impl Builder {
    /// Runs another command than `serve`.
    #[must_use]
    pub fn command(mut self, command: &str) -> Self {
        command.clone_into(&mut self.command);
        self
    }

    /// Sets an environment variable of the server.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl Into<String>) -> Self {
        self.environment.insert(name.to_owned(), value.into());
        self
    }

    /// Takes a variable away, also one that is set by default, such as `ANTEROOM_SECRET`.
    #[must_use]
    pub fn without_env(mut self, name: &str) -> Self {
        self.environment.remove(name);
        self
    }

    /// Starts with `--config` and a file of this text.
    #[must_use]
    pub fn config(mut self, text: impl Into<String>) -> Self {
        self.config = Some(text.into());
        self
    }

    /// Adds an argument after the command.
    #[must_use]
    pub fn argument(mut self, argument: impl Into<String>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Keeps nothing on disk.
    #[must_use]
    pub fn memory(self) -> Self {
        self.env("ANTEROOM_STORE_URL", "memory:")
    }

    /// Works in this directory instead of a temporary one of its own.
    #[must_use]
    pub fn directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.directory = Some(directory.into());
        self
    }

    /// Starts the server and waits until it has said where it listens.
    pub fn start(self) -> anyhow::Result<Server> {
        let mut server = self.prepare()?;
        server.restart()?;
        Ok(server)
    }

    /// Starts the command and returns at once, for one that does not say where it listens as `serve` does.
    pub fn start_without_waiting(self) -> anyhow::Result<Server> {
        let mut server = self.prepare()?;
        let process = server.spawn()?;
        server.process = Some(process);
        Ok(server)
    }

    /// Runs a server that is expected not to start, or another command, until it ends by itself.
    pub fn run_to_end(self) -> anyhow::Result<ProcessExit> {
        self.start_without_waiting()?.wait_for_end()
    }

    fn prepare(mut self) -> anyhow::Result<Server> {
        let (directory, temporary) = if let Some(directory) = self.directory.clone() {
            (directory, None)
        } else {
            let temporary = tempfile::tempdir().context("making a temporary directory")?;
            (temporary.path().to_path_buf(), Some(temporary))
        };
        let store = || format!("file:{}", directory.join("data").display());
        self.environment.entry("ANTEROOM_STORE_URL".to_owned()).or_insert_with(store);
        Ok(Server {
            setup: self,
            process: None,
            addresses: None,
            past_stdout: String::new(),
            past_stderr: String::new(),
            directory,
            _temporary: temporary,
        })
    }
}

/// How a server ended, and all that this run of it wrote.
#[derive(Debug)]
pub struct ProcessExit {
    /// The exit status.
    pub status: ExitStatus,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error, where the log goes.
    pub stderr: String,
}

/// A server under test.
#[derive(Debug)]
pub struct Server {
    setup: Builder,
    process: Option<Process>,
    addresses: Option<(SocketAddr, SocketAddr)>,
    past_stdout: String,
    past_stderr: String,
    directory: PathBuf,
    _temporary: Option<tempfile::TempDir>,
}

impl Server {
    /// A server from the given binary (tests pass `env!("CARGO_BIN_EXE_anteroom")`), with the embedded store in a
    /// temporary directory, a secret and an admin key. `ANTEROOM_TEST_BINARY` names another binary for all tests.
    pub fn builder(binary: impl Into<PathBuf>) -> Builder {
        let binary = env::var_os(BINARY_VARIABLE).map_or_else(|| binary.into(), PathBuf::from);
        let builder = Builder {
            binary,
            command: "serve".to_owned(),
            environment: BTreeMap::new(),
            config: None,
            arguments: Vec::new(),
            directory: None,
        };
        builder
            .env("ANTEROOM_PUBLIC_ADDR", "127.0.0.1:0")
            .env("ANTEROOM_PRIVATE_ADDR", "127.0.0.1:0")
            .env("ANTEROOM_SECRET", DEFAULT_SECRET)
            // Every test begins with a new store, and none but those of lost stores waits for tickets from before.
            .env("ANTEROOM_STORE_RECOVERY_SECONDS", "0")
            .env("ANTEROOM_ADMIN_KEY", DEFAULT_ADMIN_KEY)
    }

    /// Where the public listener is.
    #[track_caller]
    pub fn public(&self) -> SocketAddr {
        self.addresses.expect("the server runs").0
    }

    /// Where the private listener is.
    #[track_caller]
    pub fn private(&self) -> SocketAddr {
        self.addresses.expect("the server runs").1
    }

    /// A visitor: a client of the public listener.
    #[track_caller]
    pub fn visitor(&self) -> Client {
        Client::new(self.public())
    }

    /// An operator: a client of the private listener with the admin key.
    #[track_caller]
    pub fn operator(&self) -> Client {
        Client::new(self.private()).with_bearer(self.admin_key())
    }

    /// A room of this server. Taken anew after a restart, because ports change.
    #[track_caller]
    pub fn line(&self, event: &str) -> Line {
        Line::new(event, self.visitor(), self.operator())
    }

    /// The admin key it accepts.
    pub fn admin_key(&self) -> &str {
        self.setup.environment.get("ANTEROOM_ADMIN_KEY").map_or("", String::as_str)
    }

    /// The master secret it was started with.
    pub fn secret(&self) -> &str {
        self.setup.environment.get("ANTEROOM_SECRET").map_or("", String::as_str)
    }

    /// Its working directory, which holds the configuration file and `data`.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Where the embedded store keeps its files unless another place was asked for.
    pub fn data_directory(&self) -> PathBuf {
        self.directory.join("data")
    }

    /// The process id.
    #[track_caller]
    pub fn process_id(&self) -> u32 {
        self.process.as_ref().expect("the server runs").child.id()
    }

    /// Another configuration file from the next restart on.
    pub fn set_config(&mut self, text: impl Into<String>) {
        self.setup.config = Some(text.into());
    }

    /// Another environment variable from the next restart on.
    pub fn set_env(&mut self, name: &str, value: impl Into<String>) {
        self.setup.environment.insert(name.to_owned(), value.into());
    }

    /// One environment variable less from the next restart on.
    pub fn remove_env(&mut self, name: &str) {
        self.setup.environment.remove(name);
    }

    /// Everything all runs wrote to standard output so far.
    pub fn stdout(&self) -> String {
        self.past_stdout.clone()
            + &self.process.as_ref().map_or_else(String::new, |process| process.stdout.text())
    }

    /// Everything all runs wrote to standard error so far.
    pub fn stderr(&self) -> String {
        self.past_stderr.clone()
            + &self.process.as_ref().map_or_else(String::new, |process| process.stderr.text())
    }

    /// Ends it as a power cut would: SIGKILL, no farewell.
    pub fn kill_nine(&mut self) -> anyhow::Result<ProcessExit> {
        let process = self.process.as_mut().context("the server does not run")?;
        process.child.kill().context("killing the server")?;
        self.wait_for_end()
    }

    /// Asks it to end with SIGTERM and waits until it has drained.
    pub fn terminate(&mut self) -> anyhow::Result<ProcessExit> {
        self.signal("TERM")?;
        self.wait_for_end()
    }

    /// Asks it to end with SIGINT, as Ctrl-C does, and waits until it has drained.
    pub fn interrupt(&mut self) -> anyhow::Result<ProcessExit> {
        self.signal("INT")?;
        self.wait_for_end()
    }

    /// Sends a signal (`TERM`, `INT`, …) to this one process and returns at once.
    pub fn signal(&self, name: &str) -> anyhow::Result<()> {
        signal::send(&self.process.as_ref().context("the server does not run")?.child, name)
    }

    /// Makes it stand still (SIGSTOP) and returns when it does. Connections stay open, and the system goes on to take bytes
    /// for it.
    #[track_caller]
    pub fn pause(&self) {
        self.signal("STOP").unwrap_or_else(|error| panic!("{error:#}"));
        let child = &self.process.as_ref().expect("the server runs").child;
        wait_until("the server stands still", END_DEADLINE, || signal::is_stopped(child));
    }

    /// Lets it go on after a pause (SIGCONT).
    #[track_caller]
    pub fn resume(&self) {
        self.signal("CONT").unwrap_or_else(|error| panic!("{error:#}"));
    }

    /// Waits until it has ended by itself or by a signal sent before.
    pub fn wait_for_end(&mut self) -> anyhow::Result<ProcessExit> {
        let process = self.process.as_mut().context("the server does not run")?;
        let started = now();
        let status = loop {
            if let Some(status) = process.child.try_wait().context("asking whether the server has ended")? {
                break status;
            }
            if started.elapsed() > END_DEADLINE {
                bail!(
                    "the server has not ended within {END_DEADLINE:?}; it wrote:\n{}",
                    process.stderr.text()
                );
            }
            pause();
        };
        self.addresses = None;
        let process = self.process.take().context("the server has just run")?;
        let (stdout, stderr) = process.finish();
        self.past_stdout.push_str(&stdout);
        self.past_stderr.push_str(&stderr);
        Ok(ProcessExit { status, stdout, stderr })
    }

    /// Starts it again on the same data, after ending it gently if it still runs.
    pub fn restart(&mut self) -> anyhow::Result<()> {
        if self.process.is_some() {
            self.terminate()?;
        }
        let process = self.spawn()?;
        self.process = Some(process);
        let started = now();
        loop {
            let process = self.process.as_mut().context("the server has just been started")?;
            let stdout = process.stdout.text();
            let (public, private) = (listening(&stdout, "public"), listening(&stdout, "private"));
            if let (Some(public), Some(private)) = (public, private) {
                self.addresses = Some((public, private));
                return Ok(());
            }
            let ended = process.child.try_wait().context("asking whether the server has ended")?;
            if ended.is_some() {
                let ended = self.wait_for_end()?;
                bail!("the server did not start ({}):\n{}{}", ended.status, ended.stdout, ended.stderr);
            }
            if started.elapsed() > START_DEADLINE {
                let ended = self.kill_nine()?;
                bail!(
                    "the server was not ready within {START_DEADLINE:?}:\n{}{}",
                    ended.stdout,
                    ended.stderr
                );
            }
            pause();
        }
    }

    fn spawn(&self) -> anyhow::Result<Process> {
        let mut command = Command::new(&self.setup.binary);
        command.arg(&self.setup.command).args(&self.setup.arguments).current_dir(&self.directory);
        // What the machine running the tests has configured for its own Anteroom must not reach the one under test.
        let inherited = env::vars_os().map(|(name, _)| name);
        for name in inherited.filter(|name: &OsString| name.to_string_lossy().starts_with("ANTEROOM_")) {
            command.env_remove(name);
        }
        command.envs(&self.setup.environment);
        if let Some(config) = &self.setup.config {
            let path = self.directory.join("under-test.toml");
            fs::write(&path, config).context("writing the configuration file")?;
            command.arg("--config").arg(&path);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child =
            command.spawn().with_context(|| format!("starting {}", self.setup.binary.display()))?;
        let stdout = Capture::of(child.stdout.take().context("standard output is piped")?);
        let stderr = Capture::of(child.stderr.take().context("standard error is piped")?);
        Ok(Process { child, stdout, stderr })
    }
}

/// One run of the server.
#[derive(Debug)]
struct Process {
    child: Child,
    stdout: Capture,
    stderr: Capture,
}

impl Process {
    /// What a process that has ended wrote, to the last byte.
    fn finish(mut self) -> (String, String) {
        (self.stdout.read_to_the_end(), self.stderr.read_to_the_end())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only when the process has already been reaped, and then there is nothing left to end.
        let _killed = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// A stream of the server, read as it comes, so that a full pipe never stops it.
#[derive(Debug)]
struct Capture {
    bytes: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
}

impl Capture {
    fn of(mut stream: impl Read + Send + 'static) -> Self {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&bytes);
        let reader = thread::spawn(move || {
            let mut buffer = [0; 16 * 1024];
            while let Ok(read @ 1..) = stream.read(&mut buffer) {
                sink.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&buffer[..read]);
            }
        });
        Self { bytes, reader: Some(reader) }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }

    fn read_to_the_end(&mut self) -> String {
        if let Some(reader) = self.reader.take() {
            reader.join().expect("the reader of a stream does not panic");
        }
        let bytes = mem::take(&mut *self.bytes.lock().unwrap_or_else(PoisonError::into_inner));
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// The address in the line `NAME listening on http://ADDRESS`, once that line is complete.
fn listening(stdout: &str, name: &str) -> Option<SocketAddr> {
    let complete = stdout.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    let mut said = complete.filter_map(|line| line.strip_prefix(name)?.strip_prefix(" listening on "));
    let url = said.next()?.trim_end();
    let address = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"))?;
    address.parse().ok()
}

#[cfg(test)]
mod tests;
