//! Waiting for a state with a deadline: the only kind of waiting a test may do.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How long one look at a state is apart from the next.
pub const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// The monotonic clock of the tests, which watch the server from outside and so have a clock of their own.
#[expect(clippy::disallowed_methods, reason = "the tests measure the server from outside its clock")]
pub fn now() -> Instant {
    Instant::now()
}

/// The wall clock in whole seconds, to compare with times that the server tells.
#[expect(clippy::disallowed_methods, reason = "the tests measure the server from outside its clock")]
pub fn unix_seconds() -> u64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
    since_epoch.expect("the wall clock stands after 1970").as_secs()
}

/// Lets one poll interval pass.
pub fn pause() {
    thread::sleep(POLL_INTERVAL);
}

/// Looks until `look` finds something, and panics with `what` when it did not within `deadline`.
#[track_caller]
pub fn wait_for<T>(what: &str, deadline: Duration, mut look: impl FnMut() -> Option<T>) -> T {
    let started = now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(started.elapsed() < deadline, "waited {deadline:?} in vain until {what}");
        pause();
    }
}

/// Looks until `holds` is true, and panics with `what` when it did not become so within `deadline`.
#[track_caller]
pub fn wait_until(what: &str, deadline: Duration, mut holds: impl FnMut() -> bool) {
    wait_for(what, deadline, || holds().then_some(()));
}

/// Sets a flag when it goes out of scope, also by a panic: what tells the other threads of a test that it is over, so
/// that a failed test ends instead of waiting for them for ever.
#[derive(Debug)]
pub struct SetOnDrop<'a>(pub &'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_that_comes_is_returned() {
        let mut looks = 0;
        let found = wait_for("three looks were taken", Duration::from_secs(5), || {
            looks += 1;
            (looks == 3).then_some(looks)
        });
        assert_eq!(found, 3);
    }

    #[test]
    fn a_panic_sets_the_flag_on_its_way_out() {
        let over = AtomicBool::new(false);
        let panicked = std::panic::catch_unwind(|| {
            let _end = SetOnDrop(&over);
            panic!("for the test");
        });
        assert!(panicked.is_err() && over.load(Ordering::SeqCst));
    }

    #[test]
    #[should_panic(expected = "in vain until pigs fly")]
    fn a_state_that_never_comes_panics_with_its_name() {
        wait_until("pigs fly", Duration::from_millis(30), || false);
    }
}
