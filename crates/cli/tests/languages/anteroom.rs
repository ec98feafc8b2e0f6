//! The real binary with two rooms, and the passes that tests present.

use std::time::Duration;

use anteroom_testkit::{Answer, Client, Request, Server, jwt, wait_until};
use serde_json::json;

use crate::forgery;
use crate::support::BINARY;

/// The site as browsers see it. Nobody listens there: a test looks at redirects and does not follow them.
pub(crate) const SITE_URL: &str = "http://shop.example";
/// How long a state may take.
pub(crate) const TIMEOUT: Duration = Duration::from_mins(1);

/// Two rooms that let everybody in at once.
pub(crate) const ROOMS: &str = "
    [[room]]
    id = \"Hall\"
    inlet = \"max-size\"
    total_active_users = 100
    return_addresses = [\"http://shop.example\"]
    [[room]]
    id = \"Other\"
    inlet = \"max-size\"
    total_active_users = 100
";

pub(crate) fn start() -> Server {
    Server::builder(BINARY).memory().config(ROOMS).start().expect("the server starts")
}

/// A new visitor's place in line and their tokens: access, refresh and id.
#[track_caller]
pub(crate) fn admit(server: &Server, room: &str) -> (i64, [String; 3]) {
    let mut line = server.line(room);
    let id = line.join();
    let tokens = line.tokens(&id);
    (line.position(&id), tokens)
}

/// A request with a pass.
pub(crate) fn with_pass(pass: &str) -> Request {
    Request::new("GET", "/").header("Authorization", &format!("Bearer {pass}"))
}

/// Presents a pass.
#[track_caller]
pub(crate) fn present(site: &mut Client, pass: &str) -> Answer {
    site.send(&with_pass(pass)).expect("an answer")
}

/// The pass is refused with 401 and a challenge; Envoy has 403 where the pass is of another room.
#[track_caller]
pub(crate) fn assert_refused(site: &mut Client, what: &str, pass: &str) {
    let answer = present(site, pass);
    let is_of_another_room_at_envoy = answer.status == 403 && answer.text().contains("Audiences in Jwt");
    assert!(answer.status == 401 || is_of_another_room_at_envoy, "{what}: {answer:?}");
    let challenge = answer.header("WWW-Authenticate").unwrap_or_default();
    assert!(challenge.starts_with("Bearer"), "{what}: {answer:?}");
}

/// A good pass gets in, and all that are none do not. A pass may be taken for so long after its end.
#[track_caller]
pub(crate) fn assert_only_good_passes_get_in(
    server: &Server,
    site: &mut Client,
    skew_seconds: u64,
    is_in: impl Fn(&Answer, i64) -> bool,
) {
    admit(server, "Hall");
    let (position, [access, refresh, id]) = admit(server, "Hall");
    let answer = present(site, &access);
    assert!(answer.status == 200 && is_in(&answer, position), "position {position}: {answer:?}");

    let without = site.get("/").expect("an answer");
    assert_eq!(without.status, 401, "{without:?}");
    assert!(
        without.header("WWW-Authenticate").is_some_and(|value| value.starts_with("Bearer")),
        "{without:?}"
    );

    let (_, [of_another_room, ..]) = admit(server, "Other");
    assert_refused(site, "a pass of another room", &of_another_room);
    assert_refused(site, "a refresh token", &refresh);
    assert_refused(site, "an id token", &id);
    let stranger = start();
    assert_refused(site, "a pass of another server", &admit(&stranger, "Hall").1[0]);
    let mut line = server.line("Hall");
    let elsewhere = line.join();
    let elsewhere = line.claim_privately(&elsewhere, &json!({ "issuer": "https://elsewhere.example" }));
    assert_refused(site, "a pass of another issuer", &elsewhere.token_set()[0]);

    let keys = server.visitor().get("/.well-known/jwks.json").expect("an answer").json();
    for (what, forged) in forgery::all(&access, &keys["keys"][0]) {
        assert_refused(site, what, &forged);
    }
    for (what, text) in [("no JWT", "pass"), ("dots", ".."), ("too long", &"a".repeat(5_000))] {
        assert_refused(site, what, text);
    }

    let short = line.join();
    let short = line.claim_privately(&short, &json!({ "validity_period": 1 })).token_set();
    let expires = jwt::claims(&short[0])["exp"].as_u64().expect("a time");
    wait_until("the short pass is over", TIMEOUT, || {
        anteroom_testkit::unix_seconds() > expires + skew_seconds
    });
    assert_refused(site, "a pass that is over", &short[0]);
    assert_eq!(present(site, &access).status, 200, "the good one is still good");
}
