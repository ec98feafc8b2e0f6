//! A timeout that costs nothing while it is not needed.
//!
//! A timer set and cleared for every request would be the most expensive part of a request. So one timer per connection
//! is set for the shortest timeout that could apply, whenever it has run down; only then is it checked whether the
//! timeout has really passed.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use anteroom_store::clock::Stopwatch;
use tokio::time::Sleep;

/// How long a wait has lasted, and how long it may last.
#[derive(Debug)]
pub(super) struct WaitTimeout {
    /// Rings at the end of the shortest wait that could have begun, or before.
    timer: Pin<Box<Sleep>>,
    /// No wait is shorter than this.
    shortest: Duration,
    allowed: Duration,
    waiting: Stopwatch,
}

impl WaitTimeout {
    /// For waits that are never shorter than `shortest`.
    pub(super) fn new(shortest: Duration) -> Self {
        let timer = Box::pin(tokio::time::sleep(shortest));
        Self { timer, shortest, allowed: shortest, waiting: Stopwatch::start() }
    }

    /// A new wait begins.
    pub(super) fn begin(&mut self, allowed: Duration) {
        self.allowed = allowed.max(self.shortest);
        self.waiting = Stopwatch::start();
    }

    /// How long this wait has lasted.
    pub(super) fn waited(&self) -> Duration {
        self.waiting.elapsed()
    }

    /// Ready when it has lasted too long.
    pub(super) fn poll_over(&mut self, context: &mut Context<'_>) -> Poll<()> {
        while self.timer.as_mut().poll(context).is_ready() {
            let Some(rest) = self.allowed.checked_sub(self.waiting.elapsed()).filter(|rest| !rest.is_zero())
            else {
                return Poll::Ready(());
            };
            self.timer.set(tokio::time::sleep(rest.min(self.shortest)));
        }
        Poll::Pending
    }
}
