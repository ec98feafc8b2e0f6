//! What origins learn about the path of a request: `Forwarded`, `X-Forwarded-*` and `CDN-Loop`.
//!
//! No `Via`: nginx does not compress responses to requests that carry it.

use std::fmt::Write;
use std::net::IpAddr;

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};

use crate::error::RequestFault;
use crate::forward::Hop;
use crate::settings::ForwardedPolicy;

/// The kinds of gateways that a request went through (RFC 8586).
const CDN_LOOP: HeaderName = HeaderName::from_static("cdn-loop");
/// How we call ourselves there.
const OWN_NAME: &str = "anteroom";
/// How many gateways of our kind a request may have come through. More than these are a circle.
const GATEWAYS_MAX: usize = 8;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// Tells the origin who asked, how, and for which host.
pub(super) fn set_forwarded(
    headers: &mut HeaderMap,
    policy: ForwardedPolicy,
    hop: &Hop,
    host: Option<&HeaderValue>,
) {
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

/// An address as text, without an allocation. An IPv4-mapped IPv6 address is written as IPv4.
struct Address {
    text: [u8; 45],
    length: usize,
}

impl Address {
    fn of(address: IpAddr) -> Self {
        let mut written = Self { text: [0; 45], length: 0 };
        // The longest address has 45 characters.
        let _ = write!(written, "{}", address.to_canonical());
        written
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

/// Removes what tells an origin who asked.
pub(super) fn remove_forwarded(headers: &mut HeaderMap) {
    if headers.keys().any(|name| is_forwarded(name.as_str())) {
        let names: Vec<HeaderName> =
            headers.keys().filter(|name| is_forwarded(name.as_str())).cloned().collect();
        for name in names {
            headers.remove(name);
        }
    }
}

/// Whether a field tells an origin who asked.
pub(super) fn is_forwarded(name: &str) -> bool {
    name == "forwarded" || name == "x-real-ip" || name.starts_with("x-forwarded-")
}

/// Adds us to `CDN-Loop`, and refuses a request that goes in a circle.
pub(super) fn extend_cdn_loop(headers: &mut HeaderMap) -> Result<(), RequestFault> {
    let passed = headers
        .get_all(CDN_LOOP)
        .iter()
        .flat_map(|value| value.as_bytes().split(|byte| *byte == b','))
        .filter(|name| name.trim_ascii().eq_ignore_ascii_case(OWN_NAME.as_bytes()))
        .count();
    if passed >= GATEWAYS_MAX {
        return Err(RequestFault::Loop);
    }
    join_to_list(headers, CDN_LOOP, HeaderValue::from_static(OWN_NAME));
    Ok(())
}

/// Adds a value at the end of a list, in one line, because some servers do not read the second.
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
