//! How often each operation went wrong: what the server's own alarms watch.
//!
//! Only what failed is counted, so what works costs nothing.

use std::sync::atomic::{AtomicU64, Ordering};

use anteroom_core::Refusal;
use anteroom_core::alarms::OPERATIONS;

use super::{EngineError, count};

/// What went wrong with each of [`OPERATIONS`].
#[derive(Debug, Default)]
pub struct Troubles([Trouble; OPERATIONS.len()]);

#[derive(Debug, Default)]
struct Trouble {
    errors: AtomicU64,
    refusals: AtomicU64,
}

impl Troubles {
    /// Errors and refusals of each operation so far, in the order of [`OPERATIONS`].
    pub fn totals(&self) -> [(u64, u64); OPERATIONS.len()] {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        std::array::from_fn(|index| (read(&self.0[index].errors), read(&self.0[index].refusals)))
    }

    /// Counts what an operation of this name ended with. Not a refusal: being told to wait for one's turn, and a change computed
    /// from what is no longer there, which is computed anew. Not an error: a restore or the end of the server, which are an
    /// operator's doing.
    pub(super) fn note(&self, operation: &str, error: &EngineError) {
        if let EngineError::Refused(Refusal::NotServed | Refusal::Changed) = error {
            return;
        }
        let Some(index) = OPERATIONS.iter().position(|name| *name == operation) else { return };
        match error {
            EngineError::Refused(_) | EngineError::Overloaded | EngineError::RoomDeleted => {
                count(&self.0[index].refusals, 1);
            }
            EngineError::Store(_) => count(&self.0[index].errors, 1),
            EngineError::Restoring | EngineError::Stopped => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use anteroom_core::{Operation, RoomState};

    use super::*;
    use crate::contract::StoreError;

    #[test]
    fn errors_and_refusals_are_told_apart_by_operation() {
        let troubles = Troubles::default();
        troubles.note("join", &EngineError::Refused(Refusal::NotJoinable(RoomState::Closed)));
        troubles.note("join", &EngineError::Overloaded);
        troubles.note("join", &EngineError::Store(StoreError::Ambiguous("no answer".into())));
        troubles.note("claim", &EngineError::Refused(Refusal::NotServed));
        troubles.note("change", &EngineError::Refused(Refusal::Changed));
        troubles.note(Operation::Tick.name(), &EngineError::Overloaded);
        let of = |name: &str| troubles.totals()[OPERATIONS.iter().position(|one| *one == name).unwrap()];
        assert_eq!((of("join"), of("claim"), of("change")), ((1, 2), (0, 0), (0, 0)));
    }
}
