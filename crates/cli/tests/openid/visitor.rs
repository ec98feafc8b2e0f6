//! A visitor who is sent to and fro between sites: a browser without scripts that follows redirects wherever they lead. All hosts
//! are this machine, and cookies belong to a name, whatever the port, as they do in browsers.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use anteroom_testkit::{Answer, Client, CookieJar, NAVIGATION, Request};

/// How many redirects are followed.
const REDIRECTS_MAX: usize = 10;

/// Where a visitor has got to.
#[derive(Debug)]
pub(crate) struct Page {
    /// The address of the page, or of the redirect that was not followed.
    pub(crate) address: String,
    /// All addresses on the way, this one last.
    pub(crate) way: Vec<String>,
    /// What came from there; of a redirect that was not followed, the redirect.
    pub(crate) answer: Answer,
}

impl Page {
    /// The address on the way that begins with this.
    #[track_caller]
    pub(crate) fn passed(&self, beginning: &str) -> &str {
        let mut passed = self.way.iter().filter(|address| address.starts_with(beginning));
        passed.next().unwrap_or_else(|| panic!("nothing of {beginning} on the way: {self:?}"))
    }
}

/// One visitor.
#[derive(Debug, Clone, Default)]
pub(crate) struct Visitor {
    jars: BTreeMap<String, CookieJar>,
}

impl Visitor {
    /// Opens an address, and follows it.
    #[track_caller]
    pub(crate) fn open(&mut self, address: &str) -> Page {
        self.open_until(address, |_| false)
    }

    /// The same, but a redirect to an address for which `is_end` holds is not followed.
    #[track_caller]
    pub(crate) fn open_until(&mut self, address: &str, is_end: impl Fn(&str) -> bool) -> Page {
        let mut way = vec![address.to_owned()];
        for _ in 0..REDIRECTS_MAX {
            let here = way.last().expect("the first is there").clone();
            let from = way.len().checked_sub(2).map(|index| way[index].clone());
            let answer = self.get(&here, from.as_deref());
            let Some(next) = next(&answer).map(|next| joined(&here, &next)) else {
                return Page { address: here, way, answer };
            };
            way.push(next.clone());
            if is_end(&next) {
                return Page { address: next, way, answer };
            }
        }
        panic!("{REDIRECTS_MAX} redirects in a row: {way:?}");
    }

    /// Forgets what the sites of this name have it remember.
    pub(crate) fn forget(&mut self, host: &str) {
        self.jars.remove(host);
    }

    /// A script of a page asks for something.
    #[track_caller]
    pub(crate) fn fetch(&mut self, address: &str) -> Answer {
        let headers = [("Accept", "*/*"), ("Sec-Fetch-Mode", "cors"), ("Sec-Fetch-Dest", "empty")];
        self.send(address, |target| {
            headers
                .iter()
                .fold(Request::new("GET", target), |request, (name, value)| request.header(name, value))
        })
    }

    #[track_caller]
    fn get(&mut self, address: &str, from: Option<&str>) -> Answer {
        let authority = parts(address).0;
        let site = match from.map(|from| parts(from).0) {
            None => "none",
            Some(from) if from == authority => "same-origin",
            Some(_) => "cross-site",
        };
        self.send(address, |target| {
            NAVIGATION.iter().fold(Request::new("GET", target), |request, (name, value)| {
                request.header(name, if *name == "Sec-Fetch-Site" { site } else { value })
            })
        })
    }

    #[track_caller]
    fn send(&mut self, address: &str, request: impl FnOnce(&str) -> Request) -> Answer {
        let (authority, target) = parts(address);
        let (host, port) = authority.split_once(':').expect("every address here has a port");
        let jar = self.jars.entry(host.to_owned()).or_insert_with(|| {
            // Browsers take what is marked as `Secure` from this name without TLS, too.
            if host == "localhost" { CookieJar::over_tls() } else { CookieJar::in_clear() }
        });
        let request = request(target);
        let request = request.header("Host", authority);
        let request = jar.header().iter().fold(request, |request, cookies| request.header("Cookie", cookies));
        let port = port.parse().expect("a port");
        let answer = Client::new(SocketAddr::from(([127, 0, 0, 1], port))).send(&request);
        let answer = answer.unwrap_or_else(|error| panic!("no answer from {address}: {error:#}"));
        jar.take(&answer);
        answer
    }
}

/// Where an answer sends the browser on at once.
fn next(answer: &Answer) -> Option<String> {
    if answer.situation().as_deref() == Some("arriving") {
        // A newcomer's browser brings back the cookie that comes with this page.
        let text = answer.text();
        let (_, refresh) = text.split_once("<meta http-equiv=\"refresh\" content=\"")?;
        let (_, address) = refresh.split_once('"')?.0.split_once("url=")?;
        return Some(address.replace("&#38;", "&"));
    }
    answer.header("Location").filter(|_| (300..400).contains(&answer.status)).map(str::to_owned)
}

/// Host with port, and the rest, of an address in clear.
#[track_caller]
fn parts(address: &str) -> (&str, &str) {
    let rest =
        address.strip_prefix("http://").unwrap_or_else(|| panic!("not an address in clear: {address}"));
    let rest = rest.split_once('#').map_or(rest, |(rest, _)| rest);
    rest.find('/').map_or((rest, "/"), |slash| rest.split_at(slash))
}

/// Where a link leads that stands at an address.
fn joined(here: &str, link: &str) -> String {
    if link.contains("://") {
        return link.to_owned();
    }
    assert!(link.starts_with('/'), "a link to a path of the host: {link}");
    format!("http://{}{link}", parts(here).0)
}

/// The value of a parameter in the query of an address, as it is written there.
pub(crate) fn parameter<'a>(address: &'a str, name: &str) -> Option<&'a str> {
    let query = address.split_once('?')?.1;
    query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
}

/// The same address with another value of a parameter that it has.
#[track_caller]
pub(crate) fn with_parameter(address: &str, name: &str, value: &str) -> String {
    let old = parameter(address, name).unwrap_or_else(|| panic!("no {name} in {address}"));
    let (before, query) = address.split_once('?').expect("it has a query");
    let pairs = query.split('&').map(|pair| {
        if pair == format!("{name}={old}") { format!("{name}={value}") } else { pair.to_owned() }
    });
    format!("{before}?{}", pairs.collect::<Vec<_>>().join("&"))
}

#[test]
fn addresses_are_taken_apart_and_put_together() {
    assert_eq!(joined("http://localhost:1/a?b", "/c"), "http://localhost:1/c");
    assert_eq!(joined("http://localhost:1", "http://other:2/d"), "http://other:2/d");
    assert_eq!(parts("http://localhost:1"), ("localhost:1", "/"));
    let address = "http://localhost:1/a?code=x&state=code";
    assert_eq!(parameter(address, "state"), Some("code"));
    assert_eq!(with_parameter(address, "code", "y"), "http://localhost:1/a?code=y&state=code");
}
