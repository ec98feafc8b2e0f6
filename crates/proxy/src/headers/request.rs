//! Requests: which may be passed on, and as what.

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::uri::{PathAndQuery, Scheme, Uri};
use http::{Method, Version, request};

use super::forwarded::{extend_cdn_loop, set_forwarded};
use super::{has_token, remove_hop_by_hop, remove_impostors};
use crate::error::RequestFault;
use crate::forward::Hop;
use crate::settings::ProxySettings;

/// No browser sends it, and to a CGI program it is the address of a proxy to use.
const PROXY: HeaderName = HeaderName::from_static("proxy");

/// Checks a request and makes it fit for an origin, whichever protocol it speaks. Afterwards the target is a path, there is one
/// `Host`, and nothing says how the body is framed but a `Content-Length` that is true.
///
/// Returns what the client wants to upgrade to.
pub(crate) fn prepare_request(
    parts: &mut request::Parts,
    is_body_empty: bool,
    hop: &Hop,
    extra: &HeaderMap,
    settings: &ProxySettings,
) -> Result<Option<HeaderValue>, RequestFault> {
    if matches!(parts.method, Method::CONNECT | Method::TRACE) {
        return Err(RequestFault::Method);
    }
    let host = host_of(parts)?;
    check_length(&parts.headers, is_body_empty)?;
    use_path_as_target(parts)?;
    let upgrade = requested_upgrade(parts, is_body_empty);
    let wants_trailers = has_token(&parts.headers, &header::TE, "trailers");
    let headers = &mut parts.headers;
    remove_hop_by_hop(headers);
    headers.remove(header::EXPECT);
    headers.remove(PROXY);
    remove_impostors(headers);
    if wants_trailers {
        headers.insert(header::TE, HeaderValue::from_static("trailers"));
    }
    join_cookies(headers);
    set_forwarded(headers, settings.forwarded, hop, host.as_ref());
    extend_cdn_loop(headers)?;
    if let Some(host) = host {
        headers.insert(header::HOST, host);
    }
    if is_body_empty
        && matches!(parts.method, Method::POST | Method::PUT | Method::PATCH)
        && !headers.contains_key(header::CONTENT_LENGTH)
    {
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from_static("0"));
    }
    for (name, value) in extra {
        headers.append(name.clone(), value.clone());
    }
    // Whatever the client speaks.
    parts.version = Version::HTTP_11;
    Ok(upgrade)
}

/// The one host that a request names. `None` where HTTP/1.0 allows that.
fn host_of(parts: &request::Parts) -> Result<Option<HeaderValue>, RequestFault> {
    let mut named = parts.headers.get_all(header::HOST).iter();
    let host = named.next();
    if named.next().is_some() {
        return Err(RequestFault::HostSeveral);
    }
    let authority = parts.uri.authority().map(http::uri::Authority::as_str);
    match (authority, host) {
        (None, None) if parts.version == Version::HTTP_10 => Ok(None),
        (None, None) => Err(RequestFault::HostMissing),
        (None, Some(host)) if is_host(host.as_bytes()) => Ok(Some(host.clone())),
        (Some(authority), host) if is_host(authority.as_bytes()) => {
            if host.is_some_and(|host| !host.as_bytes().eq_ignore_ascii_case(authority.as_bytes())) {
                return Err(RequestFault::HostContradicts);
            }
            HeaderValue::from_str(authority).map(Some).map_err(|_| RequestFault::HostMalformed)
        }
        _ => Err(RequestFault::HostMalformed),
    }
}

/// Whether these bytes are `name[:port]`, `address[:port]` or `[address][:port]`. Stricter than the grammar of URLs, which
/// allows marks in names that no name has, and which some servers take for something else.
fn is_host(bytes: &[u8]) -> bool {
    let (name, port) = match bytes {
        [b'[', rest @ ..] => {
            let Some(end) = rest.iter().position(|byte| *byte == b']') else { return false };
            let (address, behind) = rest.split_at(end);
            let is_address = !address.is_empty()
                && address.iter().all(|byte| byte.is_ascii_hexdigit() || matches!(byte, b':' | b'.'));
            if !is_address {
                return false;
            }
            return match &behind[1..] {
                [] => true,
                [b':', port @ ..] => is_port(port),
                _ => false,
            };
        }
        _ => match bytes.iter().position(|byte| *byte == b':') {
            Some(colon) => (&bytes[..colon], Some(&bytes[colon + 1..])),
            None => (bytes, None),
        },
    };
    !name.is_empty()
        && name.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_'))
        && port.is_none_or(is_port)
}

fn is_port(bytes: &[u8]) -> bool {
    (1..=5).contains(&bytes.len()) && bytes.iter().all(u8::is_ascii_digit)
}

/// A `Content-Length` must be there at most once, be a number, and not promise a body that is not there. A
/// `Transfer-Encoding` beside it must not have got this far.
fn check_length(headers: &HeaderMap, is_body_empty: bool) -> Result<(), RequestFault> {
    let mut lengths = headers.get_all(header::CONTENT_LENGTH).iter();
    let Some(length) = lengths.next() else { return Ok(()) };
    let is_number = !length.is_empty() && length.as_bytes().iter().all(u8::is_ascii_digit);
    let is_zero = length.as_bytes().iter().all(|digit| *digit == b'0');
    let contradicts = (is_body_empty && !is_zero) || headers.contains_key(header::TRANSFER_ENCODING);
    if !is_number || contradicts || lengths.next().is_some() {
        return Err(RequestFault::Length);
    }
    Ok(())
}

/// Whatever form the target had, the origin gets a path, or `*` with OPTIONS.
fn use_path_as_target(parts: &mut request::Parts) -> Result<(), RequestFault> {
    if let Some(scheme) = parts.uri.scheme()
        && *scheme != Scheme::HTTP
        && *scheme != Scheme::HTTPS
    {
        return Err(RequestFault::Target);
    }
    let path = parts.uri.path();
    let is_path = path.starts_with('/') || (path == "*" && parts.method == Method::OPTIONS);
    if !is_path {
        return Err(RequestFault::Target);
    }
    if parts.uri.scheme().is_some() || parts.uri.authority().is_some() {
        parts.uri = path_of(&parts.uri);
    }
    Ok(())
}

/// The path and query of a URL.
fn path_of(uri: &Uri) -> Uri {
    match uri.path_and_query() {
        Some(path) if !path.as_str().is_empty() => Uri::from(path.clone()),
        _ => Uri::from(PathAndQuery::from_static("/")),
    }
}

/// HTTP/2 may split cookies over several fields; HTTP/1 has one.
fn join_cookies(headers: &mut HeaderMap) {
    let mut cookies = headers.get_all(header::COOKIE).iter();
    if cookies.next().is_none() || cookies.next().is_none() {
        return;
    }
    let cookies: Vec<&[u8]> = headers.get_all(header::COOKIE).iter().map(HeaderValue::as_bytes).collect();
    if let Ok(joined) = HeaderValue::from_maybe_shared(Bytes::from(cookies.join(&b"; "[..]))) {
        headers.insert(header::COOKIE, joined);
    }
}

/// What a client wants to upgrade to, if that is something we pass on: over HTTP/1.1, with GET and no body, and not to another
/// version of HTTP, in which requests would pass unseen. Any other wish is ignored, as a server may.
fn requested_upgrade(parts: &request::Parts, is_body_empty: bool) -> Option<HeaderValue> {
    let mut upgrades = parts.headers.get_all(header::UPGRADE).iter();
    let upgrade = upgrades.next()?;
    let is_fit = upgrades.next().is_none()
        && parts.version == Version::HTTP_11
        && parts.method == Method::GET
        && is_body_empty
        && has_token(&parts.headers, &header::CONNECTION, "upgrade");
    if !is_fit {
        return None;
    }
    let protocols = upgrade.to_str().ok()?;
    let mut names = protocols.split(',').map(|name| name.trim().split('/').next().unwrap_or_default());
    let is_other_protocol = names.all(|name| {
        !name.is_empty() && !["h2c", "h2", "http", "tls"].iter().any(|http| name.eq_ignore_ascii_case(http))
    });
    is_other_protocol.then(|| upgrade.clone())
}

/// What a request needs on top where HTTP/1.1 is spoken.
pub(crate) fn apply_http1_framing(
    headers: &mut HeaderMap,
    is_body_empty: bool,
    upgrade: Option<&HeaderValue>,
) {
    if !is_body_empty && !headers.contains_key(header::CONTENT_LENGTH) {
        // Said explicitly, because hyper takes a GET for one without a body otherwise.
        headers.insert(header::TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
    }
    if let Some(upgrade) = upgrade {
        headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(header::UPGRADE, upgrade.clone());
    } else if headers.contains_key(header::TE) {
        headers.insert(header::CONNECTION, HeaderValue::from_static("te"));
    }
}

/// What a request must look like where HTTP/2 is spoken: the host is part of the target.
pub(crate) fn apply_http2_framing(parts: &mut request::Parts, is_tls: bool) {
    let Some(host) = parts.headers.remove(header::HOST) else { return };
    let path = parts.uri.path_and_query().cloned();
    let scheme = if is_tls { Scheme::HTTPS } else { Scheme::HTTP };
    let target = Uri::builder().scheme(scheme).authority(host.as_bytes());
    if let Some(path) = path
        && let Ok(target) = target.path_and_query(path).build()
    {
        parts.uri = target;
    }
}

/// Takes off what the two above have put on, for another attempt.
pub(crate) fn remove_framing(parts: &mut request::Parts) {
    for name in [header::TRANSFER_ENCODING, header::CONNECTION, header::UPGRADE] {
        parts.headers.remove(name);
    }
    let host = parts.uri.authority().and_then(|authority| HeaderValue::from_str(authority.as_str()).ok());
    if let Some(host) = host {
        parts.headers.insert(header::HOST, host);
        parts.uri = path_of(&parts.uri);
    }
}
