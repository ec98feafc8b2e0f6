//! The order of phases stands in one constant for each path. The documents tell the same order, and the code follows it.

use std::path::Path;

fn read(file: &str) -> String {
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join(file);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Whether the phases stand in a text in this order, each written as `mark` makes of its name.
fn follows(text: &str, phases: &[&str], mark: impl Fn(&str) -> String) -> Result<(), String> {
    let mut rest = text;
    for phase in phases {
        let marked = mark(phase);
        let at =
            rest.find(&marked).ok_or_else(|| format!("{marked} is missing, or stands before its turn"))?;
        rest = &rest[at + marked.len()..];
    }
    Ok(())
}

fn section<'text>(document: &'text str, heading: &str) -> &'text str {
    let begin = document.find(heading).unwrap_or_else(|| panic!("there is a section {heading:?}"));
    let body = &document[begin + heading.len()..];
    &body[..body.find("\n## ").unwrap_or(body.len())]
}

#[test]
fn the_phases_of_the_gateway_are_told_in_the_order_in_which_they_run() {
    let phases = anteroom_server::GATEWAY_PHASES.map(|(name, _)| name);
    let bold = |phase: &str| format!("**{phase}**");
    follows(&read("crates/gateway/src/lib.rs"), &phases, bold).expect("the header of the gateway");
    let architecture = read("ARCHITECTURE.md");
    follows(section(&architecture, "## The phases of a request"), &phases, bold).expect("ARCHITECTURE.md");
    // Accounting happens when the account is dropped, so it has no line of its own.
    let in_code = &phases[..phases.len() - 1];
    follows(&read("crates/gateway/src/gateway.rs"), in_code, |phase| format!("// phase: {phase}\n"))
        .expect("the code");
}

#[test]
fn the_phases_of_the_api_are_told_in_the_order_in_which_they_run() {
    let phases = anteroom_server::API_PHASES.map(|(name, _)| name);
    let architecture = read("ARCHITECTURE.md");
    let told = section(&architecture, "## The phases of a request");
    follows(told, &phases, |phase| format!("*{phase}*")).expect("ARCHITECTURE.md");
    // Connections are accepted by the listener, before there is a request.
    let in_code = &phases[1..];
    follows(&read("crates/server/src/http/service.rs"), in_code, |phase| format!("// phase: {phase}\n"))
        .expect("the code");
}

/// The names in the calls that begin a phase's span.
fn marks(code: &str) -> Vec<&str> {
    let calls = ["trace.mark(\"", "trace::mark(&mut request, \""];
    calls.iter().flat_map(|call| code.split(call).skip(1)).filter_map(|rest| rest.split('"').next()).collect()
}

#[test]
fn every_span_is_called_as_a_phase_and_every_phase_has_one() {
    let gateway = anteroom_server::GATEWAY_PHASES.map(|(name, _)| name);
    let api = anteroom_server::API_PHASES.map(|(name, _)| name);
    for (file, phases) in [
        ("crates/gateway/src/gateway.rs", gateway.as_slice()),
        ("crates/server/src/http/service.rs", &api[1..]),
    ] {
        let code = read(file);
        let marks = marks(&code);
        let (strange, missing): (Vec<_>, Vec<_>) = (
            marks.iter().filter(|mark| !phases.contains(mark)).collect(),
            phases.iter().filter(|phase| !marks.contains(phase)).collect(),
        );
        assert!(strange.is_empty() && missing.is_empty(), "{file}: {strange:?} {missing:?}");
    }
}

#[test]
fn a_phase_out_of_order_is_found() {
    let bold = |phase: &str| format!("**{phase}**");
    assert!(follows("**identify** then **limit**", &["identify", "limit"], bold).is_ok());
    assert!(follows("**limit** then **identify**", &["identify", "limit"], bold).is_err());
}
