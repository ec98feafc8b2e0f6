//! How a client proves at `/token` who it is: by HTTP Basic, by the fields of the form, or, a public one, not at all (RFC 6749,
//! section 2.3.1).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::{self, HeaderMap};

use crate::openid::parameters::{FormParameters, decode_form_text};

/// What a client shows.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Credentials {
    pub(crate) client_id: String,
    /// What the secret may be: as it was decoded, and as it was sent where that differs. None: it says that it is a public one.
    pub(crate) secrets: Vec<String>,
}

impl Credentials {
    /// Whether one of the secrets is right, by a comparison that takes as long whichever it is.
    pub(crate) fn has_secret(&self, is_right: impl Fn(&str) -> bool) -> bool {
        self.secrets.iter().fold(false, |found, secret| found | is_right(secret))
    }
}

/// Why there is nothing to check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CredentialsError {
    /// More than one method, or contradictions.
    Ambiguous,
    /// No method at all.
    Missing,
    /// The header cannot be read.
    Unreadable,
}

/// The credentials of a request; never more than one method.
pub(crate) fn credentials(
    headers: &HeaderMap,
    form: &FormParameters,
) -> Result<Credentials, CredentialsError> {
    let mut authorizations = headers.get_all(header::AUTHORIZATION).iter();
    let authorization = authorizations.next();
    if authorizations.next().is_some() {
        return Err(CredentialsError::Ambiguous);
    }
    let (named, secret) = (form.one("client_id"), form.one("client_secret"));
    let Some(authorization) = authorization else {
        let client_id = named.ok_or(CredentialsError::Missing)?.to_owned();
        return Ok(Credentials { client_id, secrets: secret.into_iter().map(str::to_owned).collect() });
    };
    if secret.is_some() {
        return Err(CredentialsError::Ambiguous);
    }
    let basic = authorization.to_str().ok().and_then(read_basic).ok_or(CredentialsError::Unreadable)?;
    if named.is_some_and(|named| named != basic.client_id) {
        return Err(CredentialsError::Ambiguous);
    }
    Ok(basic)
}

/// Name and password are written as in a form before they are joined; so a colon or a space in either is no doubt. Much software
/// (`curl -u`, for one) joins them as they are: a `+` or a `%` in a secret then stands for itself.
fn read_basic(authorization: &str) -> Option<Credentials> {
    let (scheme, encoded) = authorization.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let pair = String::from_utf8(STANDARD.decode(encoded.trim()).ok()?).ok()?;
    let (client_id, sent) = pair.split_once(':')?;
    // Nothing in a client's name is changed by this.
    let client_id = decode_form_text(client_id).filter(|client_id| !client_id.is_empty())?;
    // An empty password is a public client's way of using the header.
    let mut secrets: Vec<String> = decode_form_text(sent).into_iter().chain([sent.to_owned()]).collect();
    secrets.dedup();
    secrets.retain(|secret| !secret.is_empty());
    Some(Credentials { client_id, secrets })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(authorization: Option<&str>, form: &str) -> Result<Credentials, CredentialsError> {
        let mut headers = HeaderMap::new();
        if let Some(authorization) = authorization {
            headers.insert(header::AUTHORIZATION, authorization.try_into().unwrap());
        }
        credentials(&headers, &FormParameters::read([form]).unwrap())
    }

    fn basic(pair: &str) -> String {
        format!("Basic {}", STANDARD.encode(pair))
    }

    fn of(client_id: &str, secrets: &[&str]) -> Credentials {
        let secrets = secrets.iter().map(|secret| (*secret).to_owned()).collect();
        Credentials { client_id: client_id.into(), secrets }
    }

    #[test]
    fn each_method_is_read() {
        assert_eq!(read(Some(&basic("shop:s3cret")), ""), Ok(of("shop", &["s3cret"])));
        assert_eq!(read(Some(&basic("shop:a:b")), "client_id=shop"), Ok(of("shop", &["a:b"])));
        assert_eq!(read(None, "client_id=shop&client_secret=p%2B+q"), Ok(of("shop", &["p+ q"])));
        assert_eq!(read(None, "client_id=app"), Ok(of("app", &[])));
        assert_eq!(read(Some(&basic("app:")), ""), Ok(of("app", &[])));
    }

    #[test]
    fn a_secret_of_basic_is_read_decoded_and_as_it_was_sent() {
        let read = |pair: &str| read(Some(&basic(pair)), "").unwrap();
        assert_eq!(read("a%3Ab+c:p%2B%26+q"), of("a:b c", &["p+& q", "p%2B%26+q"]));
        for secret in ["with+plus/and=", "with%percent", "with%ffbytes"] {
            assert!(read(&format!("shop:{secret}")).has_secret(|shown| shown == secret), "{secret}");
        }
        assert!(!read("shop:other").has_secret(|shown| shown == "secret"));
    }

    #[test]
    fn two_methods_are_none() {
        let shop = basic("shop:s3cret");
        assert_eq!(read(Some(&shop), "client_secret=s3cret"), Err(CredentialsError::Ambiguous));
        assert_eq!(read(Some(&shop), "client_id=other"), Err(CredentialsError::Ambiguous));
        assert_eq!(read(None, "grant_type=authorization_code"), Err(CredentialsError::Missing));
        for bad in ["Basic", "Basic !", "Bearer abc", &basic("nocolon"), &basic(":secret")] {
            assert_eq!(read(Some(bad), ""), Err(CredentialsError::Unreadable), "{bad}");
        }
        let mut headers = HeaderMap::new();
        for pair in ["shop:a", "shop:b"] {
            headers.append(header::AUTHORIZATION, basic(pair).try_into().unwrap());
        }
        let form = FormParameters::read([""]).unwrap();
        assert_eq!(credentials(&headers, &form), Err(CredentialsError::Ambiguous));
    }
}
