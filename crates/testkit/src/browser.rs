//! A visitor of a site behind a gateway: a browser without scripts. It says what it fetches, keeps cookies by a browser's rules,
//! reads the waiting page as a person does, comes back when the page says so, and presses the page's buttons.

mod cookies;

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use crate::http::{Answer, Client, Request};
use crate::site::SERVED_BY;
use crate::wait::{now, pause};

pub use cookies::{CookieJar, SetCookie};

/// What a browser accepts where it opens a page.
pub const PAGE_ACCEPT: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
/// The name by which it calls itself.
pub const USER_AGENT: &str = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0";
/// The headers that say that a person opens a page.
pub const NAVIGATION: [(&str, &str); 6] = [
    ("User-Agent", USER_AGENT),
    ("Accept", PAGE_ACCEPT),
    ("Sec-Fetch-Site", "none"),
    ("Sec-Fetch-Mode", "navigate"),
    ("Sec-Fetch-Dest", "document"),
    ("Sec-Fetch-User", "?1"),
];
/// Where the gateway has a newcomer bring the cookie back.
pub const DOOR: &str = "/.anteroom/enter";
/// How many redirects are followed.
const REDIRECTS_MAX: usize = 10;

/// When a waiting visitor asks again.
#[derive(Debug, Clone, Copy)]
pub enum Asking {
    /// When the page says so.
    AsTold,
    /// After so long, whatever the page says.
    Every(Duration),
}

/// One visitor with one connection.
#[derive(Debug)]
pub struct Browser {
    client: Client,
    host: Option<String>,
    /// What it remembers.
    pub cookies: CookieJar,
}

impl Browser {
    /// A browser that has never been here.
    pub fn new(address: SocketAddr) -> Self {
        Self { client: Client::new(address), host: None, cookies: CookieJar::in_clear() }
    }

    /// Asks for another host than the address.
    #[must_use]
    pub fn of_host(mut self, host: &str) -> Self {
        self.host = Some(host.to_owned());
        self
    }

    /// Comes from this address of the machine.
    #[must_use]
    pub fn from_address(mut self, source: IpAddr) -> Self {
        self.client = self.client.with_source(source);
        self
    }

    /// How long an answer may take.
    #[must_use]
    pub fn with_read_timeout(mut self, read_timeout: Duration) -> Self {
        self.client = self.client.with_read_timeout(read_timeout);
        self
    }

    /// Another browser with the same cookies, of the same person or of a thief.
    #[must_use]
    pub fn copy(&self) -> Self {
        Self { client: self.client.another(), host: self.host.clone(), cookies: self.cookies.clone() }
    }

    /// The same visitor before another server that is the same site.
    #[must_use]
    pub fn moved_to(&self, address: SocketAddr) -> Self {
        Self { client: Client::new(address), ..self.copy() }
    }

    /// A person opens a page. Redirects through the door of the gateway are followed, others are not.
    #[track_caller]
    pub fn open(&mut self, target: &str) -> Answer {
        self.try_open(target).unwrap_or_else(|error| panic!("no answer: {error:#}"))
    }

    /// The same; an error says that there was no answer.
    pub fn try_open(&mut self, target: &str) -> anyhow::Result<Answer> {
        let mut target = target.to_owned();
        for _ in 0..REDIRECTS_MAX {
            let answer = self.try_send(with(Request::new("GET", &target), &NAVIGATION))?;
            let location = answer.header("Location").filter(|_| answer.status == 303);
            match location {
                Some(location) if target.starts_with(DOOR) || location.starts_with(DOOR) => {
                    location.clone_into(&mut target);
                }
                _ => return Ok(answer),
            }
        }
        anyhow::bail!("{REDIRECTS_MAX} redirects in a row, the last to {target}")
    }

    /// A person opens a page, and no redirect is followed.
    #[track_caller]
    pub fn open_once(&mut self, target: &str) -> Answer {
        self.send(with(Request::new("GET", target), &NAVIGATION))
    }

    /// A page loads a part of itself: `image`, `script`, `style`, `iframe`.
    #[track_caller]
    pub fn load(&mut self, target: &str, destination: &str) -> Answer {
        let mode = if destination == "iframe" { "navigate" } else { "no-cors" };
        let headers = [
            ("User-Agent", USER_AGENT),
            ("Accept", if destination == "iframe" { PAGE_ACCEPT } else { "*/*" }),
            ("Sec-Fetch-Site", "same-origin"),
            ("Sec-Fetch-Mode", mode),
            ("Sec-Fetch-Dest", destination),
        ];
        self.send(with(Request::new("GET", target), &headers))
    }

    /// A script of a page asks for something.
    #[track_caller]
    pub fn fetch(&mut self, target: &str) -> Answer {
        let headers = [
            ("User-Agent", USER_AGENT),
            ("Accept", "*/*"),
            ("Sec-Fetch-Site", "same-origin"),
            ("Sec-Fetch-Mode", "cors"),
            ("Sec-Fetch-Dest", "empty"),
        ];
        self.send(with(Request::new("GET", target), &headers))
    }

    /// A form is posted. Redirects are not followed.
    #[track_caller]
    pub fn post(&mut self, target: &str, body: &str) -> Answer {
        let request =
            Request::new("POST", target).header("Content-Type", "application/x-www-form-urlencoded");
        self.send(with(request, &NAVIGATION).body(body))
    }

    /// Presses the button of the page's form whose action contains this text, and goes on to where it leads.
    #[track_caller]
    pub fn press(&mut self, page: &Answer, action: &str) -> Answer {
        let forms = page.forms();
        let form = forms.iter().find(|form| form.contains(action));
        let form = form.unwrap_or_else(|| panic!("no form for {action} among {forms:?}: {page:?}"));
        let mut answer = self.post(form, "");
        for _ in 0..REDIRECTS_MAX {
            let Some(location) = answer.header("Location").filter(|_| matches!(answer.status, 301..=303))
            else {
                break;
            };
            let location = location.to_owned();
            answer = self.open(&location);
        }
        answer
    }

    /// Opens a page again and again until the site answers.
    #[track_caller]
    pub fn enter(&mut self, target: &str, asking: Asking, deadline: Duration) -> Answer {
        let began = now();
        loop {
            let answer = self.open(target);
            if answer.is_from_site() {
                return answer;
            }
            assert!(began.elapsed() < deadline, "not in after {deadline:?}: {answer:?}");
            answer.wait_before_asking_again(asking);
        }
    }

    /// Sends any request, with this visitor's cookies.
    #[track_caller]
    pub fn send(&mut self, request: Request) -> Answer {
        self.try_send(request).unwrap_or_else(|error| panic!("no answer: {error:#}"))
    }

    /// The same; an error says that there was no answer.
    pub fn try_send(&mut self, request: Request) -> anyhow::Result<Answer> {
        let answer = self.client.send(&self.with_browser_headers(request))?;
        self.cookies.take(&answer);
        Ok(answer)
    }

    /// A request as this visitor sends it.
    pub fn with_browser_headers(&self, mut request: Request) -> Request {
        if let Some(host) = &self.host {
            request = request.header("Host", host);
        }
        match self.cookies.header() {
            Some(cookies) => request.header("Cookie", &cookies),
            None => request,
        }
    }
}

fn with(request: Request, headers: &[(&str, &str)]) -> Request {
    headers.iter().fold(request, |request, (name, value)| request.header(name, value))
}

/// What a visitor reads in an answer.
impl Answer {
    /// Whether the site answered, and not the gateway.
    pub fn is_from_site(&self) -> bool {
        self.header(SERVED_BY.0) == Some(SERVED_BY.1)
    }

    /// The number in line that the page shows.
    pub fn shown_position(&self) -> Option<u64> {
        self.number_in("position")
    }

    /// How many people are ahead, as the page shows.
    pub fn shown_people_ahead(&self) -> Option<u64> {
        self.number_in("ahead")
    }

    fn number_in(&self, element: &str) -> Option<u64> {
        let text = self.text();
        let (tag, after) = text.split_once(&format!("id=\"{element}\""))?.1.split_once('>')?;
        let value: u64 = tag.split_once("data-value=\"")?.1.split_once('"')?.0.parse().ok()?;
        // What is written must be what is meant.
        let digits: String = after.split_once('<')?.0.chars().filter(char::is_ascii_digit).collect();
        assert_eq!(digits, value.to_string(), "{self:?}");
        Some(value)
    }

    /// What the page tells: `waiting`, `turn`, `moved` and so on.
    pub fn situation(&self) -> Option<String> {
        let text = self.text();
        Some(text.split_once("data-situation=\"")?.1.split_once('"')?.0.to_owned())
    }

    /// The target of the page's first link whose address contains this text.
    pub fn link(&self, part: &str) -> Option<String> {
        let text = self.text();
        let mut addresses = text.split("href=\"").skip(1).filter_map(|rest| Some(rest.split_once('"')?.0));
        addresses.find(|address| address.contains(part)).map(unescape)
    }

    /// The value of the page's field of this name, or of the one that holds what a script reads.
    pub fn field(&self, name: &str) -> Option<String> {
        let text = self.text();
        let named = [format!("name=\"{name}\""), format!("data-anteroom=\"{name}\"")];
        let mut tags = text.split("<input").skip(1).filter_map(|rest| Some(rest.split_once('>')?.0));
        let tag = tags.find(|tag| named.iter().any(|named| tag.contains(named)))?;
        Some(unescape(tag.split_once("value=\"")?.1.split_once('"')?.0))
    }

    /// After how many seconds the page asks again by itself.
    pub fn refresh_seconds(&self) -> Option<u64> {
        let text = self.text();
        let after = text.split_once("<meta http-equiv=\"refresh\" content=\"")?.1;
        after.split_once('"')?.0.split(';').next()?.parse().ok()
    }

    /// Where the page's forms post to.
    pub fn forms(&self) -> Vec<String> {
        let text = self.text();
        let tags = text.split("<form").skip(1).filter_map(|rest| rest.split_once('>')).map(|(tag, _)| tag);
        let posting = tags.filter(|tag| tag.contains("method=\"post\""));
        let actions = posting.filter_map(|tag| tag.split_once("action=\"")?.1.split_once('"'));
        actions.map(|(action, _)| unescape(action)).collect()
    }

    /// The cookies it sets.
    pub fn set_cookies(&self) -> Vec<SetCookie> {
        let set = self.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("Set-Cookie"));
        set.map(|(_, value)| SetCookie::parse(value)).collect()
    }

    /// Lets the time pass that the answer asks for, by its header and its page alike, or another.
    #[track_caller]
    pub fn wait_before_asking_again(&self, asking: Asking) {
        let wait = match asking {
            Asking::Every(wait) => wait,
            Asking::AsTold => {
                let retry_after_seconds = self.header("Retry-After").and_then(|seconds| seconds.parse().ok());
                let retry_after_seconds: u64 =
                    retry_after_seconds.unwrap_or_else(|| panic!("nothing says when to ask again: {self:?}"));
                if let Some(refresh) = self.refresh_seconds() {
                    assert_eq!(
                        refresh, retry_after_seconds,
                        "the page and the header say the same: {self:?}"
                    );
                }
                Duration::from_secs(retry_after_seconds)
            }
        };
        let began = now();
        while began.elapsed() < wait {
            pause();
        }
    }
}

/// The text that stands in an attribute.
fn unescape(text: &str) -> String {
    let plain =
        [("&#38;", "&"), ("&amp;", "&"), ("&#60;", "<"), ("&lt;", "<"), ("&#62;", ">"), ("&gt;", ">")];
    let quotes = [("&#34;", "\""), ("&quot;", "\""), ("&#39;", "'")];
    // The ampersand last, so that nothing is undone twice.
    let order = plain[2..].iter().chain(&quotes).chain(&plain[..2]);
    order.fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::site::{Reply, Site};

    #[test]
    fn it_opens_pages_keeps_cookies_and_presses_buttons() {
        let site = Site::open();
        let page = "<meta http-equiv=\"refresh\" content=\"7;url=/a\"><dd id=\"position\" data-value=\"1234\">1,234</dd>\
            <form class=\"a\" method=\"post\" action=\"/go?a=1&#38;b=2\"><button>Go</button></form>";
        let reply = Reply::new(200).header("Set-Cookie", "a=b; Path=/; HttpOnly").header("Retry-After", "7");
        site.answer("/wait", reply.body(page));
        site.answer("/go", Reply::new(303).header("Location", "/there"));
        let mut browser =
            Browser::new(site.url()["http://".len()..].parse().unwrap()).of_host("shop.example");
        let page = browser.open("/wait");
        assert_eq!((page.shown_position(), page.shown_people_ahead()), (Some(1_234), None));
        assert_eq!((page.refresh_seconds(), page.forms()), (Some(7), vec!["/go?a=1&b=2".to_owned()]));
        assert_eq!(page.set_cookies()[0].attributes, ["Path=/", "HttpOnly"]);
        let there = browser.press(&page, "/go");
        assert!(there.is_from_site() && there.text().contains("GET /there"), "{there:?}");
        let seen = site.last_seen("/there");
        assert_eq!((seen.header("cookie"), seen.header("host")), (Some("a=b"), Some("shop.example")));
        assert_eq!(seen.headers.iter().filter(|(name, _)| name == "Host").count(), 1);
        assert_eq!(site.last_seen("/go").method, "POST");
        assert_eq!(seen.header("sec-fetch-mode"), Some("navigate"));
    }
}
