//! The server's configuration: one TOML file, the environment over it, defaults under it.
//!
//! Server settings are flat keys, so each is also a variable: `public_addr` is `ANTEROOM_PUBLIC_ADDR`, and the variable
//! wins. They are declared once, as a table ([`settings`]), from which come the structure, the parser, the list of valid
//! names, and the annotated sample. `[[room]]`, `[[limit]]` and `[[destination]]` tables are checked and handed on.
//!
//! A mistake must cost an operator one look: every problem is reported at once, each with where it stands, what was
//! written, and what was expected. What is not understood is refused, never ignored.
//!
//! *Invariant:* reading depends on the arguments only, so tests need no process environment.

pub mod clients;
pub mod destinations;
pub mod gateway;
pub mod kinds;
pub mod limits;
pub mod problems;
pub mod rooms;
pub mod settings;
mod source;
pub mod store;
mod table_reader;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anteroom_events::{AllowedNetworks, DestinationRules};
use anteroom_gateway::identify::Networks;
use anteroom_gateway::limiter::Policy;
use secrecy::SecretString;

pub use clients::{ConfiguredClient, file_rooms};
pub use destinations::{ConfiguredDestination, file_destinations};
pub use problems::{ConfigError, Hint, Origin, Place, Problem, displayed, nearest};
pub use rooms::RoomTable;
pub use settings::{Config, SETTINGS, Setting, reference};
pub use store::{RedisUrl, StoreOrdering, StoreReplicas, StoreUrl, redis_danger};

use source::Source;

/// The file that is read from the working directory when none is named.
pub const DEFAULT_FILE_NAME: &str = "anteroom.toml";
/// Where to look every setting up.
pub const SAMPLE_FILE_NAME: &str = "anteroom.sample.toml";
/// What the name of each of our environment variables begins with.
pub const VARIABLE_PREFIX: &str = "ANTEROOM_";
/// Variables of the command line's own, which a server started from the same shell passes over.
pub const CLIENT_VARIABLES: &[&str] = &["ANTEROOM_URL"];
/// The largest configuration file that is read.
pub const FILE_MAX_BYTES: u64 = 4 * 1024 * 1024;

/// A setting that is a secret, and so may not stand in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SecretSetting {
    /// The name in lower case, as it would stand in the file.
    pub name: &'static str,
    /// What it is for.
    pub documentation: &'static str,
}

/// The master secret.
pub const SECRET: SecretSetting = SecretSetting {
    name: "secret",
    documentation: "The master secret that every key is derived from; wins over `secret_file`.",
};
/// An API key.
pub const ADMIN_KEY: SecretSetting = SecretSetting {
    name: "admin_key",
    documentation: "An API key that the private listener accepts as an admin's.",
};
/// What the CDN shows.
pub const ORIGIN_SECRET: SecretSetting = SecretSetting {
    name: "origin_secret",
    documentation: "What the header named by `origin_secret_header` must hold.",
};
/// What proxies show that ask for verdicts.
pub const CHECK_SECRET: SecretSetting = SecretSetting {
    name: "check_secret",
    documentation: "What proxies show in `Anteroom-Check-Secret` when they ask for verdicts; wins over `check_secret_file`.",
};
/// Every setting that is given by the environment only.
pub const SECRET_SETTINGS: &[SecretSetting] = &[SECRET, ADMIN_KEY, ORIGIN_SECRET, CHECK_SECRET];

/// Everything the operator said.
#[derive(Debug)]
pub struct Loaded {
    /// The server settings.
    pub config: Config,
    /// What may only be given by the environment.
    pub secrets: Secrets,
    /// The `[[room]]` tables, in the order of the file. Empty without a file.
    pub rooms: Vec<RoomTable>,
    /// The budgets of clients: those of the `[[limit]]` tables, and the default ones that they do not replace.
    pub limits: Vec<Policy>,
    /// The `[[destination]]` tables, in the order of the file.
    pub destinations: Vec<ConfiguredDestination>,
    /// The file that was read, if there was one.
    pub file: Option<PathBuf>,
}

/// Secrets given by the environment. They print as `[REDACTED]`.
#[derive(Debug, Default)]
pub struct Secrets {
    /// See [`SECRET`].
    pub secret: Option<SecretString>,
    /// See [`ADMIN_KEY`].
    pub admin_key: Option<SecretString>,
    /// See [`ORIGIN_SECRET`].
    pub origin_secret: Option<SecretString>,
    /// See [`CHECK_SECRET`].
    pub check_secret: Option<SecretString>,
}

impl Config {
    /// Reads the file (the named one, or [`DEFAULT_FILE_NAME`] in the working directory if there is one) and the
    /// environment, usually [`std::env::vars_os`]. An empty variable counts as not set.
    pub fn load(
        explicit_path: Option<&Path>,
        working_directory: &Path,
        environment: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<Loaded, ConfigError> {
        let file = source::find_file(explicit_path, working_directory)?;
        let text = file.as_deref().map(source::read_file).transpose()?;
        let mut source = Source::new(file.as_deref(), text.as_deref().unwrap_or_default(), environment)?;

        let config = Self::read(&mut source);
        let secrets = Secrets {
            secret: source.secret(SECRET),
            admin_key: source.secret(ADMIN_KEY),
            origin_secret: source.secret(ORIGIN_SECRET),
            check_secret: source.secret(CHECK_SECRET),
        };
        let rooms = rooms::read(&mut source);
        let has_key_header = config.as_ref().is_none_or(|config| config.limits_key_header.is_some());
        let limits = limits::read(&mut source, has_key_header);
        let destinations = destinations::read(&mut source, config.as_ref());
        source.refuse_what_is_left();
        if let Some(config) = &config {
            source.problems.extend(config.contradictions());
            source.problems.extend(config.gateway_contradictions(!rooms.is_empty()));
            let has_secret = secrets.check_secret.is_some() || config.check_secret_file.is_some();
            let may_anybody_check = config.check_proxies.is_some() || has_secret;
            if config.ext_authz_addr.is_some() && !may_anybody_check {
                source.problems.push(Problem::ExtAuthzWithoutProxies);
            }
        }
        let Source { problems, .. } = source;
        match (config, problems.is_empty()) {
            (Some(config), true) => Ok(Loaded { config, secrets, rooms, limits, destinations, file }),
            _ => Err(ConfigError::new(problems)),
        }
    }

    /// The files of the public listener's certificate and key, if it speaks TLS.
    pub fn public_tls(&self) -> Option<(&Path, &Path)> {
        self.public_tls_cert.as_deref().zip(self.public_tls_key.as_deref())
    }

    /// The files of the private listener's certificate and key, if it speaks TLS.
    pub fn private_tls(&self) -> Option<(&Path, &Path)> {
        self.private_tls_cert.as_deref().zip(self.private_tls_key.as_deref())
    }

    /// What the settings say about destinations of events.
    pub fn destination_rules(&self) -> DestinationRules {
        let allowed = self.destinations_private_allowed.iter().flat_map(Networks::iter);
        DestinationRules {
            networks: AllowedNetworks::new(allowed.collect()),
            has_events_directory: self.events_directory.is_some(),
        }
    }

    /// What the gateway's settings lack.
    fn gateway_contradictions(&self, has_rooms: bool) -> Option<Problem> {
        match (&self.origin, self.capacity, has_rooms) {
            (Some(_), None, false) => Some(Problem::OriginWithoutRoom),
            (_, Some(_), true) => Some(Problem::CapacityBesideRooms),
            _ => None,
        }
    }

    /// Settings that are fine alone and not together.
    fn contradictions(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        let pairs = [
            (("public_tls_cert", &self.public_tls_cert), ("public_tls_key", &self.public_tls_key)),
            (("private_tls_cert", &self.private_tls_cert), ("private_tls_key", &self.private_tls_key)),
            (("store_tls_cert", &self.store_tls_cert), ("store_tls_key", &self.store_tls_key)),
        ];
        for (certificate, key) in pairs {
            match (certificate.1, key.1) {
                (Some(_), None) => problems.push(Problem::HalfAPair { given: certificate.0, missing: key.0 }),
                (None, Some(_)) => problems.push(Problem::HalfAPair { given: key.0, missing: certificate.0 }),
                _ => {}
            }
        }
        if self.public_addr == self.private_addr && self.public_addr.port() != 0 {
            problems.push(Problem::OneAddressTwice { address: self.public_addr });
        }
        if let (Some(key), Some(secret)) = (&self.limits_key_header, &self.origin_secret_header)
            && key == secret
        {
            problems.push(Problem::OneHeaderTwice { header: key.to_string() });
        }
        problems
    }
}

/// The environment variable of a setting.
pub fn variable_name(setting: &str) -> String {
    format!("{VARIABLE_PREFIX}{}", setting.to_ascii_uppercase())
}
