//! Logs go to stderr. Only our own modules can be made talkative: others would print headers and bodies, which hold keys.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

/// Starts logging with a filter such as `info` or `anteroom_store=debug`.
pub(crate) fn start(filter: &str) -> anyhow::Result<()> {
    tracing_subscriber::fmt()
        .with_env_filter(read(filter)?)
        .with_writer(std::io::stderr)
        // A log that cannot be written must not take down its writer.
        .log_internal_errors(false)
        .with_ansi(std::io::stderr().is_terminal())
        .try_init()
        .map_err(|error| anyhow::anyhow!("logging is already running: {error}"))
}

/// The same, beside spans that go to a collector.
#[cfg(feature = "otlp")]
pub(crate) fn start_beside(export: &crate::otlp::Export, filter: &str) -> anyhow::Result<()> {
    use tracing_subscriber::layer::{Layer, SubscriberExt};
    use tracing_subscriber::util::SubscriberInitExt;

    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .log_internal_errors(false)
        .with_ansi(std::io::stderr().is_terminal())
        .with_filter(read(filter)?);
    tracing_subscriber::registry()
        .with(lines)
        .with(export.layer())
        .try_init()
        .map_err(|error| anyhow::anyhow!("logging is already running: {error}"))
}

fn read(filter: &str) -> anyhow::Result<EnvFilter> {
    EnvFilter::builder().parse(limit_to_own_crates(filter)).map_err(|error| {
        anyhow::anyhow!("`log` = {filter:?} cannot be read: {error}; try \"info\" or \"debug\"")
    })
}

/// Crates that read what clients send, and warn about it: a client must not be able to fill the log.
const CRATES_THAT_READ_CLIENTS: [&str; 4] = ["h2", "hyper", "hyper_util", "rustls"];

/// A bare level speaks of our crates; everybody else stays at warnings at most.
fn limit_to_own_crates(filter: &str) -> String {
    let mut directives = vec!["warn".to_owned()];
    directives.extend(CRATES_THAT_READ_CLIENTS.map(|name| format!("{name}=error")));
    for directive in filter.split(',').map(str::trim).filter(|directive| !directive.is_empty()) {
        if directive.contains('=') {
            let ours = directive.starts_with("anteroom");
            directives.extend(ours.then(|| directive.to_owned()));
        } else if directive.starts_with("anteroom") {
            directives.push(directive.to_owned());
        } else {
            // A target of a filter is a prefix, so this one names all our crates.
            directives.push(format!("anteroom={directive}"));
        }
    }
    directives.join(",")
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use super::*;

    const OTHERS: &str = "warn,h2=error,hyper=error,hyper_util=error,rustls=error";

    #[test]
    fn no_directive_makes_other_crates_talkative() {
        assert_eq!(limit_to_own_crates("hyper=trace,h2=trace"), OTHERS);
        assert_eq!(limit_to_own_crates("trace"), format!("{OTHERS},anteroom=trace"));
        assert_eq!(limit_to_own_crates("anteroom_store=debug"), format!("{OTHERS},anteroom_store=debug"));
    }

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_client_that_sends_unasked_ping_acknowledgements_writes_no_log() {
        let written = Written::default();
        let to = written.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_env_filter(EnvFilter::new(limit_to_own_crates("trace")))
            .with_writer(move || to.clone())
            .finish();
        tracing::subscriber::with_default(subscriber, || {
            tracing::warn!(target: "h2::proto::ping_pong", "recv PING ack that we never sent");
            tracing::warn!(target: "redis::client", "of somebody else");
            tracing::info!(target: "anteroom_store", "of ours");
        });
        let text = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
        assert!(text.contains("of somebody else") && text.contains("of ours"), "{text}");
        assert!(!text.contains("PING"), "{text}");
    }
}
