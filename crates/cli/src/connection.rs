//! The way to a running server: where it is, which key opens it, and what its refusals mean for an operator.

mod refusal;

use std::fs::File;
use std::future::Future;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anteroom_server::{Permission, shutdown};
use anyhow::Context;
use bytes::Bytes;
use hyper::header::{CONTENT_TYPE, ETAG, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, StatusCode};
use secrecy::SecretString;
use secrecy::zeroize::Zeroizing;
use serde_json::Value;

use crate::duration;
use crate::failure::{Exit, Failure};
use crate::http_client::{ClientOptions, HttpClient, Reply};
use crate::output::{Format, talk};

pub(crate) use refusal::nearest;

/// The variable that holds the key, the same that gives a server its admin key.
const KEY_VARIABLE: &str = "ANTEROOM_ADMIN_KEY";
/// The largest key file that is read, in bytes: a key has some fifty.
const KEY_FILE_MAX_BYTES: u64 = 4096;
/// How long an answer may take, unless told otherwise.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// The same where the server has to work through a whole store before it can answer.
const LONG_WORK_TIMEOUT: Duration = Duration::from_mins(10);
/// The heading under which `--help` lists these options.
const HEADING: &str = "Server options";

/// Options of every command that talks to a running server.
#[derive(Debug, clap::Args)]
pub(crate) struct Connection {
    /// Where the server's private listener is
    #[arg(long, global = true, value_name = "URL", env = "ANTEROOM_URL", hide_env_values = true)]
    #[arg(default_value = "http://127.0.0.1:8081", help_heading = HEADING)]
    url: String,
    /// A file with the API key, in place of the variable `ANTEROOM_ADMIN_KEY`. No option takes the key itself, because
    /// arguments show up in lists of processes
    #[arg(long, global = true, value_name = "FILE", help_heading = HEADING)]
    key_file: Option<PathBuf>,
    /// Certificates (PEM) to trust beside the system's
    #[arg(long, global = true, value_name = "FILE", help_heading = HEADING)]
    ca_file: Option<PathBuf>,
    /// How to print: text for people, json for programs (the server's answer as it came)
    #[arg(long, global = true, value_name = "FORMAT", default_value = "text", hide_possible_values = true)]
    #[arg(value_enum, help_heading = HEADING)]
    pub(crate) format: Format,
    /// How long to wait for an answer: 30s, 2m. For large bodies: how long nothing may move [default: 30s, for restore 10m]
    #[arg(long, global = true, value_name = "TIME", value_parser = duration::parse, help_heading = HEADING)]
    timeout: Option<Duration>,
}

/// One call of the private API.
#[derive(Debug)]
pub(crate) struct Call {
    method: Method,
    path: String,
    body: Option<Value>,
    headers: HeaderMap,
    needs: Permission,
}

impl Call {
    /// A call without a body.
    pub(crate) fn new(method: Method, path: impl Into<String>, needs: Permission) -> Self {
        Self { method, path: path.into(), body: None, headers: HeaderMap::new(), needs }
    }

    /// GET.
    pub(crate) fn get(path: impl Into<String>, needs: Permission) -> Self {
        Self::new(Method::GET, path, needs)
    }

    /// POST of a JSON value.
    pub(crate) fn post(path: impl Into<String>, needs: Permission, body: Value) -> Self {
        Self::new(Method::POST, path, needs).body(body)
    }

    /// With a JSON body.
    pub(crate) fn body(mut self, body: Value) -> Self {
        self.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        self.body = Some(body);
        self
    }

    /// With a condition, `If-Match` or `If-None-Match`.
    pub(crate) fn condition(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }
}

/// A successful answer.
#[derive(Debug)]
pub(crate) struct Answer {
    /// The body as it came.
    pub(crate) text: String,
    /// The body, understood; null when there is none.
    pub(crate) json: Value,
    /// The entity tag as it came.
    pub(crate) etag: Option<HeaderValue>,
}

impl Connection {
    /// Runs a command against the server until it is done, or until it is interrupted.
    pub(crate) fn run<F>(self, command: impl FnOnce(Operator) -> F) -> anyhow::Result<()>
    where
        F: Future<Output = anyhow::Result<()>>,
    {
        let operator = self.operator()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let outcome = runtime.block_on(async {
            let mut signals = shutdown::signals()?;
            tokio::select! {
                outcome = command(operator) => outcome,
                // Dropping the command drops what it has half done, such as the file of a download.
                _ = signals.next() => Err(Failure::new(Exit::Interrupted, "interrupted").into()),
            }
        });
        // A thread that still reads a file must not hold up the end.
        runtime.shutdown_background();
        outcome
    }

    /// The same with a longer timeout, unless one was given.
    pub(crate) fn for_long_work(mut self) -> Self {
        self.timeout = self.timeout.or(Some(LONG_WORK_TIMEOUT));
        self
    }

    fn operator(self) -> anyhow::Result<Operator> {
        let mut options = ClientOptions::new(&*self.url);
        options.key = Some(key(self.key_file.as_deref())?);
        options.ca_file = self.ca_file;
        options.request_timeout = self.timeout.unwrap_or(ANSWER_TIMEOUT);
        options.connect_timeout = options.connect_timeout.min(options.request_timeout);
        let client = HttpClient::new(&options)?;
        if leaves_in_clear(&self.url) {
            talk("warning: the key travels in clear text; use https, or a tunnel to the server's loopback");
        }
        Ok(Operator { client, format: self.format })
    }
}

/// The key, from the file if one is named, else from the environment.
pub(crate) fn key(file: Option<&Path>) -> anyhow::Result<SecretString> {
    Ok(any_key(file)?.ok_or_else(no_key)?)
}

/// The same; none if there is none.
fn any_key(file: Option<&Path>) -> anyhow::Result<Option<SecretString>> {
    let key = if let Some(path) = file {
        let unreadable =
            || Failure::new(Exit::CommandLine, format!("cannot read the key file {}", path.display()));
        let mut text = Zeroizing::new(String::new());
        let opened = File::open(path).with_context(unreadable)?;
        opened.take(KEY_FILE_MAX_BYTES).read_to_string(&mut text).with_context(unreadable)?;
        text
    } else {
        Zeroizing::new(std::env::var(KEY_VARIABLE).unwrap_or_default())
    };
    let key = key.trim();
    Ok((!key.is_empty()).then(|| SecretString::from(key)))
}

fn no_key() -> Failure {
    Failure::new(Exit::CommandLine, "there is no API key to show to the server").hint(
        "set ANTEROOM_ADMIN_KEY, or name a file that holds the key with --key-file; the first start of a server prints \
         one, `anteroom key create NAME --role admin --offline` makes one with the server stopped",
    )
}

/// Whether others on the network could read the key.
pub(crate) fn leaves_in_clear(url: &str) -> bool {
    let Some(rest) = url.trim().strip_prefix("http://") else { return false };
    let authority = rest.split('/').next().unwrap_or_default();
    let host = match authority.strip_prefix('[') {
        Some(bracketed) => bracketed.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    };
    let is_loopback = host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
    !is_loopback && host != "localhost"
}

/// An operator with a key, talking to a server.
pub(crate) struct Operator {
    client: HttpClient,
    /// How to print.
    pub(crate) format: Format,
}

impl Operator {
    /// Makes a call, and turns everything but success into a failure with a hint.
    pub(crate) async fn call(&self, call: Call) -> anyhow::Result<Answer> {
        let body = call.body.as_ref().map(|body| Bytes::from(body.to_string()));
        let reply = self.client.request(call.method, &call.path, call.headers, body).await?;
        self.parse_answer(&reply, call.needs)
    }

    /// GETs a body of any size into `writer` and says how many bytes it had.
    pub(crate) async fn download(
        &self,
        path: &str,
        needs: Permission,
        writer: &mut (impl tokio::io::AsyncWrite + Unpin),
    ) -> anyhow::Result<u64> {
        let (reply, bytes) = self.client.download(path, HeaderMap::new(), writer).await?;
        if reply.status.is_success() {
            Ok(bytes)
        } else {
            Err(refusal::failure(&reply, needs, self.client.target()).into())
        }
    }

    /// POSTs a file of any size.
    pub(crate) async fn upload(&self, path: &str, needs: Permission, file: &Path) -> anyhow::Result<Answer> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
        let reply = self.client.upload(Method::POST, path, headers, file).await?;
        self.parse_answer(&reply, needs)
    }

    fn parse_answer(&self, reply: &Reply, needs: Permission) -> anyhow::Result<Answer> {
        if !reply.status.is_success() {
            return Err(refusal::failure(reply, needs, self.client.target()).into());
        }
        let etag = reply.headers.get(ETAG).cloned();
        let text = String::from_utf8_lossy(&reply.body).into_owned();
        if reply.status == StatusCode::NO_CONTENT || text.is_empty() {
            return Ok(Answer { text, json: Value::Null, etag });
        }
        let Ok(json) = serde_json::from_str(&text) else {
            return Err(self.not_our_server("the answer is not JSON").into());
        };
        Ok(Answer { text, json, etag })
    }

    /// What answers there does not speak our private API.
    pub(crate) fn not_our_server(&self, reason: &str) -> Failure {
        let what =
            format!("{} is not the private listener of an Anteroom server: {reason}", self.client.target());
        Failure::new(Exit::Failed, what).hint(refusal::WHICH_LISTENER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_leave_in_clear_only_over_http_to_another_machine() {
        for url in ["http://127.0.0.1:8081", "http://localhost", "http://[::1]:8081/x", "https://example.com"]
        {
            assert!(!leaves_in_clear(url), "{url}");
        }
        for url in
            ["http://10.0.0.1:8081", "http://example.com", "http://localhost.example.com", "http://[fe80::1]"]
        {
            assert!(leaves_in_clear(url), "{url}");
        }
    }
}
