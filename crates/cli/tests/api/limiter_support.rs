//! What the tests of the limiter share: servers with budgets, calls by clients with an address and a key of their own, the
//! fields of answers as an independent parser reads them, and figures.

use std::time::Duration;

use anteroom_testkit::{Answer, Builder, Client, Request, Server};
use serde_json::json;
use sfv::{BareItem, List, ListEntry, Parser};

use crate::support::BINARY;
use crate::support::metrics::metric;

/// How long something may take to come about. Generous: what is tested is that it does, not how fast.
pub(crate) const TIMEOUT: Duration = Duration::from_mins(1);

/// A period in which nothing comes back while a test runs.
pub(crate) const LONG_SECONDS: u64 = 8_640_000;

/// A `[[limit]]` of joins.
pub(crate) fn joins(name: &str, by: &str, requests: u64) -> String {
    format!(
        "[[limit]]\nname = \"{name}\"\nby = \"{by}\"\nclass = \"join\"\nrequests = {requests}\nper_seconds = {LONG_SECONDS}\n"
    )
}

/// A server on which nobody is exempt, and which believes its peers, all of them on this machine, whom they speak for.
pub(crate) fn server(config: &str) -> Builder {
    let settings =
        "limits_exempt = \"none\"\ntrusted_proxies = \"127.0.0.1\"\nlimits_key_header = \"x-client-key\"\n";
    Server::builder(BINARY).config(format!("{settings}{config}\n[[room]]\nid = \"Hall\"\n"))
}

/// The same, with settings of its room.
pub(crate) fn server_with_room(room: &str) -> Builder {
    let settings = "limits_exempt = \"none\"\ntrusted_proxies = \"127.0.0.1\"\n";
    Server::builder(BINARY).config(format!("{settings}[[room]]\nid = \"Hall\"\n{room}\n"))
}

/// A join by a client with this address, and these other headers.
pub(crate) fn join_with(client: &mut Client, address: &str, headers: &[(&str, &str)]) -> Answer {
    let mut request =
        Request::post_json("/join", &json!({ "room": "Hall" })).header("X-Forwarded-For", address);
    for (name, value) in headers {
        request = request.header(name, value);
    }
    client.send(&request).expect("an answer")
}

/// A join by a client with this address.
pub(crate) fn join(client: &mut Client, address: &str) -> Answer {
    join_with(client, address, &[])
}

/// The members of a list of strings with whole numbers as parameters: `"name";q=1;w=2`.
#[track_caller]
pub(crate) fn members(answer: &Answer, field: &str) -> Vec<(String, Vec<(String, i64)>)> {
    let lines: Vec<&str> = answer
        .headers
        .iter()
        .filter(|(name, _)| name.eq_ignore_ascii_case(field))
        .map(|(_, value)| value.as_str())
        .collect();
    assert!(!lines.is_empty(), "no {field}: {answer:?}");
    let list: List =
        Parser::new(&lines.join(", ")).parse().unwrap_or_else(|error| panic!("{error}: {lines:?}"));
    list.into_iter().map(|entry| member(entry, &lines)).collect()
}

fn member(entry: ListEntry, lines: &[&str]) -> (String, Vec<(String, i64)>) {
    let ListEntry::Item(item) = entry else { panic!("an inner list: {lines:?}") };
    let BareItem::String(name) = item.bare_item else { panic!("a member that is no string: {lines:?}") };
    let parameters = item.params.into_iter().map(|(key, value)| match value {
        BareItem::Integer(number) => (key.as_str().to_owned(), i64::from(number)),
        other => panic!("{other:?} is no whole number: {lines:?}"),
    });
    (name.as_str().to_owned(), parameters.collect())
}

/// What is left of a budget.
#[track_caller]
pub(crate) fn remaining(answer: &Answer, policy: &str) -> i64 {
    let fields = members(answer, "RateLimit");
    let (_, parameters) = fields.iter().find(|(name, _)| name == policy).expect("the budget is told of");
    parameters.iter().find(|(name, _)| name == "r").expect("r is required").1
}

/// How often a budget decided so.
#[track_caller]
pub(crate) fn decided(server: &Server, policy: &str, decision: &str) -> u64 {
    metric(
        server,
        &format!("anteroom_limiter_decisions_total{{policy=\"{policy}\",decision=\"{decision}\"}}"),
    )
}
