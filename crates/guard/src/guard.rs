//! [`Guard`]: what a site knows of a waiting room, and [`Guard::verify`], the one place where a pass is judged.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::header::HeaderMap;
use http::{Request, Uri};

use crate::cached_keys::{
    CachedKeys, FETCH_INTERVAL, FETCH_TIMEOUT, KeyStatus, REFRESH_AFTER, STALE_MAX, Timing,
};
use crate::clock::{Clock, SystemClock};
use crate::enter_by::{ENTERED_VISITS_MAX, EnterBy, EnteredVisits, Visit, VisitMemory};
use crate::fetch::{FetchError, FetchKeys};
use crate::pass::Pass;
use crate::refusal::Refusal;
use crate::token::{Claims, Token};
use crate::token_place::TokenPlace;

/// How long before `nbf` a pass is taken, unless told otherwise: the clock of the site may be behind that of the waiting room.
pub const NOT_BEFORE_LEEWAY: Duration = Duration::from_mins(1);
/// How long after `exp` a pass is taken, unless told otherwise: not at all, because the slot is somebody else's by then.
pub const EXPIRY_LEEWAY: Duration = Duration::ZERO;
/// The largest leeway that can be set.
const LEEWAY_MAX: Duration = Duration::from_mins(5);
/// How many tokens of one request are tried; each may cost the check of a signature.
pub const TOKENS_MAX: usize = 4;
/// The longest name of a room, in bytes.
const ROOM_MAX_BYTES: usize = 64;
/// Where the keys are, below the public URL: reachable on hosts behind the gateway, too.
#[cfg(feature = "fetch")]
const KEYS_PATH: &str = "/.anteroom/.well-known/jwks.json";
/// What `token_use` of an access token is.
const ACCESS: &str = "access";

/// Verifies the passes of some rooms of one waiting room. Cheap to clone: all clones share the keys.
#[derive(Clone)]
pub struct Guard(Arc<Rules>);

struct Rules {
    public_url: String,
    rooms: Vec<Room>,
    places: Vec<TokenPlace>,
    not_before_leeway_seconds: u64,
    expiry_leeway_seconds: u64,
    enter_by: EnterByRule,
    keys: CachedKeys,
    clock: Arc<dyn Clock>,
}

/// A room whose passes are taken, and who issues them.
#[derive(Debug, Clone)]
struct Room {
    name: Arc<str>,
    issuer: Arc<str>,
}

enum EnterByRule {
    Remembered(VisitMemory),
    Shared(Arc<dyn EnteredVisits>),
    Unchecked,
}

impl Guard {
    /// Begins with the waiting room's public URL, as its operator has set it (`public_url`): passes are issued in its name, and
    /// the keys and the waiting page are below it.
    pub fn builder(public_url: impl Into<String>) -> GuardBuilder {
        GuardBuilder {
            public_url: public_url.into(),
            issuer: None,
            keys_url: None,
            rooms: vec![],
            places: None,
            not_before_leeway: NOT_BEFORE_LEEWAY,
            expiry_leeway: EXPIRY_LEEWAY,
            enter_by: EnterBy::default(),
            entered_visits_max: ENTERED_VISITS_MAX,
            timing: Timing {
                refresh_after: REFRESH_AFTER,
                stale_max: STALE_MAX,
                fetch_interval: FETCH_INTERVAL,
                fetch_timeout: FETCH_TIMEOUT,
            },
            fetcher: None,
            clock: None,
        }
    }

    /// The pass that a token is, or why it is refused.
    ///
    /// Waits for the keys only where the token's own is not cached. Must be called within a tokio runtime, which then has the
    /// task that fetches the keys.
    pub async fn verify(&self, token: &str) -> Result<Pass, Refusal> {
        let rules = &*self.0;
        let token = Token::split(token)?;
        let header = token.header()?;
        let claims = token.claims()?;
        // What would be refused anyway costs no signature, and has no keys fetched.
        let now_seconds = rules.clock.unix_seconds();
        let room = rules.judge(&claims, now_seconds)?;
        let kid = header.kid.as_deref().ok_or(Refusal::UnknownKey)?;
        let fetched = rules.keys.with_key(kid).await?;
        let key = fetched.keys.get(kid).ok_or(Refusal::UnknownKey)?;
        key.verify(&header.alg, token.signed, &token.signature)?;
        rules.enter(room, &claims, now_seconds).await?;
        Ok(Pass {
            room: Arc::clone(&room.name),
            issuer: Arc::clone(&room.issuer),
            subject: claims.sub.into_owned(),
            queue_position: claims.queue_position,
            issued_at_seconds: claims.iat,
            expires_at_seconds: claims.exp,
            enter_by_seconds: claims.enter_by,
        })
    }

    /// The pass that a request brings in one of the places of [`GuardBuilder::tokens_in`]. Of several tokens ([`TOKENS_MAX`] are
    /// tried) the first good one counts; if none is, the reason is that of the first.
    pub async fn verify_request<Body>(&self, request: &Request<Body>) -> Result<Pass, Refusal>
    where
        Body: Sync,
    {
        self.verify_parts(request.headers(), request.uri()).await
    }

    /// The same for a request that is in parts.
    pub async fn verify_parts(&self, headers: &HeaderMap, uri: &Uri) -> Result<Pass, Refusal> {
        let mut first_refusal = None;
        let tokens = self.0.places.iter().flat_map(|place| place.find(headers, uri)).take(TOKENS_MAX);
        for token in tokens {
            match self.verify(token).await {
                Ok(pass) => return Ok(pass),
                Err(Refusal::KeysUnavailable) => return Err(Refusal::KeysUnavailable),
                Err(refusal) => {
                    first_refusal.get_or_insert(refusal);
                }
            }
        }
        Err(first_refusal.unwrap_or(Refusal::Missing))
    }

    /// Fetches the keys, so that the first visitor need not wait for them. A site may go on where it fails: the first token
    /// tries again.
    pub async fn fetch_keys(&self) -> Result<(), FetchError> {
        self.0.keys.fetch().await
    }

    /// What is known of the keys.
    pub fn key_status(&self) -> KeyStatus {
        self.0.keys.status()
    }

    /// The room that was named first.
    pub(crate) fn first_room(&self) -> &str {
        &self.0.rooms[0].name
    }

    pub(crate) fn public_url(&self) -> &str {
        self.0.public_url.trim_end_matches('/')
    }

    pub(crate) fn places(&self) -> &[TokenPlace] {
        &self.0.places
    }
}

impl Rules {
    /// The room of the claims, if they say that the pass is good now.
    fn judge(&self, claims: &Claims<'_>, now_seconds: u64) -> Result<&Room, Refusal> {
        let mut of_audience = self.rooms.iter().filter(|room| *room.name == *claims.aud).peekable();
        of_audience.peek().ok_or(Refusal::WrongRoom)?;
        let room = of_audience.find(|room| *room.issuer == *claims.iss).ok_or(Refusal::WrongIssuer)?;
        if claims.token_use != ACCESS {
            return Err(Refusal::NotAnAccessToken);
        }
        if claims.nbf > now_seconds.saturating_add(self.not_before_leeway_seconds) {
            return Err(Refusal::NotYetValid);
        }
        if claims.exp.saturating_add(self.expiry_leeway_seconds) <= now_seconds {
            return Err(Refusal::Expired);
        }
        Ok(room)
    }

    /// Whether the visit began in time, or begins now.
    async fn enter(&self, room: &Room, claims: &Claims<'_>, now_seconds: u64) -> Result<(), Refusal> {
        let Some(enter_by_seconds) = claims.enter_by else { return Ok(()) };
        let visit = Visit {
            room: &room.name,
            subject: &claims.sub,
            issued_at_seconds: claims.iat,
            enter_by_seconds,
            expires_at_seconds: claims.exp,
            now_seconds,
        };
        let may_enter = match &self.enter_by {
            EnterByRule::Remembered(memory) => memory.enter(visit),
            EnterByRule::Shared(visits) => visits.enter(visit).await,
            EnterByRule::Unchecked => true,
        };
        if may_enter { Ok(()) } else { Err(Refusal::EnteredTooLate) }
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Rules { public_url, rooms, .. } = &*self.0;
        formatter
            .debug_struct("Guard")
            .field("public_url", public_url)
            .field("rooms", rooms)
            .finish_non_exhaustive()
    }
}

/// Why there is no guard.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// Without a room every pass would be refused.
    #[error("no room was named")]
    NoRoom,
    /// Not 1 to 64 characters out of A-Z, a-z, 0-9, `_`, `.` and `-`.
    #[error("`{0}` cannot be the name of a room")]
    InvalidRoom(String),
    /// Not `http://HOST…` or `https://HOST…`.
    #[error("`{0}` is not an address that begins with http:// or https://")]
    InvalidAddress(String),
    /// The system trusts nobody, so no key set can be fetched over TLS.
    #[error("the system has no certificate authorities to trust")]
    NoCertificateAuthorities,
    /// A leeway of more than five minutes.
    #[error("a leeway is at most {} seconds", LEEWAY_MAX.as_secs())]
    LeewayTooLong,
    /// Without the feature `fetch` the site has to bring a fetcher.
    #[error("there is no built-in client (feature `fetch`), and no other was named")]
    NoFetcher,
}

/// What a [`Guard`] is made from. Everything but the rooms has a default.
#[must_use]
pub struct GuardBuilder {
    public_url: String,
    issuer: Option<Arc<str>>,
    keys_url: Option<String>,
    rooms: Vec<(Arc<str>, Option<Arc<str>>)>,
    places: Option<Vec<TokenPlace>>,
    not_before_leeway: Duration,
    expiry_leeway: Duration,
    enter_by: EnterBy,
    entered_visits_max: usize,
    timing: Timing,
    fetcher: Option<Box<dyn FetchKeys>>,
    clock: Option<Arc<dyn Clock>>,
}

impl GuardBuilder {
    /// Takes passes of this room. Call it for each room; `aud` of a pass says which one it is for.
    pub fn room(mut self, room: &str) -> Self {
        self.rooms.push((room.into(), None));
        self
    }

    /// Takes passes of a room that has an issuer of its own (the room's setting `issuer`).
    pub fn room_of_issuer(mut self, room: &str, issuer: &str) -> Self {
        self.rooms.push((room.into(), Some(issuer.into())));
        self
    }

    /// The issuer of the rooms of [`GuardBuilder::room`]; the public URL unless told otherwise.
    pub fn issuer(mut self, issuer: &str) -> Self {
        self.issuer = Some(issuer.into());
        self
    }

    /// Where the key set is; `/.anteroom/.well-known/jwks.json` below the public URL unless told otherwise. For a site that
    /// reaches the waiting room by another address than its visitors do.
    pub fn keys_url(mut self, address: &str) -> Self {
        self.keys_url = Some(address.to_owned());
        self
    }

    /// Fetches the key set by a function or client of the site, in place of the built-in one.
    pub fn fetcher(mut self, fetcher: impl FetchKeys) -> Self {
        self.fetcher = Some(Box::new(fetcher));
        self
    }

    /// Where tokens are looked for, in this order; [`TokenPlace::Bearer`] unless told otherwise.
    pub fn tokens_in(mut self, places: impl IntoIterator<Item = TokenPlace>) -> Self {
        self.places = Some(places.into_iter().collect());
        self
    }

    /// How long before `nbf` a pass is taken ([`NOT_BEFORE_LEEWAY`]), five minutes at most.
    pub fn not_before_leeway(mut self, leeway: Duration) -> Self {
        self.not_before_leeway = leeway;
        self
    }

    /// How long after `exp` a pass is taken ([`EXPIRY_LEEWAY`]), five minutes at most. For that long the visitor is beside the
    /// one who has the slot by then.
    pub fn expiry_leeway(mut self, leeway: Duration) -> Self {
        self.expiry_leeway = leeway;
        self
    }

    /// How a first use after `enter_by` is found; [`EnterBy::Remembered`] unless told otherwise.
    pub fn enter_by(mut self, rule: EnterBy) -> Self {
        self.enter_by = rule;
        self
    }

    /// How many visits [`EnterBy::Remembered`] remembers ([`ENTERED_VISITS_MAX`]): more than are ever inside.
    pub fn entered_visits_max(mut self, visits: usize) -> Self {
        self.entered_visits_max = visits.max(1);
        self
    }

    /// How old the key set may get before it is fetched again ([`REFRESH_AFTER`]).
    pub fn refresh_after(mut self, age: Duration) -> Self {
        self.timing.refresh_after = age;
        self
    }

    /// How old the key set may get while it cannot be fetched ([`STALE_MAX`]). Then tokens are refused with
    /// [`Refusal::KeysUnavailable`]. For that long a key is good that the waiting room has withdrawn.
    pub fn stale_max(mut self, age: Duration) -> Self {
        self.timing.stale_max = age;
        self
    }

    /// How far apart two fetches begin at least ([`FETCH_INTERVAL`]), whatever tokens come.
    pub fn fetch_interval(mut self, interval: Duration) -> Self {
        self.timing.fetch_interval = interval;
        self
    }

    /// How long a fetch may take ([`FETCH_TIMEOUT`]).
    pub fn fetch_timeout(mut self, timeout: Duration) -> Self {
        self.timing.fetch_timeout = timeout;
        self
    }

    /// Another clock than the machine's, for tests.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// The guard. Nothing is fetched yet.
    pub fn build(self) -> Result<Guard, BuildError> {
        if self.rooms.is_empty() {
            return Err(BuildError::NoRoom);
        }
        if let Some((room, _)) = self.rooms.iter().find(|(room, _)| !is_room_name(room)) {
            return Err(BuildError::InvalidRoom(room.to_string()));
        }
        if self.not_before_leeway.max(self.expiry_leeway) > LEEWAY_MAX {
            return Err(BuildError::LeewayTooLong);
        }
        let fetcher = match self.fetcher {
            Some(fetcher) => fetcher,
            None => built_in_fetcher(&self.public_url, self.keys_url.as_deref())?,
        };
        let clock = self.clock.unwrap_or_else(|| Arc::new(SystemClock::new()));
        let issuer = self.issuer.unwrap_or_else(|| self.public_url.as_str().into());
        let rooms = self.rooms.into_iter();
        let rooms =
            rooms.map(|(name, own)| Room { name, issuer: own.unwrap_or_else(|| Arc::clone(&issuer)) });
        let enter_by = match self.enter_by {
            EnterBy::Remembered => {
                EnterByRule::Remembered(VisitMemory::new(clock.unix_seconds(), self.entered_visits_max))
            }
            EnterBy::Shared(visits) => EnterByRule::Shared(visits),
            EnterBy::Unchecked => EnterByRule::Unchecked,
        };
        Ok(Guard(Arc::new(Rules {
            rooms: rooms.collect(),
            places: self.places.unwrap_or_else(|| vec![TokenPlace::Bearer]),
            not_before_leeway_seconds: self.not_before_leeway.as_secs(),
            expiry_leeway_seconds: self.expiry_leeway.as_secs(),
            enter_by,
            keys: CachedKeys::new(fetcher, Arc::clone(&clock), self.timing),
            clock,
            public_url: self.public_url,
        })))
    }
}

impl fmt::Debug for GuardBuilder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("GuardBuilder")
            .field("public_url", &self.public_url)
            .field("rooms", &self.rooms)
            .finish_non_exhaustive()
    }
}

#[cfg(feature = "fetch")]
fn built_in_fetcher(public_url: &str, keys_url: Option<&str>) -> Result<Box<dyn FetchKeys>, BuildError> {
    let below_the_public_url = || format!("{}{KEYS_PATH}", public_url.trim_end_matches('/'));
    let address = keys_url.map_or_else(below_the_public_url, str::to_owned);
    Ok(Box::new(crate::fetch::HttpFetcher::new(&address)?))
}

#[cfg(not(feature = "fetch"))]
fn built_in_fetcher(_: &str, _: Option<&str>) -> Result<Box<dyn FetchKeys>, BuildError> {
    Err(BuildError::NoFetcher)
}

fn is_room_name(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    (1..=ROOM_MAX_BYTES).contains(&text.len()) && text.bytes().all(allowed)
}
