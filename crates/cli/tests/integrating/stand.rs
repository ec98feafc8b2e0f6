//! What the scenarios share: a site, the real server, a program before them that asks it, and visitors.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use anteroom_testkit::{
    Answer, Asking, Browser, Client, Request, ReservedPort, Server, Site, now, pause, wait_until,
};
use serde_json::{Value, json};

use crate::fronts::{EndOfVisit, Front};
use crate::recipe::{self, Ports};
use crate::support::BINARY;
use crate::support::program::Program;

/// How long a state may take. Generous: what is tested is that it comes, not how fast.
pub(crate) const TIMEOUT: Duration = Duration::from_mins(1);
/// Asks sooner than the page says, where a test need not wait for it.
pub(crate) const SOON: Asking = Asking::Every(Duration::from_millis(100));
/// The cookie of the room in clear.
pub(crate) const COOKIE: &str = "anteroom-shop";
/// How often the live stream may speak, in milliseconds: a test moves the line faster than an operator does.
const WATCH_INTERVAL: &str = "100";

/// What a stand is made of beside its front.
#[derive(Debug, Default)]
pub(crate) struct Plan<'a> {
    /// Lines before the room's table in anteroom.toml.
    pub(crate) server: &'a str,
    /// Further settings of the room.
    pub(crate) room: &'a str,
    /// Texts of the recipe's files, and what takes their place.
    pub(crate) edits: &'a [(&'a str, &'a str)],
    /// Further variables of the program's environment.
    pub(crate) environment: &'a [(&'a str, &'a str)],
    /// The same of Anteroom's.
    pub(crate) server_environment: &'a [(&'a str, &'a str)],
}

/// A site, a server and a front. The program ends first.
#[derive(Debug)]
pub(crate) struct Stand {
    pub(crate) front: Front,
    program: Option<Program>,
    pub(crate) server: Server,
    pub(crate) site: Site,
    /// Where visitors come.
    pub(crate) address: SocketAddr,
    key: String,
    _directory: tempfile::TempDir,
    _ports: Vec<ReservedPort>,
}

impl Stand {
    /// With the recipe as it stands; nothing when the program is missing.
    #[track_caller]
    pub(crate) fn open(front: Front) -> Option<Self> {
        Self::planned(front, &Plan::default())
    }

    /// With changes; nothing when the program is missing.
    #[track_caller]
    pub(crate) fn planned(front: Front, plan: &Plan) -> Option<Self> {
        let path = front.find()?;
        let site = Site::open();
        let reserved: Vec<ReservedPort> = (0..4).map(|_| ReservedPort::take()).collect();
        let [public, private, ext_authz, proxy] = [0, 1, 2, 3].map(|index| reserved[index].number());
        let visitors = if front == Front::Gateway { public } else { proxy };
        let ports = Ports { visitors, site: site.port(), public, private, ext_authz };
        let mut server = Server::builder(BINARY)
            .env("ANTEROOM_PUBLIC_ADDR", format!("127.0.0.1:{public}"))
            .env("ANTEROOM_PRIVATE_ADDR", format!("127.0.0.1:{private}"))
            .env("ANTEROOM_WATCH_INTERVAL_MILLISECONDS", WATCH_INTERVAL)
            .config(configuration(front, plan, &ports));
        if front == Front::Gateway {
            // Clients connect to it as the proxies of the recipes do, and no proxy is trusted.
            server = server.env("ANTEROOM_TRUSTED_PROXIES", "192.0.2.1");
        }
        let environment = plan.server_environment.iter();
        let server = environment.fold(server, |server, (name, value)| server.env(name, *value));
        let server = server.start().expect("the server starts");
        let key = make_key(&server);
        let directory = tempfile::tempdir().expect("a temporary directory can be made");
        let program = (front != Front::Gateway).then(|| {
            recipe::copy(front.recipe(), directory.path(), &ports, &key, plan.edits);
            let mut environment = vec![("ANTEROOM_ORIGIN_KEY", key.as_str())];
            environment.extend(plan.environment);
            Program::start(&path, front.arguments(), directory.path(), &environment)
        });
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, visitors));
        let mut stand =
            Self { front, program, server, site, address, key, _directory: directory, _ports: reserved };
        stand.wait_until_it_answers();
        Some(stand)
    }

    #[track_caller]
    fn wait_until_it_answers(&mut self) {
        let program = &mut self.program;
        let address = self.address;
        wait_until("Anteroom answers through the front", TIMEOUT, || {
            if let Some(program) = program {
                assert!(!program.has_ended(), "the program has ended:\n{}", program.log());
            }
            Client::new(address).get("/.anteroom/line").is_ok_and(|answer| answer.status == 200)
        });
    }

    /// The address of a page, as a browser writes it.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// A visitor who has never been here.
    pub(crate) fn browser(&self) -> Browser {
        Browser::new(self.address)
    }

    /// The same from another address of loopback.
    pub(crate) fn browser_from(&self, last: u8) -> Browser {
        self.browser().from_address(loopback(last))
    }

    /// A visitor who is inside, whose cookie has come back.
    #[track_caller]
    pub(crate) fn inside(&self) -> Browser {
        let mut browser = self.browser();
        enter(&mut browser, "/");
        assert!(browser.open("/confirmed").is_from_site());
        browser
    }

    /// A visitor in line, and the page that they see.
    #[track_caller]
    pub(crate) fn in_line(&self) -> (Browser, Answer) {
        let mut browser = self.browser();
        browser.open("/");
        let page = browser.open("/");
        self.assert_waits(&page);
        (browser, page)
    }

    /// The waiting page, with a place.
    #[track_caller]
    pub(crate) fn assert_waits(&self, answer: &Answer) {
        assert!(!answer.is_from_site(), "{answer:?}");
        assert_eq!(answer.status, self.front.waiting_status(), "{answer:?}");
        assert!(answer.shown_position().is_some() && answer.shown_people_ahead().is_some(), "{answer:?}");
        assert!(answer.header("Retry-After").is_some(), "{answer:?}");
        assert!(answer.header_lists("Cache-Control", "no-store"), "{answer:?}");
    }

    /// A refusal of something that cannot wait: a text and when to come back.
    #[track_caller]
    pub(crate) fn assert_refused(&self, answer: &Answer) {
        assert!(!answer.is_from_site(), "{answer:?}");
        assert_eq!(answer.status, self.front.refusal_status(), "{answer:?}");
        assert!(!answer.body.is_empty() && answer.header("Retry-After").is_some(), "{answer:?}");
    }

    /// The site ends the visit in the way that it has behind this front.
    #[track_caller]
    pub(crate) fn end_visit(&self, browser: &mut Browser) {
        let answer = browser.open("/complete");
        assert!(answer.is_from_site(), "{answer:?}");
        assert_eq!(answer.header("Anteroom-Session"), None, "visitors do not see it: {answer:?}");
        match self.front.end_of_visit() {
            EndOfVisit::Header => {}
            EndOfVisit::Page(page) => assert!(browser.open(page).is_from_site()),
            EndOfVisit::Call => {
                let visit = self.site.last_seen("/complete").visit().expect("a visit");
                let answer = self.tell_of_visit(&visit, "complete");
                assert_eq!(answer.status, 200, "{answer:?}");
            }
        }
    }

    /// The site's own call about a visit.
    #[track_caller]
    pub(crate) fn tell_of_visit(&self, visit: &str, command: &str) -> Answer {
        let mut site = Client::new(self.server.private()).with_bearer(&self.key);
        site.post(&format!("/rooms/shop/visits/{visit}"), &json!({ "command": command })).expect("an answer")
    }

    /// Changes one setting of the room.
    #[track_caller]
    pub(crate) fn set(&self, name: &str, value: &Value) {
        let body = json!({ "settings": { name: value } }).to_string();
        let answer = self.server.operator().send(&Request::new("PATCH", "/rooms/shop").body(body));
        let answer = answer.expect("an answer");
        assert_eq!(answer.status, 200, "{answer:?}");
    }

    /// A figure of the room.
    #[track_caller]
    pub(crate) fn figure(&self, name: &str) -> u64 {
        let room = self.server.operator().get("/rooms/shop").expect("an answer").json();
        room["figures"][name].as_u64().unwrap_or_else(|| panic!("no figure {name}: {room}"))
    }

    /// Waits until a figure of the room has a value.
    #[track_caller]
    pub(crate) fn wait_for_figure(&self, name: &str, value: u64) {
        wait_until(&format!("{name} is {value}"), TIMEOUT, || self.figure(name) == value);
    }
}

/// Clocks of tests and servers tell whole seconds here and there.
const ROUNDING: Duration = Duration::from_secs(1);

/// What became of somebody who asked again and again.
#[derive(Debug)]
pub(crate) struct Asked {
    /// How often the visit's cookie was set.
    pub(crate) cookies_set: usize,
    /// Whether the visitor was turned away, rightly.
    pub(crate) was_out: bool,
}

/// Asks about ten times a second for so long, as scripts of a page do.
#[track_caller]
pub(crate) fn keep_asking(browser: &mut Browser, lasting: Duration, session: Duration) -> Asked {
    let began = now();
    let (mut last_in, mut cookies_set) = (began, 0);
    while began.elapsed() < lasting {
        let sent = now();
        let answer = browser.fetch("/asks");
        if !answer.is_from_site() {
            // On a machine that stood still for a whole visit this is right.
            assert!(now().duration_since(last_in) + ROUNDING >= session, "out although renewed: {answer:?}");
            return Asked { cookies_set, was_out: true };
        }
        last_in = sent;
        cookies_set += answer.set_cookies().iter().filter(|cookie| cookie.name == COOKIE).count();
        for _ in 0..10 {
            pause();
        }
    }
    Asked { cookies_set, was_out: false }
}

impl Drop for Stand {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- {:?}: the server's log:\n{}", self.front, self.server.stderr());
            if let Some(program) = &self.program {
                eprintln!("--- the log of {}:\n{}", self.front.program(), program.log());
            }
        }
    }
}

/// Opens a page again and again until the site answers.
#[track_caller]
pub(crate) fn enter(browser: &mut Browser, target: &str) -> Answer {
    let answer = browser.enter(target, SOON, TIMEOUT);
    assert_eq!(answer.status, 200, "{answer:?}");
    answer
}

/// 127.0.0.`last`.
pub(crate) fn loopback(last: u8) -> IpAddr {
    IpAddr::from([127, 0, 0, last])
}

/// The recipe's anteroom.toml for a front.
#[track_caller]
fn configuration(front: Front, plan: &Plan, ports: &Ports) -> String {
    let mut text = recipe::read_for(front.recipe(), "anteroom.toml", ports);
    let mut before = plan.server.to_owned();
    if front == Front::Gateway {
        before = format!("origin = \"http://127.0.0.1:{}\"\n{before}", ports.site);
        text = text.lines().filter(|line| !line.starts_with("check_proxies")).collect::<Vec<_>>().join("\n");
    }
    let (server, room) = text.split_once("[[room]]").expect("a recipe has a room");
    format!("{server}\n{before}\n[[room]]{room}\n{}\n", plan.room)
}

/// A key with which the site ends visits.
#[track_caller]
fn make_key(server: &Server) -> String {
    let asked = json!({ "name": "shop", "role": "origin" });
    let made = server.operator().post("/keys", &asked).expect("an answer");
    assert!(matches!(made.status, 200 | 201), "{made:?}");
    made.json()["key"].as_str().expect("the key, once").to_owned()
}
