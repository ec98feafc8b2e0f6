//! Pages of the operator's own, with the real binary: previewed, checked before a room gets them, read again when they change, and
//! never an outage.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anteroom_testkit::{Answer, Browser, Request, Server, wait_for, wait_until};
use serde_json::{Value, json};

use crate::support::BINARY;
use crate::support::metrics::metric;

const TIMEOUT: Duration = Duration::from_mins(1);
const GOOD: &str = "<!doctype html><title>{{ title }}</title><p>FIRST {{ situation }}</p>{{ script }}";

fn config(directory: &Path) -> String {
    format!("page_templates = \"{}\"\n[[room]]\nid = \"Hall\"\n", directory.display())
}

fn set_template(server: &Server, name: &str) -> Answer {
    let change = json!({"settings": {"page_template": name}}).to_string();
    server.operator().send(&Request::new("PATCH", "/rooms/Hall").body(change)).expect("an answer")
}

fn preview(server: &Server, body: &Value) -> Answer {
    server.operator().post("/rooms/Hall/preview", body).expect("an answer")
}

fn failures(server: &Server) -> u64 {
    metric(server, "anteroom_page_template_failures_total")
}

#[test]
fn a_page_of_ones_own_is_previewed_checked_and_read_again() {
    let directory = tempfile::tempdir().expect("a directory");
    let write = |name: &str, text: &str| fs::write(directory.path().join(name), text).expect("a file");
    write("own.html", GOOD);
    write("broken.html", "<p>\n{% if %}</p>");
    let server =
        Server::builder(BINARY).memory().config(config(directory.path())).start().expect("the server starts");
    // Before anybody sees it.
    let response = preview(&server, &json!({"page_template": "own", "situation": "turn", "language": "de"}));
    assert_eq!(response.status, 200, "{response:?}");
    assert!(response.text().contains("FIRST turn"), "{response:?}");
    assert!(response.header("Content-Security-Policy").is_some(), "{response:?}");
    let built_in = preview(&server, &json!({"language": "ar"}));
    assert!(built_in.text().contains("dir=\"rtl\""), "{built_in:?}");
    for (body, words) in [
        (json!({"template": "<p>\n\n{{ }}"}), "line 3"),
        (json!({"page_template": "none"}), "no template"),
        (json!({"template": "x", "page_template": "own"}), "not both"),
        (json!({"situation": "nothing"}), "must be one of"),
        (json!({"situatoin": "turn"}), "unknown field"),
    ] {
        let refused = preview(&server, &body);
        assert_eq!(refused.status, 400, "{body}: {refused:?}");
        assert!(refused.text().contains(words), "{body}: {refused:?}");
    }
    // A room only gets what works.
    for name in ["none", "broken"] {
        let refused = set_template(&server, name);
        assert_eq!(refused.status, 400, "{name}: {refused:?}");
        assert!(refused.text().contains(name), "{refused:?}");
    }
    assert_eq!(set_template(&server, "own").status, 200);
    let mut browser = Browser::new(server.public());
    let page = browser.open("/wait/Hall");
    assert!(page.text().contains("FIRST arriving"), "{page:?}");
    // Changed while it runs.
    write("own.html", &GOOD.replace("FIRST", "SECOND BY NOW"));
    wait_until("the page has changed", TIMEOUT, || {
        browser.open("/wait/Hall").text().contains("SECOND BY NOW waiting")
    });
    // Lost: the built-in page is shown, and the operator is told.
    let before = failures(&server);
    fs::remove_file(directory.path().join("own.html")).expect("the file is there");
    let page = wait_for("the built-in page is shown", TIMEOUT, || {
        let page = browser.open("/wait/Hall");
        (page.situation().as_deref() == Some("waiting")).then_some(page)
    });
    assert!(page.shown_position().is_some(), "{page:?}");
    assert!(failures(&server) > before);
    // Written by the server a moment later than the page.
    wait_until("the log says so", TIMEOUT, || server.stderr().contains("built-in page"));
    // Settings that have nothing to do with it can be changed all the same.
    let change = json!({"settings": {"notice": "Hello"}}).to_string();
    let changed =
        server.operator().send(&Request::new("PATCH", "/rooms/Hall").body(change)).expect("an answer");
    assert_eq!(changed.status, 200, "{changed:?}");
}

#[test]
fn a_check_of_the_configuration_finds_templates_that_are_missing() {
    let directory = tempfile::tempdir().expect("a directory");
    let check = |text: String| {
        let ended = Server::builder(BINARY).command("check-config").memory().config(text).run_to_end();
        let ended = ended.expect("the check ends by itself");
        (ended.status.code(), ended.stderr)
    };
    let named = format!("{}page_template = \"own\"\n", config(directory.path()));
    let (code, said) = check(named.clone());
    assert!(code == Some(2) && said.contains("room Hall") && said.contains("own"), "{code:?} {said}");
    fs::write(directory.path().join("own.html"), GOOD).expect("a file");
    assert_eq!(check(named), (Some(0), String::new()));
    let (code, said) = check(config(&directory.path().join("nowhere")));
    assert!(code == Some(2) && said.contains("page_templates"), "{code:?} {said}");
}
