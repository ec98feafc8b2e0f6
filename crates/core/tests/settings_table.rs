//! The settings and defaults of AWS's solution and of the other limits that a room promises, compared with the code: each is there
//! with its default, or is named as planned, so that none can be forgotten and none is silently without effect.

use anteroom_core::settings::{CLAIM_WINDOW_CAPPED_SECONDS, CLAIM_WINDOW_SECONDS, FIELDS, PLANNED};
use anteroom_core::{InletKind, Settings, Value};

/// The promised settings, in the order of their reference; an empty default means that none is fixed.
const PROMISED: &[(&str, &str)] = &[
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
fn every_promised_setting_is_there_with_its_default_or_named_as_planned() {
    let defaults = Settings::default();
    for (name, default) in PROMISED {
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
fn the_code_has_no_setting_that_is_not_listed_here() {
    // Settings whose defaults may change. ADR 23 names those of the inlets, of the reports and the notice; ADR 32 those by which the
    // gateway finds a room, and how long a visit there lasts; ADR 35 how the waiting page looks and hands visitors on;
    // ADR 38 who may join, and how much one address prefix holds; ADR 49 what clients and verifiers from elsewhere need; ADR 51 which events are kept.
    let more = [
        "visitor_events",
        "proof_of_work",
        "join_claims",
        "key_overlap_seconds",
        "run_ahead",
        "enter_by_seconds",
        "adaptive_floor",
        "target_latency_ms",
        "target_errors_per_thousand",
        "notice",
        "session_max",
        "join_rate_max",
        "paths_exact",
        "hosts",
        "paths",
        "origins",
        "bypass",
        "join",
        "visits_per_prefix_share",
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
    let known = |name: &str| more.contains(&name) || PROMISED.iter().any(|(promised, _)| *promised == name);
    for name in FIELDS.iter().map(|field| field.name).chain(PLANNED.iter().map(|planned| planned.name)) {
        assert!(known(name), "{name}");
    }
}
