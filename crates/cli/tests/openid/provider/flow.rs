//! A login from its first page to its last token.

use anteroom_testkit::jwt::{claims, header};
use anteroom_testkit::{Request, Server, now};
use serde_json::{Value, json};

use super::stand::{
    CALLBACK, CHALLENGE, ISSUER, Return, Stand, VERIFIER, basic, come_back, config, decode, escape, form,
    make_client, oauth_error, request_of,
};
use crate::support::BINARY;

#[test]
fn a_visitor_waits_at_the_page_of_the_site_and_goes_back_with_a_code_that_is_tokens() {
    let stand = Stand::start();
    let target = stand.target("");
    let mut browser = stand.waiting(&target);
    let page = browser.open_once(&target);
    assert!(page.text().contains("The &#60;Shop&#62;"), "the page names the site: {page:?}");
    // Other sites learn nothing of it, and its own buttons still say whose they are.
    assert_eq!(page.header("Referrer-Policy"), Some("same-origin"), "{page:?}");
    let policy = page.header("Content-Security-Policy").expect("a policy");
    assert!(policy.contains("frame-ancestors 'none'"), "{policy}");
    assert_eq!(page.header("Access-Control-Allow-Origin"), None, "{page:?}");
    stand.advance();
    let back = come_back(&mut browser, &target);
    assert_eq!(back.address, "https://shop.example/callback");
    assert_eq!((back.get("from"), back.get("state"), back.get("iss")), ("line", "s&= 1", ISSUER));
    let answer = stand.exchange(back.get("code"));
    assert_eq!((answer.status, answer.header("Cache-Control")), (200, Some("no-store")), "{answer:?}");
    assert_eq!(answer.header("Pragma"), Some("no-cache"), "{answer:?}");
    let tokens = answer.json();
    assert_eq!(tokens["token_type"], "Bearer");
    let (id, access) = (of(&tokens, "id_token"), of(&tokens, "access_token"));
    assert_eq!(
        (&id["iss"], &id["aud"], &id["nonce"]),
        (&json!(ISSUER), &json!("Hall"), &json!("n/1")),
        "{id}"
    );
    assert_eq!((&id["token_use"], &id["queue_position"]), (&json!("id"), &json!(1)), "{id}");
    assert_eq!(id["sub"], access["sub"]);
    assert_eq!((&access["aud"], &access["token_use"]), (&json!("Hall"), &json!("access")), "{access}");
    for name in ["iat", "exp", "auth_time"] {
        assert!(id[name].is_u64(), "{name} in {id}");
    }
    assert!(id["at_hash"].is_string(), "{id}");
    assert!(header(tokens["id_token"].as_str().expect("a token"))["kid"].is_string());
    let info = stand.user_info(tokens["access_token"].as_str().expect("a token"));
    assert_eq!((info.status, &info.json()["sub"]), (200, &id["sub"]), "{info:?}");
    assert_eq!(info.header("Access-Control-Allow-Origin"), Some("*"), "{info:?}");
}

fn of(tokens: &Value, name: &str) -> Value {
    claims(tokens[name].as_str().unwrap_or_else(|| panic!("no {name} in {tokens}")))
}

#[test]
fn a_visitor_who_is_inside_gets_a_code_at_once_and_is_the_same_one() {
    let stand = Stand::start();
    let (mut browser, first) = stand.log_in(&stand.target(""));
    let second = Return::of(&browser.open_once(&stand.target("&prompt=none")));
    let third = Return::of(&browser.open_once(&stand.target("")));
    let subjects: Vec<Value> = [&first, &second, &third]
        .map(|back| of(&stand.exchange(back.get("code")).json(), "id_token"))
        .into_iter()
        .map(|id| json!([id["sub"], id["auth_time"]]))
        .collect();
    assert!(subjects.iter().all(|subject| *subject == subjects[0]), "{subjects:?}");
    assert_eq!(stand.line().figures().active, 1);
}

#[test]
fn clients_prove_themselves_by_basic_by_the_form_or_by_pkce_alone() {
    let stand = Stand::start();
    let exchange = |code: &str, authorization: &str| {
        let fields =
            form(&[("grant_type", "authorization_code"), ("code", code), ("redirect_uri", CALLBACK)]);
        let request = Request::new("POST", "/token")
            .header("Content-Type", "application/x-www-form-urlencoded;charset=UTF-8")
            .header("Authorization", authorization);
        stand.send(&request.body(fields))
    };
    let by_basic = exchange(&stand.code(""), &basic(&format!("Hall:{}", stand.secret)));
    assert_eq!(by_basic.status, 200, "{by_basic:?}");
    let escaped = stand.secret.bytes().map(|byte| format!("%{byte:02X}")).collect::<Vec<_>>().concat();
    let by_escaped = exchange(&stand.code(""), &basic(&format!("Hall:{escaped}")));
    assert_eq!(by_escaped.status, 200, "form-decoded: {by_escaped:?}");
    let with_pkce = format!("&code_challenge={CHALLENGE}&code_challenge_method=S256");
    let with_secret = stand.exchange_with(&stand.code(&with_pkce), &[("code_verifier", VERIFIER)]);
    assert_eq!(with_secret.status, 200, "{with_secret:?}");
    let app = "http://127.0.0.1/app";
    make_client(&stand.server, "Hall", &json!({"id": "app", "redirect_addresses": [app], "public": true}));
    let (_, back) = stand.log_in(&request_of("app", "http://127.0.0.1:49152/app", &with_pkce));
    assert_eq!(back.address, "http://127.0.0.1:49152/app", "the port of a loopback address is free");
    let fields = [
        ("grant_type", "authorization_code"),
        ("code", back.get("code")),
        ("redirect_uri", "http://127.0.0.1:49152/app"),
        ("client_id", "app"),
        ("code_verifier", VERIFIER),
    ];
    let public = stand.token(&form(&fields));
    assert_eq!(public.status, 200, "{public:?}");
    assert_eq!(of(&public.json(), "id_token")["aud"], "app");
    assert_eq!(public.header("Access-Control-Allow-Origin"), Some("*"), "an app in a browser reads it");
}

/// RFC 6749 has both parts of Basic form-encoded; `curl -u` and many libraries send them as they are.
#[test]
fn a_secret_with_a_plus_or_a_percent_is_taken_encoded_and_as_it_is() {
    let secret = "a+secret/with%2Bpercents%zz+and=signs-0123456789";
    let client = format!(
        "[[room.client]]\nid = \"shop\"\nredirect_addresses = [\"{CALLBACK}\"]\nsecret_env = \"ANTEROOM_SHOP_SECRET\""
    );
    let server = Server::builder(BINARY).config(config(&client)).env("ANTEROOM_SHOP_SECRET", secret);
    let stand = Stand { server: server.start().expect("the server starts"), secret: secret.to_owned() };
    let exchange = |shown: &str| {
        let (_, back) = stand.log_in(&request_of("shop", CALLBACK, ""));
        let code = back.get("code").to_owned();
        let fields =
            form(&[("grant_type", "authorization_code"), ("code", &code), ("redirect_uri", CALLBACK)]);
        let request = Request::new("POST", "/token")
            .header("Content-Type", "application/x-www-form-urlencoded")
            .header("Authorization", &basic(&format!("shop:{shown}")));
        stand.send(&request.body(fields)).status
    };
    assert_eq!(exchange(secret), 200, "as it is");
    assert_eq!(exchange(&escape(secret)), 200, "form-encoded");
    assert_eq!(exchange(&decode(&secret.replace("%zz", ""))), 401);
}

#[test]
fn every_room_is_a_provider_of_its_own() {
    let stand = Stand::start();
    let secret = make_client(&stand.server, "Other", &json!({"redirect_addresses": [CALLBACK]}));
    let issuer = format!("{ISSUER}/rooms/Other");
    let document = stand.send(&Request::new("GET", "/rooms/Other/.well-known/openid-configuration"));
    assert_eq!((document.status, &document.json()["issuer"]), (200, &json!(issuer)), "{document:?}");
    assert_eq!(document.json()["token_endpoint"], format!("{issuer}/token"));
    let target = format!("/rooms/Other{}", request_of("Other", CALLBACK, ""));
    let mut browser = stand.waiting(&target);
    stand.server.line("Other").advance(1);
    let back = come_back(&mut browser, &target);
    assert_eq!(back.get("iss"), issuer);
    let fields = [
        ("grant_type", "authorization_code"),
        ("code", back.get("code")),
        ("redirect_uri", CALLBACK),
        ("client_id", "Other"),
        ("client_secret", &secret),
    ];
    let elsewhere = stand.token(&form(&fields));
    assert_eq!(oauth_error(&elsewhere), "invalid_client", "the default room does not know it");
    let request = Request::new("POST", "/.anteroom/rooms/Other/token");
    let request = request.header("Content-Type", "application/x-www-form-urlencoded").body(form(&fields));
    let tokens = stand.send(&request);
    assert_eq!(tokens.status, 200, "{tokens:?}");
    assert_eq!(of(&tokens.json(), "id_token")["iss"], issuer);
    let access = tokens.json()["access_token"].as_str().expect("a token").to_owned();
    assert_eq!(oauth_error(&stand.user_info(&access)), "invalid_token", "another room's token");
    let authorization = format!("Bearer {access}");
    for path in ["/rooms/Other/userInfo", "/rooms/Other/userinfo", "/.anteroom/rooms/Other/userinfo"] {
        let info = stand.send(&Request::new("GET", path).header("Authorization", &authorization));
        assert_eq!(info.status, 200, "{path}: {info:?}");
    }
    let posted = Request::new("POST", "/rooms/Other/userInfo");
    let posted = posted.header("Content-Type", "application/x-www-form-urlencoded");
    let posted = stand.send(&posted.body(form(&[("access_token", &access)])));
    assert_eq!(posted.status, 200, "{posted:?}");
    // The board of the room, whose path is the beginning of these, goes on.
    assert_eq!(stand.send(&Request::new("GET", "/rooms/Other")).status, 200);
    let keys = |path: &str| stand.send(&Request::new("GET", path)).json();
    assert_eq!(keys("/rooms/Other/.well-known/jwks.json"), keys("/.well-known/jwks.json"));
}

#[test]
fn the_discovery_document_says_what_is_and_what_is_not() {
    let stand = Stand::start();
    let answer = stand.send(&Request::new("GET", "/.well-known/openid-configuration"));
    assert_eq!(answer.header("Access-Control-Allow-Origin"), Some("*"), "{answer:?}");
    let document = answer.json();
    for (name, value) in [
        ("issuer", json!(ISSUER)),
        ("authorization_endpoint", json!(format!("{ISSUER}/authorize"))),
        ("token_endpoint", json!(format!("{ISSUER}/token"))),
        ("userinfo_endpoint", json!(format!("{ISSUER}/userInfo"))),
        ("jwks_uri", json!(format!("{ISSUER}/.well-known/jwks.json"))),
        ("request_uri_parameter_supported", json!(false)),
        ("request_parameter_supported", json!(false)),
        ("claims_parameter_supported", json!(false)),
        ("grant_types_supported", json!(["authorization_code", "refresh_token"])),
        ("response_types_supported", json!(["code"])),
        ("response_modes_supported", json!(["query"])),
        ("code_challenge_methods_supported", json!(["S256"])),
        ("authorization_response_iss_parameter_supported", json!(true)),
        ("subject_types_supported", json!(["pairwise"])),
        ("id_token_signing_alg_values_supported", json!(["EdDSA"])),
        (
            "token_endpoint_auth_methods_supported",
            json!(["client_secret_basic", "client_secret_post", "none"]),
        ),
    ] {
        assert_eq!(document[name], value, "{name}");
    }
    let claims = document["claims_supported"].as_array().expect("a list");
    for claim in ["sub", "nonce", "auth_time", "at_hash", "token_use", "queue_position"] {
        assert!(claims.contains(&json!(claim)), "{claim}");
    }
}

#[test]
fn a_request_sent_as_a_form_leads_to_the_same_page() {
    let stand = Stand::start();
    let target = stand.target("");
    let (path, query) = target.split_once('?').expect("a query");
    let mut browser = stand.browser();
    let posted = browser.post(path, query);
    assert_eq!(posted.status, 303, "{posted:?}");
    let page = posted.header("Location").expect("a redirect").to_owned();
    assert!(page.starts_with("/.anteroom/rooms/Hall/authorize?"), "{page}");
    browser.open_once(&page);
    stand.advance();
    let back = come_back(&mut browser, &page);
    assert_eq!(back.get("state"), "s&= 1");
    let mut prefixed = stand.browser();
    assert_eq!(prefixed.open_once(&format!("/.anteroom{target}")).situation().as_deref(), Some("arriving"));
}

#[test]
fn figures_count_what_became_of_requests() {
    let stand = Stand::start();
    stand.exchange(&stand.code(""));
    stand.exchange("no code");
    let began = now();
    let metrics = stand.server.operator().get("/metrics").expect("an answer").text();
    for line in [
        "anteroom_openid_requests_total{endpoint=\"authorize\",outcome=\"served\"} 1",
        "anteroom_openid_requests_total{endpoint=\"token\",outcome=\"served\"} 1",
        "anteroom_openid_requests_total{endpoint=\"token\",outcome=\"invalid_grant\"} 1",
        "anteroom_hand_offs_total{room=\"Hall\",handoff=\"openid\"} 1",
    ] {
        assert!(metrics.contains(line), "{line} after {:?}: {metrics}", began.elapsed());
    }
}
