//! Sessions: by key, and by when they end. Indexes have positions only; a visitor's identity is sealed in their session.

use anteroom_core::{Generation, Position, RequestId, RoomId, Session, SessionKey, UnixMillis};

use super::command::{Command, CommandTimeout, Intent};
use super::keys::Keys;
use super::reply::read;
use super::{ContentResult, Inner};
use crate::codec;
use crate::contract::StoreError;

/// How many sessions are read at a time.
const PAGE: usize = 1_000;
/// Scores are exact up to here; later moments mean "for ever".
const EXACT_SCORE_MAX: u64 = 1 << 53;

/// A moment as the last of a range.
fn up_to(at: UnixMillis) -> String {
    if at.0 > EXACT_SCORE_MAX { "+inf".to_owned() } else { at.0.to_string() }
}

/// A moment as what a range ends before.
fn before(at: UnixMillis) -> String {
    if at.0 > EXACT_SCORE_MAX { "+inf".to_owned() } else { format!("({}", at.0) }
}

impl Inner {
    /// Several sessions, in the order asked for.
    pub(super) async fn sessions(
        &self,
        keys: &Keys,
        room: &RoomId,
        wanted: &[SessionKey],
    ) -> ContentResult<Vec<Option<Session>>> {
        let mut sessions = vec![];
        for page in wanted.chunks(PAGE) {
            let get = |key: &SessionKey| {
                let command = Command::plain(&room.into(), "HGET").arg(keys.sessions(room, key.generation));
                command.arg(&key.position.get().to_be_bytes()[..])
            };
            let commands: Vec<Command> = page.iter().map(get).collect();
            for answer in self.connections.all(&commands, Intent::Read, CommandTimeout::Long).await? {
                let bytes: Option<Vec<u8>> = read(answer)?;
                sessions.push(bytes.map(|bytes| self.session_of(&bytes)).transpose()?);
            }
        }
        Ok(Some(sessions))
    }

    pub(super) fn session_of(&self, sealed: &[u8]) -> Result<Session, StoreError> {
        let bytes = self.open_record(sealed, "session")?;
        codec::decode_session(&bytes).map_err(|error| StoreError::Permanent(error.to_string()))
    }

    pub(super) async fn sessions_ended(
        &self,
        keys: &Keys,
        room: &RoomId,
        generations: &[Generation],
        until: UnixMillis,
        limit: usize,
    ) -> ContentResult<Vec<Session>> {
        let index = |&generation: &Generation| {
            let command = Command::plain(&room.into(), "ZRANGEBYSCORE").arg(keys.ending(room, generation));
            let limit = isize::try_from(limit).unwrap_or(isize::MAX);
            command.arg("-inf").arg(up_to(until)).arg("WITHSCORES").arg("LIMIT").arg(0).arg(limit)
        };
        let mut due = self.find_in(generations, generations.iter().map(index).collect()).await?;
        due.truncate(limit);
        let due: Vec<SessionKey> = due.into_iter().map(|(_, key)| key).collect();
        let sessions = self.sessions(keys, room, &due).await?;
        // One that has gone meanwhile is not due any more.
        Ok(sessions.map(|sessions| sessions.into_iter().flatten().collect()))
    }

    pub(super) async fn next_session_end(
        &self,
        keys: &Keys,
        room: &RoomId,
        generations: &[Generation],
    ) -> ContentResult<Option<UnixMillis>> {
        let first = |&generation: &Generation| {
            let command = Command::plain(&room.into(), "ZRANGE").arg(keys.ending(room, generation));
            command.arg(0).arg(0).arg("WITHSCORES")
        };
        let found = self.find_in(generations, generations.iter().map(first).collect()).await?;
        Ok(Some(found.first().map(|&(end, _)| UnixMillis(end))))
    }

    pub(super) async fn expired_passes(
        &self,
        keys: &Keys,
        room: &RoomId,
        generations: &[Generation],
        until: UnixMillis,
    ) -> ContentResult<Vec<RequestId>> {
        let index = |&generation: &Generation| {
            let command = Command::plain(&room.into(), "ZRANGEBYSCORE").arg(keys.ended(room, generation));
            command.arg("-inf").arg(before(until)).arg("WITHSCORES")
        };
        let found = self.find_in(generations, generations.iter().map(index).collect()).await?;
        let found: Vec<SessionKey> = found.into_iter().map(|(_, key)| key).collect();
        let sessions = self.sessions(keys, room, &found).await?;
        Ok(sessions
            .map(|sessions| sessions.into_iter().flatten().map(|session| session.request_id).collect()))
    }

    /// What indexes of these generations answer, by end and key.
    async fn find_in(
        &self,
        generations: &[Generation],
        commands: Vec<Command>,
    ) -> Result<Vec<(u64, SessionKey)>, StoreError> {
        let mut found = vec![];
        let answers = self.connections.all(&commands, Intent::Read, CommandTimeout::Long).await?;
        for (&generation, answer) in generations.iter().zip(answers) {
            let entries: Vec<(Vec<u8>, f64)> = read(answer)?;
            for (position, end) in entries {
                found.push((millis_of(end), key_of(generation, &position)?));
            }
        }
        found.sort_unstable();
        Ok(found)
    }
}

fn key_of(generation: Generation, position: &[u8]) -> Result<SessionKey, StoreError> {
    let position = position.try_into().ok().map(u64::from_be_bytes).and_then(Position::new);
    let damaged = || StoreError::Permanent("an index of sessions cannot be read".into());
    Ok(SessionKey { generation, position: position.ok_or_else(damaged)? })
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "scores are milliseconds below 2^53"
)]
fn millis_of(score: f64) -> u64 {
    score as u64
}
