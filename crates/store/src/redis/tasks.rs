//! The one place where this store starts tasks. Those that go on by themselves end with the store.

use tokio::task::{AbortHandle, JoinHandle};

/// A task that ends by itself, soon.
#[expect(clippy::disallowed_methods, reason = "this is the store's named helper")]
pub(super) fn spawn<T: Send + 'static>(task: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
    tokio::spawn(task)
}

/// Tasks that go on until they are dropped.
#[derive(Default)]
pub(super) struct Tasks(Vec<AbortHandle>);

impl Tasks {
    pub(super) fn start(&mut self, task: impl Future<Output = ()> + Send + 'static) {
        self.0.push(spawn(task).abort_handle());
    }
}

impl Drop for Tasks {
    fn drop(&mut self) {
        for task in &self.0 {
            task.abort();
        }
    }
}
