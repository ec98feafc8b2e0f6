//! Budgets of clients in the configuration: what the tables mean, and what is said of each mistake.

use std::ffi::OsString;
use std::time::Duration;

use anteroom_gateway::limiter::{Budget, By, OnFailure, Policy};
use anteroom_server::config::limits::LimitsStore;
use anteroom_server::config::{Config, ConfigError, Loaded};

fn load(text: &str, environment: &[(&str, &str)]) -> Result<Loaded, ConfigError> {
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::write(directory.path().join("anteroom.toml"), text).expect("a file");
    let environment: Vec<(OsString, OsString)> =
        environment.iter().map(|(name, value)| (name.into(), value.into())).collect();
    Config::load(None, directory.path(), environment)
}

/// The messages, with the temporary directory taken out of them.
fn messages(text: &str) -> Vec<String> {
    let error = load(text, &[]).map(|loaded| loaded.limits).expect_err(text);
    let strip = |message: String| match message.find("anteroom.toml") {
        Some(start) if message.starts_with('/') => message[start..].to_owned(),
        _ => message,
    };
    error.problems().iter().map(|problem| strip(problem.to_string())).collect()
}

fn find<'a>(limits: &'a [Policy], name: &str) -> &'a Policy {
    limits.iter().find(|limit| limit.name() == name).unwrap_or_else(|| panic!("no {name}"))
}

#[test]
fn tables_say_what_is_allowed_and_the_defaults_stay_unless_they_are_replaced() {
    let text = "limits_key_header = \"X-Client-Key\"\n\
        [[limit]]\nname = \"site\"\nclass = \"gateway\"\nrequests = 100\nper_seconds = 10\n\
        [[limit]]\nname = \"keys\"\nby = \"key\"\nrequests = 7\nper_seconds = 1\nburst = 70\n\
        [[limit]]\nname = \"site\"\npaths = [\"/search\"]\nmethods = [\"GET\"]\ncost = 10\n";
    let loaded = load(text, &[]).unwrap();
    assert_eq!(loaded.limits.len(), 6);
    let (site, keys) = (find(&loaded.limits, "site"), find(&loaded.limits, "keys"));
    assert_eq!((site.by(), site.budget()), (By::Ip, Budget { requests: 100, per_seconds: 10, burst: 100 }));
    assert_eq!((keys.by(), keys.budget()), (By::Key, Budget { requests: 7, per_seconds: 1, burst: 70 }));
    let join = find(&loaded.limits, "join");
    assert_eq!(join.budget(), Budget { requests: 1_200, per_seconds: 60, burst: 1_200 });
    let moves = find(&loaded.limits, "move");
    assert_eq!((moves.by(), moves.budget()), (By::Ip, Budget { requests: 20, per_seconds: 60, burst: 60 }));
    let (claims, reads) = (find(&loaded.limits, "claim"), find(&loaded.limits, "read"));
    assert_eq!(claims.budget(), Budget { requests: 3_000, per_seconds: 60, burst: 3_000 });
    assert_eq!(reads.budget(), Budget { requests: 60_000, per_seconds: 60, burst: 60_000 });
    assert!(reads.is_per_node() && !claims.is_per_node() && !join.is_per_node());
    assert_eq!(loaded.config.limits_key_header.unwrap(), "x-client-key");

    let replaced =
        load("[[limit]]\nname = \"join\"\nclass = \"join\"\nrequests = 1\nper_seconds = 2\n", &[]).unwrap();
    assert_eq!(replaced.limits.len(), 4, "and the other three");
    assert_eq!(replaced.limits[0].budget(), Budget { requests: 1, per_seconds: 2, burst: 1 });
}

#[test]
fn settings_of_limits_may_stand_in_a_table_of_their_own() {
    let flat = "limits_store_url = \"memory:\"\nlimits_on_failure = \"local\"\nlimits_budget_milliseconds = 9\n\
        limits_exempt = \"10.0.0.0/8, ::1\"\nlimits_legacy_fields = true\nlimits_keys_max = 5000\n";
    let dotted = flat.replace("limits_", "limits.");
    let table = format!("[limits]\n{}", flat.replace("limits_", ""))
        .replace("\"10.0.0.0/8, ::1\"", "[\"10.0.0.0/8\", \"::1\"]");
    let config = load(flat, &[]).unwrap().config;
    assert_eq!(config, load(&dotted, &[]).unwrap().config);
    assert_eq!(config, load(&table, &[]).unwrap().config);
    assert_eq!(config.limits_store_url, Some(LimitsStore::Memory));
    assert_eq!(config.limits_on_failure, OnFailure::Local);
    assert_eq!(Duration::from_millis(config.limits_budget_milliseconds), Duration::from_millis(9));
    let variable = load(&table, &[("ANTEROOM_LIMITS_ON_FAILURE", "open")]).unwrap().config;
    assert_eq!(variable.limits_on_failure, OnFailure::Open);
    assert!(load("limits_exempt = \"none\"", &[]).unwrap().config.limits_exempt.is_empty());
    assert!(load("limits_exempt = []", &[]).unwrap().config.limits_exempt.is_empty());
    let url = "redis://:hunter2@127.0.0.1:6380";
    let loaded = load("", &[("ANTEROOM_LIMITS_STORE_URL", url)]).unwrap();
    assert!(!format!("{loaded:?}").contains("hunter2"));
}

/// A table that is right, for what is wrong about one.
const RIGHT: &str = "name = \"a\"\nrequests = 10\nper_seconds = 60\n";

#[test]
fn each_mistake_is_told_with_its_line() {
    let number = "expected a whole number from 1 to 1000000000000";
    let paths = "expected a list of 1 to 64 paths, such as [\"/search\", \"/api/\"]";
    let methods = "expected a list of 1 to 64 methods, such as [\"GET\", \"POST\"]";
    let class = "expected one of \"join\", \"claim\", \"move\", \"read\", \"gateway\", \"all\"";
    let cases: &[(&str, String)] = &[
        ("[[limit]]\nrequests = 1\nper_seconds = 1", "anteroom.toml:1: this [[limit]] has no `name`".into()),
        ("[[limit]]\nname = \"a\"\nper_seconds = 1", "anteroom.toml:1: this [[limit]] has no `requests`".into()),
        ("[[limit]]\nname = \"a\"\nrequests = 1", "anteroom.toml:1: this [[limit]] has no `per_seconds`".into()),
        ("[[limit]]\nname = \"a b\"\nrequests = 1\nper_seconds = 1", "anteroom.toml:2: name = \"a b\": expected 1 to 64 characters out of A-Z, a-z, 0-9, '_', '.' and '-'".into()),
        ("+by = \"user\"", "anteroom.toml:5: by = \"user\": expected \"ip\" or \"key\"".into()),
        ("+by = \"key\"", "anteroom.toml:1: the limit `a` counts by key, but `limits_key_header` names no header that holds one".into()),
        ("+class = \"joins\"", format!("anteroom.toml:5: class = \"joins\": {class}")),
        ("+paths = \"/x\"", format!("anteroom.toml:5: paths = \"/x\": {paths}")),
        ("+paths = [\"x\"]", format!("anteroom.toml:5: paths = (a TOML array): {paths}")),
        ("+paths = []", format!("anteroom.toml:5: paths = (a TOML array): {paths}")),
        ("+methods = [\"get\"]", format!("anteroom.toml:5: methods = (a TOML array): {methods}")),
        ("+methods = [1]", format!("anteroom.toml:5: methods = (a TOML array): {methods}")),
        ("+burst = 0", format!("anteroom.toml:5: burst = 0: {number}")),
        ("+burst = \"many\"", format!("anteroom.toml:5: burst = \"many\": {number}")),
        ("+burst = 3000000000", "anteroom.toml:5: burst = 3000000000: an empty bucket of this burst would take more than a hundred years to be full again".into()),
        ("+cost = 0", "anteroom.toml:5: cost = 0: expected a whole number from 1 to 1000000".into()),
        ("+cost = 11", "anteroom.toml:5: cost = 11: a request that costs 11 is never allowed with a burst of 10".into()),
        ("+reqests = 1", "anteroom.toml:5: unknown key `reqests`; did you mean `requests`?".into()),
        ("+log = \"info\"", "anteroom.toml:5: `log` is a server setting, but stands in a [[limit]]; move it above the first [[limit]]".into()),
        ("[[limit]]\nname = \"a\"\nrequests = 2000000\nper_seconds = 1", "anteroom.toml:3: requests = 2000000: more than 1,000,000 requests a second cannot be told from no limit".into()),
        ("[[limit]]\nname = \"a\"\nrequests = 1\nper_seconds = 40000000", "anteroom.toml:4: per_seconds = 40000000: the period must be 1 to 31622400 seconds".into()),
        ("+[[limit]]\nname = \"a\"\nrequests = 5", "anteroom.toml:7: `requests` of the limit `a` is said on line 1; a further [[limit]] of that name only says class, paths, methods and cost".into()),
        ("+[[limit]]\nname = \"a\"\ncost = 12", "anteroom.toml:7: cost = 12: a request that costs 12 is never allowed with a burst of 10".into()),
        ("limit = 5", "anteroom.toml:1: `limit` must be an array of tables, each written as [[limit]]".into()),
        ("limit = [5]", "anteroom.toml:1: `limit` must be an array of tables, each written as [[limit]]".into()),
        ("limits = 5", "anteroom.toml:1: unknown key `limits`; did you mean `[limits]`?".into()),
        ("[limits]\nstore = \"x\"", "anteroom.toml:2: unknown key `limits_store`; did you mean `limits_store_url`?".into()),
        ("limits_keys_max = 5000\n[limits]\nkeys_max = 6000", "anteroom.toml:3: `limits_keys_max` was already given on line 1".into()),
        ("limits_keys_max = 5", "anteroom.toml:1: limits_keys_max = 5: expected a whole number from 1000 to 100000000".into()),
        ("limits_budget_milliseconds = 0", "anteroom.toml:1: limits_budget_milliseconds = 0: expected a whole number from 1 to 1000".into()),
        ("limits_on_failure = \"closed\"", "anteroom.toml:1: limits_on_failure = \"closed\": expected \"local-joins\", \"open\" or \"local\"".into()),
        ("+per_node = 1", "anteroom.toml:5: per_node = 1: expected true or false".into()),
        ("limits_store_url = \"file:./x\"", "anteroom.toml:1: limits_store_url = \"file:./x\": expected \"memory:\", or the URL of a Redis such as \"redis://127.0.0.1:6379\"".into()),
        ("limits_store_url = \"redis://:hunter2@h\"", "anteroom.toml:1: limits_store_url = \"redis://***@h\": a password does not belong in this file; give the whole URL as ANTEROOM_LIMITS_STORE_URL in the environment".into()),
        ("limits_key_header = \"cookie\"", "anteroom.toml:1: limits_key_header = \"cookie\": `cookie` has another use and holds no key".into()),
        ("limits_key_header = \"X-Api-Key\"\norigin_secret_header = \"x-api-key\"", "`limits_key_header` and `origin_secret_header` are both `x-api-key`; what the CDN sends says nothing about its clients".into()),
        ("trusted_proxies = \"10.0.0.0/40\"", "anteroom.toml:1: trusted_proxies = \"10.0.0.0/40\": `10.0.0.0/40` is no network; expected one such as 10.0.0.0/8 or 2001:db8::/32, or an address".into()),
        ("trusted_proxies = [\"nginx\"]", "anteroom.toml:1: trusted_proxies = (a TOML array): `nginx` is no network; expected one such as 10.0.0.0/8 or 2001:db8::/32, or an address".into()),
        ("limits_exempt = \"\"", "anteroom.toml:1: limits_exempt = \"\": expected a list of networks and addresses, such as \"10.0.0.0/8, 2001:db8::1\", or \"none\"".into()),
    ];
    for (text, expected) in cases {
        let text =
            text.strip_prefix('+').map_or((*text).to_owned(), |more| format!("[[limit]]\n{RIGHT}{more}"));
        assert_eq!(messages(&text), std::slice::from_ref(expected), "{text}");
    }
}

#[test]
fn all_mistakes_are_told_together() {
    let text =
        "public_addr = 1\n[[limit]]\nname = \"a\"\nrequests = 0\nclass = \"x\"\n[[limit]]\nby = \"x\"\n";
    let told = messages(text);
    let lines: Vec<&str> = told.iter().map(|message| message.split(": ").next().unwrap()).collect();
    let at = |line: u32| format!("anteroom.toml:{line}");
    assert_eq!(lines, [at(1), at(2), at(4), at(5), at(6), at(6), at(6), at(7)], "{told:#?}");
}

#[test]
fn there_is_an_end_to_the_number_of_limits() {
    let table = |number: usize| format!("[[limit]]\nname = \"a{number}\"\nrequests = 1\nper_seconds = 1\n");
    let many = |count: usize| (0..count).map(table).collect::<String>();
    assert_eq!(load(&many(60), &[]).unwrap().limits.len(), 64);
    assert_eq!(messages(&many(61)), ["anteroom.toml:241: at most 64 limits are taken"]);
}
