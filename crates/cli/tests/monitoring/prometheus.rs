//! A real Prometheus that scrapes servers under test, by the configuration in `deploy` with a second in place of ten.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use anteroom_testkit::{Client, ReservedPort, Server, aws, wait_until};
use serde_json::Value;
use tempfile::TempDir;

use crate::deployment::{read, replaced};
use crate::support::program::Program;

/// How long it may take to start.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// A running Prometheus. It ends when it is dropped.
pub(crate) struct Prometheus {
    client: Client,
    program: Program,
    _port: ReservedPort,
    _directory: TempDir,
}

impl Prometheus {
    /// One that asks these servers, with a key of a viewer that all of them accept.
    #[track_caller]
    pub(crate) fn before(path: &Path, servers: &[&Server], key: &str) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let (port, nobody) = (ReservedPort::take(), ReservedPort::take());
        let key_path = directory.path().join("anteroom-viewer.key");
        fs::write(&key_path, key).expect("a file can be written");
        let targets: Vec<String> = servers.iter().map(|server| format!("\"{}\"", server.private())).collect();
        let text = replaced(
            &read("prometheus/prometheus.yaml"),
            &[
                ("scrape_interval: 10s", "scrape_interval: 1s"),
                ("scrape_timeout: 5s", "scrape_timeout: 1s"),
                ("evaluation_interval: 10s", "evaluation_interval: 1s"),
                ("\"127.0.0.1:8081\"", &targets.join(", ")),
                ("127.0.0.1:9093", &format!("127.0.0.1:{}", nobody.number())),
                ("/etc/prometheus/anteroom-viewer.key", &key_path.display().to_string()),
            ],
        );
        fs::write(directory.path().join("prometheus.yaml"), text).expect("a file can be written");
        fs::write(directory.path().join("rules.yaml"), read("prometheus/rules.yaml"))
            .expect("a file can be written");
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port.number()));
        let listen = format!("--web.listen-address={address}");
        let arguments =
            ["--config.file=prometheus.yaml", "--storage.tsdb.path=data", "--log.level=warn", &listen];
        let program = Program::start(path, &arguments, directory.path(), &[]);
        let mut prometheus =
            Self { client: Client::new(address), program, _port: port, _directory: directory };
        wait_until("Prometheus is ready", START_TIMEOUT, || {
            assert!(!prometheus.program.has_ended(), "Prometheus has ended:\n{}", prometheus.program.log());
            prometheus.client.get("/-/ready").is_ok_and(|answer| answer.status == 200)
        });
        prometheus
    }

    /// What is found by a query now.
    #[track_caller]
    pub(crate) fn query(&mut self, query: &str) -> Vec<Value> {
        let data = self.get(&format!("/api/v1/query?query={}", aws::percent_encode(query)));
        data["result"].as_array().unwrap_or_else(|| panic!("{query}: {data}")).clone()
    }

    /// What it answers at a path of its API.
    #[track_caller]
    pub(crate) fn get(&mut self, path: &str) -> Value {
        let answer = self.client.get(path).expect("an answer of Prometheus");
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        answer.json()["data"].clone()
    }
}
