//! The configuration as an operator meets it: the sample, the order of precedence, and the message for each mistake.

#![expect(clippy::unwrap_used, reason = "in a test, a panic is the way to fail")]

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anteroom_gateway::limiter::{OnFailure, Policy};
use anteroom_server::config::{
    Config, ConfigError, Loaded, SETTINGS, StoreOrdering, StoreReplicas, StoreUrl, reference, variable_name,
};
use anteroom_tokens::signing_key::SigningAlgorithm;
use secrecy::ExposeSecret;

/// Where the part of the sample that is written by hand begins.
const TABLES_BEGIN: &str = "\n# Limits. One [[limit]] for each";

fn sample_path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../anteroom.sample.toml")
}

fn variables(pairs: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
    pairs.iter().map(|(name, value)| (OsString::from(name), OsString::from(value))).collect()
}

/// Loads `text` as the `anteroom.toml` of an otherwise empty working directory.
fn load(text: &str, environment: &[(&str, &str)]) -> Result<Loaded, ConfigError> {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("anteroom.toml"), text).unwrap();
    Config::load(None, directory.path(), variables(environment))
}

fn defaults() -> Loaded {
    let directory = tempfile::tempdir().unwrap();
    Config::load(None, directory.path(), []).expect("nothing at all is a valid configuration")
}

/// The messages, with the temporary directory taken out of them.
fn messages(text: &str, environment: &[(&str, &str)]) -> Vec<String> {
    let error = load(text, environment).map(|loaded| loaded.config).expect_err(text);
    let strip = |message: String| match message.find("anteroom.toml") {
        Some(start) if message.starts_with('/') => message[start..].to_owned(),
        _ => message,
    };
    error.problems().iter().map(|problem| strip(problem.to_string())).collect()
}

#[test]
fn without_a_file_and_variables_everything_has_its_default() {
    let Loaded { config, secrets, rooms, limits, file, destinations: _ } = defaults();
    assert_eq!(config.public_addr, SocketAddr::from(([127, 0, 0, 1], 8080)));
    assert_eq!(config.private_addr, SocketAddr::from(([127, 0, 0, 1], 8081)));
    assert_eq!(config.public_url, None);
    assert_eq!(config.store_url, StoreUrl::File(PathBuf::from("./anteroom-data")));
    assert_eq!((config.store_prefix.as_str(), config.store_replicas), ("anteroom", StoreReplicas::Auto));
    assert_eq!(config.store_ordering, StoreOrdering::Strict);
    assert_eq!(config.stale_reads_max_seconds, Duration::from_mins(5));
    assert_eq!(config.secret_file, None);
    assert_eq!(config.log, "info");
    assert_eq!(config.signing_algorithm, SigningAlgorithm::Rs256);
    assert_eq!(config.max_connections, None);
    assert_eq!(config.header_read_timeout_seconds, Duration::from_secs(10));
    assert_eq!(config.idle_timeout_seconds, Duration::from_secs(75));
    assert_eq!(config.drain_timeout_seconds, Duration::from_secs(10));
    assert_eq!(config.request_body_max_bytes, 16_384);
    assert_eq!(config.watch_interval_milliseconds, 1_000);
    assert_eq!(config.watch_keep_alive_seconds, Duration::from_secs(15));
    assert_eq!(config.watch_tls_max, 5_000);
    assert_eq!((config.alarm_prefix.as_str(), &config.alarm_thresholds), ("Anteroom", &None));
    assert_eq!(config.alarm_stale_seconds, Duration::from_hours(5));
    assert_eq!((config.public_tls(), config.private_tls()), (None, None));
    assert!(!config.metrics_open);
    assert!(secrets.secret.is_none() && secrets.admin_key.is_none());
    assert!(rooms.is_empty());
    assert_eq!(limits.iter().map(Policy::name).collect::<Vec<_>>(), ["join", "claim", "move", "read"]);
    assert_eq!(
        (config.trusted_proxies, config.limits_store_url, config.limits_key_header),
        (None, None, None)
    );
    assert_eq!((config.limits_on_failure, config.limits_budget_milliseconds), (OnFailure::LocalJoins, 5));
    assert_eq!(config.limits_exempt, "127.0.0.0/8, ::1/128".parse().unwrap());
    assert_eq!((config.limits_legacy_fields, config.limits_keys_max), (false, 1_000_000));
    assert_eq!(file, None);
}

#[test]
fn the_sample_loads_and_equals_the_defaults() {
    let path = sample_path();
    let loaded = Config::load(Some(&path), Path::new("."), []).unwrap();
    assert_eq!(loaded.config, defaults().config);
    assert_eq!(loaded.limits, defaults().limits);
    assert_eq!(loaded.file.as_deref(), Some(path.as_path()));
    let ids: Vec<_> = loaded.rooms.iter().map(|room| room.id.as_str()).collect();
    assert_eq!(ids, ["Sample"]);
}

#[test]
fn the_sample_begins_with_the_generated_reference() {
    let (mut sample, reference) = (std::fs::read_to_string(sample_path()).unwrap(), reference());
    if std::env::var_os("ANTEROOM_WRITE_REFERENCES").is_some() {
        let tables = sample.find(TABLES_BEGIN).expect("the part about tables, which is written by hand");
        sample = format!("{reference}{}", &sample[tables..]);
        std::fs::write(sample_path(), &sample).unwrap();
    }
    assert!(
        sample.starts_with(&reference),
        "run this test with ANTEROOM_WRITE_REFERENCES=1 to write anteroom.sample.toml anew; it must begin with:\n{reference}"
    );
}

#[test]
fn every_setting_is_in_the_sample_and_in_the_document() {
    let documents = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operating");
    let [document, origins] =
        ["configuration.md", "origins.md"].map(|name| std::fs::read_to_string(documents.join(name)).unwrap());
    let sample = std::fs::read_to_string(sample_path()).unwrap();
    for setting in SETTINGS {
        let name = format!("`{}`", setting.name);
        let has_a_row = |line: &str| line.split('|').nth(1).is_some_and(|first| first.contains(&name));
        assert!(document.lines().chain(origins.lines()).any(has_a_row), "no row for {name}");
    }
    for field in anteroom_core::settings::FIELDS {
        let name = field.name;
        let in_sample =
            sample.lines().any(|line| line.trim_start_matches("# ").starts_with(&format!("{name} = ")));
        assert!(in_sample, "{name} is not in the sample");
        assert!(
            document.lines().any(|line| line.starts_with("| ") && line.contains(&format!("`{name}`"))),
            "{name}"
        );
    }
}

#[test]
fn every_key_of_the_sample_can_be_switched_on() {
    let sample = std::fs::read_to_string(sample_path()).unwrap();
    for setting in SETTINGS {
        let line = sample
            .lines()
            .find(|line| line.trim_start_matches("# ").starts_with(&format!("{} = ", setting.name)))
            .unwrap_or_else(|| panic!("the sample has no {}", setting.name));
        assert_eq!(line.starts_with('#'), setting.optional, "{line}");
    }
    let switched_on: Vec<&str> = sample
        .lines()
        .map(|line| match line.strip_prefix("# ") {
            Some(rest) if rest.split_once(" = ").is_some_and(|(key, _)| !key.contains(' ')) => rest,
            _ => line,
        })
        .collect();
    // Some go with a capacity only; one is for a server without rooms.
    let switched_on = switched_on
        .join("\n")
        .replace("\ncapacity = 500\n", "\n")
        .replace("inlet = \"manual\"", "inlet = \"max-size\"");
    let loaded = load(&switched_on, &[]).unwrap();
    assert_eq!(loaded.config.public_url.as_deref(), Some("https://wait.example.com"));
    assert_eq!(loaded.config.max_connections, Some(8192));
    assert!(loaded.config.public_tls().is_some() && loaded.config.private_tls().is_some());
    let mut expected: Vec<&str> = anteroom_core::settings::FIELDS.iter().map(|field| field.name).collect();
    expected.extend(["id", "state"]);
    expected.sort_unstable();
    assert_eq!(loaded.rooms[0].table.keys().map(String::as_str).collect::<Vec<_>>(), expected);
}

#[test]
fn thresholds_of_alarms_are_a_text_or_a_table() {
    let text = load("alarm_thresholds = \"Public-4xx=100, join-Refusals = 20\"", &[]).unwrap().config;
    let table = load("[alarm_thresholds]\nPublic-4xx = 100\njoin-Refusals = 20\n", &[]).unwrap().config;
    assert_eq!(text, table);
    let thresholds = text.alarm_thresholds.unwrap();
    assert_eq!((thresholds["Public-4xx"], thresholds["join-Refusals"], thresholds.len()), (100, 20, 2));
    for (wrong, reason) in [
        ("alarm_thresholds = \"Publik-4xx=1\"", "did you mean Public-4xx?"),
        ("alarm_thresholds = { Anything = 1 }", "there are Public-4xx, Public-5xx"),
        ("alarm_thresholds = \"Public-4xx=1,Public-4xx=2\"", "given twice"),
        ("alarm_thresholds = \"Public-4xx\"", "expected a list of NAME=NUMBER"),
        ("alarm_thresholds = { Public-4xx = -1 }", "expected a list of NAME=NUMBER"),
        ("alarm_thresholds = 5", "expected a list of NAME=NUMBER"),
        ("alarm_prefix = \"two words\"", "expected 1 to 32 characters"),
        ("alarm_stale_seconds = 5", "expected a whole number of seconds from 60"),
    ] {
        let refused = load(wrong, &[]).unwrap_err().to_string();
        assert!(refused.contains(reason), "{wrong}: {refused}");
    }
}

#[test]
fn every_setting_can_be_given_by_a_variable_and_by_the_file_alike() {
    let from_variables: Vec<(String, String)> =
        SETTINGS.iter().map(|setting| (variable_name(setting.name), setting.sample.to_owned())).collect();
    let pairs: Vec<(&str, &str)> =
        from_variables.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let by_variables = load("", &pairs).unwrap().config;
    let file: Vec<String> = SETTINGS
        .iter()
        .map(|setting| {
            let quote = if setting.quoted { "\"" } else { "" };
            format!("{} = {quote}{}{quote}", setting.name, setting.sample)
        })
        .collect();
    let by_file = load(&file.join("\n"), &[]).unwrap().config;
    assert_eq!(by_variables, by_file);
    assert_ne!(by_file, defaults().config, "the examples of optional settings are not their absence");
}

#[test]
fn the_names_that_scripts_rely_on() {
    let directory = tempfile::tempdir().unwrap();
    let environment = [
        ("ANTEROOM_PUBLIC_ADDR", "127.0.0.1:0"),
        ("ANTEROOM_PRIVATE_ADDR", "[::1]:0"),
        ("ANTEROOM_PUBLIC_URL", "https://wait.example.com/"),
        ("ANTEROOM_STORE_URL", "memory:"),
        ("ANTEROOM_SECRET", "correct horse"),
        ("ANTEROOM_SECRET_FILE", "/run/secret"),
        ("ANTEROOM_ADMIN_KEY", "battery staple"),
        ("ANTEROOM_LOG", "debug"),
    ];
    let loaded = Config::load(None, directory.path(), variables(&environment)).unwrap();
    assert_eq!(loaded.config.public_addr.port(), 0);
    assert!(loaded.config.private_addr.is_ipv6());
    assert_eq!(loaded.config.public_url.as_deref(), Some("https://wait.example.com"), "no slash at the end");
    assert_eq!(loaded.config.store_url, StoreUrl::Memory);
    assert_eq!(loaded.config.secret_file.as_deref(), Some(Path::new("/run/secret")));
    assert_eq!(loaded.config.log, "debug");
    assert_eq!(loaded.secrets.secret.as_ref().unwrap().expose_secret(), "correct horse");
    assert_eq!(loaded.secrets.admin_key.as_ref().unwrap().expose_secret(), "battery staple");
    let printed = format!("{loaded:?}");
    assert!(!printed.contains("horse") && !printed.contains("staple"), "{printed}");
}

#[test]
fn the_environment_wins_over_the_file() {
    let file = "log = \"debug\"\ndrain_timeout_seconds = 5\nmetrics_open = false\nmax_connections = 7\n";
    let environment = [
        ("ANTEROOM_LOG", "warn"),
        ("ANTEROOM_DRAIN_TIMEOUT_SECONDS", "0"),
        ("ANTEROOM_METRICS_OPEN", "true"),
        ("ANTEROOM_MAX_CONNECTIONS", ""),
        ("UNRELATED", "x"),
    ];
    let config = load(file, &environment).unwrap().config;
    assert_eq!(config.log, "warn");
    assert_eq!(config.drain_timeout_seconds, Duration::ZERO);
    assert!(config.metrics_open);
    assert_eq!(config.max_connections, Some(7), "an empty variable counts as not set");
}

#[test]
fn store_urls() {
    let parsed = |url: &str| load("", &[("ANTEROOM_STORE_URL", url)]).unwrap().config.store_url;
    assert_eq!(parsed("file:data"), StoreUrl::File(PathBuf::from("data")));
    assert_eq!(parsed("file:/var/lib/anteroom"), StoreUrl::File(PathBuf::from("/var/lib/anteroom")));
    assert_eq!(parsed("file:///var/lib/anteroom"), StoreUrl::File(PathBuf::from("/var/lib/anteroom")));
    assert_eq!(parsed("memory:"), StoreUrl::Memory);
    assert_eq!(parsed("redis://:hunter2@127.0.0.1:6379/1").to_string(), "redis://:***@127.0.0.1:6379/1");
}

#[test]
fn settings_of_a_shared_store() {
    let file = "store_prefix = \"sale\"\nstore_replicas = 2\nstore_ordering = \"highest-seen\"\nstale_reads_max_seconds = 5\n";
    let config = load(file, &[]).unwrap().config;
    assert_eq!((config.store_prefix.as_str(), config.store_replicas), ("sale", StoreReplicas::Exactly(2)));
    assert_eq!(config.store_ordering, StoreOrdering::HighestSeen);
    assert_eq!(config.stale_reads_max_seconds, Duration::from_secs(5));
    let variables = [("ANTEROOM_STORE_REPLICAS", "0")];
    assert_eq!(load(file, &variables).unwrap().config.store_replicas, StoreReplicas::Exactly(0));
    assert_eq!(load("store_replicas = \"auto\"", &[]).unwrap().config.store_replicas, StoreReplicas::Auto);
}

#[test]
fn rooms_are_kept_as_written_with_their_lines() {
    let rooms =
        load("log = \"info\"\n\n[[room]]\nid = \"a\"\nstate = \"paused\"\n\n[[room]]\nid = \"b\"\n", &[])
            .unwrap()
            .rooms;
    assert_eq!(rooms.len(), 2);
    assert_eq!(rooms[0].id.as_str(), "a");
    assert_eq!(rooms[0].table["state"].as_str(), Some("paused"));
    assert_eq!(
        (rooms[0].place.line, rooms[0].place_of("state").line, rooms[0].place_of("none").line),
        (3, 5, 3)
    );
    assert_eq!((rooms[1].place.line, rooms[1].place_of("id").line), (7, 8));
}

/// One mistake in the file each, and the one message it gets.
#[test]
fn messages_about_the_file() {
    let address = "expected an IP address and a port, such as \"127.0.0.1:8080\" or \"[::1]:8080\"";
    let url = "expected an http or https URL without user, query and fragment, such as \"https://wait.example.com\"";
    let store =
        "expected \"file:PATH\", \"memory:\", or the URL of a Redis such as \"redis://127.0.0.1:6379\"";
    let room_id = "expected a room id, 1 to 64 characters out of A-Z, a-z, 0-9, '_', '.' and '-'";
    let cases: &[(&str, String)] = &[
        ("\npublic_adress = \"x\"", "anteroom.toml:2: unknown key `public_adress`; did you mean `public_addr`?".into()),
        ("LOG = \"x\"", "anteroom.toml:1: unknown key `LOG`; did you mean `log`?".into()),
        ("zzz = 1", "anteroom.toml:1: unknown key `zzz`; anteroom.sample.toml has every valid one".into()),
        ("[server]\nlog = \"x\"", "anteroom.toml:1: unknown table `server`; server settings are keys at the top of the file, and the only tables are [limits], [[limit]], [[room]] and [[destination]]".into()),
        ("log = ", "anteroom.toml:1: not valid TOML: ".into()),
        ("log = \"a\"\nlog = \"b\"", "anteroom.toml:2: not valid TOML: duplicate key".into()),
        ("public_addr = \"localhost\"", format!("anteroom.toml:1: public_addr = \"localhost\": {address}")),
        ("public_addr = 8080", format!("anteroom.toml:1: public_addr = 8080: {address}")),
        ("public_url = \"ftp://example.com\"", format!("anteroom.toml:1: public_url = \"ftp://example.com\": {url}")),
        ("public_url = \"https://me:pass@example.com\"", format!("anteroom.toml:1: public_url = \"https://***@example.com\": {url}")),
        ("public_url = \"https://example.com/#x\"", format!("anteroom.toml:1: public_url = \"https://example.com/#x\": {url}")),
        ("store_url = \"redis://:pass@localhost\"", "anteroom.toml:1: store_url = \"redis://***@localhost\": a password does not belong in this file; give the whole URL as ANTEROOM_STORE_URL in the environment".into()),
        ("store_url = \"redis://h?password=hunter2\"", "anteroom.toml:1: store_url = \"redis://h?***\": a URL of Redis has no fragment, and no query but sentinel_user and sentinel_password, where there are Sentinels; in a password write %3F for ? and %23 for #".into()),
        ("store_url = \"redis+sentinel://a/b?sentinel_password=hunter2\"", "anteroom.toml:1: store_url = \"redis+sentinel://a/b?***\": a password does not belong in this file; give the whole URL as ANTEROOM_STORE_URL in the environment".into()),
        ("store_tls_cert = \"c\"", "`store_tls_cert` is set and `store_tls_key` is not; TLS needs both".into()),
        ("store_url = \"redis+cluster://a/3\"", "anteroom.toml:1: store_url = \"redis+cluster://a/3\": a Cluster has no databases; nothing follows the addresses".into()),
        ("store_url = \"valkey://a\"", "anteroom.toml:1: store_url = \"valkey://a\": a Valkey is named by the same URLs as a Redis: redis:// or rediss://".into()),
        ("store_url = \"unix:///run/redis.sock\"", "anteroom.toml:1: store_url = \"unix:///run/redis.sock\": a Redis is reached over TCP; Unix sockets are not supported".into()),
        ("store_prefix = \"a:b\"", "anteroom.toml:1: store_prefix = \"a:b\": expected 1 to 32 characters out of A-Z, a-z, 0-9, '_', '.' and '-'".into()),
        ("store_replicas = 9", "anteroom.toml:1: store_replicas = 9: expected \"auto\" or a whole number from 0 to 8".into()),
        ("store_replicas = \"1\"", "anteroom.toml:1: store_replicas = \"1\": expected \"auto\" or a whole number from 0 to 8".into()),
        ("store_ordering = \"loose\"", "anteroom.toml:1: store_ordering = \"loose\": expected \"strict\" or \"highest-seen\"".into()),
        ("stale_reads_max_seconds = 4", "anteroom.toml:1: stale_reads_max_seconds = 4: expected a whole number of seconds from 5 to 86400".into()),
        ("store_url = \"mysql://localhost\"", format!("anteroom.toml:1: store_url = \"mysql://localhost\": {store}")),
        ("store_url = \"file:\"", format!("anteroom.toml:1: store_url = \"file:\": {store}")),
        ("store_url = \"file://host/x\"", format!("anteroom.toml:1: store_url = \"file://host/x\": {store}")),
        ("store_url = \"memory:x\"", format!("anteroom.toml:1: store_url = \"memory:x\": {store}")),
        ("store_url = \"data\"", format!("anteroom.toml:1: store_url = \"data\": {store}")),
        ("secret_file = \"\"", "anteroom.toml:1: secret_file = \"\": expected a path".into()),
        ("log = true", "anteroom.toml:1: log = true: expected a level or a list of module=level, such as \"info\" or \"info,anteroom_server=debug\"".into()),
        ("signing_algorithm = \"rs256\"", "anteroom.toml:1: signing_algorithm = \"rs256\": expected one of \"RS256\", \"ES256\", \"EdDSA\"".into()),
        ("max_connections = 0", "anteroom.toml:1: max_connections = 0: expected a whole number from 1 to 1000000".into()),
        ("max_connections = \"5\"", "anteroom.toml:1: max_connections = \"5\": expected a whole number from 1 to 1000000".into()),
        ("max_connections = 1.5", "anteroom.toml:1: max_connections = 1.5: expected a whole number from 1 to 1000000".into()),
        ("max_connections = 99999999999999999999999", "anteroom.toml:1: max_connections = 99999999999999999999999: expected a whole number from 1 to 1000000".into()),
        ("idle_timeout_seconds = 0", "anteroom.toml:1: idle_timeout_seconds = 0: expected a whole number of seconds from 1 to 3600".into()),
        ("header_read_timeout_seconds = 301", "anteroom.toml:1: header_read_timeout_seconds = 301: expected a whole number of seconds from 1 to 300".into()),
        ("drain_timeout_seconds = -1", "anteroom.toml:1: drain_timeout_seconds = -1: expected a whole number of seconds from 0 to 3600".into()),
        ("request_body_max_bytes = 1023", "anteroom.toml:1: request_body_max_bytes = 1023: expected a whole number from 1024 to 1048576".into()),
        ("metrics_open = \"yes\"", "anteroom.toml:1: metrics_open = \"yes\": expected true or false".into()),
        ("metrics_open = [true]", "anteroom.toml:1: metrics_open = (a TOML array): expected true or false".into()),
        ("public_tls_cert = \"c\"", "`public_tls_cert` is set and `public_tls_key` is not; TLS needs both".into()),
        ("private_tls_key = \"k\"", "`private_tls_key` is set and `private_tls_cert` is not; TLS needs both".into()),
        ("private_addr = \"127.0.0.1:8080\"", "public_addr and private_addr are both 127.0.0.1:8080; each listener needs its own".into()),
        ("secret = \"hunter2\"", "anteroom.toml:1: `secret` is a secret and does not belong in this file; give it as ANTEROOM_SECRET in the environment, or put it into a file of its own and name that as `secret_file`".into()),
        ("admin_key = \"hunter2\"", "anteroom.toml:1: `admin_key` is a secret and does not belong in this file; give it as ANTEROOM_ADMIN_KEY in the environment".into()),
        ("room = 5", "anteroom.toml:1: `room` must be an array of tables, each written as [[room]]".into()),
        ("[room]\nid = \"a\"", "anteroom.toml:1: `room` must be an array of tables, each written as [[room]]".into()),
        ("room = [1]", "anteroom.toml:1: `room` must be an array of tables, each written as [[room]]".into()),
        ("\n[[room]]\nstate = \"open\"", "anteroom.toml:2: this [[room]] has no `id`".into()),
        ("[[room]]\nid = 5", format!("anteroom.toml:2: id = 5: {room_id}")),
        ("[[room]]\nid = \"a/b\"", format!("anteroom.toml:2: id = \"a/b\": {room_id}")),
        ("[[room]]\nid = \"a\"\n[[room]]\nid = \"a\"", "anteroom.toml:4: the room `a` was already defined on line 2".into()),
        ("[[room]]\nid = \"a\"\nlog = \"debug\"", "anteroom.toml:3: `log` is a server setting, but stands in a [[room]]; move it above the first [[room]]".into()),
    ];
    for (text, expected) in cases {
        let messages = messages(text, &[]);
        assert_eq!(messages.len(), 1, "{text:?} gave {messages:?}");
        if expected.ends_with(": ") {
            assert!(messages[0].starts_with(expected), "{text:?} gave {messages:?}");
        } else {
            assert_eq!(&messages[0], expected, "{text:?}");
        }
    }
}

#[test]
fn messages_about_the_environment() {
    let cases = [
        (
            "ANTEROOM_PUBLIC_ADRESS",
            "x",
            "unknown environment variable ANTEROOM_PUBLIC_ADRESS; did you mean `ANTEROOM_PUBLIC_ADDR`?",
        ),
        (
            "ANTEROOM_SECRETS",
            "hunter2",
            "unknown environment variable ANTEROOM_SECRETS; did you mean `ANTEROOM_SECRET`?",
        ),
        (
            "ANTEROOM_",
            "x",
            "unknown environment variable ANTEROOM_; anteroom.sample.toml has every valid one",
        ),
        (
            "ANTEROOM_ROOM",
            "x",
            "unknown environment variable ANTEROOM_ROOM; anteroom.sample.toml has every valid one",
        ),
        (
            "ANTEROOM_MAX_CONNECTIONS",
            "many",
            "ANTEROOM_MAX_CONNECTIONS = \"many\": expected a whole number from 1 to 1000000",
        ),
        (
            "ANTEROOM_DRAIN_TIMEOUT_SECONDS",
            "1.5",
            "ANTEROOM_DRAIN_TIMEOUT_SECONDS = \"1.5\": expected a whole number of seconds from 0 to 3600",
        ),
        ("ANTEROOM_METRICS_OPEN", "1", "ANTEROOM_METRICS_OPEN = \"1\": expected true or false"),
        (
            "ANTEROOM_STORE_URL",
            "redis://hunter2@h",
            "ANTEROOM_STORE_URL = \"redis://***@h\": what stands before @ is USER:PASSWORD, or :PASSWORD for the default user",
        ),
        (
            "ANTEROOM_STORE_REPLICAS",
            "many",
            "ANTEROOM_STORE_REPLICAS = \"many\": expected \"auto\" or a whole number from 0 to 8",
        ),
    ];
    for (name, value, expected) in cases {
        assert_eq!(messages("", &[(name, value)]), [expected]);
    }
}

#[cfg(unix)]
#[test]
fn a_variable_that_is_no_text_is_refused_without_being_repeated() {
    use std::os::unix::ffi::OsStringExt;
    let directory = tempfile::tempdir().unwrap();
    let value = OsString::from_vec(vec![b'x', 0xff]);
    let error =
        Config::load(None, directory.path(), [(OsString::from("ANTEROOM_SECRET"), value)]).unwrap_err();
    assert_eq!(error.to_string(), "the environment variable ANTEROOM_SECRET is not valid UTF-8");
}

#[test]
fn all_problems_are_reported_at_once_in_the_order_of_the_file() {
    let text = "metrics_open = 3\nlog = 1\nunknown = 1\n[[room]]\nid = \"a\"\n[[room]]\n";
    let messages = messages(text, &[("ANTEROOM_PUBLIC_ADDR", "x")]);
    let starts = [
        "anteroom.toml:1: metrics_open",
        "anteroom.toml:2: log",
        "anteroom.toml:3: unknown key",
        "anteroom.toml:6: this [[room]]",
        "ANTEROOM_PUBLIC_ADDR",
    ];
    assert_eq!(messages.len(), starts.len(), "{messages:?}");
    for (message, start) in messages.iter().zip(starts) {
        assert!(message.starts_with(start), "{message}");
    }
}

#[test]
fn mistakes_in_rooms_were_hidden_behind_those_in_server_settings() {
    let text = "log = 1\n[[room]]\nid = \"a\"\nvalidity_periode = 5\nlog = \"debug\"\n[[room]]\nstate = \"shut\"\n\
                [[room]]\nid = \"a\"\nvalidity_period = 0\n[[room]]\nid = \"b\"\ninlet = \"max-size\"\n";
    let starts = [
        "anteroom.toml:1: log = 1: expected a level",
        "anteroom.toml:4: unknown key `validity_periode`; did you mean `validity_period`?",
        "anteroom.toml:5: `log` is a server setting, but stands in a [[room]]",
        "anteroom.toml:6: this [[room]] has no `id`",
        "anteroom.toml:7: state = ",
        "anteroom.toml:9: the room `a` was already defined on line 3",
        "anteroom.toml:10: validity_period = \"0\": must be a whole number of seconds",
        "anteroom.toml:11: id = \"b\": an inlet with a capacity (\"max-size\", \"adaptive\") needs `total_active_users`",
    ];
    let messages = messages(text, &[]);
    assert_eq!(messages.len(), starts.len(), "{messages:#?}");
    for (message, start) in messages.iter().zip(starts) {
        assert!(message.starts_with(start), "{message}\nis not: {start}");
    }
}

#[test]
fn a_setting_that_a_later_version_brings_is_told_from_a_typing_error() {
    let messages = messages("[[room]]\nid = \"a\"\nproof_of_work = 12\nrun_ahaed = true\n", &[]);
    let expected = [
        "anteroom.toml:3: proof_of_work = \"12\": is planned, but this version does not have it yet",
        "anteroom.toml:4: unknown key `run_ahaed`; did you mean `run_ahead`?",
    ];
    assert_eq!(messages, expected);
}

#[test]
fn a_variable_of_the_command_line_does_not_keep_a_server_from_starting() {
    assert_eq!(load("", &[("ANTEROOM_URL", "http://127.0.0.1:1")]).unwrap().config, defaults().config);
}

#[test]
fn no_message_repeats_a_secret() {
    let text = "secret = \"hunter2\"\nadmin_key = \"hunter2\"\nsecrets = \"hunter2\"\npublic_url = \"https://u:hunter2@h\"\n";
    let environment = [("ANTEROOM_ADMIN_KEYS", "hunter2"), ("ANTEROOM_STORE_URL", "redis://u:hunter2@h/x")];
    let error = load(text, &environment).unwrap_err();
    assert_eq!(error.problems().len(), 6);
    assert!(!format!("{error}\n{error:?}").contains("hunter2"), "{error}");

    let broken = load("secret = \"hunter2\nlog = 1", &[]).unwrap_err();
    assert!(!format!("{broken}\n{broken:?}").contains("hunter2"), "{broken}");
}

#[test]
fn a_named_file_must_exist_and_be_readable() {
    let directory = tempfile::tempdir().unwrap();
    for path in [directory.path().join("missing.toml"), directory.path().to_owned()] {
        let error = Config::load(Some(&path), directory.path(), []).unwrap_err().to_string();
        assert!(error.starts_with(&format!("cannot read {}: ", path.display())), "{error}");
    }
}

#[test]
fn variables_that_kubernetes_makes_for_a_service_called_anteroom_are_passed_over() {
    let environment = [("ANTEROOM_SERVICE_HOST", "10.0.0.1"), ("ANTEROOM_PORT_8080_TCP_ADDR", "10.0.0.1")];
    assert_eq!(load("", &environment).unwrap().config, defaults().config);
}
