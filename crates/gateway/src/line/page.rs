//! Answers of our own: pages for people, JSON for programs, and the figures about them.

use std::sync::Arc;

use anteroom_pages::{Page, Pages, TemplateFailure};
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use crate::body::GatewayBody;
use crate::classify::{self, SEC_FETCH_MODE};
use crate::gateway::OWN_PREFIX;
use crate::line::SEC_FETCH_SITE;
use crate::line::query::ADDRESS_MAX_BYTES;

/// What a page depends on beside what it tells.
const PREFERENCES: [HeaderName; 4] =
    [header::ACCEPT, header::ACCEPT_LANGUAGE, header::ACCEPT_ENCODING, header::USER_AGENT];

/// How many languages a site may ask for.
const LANGUAGES_MAX: usize = 8;

/// One warning for each request of a waiting visitor would fill the log.
const FAILURES_PER_WARNING: u64 = 1_000;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PageLabels {
    situation: &'static str,
    language: String,
}

/// Writes pages, and counts them.
pub(crate) struct Writer {
    pages: Arc<Pages>,
    /// The page that tells what kinds of problems there are.
    problems: String,
    written: Family<PageLabels, Counter>,
    /// Pages of operators that could not be written.
    template_failures: Counter,
}

impl Writer {
    pub(crate) fn new(pages: Arc<Pages>, problems: String) -> Self {
        Self { pages, problems, written: Family::default(), template_failures: Counter::default() }
    }

    pub(crate) fn register(&self, registry: &mut Registry) {
        registry.register(
            "pages",
            "Pages shown to visitors, by what they tell and in which language",
            self.written.clone(),
        );
        registry.register(
            "page_template_failures",
            "Pages of operators that could not be written, and were replaced by the built-in one",
            self.template_failures.clone(),
        );
    }

    fn write(&self, status: StatusCode, page: &Page<'_>, asked: &HeaderMap) -> Response<GatewayBody> {
        let mut response = self.pages.respond(status, page, asked);
        if let Some(TemplateFailure { name, problem }) = response.extensions_mut().remove() {
            let failed_before = self.template_failures.inc();
            if failed_before.is_multiple_of(FAILURES_PER_WARNING) {
                let room = page.room.unwrap_or_default();
                tracing::warn!(room, template = name, %problem, "page template of room is not usable, serving the built-in page");
            }
        }
        let headers = response.headers_mut();
        let language = headers.get(header::CONTENT_LANGUAGE).and_then(|language| language.to_str().ok());
        let labels = PageLabels {
            situation: page.situation.name(),
            language: language.unwrap_or_default().to_owned(),
        };
        headers.insert(header::CACHE_CONTROL, NO_STORE);
        headers.insert(
            header::VARY,
            HeaderValue::from_static("Accept, Accept-Language, Accept-Encoding, Cookie"),
        );
        self.written.get_or_create(&labels).inc();
        response.map(GatewayBody::of)
    }
}

const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");

/// The reader of a response: a person gets a page in their language, a program JSON.
pub(crate) struct Reader<'gateway> {
    writer: &'gateway Writer,
    pub(crate) wants_page: bool,
    /// The request target, as a path of this host, where repeating the request changes nothing.
    pub(crate) address: Option<String>,
    preferences: HeaderMap,
}

impl<'gateway> Reader<'gateway> {
    pub(crate) fn of<B>(writer: &'gateway Writer, request: &Request<B>) -> Self {
        let headers = request.headers();
        let wants_page = classify::wants_page(headers);
        let may_ask_again = wants_page && request.method() == Method::GET;
        let address = may_ask_again.then(|| path_and_query(request));
        let mut preferences = HeaderMap::new();
        // The length of a compressed page would tell a page of another site, which has it fetched again and again, what is in it.
        let is_fetched_by_other_site = headers.get(SEC_FETCH_SITE).is_some_and(|site| site == "cross-site")
            && headers.get(SEC_FETCH_MODE).is_none_or(|mode| mode != "navigate");
        let is_used = |name: &&HeaderName| {
            wants_page && !(is_fetched_by_other_site && **name == header::ACCEPT_ENCODING)
        };
        // Programs get JSON, which is the same for all of them.
        for name in PREFERENCES.iter().filter(is_used) {
            for value in headers.get_all(name) {
                preferences.append(name, value.clone());
            }
        }
        Self { writer, wants_page, address, preferences }
    }

    /// The same for a request whose path has lost the prefix of our own paths, by which it works on every host.
    pub(crate) fn below_prefix(mut self) -> Self {
        self.address = self.address.map(|address| format!("{OWN_PREFIX}{}", address.trim_start_matches('/')));
        self
    }

    /// The same for a page at this address, which may be a long one.
    pub(crate) fn at(mut self, address: &str) -> Self {
        self.address = self.address.map(|_| address.to_owned());
        self
    }

    /// The same for a reader who prefers these languages, parted by spaces, to those of their browser.
    pub(crate) fn preferring(mut self, languages: Option<&str>) -> Self {
        let is_plain = |tag: &&str| tag.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        let tags: Vec<&str> = languages
            .unwrap_or_default()
            .split_ascii_whitespace()
            .filter(is_plain)
            .take(LANGUAGES_MAX)
            .collect();
        if !self.wants_page || tags.is_empty() {
            return self;
        }
        let accepted = self.preferences.get(header::ACCEPT_LANGUAGE).and_then(|value| value.to_str().ok());
        let languages = [&tags.join(","), accepted.unwrap_or_default()].join(",");
        if let Ok(languages) = HeaderValue::try_from(languages) {
            self.preferences.insert(header::ACCEPT_LANGUAGE, languages);
        }
        self
    }

    /// The `type` of a problem.
    pub(crate) fn problem(&self, slug: &str) -> String {
        format!("{}#{slug}", self.writer.problems)
    }

    /// A page.
    pub(crate) fn page(&self, status: StatusCode, page: &Page<'_>) -> Response<GatewayBody> {
        self.writer.write(status, page, &self.preferences)
    }
}

/// The path and query of a request: a path of this very site, however many slashes it begins with. Of one that is too long the path
/// alone, or the site: the browser still has the whole one.
pub(crate) fn path_and_query<B>(request: &Request<B>) -> String {
    let address = request.uri().path_and_query().map_or("/", |address| address.as_str());
    let fits = |address: &&str| address.len() <= ADDRESS_MAX_BYTES;
    let path = request.uri().path();
    let address = Some(address).filter(fits).or(Some(path).filter(fits)).unwrap_or("/");
    format!("/{}", address.trim_start_matches(['/', '\\']))
}

/// An answer of ours to a program.
pub(crate) fn json(status: StatusCode, kind: HeaderValue, body: &serde_json::Value) -> Response<GatewayBody> {
    let mut response = Response::new(GatewayBody::of(body.to_string()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, kind);
    // The response depends on the client and its preferences, and is true for a moment.
    headers.insert(header::CACHE_CONTROL, NO_STORE);
    headers.insert(header::VARY, HeaderValue::from_static("Accept, Cookie"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_repeats_no_address_that_is_too_long() {
        let repeated = |address: &str| path_and_query(&Request::get(address).body(()).unwrap());
        assert_eq!(repeated("/sale?seat=7"), "/sale?seat=7");
        assert_eq!(repeated("//evil.example/"), "/evil.example/");
        assert_eq!(repeated(&format!("/sale?{}", "&".repeat(31_000))), "/sale");
        assert_eq!(repeated(&format!("/{}", "a".repeat(31_000))), "/");
    }
}
