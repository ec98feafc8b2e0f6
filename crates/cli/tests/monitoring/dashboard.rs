//! The dashboard in `deploy/grafana`: its panels and what they ask.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::deployment::read;

/// What Grafana puts in place of a variable.
const VARIABLES: [(&str, &str); 2] = [("$room", ".*"), ("$__rate_interval", "10s")];
/// Columns of a dashboard.
const COLUMNS: u64 = 24;

/// One query of a panel, as it is sent to Prometheus.
#[derive(Debug)]
pub(crate) struct Query {
    pub(crate) panel: String,
    pub(crate) expression: String,
}

/// All panels, those within rows that are folded included.
fn panels(of: &Value) -> Vec<Value> {
    let mut all = vec![];
    for panel in of["panels"].as_array().into_iter().flatten() {
        all.push(panel.clone());
        all.extend(panels(panel));
    }
    all
}

fn dashboard() -> Value {
    serde_json::from_str(&read("grafana/anteroom.json")).expect("the dashboard is JSON")
}

/// Every query of every panel.
#[track_caller]
pub(crate) fn queries() -> Vec<Query> {
    let text = |value: &Value| value.as_str().unwrap_or_else(|| panic!("not a text: {value}")).to_owned();
    let of_panel = |panel: &Value| {
        let targets = panel["targets"].as_array().cloned().unwrap_or_default();
        let query = |target: &Value| {
            let expression = VARIABLES
                .iter()
                .fold(text(&target["expr"]), |expression, (name, value)| expression.replace(name, value));
            assert!(!expression.contains('$'), "a variable that the dashboard does not have: {expression}");
            Query { panel: text(&panel["title"]), expression }
        };
        targets.iter().map(query).collect::<Vec<_>>()
    };
    panels(&dashboard()).iter().flat_map(of_panel).collect()
}

/// What an import asks for, and what makes two panels one.
#[test]
fn the_dashboard_can_be_imported() {
    let dashboard = dashboard();
    assert!(dashboard["schemaVersion"].as_u64() >= Some(36), "{}", dashboard["schemaVersion"]);
    assert_eq!((&dashboard["id"], &dashboard["uid"]), (&Value::Null, &"anteroom".into()));
    let variables = dashboard["templating"]["list"].as_array().expect("variables");
    let kinds: Vec<_> = variables.iter().map(|one| (one["name"].as_str(), one["type"].as_str())).collect();
    assert_eq!(kinds, [(Some("datasource"), Some("datasource")), (Some("room"), Some("query"))]);

    let panels = panels(&dashboard);
    let (mut ids, mut titles, mut taken) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for panel in &panels {
        assert!(ids.insert(panel["id"].as_u64().expect("an id")), "{panel:#}");
        assert!(titles.insert(panel["title"].as_str().expect("a title")), "{panel:#}");
        let [x, y, w, h] = ["x", "y", "w", "h"].map(|name| panel["gridPos"][name].as_u64().expect("a place"));
        assert!(x + w <= COLUMNS, "{panel:#}");
        for cell in (x..x + w).flat_map(|x| (y..y + h).map(move |y| (x, y))) {
            assert!(taken.insert(cell), "two panels at {cell:?}: {panel:#}");
        }
        let targets = panel["targets"].as_array().cloned().unwrap_or_default();
        assert!(panel["type"] == "row" || !targets.is_empty(), "{panel:#}");
        for one in targets.iter().chain((panel["type"] != "row").then_some(panel)) {
            assert_eq!(one["datasource"]["uid"], "${datasource}", "{one:#}");
        }
    }
    assert!(panels.len() > 40);
}
