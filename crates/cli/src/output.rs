//! What commands print. stdout is data, stderr is talk; nothing is coloured, so nothing is said by colour alone.

use std::io::{self, BufRead, IsTerminal, Write};

use serde_json::Value;

use crate::failure::{Exit, Failure};

/// How a command prints its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// For people: aligned, without what the server did not say
    Text,
    /// For programs: the server's answer as it came
    Json,
}

/// Prints data, ending in one line feed.
pub(crate) fn data(text: &str) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    let written = writeln!(stdout, "{}", text.trim_end_matches('\n')).and_then(|()| stdout.flush());
    match written {
        // The reader has read enough, as `head` does.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other?),
    }
}

/// Writes to standard error. A failure to write is no reason to stop.
pub(crate) fn talk(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// Asks once on a terminal, unless the answer was given as `--yes`; anywhere else nobody could answer.
pub(crate) fn confirm(what_will_happen: &str, yes: bool) -> anyhow::Result<()> {
    if yes {
        return Ok(());
    }
    if !io::stdin().is_terminal() {
        let failure = Failure::new(Exit::CommandLine, format!("{what_will_happen}, so it must be confirmed"));
        return Err(failure.hint("add --yes if you mean it").into());
    }
    let _ = write!(io::stderr(), "{what_will_happen}. Go on? [y/N] ");
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    if matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes") {
        return Ok(());
    }
    Err(Failure::new(Exit::Failed, "not confirmed; nothing was changed").into())
}

/// A value as people read it: texts without quotes, what is not set as `(not set)`.
pub(crate) fn plain(value: &Value) -> String {
    match value {
        Value::Null => "(not set)".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// A cell of a table: what is not there as a dash, which keeps every row as long as its head.
pub(crate) fn cell(value: &Value) -> String {
    if value.is_null() { "-".to_owned() } else { plain(value) }
}

/// Rows under a head, each column as wide as its widest cell; columns of numbers are aligned to the right.
pub(crate) fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let is_number = |text: &String| text == "-" || text.parse::<f64>().is_ok();
    let columns: Vec<(usize, bool)> = (0..head.len())
        .map(|column| {
            let cells = || rows.iter().map(|row| &row[column]);
            let width = cells().map(|cell| cell.chars().count()).max().unwrap_or(0);
            (width.max(head[column].chars().count()), !rows.is_empty() && cells().all(is_number))
        })
        .collect();
    let line = |cells: Vec<&str>| {
        let padded = cells.iter().zip(&columns).map(|(cell, (width, to_the_right))| {
            if *to_the_right { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
        });
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
    };
    let mut text = line(head.to_vec());
    for row in rows {
        text.push_str(&line(row.iter().map(String::as_str).collect()));
    }
    text
}

/// `name  value` lines with the values one below the other.
pub(crate) fn aligned(lines: &[(String, String)]) -> String {
    let width = lines.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let lines: Vec<String> = lines.iter().map(|(name, value)| format!("{name:<width$}  {value}")).collect();
    lines.join("\n") + "\n"
}

/// So many of something, in English.
pub(crate) fn count(number: u64, one: &str) -> String {
    if number == 1 { format!("1 {one}") } else { format!("{number} {one}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_of_numbers_stand_to_the_right_and_no_line_ends_in_spaces() {
        let rows = [
            vec!["Hall".to_owned(), "5".to_owned(), "open".to_owned()],
            vec!["Ö".to_owned(), "1200".to_owned(), "-".to_owned()],
        ];
        let expected = "ROOM  SERVING  STATE\nHall        5  open\nÖ        1200  -\n";
        assert_eq!(table(&["ROOM", "SERVING", "STATE"], &rows), expected);
    }

    #[test]
    fn a_table_without_rows_is_its_head() {
        assert_eq!(table(&["ROOM", "STATE"], &[]), "ROOM  STATE\n");
    }
}
