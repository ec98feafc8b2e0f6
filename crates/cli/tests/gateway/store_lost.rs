//! "Two nodes on one Redis, store cut for a while: nobody admitted is thrown out before their time; no overshoot after it comes back."
//! And what newcomers get meanwhile: `hold`, `steady`, `open`.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anteroom_testkit::redis::RedisProcess;
use anteroom_testkit::{
    Answer, Browser, ChaosProxy, Direction, Fault, Mode, Nodes, Request, Server, SetOnDrop, Site, full, now,
    pause, require_redis, unix_seconds, wait_until,
};

use crate::stand::{COOKIE, SOON, TIMEOUT, hall, most_at_once, verdicts};
use crate::support::BINARY;
use crate::support::hall::figure;

const CAPACITY: usize = 3;
/// How long a visit lasts without a request that reached the store.
const SESSION: Duration = Duration::from_secs(8);
/// How long it lasts at most.
const SESSION_MAX: Duration = Duration::from_secs(20);
/// A cookie may tell of an extension that the store has made this long before.
const SEALED_LATE: Duration = Duration::from_millis(1_500);
/// An age is told in whole seconds, rounded up.
const ROUNDING: Duration = Duration::from_secs(1);
const SILENCE: Mode = Mode::Always(Fault::BlackHole(Direction::Both));

struct Scene {
    nodes: Nodes,
    site: Site,
    way: ChaosProxy,
    redis: RedisProcess,
}

impl Scene {
    fn start(capacity: usize, more: &str) -> Self {
        let (redis, site) = (RedisProcess::start(), Site::open());
        let way = ChaosProxy::before(redis.port());
        let url = redis.url_through(way.port());
        let nodes = Nodes::start(BINARY, &hall(&site.url(), capacity, more), &[url.clone(), url]);
        Self { nodes, site, way, redis }
    }

    fn browser(&self, index: usize) -> Browser {
        Browser::new(self.nodes.all()[index].public())
    }

    fn is_ready(&self) -> bool {
        self.nodes
            .all()
            .iter()
            .all(|server| server.operator().get("/readyz").is_ok_and(|answer| answer.status == 200))
    }

    /// Cuts the store off, and waits until every node has noticed.
    fn lose_store(&self, mode: Mode) {
        self.way.set(mode);
        for server in self.nodes.all() {
            wait_until("the node misses its store", TIMEOUT, || {
                server.operator().get("/readyz").is_ok_and(|answer| answer.status != 200)
            });
        }
    }

    fn give_store_back(&self) {
        self.way.set(Mode::Pass);
        wait_until("the nodes have their store", TIMEOUT, || self.is_ready());
    }
}

/// How long a visit lasts at least, if this answer sets its cookie anew: that is done when the store has extended it.
fn promised(answer: &Answer, sent: Instant) -> Option<Instant> {
    let is_renewed = answer.set_cookies().iter().any(|cookie| cookie.name == COOKIE);
    is_renewed.then(|| sent + SESSION.saturating_sub(SEALED_LATE))
}

/// Asks again and again, and checks that the visitor is never out while the cookie says that they are in.
fn come_again_and_again(scene: &Scene, node: usize, over: &AtomicBool, visits: &AtomicUsize) {
    let mut browser = scene.browser(node);
    let (mut until, mut latest): (Option<Instant>, Instant) = (None, now());
    while !over.load(Ordering::SeqCst) {
        let sent = now();
        let answer = browser.open("/");
        if answer.is_from_site() {
            if until.is_none() {
                visits.fetch_add(1, Ordering::SeqCst);
                latest = sent + SESSION_MAX;
            }
            until = promised(&answer, sent).or(until).map(|until| until.min(latest));
        } else {
            let early = until.is_some_and(|until| now() < until);
            assert!(
                !early,
                "thrown out although the cookie lasts {:?} longer: {answer:?}",
                until.map(|until| until - now())
            );
            assert!(matches!(answer.status, 200 | 503), "{answer:?}");
            assert!(answer.header("Retry-After").is_some(), "{answer:?}");
            until = None;
        }
        for _ in 0..5 {
            pause();
        }
    }
}

fn outage_does_no_harm(mode: &Mode, lasts: Duration) {
    let scene = Scene::start(CAPACITY, "session_duration = 8\nsession_max = 20");
    let (over, visits) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        let end = SetOnDrop(&over);
        let visitors: Vec<_> = (0..CAPACITY * 3)
            .map(|number| {
                let (scene, over, visits) = (&scene, &over, &visits);
                scope.spawn(move || come_again_and_again(scene, number % 2, over, visits))
            })
            .collect();
        wait_until("the site is full", TIMEOUT, || visits.load(Ordering::SeqCst) >= CAPACITY);
        scene.lose_store(mode.clone());
        let lost = now();
        wait_until("it was gone for a while", TIMEOUT * 2, || lost.elapsed() >= lasts);
        scene.give_store_back();
        let before = visits.load(Ordering::SeqCst);
        wait_until("others are let in", TIMEOUT * 3, || visits.load(Ordering::SeqCst) >= before + CAPACITY);
        drop(end);
        for visitor in visitors {
            visitor.join().expect("nobody is thrown out before their time");
        }
    });
    let most = most_at_once(&scene.site.request_log());
    assert!(most <= CAPACITY, "{most} visits at once");
    for server in scene.nodes.all() {
        assert_eq!(verdicts(server).get("let_in_by_loss_mode").copied().unwrap_or(0), 0);
        assert!(!server.stderr().contains("panicked"), "{}", server.stderr());
    }
}

#[test]
fn a_store_that_is_silent_for_less_than_a_visit_costs_nobody_anything() {
    if require_redis() {
        outage_does_no_harm(&SILENCE, Duration::from_secs(if full() { 6 } else { 4 }));
    }
}

#[test]
fn a_store_that_is_gone_for_longer_than_a_visit_ends_each_at_its_own_time() {
    if require_redis() {
        outage_does_no_harm(&Mode::Refuse, SESSION * 2 + Duration::from_secs(if full() { 10 } else { 0 }));
    }
}

#[test]
fn while_the_store_is_lost_newcomers_are_held_and_places_kept() {
    if !require_redis() {
        return;
    }
    let scene = Scene::start(1, "");
    let mut inside = scene.browser(0);
    inside.enter("/", SOON, TIMEOUT);
    inside.open("/confirmed");
    let mut waiting = scene.browser(0);
    waiting.open("/");
    let position = waiting.open("/").shown_position();
    assert!(position.is_some());
    scene.lose_store(SILENCE);
    for node in 0..2 {
        let held = scene.browser(node).open("/");
        assert_eq!(held.status, 503, "{held:?}");
        assert!(
            held.header("Retry-After").is_some() && held.refresh_seconds().is_some(),
            "it asks again by itself: {held:?}"
        );
        assert!(held.header_lists("Cache-Control", "no-store") && held.text().contains("<h1"), "{held:?}");
        assert!(inside.moved_to(scene.nodes.all()[node].public()).open("/in").is_from_site());
    }
    let page = waiting.open("/");
    assert!(!page.is_from_site(), "{page:?}");
    assert_eq!(page.shown_position(), position, "the place is safe: {page:?}");
    let change = scene.browser(0).post("/buy", "a=b");
    assert_eq!(change.status, 503, "{change:?}");
    let leaving = waiting.copy().post("/.anteroom/line/leave", "");
    assert_eq!(leaving.status, 503, "{leaving:?}");
    assert!(leaving.header("Retry-After").is_some());
    let joining = scene
        .browser(1)
        .send(Request::new("POST", "/.anteroom/line/join").header("Accept", "application/json").body(""));
    assert_eq!(joining.status, 503, "{joining:?}");
    assert!(joining.header("Retry-After").is_some(), "{joining:?}");
    scene.give_store_back();
    assert!(inside.open("/in").is_from_site());
    wait_until("the place is reported as before", TIMEOUT, || {
        let page = waiting.open("/");
        page.status == 200 && page.shown_position() == position
    });
    // What the origin says while nobody listens is not lost either.
    assert!(inside.open("/complete").is_from_site());
    waiting.enter("/", SOON, TIMEOUT);
}

#[test]
fn open_lets_everybody_in_and_counts_them() {
    if !require_redis() {
        return;
    }
    let scene = Scene::start(1, "on_store_loss = \"open\"\nsession_duration = 6");
    let mut inside = scene.browser(0);
    inside.enter("/", SOON, TIMEOUT);
    scene.lose_store(SILENCE);
    let mut newcomers: Vec<Browser> = (0..6).map(|number| scene.browser(number % 2)).collect();
    let began = now();
    for browser in &mut newcomers {
        let answer = browser.open("/open");
        assert!(answer.is_from_site(), "{answer:?}");
        let cookie = answer
            .set_cookies()
            .into_iter()
            .find(|cookie| cookie.name.starts_with(COOKIE))
            .expect("a cookie");
        assert!(cookie.max_age_seconds().is_some_and(|age| age <= 6), "{cookie:?}");
    }
    assert_eq!(scene.site.last_seen("/open").visit(), None, "the visitor has no slot");
    let counted = |server: &Server| verdicts(server).get("let_in_by_loss_mode").copied().unwrap_or(0);
    assert_eq!(scene.nodes.all().iter().map(counted).collect::<Vec<_>>(), [3, 3]);
    // Nothing that could not have waited is let in.
    assert_eq!(scene.browser(0).fetch("/program").status, 503);
    assert_eq!(scene.browser(0).post("/buy", "").status, 503);
    scene.give_store_back();
    // The visit goes on, is not extended, and then the visitor is a new one.
    let browser = &mut newcomers[0];
    loop {
        let (answer, moment) = (browser.open("/open"), now());
        if !answer.is_from_site() {
            break;
        }
        assert!(answer.set_cookies().is_empty() || answer.header("Served-By").is_some());
        assert!(moment.duration_since(began) < TIMEOUT, "never extended: {answer:?}");
        if scene.site.last_seen("/open").visit().is_some() {
            break;
        }
        pause();
    }
    assert!(began.elapsed() + ROUNDING >= Duration::from_secs(6), "ended early: {:?}", began.elapsed());
    assert!(figure(&scene.nodes.all()[0], "active") <= 1, "who was let in so is in no figure");
}

#[test]
fn steady_lets_in_at_the_rate_from_before_and_ever_fewer_also_after_a_burst() {
    const BURST: usize = 12;
    const WATCHED: Duration = Duration::from_secs(10);
    /// A node may have counted its store as lost this long before it said so.
    const STORE_MISSED: Duration = Duration::from_secs(5);
    if !require_redis() {
        return;
    }
    let scene = Scene::start(1_000, "on_store_loss = \"steady\"");
    // All within a moment: what was let in within seconds was let in within a minute.
    for visitor in 0..BURST {
        scene.browser(visitor % 2).enter("/", SOON, TIMEOUT);
    }
    scene.nodes.agreed_when("Hall", |room| room["figures"]["active"] == BURST);
    scene.lose_store(SILENCE);
    let lost = now();
    let (mut let_in, mut held) = (0_u32, 0_u32);
    while lost.elapsed() < WATCHED || (let_in == 0 && lost.elapsed() < TIMEOUT) {
        let answer = scene.browser(0).open("/steady");
        if answer.is_from_site() {
            let_in += 1;
        } else {
            held += 1;
        }
        assert!(answer.is_from_site() || answer.status == 503, "{answer:?}");
        pause();
    }
    // At most as many a minute as before; it never rises, so time bounds the sum.
    let watched = lost.elapsed().as_secs_f64() + STORE_MISSED.as_secs_f64();
    let most = f64::from(u32::try_from(BURST).expect("a small number")) * watched / 60.0 + 1.0;
    assert!(let_in >= 1 && f64::from(let_in) <= most, "{let_in} let in, {held} held, at most {most}");
    assert!(held > 0, "{let_in} let in, {held} held");
    assert_eq!(verdicts(&scene.nodes.all()[0]).get("let_in_by_loss_mode").copied(), Some(u64::from(let_in)));
    scene.give_store_back();
    wait_until("newcomers get slots again", TIMEOUT, || {
        scene.browser(0).open("/back").is_from_site() && scene.site.last_seen("/back").visit().is_some()
    });
}

#[test]
fn a_store_that_nobody_remembers_learns_places_from_pages_that_only_ask() {
    if !require_redis() {
        return;
    }
    let mut scene = Scene::start(1, "");
    let mut inside = scene.browser(0);
    inside.enter("/", SOON, TIMEOUT);
    let mut waiting = [scene.browser(0), scene.browser(1)];
    let positions = waiting.each_mut().map(|browser| {
        browser.open("/");
        browser.open("/").shown_position().expect("a place")
    });
    assert_eq!(positions, [2, 3]);
    // Lines are known by the second in which they were opened.
    let began = unix_seconds();
    wait_until("another line would be a later one", TIMEOUT, || unix_seconds() > began);
    for server in scene.nodes.all_mut() {
        server.terminate().expect("the node ends");
    }
    scene.redis.kill();
    scene.redis.start_again();
    for server in scene.nodes.all_mut() {
        server.restart().expect("the node starts on an empty store");
    }
    // The last one's page asks; nobody opens anything.
    let mut last = waiting[1].moved_to(scene.nodes.all()[1].public());
    wait_until("the place is in the store again", TIMEOUT, || {
        let response = last.fetch("/.anteroom/line?room=Hall").json();
        let board = last.fetch("/.anteroom/rooms/Hall").json();
        let lines = board["generations"].as_array().cloned().unwrap_or_default();
        let is_known =
            lines.iter().any(|line| line["generation"] == response["generation"] && line["joined"] == 3);
        is_known && response["status"] == "waiting" && response["position"] == 3
    });
}
