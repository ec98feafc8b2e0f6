//! The table of kinds of events, as `docs/operating/events.md` has it.

use std::fmt::Write as _;

use anteroom_core::EventKind;

use crate::schemas::schema_of;

/// Every kind: its name, its class, what it tells, and what its data are.
pub fn kinds() -> String {
    let mut table = String::from("| kind | class | what it tells | `data` |\n|---|---|---|---|\n");
    for &kind in EventKind::ALL {
        let schema = schema_of(kind);
        let fields = schema["properties"]["data"]["properties"].as_object();
        let names: Vec<String> = fields.into_iter().flatten().map(|(name, _)| format!("`{name}`")).collect();
        let names = if names.is_empty() { "–".to_owned() } else { names.join(", ") };
        let (name, class, meaning) = (kind.as_str(), kind.class().as_str(), kind.meaning().trim());
        writeln!(table, "| `{name}` | {class} | {meaning} | {names} |").expect("a String takes everything");
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGIN: &str = "<!-- The table below is generated; see crates/events/src/reference.rs. -->\n\n";
    const END: &str = "\n<!-- End of the generated table. -->";

    #[test]
    fn the_document_has_the_reference() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operating/events.md");
        let written = std::fs::read_to_string(path).unwrap();
        let (before, rest) = written.split_once(BEGIN).unwrap();
        let (table, after) = rest.split_once(END).unwrap();
        if std::env::var_os("ANTEROOM_WRITE_REFERENCES").is_some() {
            std::fs::write(path, [before, BEGIN, &kinds(), END, after].concat()).unwrap();
            return;
        }
        assert_eq!(table, kinds(), "run this test with ANTEROOM_WRITE_REFERENCES=1 to write it anew");
    }
}
