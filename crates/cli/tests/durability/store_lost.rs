//! "Redis down for ten seconds under load: reads go on (marked stale), joins and claims answer 503 with Retry-After, passes stay
//! valid, everything comes back by itself."

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use anteroom_testkit::redis::{AppendOnly, RedisProcess};
use anteroom_testkit::{
    ChaosProxy, Client, Direction, Fault, JoinRecord, Mode, Nodes, Request, Server, SetOnDrop,
    assert_order_is_kept, assert_unique, aws, full, jwt, native, now, pause, require_redis, wait_until,
};

use crate::support::BINARY;
use crate::support::joiners::keep_joining;

/// How long a state may take.
const TIMEOUT: Duration = Duration::from_mins(1);
/// How long any single answer may take while the store does not answer.
const ANSWER_MAX: Duration = Duration::from_secs(15);
const NODES: usize = 2;
/// How many visitors join through each node at a time.
const JOINERS: usize = 4;
const ROOMS: &str = "signing_algorithm = \"EdDSA\"\n[[room]]\nid = \"Hall\"\ninlet = \"max-size\"\n\
    total_active_users = 5\nqueue_position_expiry_period = 900\n";

fn outage() -> Duration {
    Duration::from_secs(if full() { 10 } else { 3 })
}

/// Two nodes, the way to their Redis, and people in every state.
struct Scene {
    nodes: Nodes,
    way: ChaosProxy,
    redis: RedisProcess,
    /// Five are offered a place; the first has claimed it. The sixth waits.
    ids: Vec<String>,
    pass: [String; 3],
    acknowledged: AtomicUsize,
}

impl Scene {
    fn start() -> Self {
        let redis = RedisProcess::builder().append_only(AppendOnly::Always).start();
        let way = ChaosProxy::before(redis.port());
        let nodes = Nodes::start(BINARY, ROOMS, &vec![redis.url_through(way.port()); NODES]);
        let mut line = nodes.all()[0].line("Hall");
        let ids = line.join_many(6);
        let pass = line.tokens(&ids[0]);
        nodes.agreed_when("Hall", |room| room["figures"]["claimed"] == 1);
        Self { nodes, way, redis, ids, pass, acknowledged: AtomicUsize::new(0) }
    }

    /// Everything that is read from boards.
    fn reads(&self) -> [Request; 5] {
        let waiting = &self.ids[5];
        [
            Request::new("GET", "/serving_num?event_id=Hall"),
            Request::new("GET", "/waiting_num?event_id=Hall"),
            Request::new("GET", &aws::target("/queue_num", &[("event_id", "Hall"), ("request_id", waiting)])),
            Request::new("GET", "/status?room=Hall").header("Authorization", waiting),
            Request::new("GET", "/rooms/Hall"),
        ]
    }

    /// Reads everything from one node; returns how many answers were marked as stale. Each must be an answer.
    #[track_caller]
    fn count_stale_reads(&self, client: &mut Client) -> usize {
        let reads = self.reads().map(|read| {
            let answer = client.send(&read).expect("reads are answered");
            assert_eq!(answer.status, 200, "{read:?}: {answer:?}");
            answer.header("Anteroom-Stale").is_some()
        });
        reads.into_iter().filter(|is_marked| *is_marked).count()
    }

    #[track_caller]
    fn wait_for_joins(&self, more: usize) {
        let enough = self.acknowledged.load(Ordering::SeqCst) + more;
        wait_until("joins go on", TIMEOUT, || self.acknowledged.load(Ordering::SeqCst) >= enough);
    }

    fn is_ready(server: &Server) -> bool {
        let mut operator = server.operator();
        assert_eq!(
            operator.get("/livez").expect("an answer").status,
            200,
            "a node without its store is alive"
        );
        operator.get("/readyz").expect("an answer").status == 200
    }
}

/// A claim of somebody who is offered a place: true for a pass, false for "not now". Nothing else, and not much later.
#[track_caller]
fn claim(client: &mut Client, id: &str) -> bool {
    let began = now();
    let answer = native::claim(client, "Hall", id).expect("claims are answered");
    assert!(began.elapsed() < ANSWER_MAX, "{answer:?} took {:?}", began.elapsed());
    assert!(matches!(answer.status, 200 | 503), "{answer:?}");
    assert!(answer.status == 200 || answer.header("Retry-After").is_some(), "{answer:?}");
    answer.status == 200
}

/// Reads all boards of one node until the story is over.
fn keep_reading(scene: &Scene, server: &Server, is_over: &AtomicBool) {
    let mut client = server.visitor();
    while !is_over.load(Ordering::SeqCst) {
        scene.count_stale_reads(&mut client);
        pause();
    }
}

/// The story: the store goes, is missed, and comes back.
fn lose_and_find(scene: &Scene, lose: impl FnOnce(&Scene), find: impl FnOnce(&Scene)) {
    let mut visitors: Vec<Client> = scene.nodes.all().iter().map(Server::visitor).collect();
    scene.wait_for_joins(20);
    assert!(visitors.iter_mut().all(|client| scene.count_stale_reads(client) == 0), "nothing is stale yet");
    lose(scene);
    let began = now();
    for (node, client) in visitors.iter_mut().enumerate() {
        wait_until("every read is marked", TIMEOUT, || scene.count_stale_reads(client) == 5);
        assert!(!Scene::is_ready(&scene.nodes.all()[node]), "a node without its store is not ready");
        assert!(!claim(client, &scene.ids[node + 1]), "a pass needs the store");
        let joined = native::join(client, "Hall").expect("joins are answered");
        assert_eq!(joined.status, 503, "{joined:?}");
        assert!(joined.header("Retry-After").is_some(), "{joined:?}");
        let keys = client.get("/.well-known/jwks.json").expect("an answer").text();
        let signed_by = jwt::header(&scene.pass[0])["kid"].as_str().expect("a key id").to_owned();
        assert!(keys.contains(&signed_by), "passes can still be verified: {keys}");
    }
    wait_until("it was gone for a while", TIMEOUT, || began.elapsed() >= outage());
    find(scene);
    for (node, client) in visitors.iter_mut().enumerate() {
        wait_until("no read is marked", TIMEOUT, || scene.count_stale_reads(client) == 0);
        wait_until("the node is ready", TIMEOUT, || Scene::is_ready(&scene.nodes.all()[node]));
        wait_until("a pass is given", TIMEOUT, || claim(client, &scene.ids[node + 1]));
        assert_eq!(scene.nodes.all()[node].line("Hall").tokens(&scene.ids[0]), scene.pass);
    }
    scene.wait_for_joins(20);
}

/// Under load, and what everybody was told.
fn under_load(lose: impl FnOnce(&Scene), find: impl FnOnce(&Scene)) {
    let scene = Scene::start();
    let over = AtomicBool::new(false);
    let joins: Vec<JoinRecord> = thread::scope(|scope| {
        let end = SetOnDrop(&over);
        for server in scene.nodes.all() {
            scope.spawn(|| keep_reading(&scene, server, &over));
        }
        let addresses = scene.nodes.all().iter().flat_map(|server| [server.public(); JOINERS]);
        let joining = |address| {
            let (over, acknowledged) = (&over, &scene.acknowledged);
            scope.spawn(move || keep_joining(address, "Hall", over, acknowledged))
        };
        let joiners: Vec<_> = addresses.map(joining).collect();
        lose_and_find(&scene, lose, find);
        drop(end);
        joiners.into_iter().flat_map(|joiner| joiner.join().expect("nobody panics")).collect()
    });
    assert_unique(&joins);
    assert_order_is_kept(&joins);
    let mut line = scene.nodes.all()[1].line("Hall");
    for join in &joins {
        let position = u64::try_from(line.position(&join.place.request_id)).expect("a position");
        assert_eq!(position, join.place.position, "everybody has the place of their response");
    }
    let room = scene.nodes.agreed("Hall");
    assert_eq!((&room["figures"]["active"], &room["figures"]["offers"]), (&3.into(), &2.into()), "{room}");
    for server in scene.nodes.all() {
        assert!(!server.stderr().contains("panicked"), "{}", server.stderr());
    }
}

#[test]
fn a_redis_that_was_killed_and_started_again_is_missed_and_found() {
    if require_redis() {
        under_load(|scene| scene.redis.kill(), |scene| scene.redis.start_again());
    }
}

#[test]
fn a_redis_that_cannot_be_heard_is_missed_and_found() {
    if require_redis() {
        let silence = Mode::Always(Fault::BlackHole(Direction::Both));
        under_load(|scene| scene.way.set(silence), |scene| scene.way.set(Mode::Pass));
    }
}

#[test]
fn a_redis_that_stands_still_is_missed_and_found() {
    if require_redis() {
        under_load(|scene| scene.redis.pause(), |scene| scene.redis.resume());
    }
}
