//! Every use of cryptography, and nowhere else: master secrets, the request-id cipher, ticket tokens, signing keys, passes.
//!
//! Reading order: [`random`] is the only source of randomness; [`secret`] turns the operator's master secrets into one key
//! per use and room; [`request_id`] and [`ticket_token`] are the two written forms of a ticket; [`signing_key`],
//! [`key_ring`], [`pass`] and [`signer`] make the tokens an admitted visitor shows to the origin; [`api_key`] recognises
//! operators, and [`sigv4`] those of them who come with an unmodified AWS client; [`cookie`] is what a visitor's browser carries
//! for the gateway, [`codes`] what travels in addresses; [`openid`] is what the OpenID provider gives to its clients; [`store_seal`] hides what lies in a store that several nodes share.
//! [`webhook_key`] signs the events that we send, and [`destination_secret`] keeps what lets us in elsewhere.
//!
//! *Invariant:* no type that holds a secret has a `Debug` that shows it, and no error message quotes one.
//! *Invariant:* the algorithm of a token is decided by the key it is checked with, never by the token.
//! *Boundary:* no clock. Time is an argument, and what is expired is decided by the caller.

pub mod random;
pub mod secret;

pub mod request_id;
pub mod ticket_token;

pub mod key_ring;
pub mod pass;
pub mod prefix_tag;
pub mod signer;
pub mod signing_key;

pub mod api_key;
pub mod sigv4;

pub mod codes;
pub mod cookie;
pub mod openid;
pub mod store_seal;

pub mod destination_secret;
pub mod webhook_key;

mod base64url;
mod sealed_message;
mod sealed_secret;

pub use api_key::ApiKeyDigest;
pub use codes::{Code, Codes};
pub use cookie::{CookieContent, VisitorCookies};
pub use destination_secret::{DestinationSecretError, open_destination_secret, seal_destination_secret};
pub use key_ring::KeyRing;
pub use openid::sealed::{OpenIdCode, OpenIdRefreshToken, OpenIdSeals};
pub use openid::subject::{OpenIdSubject, OpenIdSubjects};
pub use openid::token_pair::{OpenIdAccess, OpenIdClaims, OpenIdTokenPair};
pub use pass::{PassClaims, Signatures, SignedPass, TokenSet};
pub use request_id::RequestIds;
pub use secret::MasterSecrets;
pub use signer::{SignError, Signer};
pub use signing_key::{SigningAlgorithm, SigningKey};
pub use store_seal::StoreSeal;
pub use ticket_token::TicketTokens;
pub use webhook_key::{WebhookAlgorithm, WebhookKey, WebhookKeyError, signature_header};
