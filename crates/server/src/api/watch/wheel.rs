//! The one wheel that sends keep-alives to quiet streams, in place of a timer for each.
//!
//! Proxies close a connection on which nothing moves, some after 15 seconds. The wheel has [`SLOTS`] slots and turns by
//! one with each tick; every stream belongs to a slot, and when its slot is up and nothing was sent to it for
//! [`QUIET_TICKS`], it gets a keep-alive. So no stream is quiet for a whole keep-alive time, and after a frame to all
//! streams their keep-alives are spread over a third of it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

/// How many slots there are.
pub(super) const SLOTS: usize = 5;
/// For how many ticks a stream may be quiet before its slot's turn brings a keep-alive.
const QUIET_TICKS: u32 = 10;
/// Ticks in one keep-alive time: quiet for so long, then found at the latest one turn later.
const KEEP_ALIVE_TICKS: u32 = QUIET_TICKS + 5;

/// Turns since the start.
pub(super) type Tick = u32;

/// How long the wheel stands between two turns.
pub(super) fn tick_length(keep_alive: Duration) -> Duration {
    keep_alive / KEEP_ALIVE_TICKS
}

/// The slot whose turn it is.
pub(super) const fn slot_of(tick: Tick) -> usize {
    tick as usize % SLOTS
}

/// Whether a stream whose slot is up has been quiet for too long.
pub(super) const fn is_quiet(now: Tick, last_sent: Tick) -> bool {
    now.wrapping_sub(last_sent) >= QUIET_TICKS
}

/// Tells streams in hyper that their slot is up; those that were taken out are notified by their hub.
#[derive(Clone)]
pub(super) struct Bells(Arc<[watch::Sender<Tick>; SLOTS]>);

impl Bells {
    pub(super) fn new() -> Self {
        Self(Arc::new(std::array::from_fn(|_| watch::Sender::new(0))))
    }

    pub(super) fn ring(&self, tick: Tick) {
        self.0[slot_of(tick)].send_replace(tick);
    }

    /// Hears a slot; streams take the slots in turn.
    pub(super) fn subscribe(&self, stream: u64) -> watch::Receiver<Tick> {
        let slot = usize::try_from(stream % SLOTS as u64).unwrap_or(0);
        self.0[slot].subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_stream_is_quiet_for_a_whole_keep_alive_time_and_none_gets_signs_of_life_it_does_not_need() {
        for slot in 0..SLOTS {
            for sent_at in 100..100 + KEEP_ALIVE_TICKS {
                let due = (sent_at + 1..1_000)
                    .find(|&tick| slot_of(tick) == slot && is_quiet(tick, sent_at))
                    .unwrap();
                let quiet = due - sent_at;
                assert!((QUIET_TICKS..KEEP_ALIVE_TICKS).contains(&quiet), "slot {slot}: quiet for {quiet}");
            }
        }
        assert_eq!(tick_length(Duration::from_secs(15)), Duration::from_secs(1));
    }

    #[test]
    fn streams_told_at_the_same_moment_are_not_due_at_the_same_moment() {
        let due = |slot| (100..1_000).find(|&tick| slot_of(tick) == slot && is_quiet(tick, 100)).unwrap();
        let mut all: Vec<Tick> = (0..SLOTS).map(due).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), SLOTS);
    }
}
