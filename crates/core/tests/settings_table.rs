//! The settings and defaults that the design fixes ("Room settings and defaults"), compared with the code: each is there with
//! its default, or is named as planned, so that none can be forgotten and none is silently without effect.

use anteroom_core::settings::{CLAIM_WINDOW_CAPPED_SECONDS, CLAIM_WINDOW_SECONDS, FIELDS, PLANNED};
use anteroom_core::{InletKind, Settings, Value};

/// The design's table, in its order; an empty default means that none is fixed.
const DESIGN: &[(&str, &str)] = &[
    ("validity_period", "3600"),
    ("enable_queue_position_expiry", "true"),
    ("queue_position_expiry_period", "900"),
    ("incr_svc_on_queue_position_expiry", "false"),
    ("enable_events_generation", "false"),
    ("inlet", "manual"),
    ("increment_by", "10"),
    ("interval_seconds", "60"),
    ("start_time", "0"),
    ("end_time", "0"),
    ("alarms", "[]"),
    ("window_size", ""),
    ("active_windows", "2"),
    ("discipline", "counter"),
    ("round_seconds", "10"),
    ("backend_uri", ""),
    ("issuer", ""),
    ("total_active_users", ""),
    ("new_users_per_minute", ""),
    ("session_duration", "300"),
    ("disable_session_renewal", ""),
    ("queueing_method", ""),
    ("queueing_status_code", ""),
    ("queue_all", ""),
];

#[test]
fn every_setting_of_the_design_is_there_with_its_default_or_named_as_planned() {
    let defaults = Settings::default();
    for (name, default) in DESIGN {
        let field = FIELDS.iter().find(|field| field.name == *name);
        let planned = PLANNED.iter().find(|planned| planned.name == *name);
        let value = match (field, planned) {
            (Some(field), None) => match (field.get)(&defaults) {
                Value::None => String::new(),
                Value::Flag(flag) => flag.to_string(),
                Value::Number(number) => number.to_string(),
                Value::Text(text) => text,
                Value::List(texts) => format!("{texts:?}"),
            },
            (None, Some(planned)) => planned.default.to_owned(),
            (Some(_), Some(_)) => panic!("{name} is there, and so not planned any more"),
            (None, None) => panic!("{name} is neither there nor planned"),
        };
        // This one depends on the inlet, so it is not set until somebody sets it.
        let value =
            if *name == "queue_position_expiry_period" { CLAIM_WINDOW_SECONDS.to_string() } else { value };
        assert!(default.is_empty() || value == *default, "{name}: {value}, not {default}");
    }
    assert_eq!(defaults.claim_window_millis(), Some(CLAIM_WINDOW_SECONDS * 1000));
    let capped = Settings { inlet: InletKind::MaxSize, ..defaults };
    assert_eq!(capped.claim_window_millis(), Some(CLAIM_WINDOW_CAPPED_SECONDS * 1000));
}

#[test]
fn the_code_has_no_setting_that_the_design_does_not_know() {
    // `run_ahead` is named in the design's rules of the periodic inlet, `enter_by` in those of the reports, floor and targets in
    // those of the adaptive inlet, and the notice in issue 4 (ADR 23 has the spelling). `on_store_loss` is named in its section on
    // several nodes; the others are how a room is found at the gateway, and how long a visit there lasts (ADR 32). What
    // the waiting page looks like, and how it hands visitors on, is in issue 7 (ADR 35).
    let more = [
        "run_ahead",
        "enter_by_seconds",
        "adaptive_floor",
        "target_latency_ms",
        "target_errors_per_thousand",
        "notice",
        "session_max",
        "hosts",
        "paths",
        "origins",
        "bypass",
        "on_store_loss",
        "auto_enter",
        "handoff",
        "handoff_domain",
        "return_addresses",
        "page_heading",
        "page_text",
        "page_color",
        "page_background",
        "page_logo",
        "page_logo_text",
        "page_template",
    ];
    let known = |name: &str| more.contains(&name) || DESIGN.iter().any(|(design, _)| *design == name);
    for name in FIELDS.iter().map(|field| field.name).chain(PLANNED.iter().map(|planned| planned.name)) {
        assert!(known(name), "{name}");
    }
}
