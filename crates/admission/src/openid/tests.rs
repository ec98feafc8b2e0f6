//! Logins from code to userInfo, over a store in memory and a clock of the test's own.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use anteroom_core::session::{GRANT_KEPT_MILLIS, GRANTS_MAX, REFRESH_GRACE_MILLIS};
use anteroom_core::settings::Value as SettingValue;
use anteroom_core::{
    Operation, Outcome, Refusal, RoomId, RoomState, SessionStatus, Settings, Ticket, UnixMillis,
};
use anteroom_engine::{Actor, Engine, EngineError};
use anteroom_store::clock::ManualClock;
use anteroom_store::{Clock, MemoryStore, NodeId, Store};
use anteroom_tokens::key_ring::KEY_ANNOUNCE_MS;
use anteroom_tokens::openid::sha256;
use anteroom_tokens::secret::MasterSecrets;
use anteroom_tokens::signer::Signer;
use anteroom_tokens::signing_key::SigningAlgorithm;
use anteroom_tokens::{OpenIdRefreshToken, OpenIdSubject};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use super::clients::ClientTerms;
use super::{CodeRequest, OPENID_CODE_SECONDS, OpenIdClient, OpenIdClients, OpenIdError, OpenIdTokens};
use crate::signing_keys::SigningKeys;
use crate::{Admission, AdmissionError, AdmissionParts, ClaimRequest, RoomView};

const SECRET: &str = "a-master-secret-of-more-than-32-characters";
const START: UnixMillis = UnixMillis(1_800_000_000_000);
const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const ADDRESS: &str = "https://shop.example/callback";
const VERIFIER: &str = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
/// As long as the room's passes live, unless a test says otherwise.
const PASS_SECONDS: u64 = 3_600;
const TIMEOUT: Duration = Duration::from_secs(20);

/// A node with the rooms `Hall` (the default) and `Yard`, each with clients.
struct Node {
    engine: Arc<Engine>,
    admission: Arc<Admission>,
    hall: Arc<RoomView>,
}

/// What a client asks for.
#[derive(Clone, Copy, Default)]
struct CodeTerms<'a> {
    code_challenge: Option<[u8; 32]>,
    nonce: Option<&'a str>,
    offline_access: bool,
}

struct Scene {
    clock: Arc<ManualClock>,
    store: Arc<MemoryStore>,
    node: Node,
}

impl Node {
    async fn start(store: &Arc<MemoryStore>, clock: &Arc<ManualClock>, number: u128) -> Self {
        Self::start_with(store, clock, number, SECRET).await
    }

    async fn start_with(
        store: &Arc<MemoryStore>,
        clock: &Arc<ManualClock>,
        number: u128,
        secrets: &str,
    ) -> Self {
        let (store, clock) = (Arc::clone(store) as Arc<dyn Store>, Arc::clone(clock) as Arc<dyn Clock>);
        let engine = Engine::start(Arc::clone(&store), clock, NodeId(number)).await.unwrap();
        for name in ["Hall", "Yard"] {
            let actor = Actor::System("test");
            let room = engine.create_room(room_id(name), Settings::default(), RoomState::Open, 1, actor);
            room.await.unwrap();
        }
        let secrets = Arc::new(MasterSecrets::parse(secrets).unwrap());
        let keys = SigningKeys::open(&*store, &secrets, SigningAlgorithm::EdDsa, engine.now()).await.unwrap();
        let admission = Arc::new(Admission::new(AdmissionParts {
            engine: Arc::clone(&engine),
            secrets,
            keys,
            signer: Signer::new(1, 16).unwrap(),
            openid_clients: Arc::new(OpenIdClients::open(store).await.unwrap()),
            default_issuer: "https://wait.example".into(),
            default_room: Some(room_id("Hall")),
        }));
        let hall = admission.room("Hall").unwrap();
        Self { engine, admission, hall }
    }

    fn client(&self, room: &str, id: &str) -> Arc<OpenIdClient> {
        self.admission.openid_clients.find(&room_id(room), id).unwrap()
    }

    /// A visitor whose place in a room is claimed.
    async fn enter_room(&self, room: &RoomView) -> Ticket {
        let ticket = room.join(None, CLIENT, self.engine.now()).await.unwrap();
        let operator = Actor::Operator("test".into());
        room.handle.operate(Operation::Advance { by: 1 }, operator).await.unwrap();
        let claim = ClaimRequest::of_visitor(ticket, room.request_ids.seal(&ticket));
        self.admission.begin(room, claim).await.unwrap();
        ticket
    }

    async fn enter(&self) -> Ticket {
        self.enter_room(&self.hall).await
    }

    fn code_with(&self, terms: CodeTerms<'_>, ticket: Ticket, client: &str) -> String {
        let client = self.client("Hall", client);
        let request = CodeRequest {
            client: &client,
            ticket,
            redirect_uri: ADDRESS,
            code_challenge: terms.code_challenge,
            nonce: terms.nonce,
            auth_time_seconds: START.seconds() - 7,
            offline_access: terms.offline_access,
        };
        self.admission.openid_code(&self.hall, request)
    }

    fn code(&self, ticket: Ticket) -> String {
        self.code_with(CodeTerms { nonce: Some("a-nonce"), ..CodeTerms::default() }, ticket, "shop")
    }

    async fn redeem_as(&self, client: &str, code: &str) -> Result<OpenIdTokens, OpenIdError> {
        let client = self.client("Hall", client);
        self.admission.redeem_openid_code(&self.hall, &client, code, ADDRESS, None).await
    }

    async fn redeem(&self, code: &str) -> Result<OpenIdTokens, OpenIdError> {
        self.redeem_as("shop", code).await
    }

    async fn refresh(&self, token: Option<&str>) -> Result<OpenIdTokens, OpenIdError> {
        let client = self.client("Hall", "shop");
        self.admission.refresh_openid(&self.hall, &client, token.unwrap()).await
    }

    /// What userInfo answers, as JSON.
    async fn user_info(&self, token: &str) -> Result<Value, OpenIdError> {
        let answer = self.admission.openid_user_info(&self.hall, token).await?;
        Ok(serde_json::to_value(answer).unwrap())
    }

    async fn set(&self, name: &str, value: SettingValue) {
        let mut settings = self.hall.handle.with_board(|board| (*board.settings).clone());
        settings.set(name, &value).unwrap();
        let change = Operation::reconfigure(settings, None);
        self.hall.handle.operate(change, Actor::Operator("test".into())).await.unwrap();
    }
}

impl Scene {
    async fn start() -> Self {
        Self::start_on(MemoryStore::default()).await
    }

    async fn start_on(store: MemoryStore) -> Self {
        let (clock, store) = (Arc::new(ManualClock::at(START)), Arc::new(store));
        let node = Node::start(&store, &clock, 1).await;
        let clients = [("Hall", "shop", false), ("Hall", "app", true), ("Yard", "shop", false)];
        for (room, id, is_public) in clients {
            let terms = ClientTerms {
                id: Some(id.into()),
                redirect_addresses: vec![ADDRESS.into()],
                is_public,
                access_token_seconds: (id == "app").then_some(300),
                id_token_seconds: (id == "app").then_some(60),
                ..ClientTerms::default()
            };
            node.admission.openid_clients.create(&room_id(room), terms, "test", START).await.unwrap();
        }
        Self { clock, store, node }
    }

    fn later(&self, seconds: u64) {
        self.clock.advance(seconds * 1_000);
    }
}

fn room_id(name: &str) -> RoomId {
    RoomId::parse(name).unwrap()
}

fn part(token: &str, index: usize) -> Value {
    let part = token.split('.').nth(index).unwrap();
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap()
}

fn claims(token: &str) -> Value {
    part(token, 1)
}

#[track_caller]
fn assert_invalid_grant<T>(result: Result<T, OpenIdError>, contains: &str) {
    match result {
        Err(OpenIdError::InvalidGrant(why)) => assert!(why.contains(contains), "{why}"),
        Err(other) => panic!("{other:?}"),
        Ok(_) => panic!("it was not refused"),
    }
}

#[track_caller]
fn assert_invalid_token(result: Result<Value, OpenIdError>) {
    match result {
        Err(OpenIdError::InvalidToken(_)) => {}
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_code_becomes_the_tokens_of_one_login() {
    let scene = Scene::start().await;
    let node = &scene.node;
    let ticket = node.enter().await;
    let tokens = node.redeem(&node.code(ticket)).await.unwrap();
    let (access, id) = (claims(&tokens.access_token), claims(&tokens.id_token));
    let now = START.seconds();
    assert_eq!(
        access,
        json!({
            "aud": "Hall", "client_id": "shop", "exp": now + PASS_SECONDS, "iat": now, "iss": "https://wait.example", "nbf": now,
            "queue_position": 1, "grant": access["grant"], "sub": access["sub"], "token_use": "access",
        })
    );
    assert_eq!(
        id,
        json!({
            "at_hash": id["at_hash"], "aud": "shop", "auth_time": now - 7, "exp": now + PASS_SECONDS, "iat": now,
            "iss": "https://wait.example", "nbf": now, "nonce": "a-nonce", "queue_position": 1, "sub": access["sub"],
            "token_use": "id",
        })
    );
    assert_eq!((tokens.expires_in, tokens.scope.as_str()), (PASS_SECONDS, "openid"));
    let subject = access["sub"].as_str().unwrap();
    let request_id = anteroom_tokens::request_id::format(node.hall.request_ids.seal(&ticket));
    assert_ne!(subject, request_id);
    assert_eq!(
        node.user_info(&tokens.access_token).await.unwrap(),
        json!({
            "sub": subject, "client_id": "shop", "room": "Hall", "queue_position": 1, "iat": now, "exp": now + PASS_SECONDS,
            "status": "active",
        })
    );
    // Another login of the same visitor at the same client has the same subject, and another grant.
    let again = node.redeem(&node.code(ticket)).await.unwrap();
    assert_eq!(claims(&again.access_token)["sub"], subject);
    assert_ne!(claims(&again.access_token)["grant"], access["grant"]);
}

#[tokio::test]
async fn tokens_end_with_the_visit_or_sooner_as_the_client_wants() {
    let scene = Scene::start().await;
    let node = &scene.node;
    let ticket = node.enter().await;
    let now = START.seconds();
    let tokens = node.redeem_as("app", &node.code_with(CodeTerms::default(), ticket, "app")).await.unwrap();
    assert_eq!(claims(&tokens.access_token)["exp"], now + 300);
    assert_eq!((tokens.expires_in, claims(&tokens.id_token)["exp"].as_u64()), (300, Some(now + 60)));
    scene.later(PASS_SECONDS - 10);
    let tokens = node.redeem_as("app", &node.code_with(CodeTerms::default(), ticket, "app")).await.unwrap();
    assert_eq!((tokens.expires_in, claims(&tokens.id_token)["exp"].as_u64()), (10, Some(now + PASS_SECONDS)));
    let code = node.code(ticket);
    scene.later(10);
    assert_invalid_grant(node.redeem(&code).await, "visit is over");
    assert_invalid_token(node.user_info(&tokens.access_token).await);
}

#[tokio::test]
async fn refresh_tokens_are_for_clients_with_a_secret_and_those_that_ask() {
    let scene = Scene::start().await;
    let node = &scene.node;
    let ticket = node.enter().await;
    let tokens_of = async |client: &str, offline_access: bool| {
        let code = node.code_with(CodeTerms { offline_access, ..CodeTerms::default() }, ticket, client);
        let tokens = node.redeem_as(client, &code).await.unwrap();
        (tokens.refresh_token.is_some(), tokens.scope)
    };
    assert_eq!(tokens_of("shop", false).await, (true, "openid".into()));
    assert_eq!(tokens_of("shop", true).await, (true, "openid offline_access".into()));
    assert_eq!(tokens_of("app", false).await, (false, "openid".into()));
    assert_eq!(tokens_of("app", true).await, (true, "openid offline_access".into()));
    let token = node.redeem(&node.code(ticket)).await.unwrap().refresh_token;
    node.set("disable_session_renewal", SettingValue::Flag(true)).await;
    assert_eq!(tokens_of("shop", true).await, (false, "openid offline_access".into()));
    assert_invalid_grant(node.refresh(token.as_deref()).await, "renews no passes");
}

#[tokio::test]
async fn a_code_shown_by_the_wrong_client_or_with_the_wrong_proof_is_refused_and_stays_good() {
    let scene = Scene::start().await;
    let node = &scene.node;
    let ticket = node.enter().await;
    let (shop, code_challenge) = (node.client("Hall", "shop"), Some(sha256(VERIFIER)));
    let code = node.code_with(CodeTerms { code_challenge, ..CodeTerms::default() }, ticket, "shop");
    let redeem = async |client: &OpenIdClient, address: &str, verifier: Option<&str>| {
        node.admission.redeem_openid_code(&node.hall, client, &code, address, verifier).await
    };
    let app = node.client("Hall", "app");
    assert_invalid_grant(redeem(&app, ADDRESS, Some(VERIFIER)).await, "not one of this client");
    let of_yard = node.client("Yard", "shop");
    assert_invalid_grant(redeem(&of_yard, ADDRESS, Some(VERIFIER)).await, "not one of this client");
    let yard = node.admission.room("Yard").unwrap();
    let in_yard = node.admission.redeem_openid_code(&yard, &of_yard, &code, ADDRESS, Some(VERIFIER)).await;
    assert_invalid_grant(in_yard, "not one of this client");
    for address in [
        "",
        "https://shop.example/callback/",
        "https://shop.example/callbac",
        "HTTPS://shop.example/callback",
    ] {
        assert_invalid_grant(redeem(&shop, address, Some(VERIFIER)).await, "redirect_uri");
    }
    assert_invalid_grant(redeem(&shop, ADDRESS, None).await, "a code_verifier is needed");
    assert_invalid_grant(redeem(&shop, ADDRESS, Some(&VERIFIER.to_lowercase())).await, "not that of");
    let (short, long, umlaut) = (&VERIFIER[1..], "a".repeat(129), format!("{VERIFIER}ä"));
    for malformed in ["", short, &long, &umlaut, &format!("{VERIFIER}="), &format!("{VERIFIER} ")] {
        let refused = redeem(&shop, ADDRESS, Some(malformed)).await;
        assert!(matches!(refused, Err(OpenIdError::InvalidRequest(_))), "{malformed}: {refused:?}");
    }
    assert_eq!(session(node, ticket).await.grants, [], "nothing of it is used up");
    assert!(redeem(&shop, ADDRESS, Some(VERIFIER)).await.is_ok());
}

#[tokio::test]
async fn a_verifier_that_no_challenge_asked_for_is_refused() {
    let scene = Scene::start().await;
    let node = &scene.node;
    let code = node.code(node.enter().await);
    let shop = node.client("Hall", "shop");
    let refused = node.admission.redeem_openid_code(&node.hall, &shop, &code, ADDRESS, Some(VERIFIER)).await;
    assert_invalid_grant(refused, "has no code_challenge");
    assert!(node.redeem(&code).await.is_ok());
}

#[tokio::test]
async fn a_code_is_good_for_a_minute_and_only_as_it_was_sealed() {
    let scene = Scene::start().await;
    let node = &scene.node;
    let ticket = node.enter().await;
    let code = node.code(ticket);
    let long_nonce = "n".repeat(super::NONCE_MAX_BYTES + 1);
    let unusable =
        node.code_with(CodeTerms { nonce: Some(&long_nonce), ..CodeTerms::default() }, ticket, "shop");
    let refresh_token = node.admission.openid_seals.seal_refresh_token(&refresh_token_of(&code, node));
    for wrong in ["", "x", &code[1..], &unusable, &"A".repeat(10_000), &refresh_token] {
        assert_invalid_grant(node.redeem(wrong).await, "too old, or not one");
    }
    scene.later(OPENID_CODE_SECONDS - 1);
    assert!(node.redeem(&code).await.is_ok());
    let late = node.code(ticket);
    scene.later(OPENID_CODE_SECONDS);
    assert_invalid_grant(node.redeem(&late).await, "too old, or not one");
}

fn refresh_token_of(code: &str, node: &Node) -> OpenIdRefreshToken {
    let code = node.admission.openid_seals.open_code(code, START).unwrap();
    OpenIdRefreshToken {
        room: code.room,
        client_id: code.client_id,
        ticket: code.ticket,
        grant: code.grant,
        sequence: 0,
        subject: OpenIdSubject([0; 16]),
        auth_time_seconds: 0,
        offline_access: false,
    }
}

async fn session(node: &Node, ticket: Ticket) -> anteroom_core::Session {
    let stored = node.engine.store().session(node.hall.handle.id(), super::key_of(&ticket)).await;
    stored.unwrap().unwrap()
}

#[tokio::test]
async fn a_code_that_comes_twice_revokes_what_it_gave() {
    let scene = Scene::start().await;
    let node = &scene.node;
    let ticket = node.enter().await;
    let (code, other) = (node.code(ticket), node.code(ticket));
    let (tokens, others) = (node.redeem(&code).await.unwrap(), node.redeem(&other).await.unwrap());
    assert!(node.user_info(&tokens.access_token).await.is_ok());
    for _ in 0..2 {
        assert_invalid_grant(node.redeem(&code).await, "has been used");
        assert_invalid_token(node.user_info(&tokens.access_token).await);
        assert_invalid_grant(node.refresh(tokens.refresh_token.as_deref()).await, "revoked");
    }
    assert!(node.user_info(&others.access_token).await.is_ok(), "another login of the visit goes on");
    assert!(node.refresh(others.refresh_token.as_deref()).await.is_ok());
    assert_eq!(session(node, ticket).await.status, SessionStatus::Active);
}

#[tokio::test]
async fn refresh_tokens_rotate_and_a_used_one_ends_the_visit() {
    let scene = Scene::start().await;
    let node = &scene.node;
    let ticket = node.enter().await;
    let first = node.redeem(&node.code(ticket)).await.unwrap();
    scene.later(100);
    let second = node.refresh(first.refresh_token.as_deref()).await.unwrap();
    let (old, new) = (claims(&first.id_token), claims(&second.id_token));
    for claim in ["sub", "iss", "aud", "auth_time"] {
        assert_eq!(old[claim], new[claim], "{claim}");
    }
    assert_eq!((new["iat"].as_u64(), new.get("nonce")), (Some(START.seconds() + 100), None));
    assert_eq!(second.expires_in, PASS_SECONDS - 100, "a refresh makes no visit longer");
    let third = node.refresh(second.refresh_token.as_deref()).await.unwrap();
    assert!(node.user_info(&third.access_token).await.is_ok());
    let app = node.client("Hall", "app");
    let stranger =
        node.admission.refresh_openid(&node.hall, &app, third.refresh_token.as_deref().unwrap()).await;
    assert_invalid_grant(stranger, "not one of this client");
    for wrong in ["", "x", &node.code(ticket), &"A".repeat(10_000)] {
        assert_invalid_grant(node.refresh(Some(wrong)).await, "not one of this client");
    }
    assert_invalid_grant(node.refresh(first.refresh_token.as_deref()).await, "used before");
    assert_eq!(session(node, ticket).await.status, SessionStatus::Ended(Outcome::Abandoned));
    assert_invalid_token(node.user_info(&third.access_token).await);
    assert_invalid_grant(node.refresh(third.refresh_token.as_deref()).await, "visit is over");
    assert_invalid_grant(node.redeem(&node.code(ticket)).await, "visit is over");
}

#[tokio::test]
async fn user_info_believes_access_tokens_of_the_room_alone() {
    let scene = Scene::start().await;
    let node = &scene.node;
    let ticket = node.enter().await;
    let tokens = node.redeem(&node.code(ticket)).await.unwrap();
    assert!(node.user_info(&tokens.access_token).await.is_ok());
    assert_invalid_token(node.user_info(&tokens.id_token).await);
    // The room's own pass, whose subject is the request id.
    let claim = ClaimRequest::of_visitor(ticket, node.hall.request_ids.seal(&ticket));
    let pass = node.admission.claim(&node.hall, claim).await.unwrap().tokens;
    for token in [&pass.access_token, &pass.refresh_token, &pass.id_token] {
        assert_invalid_token(node.user_info(token).await);
    }
    let yard = node.admission.room("Yard").unwrap();
    let elsewhere = node.admission.openid_user_info(&yard, &tokens.access_token).await;
    assert!(matches!(elsewhere, Err(OpenIdError::InvalidToken(_))), "{elsewhere:?}");
    // Forged: another place, no algorithm, a key that nobody has.
    let [header, payload, signature] = tokens.access_token.split('.').collect::<Vec<_>>()[..] else {
        panic!("a token has three parts")
    };
    let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let mut promoted = claims(&tokens.access_token);
    promoted["queue_position"] = json!(7);
    let mut no_algorithm = part(&tokens.access_token, 0);
    no_algorithm["alg"] = json!("none");
    let mut no_key = part(&tokens.access_token, 0);
    no_key["kid"] = json!("nobody");
    for forged in [
        format!("{header}.{}.{signature}", encode(&promoted)),
        format!("{}.{payload}.", encode(&no_algorithm)),
        format!("{}.{payload}.{signature}", encode(&no_key)),
        format!("{header}.{payload}.{}", "A".repeat(signature.len())),
        format!("{header}.{payload}"),
        String::new(),
    ] {
        assert_invalid_token(node.user_info(&forged).await);
    }
    // Of an issuer that the room no longer is.
    node.set("issuer", SettingValue::Text("https://other.example".into())).await;
    assert_invalid_token(node.user_info(&tokens.access_token).await);
}

#[tokio::test]
async fn user_info_ends_with_the_visit_and_with_the_client() {
    let scene = Scene::start().await;
    let node = &scene.node;
    let (one, two) = (node.enter().await, node.enter().await);
    let of_one = node.redeem(&node.code(one)).await.unwrap();
    let of_two = node.redeem(&node.code(two)).await.unwrap();
    let close = Operation::Close { key: super::key_of(&one), outcome: Outcome::Completed };
    node.hall.handle.operate(close, Actor::Operator("test".into())).await.unwrap();
    assert_invalid_token(node.user_info(&of_one.access_token).await);
    assert!(node.user_info(&of_two.access_token).await.is_ok());
    node.admission.openid_clients.delete((&room_id("Hall"), "shop"), "test", START).await.unwrap();
    assert_invalid_token(node.user_info(&of_two.access_token).await);
}

/// Who makes a client anew under an old id starts anew: what the deleted one had been given stays worthless.
#[tokio::test]
async fn a_client_made_again_under_its_id_revives_no_token_of_the_deleted_one() {
    let scene = Scene::start().await;
    let node = &scene.node;
    let ticket = node.enter().await;
    let (tokens, code) = (node.redeem(&node.code(ticket)).await.unwrap(), node.code(ticket));
    scene.later(1);
    let clients = &node.admission.openid_clients;
    clients.delete((&room_id("Hall"), "shop"), "test", node.engine.now()).await.unwrap();
    let terms = ClientTerms {
        id: Some("shop".into()),
        redirect_addresses: vec![ADDRESS.into()],
        ..ClientTerms::default()
    };
    clients.create(&room_id("Hall"), terms, "test", node.engine.now()).await.unwrap();
    assert_invalid_token(node.user_info(&tokens.access_token).await);
    assert_invalid_grant(node.refresh(tokens.refresh_token.as_deref()).await, "revoked, or is forgotten");
    assert_invalid_grant(node.redeem(&code).await, "not one of this client");
    let tokens = node.redeem(&node.code(ticket)).await.unwrap();
    assert!(node.user_info(&tokens.access_token).await.is_ok());
    assert!(node.refresh(tokens.refresh_token.as_deref()).await.is_ok());
    assert_eq!(session(node, ticket).await.status, SessionStatus::Active);
}

/// A room whose sites learn of new keys late signs logins with the key before, as it does passes.
#[tokio::test]
async fn tokens_are_signed_with_the_key_of_their_room_during_a_rotation() {
    let scene = Scene::start().await;
    let node = &scene.node;
    let (hall, yard) = (&node.hall, node.admission.room("Yard").unwrap());
    node.set("key_overlap_seconds", SettingValue::Number(600)).await;
    let ticket = node.enter().await;
    let first = node.admission.signing_key(hall).kid().to_owned();
    node.admission.keys.rotate(&node.engine, "test").await.unwrap();
    let kids_of = |tokens: &OpenIdTokens| {
        [&tokens.access_token, &tokens.id_token].map(|token| part(token, 0)["kid"].clone())
    };
    scene.later(KEY_ANNOUNCE_MS / 1_000);
    let newest = node.admission.keys.current(node.engine.now()).kid().to_owned();
    assert_eq!(node.admission.signing_key(&yard).kid(), newest);
    assert_eq!(node.admission.signing_key(hall).kid(), first);
    assert_ne!(first, newest);
    let tokens = node.redeem(&node.code(ticket)).await.unwrap();
    assert_eq!(kids_of(&tokens), [json!(first), json!(first)]);
    assert!(node.user_info(&tokens.access_token).await.is_ok());
    scene.later(600);
    let refreshed = node.refresh(tokens.refresh_token.as_deref()).await.unwrap();
    assert_eq!(kids_of(&refreshed), [json!(newest), json!(newest)]);
    for token in [&tokens.access_token, &refreshed.access_token] {
        assert!(node.user_info(token).await.is_ok(), "both keys are published");
    }
}

#[tokio::test]
async fn a_subject_leads_back_to_the_visit_for_every_client_of_the_room() {
    let scene = Scene::start().await;
    let node = &scene.node;
    let (one, two) = (node.enter().await, node.enter().await);
    let subject_of = async |ticket: Ticket, client: &str| {
        let code = node.code_with(CodeTerms::default(), ticket, client);
        let tokens = node.redeem_as(client, &code).await.unwrap();
        claims(&tokens.id_token)["sub"].as_str().unwrap().to_owned()
    };
    let mut subjects = vec![];
    for ticket in [one, two] {
        for client in ["shop", "app"] {
            let subject = subject_of(ticket, client).await;
            assert_eq!(node.admission.ticket_of_subject(&node.hall, &subject), Some(ticket));
            assert_eq!(node.admission.find_subject(&node.hall, &subject).await.unwrap(), Some(ticket));
            subjects.push(subject);
        }
    }
    subjects.sort();
    subjects.dedup();
    assert_eq!(subjects.len(), 4, "each client has its own");
    let yard = node.admission.room("Yard").unwrap();
    assert_eq!(node.admission.ticket_of_subject(&yard, &subjects[0]), None);
    for wrong in ["", "AAAAAAAAAAAAAAAAAAAAAA", &subjects[0][1..]] {
        assert_eq!(node.admission.find_subject(&node.hall, wrong).await.unwrap(), None);
    }
}

#[tokio::test]
async fn the_issuer_is_the_public_url_or_below_it_or_what_the_room_says() {
    let scene = Scene::start().await;
    let node = &scene.node;
    let yard = node.admission.room("Yard").unwrap();
    assert_eq!(node.admission.openid_issuer(&node.hall), "https://wait.example");
    assert_eq!(node.admission.openid_issuer(&yard), "https://wait.example/rooms/Yard");
    node.set("issuer", SettingValue::Text("https://login.shop.example".into())).await;
    assert_eq!(node.admission.openid_issuer(&node.hall), "https://login.shop.example");
}

/// After a rotation of the master secret, too: what an old one sealed is opened, and a login keeps its subject.
#[tokio::test]
async fn a_login_survives_a_rotation_of_the_master_secret() {
    let scene = Scene::start_on(MemoryStore::shared()).await;
    let ticket = scene.node.enter().await;
    let tokens = scene.node.redeem(&scene.node.code(ticket)).await.unwrap();
    let code = scene.node.code(ticket);
    let secrets = format!("another-master-secret-of-more-than-32-characters,{SECRET}");
    let node = Node::start_with(&scene.store, &scene.clock, 2, &secrets).await;
    let refreshed = node.refresh(tokens.refresh_token.as_deref()).await.unwrap();
    let (before, after) = (claims(&tokens.id_token), claims(&refreshed.id_token));
    assert_eq!(before["sub"], after["sub"]);
    assert!(node.user_info(&refreshed.access_token).await.is_ok());
    assert!(node.redeem(&code).await.is_ok());
    let subject = before["sub"].as_str().unwrap();
    assert_eq!(node.admission.find_subject(&node.hall, subject).await.unwrap(), Some(ticket));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_nodes_that_get_a_code_at_the_same_time_exactly_one_gives_tokens() {
    let scene = Scene::start_on(MemoryStore::shared()).await;
    let other = Node::start(&scene.store, &scene.clock, 2).await;
    for _ in 0..20 {
        let ticket = scene.node.enter().await;
        let code = scene.node.code(ticket);
        let (one, two) = tokio::join!(scene.node.redeem(&code), other.redeem(&code));
        let (winner, loser) = if one.is_ok() { (one, two) } else { (two, one) };
        let tokens = winner.expect("one of them");
        assert_invalid_grant(loser, "has been used");
        // Nobody knows which of the two was the thief.
        assert_invalid_token(scene.node.user_info(&tokens.access_token).await);
        assert_invalid_token(other.user_info(&tokens.access_token).await);
    }
    let ticket = scene.node.enter().await;
    let tokens = other.redeem(&scene.node.code(ticket)).await.unwrap();
    assert!(scene.node.user_info(&tokens.access_token).await.is_ok());
    let refresh = tokens.refresh_token.as_deref();
    let (one, two) = tokio::join!(scene.node.refresh(refresh), other.refresh(refresh));
    let (winner, loser) = if one.is_ok() { (one, two) } else { (two, one) };
    assert_invalid_grant(loser, "used a moment ago");
    let winner = winner.expect("one of them");
    assert_invalid_grant(other.refresh(refresh).await, "used a moment ago");
    assert_eq!(session(&other, ticket).await.status, SessionStatus::Active, "two tabs throw nobody out");
    assert!(other.user_info(&winner.access_token).await.is_ok());
    assert!(scene.node.refresh(winner.refresh_token.as_deref()).await.is_ok());
    assert_invalid_grant(other.refresh(refresh).await, "used before");
    assert_eq!(session(&other, ticket).await.outcome(), Some(Outcome::Abandoned));
}

/// After the moment in which two tabs may ask, it is a theft as before.
#[tokio::test]
async fn the_last_used_refresh_token_is_refused_for_a_moment_and_then_ends_the_visit() {
    let scene = Scene::start().await;
    let node = &scene.node;
    let ticket = node.enter().await;
    let first = node.redeem(&node.code(ticket)).await.unwrap().refresh_token;
    scene.later(100);
    let second = node.refresh(first.as_deref()).await.unwrap();
    let signings = node.admission.signer.signings();
    scene.later(REFRESH_GRACE_MILLIS / 1_000 - 1);
    assert_invalid_grant(node.refresh(first.as_deref()).await, "used a moment ago");
    assert!(node.user_info(&second.access_token).await.is_ok());
    scene.later(1);
    assert_invalid_grant(node.refresh(first.as_deref()).await, "used before");
    assert_eq!(node.admission.signer.signings(), signings, "nothing is signed for it");
    assert_eq!(session(node, ticket).await.outcome(), Some(Outcome::Abandoned));
    assert_invalid_token(node.user_info(&second.access_token).await);
}

#[tokio::test]
async fn a_login_too_many_is_refused_before_anything_is_signed_and_fits_in_later() {
    let scene = Scene::start().await;
    let node = &scene.node;
    let ticket = node.enter().await;
    for _ in 0..GRANTS_MAX {
        assert!(node.redeem(&node.code(ticket)).await.is_ok());
    }
    let signings = node.admission.signer.signings();
    let code = node.code(ticket);
    let refused = node.redeem(&code).await.unwrap_err();
    assert_eq!(node.admission.signer.signings(), signings);
    assert_invalid_grant(Err::<(), _>(refused), "logged in too often");
    // The room says the same, should two logins come at once.
    let refusal = EngineError::Refused(Refusal::TooManyGrants);
    assert!(!AdmissionError::from(refusal.clone()).is_unavailable());
    assert_invalid_grant(Err::<(), _>(OpenIdError::from(refusal)), "logged in too often");
    assert_eq!(session(node, ticket).await.grants.len(), GRANTS_MAX);
    scene.later(GRANT_KEPT_MILLIS / 1_000);
    assert!(node.redeem(&node.code(ticket)).await.is_ok());
}

/// While tokens cannot be signed, a code stays good.
#[tokio::test]
async fn a_code_is_used_up_when_its_tokens_are_there_and_not_before() {
    let scene = Scene::start().await;
    let node = &scene.node;
    let ticket = node.enter().await;
    let shop = node.client("Hall", "shop");
    // Where signing was faster than this test, the exchange had gone on to use the code up: then with another code.
    for _ in 0..GRANTS_MAX {
        let code = node.code(ticket);
        let signings = node.admission.signer.signings();
        // Redeeming is given up while its tokens are signed: it is asked to go on once, up to there.
        let mut redeem = Box::pin(node.admission.redeem_openid_code(&node.hall, &shop, &code, ADDRESS, None));
        let mut context = Context::from_waker(Waker::noop());
        assert!(redeem.as_mut().poll(&mut context).is_pending());
        let signed = async {
            while node.admission.signer.signings() == signings {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(TIMEOUT, signed).await.expect("it waits for signatures");
        drop(redeem);
        if node.redeem(&code).await.is_ok() {
            return;
        }
    }
    panic!("each code was used up before its tokens were there");
}
