//! The limiter on one node, over HTTP: who is refused, with which response, and how a client is identified.

use anteroom_testkit::{Request, Server, aws, wait_until};
use serde_json::json;

use crate::limiter_support::{TIMEOUT, decided, join, join_with, joins, members, remaining, server};
use crate::support::BINARY;
use crate::support::metrics::metric;

#[test]
fn a_client_over_its_budget_gets_429_and_everything_it_needs_to_know() {
    let server = server(&joins("join", "ip", 3)).memory().start().unwrap();
    let mut client = server.visitor();
    for left in [2, 1, 0] {
        let joined = join(&mut client, "203.0.113.7");
        assert_eq!((joined.status, remaining(&joined, "join")), (200, left), "{joined:?}");
        assert_eq!(joined.header("Retry-After"), None);
        assert!(joined.header_lists("Access-Control-Expose-Headers", "RateLimit"), "{joined:?}");
    }
    let refused = join(&mut client, "203.0.113.7");
    assert_eq!((refused.status, refused.problem().as_str()), (429, "quota-exceeded"), "{refused:?}");
    assert_eq!(refused.json()["violated-policies"], json!(["join"]));
    assert_eq!(refused.header("Cache-Control"), Some("no-store"));
    assert_eq!(refused.header("Access-Control-Allow-Origin"), Some("*"));
    let retry_after: i64 = refused.header("Retry-After").expect("when to come back").parse().unwrap();
    assert!(retry_after > 0, "{refused:?}");
    // Exactly these fields, as a parser of structured fields reads them.
    let whole = |name: &str, value: i64| (name.to_owned(), value);
    let policy = ("join".to_owned(), vec![whole("q", 3), whole("w", 8_640_000)]);
    assert_eq!(members(&refused, "RateLimit-Policy"), [policy]);
    let standing = ("join".to_owned(), vec![whole("r", 0), whole("t", retry_after)]);
    assert_eq!(members(&refused, "RateLimit"), [standing]);
    assert_eq!(refused.header("X-RateLimit-Limit"), None, "only if they are asked for");

    // The same budget on AWS's path and under the prefix, in their styles; others have their own, and looks are free.
    let mut assign = Request::post_json("/assign_queue_num", &json!({ "event_id": "Hall" }));
    assign = assign.header("X-Forwarded-For", "203.0.113.7");
    let refused = client.send(&assign).unwrap();
    assert_eq!(refused.status, 429);
    assert!(refused.error().contains("the budget join is used up"), "{refused:?}");
    assert!(refused.header("Retry-After").is_some());
    let prefixed = Request::post_json("/.anteroom/join", &json!({ "room": "Hall" }));
    assert_eq!(client.send(&prefixed.header("X-Forwarded-For", "203.0.113.7")).unwrap().status, 429);
    assert_eq!(join(&mut client, "203.0.113.8").status, 200);
    let look = Request::new("GET", "/rooms/Hall").header("X-Forwarded-For", "203.0.113.7");
    let looked = client.send(&look).unwrap();
    assert_eq!((looked.status, looked.header("RateLimit")), (200, None));
    assert_eq!(
        aws::waiting_num(&mut client, "Hall").unwrap().json()["waiting_num"],
        json!(4),
        "refusals change nothing"
    );

    assert_eq!((decided(&server, "join", "allowed"), decided(&server, "join", "dropped")), (4, 3));
    // Two looks have a budget too.
    assert_eq!(metric(&server, "anteroom_limiter_decision_seconds_count"), 9);
    assert_eq!(metric(&server, "anteroom_limiter_breaker_open"), 0);
    let refusals = "anteroom_requests_total{listener=\"public\",route=\"/join\",status=\"429\"}";
    assert_eq!(metric(&server, refusals), 2);
}

#[test]
fn a_question_of_a_browser_costs_no_join() {
    let server = server(&joins("join", "ip", 1)).memory().start().unwrap();
    let mut client = server.visitor();
    for _ in 0..3 {
        let preflight = Request::new("OPTIONS", "/join")
            .header("Origin", "https://shop.example")
            .header("Access-Control-Request-Method", "POST")
            .header("X-Forwarded-For", "203.0.113.7");
        assert_eq!(client.send(&preflight).unwrap().status, 200);
    }
    assert_eq!(join(&mut client, "203.0.113.7").status, 200);
    assert_eq!(join(&mut client, "203.0.113.7").status, 429);
}

#[test]
fn no_client_escapes_by_what_it_says_about_itself() {
    // Nobody is trusted: every connection comes from this machine, whatever it says.
    let config = format!("limits_exempt = \"none\"\n{}[[room]]\nid = \"Hall\"\n", joins("join", "ip", 2));
    let server = Server::builder(BINARY).memory().config(config).start().unwrap();
    let mut client = server.visitor();
    let statuses: Vec<u16> =
        (1..=4).map(|number| join(&mut client, &format!("203.0.113.{number}")).status).collect();
    assert_eq!(statuses, [200, 200, 429, 429]);
    drop(server);

    // A proxy is trusted, and what it wrote is the last entry: what the client wrote before that changes nothing.
    let server = crate::limiter_support::server(&joins("join", "ip", 2)).memory().start().unwrap();
    let mut client = server.visitor();
    let statuses: Vec<u16> = (1..=4)
        .map(|number| join(&mut client, &format!("198.51.100.{number}, 203.0.113.7")).status)
        .collect();
    assert_eq!(statuses, [200, 200, 429, 429]);
    // Nor does another spelling of the same address, a port, or another address of the same household.
    for same in ["::ffff:203.0.113.7", "203.0.113.7:4711", "203.0.113.7, 127.0.0.1"] {
        assert_eq!(join(&mut client, same).status, 429, "{same}");
    }
    let statuses: Vec<u16> =
        (1..=4).map(|number| join(&mut client, &format!("2001:db8:1:2::{number}")).status).collect();
    assert_eq!(statuses, [200, 200, 429, 429]);
    assert_eq!(join(&mut client, "2001:db8:1:3::1").status, 200);
    // What is no address is the proxy's own, shared by all who come so.
    let statuses: Vec<u16> = ["unknown", "_a", "rubbish"].map(|said| join(&mut client, said).status).into();
    assert_eq!(statuses, [200, 200, 429]);
}

#[test]
fn a_key_has_a_budget_beside_that_of_its_address() {
    let config =
        format!("limits_legacy_fields = true\n{}{}", joins("keys", "key", 2), joins("join", "ip", 4));
    let server = server(&config).memory().start().unwrap();
    let mut client = server.visitor();
    let mut ask = |address: &str, key: &str| join_with(&mut client, address, &[("X-Client-Key", key)]);
    let joined = ask("203.0.113.7", "one");
    let names = |answer, field| members(answer, field).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    assert_eq!(names(&joined, "RateLimit"), ["join", "keys"], "addresses first");
    assert_eq!(names(&joined, "RateLimit-Policy"), ["join", "keys"]);
    assert_eq!((remaining(&joined, "join"), remaining(&joined, "keys")), (3, 1));
    assert_eq!(
        (joined.header("X-RateLimit-Limit"), joined.header("X-RateLimit-Remaining")),
        (Some("2"), Some("1"))
    );
    assert_eq!(ask("203.0.113.8", "one").status, 200, "a key is the same from everywhere");
    let refused = ask("203.0.113.7", "one");
    assert_eq!((refused.status, refused.json()["violated-policies"].clone()), (429, json!(["keys"])));
    assert_eq!(remaining(&refused, "join"), 3, "a refusal by one budget takes nothing from the other");
    assert_eq!(ask("203.0.113.7", "two").status, 200);
    // Two keys at once are no third one.
    let both = |client: &mut _, other: &str| {
        join_with(client, "203.0.113.9", &[("X-Client-Key", "one"), ("X-Client-Key", other)]).status
    };
    assert_eq!(["a", "b", "c"].map(|other| both(&mut server.visitor(), other)), [200, 200, 429]);
    // A client without a key has the budget of its address only.
    assert_eq!(
        [(); 5].map(|()| join(&mut server.visitor(), "203.0.113.10").status),
        [200, 200, 200, 200, 429]
    );
}

#[test]
fn a_key_is_nowhere_to_be_read() {
    let server = server(&joins("keys", "key", 1)).memory().env("ANTEROOM_LOG", "trace").start().unwrap();
    let mut client = server.visitor();
    for _ in 0..2 {
        join_with(&mut client, "203.0.113.7", &[("X-Client-Key", "hunter2-hunter2")]);
    }
    let figures = server.operator().get("/metrics").unwrap().text();
    assert!(!figures.contains("hunter2") && !server.stderr().contains("hunter2"));
}

#[test]
fn reads_have_budgets_where_somebody_wants_them_and_caches_are_told_nothing_of_them() {
    let read = "[[limit]]\nname = \"looks\"\nclass = \"read\"\nrequests = 3\nper_seconds = 8640000\n";
    let server = server(read).memory().start().unwrap();
    let mut client = server.visitor();
    let mut look = |target: &str, address: &str| {
        client.send(&Request::new("GET", target).header("X-Forwarded-For", address)).unwrap()
    };
    for _ in 0..3 {
        let looked = look("/serving_num?event_id=Hall", "203.0.113.7");
        assert_eq!(
            (looked.status, looked.header("RateLimit")),
            (200, None),
            "the next one may get it from a cache"
        );
    }
    let refused = look("/serving_num?event_id=Hall", "203.0.113.7");
    assert_eq!((refused.status, refused.header("Cache-Control")), (429, Some("no-store")));
    assert_eq!(remaining(&refused, "looks"), 0);
    assert!(refused.error().contains("looks"), "{refused:?}");
    assert_eq!(look("/problems", "203.0.113.8").status, 200);
    let unknown = look("/nowhere", "203.0.113.8");
    assert_eq!((unknown.status, remaining(&unknown, "looks")), (404, 1), "also what is not there");
}

#[test]
fn a_dear_request_costs_more_and_another_spelling_of_its_path_does_not_help() {
    let tables = "[[limit]]\nname = \"looks\"\npaths = [\"/problems\"]\nmethods = [\"GET\"]\ncost = 10\nrequests = 25\n\
        per_seconds = 8640000\n[[limit]]\nname = \"looks\"\nclass = \"read\"\n";
    let server = server(tables).memory().start().unwrap();
    let mut client = server.visitor();
    let mut look = |target: &str| {
        let request = Request::new("GET", target).header("X-Forwarded-For", "203.0.113.7");
        remaining(&client.send(&request).unwrap(), "looks")
    };
    assert_eq!(look("/nowhere"), 24);
    assert_eq!(look("/problems/"), 14);
    assert_eq!(look("/x/..//%70roblems"), 4);
    assert_eq!(look("/problems"), 4, "too dear");
    assert_eq!(look("/nowhere"), 3, "but there is something left");
}

#[test]
fn who_is_on_this_machine_is_not_limited_unless_somebody_says_so() {
    let config = format!("{}[[room]]\nid = \"Hall\"\n", joins("join", "ip", 1));
    let server = Server::builder(BINARY).memory().config(config).start().unwrap();
    let mut client = server.visitor();
    for _ in 0..5 {
        let joined = client.post("/join", &json!({ "room": "Hall" })).unwrap();
        assert_eq!((joined.status, joined.header("RateLimit")), (200, None));
    }
    assert_eq!(decided(&server, "join", "allowed"), 0);
}

#[test]
fn visitors_of_a_proxy_on_this_machine_are_not_exempt_and_one_warning_says_so() {
    let config = format!("{}[[room]]\nid = \"Hall\"\n", joins("join", "ip", 2));
    let server = Server::builder(BINARY).memory().config(config).start().unwrap();
    let mut client = server.visitor();
    // As nginx on the same machine sends it, without `trusted_proxies`: nobody knows whose address that is.
    let statuses = [1, 2, 3, 4].map(|number| join(&mut client, &format!("203.0.113.{number}")).status);
    assert_eq!(statuses, [200, 200, 429, 429]);
    assert_eq!(metric(&server, "anteroom_limiter_untrusted_forwards_total"), 4);
    let warnings = || server.stderr().matches("name the proxy in trusted_proxies").count();
    wait_until("a warning says so", TIMEOUT, || warnings() > 0);
    assert_eq!(warnings(), 1, "{}", server.stderr());
    let direct = client.post("/join", &json!({ "room": "Hall" })).unwrap();
    assert_eq!(direct.status, 200, "health checks and operators stay exempt");
}

#[test]
fn without_a_word_claims_and_reads_have_a_budget() {
    let server = server("").memory().start().unwrap();
    let mut client = server.visitor();
    let forwarded =
        |method: &str, path: &str| Request::new(method, path).header("X-Forwarded-For", "203.0.113.7");
    let claimed = client.send(&forwarded("POST", "/claim")).unwrap();
    let policy =
        |name: &str, requests| (name.to_owned(), vec![("q".to_owned(), requests), ("w".to_owned(), 60)]);
    assert_eq!(members(&claimed, "RateLimit-Policy"), [policy("claim", 3_000)]);
    let looked = client.send(&forwarded("GET", "/nowhere")).unwrap();
    assert_eq!(members(&looked, "RateLimit-Policy"), [policy("read", 60_000)]);
    let refused = (0..3_500).find(|_| client.send(&forwarded("POST", "/claim")).unwrap().status == 429);
    assert!(refused.is_some(), "one address claims without an end");
}

#[test]
fn one_holder_of_a_48_joins_no_more_than_64_households() {
    let server = server(&joins("join", "ip", 2)).memory().start().unwrap();
    let mut client = server.visitor();
    let joined =
        (0..0x1_0000).step_by(0x100).map(|network| join(&mut client, &format!("2001:db8:1:{network:x}::1")));
    assert_eq!(joined.filter(|joined| joined.status == 200).count(), 128);
    assert_eq!(join(&mut client, "2001:db8:2::1").status, 200, "the next /48 has a budget of its own");
}

#[test]
fn without_a_word_joins_have_a_budget_that_a_whole_company_can_share() {
    let config = "limits_exempt = \"none\"\n[[room]]\nid = \"Hall\"\n";
    let server = Server::builder(BINARY).memory().config(config).start().unwrap();
    let joined = join(&mut server.visitor(), "203.0.113.7");
    let policy = ("join".to_owned(), vec![("q".to_owned(), 1_200), ("w".to_owned(), 60)]);
    assert_eq!(members(&joined, "RateLimit-Policy"), [policy]);
    assert_eq!(remaining(&joined, "join"), 1_199);
}

#[test]
fn without_a_word_one_address_moves_few_places() {
    let server = server("").memory().start().unwrap();
    let mut client = server.visitor();
    let ticket = join(&mut client, "203.0.113.7").json()["ticket"].as_str().unwrap().to_owned();
    let moved = |client: &mut anteroom_testkit::Client, address: &str| {
        let request = Request::new("POST", "/move").header("X-Forwarded-For", address);
        client.send(&request.header("Authorization", &ticket)).unwrap()
    };
    let first = moved(&mut client, "203.0.113.7");
    let policy = ("move".to_owned(), vec![("q".to_owned(), 20), ("w".to_owned(), 60)]);
    assert_eq!(members(&first, "RateLimit-Policy"), [policy]);
    assert_eq!((first.status, remaining(&first, "move")), (200, 59));
    let allowed = (0..1_000).take_while(|_| moved(&mut client, "203.0.113.7").status != 429).count();
    assert!((59..100).contains(&allowed), "{allowed}");
    assert_eq!(moved(&mut client, "203.0.113.8").status, 410, "others have a budget of their own");
    assert_eq!(join(&mut client, "203.0.113.7").status, 200, "and who has used it up may do everything else");
}

#[test]
fn a_flood_of_addresses_buys_neither_memory_nor_a_budget() {
    const KEYS_MAX: usize = 1_000;
    let config = format!("limits_keys_max = {KEYS_MAX}\n{}", joins("join", "ip", 2));
    let server = server(&config).memory().start().unwrap();
    let mut client = server.visitor();
    // Somebody who is refused before the flood comes …
    let statuses = [(); 3].map(|()| join(&mut client, "203.0.113.7").status);
    assert_eq!(statuses, [200, 200, 429]);
    // … which has three times as many addresses as there is room for …
    let flood = (0..3 * KEYS_MAX).map(|number| {
        let address = format!("10.{}.{}.{}", number >> 16, number >> 8 & 255, number & 255);
        join(&mut client, &address).status
    });
    let allowed = flood.filter(|status| *status == 200).count();
    assert!((KEYS_MAX - 1..KEYS_MAX + 10).contains(&allowed), "{allowed} of the flood were let through");
    // … is refused as before, because what it took is not forgotten to make room.
    assert_eq!(join(&mut client, "203.0.113.7").status, 429);
    assert!(metric(&server, "anteroom_limiter_overflow_total") >= 1_990);
    // Who comes now shares what is left of one budget with all the others who came too late.
    assert_eq!(join(&mut client, "198.51.100.1").status, 429);
}

#[test]
fn mistakes_in_limits_keep_the_server_from_starting_and_are_told_all_at_once() {
    let file = "limits_exempt = \"everybody\"\nlimits_budget_milliseconds = 0\n[[limit]]\nname = \"x\"\nrequests = 10\n\
        class = \"joins\"\n[[limit]]\nname = \"y\"\nby = \"key\"\nrequests = 1\nper_seconds = 1\ncost = 5\n";
    let ended = Server::builder(BINARY).memory().config(file).run_to_end().unwrap();
    assert_eq!(ended.status.code(), Some(2), "{}", ended.stderr);
    for told in [
        ".toml:1: limits_exempt = \"everybody\": `everybody` is no network",
        ".toml:2: limits_budget_milliseconds = 0: expected a whole number from 1 to 1000",
        ".toml:3: this [[limit]] has no `per_seconds`",
        ".toml:6: class = \"joins\": expected one of \"join\", \"claim\", \"move\", \"read\", \"gateway\", \"all\"",
        ".toml:12: cost = 5: a request that costs 5 is never allowed with a burst of 1",
    ] {
        assert!(ended.stderr.contains(told), "{told}:\n{}", ended.stderr);
    }
    assert!(ended.stderr.contains("\nhint: "), "{}", ended.stderr);
}

#[test]
fn entering_and_leaving_are_charged_as_claims_and_taking_a_place_as_a_move_also_on_the_host_of_a_site() {
    for origin in ["", "origin = \"http://127.0.0.1:9\"\n"] {
        let claims =
            joins("claim", "ip", 3).replace("class = \"join\"", "class = \"claim\"\npaths = [\"/line\"]");
        let moves = claims.replace("\"claim\"", "\"move\"").replace("requests = 3", "requests = 1");
        let server = server(&format!("{origin}{claims}{moves}")).memory().start().unwrap();
        let mut client = server.visitor();
        let mut call = |method: &str, call: &str, address: &str| {
            let request = Request::new(method, &format!("/.anteroom/line{call}?room=Hall&code=x"))
                .header("Accept", "application/json")
                .header("X-Forwarded-For", address);
            client.send(&request).unwrap().status
        };
        // A look costs nothing, and a join is charged to another budget.
        for _ in 0..5 {
            assert_eq!(call("GET", "", "203.0.113.7"), 200, "{origin}");
            assert_eq!(call("GET", "/take", "203.0.113.7"), 410, "{origin}");
        }
        assert_ne!(call("POST", "/join", "203.0.113.7"), 429, "{origin}");
        for each in ["/enter", "/leave", "/leave", "/take"] {
            assert_ne!(call("POST", each, "203.0.113.7"), 429, "{origin} {each}");
        }
        for each in ["/enter", "/leave", "/take"] {
            assert_eq!(call("POST", each, "203.0.113.7"), 429, "{origin} {each}");
            assert_ne!(call("POST", each, "203.0.113.8"), 429, "{origin} {each}: others have their own");
        }
    }
}
