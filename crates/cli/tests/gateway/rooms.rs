//! Which room a request belongs to, what its settings and its state do to newcomers, to those in line and to those inside, and
//! which requests pass by.

use anteroom_testkit::{Answer, Browser, Request, wait_until};
use serde_json::json;

use crate::stand::{SOON, Stand, TIMEOUT, assert_not_inside, assert_not_kept, assert_waits};

/// Asks as a program does, which never gets a place.
fn ask(stand: &Stand, host: &str, path: &str) -> Answer {
    let request = Request::new("GET", path).header("Host", host).header("Accept", "*/*");
    stand.server.visitor().send(&request).expect("an answer")
}

/// The room that the site was told of with the last request for a path.
fn room_of(stand: &Stand, host: &str, path: &str) -> Option<String> {
    let mut browser = stand.browser().of_host(host);
    let answer = browser.open(path);
    assert!(answer.is_from_site(), "{host}{path}: {answer:?}");
    stand.site.last_seen(path).header("Anteroom-Room").map(str::to_owned)
}

#[test]
fn a_request_belongs_to_the_room_that_names_its_host_then_to_that_of_the_longest_path() {
    let room = |id: &str, more: &str| {
        format!("[[room]]\nid = \"{id}\"\ninlet = \"max-size\"\ntotal_active_users = 50\n{more}\n")
    };
    let config = [
        "origin = \"ORIGIN\"\nunknown_hosts = \"pass\"\n".to_owned(),
        room("Tickets", "paths = [\"/tickets\", \"/checkout\"]"),
        room("Vip", "paths = [\"/tickets/vip\"]"),
        room("Shop", "hosts = [\"shop.example.com\"]"),
        room("Cart", "hosts = [\"shop.example.com\", \"www.example.com\"]\npaths = [\"/cart/\"]"),
        room("Idle", ""),
    ];
    let stand = Stand::configured(&config.concat());
    for (host, path, room) in [
        ("example.com", "/tickets", Some("Tickets")),
        ("example.com", "/tickets/1", Some("Tickets")),
        ("example.com", "/checkout/pay", Some("Tickets")),
        ("example.com", "/tickets/vip/1", Some("Vip")),
        ("example.com", "/tickets/vipers", Some("Tickets")),
        ("shop.example.com", "/tickets/vip", Some("Shop")),
        ("SHOP.example.com:8443", "/", Some("Shop")),
        ("shop.example.com", "/cart/1", Some("Cart")),
        ("www.example.com", "/cart/", Some("Cart")),
        ("www.example.com", "/ticketsale", None),
        ("www.example.com", "/", None),
    ] {
        assert_eq!(room_of(&stand, host, path).as_deref(), room, "{host}{path}");
    }
    // What no room is responsible for goes through for everybody, and belongs to no visit.
    let free = ask(&stand, "www.example.com", "/free");
    assert!(free.is_from_site() && free.set_cookies().is_empty(), "{free:?}");
    assert_eq!(stand.site.last_seen("/free").visit(), None);
    assert_not_inside(&ask(&stand, "example.com", "/tickets"));
}

#[test]
fn without_an_origin_what_fits_no_room_is_misdirected() {
    let stand = Stand::configured(
        "[[room]]\nid = \"Hall\"\nhosts = [\"shop.example.com\"]\npaths = [\"/tickets\"]\norigins = [\"ORIGIN\"]\n\
         inlet = \"max-size\"\ntotal_active_users = 5\n[[room]]\nid = \"Plain\"\n",
    );
    assert_eq!(room_of(&stand, "shop.example.com", "/tickets").as_deref(), Some("Hall"));
    let problem = ask(&stand, "shop.example.com", "/other");
    assert_eq!(problem.status, 421, "{problem:?}");
    problem.error();
    let page = stand.browser().of_host("shop.example.com").open("/other");
    assert_eq!(page.status, 421, "{page:?}");
    assert!(page.text().contains("<h1") && page.set_cookies().is_empty(), "{page:?}");
    // Hosts of no room with origins are the API's, as ever.
    let api = ask(&stand, "api.example.com", "/rooms/Plain");
    assert_eq!((api.status, api.json()["room"].clone()), (200, json!("Plain")), "{api:?}");
    assert_eq!(stand.site.requests(), 1);
}

#[test]
fn the_api_is_under_its_prefix_on_a_protected_host_and_the_rest_is_the_sites() {
    let stand = Stand::open(1, "join = \"open\"");
    let mut browser = stand.inside();
    for path in [
        "/rooms/Hall",
        "/join",
        "/status",
        "/serving_num?event_id=Hall",
        "/.well-known/jwks.json",
        "/watch",
        "/line",
    ] {
        let answer = browser.open(path);
        assert!(answer.is_from_site(), "{path}: {answer:?}");
    }
    let before = stand.site.requests();
    let mut client = stand.server.visitor();
    let board = client.get("/.anteroom/rooms/Hall").expect("an answer");
    assert_eq!((board.status, board.json()["room"].clone()), (200, json!("Hall")), "{board:?}");
    let serving = client.get("/.anteroom/serving_num?event_id=Hall").expect("an answer");
    assert_eq!(serving.status, 200, "{serving:?}");
    let joined = client.post("/.anteroom/join", &json!({"room": "Hall"})).expect("an answer");
    assert_eq!(joined.status, 200, "{joined:?}");
    let ticket = joined.json()["ticket"].as_str().expect("a ticket").to_owned();
    let status = Request::new("GET", "/.anteroom/status").header("Authorization", &ticket);
    assert_eq!(client.send(&status).expect("an answer").json()["status"], "waiting");
    assert_eq!(client.get("/.anteroom/nothing").expect("an answer").status, 404);
    assert_eq!(stand.site.requests(), before, "the site sees nothing of it");
}

#[test]
fn each_kind_of_rule_lets_requests_by_and_nothing_else() {
    let stand = Stand::open(0, "");
    let get = |path: &str| Request::new("GET", path);
    let cases: [(&str, Vec<Request>, Vec<Request>); 8] = [
        (
            "path:/static/",
            vec![get("/static/a.css"), get("/static/")],
            vec![get("/static"), get("/statics"), get("/")],
        ),
        ("path:/api", vec![get("/api"), get("/api/x?y")], vec![get("/apis"), get("/x/api")]),
        ("cidr:127.0.0.0/8", vec![get("/"), Request::new("POST", "/")], vec![]),
        ("cidr:10.0.0.0/8", vec![], vec![get("/"), get("/").header("X-Forwarded-For", "10.1.2.3")]),
        (
            "header:X-Probe",
            vec![get("/").header("x-probe", ""), get("/").header("X-Probe", "1")],
            vec![get("/"), get("/").header("X-Probes", "1")],
        ),
        (
            "header:X-Key=opensesame",
            vec![get("/").header("X-Key", "opensesame")],
            vec![get("/").header("X-Key", "opensesam"), get("/").header("X-Key", "OPENSESAME")],
        ),
        (
            "cookie:staff=yes",
            vec![get("/").header("Cookie", "a=b; staff=yes")],
            vec![get("/").header("Cookie", "staff=no"), get("/").header("Cookie", "xstaff=yes")],
        ),
        ("method:OPTIONS", vec![Request::new("OPTIONS", "/")], vec![get("/"), Request::new("POST", "/")]),
    ];
    for (rule, by, refused) in cases {
        stand.set("bypass", &json!([rule]));
        let mut client = stand.server.visitor();
        for request in by {
            let answer = client.send(&request).expect("an answer");
            assert!(
                answer.is_from_site() && answer.set_cookies().is_empty(),
                "{rule} {request:?}: {answer:?}"
            );
        }
        for request in refused {
            let answer = client.send(&request).expect("an answer");
            assert_eq!(answer.status, 503, "{rule} {request:?}: {answer:?}");
        }
    }
    stand.set("bypass", &json!(["cookie:staff"]));
    let staff = get("/").header("Cookie", "staff");
    assert_eq!(stand.server.visitor().send(&staff).expect("an answer").status, 503, "not a cookie");
    let staff = get("/").header("Cookie", "staff=");
    assert!(stand.server.visitor().send(&staff).expect("an answer").is_from_site());
    assert!(stand.site.visits().is_empty() && stand.figure("joined") == 0, "nothing was counted");
    for wrong in ["everything", "path:static", "cidr:10.0.0.0/99", "header:", "method:", "cookie:a b"] {
        let body = json!({"settings": {"bypass": [wrong]}}).to_string();
        let answer = stand
            .server
            .operator()
            .send(&Request::new("PATCH", "/rooms/Hall").body(body))
            .expect("an answer");
        assert!((400..500).contains(&answer.status), "{wrong}: {answer:?}");
    }
}

#[test]
fn passthrough_lets_everybody_through_and_counts_nobody() {
    let stand = Stand::open(1, "");
    let mut inside = stand.inside();
    let (mut waiting, _) = stand.in_line();
    stand.set("queueing_method", &json!("passthrough"));
    for _ in 0..5 {
        let answer = stand.browser().open("/through");
        assert!(answer.is_from_site() && answer.set_cookies().is_empty(), "{answer:?}");
    }
    assert_eq!(stand.site.last_seen("/through").visit(), None);
    assert!(waiting.open("/through").is_from_site() && inside.post("/through", "a").is_from_site());
    assert_eq!((stand.figure("joined"), stand.figure("active")), (2, 1));
    // Back again, everybody is where they were.
    stand.set("queueing_method", &json!("fifo"));
    assert!(inside.open("/in").is_from_site());
    assert_waits(&waiting.open("/"));
}

#[test]
fn reject_turns_away_who_is_neither_inside_nor_in_line() {
    let stand = Stand::open(1, "");
    let mut inside = stand.inside();
    let (mut waiting, _) = stand.in_line();
    stand.set("queueing_method", &json!("reject"));
    let refused = stand.browser().open("/");
    assert_eq!(refused.status, 503, "{refused:?}");
    assert_not_inside(&refused);
    assert!(refused.text().contains("<h1"), "{refused:?}");
    assert_waits(&waiting.open("/"));
    assert!(inside.open("/in").is_from_site());
    assert!(inside.open("/complete").is_from_site());
    waiting.enter("/", SOON, TIMEOUT);
    let json = ask(&stand, "a", "/");
    assert_eq!(
        (json.status, json.header("Content-Type")),
        (503, Some("application/problem+json")),
        "{json:?}"
    );
    // Also by name nobody gets a place.
    let join = stand.browser().post("/.anteroom/line/join", "");
    assert_eq!((join.status, stand.figure("joined")), (503, 2), "{join:?}");
}

#[test]
fn queue_all_keeps_everybody_waiting_and_nobody_out_who_is_in() {
    let stand = Stand::open(5, "");
    let mut inside = stand.inside();
    stand.set("queue_all", &json!(true));
    let (mut waiting, page) = stand.in_line();
    assert_eq!(page.shown_people_ahead(), Some(0), "there is room, and the visitor waits all the same");
    assert!(inside.open("/in").is_from_site());
    assert_waits(&waiting.open("/"));
    assert_eq!(stand.figure("offers"), 0);
    stand.set("queue_all", &json!(false));
    waiting.enter("/", SOON, TIMEOUT);
    assert!(stand.browser().open("/").is_from_site());
}

/// Somebody new, somebody in line, and somebody inside.
fn people(stand: &Stand) -> [Browser; 3] {
    let inside = stand.inside();
    let (waiting, _) = stand.in_line();
    [stand.browser(), waiting, inside]
}

#[test]
fn a_closed_room_takes_nobody_and_keeps_who_is_inside() {
    let stand = Stand::open(1, "");
    let [mut new, mut waiting, mut inside] = people(&stand);
    stand.change(&json!({"state": "closed"}));
    let page = new.open("/");
    assert_eq!(page.status, 503, "{page:?}");
    assert_not_inside(&page);
    assert!(page.text().contains("<h1"), "{page:?}");
    assert_eq!(page.refresh_seconds(), Some(30), "it asks again by itself: {page:?}");
    assert!(inside.open("/in").is_from_site());
    assert!(inside.open("/complete").is_from_site());
    let page = waiting.open("/");
    assert_eq!(page.situation().as_deref(), Some("closed"), "{page:?}");
    assert_not_kept(&page);
    // Open again, the place is kept.
    stand.change(&json!({"state": "open"}));
    waiting.enter("/", SOON, TIMEOUT);
}

#[test]
fn a_paused_room_takes_places_and_lets_nobody_in() {
    let stand = Stand::open(1, "");
    let [mut new, mut waiting, mut inside] = people(&stand);
    stand.change(&json!({"state": "paused"}));
    assert!(inside.open("/in").is_from_site());
    assert!(inside.open("/complete").is_from_site());
    stand.wait_for_figure("active", 0);
    assert_waits(&waiting.open("/"));
    assert!(!new.open("/").is_from_site());
    let page = new.open("/");
    assert_waits(&page);
    assert_eq!(page.shown_people_ahead(), Some(1));
    stand.change(&json!({"state": "open"}));
    waiting.enter("/", SOON, TIMEOUT);
    assert!(waiting.open("/complete").is_from_site());
    new.enter("/", SOON, TIMEOUT);
}

#[test]
fn a_draining_room_serves_its_line_and_takes_nobody_new() {
    let stand = Stand::open(1, "");
    let [mut new, mut waiting, mut inside] = people(&stand);
    stand.change(&json!({"state": "draining"}));
    let page = new.open("/");
    assert_eq!(page.status, 503, "{page:?}");
    assert_not_inside(&page);
    let join = new.post("/.anteroom/line/join", "");
    assert_eq!(join.status, 503, "{join:?}");
    assert_waits(&waiting.open("/"));
    assert!(inside.open("/complete").is_from_site());
    waiting.enter("/", SOON, TIMEOUT);
    assert_eq!(new.open("/").status, 503);
}

#[test]
fn settings_changed_while_running_hold_from_then_on() {
    let stand = Stand::open(1, "");
    let mut inside = stand.inside();
    let (mut waiting, _) = stand.in_line();
    stand.set("total_active_users", &json!(2));
    waiting.enter("/", SOON, TIMEOUT);
    assert!(inside.open("/in").is_from_site());
    // The room moves to another part of the site: there it counts, elsewhere it does not.
    stand.set("paths", &json!(["/sale"]));
    wait_until("the rest is free", TIMEOUT, || stand.browser().open("/elsewhere").is_from_site());
    assert_eq!(stand.site.last_seen("/elsewhere").visit(), None);
    assert!(!stand.browser().open("/sale").is_from_site());
    assert!(inside.open("/sale").is_from_site(), "and who is inside stays");
}

#[test]
fn a_path_written_otherwise_is_under_the_same_prefix_and_passes_by_no_rule() {
    let stand = Stand::configured(
        "origin = \"ORIGIN\"\n[[room]]\nid = \"Hall\"\npaths = [\"/shop\"]\nbypass = [\"path:/shop/static/\"]\n\
         inlet = \"max-size\"\ntotal_active_users = 0\n[[room]]\nid = \"Idle\"\n",
    );
    for path in [
        "/%73hop",
        "//shop",
        "/x/../shop",
        "/./shop/cart",
        "/shop/static/../cart",
        "/shop/static/%2e%2e/cart",
    ] {
        let answer = ask(&stand, "a", path);
        assert_eq!(answer.status, 503, "{path}: {answer:?}");
    }
    assert!(ask(&stand, "a", "/shop/static/a.css").is_from_site());
    assert!(ask(&stand, "a", "/shopping").is_from_site());
    assert_eq!(stand.site.requests(), 2);
}
