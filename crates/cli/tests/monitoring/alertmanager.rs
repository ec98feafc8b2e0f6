//! A real Alertmanager with our recipes: an alert holds the inlet of the room that names it, and reaches people by e-mail, Slack and
//! `PagerDuty`; when it resolves, the line goes on.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use anteroom_testkit::{Client, Reply, ReservedPort, Server, Site, require, unix_seconds, wait_until};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::deployment::{program, read, replaced};
use crate::mail::MailServer;
use crate::support::BINARY;
use crate::support::operator::Operator;
use crate::support::program::Program;

/// Debian's Alertmanager reads its templates from this place and no other.
const TEMPLATES: &str = "/usr/share/prometheus/alertmanager/default.tmpl";
/// How long anything may take. Generous: what is tested is that it comes.
const TIMEOUT: Duration = Duration::from_secs(40);

/// A running Alertmanager, and those whom it notifies beside us. It ends when it is dropped.
struct Alertmanager {
    client: Client,
    program: Program,
    slack_and_pagerduty: Site,
    mail: MailServer,
    _port: ReservedPort,
    _directory: TempDir,
}

impl Alertmanager {
    /// One with the recipes in `deploy`, in which addresses and places of secrets are replaced, and waits shortened.
    #[track_caller]
    fn before(path: &Path, server: &Server, key: &str) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let (port, mail, site) = (ReservedPort::take(), MailServer::open(), Site::open());
        site.answer("/pagerduty/v2/enqueue", Reply::new(202).body(r#"{"status": "success"}"#));
        site.answer("/slack", Reply::new(200).body("ok"));
        for (name, secret) in [
            ("anteroom-origin.key", key),
            ("smtp-password", "password"),
            ("slack-url", &format!("{}/slack", site.url())),
            ("pagerduty-key", "an-integration-key-of-32-letters"),
        ] {
            fs::write(directory.path().join(name), secret).expect("a file can be written");
        }
        let global = format!(
            "global:\n  smtp_require_tls: false\n  pagerduty_url: {}/pagerduty/v2/enqueue\n",
            site.url()
        );
        let text = replaced(
            &read("alertmanager/alertmanager.yaml"),
            &[
                ("global:\n", &global),
                ("mail.example.com:587", &mail.address().to_string()),
                ("group_wait: 10s", "group_wait: 1s"),
                ("http://127.0.0.1:8081", &format!("http://{}", server.private())),
                ("/etc/alertmanager", &directory.path().display().to_string()),
            ],
        );
        fs::write(directory.path().join("alertmanager.yaml"), text).expect("a file can be written");
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port.number()));
        let listen = format!("--web.listen-address={address}");
        let arguments = [
            "--config.file=alertmanager.yaml",
            "--storage.path=data",
            // Alone, so nothing is listened for on another port.
            "--cluster.listen-address=",
            &listen,
        ];
        let program = Program::start(path, &arguments, directory.path(), &[]);
        let client = Client::new(address);
        let mut started =
            Self { client, program, slack_and_pagerduty: site, mail, _port: port, _directory: directory };
        wait_until("Alertmanager is ready", TIMEOUT, || {
            assert!(!started.program.has_ended(), "Alertmanager has ended:\n{}", started.program.log());
            started.client.get("/-/ready").is_ok_and(|answer| answer.status == 200)
        });
        started
    }

    /// Tells it of an alert, as Prometheus does.
    #[track_caller]
    fn tell(&mut self, mut alert: Value, ends_at: Option<u64>) {
        if let Some(seconds) = ends_at {
            let moment =
                jiff::Timestamp::from_second(i64::try_from(seconds).expect("a moment")).expect("a moment");
            alert["endsAt"] = moment.to_string().into();
        }
        let answer = self.client.post("/api/v2/alerts", &json!([alert])).expect("an answer");
        assert_eq!(answer.status, 200, "{answer:?}");
    }

    /// What was sent to a path so far, as JSON.
    fn sent_to(&self, path: &str) -> Vec<Value> {
        let log = self.slack_and_pagerduty.request_log();
        let sent = log.iter().filter(|request| request.path() == path);
        sent.map(|request| serde_json::from_slice(&request.body).expect("JSON")).collect()
    }
}

impl Drop for Alertmanager {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- Alertmanager:\n{}", self.program.log());
        }
    }
}

fn standstill(client: &mut Client) -> Value {
    client.get("/rooms/Hall").expect("an answer").json()["standstill"].clone()
}

#[test]
fn an_alert_holds_the_inlet_until_it_resolves_and_tells_people_in_every_way() {
    let Some(path) = program("prometheus-alertmanager") else { return };
    if !require("the templates of Alertmanager", Path::new(TEMPLATES).is_file()) {
        return;
    }
    let config = "destinations_private_allowed = [\"127.0.0.0/8\"]\n[[room]]\nid = \"Hall\"\ninlet = \"periodic\"\nincrement_by = 1\ninterval_seconds = 1\n\
                  alarms = [\"HighLoad\"]\n";
    let server = Server::builder(BINARY).memory().config(config).start().expect("the server starts");
    let key = Operator::of(&server).run(&["key", "create", "alertmanager", "--role", "origin"]);
    assert_eq!(key.code, Some(0), "{}", key.stderr);
    let mut alertmanager = Alertmanager::before(&path, &server, &key.stdout);
    let mut visitor = server.visitor();
    // What happens is also told outward, to a webhook of somebody's own.
    let hook = Site::open();
    let webhook = json!({
        "name": "on-call", "kind": "webhook", "url": format!("{}/hook", hook.url()), "types": ["alarm.*", "inlet.*"],
    });
    let answer = server.operator().post("/destinations", &webhook).expect("an answer");
    assert_eq!(answer.status, 201, "{answer:?}");
    let told = |kind: &str| {
        let log = hook.request_log();
        let mut sent = log.iter().filter(|request| request.path() == "/hook");
        sent.any(|request| {
            serde_json::from_slice::<Value>(&request.body).is_ok_and(|event| event["type"] == kind)
        })
    };
    server.line("Hall").join_many(500);
    wait_until("the line moves", TIMEOUT, || standstill(&mut visitor).is_null());

    let alert = json!({
        "labels": {"alertname": "HighLoad", "job": "shop", "severity": "critical", "pauses": "anteroom"},
        "annotations": {"summary": "The database is busy", "action": "Wait for it.", "docs": "docs/shop.md"},
    });
    alertmanager.tell(alert.clone(), None);
    wait_until("the inlet is held", TIMEOUT, || standstill(&mut visitor) == "alarm");
    let held = server.operator().get("/rooms/Hall").expect("an answer").json();
    assert_eq!(held["firing"], json!(["HighLoad"]), "{held:#}");

    wait_until("the webhook has both events", TIMEOUT, || told("alarm.fired") && told("inlet.held"));

    wait_until("everybody is told", TIMEOUT, || {
        let is_sent = |path| !alertmanager.sent_to(path).is_empty();
        is_sent("/slack") && is_sent("/pagerduty/v2/enqueue") && !alertmanager.mail.letters().is_empty()
    });
    let slack = &alertmanager.sent_to("/slack")[0];
    let message = slack["attachments"][0].to_string();
    assert_eq!(slack["channel"], "#sale", "{slack:#}");
    let page = &alertmanager.sent_to("/pagerduty/v2/enqueue")[0];
    assert_eq!(
        (&page["event_action"], &page["payload"]["severity"], &page["payload"]["summary"]),
        (&json!("trigger"), &json!("critical"), &json!("HighLoad: The database is busy")),
        "{page:#}"
    );
    let letter = alertmanager.mail.letters().remove(0);
    assert!(letter.contains("operators@example.com") && letter.contains("FIRING: HighLoad (1)"), "{letter}");
    for text in [message, page["payload"]["custom_details"].to_string(), letter] {
        for part in
            ["FIRING HighLoad (critical)", "The database is busy", "What to do: Wait for it.", "docs/shop.md"]
        {
            assert!(text.contains(part), "no {part:?} in {text}");
        }
    }

    alertmanager.tell(alert, Some(unix_seconds() - 1));
    wait_until("the inlet is released", TIMEOUT, || standstill(&mut visitor).is_null());
    wait_until("the webhook hears of it", TIMEOUT, || told("alarm.resolved") && told("inlet.released"));
    let audit = server.operator().get("/audit").expect("an answer").json();
    let audited: Vec<(&Value, &Value)> = audit["records"]
        .as_array()
        .expect("records")
        .iter()
        .filter(|record| {
            record["action"].as_str().is_some_and(|action| action.starts_with("alarms: HighLoad"))
        })
        .map(|record| (&record["actor"], &record["action"]))
        .collect();
    assert!(audited.iter().any(|(actor, _)| **actor == "alertmanager"), "{audited:?}");
}
