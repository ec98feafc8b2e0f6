//! The table of server settings. Adding a row adds the field, the key, the variable, the parser and the reference.

use std::fmt::Write;

use super::gateway::{Forwarding, OriginHttp2, OriginList, RequestPath, UnknownHosts};
use super::kinds::{
    Address, AlarmPrefix, Algorithm, FilePath, Flag, HeaderField, Integer, LogFilter, NetworkList, Optional,
    Presence, PublicUrl, Required, Room, Seconds, StageName, Thresholds,
};
use super::limits::{FailureMode, KeyHeader, LimitsLocation};
use super::source::Source;
use super::store::{KeyPrefix, Ordering, ReplicaCount, StoreLocation};
use super::{SECRET_SETTINGS, variable_name};

/// One server setting, described.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    /// The key in the file.
    pub name: &'static str,
    /// What it does, one line each.
    pub documentation: &'static [&'static str],
    /// Whether it may be left unset. If so, `sample` is only an example; else it is the default.
    pub optional: bool,
    /// The default or an example, as a variable would have it.
    pub sample: &'static str,
    /// Whether the file has it in quotes.
    pub quoted: bool,
    /// What a valid value is, in words.
    pub expected: fn() -> String,
}

/// Each row: what it does, its key, its kind, and its default (or, when optional, an example).
macro_rules! settings {
    ($( $(#[doc = $documentation:literal])+ $name:ident: $presence:ty = $sample:literal; )+) => {
        /// The server settings. Relative paths are relative to the working directory.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct Config {
            $( $(#[doc = $documentation])+ pub $name: <$presence as Presence>::Value, )+
        }

        /// Every server setting, in the order of the reference.
        pub const SETTINGS: &[Setting] = &[
            $( Setting {
                name: stringify!($name),
                documentation: &[$($documentation),+],
                optional: <$presence as Presence>::OPTIONAL,
                sample: $sample,
                quoted: <$presence as Presence>::QUOTED,
                expected: <$presence as Presence>::expected,
            }, )+
        ];

        impl Config {
            /// Reads every setting before giving up on one, so that all problems are found.
            pub(super) fn read(source: &mut Source<'_>) -> Option<Self> {
                $( let $name = source.setting::<$presence>(stringify!($name), $sample); )+
                Some(Self { $( $name: $name?, )+ })
            }
        }
    };
}

settings! {
    /// Where visitors connect: API, pages, gateway. Port 0 lets the system choose; the choice is printed.
    public_addr: Required<Address> = "127.0.0.1:8080";
    /// Where operators connect. Off loopback it should have TLS.
    private_addr: Required<Address> = "127.0.0.1:8081";
    /// The public listener as visitors reach it, and the default issuer of passes.
    /// When unset: made from the address the public listener is bound to.
    public_url: Optional<PublicUrl> = "https://wait.example.com";
    /// Where state lives. `memory:` forgets everything at the end of the process. Several nodes share a Redis or Valkey:
    /// `redis://`, `rediss://` (TLS), `redis+sentinel://`, `redis+cluster://`. A URL with a password is given as the variable only.
    store_url: Required<StoreLocation> = "file:./anteroom-data";
    /// The stage of API Gateway in the URLs of clients that come from AWS: its calls, and no others, are then also taken behind it, as
    /// `/api/serving_num`. A signature is over the path as it was sent. When unset: a path is what it says.
    aws_stage: Optional<StageName> = "api";
    /// The PEM certificates of those who vouch for a Redis over TLS. When unset: whom the system trusts.
    store_tls_ca: Optional<FilePath> = "/etc/anteroom/redis-ca.crt";
    /// The PEM certificate that is shown to a Redis which asks for one.
    store_tls_cert: Optional<FilePath> = "/etc/anteroom/redis-client.crt";
    /// The PEM key that belongs to it.
    store_tls_key: Optional<FilePath> = "/etc/anteroom/redis-client.key";
    /// What every key of ours in a Redis begins with, so that several installations can share one.
    store_prefix: Required<KeyPrefix> = "anteroom";
    /// How many replicas of a Redis must have a pass before it leaves. `auto`: one, where there are replicas.
    store_replicas: Required<ReplicaCount> = "auto";
    /// `strict` refuses a Redis that does not permit INFO in scripts, by which every failover is noticed. `highest-seen` takes
    /// it with a warning: after a failover two visitors may have got the same place.
    store_ordering: Required<Ordering> = "strict";
    /// How long reads are answered from the last board, marked as stale, while a Redis is lost. After that they get 503.
    stale_reads_max_seconds: Required<Seconds<5, 86_400>> = "300";
    /// How long rooms let nobody in that are made in a Redis without any data, counted from its first use. Such a Redis may have been
    /// emptied, and holders of tickets from before show them within that time; then they go first. 0: at once.
    store_recovery_seconds: Required<Seconds<0, 120>> = "20";
    /// The site that the gateway stands before, as this machine reaches it; several that share its requests with commas between
    /// them. When set, every request outside `/.anteroom/` is the gateway's, except those of rooms with `origins` of their own.
    origin: Optional<OriginList> = "http://127.0.0.1:3000";
    /// How many visitors the site takes at once. Makes a room `site` for it, where no `[[room]]` is configured.
    capacity: Optional<Integer<0, 1_000_000_000>> = "500";
    /// What becomes of a request whose host no room names, where rooms name their `hosts`: `refuse` answers 421, `pass` takes it to a
    /// room without hosts or unprotected to `origin`, which may serve the same site under every host.
    unknown_hosts: Required<UnknownHosts> = "refuse";
    /// How long a connection to an origin may take to come about.
    origin_connect_timeout_seconds: Required<Seconds<1, 300>> = "5";
    /// How long an origin may take to begin its answer.
    origin_response_timeout_seconds: Required<Seconds<1, 3600>> = "60";
    /// How long a connection to an origin is kept without use. Shorter than the origin keeps its own.
    origin_idle_timeout_seconds: Required<Seconds<1, 3600>> = "4";
    /// Connections that one origin gets at most.
    origin_connections_max: Required<Integer<1, 65_535>> = "256";
    /// How much of them, and of `uploads_max`, requests without a visit hold at most: bypassed ones, and those of no room.
    origin_connections_without_visit_percent: Required<Integer<1, 100>> = "50";
    /// How many connections to one origin the requests of one visit hold at most; more of them wait for each other, and for nobody else.
    origin_connections_per_visit_max: Required<Integer<1, 65_535>> = "32";
    /// Request bodies that may be on their way from visitors to one site at once; one more is answered with 503. One that is
    /// there at once is not counted. Each takes up to 64 KiB.
    uploads_max: Required<Integer<1, 1_000_000>> = "1024";
    /// How many of one client, by address (IPv6 by /64, and twice as many by /48); one more is answered with 429.
    uploads_per_client_max: Required<Integer<1, 1_000_000>> = "32";
    /// The least that a visitor must send of a request body, in bytes a second; a slower one gets 408. 10 seconds are free.
    upload_bytes_per_second_min: Required<Integer<1, 1_000_000>> = "1024";
    /// How long a visitor may take for a whole request body.
    upload_timeout_seconds: Required<Seconds<1, 86_400>> = "3600";
    /// Whether origins are spoken to in HTTP/2: `auto` where TLS is spoken and the origin chooses it.
    origin_http2: Required<OriginHttp2> = "never";
    /// Whether origins see the host that the visitor asked for, or their own.
    origin_preserve_host: Required<Flag> = "true";
    /// The PEM certificates of those who vouch for origins over TLS. When unset: whom the system trusts.
    origin_tls_ca: Optional<FilePath> = "/etc/anteroom/origin-ca.crt";
    /// What origins are asked for to find out whether they are well. When unset, all are taken to be.
    origin_health_path: Optional<RequestPath> = "/healthz";
    /// How often.
    origin_health_interval_seconds: Required<Seconds<1, 3600>> = "5";
    /// What origins read in `Forwarded` and `X-Forwarded-*`: what we have seen (`replace`), that behind what came (`append`, for a
    /// trusted proxy before us), or nothing (`remove`).
    forwarded_headers: Required<Forwarding> = "replace";
    /// A directory of waiting pages of your own, `NAME.html` each; rooms name one as `page_template`. Read again when they change.
    page_templates: Optional<FilePath> = "/etc/anteroom/pages";
    /// A file with the master secret. When neither this nor `ANTEROOM_SECRET` is set, a secret is made in the
    /// data directory; with a Redis one must be given, the same on every node.
    secret_file: Optional<FilePath> = "/run/secrets/anteroom";
    /// What is logged to standard error: error, warn, info, debug or trace, also by module.
    log: Required<LogFilter> = "info";
    /// The room of calls of our own API that name none. When unset: the only room there is.
    default_room: Optional<Room> = "Sample";
    /// A header that only your CDN sends, with the value of `ANTEROOM_ORIGIN_SECRET`. When set, public requests without it
    /// get 403, so that nobody goes past the CDN.
    origin_secret_header: Optional<HeaderField> = "x-api-key";
    /// Proxies before this server, as networks: only their `X-Forwarded-For` is believed when it is asked who a client is. When
    /// unset: nobody's, and the other end of a connection is the client. Without it all visitors behind a proxy are one.
    trusted_proxies: Optional<NetworkList> = "10.0.0.0/8, 2001:db8::/32";
    /// Proxies that ask for verdicts at `/check/`, as networks: nginx, Caddy, Traefik, Envoy and others. What they say of a request
    /// is believed, and they count as `trusted_proxies`. Instead, or beside it, `check_secret_file` holds what they
    /// have to show; where both are set, both must be right.
    check_proxies: Optional<NetworkList> = "10.0.0.0/8";
    /// A file with the secret that proxies show in `Anteroom-Check-Secret` when they ask for verdicts; at least 16 characters.
    check_secret_file: Optional<FilePath> = "/run/secrets/anteroom-check";
    /// Where Envoy asks for verdicts over gRPC (`ext_authz`); also Istio and the Gateway API. Only for those who may ask there.
    ext_authz_addr: Optional<Address> = "127.0.0.1:8082";
    /// How passes are signed. `EdDSA` signs some 70 times as fast as RS256; RS256 is what most origins verify.
    signing_algorithm: Required<Algorithm> = "RS256";
    /// Connections each listener holds at once; one more is answered with 503.
    /// When unset: derived from the limit on open files.
    max_connections: Optional<Integer<1, 1_000_000>> = "8192";
    /// How much of them one client holds at most on the public listener, by address (IPv6 by /64, and twice as much by /48); the same of
    /// `watch_tls_max`. One more is answered with 503. `trusted_proxies` and `limits_exempt` are not limited.
    connections_per_client_percent: Required<Integer<1, 100>> = "25";
    /// How long a client may take for a request's header.
    header_read_timeout_seconds: Required<Seconds<1, 300>> = "10";
    /// How long a connection may idle between two requests. Keep it longer than the proxy before this server does, or
    /// now and then a request meets a connection that is being closed: nginx and most load balancers keep theirs for 60 s. While more
    /// than half of `max_connections` are taken, new HTTP/1.1 connections may idle for no longer than `header_read_timeout_seconds`.
    idle_timeout_seconds: Required<Seconds<1, 3600>> = "75";
    /// How long requests in flight may take to finish once the server is told to stop.
    drain_timeout_seconds: Required<Seconds<0, 3600>> = "10";
    /// The largest request body that our own API reads.
    request_body_max_bytes: Required<Integer<1024, 1_048_576>> = "16384";
    /// Live streams (`/watch`) send the board of a room at most once in this time.
    watch_interval_milliseconds: Required<Integer<10, 60_000>> = "1000";
    /// A live stream on which nothing happens gets a keep-alive at least this often, so that proxies keep it open.
    watch_keep_alive_seconds: Required<Seconds<1, 45>> = "15";
    /// Live streams over TLS at once; one more is answered with 503. Each holds about as much memory as any TLS connection,
    /// while one in clear HTTP/1.1 holds next to none and is only bounded by `max_connections`.
    watch_tls_max: Required<Integer<0, 1_000_000>> = "5000";
    /// What the names of this server's own alarms begin with, as in `Anteroom-Public-4xx-Alarm`.
    alarm_prefix: Required<AlarmPrefix> = "Anteroom";
    /// An own alarm fires when more than this was counted within a minute; 0 for those that are not named. Names are those of
    /// `anteroom alarm list` without prefix and `-Alarm`.
    alarm_thresholds: Optional<Thresholds> = "Public-4xx=100, join-Refusals=20";
    /// An alarm told from outside that nobody has told of for longer than this is shown as stale. Longer than Alertmanager's
    /// `repeat_interval`, which is four hours by default.
    alarm_stale_seconds: Required<Seconds<60, 31_536_000>> = "18000";
    /// How long events are kept for destinations and for `GET /events`, at most. They are also dropped, the oldest first, beyond 100,000 of
    /// rooms and of the server, and 500,000 of visitors.
    events_kept_seconds: Required<Seconds<60, 2_592_000>> = "604800";
    /// A directory in which destinations of the kind `file` write. When unset: there are none of that kind.
    events_directory: Optional<FilePath> = "/var/log/anteroom";
    /// Networks that are not of the public Internet and to which events may be sent all the same, as networks; there also without TLS.
    /// Whoever may make destinations can have this server speak to everything in them. When unset: only to public addresses, over TLS.
    destinations_private_allowed: Optional<NetworkList> = "10.0.0.0/8, 127.0.0.0/8";
    /// The PEM certificates of those who vouch for destinations over TLS, beside whom the system trusts.
    destinations_ca_file: Optional<FilePath> = "/etc/anteroom/destinations-ca.crt";
    /// Where clients' budgets of requests are kept (`[[limit]]` tables say how large they are). `memory:` keeps them on each node
    /// for itself. A URL with a password is given as the variable only. When unset: in the Redis of `store_url`, or in memory.
    limits_store_url: Optional<LimitsLocation> = "redis://127.0.0.1:6380";
    /// What happens to requests while that Redis does not answer: `local-joins` gives every node budgets of its own for joins and lets
    /// all else through, `open` lets all of them through, `local` gives every node budgets of its own for all.
    limits_on_failure: Required<FailureMode> = "local-joins";
    /// How long a request waits for that Redis at most.
    limits_budget_milliseconds: Required<Integer<1, 1_000>> = "5";
    /// The header that holds a client's key, for limits by key. Only digests of keys are kept. Whether a key is valid is for
    /// others to say.
    limits_key_header: Optional<KeyHeader> = "x-client-key";
    /// Clients that are never limited, as networks, or `none`. Those on this machine: health checks and operators. What carries
    /// `X-Forwarded-For` and comes from no trusted proxy is limited all the same.
    limits_exempt: Required<NetworkList> = "127.0.0.0/8, ::1/128";
    /// Whether answers also have the older `X-RateLimit-*` fields.
    limits_legacy_fields: Required<Flag> = "false";
    /// How many clients' budgets are kept in memory. Beyond that, new ones share a budget until others are whole again.
    limits_keys_max: Required<Integer<1_000, 100_000_000>> = "1000000";
    /// The public listener's PEM certificate chain. Reread when it changes, and on SIGHUP.
    public_tls_cert: Optional<FilePath> = "/etc/anteroom/public.crt";
    /// The PEM key that belongs to it.
    public_tls_key: Optional<FilePath> = "/etc/anteroom/public.key";
    /// The private listener's PEM certificate chain. Reread when it changes, and on SIGHUP.
    private_tls_cert: Optional<FilePath> = "/etc/anteroom/private.crt";
    /// The PEM key that belongs to it.
    private_tls_key: Optional<FilePath> = "/etc/anteroom/private.key";
    /// Whether `/metrics` on the private listener answers without a key.
    metrics_open: Required<Flag> = "false";
    /// A collector that takes spans of requests by OTLP over HTTP, at `/v1/traces` below this address. Only where the program was built
    /// with the feature `otlp`. When unset: no spans are made.
    otlp_endpoint: Optional<PublicUrl> = "http://127.0.0.1:4318";
}

/// The annotated server settings as TOML, each at its default. `anteroom.sample.toml` begins with exactly this.
pub fn reference() -> String {
    let mut text = String::from(
        "# Anteroom's configuration, every setting at its default.\n\
         #\n\
         # Read from `--config FILE`, or `anteroom.toml` in the working directory, or not at all: everything has a default.\n\
         # Every server setting is also an environment variable, which wins; an empty variable counts as not set.\n\
         # Relative paths are relative to the working directory.\n\
         #\n\
         # Secrets do not belong here. They are given by the environment:\n",
    );
    let mut line = |arguments: std::fmt::Arguments<'_>| {
        text.write_fmt(arguments).and_then(|()| text.write_char('\n')).expect("a String takes everything");
    };
    for secret in SECRET_SETTINGS {
        line(format_args!("#   {}: {}", variable_name(secret.name), secret.documentation));
    }
    for setting in SETTINGS {
        line(format_args!(""));
        for documentation in setting.documentation {
            line(format_args!("#{documentation}"));
        }
        line(format_args!("# {}: {}.", variable_name(setting.name), (setting.expected)()));
        let unset = if setting.optional { "# " } else { "" };
        let quote = if setting.quoted { "\"" } else { "" };
        line(format_args!("{unset}{} = {quote}{}{quote}", setting.name, setting.sample));
    }
    text
}
