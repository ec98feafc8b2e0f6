//! Receivers of each kind: started, stopped, and asked what they have received.

use std::env;
use std::fs;
use std::net::TcpStream;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anteroom_core::UnixMillis;
use anteroom_events::destination::{EventBridgeTarget, FileTarget, NatsTarget, WebhookTarget};
use anteroom_events::{
    Destination, DestinationState, EventMessage, OpenedSecrets, OutboundPolicy, SendFailure, Target,
    Transport, transport_of,
};
use anteroom_testkit::{Origin, ReservedPort, now, pause, python_with, require, wait_until, workspace_root};
use anteroom_tokens::{WebhookAlgorithm, WebhookKey};
use async_trait::async_trait;
use http::{HeaderMap, HeaderName, HeaderValue};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::documented;
use crate::messages::{cloud_event, with_time_as_number};
use crate::program::{DEADLINE, Program};

/// How long an attempt may take, where no test waits for its end.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Two secrets, the second for those who have the wrong one.
pub(crate) const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const WRONG_SECRET: &str = "whsec_AAKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// A receiver that a scenario sends to.
#[async_trait]
pub(crate) trait Receiver: Send {
    /// What an operator would say of it.
    fn target(&self) -> Target;
    fn secrets(&self) -> OpenedSecrets;
    /// What it has received so far, in its order; each as [`Self::expected`] has it.
    async fn received(&mut self) -> Vec<Value>;
    /// What it should have received.
    fn expected(&self, message: &EventMessage, with_request_ids: bool) -> Value {
        cloud_event(message, with_request_ids)
    }
    /// Whether it drops what is sent again.
    fn drops_repetitions(&self) -> bool;
    /// Where files go.
    fn directory(&self) -> Option<PathBuf> {
        None
    }
    /// Goes away, and returns what a sender is told then.
    fn stop(&mut self) -> &'static str;
    /// Comes back to the same place.
    fn start_again(&mut self);
    /// Makes it refuse what comes with these secrets, and says how.
    fn refusal(&mut self) -> (OpenedSecrets, &'static str);
}

/// A way to a receiver.
pub(crate) fn transport(receiver: &dyn Receiver, with_request_ids: bool) -> Arc<dyn Transport> {
    transport_with(receiver, receiver.secrets(), with_request_ids)
}

/// The same with other secrets.
pub(crate) fn transport_with(
    receiver: &dyn Receiver,
    secrets: OpenedSecrets,
    with_request_ids: bool,
) -> Arc<dyn Transport> {
    let destination = destination(receiver.target(), with_request_ids);
    transport_of(&destination, secrets, loopback_policy(), receiver.directory()).unwrap()
}

/// What lets transports connect to this machine.
pub(crate) fn loopback_policy() -> Arc<OutboundPolicy> {
    Arc::new(OutboundPolicy::new(vec!["127.0.0.0/8".parse().unwrap()], None).unwrap())
}

/// Waits until what a receiver has received ends with this, because it may say so a little later than it answers; returns all of it.
pub(crate) async fn received(receiver: &mut dyn Receiver, last: &[Value]) -> Vec<Value> {
    let started = now();
    loop {
        let events = receiver.received().await;
        if events.ends_with(last) {
            return events;
        }
        assert!(started.elapsed() < DEADLINE, "{events:#?} does not end with {last:#?}");
        pause();
    }
}

/// Sends in calls that are as large as the transport takes.
pub(crate) async fn send_all(
    transport: &dyn Transport,
    messages: &[EventMessage],
) -> Result<(), SendFailure> {
    for batch in messages.chunks(transport.batch_max()) {
        transport.send(batch).await?;
    }
    Ok(())
}

pub(crate) fn destination(target: Target, with_request_ids: bool) -> Destination {
    Destination {
        schedule: anteroom_events::RetrySchedule::default(),
        name: "shop".into(),
        target,
        rooms: vec![],
        types: vec!["*".into()],
        with_request_ids,
        backoff_max: Duration::from_mins(1),
        give_up_after: Duration::from_hours(1),
        state: DestinationState::Active,
        is_from_file: false,
        created_at: UnixMillis(0),
        begins_after: 0,
        replay: None,
        dead_letters: None,
    }
}

pub(crate) fn webhook_target(url: &str, batch_max: u32, timeout: Duration) -> Target {
    Target::Webhook(WebhookTarget { url: url.into(), batch_max, timeout })
}

/// Secrets of a webhook.
pub(crate) fn webhook_secrets(keys: Vec<WebhookKey>) -> OpenedSecrets {
    OpenedSecrets { webhook_keys: keys, text: None }
}

pub(crate) fn shared_secrets(texts: &[&str]) -> OpenedSecrets {
    webhook_secrets(texts.iter().map(|text| WebhookKey::from_shared_secret(text).unwrap()).collect())
}

fn text_secret(text: &str) -> OpenedSecrets {
    OpenedSecrets { webhook_keys: vec![], text: Some(SecretString::from(text)) }
}

fn wait_until_listening(port: &ReservedPort) {
    wait_until("the receiver listens", DEADLINE, || TcpStream::connect(("127.0.0.1", port.number())).is_ok());
}

/// In which language a webhook is received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Language {
    Python,
    Node,
}

/// `docs/integrating/webhooks/receive.py` or `receive.mjs`, as it stands.
pub(crate) struct DocumentedReceiver {
    program: Option<Program>,
    language: Language,
    port: ReservedPort,
    batch_max: u32,
    /// With the secret, or the public key.
    variable: (&'static str, String),
    sealed_key: Vec<u8>,
    /// What earlier runs of the program have received.
    before: Vec<Value>,
    directory: TempDir,
}

impl DocumentedReceiver {
    pub(crate) fn start(language: Language, algorithm: WebhookAlgorithm, batch_max: u32) -> Option<Self> {
        let is_there = match language {
            Language::Python => python_with("standardwebhooks, cloudevents, cryptography").is_some(),
            Language::Node => {
                ["standardwebhooks", "cloudevents"].iter().all(|name| node_modules().join(name).is_dir())
            }
        };
        let name = match language {
            Language::Python => "Python with standardwebhooks and cloudevents",
            Language::Node => "Node with standardwebhooks and cloudevents",
        };
        if !require(name, is_there) {
            return None;
        }
        let key = WebhookKey::generate(algorithm);
        let variable = match key.shared_secret() {
            Some(secret) => ("WEBHOOK_SECRET", secret.expose_secret().to_owned()),
            None => ("WEBHOOK_PUBLIC_KEY", key.public_key().unwrap()),
        };
        let mut receiver = Self {
            program: None,
            language,
            port: ReservedPort::take(),
            batch_max,
            variable,
            sealed_key: key.seal(&master_secrets(), "shop").unwrap(),
            before: vec![],
            directory: tempfile::tempdir().unwrap(),
        };
        receiver.start_again();
        Some(receiver)
    }

    fn events(&self) -> Vec<Value> {
        let lines = self.program.as_ref().map(Program::lines).unwrap_or_default();
        let events = lines.iter().filter_map(|line| line.get("event")).cloned().map(with_time_as_number);
        self.before.iter().cloned().chain(events).collect()
    }

    /// Why it refused requests.
    pub(crate) fn refusals(&self) -> Vec<String> {
        let lines = self.program.as_ref().unwrap().lines();
        lines.iter().filter_map(|line| Some(line.get("refused")?.as_str()?.to_owned())).collect()
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/hook?key=not-told", self.port.number())
    }
}

fn master_secrets() -> anteroom_tokens::MasterSecrets {
    anteroom_tokens::MasterSecrets::parse("a-secret-for-tests-0123456789abcdef").unwrap()
}

fn node_modules() -> PathBuf {
    env::var_os("ANTEROOM_TEST_NODE_MODULES")
        .map_or_else(|| workspace_root().join("target/test-node/node_modules"), PathBuf::from)
}

#[async_trait]
impl Receiver for DocumentedReceiver {
    fn target(&self) -> Target {
        webhook_target(&self.url(), self.batch_max, TIMEOUT)
    }

    fn secrets(&self) -> OpenedSecrets {
        webhook_secrets(vec![WebhookKey::open(&master_secrets(), "shop", &self.sealed_key).unwrap()])
    }

    async fn received(&mut self) -> Vec<Value> {
        self.events()
    }

    fn drops_repetitions(&self) -> bool {
        true
    }

    fn stop(&mut self) -> &'static str {
        self.before = self.events();
        self.program = None;
        "connection refused"
    }

    fn start_again(&mut self) {
        let code = workspace_root().join("docs/integrating/webhooks");
        let mut command = match self.language {
            Language::Python => {
                let mut command = Command::new(python_with("standardwebhooks").unwrap());
                command.arg(code.join("receive.py"));
                command
            }
            Language::Node => {
                // Modules are looked for beside the file.
                let copy = self.directory.path().join("receive.mjs");
                fs::copy(code.join("receive.mjs"), &copy).unwrap();
                let _ = symlink(node_modules(), self.directory.path().join("node_modules"));
                let mut command = Command::new("node");
                command.arg(copy);
                command
            }
        };
        let (name, value) = &self.variable;
        let program = Program::start(command.arg(self.port.number().to_string()).env(name, value));
        program.wait_for_line("the receiver listens", |line| line.get("listening").cloned());
        self.program = Some(program);
    }

    fn refusal(&mut self) -> (OpenedSecrets, &'static str) {
        (shared_secrets(&[WRONG_SECRET]), "answered 401")
    }
}

/// `docs/integrating/webhooks/receive.rs`, as it stands, behind a socket.
pub(crate) struct RustReceiver {
    origin: Origin,
    events: Arc<Mutex<Vec<Value>>>,
}

impl RustReceiver {
    pub(crate) fn start() -> Self {
        let events = Arc::new(Mutex::new(vec![]));
        let origin = Origin::playing({
            let events = Arc::clone(&events);
            move |connection| {
                while let Some(request) = connection.read_request()? {
                    let mut headers = HeaderMap::new();
                    for (name, value) in &request.headers {
                        let name = HeaderName::try_from(name.to_lowercase()).unwrap();
                        headers.append(name, HeaderValue::try_from(value).unwrap());
                    }
                    let status = match documented::events_of(SECRET, &headers, &request.body) {
                        Ok(received) => {
                            events.lock().unwrap().extend(received);
                            "204 No Content"
                        }
                        Err(_) => "401 Unauthorized\r\ncontent-length: 0",
                    };
                    connection.write(format!("HTTP/1.1 {status}\r\n\r\n").as_bytes())?;
                }
                Ok(())
            }
        });
        Self { origin, events }
    }
}

#[async_trait]
impl Receiver for RustReceiver {
    fn target(&self) -> Target {
        webhook_target(&self.origin.url(), 3, TIMEOUT)
    }

    fn secrets(&self) -> OpenedSecrets {
        shared_secrets(&[SECRET])
    }

    async fn received(&mut self) -> Vec<Value> {
        self.events.lock().unwrap().iter().cloned().map(with_time_as_number).collect()
    }

    fn drops_repetitions(&self) -> bool {
        false
    }

    fn stop(&mut self) -> &'static str {
        unreachable!("its socket is not its own: no scenario stops it")
    }

    fn start_again(&mut self) {
        unreachable!("nothing stops it");
    }

    fn refusal(&mut self) -> (OpenedSecrets, &'static str) {
        (shared_secrets(&[WRONG_SECRET]), "answered 401")
    }
}

/// An event bus by moto.
pub(crate) struct Bus {
    program: Option<Program>,
    port: ReservedPort,
    access_key_id: String,
    secret: String,
}

impl Bus {
    pub(crate) fn start() -> Option<Self> {
        if !require("moto", python_with("moto.server, boto3").is_some()) {
            return None;
        }
        let mut bus = Self {
            program: None,
            port: ReservedPort::take(),
            access_key_id: String::new(),
            secret: String::new(),
        };
        bus.start_again();
        Some(bus)
    }
}

#[async_trait]
impl Receiver for Bus {
    fn target(&self) -> Target {
        Target::EventBridge(EventBridgeTarget {
            region: "eu-central-1".into(),
            bus: "rooms".into(),
            endpoint: Some(format!("http://127.0.0.1:{}", self.port.number())),
            access_key_id: self.access_key_id.clone(),
            timeout: TIMEOUT,
        })
    }

    fn secrets(&self) -> OpenedSecrets {
        text_secret(&self.secret)
    }

    async fn received(&mut self) -> Vec<Value> {
        let mut events = vec![];
        if let Some(program) = &mut self.program {
            let received = program.ask();
            events.extend(received.as_array().unwrap().iter().map(|event| {
                let time: jiff::Timestamp = event["time"].as_str().unwrap().parse().unwrap();
                json!({
                    "version": event["version"], "region": event["region"], "resources": event["resources"],
                    "source": event["source"], "detail-type": event["detail-type"],
                    "time": time.as_second(), "detail": event["detail"],
                })
            }));
        }
        events
    }

    fn expected(&self, message: &EventMessage, with_request_ids: bool) -> Value {
        let (source, detail) = if message.kind.is_of_aws() {
            ("custom.waitingroom", message.data(with_request_ids))
        } else {
            let mut detail = message.data(with_request_ids);
            detail["id"] = (*message.id).into();
            detail["sequence"] = message.sequence().into();
            detail["room"] = message.room.as_ref().unwrap().as_str().into();
            ("anteroom", detail)
        };
        json!({
            "version": "0", "region": "eu-central-1", "resources": [message.source()], "source": source,
            "detail-type": message.kind.as_str(), "time": message.at.0 / 1000, "detail": detail,
        })
    }

    fn drops_repetitions(&self) -> bool {
        false
    }

    fn stop(&mut self) -> &'static str {
        self.program = None;
        "connection refused"
    }

    fn start_again(&mut self) {
        let code = workspace_root().join("crates/events/tests/transports/bus.py");
        let mut command = Command::new(python_with("moto.server").unwrap());
        let program = Program::start(command.arg(code).arg(self.port.number().to_string()));
        let (id, secret) = program.wait_for_line("the bus is ready", |line| {
            let text = |name: &str| Some(line.get(name)?.as_str()?.to_owned());
            Some((text("access_key_id")?, text("secret")?))
        });
        (self.access_key_id, self.secret) = (id, secret);
        self.program = Some(program);
    }

    fn refusal(&mut self) -> (OpenedSecrets, &'static str) {
        (text_secret("wrong"), "answered 403")
    }
}

/// A NATS server with a stream.
pub(crate) struct Stream {
    server: Option<Program>,
    pub(crate) port: ReservedPort,
    directory: TempDir,
}

pub(crate) const NATS_USER: &str = "events";
const NATS_PASSWORD: &str = "a-password:with-a-colon";

/// The program, if it is installed: beside the Python of tests, or on the path.
pub(crate) fn nats_server() -> Option<PathBuf> {
    let python = env::var_os("ANTEROOM_TEST_PYTHON")
        .map_or_else(|| workspace_root().join("target/test-venv/bin/python"), PathBuf::from);
    let beside = python.with_file_name("nats-server");
    let candidates = [beside, "/usr/sbin/nats-server".into(), "/usr/bin/nats-server".into()];
    let found = candidates.into_iter().find(|path| path.exists());
    require("nats-server", found.is_some()).then_some(found)?
}

impl Stream {
    pub(crate) async fn start() -> Option<Self> {
        nats_server()?;
        let mut stream =
            Self { server: None, port: ReservedPort::take(), directory: tempfile::tempdir().unwrap() };
        stream.start_again();
        let context = stream.context().await;
        let configuration = async_nats::jetstream::stream::Config {
            name: "events".into(),
            subjects: vec!["shop.events.>".into()],
            ..Default::default()
        };
        context.create_stream(configuration).await.unwrap();
        Some(stream)
    }

    /// A client of the tests' own.
    pub(crate) async fn context(&self) -> async_nats::jetstream::Context {
        let client = async_nats::ConnectOptions::new()
            .user_and_password(NATS_USER.into(), NATS_PASSWORD.into())
            .connect(format!("nats://127.0.0.1:{}", self.port.number()))
            .await
            .unwrap();
        async_nats::jetstream::new(client)
    }

    /// Subjects and messages in the order of the stream.
    pub(crate) async fn stored(&self) -> Vec<(String, Value)> {
        let stream = self.context().await.get_stream("events").await.unwrap();
        let mut stored = vec![];
        for number in 1..=stream.cached_info().state.last_sequence {
            let message = stream.get_raw_message(number).await.unwrap();
            let event: Value = serde_json::from_slice(&message.payload).unwrap();
            assert_eq!(message.headers.get("Nats-Msg-Id").unwrap().as_str(), event["id"].as_str().unwrap());
            stored.push((message.subject.to_string(), event));
        }
        stored
    }
}

#[async_trait]
impl Receiver for Stream {
    fn target(&self) -> Target {
        Target::Nats(NatsTarget {
            url: format!("nats://127.0.0.1:{}", self.port.number()),
            subject_prefix: "shop.events".into(),
            timeout: TIMEOUT,
        })
    }

    fn secrets(&self) -> OpenedSecrets {
        text_secret(&format!("{NATS_USER}:{NATS_PASSWORD}"))
    }

    async fn received(&mut self) -> Vec<Value> {
        self.stored().await.into_iter().map(|(_, event)| with_time_as_number(event)).collect()
    }

    fn drops_repetitions(&self) -> bool {
        true
    }

    fn stop(&mut self) -> &'static str {
        self.server = None;
        "connection refused"
    }

    fn start_again(&mut self) {
        let port = self.port.number().to_string();
        let mut command = Command::new(nats_server().unwrap());
        command
            .args(["--addr", "127.0.0.1", "--port", &port, "--jetstream", "--store_dir"])
            .arg(self.directory.path())
            .args(["--user", NATS_USER, "--pass", NATS_PASSWORD]);
        self.server = Some(Program::start(&mut command));
        wait_until_listening(&self.port);
    }

    fn refusal(&mut self) -> (OpenedSecrets, &'static str) {
        (text_secret("events:wrong"), "the server did not accept the credentials")
    }
}

/// A file.
pub(crate) struct EventFile {
    directory: TempDir,
    pub(crate) size_max_bytes: u64,
    pub(crate) files_max: u32,
}

impl EventFile {
    pub(crate) fn start() -> Self {
        Self { directory: tempfile::tempdir().unwrap(), size_max_bytes: 1 << 20, files_max: 3 }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join("events").join(name)
    }

    /// The events in a file of this name.
    pub(crate) fn events_in(&self, name: &str) -> Vec<Value> {
        let text = fs::read_to_string(self.path(name)).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).map(with_time_as_number).collect()
    }
}

#[async_trait]
impl Receiver for EventFile {
    fn target(&self) -> Target {
        Target::File(FileTarget { size_max_bytes: self.size_max_bytes, files_max: self.files_max })
    }

    fn secrets(&self) -> OpenedSecrets {
        let _ = fs::create_dir(self.path(""));
        OpenedSecrets::default()
    }

    async fn received(&mut self) -> Vec<Value> {
        self.events_in("shop.jsonl")
    }

    fn drops_repetitions(&self) -> bool {
        false
    }

    fn directory(&self) -> Option<PathBuf> {
        Some(self.path(""))
    }

    fn stop(&mut self) -> &'static str {
        fs::rename(self.path(""), self.directory.path().join("away")).unwrap();
        "the directory of event files is missing"
    }

    fn start_again(&mut self) {
        fs::rename(self.directory.path().join("away"), self.path("")).unwrap();
    }

    fn refusal(&mut self) -> (OpenedSecrets, &'static str) {
        fs::create_dir_all(self.path("shop.jsonl")).unwrap();
        (OpenedSecrets::default(), "there is a directory in the file's place")
    }
}
