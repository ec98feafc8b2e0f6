//! Verdicts for proxies that stand before the site in our place. Here the test is the proxy, so that every header field
//! of a check and of its answer is seen; the real proxies are in the test binary `integrating`.

use anteroom_testkit::{Answer, Browser, DOOR, NAVIGATION, Request, Server, Site, wait_until};
use serde_json::json;

use crate::stand::{TIMEOUT, assert_waits, verdicts};
use crate::support::metrics::metric;
use crate::support::{BINARY, hall as room};

const HOST: &str = "shop.example";
const CLIENT: &str = "203.0.113.7";

/// How a proxy asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dialect {
    Nginx,
    Forward,
    Envoy,
}

const DIALECTS: [Dialect; 3] = [Dialect::Nginx, Dialect::Forward, Dialect::Envoy];

/// A visitor behind a proxy.
struct Visitor {
    browser: Browser,
    dialect: Dialect,
    /// Whether the proxy hands on the cookies of answers that let a request pass.
    keeps_cookies_of_allowances: bool,
    address: String,
}

impl Visitor {
    fn new(server: &Server, dialect: Dialect) -> Self {
        let browser = Browser::new(server.public()).of_host(HOST);
        Self { browser, dialect, keeps_cookies_of_allowances: true, address: CLIENT.to_owned() }
    }

    fn at(self, address: &str) -> Self {
        Self { address: address.to_owned(), ..self }
    }

    fn check_request(&self, method: &str, target: &str, suffix: &str) -> Request {
        let url = format!("https://{HOST}{target}");
        let request = match self.dialect {
            Dialect::Nginx => Request::new("GET", &format!("/check/nginx/Hall{suffix}"))
                .header("X-Original-Method", method)
                .header("X-Original-URL", &url),
            Dialect::Forward => Request::new("GET", "/check/forward/Hall?ignored=1")
                .header("X-Forwarded-Method", method)
                .header("X-Forwarded-Host", HOST)
                .header("X-Forwarded-Uri", target),
            Dialect::Envoy => Request::new(method, &format!("/check/envoy/Hall{target}")),
        };
        request.header("X-Forwarded-For", &self.address)
    }

    /// Asks as the proxy does for a request with these fields; the page of a refusal, where that is asked for apart.
    fn ask(&mut self, method: &str, target: &str, headers: &[(&str, &str)]) -> Answer {
        let with = |request: Request| {
            headers.iter().fold(request, |request, (name, value)| request.header(name, value))
        };
        let before = self.browser.cookies.clone();
        let answer = self.browser.send(with(self.check_request(method, target, "")));
        if answer.status == 200 && !self.keeps_cookies_of_allowances {
            self.browser.cookies = before;
        }
        if self.dialect == Dialect::Nginx && answer.status == 401 {
            assert!(answer.body.is_empty() && answer.set_cookies().is_empty(), "{answer:?}");
            return self.browser.send(with(self.check_request(method, target, "/page")));
        }
        answer
    }

    /// Opens a page, following redirects of ours.
    fn open(&mut self, target: &str) -> Answer {
        let mut answer = self.ask("GET", target, &NAVIGATION);
        for _ in 0..10 {
            if answer.status != 303 {
                return answer;
            }
            let address = answer.header("Location").expect("an address").to_owned();
            answer = if address.starts_with("/.anteroom/") {
                let request = Request::new("GET", &address).header("X-Forwarded-For", &self.address);
                self.browser.send(
                    NAVIGATION.iter().fold(request, |request, (name, value)| request.header(name, value)),
                )
            } else {
                assert_eq!(address, target);
                self.ask("GET", target, &NAVIGATION)
            };
        }
        panic!("redirected in a circle: {answer:?}")
    }

    fn fetch(&mut self, target: &str) -> Answer {
        let fields =
            [("Accept", "application/json"), ("Sec-Fetch-Mode", "cors"), ("Sec-Fetch-Dest", "empty")];
        self.ask("GET", target, &fields)
    }

    fn enter(&mut self) -> String {
        let answer = self.open("/cart?a=1");
        assert_passes(&answer).to_owned()
    }
}

/// The visit of a request that may pass.
#[track_caller]
fn assert_passes(answer: &Answer) -> &str {
    assert_eq!((answer.status, answer.header("Anteroom-Room")), (200, Some("Hall")), "{answer:?}");
    assert!(answer.body.is_empty() && answer.set_cookies().len() <= 1, "{answer:?}");
    answer.header("Anteroom-Visit").unwrap_or_else(|| panic!("a visit: {answer:?}"))
}

/// A refusal that no proxy takes for anything else.
#[track_caller]
fn assert_refused(answer: &Answer) {
    assert!((400..500).contains(&answer.status), "{answer:?}");
    assert!(answer.set_cookies().len() <= 1, "{answer:?}");
    assert!(answer.header("Anteroom-Visit").is_none(), "{answer:?}");
}

fn start(capacity: usize, more: &str) -> Server {
    start_with("check_proxies = \"127.0.0.0/8\"", capacity, more)
}

fn start_with(server: &str, capacity: usize, more: &str) -> Server {
    let config = format!(
        "{server}\n[[room]]\nid = \"Hall\"\nhosts = [\"{HOST}\"]\ninlet = \"max-size\"\ntotal_active_users = {capacity}\n{more}\n"
    );
    Server::builder(BINARY).memory().config(config).start().expect("the server starts")
}

fn end_visit(server: &Server, visit: &str, command: &str) -> Answer {
    let path = format!("/rooms/Hall/visits/{visit}");
    server.operator().post(&path, &json!({ "command": command })).expect("an answer")
}

fn wait_for_figure(server: &Server, name: &str, value: u64) {
    wait_until(&format!("{name} is {value}"), TIMEOUT, || room::figure(server, name) == value);
}

#[test]
fn the_first_comes_in_the_second_waits_and_comes_in_when_the_site_ends_the_first_visit() {
    for dialect in DIALECTS {
        let server = start(1, "");
        let (mut first, mut second) =
            (Visitor::new(&server, dialect), Visitor::new(&server, dialect).at("203.0.113.8"));
        let redirected = first.ask("GET", "/cart?a=1", &NAVIGATION);
        assert_eq!(redirected.status, 303, "{dialect:?}: {redirected:?}");
        let door = redirected.header("Location").expect("an address");
        assert!(door.starts_with(DOOR) && door.contains("room=Hall"), "{door}");
        assert_eq!(room::figure(&server, "joined"), 0, "nothing is held before the cookie has come back");
        let visit = first.enter();
        let page = second.open("/cart");
        assert_eq!(page.status, 429, "{page:?}");
        assert_waits(&page);
        assert_eq!(page.shown_position(), Some(2));
        assert!(!second.fetch("/cart").text().is_empty());
        assert_eq!(end_visit(&server, &visit, "complete").json()["status"], "completed");
        assert_refused(&first.fetch("/cart"));
        wait_until("the second comes in", TIMEOUT, || second.open("/cart").status == 200);
        assert_ne!(assert_passes(&second.open("/cart")), visit);
        assert_passes(&second.fetch("/cart"));
        assert_eq!(room::figure(&server, "active"), 1);
    }
}

#[test]
fn what_could_not_wait_is_refused_takes_nothing_and_is_never_redirected() {
    for dialect in DIALECTS {
        let server = start(5, "");
        let prefetch: Vec<_> = NAVIGATION.into_iter().chain([("Sec-Purpose", "prefetch")]).collect();
        let image = [("Accept", "image/*"), ("Sec-Fetch-Mode", "no-cors"), ("Sec-Fetch-Dest", "image")];
        let socket = [("Upgrade", "websocket"), ("Sec-Fetch-Mode", "websocket"), ("Sec-Fetch-Dest", "empty")];
        let mut visitor = Visitor::new(&server, dialect);
        for (method, fields) in [
            ("POST", &NAVIGATION[..]),
            ("PUT", &[]),
            ("HEAD", &NAVIGATION[..]),
            ("GET", &prefetch),
            ("GET", &image),
            ("GET", &socket),
            ("GET", &[]),
        ] {
            let answer = visitor.ask(method, "/pay", fields);
            assert_refused(&answer);
            assert_eq!(answer.status, 429, "{dialect:?} {method} {fields:?}: {answer:?}");
            assert!(answer.header("Retry-After").is_some() && answer.set_cookies().is_empty(), "{answer:?}");
            if method != "HEAD" {
                assert!(
                    answer.text().contains("not passed on") || answer.text().contains("not inside"),
                    "{answer:?}"
                );
            }
        }
        assert_eq!((room::figure(&server, "joined"), room::figure(&server, "active")), (0, 0));
        visitor.enter();
        for (method, fields) in
            [("POST", &NAVIGATION[..]), ("GET", &prefetch), ("GET", &image), ("GET", &socket), ("HEAD", &[])]
        {
            assert_passes(&visitor.ask(method, "/pay", fields));
        }
    }
}

#[test]
fn at_the_turn_a_navigation_comes_in_and_a_call_of_a_script_does_not() {
    for dialect in DIALECTS {
        let server = start(1, "");
        let (mut first, mut second) =
            (Visitor::new(&server, dialect), Visitor::new(&server, dialect).at("203.0.113.8"));
        let visit = first.enter();
        second.open("/");
        end_visit(&server, &visit, "abandon");
        wait_for_figure(&server, "offers", 1);
        let told = second.fetch("/api");
        assert_eq!((told.status, &told.json()["status"]), (429, &json!("active")), "{told:?}");
        assert_eq!(room::figure(&server, "active"), 0, "no cookie of a new visit is lost in an answer");
        let redirected = second.ask("GET", "/deep?b=2", &NAVIGATION);
        assert_eq!(redirected.status, 303, "{redirected:?}");
        assert_eq!(redirected.set_cookies().len(), 1, "{redirected:?}");
        assert_passes(&second.open("/deep?b=2"));
        assert_eq!(room::figure(&server, "active"), 1);
    }
}

/// Proxies take 200 and 202 for permission, and some are told to take 5xx for it.
#[test]
fn no_state_of_a_room_makes_a_refusal_that_is_a_success_or_a_server_error() {
    for dialect in DIALECTS {
        for setting in [
            json!({"queueing_status_code": 200}),
            json!({"queueing_status_code": 202}),
            json!({"queue_all": true}),
            json!({"queueing_method": "reject"}),
        ] {
            let server = start(1, "");
            Visitor::new(&server, dialect).enter();
            room::change(&server, &json!({ "settings": setting }));
            let mut other = Visitor::new(&server, dialect).at("203.0.113.9");
            for answer in [other.open("/"), other.fetch("/"), other.ask("POST", "/", &[])] {
                assert_refused(&answer);
                assert_eq!(answer.status, 429, "{dialect:?} {setting}: {answer:?}");
                assert!(answer.header("Retry-After").is_some(), "{answer:?}");
            }
        }
        for state in ["paused", "draining", "closed"] {
            let server = start(1, "");
            room::change(&server, &json!({ "state": state }));
            let mut other = Visitor::new(&server, dialect);
            for answer in [other.open("/"), other.fetch("/"), other.ask("POST", "/", &[])] {
                assert_refused(&answer);
                assert_eq!(answer.status, 429, "{dialect:?} {state}: {answer:?}");
            }
        }
    }
}

#[test]
fn an_address_that_is_no_check_proxy_gets_no_verdict() {
    const SECRET: &str = "a-secret-that-proxies-share";
    let with_secret = |config: &str| {
        let config = format!("{config}\n[[room]]\nid = \"Hall\"\nhosts = [\"{HOST}\"]\n");
        let builder = Server::builder(BINARY).memory().config(config).env("ANTEROOM_CHECK_SECRET", SECRET);
        builder.start().expect("the server starts")
    };
    let (nobody, elsewhere) = (start_with("", 5, ""), start_with("check_proxies = \"10.0.0.0/8\"", 5, ""));
    let (by_secret, by_both) = (with_secret(""), with_secret("check_proxies = \"10.0.0.0/8\""));
    let described = [
        ("X-Forwarded-Method", "GET"),
        ("X-Forwarded-Uri", "/"),
        ("X-Original-Method", "GET"),
        ("X-Original-URL", "/"),
    ];
    for (server, shown) in [
        (&nobody, None),
        (&nobody, Some(SECRET)),
        (&elsewhere, None),
        (&by_secret, None),
        (&by_secret, Some("guessed")),
        (&by_both, Some(SECRET)),
    ] {
        for path in [
            "/check/nginx/Hall",
            "/check/nginx/Hall/page",
            "/check/forward/Hall",
            "/check/envoy/Hall/cart",
            "/.anteroom/check/forward/Hall",
        ] {
            let request = described
                .iter()
                .fold(Request::new("GET", path), |request, (name, value)| request.header(name, value));
            let request =
                shown.iter().fold(request, |request, secret| request.header("Anteroom-Check-Secret", secret));
            let answer = Browser::new(server.public()).send(request);
            assert_eq!(answer.status, 403, "{path}: {answer:?}");
            assert!(answer.text().contains("check_proxies"), "it says how: {answer:?}");
        }
        assert_eq!(room::figure(server, "joined"), 0);
    }
    let request = described
        .iter()
        .fold(Request::new("GET", "/check/nginx/Hall"), |request, (name, value)| request.header(name, value));
    let right = request.header("Anteroom-Check-Secret", SECRET).header("X-Forwarded-For", CLIENT);
    assert_eq!(Browser::new(by_secret.public()).send(right).status, 401);
    // Below our own prefix nothing answers: clients reach that through their proxy.
    let server = start(5, "");
    let request = described
        .iter()
        .fold(Request::new("GET", "/.anteroom/check/forward/Hall"), |request, (name, value)| {
            request.header(name, value)
        });
    assert_eq!(Browser::new(server.public()).send(request).status, 403);
}

#[test]
fn the_secret_of_checks_comes_from_a_file_and_what_cannot_work_does_not_start() {
    const SECRET: &str = "a-secret-that-is-kept-in-a-file";
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("secret");
    let config = format!(
        "check_secret_file = \"{}\"\n[[room]]\nid = \"Hall\"\nhosts = [\"{HOST}\"]\n",
        path.display()
    );
    let end_of = |config: &str| {
        let ended = Server::builder(BINARY).memory().config(config).run_to_end().expect("it ends");
        assert!(!ended.status.success(), "{ended:?}");
        ended.stderr
    };
    assert!(end_of(&config).contains("check_secret_file cannot be read"));
    std::fs::write(&path, "short\n").expect("a file");
    assert!(end_of(&config).contains("shorter than 16 characters"));
    let without = end_of("ext_authz_addr = \"127.0.0.1:0\"\n");
    assert!(without.contains("nobody may ask there"), "{without}");
    std::fs::write(&path, format!("{SECRET}\n")).expect("a file");
    let server = Server::builder(BINARY).memory().config(config).start().expect("the server starts");
    for (shown, status) in [(SECRET, 401), ("another-secret-than-that-one", 403)] {
        let request = Request::new("GET", "/check/nginx/Hall")
            .header("X-Original-Method", "GET")
            .header("X-Original-URL", "/")
            .header("X-Forwarded-For", CLIENT)
            .header("Anteroom-Check-Secret", shown);
        assert_eq!(Browser::new(server.public()).send(request).status, status, "{shown}");
    }
}

/// A site's own 200 at such a path would be taken for permission.
#[test]
fn a_site_behind_the_gateway_never_answers_a_check() {
    let site = Site::open();
    let config = format!(
        "origin = \"{}\"\ncheck_proxies = \"10.0.0.0/8\"\n[[room]]\nid = \"Hall\"\npaths = [\"/checkout\"]\n",
        site.url()
    );
    let server = Server::builder(BINARY).memory().config(config).start().expect("the server starts");
    for path in ["/check/forward/Hall", "/check/nginx/Hall", "/check/envoy/Hall/cart"] {
        for host in [HOST, "127.0.0.1"] {
            let answer = Browser::new(server.public()).of_host(host).send(Request::new("GET", path));
            assert_eq!(answer.status, 403, "{path} at {host}: {answer:?}");
        }
    }
    let answer = Browser::new(server.public()).send(Request::new("GET", "/check/out"));
    assert!(answer.is_from_site(), "{answer:?}");
}

#[test]
fn each_dialect_reads_only_what_its_proxy_overwrites() {
    let bypass = "bypass = [\"path:/static\"]";
    let server = start(1, bypass);
    for dialect in DIALECTS {
        let mut visitor = Visitor::new(&server, dialect);
        let static_file = visitor.fetch("/static/a.css");
        assert_eq!(
            (static_file.status, static_file.header("Anteroom-Visit")),
            (200, None),
            "{static_file:?}"
        );
        let forged: &[(&str, &str)] = match dialect {
            Dialect::Nginx => &[("X-Forwarded-Uri", "/static/a"), ("X-Forwarded-Method", "GET")],
            Dialect::Forward => &[("X-Original-URL", "/static/a"), ("X-Rewrite-URL", "/static/a")],
            Dialect::Envoy => &[
                ("X-Original-URL", "/static/a"),
                ("X-Forwarded-Uri", "/static/a"),
                ("X-Envoy-Original-Path", "/static/a"),
            ],
        };
        for (method, target) in [("GET", "/cart"), ("POST", "/cart"), ("GET", "/static/../cart")] {
            let answer = visitor.ask(method, target, forged);
            assert_refused(&answer);
        }
        let visit = [("Anteroom-Visit", "1-1"), ("Anteroom-Room", "Hall"), ("Anteroom-Session", "complete")];
        assert_refused(&visitor.ask("GET", "/cart", &visit));
    }
}

#[test]
fn what_an_operator_has_to_put_right_is_refused_with_a_sentence() {
    let server = start(1, "[[room]]\nid = \"Nowhere\"");
    let mut client = Browser::new(server.public());
    let mut ask = |path: &str, fields: &[(&str, &str)]| {
        let request = Request::new("GET", path).header("X-Forwarded-For", CLIENT);
        let request = fields.iter().fold(request, |request, (name, value)| request.header(name, value));
        client.send(request)
    };
    let described = [("X-Forwarded-Method", "GET"), ("X-Forwarded-Uri", "/")];
    let twice = [described[0], described[1], ("X-Forwarded-Uri", "/static")];
    let original = [("X-Original-Method", "GET"), ("X-Original-URL", "/")];
    for (path, fields, sentence) in [
        ("/check/forward/Hall", &[][..], "lacks the header field x-forwarded-uri"),
        ("/check/forward/Hall", &twice, "more than once"),
        ("/check/nginx/Hall", &described, "lacks the header field x-original-url"),
        ("/check/nginx/Hall/page", &described, "lacks the header field x-original-url"),
        ("/check/forward/Other", &described, "no room of the name"),
        ("/check/nginx/Other", &original, "no room of the name"),
        ("/check/forward/Nowhere", &described, "set its hosts"),
    ] {
        let answer = ask(path, fields);
        assert_eq!(answer.status, 403, "{path}: {answer:?}");
        assert!(answer.text().contains(sentence), "{path}: {answer:?}");
    }
    wait_until("the log says so", TIMEOUT, || server.stderr().contains("check cannot be understood"));
    assert!(!server.stderr().contains("check without X-Forwarded-For"));
    Browser::new(server.public()).send(Request::new("GET", "/check/envoy/Hall/"));
    wait_until("the log says so", TIMEOUT, || server.stderr().contains("check without X-Forwarded-For"));
    let malformed = ask("/check/forward/Hall", &[("X-Forwarded-Method", "GET"), ("X-Forwarded-Uri", "*")]);
    assert_refused(&malformed);
}

#[test]
fn a_visit_is_renewed_by_an_answer_that_lets_pass_and_else_by_a_redirect() {
    let short = "session_duration = 4\nsession_max = 600";
    for dialect in [Dialect::Forward, Dialect::Envoy] {
        let server = start(1, short);
        let mut visitor = Visitor::new(&server, dialect);
        let visit = visitor.enter();
        // A proxy that hands cookies on: sooner or later one comes with a request that passes.
        wait_until("a cookie comes with a permission", TIMEOUT, || {
            let answer = visitor.fetch("/");
            assert_eq!(assert_passes(&answer), visit);
            !answer.set_cookies().is_empty()
        });
        // And one that does not: the visit outlasts the cookie, and a navigation brings a new one.
        visitor.keeps_cookies_of_allowances = false;
        let stale = visitor.browser.cookies.clone();
        wait_until("a navigation brings a cookie", TIMEOUT, || {
            assert_eq!(assert_passes(&visitor.fetch("/")), visit);
            let answer = visitor.ask("GET", "/", &NAVIGATION);
            if answer.status == 200 {
                return false;
            }
            assert_eq!((answer.status, answer.set_cookies().len()), (303, 1), "{answer:?}");
            true
        });
        assert_eq!(assert_passes(&visitor.open("/")), visit);
        // A browser that does not keep it is not redirected in a circle.
        visitor.browser.cookies = stale;
        assert_eq!(assert_passes(&visitor.open("/")), visit);
    }
}

#[test]
fn a_visit_is_ended_by_a_key_of_the_site_and_what_is_no_visit_is_refused() {
    let server = start(3, "");
    let visits: Vec<String> = (0..3)
        .map(|last| Visitor::new(&server, Dialect::Forward).at(&format!("203.0.113.{last}")).enter())
        .collect();
    for (visit, command, status) in [
        (&visits[0], "complete", "completed"),
        (&visits[1], "abandon", "abandoned"),
        (&visits[2], "revoke", "abandoned"),
    ] {
        let ended = end_visit(&server, visit, command);
        assert_eq!((ended.status, &ended.json()["status"]), (200, &json!(status)), "{ended:?}");
        assert_eq!(&ended.json()["visit"], &json!(visit));
        assert_eq!(end_visit(&server, visit, command).status, 410, "a visit ends once");
    }
    for (visit, command, status) in [
        ("1-2-3", "complete", 400),
        ("x", "complete", 400),
        ("7-0", "complete", 400),
        (visits[0].as_str(), "dance", 400),
        ("7-7", "complete", 410),
    ] {
        let refused = end_visit(&server, visit, command);
        assert_eq!(refused.status, status, "{visit} {command}: {refused:?}");
    }
    let nowhere = server.operator().post("/rooms/Other/visits/7-7", &json!({"command": "complete"}));
    assert_eq!(nowhere.expect("an answer").status, 404);
    wait_for_figure(&server, "active", 0);
}

#[test]
fn clients_behind_a_proxy_have_budgets_of_their_own_whatever_they_say_of_themselves() {
    let limit = "check_proxies = \"127.0.0.0/8\"\n\
[[limit]]\nname = \"each\"\nby = \"ip\"\nclass = \"gateway\"\nrequests = 5\nper_seconds = 1000\n";
    for dialect in [Dialect::Forward, Dialect::Envoy] {
        let server = start_with(limit, 5, "");
        let mut loud = Visitor::new(&server, dialect).at("203.0.113.7");
        let limited = (0..20)
            .map(|_| loud.fetch("/"))
            .find(|answer| answer.header("RateLimit").is_some() || answer.text().contains("Too many"));
        let limited = limited.expect("a budget ends");
        assert_eq!(limited.status, 429, "{limited:?}");
        // What a client has written itself stands to the left of what the proxy adds.
        let mut forger = Visitor::new(&server, dialect).at("198.51.100.1, 203.0.113.7");
        assert!(forger.fetch("/").text().contains("Too many"));
        let mut quiet = Visitor::new(&server, dialect).at("203.0.113.8");
        assert!(!quiet.fetch("/").text().contains("Too many"));
    }
}

#[test]
fn each_check_ends_in_exactly_one_verdict_and_is_counted_by_dialect() {
    let server = start(1, "");
    let mut asked = 0;
    for dialect in DIALECTS {
        let mut visitor = Visitor::new(&server, dialect).at("203.0.113.1");
        for _ in 0..5 {
            visitor.ask("POST", "/", &[]);
            asked += if dialect == Dialect::Nginx { 2 } else { 1 };
        }
    }
    assert_eq!(verdicts(&server).values().sum::<u64>(), asked);
    let count = |dialect: &str, answer: &str| {
        metric(&server, &format!("anteroom_checks_total{{dialect=\"{dialect}\",answer=\"{answer}\"}}"))
    };
    for dialect in ["nginx", "nginx-page", "forward", "envoy"] {
        assert_eq!(count(dialect, "refused"), 5, "{dialect}");
    }
}

/// `..` behind a slash that only some servers decode leads from one room to another.
#[test]
fn a_visit_to_one_room_opens_no_other_by_a_path_that_servers_read_differently() {
    let other = "paths = [\"/a/\"]\n[[room]]\nid = \"Other\"\nhosts = [\"shop.example\"]\npaths = [\"/b/\"]\n\
        inlet = \"max-size\"\ntotal_active_users = 0";
    let server = start(1, other);
    for dialect in DIALECTS {
        let mut visitor = Visitor::new(&server, dialect);
        visitor.browser.cookies = {
            let mut inside = Visitor::new(&server, dialect);
            wait_for_figure(&server, "active", 0);
            let visit = assert_passes(&inside.open("/a/cart")).to_owned();
            let cookies = inside.browser.cookies.clone();
            for target in ["/a/..%2fb/buy", "/a/%2e%2e/b/buy", "/a/..;/b/buy", "/a/../b/buy"] {
                let answer = inside.fetch(target);
                assert_refused(&answer);
            }
            assert_passes(&inside.fetch("/a/cart"));
            end_visit(&server, &visit, "complete");
            cookies
        };
        assert_refused(&visitor.fetch("/a/cart"));
        // What no room names is not held, and is charged like everything else.
        assert_eq!(visitor.fetch("/elsewhere").status, 200);
    }
}

#[test]
fn what_stands_behind_a_number_sign_lets_nothing_pass() {
    let server = start(1, "bypass = [\"path:/free/\"]");
    for dialect in [Dialect::Nginx, Dialect::Forward] {
        let mut visitor = Visitor::new(&server, dialect);
        assert_eq!(visitor.fetch("/free/a").status, 200);
        assert_refused(&visitor.fetch("/free/x#/../../secret"));
    }
}

#[test]
fn requests_that_no_room_holds_are_charged_in_each_dialect() {
    let limit = "check_proxies = \"127.0.0.0/8\"\n\
        [[limit]]\nname = \"each\"\nby = \"ip\"\nclass = \"gateway\"\nrequests = 3\nper_seconds = 1000\n";
    for dialect in DIALECTS {
        let server = start_with(limit, 5, "paths = [\"/buy\"]");
        let mut visitor = Visitor::new(&server, dialect);
        let statuses: Vec<u16> = (0..4).map(|_| visitor.fetch("/other").status).collect();
        assert_eq!(statuses, [200, 200, 200, 429], "{dialect:?}");
    }
}

#[test]
fn the_door_leads_into_no_room_of_another_host() {
    let other =
        "[[room]]\nid = \"Vip\"\nhosts = [\"vip.internal\"]\ninlet = \"max-size\"\ntotal_active_users = 9";
    let server = start(1, other);
    let door = |host: &str, room: &str| {
        let request =
            Request::new("GET", &format!("{DOOR}?return=/&room={room}")).header("X-Forwarded-For", CLIENT);
        let request = NAVIGATION.iter().fold(request, |request, (name, value)| request.header(name, value));
        let answer = Browser::new(server.public()).of_host(host).send(request);
        answer.set_cookies().first().map(|cookie| cookie.name.clone())
    };
    assert_eq!(door("vip.internal", "Vip").as_deref(), Some("anteroom-Vip"));
    assert_eq!(
        door("nobodys.example", "Vip").as_deref(),
        Some("anteroom-Vip"),
        "its proxy may use another name"
    );
    assert_eq!(door(HOST, "Vip").as_deref(), Some("anteroom-Hall"), "this host is another room's");
}

/// A client that goes on sending the cookie of its place is let in by it, and not redirected for ever.
#[test]
fn a_browser_that_loses_the_cookie_of_its_visit_is_not_redirected_in_a_circle() {
    for dialect in DIALECTS {
        let server = start(1, "");
        let (mut first, mut second) =
            (Visitor::new(&server, dialect), Visitor::new(&server, dialect).at("203.0.113.8"));
        let visit = first.enter();
        second.open("/");
        let waiting = second.browser.cookies.clone();
        end_visit(&server, &visit, "complete");
        wait_for_figure(&server, "offers", 1);
        let mut answer = second.ask("GET", "/", &NAVIGATION);
        for _ in 0..4 {
            if answer.status != 303 {
                break;
            }
            second.browser.cookies = waiting.clone();
            answer = second.ask("GET", "/", &NAVIGATION);
        }
        assert_passes(&answer);
        assert_eq!(room::figure(&server, "active"), 1);
    }
}
