//! A message that only holders of a key can read or make: AES-256-GCM, every message under a key of its own.
//!
//! The message's key is derived from that of its use by 128 random bits that travel with it, so that no number of messages
//! comes near the limit that random nonces have under one key (about 2^32). A message:
//!
//! | byte 0 | bytes 1 to 16 | then | the last 16 bytes |
//! |---|---|---|---|
//! | the format, 1 | random bits | the sealed text | the tag |

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::hkdf;
use zeroize::Zeroizing;

use crate::random;
use crate::secret::DerivedKey;

/// The format of a message, its first byte.
const FORMAT: u8 = 1;
/// How many random bytes make the key of a message.
const SALT_BYTES: usize = 16;
/// A key seals one message only, so there is nothing for the nonce to tell apart.
const NONCE: [u8; NONCE_LEN] = [0; NONCE_LEN];
/// Format, random bits and tag: how much longer a message is than its text.
pub(crate) const OVERHEAD_BYTES: usize = 1 + SALT_BYTES + 16;

/// The message that holds `text`, sealed under `key`.
pub(crate) fn seal(key: &DerivedKey, text: &[u8]) -> Vec<u8> {
    let salt = random::bytes::<SALT_BYTES>();
    let mut message = Vec::with_capacity(text.len() + OVERHEAD_BYTES);
    message.push(FORMAT);
    message.extend_from_slice(&salt);
    message.extend_from_slice(text);
    let tag = message_key(key, &salt)
        .seal_in_place_separate_tag(
            Nonce::assume_unique_for_key(NONCE),
            Aad::from([FORMAT]),
            &mut message[1 + SALT_BYTES..],
        )
        .expect("AES-256-GCM seals whatever fits into memory");
    message.extend_from_slice(tag.as_ref());
    message
}

/// The text of a message; `None` if it is of another format, was changed, or was sealed under none of `keys`.
pub(crate) fn open(keys: &[DerivedKey], message: &[u8]) -> Option<Vec<u8>> {
    let (&FORMAT, rest) = message.split_first()? else { return None };
    let (salt, sealed) = rest.split_first_chunk::<SALT_BYTES>()?;
    keys.iter().find_map(|key| {
        let mut text = sealed.to_vec();
        let length = message_key(key, salt)
            .open_in_place(Nonce::assume_unique_for_key(NONCE), Aad::from([FORMAT]), &mut text)
            .ok()?
            .len();
        text.truncate(length);
        Some(text)
    })
}

/// The key of one message.
fn message_key(key: &DerivedKey, salt: &[u8; SALT_BYTES]) -> LessSafeKey {
    let mut own = Zeroizing::new([0; 32]);
    hkdf::Prk::new_less_safe(hkdf::HKDF_SHA256, &**key)
        .expand(&[salt], hkdf::HKDF_SHA256)
        .and_then(|output| output.fill(&mut *own))
        .expect("HKDF-SHA256 can always give 32 bytes");
    LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &*own).expect("an AES-256 key has 32 bytes"))
}
