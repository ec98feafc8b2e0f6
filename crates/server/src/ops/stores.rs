//! Opening the store that the configuration names, and the master secret that belongs to it.

use std::path::Path;
use std::sync::Arc;

use anteroom_store::clock::SteadyClock;
use anteroom_store::embedded::OpenError;
use anteroom_store::redis::{Ordering, RedisCertificates, RedisOptions, Replicas};
use anteroom_store::{EmbeddedStore, MemoryStore, RedisStore, Seal, Store, StoreError, SystemClock};
use anteroom_tokens::StoreSeal;
use anteroom_tokens::random;
use anteroom_tokens::secret::MasterSecrets;
use anyhow::Context;
use secrecy::ExposeSecret;

use crate::STORE_FILE_NAME;
use crate::config::{Config, RedisUrl, Secrets, StoreOrdering, StoreReplicas, StoreUrl, redis_danger};
use crate::ops::master_secret;
use crate::run::Hinted;

const SECRET_FILE_NAME: &str = "master-secret";

/// A store, ready to be used.
pub(crate) struct OpenStore {
    pub(crate) store: Arc<dyn Store>,
    /// The same, where it is one that several nodes share: it has figures of its own.
    pub(crate) redis: Option<Arc<RedisStore>>,
}

/// Opens the store that the configuration names.
pub(crate) async fn open(config: &Config, secrets: &Secrets) -> anyhow::Result<OpenStore> {
    let store: Arc<dyn Store> = match &config.store_url {
        StoreUrl::Memory => Arc::new(MemoryStore::default()),
        StoreUrl::File(directory) => {
            // Before a database is made: a secret that cannot be read leaves nothing behind.
            if given_secrets(config, secrets)?.is_none() {
                refuse_secret_without_database(directory)?;
            }
            Arc::new(open_embedded(directory)?)
        }
        StoreUrl::Redis(url) => {
            let redis = Arc::new(open_redis(url, config, secrets).await?);
            return Ok(OpenStore { store: redis.clone(), redis: Some(redis) });
        }
    };
    Ok(OpenStore { store, redis: None })
}

fn open_embedded(directory: &Path) -> anyhow::Result<EmbeddedStore> {
    let store = EmbeddedStore::open(directory, Arc::new(SteadyClock::new(SystemClock)));
    let hint = match &store {
        Err(OpenError::InUse) => "one server at a time can have a data directory; stop the other one first",
        Err(OpenError::Newer { .. }) => "use the newer version, or another directory in `store_url`",
        _ => "`store_url` names a directory that this user can write to",
    };
    store.with_context(|| Hinted {
        what: format!("store_url file:{}", directory.display()),
        hint: hint.to_owned(),
    })
}

/// A master secret is made after its database, so a directory that has only the secret has lost the database. An empty one in its place
/// would know no ticket and no key.
fn refuse_secret_without_database(directory: &Path) -> anyhow::Result<()> {
    let (database, secret) = (directory.join(STORE_FILE_NAME), directory.join(SECRET_FILE_NAME));
    if database.try_exists().unwrap_or(true) || !secret.try_exists().unwrap_or(false) {
        return Ok(());
    }
    Err(Hinted {
        what: format!("{} is missing, and the master secret beside it was made for it", database.display()),
        hint: format!(
            "put the database back. Nothing was changed. To begin with an empty one under this secret, for example \
             to restore a backup, name the secret: secret_file = \"{}\"",
            secret.display()
        ),
    }
    .into())
}

async fn open_redis(url: &RedisUrl, config: &Config, secrets: &Secrets) -> anyhow::Result<RedisStore> {
    let seal = MasterSeal(StoreSeal::new(&shared_secrets(config, secrets)?));
    warn_of_danger(url);
    let mut options = redis_options(url, config)?;
    options.prefix.clone_from(&config.store_prefix);
    options.seal = Arc::new(seal);
    options.ordering = match config.store_ordering {
        StoreOrdering::Strict => Ordering::Strict,
        StoreOrdering::HighestSeen => Ordering::Lenient,
    };
    options.replicas = match config.store_replicas {
        StoreReplicas::Auto => Replicas::Auto,
        StoreReplicas::Exactly(count) => Replicas::Exactly(u32::try_from(count)?),
    };
    let opened = RedisStore::open(&options).await;
    let hint = match &opened {
        Err(StoreError::Permanent(_)) => {
            "docs/operating/redis.md says what a Redis needs: its URL, the rights of its user, its settings"
        }
        _ => "is the Redis running, and does `store_url` name it? A node starts only when it answers",
    };
    opened.with_context(|| Hinted { what: format!("store_url {url}"), hint: hint.to_owned() })
}

/// How a Redis is reached, whatever is kept there.
pub(crate) fn redis_options(url: &RedisUrl, config: &Config) -> anyhow::Result<RedisOptions> {
    let certificates = certificates(config)?;
    Ok(RedisOptions { certificates, ..RedisOptions::new(url.clone()) })
}

/// Says what is dangerous about the way to a Redis.
pub(crate) fn warn_of_danger(url: &RedisUrl) {
    if let Some(danger) = redis_danger(url) {
        tracing::warn!(%url, "{danger}");
    }
}

/// The certificates for a Redis over TLS.
fn certificates(config: &Config) -> anyhow::Result<RedisCertificates> {
    let read = |setting: &str, path: &Path| {
        std::fs::read(path).with_context(|| Hinted {
            what: format!("{setting} {}", path.display()),
            hint: "a PEM file that this user can read".into(),
        })
    };
    let authorities = config.store_tls_ca.as_deref().map(|path| read("store_tls_ca", path)).transpose()?;
    let client = match (&config.store_tls_cert, &config.store_tls_key) {
        (Some(certificate), Some(key)) => {
            Some((read("store_tls_cert", certificate)?, read("store_tls_key", key)?.into()))
        }
        _ => None,
    };
    Ok(RedisCertificates { authorities, client })
}

/// The seal of `tokens` as a store takes it: `store` knows no keys.
struct MasterSeal(StoreSeal);

impl Seal for MasterSeal {
    fn seal(&self, plain: &[u8]) -> Vec<u8> {
        self.0.seal(plain)
    }

    fn open(&self, sealed: &[u8]) -> Option<Vec<u8>> {
        self.0.open(sealed)
    }
}

/// The master secret that was given: in the environment, or in the named file.
fn given_secrets(config: &Config, secrets: &Secrets) -> anyhow::Result<Option<MasterSecrets>> {
    if let Some(secret) = &secrets.secret {
        let parsed = MasterSecrets::parse(secret.expose_secret()).with_context(|| Hinted {
            what: "ANTEROOM_SECRET".into(),
            hint: "make one with `openssl rand -base64 32`".into(),
        });
        return parsed.map(Some);
    }
    let Some(path) = &config.secret_file else { return Ok(None) };
    let read = MasterSecrets::from_file(path).with_context(|| Hinted {
        what: format!("secret_file {}", path.display()),
        hint: "a file with one secret a line, the first one seals; make one with `openssl rand -base64 32`"
            .into(),
    });
    read.map(Some)
}

/// The master secret of nodes that share a store.
pub(crate) fn shared_secrets(config: &Config, secrets: &Secrets) -> anyhow::Result<MasterSecrets> {
    given_secrets(config, secrets)?.ok_or_else(|| {
        Hinted {
            what: "store_url names a Redis, but no master secret is given".into(),
            hint: "every node needs the same one: make it with `openssl rand -base64 32`, and give it to each as \
                   ANTEROOM_SECRET or in the file that `secret_file` names"
                .into(),
        }
        .into()
    })
}

/// The master secret: as given, or as it lies in the data directory. It is made there for a store that has never had one, and only then:
/// a new one would open nothing of what an older one has sealed.
pub(crate) async fn master_secrets(
    config: &Config,
    secrets: &Secrets,
    store: &dyn Store,
) -> anyhow::Result<MasterSecrets> {
    if let Some(given) = given_secrets(config, secrets)? {
        return Ok(given);
    }
    match &config.store_url {
        StoreUrl::Memory => Ok(MasterSecrets::parse(&random::text(32))?),
        StoreUrl::Redis(_) => shared_secrets(config, secrets),
        StoreUrl::File(directory) => {
            let path = directory.join(SECRET_FILE_NAME);
            let is_missing = !path.try_exists().unwrap_or(true);
            if is_missing && master_secret::is_made_with_one(store).await? {
                return Err(Hinted {
                    what: format!("{} is missing, and the database beside it was made with it", path.display()),
                    hint: "put the file back from where you keep a copy, or give the secret as ANTEROOM_SECRET or \
                           `secret_file`. Nothing was changed. Without it no ticket, cookie or key of this database \
                           can be read; to begin anew, name another directory in `store_url`"
                        .into(),
                }
                .into());
            }
            load_or_generate(&path)
        }
    }
}

fn load_or_generate(path: &Path) -> anyhow::Result<MasterSecrets> {
    let loaded = MasterSecrets::load_or_generate(path).with_context(|| path.display().to_string())?;
    if loaded.generated {
        tracing::info!(file = %path.display(), "master secret created, keep a copy: without it no ticket can be read");
    }
    if loaded.readable_by_others {
        tracing::warn!(file = %path.display(), "master secret file is readable by other users, chmod 600 it");
    }
    Ok(loaded.secrets)
}
