//! The only module that touches randomness, so that every use of it can be found here.

use uuid::{Builder, Uuid};

use crate::base64url;

/// `N` bytes from the operating system's generator.
#[expect(clippy::disallowed_methods, reason = "this is the module that wraps the random generator")]
pub fn bytes<const N: usize>() -> [u8; N] {
    let mut buffer = [0; N];
    aws_lc_rs::rand::fill(&mut buffer).expect("a machine without randomness cannot run a waiting room");
    buffer
}

/// A random UUID of version 4.
pub fn uuid_v4() -> Uuid {
    Builder::from_random_bytes(bytes()).into_uuid()
}

/// `length` random bytes, written in base64url without padding.
#[expect(clippy::disallowed_methods, reason = "this is the module that wraps the random generator")]
pub fn text(length: usize) -> String {
    let mut buffer = zeroize::Zeroizing::new(vec![0; length]);
    aws_lc_rs::rand::fill(&mut buffer).expect("a machine without randomness cannot run a waiting room");
    base64url::encode(&*buffer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_draws_differ_and_have_the_length_asked_for() {
        assert_ne!(bytes::<32>(), bytes::<32>());
        assert_ne!(text(32), text(32));
        assert_eq!(text(32).len(), 43);
        let drawn = uuid_v4();
        assert_eq!(drawn.get_version_num(), 4);
        assert_ne!(drawn, uuid_v4());
    }
}
