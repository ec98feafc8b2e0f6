//! The rooms of this node by name, following those of the engine.

use std::sync::Arc;

use anteroom_core::RoomId;
use anteroom_engine::{Engine, RoomHandle};
use anteroom_tokens::secret::MasterSecrets;

use crate::room::RoomView;
use crate::room_map::{RoomLayer, RoomMap};

/// Every room with what this node adds to it.
pub struct RoomDirectory {
    views: RoomMap<RoomView>,
    secrets: Arc<MasterSecrets>,
}

impl RoomLayer for RoomView {
    type Inner = RoomHandle;

    fn inner(&self) -> &Arc<RoomHandle> {
        &self.handle
    }

    fn id_of(handle: &RoomHandle) -> &RoomId {
        handle.id()
    }
}

impl RoomDirectory {
    pub(crate) fn new(secrets: Arc<MasterSecrets>) -> Self {
        Self { views: RoomMap::default(), secrets }
    }

    /// What rooms are sealed with, for doors that seal more.
    pub fn secrets(&self) -> &MasterSecrets {
        &self.secrets
    }

    pub(crate) fn get(&self, name: &str) -> Option<Arc<RoomView>> {
        self.views.get(name)
    }

    /// All of them, in any order.
    pub fn all(&self) -> Vec<Arc<RoomView>> {
        self.views.all()
    }

    pub(crate) fn only_one(&self) -> Option<Arc<RoomView>> {
        self.views.only_one()
    }

    /// Takes in rooms the engine has gained, and lets go of those it has lost.
    pub fn follow(&self, engine: &Engine) {
        self.views.follow(|| engine.rooms(), |handle| RoomView::new(handle, &self.secrets));
    }
}
