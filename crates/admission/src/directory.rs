//! The rooms of this node by name, following those of the engine.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use anteroom_core::RoomId;
use anteroom_engine::{Engine, RoomHandle};
use anteroom_tokens::secret::MasterSecrets;
use arc_swap::ArcSwap;

use crate::room::RoomView;

/// Every room with what this node adds to it.
pub struct RoomDirectory {
    views: ArcSwap<HashMap<RoomId, Arc<RoomView>>>,
    secrets: Arc<MasterSecrets>,
    /// Held while the map is replaced, so that no change is lost.
    replacing: Mutex<()>,
}

impl RoomDirectory {
    pub(crate) fn new(secrets: Arc<MasterSecrets>) -> Self {
        Self { views: ArcSwap::default(), secrets, replacing: Mutex::default() }
    }

    /// What rooms are sealed with, for doors that seal more.
    pub fn secrets(&self) -> &MasterSecrets {
        &self.secrets
    }

    pub(crate) fn get(&self, name: &str) -> Option<Arc<RoomView>> {
        self.views.load().get(name).cloned()
    }

    /// All of them, in any order.
    pub fn all(&self) -> Vec<Arc<RoomView>> {
        self.views.load().values().cloned().collect()
    }

    pub(crate) fn only_one(&self) -> Option<Arc<RoomView>> {
        let views = self.views.load();
        let mut all = views.values();
        all.next().filter(|_| all.next().is_none()).cloned()
    }

    /// Takes in rooms the engine has gained, and lets go of those it has lost.
    pub fn follow(&self, engine: &Engine) {
        let _one_at_a_time = self.replacing.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.views.load();
        let rooms = engine.rooms();
        let known = |handle: &Arc<RoomHandle>| {
            before.get(handle.id().as_str()).filter(|view| Arc::ptr_eq(&view.handle, handle)).cloned()
        };
        if rooms.len() == before.len() && rooms.iter().all(|handle| known(handle).is_some()) {
            return;
        }
        let view = |handle: Arc<RoomHandle>| {
            let view = known(&handle).unwrap_or_else(|| Arc::new(RoomView::new(handle, &self.secrets)));
            (view.handle.id().clone(), view)
        };
        self.views.store(Arc::new(rooms.into_iter().map(view).collect()));
    }
}
