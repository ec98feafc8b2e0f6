//! A token taken apart. Nothing of it is believed before the signature has been verified over [`Token::signed`].

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::refusal::Refusal;

/// The longest token that is looked at, in bytes: an issuer of 512 characters and an RSA signature fit four times over.
pub const TOKEN_MAX_BYTES: usize = 4_096;

/// The parts of a token, decoded.
pub(crate) struct Token<'text> {
    /// Header and claims as they were signed.
    pub(crate) signed: &'text [u8],
    pub(crate) signature: Vec<u8>,
    header: Vec<u8>,
    claims: Vec<u8>,
}

/// What is read of the header.
#[derive(Deserialize)]
pub(crate) struct Header<'json> {
    #[serde(borrow)]
    pub(crate) alg: Cow<'json, str>,
    #[serde(borrow)]
    pub(crate) kid: Option<Cow<'json, str>>,
    #[serde(borrow)]
    typ: Option<Cow<'json, str>>,
    crit: Option<IgnoredAny>,
}

/// What is read of the claims.
#[derive(Deserialize)]
pub(crate) struct Claims<'json> {
    #[serde(borrow)]
    pub(crate) aud: Cow<'json, str>,
    pub(crate) enter_by: Option<u64>,
    pub(crate) exp: u64,
    pub(crate) iat: u64,
    #[serde(borrow)]
    pub(crate) iss: Cow<'json, str>,
    pub(crate) nbf: u64,
    pub(crate) queue_position: u64,
    #[serde(borrow)]
    pub(crate) sub: Cow<'json, str>,
    #[serde(borrow)]
    pub(crate) token_use: Cow<'json, str>,
}

impl<'text> Token<'text> {
    /// Takes a token apart.
    pub(crate) fn split(text: &'text str) -> Result<Self, Refusal> {
        if text.is_empty() {
            return Err(Refusal::Missing);
        }
        if text.len() > TOKEN_MAX_BYTES {
            return Err(Refusal::TooLong);
        }
        let (signed, signature) = text.rsplit_once('.').ok_or(Refusal::Malformed)?;
        let (header, claims) = signed.split_once('.').ok_or(Refusal::Malformed)?;
        let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).map_err(|_| Refusal::Malformed);
        Ok(Self {
            signed: signed.as_bytes(),
            signature: decode(signature)?,
            header: decode(header)?,
            claims: decode(claims)?,
        })
    }

    /// The header. One that asks for something unknown is refused.
    pub(crate) fn header(&self) -> Result<Header<'_>, Refusal> {
        let header: Header<'_> = serde_json::from_slice(&self.header).map_err(|_| Refusal::Malformed)?;
        // Passes have the one, access tokens of OpenID clients the other (RFC 9068); an ID token is told by `token_use`.
        let is_known = |typ: &str| ["JWT", "at+jwt"].iter().any(|known| typ.eq_ignore_ascii_case(known));
        if header.crit.is_some() || !header.typ.as_deref().is_none_or(is_known) {
            return Err(Refusal::UnsupportedHeader);
        }
        Ok(header)
    }

    pub(crate) fn claims(&self) -> Result<Claims<'_>, Refusal> {
        serde_json::from_slice(&self.claims).map_err(|_| Refusal::Malformed)
    }
}
