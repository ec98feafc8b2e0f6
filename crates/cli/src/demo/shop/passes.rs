//! How a site verifies a pass by itself, with any JWT library: the signature against the server's published keys, for which room it is, who
//! issued it, and whether it has run out.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anteroom_store::clock::Stopwatch;
use http::{HeaderMap, Method, StatusCode};
use jsonwebtoken::jwk::{Jwk, JwkSet};
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use serde::Deserialize;

use crate::http_client::HttpClient;

use super::super::ROOM;

/// Where the server publishes its keys, beside a protected site.
const KEYS_PATH: &str = "/.anteroom/.well-known/jwks.json";
/// A token that names an unknown key makes the shop read the keys again, but no more often than this.
const KEYS_INTERVAL: Duration = Duration::from_secs(5);
/// The longest token that is looked at, in bytes.
const TOKEN_MAX_BYTES: usize = 4_096;

/// A pass that was verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pass {
    /// The request id of its visitor.
    pub(super) subject: String,
    pub(super) expires_at_seconds: u64,
}

/// Why a caller is not served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum PassRefusal {
    #[error(
        "No pass. Join the room `{ROOM}`, wait, claim a pass, and show it: Authorization: Bearer ACCESS_TOKEN"
    )]
    Missing,
    #[error("This is no pass that was signed for the room `{ROOM}`")]
    NotOurs,
    #[error("This pass has run out; join the line again")]
    Expired,
    #[error("The visit of this pass is over; join the line again")]
    Used,
    #[error("The keys of passes are not known")]
    KeysUnknown,
}

/// What the shop knows of the server's keys.
pub(super) struct Passes {
    public: HttpClient,
    issuer: String,
    /// The room whose passes are good.
    room: &'static str,
    clock: Stopwatch,
    keys: Mutex<Keys>,
}

#[derive(Default)]
struct Keys {
    set: Option<JwkSet>,
    asked_at: Option<Duration>,
}

/// What a pass says.
#[derive(Debug, Deserialize)]
struct Claims {
    sub: String,
    exp: u64,
    token_use: String,
}

impl Passes {
    pub(super) fn new(public: HttpClient, issuer: &str, room: &'static str) -> Self {
        Self { public, issuer: issuer.to_owned(), room, clock: Stopwatch::start(), keys: Mutex::default() }
    }

    /// The pass that this token is, or why it is none.
    pub(super) async fn verify(&self, token: &str) -> Result<Pass, PassRefusal> {
        if token.len() > TOKEN_MAX_BYTES {
            return Err(PassRefusal::NotOurs);
        }
        let header = jsonwebtoken::decode_header(token).map_err(|_| PassRefusal::NotOurs)?;
        let key = self.key(&header.kid.ok_or(PassRefusal::NotOurs)?).await?;
        judge(token, &key, &self.issuer, self.room)
    }

    /// The key of this name, read anew if it is not known.
    async fn key(&self, kid: &str) -> Result<Jwk, PassRefusal> {
        let now = self.clock.elapsed();
        {
            let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(found) = keys.set.as_ref().and_then(|set| set.find(kid)) {
                return Ok(found.clone());
            }
            let asked_lately =
                keys.asked_at.is_some_and(|asked_at| now.saturating_sub(asked_at) < KEYS_INTERVAL);
            if keys.set.is_some() && asked_lately {
                return Err(PassRefusal::NotOurs);
            }
            keys.asked_at = Some(now);
        }
        let reply = self.public.request(Method::GET, KEYS_PATH, HeaderMap::new(), None).await;
        let reply =
            reply.ok().filter(|reply| reply.status == StatusCode::OK).ok_or(PassRefusal::KeysUnknown)?;
        let set: JwkSet = serde_json::from_slice(&reply.body).map_err(|_| PassRefusal::KeysUnknown)?;
        let found = set.find(kid).cloned();
        self.keys.lock().unwrap_or_else(PoisonError::into_inner).set = Some(set);
        found.ok_or(PassRefusal::NotOurs)
    }
}

/// Whether this key signed the token for this room, and whether it is still good.
fn judge(token: &str, key: &Jwk, issuer: &str, room: &str) -> Result<Pass, PassRefusal> {
    // The algorithm is what the key says, never what the token says.
    let algorithm = key.common.key_algorithm.and_then(|name| name.to_string().parse::<Algorithm>().ok());
    let mut validation = Validation::new(algorithm.ok_or(PassRefusal::NotOurs)?);
    validation.set_audience(&[room]);
    validation.set_issuer(&[issuer]);
    validation.set_required_spec_claims(&["aud", "exp", "iss", "sub"]);
    validation.leeway = 0;
    let key = DecodingKey::from_jwk(key).map_err(|_| PassRefusal::NotOurs)?;
    match jsonwebtoken::decode::<Claims>(token, &key, &validation) {
        Ok(data) if data.claims.token_use == "access" => {
            Ok(Pass { subject: data.claims.sub, expires_at_seconds: data.claims.exp })
        }
        Ok(_) => Err(PassRefusal::NotOurs),
        Err(error) => match error.kind() {
            jsonwebtoken::errors::ErrorKind::ExpiredSignature => Err(PassRefusal::Expired),
            _ => Err(PassRefusal::NotOurs),
        },
    }
}
