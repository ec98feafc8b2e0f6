//! What of a message may pass from one side to the other: checks of requests and responses, hop-by-hop fields, and what
//! origins learn about the client.
//!
//! Two servers that read one message differently are how requests are smuggled. So what could be read in two ways is refused
//! here, and what concerns only one connection never leaves it.

mod forwarded;
mod request;
mod response;

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName};
use hyper::body::Frame;

use forwarded::{is_forwarded, remove_forwarded};

pub(super) use request::{apply_http1_framing, apply_http2_framing, prepare_request, remove_framing};
pub(super) use response::prepare_response;

/// Header fields of requests that begin so are ours.
const OWN_PREFIX: &str = "anteroom-";

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");
const HTTP2_SETTINGS: HeaderName = HeaderName::from_static("http2-settings");

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

/// Fields by which some origins let a request name another target, or another host, than the one that was checked here: IIS and its
/// rewriting modules, Symfony, Zend, Envoy, and applications that trust the proxy before them.
const TARGET_OVERRIDES: [&str; 13] = [
    "x-original-url",
    "x-original-uri",
    "x-original-path",
    "x-original-host",
    "x-original-request-uri",
    "x-rewrite-url",
    "x-rewrite-uri",
    "x-override-url",
    "x-forwarded-uri",
    "x-forwarded-path",
    "x-envoy-original-path",
    "x-http-host-override",
    "x-host",
];

/// Removes the fields that only we may set, those that some origins would take for them, and those that name another target.
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
        return name.starts_with(OWN_PREFIX) || is_target_override(name);
    }
    let hyphened = name.replace('_', "-");
    hyphened.starts_with(OWN_PREFIX)
        || is_target_override(&hyphened)
        || is_forwarded(&hyphened)
        || ["content-length", "transfer-encoding", "proxy-connection", "keep-alive"]
            .contains(&hyphened.as_str())
}

/// Every one begins with `x-`, which spares the other names the comparison.
fn is_target_override(name: &str) -> bool {
    name.starts_with("x-") && TARGET_OVERRIDES.contains(&name)
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
    ] {
        trailers.remove(name);
    }
    Frame::trailers(trailers)
}
