//! Who may do what on the private listener: roles, and how callers are identified.
//!
//! A caller presents an API key (`Authorization: Bearer …`) or signs its requests (AWS Signature Version 4). The keys
//! themselves are kept in `api_keys`.

pub(crate) mod api_keys;
pub mod offline;

use anteroom_core::UnixMillis;
use anteroom_engine::Actor;
use anteroom_tokens::api_key::ApiKeyDigest;
use anteroom_tokens::sigv4::{Authorization, SigV4Error};
use http::header::{self, HeaderMap, HeaderName, HeaderValue};

use crate::access::api_keys::ApiKeys;
use crate::http::error::ApiError;
use crate::http::problem::Problem;

/// What a call needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Permission {
    /// Look at rooms and figures.
    Read,
    /// Tell what the protected site sees: visits that are over, how much it can take, alarms.
    ReportVisits,
    /// Change rooms and their lines.
    Operate,
    /// Keys, records, backups.
    Administer,
}

impl Permission {
    /// The roles that have it, in words.
    pub(crate) fn roles(self) -> String {
        let roles: Vec<&str> =
            Role::ALL.into_iter().filter(|role| role.may(self)).map(Role::as_str).collect();
        roles.join(", ")
    }
}

/// What a caller may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Looks.
    Viewer,
    /// The protected site and what watches it: tells that visits are over, how much it can take and which alarms fire, and nothing else.
    Origin,
    /// Runs the rooms.
    Operator,
    /// Everything.
    Admin,
}

impl Role {
    /// Every role.
    pub const ALL: [Self; 4] = [Self::Viewer, Self::Origin, Self::Operator, Self::Admin];

    /// The name used everywhere.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Origin => "origin",
            Self::Operator => "operator",
            Self::Admin => "admin",
        }
    }

    /// The role of that name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.as_str() == name)
    }

    /// Whether it has a permission.
    pub const fn may(self, permission: Permission) -> bool {
        match self {
            Self::Viewer => matches!(permission, Permission::Read),
            Self::Origin => matches!(permission, Permission::ReportVisits),
            Self::Operator => !matches!(permission, Permission::Administer),
            Self::Admin => true,
        }
    }
}

/// Who calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Principal {
    /// The name of the caller's key, as the audit has it.
    pub(crate) name: String,
    pub(crate) role: Role,
}

impl Principal {
    pub(crate) fn actor(&self) -> Actor {
        Actor::Operator(self.name.clone())
    }
}

impl<S: Sync> axum::extract::FromRequestParts<S> for Principal {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut http::request::Parts, _: &S) -> Result<Self, ApiError> {
        parts.extensions.get::<Self>().cloned().ok_or_else(unauthorized)
    }
}

/// Tells callers apart.
pub(crate) struct Authenticator {
    pub(crate) keys: ApiKeys,
}

impl Authenticator {
    /// Whether a request says that it is signed rather than showing a key.
    pub(crate) fn is_signed(headers: &HeaderMap) -> bool {
        authorization(headers).is_some_and(Authorization::is_aws_signature)
    }

    /// Who sent this request. `body` is needed only for a signed one.
    pub(crate) fn identify(
        &self,
        parts: &http::request::Parts,
        body: &[u8],
        now: UnixMillis,
    ) -> Result<Principal, ApiError> {
        if Self::is_signed(&parts.headers) {
            return self.keys.by_signature(parts, body, now).map_err(signature_refused);
        }
        let key = authorization(&parts.headers).and_then(bearer).ok_or_else(unauthorized)?;
        self.keys.by_key(key, now).ok_or_else(unauthorized)
    }
}

/// The one `Authorization`; with two, nobody could say which was meant.
pub(crate) fn authorization(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let value = values.next()?;
    if values.next().is_some() { None } else { value.to_str().ok() }
}

/// The key of `Authorization: Bearer …`.
fn bearer(value: &str) -> Option<&str> {
    let (scheme, key) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| key.trim())
}

fn unauthorized() -> ApiError {
    let text = "A valid API key is needed: Authorization: Bearer …";
    let error = ApiError::problem(Problem::Unauthorized, text);
    error.with_header(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))
}

fn signature_refused(error: SigV4Error) -> ApiError {
    let error = ApiError::problem(Problem::Unauthorized, error.public_text());
    error.with_header(header::WWW_AUTHENTICATE, HeaderValue::from_static("AWS4-HMAC-SHA256"))
}

/// A header that only the CDN in front of us sends, so that nobody can go past it.
pub(crate) struct OriginSecret {
    name: HeaderName,
    expected: ApiKeyDigest,
}

impl OriginSecret {
    pub(crate) fn new(name: HeaderName, secret: &str) -> Self {
        Self { name, expected: ApiKeyDigest::of(secret) }
    }

    pub(crate) fn is_shown_by(&self, headers: &HeaderMap) -> bool {
        let shown = headers.get(&self.name).and_then(|value| value.to_str().ok());
        shown.is_some_and(|shown| self.expected.matches(shown))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_role_may_exactly_what_the_documents_say() {
        use Permission::{Administer, Operate, Read, ReportVisits};
        let all = [Read, ReportVisits, Operate, Administer];
        let table: [(Role, &[Permission]); 4] = [
            (Role::Viewer, &[Read]),
            (Role::Origin, &[ReportVisits]),
            (Role::Operator, &[Read, ReportVisits, Operate]),
            (Role::Admin, &all),
        ];
        for (role, allowed) in table {
            for permission in all {
                assert_eq!(role.may(permission), allowed.contains(&permission), "{role:?} {permission:?}");
            }
            assert_eq!(Role::parse(role.as_str()), Some(role));
        }
        assert_eq!(Operate.roles(), "operator, admin");
    }
}
