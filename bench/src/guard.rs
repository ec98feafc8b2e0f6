//! Passes verified a second, on one core: the guard with its keys cached, against `jsonwebtoken` alone with the key at hand.

use std::hint::black_box;
use std::time::{Duration, Instant, SystemTime};

use anteroom_core::ids::{Position, RoomId, UnixMillis};
use anteroom_guard::{BoxError, Guard};
use anteroom_tokens::pass::{self, PassClaims};
use anteroom_tokens::request_id;
use anteroom_tokens::signing_key::{SigningAlgorithm, SigningKey};
use anyhow::{Context, Result, ensure};
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use serde::Deserialize;

use crate::figures::Comparison;

const ROOM: &str = "Sample";
const ISSUER: &str = "https://wait.example.com";
/// How many passes take turns between two looks at the clock.
const PASSES: usize = 64;

/// What a site without the guard would read of a pass.
#[derive(Deserialize)]
struct Claims {
    sub: String,
    exp: u64,
    iat: u64,
    queue_position: u64,
    token_use: String,
}

/// Prints the ratio for each algorithm that the issue names.
pub(crate) fn compare(rounds: usize, round: Duration) -> Result<()> {
    println!("| passes verified, one core | guard a second | jsonwebtoken alone a second | ratio | gate |");
    println!("|---|---|---|---|---|");
    for algorithm in [SigningAlgorithm::Rs256, SigningAlgorithm::EdDsa] {
        let passes = Passes::sign(algorithm)?;
        let mut comparison = Comparison::default();
        for counted in std::iter::once(false).chain(std::iter::repeat_n(true, rounds)) {
            let ours = passes.with_guard(round)?;
            let theirs = passes.with_library(round)?;
            if counted {
                comparison.add(ours, theirs);
            }
        }
        println!("| {algorithm} | {comparison} | 0.9 |");
    }
    Ok(())
}

/// Passes as the server signs them, and both ways to verify them.
struct Passes {
    tokens: Vec<String>,
    guard: Guard,
    runtime: tokio::runtime::Runtime,
    key: DecodingKey,
    validation: Validation,
}

impl Passes {
    fn sign(algorithm: SigningAlgorithm) -> Result<Self> {
        let now_seconds = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_secs();
        let now = UnixMillis(now_seconds * 1_000);
        let signing_key = SigningKey::generate(algorithm, now, now)?;
        let tokens = (1..=PASSES).map(|number| {
            let claims = PassClaims {
                audience: RoomId::parse(ROOM).context("a room")?,
                subject: request_id::parse(&format!("0123abcd-ef01-8234-9678-{number:012x}"))
                    .context("a request id")?,
                issuer: ISSUER.to_owned(),
                queue_position: Position::new(number as u64).context("a position")?,
                issued_at_seconds: now_seconds,
                expires_at_seconds: now_seconds + 3_600,
                enter_by_seconds: None,
            };
            anyhow::Ok(pass::sign(&signing_key, &claims)?.tokens.access_token)
        });
        let tokens = tokens.collect::<Result<Vec<_>>>()?;
        let jwk = signing_key.public_jwk();
        let key_set = serde_json::json!({ "keys": [jwk] }).to_string();
        let fetch = move || {
            let key_set = key_set.clone();
            async move { Ok::<_, BoxError>(key_set) }
        };
        let mut validation = Validation::new(algorithm.name().parse::<Algorithm>()?);
        validation.set_audience(&[ROOM]);
        validation.set_issuer(&[ISSUER]);
        validation.set_required_spec_claims(&["aud", "exp", "iss", "nbf", "sub"]);
        validation.validate_nbf = true;
        Ok(Self {
            tokens,
            guard: Guard::builder(ISSUER).room(ROOM).fetcher(fetch).build()?,
            runtime: tokio::runtime::Builder::new_current_thread().enable_all().build()?,
            key: DecodingKey::from_jwk(&serde_json::from_value(jwk)?)?,
            validation,
        })
    }

    fn with_guard(&self, time: Duration) -> Result<f64> {
        self.runtime.block_on(async {
            let mut rounds = Rounds::new(time);
            while rounds.go_on() {
                for token in &self.tokens {
                    let pass = self.guard.verify(black_box(token)).await?;
                    ensure!(black_box(pass).queue_position > 0, "a pass without a position");
                }
            }
            Ok(rounds.rate())
        })
    }

    fn with_library(&self, time: Duration) -> Result<f64> {
        let mut rounds = Rounds::new(time);
        while rounds.go_on() {
            for token in &self.tokens {
                let claims =
                    jsonwebtoken::decode::<Claims>(black_box(token), &self.key, &self.validation)?.claims;
                let Claims { sub, exp, iat, queue_position, token_use } = black_box(claims);
                let is_pass = token_use == "access" && exp > iat && queue_position > 0;
                ensure!(is_pass && !sub.is_empty(), "not a pass");
            }
        }
        Ok(rounds.rate())
    }
}

/// Counts batches for a time.
struct Rounds {
    began: Instant,
    time: Duration,
    batches: usize,
    elapsed: Duration,
}

impl Rounds {
    fn new(time: Duration) -> Self {
        Self { began: Instant::now(), time, batches: 0, elapsed: Duration::ZERO }
    }

    /// Whether there is time for another batch.
    fn go_on(&mut self) -> bool {
        self.elapsed = self.began.elapsed();
        let goes_on = self.elapsed < self.time;
        self.batches += usize::from(goes_on);
        goes_on
    }

    fn rate(&self) -> f64 {
        (self.batches * PASSES) as f64 / self.elapsed.as_secs_f64()
    }
}
