//! What a request is: a visitor's navigation, who could stand in a line, or something that could not.
//!
//! Browsers say what they fetch (`Sec-Fetch-Mode`, `Sec-Fetch-Dest`), and scripts cannot forge that. Where nothing is said, only a GET
//! that asks for HTML is a navigation; `curl`, probes and monitors do not ask for it. Crawlers do, and are known by their names: one
//! that hides its name is turned away by its missing cookie.

pub(crate) mod path_readings;
pub(crate) mod plain_path;
pub(crate) mod protected_paths;
pub(crate) mod request_target;
pub(crate) mod rooms;

use http::header::{self, HeaderMap, HeaderName};
use http::{Method, Request};

use crate::line::SEC_FETCH_SITE;

pub(crate) const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const SEC_FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");
const SEC_PURPOSE: HeaderName = HeaderName::from_static("sec-purpose");
const PURPOSE: HeaderName = HeaderName::from_static("purpose");
const X_MOZ: HeaderName = HeaderName::from_static("x-moz");

/// Parts of the names by which crawlers and previews of links call themselves.
const CRAWLERS: [&str; 13] = [
    "bot",
    "crawl",
    "spider",
    "slurp",
    "facebookexternalhit",
    "preview",
    "whatsapp",
    "monitor",
    "uptime",
    "pingdom",
    "lighthouse",
    "headlesschrome-probe",
    "httpclient",
];

/// What kind of request it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A person opens a page. The only kind that takes a place by itself.
    Navigation,
    /// A program reads something: a script of the page, an app, a probe.
    Read,
    /// Part of a page: an image, a script, a style.
    SubResource,
    /// Something that wants to change something. It is never passed on later, nor answered as if it had been.
    Change,
}

/// The kind of a request.
pub(crate) fn kind<B>(request: &Request<B>) -> Kind {
    let headers = request.headers();
    match *request.method() {
        Method::GET => {}
        Method::HEAD => return Kind::Read,
        _ => return Kind::Change,
    }
    let fetches = |name: &HeaderName| headers.get(name).map(http::HeaderValue::as_bytes);
    if is_fetched_ahead(headers) {
        return Kind::SubResource;
    }
    match (fetches(&SEC_FETCH_MODE), fetches(&SEC_FETCH_DEST)) {
        (Some(b"navigate"), Some(b"document") | None) if !is_crawler(headers) => Kind::Navigation,
        // A frame in a page of this very site: there the visitor has their cookie, and sees the waiting page.
        (Some(b"navigate"), Some(b"iframe" | b"frame"))
            if fetches(&SEC_FETCH_SITE) == Some(b"same-origin") && !is_crawler(headers) =>
        {
            Kind::Navigation
        }
        (_, Some(b"empty")) | (Some(_), None) => Kind::Read,
        (_, Some(_)) => Kind::SubResource,
        (None, None) if asks_for(headers, "text/html") && !is_crawler(headers) => Kind::Navigation,
        (None, None) => Kind::Read,
    }
}

/// Pages that a browser prefetches.
fn is_fetched_ahead(headers: &HeaderMap) -> bool {
    [SEC_PURPOSE, PURPOSE, X_MOZ].iter().any(|name| {
        let value = headers.get(name).map_or(&b""[..], |value| value.as_bytes());
        value.starts_with(b"prefetch") || value.starts_with(b"prerender")
    })
}

fn is_crawler(headers: &HeaderMap) -> bool {
    let Some(agent) = headers.get(header::USER_AGENT).and_then(|agent| agent.to_str().ok()) else {
        return false;
    };
    let agent = agent.as_bytes();
    // Each navigation comes by here, and hardly any place can be the beginning of a name: one look at a letter decides.
    (0..agent.len()).any(|place| {
        IS_CRAWLER_INITIAL[usize::from(agent[place])]
            && begins_with_crawler(&agent[place..])
            && !is_telephone(&agent[..place])
    })
}

/// Whether the name of a crawler stands here.
fn begins_with_crawler(text: &[u8]) -> bool {
    let [first, second, ..] = *text else { return false };
    let begin = [first.to_ascii_lowercase(), second.to_ascii_lowercase()];
    // Two letters leave one name at the most, and mostly none.
    let name = CRAWLERS.iter().map(|name| name.as_bytes()).find(|name| name[..2] == begin);
    name.is_some_and(|name| text.get(..name.len()).is_some_and(|text| text.eq_ignore_ascii_case(name)))
}

/// Whether the `bot` behind this is the end of a make of telephones.
fn is_telephone(before: &[u8]) -> bool {
    before.last_chunk::<2>().is_some_and(|last| last.eq_ignore_ascii_case(b"cu"))
}

/// Which bytes the names of crawlers begin with, in either case.
static IS_CRAWLER_INITIAL: [bool; 256] = {
    let mut initials = [false; 256];
    let mut index = 0;
    while index < CRAWLERS.len() {
        let initial = CRAWLERS[index].as_bytes()[0];
        initials[initial as usize] = true;
        initials[initial.to_ascii_uppercase() as usize] = true;
        index += 1;
    }
    initials
};

/// Whether one of the `Accept` headers names a type of content.
fn asks_for(headers: &HeaderMap, content: &str) -> bool {
    headers.get_all(header::ACCEPT).iter().filter_map(|accept| accept.to_str().ok()).any(|accept| {
        accept.split(',').any(|range| {
            range.split(';').next().is_some_and(|range| range.trim().eq_ignore_ascii_case(content))
        })
    })
}

/// Whether an answer of ours is read by a person. Programs get JSON.
pub(crate) fn wants_page(headers: &HeaderMap) -> bool {
    asks_for(headers, "text/html")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind_of(method: &str, headers: &[(&str, &str)]) -> Kind {
        let mut request = Request::builder().method(method).uri("/");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        kind(&request.body(()).unwrap())
    }

    #[test]
    fn only_people_who_open_pages_navigate() {
        let html = ("accept", "text/html,application/xhtml+xml,*/*;q=0.8");
        let firefox =
            ("user-agent", "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0");
        assert_eq!(kind_of("GET", &[html, firefox]), Kind::Navigation);
        let (mode, dest) = (("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document"));
        assert_eq!(kind_of("GET", &[html, mode, dest]), Kind::Navigation);
        assert_eq!(kind_of("GET", &[("accept", "*/*")]), Kind::Read, "curl");
        assert_eq!(kind_of("GET", &[]), Kind::Read, "a probe");
        assert_eq!(kind_of("HEAD", &[html]), Kind::Read);
        assert_eq!(kind_of("POST", &[html, mode, dest]), Kind::Change);
        assert_eq!(
            kind_of("GET", &[("sec-fetch-mode", "no-cors"), ("sec-fetch-dest", "image")]),
            Kind::SubResource
        );
        let frame = ("sec-fetch-dest", "iframe");
        assert_eq!(kind_of("GET", &[html, mode, frame]), Kind::SubResource);
        for (site, kind) in [
            ("same-origin", Kind::Navigation),
            ("same-site", Kind::SubResource),
            ("cross-site", Kind::SubResource),
        ] {
            assert_eq!(kind_of("GET", &[html, mode, frame, ("sec-fetch-site", site)]), kind, "{site}");
        }
        assert_eq!(kind_of("GET", &[("sec-fetch-mode", "cors"), ("sec-fetch-dest", "empty")]), Kind::Read);
        assert_eq!(
            kind_of("GET", &[html, mode, dest, ("sec-purpose", "prefetch;prerender")]),
            Kind::SubResource
        );
        assert_eq!(
            kind_of("GET", &[html, ("user-agent", "Mozilla/5.0 (compatible; Googlebot/2.1)")]),
            Kind::Read
        );
        let mut begins: Vec<&str> = CRAWLERS.iter().map(|name| &name[..2]).collect();
        begins.sort_unstable();
        begins.dedup();
        assert_eq!(begins.len(), CRAWLERS.len(), "two letters tell them apart");
        for crawler in
            ["Lighthouse", "x SLURP", "WhatsApp/2.23", "a-Spider", "okhttpclient", "Botbot", "cubot bot"]
        {
            assert_eq!(kind_of("GET", &[html, ("user-agent", crawler)]), Kind::Read, "{crawler}");
        }
        for person in
            ["Mozilla/5.0 (Linux; Android 14; CUBOT X90) AppleWebKit/537.36", "bo", "Spide", "", "Cubot"]
        {
            assert_eq!(kind_of("GET", &[html, ("user-agent", person)]), Kind::Navigation, "{person}");
        }
    }
}
