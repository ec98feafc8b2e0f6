//! What Prometheus reads at `/metrics`.

mod process;
mod rooms;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anteroom_core::UnixMillis;
use anteroom_engine::RoomHandle;
use anteroom_proxy::OriginView;
use anteroom_store::redis::Guarantee;
use http::StatusCode;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use crate::api::watch::Kind;
use crate::app::App;
use crate::http::listener::Connections;
use crate::http::routes::Listener;
use crate::http::staleness::Freshness;
use crate::http::tls::Certificates;
use crate::openid::counters::OpenIdCounters;
use crate::ops::events;

/// How a request ended.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    listener: &'static str,
    route: &'static str,
    status: u16,
}

/// Counters that handlers raise, and the sources the rest is read from.
pub(crate) struct Metrics {
    requests: Family<RequestLabels, Counter>,
    pub(crate) fast_serving_num: FastCounters,
    pub(crate) fast_waiting_num: FastCounters,
    pub(crate) fast_queue_num: FastCounters,
    pub(crate) fast_status: FastCounters,
    pub(crate) fast_board: FastCounters,
    pub(crate) public_connections: Arc<Connections>,
    pub(crate) private_connections: Arc<Connections>,
    pub(crate) ext_authz_connections: Arc<Connections>,
    /// What OpenID clients asked for, and what became of it.
    pub(crate) openid: OpenIdCounters,
    public_failures: ResponseFailures,
    private_failures: ResponseFailures,
}

/// Answers that were no success, for the own alarms of a listener.
#[derive(Default)]
struct ResponseFailures {
    client_errors: AtomicU64,
    server_errors: AtomicU64,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let requests = Family::default();
        Self {
            fast_serving_num: FastCounters::new(&requests, "/serving_num"),
            fast_waiting_num: FastCounters::new(&requests, "/waiting_num"),
            fast_queue_num: FastCounters::new(&requests, "/queue_num"),
            fast_status: FastCounters::new(&requests, "/status"),
            fast_board: FastCounters::new(&requests, "/rooms/{id}"),
            requests,
            public_connections: Arc::default(),
            private_connections: Arc::default(),
            ext_authz_connections: Arc::default(),
            openid: OpenIdCounters::default(),
            public_failures: ResponseFailures::default(),
            private_failures: ResponseFailures::default(),
        }
    }

    /// The connections of each listener, by its name.
    fn listeners(&self) -> [(&'static str, &Connections); 3] {
        [
            ("public", &self.public_connections),
            ("private", &self.private_connections),
            ("ext_authz", &self.ext_authz_connections),
        ]
    }

    /// Counts a request that has been answered.
    pub(crate) fn count_response(&self, listener: &'static str, route: &'static str, status: u16) {
        self.count_expected_refusal(listener, route, status);
        if status >= 400 {
            let public = listener == Listener::Public.name();
            let failures = if public { &self.public_failures } else { &self.private_failures };
            let counter = if status < 500 { &failures.client_errors } else { &failures.server_errors };
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The same for an expected refusal, such as that of a visitor who has to wait: it is no failure, whatever its
    /// status. An alarm that counted it would hold the line that the visitor waits in, and would never resolve.
    pub(crate) fn count_expected_refusal(&self, listener: &'static str, route: &'static str, status: u16) {
        self.requests.get_or_create(&RequestLabels { listener, route, status }).inc();
    }

    /// Answers of 400 to 499, and of 500 and above with connections refused at the cap, which are answered with 503; of both
    /// listeners, in the order of `anteroom_core::alarms::resource_names`.
    pub(crate) fn response_errors(&self) -> [u64; 4] {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (public, private) = (&self.public_failures, &self.private_failures);
        [
            load(&public.client_errors),
            load(&public.server_errors) + self.public_connections.refused(),
            load(&private.client_errors),
            load(&private.server_errors) + self.private_connections.refused(),
        ]
    }
}

/// The counters of a hot read, found beforehand: raising one is a single atomic, because there are very many.
pub(crate) struct FastCounters {
    ok: Counter,
    not_modified: Counter,
}

impl FastCounters {
    fn new(requests: &Family<RequestLabels, Counter>, route: &'static str) -> Self {
        let counter = |status: StatusCode| {
            let labels = RequestLabels { listener: "public", route, status: status.as_u16() };
            requests.get_or_create(&labels).clone()
        };
        Self { ok: counter(StatusCode::OK), not_modified: counter(StatusCode::NOT_MODIFIED) }
    }

    pub(crate) fn count(&self, status: StatusCode) {
        if status == StatusCode::NOT_MODIFIED {
            self.not_modified.inc()
        } else {
            self.ok.inc()
        };
    }
}

/// All figures in the text format of Prometheus.
pub(crate) fn render(app: &Arc<App>) -> Result<String, std::fmt::Error> {
    let mut all = Registry::default();
    all.register_collector(Box::new(process::Figures));
    let registry = all.sub_registry_with_prefix("anteroom");
    registry.register(
        "requests",
        "Requests answered, by listener, route and status",
        app.metrics.requests.clone(),
    );
    registry.register(
        "watch_push_seconds",
        "From the beginning of a push until the last stream taken out of hyper had it",
        app.watch.counts().push_seconds.clone(),
    );
    app.metrics.openid.register(registry);
    app.gateway.register(registry);
    registry.register_collector(Box::new(Figures(Arc::clone(app))));
    let mut buffer = String::new();
    text::encode(&mut buffer, &all)?;
    Ok(buffer)
}

/// Figures that are kept in other places and read when asked for.
struct Figures(Arc<App>);

impl std::fmt::Debug for Figures {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Figures")
    }
}

impl Collector for Figures {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let app = &self.0;
        let load = |value: &AtomicU64| value.load(Ordering::Relaxed);
        let engine = app.engine.counters();
        let mut counter = |name: &str, help: &str, value: u64| {
            let metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            ConstCounter::new(value).encode(metric)
        };
        counter("joins", "Places handed out", load(&engine.joins))?;
        counter("place_lookups", "Looks at places of served tickets", load(&engine.place_looks))?;
        counter("sessions_begun", "Sessions begun", load(&engine.sessions_begun))?;
        counter(
            "passes_signed",
            "Passes signed, of three signatures each, and access tokens alone",
            app.admission.signer.signings(),
        )?;
        counter(
            "passes_shared",
            "Passes given to somebody who asked while or after they were signed",
            app.admission.signer.answers_shared(),
        )?;
        counter(
            "signer_refusals",
            "Passes refused because too many were waiting to be signed",
            app.admission.signer.refusals(),
        )?;
        counter("store_commits", "Commits and batches of joins written", load(&engine.commits))?;
        counter("store_commit_microseconds", "Time spent waiting for them", load(&engine.commit_micros))?;
        counter(
            "store_conflicts",
            "Commits computed anew because another node was faster",
            load(&engine.conflicts),
        )?;
        counter("store_failures", "Commits that failed or whose outcome is unknown", load(&engine.failures))?;
        counter(
            "room_panics",
            "Turns of a room that stopped at a mistake and were tried again from the store",
            load(&engine.panics),
        )?;
        counter("overloads", "Operations refused because a room's queue was full", load(&engine.overloads))?;
        let watch = app.watch.counts();
        counter("watch_events", "Events sent on live streams", load(&watch.events))?;
        counter("watch_keep_alives", "Comments sent on quiet live streams", load(&watch.keep_alives))?;
        counter(
            "watch_slow_readers",
            "Live streams ended because their client did not read",
            load(&watch.slow_readers),
        )?;
        counter("watch_pushes", "Boards sent to all who watch a room", load(&watch.pushes))?;
        counter("alarm_notifications", "Notifications of alarms taken in", app.alarms.notifications())?;
        let auctions = app.admission.auctions.counts();
        counter("auction_rounds", "Rounds of auctions settled", load(&auctions.rounds))?;
        counter("auction_winners", "Winners of rounds", load(&auctions.winners))?;
        counter(
            "auction_told_to_return",
            "Check-ins that were told to come back",
            load(&auctions.refused_until_later),
        )?;
        encode_health(&mut encoder, app)?;
        encode_connections(&mut encoder, app)?;
        let mut metric =
            encoder.encode_descriptor("watch_connections", "Live streams open", None, MetricType::Gauge)?;
        for kind in Kind::ALL {
            gauge(watch.open(kind)).encode(metric.encode_family(&[("kind", kind.as_str())])?)?;
        }
        let rooms = app.engine.rooms();
        let now = app.now();
        rooms::encode(&mut encoder, &rooms, &app.admission.rooms.all(), now)?;
        let help = "People present at the open round of the room's auction, on this node";
        let mut metric = encoder.encode_descriptor("auction_present", help, None, MetricType::Gauge)?;
        for room in app.rooms.all() {
            let labels = [("room", room.handle.id().as_str())];
            gauge(room.round_table.present_count()).encode(metric.encode_family(&labels)?)?;
        }
        encode_clocks(&mut encoder, app, &rooms, now)?;
        app.alarms.encode(&mut encoder, now)?;
        events::encode(&mut encoder, app)?;
        app.limiter.encode(&mut encoder)?;
        encode_store(&mut encoder, app)?;
        encode_gateway(&mut encoder, app)?;
        let help = "Rooms whose last change failed";
        let metric = encoder.encode_descriptor("rooms_failing", help, None, MetricType::Gauge)?;
        gauge(load(&engine.rooms_failing)).encode(metric)?;
        let mut metric = encoder.encode_descriptor(
            "room_queue",
            "Operations waiting for the room",
            None,
            MetricType::Gauge,
        )?;
        for room in &rooms {
            gauge(room.queue_length() as u64)
                .encode(metric.encode_family(&[("room", room.id().as_str())])?)?;
        }
        Ok(())
    }
}

/// Which version runs, whether it is ready, how much the signer has to do, and until when certificates are valid.
fn encode_health(encoder: &mut DescriptorEncoder<'_>, app: &App) -> Result<(), std::fmt::Error> {
    let help = "1, with the version as a label";
    let mut metric = encoder.encode_descriptor("build_info", help, None, MetricType::Gauge)?;
    gauge(1).encode(metric.encode_family(&[("version", env!("CARGO_PKG_VERSION"))])?)?;
    let is_ready = app.engine.is_ready() && app.freshness() == Freshness::Fresh;
    let signer = &app.admission.signer;
    let figures: [(&str, &str, u64); 3] = [
        ("ready", "1 while /readyz answers 200", u64::from(is_ready)),
        ("signer_queue", "Passes that wait to be signed, or are being signed", signer.in_flight() as u64),
        ("signer_queue_max", "How many passes that may be", signer.in_flight_max() as u64),
    ];
    for (name, help, value) in figures {
        gauge(value).encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)?;
    }
    let help = "When the first certificate of the listener's chain ends, in seconds since 1970";
    let name = "certificate_expires_timestamp_seconds";
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (listener, connections) in app.metrics.listeners() {
        if let Some(expires_at) = connections.certificates().and_then(Certificates::expires_at_seconds) {
            ConstGauge::new(expires_at).encode(metric.encode_family(&[("listener", listener)])?)?;
        }
    }
    Ok(())
}

/// How far clocks differ.
fn encode_clocks(
    encoder: &mut DescriptorEncoder<'_>,
    app: &App,
    rooms: &[Arc<RoomHandle>],
    now: UnixMillis,
) -> Result<(), std::fmt::Error> {
    let help = "How far the room's clock is ahead of this machine's: it never goes back";
    let mut metric = encoder.encode_descriptor("room_clock_ahead_seconds", help, None, MetricType::Gauge)?;
    for room in rooms {
        let ahead = room.with_board(|board| board.clock.since(now)) / 1000;
        gauge(ahead).encode(metric.encode_family(&[("room", room.id().as_str())])?)?;
    }
    let help = "How far the clock of the machine, or of the Redis, has jumped from the time that is held; 0 while it is followed";
    let metric = encoder.encode_descriptor("clock_off_seconds", help, None, MetricType::Gauge)?;
    ConstGauge::new(app.engine.clock_off_by_millis() / 1000).encode(metric)
}

/// The connections of each listener.
fn encode_connections(encoder: &mut DescriptorEncoder<'_>, app: &App) -> Result<(), std::fmt::Error> {
    for (listener, connections) in app.metrics.listeners() {
        let mut counter = |name: &str, help: &str, value: u64| {
            let name = format!("{listener}_{name}");
            let metric = encoder.encode_descriptor(&name, help, None, MetricType::Counter)?;
            ConstCounter::new(value).encode(metric)
        };
        counter("connections_accepted", "Connections accepted", connections.accepted())?;
        counter("connections_refused", "Connections refused at the cap", connections.refused())?;
        let help = "Connections refused because their client had as many as it may";
        counter("connections_refused_of_client", help, connections.refused_of_client())?;
        counter("connections_cut", "Connections cut at the end of a drain", connections.cut())?;
        counter("handshake_failures", "TLS handshakes that failed", connections.handshake_failures())?;
        counter("accept_errors", "Errors while accepting", connections.accept_errors())?;
        let name = format!("{listener}_connections_open");
        let metric = encoder.encode_descriptor(&name, "Connections open", None, MetricType::Gauge)?;
        gauge(connections.open()).encode(metric)?;
        let name = format!("{listener}_connections_max");
        let help = "How many connections may be open, 0 where nobody listens";
        let metric = encoder.encode_descriptor(&name, help, None, MetricType::Gauge)?;
        gauge(connections.max()).encode(metric)?;
    }
    Ok(())
}

/// What only a store has that several nodes share.
fn encode_store(encoder: &mut DescriptorEncoder<'_>, app: &App) -> Result<(), std::fmt::Error> {
    let help = "Time since a shared store last answered; 0 on a store that no other node changes";
    let metric = encoder.encode_descriptor("store_contact_age_seconds", help, None, MetricType::Gauge)?;
    ConstGauge::new(app.engine.staleness().as_secs_f64()).encode(metric)?;
    let Some(redis) = &app.redis else { return Ok(()) };
    let help = "Commands and batches of commands sent to the Redis";
    let metric = encoder.encode_descriptor("store_calls", help, None, MetricType::Counter)?;
    ConstCounter::new(redis.calls()).encode(metric)?;
    let help = "1 where the Redis does not let failovers be noticed: places are unique as far as nodes have seen them";
    let metric = encoder.encode_descriptor("store_ordering_downgraded", help, None, MetricType::Gauge)?;
    gauge(u64::from(redis.guarantee() == Guarantee::Downgraded)).encode(metric)
}

/// The gateway and the origins behind it.
fn encode_gateway(encoder: &mut DescriptorEncoder<'_>, app: &App) -> Result<(), std::fmt::Error> {
    let views: Vec<_> = app.gateway.origins().iter().map(|origins| origins.view()).collect();
    let sum = |figure: fn(&OriginView) -> usize| views.iter().map(|view| figure(view) as u64).sum();
    let figures: [(&str, &str, u64); 7] = [
        ("gateway_tunnels", "Upgraded connections open", app.gateway.tunnels()),
        ("gateway_origins", "Origins behind the gateway", sum(|view| view.total)),
        ("gateway_origins_healthy", "Those of them that are well", sum(|view| view.healthy)),
        ("gateway_origin_connections", "Connections to origins", sum(|view| view.connections)),
        ("gateway_origin_requests", "Requests at origins now", sum(|view| view.in_flight)),
        (
            "gateway_origin_requests_waiting",
            "Requests that wait for a connection to an origin",
            sum(|view| view.waiting),
        ),
        ("gateway_uploads", "Request bodies on their way from clients", sum(|view| view.uploads)),
    ];
    for (name, help, value) in figures {
        gauge(value).encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)?;
    }
    let sum = |figure: fn(&OriginView) -> u64| views.iter().map(figure).sum();
    let figures: [(&str, &str, u64); 2] = [
        (
            "gateway_uploads_refused",
            "Request bodies refused because too many were under way",
            sum(|view| view.uploads_refused),
        ),
        (
            "gateway_origin_exchanges_evicted",
            "Exchanges with idle clients given up for other requests",
            sum(|view| view.evicted),
        ),
    ];
    for (name, help, value) in figures {
        ConstCounter::new(value).encode(encoder.encode_descriptor(
            name,
            help,
            None,
            MetricType::Counter,
        )?)?;
    }
    Ok(())
}

pub(crate) fn gauge(value: u64) -> ConstGauge<i64> {
    ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX))
}
