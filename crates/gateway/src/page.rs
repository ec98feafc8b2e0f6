//! The pages that visitors see: complete without JavaScript, nothing fetched from elsewhere, light and dark.

use askama::Template;
use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::{Response, StatusCode};

use crate::body::GatewayBody;

/// Allows nothing but the style that stands in the page, and its own forms.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'self'; frame-ancestors 'self'",
);

/// One page. Which parts it has is decided by what is set.
#[derive(Debug, Default, Template)]
#[template(path = "page.html")]
pub(crate) struct Page<'text> {
    pub(crate) title: &'text str,
    /// A sentence below the title.
    pub(crate) lead: &'text str,
    /// What the operator tells those who wait.
    pub(crate) notice: Option<&'text str>,
    pub(crate) place: Option<PlaceShown>,
    /// After how many seconds the page asks again.
    pub(crate) refresh_seconds: Option<u64>,
    /// What stands below, smaller.
    pub(crate) remarks: Vec<String>,
    /// Where to go by hand, and what that is called.
    pub(crate) link: Option<(String, &'text str)>,
    /// Where the button for leaving the line posts to.
    pub(crate) leave: Option<String>,
    /// Where the button for joining the line posts to.
    pub(crate) join: Option<String>,
}

/// A place in line, as it is shown.
#[derive(Debug)]
pub(crate) struct PlaceShown {
    pub(crate) position: String,
    pub(crate) people_ahead: String,
    pub(crate) estimate: String,
    pub(crate) updated: String,
}

/// A page as an answer.
pub(crate) fn answer(status: StatusCode, page: &Page<'_>) -> Response<GatewayBody> {
    let text = page.render().expect("the template asks for nothing that can fail");
    let mut response = Response::new(GatewayBody::of(Bytes::from(text)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert(header::CONTENT_SECURITY_POLICY, POLICY);
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    mark_private(headers);
    response
}

/// An answer of ours to a program.
pub(crate) fn json(status: StatusCode, kind: HeaderValue, body: &serde_json::Value) -> Response<GatewayBody> {
    let mut response = Response::new(GatewayBody::of(body.to_string()));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    mark_private(response.headers_mut());
    response
}

/// What we answer depends on who asks and what he prefers, and is true for a moment.
fn mark_private(headers: &mut http::HeaderMap) {
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::VARY, HeaderValue::from_static("Accept, Cookie"));
}

/// A number with its thousands apart: 12,345.
pub(crate) fn with_thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A wait in words, from the likely one to the one that nine of ten do not exceed.
pub(crate) fn wait_in_words(likely_seconds: Option<u64>, at_most_seconds: Option<u64>) -> String {
    const MINUTE: u64 = 60;
    const HOUR: u64 = 60 * MINUTE;
    let Some(likely) = likely_seconds else {
        return "not known yet".into();
    };
    let at_most = at_most_seconds.unwrap_or(likely).max(likely);
    if at_most < MINUTE {
        return "less than a minute".into();
    }
    let (unit, name, names) =
        if likely < 2 * HOUR { (MINUTE, "minute", "minutes") } else { (HOUR, "hour", "hours") };
    let (from, to) = (likely.div_ceil(unit).max(1), at_most.div_ceil(unit).max(1));
    match (from, to) {
        (1, 1) => format!("about a {name}").replace("a hour", "an hour"),
        (from, to) if from == to => format!("about {from} {names}"),
        (from, to) => format!("{from} to {to} {names}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_waits_read_well() {
        assert_eq!(with_thousands(0), "0");
        assert_eq!(with_thousands(999), "999");
        assert_eq!(with_thousands(1_000), "1,000");
        assert_eq!(with_thousands(12_345_678), "12,345,678");
        assert_eq!(wait_in_words(None, None), "not known yet");
        assert_eq!(wait_in_words(Some(10), Some(40)), "less than a minute");
        assert_eq!(wait_in_words(Some(50), Some(60)), "about a minute");
        assert_eq!(wait_in_words(Some(200), Some(400)), "4 to 7 minutes");
        assert_eq!(wait_in_words(Some(300), None), "about 5 minutes");
        assert_eq!(wait_in_words(Some(7_200), Some(10_800)), "2 to 3 hours");
    }

    #[test]
    fn what_an_operator_writes_is_text_and_not_markup() {
        let page = Page { title: "T", notice: Some("<script>alert(1)</script>"), ..Page::default() };
        let text = page.render().unwrap();
        assert!(!text.contains("<script>"), "{text}");
    }
}
