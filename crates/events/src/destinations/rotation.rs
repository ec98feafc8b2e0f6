//! The secrets of destinations: made or given, sealed, replaced, ended.

use std::sync::Arc;

use anteroom_core::UnixMillis;
use anteroom_tokens::sigv4::SecretAccessKey;
use anteroom_tokens::{
    MasterSecrets, WebhookAlgorithm, WebhookKey, open_destination_secret, seal_destination_secret,
};
use secrecy::{ExposeSecret as _, SecretString};

use super::terms::{CheckedTerms, is_access_key_id};
use super::{
    Destination, DestinationError, DestinationKind, DestinationSecret, Destinations, Entry, FieldProblem,
    KEYS_MAX, Outcome, Sealed, ShownKey, Target, record,
};

/// Who seals secrets anew, as the audit calls it.
const SERVER_ACTOR: &str = "anteroom";

/// How a secret is replaced.
#[derive(Debug, Default)]
pub struct SecretRotation {
    /// The new secret; of a webhook a new key is made where none is given.
    pub secret: Option<SecretString>,
    /// How the new key of a webhook signs; as the one before, if not said.
    pub algorithm: Option<WebhookAlgorithm>,
    /// The id that belongs to a new secret of an event bus; as before, if not said.
    pub access_key_id: Option<String>,
    /// When the key before stops signing; at the next rotation, if not said.
    pub previous_ends_at: Option<UnixMillis>,
}

impl Destinations {
    /// Gives a destination a new secret. The key before of a webhook goes on beside the new one until `previous_ends_at`. A key that is
    /// made here is shown this once. Of a destination of the file only a key pair is replaced here, because the file does not have it.
    pub async fn rotate_secret(
        &self,
        name: &str,
        rotation: &SecretRotation,
        actor: &str,
        now: UnixMillis,
    ) -> Outcome<(Arc<Destination>, Option<ShownKey>)> {
        let before = self.find(name).ok_or(DestinationError::Unknown)?;
        let present = self.secrets(name, now).first().and_then(|secret| secret.algorithm);
        let kind = before.target.kind();
        refuse_foreign_fields(kind, rotation)?;
        let (secret, shown) = match kind {
            DestinationKind::Webhook => {
                let given = rotation.secret.as_ref().map(|_| WebhookAlgorithm::HmacSha256);
                let algorithm =
                    rotation.algorithm.or(given).or(present).unwrap_or(WebhookAlgorithm::HmacSha256);
                self.key(name, algorithm, rotation.secret.as_ref(), now)?
            }
            DestinationKind::EventBridge | DestinationKind::Nats => {
                let secret = rotation.secret.as_ref().ok_or_else(|| missing_secret(kind))?;
                (self.opaque((name, kind), secret, now)?, None)
            }
            DestinationKind::File => return Err(DestinationError::NoSecret),
        };
        let audit = record(now, actor, &format!("rotate secret of destination {name}"));
        let destination = self
            .replace(&audit, |table| {
                let entry = self.rotatable(table, name)?;
                if entry.destination.target.kind() != kind {
                    return Err(DestinationError::Unknown);
                }
                entry.add_secret(secret.clone(), now, rotation.previous_ends_at);
                if let (Some(id), Target::EventBridge(bus)) =
                    (&rotation.access_key_id, &mut Arc::make_mut(&mut entry.destination).target)
                {
                    bus.access_key_id.clone_from(id);
                }
                Ok(Arc::clone(&entry.destination))
            })
            .await?;
        Ok((destination, shown))
    }

    /// Ends every key of a webhook but the newest.
    pub async fn revoke_previous_secret(&self, name: &str, actor: &str, now: UnixMillis) -> Outcome<()> {
        let audit = record(now, actor, &format!("revoke previous secret of destination {name}"));
        self.replace(&audit, |table| {
            let entry = self.rotatable(table, name)?;
            if entry.secrets.iter().filter(|secret| secret.works(now)).count() < KEYS_MAX {
                return Err(DestinationError::NoPreviousSecret);
            }
            entry.secrets.truncate(1);
            Ok(())
        })
        .await
    }

    /// Seals with the first master secret what another one of the list has sealed, so that the others can go.
    pub async fn reseal(&self, now: UnixMillis) -> Outcome<()> {
        let sealing = self.secrets.sealing_only();
        let audit = record(now, SERVER_ACTOR, "seal secrets of destinations anew");
        self.replace(&audit, |table| {
            for entry in &mut table.0 {
                for secret in &mut entry.secrets {
                    self.reseal_one(&entry.destination.name, secret, &sealing)?;
                }
            }
            Ok(())
        })
        .await
    }

    /// One that no master secret of the list opens stays as it is: somebody may still find the right one.
    fn reseal_one(&self, name: &str, secret: &mut DestinationSecret, sealing: &MasterSecrets) -> Outcome<()> {
        let sealed = if secret.algorithm.is_some() {
            if WebhookKey::open(sealing, name, &secret.sealed.0).is_ok() {
                return Ok(());
            }
            let Some(key) = self.open_key(name, secret) else { return Ok(()) };
            key.seal(sealing, name).map_err(|_| DestinationError::Sealing)?
        } else {
            if open_destination_secret(sealing, name, &secret.sealed.0).is_ok() {
                return Ok(());
            }
            let opened = open_destination_secret(&self.secrets, name, &secret.sealed.0);
            let Ok(opened) = opened else { return Ok(()) };
            seal_destination_secret(sealing, name, &opened).map_err(|_| DestinationError::Sealing)?
        };
        secret.sealed = Sealed(sealed);
        Ok(())
    }

    /// The secret of a new destination; shown if it was made here.
    pub(super) fn first_secret(
        &self,
        name: &str,
        terms: &CheckedTerms,
        given: Option<&SecretString>,
        now: UnixMillis,
    ) -> Outcome<(Option<DestinationSecret>, Option<ShownKey>)> {
        let kind = terms.target.kind();
        match (kind, given) {
            (DestinationKind::Webhook, given) => {
                let (secret, shown) = self.key(name, terms.algorithm, given, now)?;
                Ok((Some(secret), shown))
            }
            (DestinationKind::EventBridge | DestinationKind::Nats, Some(secret)) => {
                Ok((Some(self.opaque((name, kind), secret, now)?), None))
            }
            (DestinationKind::EventBridge, None) => Err(missing_secret(kind).into()),
            (DestinationKind::Nats | DestinationKind::File, None) => Ok((None, None)),
            (DestinationKind::File, Some(_)) => {
                Err(FieldProblem::new("secret", "is not of files, which need none").into())
            }
        }
    }

    /// A key of a webhook: the given one, or a new one, which is then shown.
    pub(super) fn key(
        &self,
        name: &str,
        algorithm: WebhookAlgorithm,
        given: Option<&SecretString>,
        now: UnixMillis,
    ) -> Outcome<(DestinationSecret, Option<ShownKey>)> {
        if given.is_some() && algorithm != WebhookAlgorithm::HmacSha256 {
            let why = format!("is not given with {algorithm}: its key pair is made here, and never leaves");
            return Err(FieldProblem::new("secret", why).into());
        }
        let key = match given {
            Some(given) => WebhookKey::from_shared_secret(given.expose_secret())
                .map_err(|error| FieldProblem::new("secret", format!("cannot be used: {error}")))?,
            None => WebhookKey::generate(algorithm),
        };
        let secret = DestinationSecret {
            algorithm: Some(algorithm),
            public_key: key.public_key(),
            created_at: now,
            ends_at: None,
            sealed: Sealed(key.seal(&self.secrets, name).map_err(|_| DestinationError::Sealing)?),
        };
        let shown = match (given, key.shared_secret(), key.public_key()) {
            (None, Some(shared), _) => Some(ShownKey::Shared(shared)),
            (_, None, Some(public)) => Some(ShownKey::Public(public)),
            _ => None,
        };
        Ok((secret, shown))
    }

    /// What is shown to be let in, sealed.
    pub(super) fn opaque(
        &self,
        (name, kind): (&str, DestinationKind),
        secret: &SecretString,
        now: UnixMillis,
    ) -> Outcome<DestinationSecret> {
        use anteroom_tokens::DestinationSecretError::Length;
        if kind == DestinationKind::EventBridge && SecretAccessKey::parse(secret.expose_secret()).is_err() {
            return Err(FieldProblem::new("secret", "is no secret of an access key of AWS").into());
        }
        let sealed = seal_destination_secret(&self.secrets, name, secret).map_err(|error| match error {
            Length => FieldProblem::new("secret", format!("cannot be used: {error}")).into(),
            _ => DestinationError::Sealing,
        })?;
        let (algorithm, public_key, ends_at) = (None, None, None);
        Ok(DestinationSecret { algorithm, public_key, created_at: now, ends_at, sealed: Sealed(sealed) })
    }

    /// A key, opened. One that cannot be is left out: the others still sign.
    pub(super) fn open_key(&self, name: &str, secret: &DestinationSecret) -> Option<WebhookKey> {
        let opened = WebhookKey::open(&self.secrets, name, &secret.sealed.0);
        opened.inspect_err(|error| tracing::error!(destination = name, %error, "key cannot be opened")).ok()
    }

    /// A destination whose secret the file does not have.
    fn rotatable<'a>(&self, table: &'a mut super::Table, name: &str) -> Outcome<&'a mut Entry> {
        let is_key_pair = |entry: &Entry| {
            entry.secrets.first().is_some_and(|secret| secret.algorithm == Some(WebhookAlgorithm::Ed25519))
        };
        if table.find(name).is_some_and(is_key_pair) {
            return table.find_mut(name).ok_or(DestinationError::Unknown);
        }
        self.changeable(table, name)
    }
}

impl Entry {
    /// Gives it a new secret. The key before of a webhook goes on until `previous_ends_at`, or until the next one if no end is given;
    /// what is shown to be let in is replaced.
    fn add_secret(
        &mut self,
        secret: DestinationSecret,
        now: UnixMillis,
        previous_ends_at: Option<UnixMillis>,
    ) {
        for previous in &mut self.secrets {
            previous.ends_at = [previous.ends_at, previous_ends_at].into_iter().flatten().min();
        }
        let is_key = secret.algorithm.is_some();
        self.secrets.retain(|previous| previous.works(now) && is_key);
        self.secrets.insert(0, secret);
        self.secrets.truncate(KEYS_MAX);
    }
}

fn refuse_foreign_fields(kind: DestinationKind, rotation: &SecretRotation) -> Result<(), FieldProblem> {
    let kind_name = kind.as_str();
    if rotation.algorithm.is_some() && kind != DestinationKind::Webhook {
        return Err(FieldProblem::new("algorithm", format!("is of webhooks, and this is {kind_name}")));
    }
    match &rotation.access_key_id {
        Some(_) if kind != DestinationKind::EventBridge => {
            Err(FieldProblem::new("access_key_id", format!("is of eventbridge, and this is {kind_name}")))
        }
        Some(id) if !is_access_key_id(id) => {
            Err(FieldProblem::new("access_key_id", "must be the id of an access key of AWS"))
        }
        _ => Ok(()),
    }
}

fn missing_secret(kind: DestinationKind) -> FieldProblem {
    let what = match kind {
        DestinationKind::EventBridge => "must be the secret of the access key",
        _ => "must be what the server asks for",
    };
    FieldProblem::new("secret", what)
}
