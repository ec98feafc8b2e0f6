//! What is refused at `/token` and `/userInfo`, one test for each rule.

use anteroom_testkit::jwt::{claims, decode_base64url, encode_base64url, header};
use anteroom_testkit::{Answer, Request};
use serde_json::{Value, json};

use super::stand::{CALLBACK, CHALLENGE, Stand, VERIFIER, basic, form, make_client, oauth_error, request_of};

fn access_token(answer: &Answer) -> String {
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()["access_token"].as_str().expect("a token").to_owned()
}

fn with_pkce() -> String {
    format!("&code_challenge={CHALLENGE}&code_challenge_method=S256")
}

#[test]
fn a_code_is_good_once_and_its_reuse_revokes_what_it_gave() {
    let stand = Stand::start();
    let code = stand.code("");
    let token = access_token(&stand.exchange(&code));
    assert_eq!(stand.user_info(&token).status, 200);
    assert_eq!(oauth_error(&stand.exchange(&code)), "invalid_grant");
    let revoked = stand.user_info(&token);
    assert_eq!((revoked.status, oauth_error(&revoked).as_str()), (401, "invalid_token"));
    assert_eq!(oauth_error(&stand.exchange(&code)), "invalid_grant");
}

#[test]
fn a_code_is_bound_to_its_client_its_address_and_its_challenge() {
    let stand = Stand::start();
    let second = json!({"id": "second", "redirect_addresses": [CALLBACK, "https://shop.example/other"]});
    let secret = make_client(&stand.server, "Hall", &second);
    let of_second = [("client_id", "second"), ("client_secret", secret.as_str())];
    assert_eq!(oauth_error(&stand.exchange_with(&stand.code(""), &of_second)), "invalid_grant");
    let other_address = [("redirect_uri", "https://shop.example/other")];
    assert_eq!(oauth_error(&stand.exchange_with(&stand.code(""), &other_address)), "invalid_grant");
    let no_address = stand.exchange_with(&stand.code(""), &[("redirect_uri", "")]);
    assert_eq!(oauth_error(&no_address), "invalid_request");
    let wrong = VERIFIER.replace('d', "e");
    for (verifier, expected) in
        [("", "invalid_grant"), (wrong.as_str(), "invalid_grant"), ("short", "invalid_request")]
    {
        let refused = stand.exchange_with(&stand.code(&with_pkce()), &[("code_verifier", verifier)]);
        assert_eq!(oauth_error(&refused), expected, "{verifier:?}");
    }
    let without_challenge = stand.exchange_with(&stand.code(""), &[("code_verifier", VERIFIER)]);
    assert_eq!(oauth_error(&without_challenge), "invalid_grant", "a verifier without a challenge");
    for made_up in ["x", "", "AAAA", &"A".repeat(3_000)] {
        let refused = oauth_error(&stand.exchange(made_up));
        assert!(["invalid_grant", "invalid_request"].contains(&refused.as_str()), "{made_up:?}: {refused}");
    }
}

#[test]
fn a_client_that_does_not_prove_itself_gets_nothing() {
    let stand = Stand::start();
    let app = json!({"id": "app", "redirect_addresses": [CALLBACK], "public": true});
    make_client(&stand.server, "Hall", &app);
    let code = stand.code("");
    let secret = stand.secret.as_str();
    for (id, shown) in
        [("Hall", "wrong"), ("Hall", ""), ("Nobody", secret), ("app", secret), ("hall", secret)]
    {
        let refused = stand.exchange_with(&code, &[("client_id", id), ("client_secret", shown)]);
        assert_eq!((refused.status, oauth_error(&refused).as_str()), (401, "invalid_client"), "{id}");
        assert!(
            refused.header("WWW-Authenticate").is_some_and(|value| value.starts_with("Basic ")),
            "{refused:?}"
        );
    }
    let fields = form(&[("grant_type", "authorization_code"), ("code", &code), ("redirect_uri", CALLBACK)]);
    let by = |authorization: &str, fields: &str| {
        let request = Request::new("POST", "/token").header("Authorization", authorization);
        stand.send(&request.header("Content-Type", "application/x-www-form-urlencoded").body(fields))
    };
    for authorization in ["Basic !", "Bearer x", &basic("Hall"), &basic("Hall:wrong"), &basic("Nobody:x")] {
        let refused = by(authorization, &fields);
        assert_eq!(
            (refused.status, oauth_error(&refused).as_str()),
            (401, "invalid_client"),
            "{authorization}"
        );
    }
    let both = by(&basic(&format!("Hall:{secret}")), &format!("{fields}&client_secret={secret}"));
    assert_eq!((both.status, oauth_error(&both).as_str()), (400, "invalid_request"), "two methods");
    let two_names = by(&basic(&format!("Hall:{secret}")), &format!("{fields}&client_id=app"));
    assert_eq!(oauth_error(&two_names), "invalid_request");
    assert_eq!(stand.exchange(&code).status, 200, "the code is not used up by any of this");
}

#[test]
fn a_request_for_tokens_that_cannot_be_understood_changes_nothing() {
    let stand = Stand::start();
    let code = stand.code("");
    for (more, expected) in [
        (("grant_type", ""), "invalid_request"),
        (("grant_type", "password"), "unsupported_grant_type"),
        (("grant_type", "client_credentials"), "unsupported_grant_type"),
        (("grant_type", "refresh_token"), "invalid_request"),
        (("code", ""), "invalid_request"),
    ] {
        assert_eq!(oauth_error(&stand.exchange_with(&code, &[more])), expected, "{more:?}");
    }
    for body in ["code=a&code=b", "grant_type=authorization_code&grant_type=authorization_code", "a=%ff"] {
        assert_eq!(oauth_error(&stand.token(body)), "invalid_request", "{body}");
    }
    let json = Request::post_json("/token", &json!({"grant_type": "authorization_code", "code": code}));
    assert_eq!(oauth_error(&stand.send(&json)), "invalid_request");
    let read = stand.send(&Request::new("GET", "/token"));
    assert_eq!((read.status, oauth_error(&read).as_str()), (405, "invalid_request"));
    assert_eq!(stand.exchange(&code).status, 200);
}

#[test]
fn a_refresh_may_ask_for_what_was_granted_or_less_and_for_no_more() {
    let stand = Stand::start();
    for (asked, offline) in [("openid", false), ("openid offline_access", true)] {
        let (_, back) = stand.log_in(&stand.target("").replace("scope=openid", &form(&[("scope", asked)])));
        let mut tokens = stand.exchange(back.get("code")).json();
        assert_eq!(tokens["scope"], asked);
        let refresh = |tokens: &Value, scope: &str| {
            let token = tokens["refresh_token"].as_str().expect("a refresh token");
            let fields = [
                ("grant_type", "refresh_token"),
                ("refresh_token", token),
                ("redirect_uri", ""),
                ("scope", scope),
            ];
            stand.exchange_with("", &fields)
        };
        let wider = if offline { "openid email" } else { "openid offline_access" };
        for scope in [wider, "openid profile", "OpenID"] {
            let refused = refresh(&tokens, scope);
            assert_eq!((refused.status, oauth_error(&refused).as_str()), (400, "invalid_scope"), "{scope}");
        }
        for scope in [asked, "openid", ""] {
            let renewed = refresh(&tokens, scope);
            assert_eq!(renewed.status, 200, "{scope:?}: {renewed:?}");
            tokens = renewed.json();
        }
    }
}

#[test]
fn refresh_tokens_rotate_and_their_reuse_ends_the_visit() {
    let stand = Stand::start();
    let first = stand.exchange(&stand.code("")).json();
    let refresh = |token: &Value| {
        let token = token["refresh_token"].as_str().expect("a refresh token");
        stand.exchange_with(
            "",
            &[("grant_type", "refresh_token"), ("refresh_token", token), ("redirect_uri", "")],
        )
    };
    let second = refresh(&first);
    assert_eq!(second.status, 200, "{second:?}");
    assert_ne!(second.json()["refresh_token"], first["refresh_token"]);
    assert_eq!(
        claims(second.json()["id_token"].as_str().expect("a token"))["sub"],
        claims(first["id_token"].as_str().expect("a token"))["sub"]
    );
    let access = access_token(&second);
    assert_eq!(oauth_error(&refresh(&first)), "invalid_grant", "two tabs sent it");
    assert_eq!(stand.user_info(&access).status, 200, "which ends nothing");
    let third = refresh(&second.json());
    assert_eq!(third.status, 200, "{third:?}");
    assert_eq!(oauth_error(&refresh(&first)), "invalid_grant", "used before");
    assert_eq!(oauth_error(&refresh(&third.json())), "invalid_grant", "the visit is over");
    assert_eq!(stand.user_info(&access).status, 401);
    assert_eq!(stand.line().figures().active, 0);
}

#[test]
fn only_a_good_access_token_of_this_room_is_answered() {
    let stand = Stand::start();
    let tokens = stand.exchange(&stand.code("")).json();
    let text = |name: &str| tokens[name].as_str().expect("a token").to_owned();
    let access = text("access_token");
    let parts: Vec<&str> = access.split('.').collect();
    let part = |value: &Value| encode_base64url(value.to_string().as_bytes());
    let (mut none, mut hmac, mut claimed) = (header(&access), header(&access), claims(&access));
    none["alg"] = json!("none");
    hmac["alg"] = json!("HS256");
    claimed["queue_position"] = json!(0);
    let mut signature = decode_base64url(parts[2]).expect("base64url");
    signature[5] ^= 1;
    let mut other_issuer = claims(&access);
    other_issuer["iss"] = json!("https://evil.example");
    let mut expired = claims(&access);
    expired["exp"] = json!(1);
    let forged = [
        ("nothing", "x".to_owned()),
        ("the signature of another", format!("{}.{}.{}", parts[0], parts[1], encode_base64url(&signature))),
        ("none", format!("{}.{}.", part(&none), parts[1])),
        ("HS256", format!("{}.{}.{}", part(&hmac), parts[1], parts[2])),
        ("other claims", format!("{}.{}.{}", parts[0], part(&claimed), parts[2])),
        ("another issuer", format!("{}.{}.{}", parts[0], part(&other_issuer), parts[2])),
        ("expired", format!("{}.{}.{}", parts[0], part(&expired), parts[2])),
        ("an ID token", text("id_token")),
        ("a refresh token", text("refresh_token")),
    ];
    for (what, token) in forged {
        let refused = stand.user_info(&token);
        assert_eq!((refused.status, oauth_error(&refused).as_str()), (401, "invalid_token"), "{what}");
        let challenge = refused.header("WWW-Authenticate").expect("a challenge");
        assert!(
            challenge.starts_with("Bearer ") && challenge.contains("error=\"invalid_token\""),
            "{challenge}"
        );
    }
    let request_id = stand.line().join();
    stand.advance();
    let pass = stand.line().tokens(&request_id);
    assert_eq!(stand.user_info(&pass[0]).status, 401, "a pass of another API is for no client");
    assert_eq!(stand.user_info(&access).status, 200);
}

#[test]
fn a_token_is_looked_for_where_it_belongs() {
    let stand = Stand::start();
    let token = access_token(&stand.exchange(&stand.code("")));
    let bare = stand.send(&Request::new("GET", "/userInfo"));
    assert_eq!(bare.status, 401, "{bare:?}");
    let challenge = bare.header("WWW-Authenticate").expect("a challenge");
    assert!(challenge.starts_with("Bearer") && !challenge.contains("error"), "{challenge}");
    let in_query = stand.send(&Request::new("GET", &format!("/userInfo?access_token={token}")));
    assert_eq!(in_query.status, 401, "{in_query:?}");
    let posted = |headers: &[(&str, &str)]| {
        let request = Request::new("POST", "/userInfo");
        let request = request.header("Content-Type", "application/x-www-form-urlencoded");
        let request = headers.iter().fold(request, |request, (name, value)| request.header(name, value));
        stand.send(&request.body(form(&[("access_token", &token)])))
    };
    assert_eq!(posted(&[]).status, 200);
    let bearer = format!("Bearer {token}");
    let twice = posted(&[("Authorization", &bearer)]);
    assert_eq!((twice.status, oauth_error(&twice).as_str()), (400, "invalid_request"));
}

#[test]
fn a_token_lasts_no_longer_than_its_visit_or_its_client_lets_it() {
    let stand = Stand::start();
    let brief = json!({
        "id": "brief", "redirect_addresses": [CALLBACK], "access_token_seconds": 60, "id_token_seconds": 30,
    });
    let secret = make_client(&stand.server, "Hall", &brief);
    let (_, back) = stand.log_in(&request_of("brief", CALLBACK, ""));
    let of_brief = [("client_id", "brief"), ("client_secret", secret.as_str())];
    let tokens = stand.exchange_with(back.get("code"), &of_brief).json();
    assert_eq!(tokens["expires_in"], 60, "{tokens}");
    let id = claims(tokens["id_token"].as_str().expect("a token"));
    assert_eq!(id["exp"].as_u64().expect("a time") - id["iat"].as_u64().expect("a time"), 30, "{id}");
    // The visit ends by the word of the site, which knows nothing but the subject.
    let ended = json!({"event_id": "Hall", "request_id": id["sub"], "status": 1});
    let answer = stand.server.operator().post("/update_session", &ended).expect("an answer");
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(stand.user_info(tokens["access_token"].as_str().expect("a token")).status, 401);
}

#[test]
fn nothing_secret_gets_into_the_log() {
    let stand = Stand::start();
    let code = stand.code("&code_verifier=verifier-in-a-query");
    let tokens = stand.exchange(&code).json();
    stand.exchange(&code);
    let log = stand.server.stderr();
    let secrets = [
        code.as_str(),
        &stand.secret,
        "verifier-in-a-query",
        tokens["access_token"].as_str().expect("a token"),
        tokens["refresh_token"].as_str().expect("a token"),
    ];
    assert!(secrets.iter().all(|secret| !log.contains(secret)), "{log}");
}
