//! What an operator says of a client, and what is wrong with it.

use std::collections::BTreeSet;

use anteroom_core::RoomId;
use anteroom_core::settings::DURATION_MAX_SECONDS;

use crate::openid::redirect::{REDIRECT_ADDRESS_MAX_BYTES, check_login_address, check_redirect_address};

/// How many addresses a client may get visitors back at.
pub const REDIRECT_ADDRESSES_MAX: usize = 20;
/// Longest name that is shown to visitors, in characters.
pub const CLIENT_NAME_MAX_CHARACTERS: usize = 100;

/// Everything an operator says of a client.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientTerms {
    /// Its `client_id`; the room's name if not said.
    pub id: Option<String>,
    /// What visitors are shown; its id if not said.
    pub name: Option<String>,
    /// Where it gets visitors back.
    pub redirect_addresses: Vec<String>,
    /// Whether it runs where no secret can be kept. It has none, and must use PKCE.
    pub is_public: bool,
    /// How long its access tokens live at most.
    pub access_token_seconds: Option<u64>,
    /// How long its ID tokens live at most.
    pub id_token_seconds: Option<u64>,
    /// The page of the site at which a login begins.
    pub login_address: Option<String>,
}

/// What is wrong with one field of [`ClientTerms`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{field}` {why}")]
pub struct FieldProblem {
    /// Its name in the API and in the configuration file.
    pub field: &'static str,
    /// As a clause whose subject is the field.
    pub why: String,
}

impl ClientTerms {
    /// Everything that is wrong, in the order of the fields.
    pub fn problems(&self) -> Vec<FieldProblem> {
        let mut problems = vec![];
        let mut found = |field, why: String| problems.push(FieldProblem { field, why });
        if self.id.as_ref().is_some_and(|id| RoomId::parse(id).is_err()) {
            found("id", "must be 1 to 64 letters, digits, dots, hyphens or underscores".into());
        }
        let is_name = |name: &String| {
            name.chars().count() <= CLIENT_NAME_MAX_CHARACTERS
                && !name.trim().is_empty()
                && !name.chars().any(char::is_control)
        };
        if !self.name.as_ref().is_none_or(is_name) {
            let why =
                format!("must be 1 to {CLIENT_NAME_MAX_CHARACTERS} characters, without control characters");
            found("name", why);
        }
        if !(1..=REDIRECT_ADDRESSES_MAX).contains(&self.redirect_addresses.len()) {
            found("redirect_addresses", format!("must be a list of 1 to {REDIRECT_ADDRESSES_MAX} addresses"));
        }
        let mut seen = BTreeSet::new();
        for address in self.redirect_addresses.iter().take(REDIRECT_ADDRESSES_MAX) {
            let shown: String = address.chars().take(REDIRECT_ADDRESS_MAX_BYTES).collect();
            if let Err(why) = check_redirect_address(address) {
                found("redirect_addresses", format!("has an address that cannot be used: {shown:?} {why}"));
            } else if !seen.insert(address) {
                found("redirect_addresses", format!("has an address twice: {shown:?}"));
            }
        }
        let lifetimes = [
            ("access_token_seconds", self.access_token_seconds),
            ("id_token_seconds", self.id_token_seconds),
        ];
        for (field, seconds) in lifetimes {
            if !seconds.is_none_or(|seconds| (1..=DURATION_MAX_SECONDS).contains(&seconds)) {
                found(field, format!("must be 1 to {DURATION_MAX_SECONDS}"));
            }
        }
        if let Some(Err(why)) = self.login_address.as_deref().map(check_login_address) {
            found("login_address", why.to_string());
        }
        problems
    }
}
