//! Who joins a room, as text.

use anteroom_core::RoomId;
use anteroom_server::Permission;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::view;
use crate::connection::{Answer, Call, Operator};
use crate::failure::{self, Exit};
use crate::output::{self, Format, aligned, cell, table};

/// What one node has seen of those who join.
#[derive(Debug, Deserialize)]
struct Arrivals {
    prefixes: Vec<PrefixArrivals>,
    refusals: Map<String, Value>,
}

#[derive(Debug, Deserialize)]
struct PrefixArrivals {
    prefix: String,
    joins: u64,
    joins_error: u64,
    visits: Option<u64>,
}

/// Prints who joins a room.
pub(super) async fn show(operator: Operator, id: &RoomId) -> anyhow::Result<()> {
    let answer = view::named(&operator, id, fetch(&operator, id).await).await?;
    if operator.format == Format::Json {
        return output::data(&answer.text);
    }
    output::data(view::read::<Arrivals>(&operator, &answer)?.to_text().trim_start())
}

/// The same for the end of another text; nothing where the server is of a version that does not know it.
pub(super) async fn to_text_if_known(operator: &Operator, id: &RoomId) -> anyhow::Result<String> {
    match fetch(operator, id).await {
        Err(error) if failure::kind(&error) == Some(Exit::NotFound) => Ok(String::new()),
        Err(error) => Err(error),
        Ok(answer) => Ok(view::read::<Arrivals>(operator, &answer)?.to_text()),
    }
}

async fn fetch(operator: &Operator, id: &RoomId) -> anyhow::Result<Answer> {
    operator.call(Call::get(format!("/rooms/{id}/arrivals"), Permission::Read)).await
}

impl Arrivals {
    fn to_text(&self) -> String {
        let refusals: Vec<(String, String)> =
            self.refusals.iter().map(|(reason, count)| (format!("  {reason}"), cell(count))).collect();
        let rows: Vec<Vec<String>> = self
            .prefixes
            .iter()
            .map(|counted| {
                let most = counted.joins.to_string();
                let least = counted.joins.saturating_sub(counted.joins_error);
                let joins = if counted.joins_error == 0 { most } else { format!("{least} to {most}") };
                let visits = counted.visits.map_or_else(|| "-".to_owned(), |visits| visits.to_string());
                vec![counted.prefix.clone(), joins, visits]
            })
            .collect();
        let prefixes = if rows.is_empty() {
            "  nobody has joined on this node in the last minutes\n".to_owned()
        } else {
            table(&["PREFIX", "JOINS", "VISITS"], &rows)
        };
        format!(
            "\njoins refused on this node\n{}\njoins by address prefix on this node, last 10 to 20 minutes\n{prefixes}",
            aligned(&refusals)
        )
    }
}
