//! A site that plays Anteroom's key set, so that a test can sign any pass and count who asks for keys.

use anteroom_core::ids::{Position, RequestId, RoomId, UnixMillis};
use anteroom_testkit::{Reply, Site, unix_seconds};
use anteroom_tokens::{PassClaims, SigningAlgorithm, SigningKey, pass};
use serde_json::json;

const KEY_SET: &str = "/.anteroom/.well-known/jwks.json";

/// The site, and what it is asked.
pub(crate) struct Issuer {
    pub(crate) site: Site,
}

impl Issuer {
    pub(crate) fn open(keys: &[SigningKey]) -> Self {
        let issuer = Self { site: Site::open() };
        issuer.publish(keys);
        issuer
    }

    /// These keys, and no others, from now on.
    pub(crate) fn publish(&self, keys: &[SigningKey]) {
        let keys: Vec<_> = keys.iter().map(SigningKey::public_jwk).collect();
        let body = json!({ "keys": keys }).to_string();
        self.site.answer(KEY_SET, Reply::new(200).header("Content-Type", "application/json").body(body));
    }

    /// Nobody gets the keys any more.
    pub(crate) fn fail(&self) {
        self.site.answer(KEY_SET, Reply::new(503));
    }

    /// How often the keys were asked for.
    pub(crate) fn fetches(&self) -> usize {
        self.site.request_log().iter().filter(|seen| seen.path() == KEY_SET).count()
    }

    /// An access token for the visit of this number.
    pub(crate) fn pass(&self, key: &SigningKey, visit: u8, change: impl FnOnce(&mut PassClaims)) -> String {
        let now = unix_seconds();
        let mut claims = PassClaims {
            audience: RoomId::parse("Hall").expect("a room"),
            subject: RequestId([visit; 16]),
            issuer: self.site.url(),
            queue_position: Position::new(u64::from(visit)).expect("a position"),
            issued_at_seconds: now,
            expires_at_seconds: now + 3_600,
            enter_by_seconds: None,
        };
        change(&mut claims);
        pass::sign(key, &claims).expect("it signs").tokens.access_token
    }
}

pub(crate) fn key(algorithm: SigningAlgorithm) -> SigningKey {
    let now = UnixMillis(unix_seconds() * 1000);
    SigningKey::generate(algorithm, now, now).expect("a key")
}
