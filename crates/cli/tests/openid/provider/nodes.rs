//! Two nodes on one Redis: what one of them has given is good on the other, and once.

use std::sync::Barrier;
use std::thread;

use anteroom_testkit::redis::RedisProcess;
use anteroom_testkit::{
    Answer, Browser, ChaosProxy, Direction, Fault, Mode, Nodes, Request, require_redis, wait_until,
};
use serde_json::json;

use super::stand::{
    CALLBACK, Return, TIMEOUT, come_back, config, form, make_client, oauth_error, request_of,
};
use crate::support::BINARY;

struct Scene {
    nodes: Nodes,
    secret: String,
}

impl Scene {
    fn of(nodes: Nodes) -> Self {
        let secret = make_client(&nodes.all()[0], "Hall", &json!({"redirect_addresses": [CALLBACK]}));
        let scene = Self { nodes, secret };
        wait_until("the other node knows the client", TIMEOUT, || {
            let clients = scene.nodes.all()[1].operator().get("/rooms/Hall/clients").expect("an answer");
            clients.json()["clients"].as_array().is_some_and(|clients| clients.len() == 1)
        });
        scene
    }

    /// A code that a node has made.
    fn code(&self, node: usize) -> String {
        let server = &self.nodes.all()[node];
        let (mut browser, target) = (Browser::new(server.public()), request_of("Hall", CALLBACK, ""));
        wait_until("the visitor waits", TIMEOUT, || {
            browser.open_once(&target).situation().as_deref() == Some("waiting")
        });
        server.line("Hall").advance(1);
        come_back(&mut browser, &target).get("code").to_owned()
    }

    fn exchange(&self, node: usize, code: &str) -> Answer {
        let fields = form(&[
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", CALLBACK),
            ("client_id", "Hall"),
            ("client_secret", &self.secret),
        ]);
        let request =
            Request::new("POST", "/token").header("Content-Type", "application/x-www-form-urlencoded");
        self.nodes.all()[node].visitor().send(&request.body(fields)).expect("an answer")
    }

    fn user_info(&self, node: usize, tokens: &Answer) -> Answer {
        let token = tokens.json()["access_token"].as_str().expect("a token").to_owned();
        let request = Request::new("GET", "/userInfo").header("Authorization", &format!("Bearer {token}"));
        self.nodes.all()[node].visitor().send(&request).expect("an answer")
    }
}

#[test]
fn a_code_of_one_node_is_exchanged_at_the_other_and_of_two_at_once_one_wins() {
    if !require_redis() {
        return;
    }
    let redis = RedisProcess::start();
    let scene = Scene::of(Nodes::start(BINARY, &config(""), &[redis.url(), redis.url()]));
    let code = scene.code(0);
    let tokens = scene.exchange(1, &code);
    assert_eq!(tokens.status, 200, "{tokens:?}");
    assert_eq!(scene.user_info(0, &tokens).status, 200);
    for _ in 0..5 {
        let (code, start) = (scene.code(1), Barrier::new(2));
        let answers: Vec<Answer> = thread::scope(|scope| {
            let both = [0, 1].map(|node| {
                let (scene, code, start) = (&scene, &code, &start);
                scope.spawn(move || {
                    start.wait();
                    scene.exchange(node, code)
                })
            });
            both.into_iter().map(|one| one.join().expect("no panic")).collect()
        });
        let (good, bad): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer.status == 200);
        assert_eq!((good.len(), bad.len()), (1, 1), "{answers:?}");
        assert_eq!(oauth_error(bad[0]), "invalid_grant");
        wait_until("what the code gave is revoked", TIMEOUT, || scene.user_info(0, good[0]).status == 401);
    }
}

#[test]
fn a_code_from_before_a_failover_is_exchanged_once_after_it() {
    if !require_redis() {
        return;
    }
    let (primary, replica, spare) = (RedisProcess::start(), RedisProcess::start(), RedisProcess::start());
    replica.replica_of(primary.port());
    replica.wait_until_in_sync(&primary);
    let ways = [(); 2].map(|()| ChaosProxy::before(primary.port()));
    let urls: Vec<String> = ways.iter().map(|way| primary.url_through(way.port())).collect();
    let scene = Scene::of(Nodes::start(BINARY, &config(""), &urls));
    let (used, fresh) = (scene.code(0), scene.code(1));
    let tokens = scene.exchange(0, &used);
    assert_eq!(tokens.status, 200, "{tokens:?}");
    replica.wait_until_in_sync(&primary);
    replica.promote();
    spare.replica_of(replica.port());
    for way in &ways {
        way.forward_to(replica.port());
        way.reset_connections();
    }
    // Until the nodes have found the new primary they say that they cannot tell.
    let settled = |code: &str| {
        let mut last = None;
        wait_until("the exchange is answered", TIMEOUT, || {
            let answer = scene.exchange(1, code);
            let is_answered = answer.status != 503;
            last = Some(answer);
            is_answered
        });
        last.expect("an answer")
    };
    let first = settled(&fresh);
    assert_eq!(first.status, 200, "{first:?}");
    assert_eq!(oauth_error(&scene.exchange(0, &fresh)), "invalid_grant");
    assert_eq!(oauth_error(&settled(&used)), "invalid_grant", "what was used before stays used");
}

#[test]
fn while_the_store_is_lost_a_page_holds_the_place_and_a_silent_login_says_so() {
    if !require_redis() {
        return;
    }
    let redis = RedisProcess::start();
    let way = ChaosProxy::before(redis.port());
    let nodes = Nodes::start(BINARY, &config(""), &[redis.url_through(way.port())]);
    let server = &nodes.all()[0];
    let secret = make_client(server, "Hall", &json!({"redirect_addresses": [CALLBACK]}));
    let (target, silent) = (request_of("Hall", CALLBACK, ""), request_of("Hall", CALLBACK, "&prompt=none"));
    let mut browser = Browser::new(server.public());
    wait_until("the visitor waits", TIMEOUT, || {
        browser.open_once(&target).situation().as_deref() == Some("waiting")
    });
    way.set(Mode::Always(Fault::BlackHole(Direction::Both)));
    wait_until("the page holds the place", TIMEOUT, || {
        let page = browser.open_once(&target);
        assert!(page.status != 303, "nobody comes in: {page:?}");
        page.situation().as_deref() == Some("held")
    });
    assert_eq!(Return::of(&browser.open_once(&silent)).error(), "temporarily_unavailable");
    way.set(Mode::Pass);
    wait_until("the place is there again", TIMEOUT, || {
        browser.open_once(&target).situation().as_deref() == Some("waiting")
    });
    wait_until("the line moves", TIMEOUT, || {
        server.operator().get("/readyz").is_ok_and(|answer| answer.status == 200)
    });
    server.line("Hall").advance(1);
    let back = come_back(&mut browser, &target);
    let scene = Scene { nodes, secret };
    assert_eq!(scene.exchange(0, back.get("code")).status, 200);
}

#[test]
fn a_visitor_who_comes_to_the_other_node_goes_on_there() {
    if !require_redis() {
        return;
    }
    let redis = RedisProcess::start();
    let scene = Scene::of(Nodes::start(BINARY, &config(""), &[redis.url(), redis.url()]));
    let target = request_of("Hall", CALLBACK, "");
    let mut browser = Browser::new(scene.nodes.all()[0].public());
    wait_until("the visitor waits", TIMEOUT, || {
        browser.open_once(&target).situation().as_deref() == Some("waiting")
    });
    let mut moved = browser.moved_to(scene.nodes.all()[1].public());
    assert_eq!(moved.open_once(&target).shown_position(), Some(1));
    scene.nodes.all()[0].line("Hall").advance(1);
    let back: Return = come_back(&mut moved, &target);
    assert_eq!(scene.exchange(0, back.get("code")).status, 200);
}
