//! Alarms from outside: what Alertmanager tells, what the server counts itself, and what a room does about it.

use std::time::Duration;

use anteroom_testkit::{Answer, Browser, Client, Request, Server, wait_until};
use serde_json::{Value, json};

use crate::support::BINARY;
use crate::support::operator::Operator;

const DEADLINE: Duration = Duration::from_mins(1);

fn start() -> Server {
    Server::builder(BINARY).start().expect("the server starts")
}

/// One alert as Alertmanager writes it.
fn alert(name: &str, instance: &str, status: &str) -> Value {
    let ends_at = if status == "firing" { "0001-01-01T00:00:00Z" } else { "2026-01-01T00:00:00Z" };
    json!({
        "status": status,
        "labels": {"alertname": name, "instance": instance, "severity": "page"},
        "annotations": {"summary": format!("{name} on {instance}")},
        "startsAt": "2025-12-31T23:00:00.123456789Z",
        "endsAt": ends_at,
        "generatorURL": "http://prometheus.example.com/graph",
        "fingerprint": format!("{}-{instance}", name.replace(' ', "_")),
    })
}

/// A whole notification as Alertmanager sends it.
fn notification(alerts: &[Value]) -> Value {
    let firing = alerts.iter().any(|alert| alert["status"] == "firing");
    json!({
        "version": "4",
        "groupKey": "{}:{job=\"shop\"}",
        "truncatedAlerts": 0,
        "status": if firing { "firing" } else { "resolved" },
        "receiver": "anteroom",
        "groupLabels": {"job": "shop"},
        "commonLabels": {"severity": "page"},
        "commonAnnotations": {},
        "externalURL": "http://alertmanager.example.com",
        "alerts": alerts,
    })
}

fn post(client: &mut Client, body: &Value) -> Answer {
    client.post("/alarms", body).expect("an answer")
}

#[track_caller]
fn tell(client: &mut Client, alerts: &[Value]) -> Value {
    let answer = post(client, &notification(alerts));
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()
}

fn alarms(client: &mut Client) -> Vec<Value> {
    let answer = client.get("/alarms").expect("an answer");
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()["alarms"].as_array().expect("a list").clone()
}

/// The alarm of a name; null if there is none.
fn alarm(client: &mut Client, name: &str) -> Value {
    alarms(client).into_iter().find(|alarm| alarm["name"] == name).unwrap_or(Value::Null)
}

fn state(client: &mut Client, name: &str) -> String {
    alarm(client, name)["state"].as_str().unwrap_or("none").to_owned()
}

#[test]
fn a_group_fires_and_resolves_alert_by_alert() {
    let server = start();
    let mut operator = server.operator();
    assert_eq!(alarm(&mut operator, "HighLoad"), Value::Null);
    let heard = tell(
        &mut operator,
        &[
            alert("HighLoad", "a", "firing"),
            alert("HighLoad", "b", "firing"),
            alert("Disk full: /var", "a", "resolved"),
            json!({"status": "firing", "labels": {"instance": "a"}}),
        ],
    );
    assert_eq!(heard, json!({"received": 4, "firing": 2, "resolved": 1, "ignored": 1}));
    let high_load = alarm(&mut operator, "HighLoad");
    assert_eq!((&high_load["state"], &high_load["source"]), (&json!("firing"), &json!("outside")));
    assert_eq!(high_load["fingerprints"], json!(["HighLoad-a", "HighLoad-b"]));
    assert_eq!(high_load["summary"], "HighLoad on b");
    assert_eq!(high_load["labels"], "instance=\"b\", severity=\"page\"");
    assert_eq!((&high_load["stale"], &high_load["threshold"]), (&json!(false), &Value::Null));
    assert_eq!(state(&mut operator, "Disk full: /var"), "ok");

    let metrics = operator.get("/metrics").expect("an answer").text();
    for line in [
        "anteroom_alarm_firing{alarm=\"HighLoad\"} 1",
        "anteroom_alarm_firing{alarm=\"Disk full: /var\"} 0",
        "anteroom_alarm_stale{alarm=\"HighLoad\"} 0",
        "anteroom_alarm_notifications_total 1",
    ] {
        assert!(metrics.contains(line), "{line} in\n{metrics}");
    }

    tell(&mut operator, &[alert("HighLoad", "a", "resolved")]);
    assert_eq!(state(&mut operator, "HighLoad"), "firing", "b still fires");
    tell(&mut operator, &[alert("HighLoad", "b", "resolved")]);
    assert_eq!(state(&mut operator, "HighLoad"), "ok");

    let audit = operator.get("/audit").expect("an answer").json();
    let actions: Vec<&str> = audit["records"]
        .as_array()
        .expect("records")
        .iter()
        .filter_map(|record| record["action"].as_str())
        .filter(|action| action.starts_with("alarms"))
        .collect();
    assert_eq!(actions, ["alarms: HighLoad is OK", "alarms: HighLoad fires"], "a repetition is not a change");
}

#[test]
fn an_alert_that_is_said_to_fire_and_to_have_ended_does_not_fire() {
    let server = start();
    let mut operator = server.operator();
    let mut over = alert("HighLoad", "a", "firing");
    over["endsAt"] = json!("2020-01-01T00:00:00+01:00");
    assert_eq!(tell(&mut operator, &[over])["resolved"], 1);
    assert_eq!(state(&mut operator, "HighLoad"), "ok");
}

#[test]
fn a_restart_and_a_restored_backup_know_what_fires() {
    let mut server = start();
    let mut operator = server.operator();
    tell(&mut operator, &[alert("HighLoad", "a", "firing")]);
    let before = alarm(&mut operator, "HighLoad");
    server.kill_nine().expect("it ends");
    server.restart().expect("it starts again");
    let mut operator = server.operator();
    assert_eq!(alarm(&mut operator, "HighLoad"), before, "since and last_heard included");

    let backup = operator.get("/backup").expect("an answer").body;
    tell(&mut operator, &[alert("HighLoad", "a", "resolved")]);
    assert_eq!(state(&mut operator, "HighLoad"), "ok");
    let restored = operator.send(&Request::new("POST", "/restore").body(backup)).expect("an answer");
    assert_eq!(restored.status, 200, "{restored:?}");
    assert_eq!(state(&mut operator, "HighLoad"), "firing");
}

#[test]
fn a_body_that_is_none_is_refused_with_its_place_and_changes_nothing() {
    let server = start();
    let mut operator = server.operator();
    tell(&mut operator, &[alert("HighLoad", "a", "firing")]);
    let before = alarm(&mut operator, "HighLoad");
    let spoilt = |pointer: &str, value: Value| {
        let mut body = notification(&[alert("HighLoad", "a", "resolved"), alert("Other", "a", "firing")]);
        *body.pointer_mut(pointer).expect("a place in the body") = value;
        body
    };
    for (body, place) in [
        (json!({}), "`status`"),
        (json!([]), "JSON object"),
        (json!({"status": "firing"}), "`alerts`"),
        (spoilt("/status", json!("burning")), "`status`"),
        (spoilt("/alerts", json!("none")), "`alerts`"),
        (spoilt("/alerts/1", json!("none")), "`alerts[1]`"),
        (spoilt("/alerts/1/status", json!(true)), "`alerts[1].status`"),
        (spoilt("/alerts/1/labels", json!(null)), "`alerts[1].labels`"),
        (spoilt("/alerts/1/labels/alertname", json!(5)), "`alerts[1].labels.\"alertname\"`"),
        (spoilt("/alerts/1/annotations/summary", json!({})), "`alerts[1].annotations.\"summary\"`"),
        (spoilt("/alerts/1/startsAt", json!("soon")), "`alerts[1].startsAt`"),
        (spoilt("/alerts/1/endsAt", json!(17)), "`alerts[1].endsAt`"),
        (spoilt("/alerts/1/fingerprint", json!("a b")), "`alerts[1].fingerprint`"),
        (spoilt("/truncatedAlerts", json!("3")), "`truncatedAlerts`"),
    ] {
        let refused = post(&mut operator, &body);
        assert_eq!((refused.status, refused.problem()), (400, "bad-request".into()), "{body}");
        assert!(refused.text().contains(&place.replace('"', "\\\"")), "{place}: {}", refused.text());
    }
    let many: Vec<Value> = (0..1_025).map(|number| alert(&format!("n{number}"), "a", "firing")).collect();
    let full = post(&mut operator, &json!({"status": "firing", "alerts": many}));
    assert_eq!((full.status, full.problem()), (409, "conflict".into()), "{full:?}");
    assert_eq!(alarm(&mut operator, "HighLoad"), before);
    assert_eq!((state(&mut operator, "Other"), state(&mut operator, "n0")), ("none".into(), "none".into()));
}

#[test]
fn a_whole_group_is_taken_that_is_larger_than_other_bodies_may_be() {
    let server = start();
    let mut operator = server.operator();
    let many: Vec<Value> = (0..500).map(|number| alert("HighLoad", &number.to_string(), "firing")).collect();
    assert_eq!(tell(&mut operator, &many)["firing"], 500);
    assert_eq!(alarm(&mut operator, "HighLoad")["fingerprints"].as_array().map(Vec::len), Some(500));
}

#[test]
fn own_alarms_fire_without_anybody_telling() {
    const PUBLIC: &str = "Shop-Public-4xx-Alarm";
    let config = "alarm_prefix = \"Shop\"\nalarm_thresholds = { Private-4xx = 2 }\n[[room]]\nid = \"Hall\"\n\
                  alarms = [\"Shop-Public-4xx-Alarm\"]\n[[room]]\nid = \"Closed\"\nstate = \"closed\"\n";
    let server = Server::builder(BINARY).config(config).start().expect("the server starts");
    let (mut operator, mut visitor) = (server.operator(), server.visitor());
    let at_first = alarm(&mut operator, PUBLIC);
    assert_eq!((&at_first["state"], &at_first["source"]), (&json!("ok"), &json!("own")), "{at_first}");
    assert_eq!((&at_first["threshold"], &at_first["rooms"]), (&json!(0), &json!(["Hall"])));

    assert_eq!(visitor.get("/nowhere").expect("an answer").status, 404);
    wait_until("one 404 fires the alarm", DEADLINE, || state(&mut operator, PUBLIC) == "firing");
    let fires = alarm(&mut operator, PUBLIC);
    assert!(fires["count"] == 1 && fires["since"].is_string(), "{fires}");
    assert_eq!(state(&mut operator, "Shop-Public-5xx-Alarm"), "ok");

    assert_eq!(visitor.post("/join", &json!({"room": "Closed"})).expect("an answer").status, 409);
    let refusals = "Shop-join-Refusals-Alarm";
    wait_until("one refused join fires the alarm", DEADLINE, || state(&mut operator, refusals) == "firing");
    assert_eq!(state(&mut operator, "Shop-join-Errors-Alarm"), "ok");

    for _ in 0..2 {
        assert_eq!(operator.get("/nowhere").expect("an answer").status, 404);
    }
    let private = "Shop-Private-4xx-Alarm";
    wait_until("both are counted", DEADLINE, || alarm(&mut operator, private)["count"] == 2);
    assert_eq!(state(&mut operator, private), "ok", "two are not more than two");
    assert_eq!(operator.get("/nowhere").expect("an answer").status, 404);
    wait_until("three are", DEADLINE, || state(&mut operator, private) == "firing");

    let heard = tell(&mut operator, &[alert("Shop-Public-5xx-Alarm", "a", "firing")]);
    assert_eq!(heard["ignored"], 1, "nobody else can tell of an own alarm");
    assert_eq!(state(&mut operator, "Shop-Public-5xx-Alarm"), "ok");
}

#[test]
fn those_who_are_told_to_wait_fire_no_alarm_and_refused_calls_of_pages_do() {
    let config = "alarm_prefix = \"Shop\"\n[[room]]\nid = \"Hall\"\nqueueing_status_code = 429\n\
                  [[room]]\nid = \"Closed\"\nstate = \"closed\"\n";
    let server = Server::builder(BINARY).config(config).start().expect("the server starts");
    let (mut operator, mut browser) = (server.operator(), Browser::new(server.public()));
    for _ in 0..3 {
        assert_eq!(browser.open("/wait/Hall").status, 429);
    }
    assert_eq!(browser.fetch("/.anteroom/line?room=Hall").status, 429);
    assert_eq!(browser.open("/wait/Closed").status, 503);
    // Nobody comes in so: the site of this room is elsewhere.
    assert_eq!(browser.post("/.anteroom/line/enter?room=Hall", "").status, 409);
    let count = |operator: &mut Client, name: &str| alarm(operator, name)["count"].as_u64().expect("a count");
    wait_until("the refusal is counted", DEADLINE, || count(&mut operator, "Shop-Public-4xx-Alarm") > 0);
    assert_eq!(count(&mut operator, "Shop-Public-4xx-Alarm"), 1, "and nothing else");
    assert_eq!(count(&mut operator, "Shop-Public-5xx-Alarm"), 0);
}

#[test]
fn a_name_nobody_told_of_counts_as_ok_is_shown_and_warned_of_once() {
    let config = "[[room]]\nid = \"Hall\"\nalarms = [\"HihgLoad\"]\n";
    let server = Server::builder(BINARY).config(config).start().expect("the server starts");
    let mut operator = server.operator();
    let unknown = alarm(&mut operator, "HihgLoad");
    assert_eq!((&unknown["state"], &unknown["source"]), (&json!("unknown"), &Value::Null));
    assert_eq!(unknown["rooms"], json!(["Hall"]));
    let warnings = || server.stderr().matches("alarm named by rooms was never reported").count();
    wait_until("the warning", DEADLINE, || warnings() > 0);
    // Another change of alarms makes the server look at all names again.
    tell(&mut operator, &[alert("HighLoad", "a", "firing")]);
    operator
        .send(
            &Request::new("PATCH", "/rooms/Hall")
                .body(json!({"settings": {"alarms": ["HihgLoad", "Nbody"]}}).to_string()),
        )
        .expect("an answer");
    wait_until("the warning of the other", DEADLINE, || warnings() > 1);
    assert_eq!(warnings(), 2, "{}", server.stderr());
}

fn figures(client: &mut Client, room: &str) -> i64 {
    let answer = client.get(&format!("/rooms/{room}")).expect("an answer");
    answer.json()["serving"].as_i64().unwrap_or_else(|| panic!("{answer:?}"))
}

/// Two rooms with the same timetable; only one of them names the alarm, and the other one is the clock.
#[test]
fn a_firing_alarm_pauses_the_inlet_that_names_it_and_nothing_is_caught_up() {
    let inlet = "inlet = \"periodic\"\nincrement_by = 1\ninterval_seconds = 1\n";
    let config =
        format!("[[room]]\nid = \"Held\"\n{inlet}alarms = [\"HighLoad\"]\n[[room]]\nid = \"Free\"\n{inlet}");
    let server = Server::builder(BINARY).config(config).start().expect("the server starts");
    let (mut operator, mut visitor) = (server.operator(), server.visitor());
    for room in ["Held", "Free"] {
        server.line(room).join_many(100);
    }
    wait_until("both move", DEADLINE, || {
        figures(&mut visitor, "Held") > 0 && figures(&mut visitor, "Free") > 0
    });

    tell(&mut operator, &[alert("HighLoad", "a", "firing")]);
    let (held, free) = (figures(&mut visitor, "Held"), figures(&mut visitor, "Free"));
    wait_until("the other room takes five steps", DEADLINE, || figures(&mut visitor, "Free") >= free + 5);
    assert_eq!(figures(&mut visitor, "Held"), held, "it does not move while the alarm fires");
    assert_eq!(alarm(&mut operator, "HighLoad")["rooms"], json!(["Held"]));

    let free = figures(&mut visitor, "Free");
    tell(&mut operator, &[alert("HighLoad", "a", "resolved")]);
    wait_until("it goes on", DEADLINE, || {
        let steps = figures(&mut visitor, "Held") - held;
        let steps_of_the_other = figures(&mut visitor, "Free") - free;
        assert!(
            steps <= steps_of_the_other + 1,
            "{steps} steps in the time of {steps_of_the_other}: a burst"
        );
        steps_of_the_other >= 2 && steps >= 1
    });
}

#[test]
fn a_room_that_begins_to_name_a_firing_alarm_stops_with_that_change() {
    let server = start();
    let (mut operator, mut visitor) = (server.operator(), server.visitor());
    tell(&mut operator, &[alert("HighLoad", "a", "firing")]);
    let periodic = |alarms: &[&str]| {
        json!({"settings": {"inlet": "periodic", "increment_by": 1, "interval_seconds": 1, "alarms": alarms}})
            .to_string()
    };
    for (room, alarms) in [("Held", &["HighLoad"][..]), ("Free", &[])] {
        let made = operator.send(&Request::new("PUT", &format!("/rooms/{room}")).body(periodic(alarms)));
        assert_eq!(made.expect("an answer").status, 201);
        server.line(room).join_many(20);
    }
    wait_until("the other room takes two steps", DEADLINE, || figures(&mut visitor, "Free") >= 2);
    assert_eq!(figures(&mut visitor, "Held"), 0);
    let freed = operator.send(&Request::new("PATCH", "/rooms/Held").body(periodic(&[])));
    assert_eq!(freed.expect("an answer").status, 200);
    wait_until("without the name it moves", DEADLINE, || figures(&mut visitor, "Held") > 0);
}

#[test]
fn a_change_that_names_a_firing_alarm_lets_nobody_in_first() {
    let server = start();
    let mut operator = server.operator();
    tell(&mut operator, &[alert("HighLoad", "a", "firing")]);
    let made = operator.send(&Request::new("PUT", "/rooms/Hall").body("{}")).expect("an answer");
    assert_eq!(made.status, 201);
    server.line("Hall").join_many(5);
    let settings =
        json!({"settings": {"inlet": "max-size", "total_active_users": 3, "alarms": ["HighLoad"]}});
    let changed = operator.send(&Request::new("PATCH", "/rooms/Hall").body(settings.to_string()));
    let changed = changed.expect("an answer").json();
    assert_eq!(
        (&changed["figures"]["offers"], &changed["figures"]["serving"], &changed["standstill"]),
        (&json!(0), &json!(0), &json!("alarm")),
        "{changed}"
    );
    tell(&mut operator, &[alert("HighLoad", "a", "resolved")]);
    wait_until("the free slots are offered", DEADLINE, || {
        operator.get("/rooms/Hall").is_ok_and(|room| room.json()["figures"]["offers"] == 3)
    });
}

#[test]
fn those_who_are_told_to_wait_set_off_no_alarm_of_ours() {
    let server = start();
    let (mut operator, mut visitor) = (server.operator(), server.visitor());
    let auction =
        json!({"settings": {"inlet": "max-size", "total_active_users": 0, "discipline": "auction"}});
    let made = operator.send(&Request::new("PUT", "/rooms/Round").body(auction.to_string()));
    assert_eq!(made.expect("an answer").status, 201);
    let queued = visitor.post("/auction", &json!({"room": "Round"})).expect("an answer").json();
    for _ in 0..3 {
        let response =
            visitor.post("/auction", &json!({"queueToken": queued["queueToken"]})).expect("an answer");
        assert_eq!(response.status, 429, "{response:?}");
        let early = visitor.post("/claim", &json!({"ticket": queued["queueToken"]})).expect("an answer");
        assert_eq!(early.status, 409, "{early:?}");
    }
    // Something that is counted, so that it is known when all of it has been looked at.
    assert_eq!(operator.get("/nowhere").expect("an answer").status, 404);
    let wrong_path = "Anteroom-Private-4xx-Alarm";
    wait_until("it sets its alarm off", DEADLINE, || state(&mut operator, wrong_path) == "firing");
    let public = alarm(&mut operator, "Anteroom-Public-4xx-Alarm");
    assert_eq!((&public["state"], &public["count"]), (&json!("ok"), &json!(0)), "{public}");
}

#[test]
fn an_operator_lists_alarms_in_a_shell() {
    let server = start();
    tell(&mut server.operator(), &[alert("HighLoad", "a", "firing")]);
    let shell = Operator::of(&server);
    let listed = shell.done(&["alarm", "list"]);
    assert!(listed.starts_with("NAME"), "{listed}");
    let row = listed.lines().find(|line| line.starts_with("HighLoad")).expect("a row");
    assert!(row.contains("firing") && row.contains("outside"), "{row}");
    assert!(listed.contains("Anteroom-claim-Errors-Alarm"), "{listed}");
    let firing = shell.json(&["alarm", "list", "--firing"]);
    let names: Vec<&str> = firing["alarms"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|alarm| alarm["name"].as_str())
        .collect();
    assert_eq!(names, ["HighLoad"]);
}
