//! Budgets of clients: the settings around them, and `[[limit]]` tables.
//!
//! Tables of one name share a budget. The first says how large it is and whose; the further ones only which other requests
//! are charged to it, and how much.

use std::collections::BTreeMap;
use std::ops::Range;

use anteroom_core::bucket::LimitError;
use anteroom_gateway::limiter::{
    Budget, By, CHARGE_LIST_MAX, COST_MAX, Charge, Class, OnFailure, POLICIES_MAX, Policy, PolicyError,
};
use anteroom_store::buckets::{POLICY_NAME_MAX_LENGTH, PolicyName};
use http::{HeaderName, Method};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::SETTINGS;
use super::kinds::{Kind, Raw, Refusal};
use super::problems::{Hint, Origin, Place, Problem, nearest};
use super::source::{Source, shown_toml};
use super::store::{RedisUrl, StoreUrl, read_location};

/// The key of the array of tables.
const LIMIT: &str = "limit";
/// What a table may say.
const KEYS: [&str; 10] =
    ["name", "by", "class", "paths", "methods", "requests", "per_seconds", "burst", "cost", "per_node"];
/// What only the first table of a name says.
const BUDGET_KEYS: [&str; 5] = ["by", "requests", "per_seconds", "burst", "per_node"];
/// The most requests that a table may allow; what of it can be computed with depends on the period.
const REQUESTS_MAX: u64 = 1_000_000_000_000;
/// The word for requests of every class.
const ALL_CLASSES: &str = "all";

/// The budgets that there are unless a table of the same name replaces them. Generous: a whole company or a mobile network may share
/// one address, and hundreds of its people may come in the same minute. A claim may cost a signature, and clients ask for theirs again
/// and again until it is their turn. Reads are many and cheap; a page asks every few seconds. Few people take their place to another
/// device, and a room remembers no more than [`MOVED_MAX`](anteroom_core::moves::MOVED_MAX) places that have moved: one address shall
/// not use them up.
const DEFAULTS: [(&str, Class, Budget); 4] = [
    ("join", Class::Join, Budget { requests: 1_200, per_seconds: 60, burst: 1_200 }),
    ("claim", Class::Claim, Budget { requests: 3_000, per_seconds: 60, burst: 3_000 }),
    ("move", Class::Move, Budget { requests: 20, per_seconds: 60, burst: 60 }),
    ("read", Class::Read, Budget { requests: 60_000, per_seconds: 60, burst: 60_000 }),
];
/// Of these the one that each node has for itself: reads need no store, and shall not need that of the limits.
const DEFAULT_PER_NODE: Class = Class::Read;

/// Where budgets are kept, if the operator says so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LimitsStore {
    /// On each node for itself.
    Memory,
    /// In a Redis.
    Redis(RedisUrl),
}

/// [`LimitsStore`] as a kind.
pub struct LimitsLocation;

impl Kind for LimitsLocation {
    type Value = LimitsStore;
    fn expected() -> String {
        "\"memory:\", or the URL of a Redis such as \"redis://127.0.0.1:6379\"".to_owned()
    }
    fn read(raw: Raw<'_>) -> Result<LimitsStore, Refusal> {
        match read_location(raw, "limits_store_url")? {
            StoreUrl::Memory => Ok(LimitsStore::Memory),
            StoreUrl::Redis(url) => Ok(LimitsStore::Redis(url)),
            StoreUrl::File(_) => Err(Refusal::Unexpected),
        }
    }
}

/// [`OnFailure`] as a kind.
pub struct FailureMode;

impl Kind for FailureMode {
    type Value = OnFailure;
    fn expected() -> String {
        "\"local-joins\", \"open\" or \"local\"".to_owned()
    }
    fn read(raw: Raw<'_>) -> Result<OnFailure, Refusal> {
        match raw.text()? {
            "local-joins" => Ok(OnFailure::LocalJoins),
            "open" => Ok(OnFailure::Open),
            "local" => Ok(OnFailure::Local),
            _ => Err(Refusal::Unexpected),
        }
    }
}

/// The name of a header that holds a client's key. Unlike the CDN's secret, a key may come as `Authorization`.
pub struct KeyHeader;

impl Kind for KeyHeader {
    type Value = HeaderName;
    fn expected() -> String {
        "the name of a header, such as \"x-client-key\"".to_owned()
    }
    fn read(raw: Raw<'_>) -> Result<HeaderName, Refusal> {
        let name: HeaderName = raw.text()?.parse().map_err(|_| Refusal::Unexpected)?;
        let taken =
            ["host", "cookie", "connection", "content-length", "transfer-encoding", "x-forwarded-for"];
        if taken.contains(&name.as_str()) {
            return Err(Refusal::Because(format!("`{name}` has another use and holds no key")));
        }
        Ok(name)
    }
}

/// Takes the limits out of the file, and adds the default ones.
pub(super) fn read(source: &mut Source<'_>, has_key_header: bool) -> Vec<Policy> {
    let mut drafts: Vec<Draft> = Vec::new();
    for table in tables(source) {
        read_one(source, &table, &mut drafts);
    }
    for draft in drafts.iter().filter(|draft| draft.by == By::Key && !has_key_header) {
        let (place, name) = (draft.place.clone(), draft.name.clone());
        source.problems.push(Problem::NoKeyHeader { place, name });
    }
    if let Some(draft) = drafts.get(POLICIES_MAX - DEFAULTS.len()) {
        source.problems.push(Problem::TooManyLimits { place: draft.place.clone() });
    }
    let mut policies: Vec<Policy> = drafts.into_iter().filter_map(|draft| draft.finished(source)).collect();
    for (name, class, budget) in DEFAULTS {
        if !policies.iter().any(|policy| policy.name() == name) {
            let charge = Charge { class: Some(class), paths: vec![], methods: vec![], cost: 1 };
            let policy =
                Policy::new(name, By::Ip, budget, vec![charge]).expect("the default limits are some");
            policies.push(if class == DEFAULT_PER_NODE { policy.per_node() } else { policy });
        }
    }
    policies
}

/// One `[[limit]]`, with where everything stands in it.
struct Table<'a> {
    place: Place,
    entries: BTreeMap<String, (Place, Spanned<DeValue<'a>>)>,
}

/// What the tables of one name say together.
struct Draft {
    name: String,
    place: Place,
    by: By,
    /// None if it is not valid, which has been reported.
    budget: Option<Budget>,
    is_per_node: bool,
    /// Each with where it is said what it costs.
    charges: Vec<(Charge, Place)>,
    places: BTreeMap<String, Place>,
}

fn tables<'a>(source: &mut Source<'a>) -> Vec<Table<'a>> {
    let Some((key, value)) = source.take_key(LIMIT) else { return Vec::new() };
    let place = source.place(&key.span());
    let DeValue::Array(entries) = value.into_inner() else {
        source.problems.push(Problem::LimitsAreNotTables { place });
        return Vec::new();
    };
    let mut tables = Vec::new();
    for entry in entries {
        let span = entry.span();
        if let DeValue::Table(table) = entry.into_inner() {
            tables.push(known_keys(source, &span, table));
        } else {
            let place = source.place(&span);
            source.problems.push(Problem::LimitsAreNotTables { place });
        }
    }
    tables
}

/// The table with the keys that mean something; the others are reported.
fn known_keys<'a>(source: &mut Source<'a>, span: &Range<usize>, table: DeTable<'a>) -> Table<'a> {
    let place = source.place(span);
    let mut entries = BTreeMap::new();
    for (key, value) in table {
        let place = source.place(&key.span());
        let key = key.into_inner().into_owned();
        if KEYS.contains(&key.as_str()) {
            entries.insert(key, (place, value));
        } else if SETTINGS.iter().any(|setting| setting.name == key) {
            source.problems.push(Problem::InsideALimit { place, key });
        } else {
            let hint = Hint(nearest(&key, KEYS).map(str::to_owned));
            source.problems.push(Problem::UnknownKey { place, key, hint });
        }
    }
    Table { place, entries }
}

fn read_one(source: &mut Source<'_>, table: &Table<'_>, drafts: &mut Vec<Draft>) {
    let name = table.required(source, "name", &name_expected(), |raw| match raw.text()? {
        name if PolicyName::parse(name).is_ok() => Ok(name.to_owned()),
        _ => Err(Refusal::Unexpected),
    });
    let charge = read_charge(source, table);
    let cost_place = table.place_of("cost");
    let Some(name) = name else {
        read_budget(source, table);
        return;
    };
    if let Some(draft) = drafts.iter_mut().find(|draft| draft.name == name) {
        for key in BUDGET_KEYS.into_iter().filter(|key| table.entries.contains_key(*key)) {
            source.problems.push(Problem::LimitTwice {
                place: table.place_of(key),
                key: key.to_owned(),
                name: name.clone(),
                first_line: draft.place.line,
            });
        }
        draft.charges.extend(charge.map(|charge| (charge, cost_place)));
        return;
    }
    let (by, budget) = read_budget(source, table);
    let per_node = table.optional(source, "per_node", "true or false", |raw| match raw {
        Raw::Toml(DeValue::Boolean(flag)) => Ok(*flag),
        _ => Err(Refusal::Unexpected),
    });
    drafts.push(Draft {
        name,
        place: table.place.clone(),
        by,
        budget: budget.filter(|_| charge.is_some() && per_node.is_ok()),
        is_per_node: per_node.ok().flatten().unwrap_or(false),
        charges: charge.map(|charge| (charge, cost_place)).into_iter().collect(),
        places: table.entries.iter().map(|(key, (place, _))| (key.clone(), place.clone())).collect(),
    });
}

fn name_expected() -> String {
    format!("1 to {POLICY_NAME_MAX_LENGTH} characters out of A-Z, a-z, 0-9, '_', '.' and '-'")
}

/// Whose budget it is, and how large.
fn read_budget(source: &mut Source<'_>, table: &Table<'_>) -> (By, Option<Budget>) {
    let by = table.optional(source, "by", "\"ip\" or \"key\"", |raw| match raw.text()? {
        "ip" => Ok(By::Ip),
        "key" => Ok(By::Key),
        _ => Err(Refusal::Unexpected),
    });
    let expected = format!("a whole number from 1 to {REQUESTS_MAX}");
    let number = |raw: Raw<'_>| raw.whole_number(1, REQUESTS_MAX);
    let requests = table.required(source, "requests", &expected, number);
    let per_seconds = table.required(source, "per_seconds", &expected, number);
    let burst = table.optional(source, "burst", &expected, number);
    let is_whole = by.is_ok() && burst.is_ok();
    let (by, burst) = (by.ok().flatten().unwrap_or(By::Ip), burst.ok().flatten());
    let budget = requests.zip(per_seconds).filter(|_| is_whole);
    let budget = budget.map(|(requests, per_seconds)| Budget {
        requests,
        per_seconds,
        burst: burst.unwrap_or(requests),
    });
    (by, budget)
}

/// Which requests it charges. `None` if that is not valid, which has been reported.
fn read_charge(source: &mut Source<'_>, table: &Table<'_>) -> Option<Charge> {
    let classes = Class::ALL.map(|class| format!("\"{}\"", class.as_str())).join(", ");
    let expected = format!("one of {classes}, \"{ALL_CLASSES}\"");
    let class = table.optional(source, "class", &expected, |raw| match raw.text()? {
        ALL_CLASSES => Ok(None),
        name => Class::parse(name).map(Some).ok_or(Refusal::Unexpected),
    });
    let expected = format!("a list of 1 to {CHARGE_LIST_MAX} paths, such as [\"/search\", \"/api/\"]");
    let paths = table.optional(source, "paths", &expected, |raw| {
        texts(raw, |path| path.starts_with('/').then(|| path.to_owned()))
    });
    let expected = format!("a list of 1 to {CHARGE_LIST_MAX} methods, such as [\"GET\", \"POST\"]");
    let methods = table.optional(source, "methods", &expected, |raw| {
        texts(raw, |method| {
            // Methods are case-sensitive, and no other spelling is ever meant.
            let is_upper = method.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'-');
            method.parse::<Method>().ok().filter(|_| is_upper)
        })
    });
    let expected = format!("a whole number from 1 to {COST_MAX}");
    let cost = table.optional(source, "cost", &expected, |raw| raw.whole_number(1, COST_MAX));
    Some(Charge {
        class: class.ok()?.flatten(),
        paths: paths.ok()?.unwrap_or_default(),
        methods: methods.ok()?.unwrap_or_default(),
        cost: cost.ok()?.unwrap_or(1),
    })
}

/// A list of texts in the file.
fn texts<T>(raw: Raw<'_>, parse: impl Fn(&str) -> Option<T>) -> Result<Vec<T>, Refusal> {
    let Raw::Toml(DeValue::Array(entries)) = raw else { return Err(Refusal::Unexpected) };
    if !(1..=CHARGE_LIST_MAX).contains(&entries.len()) {
        return Err(Refusal::Unexpected);
    }
    let parsed = entries.iter().map(|entry| match entry.get_ref() {
        DeValue::String(text) => parse(text),
        _ => None,
    });
    parsed.collect::<Option<_>>().ok_or(Refusal::Unexpected)
}

/// A value that was refused and has been reported.
struct ReportedRefusal;

impl Table<'_> {
    /// Where `key` stands; where the table begins, if it has no such key.
    fn place_of(&self, key: &str) -> Place {
        self.entries.get(key).map_or_else(|| self.place.clone(), |(place, _)| place.clone())
    }

    fn optional<T>(
        &self,
        source: &mut Source<'_>,
        key: &'static str,
        expected: &str,
        read: impl FnOnce(Raw<'_>) -> Result<T, Refusal>,
    ) -> Result<Option<T>, ReportedRefusal> {
        let Some((place, value)) = self.entries.get(key) else { return Ok(None) };
        read(Raw::Toml(value.get_ref())).map(Some).map_err(|refusal| {
            let explanation = match refusal {
                Refusal::Unexpected => format!("expected {expected}"),
                Refusal::Because(reason) => reason,
            };
            let value = shown_toml(value.get_ref(), source.text(), &value.span());
            let origin = Origin::Key { place: place.clone(), name: key.to_owned() };
            source.problems.push(Problem::Value { origin, value, explanation });
            ReportedRefusal
        })
    }

    fn required<T>(
        &self,
        source: &mut Source<'_>,
        key: &'static str,
        expected: &str,
        read: impl FnOnce(Raw<'_>) -> Result<T, Refusal>,
    ) -> Option<T> {
        if !self.entries.contains_key(key) {
            source.problems.push(Problem::LimitLacks { place: self.place.clone(), key });
        }
        self.optional(source, key, expected, read).ok().flatten()
    }
}

impl Draft {
    /// The policy. A policy that is not valid is reported with its line.
    fn finished(self, source: &mut Source<'_>) -> Option<Policy> {
        let budget = self.budget?;
        let dear = self.charges.iter().find(|(charge, _)| charge.cost > budget.burst);
        let dear_place = dear.map(|(_, place)| place.clone());
        let charges = self.charges.into_iter().map(|(charge, _)| charge).collect();
        let error = match Policy::new(&self.name, self.by, budget, charges) {
            Ok(policy) if self.is_per_node => return Some(policy.per_node()),
            Ok(policy) => return Some(policy),
            Err(error) => error,
        };
        let (key, value) = match &error {
            PolicyError::BadLimit(LimitError::BadPeriod) => ("per_seconds", budget.per_seconds),
            PolicyError::BadLimit(LimitError::NoBurst | LimitError::TooSlow) => ("burst", budget.burst),
            PolicyError::NeverAllowed { cost, .. } => ("cost", *cost),
            _ => ("requests", budget.requests),
        };
        let place = dear_place.filter(|_| key == "cost").or_else(|| self.places.get(key).cloned());
        let origin = Origin::Key { place: place.unwrap_or(self.place), name: key.to_owned() };
        let explanation = error.to_string();
        source.problems.push(Problem::Value { origin, value: value.to_string(), explanation });
        None
    }
}
