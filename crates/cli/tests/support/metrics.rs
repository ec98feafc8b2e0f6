//! Figures of `/metrics`.

use std::time::Duration;

use anteroom_testkit::{Server, wait_for};

/// How long a figure may take. Generous: what is tested is that it comes, not how fast.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A figure of `/metrics` that counts something, by its whole name with labels.
#[track_caller]
pub(crate) fn metric(server: &Server, series: &str) -> u64 {
    let text = server.operator().get("/metrics").expect("an answer").text();
    let value = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    value.unwrap_or_else(|| panic!("no {series} in\n{text}")).parse().expect("a whole number")
}

/// Waits until a figure of `/metrics` is as expected.
#[track_caller]
pub(crate) fn wait_for_metric(server: &Server, series: &str, expected: impl Fn(u64) -> bool) -> u64 {
    wait_for(&format!("{series} is as expected"), TIMEOUT, || {
        Some(metric(server, series)).filter(|value| expected(*value))
    })
}
