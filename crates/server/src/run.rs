//! From a configuration to a running server, and back down again.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anteroom_admission::openid::clients::{FileRoom, OpenIdClients};
use anteroom_admission::signing_keys::SigningKeys;
use anteroom_admission::{Admission, AdmissionParts, RoomMap};
use anteroom_core::RoomId;
use anteroom_engine::Engine;
use anteroom_events::delivery::Delivery;
use anteroom_events::destinations::FileDestination;
use anteroom_events::{Destination, Destinations, OpenedSecrets, OutboundPolicy, transport_of};
use anteroom_gateway::identify::{Identification, Networks};
use anteroom_gateway::limiter::{Limiter, Policy};
use anteroom_gateway::{Gateway, GatewayParts};
use anteroom_pages::Pages;
use anteroom_store::clock::SteadyClock;
use anteroom_store::{NodeId, SystemClock};
use anteroom_tokens::api_key::ApiKeyDigest;
use anteroom_tokens::random;
use anteroom_tokens::secret::MasterSecrets;
use anteroom_tokens::signer::Signer;
use anyhow::Context;
use arc_swap::ArcSwap;
use secrecy::{ExposeSecret, SecretString};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::access::api_keys::ApiKeys;
use crate::access::{Authenticator, OriginSecret};
use crate::api::checks::CheckProxies;
use crate::api::events::EventStreams;
use crate::api::watch::{StreamLimits, WATCH_PATHS, Watch};
use crate::app::App;
use crate::config::{Config, Loaded, Secrets, file_destinations, file_rooms};
use crate::http::ext_authz::ExtAuthz;
use crate::http::listener::client_slots::ClientSlots;
use crate::http::listener::{self, Limits};
use crate::http::problem;
use crate::http::rate_limits;
use crate::http::routes::Listener;
use crate::http::service::Services;
use crate::http::staleness;
use crate::http::tls::Certificates;
use crate::ops::alarms::{self, Alarms};
use crate::ops::configured_rooms::{Applied, ConfiguredRoom};
use crate::ops::events;
use crate::ops::master_secret;
use crate::ops::metrics::Metrics;
use crate::ops::page_templates;
use crate::ops::peer_changes;
use crate::ops::shared_issuers;
use crate::ops::shutdown::Shutdown;
use crate::ops::stores::{self, OpenStore, master_secrets};

/// How long the delivery of events may take to stop.
const DELIVERY_STOP_TIMEOUT: Duration = Duration::from_secs(4);
/// Files the process needs beside connections: database, logs, certificates, the runtime's own.
const FILES_RESERVED: u64 = 128;
/// Below this many open files a sale is not survivable, so it is worth a warning.
const FILES_ADVISED: u64 = 4_096;
/// The most connections a listener takes unless configured: each may hold 32 KB of unfinished header.
const CONNECTIONS_DERIVED_MAX: u64 = 50_000;
/// Tenths of the files that are for the public listener's connections.
const PUBLIC_SHARE: u64 = 8;
/// Tenths for the private listener's.
const PRIVATE_SHARE: u64 = 1;
/// Live streams leave one in so many of the public connections to other requests, so that watching cannot keep visitors
/// from joining.
const WATCH_RESERVE_SHARE: u64 = 20;
/// How many slots every client has, however few there are.
const CLIENT_SLOTS_MIN: u64 = 16;
/// The shortest admin key that is taken: short ones can be guessed.
const ADMIN_KEY_MIN_CHARACTERS: usize = 16;
/// Passes that may wait for a signing thread.
const SIGNING_QUEUE_MAX: usize = 1_024;

/// The listeners, bound but not yet served.
pub struct Bound {
    public: TcpListener,
    private: TcpListener,
    ext_authz: Option<TcpListener>,
}

impl Bound {
    /// Takes all addresses, or says which one is not to be had.
    pub async fn bind(config: &Config) -> anyhow::Result<Self> {
        Ok(Self {
            public: bind("public_addr", config.public_addr).await?,
            private: bind("private_addr", config.private_addr).await?,
            ext_authz: match config.ext_authz_addr {
                Some(address) => Some(bind("ext_authz_addr", address).await?),
                None => None,
            },
        })
    }
}

async fn bind(setting: &str, address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).await.with_context(|| Hinted {
        what: format!("cannot listen on {address}"),
        hint: format!(
            "is another server running? set `{setting}` to another address; port 0 takes a free one"
        ),
    })
}

/// A failure of which we know what helps.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub struct Hinted {
    /// What does not work.
    pub what: String,
    /// What to try.
    pub hint: String,
}

/// Where the server can be reached.
#[derive(Debug, Clone)]
pub struct Addresses {
    /// For visitors.
    pub public: String,
    /// For operators.
    pub private: String,
    /// For Envoy, where it may ask.
    pub ext_authz: Option<String>,
}

/// What a first start made that the operator must be shown once.
#[derive(Default)]
pub struct FirstStart {
    /// The admin key, in clear for the only time.
    pub admin_key: Option<String>,
}

/// Serves until a shutdown is asked for, then drains. `ready` is called once, when both listeners answer; `reread`
/// changes when the certificates should be read again.
#[expect(clippy::too_many_lines, reason = "the story of a server from its configuration to its end")]
pub async fn run(
    loaded: Loaded,
    bound: Bound,
    shutdown: Shutdown,
    reread: watch::Receiver<u64>,
    ready: impl FnOnce(&Addresses, FirstStart),
) -> anyhow::Result<()> {
    let Loaded { config, secrets, rooms, limits: policies, destinations, file } = loaded;
    let file_rooms = file_rooms(&rooms)?;
    // Without a file, the destinations that one made before are left alone.
    let file_destinations = file.map(|_| file_destinations(&destinations)).transpose()?;
    let rooms = ConfiguredRoom::all(&rooms, config.capacity)?;
    let connections_max = raise_file_limit();
    let public_tls = certificates(config.public_tls())?;
    let private_tls = certificates(config.private_tls())?;
    let addresses = Addresses {
        public: url(public_tls.is_some(), bound.public.local_addr()?),
        private: url(private_tls.is_some(), bound.private.local_addr()?),
        ext_authz: match &bound.ext_authz {
            Some(listener) => Some(url(private_tls.is_some(), listener.local_addr()?)),
            None => None,
        },
    };
    if !bound.private.local_addr()?.ip().is_loopback() && private_tls.is_none() {
        tracing::warn!(
            "the private listener is off loopback without TLS: its key can be read on the network"
        );
    }
    let public_connections = connections(&config, connections_max, PUBLIC_SHARE);
    let watch = Watch::start(StreamLimits {
        interval: Duration::from_millis(config.watch_interval_milliseconds),
        keep_alive: config.watch_keep_alive_seconds,
        tls_max: config.watch_tls_max,
        streams_max: public_connections - public_connections.div_ceil(WATCH_RESERVE_SHARE),
        clients: client_slots(&config, config.watch_tls_max),
    })
    .context("the threads for live streams do not start")?;
    let (pages, templates) = page_templates::open(&config).map_err(|error| Hinted {
        what: format!("page_templates cannot be read: {error}"),
        hint: "name a directory that this user can read, with files NAME.html".into(),
    })?;
    for room in &rooms {
        if let Err(problem) = page_templates::check(&pages, &room.settings) {
            tracing::warn!(room = %room.id, problem, "page template of room is not usable, serving the built-in page");
        }
    }
    let store = stores::open(&config, &secrets).await?;
    let (app, first_start) = compose(
        &config,
        &secrets,
        (&rooms, file_rooms, file_destinations),
        policies,
        &addresses,
        (store, watch, pages),
    )
    .await?;
    let limits = |max_connections: u64| Limits {
        header_read_timeout: config.header_read_timeout_seconds,
        idle_timeout: config.idle_timeout_seconds,
        drain_timeout: config.drain_timeout_seconds,
        max_connections,
        ..Limits::default()
    };
    let public_services = Services::new(Arc::clone(&app), Listener::Public);
    let public = listener::serve(
        "public",
        bound.public,
        public_tls.clone(),
        Limits {
            takeout_paths: WATCH_PATHS,
            clients: Some(client_slots(&config, public_connections)),
            ..limits(public_connections)
        },
        Arc::clone(&app.metrics.public_connections),
        move |peer| public_services.of(peer),
        shutdown.clone(),
    );
    let private_services = Services::new(Arc::clone(&app), Listener::Private);
    let private = listener::serve(
        "private",
        bound.private,
        private_tls.clone(),
        limits(connections(&config, connections_max, PRIVATE_SHARE)),
        Arc::clone(&app.metrics.private_connections),
        move |peer| private_services.of(peer),
        shutdown.clone(),
    );
    let ext_authz = serve_ext_authz(
        bound.ext_authz,
        private_tls.clone(),
        limits(connections(&config, connections_max, PRIVATE_SHARE)),
        &app,
        shutdown.clone(),
    );
    // Ends with this function: dropping the set stops what is left in it.
    let mut watchers = watch_over(&app, &shutdown);
    let mut delivering = JoinSet::new();
    delivering.spawn(events::run(Arc::clone(&app), shutdown.clone()));
    for certificates in [public_tls, private_tls].into_iter().flatten() {
        watchers.spawn(Arc::clone(&certificates).watch(shutdown.clone()));
        watchers.spawn(reread_on_notice(certificates, reread.clone()));
    }
    if let Some(templates) = templates {
        watchers.spawn(templates.watch(shutdown.clone()));
    }
    ready(&addresses, first_start);
    tracing::info!(public = addresses.public, private = addresses.private, "ready");
    // Polled after the listeners, so that these have counted their connections before the streams among them close.
    let closing = async {
        shutdown.requested().await;
        app.watch.close();
        app.admission.auctions.close();
        app.closing.send_replace(true);
        app.gateway.close();
    };
    let (public, private, checks, ()) = tokio::join!(biased; public, private, ext_authz, closing);
    // It waits a moment for what is in flight, and says how far it has come.
    let _ = tokio::time::timeout(DELIVERY_STOP_TIMEOUT, delivering.join_next()).await;
    app.engine.stop().await;
    tracing::info!(cut = public.cut + private.cut + checks, "stopped");
    Ok(())
}

/// What goes on beside the listeners.
fn watch_over(app: &Arc<App>, shutdown: &Shutdown) -> JoinSet<()> {
    let mut watchers = JoinSet::new();
    watchers.spawn(Arc::clone(&app.gateway).run_maintenance());
    watchers.spawn(alarms::run(Arc::clone(app), shutdown.clone()));
    watchers.spawn(peer_changes::keep_up(Arc::clone(app), shutdown.clone()));
    watchers.spawn(staleness::run(Arc::clone(app), shutdown.clone()));
    watchers.spawn(Arc::clone(&app.limiter).keep_probing());
    watchers
}

/// Serves Envoy's listener, if there is one; returns how many connections were cut at its end.
async fn serve_ext_authz(
    listener: Option<TcpListener>,
    tls: Option<Arc<Certificates>>,
    limits: Limits,
    app: &Arc<App>,
    shutdown: Shutdown,
) -> u64 {
    let Some(listener) = listener else { return 0 };
    let limits = Limits { is_http2_in_clear: true, ..limits };
    let counters = Arc::clone(&app.metrics.ext_authz_connections);
    let services = |peer| ExtAuthz::new(app, peer);
    listener::serve("ext_authz", listener, tls, limits, counters, services, shutdown).await.cut
}

/// Reads the certificates again whenever the number of requests to do so has grown.
async fn reread_on_notice(certificates: Arc<Certificates>, mut reread: watch::Receiver<u64>) {
    while reread.changed().await.is_ok() {
        let certificates = Arc::clone(&certificates);
        // A failure is logged by the reload itself, and the old certificate stays.
        let _ = tokio::task::spawn_blocking(move || certificates.reload()).await;
    }
}

/// What the configuration file says beside settings: its rooms, their clients, and its destinations, if there is a file.
type FileContent<'a> = (&'a [ConfiguredRoom], Vec<FileRoom>, Option<Vec<FileDestination>>);

/// Engine, keys and rooms on a store, put together.
async fn compose(
    config: &Config,
    secrets: &Secrets,
    (rooms, mut file_rooms, file_destinations): FileContent<'_>,
    policies: Vec<Policy>,
    addresses: &Addresses,
    (store, watch, pages): (OpenStore, Watch, Arc<Pages>),
) -> anyhow::Result<(Arc<App>, FirstStart)> {
    let OpenStore { store, redis } = store;
    let master = Arc::new(master_secrets(config, secrets, &*store).await?);
    // Before anything else is read: what another secret has sealed cannot be opened, and a clear sentence says why.
    master_secret::check_secrets(&*store, &master).await?;
    let clock = store.clock().unwrap_or_else(|| Arc::new(SteadyClock::new(SystemClock)));
    let node = NodeId(random::uuid_v4().as_u128());
    let engine = Engine::start(Arc::clone(&store), clock, node).await?;
    engine.set_recovery_hold(config.store_recovery_seconds);
    let keys = SigningKeys::open(&*store, &master, config.signing_algorithm, engine.now()).await?;
    let openid_clients = Arc::new(OpenIdClients::open(Arc::clone(&store)).await?);
    let mut expected_rooms = vec![];
    for room in rooms {
        if room.apply(&engine, &openid_clients).await? == Applied::Exists {
            expected_rooms.push(room.id.clone());
        }
    }
    file_rooms.retain(|file| expected_rooms.contains(&file.room));
    openid_clients.apply_file(&file_rooms, engine.now()).await?;
    let destinations = open_destinations(config, &engine, &master, file_destinations).await?;
    let (access, first_start) = authenticator(&engine, &master, secrets).await?;
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let alarms = Alarms::open(Arc::clone(&engine), config).await?;
    let public_url = config.public_url.clone().unwrap_or_else(|| addresses.public.clone());
    let limiter = rate_limits::open(config, policies).await?;
    let check_proxies = check_proxies(config, secrets)?;
    let trusted_proxies = config.trusted_proxies.clone().unwrap_or_default();
    let identification = Arc::new(Identification {
        trusted_proxies: match &config.check_proxies {
            Some(proxies) => trusted_proxies.with(proxies),
            None => trusted_proxies,
        },
        key_header: config.limits_key_header.clone(),
    });
    let limiting = (&limiter, &identification);
    let admission = Arc::new(Admission::new(AdmissionParts {
        engine: Arc::clone(&engine),
        secrets: Arc::clone(&master),
        keys,
        signer: Signer::new(threads, SIGNING_QUEUE_MAX)?,
        openid_clients,
        default_issuer: public_url.clone(),
        default_room: config.default_room.clone(),
    }));
    let gateway = gateway(
        (config, check_proxies.is_configured()),
        &admission,
        expected_rooms,
        &public_url,
        limiting,
        &pages,
    )?;
    let deliveries = deliveries(config, &engine, &destinations)?;
    let app = App {
        gateway,
        pages,
        rooms: RoomMap::default(),
        engine,
        admission,
        metrics: Metrics::new(),
        access,
        origin_secret: origin_secret(config, secrets)?,
        check_proxies,
        limiter,
        identification,
        watch,
        redis,
        alarms,
        deliveries,
        destinations,
        events_kept: config.events_kept_seconds,
        event_streams: EventStreams::default(),
        closing: watch::Sender::default(),
        outbox_state: ArcSwap::default(),
        restoring: tokio::sync::Mutex::default(),
        public_url,
        request_body_max_bytes: usize::try_from(config.request_body_max_bytes)?,
        metrics_open: config.metrics_open,
        aws_stage: config.aws_stage.clone(),
        stale_reads_max: config.stale_reads_max_seconds,
    };
    app.follow_rooms();
    shared_issuers::warn(&app.admission);
    Ok((Arc::new(app), first_start))
}

/// The destinations of events: those of the store, as the file wants them.
async fn open_destinations(
    config: &Config,
    engine: &Engine,
    master: &Arc<MasterSecrets>,
    file: Option<Vec<FileDestination>>,
) -> anyhow::Result<Arc<Destinations>> {
    let store = Arc::clone(engine.store());
    let destinations = Destinations::open(store, Arc::clone(master), config.destination_rules()).await?;
    destinations.reseal(engine.now()).await?;
    if let Some(file) = file {
        destinations.apply_file(&file, engine.now()).await?;
    }
    Ok(Arc::new(destinations))
}

/// What delivers events to them.
fn deliveries(
    config: &Config,
    engine: &Arc<Engine>,
    destinations: &Arc<Destinations>,
) -> anyhow::Result<Arc<Delivery>> {
    let allowed = config.destinations_private_allowed.iter().flat_map(Networks::iter);
    let ca_file = config.destinations_ca_file.as_deref();
    let policy = OutboundPolicy::new(allowed.collect(), ca_file).map_err(|error| Hinted {
        what: error.to_string(),
        hint: "destinations_ca_file names PEM certificates, readable by this user".into(),
    })?;
    let policy = Arc::new(policy);
    let (engine_of_keys, known, directory) =
        (Arc::clone(engine), Arc::clone(destinations), config.events_directory.clone());
    let transports = move |destination: &Destination| {
        let (name, now) = (destination.name.as_str(), engine_of_keys.now());
        let secrets = OpenedSecrets { webhook_keys: known.keys_of(name, now), text: known.secret_of(name) };
        let made = transport_of(destination, secrets, Arc::clone(&policy), directory.clone());
        made.map_err(|error| error.to_string())
    };
    events::follow_destinations(engine, destinations);
    Ok(Arc::new(events::delivery(engine, destinations, Box::new(transports), config.events_kept_seconds)))
}

/// The gateway. It costs nothing where no room has an origin, and is there for rooms that get one later.
fn gateway(
    (config, answers_checks): (&Config, bool),
    admission: &Arc<Admission>,
    expected_rooms: Vec<RoomId>,
    public_url: &str,
    (limiter, identification): (&Arc<Limiter>, &Arc<Identification>),
    pages: &Arc<Pages>,
) -> anyhow::Result<Arc<Gateway>> {
    let gateway = Gateway::new(GatewayParts {
        admission: Arc::clone(admission),
        expected_rooms,
        origins: config.origin.clone().unwrap_or_default(),
        proxy: config.proxy_settings()?,
        passes_unknown_hosts: config.unknown_hosts,
        answers_checks,
        identification: Arc::clone(identification),
        limiter: Arc::clone(limiter),
        public_is_tls: public_url.starts_with("https://"),
        public_url: config.public_url.clone(),
        pages: Arc::clone(pages),
        problems: problem::page_address(public_url),
    });
    gateway.map_err(|error| {
        let hint = "origin is the address of your site, such as http://127.0.0.1:3000".into();
        Hinted { what: error.to_string(), hint }.into()
    })
}

/// The keys the private listener accepts: those of the store, and the one of the environment. Without any, one is made.
async fn authenticator(
    engine: &Engine,
    master: &Arc<MasterSecrets>,
    secrets: &Secrets,
) -> anyhow::Result<(Authenticator, FirstStart)> {
    let environment = secrets.admin_key.as_ref().map(|key| {
        if key.expose_secret().chars().count() < ADMIN_KEY_MIN_CHARACTERS {
            return Err(Hinted {
                what: format!("ANTEROOM_ADMIN_KEY is shorter than {ADMIN_KEY_MIN_CHARACTERS} characters"),
                hint: "make one with `openssl rand -base64 32`".into(),
            });
        }
        Ok(ApiKeyDigest::of(key.expose_secret()))
    });
    let keys =
        ApiKeys::open(Arc::clone(engine.store()), Arc::clone(master), environment.transpose()?).await?;
    let admin_key = keys.make_first(engine.now(), |event| engine.event_now(None, event)).await?;
    Ok((Authenticator { keys }, FirstStart { admin_key }))
}

/// What the CDN must show, if only the CDN may come in.
fn origin_secret(config: &Config, secrets: &Secrets) -> anyhow::Result<Option<OriginSecret>> {
    match (&config.origin_secret_header, &secrets.origin_secret) {
        (Some(name), Some(secret)) if secret.expose_secret().chars().count() >= ADMIN_KEY_MIN_CHARACTERS => {
            Ok(Some(OriginSecret::new(name.clone(), secret.expose_secret())))
        }
        (Some(_), _) => Err(Hinted {
            what: format!(
                "origin_secret_header is set, but ANTEROOM_ORIGIN_SECRET is not, or has fewer than {ADMIN_KEY_MIN_CHARACTERS} characters"
            ),
            hint: "make one with `openssl rand -base64 32` and let your CDN send it in that header".into(),
        }
        .into()),
        (None, Some(_)) => Err(Hinted {
            what: "ANTEROOM_ORIGIN_SECRET is set, but origin_secret_header is not".into(),
            hint: "name the header that holds it, e.g. origin_secret_header = \"x-api-key\"".into(),
        }
        .into()),
        (None, None) => Ok(None),
    }
}

/// Which proxies may ask for verdicts.
fn check_proxies(config: &Config, secrets: &Secrets) -> anyhow::Result<CheckProxies> {
    let named = secrets.check_secret.clone().map(|secret| ("ANTEROOM_CHECK_SECRET".to_owned(), secret));
    let secret = match (named, &config.check_secret_file) {
        (Some(named), _) => Some(named),
        (None, Some(path)) => {
            let text = std::fs::read_to_string(path).map_err(|error| Hinted {
                what: format!("check_secret_file cannot be read: {}: {error}", path.display()),
                hint: "make one with `openssl rand -base64 32`, readable by this user".into(),
            })?;
            Some((path.display().to_string(), SecretString::from(text.trim())))
        }
        (None, None) => None,
    };
    let digest = |(source, secret): (String, SecretString)| {
        if secret.expose_secret().chars().count() < ADMIN_KEY_MIN_CHARACTERS {
            return Err(Hinted {
                what: format!("the secret of {source} is shorter than {ADMIN_KEY_MIN_CHARACTERS} characters"),
                hint: "make one with `openssl rand -base64 32`".into(),
            });
        }
        Ok(ApiKeyDigest::of(secret.expose_secret()))
    };
    Ok(CheckProxies { networks: config.check_proxies.clone(), secret: secret.map(digest).transpose()? })
}

fn certificates(files: Option<(&Path, &Path)>) -> anyhow::Result<Option<Arc<Certificates>>> {
    let Some((certificate, key)) = files else { return Ok(None) };
    let certificates = Certificates::load(certificate, key).map_err(|error| Hinted {
        what: error.to_string(),
        hint: "a PEM certificate chain and the PEM key that belongs to it, readable by this user".into(),
    })?;
    Ok(Some(Arc::new(certificates)))
}

fn url(tls: bool, address: SocketAddr) -> String {
    format!("{}://{address}", if tls { "https" } else { "http" })
}

/// How many connections a listener holds: what was configured, or its share of the files.
fn connections(config: &Config, connections_max: u64, share: u64) -> u64 {
    config.max_connections.unwrap_or((connections_max / 10 * share).clamp(16, CONNECTIONS_DERIVED_MAX))
}

/// How many of so many slots each client holds. A handful at least, which one browser needs.
fn client_slots(config: &Config, slots: u64) -> Arc<ClientSlots> {
    let share = slots.saturating_mul(config.connections_per_client_percent) / 100;
    let share = usize::try_from(share.max(CLIENT_SLOTS_MIN)).unwrap_or(usize::MAX);
    let exempt =
        [Some(config.limits_exempt.clone()), config.trusted_proxies.clone(), config.check_proxies.clone()];
    ClientSlots::new(share, exempt.into_iter().flatten().collect())
}

/// Raises the soft limit on open files to the hard one; returns how many connections that allows.
fn raise_file_limit() -> u64 {
    let limit = rlimit::increase_nofile_limit(u64::MAX).unwrap_or(1_024);
    if limit < FILES_ADVISED {
        tracing::warn!(limit, "low limit of open files bounds the connections, raise `ulimit -n`");
    }
    limit.saturating_sub(FILES_RESERVED)
}

#[cfg(test)]
mod tests;
