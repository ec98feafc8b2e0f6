//! Reads while a shared store is lost: they go on from the last board, say how old it may be, and end after a bounded time.
//!
//! From [`STALE_AFTER`] on, an answer from a board carries `Anteroom-Stale: SECONDS`, our own JSON also `stale_seconds`, and live
//! streams get an event. Such a response has no tag and is not to be stored: a cache must neither keep the mark after it
//! is over, nor hide it. After `stale_reads_max_seconds` there is 503. Writes are refused from the first moment on.

use std::sync::Arc;
use std::time::Duration;

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use tokio::time::MissedTickBehavior;

use crate::app::App;
use crate::http::error::ApiError;
use crate::ops::shutdown::Shutdown;

/// From this age on what a board says is marked. The store is asked four times a second, so this many seconds without an answer are
/// no accident.
const STALE_AFTER: Duration = Duration::from_secs(2);
/// How often live streams are compared with how things stand.
const LOOK_PERIOD: Duration = Duration::from_millis(500);
/// Live streams are sent the age again when it has grown by so much.
const TOLD_AGAIN_SECONDS: u64 = 10;
/// The mark.
const STALE: HeaderName = HeaderName::from_static("anteroom-stale");

/// How much boards can be relied on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Freshness {
    /// As new as they ever are.
    Fresh,
    /// The store was last heard of so many seconds ago.
    Stale { seconds: u64 },
    /// The same, and it is too long ago.
    TooOld { seconds: u64 },
}

impl Freshness {
    fn of(age: Duration, max: Duration) -> Self {
        let seconds = age.as_secs();
        if age <= STALE_AFTER {
            Self::Fresh
        } else if age <= max {
            Self::Stale { seconds }
        } else {
            Self::TooOld { seconds }
        }
    }

    /// The age, where it is to be reported.
    pub(crate) const fn stale_seconds(self) -> Option<u64> {
        match self {
            Self::Fresh => None,
            Self::Stale { seconds } | Self::TooOld { seconds } => Some(seconds),
        }
    }
}

impl App {
    /// How much boards can be relied on now.
    pub(crate) fn freshness(&self) -> Freshness {
        Freshness::of(self.engine.staleness(), self.stale_reads_max)
    }

    /// Refuses a read from a board that is too old.
    pub(crate) fn refuse_what_is_too_old(&self) -> Result<(), ApiError> {
        match self.freshness() {
            Freshness::Fresh | Freshness::Stale { .. } => Ok(()),
            Freshness::TooOld { seconds } => Err(ApiError::unavailable(store_is_lost(seconds))),
        }
    }
}

/// The text of the response while the store does not answer.
pub(crate) fn store_is_lost(seconds: u64) -> String {
    format!("The store has not answered for {seconds} seconds")
}

/// Marks an answer from a board, if need be.
pub(crate) fn mark(headers: &mut HeaderMap, freshness: Freshness) {
    if let Some(seconds) = freshness.stale_seconds() {
        headers.insert(STALE, HeaderValue::from(seconds));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
}

/// Has live streams know how things stand, until the server closes.
pub(crate) async fn run(app: Arc<App>, shutdown: Shutdown) {
    if !app.engine.store().is_shared() {
        return;
    }
    let looking = async {
        let mut clock = tokio::time::interval(LOOK_PERIOD);
        clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut told = None;
        loop {
            clock.tick().await;
            let seconds = app.freshness().stale_seconds();
            match (told, seconds) {
                (None, Some(seconds)) => {
                    tracing::warn!(seconds, "store does not answer, serving stale boards");
                }
                (Some(_), None) => tracing::info!("store answers again, serving fresh boards"),
                _ => {}
            }
            if is_worth_telling(told, seconds) {
                told = seconds;
                app.watch.tell_staleness(seconds);
            }
        }
    };
    tokio::select! {
        () = shutdown.requested() => {}
        () = looking => {}
    }
}

fn is_worth_telling(told: Option<u64>, now: Option<u64>) -> bool {
    match (told, now) {
        (None, None) => false,
        (Some(told), Some(now)) => now.abs_diff(told) >= TOLD_AGAIN_SECONDS,
        (None, Some(_)) | (Some(_), None) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_are_fresh_then_marked_then_refused() {
        let max = Duration::from_mins(5);
        let of = |millis| Freshness::of(Duration::from_millis(millis), max);
        assert_eq!(of(0), Freshness::Fresh);
        assert_eq!(of(2_000), Freshness::Fresh);
        assert_eq!(of(2_001), Freshness::Stale { seconds: 2 });
        assert_eq!(of(300_000), Freshness::Stale { seconds: 300 });
        assert_eq!(of(300_001), Freshness::TooOld { seconds: 300 });
    }

    #[test]
    fn a_marked_answer_is_not_stored() {
        let mut headers = HeaderMap::new();
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("public, max-age=1"));
        mark(&mut headers, Freshness::Fresh);
        assert_eq!(
            (headers[header::CACHE_CONTROL].to_str().unwrap(), headers.len()),
            ("public, max-age=1", 1)
        );
        mark(&mut headers, Freshness::Stale { seconds: 12 });
        assert_eq!(
            (&headers[header::CACHE_CONTROL], &headers[STALE]),
            (&HeaderValue::from_static("no-store"), &HeaderValue::from(12))
        );
    }

    #[test]
    fn streams_are_told_the_beginning_the_end_and_now_and_then_the_age() {
        assert!(!is_worth_telling(None, None));
        assert!(is_worth_telling(None, Some(2)) && is_worth_telling(Some(2), None));
        assert!(!is_worth_telling(Some(2), Some(11)) && is_worth_telling(Some(2), Some(12)));
        assert!(is_worth_telling(Some(40), Some(3)), "lost again in between");
    }
}
