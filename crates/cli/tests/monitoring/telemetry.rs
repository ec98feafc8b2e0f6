//! The dashboard and the rules before nodes under load: every query finds data, every rule can be evaluated, none of them fires, and
//! every figure that they go by is one that nodes tell.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anteroom_testkit::{Browser, Server, SetOnDrop, Site, now, pause, wait_until};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::dashboard;
use crate::deployment::{program, read};
use crate::documents;
use crate::prometheus::Prometheus;
use crate::support::BINARY;
use crate::support::tls::Identity;

/// How long it may take until every query has found something. Rates need two scrapes, a second apart.
const TIMEOUT: Duration = Duration::from_secs(40);

/// A node with TLS, limits and a room that `anteroom load` goes through, and one that stands before a site.
struct Sale {
    api: Server,
    load: Server,
    gateway: Server,
    _site: Site,
    _directory: TempDir,
}

impl Sale {
    #[track_caller]
    fn open() -> Self {
        let temporary = tempfile::tempdir().expect("a temporary directory");
        let directory = temporary.path();
        Identity::new().install(directory, "public");
        let config = format!(
            "destinations_private_allowed = [\"127.0.0.0/8\"]\n{}[[limit]]\nname = \"join\"\nby = \"ip\"\nclass = \"join\"\nrequests = 100000\nper_seconds = 1\n\
             [[room]]\nid = \"Hall\"\ninlet = \"max-size\"\ntotal_active_users = 40\nvalidity_period = 1\n",
            Identity::settings(directory, "public")
        );
        let api = Server::builder(BINARY).memory().directory(directory).config(config).start();
        let api = api.expect("the server starts");
        let mut load = Server::builder(BINARY).command("load").directory(directory);
        let authority = directory.join("public-cert.pem").display().to_string();
        let (public, private) = (format!("https://{}", api.public()), format!("http://{}", api.private()));
        for argument in
            ["--public", &public, "--private", &private, "--ca-file", &authority, "--room", "Hall"]
        {
            load = load.argument(argument);
        }
        for argument in
            "--clients 5000 --arrivals 50/s --poll 0.5 --leave-share 0.1 --deadline 120".split(' ')
        {
            load = load.argument(argument);
        }
        let load = load.start_without_waiting().expect("the load starts");

        let site = Site::open();
        let config = format!(
            "origin = \"{}\"\n[[room]]\nid = \"Shop\"\ninlet = \"max-size\"\ntotal_active_users = 3\n",
            site.url()
        );
        let gateway = Server::builder(BINARY).memory().config(config).start().expect("the server starts");
        // Somebody who hears of what happens there.
        let hook = json!({
            "name": "hook", "kind": "webhook", "url": format!("{}/hook", site.url()), "types": ["*"], "batch_max": 100,
        });
        let answer = api.operator().post("/destinations", &hook).expect("an answer");
        assert_eq!(answer.status, 201, "{answer:?}");
        // An alarm that somebody has told of, and that does not fire.
        let told = json!({"status": "resolved", "alerts": [{"labels": {"alertname": "HighLoad"}, "status": "resolved"}]});
        let answer = gateway.operator().post("/alarms", &told).expect("an answer");
        assert_eq!(answer.status, 200, "{answer:?}");
        Self { api, load, gateway, _site: site, _directory: temporary }
    }

    fn nodes(&self) -> [&Server; 2] {
        [&self.api, &self.gateway]
    }

    /// Visitors of the site, more than may be inside, and one who is lost; until it is over.
    fn visit_until(&self, is_over: &AtomicBool) {
        let mut visitors: Vec<Browser> = (0..6).map(|_| Browser::new(self.gateway.public())).collect();
        let mut lost = self.gateway.visitor();
        while !is_over.load(Ordering::SeqCst) {
            for visitor in &mut visitors {
                visitor.open("/tickets");
            }
            lost.get("/.anteroom/nowhere").expect("an answer");
            pause();
        }
    }
}

impl Drop for Sale {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("--- load:\n{}", self.load.stderr());
            for node in self.nodes() {
                eprintln!("--- a node:\n{}", node.stderr());
            }
        }
    }
}

#[test]
fn the_dashboard_has_data_and_no_rule_fires_while_nodes_are_under_load() {
    let Some(path) = program("prometheus") else { return };
    let sale = Sale::open();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| sale.visit_until(&is_over));
        let _end = SetOnDrop(&is_over);
        let mut prometheus = Prometheus::before(&path, &sale.nodes(), sale.api.admin_key());
        every_query_finds_something(&mut prometheus);
        every_figure_is_told(&sale);
        rules_are_evaluated_and_quiet(&mut prometheus);
    });
}

#[track_caller]
fn every_query_finds_something(prometheus: &mut Prometheus) {
    let mut queries = dashboard::queries();
    assert!(queries.len() > 60, "only {} queries were found", queries.len());
    assert!(queries.iter().any(|query| query.panel.starts_with("Destinations")), "{queries:#?}");
    let started = now();
    while !queries.is_empty() {
        queries.retain(|query| prometheus.query(&query.expression).is_empty());
        assert!(started.elapsed() < TIMEOUT, "nothing is found by {queries:#?}");
        pause();
    }
}

/// The names of figures in a text.
fn names(text: &str) -> BTreeSet<String> {
    let words = text.split(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_'));
    words
        .filter(|word| word.starts_with("anteroom_") || word.starts_with("process_"))
        .map(str::to_owned)
        .collect()
}

#[track_caller]
fn every_figure_is_told(sale: &Sale) {
    let texts = sale.nodes().map(|node| node.operator().get("/metrics").expect("an answer").text());
    let samples = texts.iter().flat_map(|text| text.lines()).filter(|line| !line.starts_with('#'));
    let told: BTreeSet<&str> = samples.filter_map(|line| line.split([' ', '{']).next()).collect();
    let mut missing = names(&(read("prometheus/rules.yaml") + &read("grafana/anteroom.json")));
    missing.retain(|name| !told.contains(name.as_str()));
    assert_eq!(missing, BTreeSet::new(), "no node tells these");

    let document = documents::read("docs/operating/metrics.md");
    let documented = names(&document);
    let kinds = texts.iter().flat_map(|text| text.lines()).filter_map(|line| line.strip_prefix("# TYPE "));
    let undocumented: BTreeSet<String> = kinds
        .filter_map(|line| {
            let (name, kind) = line.split_once(' ')?;
            let name = if kind == "counter" { format!("{name}_total") } else { name.to_owned() };
            let of_a_listener = ["public", "private", "ext_authz"].iter().any(|listener| {
                let rest = name.strip_prefix(&format!("anteroom_{listener}"));
                rest.is_some_and(|rest| document.contains(&format!("`anteroom_…{rest}`")))
            });
            (!documented.contains(&name) && !of_a_listener).then_some(name)
        })
        .collect();
    assert_eq!(undocumented, BTreeSet::new(), "docs/operating/metrics.md has no row for these");
}

#[track_caller]
fn rules_are_evaluated_and_quiet(prometheus: &mut Prometheus) {
    let mut rules = vec![];
    wait_until("every rule was evaluated", TIMEOUT, || {
        let groups = prometheus.get("/api/v1/rules")["groups"].as_array().expect("groups").clone();
        rules =
            groups.iter().flat_map(|group| group["rules"].as_array().cloned().unwrap_or_default()).collect();
        rules.iter().all(|rule: &Value| rule["health"] != "unknown")
    });
    let (tests, words) = (read("prometheus/rules.test.yaml"), ["critical", "warning"].map(Value::from));
    assert!(rules.len() > 30, "{rules:#?}");
    for rule in &rules {
        assert_eq!((&rule["health"], &rule["alerts"]), (&json!("ok"), &json!([])), "{rule:#}");
        assert!(words.contains(&rule["labels"]["severity"]), "{rule:#}");
        for annotation in ["summary", "action"] {
            assert!(rule["annotations"][annotation].as_str().is_some_and(|text| text.len() > 20), "{rule:#}");
        }
        let docs = rule["annotations"]["docs"].as_str().unwrap_or_else(|| panic!("no docs: {rule:#}"));
        documents::assert_has_section(docs);
        // Once before its time, once after it.
        let name = rule["name"].as_str().expect("a name");
        let expression = format!("'ALERTS{{alertname=\"{name}\",alertstate=\"firing\"}}'");
        assert!(tests.matches(&expression).count() >= 2, "{name} is not tested");
    }
}
