//! How a client proves at `/token` who it is: by HTTP Basic, by the fields of the form, or, a public one, not at all (RFC 6749,
//! section 2.3.1).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::{self, HeaderMap};

use crate::openid::parameters::{FormParameters, decode};

/// What a client shows.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Credentials {
    pub(crate) client_id: String,
    /// Nothing: it says that it is a public one.
    pub(crate) secret: Option<String>,
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
        return Ok(Credentials { client_id, secret: secret.map(str::to_owned) });
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

/// Name and password are written as in a form before they are joined; so a colon or a space in either is no doubt.
fn read_basic(authorization: &str) -> Option<Credentials> {
    let (scheme, encoded) = authorization.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let pair = String::from_utf8(STANDARD.decode(encoded.trim()).ok()?).ok()?;
    let (client_id, secret) = pair.split_once(':')?;
    let (client_id, secret) = decode(client_id).zip(decode(secret))?;
    if client_id.is_empty() {
        return None;
    }
    // An empty password is a public client's way of using the header.
    Some(Credentials { client_id, secret: Some(secret).filter(|secret| !secret.is_empty()) })
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

    fn of(client_id: &str, secret: Option<&str>) -> Credentials {
        Credentials { client_id: client_id.into(), secret: secret.map(str::to_owned) }
    }

    #[test]
    fn each_method_is_read() {
        assert_eq!(read(Some(&basic("shop:s3cret")), ""), Ok(of("shop", Some("s3cret"))));
        assert_eq!(
            read(Some(&basic("a%3Ab+c:p%2B%26+q")), ""),
            Ok(of("a:b c", Some("p+& q"))),
            "form-decoded"
        );
        assert_eq!(read(Some(&basic("shop:a:b")), "client_id=shop"), Ok(of("shop", Some("a:b"))));
        assert_eq!(read(None, "client_id=shop&client_secret=p%2B+q"), Ok(of("shop", Some("p+ q"))));
        assert_eq!(read(None, "client_id=app"), Ok(of("app", None)));
        assert_eq!(read(Some(&basic("app:")), ""), Ok(of("app", None)));
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
