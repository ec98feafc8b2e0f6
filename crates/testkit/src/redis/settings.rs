//! What a Redis process is started with, and the configuration file that says so to it.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use crate::ports::ReservedPort;
use crate::redis::process::RedisProcess;

/// What a Redis process keeps on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AppendOnly {
    /// Nothing: it comes back empty.
    Off,
    /// Each write, forced to the disk once a second.
    EverySecond,
    /// Each write, forced to the disk before it is answered.
    Always,
}

/// A user of the access control list.
#[derive(Debug, Clone)]
pub(super) struct User {
    pub(super) name: String,
    pub(super) password: String,
    rules: String,
}

/// What a Redis process is started with; made by [`RedisProcess::builder`].
#[derive(Debug, Clone)]
pub struct RedisBuilder {
    append_only: AppendOnly,
    settings: Vec<(String, String)>,
    pub(super) password: Option<String>,
    pub(super) users: Vec<User>,
    pub(super) has_tls: bool,
    pub(super) kind: Kind,
}

/// What a process is.
#[derive(Debug, Clone)]
pub(super) enum Kind {
    /// A server by itself.
    Server,
    /// A node of a cluster; its bus port is reserved too.
    ClusterNode,
    /// A Sentinel with this configuration. It writes its own findings into the file.
    Sentinel(String),
}

impl RedisBuilder {
    pub(super) fn new() -> Self {
        Self {
            append_only: AppendOnly::Off,
            settings: Vec::new(),
            password: None,
            users: Vec::new(),
            has_tls: false,
            kind: Kind::Server,
        }
    }

    /// Keeps what is written; nothing by default.
    #[must_use]
    pub fn append_only(mut self, append_only: AppendOnly) -> Self {
        self.append_only = append_only;
        self
    }

    /// A line of the configuration file, such as `setting("min-replicas-to-write", "1")`.
    #[must_use]
    pub fn setting(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Asks the default user for a password, also replicas. Letters and digits only, because it goes into URLs.
    #[must_use]
    #[track_caller]
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(plain(password));
        self
    }

    /// Adds a user of the access control list with rules such as `~anteroom:* &* +@all`. Letters and digits only in
    /// name and password, because they go into URLs.
    #[must_use]
    #[track_caller]
    pub fn user(mut self, name: &str, password: &str, rules: &str) -> Self {
        self.users.push(User { name: plain(name), password: plain(password), rules: rules.to_owned() });
        self
    }

    /// Listens with TLS on a second port, with a new certificate of its own. The kit itself goes on to use the first one.
    #[must_use]
    pub fn tls(mut self) -> Self {
        self.has_tls = true;
        self
    }

    pub(super) fn kind(mut self, kind: Kind) -> Self {
        self.kind = kind;
        self
    }

    /// Starts the process and waits until it answers.
    #[track_caller]
    pub fn start(self) -> RedisProcess {
        RedisProcess::start_with(&self)
    }

    /// The configuration file for these ports.
    pub(super) fn configuration(&self, port: u16, tls: Option<&Tls>) -> String {
        let mut text = format!("bind 127.0.0.1\nport {port}\ndaemonize no\nlogfile \"\"\n");
        if let Kind::Sentinel(lines) = &self.kind {
            return text + lines;
        }
        text += "save \"\"\n";
        // A replica that follows at once and gets a ping every second makes short tests.
        text += "repl-diskless-sync-delay 0\nrepl-ping-replica-period 1\n";
        // What a replica received as a file must not come back to life when it is started again without persistence.
        text += "rdb-del-sync-files yes\n";
        text += "enable-debug-command local\n";
        text += match self.append_only {
            AppendOnly::Off => "appendonly no\n",
            AppendOnly::EverySecond => "appendonly yes\nappendfsync everysec\n",
            AppendOnly::Always => "appendonly yes\nappendfsync always\n",
        };
        if matches!(self.kind, Kind::ClusterNode) {
            text += "cluster-enabled yes\n";
        }
        let mut line = |line: String| writeln!(text, "{line}").expect("a text can be written to");
        if let Some(password) = &self.password {
            line(format!("requirepass {password}\nmasterauth {password}"));
        }
        for User { name, password, rules } in &self.users {
            line(format!("user {name} on >{password} {rules}"));
        }
        if let Some(tls) = tls {
            let (certificate, key) = (tls.certificate_file.display(), tls.key_file.display());
            line(format!("tls-port {}\ntls-auth-clients no", tls.port.number()));
            line(format!("tls-cert-file {certificate}\ntls-ca-cert-file {certificate}\ntls-key-file {key}"));
        }
        for (name, value) in &self.settings {
            line(format!("{name} {value}"));
        }
        text
    }
}

/// The second listener of a process that speaks TLS.
#[derive(Debug)]
pub(super) struct Tls {
    pub(super) port: ReservedPort,
    pub(super) certificate_file: PathBuf,
    key_file: PathBuf,
}

impl Tls {
    /// A port, and a new self-signed certificate for loopback in this directory.
    #[track_caller]
    pub(super) fn new(directory: &Path) -> Self {
        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        let made = rcgen::generate_simple_self_signed(names).expect("a certificate can be made");
        let (certificate_file, key_file) = (directory.join("certificate.pem"), directory.join("key.pem"));
        fs::write(&certificate_file, made.cert.pem()).expect("a certificate can be written");
        fs::write(&key_file, made.signing_key.serialize_pem()).expect("a key can be written");
        Self { port: ReservedPort::take(), certificate_file, key_file }
    }
}

/// A name or password that means the same in a configuration file and in a URL.
#[track_caller]
fn plain(text: &str) -> String {
    let is_plain = !text.is_empty() && text.chars().all(|letter| letter.is_ascii_alphanumeric());
    assert!(is_plain, "letters and digits only: {text:?}");
    text.to_owned()
}
