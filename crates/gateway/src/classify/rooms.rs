//! Rooms as the gateway sees them: which of them a request belongs to, and what this node adds to each.
//!
//! The gateway stands before a room if it names hosts, paths or origins of its own, or if it is the only room there is. Of several that fit a
//! request, one that names the host goes before one that takes any, and then the longest path.

use std::collections::HashMap;
use std::net::IpAddr;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anteroom_admission::{Admission, RoomView};
use anteroom_core::settings::{BypassRule, JoinMode};
use anteroom_core::{Board, RoomId, SessionKey, Settings, Ticket, UnixMillis};
use anteroom_tokens::cookie::VisitorCookies;
use arc_swap::ArcSwap;
use http::{HeaderMap, HeaderValue, Method};
use tokio::sync::{OnceCell, oneshot};

use crate::account::origin_reports::Site;
use crate::account::{RoomVerdicts, Verdicts};
use crate::classify::path_readings::PathReadings;
use crate::classify::protected_paths::ProtectedPaths;
use crate::gateway::LogThrottle;
use crate::gateway::background;
use crate::verdict::cookies::CookieNames;
use crate::verdict::loss_mode::LossMode;
use crate::verdict::visits::{Touch, Visits};
use anteroom_proxy::{OriginAddress, Origins, ProxySettings, VisitTag};

/// How long an answer waits for the store to extend the visit.
const TOUCH_WAIT: Duration = Duration::from_secs(1);

/// A room with what only this node adds to it.
pub(crate) struct GatewayRoom {
    view: Arc<RoomView>,
    /// Tells it from all other rooms that this process has seen.
    number: u64,
    /// Its name, for origins.
    pub(crate) name_header: Option<HeaderValue>,
    pub(crate) cookies: VisitorCookies,
    pub(crate) cookie_names: CookieNames,
    pub(crate) visits: Visits,
    pub(crate) verdicts: RoomVerdicts,
    pub(crate) loss: LossMode,
    /// When a command of the origin that means nothing is logged again.
    pub(crate) ignored_commands: LogThrottle,
    /// Visits about which the store is asked at first sight, each once for all requests that came at once.
    first_sights: Mutex<HashMap<SessionKey, Arc<OnceCell<()>>>>,
}

impl Deref for GatewayRoom {
    type Target = RoomView;

    fn deref(&self) -> &RoomView {
        &self.view
    }
}

/// The number of the next [`GatewayRoom`].
static NEXT_ROOM_NUMBER: AtomicU64 = AtomicU64::new(0);

impl GatewayRoom {
    /// Tells the visit of a ticket from all others, those of other rooms before the same origins included. A generation and a
    /// position have 40 bits each.
    pub(crate) fn visit_tag(&self, ticket: &Ticket) -> VisitTag {
        let (generation, position) = (ticket.generation.number(), ticket.position.get());
        VisitTag(u128::from(self.number) << 80 | u128::from(generation) << 40 | u128::from(position))
    }

    /// Touches a visit, also if the request that waits for it is cancelled, and waits a moment for the store to confirm.
    pub(crate) async fn touch_detached(self: &Arc<Self>, key: SessionKey, touch: Touch) {
        let (room, (done, end)) = (Arc::clone(self), oneshot::channel());
        background(async move {
            room.visits.touch(&room.handle, key, touch).await;
            // The request may have ended meanwhile.
            let _ = done.send(());
        });
        // Without an answer the visit goes on as it was, and a later request finds what the store said.
        let _ = tokio::time::timeout(TOUCH_WAIT, end).await;
    }

    /// The same for a visit that this node has not heard of. A browser opens a page with several requests at once: one of
    /// them asks, and the others wait for it.
    pub(crate) async fn touch_at_first_sight(self: &Arc<Self>, key: SessionKey, touch: Touch) {
        let asking = {
            let mut first_sights = self.first_sights.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(first_sights.entry(key).or_default())
        };
        // The last request clears up, also if its client went away.
        let waiting = FirstSight { room: self, key, asking: Some(asking) };
        if let Some(asking) = &waiting.asking {
            asking.get_or_init(|| self.touch_detached(key, touch)).await;
        }
    }
}

#[cfg(test)]
impl GatewayRoom {
    pub(crate) fn is_asking_about_nobody(&self) -> bool {
        self.first_sights.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }
}

/// A request that waits for the store's answer about a visit.
struct FirstSight<'room> {
    room: &'room GatewayRoom,
    key: SessionKey,
    asking: Option<Arc<OnceCell<()>>>,
}

impl Drop for FirstSight<'_> {
    fn drop(&mut self) {
        let mut first_sights = self.room.first_sights.lock().unwrap_or_else(PoisonError::into_inner);
        // Under the lock, so that the last of several that end at once sees that it is the last.
        self.asking = None;
        if first_sights.get(&self.key).is_some_and(|asking| Arc::strong_count(asking) == 1) {
            first_sights.remove(&self.key);
        }
    }
}

/// A room in the order of precedence, with its settings as they were when the table was made.
pub(crate) struct Rule {
    pub(crate) room: Arc<GatewayRoom>,
    pub(crate) settings: Arc<Settings>,
    paths: ProtectedPaths,
    /// The version of the board that had these settings, so that a look tells whether there is anything to compare.
    seen_version: AtomicU64,
    /// Whether the gateway stands before it. The line of any room can be asked about.
    pub(crate) is_protected: bool,
    pub(crate) origins: Option<Arc<Origins>>,
}

impl Rule {
    /// Whether a place is taken only by a visitor whose cookie has come back.
    pub(crate) fn joins_by_page(&self) -> bool {
        self.settings.join.map_or(self.is_protected, |mode| mode == JoinMode::Page)
    }

    /// Whether one of the readings of a path is the room's.
    pub(crate) fn protects(&self, path: &PathReadings<'_>) -> bool {
        path.is_unbounded || self.paths.best_match(path).is_some()
    }

    fn serves(&self, host: &str) -> bool {
        self.settings.hosts.as_slice().is_empty() || self.names(host)
    }

    /// Whether the room names this very host.
    pub(crate) fn names(&self, host: &str) -> bool {
        self.settings.hosts.as_slice().iter().any(|named| named.as_str().eq_ignore_ascii_case(host))
    }

    /// How well a reading of a path fits: whether the host is named, and how much of the path.
    fn matches(&self, host: &str, longest: Option<usize>) -> Option<(bool, usize)> {
        let longest = longest.filter(|_| self.serves(host))?;
        Some((!self.settings.hosts.as_slice().is_empty(), longest))
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

    /// Whether a bypass rule of the room covers a request.
    pub(crate) fn bypasses(
        &self,
        method: &Method,
        path: &PathReadings<'_>,
        headers: &HeaderMap,
        client: IpAddr,
    ) -> bool {
        self.settings.bypass.as_slice().iter().any(|rule| match rule {
            // Only what can be read in no other way.
            BypassRule::Path(prefix) => {
                !path.is_unbounded && path.iter().all(|reading| prefix.covers(reading))
            }
            BypassRule::Cidr(network) => network.contains(client),
            BypassRule::Method(name) => method.as_str() == name && !overrides_method(headers),
            BypassRule::Header(named) => {
                let mut values = headers.get_all(named.name.as_str()).iter();
                values.any(|value| value.to_str().is_ok_and(|value| named.accepts(value)))
            }
            BypassRule::Cookie(named) => {
                crate::verdict::cookies::all(headers, &named.name).any(|value| named.accepts(value))
            }
        })
    }
}

/// Where a request goes.
pub(crate) enum Route {
    /// This one.
    Room(Arc<Rule>),
    /// None, and the site is served all the same.
    Unprotected(Arc<Origins>),
    /// Rooms name their hosts, and none of them this one.
    UnknownHost,
    /// Different servers read the path differently, and take it to different rooms.
    Ambiguous,
    /// A room that must exist is not known yet, so it is not known which requests it protects.
    NotReady,
    /// The gateway has nothing to do with it.
    Nothing,
}

/// All rules, in any order.
#[derive(Default)]
struct RuleTable {
    rules: Vec<Arc<Rule>>,
}

impl RuleTable {
    /// Those of rooms that the gateway stands before.
    fn protected(&self) -> impl Iterator<Item = &Arc<Rule>> {
        self.rules.iter().filter(|rule| rule.is_protected)
    }

    /// The room that a request belongs to and how well it fits, where `longest_match` says how much of its path a room names.
    fn best(
        &self,
        host: &str,
        longest_match: impl Fn(&ProtectedPaths) -> Option<usize>,
    ) -> Option<((bool, usize), &Arc<Rule>)> {
        let fitting = self.protected().filter_map(|rule| {
            let fits = rule.matches(host, longest_match(&rule.paths))?;
            Some((fits, rule))
        });
        fitting.max_by_key(|(fits, _)| *fits)
    }

    /// Whether different servers may take a path to different rooms. A visit to one of them must not open the other.
    fn is_ambiguous(&self, host: &str, path: &PathReadings<'_>) -> bool {
        if path.is_unbounded {
            return self.protected().next().is_some();
        }
        if !path.has_dot_dot && !path.has_authority {
            return false;
        }
        let fitting = path.iter().filter_map(|reading| self.best(host, |paths| paths.longest_match(reading)));
        // Two slashes come from sloppy links too, so there a room of all paths is no second room.
        let mut rules = fitting.filter(|((_, length), _)| path.has_dot_dot || *length > 0);
        let first = rules.next();
        first.is_some_and(|(_, first)| rules.any(|(_, other)| !Arc::ptr_eq(first, other)))
    }

    /// Whether rooms name their hosts, and none of them this one.
    fn is_unknown(&self, host: &str) -> bool {
        let mut is_any_named = false;
        for rule in self.protected() {
            if rule.names(host) {
                return false;
            }
            is_any_named |= !rule.settings.hosts.as_slice().is_empty();
        }
        is_any_named
    }
}

/// The rooms of the gateway, following those of the engine.
pub(crate) struct GatewayRooms {
    admission: Arc<Admission>,
    /// Rooms that must exist and have not been seen yet. Once seen, a room that is gone was deleted.
    awaited: Mutex<Vec<RoomId>>,
    /// Whether there are such rooms, without the lock.
    is_waiting_for_rooms: AtomicBool,
    proxy: ProxySettings,
    /// Where requests go whose room names no origins.
    default_origins: Option<Arc<Origins>>,
    /// Whether a host that no room names is passed on, although rooms name theirs.
    passes_unknown_hosts: bool,
    /// Whether other proxies ask for verdicts: then a room has a site also without an origin.
    answers_checks: bool,
    verdicts: Verdicts,
    table: ArcSwap<RuleTable>,
    /// Held while the table is made.
    replacing: Mutex<()>,
}

impl GatewayRooms {
    pub(crate) fn new(
        admission: Arc<Admission>,
        expected: Vec<RoomId>,
        proxy: ProxySettings,
        default_origins: Option<Arc<Origins>>,
        (passes_unknown_hosts, answers_checks): (bool, bool),
        verdicts: Verdicts,
    ) -> Self {
        let rooms = Self {
            admission,
            is_waiting_for_rooms: AtomicBool::new(!expected.is_empty()),
            awaited: Mutex::new(expected),
            proxy,
            default_origins,
            passes_unknown_hosts,
            answers_checks,
            verdicts,
            table: ArcSwap::default(),
            replacing: Mutex::default(),
        };
        rooms.follow();
        rooms
    }

    /// Where a request belongs.
    pub(crate) fn find(&self, host: &str, path: &PathReadings<'_>) -> Route {
        self.follow_changed_settings();
        let table = self.table.load();
        let is_ready = !self.is_waiting_for_rooms.load(Ordering::Acquire);
        if self.default_origins.is_some() && is_ready && !self.passes_unknown_hosts && table.is_unknown(host)
        {
            return Route::UnknownHost;
        }
        if table.is_ambiguous(host, path) {
            return Route::Ambiguous;
        }
        match (table.best(host, |paths| paths.best_match(path)), &self.default_origins) {
            (Some((_, rule)), _) => Route::Room(Arc::clone(rule)),
            (None, Some(_)) if !is_ready => Route::NotReady,
            (None, Some(origins)) => Route::Unprotected(Arc::clone(origins)),
            (None, None) => Route::Nothing,
        }
    }

    /// Whether different servers may take a path of a room to another one, at any host of this one.
    pub(crate) fn is_ambiguous_in(&self, rule: &Rule, path: &PathReadings<'_>) -> bool {
        let (table, hosts) = (self.table.load(), rule.settings.hosts.as_slice());
        let is_ambiguous = |host: &str| table.is_ambiguous(host, path);
        if hosts.is_empty() { is_ambiguous("") } else { hosts.iter().any(|host| is_ambiguous(host.as_str())) }
    }

    /// The room that a request at the door names, where another proxy may stand before its site: then the host of the request
    /// need not be one of the room's. It is not that of another room.
    pub(crate) fn named_at_door(&self, name: &str, host: &str) -> Option<Arc<Rule>> {
        let rule = self.by_name(name).filter(|rule| self.answers_checks && rule.is_protected)?;
        let is_of_another = || self.table.load().protected().any(|other| other.names(host));
        (rule.serves(host) || !is_of_another()).then_some(rule)
    }

    /// A room by its name.
    pub(crate) fn by_name(&self, name: &str) -> Option<Arc<Rule>> {
        let find = || {
            let table = self.table.load();
            let rule = table.rules.iter().find(|rule| rule.room.handle.id().as_str() == name)?;
            let handle = &rule.room.handle;
            let is_current = !rule.is_outdated() && !handle.is_deleted() && !handle.is_replaced();
            is_current.then(|| Arc::clone(rule))
        };
        find().or_else(|| {
            // It may have been made or changed a moment ago.
            self.admission.engine.room(name)?;
            self.follow();
            find()
        })
    }

    /// Settings that have changed since the table was made count from now on.
    fn follow_changed_settings(&self) {
        if self.table.load().protected().any(|rule| rule.is_outdated()) {
            self.follow();
        }
    }

    /// Whether there is nothing to stand before.
    pub(crate) fn is_empty(&self) -> bool {
        self.default_origins.is_none() && self.table.load().protected().next().is_none()
    }

    /// Whether requests for a host are the gateway's, whatever their path.
    pub(crate) fn serves_host(&self, host: &str) -> bool {
        self.default_origins.is_some() || self.table.load().protected().any(|rule| rule.serves(host))
    }

    /// All groups of origins.
    pub(crate) fn origins(&self) -> Vec<Arc<Origins>> {
        let mut all: Vec<Arc<Origins>> = self.default_origins.iter().cloned().collect();
        for rule in self.table.load().protected() {
            if let Some(origins) = &rule.origins
                && !all.iter().any(|known| Arc::ptr_eq(known, origins))
            {
                all.push(Arc::clone(origins));
            }
        }
        all
    }

    /// Each group of origins with the rooms before it.
    pub(crate) fn sites(&self) -> Vec<Site<Origins>> {
        let table = self.table.load();
        let rooms_before = |origins: &Arc<Origins>| {
            let is_before = |rule: &Rule| rule.origins.as_ref().is_some_and(|own| Arc::ptr_eq(own, origins));
            let rules = table.protected().filter(|rule| is_before(rule));
            rules.map(|rule| Arc::clone(&rule.room.handle)).collect()
        };
        self.origins().into_iter().map(|origins| Site { rooms: rooms_before(&origins), origins }).collect()
    }

    /// Takes in what has changed about rooms and their settings.
    pub(crate) fn follow(&self) {
        let _one_at_a_time = self.replacing.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.table.load();
        self.admission.rooms.follow(&self.admission.engine);
        let mut views = self.admission.rooms.all();
        views.sort_by(|one, other| one.handle.id().cmp(other.handle.id()));
        let seen_all = {
            let mut awaited = self.awaited.lock().unwrap_or_else(PoisonError::into_inner);
            awaited.retain(|expected| !views.iter().any(|view| view.handle.id() == expected));
            awaited.is_empty()
        };
        let is_alone = views.len() == 1;
        let mut rules = vec![];
        for view in views {
            let board = view.handle.board();
            let known = before.rules.iter().find(|rule| Arc::ptr_eq(&rule.room.view, &view));
            let is_protected = self.takes_part(&board.settings, is_alone);
            let is_same = |known: &&Arc<Rule>| !known.is_outdated() && known.is_protected == is_protected;
            if let Some(known) = known.filter(is_same) {
                rules.push(Arc::clone(known));
                continue;
            }
            rules.push(Arc::new(Rule { is_protected, ..self.rule(view, &board, known) }));
        }
        // Of rooms that fit equally well, the first by name is taken: `max_by_key` returns the last.
        rules.sort_by(|one, other| other.room.handle.id().cmp(one.room.handle.id()));
        let table = RuleTable { rules };
        let stands_before_nothing = table.protected().next().is_none();
        if stands_before_nothing && self.default_origins.is_some() && before.protected().next().is_some() {
            tracing::warn!("no room protects the origin any more, passing every request on");
        }
        self.table.store(Arc::new(table));
        // After the table: no request may find a table without a room that is not awaited any more.
        self.is_waiting_for_rooms.store(!seen_all, Ordering::Release);
    }

    /// Whether a room has to do with the gateway.
    fn takes_part(&self, settings: &Settings, is_alone: bool) -> bool {
        let names_something = !settings.hosts.as_slice().is_empty() || !settings.paths.as_slice().is_empty();
        let has_site = self.default_origins.is_some() || self.answers_checks;
        has_origins(settings) || has_site && (names_something || is_alone)
    }

    fn rule(&self, view: Arc<RoomView>, board: &Arc<Board>, known: Option<&Arc<Rule>>) -> Rule {
        let settings = Arc::clone(&board.settings);
        let origins = match known.filter(|known| known.settings.origins == settings.origins) {
            Some(known) => known.origins.clone(),
            None if has_origins(&settings) => {
                let addresses =
                    settings.origins.as_slice().iter().filter_map(|url| url.as_str().parse().ok());
                let addresses: Vec<OriginAddress> = addresses.collect();
                let origins = Origins::new(addresses, self.proxy.clone());
                origins
                    .inspect_err(|error| tracing::error!(room = %view.handle.id(), %error, "the room's origins cannot be used"))
                    .ok()
            }
            None => self.default_origins.clone(),
        };
        let room = match known {
            Some(known) => Arc::clone(&known.room),
            None => Arc::new(GatewayRoom {
                cookies: VisitorCookies::new(self.admission.rooms.secrets(), view.handle.id()),
                cookie_names: CookieNames::of(view.handle.id()),
                visits: Visits::default(),
                verdicts: self.verdicts.of(view.handle.id().as_str()),
                loss: LossMode::default(),
                ignored_commands: LogThrottle::default(),
                first_sights: Mutex::default(),
                name_header: HeaderValue::from_str(view.handle.id().as_str()).ok(),
                number: NEXT_ROOM_NUMBER.fetch_add(1, Ordering::Relaxed),
                view,
            }),
        };
        let paths = ProtectedPaths::of(&settings);
        let seen_version = AtomicU64::new(board.version);
        Rule { room, settings, paths, seen_version, is_protected: false, origins }
    }

    /// The periodic work. `store`: whether it answers, and whether it did not a moment ago.
    pub(crate) fn maintain(&self, now: UnixMillis, store: StoreState) {
        self.follow();
        for rule in &self.table.load().rules {
            let session_millis = rule.settings.session_duration.get() * 1000;
            if store == StoreState::Back {
                rule.room.visits.forget();
            }
            if store != StoreState::Lost {
                rule.room.loss.end();
            }
            rule.room.handle.with_board(|board| rule.room.visits.follow(board, now));
            rule.room.visits.sweep(now, session_millis);
        }
    }
}

/// Whether the store answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StoreState {
    /// It does.
    There,
    /// It does, and did not a moment ago.
    Back,
    /// It does not.
    Lost,
}

/// Whether a request asks its origin to take it for one of another method.
fn overrides_method(headers: &HeaderMap) -> bool {
    const OVERRIDES: [&str; 3] = ["x-http-method-override", "x-http-method", "x-method-override"];
    headers.keys().any(|name| OVERRIDES.contains(&name.as_str().replace('_', "-").as_str()))
}

fn has_origins(settings: &Settings) -> bool {
    !settings.origins.as_slice().is_empty()
}

#[cfg(test)]
mod tests {
    use anteroom_admission::AdmissionParts;
    use anteroom_admission::openid::clients::OpenIdClients;
    use anteroom_admission::signing_keys::SigningKeys;
    use anteroom_core::RoomState;
    use anteroom_engine::{Actor, Engine};
    use anteroom_store::{MemoryStore, NodeId, SystemClock};
    use anteroom_tokens::secret::MasterSecrets;
    use anteroom_tokens::signer::Signer;
    use anteroom_tokens::signing_key::SigningAlgorithm;

    use super::*;

    #[tokio::test]
    async fn nothing_passes_unprotected_before_every_configured_room_is_known() {
        let engine =
            Engine::start(Arc::new(MemoryStore::default()), Arc::new(SystemClock), NodeId(1)).await.unwrap();
        let secrets = Arc::new(MasterSecrets::parse("a-master-secret-of-more-than-32-characters").unwrap());
        let keys = SigningKeys::open(&**engine.store(), &secrets, SigningAlgorithm::EdDsa, engine.now())
            .await
            .unwrap();
        let openid_clients = Arc::new(OpenIdClients::open(Arc::clone(engine.store())).await.unwrap());
        let admission = Arc::new(Admission::new(AdmissionParts {
            engine: Arc::clone(&engine),
            secrets,
            keys,
            signer: Signer::new(1, 1).unwrap(),
            openid_clients,
            default_issuer: "https://shop.example".into(),
            default_room: None,
        }));
        let address = "http://127.0.0.1:9".parse().unwrap();
        let origins = Origins::new(vec![address], ProxySettings::default()).unwrap();
        let hall = RoomId::parse("Hall").unwrap();
        let rooms = GatewayRooms::new(
            admission,
            vec![hall.clone()],
            ProxySettings::default(),
            Some(origins),
            (false, false),
            Verdicts::default(),
        );
        let find = || rooms.find("shop.example", &PathReadings::of("/"));
        assert!(matches!(find(), Route::NotReady));
        rooms.follow();
        assert!(matches!(find(), Route::NotReady), "another look does not make the room known");
        let create =
            engine.create_room(hall.clone(), Settings::default(), RoomState::Open, 1, Actor::Clockwork);
        create.await.unwrap();
        rooms.follow();
        assert!(matches!(find(), Route::Room(_)));
        engine.delete_room(&hall, Actor::Clockwork, None).await.unwrap();
        rooms.follow();
        assert!(matches!(find(), Route::Unprotected(_)), "a room that was known and is gone was deleted");
        engine.stop().await;
    }
}
