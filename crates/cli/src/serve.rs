//! `anteroom serve`: the server, from signals to exit.

use std::convert::Infallible;
use std::io::Write;

use anteroom_server::config::{Config, Loaded};
use anteroom_server::shutdown::{self, Signal, Signals, Trigger};
use anteroom_server::{Addresses, Bound, FirstStart, Hinted};
use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::logging;

/// Runs the server until it is asked to stop.
pub(crate) fn serve(loaded: Loaded) -> anyhow::Result<()> {
    let ready = |addresses: &Addresses, first_start: FirstStart| {
        let mut stdout = std::io::stdout().lock();
        // A closed stdout is no reason not to serve.
        let _ = writeln!(stdout, "public listening on {}", addresses.public);
        let _ = writeln!(stdout, "private listening on {}", addresses.private);
        if let Some(ext_authz) = &addresses.ext_authz {
            let _ = writeln!(stdout, "ext_authz listening on {ext_authz}");
        }
        let _ = stdout.flush();
        if let Some(key) = first_start.admin_key {
            say(&format!("admin key, shown only now: {key}"));
            say(
                "use it as `Authorization: Bearer …` on the private listener; to choose your own, set ANTEROOM_ADMIN_KEY",
            );
        }
    };
    run(loaded, Hangup::RereadsCertificates, ready, |_| ())
}

/// What SIGHUP means to the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hangup {
    /// A service has no terminal to lose; by custom it reads its files again.
    RereadsCertificates,
    /// The terminal is gone, and nobody is left to end it.
    Ends,
}

/// How the process was asked to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// What is under way is finished first.
    Gently,
    /// Immediately, without the usual clearing up.
    AtOnce,
}

/// Runs a server with logging and signals; `ready` is told where it listens, `stopping` is called when it is asked to
/// end, before anything is done about it.
pub(crate) fn run(
    loaded: Loaded,
    hangup: Hangup,
    ready: impl FnOnce(&Addresses, FirstStart),
    stopping: impl Fn(Stop),
) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    // Ends before the runtime does, which takes the last spans away.
    let _export = start_logging(&loaded.config, runtime.handle())?;
    runtime.block_on(async {
        let signals = shutdown::signals()?;
        let bound = Bound::bind(&loaded.config).await?;
        let (trigger, shutdown) = shutdown::channel();
        let (reread, rereading) = watch::channel(0);
        let server = anteroom_server::run(loaded, bound, shutdown, rereading, ready);
        tokio::select! {
            outcome = server => outcome,
            never = handle_signals(signals, hangup, &trigger, &reread, stopping) => match never {},
        }
    })
}

/// Refuses what this program was built without.
pub(crate) fn check_features(config: &Config) -> anyhow::Result<()> {
    if config.otlp_endpoint.is_some() && !cfg!(feature = "otlp") {
        return Err(Hinted {
            what: "otlp_endpoint is set, but this program was built without the export of spans".into(),
            hint: "build it with `cargo build --release --features otlp`, or leave the setting out".into(),
        }
        .into());
    }
    Ok(())
}

/// Starts logging. There is never an export of spans, because this program was built without.
#[cfg(not(feature = "otlp"))]
fn start_logging(config: &Config, _runtime: &Handle) -> anyhow::Result<Option<Infallible>> {
    check_features(config)?;
    logging::start(&config.log)?;
    Ok(None)
}

/// Starts logging, and the export of spans if there is a collector.
#[cfg(feature = "otlp")]
fn start_logging(config: &Config, runtime: &Handle) -> anyhow::Result<Option<crate::otlp::Export>> {
    let Some(endpoint) = &config.otlp_endpoint else {
        logging::start(&config.log)?;
        return Ok(None);
    };
    let export = crate::otlp::Export::start(endpoint, runtime)?;
    logging::start_beside(&export, &config.log)?;
    Ok(Some(export))
}

/// The first request to stop drains; the second one ends the process at once. A hang-up never counts as the second: shells and
/// service managers send it together with the signal that asks.
async fn handle_signals(
    mut signals: Signals,
    hangup: Hangup,
    trigger: &Trigger,
    reread: &watch::Sender<u64>,
    stopping: impl Fn(Stop),
) -> Infallible {
    let mut is_stopping = false;
    loop {
        match signals.next().await {
            Signal::Hangup if hangup == Hangup::RereadsCertificates => {
                reread.send_modify(|requests| *requests += 1);
            }
            Signal::Hangup if is_stopping => {}
            Signal::Terminate | Signal::Interrupt if is_stopping => {
                say("stopping at once");
                stopping(Stop::AtOnce);
                std::process::exit(130);
            }
            Signal::Terminate | Signal::Interrupt | Signal::Hangup => {
                stopping(Stop::Gently);
                say("finishing what is under way (once more to stop at once)");
                is_stopping = true;
                trigger.pull();
            }
        }
    }
}

/// Writes to standard error. A failure to write is no reason to stop.
fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}
