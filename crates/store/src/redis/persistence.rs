//! Asking again while the servers do not answer: for what takes long anyway, and may be asked again without harm.

use std::time::Duration;

/// How long it is asked again.
pub(super) const PERSISTENCE: Duration = Duration::from_secs(40);
/// How long to wait in between.
pub(super) const PERSISTENCE_PAUSE: Duration = Duration::from_millis(100);

/// Asks until there is an answer, or an error that stays.
macro_rules! persist {
    ($question:expr) => {{
        let watch = crate::clock::Stopwatch::start();
        loop {
            match $question.await {
                Err(crate::contract::StoreError::Transient(_))
                    if watch.elapsed() < super::persistence::PERSISTENCE =>
                {
                    tokio::time::sleep(super::persistence::PERSISTENCE_PAUSE).await;
                }
                answered => break answered,
            }
        }
    }};
}

pub(super) use persist;
