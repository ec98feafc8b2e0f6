//! Why there was no answer, in words for an operator, with a hint where we know one.

use std::error::Error;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Why there was no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientError {
    /// The URL is not one of a server.
    #[error("`{url}` is not the URL of a server: {reason}")]
    BadUrl {
        /// What was given, without a password.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The path or query cannot be sent.
    #[error("`{path}` cannot be asked for: {reason}")]
    BadPath {
        /// What was given.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The key cannot stand in a header.
    #[error("the key contains characters that no key of ours has")]
    BadKey,
    /// The certificates to trust cannot be read.
    #[error("cannot use {} as certificates to trust: {reason}", path.display())]
    CaFile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// There is nobody to trust.
    #[error("this system has no certificate authorities to trust")]
    NoRoots,
    /// No connection.
    #[error("cannot connect to {target}: {reason}")]
    Connect {
        /// Scheme, host and port.
        target: String,
        /// Why, in lower case.
        reason: String,
        /// What we know about it.
        kind: ConnectKind,
    },
    /// The connection was lost before the answer was complete, or what came was not HTTP.
    #[error("{target} gave no complete answer: {reason}")]
    Lost {
        /// Scheme, host and port.
        target: String,
        /// Why, in lower case.
        reason: String,
    },
    /// The answer did not come in time.
    #[error("{target} did not answer within {} s", limit.as_secs_f64())]
    TooSlow {
        /// Scheme, host and port.
        target: String,
        /// How long we waited.
        limit: Duration,
    },
    /// The answer is larger than we keep.
    #[error("{target} answered with more than {max_bytes} bytes")]
    TooLarge {
        /// Scheme, host and port.
        target: String,
        /// The limit.
        max_bytes: usize,
    },
    /// What was to be sent cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// What came cannot be written.
    #[error("cannot write what was received: {0}")]
    Write(#[source] io::Error),
}

/// What is known about a connection that could not be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectKind {
    /// Nobody listens there.
    Refused,
    /// The name leads nowhere.
    Name,
    /// No answer at all.
    TimedOut,
    /// The server's certificate is not trusted.
    Untrusted,
    /// The server does not speak TLS.
    NotTls,
    /// Something else.
    Other,
}

impl ClientError {
    /// What may help.
    pub(crate) fn hint(&self) -> Option<&'static str> {
        match self {
            Self::BadUrl { .. } => Some("it looks like http://127.0.0.1:8081 or https://line.example.com"),
            Self::NoRoots => {
                Some("name the server's certificate authority with --ca-file, or install ca-certificates")
            }
            Self::CaFile { .. } => Some("it is a file in PEM form: -----BEGIN CERTIFICATE----- …"),
            Self::BadKey => Some(
                "is there a line break or a quotation mark in it? ANTEROOM_ADMIN_KEY holds the key alone",
            ),
            Self::Connect { kind, .. } => match kind {
                ConnectKind::Refused => Some(
                    "is the server running, and is this its address? `anteroom serve` prints both of its addresses",
                ),
                ConnectKind::Name => Some("is the host name spelt right?"),
                ConnectKind::TimedOut => Some("is a firewall in between?"),
                ConnectKind::Untrusted => {
                    Some("name the certificate authority that signed it with --ca-file")
                }
                ConnectKind::NotTls => Some("does the server speak plain http there? try http:// in the URL"),
                ConnectKind::Other => None,
            },
            Self::Lost { .. } => Some(
                "what was asked for may or may not have happened; does the server speak https there, or did it stop?",
            ),
            Self::TooSlow { .. } => Some("what was asked for may or may not have happened"),
            Self::BadPath { .. } | Self::TooLarge { .. } | Self::Read { .. } | Self::Write(_) => None,
        }
    }

    /// Whether the command line is to blame, rather than the server or the way to it.
    pub(crate) fn is_usage(&self) -> bool {
        matches!(
            self,
            Self::BadUrl { .. }
                | Self::BadPath { .. }
                | Self::BadKey
                | Self::CaFile { .. }
                | Self::Read { .. }
        )
    }

    /// From what the pooled client says.
    pub(super) fn from_client(target: &str, error: &hyper_util::client::legacy::Error) -> Self {
        let target = target.to_owned();
        let reason = innermost(error);
        if error.is_connect() {
            return Self::Connect { target, reason, kind: connect_kind(error) };
        }
        Self::Lost { target, reason }
    }

    /// From what a connection says in the middle of an answer.
    pub(super) fn from_hyper(target: &str, error: &hyper::Error) -> Self {
        Self::Lost { target: target.to_owned(), reason: innermost(error) }
    }
}

/// The error itself, then what caused it, and so on.
fn chain<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| {
        // An io::Error that wraps another error shows that one's cause as its own and hides the wrapped error itself.
        let wrapped = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        wrapped.map(|wrapped| wrapped as &(dyn Error + 'static)).or_else(|| error.source())
    })
}

/// What is at the bottom of it, without the operating system's number.
fn innermost(error: &(dyn Error + 'static)) -> String {
    let text = chain(error).last().map(ToString::to_string).unwrap_or_default();
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut characters = text.chars();
    // `Connection refused` stands in the middle of our sentence; `TLS …` keeps its capitals.
    match (characters.next(), characters.clone().next()) {
        (Some(first), Some(second)) if second.is_lowercase() => {
            first.to_lowercase().chain(characters).collect()
        }
        _ => text.to_owned(),
    }
}

fn connect_kind(error: &(dyn Error + 'static)) -> ConnectKind {
    for cause in chain(error) {
        if let Some(tls) = cause.downcast_ref::<rustls::Error>() {
            return match tls {
                rustls::Error::InvalidCertificate(_) => ConnectKind::Untrusted,
                rustls::Error::InvalidMessage(_) => ConnectKind::NotTls,
                _ => ConnectKind::Other,
            };
        }
        match cause.downcast_ref::<io::Error>().map(io::Error::kind) {
            Some(io::ErrorKind::ConnectionRefused) => return ConnectKind::Refused,
            Some(io::ErrorKind::TimedOut) => return ConnectKind::TimedOut,
            _ if cause.to_string().starts_with("dns error") => return ConnectKind::Name,
            _ => {}
        }
    }
    ConnectKind::Other
}
