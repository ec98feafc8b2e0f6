//! "Redis killed and restarted empty, and with AOF: what the table promises, and nothing less."

use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use anteroom_testkit::native::{self, LinePlace};
use anteroom_testkit::redis::{AppendOnly, RedisProcess};
use anteroom_testkit::{
    Answer, Client, Line, Nodes, Server, SetOnDrop, full, jwt, require_redis, unix_seconds, wait_for,
    wait_until,
};
use serde_json::{Value, json};

use crate::support::BINARY;
use crate::support::frontier::watch_the_frontier;
use crate::support::metrics::metric;
use crate::support::service::serve_everybody;

/// How long a state may take.
const TIMEOUT: Duration = Duration::from_mins(1);
/// How long nobody is offered a place while a forgotten line is learned, and some more.
const LEARNING_TIMEOUT: Duration = Duration::from_mins(4);
const ROOMS: &str = "[[room]]\nid = \"Hall\"\ninlet = \"max-size\"\ntotal_active_users = 5\n\
    queue_position_expiry_period = 900\n[[room]]\nid = \"Hand\"\n";
const CAPACITY: u64 = 5;
/// How many hold a pass when the store goes.
const ADMITTED: usize = 3;
/// How many hold a place in the room with a capacity.
const VISITORS: usize = 20;

/// Two nodes on one Redis, and everything that was promised before it goes.
struct Scene {
    nodes: Nodes,
    redis: RedisProcess,
    places: Vec<LinePlace>,
    passes: Vec<[String; 3]>,
    keys: Value,
    viewer_key: String,
    hand_served: i64,
}

impl Scene {
    fn start(append_only: AppendOnly) -> Self {
        let redis = RedisProcess::builder().append_only(append_only).start();
        let nodes = Nodes::start(BINARY, ROOMS, &vec![redis.url(); 2]);
        let mut lines = nodes.all().iter().map(|server| server.line("Hall")).collect::<Vec<_>>();
        // The AWS call takes a place without claiming it.
        let ids: Vec<String> = (0..VISITORS).map(|visitor| lines[visitor % 2].join()).collect();
        let passes = ids[..ADMITTED].iter().map(|id| lines[1].tokens(id)).collect();
        let places = ids.iter().map(|id| place_of(&mut lines[0].public, id)).collect();
        let key = json!({ "name": "viewer", "role": "viewer" });
        let key = nodes.all()[0].operator().post("/keys", &key).expect("an answer");
        assert_eq!(key.status, 201, "{key:?}");
        let viewer_key = key.json()["key"].as_str().expect("a key").to_owned();
        let mut hand = nodes.all()[1].line("Hand");
        hand.join_many(4);
        let hand_served = hand.advance(2);
        let keys = json_of(&mut lines[0].public, "/.well-known/jwks.json");
        let scene = Self { nodes, redis, places, passes, keys, viewer_key, hand_served };
        // Nothing is in flight any more: each node knows all of it.
        scene.nodes.agreed_when("Hall", |room| room["figures"]["claimed"] == ADMITTED);
        scene.nodes.agreed_when("Hand", |room| room["figures"]["serving"] == hand_served);
        scene
    }

    fn line(&self, node: usize) -> Line {
        self.nodes.all()[node].line("Hall")
    }

    /// Kills Redis and starts it again with what it has kept, while the boards are watched.
    fn restart_redis(&self) {
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            let _end = SetOnDrop(&over);
            for server in self.nodes.all() {
                scope.spawn(|| watch_the_frontier(server.public(), "Hall", &over));
                scope.spawn(|| watch_the_frontier(server.public(), "Hand", &over));
            }
            self.redis.kill();
            self.redis.start_again();
            self.nodes.all().iter().for_each(wait_until_ready);
            for room in ["Hall", "Hand"] {
                self.nodes.agreed_when(room, |room| lines_of(room) == 2);
            }
        });
    }

    /// Everybody has the place they had, through each node, and newcomers stand behind them.
    #[track_caller]
    fn assert_places_are_kept(&self) {
        for server in self.nodes.all() {
            let mut client = server.visitor();
            for place in &self.places {
                assert_eq!(&place_of(&mut client, &place.request_id), place);
            }
            let serving = server.line("Hand").serving();
            assert!(serving >= self.hand_served, "{serving} after {}", self.hand_served);
        }
        let newcomer = LinePlace::of(&native::join(&mut self.line(1).public, "Hall").expect("an answer"));
        let last = self.places.iter().max().expect("there are places");
        assert!(&newcomer > last && newcomer.position > last.position, "{newcomer:?} behind {last:?}");
        assert!(!newcomer.is_admitted, "the room is full");
    }

    /// What verifies passes, and who may look, are as before.
    #[track_caller]
    fn assert_keys_are_kept(&self) {
        for server in self.nodes.all() {
            let mut public = server.visitor();
            assert_eq!(json_of(&mut public, "/.well-known/jwks.json"), self.keys);
            let signing = json_of(&mut public, "/public_key?event_id=Hall");
            for [access, _, _] in &self.passes {
                assert_eq!(jwt::header(access)["kid"], signing["kid"]);
            }
            let mut viewer = Client::new(server.private()).with_bearer(&self.viewer_key);
            assert_eq!(viewer.get("/rooms").expect("an answer").status, 200, "the key is known");
        }
    }

    /// When these have gone, everybody else is served, in the order of before.
    fn serve_everybody(&self, inside: &[LinePlace], others: &[LinePlace]) {
        let mut line = self.line(0);
        for place in inside {
            let ended = line.close(&place.request_id, 1);
            assert_eq!(ended.status, 200, "{ended:?}");
        }
        serve_everybody(self.nodes.all(), "Hall", others);
    }
}

fn lines_of(room: &Value) -> usize {
    room["generations"].as_array().map_or(0, Vec::len)
}

fn held(room: &Value) -> u64 {
    ["active", "offers"].iter().map(|name| room["figures"][*name].as_u64().expect("a figure")).sum()
}

fn json_of(client: &mut Client, target: &str) -> Value {
    let answer = client.get(target).expect("an answer");
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()
}

/// The place of a request id.
#[track_caller]
fn place_of(client: &mut Client, request_id: &str) -> LinePlace {
    LinePlace::of(&status_of(client, request_id))
}

fn status_of(client: &mut Client, request_id: &str) -> Answer {
    // Within the frontier the room is asked, and while the store is away it cannot answer.
    wait_for("a status is answered", TIMEOUT, || {
        let answer = native::status(client, "Hall", request_id).expect("an answer");
        (answer.status != 503).then_some(answer)
    })
}

#[track_caller]
fn wait_until_ready(server: &Server) {
    wait_until("the node is ready", TIMEOUT, || {
        server.operator().get("/readyz").expect("an answer").status == 200
    });
}

/// Redis comes back with everything: a new line begins, and nothing else has changed.
fn assert_everything_survives(append_only: AppendOnly) {
    let scene = Scene::start(append_only);
    scene.restart_redis();
    scene.assert_places_are_kept();
    scene.assert_keys_are_kept();
    let room = scene.nodes.agreed("Hall");
    assert_eq!((held(&room), room["figures"]["claimed"].as_u64()), (CAPACITY, Some(3)), "{room}");
    for (place, pass) in scene.places.iter().zip(&scene.passes) {
        for node in 0..2 {
            assert_eq!(&scene.line(node).tokens(&place.request_id), pass, "the same pass, byte for byte");
        }
    }
    let (inside, others) = scene.places.split_at(ADMITTED);
    scene.serve_everybody(inside, others);
}

#[test]
fn with_every_write_on_disk_everything_acknowledged_survives_a_killed_redis() {
    if !require_redis() {
        return;
    }
    assert_everything_survives(AppendOnly::Always);
}

#[test]
fn with_a_write_to_disk_a_second_a_killed_redis_loses_nothing_that_it_had_written() {
    if !require_redis() {
        return;
    }
    // The process dies, not the machine: what it has given to the system is not lost.
    assert_everything_survives(AppendOnly::EverySecond);
}

#[test]
fn an_emptied_redis_gets_rooms_places_and_keys_back_from_the_nodes_and_offers_nothing_twice() {
    if !require_redis() {
        return;
    }
    let scene = Scene::start(AppendOnly::Off);
    scene.restart_redis();
    scene.assert_places_are_kept();
    scene.assert_keys_are_kept();
    // Three passes are out, though nobody has a record of them; two offers stand.
    let room = scene.nodes.agreed("Hall");
    assert_eq!((held(&room), &room["figures"]["offers"]), (CAPACITY, &json!(2)), "{room}");
    for server in scene.nodes.all() {
        assert_eq!(metric(server, "anteroom_room_phantoms{room=\"Hall\"}"), 3);
    }
    // The two may claim, and when they leave the next two may.
    let mut line = scene.line(1);
    for place in &scene.places[ADMITTED..5] {
        assert_eq!(line.claim(&place.request_id).status, 200);
    }
    assert_eq!(line.claim(&scene.places[5].request_id).status, 202, "nobody is offered a phantom's slot");
    scene.serve_everybody(&scene.places[ADMITTED..5], &scene.places[5..]);
}

#[test]
fn when_nobody_remembers_tickets_are_learned_before_anybody_is_offered_a_place() {
    if !require_redis() {
        return;
    }
    let mut scene = Scene::start(AppendOnly::Off);
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
    // Shown in no order, at any node, even at several at once.
    for (index, place) in scene.places[ADMITTED..].iter().enumerate().rev() {
        let mut client = scene.nodes.all()[index % 2].visitor();
        assert_eq!(&place_of(&mut client, &place.request_id), place);
    }
    let newcomer = LinePlace::of(&native::join(&mut scene.line(0).public, "Hall").expect("an answer"));
    assert!(scene.places.iter().all(|place| place < &newcomer), "{newcomer:?}");
    assert!(!newcomer.is_admitted);
    for server in scene.nodes.all() {
        let mut operator = server.operator();
        wait_until("the node tells that it learns", TIMEOUT, || {
            json_of(&mut operator, "/rooms/Hall")["standstill"] == "recovering"
        });
        let room = json_of(&mut operator, "/rooms/Hall");
        assert_eq!(
            (held(&room), &room["figures"]["serving"]),
            (0, &room["generations"][0]["base"]),
            "{room}"
        );
    }
    assert_eq!(scene.line(1).claim(&scene.places[ADMITTED].request_id).status, 202);
    if full() {
        let mut operator = scene.nodes.all()[0].operator();
        wait_until("it has learned enough", LEARNING_TIMEOUT, || {
            json_of(&mut operator, "/rooms/Hall")["standstill"] != "recovering"
        });
        let places: Vec<LinePlace> = scene.places[ADMITTED..].iter().cloned().chain([newcomer]).collect();
        serve_everybody(scene.nodes.all(), "Hall", &places);
    }
}
