//! Rooms as the gateway sees them: which of them a request belongs to, and what this node adds to each.
//!
//! A room takes part if it names hosts, paths or origins of its own, or if it is the only room there is. Of several that fit a
//! request, one that names the host goes before one that takes any, and then the longest path.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anteroom_core::settings::BypassRule;
use anteroom_core::{Board, Settings, UnixMillis};
use anteroom_store::{Engine, RoomHandle};
use anteroom_tokens::cookie::VisitorCookies;
use anteroom_tokens::request_id::RequestIds;
use anteroom_tokens::secret::MasterSecrets;
use arc_swap::ArcSwap;
use http::{HeaderMap, Method, header};

use crate::account::{RoomVerdicts, Verdicts};
use crate::cookies::CookieNames;
use crate::proxy::{OriginAddress, Origins, ProxySettings};
use crate::tickets::Refreshes;
use crate::visit::Visits;

/// A room with what only this node adds to it.
pub(crate) struct GatewayRoom {
    pub(crate) handle: Arc<RoomHandle>,
    pub(crate) request_ids: RequestIds,
    pub(crate) cookies: VisitorCookies,
    pub(crate) cookie_names: CookieNames,
    pub(crate) refreshes: Refreshes,
    pub(crate) visits: Visits,
    pub(crate) spot: Spot,
    pub(crate) verdicts: RoomVerdicts,
    pub(crate) loss: crate::loss::LossMode,
}

/// A room in the order of precedence, with its settings as they were when the table was made.
pub(crate) struct Rule {
    pub(crate) room: Arc<GatewayRoom>,
    pub(crate) settings: Arc<Settings>,
    /// The version of the board that had these settings, so that a look tells whether there is anything to compare.
    seen_version: AtomicU64,
    pub(crate) origins: Option<Arc<Origins>>,
}

impl Rule {
    fn matches(&self, host: &str, path: &str) -> Option<(bool, usize)> {
        let hosts = self.settings.hosts.as_slice();
        if !hosts.is_empty() && !hosts.iter().any(|named| named.as_str().eq_ignore_ascii_case(host)) {
            return None;
        }
        let paths = self.settings.paths.as_slice();
        let longest = if paths.is_empty() {
            0
        } else {
            paths.iter().filter(|prefix| prefix.covers(path)).map(|prefix| prefix.as_str().len()).max()?
        };
        Some((!hosts.is_empty(), longest))
    }

    /// Whether the room has other settings by now.
    fn is_outdated(&self) -> bool {
        self.room.handle.with_board(|board| {
            if self.seen_version.load(Ordering::Relaxed) == board.version {
                return false;
            }
            let same = *board.settings == *self.settings;
            if same {
                self.seen_version.store(board.version, Ordering::Relaxed);
            }
            !same
        })
    }

    /// Whether a rule of the room lets a request by.
    pub(crate) fn lets_by(&self, method: &Method, path: &str, headers: &HeaderMap, client: IpAddr) -> bool {
        self.settings.bypass.as_slice().iter().any(|rule| match rule {
            BypassRule::Path(prefix) => prefix.covers(path),
            BypassRule::Cidr(network) => network.contains(client),
            BypassRule::Method(name) => method.as_str() == name,
            BypassRule::Header(named) => {
                let mut shown = headers.get_all(named.name.as_str()).iter();
                shown.any(|value| value.to_str().is_ok_and(|value| named.accepts(value)))
            }
            BypassRule::Cookie(named) => {
                crate::cookies::all(headers, &named.name).any(|value| named.accepts(value))
            }
        })
    }
}

/// Which room a request belongs to.
pub(crate) enum Found {
    /// This one.
    Room(Arc<Rule>),
    /// None, and the site is served all the same.
    Unprotected(Arc<Origins>),
    /// The gateway has nothing to do with it.
    Nothing,
}

/// All rules, in any order.
#[derive(Default)]
struct Table {
    rules: Vec<Arc<Rule>>,
}

/// The rooms of the gateway, following those of the engine.
pub(crate) struct GatewayRooms {
    engine: Arc<Engine>,
    secrets: Arc<MasterSecrets>,
    proxy: ProxySettings,
    /// Where requests go whose room names no origins.
    default_origins: Option<Arc<Origins>>,
    verdicts: Verdicts,
    table: ArcSwap<Table>,
    /// Held while the table is made.
    replacing: Mutex<()>,
}

impl GatewayRooms {
    pub(crate) fn new(
        engine: Arc<Engine>,
        secrets: Arc<MasterSecrets>,
        proxy: ProxySettings,
        default_origins: Option<Arc<Origins>>,
        verdicts: Verdicts,
    ) -> Self {
        let (table, replacing) = (ArcSwap::default(), Mutex::default());
        let rooms = Self { engine, secrets, proxy, default_origins, verdicts, table, replacing };
        rooms.follow();
        rooms
    }

    /// Where a request belongs.
    pub(crate) fn find(&self, host: &str, path: &str) -> Found {
        let table = self.table.load();
        if table.rules.iter().any(|rule| rule.is_outdated()) {
            drop(table);
            self.follow();
            return self.find_now(host, path);
        }
        drop(table);
        self.find_now(host, path)
    }

    fn find_now(&self, host: &str, path: &str) -> Found {
        let table = self.table.load();
        let best = table
            .rules
            .iter()
            .filter_map(|rule| rule.matches(host, path).map(|fits| (fits, rule)))
            .max_by_key(|(fits, _)| *fits);
        match (best, &self.default_origins) {
            (Some((_, rule)), _) => Found::Room(Arc::clone(rule)),
            (None, Some(origins)) => Found::Unprotected(Arc::clone(origins)),
            (None, None) => Found::Nothing,
        }
    }

    /// Whether there is nothing to stand before.
    pub(crate) fn is_empty(&self) -> bool {
        self.default_origins.is_none() && self.table.load().rules.is_empty()
    }

    /// Whether requests for a host are the gateway's, whatever their path.
    pub(crate) fn serves_host(&self, host: &str) -> bool {
        self.default_origins.is_some()
            || self.table.load().rules.iter().any(|rule| {
                let hosts = rule.settings.hosts.as_slice();
                hosts.is_empty() || hosts.iter().any(|named| named.as_str().eq_ignore_ascii_case(host))
            })
    }

    /// All groups of origins.
    pub(crate) fn origins(&self) -> Vec<Arc<Origins>> {
        let mut all: Vec<Arc<Origins>> = self.default_origins.iter().cloned().collect();
        for rule in &self.table.load().rules {
            if let Some(origins) = &rule.origins
                && !all.iter().any(|known| Arc::ptr_eq(known, origins))
            {
                all.push(Arc::clone(origins));
            }
        }
        all
    }

    /// Takes in what has changed about rooms and their settings.
    pub(crate) fn follow(&self) {
        let _one_at_a_time = self.replacing.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.table.load();
        let handles = self.engine.rooms();
        let is_alone = handles.len() == 1;
        let mut rules = vec![];
        for handle in handles {
            let board = handle.board();
            let known = before.rules.iter().find(|rule| Arc::ptr_eq(&rule.room.handle, &handle));
            if let Some(known) = known.filter(|known| !known.is_outdated()) {
                rules.push(Arc::clone(known));
                continue;
            }
            if let Some(rule) = self.rule(handle, &board, known, is_alone) {
                rules.push(Arc::new(rule));
            }
        }
        // Of rooms that fit equally well, the first by name is taken: `max_by_key` returns the last.
        rules.sort_by(|one, other| other.room.handle.id().cmp(one.room.handle.id()));
        self.table.store(Arc::new(Table { rules }));
    }

    fn rule(
        &self,
        handle: Arc<RoomHandle>,
        board: &Arc<Board>,
        known: Option<&Arc<Rule>>,
        is_alone: bool,
    ) -> Option<Rule> {
        let settings = Arc::clone(&board.settings);
        let has_own = |settings: &Settings| !settings.origins.as_slice().is_empty();
        let names_something = !settings.hosts.as_slice().is_empty() || !settings.paths.as_slice().is_empty();
        let takes_part =
            has_own(&settings) || self.default_origins.is_some() && (names_something || is_alone);
        if !takes_part {
            return None;
        }
        let origins = match known.filter(|known| known.settings.origins == settings.origins) {
            Some(known) => known.origins.clone(),
            None if has_own(&settings) => {
                let addresses =
                    settings.origins.as_slice().iter().filter_map(|url| url.as_str().parse().ok());
                let addresses: Vec<OriginAddress> = addresses.collect();
                let origins = Origins::new(addresses, self.proxy.clone());
                origins
                    .inspect_err(|error| tracing::error!(room = %handle.id(), %error, "the room's origins cannot be used"))
                    .ok()
            }
            None => self.default_origins.clone(),
        };
        let room = match known {
            Some(known) => Arc::clone(&known.room),
            None => Arc::new(GatewayRoom {
                request_ids: RequestIds::new(&self.secrets, handle.id()),
                cookies: VisitorCookies::new(&self.secrets, handle.id()),
                cookie_names: CookieNames::of(handle.id()),
                refreshes: Refreshes::default(),
                visits: Visits::default(),
                spot: Spot::default(),
                verdicts: self.verdicts.of(handle.id().as_str()),
                loss: crate::loss::LossMode::default(),
                handle,
            }),
        };
        Some(Rule { room, settings, seen_version: AtomicU64::new(board.version), origins })
    }

    /// What must happen also while nobody asks.
    pub(crate) fn look_after(&self, now: UnixMillis) {
        self.follow();
        for rule in &self.table.load().rules {
            let session_millis = rule.settings.session_duration.get() * 1000;
            rule.room.handle.with_board(|board| rule.room.visits.follow(board, now));
            rule.room.visits.sweep(now, session_millis);
        }
    }
}

/// Admissions on the spot that are under way: never more than the board shows free slots, so that nobody without a cookie gets into
/// the line by accident.
#[derive(Debug, Default)]
pub(crate) struct Spot(AtomicU64);

impl Spot {
    /// The right to try, if there is a slot for it.
    pub(crate) fn try_take(&self, free: u64) -> Option<SpotPermit<'_>> {
        let mut taken = self.0.load(Ordering::Acquire);
        while taken < free {
            match self.0.compare_exchange_weak(taken, taken + 1, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Some(SpotPermit(self)),
                Err(now) => taken = now,
            }
        }
        None
    }
}

/// The right to try; given back when dropped.
pub(crate) struct SpotPermit<'spot>(&'spot Spot);

impl Drop for SpotPermit<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The host that a request is for, without its port; empty if it names none.
pub(crate) fn host_of<B>(request: &http::Request<B>) -> &str {
    let authority = match request.uri().authority() {
        Some(authority) => authority.as_str(),
        None => request.headers().get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or(""),
    };
    let authority = authority.rsplit('@').next().unwrap_or(authority);
    match authority.rsplit_once(':') {
        // The last colon of an address in brackets is not one before a port.
        Some((host, port)) if !port.ends_with(']') => host,
        _ => authority,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_is_named_without_its_port() {
        let host = |value: &str| {
            let request = http::Request::builder().header("host", value).body(()).unwrap();
            host_of(&request).to_owned()
        };
        assert_eq!(host("shop.example:8080"), "shop.example");
        assert_eq!(host("[::1]:80"), "[::1]");
        assert_eq!(host("[::1]"), "[::1]");
        assert_eq!(host("shop.example"), "shop.example");
    }

    #[test]
    fn no_more_tries_than_free_slots() {
        let spot = Spot::default();
        let one = spot.try_take(2).unwrap();
        let _two = spot.try_take(2).unwrap();
        assert!(spot.try_take(2).is_none());
        drop(one);
        assert!(spot.try_take(2).is_some());
    }
}
