//! Why a room did not do what a front door asked. Which status that gets is the door's own business.

use anteroom_core::Refusal;
use anteroom_engine::EngineError;
use anteroom_store::StoreError;
use anteroom_tokens::signer::SignError;

/// Why it was not done.
#[derive(Debug, Clone, thiserror::Error)]
pub enum AdmissionError {
    /// The rules refuse it, or the room cannot be changed now.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A room is named that does not exist.
    #[error("there is no room of this name")]
    UnknownRoom,
    /// No room is named, and there is no default room.
    #[error("the request names no room, and there is no default room")]
    NoDefaultRoom,
    /// More want to join than the room takes in a second.
    #[error("many are arriving at the moment; try again in {retry_after_seconds} seconds")]
    ManyArriving {
        /// After how many seconds.
        retry_after_seconds: u64,
    },
    /// The ticket is not of this room's line.
    #[error("the ticket is not of this room's line")]
    UnknownTicket,
    /// The token is not one that this server has signed.
    #[error("the refresh token is not one of ours")]
    UnknownRefreshToken,
    /// The code is too old, of another room, or not sealed by this server.
    #[error("the code is too old, or not one of ours")]
    UnknownCode,
    /// The room does not renew passes.
    #[error("this room renews no passes: the visit ends with the first one")]
    RenewalDisabled,
    /// The visit that the pass would be for has ended.
    #[error("the visit is over")]
    VisitOver,
    /// The room lets people in by another rule.
    #[error("this room holds no auction")]
    NoAuction,
    /// The room is paused, so its round cannot be won.
    #[error("the room is paused; the place is kept")]
    RoomPaused,
    /// The round did not come to its end.
    #[error("the round was not settled; ask again")]
    RoundNotSettled,
    /// The room answered something else than it was asked.
    #[error("the claim was not answered")]
    NotAnswered,
    /// The pass was signed and could not be kept.
    #[error("the pass could not be kept")]
    PassNotKept,
    /// The ticket is genuine and recent, and the store has lost its room.
    #[error("the room of this ticket is lost")]
    RoomLost,
    /// Too many passes wait for a signing thread, or the signature failed.
    #[error(transparent)]
    Signing(#[from] SignError),
}

impl AdmissionError {
    /// Whether the turn of the ticket has not come.
    pub fn is_not_served(&self) -> bool {
        matches!(self, Self::Engine(EngineError::Refused(Refusal::NotServed)))
    }

    /// Whether nothing is wrong with the request: it is worth asking again.
    pub fn is_unavailable(&self) -> bool {
        match self {
            Self::Engine(error) => {
                !matches!(error, EngineError::RoomDeleted | EngineError::Refused(_))
                    || matches!(
                        error,
                        EngineError::Refused(
                            Refusal::LineFull(_) | Refusal::SegmentsFull | Refusal::LineNotLearned
                        )
                    )
            }
            Self::RoomLost
            | Self::Signing(_)
            | Self::NotAnswered
            | Self::PassNotKept
            | Self::RoundNotSettled => true,
            _ => false,
        }
    }
}

impl From<Refusal> for AdmissionError {
    fn from(refusal: Refusal) -> Self {
        Self::Engine(refusal.into())
    }
}

impl From<StoreError> for AdmissionError {
    fn from(error: StoreError) -> Self {
        Self::Engine(error.into())
    }
}
