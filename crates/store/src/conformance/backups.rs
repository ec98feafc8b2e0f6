//! Backups: what they say is checked before anything is restored.

use std::io::Cursor;
use std::sync::Arc;

use anteroom_core::{Operation, Room, Session, UnixMillis};

use super::caller::Caller;
use crate::backup::reader::{BackupError, VerifiedBackup};
use crate::backup::{BackupStream, BackupWriter, Piece};
use crate::codec;
use crate::contract::{Store, StoreError};

/// When the backups of these scenarios are taken.
pub const SOME_TIME: UnixMillis = UnixMillis(1_800_000_000_000);

/// The bytes of a backup.
pub async fn read(mut stream: BackupStream) -> Vec<u8> {
    let mut bytes = vec![];
    while let Some(piece) = stream.next().await {
        bytes.extend(piece.unwrap());
    }
    bytes
}

/// Verifies the bytes of a backup.
pub fn verify(bytes: &[u8]) -> Result<VerifiedBackup, BackupError> {
    VerifiedBackup::verify(Box::new(Cursor::new(bytes.to_vec())))
}

/// Something wrong with a room, in words and in deed.
type Change = (&'static str, fn(&mut Room));

/// A backup with a checksum that fits, of one room and so many copies of its session.
fn forge(room: &Room, sessions: &[&Session]) -> Vec<u8> {
    let mut bytes = vec![];
    let mut writer = BackupWriter::begin(SOME_TIME, |piece| {
        let (Piece::More(piece) | Piece::Last(piece)) = piece;
        bytes.extend(piece);
        Ok::<(), StoreError>(())
    });
    writer.room("room", &codec::encode_room(room)).unwrap();
    for session in sessions {
        writer.session(&codec::encode_session(session)).unwrap();
    }
    writer.finish().unwrap();
    bytes
}

pub(super) async fn a_backup_that_contradicts_itself_is_refused(store: Arc<dyn Store>) {
    let mut caller = Caller::open(&store, "room").await;
    let session = caller.admit(60).await;
    caller.perform(Operation::Join { count: 3 }).await;
    caller.perform(Operation::Advance { by: 1 }).await;
    let fine = caller.room.clone();
    verify(&forge(&fine, &[&session])).unwrap();
    let changes: [Change; 11] = [
        ("no line", |room| room.segments.clear()),
        ("a floor above the line", |room| room.segments[0].floor = 1 << 30),
        ("more claims than people", |room| room.segments[0].counts.claimed = 99),
        ("more ends than claims", |room| room.segments[0].counts.expired = 2),
        ("more exits than visitors", |room| room.exit_credits = 2),
        ("an offer too many", |room| room.segments[0].steps[0].open += 1),
        ("an offer to nobody", |room| room.segments[0].steps[0].up_to = 1 << 30),
        ("no next version", |room| room.version = u64::MAX),
        ("the end of time", |room| room.clock = UnixMillis(u64::MAX)),
        ("halted and open", |room| room.halted_since = Some(room.clock)),
        ("settings that contradict each other", |room| {
            room.settings.inlet = anteroom_core::InletKind::MaxSize;
        }),
    ];
    for (what, change) in changes {
        let mut wrong = fine.clone();
        change(&mut wrong);
        let refused = verify(&forge(&wrong, &[&session])).map(|_| ()).expect_err(what);
        let no_line = matches!(refused, BackupError::Damaged { .. }) && wrong.segments.is_empty();
        assert!(no_line || matches!(refused, BackupError::Unsound { .. }), "{what}: {refused}");
    }
    let mut second = session.clone();
    second.key.position = caller.ticket(2).position;
    let refused = verify(&forge(&fine, &[&session, &second])).unwrap_err().to_string();
    assert_eq!(refused, "the room room in the backup contradicts itself: more sessions than were begun");
    let refused = verify(&forge(&fine, &[&session, &session])).unwrap_err();
    assert!(matches!(refused, BackupError::Damaged { what: "a record out of order", .. }), "{refused}");
}
