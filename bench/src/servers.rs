//! The servers under load, each a process of its own on core 0, ended with the value that started it.

use std::cell::Cell;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::rc::Rc;

use anteroom_testkit::{Builder, Client, Server};
use anyhow::{Context, Result, ensure};

use crate::load::{Connection, Requests, block_on};

/// The variable that lets servers and load share all cores, as they would on a small machine.
const UNPINNED: &str = "ANTEROOM_BENCH_UNPINNED";

/// Over how many connections tickets are taken that a measurement needs.
const SETUP_CONNECTIONS: usize = 16;

fn cores() -> &'static str {
    if are_pinned() { "0" } else { "0-1023" }
}

/// Whether servers have a core and the load another.
pub(crate) fn are_pinned() -> bool {
    std::env::var_os(UNPINNED).is_none()
}

/// A command that may use core 0 only, unless told otherwise.
pub(crate) fn pinned_command(program: &str) -> Command {
    let mut command = Command::new("taskset");
    command.args(["-c", cores(), program]);
    command
}

/// The product, with one room `Sample`.
pub(crate) struct Anteroom {
    server: Server,
}

/// How long a new room on an empty Redis lets nobody in.
const RECOVERY: &str = "ANTEROOM_STORE_RECOVERY_SECONDS";

impl Anteroom {
    /// Starts it on a new data directory, or on a given one.
    pub(crate) fn start(binary: &str, directory: Option<&Path>) -> Result<Self> {
        Self::with(binary, |builder| match directory {
            Some(directory) => builder.directory(directory),
            None => builder,
        })
    }

    /// Starts it on a store of this address, under a master secret of its own.
    pub(crate) fn start_on(binary: &str, store_url: &str) -> Result<Self> {
        Self::with(binary, |builder| on_store(builder, store_url))
    }

    /// Starts it with a configuration file.
    pub(crate) fn with_configuration(binary: &str, configuration: &str) -> Result<Self> {
        Self::with(binary, |builder| builder.config(configuration))
    }

    /// Starts it with a configuration file on a store of this address.
    pub(crate) fn with_configuration_on(binary: &str, store_url: &str, configuration: &str) -> Result<Self> {
        Self::with(binary, |builder| on_store(builder, store_url).config(configuration))
    }

    fn with(binary: &str, set_up: impl FnOnce(Builder) -> Builder) -> Result<Self> {
        // A small script pins the server; the process that the testkit knows is the server itself, by exec.
        let script = tempfile_script(binary)?;
        // A build of an older version does not know the variable, and only a Redis needs it.
        let builder = Server::builder(&script).env("ANTEROOM_LOG", "warn").without_env(RECOVERY);
        let builder = set_up(builder);
        Ok(Self { server: builder.start()? })
    }

    pub(crate) fn public(&self) -> SocketAddr {
        self.server.public()
    }

    pub(crate) fn process_id(&self) -> u32 {
        self.server.process_id()
    }

    pub(crate) fn call(&self, request: &Requests) -> Result<(String, String)> {
        block_on(async {
            let mut connection = Connection::open(self.public()).await?;
            let (status, body_at) = connection.call(request).await?;
            ensure!(status == 200, "status {status}");
            let (head, body) = connection.last(body_at)?;
            Ok((head.to_owned(), body.to_owned()))
        })
    }

    /// Takes places; returns their request ids.
    pub(crate) fn join_many(&self, count: usize) -> Result<Vec<String>> {
        block_on(async {
            let request = Requests::post("/assign_queue_num", r#"{"event_id":"Sample"}"#);
            self.each(&request, count).await
        })
    }

    /// Takes places by our own API; returns their ticket tokens.
    pub(crate) fn tickets(&self, count: usize) -> Result<Vec<String>> {
        block_on(async { self.each(&Requests::post("/join", r#"{"room":"Sample"}"#), count).await })
    }

    /// The first text in each of the answers to a request that is sent so often, over several connections.
    async fn each(&self, request: &Requests, count: usize) -> Result<Vec<String>> {
        let left = Rc::new(Cell::new(count));
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..SETUP_CONNECTIONS {
            let (address, request, left) = (self.public(), request.clone(), left.clone());
            tasks.spawn_local(async move {
                let mut connection = Connection::open(address).await?;
                let mut texts = vec![];
                while let Some(rest) = left.get().checked_sub(1) {
                    left.set(rest);
                    let (_, body_at) = connection.call(&request).await?;
                    texts.push(first_text(connection.last(body_at)?.1)?);
                }
                Ok::<_, anyhow::Error>(texts)
            });
        }
        let mut texts = Vec::with_capacity(count);
        while let Some(finished) = tasks.join_next().await {
            texts.extend(finished??);
        }
        Ok(texts)
    }

    /// A client of the private listener.
    pub(crate) fn operator(&self) -> Client {
        self.server.operator()
    }

    /// Where the embedded store has its file.
    pub(crate) fn data_directory(&self) -> PathBuf {
        self.server.data_directory()
    }

    /// Ends the process; what is on disk stays until the value goes.
    pub(crate) fn stop(&mut self) -> Result<()> {
        self.server.terminate()?;
        Ok(())
    }

    /// What `/metrics` tells.
    pub(crate) fn metrics(&self) -> Result<String> {
        let answer = self.server.operator().get("/metrics")?;
        ensure!(answer.status == 200, "status {}", answer.status);
        Ok(answer.text())
    }

    pub(crate) fn advance(&self, by: i64) -> Result<()> {
        let body = serde_json::json!({"event_id": "Sample", "increment_by": by});
        let answer = self.server.operator().post("/increment_serving_counter", &body)?;
        ensure!(answer.status == 200, "status {}", answer.status);
        Ok(())
    }
}

fn on_store(builder: Builder, url: &str) -> Builder {
    let builder = builder.env(RECOVERY, "0").env("ANTEROOM_STORE_URL", url);
    builder.env("ANTEROOM_SECRET", "bench-".repeat(8))
}

fn first_text(body: &str) -> Result<String> {
    body.split('"').nth(3).map(str::to_owned).with_context(|| format!("no text in {body}"))
}

fn tempfile_script(binary: &str) -> Result<String> {
    use std::os::unix::fs::OpenOptionsExt;
    let binary = std::fs::canonicalize(binary).with_context(|| format!("no binary at {binary}"))?;
    let path = std::env::temp_dir().join(format!("anteroom-bench-{}.sh", std::process::id()));
    let mut file =
        std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o700).open(&path)?;
    writeln!(file, "#!/bin/sh\nexec taskset -c {} '{}' \"$@\"", cores(), binary.display())?;
    Ok(path.display().to_string())
}

/// A bare hyper server.
pub(crate) struct Baseline {
    child: Child,
    address: SocketAddr,
}

impl Baseline {
    /// Starts one that answers everything as Anteroom answers `request`.
    pub(crate) fn repeating_answer_of(anteroom: &Anteroom, request: &Requests) -> Result<Self> {
        let (head, body) = anteroom.call(request)?;
        // hyper adds these two itself, for both.
        let added = |line: &&str| {
            let name = line.to_ascii_lowercase();
            !name.starts_with("http/") && !name.starts_with("date:") && !name.starts_with("content-length:")
        };
        let head: Vec<&str> = head.lines().filter(|line| !line.is_empty()).filter(added).collect();
        let path = std::env::temp_dir().join(format!("anteroom-bench-answer-{}", std::process::id()));
        std::fs::write(&path, format!("{}\n\n{body}", head.join("\n")))?;
        let program = std::env::current_exe()?;
        let mut child = pinned_command(&program.display().to_string())
            .arg("baseline")
            .arg(&path)
            .stdout(Stdio::piped())
            .spawn()
            .context("the baseline does not start")?;
        let stdout = child.stdout.take().context("no stdout")?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        let address = line.trim().rsplit(' ').next().unwrap_or_default().parse()?;
        Ok(Self { child, address })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn process_id(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Baseline {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
