//! What we show to a destination of events to be let in (the secret of an access key at AWS, a password or credentials of NATS),
//! as the store keeps it: sealed, and bound to the name of its destination.

use secrecy::{ExposeSecret as _, SecretString};

use crate::sealed_secret::{self, OpenError};
use crate::secret::{Label, MasterSecrets};

/// The longest secret of a destination, in bytes: credentials of NATS are a file of about 1 KiB.
pub const DESTINATION_SECRET_MAX_BYTES: usize = 16 * 1024;

/// Why a destination's secret could not be sealed or opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DestinationSecretError {
    /// Nothing, or too much.
    #[error("a secret of a destination has 1 to {DESTINATION_SECRET_MAX_BYTES} bytes")]
    Length,
    /// The library would not encrypt it.
    #[error("the secret of the destination could not be sealed")]
    Sealing,
    /// These bytes are not a sealed secret.
    #[error(
        "the stored secret of the destination is not readable; it is damaged, or was written by a newer server"
    )]
    Malformed,
    /// None of the master secrets opens it, or somebody changed it or put it under another destination.
    #[error(
        "the stored secret of the destination was sealed with another master secret, or was tampered with"
    )]
    Refused,
}

/// The secret as the store keeps it. It opens only for the destination of this name.
pub fn seal_destination_secret(
    secrets: &MasterSecrets,
    destination_name: &str,
    secret: &SecretString,
) -> Result<Vec<u8>, DestinationSecretError> {
    let text = secret.expose_secret();
    if !(1..=DESTINATION_SECRET_MAX_BYTES).contains(&text.len()) {
        return Err(DestinationSecretError::Length);
    }
    let key = secrets.sealing_key(Label::DestinationSecretsAtRest);
    sealed_secret::seal(&key, destination_name.as_bytes(), text.as_bytes())
        .map_err(|_| DestinationSecretError::Sealing)
}

/// The secret that was sealed with one of `secrets` for the destination of this name.
pub fn open_destination_secret(
    secrets: &MasterSecrets,
    destination_name: &str,
    sealed: &[u8],
) -> Result<SecretString, DestinationSecretError> {
    let keys = secrets.opening_keys(Label::DestinationSecretsAtRest);
    let text =
        sealed_secret::open(keys, destination_name.as_bytes(), sealed).map_err(|error| match error {
            OpenError::Malformed => DestinationSecretError::Malformed,
            OpenError::Refused => DestinationSecretError::Refused,
        })?;
    let text = std::str::from_utf8(&text).map_err(|_| DestinationSecretError::Malformed)?;
    Ok(SecretString::from(text))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NEW: &str = "a-new-secret-for-tests-0123456789abcdef";
    const OLD: &str = "an-old-secret-for-tests-0123456789abcdef";

    fn secrets(text: &str) -> MasterSecrets {
        MasterSecrets::parse(text).unwrap()
    }

    #[test]
    fn a_secret_opens_with_any_master_secret_of_the_list_for_its_own_destination_only() {
        let secret = SecretString::from("a password of another server");
        let sealed = seal_destination_secret(&secrets(OLD), "stream", &secret).unwrap();
        let rotating = secrets(&format!("{NEW},{OLD}"));
        let opened = open_destination_secret(&rotating, "stream", &sealed).unwrap();
        assert_eq!(opened.expose_secret(), secret.expose_secret());
        for (master, name) in [(NEW, "stream"), (OLD, "another"), (OLD, "")] {
            let refused = open_destination_secret(&secrets(master), name, &sealed).unwrap_err();
            assert_eq!(refused, DestinationSecretError::Refused, "{name}");
        }
        assert_ne!(sealed, seal_destination_secret(&secrets(OLD), "stream", &secret).unwrap());
        assert!(!sealed.windows(8).any(|window| window == b"password"));
    }

    #[test]
    fn what_is_sealed_for_one_use_does_not_open_for_another() {
        let secret = SecretString::from("a password");
        let sealed = seal_destination_secret(&secrets(NEW), "stream", &secret).unwrap();
        let as_access_key = crate::sigv4::SecretAccessKey::open(&secrets(NEW), b"stream", &sealed);
        assert!(as_access_key.is_err());
        assert!(crate::WebhookKey::open(&secrets(NEW), "stream", &sealed).is_err());
    }

    #[test]
    fn an_empty_or_oversized_secret_is_refused() {
        for length in [0, DESTINATION_SECRET_MAX_BYTES + 1] {
            let secret = SecretString::from("a".repeat(length));
            let refused = seal_destination_secret(&secrets(NEW), "stream", &secret).unwrap_err();
            assert_eq!(refused, DestinationSecretError::Length);
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_are_no_sealed_secret(bytes: Vec<u8>) {
            prop_assert!(open_destination_secret(&secrets(NEW), "stream", &bytes).is_err());
        }
    }
}
