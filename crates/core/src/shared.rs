//! Parts of a room that its copies and its boards share until they are changed.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// A value that is shared with earlier copies. A read copies nothing. The first mutable access after it was shared copies the
/// value, so take one only where something changes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Shared<T>(Arc<T>);

impl<T> Shared<T> {
    /// The value as it is now, for a reader that keeps it.
    pub fn share(&self) -> Arc<T> {
        Arc::clone(&self.0)
    }
}

impl<T> From<T> for Shared<T> {
    fn from(value: T) -> Self {
        Self(Arc::new(value))
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Clone> DerefMut for Shared<T> {
    fn deref_mut(&mut self) -> &mut T {
        Arc::make_mut(&mut self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forecast::Note;
    use crate::{Board, Discipline, InletKind, Operation, Reads, Report, Room, Settings, UnixMillis, apply};

    const NOW: UnixMillis = UnixMillis(1_800_000_000_000);

    /// A room with reports, estimates, an auction and taken positions.
    fn room_with_everything() -> Room {
        let settings = Settings {
            inlet: InletKind::MaxSize,
            total_active_users: Some(50),
            discipline: Discipline::Auction,
            ..Settings::default()
        };
        let report = Report {
            reporter: "web-1".into(),
            sequence: Some(1),
            free: Some(0),
            entered: None,
            latency_p95_millis: None,
            errors_per_million: None,
            in_flight: None,
        };
        let mut room = Room::open(settings, NOW, 1);
        for operation in [Operation::Tick, Operation::Report(report), Operation::Join { count: 9 }] {
            let applied = apply(room, NOW, &operation, Reads::default());
            applied.answer.unwrap();
            room = applied.room;
        }
        let generation = room.newest().generation;
        let note = Note { generation, position: 9, made_at: NOW, p50_millis: 1, p90_millis: 2 };
        room.forecast.notes.push_back(note);
        room
    }

    #[test]
    fn a_join_copies_neither_reports_nor_estimates_nor_open_wins() {
        let room = room_with_everything();
        let before = Board::of(&room);
        let joined = apply(room, NOW.plus(1), &Operation::Join { count: 1 }, Reads::default());
        joined.answer.unwrap();
        let after = Board::of(&joined.room);
        assert_eq!(after.waiting, before.waiting + 1);
        assert!(Arc::ptr_eq(&before.settings, &after.settings));
        assert!(Arc::ptr_eq(&before.reports, &after.reports));
        assert!(Arc::ptr_eq(&before.forecast, &after.forecast));
        assert!(Arc::ptr_eq(&before.pace, &after.pace));
        assert!(Arc::ptr_eq(before.auction.as_ref().unwrap(), after.auction.as_ref().unwrap()));
        assert!(Arc::ptr_eq(&before.departed, &after.departed));
        assert!(Arc::ptr_eq(&before.segments[0].steps, &after.segments[0].steps));
    }

    /// An owner on a shared store keeps a copy of its room at every turn.
    #[test]
    fn a_copy_of_a_room_shares_its_larger_parts_until_one_of_them_changes() {
        let mut room = room_with_everything();
        room.segments[0].taken.insert(3);
        let copy = room.clone();
        let chunk = |room: &Room| std::ptr::from_ref(room.segments[0].taken.chunk(0).unwrap());
        assert_eq!(chunk(&room), chunk(&copy));
        assert!(Arc::ptr_eq(&room.settings.share(), &copy.settings.share()));
        assert!(Arc::ptr_eq(&room.reports.share(), &copy.reports.share()));
        assert!(Arc::ptr_eq(&room.forecast.share(), &copy.forecast.share()));
        assert!(Arc::ptr_eq(&room.segments[0].steps.share(), &copy.segments[0].steps.share()));
        room.segments[0].taken.insert(4);
        assert_ne!(chunk(&room), chunk(&copy));
        assert!(Arc::ptr_eq(&room.reports.share(), &copy.reports.share()), "the rest stays shared");
    }

    #[test]
    fn a_change_is_not_seen_by_what_was_shared_before() {
        let mut room = room_with_everything();
        let (copy, board) = (room.clone(), Board::of(&room));
        room.forecast.checked += 1;
        room.segments[0].taken.insert(3);
        assert_eq!(board.forecast.checked + 1, room.forecast.checked);
        assert!(room.segments[0].taken.contains(3) && !copy.segments[0].taken.contains(3));
        assert_eq!(Board::of(&copy), board);
    }
}
