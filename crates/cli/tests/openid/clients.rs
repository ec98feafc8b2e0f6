//! The clients: programs and libraries as their authors publish them, each with the least of a site around it.
//!
//! A site that is a program of ours (`programs/`) answers a visitor who is logged in with what it has learned: the claims of the ID
//! token, and what userInfo said. A proxy stands before the testkit's site with a recipe of `deploy/recipes`, and tells it.

pub(crate) mod node;
mod proxies;

pub(crate) use proxies::user_info;

use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use anteroom_testkit::{ReservedPort, Site, python_with, require, wait_until};
use serde_json::{Value, json};

use crate::anteroom::Anteroom;
use crate::providers::{Authentication, CLIENT_ID, Mode, Provider, RS256, Which};
use crate::support::program::Program;
use crate::visitor::Page;
use node::{has_modules, node_program, programs, succeeds};

/// How long a client may take until it listens. Generous, because it may share two cores with a build.
const START_TIMEOUT: Duration = Duration::from_mins(1);

const BASIC: Mode = Mode { authentication: Authentication::Basic, has_pkce: false };
const BASIC_PKCE: Mode = Mode { authentication: Authentication::Basic, has_pkce: true };
const POST: Mode = Mode { authentication: Authentication::Post, has_pkce: false };
const POST_PKCE: Mode = Mode { authentication: Authentication::Post, has_pkce: true };
const PUBLIC: Mode = Mode { authentication: Authentication::None, has_pkce: true };

/// A client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Client {
    /// `mod_auth_openidc` of Debian.
    Apache,
    /// The filter `oauth2`, and `jwt_authn` behind it.
    Envoy,
    /// npm express-openid-connect.
    Express,
    /// `PyPI` idpyoidc.
    Idpyoidc,
    /// `PyPI` mozilla-django-oidc.
    MozillaDjango,
    /// ruby-omniauth-openid-connect of Debian.
    Omniauth,
    /// npm openid-client.
    OpenId,
}

impl Client {
    /// The ways of logging in that it has, the first for a short run.
    pub(crate) fn modes(self) -> &'static [Mode] {
        match self {
            Self::Apache => &[BASIC_PKCE, BASIC, POST, PUBLIC],
            // These two never go without PKCE.
            Self::Envoy | Self::Express => &[BASIC_PKCE, POST_PKCE],
            Self::Idpyoidc => &[POST_PKCE, BASIC],
            Self::MozillaDjango => &[BASIC_PKCE, POST],
            Self::Omniauth => &[BASIC, POST],
            Self::OpenId => &[PUBLIC, BASIC, POST_PKCE],
        }
    }

    /// Where it wants its visitors back.
    pub(crate) fn redirect_path(self) -> &'static str {
        match self {
            Self::Apache | Self::Envoy => "/openid/callback",
            Self::Express | Self::Idpyoidc | Self::OpenId => "/callback",
            Self::MozillaDjango => "/oidc/callback/",
            Self::Omniauth => "/auth/anteroom/callback",
        }
    }

    /// The directory of its recipe, if it has one.
    pub(crate) fn recipe(self) -> Option<&'static str> {
        match self {
            Self::Apache => Some("openid-apache"),
            Self::Envoy => Some("openid-envoy"),
            _ => None,
        }
    }

    /// Whether it binds the ID token to the login that it has begun.
    pub(crate) fn sends_nonce(self) -> bool {
        self != Self::Envoy
    }

    /// Whether it looks at the `iss` of an answer (RFC 9207).
    pub(crate) fn checks_issuer_of_answer(self) -> bool {
        matches!(self, Self::Express | Self::OpenId)
    }

    /// Whether it reads a discovery document without RS256, which the specification wants in every one.
    pub(crate) fn reads_documents_without_rs256(self) -> bool {
        self != Self::Idpyoidc
    }

    /// Whether all that it needs is there; see [`require`].
    fn is_there(self) -> bool {
        match self {
            Self::Apache | Self::Envoy => proxies::is_there(self),
            Self::Express => has_modules("express-openid-connect"),
            Self::OpenId => has_modules("openid-client"),
            Self::Idpyoidc => require("Python with idpyoidc", python_with("idpyoidc").is_some()),
            Self::MozillaDjango => {
                let python = python_with("django, mozilla_django_oidc");
                require("Python with mozilla-django-oidc", python.is_some())
            }
            Self::Omniauth => {
                let asked = succeeds("ruby", &["-e", "require 'omniauth_openid_connect'; require 'webrick'"]);
                require("Ruby with omniauth-openid-connect", asked && succeeds("rackup", &["--version"]))
            }
        }
    }

    fn start(self, setup: &Setup, directory: &Path) -> Program {
        let registration = setup.provider.registration();
        let port = setup.port.to_string();
        let environment = [
            ("ISSUER", registration.issuer.as_str()),
            ("CLIENT_ID", CLIENT_ID),
            ("CLIENT_SECRET", &registration.secret),
            ("AUTHENTICATION", setup.mode.authentication.name()),
            ("PKCE", if setup.mode.has_pkce { "S256" } else { "" }),
            ("ALGORITHM", registration.algorithm),
            ("URL", &setup.url()),
            ("PORT", &port),
            ("PYTHONDONTWRITEBYTECODE", "1"),
        ];
        let python = |file: &str, modules: &str| {
            let path = programs().join(file);
            let path = path.to_str().expect("a path in letters");
            Program::start(&python_with(modules).expect("it is there"), &[path], directory, &environment)
        };
        match self {
            Self::Apache | Self::Envoy => proxies::start(self, setup, directory),
            Self::Express => node_program("express_openid_connect.cjs", directory, &environment),
            Self::OpenId => node_program("openid_client.mjs", directory, &environment),
            Self::Idpyoidc => python("idpyoidc_site.py", "idpyoidc"),
            Self::MozillaDjango => python("mozilla_django_oidc_site.py", "mozilla_django_oidc"),
            Self::Omniauth => {
                let path = programs().join("omniauth_openid_connect.ru");
                let path = path.to_str().expect("a path in letters");
                let arguments = ["-s", "webrick", "-o", "127.0.0.1", "-p", &port, "-E", "production", path];
                Program::start(Path::new("rackup"), &arguments, directory, &environment)
            }
        }
    }
}

/// What a client is started with.
pub(crate) struct Setup<'a> {
    pub(crate) provider: &'a dyn Provider,
    pub(crate) mode: Mode,
    pub(crate) port: u16,
    /// What a proxy stands before.
    pub(crate) site: &'a Site,
}

impl Setup<'_> {
    /// Where visitors come.
    fn url(&self) -> String {
        site_url(self.port)
    }
}

/// A site of these tests, as browsers know it: by another name than the provider, so that they do not share cookies.
pub(crate) fn site_url(port: u16) -> String {
    format!("http://localhost:{port}")
}

/// What a site has learned about a visitor who is logged in.
#[derive(Debug)]
pub(crate) struct LoggedIn {
    /// The claims of the ID token.
    pub(crate) claims: Value,
    /// What userInfo said.
    pub(crate) user_info: Value,
}

/// A client that runs, and ends when it is dropped.
pub(crate) struct RunningClient {
    client: Client,
    program: Program,
    site: Site,
    url: String,
    _port: ReservedPort,
    _directory: tempfile::TempDir,
}

impl RunningClient {
    /// Starts it; the port is the one that the provider knows.
    #[track_caller]
    pub(crate) fn start(client: Client, provider: &dyn Provider, mode: Mode, port: ReservedPort) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory can be made");
        let site = Site::open();
        let setup = Setup { provider, mode, port: port.number(), site: &site };
        let program = client.start(&setup, directory.path());
        let url = setup.url();
        let address = SocketAddr::from(([127, 0, 0, 1], port.number()));
        let mut running = Self { client, program, site, url, _port: port, _directory: directory };
        wait_until(&format!("{client:?} listens"), START_TIMEOUT, || {
            assert!(!running.program.has_ended(), "{client:?} has ended:\n{}", running.program.log());
            TcpStream::connect(address).is_ok()
        });
        running
    }

    /// The address of a page.
    pub(crate) fn at(&self, path: &str) -> String {
        format!("{}{path}", self.url)
    }

    /// Where it wants its visitors back.
    pub(crate) fn redirect_address(&self) -> String {
        self.at(self.client.redirect_path())
    }

    /// What it has learned about the visitor who sees this page of it.
    #[track_caller]
    pub(crate) fn logged_in(&self, page: &Page) -> LoggedIn {
        assert_eq!((page.address.as_str(), page.answer.status), (self.at("/").as_str(), 200), "{page:?}");
        if self.client.recipe().is_some() {
            assert!(page.answer.is_from_site(), "{page:?}");
            return proxies::learned(self.client, &self.site, "/");
        }
        let mut said = page.answer.json();
        LoggedIn { claims: said["claims"].take(), user_info: said["user_info"].take() }
    }

    /// Who has last opened a page behind a proxy.
    #[track_caller]
    pub(crate) fn subject(&self, path: &str) -> String {
        let learned = proxies::learned(self.client, &self.site, path);
        learned.claims["sub"].as_str().unwrap_or_else(|| panic!("no sub: {learned:?}")).to_owned()
    }

    /// Whether a page is one for a visitor who is logged in.
    pub(crate) fn is_logged_in(&self, page: &Page) -> bool {
        page.answer.status == 200 && page.address == self.at("/")
    }
}

impl Drop for RunningClient {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- the log of {:?}:\n{}", self.client, self.program.log());
        }
    }
}

/// A provider and a client of it.
pub(crate) struct Pair {
    // The client ends first.
    pub(crate) client: RunningClient,
    pub(crate) provider: Box<dyn Provider>,
}

impl Pair {
    /// Starts both; nothing when one is missing.
    #[track_caller]
    pub(crate) fn open(client: Client, which: Which, mode: Mode) -> Option<Self> {
        Self::of(client, mode, |port| which.open(client, mode, port))
    }

    /// Starts Anteroom with a changed recipe, and its client.
    #[track_caller]
    pub(crate) fn open_edited(client: Client, mode: Mode, edits: &[(&str, &str)]) -> Option<Self> {
        let recipe = client.recipe().expect("it has one");
        Self::of(client, mode, |port| Some(Box::new(Anteroom::of_recipe(mode, recipe, port, RS256, edits))))
    }

    #[track_caller]
    fn of(
        client: Client,
        mode: Mode,
        provider: impl FnOnce(u16) -> Option<Box<dyn Provider>>,
    ) -> Option<Self> {
        if !client.is_there() {
            return None;
        }
        let port = ReservedPort::take();
        let provider = provider(port.number())?;
        let client = RunningClient::start(client, provider.as_ref(), mode, port);
        Some(Self { client, provider })
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- the provider's log:\n{}", self.provider.log());
        }
    }
}

/// A claim that came in a header.
fn claim_of_header(value: Option<&str>) -> Value {
    value.map_or(Value::Null, |value| {
        value.parse::<u64>().map_or_else(|_| json!(value), |number| json!(number))
    })
}
