//! The checkers of Prometheus and Alertmanager take what is in `deploy`.

use std::fs;

use crate::deployment::{check, path, program, read, replaced};

#[test]
fn promtool_takes_the_rules_and_their_tests() {
    let Some(promtool) = program("promtool") else { return };
    let directory = path("prometheus");
    assert!(check(&promtool, &directory, &["check", "rules", "rules.yaml"]).contains("SUCCESS"));
    assert!(check(&promtool, &directory, &["test", "rules", "rules.test.yaml"]).contains("SUCCESS"));
}

#[test]
fn promtool_takes_the_configuration_of_prometheus() {
    let Some(promtool) = program("promtool") else { return };
    let directory = tempfile::tempdir().unwrap();
    // It looks whether files are there that are named.
    let key = directory.path().join("anteroom-viewer.key");
    fs::write(&key, "a key").unwrap();
    let key = key.display().to_string();
    let text =
        replaced(&read("prometheus/prometheus.yaml"), &[("/etc/prometheus/anteroom-viewer.key", &key)]);
    fs::write(directory.path().join("prometheus.yaml"), text).unwrap();
    fs::write(directory.path().join("rules.yaml"), read("prometheus/rules.yaml")).unwrap();
    let said = check(&promtool, directory.path(), &["check", "config", "prometheus.yaml"]);
    assert!(said.contains("1 rule files found") && said.contains("rules found"), "{said}");
}

#[test]
fn amtool_takes_the_configuration_of_alertmanager_and_each_alert_goes_where_it_should() {
    let Some(amtool) = program("amtool") else { return };
    let directory = path("alertmanager");
    assert!(check(&amtool, &directory, &["check-config", "alertmanager.yaml"]).contains("SUCCESS"));
    let receivers = |labels: &[&str]| {
        let arguments = [&["config", "routes", "test", "--config.file=alertmanager.yaml"], labels].concat();
        check(&amtool, &directory, &arguments).trim().to_owned()
    };
    assert_eq!(receivers(&["severity=critical"]), "pagerduty,slack,email");
    assert_eq!(receivers(&["severity=warning"]), "slack,email");
    assert_eq!(receivers(&["pauses=anteroom"]), "anteroom,email");
    assert_eq!(receivers(&["severity=critical", "pauses=anteroom"]), "anteroom,pagerduty,slack,email");
}
