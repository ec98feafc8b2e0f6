//! Visits: what this node knows of the visitors inside, whose cookies say the rest.
//!
//! A cookie is verified without the store. Every so often its session is *touched*: the store moves the session's end on, and only
//! when it has said so is the cookie sealed anew, with an end [`STAY_GRACE_MILLIS`] earlier than the store's. So a slot is never free
//! while a cookie for it still works; and a node that has lost its store extends no visit, and ends none early.
//!
//! A visit that has ended early (by the origin, an operator, or the visitor) stands on the board for a while before its
//! slot is free. Each node adds it to its own list of revoked visits, for as long as most cookies last. A cookie can last much
//! longer, as long as the pass that goes with it, and a node may have started since: so the store is asked about a visit
//! that this node has not heard of, and one of which it says nothing within a second is let in.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use anteroom_core::session::STAY_GRACE_MILLIS;
use anteroom_core::{Answer, Board, Operation, Refusal, SessionKey, Ticket, UnixMillis};
use anteroom_engine::{Actor, EngineError, RoomHandle};

/// The longest time between two touches of a visit.
const TOUCH_INTERVAL_MAX_MILLIS: u64 = 30_000;
/// A tenth of `session_duration`, if that is shorter.
const TOUCHES_PER_SESSION: u64 = 10;
/// How soon a touch that failed is tried again.
const TOUCH_RETRY_MILLIS: u64 = 1_000;
/// The shortest time between two redirects that bring a visit's browser a new cookie: longer than one takes.
const REDIRECT_INTERVAL_MIN_MILLIS: u64 = 10_000;
/// Visits remembered. Beyond it all are forgotten, which costs each a touch.
const VISITS_MAX: usize = 262_144;
/// Departed visitors remembered. Beyond it all are forgotten, and found again by the next touch of each.
const REVOKED_MAX: usize = 262_144;
/// How often what has ended by itself is forgotten.
const SWEEP_PERIOD_MILLIS: u64 = 5_000;
/// How much longer a revoked visit is remembered than its cookie can last: clocks differ.
const REVOKED_MARGIN_MILLIS: u64 = 60_000;

/// The time between two touches of a visit that lasts `session_millis` without one.
pub(crate) const fn touch_interval_millis(session_millis: u64) -> u64 {
    let share = session_millis / TOUCHES_PER_SESSION;
    if share < TOUCH_INTERVAL_MAX_MILLIS { share } else { TOUCH_INTERVAL_MAX_MILLIS }
}

/// The session of a ticket.
pub(crate) const fn key_of(ticket: &Ticket) -> SessionKey {
    SessionKey { generation: ticket.generation, position: ticket.position }
}

/// What a node knows of one visit.
#[derive(Debug, Clone, Copy)]
struct Visit {
    /// When it was last touched, or that was tried.
    asked_at: UnixMillis,
    /// Until when its cookie may last, by what the store last said; `None` before it has said anything.
    ends_at: Option<UnixMillis>,
    last_answer: LastAnswer,
    /// When its browser was last redirected for the sake of a new cookie.
    redirected_at: Option<UnixMillis>,
}

/// What the store has said about a visit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LastAnswer {
    /// Nothing yet.
    Nothing,
    /// It goes on.
    GoesOn,
    /// The store does not know it: it was lost, or ended so long ago that it was forgotten.
    Unknown,
}

impl Visit {
    const fn first_seen(now: UnixMillis) -> Self {
        Self { asked_at: now, ends_at: None, last_answer: LastAnswer::Nothing, redirected_at: None }
    }
}

/// What is to be done about a visit now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    /// Nothing.
    Nothing,
    /// It is to be touched.
    Touch,
}

/// How visits are hashed. They are named by us, so nobody can make them collide, and each request looks here several times.
type QuickState = BuildHasherDefault<QuickHasher>;

/// Multiplies and folds the numbers of a key.
#[derive(Debug, Default)]
struct QuickHasher(u64);

impl QuickHasher {
    /// Odd, with bits all over: 2^64 by the golden ratio.
    const FACTOR: u128 = 0x9e37_79b9_7f4a_7c15;

    #[expect(clippy::cast_possible_truncation, reason = "both halves of the product are used")]
    fn add(&mut self, number: u64) {
        let product = u128::from(self.0 ^ number) * Self::FACTOR;
        self.0 = product as u64 ^ (product >> 64) as u64;
    }
}

impl Hasher for QuickHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.add(u64::from(*byte));
        }
    }

    fn write_u8(&mut self, number: u8) {
        self.add(u64::from(number));
    }

    fn write_u32(&mut self, number: u32) {
        self.add(u64::from(number));
    }

    fn write_u64(&mut self, number: u64) {
        self.add(number);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// The visits of one room on this node.
#[derive(Debug, Default)]
pub(crate) struct Visits {
    known: Mutex<HashMap<SessionKey, Visit, QuickState>>,
    /// Until when each of them must be remembered.
    revoked: Mutex<HashMap<SessionKey, UnixMillis, QuickState>>,
    /// The version of the board whose departed have been taken in.
    departed_up_to: AtomicU64,
    /// When the latest of them departed, by the room's clock, in milliseconds since 1970.
    departed_latest: AtomicU64,
    swept_at: AtomicU64,
    /// How often the store was asked to extend a visit.
    #[cfg(test)]
    touches: AtomicU64,
}

impl Visits {
    /// Takes in who has departed by the board.
    pub(crate) fn follow(&self, board: &Board, now: UnixMillis) {
        if self.departed_up_to.load(Ordering::Acquire) == board.version {
            return;
        }
        // After an operator has set the room's clock right, what is new is earlier than what was.
        if self.departed_latest.load(Ordering::Acquire) > board.clock.0 {
            self.departed_latest.store(0, Ordering::Release);
        }
        let latest = self.departed_latest.load(Ordering::Acquire);
        // They stand in the order of their departure; several may have departed at once.
        for departed in board.departed.iter().rev().take_while(|departed| departed.at.0 >= latest) {
            self.revoke(departed.key, now, board.settings.session_duration.get() * 1000);
            self.departed_latest.fetch_max(departed.at.0, Ordering::AcqRel);
        }
        self.departed_up_to.store(board.version, Ordering::Release);
    }

    /// Remembers that a visit is over, for as long as its cookie could last.
    pub(crate) fn revoke(&self, key: SessionKey, now: UnixMillis, session_millis: u64) {
        let mut revoked = self.revoked.lock().unwrap_or_else(PoisonError::into_inner);
        if revoked.len() >= REVOKED_MAX {
            revoked.retain(|_, until| *until > now);
        }
        if revoked.len() >= REVOKED_MAX {
            // The list is bounded. Visits that are dropped from it are revoked again by the next touch.
            revoked.clear();
        }
        revoked.entry(key).or_insert_with(|| now.plus(session_millis + REVOKED_MARGIN_MILLIS));
        drop(revoked);
        self.known.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
    }

    /// Whether a visit is known to be over.
    pub(crate) fn is_revoked(&self, key: SessionKey) -> bool {
        self.revoked.lock().unwrap_or_else(PoisonError::into_inner).contains_key(&key)
    }

    /// What is due for a visit whose cookie is good. Of several requests at once, one touches it.
    pub(crate) fn note(&self, key: SessionKey, now: UnixMillis, session_millis: u64) -> Due {
        let interval = touch_interval_millis(session_millis);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= VISITS_MAX && !known.contains_key(&key) {
            known.clear();
        }
        match known.get_mut(&key) {
            Some(visit) if now.since(visit.asked_at) < interval => Due::Nothing,
            Some(visit) => {
                visit.asked_at = now;
                Due::Touch
            }
            // Not seen here before: only the store knows whether it is still there.
            None => {
                known.insert(key, Visit::first_seen(now));
                Due::Touch
            }
        }
    }

    /// Until when a visit's cookie may last by the store's last answer to this node.
    pub(crate) fn ends_at(&self, key: SessionKey) -> Option<UnixMillis> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).get(&key)?.ends_at
    }

    /// Whether the browser of a visit may be redirected to get a new cookie: once in an interval, so that one that keeps
    /// none is not redirected in a circle.
    pub(crate) fn may_redirect(&self, key: SessionKey, now: UnixMillis, session_millis: u64) -> bool {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(visit) = known.get_mut(&key) else { return false };
        let interval = touch_interval_millis(session_millis).max(REDIRECT_INTERVAL_MIN_MILLIS);
        let may = visit.redirected_at.is_none_or(|last| now.since(last) >= interval);
        if may {
            visit.redirected_at = Some(now);
        }
        may
    }

    /// What the store has said about a visit, as far as this node remembers.
    pub(crate) fn last_answer(&self, key: SessionKey) -> LastAnswer {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(&key).map_or(LastAnswer::Nothing, |visit| visit.last_answer)
    }

    /// What was known of visits counts no more: this node was away, and may have missed who has departed meanwhile.
    pub(crate) fn forget(&self) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// A visit that has just begun: the store has said so.
    pub(crate) fn begin(&self, key: SessionKey, now: UnixMillis, ends_at: UnixMillis) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let visit = known.entry(key).or_insert(Visit::first_seen(now));
        *visit = Visit { asked_at: now, ends_at: Some(ends_at), last_answer: LastAnswer::GoesOn, ..*visit };
    }

    /// Touches a visit and remembers what the store said. To be run to its end whatever becomes of the request that it is for.
    pub(crate) async fn touch(&self, handle: &RoomHandle, key: SessionKey, touch: Touch) {
        let Touch { now, session_millis } = touch;
        #[cfg(test)]
        self.touches.fetch_add(1, Ordering::Relaxed);
        let operation = Operation::Touch { key, stay_millis: session_millis + STAY_GRACE_MILLIS };
        match handle.operate(operation, Actor::Visitor).await {
            Ok(Answer::Session(session)) => {
                let ends_at = UnixMillis(session.ends_at().0.saturating_sub(STAY_GRACE_MILLIS));
                let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
                let visit = known.entry(key).or_insert(Visit::first_seen(now));
                visit.last_answer = LastAnswer::GoesOn;
                visit.ends_at = Some(visit.ends_at.map_or(ends_at, |before| before.max(ends_at)));
            }
            Err(EngineError::Refused(Refusal::AlreadyEnded)) => self.revoke(key, now, session_millis),
            // A store that has lost the session extends it no more, and takes nothing away that was promised.
            Ok(_) | Err(EngineError::Refused(_)) => {
                let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
                known.entry(key).or_insert(Visit::first_seen(now)).last_answer = LastAnswer::Unknown;
            }
            Err(_) => {
                let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(visit) = known.get_mut(&key) {
                    let interval = touch_interval_millis(session_millis);
                    let again = now.plus(TOUCH_RETRY_MILLIS).0.saturating_sub(interval);
                    visit.asked_at = UnixMillis(again.min(visit.asked_at.0));
                }
            }
        }
    }

    /// Forgets what has ended by itself, every so often.
    pub(crate) fn sweep(&self, now: UnixMillis, session_millis: u64) {
        let last = self.swept_at.load(Ordering::Relaxed);
        if now.0.saturating_sub(last) < SWEEP_PERIOD_MILLIS {
            return;
        }
        self.swept_at.store(now.0, Ordering::Relaxed);
        self.revoked.lock().unwrap_or_else(PoisonError::into_inner).retain(|_, until| *until > now);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, visit| visit.ends_at.unwrap_or_else(|| visit.asked_at.plus(session_millis)) > now);
    }
}

/// How a visit is touched.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Touch {
    pub(crate) now: UnixMillis,
    pub(crate) session_millis: u64,
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};
    use std::sync::Arc;
    use std::time::Duration;

    use anteroom_admission::openid::clients::OpenIdClients;
    use anteroom_admission::signing_keys::SigningKeys;
    use anteroom_admission::{Admission, AdmissionParts, ClaimRequest, ClaimTerms};
    use anteroom_core::session::Departed;
    use anteroom_core::settings::Value;
    use anteroom_core::{Generation, Outcome, Position, Room, RoomId, RoomState, Settings};
    use anteroom_engine::Engine;
    use anteroom_proxy::ProxySettings;
    use anteroom_store::clock::ManualClock;
    use anteroom_store::{Clock, MemoryStore, NodeId, Store};
    use anteroom_tokens::cookie::CookieContent;
    use anteroom_tokens::secret::MasterSecrets;
    use anteroom_tokens::signer::Signer;
    use anteroom_tokens::signing_key::SigningAlgorithm;

    use super::*;
    use crate::account::Verdicts;
    use crate::classify::Kind;
    use crate::classify::rooms::{GatewayRooms, Rule, StoreState};
    use crate::verdict::{Case, EntryTrigger};

    fn key(position: u64) -> SessionKey {
        SessionKey {
            generation: Generation { opened: 1, incarnation: 2 },
            position: Position::new(position).unwrap(),
        }
    }

    #[test]
    fn a_visit_is_touched_when_first_seen_and_then_once_in_an_interval() {
        let visits = Visits::default();
        let session = 300_000;
        assert_eq!(touch_interval_millis(session), 30_000);
        assert_eq!(touch_interval_millis(10_000), 1_000);
        assert_eq!(visits.note(key(1), UnixMillis(0), session), Due::Touch);
        assert_eq!(visits.note(key(1), UnixMillis(29_999), session), Due::Nothing);
        assert_eq!(visits.note(key(2), UnixMillis(29_999), session), Due::Touch);
        assert_eq!(visits.note(key(1), UnixMillis(30_000), session), Due::Touch);
        assert_eq!(visits.note(key(1), UnixMillis(30_001), session), Due::Nothing);
    }

    #[test]
    fn revoked_visits_are_remembered_for_as_long_as_their_cookies_could_last() {
        let visits = Visits::default();
        visits.revoke(key(1), UnixMillis(1_000), 300_000);
        assert!(visits.is_revoked(key(1)));
        assert!(!visits.is_revoked(key(2)));
        visits.sweep(UnixMillis(301_000), 300_000);
        assert!(visits.is_revoked(key(1)));
        visits.sweep(UnixMillis(1_000 + 300_000 + REVOKED_MARGIN_MILLIS), 300_000);
        assert!(!visits.is_revoked(key(1)));
    }

    #[test]
    fn a_visit_that_the_board_no_longer_shows_as_departed_stays_revoked_until_its_cookie_has_ended() {
        const SESSION_MILLIS: u64 = 300_000;
        let (visits, departed_at) = (Visits::default(), UnixMillis(1_000_000));
        let room = Room::open(Settings::default(), departed_at, 1);
        let board = |version, departed: &[Departed]| Board {
            version,
            departed: Arc::new(departed.iter().copied().collect()),
            ..Board::of(&room)
        };
        visits.follow(&board(1, &[Departed { key: key(1), at: departed_at }]), departed_at);
        for seconds in [0, 11, 60, 299] {
            let now = departed_at.plus(seconds * 1_000);
            visits.follow(&board(2 + seconds, &[]), now);
            visits.sweep(now, SESSION_MILLIS);
            assert!(visits.is_revoked(key(1)), "forgotten after {seconds} seconds");
        }
    }

    #[test]
    fn departures_are_followed_after_the_clock_of_a_room_was_set_right() {
        let (visits, ahead, now) = (Visits::default(), UnixMillis(90_000_000), UnixMillis(1_000_000));
        let board = |version, clock, departed: Departed| Board {
            version,
            departed: Arc::new([departed].into_iter().collect()),
            ..Board::of(&Room::open(Settings::default(), clock, 1))
        };
        visits.follow(&board(1, ahead, Departed { key: key(1), at: ahead }), now);
        visits.follow(&board(2, now, Departed { key: key(2), at: now }), now);
        assert!(visits.is_revoked(key(1)) && visits.is_revoked(key(2)));
    }

    /// Two nodes on one store, and a clock of the test's own.
    struct Scene {
        clock: Arc<ManualClock>,
        store: Arc<MemoryStore>,
        nodes: [Node; 2],
    }

    /// A node as the product has it: its own engine, its own admission, and what its gateway remembers.
    struct Node {
        engine: Arc<Engine>,
        admission: Arc<Admission>,
        rooms: GatewayRooms,
    }

    const DAY_MILLIS: u64 = 86_400_000;
    const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
    /// How long a node may take to see what another one has written.
    const TIMEOUT: Duration = Duration::from_secs(20);

    impl Node {
        async fn start(store: &Arc<MemoryStore>, clock: &Arc<ManualClock>, number: u128) -> Self {
            let (store, clock) = (Arc::clone(store) as Arc<dyn Store>, Arc::clone(clock) as Arc<dyn Clock>);
            let engine = Engine::start(store, clock, NodeId(number)).await.unwrap();
            let secret = "a-master-secret-of-more-than-32-characters";
            let secrets = Arc::new(MasterSecrets::parse(secret).unwrap());
            let algorithm = SigningAlgorithm::EdDsa;
            let keys = SigningKeys::open(&**engine.store(), &secrets, algorithm, engine.now()).await.unwrap();
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
            let rooms = Self::rooms_of(&admission);
            Self { engine, admission, rooms }
        }

        /// What a gateway knows that has just started.
        fn rooms_of(admission: &Arc<Admission>) -> GatewayRooms {
            let proxy = ProxySettings::default();
            GatewayRooms::new(Arc::clone(admission), vec![], proxy, None, (false, false), Verdicts::default())
        }

        fn rule(&self) -> Arc<Rule> {
            self.rooms.by_name("Hall").unwrap()
        }

        /// A visitor who comes in for as long as a pass may make it, and the cookie for it.
        async fn enter(&self) -> (Ticket, CookieContent) {
            self.enter_for(2 * DAY_MILLIS).await
        }

        async fn enter_for(&self, millis: u64) -> (Ticket, CookieContent) {
            let rule = self.rule();
            let ticket = rule.room.join(None, CLIENT, self.engine.now()).await.unwrap();
            let stay_millis = Some(millis + STAY_GRACE_MILLIS);
            let terms = ClaimTerms { stay_millis, ..ClaimTerms::default() };
            let id = rule.room.request_ids.seal(&ticket);
            let request = ClaimRequest { terms, ..ClaimRequest::of_visitor(ticket, id) };
            let (session, _) = self.admission.claim_session(&rule.room, request).await.unwrap();
            let ends_at = UnixMillis(session.ends_at().0 - STAY_GRACE_MILLIS);
            let admitted_at = self.engine.now();
            (ticket, CookieContent::Admitted { ticket, admitted_at, ends_at })
        }

        /// Whether a gateway of this node lets the cookie in: the one that runs, or one that has just started.
        async fn lets_in(&self, rooms: &GatewayRooms, cookie: &CookieContent) -> bool {
            let rule = rooms.by_name("Hall").unwrap();
            let case = Case {
                client: CLIENT,
                rule: &rule,
                kind: Kind::Read,
                entry_trigger: EntryTrigger::Request,
                cookie: Some(*cookie),
                loss_cookie: None,
                now: self.engine.now(),
                store_is_lost: false,
                admission: &self.admission,
            };
            case.visitor_inside(&rule.room.handle.board()).await.is_some()
        }

        /// Waits until the board shows something that another node has written.
        async fn sees(&self, what: &str, shows: impl Fn(&Board) -> bool) {
            let seen = tokio::time::timeout(TIMEOUT, async {
                while !self.rule().room.handle.with_board(|board| shows(board)) {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            });
            seen.await.unwrap_or_else(|_| panic!("{what} is not seen"));
        }
    }

    impl Scene {
        async fn start(store: Arc<MemoryStore>, clock: Arc<ManualClock>) -> Self {
            let nodes = [Node::start(&store, &clock, 1).await, Node::start(&store, &clock, 2).await];
            Self { clock, store, nodes }
        }

        /// The same after both nodes have restarted.
        async fn restart(self) -> Self {
            for node in &self.nodes {
                node.engine.stop().await;
            }
            Self::start(self.store, self.clock).await
        }

        async fn open() -> Self {
            let clock = Arc::new(ManualClock::at(UnixMillis(1_700_000_000_000)));
            let store = Arc::new(MemoryStore::shared());
            let engine = Engine::start(
                Arc::clone(&store) as Arc<dyn Store>,
                Arc::clone(&clock) as Arc<dyn Clock>,
                NodeId(3),
            );
            let engine = engine.await.unwrap();
            let mut settings = Settings::default();
            for (name, value) in [
                ("session_max", Value::Number(345_600)),
                ("validity_period", Value::Number(172_800)),
                ("inlet", Value::Text("max-size".into())),
                ("total_active_users", Value::Number(10)),
                ("origins", Value::List(vec!["http://127.0.0.1:9".into()])),
            ] {
                settings.set(name, &value).unwrap();
            }
            let hall = RoomId::parse("Hall").unwrap();
            engine.create_room(hall, settings, RoomState::Open, 1, Actor::Clockwork).await.unwrap();
            engine.stop().await;
            Self::start(store, clock).await
        }

        /// Asks both nodes, and on each a gateway that remembers nothing.
        async fn lets_in(&self, cookie: &CookieContent) -> [bool; 4] {
            let [first, second] = &self.nodes;
            [
                first.lets_in(&first.rooms, cookie).await,
                second.lets_in(&second.rooms, cookie).await,
                first.lets_in(&Node::rooms_of(&first.admission), cookie).await,
                second.lets_in(&Node::rooms_of(&second.admission), cookie).await,
            ]
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn an_ended_visit_stays_ended_on_two_nodes_for_as_long_as_its_cookie_lasts() {
        let mut scene = Scene::open().await;
        let (_, kept) = scene.nodes[0].enter().await;
        let mut ended = vec![];
        for way in ["complete", "abandon", "revoke", "leave"] {
            let [first, second] = &scene.nodes;
            let (ticket, cookie) = first.enter().await;
            let key = key_of(&ticket);
            second
                .sees("the visit", |board| {
                    board.segments.iter().any(|line| line.joined >= ticket.position.get())
                })
                .await;
            assert_eq!(scene.lets_in(&cookie).await, [true; 4], "{way}");
            let end = match way {
                "complete" => Operation::Close { key, outcome: Outcome::Completed },
                "leave" => Operation::Leave { ticket },
                _ => Operation::Close { key, outcome: Outcome::Abandoned },
            };
            if way == "revoke" {
                // By the word of the origin, which this node obeys at once.
                first.rule().room.visits.revoke(key, first.engine.now(), 300_000);
            }
            first.rule().room.handle.operate(end, Actor::Visitor).await.unwrap();
            second.sees("the end", |board| board.departed.iter().any(|departed| departed.key == key)).await;
            ended.push((way, cookie));
        }
        // In steps of seven minutes, so that everything that is remembered for minutes or for a day is forgotten between two of them.
        for step in 0..(46 * 60 / 7) {
            for (way, cookie) in &ended {
                let lets_in = scene.lets_in(cookie).await;
                assert_eq!(lets_in, [false; 4], "{way}, {} minutes later", step * 7);
            }
            scene.clock.advance(7 * 60_000);
            for node in &scene.nodes {
                node.rooms.maintain(node.engine.now(), StoreState::There);
            }
            if [1, 20, 200].contains(&step) {
                scene = scene.restart().await;
            }
        }
        let [first, second] = &scene.nodes;
        assert!(first.engine.now().0 > 1_700_000_000_000 + DAY_MILLIS);
        assert_eq!(scene.lets_in(&kept).await, [true; 4], "a visit that goes on is not forgotten");
        let reset = Operation::Reset { incarnation: 7 };
        first.rule().room.handle.operate(reset, Actor::Clockwork).await.unwrap();
        second
            .sees("the reset", |board| board.segments.iter().all(|line| line.generation.incarnation == 7))
            .await;
        for _ in 0..200 {
            assert_eq!(scene.lets_in(&kept).await, [false; 4], "the line was reset");
            scene.clock.advance(7 * 60_000);
            first.rooms.maintain(first.engine.now(), StoreState::There);
        }
        for node in &scene.nodes {
            node.engine.stop().await;
        }
    }

    /// A browser opens a page with many requests at once, also on a node that has not heard of its visit.
    #[tokio::test]
    async fn many_requests_of_a_visit_that_a_node_sees_for_the_first_time_ask_the_store_once() {
        let scene = Scene::open().await;
        let node = &scene.nodes[0];
        let (_, cookie) = node.enter_for(300_000).await;
        scene.clock.advance(60_000);
        let rooms = Node::rooms_of(&node.admission);
        let requests: Vec<_> = (0..50).map(|_| node.lets_in(&rooms, &cookie)).collect();
        assert!(futures_of(requests).await.into_iter().all(|is_inside| is_inside));
        let rule = rooms.by_name("Hall").unwrap();
        assert_eq!(rule.room.visits.touches.load(Ordering::Relaxed), 1);
        assert!(rule.room.is_asking_about_nobody());
        for node in &scene.nodes {
            node.engine.stop().await;
        }
    }

    /// All of them at once, in one task.
    async fn futures_of<T>(futures: Vec<impl Future<Output = T>>) -> Vec<T> {
        let mut futures: Vec<_> = futures.into_iter().map(|future| (Box::pin(future), None)).collect();
        std::future::poll_fn(move |context| {
            for (future, output) in &mut futures {
                if output.is_none()
                    && let std::task::Poll::Ready(ready) = future.as_mut().poll(context)
                {
                    *output = Some(ready);
                }
            }
            if futures.iter().all(|(_, output)| output.is_some()) {
                return std::task::Poll::Ready(
                    futures.iter_mut().filter_map(|(_, output)| output.take()).collect(),
                );
            }
            std::task::Poll::Pending
        })
        .await
    }
}
