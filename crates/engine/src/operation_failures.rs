//! How often each operation failed: what the server's own alarms watch.
//!
//! Only failures are counted, so what succeeds costs nothing.

use std::sync::atomic::{AtomicU64, Ordering};

use anteroom_core::Refusal;
use anteroom_core::alarms::OPERATIONS;

use crate::EngineError;
use crate::counters::count;

/// The failures of each of [`OPERATIONS`].
#[derive(Debug, Default)]
pub struct OperationFailures([FailureCounts; OPERATIONS.len()]);

#[derive(Debug, Default)]
struct FailureCounts {
    errors: AtomicU64,
    refusals: AtomicU64,
}

impl OperationFailures {
    /// Errors and refusals of each operation so far, in the order of [`OPERATIONS`].
    pub fn totals(&self) -> [(u64, u64); OPERATIONS.len()] {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        std::array::from_fn(|index| (read(&self.0[index].errors), read(&self.0[index].refusals)))
    }

    /// Counts the error that an operation of this name ended with. Not a refusal: having to wait for one's turn, and a
    /// change computed from an outdated room, which is computed anew. Not an error: a restore or the end of the server,
    /// which are an operator's doing.
    pub(super) fn note(&self, operation: &str, error: &EngineError) {
        if let EngineError::Refused(Refusal::NotServed | Refusal::Changed) = error {
            return;
        }
        let Some(index) = OPERATIONS.iter().position(|name| *name == operation) else { return };
        match error {
            EngineError::Refused(_) | EngineError::Overloaded | EngineError::RoomDeleted => {
                count(&self.0[index].refusals, 1);
            }
            EngineError::Store(_) | EngineError::Panicked => count(&self.0[index].errors, 1),
            EngineError::Restoring | EngineError::Stopped => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use anteroom_core::{Operation, RoomState};

    use super::*;
    use anteroom_store::contract::StoreError;

    #[test]
    fn errors_and_refusals_are_counted_by_operation() {
        let failures = OperationFailures::default();
        failures.note("join", &EngineError::Refused(Refusal::NotJoinable(RoomState::Closed)));
        failures.note("join", &EngineError::Overloaded);
        failures.note("join", &EngineError::Store(StoreError::Ambiguous("no answer".into())));
        failures.note("claim", &EngineError::Refused(Refusal::NotServed));
        failures.note("change", &EngineError::Refused(Refusal::Changed));
        failures.note(Operation::Tick.name(), &EngineError::Overloaded);
        let of = |name: &str| failures.totals()[OPERATIONS.iter().position(|one| *one == name).unwrap()];
        assert_eq!((of("join"), of("claim"), of("change")), ((1, 2), (0, 0), (0, 0)));
    }
}
