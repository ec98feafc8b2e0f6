//! Requests that we send to services of AWS, signed.

use anteroom_core::ids::UnixMillis;
use secrecy::{ExposeSecret as _, SecretString};

use super::{AMAZON_DATE, Credentials, HOST, SESSION_TOKEN, SigV4Error, SignedRequest, sign, timestamp};

/// A request that is to be sent. All of it is signed.
#[derive(Clone, Copy)]
pub struct OutgoingRequest<'request> {
    /// GET, POST, ….
    pub method: &'request str,
    /// The authority as it goes into `host`: with the port, if it is not the scheme's own.
    pub host: &'request str,
    /// The path as it goes into the request line, with its escapes.
    pub path: &'request str,
    /// What follows the `?`, with its escapes; empty without one.
    pub query: &'request str,
    /// Further headers.
    pub headers: &'request [(&'request str, &'request [u8])],
    /// The whole body.
    pub body: &'request [u8],
}

/// The headers that a signed request has besides its own and `host`.
#[derive(Debug)]
pub struct SignatureHeaders {
    /// `authorization`.
    pub authorization: String,
    /// `x-amz-date`.
    pub date: String,
    /// `x-amz-security-token`, for credentials that have a session token.
    pub session_token: Option<SecretString>,
}

/// Signs a request, with the session token of temporary credentials where there is one.
pub fn sign_outgoing(
    request: &OutgoingRequest<'_>,
    credentials: &Credentials<'_>,
    session_token: Option<&SecretString>,
    now: UnixMillis,
) -> Result<SignatureHeaders, SigV4Error> {
    let date = timestamp(now);
    let mut headers = request.headers.to_vec();
    headers.push((HOST, request.host.as_bytes()));
    headers.push((AMAZON_DATE, date.as_bytes()));
    if let Some(token) = session_token {
        headers.push((SESSION_TOKEN, token.expose_secret().as_bytes()));
    }
    let names: Vec<&str> = headers.iter().map(|(name, _)| *name).collect();
    let signed = SignedRequest {
        method: request.method,
        path: request.path,
        query: request.query,
        headers: &headers,
        body: request.body,
    };
    let authorization = sign(&signed, credentials, &names)?;
    Ok(SignatureHeaders { authorization, date, session_token: session_token.cloned() })
}
