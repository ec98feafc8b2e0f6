//! A server with a line, the clients of its room, and what a site does with what it gets.

use std::collections::BTreeMap;
use std::time::Duration;

use anteroom_testkit::jwt::encode_base64url;
use anteroom_testkit::{Answer, Browser, Line, Request, Server, wait_until};
use serde_json::{Value, json};

use crate::support::BINARY;

/// How long a state may take.
pub(super) const TIMEOUT: Duration = Duration::from_mins(1);
pub(super) const ISSUER: &str = "http://queue.example";
/// Where the site of the client `Hall` gets its visitors back.
pub(super) const CALLBACK: &str = "https://shop.example/callback?from=line";
/// The example of RFC 7636, appendix B.
pub(super) const VERIFIER: &str = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
pub(super) const CHALLENGE: &str = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";
const FORM: &str = "application/x-www-form-urlencoded";

/// A server whose rooms are moved by hand.
pub(super) struct Stand {
    pub(super) server: Server,
    /// Of the client `Hall`.
    pub(super) secret: String,
}

/// Two rooms, the first the default one.
pub(super) fn config(of_hall: &str) -> String {
    config_with("", of_hall)
}

fn config_with(of_server: &str, of_hall: &str) -> String {
    format!(
        "public_url = \"{ISSUER}\"\ndefault_room = \"Hall\"\nsigning_algorithm = \"EdDSA\"\n{of_server}\
         [[room]]\nid = \"Hall\"\nvalidity_period = 3600\n{of_hall}\n[[room]]\nid = \"Other\"\n"
    )
}

impl Stand {
    pub(super) fn start() -> Self {
        Self::with("")
    }

    /// With more settings of the room `Hall`.
    pub(super) fn with(of_hall: &str) -> Self {
        Self::configured("", of_hall)
    }

    /// With more settings of the server, too.
    pub(super) fn configured(of_server: &str, of_hall: &str) -> Self {
        let config = config_with(of_server, of_hall);
        let server = Server::builder(BINARY).config(config).start().expect("the server starts");
        let secret =
            make_client(&server, "Hall", &json!({"redirect_addresses": [CALLBACK], "name": "The <Shop>"}));
        Self { server, secret }
    }

    pub(super) fn line(&self) -> Line {
        self.server.line("Hall")
    }

    pub(super) fn browser(&self) -> Browser {
        Browser::new(self.server.public())
    }

    /// Lets one more in than have been let in so far.
    pub(super) fn advance(&self) {
        self.line().advance(1);
    }

    /// A visitor who has a place in line.
    #[track_caller]
    pub(super) fn waiting(&self, target: &str) -> Browser {
        let mut browser = self.browser();
        let page = browser.open_once(target);
        assert_eq!(page.situation().as_deref(), Some("arriving"), "{page:?}");
        let page = browser.open_once(target);
        assert_eq!(page.situation().as_deref(), Some("waiting"), "{page:?}");
        browser
    }

    /// What the site gets for a visitor who waits at this address and is let in.
    #[track_caller]
    pub(super) fn log_in(&self, target: &str) -> (Browser, Return) {
        let mut browser = self.waiting(target);
        self.advance();
        let back = come_back(&mut browser, target);
        (browser, back)
    }

    /// The code of another visitor.
    #[track_caller]
    pub(super) fn code(&self, more: &str) -> String {
        let (_, back) = self.log_in(&self.target(more));
        back.get("code").to_owned()
    }

    /// A good request of the client `Hall`.
    #[expect(clippy::unused_self, reason = "it is a request to this server")]
    pub(super) fn target(&self, more: &str) -> String {
        request_of("Hall", CALLBACK, more)
    }

    /// Exchanges a code as the client `Hall` does.
    pub(super) fn exchange(&self, code: &str) -> Answer {
        self.exchange_with(code, &[])
    }

    /// The same with other fields, or more.
    pub(super) fn exchange_with(&self, code: &str, more: &[(&str, &str)]) -> Answer {
        let mut fields: BTreeMap<&str, &str> = BTreeMap::from([
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", CALLBACK),
            ("client_id", "Hall"),
            ("client_secret", &self.secret),
        ]);
        fields.extend(more.iter().copied());
        self.token(&form(&fields.into_iter().filter(|(_, value)| !value.is_empty()).collect::<Vec<_>>()))
    }

    /// POST `/token` with this form.
    pub(super) fn token(&self, body: &str) -> Answer {
        self.send(&Request::new("POST", "/token").header("Content-Type", FORM).body(body))
    }

    pub(super) fn send(&self, request: &Request) -> Answer {
        self.server.visitor().send(request).expect("an answer")
    }

    pub(super) fn user_info(&self, token: &str) -> Answer {
        self.send(&Request::new("GET", "/userInfo").header("Authorization", &format!("Bearer {token}")))
    }
}

/// Makes a client and returns its secret, or an empty text if it has none.
#[track_caller]
pub(super) fn make_client(server: &Server, room: &str, terms: &Value) -> String {
    let made = server.operator().post(&format!("/rooms/{room}/clients"), terms).expect("an answer");
    assert_eq!(made.status, 201, "{made:?}");
    made.json()["secret"].as_str().unwrap_or_default().to_owned()
}

/// An authorization request.
pub(super) fn request_of(client: &str, redirect: &str, more: &str) -> String {
    let redirect = escape(redirect);
    format!(
        "/authorize?client_id={client}&redirect_uri={redirect}&response_type=code&scope=openid&state=s%26%3D+1&nonce=n%2F1{more}"
    )
}

/// Opens the page until the visitor is sent back.
#[track_caller]
pub(super) fn come_back(browser: &mut Browser, target: &str) -> Return {
    let mut back = None;
    wait_until("the visitor is sent back", TIMEOUT, || {
        let answer = browser.open_once(target);
        back = (answer.status == 303).then(|| Return::of(&answer));
        back.is_some()
    });
    back.expect("a way back")
}

/// An address that a visitor is sent back to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Return {
    pub(super) address: String,
    pub(super) parameters: BTreeMap<String, String>,
}

impl Return {
    #[track_caller]
    pub(super) fn of(answer: &Answer) -> Self {
        assert_eq!(answer.status, 303, "{answer:?}");
        assert_eq!(answer.header("Referrer-Policy"), Some("no-referrer"), "{answer:?}");
        assert_eq!(answer.header("Access-Control-Allow-Origin"), None, "{answer:?}");
        let location = answer.header("Location").expect("a redirect").to_owned();
        let (address, query) = location.split_once('?').unwrap_or((&location, ""));
        let pairs = query.split('&').filter(|pair| !pair.is_empty());
        let parameters = pairs.map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (name.to_owned(), decode(value))
        });
        Self { address: address.to_owned(), parameters: parameters.collect() }
    }

    #[track_caller]
    pub(super) fn get(&self, name: &str) -> &str {
        self.parameters.get(name).unwrap_or_else(|| panic!("no {name} in {self:?}"))
    }

    /// The error that the site is told, after what every answer has.
    #[track_caller]
    pub(super) fn error(&self) -> &str {
        assert_eq!(self.address, "https://shop.example/callback");
        assert_eq!((self.get("from"), self.get("iss")), ("line", ISSUER), "{self:?}");
        assert!(!self.parameters.contains_key("code"), "{self:?}");
        self.get("error")
    }
}

pub(super) fn form(fields: &[(&str, &str)]) -> String {
    let pairs = fields.iter().map(|(name, value)| format!("{name}={}", escape(value)));
    pairs.collect::<Vec<_>>().join("&")
}

pub(super) fn escape(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

pub(super) fn decode(text: &str) -> String {
    let mut bytes = vec![];
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let digits = [rest.next().expect("two digits"), rest.next().expect("two digits")];
            let digits = std::str::from_utf8(&digits).expect("digits");
            bytes.push(u8::from_str_radix(digits, 16).expect("digits"));
        } else {
            bytes.push(if byte == b'+' { b' ' } else { byte });
        }
    }
    String::from_utf8(bytes).expect("text")
}

/// What Basic credentials are sent as.
pub(super) fn basic(pair: &str) -> String {
    let mut encoded = encode_base64url(pair.as_bytes()).replace('-', "+").replace('_', "/");
    while !encoded.len().is_multiple_of(4) {
        encoded.push('=');
    }
    format!("Basic {encoded}")
}

/// The error of an OAuth answer, after what every one has.
#[track_caller]
pub(super) fn oauth_error(answer: &Answer) -> String {
    assert!(answer.status >= 400, "{answer:?}");
    assert_eq!(answer.header("Cache-Control"), Some("no-store"), "{answer:?}");
    assert_eq!(answer.header("Content-Type"), Some("application/json"), "{answer:?}");
    let body = answer.json();
    assert!(body["error_description"].is_string(), "{answer:?}");
    body["error"].as_str().expect("an error").to_owned()
}
