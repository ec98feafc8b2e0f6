//! Keys and tokens as the waiting room makes them, a server for key sets, and a clock.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anteroom_guard::{Clock, Guard, GuardBuilder, Pass, Refusal};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256,
    RSA_PKCS1_SHA512, RsaEncoding, RsaKeyPair,
};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

pub(crate) const NOW: u64 = 1_800_000_000;
pub(crate) const ISSUER: &str = "https://wait.example.com";
pub(crate) const ROOM: &str = "Sale";
pub(crate) const SUBJECT: &str = "0123abcd-ef01-8234-9678-9abcdef01234";
/// How long a test waits for a state.
const STATE_TIMEOUT: Duration = Duration::from_mins(1);

/// A clock that goes on when a test says so.
#[derive(Default)]
pub(crate) struct TestClock(AtomicU64);

impl TestClock {
    pub(crate) fn advance(&self, seconds: u64) {
        self.0.fetch_add(seconds, Ordering::SeqCst);
    }
}

impl Clock for TestClock {
    fn unix_seconds(&self) -> u64 {
        NOW + self.0.load(Ordering::SeqCst)
    }

    fn elapsed(&self) -> Duration {
        Duration::from_secs(self.0.load(Ordering::SeqCst))
    }
}

/// A key pair.
pub(crate) struct Key {
    pub(crate) kid: String,
    pair: Pair,
}

enum Pair {
    Rsa(RsaKeyPair),
    Ec(EcdsaKeyPair),
    Ed(Ed25519KeyPair),
}

pub(crate) fn base64url(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

impl Key {
    pub(crate) fn new(algorithm: &str, kid: &str) -> Self {
        let pair = match algorithm {
            "RS256" => Pair::Rsa(RsaKeyPair::generate(KeySize::Rsa2048).unwrap()),
            "ES256" => Pair::Ec(EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap()),
            _ => Pair::Ed(Ed25519KeyPair::generate().unwrap()),
        };
        Self { kid: kid.to_owned(), pair }
    }

    pub(crate) fn ed(kid: &str) -> Self {
        Self::new("EdDSA", kid)
    }

    pub(crate) fn algorithm(&self) -> &'static str {
        match self.pair {
            Pair::Rsa(_) => "RS256",
            Pair::Ec(_) => "ES256",
            Pair::Ed(_) => "EdDSA",
        }
    }

    pub(crate) fn jwk(&self) -> Value {
        let (alg, kid) = (self.algorithm(), &self.kid);
        match &self.pair {
            Pair::Rsa(pair) => {
                let key = pair.public_key();
                let n = base64url(key.modulus().big_endian_without_leading_zero());
                let e = base64url(key.exponent().big_endian_without_leading_zero());
                json!({"kty": "RSA", "alg": alg, "kid": kid, "n": n, "e": e})
            }
            Pair::Ec(pair) => {
                let point = pair.public_key().as_ref();
                let (x, y) = (base64url(&point[1..33]), base64url(&point[33..65]));
                json!({"kty": "EC", "crv": "P-256", "alg": alg, "kid": kid, "x": x, "y": y})
            }
            Pair::Ed(pair) => {
                json!({"kty": "OKP", "crv": "Ed25519", "alg": alg, "kid": kid, "x": base64url(pair.public_key())})
            }
        }
    }

    fn signature(&self, message: &[u8], rsa: &'static dyn RsaEncoding) -> Vec<u8> {
        match &self.pair {
            Pair::Rsa(pair) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(rsa, &SystemRandom::new(), message, &mut signature).unwrap();
                signature
            }
            Pair::Ec(pair) => pair.sign(&SystemRandom::new(), message).unwrap().as_ref().to_vec(),
            Pair::Ed(pair) => pair.sign(message).as_ref().to_vec(),
        }
    }

    pub(crate) fn header(&self) -> Value {
        json!({"alg": self.algorithm(), "kid": self.kid, "typ": "JWT"})
    }

    /// A token with this header, whatever it says.
    pub(crate) fn sign_with_header(&self, header: &Value, claims: &Value) -> String {
        self.sign_text(&header.to_string(), &claims.to_string())
    }

    pub(crate) fn sign_text(&self, header: &str, claims: &str) -> String {
        let message = format!("{}.{}", base64url(header), base64url(claims));
        let signature = self.signature(message.as_bytes(), &RSA_PKCS1_SHA256);
        format!("{message}.{}", base64url(signature))
    }

    /// What the AWS authorizer took, too.
    pub(crate) fn sign_rs512(&self, header: &Value, claims: &Value) -> String {
        let message = format!("{}.{}", base64url(header.to_string()), base64url(claims.to_string()));
        let signature = self.signature(message.as_bytes(), &RSA_PKCS1_SHA512);
        format!("{message}.{}", base64url(signature))
    }

    pub(crate) fn sign(&self, claims: &Value) -> String {
        self.sign_with_header(&self.header(), claims)
    }

    /// A good pass.
    pub(crate) fn pass(&self) -> String {
        self.sign(&claims())
    }
}

pub(crate) fn claims() -> Value {
    json!({
        "aud": ROOM, "exp": NOW + 3_600, "iat": NOW, "iss": ISSUER, "nbf": NOW, "queue_position": 42,
        "sub": SUBJECT, "token_use": "access",
    })
}

/// The usual claims with some of them changed; `null` takes a claim away.
pub(crate) fn claims_with(changes: &Value) -> Value {
    let mut claims = claims();
    for (name, value) in changes.as_object().unwrap() {
        if value.is_null() {
            claims.as_object_mut().unwrap().remove(name);
        } else {
            claims[name] = value.clone();
        }
    }
    claims
}

pub(crate) fn key_set(keys: &[&Key]) -> String {
    json!({ "keys": keys.iter().map(|key| key.jwk()).collect::<Vec<_>>() }).to_string()
}

/// How the key server answers.
#[derive(Clone)]
pub(crate) enum Answer {
    /// 200 with this body.
    Body(String),
    Status(u16),
    /// 200 with a body without end.
    Endless,
    /// Takes the request and says nothing until [`KeyServer::release`].
    Held(String),
    /// Takes the connection and closes it.
    HangUp,
}

/// A server for one key set, on a free port.
pub(crate) struct KeyServer {
    address: SocketAddr,
    shared: Arc<ServerState>,
}

struct ServerState {
    /// The last one is for all later requests.
    answers: Mutex<VecDeque<Answer>>,
    requests: AtomicUsize,
    released: watch::Sender<bool>,
}

impl KeyServer {
    pub(crate) async fn start(answer: Answer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(ServerState {
            answers: Mutex::new([answer].into()),
            requests: AtomicUsize::new(0),
            released: watch::Sender::new(false),
        });
        let state = Arc::clone(&shared);
        tokio::task::spawn(async move {
            loop {
                let Ok((socket, _)) = listener.accept().await else { continue };
                let state = Arc::clone(&state);
                tokio::task::spawn(async move { state.answer(socket).await });
            }
        });
        Self { address, shared }
    }

    pub(crate) async fn with_keys(keys: &[&Key]) -> Self {
        Self::start(Answer::Body(key_set(keys))).await
    }

    /// How it answers from now on.
    pub(crate) fn answer_with(&self, answer: Answer) {
        *self.shared.answers.lock().unwrap() = [answer].into();
    }

    pub(crate) fn requests(&self) -> usize {
        self.shared.requests.load(Ordering::SeqCst)
    }

    /// Lets held answers go.
    pub(crate) fn release(&self) {
        self.shared.released.send_replace(true);
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/.well-known/jwks.json", self.address)
    }
}

impl ServerState {
    async fn answer(&self, mut socket: TcpStream) {
        let mut request = vec![];
        while !request.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            if socket.read_exact(&mut byte).await.is_err() {
                return;
            }
            request.push(byte[0]);
        }
        self.requests.fetch_add(1, Ordering::SeqCst);
        let answer = self.answers.lock().unwrap().front().cloned().unwrap();
        let whole = |body: &str| {
            format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len())
        };
        let text = match answer {
            Answer::Body(body) => whole(&body),
            Answer::Status(status) => {
                format!("HTTP/1.1 {status} Status\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
            }
            Answer::Endless => {
                let head = "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n";
                let mut sent = socket.write_all(head.as_bytes()).await;
                while sent.is_ok() {
                    sent = socket.write_all(&[b' '; 4_096]).await;
                }
                return;
            }
            Answer::Held(body) => {
                let _ = self.released.subscribe().wait_for(|released| *released).await;
                whole(&body)
            }
            Answer::HangUp => return,
        };
        let _ = socket.write_all(text.as_bytes()).await;
    }
}

/// A guard of the room, its key server and its clock.
pub(crate) struct Site {
    pub(crate) guard: Guard,
    pub(crate) server: KeyServer,
    pub(crate) clock: Arc<TestClock>,
}

impl Site {
    pub(crate) async fn with_keys(keys: &[&Key]) -> Self {
        Self::new(KeyServer::with_keys(keys).await, |builder| builder)
    }

    pub(crate) fn new(server: KeyServer, adapt: impl FnOnce(GuardBuilder) -> GuardBuilder) -> Self {
        let clock = Arc::new(TestClock::default());
        let builder = Guard::builder(ISSUER).room(ROOM).keys_url(&server.url()).clock(clock.clone());
        Self { guard: adapt(builder).build().unwrap(), server, clock }
    }

    pub(crate) async fn verify(&self, token: &str) -> Result<Pass, Refusal> {
        self.guard.verify(token).await
    }

    pub(crate) async fn refusal(&self, token: &str) -> Option<Refusal> {
        self.verify(token).await.err()
    }
}

/// Waits until a state is there.
pub(crate) async fn wait_until(what: &'static str, is_there: impl Fn() -> bool) {
    let look = async {
        while !is_there() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(STATE_TIMEOUT, look).await.expect(what);
}
