//! Why a request is not let in, and what it is answered with.

/// Why a token was refused. The text is for the visitor: it quotes nothing of the token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The request has no token in any of the places that were named.
    #[error("no pass was shown")]
    Missing,
    /// Longer than [`TOKEN_MAX_BYTES`](crate::TOKEN_MAX_BYTES).
    #[error("the pass is too long")]
    TooLong,
    /// Not three parts of base64url, not JSON, or a claim is missing, is there twice or has the wrong type.
    #[error("this is not a pass")]
    Malformed,
    /// `crit` asks for something unknown, or `typ` says that it is neither a JWT nor an access token.
    #[error("the pass has a header that is not understood")]
    UnsupportedHeader,
    /// `alg` is not the algorithm of the key.
    #[error("the pass names another algorithm than its key has")]
    WrongAlgorithm,
    /// No key has this `kid`, or there is none.
    #[error("the key of the pass is not known")]
    UnknownKey,
    /// The signature is not that of the key over this text.
    #[error("the signature of the pass is wrong")]
    WrongSignature,
    /// `aud` is none of the rooms.
    #[error("the pass is for another room")]
    WrongRoom,
    /// `iss` is not the issuer of the room.
    #[error("the pass was issued by somebody else")]
    WrongIssuer,
    /// A refresh or id token.
    #[error("this is not the access token of the pass")]
    NotAnAccessToken,
    /// `nbf` is in the future.
    #[error("the pass is not valid yet")]
    NotYetValid,
    /// `exp` is over.
    #[error("the pass has expired")]
    Expired,
    /// The first use came after `enter_by`.
    #[error("the pass was not used in time")]
    EnteredTooLate,
    /// The keys could not be fetched, and there are none that are recent enough. The pass may be good.
    #[error("passes cannot be verified at the moment")]
    KeysUnavailable,
}

impl Refusal {
    /// Whether another try with the same token may succeed: 503 instead of 401.
    pub fn is_temporary(self) -> bool {
        self == Self::KeysUnavailable
    }

    /// Whether the waiting page has a way to a pass that is not refused.
    ///
    /// It gives a visitor whose visit goes on the same pass again. So where that very pass is refused, sending the visitor there
    /// would send them back and forth.
    pub fn is_cured_by_waiting(self) -> bool {
        match self {
            Self::Missing
            | Self::TooLong
            | Self::Malformed
            | Self::UnsupportedHeader
            | Self::WrongAlgorithm
            | Self::UnknownKey
            | Self::WrongSignature
            | Self::WrongRoom
            | Self::NotAnAccessToken
            | Self::Expired => true,
            Self::WrongIssuer | Self::NotYetValid | Self::EnteredTooLate | Self::KeysUnavailable => false,
        }
    }
}
