//! The keys of operators and origins: named, with a role, expiring, revocable. Of a bearer key only a digest is kept; of a
//! key pair for AWS signatures the secret, sealed under the master secret, because a signature cannot be checked without it.
//!
//! All keys are one value of the store, replaced as a whole and only if nobody else did so meanwhile.

use std::collections::BTreeMap;
use std::sync::Arc;

use anteroom_core::{Event, RoomId, UnixMillis};
use anteroom_store::stored_value::{StoredContent, StoredValue, StoredValueError};
use anteroom_store::{AuditRecord, Store, StoreError, StoredEvent};
use anteroom_tokens::api_key::{self, ApiKeyDigest};
use anteroom_tokens::secret::MasterSecrets;
use anteroom_tokens::sigv4::{self, AccessKeyId, Authorization, SecretAccessKey, SignedRequest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use crate::access::{Principal, Role};

/// Where a store of the first version kept its one key.
const FIRST_KEY_VALUE: &str = "admin-key";
/// The name of the key that a first start makes.
pub(crate) const FIRST_KEY_NAME: &str = "admin";
/// The name under which the key of `ANTEROOM_ADMIN_KEY` acts.
pub(crate) const ENVIRONMENT_KEY_NAME: &str = "environment";
/// Names under which the program itself acts in the audit.
const RESERVED_NAMES: [&str; 3] = [ENVIRONMENT_KEY_NAME, "anteroom", "offline"];
/// How many keys there may be: each is compared with every key shown.
pub(crate) const KEYS_MAX: usize = 1_000;

/// What a key is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyKind {
    /// Shown in each request.
    Bearer,
    /// A pair with which requests are signed, as AWS's clients do.
    SigV4,
}

impl KeyKind {
    /// The name used everywhere.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Bearer => "bearer",
            Self::SigV4 => "sigv4",
        }
    }

    /// The kind of that name.
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Bearer, Self::SigV4].into_iter().find(|kind| kind.as_str() == name)
    }
}

/// A key to be made.
#[derive(Debug, Clone)]
pub struct NewKey {
    /// How it is called in lists and in the audit; a name of the same form as a room's.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// What it is made of.
    pub kind: KeyKind,
    /// When it stops working.
    pub expires_at: Option<UnixMillis>,
}

/// What the holder of a new key must be given, once.
pub enum CreatedKey {
    /// The key itself.
    Bearer(String),
    /// Both halves of a pair.
    Pair {
        /// Names the pair.
        access_key_id: String,
        /// Signs.
        secret_access_key: String,
    },
}

/// Why a key was not made or revoked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KeyError {
    /// Names are like those of rooms.
    #[error("a key's name has 1 to 64 letters, digits, dots, hyphens or underscores")]
    BadName,
    /// There is one of that name, or the name is reserved.
    #[error("there is a key of that name; revoke it first, or choose another name")]
    NameTaken,
    /// No such key.
    #[error("there is no key of that name")]
    Unknown,
    /// No key would be left that can make keys.
    #[error("this is the last admin key that works; make another one first")]
    LastAdmin,
    /// See [`KEYS_MAX`].
    #[error("there are {KEYS_MAX} keys; revoke some first")]
    TooMany,
    /// What is stored cannot be read.
    #[error("the stored keys cannot be read")]
    Unreadable,
    /// The secret could not be sealed.
    #[error("the secret could not be sealed")]
    Sealing,
    /// The store did not do it.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<StoredValueError> for KeyError {
    fn from(error: StoredValueError) -> Self {
        match error {
            StoredValueError::Unreadable(_) => Self::Unreadable,
            StoredValueError::Store(error) => Self::Store(error),
        }
    }
}

/// A key as it is kept.
#[derive(Clone)]
pub(crate) struct ApiKey {
    pub(crate) name: String,
    pub(crate) role: Role,
    pub(crate) created_at: UnixMillis,
    pub(crate) expires_at: Option<UnixMillis>,
    proof: Proof,
}

#[derive(Clone)]
enum Proof {
    Bearer(ApiKeyDigest),
    Pair { access_key_id: AccessKeyId, sealed_secret: Vec<u8> },
}

impl ApiKey {
    pub(crate) fn kind(&self) -> KeyKind {
        match self.proof {
            Proof::Bearer(_) => KeyKind::Bearer,
            Proof::Pair { .. } => KeyKind::SigV4,
        }
    }

    pub(crate) fn access_key_id(&self) -> Option<&str> {
        match &self.proof {
            Proof::Bearer(_) => None,
            Proof::Pair { access_key_id, .. } => Some(access_key_id.as_str()),
        }
    }

    pub(crate) fn has_expired(&self, now: UnixMillis) -> bool {
        self.expires_at.is_some_and(|end| end <= now)
    }

    /// Whether its holder can administer the server without an end.
    fn lets_in_for_good(&self) -> bool {
        self.role == Role::Admin && self.expires_at.is_none()
    }

    fn principal(&self) -> Principal {
        Principal { name: self.name.clone(), role: self.role }
    }
}

/// How a key is written in the store.
#[derive(Serialize, Deserialize)]
struct StoredKey {
    name: String,
    role: String,
    created_at: u64,
    expires_at: Option<u64>,
    /// Of a bearer key.
    digest: Option<String>,
    /// Of a pair.
    access_key_id: Option<String>,
    sealed_secret: Option<String>,
}

impl StoredKey {
    fn of(key: &ApiKey) -> Self {
        let (digest, access_key_id, sealed_secret) = match &key.proof {
            Proof::Bearer(digest) => (Some(STANDARD.encode(digest.to_bytes())), None, None),
            Proof::Pair { access_key_id, sealed_secret } => {
                (None, Some(access_key_id.as_str().to_owned()), Some(STANDARD.encode(sealed_secret)))
            }
        };
        Self {
            name: key.name.clone(),
            role: key.role.as_str().to_owned(),
            created_at: key.created_at.0,
            expires_at: key.expires_at.map(|end| end.0),
            digest,
            access_key_id,
            sealed_secret,
        }
    }

    fn read(self) -> Option<ApiKey> {
        let proof = match (self.digest, self.access_key_id, self.sealed_secret) {
            (Some(digest), None, None) => {
                let digest = STANDARD.decode(digest).ok()?.try_into().ok()?;
                Proof::Bearer(ApiKeyDigest::from_bytes(digest))
            }
            (None, Some(id), Some(sealed)) => Proof::Pair {
                access_key_id: AccessKeyId::parse(&id).ok()?,
                sealed_secret: STANDARD.decode(sealed).ok()?,
            },
            _ => return None,
        };
        Some(ApiKey {
            name: self.name,
            role: Role::parse(&self.role)?,
            created_at: UnixMillis(self.created_at),
            expires_at: self.expires_at.map(UnixMillis),
            proof,
        })
    }
}

/// Every key, in the order in which they were made.
#[derive(Default)]
pub(crate) struct KeyList(pub(crate) Vec<ApiKey>);

impl StoredContent for KeyList {
    const NAME: &'static str = "api-keys";

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let stored: Vec<StoredKey> = serde_json::from_slice(bytes).ok()?;
        Some(Self(stored.into_iter().map(StoredKey::read).collect::<Option<_>>()?))
    }

    fn to_bytes(&self) -> Vec<u8> {
        let stored: Vec<StoredKey> = self.0.iter().map(StoredKey::of).collect();
        serde_json::to_vec(&stored).expect("our own structures can be written as JSON")
    }
}

/// All keys, in memory as in the store.
pub(crate) struct ApiKeys {
    keys: StoredValue<KeyList>,
    secrets: Arc<MasterSecrets>,
    /// Of `ANTEROOM_ADMIN_KEY`: an admin's, as long as the variable is set.
    environment: Option<ApiKeyDigest>,
}

impl ApiKeys {
    pub(crate) async fn open(
        store: Arc<dyn Store>,
        secrets: Arc<MasterSecrets>,
        environment: Option<ApiKeyDigest>,
    ) -> Result<Self, KeyError> {
        Ok(Self { keys: StoredValue::open(store).await?, secrets, environment })
    }

    /// Reads the keys again, for a store that was restored or changed by another node.
    pub(crate) async fn reload(&self) -> Result<(), KeyError> {
        Ok(self.keys.reload().await?)
    }

    pub(crate) fn secrets(&self) -> &Arc<MasterSecrets> {
        &self.secrets
    }

    pub(crate) fn has_environment_key(&self) -> bool {
        self.environment.is_some()
    }

    pub(crate) fn all(&self) -> Arc<KeyList> {
        self.keys.get()
    }

    /// Whose key this is. Every key is compared, so that the time taken says nothing about which one matched.
    pub(crate) fn by_key(&self, shown: &str, now: UnixMillis) -> Option<Principal> {
        let shown = ApiKeyDigest::of(shown);
        let mut found = None;
        for key in &self.keys.get().0 {
            if let Proof::Bearer(digest) = &key.proof
                && digest.equals(&shown)
                && !key.has_expired(now)
            {
                found = Some(key.principal());
            }
        }
        if self.environment.as_ref().is_some_and(|digest| digest.equals(&shown)) {
            found = Some(Principal { name: ENVIRONMENT_KEY_NAME.into(), role: Role::Admin });
        }
        found
    }

    /// Whether a caller who was let in before would still be: the key is there, with that role.
    pub(crate) fn is_valid(&self, principal: &Principal, now: UnixMillis) -> bool {
        if principal.name == ENVIRONMENT_KEY_NAME && self.environment.is_some() {
            return true;
        }
        let keys = self.keys.get();
        let is_own = |key: &&ApiKey| key.name == principal.name && key.role == principal.role;
        keys.0.iter().find(is_own).is_some_and(|key| !key.has_expired(now))
    }

    /// Whose signature this is; what is wrong with it is for the log.
    pub(crate) fn by_signature(
        &self,
        parts: &http::request::Parts,
        body: &[u8],
        now: UnixMillis,
    ) -> Result<Principal, sigv4::SigV4Error> {
        let checked = self.checked_signature(parts, body, now);
        if let Err(error) = &checked {
            // Anybody who reaches the port can cause this, so it must not fill the log.
            tracing::debug!(%error, "signed request refused");
        }
        checked
    }

    fn checked_signature(
        &self,
        parts: &http::request::Parts,
        body: &[u8],
        now: UnixMillis,
    ) -> Result<Principal, sigv4::SigV4Error> {
        let header = parts.headers.get(http::header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let authorization = Authorization::parse(header.unwrap_or_default(), sigv4::SERVICE)?;
        let keys = self.keys.get();
        let shown = authorization.access_key_id().as_str();
        let key = keys.0.iter().find(|key| key.access_key_id() == Some(shown) && !key.has_expired(now));
        let secret = key.and_then(|key| self.secret_of(key));
        let mut headers: Vec<(&str, &[u8])> =
            parts.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
        // HTTP/2 has the host in the address.
        if let Some(authority) = parts.uri.authority()
            && !parts.headers.contains_key(http::header::HOST)
        {
            headers.push(("host", authority.as_str().as_bytes()));
        }
        let request = SignedRequest {
            method: parts.method.as_str(),
            path: parts.uri.path(),
            query: parts.uri.query().unwrap_or_default(),
            headers: &headers,
            body,
        };
        sigv4::verify(&request, &authorization, secret.as_ref(), now)?;
        key.map(ApiKey::principal).ok_or(sigv4::SigV4Error::UnknownAccessKey)
    }

    fn secret_of(&self, key: &ApiKey) -> Option<SecretAccessKey> {
        let Proof::Pair { access_key_id, sealed_secret } = &key.proof else { return None };
        let opened = SecretAccessKey::open(&self.secrets, access_key_id.as_str().as_bytes(), sealed_secret);
        if opened.is_err() {
            tracing::error!(key = key.name, "secret of access key pair cannot be decrypted");
        }
        opened.ok()
    }

    /// Makes a key.
    pub(crate) async fn create(
        &self,
        new: NewKey,
        actor: &str,
        now: UnixMillis,
        tell: impl Fn(Event) -> StoredEvent,
    ) -> Result<(ApiKey, CreatedKey), KeyError> {
        if RoomId::parse(&new.name).is_err() {
            return Err(KeyError::BadName);
        }
        let (proof, created) = match new.kind {
            KeyKind::Bearer => {
                let key = api_key::generate(new.role.as_str());
                (Proof::Bearer(ApiKeyDigest::of(&key)), CreatedKey::Bearer(key))
            }
            KeyKind::SigV4 => {
                let (access_key_id, secret) = (AccessKeyId::generate(), SecretAccessKey::generate());
                let sealed_secret = secret
                    .seal(&self.secrets, access_key_id.as_str().as_bytes())
                    .map_err(|_| KeyError::Sealing)?;
                let created = CreatedKey::Pair {
                    access_key_id: access_key_id.as_str().to_owned(),
                    secret_access_key: secret.reveal().to_owned(),
                };
                (Proof::Pair { access_key_id, sealed_secret }, created)
            }
        };
        let key =
            ApiKey { name: new.name, role: new.role, created_at: now, expires_at: new.expires_at, proof };
        let action = format!("create key {} with role {}", key.name, key.role.as_str());
        let (name, role) = (key.name.clone(), key.role.as_str().to_owned());
        let event = tell(Event::KeyChanged { name, role, revoked: false, by: actor.to_owned() });
        self.replace(actor, action, now, &[event], |keys| {
            if RESERVED_NAMES.contains(&key.name.as_str()) || keys.iter().any(|other| other.name == key.name)
            {
                return Err(KeyError::NameTaken);
            }
            if keys.len() >= KEYS_MAX {
                return Err(KeyError::TooMany);
            }
            keys.push(key.clone());
            Ok(())
        })
        .await?;
        Ok((key, created))
    }

    /// Ends a key.
    pub(crate) async fn revoke(
        &self,
        name: &str,
        actor: &str,
        now: UnixMillis,
        tell: impl Fn(Event) -> StoredEvent,
    ) -> Result<(), KeyError> {
        let environment = self.environment.is_some();
        let known = self.keys.get().0.iter().find(|key| key.name == name).map(|key| key.role);
        let role = known.map_or(String::new(), |role| role.as_str().to_owned());
        let (name_of, by) = (name.to_owned(), actor.to_owned());
        let event = tell(Event::KeyChanged { name: name_of, role, revoked: true, by });
        self.replace(actor, format!("revoke key {name}"), now, &[event], |keys| {
            let place = keys.iter().position(|key| key.name == name).ok_or(KeyError::Unknown)?;
            let lets_in = keys.remove(place).lets_in_for_good();
            let somebody_left = environment || keys.iter().any(ApiKey::lets_in_for_good);
            if lets_in && !somebody_left { Err(KeyError::LastAdmin) } else { Ok(()) }
        })
        .await
    }

    /// Takes over the key of an older store, or makes the first one; returns it if it was made now.
    pub(crate) async fn make_first(
        &self,
        now: UnixMillis,
        tell: impl Fn(Event) -> StoredEvent,
    ) -> Result<Option<String>, KeyError> {
        if !self.keys.get().0.is_empty() || self.environment.is_some() {
            return Ok(None);
        }
        let store = self.keys.store();
        let were_keys = store.value(KeyList::NAME).await?.is_some();
        // Only into a store that has no list yet: a key that was taken over and revoked since must not come back.
        if let Some(stored) = store.value(FIRST_KEY_VALUE).await?.filter(|_| !were_keys) {
            let digest = stored.try_into().map_err(|_| KeyError::Unreadable)?;
            let proof = Proof::Bearer(ApiKeyDigest::from_bytes(digest));
            let key = ApiKey {
                name: FIRST_KEY_NAME.into(),
                role: Role::Admin,
                created_at: now,
                expires_at: None,
                proof,
            };
            self.replace("anteroom", "take over the first admin key".into(), now, &[], |keys| {
                keys.push(key.clone());
                Ok(())
            })
            .await?;
            return Ok(None);
        }
        let first = NewKey {
            name: FIRST_KEY_NAME.into(),
            role: Role::Admin,
            kind: KeyKind::Bearer,
            expires_at: None,
        };
        match self.create(first, "anteroom", now, tell).await? {
            (_, CreatedKey::Bearer(key)) => Ok(Some(key)),
            (_, CreatedKey::Pair { .. }) => unreachable!("a bearer key was asked for"),
        }
    }

    async fn replace(
        &self,
        actor: &str,
        action: String,
        now: UnixMillis,
        events: &[StoredEvent],
        change: impl Fn(&mut Vec<ApiKey>) -> Result<(), KeyError>,
    ) -> Result<(), KeyError> {
        let audit = AuditRecord { at: now, room: None, actor: actor.into(), action, detail: None };
        self.keys.replace_and_tell(&audit, events, |keys| change(&mut keys.0)).await
    }
}

/// Whether a server that takes on the keys of a backup could still be administered.
pub(crate) fn accept(values: &BTreeMap<String, Vec<u8>>, has_environment_key: bool) -> Result<(), String> {
    let keys = values.get(KeyList::NAME).map_or(Some(KeyList::default()), |bytes| KeyList::from_bytes(bytes));
    let keys = keys.ok_or("The API keys of the backup cannot be read")?;
    if has_environment_key || keys.0.iter().any(ApiKey::lets_in_for_good) {
        return Ok(());
    }
    Err("The backup holds no admin key, so nobody could get in; start this server with ANTEROOM_ADMIN_KEY first".into())
}
