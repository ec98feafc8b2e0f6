//! Tickets that a board does not know: boards lag behind a shared store, and a store may have lost what it had handed out.
//!
//! A ticket that is newer than the board makes its room look at the store once. One of an older line that is still not known then is
//! shown to the room, which may have lost its line, or the end of it, and takes it back.
//!
//! *Invariant:* what can be guessed is not shown to a room. A ticket token is signed. A request id only proves itself by what it says:
//! the exact line of a room, which cannot be guessed, or, where the line itself was lost, a recent one and a position that a visitor
//! can have had, which one guess in about 2^49 says.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anteroom_core::board::CLOCK_SKEW_MAX_SECONDS;
use anteroom_core::losses::LOST_TICKET_AGE_MAX_SECONDS;
use anteroom_core::{Board, Recognition, Refusal, Ticket, UnixMillis};
use anteroom_engine::{EngineError, RoomHandle};

/// How old a line that is not remembered may be for its request ids to be believed. Signed tickets are, however old.
const LOST_LINE_AGE_MAX_SECONDS: u64 = 7 * 24 * 3600;
/// The last position of such a line that is believed of a request id: more people than any sale has seen.
const LOST_POSITION_MAX: u64 = 1 << 27;

/// What speaks for a ticket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proof {
    /// It is a request id: it deciphers to something that makes sense.
    Deciphered,
    /// It is part of something that we have signed.
    Signed,
}

/// Whether a ticket is of a room's line, asking its store and showing it to the room where that helps; returns the board that
/// says so.
pub async fn recognise(
    handle: &RoomHandle,
    refreshes: &StoreRefreshes,
    ticket: Ticket,
    proof: Proof,
    now: UnixMillis,
) -> Result<Option<Arc<Board>>, EngineError> {
    let board = handle.board();
    match board.recognise(&ticket, now) {
        Recognition::Ours => return Ok(Some(board)),
        Recognition::Foreign => return Ok(None),
        Recognition::Newer => {}
    }
    // Newer than the board: boards may lag behind the store, so ask there before calling it a forgery.
    refreshes.refresh(handle).await?;
    let board = handle.board();
    match board.recognise(&ticket, now) {
        Recognition::Ours => return Ok(Some(board)),
        Recognition::Newer if may_be_lost(&board, &ticket, proof, now) => {}
        Recognition::Newer | Recognition::Foreign => return Ok(None),
    }
    match handle.recall(ticket).await {
        Ok(()) => {
            let board = handle.board();
            Ok((board.recognise(&ticket, now) == Recognition::Ours).then_some(board))
        }
        // It may be one soon: those between it and the part of the line that is known have not come yet.
        Err(EngineError::Refused(refusal)) if refusal != Refusal::LineNotLearned => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether a ticket is recent enough to be one of a line that its store has lost.
pub(crate) fn is_recent(ticket: &Ticket, now: UnixMillis) -> bool {
    let oldest = now.seconds().saturating_sub(LOST_TICKET_AGE_MAX_SECONDS);
    let latest = now.seconds().saturating_add(CLOCK_SKEW_MAX_SECONDS);
    ticket.lane == 0
        && ticket.position.get() <= LOST_POSITION_MAX
        && (oldest..=latest).contains(&ticket.entry_time())
}

/// Whether a ticket that the room does not know may be one that its store has lost: of an older line, and not a mere guess.
fn may_be_lost(board: &Board, ticket: &Ticket, proof: Proof, now: UnixMillis) -> bool {
    let is_of_an_older_line = board.segments.last().is_some_and(|last| ticket.generation < last.generation);
    let is_of_a_known_line = board.segments.iter().any(|segment| segment.generation == ticket.generation);
    let age_seconds = now.seconds().saturating_sub(ticket.generation.opened_unix_seconds());
    let is_likely = age_seconds <= LOST_LINE_AGE_MAX_SECONDS && ticket.position.get() <= LOST_POSITION_MAX;
    is_of_an_older_line && (proof == Proof::Signed || is_of_a_known_line || is_likely)
}

/// Reads of the store for tickets that a board does not know. A request that arrives while a read is under way waits for
/// the next, which all of them share: however many such tickets are presented, a room's store is read once at a time.
#[derive(Default)]
pub struct StoreRefreshes {
    /// Reads begun so far.
    begun: AtomicU64,
    /// The result of the last one; held while one is under way.
    last: tokio::sync::Mutex<Option<Result<(), EngineError>>>,
}

impl StoreRefreshes {
    /// Returns when the board shows what the store had at some moment after the call.
    async fn refresh(&self, room: &RoomHandle) -> Result<(), EngineError> {
        self.share(|| room.refresh()).await
    }

    async fn share<F>(&self, refresh: impl FnOnce() -> F) -> Result<(), EngineError>
    where
        F: Future<Output = Result<(), EngineError>>,
    {
        let begun_before = self.begun.load(Ordering::Acquire);
        let mut last = self.last.lock().await;
        // One that was begun after this call, and is over, has seen all that this one would.
        if self.begun.load(Ordering::Acquire) > begun_before
            && let Some(outcome) = &*last
        {
            return outcome.clone();
        }
        self.begun.fetch_add(1, Ordering::AcqRel);
        // A cancelled read leaves no result behind.
        *last = None;
        let outcome = refresh().await;
        *last = Some(outcome.clone());
        outcome
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use anteroom_core::{Generation, Position, Room, Settings};

    use super::*;

    #[test]
    fn a_request_id_of_a_lost_line_must_be_likely_and_a_signed_ticket_need_not() {
        let now = UnixMillis(1_794_830_400_000);
        let mut room = Room::open(Settings::default(), now, 7);
        room.losses.honours_after = Some(Generation { opened: 0, incarnation: 0 });
        let board = Board::of(&room);
        let newest = board.segments[0].generation;
        let ticket = |days_ago: u32, position: u64| Ticket {
            lane: 0,
            generation: Generation { opened: newest.opened - days_ago * 86_400, incarnation: 9 },
            position: Position::new(position).unwrap(),
            entered: 60,
            copy: 0,
        };
        for (ticket, deciphered, signed) in [
            (ticket(1, 5), true, true),
            (ticket(6, LOST_POSITION_MAX), true, true),
            (ticket(8, 5), false, true),
            (ticket(1, LOST_POSITION_MAX + 1), false, true),
            (Ticket { generation: newest, ..ticket(0, 5) }, false, false),
        ] {
            assert_eq!(may_be_lost(&board, &ticket, Proof::Deciphered, now), deciphered, "{ticket:?}");
            assert_eq!(may_be_lost(&board, &ticket, Proof::Signed, now), signed, "{ticket:?}");
        }
    }

    #[tokio::test]
    async fn concurrent_reads_of_the_store_are_shared() {
        let (refreshes, looks) = (Arc::new(StoreRefreshes::default()), Arc::new(AtomicU64::new(0)));
        let gate = Arc::new(tokio::sync::Semaphore::new(0));
        let look = {
            let (refreshes, looks, gate) = (Arc::clone(&refreshes), Arc::clone(&looks), Arc::clone(&gate));
            move || {
                let (refreshes, looks, gate) =
                    (Arc::clone(&refreshes), Arc::clone(&looks), Arc::clone(&gate));
                async move {
                    let refresh = || async move {
                        looks.fetch_add(1, Ordering::SeqCst);
                        gate.acquire().await.unwrap().forget();
                        Ok(())
                    };
                    refreshes.share(refresh).await
                }
            }
        };
        let mut tasks = tokio::task::JoinSet::new();
        tasks.spawn(look());
        while looks.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        // These come while the first look is under way, which may have missed what they are about.
        for _ in 0..10 {
            tasks.spawn(look());
        }
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        gate.add_permits(100);
        while let Some(done) = tasks.join_next().await {
            done.unwrap().unwrap();
        }
        assert_eq!(looks.load(Ordering::SeqCst), 2, "the first, and one for all who came meanwhile");
    }

    #[tokio::test]
    async fn a_failed_or_cancelled_read_does_not_count_for_later_calls() {
        let refreshes = StoreRefreshes::default();
        let failed = refreshes.share(|| async { Err(EngineError::Overloaded) }).await;
        assert!(failed.is_err());
        refreshes.share(|| async { Ok(()) }).await.unwrap();
        let left = tokio::time::timeout(Duration::from_millis(1), refreshes.share(std::future::pending));
        assert!(left.await.is_err());
        refreshes.share(|| async { Ok(()) }).await.unwrap();
    }
}
