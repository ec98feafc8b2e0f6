//! "A test lists every route and fails on one that lacks an authorization test for each role, an `OpenAPI` entry, or a limit on
//! its body." The list is the server's own table; a route without a sample call here fails.

use std::collections::BTreeMap;

use anteroom_server::Role;
use anteroom_server::routes::{Access, BodyLimit, PRIVATE_ROUTES, PUBLIC_ROUTES, Route};
use anteroom_testkit::{Client, Request, Server};
use serde_json::{Value, json};

use crate::support::BINARY;

/// A call of every private route that an allowed caller would get through with, whatever it then answers.
fn sample(route: &Route) -> Request {
    let (path, body): (&str, Value) = match (route.method.as_str(), route.path) {
        (
            "POST",
            "/generate_token" | "/update_session" | "/increment_serving_counter" | "/reset_initial_state",
        ) => (route.path, json!({"event_id": "nothing", "request_id": "x", "increment_by": 1, "status": 1})),
        // Its answer goes on; a kind that there is not is looked at after the key.
        ("GET", "/events") => ("/events?types=nothing", Value::Null),
        ("GET", path) if !path.contains('{') => (route.path, Value::Null),
        ("GET", "/rooms/{id}") => ("/rooms/Sample", Value::Null),
        ("GET", "/rooms/{id}/tickets/{request_id}") => ("/rooms/Sample/tickets/x", Value::Null),
        ("PUT" | "PATCH", "/rooms/{id}") => ("/rooms/Sample", json!({"settings": {"nothing": 1}})),
        ("DELETE", "/rooms/{id}") => ("/rooms/nothing", Value::Null),
        ("POST", "/rooms/{id}/clock") => ("/rooms/Sample/clock", Value::Null),
        ("GET", "/rooms/{id}/arrivals") => ("/rooms/Sample/arrivals", Value::Null),
        ("GET", "/rooms/{id}/capacity") => ("/rooms/Sample/capacity", Value::Null),
        ("POST", "/rooms/{id}/capacity") => ("/rooms/Sample/capacity", json!({"surplus": 1})),
        ("DELETE", "/rooms/{id}/capacity/{reporter}") => ("/rooms/Sample/capacity/nobody", Value::Null),
        ("POST", "/rooms/{id}/visits/{visit}") => {
            ("/rooms/Sample/visits/7-7", json!({"command": "complete"}))
        }
        ("POST", "/rooms/{id}/preview") => ("/rooms/Sample/preview", json!({"situation": "nothing"})),
        ("POST", "/alarms") => ("/alarms", json!({"status": "neither"})),
        ("POST", "/keys") => ("/keys", json!({"name": "a b", "role": "viewer"})),
        ("DELETE", "/keys/{name}") => ("/keys/nothing", Value::Null),
        ("GET" | "DELETE", "/rooms/{id}/clients/{client}") => ("/rooms/Sample/clients/nobody", Value::Null),
        ("GET", "/rooms/{id}/clients") => ("/rooms/Sample/clients", Value::Null),
        ("POST", "/rooms/{id}/clients") => ("/rooms/Sample/clients", json!({"redirect_addresses": []})),
        ("POST", "/rooms/{id}/clients/{client}/secrets") => {
            ("/rooms/Sample/clients/nobody/secrets", Value::Null)
        }
        ("DELETE", "/rooms/{id}/clients/{client}/secrets/previous") => {
            ("/rooms/Sample/clients/nobody/secrets/previous", Value::Null)
        }
        ("POST", "/signing_keys" | "/restore") => (route.path, Value::Null),
        ("POST", "/destinations") => ("/destinations", json!({"name": "a b", "kind": "webhook"})),
        ("PATCH", "/destinations/{name}") => ("/destinations/nobody", json!({"batch_max": 1})),
        ("POST", "/destinations/{name}/replay") => ("/destinations/nobody/replay", json!({"after": 0})),
        (_, path) if path.starts_with("/destinations/{name}") => {
            return Request::new(route.method.as_str(), &path.replace("{name}", "nobody"));
        }
        (method, path) => {
            panic!("no sample call of {method} {path}: add one, and what each role may do follows")
        }
    };
    let request = Request::new(route.method.as_str(), path);
    if body.is_null() { request } else { request.body(body.to_string()) }
}

/// What the documents say each role may call; kept apart from the table on purpose.
fn allowed(role: Role, route: &Route) -> bool {
    let reads = [
        "/num_active_tokens",
        "/expired_tokens",
        "/rooms",
        "/rooms/{id}",
        "/alarms",
        "/signing_keys",
        "/metrics",
        "/destinations",
        "/destinations/{name}",
        "/events",
    ];
    let of_rooms = ["/rooms/{id}/tickets/{request_id}", "/rooms/{id}/arrivals", "/rooms/{id}/capacity"];
    let is_read =
        route.method.as_str() == "GET" && (reads.contains(&route.path) || of_rooms.contains(&route.path));
    let of_origins = [
        ("POST", "/update_session"),
        ("POST", "/rooms/{id}/capacity"),
        ("POST", "/rooms/{id}/visits/{visit}"),
        ("POST", "/alarms"),
    ];
    let admins_only = ["/keys", "/keys/{name}", "/audit", "/backup", "/restore"].contains(&route.path)
        || route.path.starts_with("/rooms/{id}/clients")
        || (route.method.as_str() == "POST" && ["/signing_keys", "/destinations"].contains(&route.path))
        || (route.method.as_str() != "GET" && route.path == "/destinations/{name}")
        || route.path.starts_with("/destinations/{name}/secret");
    match role {
        Role::Viewer => is_read,
        Role::Origin => of_origins.contains(&(route.method.as_str(), route.path)),
        Role::Operator => !admins_only,
        Role::Admin => true,
    }
}

#[test]
fn every_private_route_lets_in_the_roles_it_should_and_no_other() {
    let server = Server::builder(BINARY).start().expect("the server starts");
    let mut admin = server.operator();
    let keys: BTreeMap<&str, String> = Role::ALL
        .into_iter()
        .map(|role| {
            let made = admin
                .post("/keys", &json!({"name": role.as_str(), "role": role.as_str()}))
                .expect("an answer as it should be");
            (role.as_str(), made.json()["key"].as_str().expect("a key").to_owned())
        })
        .collect();
    for route in PRIVATE_ROUTES {
        let name = format!("{} {}", route.method.as_str(), route.path);
        let request = sample(route);
        let anonymous =
            Client::new(server.private()).send(&request).expect("an answer as it should be").status;
        if route.access == Access::Open {
            assert!(anonymous < 400, "{name} is open and answered {anonymous}");
        } else {
            assert_eq!(anonymous, 401, "{name} without a key");
        }
        let stranger = Client::new(server.private()).with_bearer("ar_admin_of-somebody-else").send(&request);
        if route.access != Access::Open {
            assert_eq!(
                stranger.expect("an answer as it should be").status,
                401,
                "{name} with an unknown key"
            );
        }
        for role in Role::ALL {
            let mut holder = Client::new(server.private()).with_bearer(&keys[role.as_str()]);
            let status = holder.send(&request).expect("an answer as it should be").status;
            if route.access == Access::Open || allowed(role, route) {
                assert!(![401, 403].contains(&status), "{name}: {} is refused with {status}", role.as_str());
            } else {
                assert_eq!(status, 403, "{name}: {} is not kept out", role.as_str());
            }
        }
    }
}

#[test]
fn every_public_route_is_open_and_says_so() {
    let server = Server::builder(BINARY).start().expect("the server starts");
    let mut anonymous = server.visitor();
    for route in PUBLIC_ROUTES {
        assert_eq!(route.access, Access::Open, "{}", route.path);
        // The live stream does not end, so only its head is asked for.
        let method = if route.path == "/watch" { "HEAD" } else { route.method.as_str() };
        let answer = anonymous.send(&Request::new(method, &route.path.replace("{id}", "Sample"))).unwrap();
        // A ticket may be missing, a key never.
        // A check is not for visitors, whatever they show.
        let is_check = route.path.starts_with("/check/");
        // A client of OpenID is known by what it sends to these, which is no key of ours.
        let is_of_clients =
            route.path.to_lowercase().ends_with("/userinfo") || route.path.ends_with("/token");
        let keyless = is_check == (answer.status == 403)
            && (answer.status != 401 || is_of_clients || answer.problem() == "ticket-missing");
        assert!(keyless && answer.status < 500, "{method} {}: {answer:?}", route.path);
    }
}

/// Sends a body beyond the limit. A call that reads none must not wait for it either.
#[test]
fn every_route_that_reads_a_body_has_a_limit_on_it() {
    let server = Server::builder(BINARY).start().expect("the server starts");
    let too_much = "x".repeat(20_000);
    for (routes, mut client) in [(PUBLIC_ROUTES, server.visitor()), (PRIVATE_ROUTES, server.operator())] {
        for route in routes {
            let name = format!("{} {}", route.method.as_str(), route.path);
            let path = route
                .path
                .replace("{id}", "Sample")
                .replace("{request_id}", "x")
                .replace("{name}", "x")
                .replace("{reporter}", "x")
                .replace("{client}", "x");
            if path == "/watch" || path == "/backup" || path == "/events" {
                continue; // answers that go on; GET, without a body
            }
            match route.body {
                BodyLimit::Configured => {
                    let answer = client
                        .send(&Request::new(route.method.as_str(), &path).body(too_much.clone()))
                        .expect("an answer as it should be");
                    assert_eq!(answer.status, 413, "{name}: {answer:?}");
                    assert_eq!(answer.header("Connection"), Some("close"), "{name}: {answer:?}");
                }
                BodyLimit::Fixed(limit) => {
                    let body = "x".repeat(limit + 1);
                    let answer = client
                        .send(&Request::new(route.method.as_str(), &path).body(body))
                        .expect("an answer as it should be");
                    assert_eq!(answer.status, 413, "{name}: {answer:?}");
                    assert_eq!(answer.header("Connection"), Some("close"), "{name}: {answer:?}");
                }
                BodyLimit::Streamed(limit) => assert!(limit > 0, "{name}"),
                BodyLimit::Nothing => {
                    // The buttons of pages post forms without fields.
                    let is_button = route.path.starts_with("/line/")
                        || route.path == "/wait/{room}/enter"
                        || route.path.starts_with("/rooms/{id}/authorize/");
                    assert!(
                        matches!(route.method.as_str(), "GET" | "DELETE")
                            || is_button
                            || ["/signing_keys", "/rooms/{id}/clock"].contains(&route.path)
                            || route.path.starts_with("/destinations/{name}/"),
                        "{name} takes a body by its nature, but says that it reads none"
                    );
                }
            }
        }
    }
}

#[test]
fn every_route_has_an_entry_in_the_openapi_document() {
    let server = Server::builder(BINARY).start().expect("the server starts");
    for (listener, routes) in [("public", PUBLIC_ROUTES), ("private", PRIVATE_ROUTES)] {
        let document = server
            .operator()
            .get(&format!("/openapi.json?listener={listener}"))
            .expect("an answer as it should be")
            .json();
        let mut documented: Vec<String> = vec![];
        for (path, item) in document["paths"].as_object().expect("paths") {
            for method in item.as_object().expect("methods").keys() {
                documented.push(format!("{} {path}", method.to_uppercase()));
            }
        }
        let mut rows: Vec<String> = routes
            .iter()
            .map(|route| format!("{} {}", route.method.as_str(), route.path.replace("{*", "{")))
            .collect();
        documented.sort();
        rows.sort();
        assert_eq!(documented, rows, "the {listener} document and its table list the same calls");
    }
}
