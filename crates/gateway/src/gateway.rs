//! The path of one request through the gateway, phase by phase, and the gateway's periodic work.

mod calls;
pub(crate) mod check;
mod forwarding;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anteroom_admission::Admission;
use anteroom_core::{RoomId, UnixMillis};
use anteroom_engine::Engine;
use anteroom_tokens::cookie::CookieContent;
use anteroom_tokens::random;
use http::header::HeaderMap;
use http::{Request, Response};
use hyper::body::Incoming;
use prometheus_client::registry::Registry;
use tokio::sync::watch;
use tokio::task::JoinSet;

use anteroom_admission::arrivals::JoinRefusal;
use anteroom_pages::Pages;

pub(crate) use self::forwarding::{LogThrottle, renewed_cookie};

use crate::account::figures::Figures;
use crate::account::origin_reports;
use crate::account::{Account, RoomVerdicts, Verdict, Verdicts};
use crate::body::GatewayBody;
use crate::classify::path_readings::PathReadings;
use crate::classify::request_target::host_of;
use crate::classify::rooms::{GatewayRooms, Route, Rule, StoreState};
use crate::classify::{self, Kind};
use crate::identify::{self, Client, Identification, Peer};
use crate::limiter::{Class, Decision, Limiter, RequestDescriptor};
use crate::line;
use crate::line::door::{self, is_door};
use crate::line::page::{Reader, Writer, path_and_query};
use crate::line::query::room_named;
use crate::line::wait::{self, Wait, WaitView, Waiter, WayIn};
use crate::reject::{self, Branding, Rejection};
use crate::trace::{self, Trace};
use crate::verdict::cookies::{self, CookieKind, WAITING_MAX_AGE_SECONDS};
use crate::verdict::{self, Case, Entry, EntryTrigger, Judgement};
use anteroom_proxy::{OriginAddress, Origins, OriginsError, ProxySettings, RequestFault};

/// Under which paths the gateway answers for its lines, on every protected host.
pub const LINE_PATH: &str = "/.anteroom/line";
/// What is ours on a protected host; everything else is the origin's.
pub(crate) const OWN_PREFIX: &str = "/.anteroom/";
/// The name under which requests are counted that belong to no room.
const NO_ROOM: &str = "";
/// From when on newcomers are not given to a store that does not answer.
const STORE_LOST_AFTER: Duration = Duration::from_secs(2);
/// How often the gateway does its periodic work.
const MAINTENANCE_PERIOD: Duration = Duration::from_millis(250);
/// How many random bytes tell the nodes of a shared store apart as reporters.
const REPORTER_NAME_BYTES: usize = 6;

/// What a gateway is made of.
pub struct GatewayParts {
    /// The rooms, and what every front door does with them.
    pub admission: Arc<Admission>,
    /// Rooms that must exist: until each of them is known, nothing is passed on unprotected.
    pub expected_rooms: Vec<RoomId>,
    /// Where requests go whose room names no origins of its own; empty if there is no such place.
    pub origins: Vec<OriginAddress>,
    /// How origins are spoken to.
    pub proxy: ProxySettings,
    /// Whether a host that no room names is passed on, although rooms name theirs.
    pub passes_unknown_hosts: bool,
    /// Whether other proxies may ask for verdicts on what they pass on.
    pub answers_checks: bool,
    /// How a client is known.
    pub identification: Arc<Identification>,
    /// Budgets of clients.
    pub limiter: Arc<Limiter>,
    /// Whether visitors reach us by TLS whatever this connection is: a proxy before us terminates it.
    pub public_is_tls: bool,
    /// The public listener as visitors reach it, if that is configured.
    pub public_url: Option<String>,
    /// What visitors see.
    pub pages: Arc<Pages>,
    /// The address of the page that lists the types of problems.
    pub problems: String,
}

/// The gateway.
pub struct Gateway {
    engine: Arc<Engine>,
    admission: Arc<Admission>,
    rooms: GatewayRooms,
    identification: Arc<Identification>,
    limiter: Arc<Limiter>,
    public_is_tls: bool,
    public_url: Option<String>,
    writer: Writer,
    figures: Figures,
    verdicts: Verdicts,
    no_room: RoomVerdicts,
    /// When a check without the address of its client is logged again.
    addressless_checks: LogThrottle,
    /// When a check that cannot be understood is logged again.
    faulty_checks: LogThrottle,
    /// Upgraded connections that are open.
    tunnels: Arc<AtomicU64>,
    /// Raised when everything ends.
    closing: watch::Sender<bool>,
    /// Whether the store does not answer, as of the last look.
    store_is_lost: AtomicBool,
}

impl Gateway {
    /// A gateway that answers as soon as it is asked.
    pub fn new(parts: GatewayParts) -> Result<Arc<Self>, OriginsError> {
        let verdicts = Verdicts::default();
        let default_origins = if parts.origins.is_empty() {
            None
        } else {
            Some(Origins::new(parts.origins, parts.proxy.clone())?)
        };
        let rooms = GatewayRooms::new(
            Arc::clone(&parts.admission),
            parts.expected_rooms,
            parts.proxy,
            default_origins,
            (parts.passes_unknown_hosts, parts.answers_checks),
            verdicts.clone(),
        );
        Ok(Arc::new(Self {
            engine: Arc::clone(&parts.admission.engine),
            admission: parts.admission,
            rooms,
            identification: parts.identification,
            limiter: parts.limiter,
            public_is_tls: parts.public_is_tls,
            public_url: parts.public_url,
            writer: Writer::new(parts.pages, parts.problems),
            figures: Figures::default(),
            no_room: verdicts.of(NO_ROOM),
            verdicts,
            addressless_checks: LogThrottle::default(),
            faulty_checks: LogThrottle::default(),
            tunnels: Arc::default(),
            closing: watch::Sender::new(false),
            store_is_lost: AtomicBool::new(false),
        }))
    }

    /// Whether a request is the gateway's. Its own prefix on a protected host is the API's, except for the line and the
    /// door.
    pub fn covers<B>(&self, request: &Request<B>) -> bool {
        if self.rooms.is_empty() {
            return false;
        }
        let path = request.uri().path();
        if path.starts_with(OWN_PREFIX) && !is_about_a_line(path) && !is_door(path) {
            return false;
        }
        self.rooms.serves_host(host_of(request)) || self.door_named_by(request).is_some()
    }

    /// The room that a request at the door names: another proxy stands before its site, so the host says nothing.
    fn door_named_by<B>(&self, request: &Request<B>) -> Option<Arc<Rule>> {
        let name = room_named(request.uri().query()).filter(|_| is_door(request.uri().path()))?;
        self.rooms.named_at_door(name, host_of(request))
    }

    /// Registers its figures.
    pub fn register(&self, registry: &mut Registry) {
        self.verdicts.register(registry);
        self.writer.register(registry);
        self.figures.register(registry);
    }

    /// Upgraded connections that are open.
    pub fn tunnels(&self) -> u64 {
        self.tunnels.load(Ordering::Relaxed)
    }

    /// All groups of origins, for figures.
    pub fn origins(&self) -> Vec<Arc<Origins>> {
        self.rooms.origins()
    }

    /// Ends upgraded connections.
    pub fn close(&self) {
        self.closing.send_replace(true);
    }

    /// Follows rooms, origins and departed visitors until it is dropped.
    pub async fn run_maintenance(self: Arc<Self>) {
        let mut known: Vec<Arc<Origins>> = vec![];
        // Both end with this function.
        let mut health = JoinSet::new();
        let mut reports = JoinSet::new();
        let gateway = Arc::clone(&self);
        reports.spawn(async move {
            origin_reports::report(&gateway.reporter_name(), || gateway.rooms.sites()).await;
        });
        let mut clock = tokio::time::interval(MAINTENANCE_PERIOD);
        clock.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            clock.tick().await;
            self.rooms.maintain(self.engine.now(), self.check_store());
            let origins = self.rooms.origins();
            let is_same = |one: &[Arc<Origins>], other: &[Arc<Origins>]| {
                one.len() == other.len() && one.iter().zip(other).all(|(one, other)| Arc::ptr_eq(one, other))
            };
            if !is_same(&known, &origins) {
                health.abort_all();
                for group in &origins {
                    health.spawn(Arc::clone(group).watch_health());
                }
                known = origins;
            }
        }
    }

    /// What adaptive rooms know this node's view of their origins by. Where there is one node, the next one that runs takes it over.
    fn reporter_name(&self) -> String {
        let is_shared = self.engine.store().is_shared();
        if is_shared {
            format!("gateway-{}", random::text(REPORTER_NAME_BYTES))
        } else {
            "gateway".to_owned()
        }
    }

    /// Whether the store does not answer, at this very moment: as soon as `/readyz` says so, newcomers are treated so.
    fn has_lost_store(&self) -> bool {
        self.store_is_lost.load(Ordering::Relaxed) || self.engine.staleness() > STORE_LOST_AFTER
    }

    /// Whether the store answers. A shared one is asked four times a second; one of this process is lost when it is not ready.
    fn check_store(&self) -> StoreState {
        let is_lost = self.engine.staleness() > STORE_LOST_AFTER
            || !self.engine.store().is_shared() && !self.engine.is_ready();
        let was_lost = self.store_is_lost.swap(is_lost, Ordering::Relaxed);
        match (is_lost, was_lost) {
            (true, _) => StoreState::Lost,
            (false, true) => StoreState::Back,
            (false, false) => StoreState::There,
        }
    }

    /// The response to a request. A request whose client has gone before it was looked at is counted as abandoned.
    pub fn answer(
        self: Arc<Self>,
        mut request: Request<Incoming>,
        peer: Peer,
    ) -> impl Future<Output = Response<GatewayBody>> + Send + use<> {
        let mut trace = trace::take(&mut request);
        let mut pending = PendingRequest(Some(self));
        async move {
            let gateway = pending.0.take().expect("a future is begun once");
            let response = gateway.answer_now(request, peer, &mut trace).await;
            trace.mark("account");
            trace.end(response.status());
            response
        }
    }

    /// The path of one request.
    async fn answer_now(
        self: Arc<Self>,
        mut request: Request<Incoming>,
        peer: Peer,
        trace: &mut Trace,
    ) -> Response<GatewayBody> {
        // phase: identify
        trace.mark("identify");
        let client = identify::identify(&peer, request.headers(), &self.identification);
        let is_tls = peer.is_tls || self.public_is_tls;
        let now = self.engine.now();
        // phase: classify
        trace.mark("classify");
        let target = request.uri().clone();
        let path = PathReadings::of(target.path());
        let rule = match self.find(&request, &path) {
            Route::Room(rule) => rule,
            Route::Unprotected(_) if is_door(request.uri().path()) => {
                Account::open(&self.no_room).settle(Verdict::Line);
                return door::pass_on(&door::destination(request.uri().query()));
            }
            Route::Unprotected(origins) => {
                trace.mark("proxy");
                trace.pass_on(request.headers_mut());
                return self.forward_unprotected(request, &client, is_tls, &origins).await;
            }
            Route::NotReady => return self.refuse_without_room(&request, &Rejection::NotReady),
            Route::Ambiguous => {
                let ambiguous = Rejection::Origin(RequestFault::TargetAmbiguous.into());
                return self.refuse_without_room(&request, &ambiguous);
            }
            Route::Nothing | Route::UnknownHost => {
                return self.refuse_without_room(&request, &Rejection::Misdirected);
            }
        };
        trace.set_room(rule.room.handle.id().as_str());
        let mut account = Account::open(&rule.room.verdicts);
        let reader = Reader::of(&self.writer, &request);
        let rule = &rule;
        // phase: limit
        trace.mark("limit");
        if let Some(rejection) = self.charge(Class::Gateway, &request, &client).await {
            return refuse(&rejection, &reader, Some(rule), &mut account);
        }
        let case = self.case(rule, classify::kind(&request), request.headers(), &client, (is_tls, now));
        if is_about_a_line(request.uri().path()) {
            account.settle(Verdict::Line);
            if let Some(class) = line::line_call_class(&request)
                && let Some(rejection) = self.charge_in(rule, class, &request, &client).await
            {
                return refuse(&rejection, &reader, Some(rule), &mut account);
            }
            return line::answer(self.line_call(case, reader, is_tls), &request).await;
        }
        if is_door(request.uri().path()) {
            let joins = case.would_join();
            let call = self.line_call(case, reader, is_tls);
            if joins && let Some(rejection) = self.charge_in(rule, Class::Join, &request, &client).await {
                account.settle(rejection.verdict());
                return call.limited_at_door(&request);
            }
            let (response, verdict) = call.answer_at_door(&request).await;
            account.settle(verdict);
            return response;
        }
        // phase: verdict
        trace.mark("verdict");
        let judgement = self.judge(&case, &request, &path, &client).await;
        match judgement {
            // phase: proxy
            Judgement::Proxy(entry) => {
                trace.mark("proxy");
                trace.pass_on(request.headers_mut());
                cookies::hide(request.headers_mut());
                self.forward_admitted(rule, request, entry, (&client, is_tls, now), (&reader, &mut account))
                    .await
            }
            // phase: wait
            Judgement::Wait(wait, cookie) => {
                trace.mark("wait");
                account.settle(wait.verdict());
                show_wait((wait, cookie), rule, &request, &reader, (is_tls, now))
            }
            Judgement::Arrive(arrived) => {
                account.settle(Verdict::Arrived);
                let response = door::redirect_newcomer(&request);
                with_cookie(response, rule, (CookieKind::Place, &arrived), (is_tls, now))
            }
            // phase: reject
            Judgement::Reject(rejection) => {
                trace.mark("reject");
                refuse(&rejection, &reader, Some(rule), &mut account)
            }
        }
    }

    /// The verdict on a request of a room; one that would take a place is charged for it first.
    async fn judge<B>(
        &self,
        case: &Case<'_>,
        request: &Request<B>,
        path: &PathReadings<'_>,
        client: &Client,
    ) -> Judgement {
        let rule = case.rule;
        if rule.bypasses(request.method(), path, request.headers(), client.address) {
            // Its cookie may be that of a visit all the same.
            let inside = case.visitor_inside(&rule.room.handle.board()).await;
            return Judgement::Proxy(Entry { inside, ..Entry::without_visit(Verdict::Bypassed) });
        }
        if case.would_join()
            && let Some(rejection) = self.charge_in(rule, Class::Join, request, client).await
        {
            return Judgement::Reject(rejection);
        }
        let judgement = verdict::judge(case).await;
        if let Judgement::Wait(wait, _) = &judgement {
            self.note_presence(case, *wait);
        }
        judgement
    }

    /// Refuses a request that belongs to no room, or not to a single one.
    fn refuse_without_room<B>(&self, request: &Request<B>, rejection: &Rejection) -> Response<GatewayBody> {
        let (mut account, reader) = (Account::open(&self.no_room), Reader::of(&self.writer, request));
        refuse(rejection, &reader, None, &mut account)
    }

    /// The same as [`Self::charge`], noted for the operators of a room where it refuses a join.
    pub(crate) async fn charge_in<B>(
        &self,
        rule: &Rule,
        class: Class,
        request: &Request<B>,
        client: &Client,
    ) -> Option<Rejection> {
        let rejection = self.charge(class, request, client).await?;
        if class == Class::Join {
            rule.room.arrivals.note_refusal(JoinRefusal::Limited);
        }
        Some(rejection)
    }

    /// In an auction, a visitor who waits and opens a page counts as present: without a script there is no other way to
    /// check in.
    fn note_presence(&self, case: &Case<'_>, wait: Wait) {
        if let Wait::InLine(Waiter { ticket, .. }) = wait
            && case.kind == Kind::Navigation
            && case.rule.settings.is_auction()
        {
            self.admission.note_presence(&case.rule.room, &ticket);
        }
    }

    fn line_call<'request>(
        &'request self,
        case: Case<'request>,
        reader: Reader<'request>,
        is_tls: bool,
    ) -> line::LineCall<'request> {
        line::LineCall {
            case,
            is_tls,
            reader,
            codes: &self.admission.codes,
            figures: &self.figures,
            public_url: self.public_url.as_deref(),
        }
    }

    /// Where a request belongs. A call about a line names its room, because its own path says nothing; at the door the
    /// page that the visitor wants does.
    fn find<B>(&self, request: &Request<B>, path: &PathReadings<'_>) -> Route {
        let host = host_of(request);
        if is_about_a_line(request.uri().path())
            && let Some(name) = room_named(request.uri().query())
        {
            return self.rooms.by_name(name).map_or(Route::Nothing, Route::Room);
        }
        if let Some(rule) = self.door_named_by(request) {
            return Route::Room(rule);
        }
        if is_door(request.uri().path()) {
            let destination = door::destination(request.uri().query());
            let path = destination.split('?').next().unwrap_or_default();
            return self.rooms.find(host, &PathReadings::of(path));
        }
        self.rooms.find(host, path)
    }

    fn case<'request>(
        &'request self,
        rule: &'request Rule,
        kind: Kind,
        headers: &HeaderMap,
        client: &Client,
        (is_tls, now): (bool, UnixMillis),
    ) -> Case<'request> {
        let (cookie, loss_cookie) = place_and_loss_cookies(rule, headers, is_tls);
        Case {
            rule,
            kind,
            entry_trigger: if rule.is_protected { EntryTrigger::Request } else { EntryTrigger::HandOff },
            cookie,
            loss_cookie,
            client: client.address,
            now,
            store_is_lost: self.has_lost_store(),
            admission: &self.admission,
        }
    }

    /// Charges a request to the budgets of its client; the rejection, if one of them is used up.
    pub(crate) async fn charge<B>(
        &self,
        class: Class,
        request: &Request<B>,
        client: &Client,
    ) -> Option<Rejection> {
        let path = request.uri().path();
        // A call of ours has the same path on every host; a request for the site keeps its path.
        let own = path.strip_prefix(OWN_PREFIX.trim_end_matches('/')).filter(|_| class != Class::Gateway);
        let descriptor = RequestDescriptor { class, method: request.method(), path: own.unwrap_or(path) };
        match self.limiter.decide(&descriptor, client).await {
            Decision::Refused(quota) => Some(Rejection::Limited(Box::new(quota))),
            Decision::Unlimited | Decision::Allowed(_) | Decision::FailedOpen => None,
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the gateway's named helper: tunnels end with `close`, commands of origins with the store's answer"
)]
pub(crate) fn background(work: impl Future<Output = ()> + Send + 'static) {
    tokio::spawn(work);
}

fn is_about_a_line(path: &str) -> bool {
    path.strip_prefix(LINE_PATH).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// A request that was not looked at yet. A connection that ends together with its request drops the response before it
/// is begun.
struct PendingRequest(Option<Arc<Gateway>>);

impl Drop for PendingRequest {
    fn drop(&mut self) {
        if let Some(gateway) = &self.0 {
            drop(Account::open(&gateway.no_room));
        }
    }
}

/// The line, for a visitor who waits.
fn show_wait<B>(
    (wait, cookie): (Wait, Option<CookieContent>),
    rule: &Rule,
    request: &Request<B>,
    reader: &Reader<'_>,
    (is_tls, now): (bool, UnixMillis),
) -> Response<GatewayBody> {
    let board = rule.room.handle.board();
    let address = path_and_query(request);
    let view =
        WaitView { room: &rule.room, board: &board, now, reader, address: &address, way_in: WayIn::Gateway };
    let response = wait::answer(wait, &view);
    match cookie {
        Some(cookie) => with_cookie(response, rule, (CookieKind::Place, &cookie), (is_tls, now)),
        None => response,
    }
}

fn with_cookie(
    mut response: Response<GatewayBody>,
    rule: &Rule,
    cookie: (CookieKind, &CookieContent),
    (is_tls, now): (bool, UnixMillis),
) -> Response<GatewayBody> {
    set_cookie(rule, &mut response, cookie, is_tls, now);
    response
}

fn refuse(
    rejection: &Rejection,
    reader: &Reader<'_>,
    rule: Option<&Arc<Rule>>,
    account: &mut Account<'_>,
) -> Response<GatewayBody> {
    account.settle(rejection.verdict());
    let branding = rule.map(|rule| Branding { room: rule.room.handle.id(), settings: &rule.settings });
    reject::answer(rejection, reader, branding)
}

/// The first of the room's cookies of this kind that opens.
pub(crate) fn cookie_of(
    rule: &Rule,
    headers: &HeaderMap,
    kind: CookieKind,
    is_tls: bool,
) -> Option<CookieContent> {
    let name = rule.room.cookie_names.name(kind, is_tls);
    cookies::all(headers, name).find_map(|value| rule.room.cookies.open(value))
}

/// The same for the two kinds that a verdict goes by. Every request comes by here, so they are looked for at once.
fn place_and_loss_cookies(
    rule: &Rule,
    headers: &HeaderMap,
    is_tls: bool,
) -> (Option<CookieContent>, Option<CookieContent>) {
    let names = &rule.room.cookie_names;
    let wanted = [CookieKind::Place, CookieKind::Loss].map(|kind| names.name(kind, is_tls));
    let mut found = [None, None];
    for pair in cookies::pairs(headers) {
        for (name, found) in wanted.iter().zip(&mut found) {
            if found.is_none()
                && let Some(value) = cookies::value_of(pair, name)
            {
                *found = rule.room.cookies.open(value);
            }
        }
    }
    let [place, loss] = found;
    (place, loss)
}

/// Puts a cookie into an answer.
pub(crate) fn set_cookie(
    rule: &Rule,
    response: &mut Response<GatewayBody>,
    (kind, cookie): (CookieKind, &CookieContent),
    is_tls: bool,
    now: UnixMillis,
) {
    let max_age_seconds = match cookie {
        CookieContent::Arrived { .. } => cookies::ARRIVED_MAX_AGE_SECONDS,
        CookieContent::Waiting { .. } => WAITING_MAX_AGE_SECONDS,
        // Without a slot it is good for what it says.
        CookieContent::Admitted { ends_at, .. } if kind == CookieKind::Loss => {
            ends_at.since(now).div_ceil(1000)
        }
        // The visit may be extended without an answer to tell the browser.
        CookieContent::Admitted { admitted_at, .. } => {
            admitted_at.plus(rule.settings.session_max.get() * 1000).since(now).div_ceil(1000)
        }
    };
    let value = rule.room.cookies.seal(cookie);
    let cookie = rule.room.cookie_names.set(kind, is_tls, &value, max_age_seconds);
    cookies::attach(response.headers_mut(), cookie);
}
