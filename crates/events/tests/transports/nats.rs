//! NATS: subjects, the ways to be let in, and what a stream refuses.

use std::fs;
use std::process::Command;
use std::time::Duration;

use anteroom_core::RoomId;
use anteroom_events::destination::NatsTarget;
use anteroom_events::{EventMessage, OpenedSecrets, Target, transport_of};
use anteroom_testkit::{ReservedPort, wait_until};
use anteroom_tokens::random;
use nkeys::{KeyPair, KeyPairType};
use secrecy::SecretString;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::messages::{message, message_of_server, messages};
use crate::program::{DEADLINE, Program};
use crate::receivers::{Receiver as _, Stream, destination, loopback_policy, nats_server, transport};

const TIMEOUT: Duration = Duration::from_secs(30);

fn target(port: u16) -> NatsTarget {
    NatsTarget {
        url: format!("nats://127.0.0.1:{port}"),
        subject_prefix: "shop.events".into(),
        timeout: TIMEOUT,
    }
}

/// What a sender with this secret is told.
async fn told(port: u16, secret: Option<&str>) -> String {
    let secrets = OpenedSecrets { webhook_keys: vec![], text: secret.map(SecretString::from) };
    let destination = destination(Target::Nats(target(port)), false);
    let transport = transport_of(&destination, secrets, loopback_policy(), None).unwrap();
    transport.send(&messages(1, 1)).await.map_or_else(|failure| failure.reason, |()| "sent".to_owned())
}

/// Who was let in is told this, because there is no stream.
const LET_IN: &str = "no stream takes the subject of the event";
const NOT_LET_IN: &str = "the server did not accept the credentials";

/// A server with this configuration, and without streams.
struct Server {
    _program: Program,
    port: ReservedPort,
    _directory: TempDir,
}

impl Server {
    fn start(configuration: &str) -> Option<Self> {
        let (port, directory) = (ReservedPort::take(), tempfile::tempdir().unwrap());
        let file = directory.path().join("nats.conf");
        fs::write(&file, format!("listen: 127.0.0.1:{}\n{configuration}\n", port.number())).unwrap();
        let program = Program::start(Command::new(nats_server()?).arg("-c").arg(file));
        wait_until("the server listens", DEADLINE, || {
            std::net::TcpStream::connect(("127.0.0.1", port.number())).is_ok()
        });
        Some(Self { _program: program, port, _directory: directory })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subject_names_room_and_kind() {
    let Some(stream) = Stream::start().await else { return };
    let in_room =
        |number, room: &str| EventMessage { room: Some(RoomId::parse(room).unwrap()), ..message(number) };
    let transport = transport(&stream, false);
    for sent in [in_room(4, "Sample"), in_room(5, "shop.eu"), message_of_server(2), in_room(12, "_server")] {
        transport.send(&[sent]).await.unwrap();
    }
    let subjects: Vec<String> = stream.stored().await.into_iter().map(|(subject, _)| subject).collect();
    assert_eq!(
        subjects,
        [
            "shop.events.Sample.room.opened",
            "shop.events.shop%2Eeu.token_generated",
            "shop.events._server.key.created",
            "shop.events.%5Fserver.room.opened",
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_lets_in() {
    let Some(server) = Server::start("authorization { token: \"a-token\" }") else { return };
    let port = server.port.number();
    assert_eq!(told(port, Some("a-token")).await, LET_IN);
    for wrong in [Some("another"), Some("user:a-token"), None] {
        assert_eq!(told(port, wrong).await, NOT_LET_IN);
    }
}

/// A JWT of NATS, signed by `issuer`.
fn jwt(issuer: &KeyPair, subject: &KeyPair, name: &str, nats: &Value) -> String {
    let encode = |value: &Value| data_encoding(value.to_string().as_bytes());
    let header = encode(&json!({ "typ": "JWT", "alg": "ed25519-nkey" }));
    let claims = encode(&json!({
        "jti": name, "iat": 1, "iss": issuer.public_key(), "sub": subject.public_key(), "name": name, "nats": nats,
    }));
    let signed = format!("{header}.{claims}");
    let signature = data_encoding(&issuer.sign(signed.as_bytes()).unwrap());
    format!("{signed}.{signature}")
}

/// Base64 as JWTs have it.
fn data_encoding(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let sextets = |chunk: &[u8]| {
        let joined = chunk
            .iter()
            .enumerate()
            .fold(0_u32, |sum, (place, byte)| sum | u32::from(*byte) << (16 - 8 * place));
        (0..=chunk.len()).map(move |place| char::from(ALPHABET[(joined >> (18 - 6 * place) & 63) as usize]))
    };
    bytes.chunks(3).flat_map(|chunk| sextets(chunk).collect::<Vec<_>>()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_with_a_signature_let_in() {
    let pair = |kind| KeyPair::new_from_raw(kind, random::bytes()).unwrap();
    let (operator, account) = (pair(KeyPairType::Operator), pair(KeyPairType::Account));
    let (user, stranger) = (pair(KeyPairType::User), pair(KeyPairType::User));
    let operator_jwt = jwt(&operator, &operator, "operator", &json!({ "type": "operator", "version": 2 }));
    let unlimited = json!({
        "subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": true, "conn": -1, "leaf": -1,
        "mem_storage": -1, "disk_storage": -1, "streams": -1, "consumer": -1,
    });
    let account_nats = json!({ "type": "account", "version": 2, "limits": unlimited });
    let account_jwt = jwt(&operator, &account, "account", &account_nats);
    let user_nats =
        json!({ "type": "user", "version": 2, "subs": -1, "data": -1, "payload": -1, "pub": {}, "sub": {} });
    let user_jwt = jwt(&account, &user, "user", &user_nats);
    let configuration = format!(
        "operator: {operator_jwt}\nresolver: MEMORY\nresolver_preload {{ {}: {account_jwt} }}",
        account.public_key()
    );
    let Some(server) = Server::start(&configuration) else { return };
    let credentials = |seed: &str| {
        format!(
            "-----BEGIN NATS USER JWT-----\n{user_jwt}\n------END NATS USER JWT------\n\n\
             -----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
        )
    };
    let port = server.port.number();
    assert_eq!(told(port, Some(&credentials(&user.seed().unwrap()))).await, LET_IN);
    assert_eq!(told(port, Some(&credentials(&stranger.seed().unwrap()))).await, NOT_LET_IN);
    let broken = told(port, Some("-----BEGIN NATS USER JWT-----")).await;
    assert_eq!(broken, "the credentials cannot be read");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_no_stream_takes_is_named_and_what_came_before_it_has_arrived() {
    let Some(stream) = Stream::start().await else { return };
    let elsewhere =
        Target::Nats(NatsTarget { subject_prefix: "elsewhere".into(), ..target(stream.port.number()) });
    let sender =
        transport_of(&destination(elsewhere, false), stream.secrets(), loopback_policy(), None).unwrap();
    assert_eq!(sender.send(&messages(1, 1)).await.unwrap_err().reason, LET_IN);

    let mut sent = messages(1, 3);
    sent[2].data = json!({ "text": "a".repeat(2 << 20) });
    let failure = transport(&stream, false).send(&sent).await.unwrap_err();
    assert_eq!((failure.delivered, failure.is_too_large), (2, true), "{failure:?}");
    assert_eq!(failure.reason, "the event is larger than the server takes");
    assert_eq!(stream.stored().await.len(), 2);
}
