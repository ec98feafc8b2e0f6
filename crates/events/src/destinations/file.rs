//! Destinations of the configuration file.

use std::collections::BTreeSet;
use std::sync::Arc;

use anteroom_core::UnixMillis;
use anteroom_store::stored_value::StoredValueError;
use anteroom_tokens::{WebhookAlgorithm, WebhookKey};
use secrecy::{ExposeSecret as _, SecretString};

use super::terms::{CheckedTerms, check_name, check_name_of};
use super::{
    Destination, DestinationError, DestinationKind, DestinationRules, DestinationSecret, DestinationTerms,
    Destinations, Entry, FieldProblem, KEYS_MAX, Outcome, Table, first, record,
};

/// Who makes the changes of the configuration file, as the audit calls it.
const FILE_ACTOR: &str = "configuration file";

/// A destination as the configuration file wants it.
#[derive(Debug, Clone)]
pub struct FileDestination {
    /// Its name.
    pub name: String,
    /// What it is like; what is not said is at its default, also where the destination is there already.
    pub terms: DestinationTerms,
    /// Its secrets.
    pub secrets: FileSecrets,
}

/// The secrets of a destination of the file. A webhook that signs with key pairs has none there: they are made by the server, and
/// kept.
#[derive(Debug, Clone, Default)]
pub struct FileSecrets {
    /// The present one.
    pub present: Option<SecretString>,
    /// The one before it, while the receiver changes over.
    pub previous: Option<SecretString>,
}

impl FileDestination {
    /// Everything that is wrong, in the order of the fields. `has_secrets`: which of the two the file gives, before they are read.
    pub fn problems(
        name: &str,
        terms: &DestinationTerms,
        (has_present, has_previous): (bool, bool),
        rules: &DestinationRules,
    ) -> Vec<FieldProblem> {
        let mut problems: Vec<FieldProblem> = check_name(name).err().into_iter().collect();
        let checked = match terms.check(None, rules) {
            Ok(checked) => checked,
            Err(found) => {
                problems.extend(found);
                return problems;
            }
        };
        let kind = checked.target.kind();
        if problems.is_empty() {
            problems.extend(check_name_of(name, kind).err());
        }
        let is_key_pair = checked.algorithm == WebhookAlgorithm::Ed25519;
        let mut found = |field, why: &str| problems.push(FieldProblem::new(field, why));
        match kind {
            DestinationKind::Webhook if is_key_pair && (has_present || has_previous) => {
                found("secret_file", "is not given with ed25519: the key pair is made by the server");
            }
            DestinationKind::Webhook if !is_key_pair && !has_present => {
                found(
                    "secret_file",
                    "must name a file that holds the secret, whsec_…, which the receiver knows too",
                );
            }
            DestinationKind::EventBridge if !has_present => {
                found("secret_file", "must name a file that holds the secret of the access key");
            }
            DestinationKind::File if has_present => found("secret_file", "is not of files, which need none"),
            _ => {}
        }
        if has_previous && (kind != DestinationKind::Webhook || !has_present) {
            found("previous_secret_file", "is of webhooks that have a secret_file");
        }
        problems
    }
}

impl Destinations {
    /// Makes the destinations of the file what the file says. Those that it made and names no more are deleted; one of the same name that
    /// was made by hand becomes the file's. What operators do to a destination (pause, resume, replay) stays.
    pub async fn apply_file(&self, file: &[FileDestination], now: UnixMillis) -> Outcome<()> {
        let names: BTreeSet<String> = file.iter().map(|destination| destination.name.clone()).collect();
        let mut wanted = vec![];
        for destination in file {
            check_name(&destination.name)?;
            wanted.push((destination, destination.terms.check(None, &self.rules).map_err(first)?));
        }
        let begins_after = self.value.store().outbox().await.map_err(StoredValueError::from)?.last;
        let audit = record(now, FILE_ACTOR, "set destinations of the file")
            .with_detail(&names.iter().map(String::as_str).collect::<Vec<_>>().join(" "));
        self.replace(&audit, |table| {
            table
                .0
                .retain(|entry| !entry.destination.is_from_file || names.contains(&entry.destination.name));
            for (destination, checked) in &wanted {
                self.set_from_file(table, destination, checked.clone(), (now, begins_after))?;
            }
            Ok(())
        })
        .await?;
        self.file_names.store(Arc::new(names));
        Ok(())
    }

    /// Puts a destination of the file where one of its name is, or at the end.
    fn set_from_file(
        &self,
        table: &mut Table,
        file: &FileDestination,
        checked: CheckedTerms,
        (now, begins_after): (UnixMillis, u64),
    ) -> Outcome<()> {
        let name = file.name.as_str();
        let before = table.find(name);
        let secrets = self.file_secrets(file, &checked, before, now)?;
        let destination = match before {
            Some(before) => checked.onto(&before.destination),
            None => checked.into_destination(name, now, begins_after),
        };
        let destination = Arc::new(Destination { is_from_file: true, ..destination });
        match table.find_mut(name) {
            Some(entry) => *entry = Entry { destination, secrets },
            None => table.0.push(Entry { destination, secrets }),
        }
        Ok(())
    }

    /// The secrets that the file gives; one that is there already stays as it was sealed and keeps its time. Key pairs are kept, and made
    /// where there are none.
    fn file_secrets(
        &self,
        file: &FileDestination,
        checked: &CheckedTerms,
        before: Option<&Entry>,
        now: UnixMillis,
    ) -> Outcome<Vec<DestinationSecret>> {
        let name = file.name.as_str();
        let known: &[DestinationSecret] = before.map_or(&[], |before| &before.secrets);
        let kind = checked.target.kind();
        if kind == DestinationKind::Webhook && checked.algorithm == WebhookAlgorithm::Ed25519 {
            let is_pair = |secret: &&DestinationSecret| secret.algorithm == Some(WebhookAlgorithm::Ed25519);
            let pairs: Vec<DestinationSecret> = known.iter().filter(is_pair).cloned().collect();
            if !pairs.is_empty() {
                return Ok(pairs);
            }
            return Ok(vec![self.key(name, WebhookAlgorithm::Ed25519, None, now)?.0]);
        }
        let given = [file.secrets.present.as_ref(), file.secrets.previous.as_ref()];
        let mut secrets = vec![];
        for given in given.into_iter().flatten().take(KEYS_MAX) {
            let same = known.iter().find(|secret| self.is_same(name, secret, given));
            secrets.push(match same {
                Some(same) => DestinationSecret { ends_at: None, ..same.clone() },
                None if kind == DestinationKind::Webhook => {
                    self.key(name, WebhookAlgorithm::HmacSha256, Some(given), now)?.0
                }
                None => self.opaque((name, kind), given, now)?,
            });
        }
        if kind == DestinationKind::EventBridge && secrets.is_empty() {
            return Err(DestinationError::from(FieldProblem::new("secret", "must be given")));
        }
        Ok(secrets)
    }

    fn is_same(&self, name: &str, secret: &DestinationSecret, given: &SecretString) -> bool {
        let known = match secret.algorithm {
            Some(_) => {
                let key = WebhookKey::open(&self.secrets, name, &secret.sealed.0).ok();
                let given = WebhookKey::from_shared_secret(given.expose_secret()).ok();
                let shared = |key: Option<WebhookKey>| key.and_then(|key| key.shared_secret());
                return match (shared(key), shared(given)) {
                    (Some(known), Some(given)) => known.expose_secret() == given.expose_secret(),
                    _ => false,
                };
            }
            None => anteroom_tokens::open_destination_secret(&self.secrets, name, &secret.sealed.0).ok(),
        };
        known.is_some_and(|known| known.expose_secret() == given.expose_secret())
    }
}
