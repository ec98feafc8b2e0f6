//! Logs go to stderr. Only our own modules can be made talkative: others would print headers and bodies, which hold keys.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

/// Starts logging with a filter such as `info` or `anteroom_store=debug`.
pub(crate) fn start(filter: &str) -> anyhow::Result<()> {
    let filter = EnvFilter::builder().parse(limit_to_own_crates(filter)).map_err(|error| {
        anyhow::anyhow!("`log` = {filter:?} cannot be read: {error}; try \"info\" or \"debug\"")
    })?;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        // A log that cannot be written must not take down its writer.
        .log_internal_errors(false)
        .with_ansi(std::io::stderr().is_terminal())
        .try_init()
        .map_err(|error| anyhow::anyhow!("logging is already running: {error}"))
}

/// A bare level speaks of our crates; everybody else stays at warnings at most.
fn limit_to_own_crates(filter: &str) -> String {
    let mut directives = vec!["warn".to_owned()];
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
    use super::*;

    #[test]
    fn no_directive_makes_other_crates_talkative() {
        assert_eq!(limit_to_own_crates("hyper=trace,h2=trace"), "warn");
        assert_eq!(limit_to_own_crates("trace"), "warn,anteroom=trace");
        assert_eq!(limit_to_own_crates("anteroom_store=debug"), "warn,anteroom_store=debug");
    }
}
