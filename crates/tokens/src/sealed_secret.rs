//! A secret as the store keeps it: AES-256-GCM under a key of its use, bound to what it belongs to.
//!
//! | byte 0 | bytes 1 to 12 | then | the last 16 bytes |
//! |---|---|---|---|
//! | the format, 1 | the nonce | the sealed text | the tag |

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::error::Unspecified;
use zeroize::Zeroizing;

use crate::random;
use crate::secret::DerivedKey;

/// The format of a sealed secret, its first byte.
const FORMAT: u8 = 1;

/// Why bytes gave no secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OpenError {
    /// These bytes are not a sealed secret.
    Malformed,
    /// None of the keys opens it, or somebody changed it or its surroundings.
    Refused,
}

/// `text` as the store keeps it. It opens only together with the same `associated_data`, so that nobody who can write to the
/// store can put it under another name.
pub(crate) fn seal(key: &DerivedKey, associated_data: &[u8], text: &[u8]) -> Result<Vec<u8>, Unspecified> {
    // Room for the tag, so that the vector does not move and leave a copy of the secret behind.
    let mut buffer = Zeroizing::new(Vec::with_capacity(text.len() + AES_256_GCM.tag_len()));
    buffer.extend_from_slice(text);
    let nonce = random::bytes::<NONCE_LEN>();
    aead_key(key).seal_in_place_append_tag(
        Nonce::assume_unique_for_key(nonce),
        Aad::from(associated_data),
        &mut *buffer,
    )?;
    Ok([&[FORMAT], nonce.as_slice(), &buffer].concat())
}

/// The text that was sealed with one of `keys` and the same `associated_data`.
pub(crate) fn open(
    keys: impl Iterator<Item = DerivedKey>,
    associated_data: &[u8],
    sealed: &[u8],
) -> Result<Zeroizing<Vec<u8>>, OpenError> {
    let Some((&FORMAT, rest)) = sealed.split_first() else { return Err(OpenError::Malformed) };
    let Some((nonce, sealed_text)) = rest.split_first_chunk::<NONCE_LEN>() else {
        return Err(OpenError::Malformed);
    };
    for key in keys {
        let mut buffer = Zeroizing::new(sealed_text.to_vec());
        let opened = aead_key(&key).open_in_place(
            Nonce::assume_unique_for_key(*nonce),
            Aad::from(associated_data),
            &mut buffer,
        );
        if let Ok(text) = opened {
            let length = text.len();
            buffer.truncate(length);
            return Ok(buffer);
        }
    }
    Err(OpenError::Refused)
}

fn aead_key(key: &DerivedKey) -> LessSafeKey {
    LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &**key).expect("an AES-256 key has 32 bytes"))
}
