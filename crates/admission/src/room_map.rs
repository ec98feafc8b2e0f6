//! Rooms by name, each wrapped in what one layer adds to it. Readers never wait.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use anteroom_core::RoomId;
use arc_swap::ArcSwap;

/// A room as one layer has it, around the room of the layer below.
pub trait RoomLayer {
    /// The room of the layer below.
    type Inner;

    /// The room that this one is around.
    fn inner(&self) -> &Arc<Self::Inner>;

    /// The name of a room of the layer below.
    fn id_of(inner: &Self::Inner) -> &RoomId;
}

type Rooms<Room> = HashMap<RoomId, Arc<Room>>;

/// The rooms of one layer. Each stays the same as long as its inner room does.
pub struct RoomMap<Room> {
    rooms: ArcSwap<Rooms<Room>>,
    /// Held while the map is replaced, so that no change is lost.
    replacing: Mutex<()>,
}

impl<Room> Default for RoomMap<Room> {
    fn default() -> Self {
        Self { rooms: ArcSwap::default(), replacing: Mutex::default() }
    }
}

impl<Room: RoomLayer> RoomMap<Room> {
    /// The room of a name, exactly as it was written.
    pub fn get(&self, name: &str) -> Option<Arc<Room>> {
        self.rooms.load().get(name).cloned()
    }

    /// All of them, in any order.
    pub fn all(&self) -> Vec<Arc<Room>> {
        self.rooms.load().values().cloned().collect()
    }

    /// The room, where there is exactly one.
    pub fn only_one(&self) -> Option<Arc<Room>> {
        let rooms = self.rooms.load();
        let mut all = rooms.values();
        all.next().filter(|_| all.next().is_none()).cloned()
    }

    /// The room around an inner room; built now if it is new.
    pub fn get_or_add(
        &self,
        inner: &Arc<Room::Inner>,
        build: impl FnOnce(Arc<Room::Inner>) -> Room,
    ) -> Arc<Room> {
        if let Some(room) = around(&self.rooms.load(), inner) {
            return room;
        }
        let _one_at_a_time = self.replacing.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.rooms.load();
        around(&before, inner).unwrap_or_else(|| {
            let room = Arc::new(build(Arc::clone(inner)));
            let mut rooms = HashMap::clone(&before);
            rooms.insert(Room::id_of(inner).clone(), Arc::clone(&room));
            self.rooms.store(Arc::new(rooms));
            room
        })
    }

    /// Builds rooms that the layer below has gained, and lets go of those it has lost. The list is read under the lock, so
    /// that an older one never replaces a newer one.
    pub fn follow(
        &self,
        list: impl FnOnce() -> Vec<Arc<Room::Inner>>,
        build: impl Fn(Arc<Room::Inner>) -> Room,
    ) {
        let _one_at_a_time = self.replacing.lock().unwrap_or_else(PoisonError::into_inner);
        let (before, inner_rooms) = (self.rooms.load(), list());
        let is_known = |inner: &Arc<Room::Inner>| around(&before, inner).is_some();
        if inner_rooms.len() == before.len() && inner_rooms.iter().all(is_known) {
            return;
        }
        let room = |inner: Arc<Room::Inner>| {
            let id = Room::id_of(&inner).clone();
            (id, around(&before, &inner).unwrap_or_else(|| Arc::new(build(inner))))
        };
        self.rooms.store(Arc::new(inner_rooms.into_iter().map(room).collect()));
    }
}

/// The room around an inner room, if there is one.
fn around<Room: RoomLayer>(rooms: &Rooms<Room>, inner: &Arc<Room::Inner>) -> Option<Arc<Room>> {
    rooms.get(Room::id_of(inner).as_str()).filter(|room| Arc::ptr_eq(room.inner(), inner)).cloned()
}
