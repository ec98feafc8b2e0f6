//! Verifies passes of an Anteroom waiting room in a Rust site, as a tower layer
//! ([`GuardLayer`]) or by a function ([`Guard::verify`]).
//!
//! ```
//! use anteroom_guard::{Guard, GuardLayer, TokenPlace, WaitingPage};
//!
//! # fn main() -> Result<(), anteroom_guard::BuildError> {
//! // The public URL of the waiting room: issuer of its passes, and where its keys and its waiting page are.
//! let guard = Guard::builder("https://wait.example.com")
//!     .room("Sale")
//!     .tokens_in([TokenPlace::Bearer, TokenPlace::cookie_of_room("Sale")])
//!     .build()?;
//!
//! // Visitors without a pass go to the waiting page; programs get 401. `WaitingPage` names the site's own address.
//! let layer = GuardLayer::new(guard).redirect_to(WaitingPage::of_room("https://shop.example.com"));
//! # let _ = layer;
//! # Ok(())
//! # }
//! ```
//!
//! A handler behind the layer finds the [`Pass`] in the extensions of the request.
//!
//! # What is checked
//!
//! | part of the token | what is refused |
//! |---|---|
//! | length, form | longer than [`TOKEN_MAX_BYTES`], not three parts, base64 or JSON that is not strict, a claim twice |
//! | `alg` | anything but the algorithm of the key with that `kid`: a token never chooses |
//! | `kid` | a key that is not in the key set, once that has been fetched anew |
//! | `crit`, `typ` | any `crit`; a `typ` other than `JWT` and `at+jwt` |
//! | signature | RS256, ES256 and `EdDSA` are known |
//! | `aud`, `iss` | a room that is not listed, another issuer than that room's |
//! | `token_use` | refresh and id tokens |
//! | `nbf`, `exp` | before `nbf` less [`GuardBuilder::not_before_leeway`], from `exp` (plus [`GuardBuilder::expiry_leeway`]) on |
//! | `enter_by` | a first use after it; see [`EnterBy`] |
//!
//! Not checked is whether the visit was ended early: that only the server knows.
//!
//! # Keys
//!
//! The key set is fetched when the first token comes, or by [`Guard::fetch_keys`], and every five minutes after that, in a
//! task on the runtime of the caller. Requests go on with the cached keys meanwhile. While it cannot be fetched the cached
//! keys are good for an hour ([`GuardBuilder::stale_max`]); then tokens are refused with [`Refusal::KeysUnavailable`],
//! which is 503. A token with an unknown `kid` has the set fetched, but not more often than every five seconds
//! ([`GuardBuilder::fetch_interval`]).

mod cached_keys;
mod clock;
mod enter_by;
mod fetch;
mod guard;
mod key_set;
mod layer;
mod pass;
mod refusal;
mod response;
mod token;
mod token_place;

pub use cached_keys::{
    FETCH_INTERVAL, FETCH_TIMEOUT, KEYS_WAITING_MAX, KeyStatus, REFRESH_AFTER, RETRY_WITHOUT_KEYS, STALE_MAX,
};
pub use clock::{Clock, SystemClock};
pub use enter_by::{ENTERED_VISITS_MAX, EnterBy, EnteredVisits, Visit};
#[cfg(feature = "fetch")]
pub use fetch::HttpFetcher;
pub use fetch::{BoxError, FetchError, FetchKeys, KEY_SET_MAX_BYTES};
pub use guard::{BuildError, EXPIRY_LEEWAY, Guard, GuardBuilder, NOT_BEFORE_LEEWAY, TOKENS_MAX};
pub use layer::{GuardLayer, GuardService};
pub use pass::Pass;
pub use refusal::Refusal;
pub use response::WaitingPage;
pub use token::TOKEN_MAX_BYTES;
pub use token_place::TokenPlace;
