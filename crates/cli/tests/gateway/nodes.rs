//! Two nodes on one Redis: a visit is a visit on both, what ends it on one is known on the other before its slot is free, and
//! all of them together never let in more than the capacity.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anteroom_testkit::redis::RedisProcess;
use anteroom_testkit::{
    Browser, Nodes, Prng, Request, Server, SetOnDrop, Site, full, now, pause, require_redis, wait_until,
};

use crate::stand::{SOON, TIMEOUT, assert_waits, hall, most_at_once};
use crate::support::BINARY;
use crate::support::hall::figure;

/// How long everybody together may take.
const CROWD_DEADLINE: Duration = Duration::from_mins(6);

struct Scene {
    nodes: Nodes,
    site: Site,
    _redis: RedisProcess,
}

impl Scene {
    fn start(capacity: usize, more: &str) -> Self {
        let (redis, site) = (RedisProcess::start(), Site::open());
        let nodes = Nodes::start(BINARY, &hall(&site.url(), capacity, more), &[redis.url(), redis.url()]);
        Self { nodes, site, _redis: redis }
    }

    fn node(&self, index: usize) -> &Server {
        &self.nodes.all()[index]
    }

    fn browser(&self, index: usize) -> Browser {
        Browser::new(self.node(index).public())
    }

    /// The same visitor before the other node.
    fn moved(&self, browser: &Browser, index: usize) -> Browser {
        browser.moved_to(self.node(index).public())
    }
}

/// Asks as a program does, which never gets a place.
fn ask(browser: &mut Browser, target: &str) -> bool {
    let answer = browser.send(Request::new("GET", target).header("Accept", "*/*"));
    assert!(answer.is_from_site() || answer.status == 503, "{answer:?}");
    answer.is_from_site()
}

#[test]
fn a_visit_and_a_place_of_one_node_are_honoured_by_the_other() {
    if !require_redis() {
        return;
    }
    let scene = Scene::start(1, "");
    let mut inside = scene.browser(0);
    assert!(inside.open("/").is_from_site());
    // At once, although the other node has not heard of the visit yet.
    let mut there = scene.moved(&inside, 1);
    assert!(ask(&mut there, "/there"));
    assert_eq!(scene.site.last_seen("/there").visit(), scene.site.last_seen("/").visit());
    let mut waiting = scene.browser(1);
    wait_until("the other node knows that it is full", TIMEOUT, || figure(scene.node(1), "active") == 1);
    assert!(!waiting.open("/").is_from_site());
    let mut waiting = scene.moved(&waiting, 0);
    let page = waiting.open("/");
    assert_waits(&page);
    let mut waiting = scene.moved(&waiting, 1);
    assert_eq!(waiting.open("/").shown_position(), page.shown_position());
    assert_eq!(scene.nodes.agreed("Hall")["figures"]["waiting"], 1);
    assert!(there.open("/complete").is_from_site());
    scene.moved(&waiting, 0).enter("/", SOON, TIMEOUT);
    assert_eq!(scene.site.live_visits_max(), 1);
}

/// Nodes that start together race for the room of their file. Each of them must stand before the site from its first answer on,
/// also the one that finds the room created by another.
#[test]
fn eight_nodes_started_at_once_on_an_empty_redis_all_protect_the_site() {
    const NODES: usize = 8;
    if !require_redis() {
        return;
    }
    let rounds = if full() { 60 } else { 8 };
    for round in 0..rounds {
        let (redis, site) = (RedisProcess::start(), Site::open());
        let urls = vec![redis.url(); NODES];
        let nodes = Nodes::start(BINARY, &hall(&site.url(), 1, "state = \"paused\""), &urls);
        for (index, node) in nodes.all().iter().enumerate() {
            let answer = Browser::new(node.public()).open("/");
            assert!(
                !answer.is_from_site(),
                "round {round}: node {index} passes requests on unprotected: {answer:?}"
            );
            assert!(!node.stderr().contains("deleted by an operator"), "round {round}: node {index}");
        }
    }
}

/// One visit is ended through one node, while its cookie is shown to the other one all the time, and somebody waits there.
fn end_under_watch(scene: &Scene, end: impl FnOnce(&mut Browser)) {
    let mut inside = scene.browser(0);
    inside.enter("/", SOON, TIMEOUT);
    inside.open("/confirmed");
    let ended = scene.site.last_seen("/confirmed").visit().expect("a visit");
    let mut waiting = scene.browser(1);
    waiting.open("/");
    waiting.open("/");
    let (over, mut thief) = (AtomicBool::new(false), scene.moved(&inside, 1));
    thread::scope(|scope| {
        let _end = SetOnDrop(&over);
        scope.spawn(|| {
            while !over.load(Ordering::SeqCst) {
                ask(&mut thief, "/stolen");
            }
        });
        scene.site.wait_for_request("/stolen");
        end(&mut inside);
        waiting.enter("/next", SOON, TIMEOUT);
    });
    let seen = scene.site.request_log();
    let next = scene.site.last_seen("/next").visit();
    assert_ne!(next.as_deref(), Some(ended.as_str()));
    let first_of_next = seen.iter().position(|seen| seen.visit() == next).expect("the next visit");
    let last_of_ended =
        seen.iter().rposition(|seen| seen.visit().as_deref() == Some(&ended)).expect("the visit");
    assert!(
        last_of_ended < first_of_next,
        "a slot was given away while the other node still honoured its cookie"
    );
    assert!(waiting.open("/complete").is_from_site());
}

#[test]
fn what_ends_a_visit_on_one_node_is_known_to_the_other_before_the_slot_is_free() {
    if !require_redis() {
        return;
    }
    let scene = Scene::start(1, "");
    for word in ["complete", "abandon", "revoke"] {
        end_under_watch(&scene, |inside| assert!(inside.open(&format!("/{word}")).is_from_site()));
    }
    end_under_watch(&scene, |inside| assert_eq!(inside.post("/.anteroom/line/leave", "").status, 200));
    assert_eq!(most_at_once(&scene.site.request_log()), 1);
}

#[test]
fn a_reset_on_one_node_ends_all_visits_on_the_other() {
    if !require_redis() {
        return;
    }
    let scene = Scene::start(2, "");
    let mut inside = scene.browser(0);
    inside.enter("/", SOON, TIMEOUT);
    let mut there = scene.moved(&inside, 1);
    assert!(ask(&mut there, "/there"));
    assert_eq!(scene.node(0).line("Hall").reset().status, 200);
    wait_until("the other node knows", TIMEOUT, || !ask(&mut there, "/there"));
    assert!(!ask(&mut inside, "/here"));
    scene.moved(&inside, 1).enter("/", SOON, TIMEOUT);
}

/// One visitor who is sent to either node, request by request.
fn visit(scene: &Scene, number: usize) {
    let mut prng = Prng::from_seed_and_stream(20_261_117, u64::try_from(number).expect("a small number"));
    let mut browsers = [scene.browser(0), scene.browser(1)];
    let began = now();
    let mut last = 0;
    let mut open = |target: &str| {
        let node = prng.below(2);
        if node != last {
            browsers[node].cookies = browsers[last].cookies.clone();
            last = node;
        }
        browsers[node].open(target)
    };
    loop {
        let answer = open("/");
        if answer.is_from_site() {
            break;
        }
        assert_eq!(answer.status, 200, "{answer:?}");
        assert!(began.elapsed() < CROWD_DEADLINE, "in vain: {answer:?}");
        for _ in 0..20 {
            pause();
        }
    }
    for _ in 0..3 {
        let answer = open("/look");
        assert!(answer.is_from_site(), "thrown out: {answer:?}");
        pause();
    }
    let answer = open("/complete");
    assert!(answer.is_from_site(), "thrown out: {answer:?}");
}

#[test]
fn a_crowd_on_two_nodes_is_served_and_never_more_than_the_capacity() {
    if !require_redis() {
        return;
    }
    let (capacity, visitors) = if full() { (20, 400) } else { (10, 60) };
    let scene = Scene::start(capacity, "");
    thread::scope(|scope| {
        let visit = |number| {
            let scene = &scene;
            scope.spawn(move || visit(scene, number))
        };
        let visitors: Vec<_> = (0..visitors).map(visit).collect();
        for visitor in visitors {
            visitor.join().expect("every visitor is served");
        }
    });
    assert_eq!(scene.site.visits().len(), visitors, "everybody was in, once");
    let most = scene.site.live_visits_max();
    assert!(most <= capacity, "{most} at once");
    let room = scene.nodes.agreed_when("Hall", |room| room["figures"]["active"] == 0);
    assert_eq!(room["figures"]["completed"], visitors, "{room}");
    for server in scene.nodes.all() {
        assert!(!server.stderr().contains("panicked"), "{}", server.stderr());
    }
}
