//! What lies in a store that several nodes share is sealed, because others may read it there: on the network, on the disk of the
//! Redis, in its backups. Rooms and sessions hold request ids, and a request id is enough to fetch its pass.
//!
//! How a message is made stands in `sealed_message.rs`.
//!
//! *Boundary:* a message is not bound to the key under which it is stored. A writer to the store can put an older message back, but
//! can neither read nor make one.

use std::fmt;

use crate::sealed_message;
use crate::secret::{DerivedKey, Label, MasterSecrets};

/// How much longer a message is than its text.
pub const SEAL_OVERHEAD_BYTES: usize = sealed_message::OVERHEAD_BYTES;

/// Seals what lies in a shared store under the first master secret, and opens what any of them has sealed.
pub struct StoreSeal {
    /// Never empty; the first one seals.
    keys: Vec<DerivedKey>,
}

impl StoreSeal {
    /// With the keys that these secrets have for this use.
    pub fn new(secrets: &MasterSecrets) -> Self {
        Self { keys: secrets.opening_keys(Label::SharedStore).collect() }
    }

    /// The text as it may lie where others can read.
    pub fn seal(&self, text: &[u8]) -> Vec<u8> {
        sealed_message::seal(&self.keys[0], text)
    }

    /// The text of a message; `None` if it is of another format, was changed, or was sealed under another secret.
    pub fn open(&self, message: &[u8]) -> Option<Vec<u8>> {
        sealed_message::open(&self.keys, message)
    }
}

impl fmt::Debug for StoreSeal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "StoreSeal({} keys, hidden)", self.keys.len())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NEW: &str = "a-new-secret-for-tests-0123456789abcdef";
    const OLD: &str = "an-old-secret-for-tests-0123456789abcdef";

    fn seal_of(secrets: &str) -> StoreSeal {
        StoreSeal::new(&MasterSecrets::parse(secrets).unwrap())
    }

    #[test]
    fn what_was_sealed_under_any_secret_of_the_list_opens_and_nothing_else_does() {
        let (old, new, rotating) = (seal_of(OLD), seal_of(NEW), seal_of(&format!("{NEW},{OLD}")));
        let message = old.seal(b"a room");
        assert_eq!(old.open(&message).unwrap(), b"a room");
        assert_eq!(rotating.open(&message).unwrap(), b"a room");
        assert_eq!(new.open(&message), None, "another secret");

        let message = rotating.seal(b"a room");
        assert_eq!(new.open(&message).unwrap(), b"a room", "the first one seals");
        assert_eq!(old.open(&message), None);
    }

    #[test]
    fn a_message_shows_nothing_of_its_text_and_is_never_the_same() {
        let seal = seal_of(NEW);
        let text = [b'x'; 64];
        let (first, second) = (seal.seal(&text), seal.seal(&text));
        assert_ne!(first, second);
        assert_eq!(first.len(), text.len() + SEAL_OVERHEAD_BYTES);
        assert!(!first.windows(4).any(|window| window == b"xxxx"));
        assert_ne!(first[17..81], second[17..81], "nor is the key stream");
    }

    #[test]
    fn what_is_no_message_of_this_format_is_refused() {
        let seal = seal_of(NEW);
        let message = seal.seal(b"");
        assert_eq!(seal.open(&message).unwrap(), b"");
        let mut newer = message.clone();
        newer[0] = 2;
        for bytes in [&[][..], &message[..1], &message[..17], &message[..message.len() - 1], &newer] {
            assert_eq!(seal.open(bytes), None);
        }
    }

    #[test]
    fn debug_output_holds_no_secret() {
        assert_eq!(format!("{:?}", seal_of(&format!("{NEW},{OLD}"))), "StoreSeal(2 keys, hidden)");
    }

    proptest! {
        #[test]
        fn every_text_comes_back(text: Vec<u8>) {
            let seal = seal_of(NEW);
            prop_assert_eq!(seal.open(&seal.seal(&text)), Some(text));
        }

        #[test]
        fn a_message_with_a_changed_byte_is_refused(text: Vec<u8>, index: prop::sample::Index, mask in 1_u8..) {
            let seal = seal_of(NEW);
            let mut message = seal.seal(&text);
            let place = index.index(message.len());
            message[place] ^= mask;
            prop_assert_eq!(seal.open(&message), None);
        }

        #[test]
        fn arbitrary_bytes_are_no_message(bytes: Vec<u8>) {
            prop_assert_eq!(seal_of(NEW).open(&bytes), None);
        }
    }
}
