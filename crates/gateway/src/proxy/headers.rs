//! What of a message may pass from one side to the other: checks of requests and answers, hop-by-hop fields, and what origins
//! are told about the client.
//!
//! Two servers that read one message differently are how requests are smuggled. So what could be read in two ways is refused
//! here, and what concerns only one connection never leaves it.

use std::fmt::Write;
use std::net::IpAddr;

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::uri::{Scheme, Uri};
use http::{Method, StatusCode, Version, request, response};
use hyper::body::Frame;

use super::error::{RequestFault, ResponseFault};
use super::forward::Hop;
use super::settings::{ForwardedPolicy, ProxySettings};

/// How we call ourselves in `Via`.
const VIA: HeaderValue = HeaderValue::from_static("1.1 anteroom");
/// The same as it is looked for.
const VIA_NAME: &[u8] = b"anteroom";
/// How many gateways of our kind a request may have come through. More than these are a circle.
const GATEWAYS_MAX: usize = 8;
/// Request header fields that begin so are ours.
const OWN_PREFIX: &str = "anteroom-";

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");
const HTTP2_SETTINGS: HeaderName = HeaderName::from_static("http2-settings");
const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// Checks a request and makes it fit for an origin, whichever protocol it speaks. Afterwards the target is a path, there is one
/// `Host`, and nothing says how the body is framed but a `Content-Length` that is true.
///
/// Returns what the client wants to upgrade to.
pub(super) fn prepare_request(
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
    let upgrade = upgrade_asked(parts, is_body_empty);
    let wants_trailers = has_token(&parts.headers, &header::TE, "trailers");
    let headers = &mut parts.headers;
    remove_hop_by_hop(headers);
    headers.remove(header::EXPECT);
    remove_impostors(headers);
    if wants_trailers {
        headers.insert(header::TE, HeaderValue::from_static("trailers"));
    }
    if let Some(host) = host {
        tell_forwarded(headers, settings.forwarded, hop, Some(&host));
        headers.insert(header::HOST, host);
    } else {
        tell_forwarded(headers, settings.forwarded, hop, None);
    }
    tell_via(headers)?;
    if is_body_empty
        && matches!(parts.method, Method::POST | Method::PUT | Method::PATCH)
        && !headers.contains_key(header::CONTENT_LENGTH)
    {
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from_static("0"));
    }
    for (name, value) in extra {
        headers.append(name.clone(), value.clone());
    }
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
        let path = parts.uri.path_and_query().cloned().ok_or(RequestFault::Target)?;
        parts.uri = Uri::from(path);
    }
    Ok(())
}

/// What a client wants to upgrade to, if that is something we pass on: over HTTP/1.1, with GET and no body, and not to another
/// version of HTTP, in which requests would pass unseen. Any other wish is ignored, as a server may.
fn upgrade_asked(parts: &request::Parts, is_body_empty: bool) -> Option<HeaderValue> {
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

/// Whether a list of tokens has this one.
fn has_token(headers: &HeaderMap, name: &HeaderName, token: &str) -> bool {
    headers.get_all(name).iter().any(|value| {
        let mut tokens = value.as_bytes().split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
        tokens.any(|one| {
            one.split(|byte| *byte == b';')
                .next()
                .is_some_and(|one| one.trim_ascii().eq_ignore_ascii_case(token.as_bytes()))
        })
    })
}

/// Removes what concerns one connection only: the fields named by `Connection`, and those that always do.
fn remove_hop_by_hop(headers: &mut HeaderMap) {
    if headers.contains_key(header::CONNECTION) {
        let named: Vec<HeaderName> = headers
            .get_all(header::CONNECTION)
            .iter()
            .flat_map(|value| value.as_bytes().split(|byte| *byte == b','))
            .filter_map(|name| HeaderName::from_bytes(name.trim_ascii()).ok())
            // Removing the length would change what the message is; it is not one connection's business.
            .filter(|name| *name != header::CONTENT_LENGTH)
            .collect();
        for name in named {
            headers.remove(name);
        }
        headers.remove(header::CONNECTION);
    }
    for name in [
        header::TRANSFER_ENCODING,
        header::UPGRADE,
        header::TE,
        header::PROXY_AUTHORIZATION,
        header::PROXY_AUTHENTICATE,
        KEEP_ALIVE,
        PROXY_CONNECTION,
        HTTP2_SETTINGS,
    ] {
        headers.remove(name);
    }
}

/// Removes the fields that only we may set, and those that some origins would take for them.
fn remove_impostors(headers: &mut HeaderMap) {
    if headers.keys().any(is_impostor) {
        let impostors: Vec<HeaderName> = headers.keys().filter(|name| is_impostor(name)).cloned().collect();
        for name in impostors {
            headers.remove(name);
        }
    }
}

/// To a CGI program `a_b` and `a-b` are the same field. So what is ours with a hyphen must not come with an underscore.
fn is_impostor(name: &HeaderName) -> bool {
    let name = name.as_str();
    if !name.contains('_') {
        return name.starts_with(OWN_PREFIX);
    }
    let hyphened = name.replace('_', "-");
    hyphened.starts_with(OWN_PREFIX)
        || is_forwarded(&hyphened)
        || ["content-length", "transfer-encoding", "proxy-connection", "keep-alive"]
            .contains(&hyphened.as_str())
}

/// Tells the origin who asked, how, and for which host.
fn tell_forwarded(headers: &mut HeaderMap, policy: ForwardedPolicy, hop: &Hop, host: Option<&HeaderValue>) {
    if policy != ForwardedPolicy::Append {
        remove_forwarded(headers);
    }
    if policy == ForwardedPolicy::Remove {
        return;
    }
    let address = Address::of(hop.client);
    let scheme = if hop.is_tls { "https" } else { "http" };
    let mut line = String::with_capacity(96);
    // Writing to a string cannot fail.
    let _ = match hop.client.to_canonical() {
        IpAddr::V4(_) => write!(line, "for={};proto={scheme}", address.as_str()),
        IpAddr::V6(_) => write!(line, "for=\"[{}]\";proto={scheme}", address.as_str()),
    };
    if let Some(host) = host.and_then(|host| host.to_str().ok()) {
        let _ = write!(line, ";host=\"{host}\"");
    }
    let line = HeaderValue::from_maybe_shared(Bytes::from(line)).ok();
    let client = HeaderValue::from_str(address.as_str()).ok();
    for (name, value) in [
        (X_FORWARDED_FOR, client),
        (X_FORWARDED_PROTO, Some(HeaderValue::from_static(scheme))),
        (X_FORWARDED_HOST, host.cloned()),
        (header::FORWARDED, line),
    ] {
        let Some(value) = value else { continue };
        if policy == ForwardedPolicy::Append {
            join_to_list(headers, name, value);
        } else {
            headers.insert(name, value);
        }
    }
}

/// An address as text, without a place on the heap. An IPv4 address that came as an IPv6 one is shown as what it is.
struct Address {
    text: [u8; 45],
    length: usize,
}

impl Address {
    fn of(address: IpAddr) -> Self {
        let mut shown = Self { text: [0; 45], length: 0 };
        // The longest address has 45 characters.
        let _ = write!(shown, "{}", address.to_canonical());
        shown
    }

    fn as_str(&self) -> &str {
        std::str::from_utf8(&self.text[..self.length]).unwrap_or_default()
    }
}

impl Write for Address {
    fn write_str(&mut self, part: &str) -> std::fmt::Result {
        let end = self.length + part.len();
        self.text.get_mut(self.length..end).ok_or(std::fmt::Error)?.copy_from_slice(part.as_bytes());
        self.length = end;
        Ok(())
    }
}

fn remove_forwarded(headers: &mut HeaderMap) {
    if headers.keys().any(|name| is_forwarded(name.as_str())) {
        let told: Vec<HeaderName> =
            headers.keys().filter(|name| is_forwarded(name.as_str())).cloned().collect();
        for name in told {
            headers.remove(name);
        }
    }
}

/// Whether a field tells an origin who asked.
fn is_forwarded(name: &str) -> bool {
    name == "forwarded" || name == "x-real-ip" || name.starts_with("x-forwarded-")
}

/// Adds a value at the end of a list, in one line, because not everybody reads the second.
fn join_to_list(headers: &mut HeaderMap, name: HeaderName, value: HeaderValue) {
    let mut list: Vec<u8> = vec![];
    for before in headers.get_all(&name) {
        list.extend_from_slice(before.as_bytes());
        list.extend_from_slice(b", ");
    }
    if list.is_empty() {
        headers.insert(name, value);
        return;
    }
    list.extend_from_slice(value.as_bytes());
    if let Ok(joined) = HeaderValue::from_maybe_shared(Bytes::from(list)) {
        headers.insert(name, joined);
    }
}

/// Names us in `Via`, and notices a request that goes in a circle.
fn tell_via(headers: &mut HeaderMap) -> Result<(), RequestFault> {
    let passed = headers
        .get_all(header::VIA)
        .iter()
        .flat_map(|value| value.as_bytes().split(|byte| *byte == b','))
        .filter(|via| via.trim_ascii().ends_with(VIA_NAME))
        .count();
    if passed >= GATEWAYS_MAX {
        return Err(RequestFault::Loop);
    }
    join_to_list(headers, header::VIA, VIA);
    Ok(())
}

/// What a request needs on top where HTTP/1.1 is spoken.
pub(super) fn dress_for_http1(headers: &mut HeaderMap, is_body_empty: bool, upgrade: Option<&HeaderValue>) {
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
pub(super) fn dress_for_http2(parts: &mut request::Parts, is_tls: bool) {
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
pub(super) fn undress(parts: &mut request::Parts) {
    for name in [header::TRANSFER_ENCODING, header::CONNECTION, header::UPGRADE] {
        parts.headers.remove(name);
    }
    let host = parts.uri.authority().and_then(|authority| HeaderValue::from_str(authority.as_str()).ok());
    if let Some(host) = host {
        parts.headers.insert(header::HOST, host);
        if let Some(path) = parts.uri.path_and_query().cloned() {
            parts.uri = Uri::from(path);
        }
    }
}

/// Checks an answer and removes what does not concern the client. `asked` is the upgrade that was asked for.
///
/// Returns whether the origin switches protocols.
pub(super) fn prepare_response(
    parts: &mut response::Parts,
    asked: Option<&HeaderValue>,
) -> Result<bool, ResponseFault> {
    let headers = &mut parts.headers;
    if parts.status == StatusCode::SWITCHING_PROTOCOLS {
        let chosen = headers.get(header::UPGRADE).cloned();
        let chosen = chosen.filter(|chosen| asked.is_some_and(|asked| is_one_of(chosen, asked)));
        let chosen = chosen.ok_or(ResponseFault::UnaskedUpgrade)?;
        remove_hop_by_hop(headers);
        headers.remove(header::CONTENT_LENGTH);
        headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(header::UPGRADE, chosen);
        return Ok(true);
    }
    if headers.contains_key(header::TRANSFER_ENCODING) {
        if headers.contains_key(header::CONTENT_LENGTH) {
            return Err(ResponseFault::Length);
        }
        let mut codings = headers.get_all(header::TRANSFER_ENCODING).iter();
        let is_chunked =
            codings.next().is_some_and(|coding| coding.as_bytes().eq_ignore_ascii_case(b"chunked"));
        if !is_chunked || codings.next().is_some() {
            return Err(ResponseFault::TransferCoding);
        }
    }
    if let Some(length) = headers.get(header::CONTENT_LENGTH) {
        let is_list = length.as_bytes().contains(&b',');
        if is_list || headers.get_all(header::CONTENT_LENGTH).iter().nth(1).is_some() {
            return Err(ResponseFault::Length);
        }
        if parts.status == StatusCode::NO_CONTENT {
            headers.remove(header::CONTENT_LENGTH);
        }
    }
    remove_hop_by_hop(headers);
    Ok(false)
}

/// Whether the protocol that an origin chose is one of those that were asked for.
fn is_one_of(chosen: &HeaderValue, asked: &HeaderValue) -> bool {
    let chosen = chosen.as_bytes().trim_ascii();
    asked.as_bytes().split(|byte| *byte == b',').any(|name| name.trim_ascii().eq_ignore_ascii_case(chosen))
}

/// Removes from trailers what must not come after a body: how it is framed, where it goes, and what is ours.
pub(super) fn cleanse_trailers(frame: Frame<Bytes>) -> Frame<Bytes> {
    let mut trailers = match frame.into_trailers() {
        Ok(trailers) => trailers,
        Err(frame) => return frame,
    };
    remove_hop_by_hop(&mut trailers);
    remove_impostors(&mut trailers);
    remove_forwarded(&mut trailers);
    for name in [
        header::CONTENT_LENGTH,
        header::HOST,
        header::TRAILER,
        header::AUTHORIZATION,
        header::CONTENT_TYPE,
        header::CONTENT_ENCODING,
        header::CONTENT_RANGE,
        header::COOKIE,
        header::SET_COOKIE,
        header::EXPECT,
        header::VIA,
    ] {
        trailers.remove(name);
    }
    Frame::trailers(trailers)
}
