//! One word that ends everything: who may say it ([`Trigger`]), who hears it ([`Shutdown`]), and the operating system's
//! ways of saying it ([`signals`]).
//!
//! The parts of the server get a [`Shutdown`] and never see a signal, so tests stop a server by pulling a trigger.

use std::io;
use std::task::Poll;

use tokio::signal::unix;
use tokio::sync::watch;

/// A connected pair: pull the trigger, and every clone of the other half hears it.
pub fn channel() -> (Trigger, Shutdown) {
    let (sender, receiver) = watch::channel(false);
    (Trigger(sender), Shutdown(receiver))
}

/// The right to ask for a shutdown.
///
/// Dropping it asks too: an owner that is gone must not leave behind a server that cannot be stopped.
#[derive(Debug)]
pub struct Trigger(watch::Sender<bool>);

impl Trigger {
    /// Asks every holder of a [`Shutdown`] to finish. Asking twice changes nothing.
    pub fn pull(&self) {
        self.0.send_replace(true);
    }
}

/// Hears whether a shutdown was asked for. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Shutdown(watch::Receiver<bool>);

impl Shutdown {
    /// Resolves once a shutdown was asked for, at once if that is already so.
    pub async fn requested(&self) {
        let mut receiver = self.0.clone();
        // The error means that the trigger is gone, which counts as asking.
        let _ = receiver.wait_for(|requested| *requested).await;
    }

    /// Whether a shutdown was asked for.
    pub fn is_requested(&self) -> bool {
        *self.0.borrow() || self.0.has_changed().is_err()
    }
}

/// What the operating system asks of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// SIGTERM, from a service manager. The first one means drain; what a second one means is the caller's decision.
    Terminate,
    /// SIGINT, from a terminal. Treated like [`Signal::Terminate`].
    Interrupt,
    /// SIGHUP: read the certificates again, or the terminal is gone; which of them is the caller's decision.
    Hangup,
}

/// Starts to listen for signals. From this call on they no longer end the process by themselves.
pub fn signals() -> io::Result<Signals> {
    Ok(Signals {
        terminate: unix::signal(unix::SignalKind::terminate())?,
        interrupt: unix::signal(unix::SignalKind::interrupt())?,
        hangup: unix::signal(unix::SignalKind::hangup())?,
    })
}

/// The signals of this process, one after the other.
#[derive(Debug)]
pub struct Signals {
    terminate: unix::Signal,
    interrupt: unix::Signal,
    hangup: unix::Signal,
}

impl Signals {
    /// The next signal of any kind.
    pub async fn next(&mut self) -> Signal {
        std::future::poll_fn(|context| {
            // Requests to stop come first, so that a flood of hangups cannot delay them.
            if self.terminate.poll_recv(context).is_ready() {
                return Poll::Ready(Signal::Terminate);
            }
            if self.interrupt.poll_recv(context).is_ready() {
                return Poll::Ready(Signal::Interrupt);
            }
            self.hangup.poll_recv(context).map(|_| Signal::Hangup)
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::Duration;

    use super::*;

    const DEADLINE: Duration = Duration::from_secs(10);

    #[tokio::test]
    async fn every_clone_hears_the_trigger() {
        let (trigger, shutdown) = channel();
        let clone = shutdown.clone();
        assert!(!clone.is_requested());
        let both = async {
            tokio::join!(shutdown.requested(), clone.requested());
        };
        let mut both = std::pin::pin!(both);
        let early = tokio::select! { biased; () = &mut both => true, () = std::future::ready(()) => false };
        assert!(!early, "nobody asked yet");

        trigger.pull();
        tokio::time::timeout(DEADLINE, both).await.expect("both heard it");
        assert!(clone.is_requested());
    }

    #[tokio::test]
    async fn a_dropped_trigger_counts_as_pulled() {
        let (trigger, shutdown) = channel();
        drop(trigger);
        assert!(shutdown.is_requested());
        tokio::time::timeout(DEADLINE, shutdown.requested()).await.expect("heard");
    }

    #[tokio::test]
    async fn signals_arrive_one_after_the_other() {
        let mut signals = signals().unwrap();
        let send = |name: &str| {
            // The shell's own kill, because small images have no program of that name.
            let command = format!("kill -s {name} {}", std::process::id());
            assert!(Command::new("sh").args(["-c", &command]).status().unwrap().success());
        };
        for (name, expected) in
            [("HUP", Signal::Hangup), ("TERM", Signal::Terminate), ("INT", Signal::Interrupt)]
        {
            send(name);
            let received = tokio::time::timeout(DEADLINE, signals.next()).await.expect("a signal");
            assert_eq!(received, expected);
        }
    }
}
