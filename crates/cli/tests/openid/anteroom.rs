//! Anteroom itself: the real binary with a room that serves one visitor at a time.

use anteroom_testkit::{Request, ReservedPort, Server};
use serde_json::json;

use crate::providers::{Authentication, CLIENT_ID, Mode, Provider, Registration};
use crate::recipe::{self, Ports};
use crate::support::BINARY;

/// The running server.
#[derive(Debug)]
pub(crate) struct Anteroom {
    registration: Registration,
    server: Server,
    _ports: [ReservedPort; 2],
}

/// A room that is not the default room, for clients that are made by a call.
const ROOM: &str =
    "[[room]]\nid = \"Hall\"\n[[room]]\nid = \"shop\"\ninlet = \"max-size\"\ntotal_active_users = 1\n";
/// The secret of a client that stands in a recipe.
const SECRET: &str = "the-secret-of-a-client-of-the-configuration-file";
const SECRET_VARIABLE: &str = "ANTEROOM_SHOP_SECRET";

impl Anteroom {
    /// Starts it with the recipe of a client, as it stands but for these texts and what takes their place.
    #[track_caller]
    pub(crate) fn of_recipe(
        mode: Mode,
        recipe: &str,
        client_port: u16,
        algorithm: &'static str,
        edits: &[(&str, &str)],
    ) -> Self {
        let (public, private) = (ReservedPort::take(), ReservedPort::take());
        let ports = Ports {
            visitors: client_port,
            public: public.number(),
            private: private.number(),
            // In none of these files.
            site: 0,
            ext_authz: 0,
        };
        let mut config = recipe::read_for(recipe, "anteroom.toml", &ports);
        let is_public = mode.authentication == Authentication::None;
        for (from, to) in edits {
            assert!(config.contains(from), "no {from} in {config}");
            config = config.replace(from, to);
        }
        if is_public {
            let secret = format!("secret_env = \"{SECRET_VARIABLE}\"");
            assert!(config.contains(&secret), "{config}");
            config = config.replace(&secret, "public = true");
        }
        let server = Server::builder(BINARY)
            .without_env("ANTEROOM_PUBLIC_ADDR")
            .without_env("ANTEROOM_PRIVATE_ADDR")
            .env("ANTEROOM_SIGNING_ALGORITHM", algorithm)
            .config(config);
        // A variable that nothing names is refused.
        let server = if is_public { server } else { server.env(SECRET_VARIABLE, SECRET) };
        let server = server.start().expect("the server starts");
        let secret = if is_public { String::new() } else { SECRET.to_owned() };
        let registration = Registration {
            issuer: format!("http://127.0.0.1:{}", public.number()),
            secret,
            port: public.number(),
            algorithm,
        };
        Self { registration, server, _ports: [public, private] }
    }

    /// Starts it, and makes the client by a call.
    #[track_caller]
    pub(crate) fn open(mode: Mode, redirect_address: &str, algorithm: &'static str) -> Self {
        let (public, private) = (ReservedPort::take(), ReservedPort::take());
        let url = format!("http://127.0.0.1:{}", public.number());
        let server = Server::builder(BINARY)
            .env("ANTEROOM_PUBLIC_ADDR", format!("127.0.0.1:{}", public.number()))
            .env("ANTEROOM_PRIVATE_ADDR", format!("127.0.0.1:{}", private.number()))
            .env("ANTEROOM_PUBLIC_URL", url.as_str())
            .env("ANTEROOM_DEFAULT_ROOM", "Hall")
            .env("ANTEROOM_SIGNING_ALGORITHM", algorithm)
            .config(ROOM)
            .start()
            .expect("the server starts");
        let is_public = mode.authentication == Authentication::None;
        let asked = json!({ "redirect_addresses": [redirect_address], "public": is_public });
        let answer = server.operator().post("/rooms/shop/clients", &asked).expect("an answer");
        assert_eq!(answer.status, 201, "{answer:?}");
        let client = answer.json();
        assert_eq!(client["id"], CLIENT_ID, "{client}");
        let secret = client["secret"].as_str().unwrap_or_default().to_owned();
        assert_eq!(secret.is_empty(), is_public, "{client}");
        let registration =
            Registration { issuer: format!("{url}/rooms/shop"), secret, port: public.number(), algorithm };
        Self { registration, server, _ports: [public, private] }
    }
}

impl Provider for Anteroom {
    fn registration(&self) -> &Registration {
        &self.registration
    }

    fn end_visit(&self, subject: &str) {
        let target = format!("/rooms/shop/visits/{subject}");
        let ended = self.server.operator().post(&target, &json!({ "command": "complete" }));
        let ended = ended.expect("an answer");
        assert_eq!(ended.status, 200, "{ended:?}");
    }

    fn allow_return(&self, address: &str) {
        let body = json!({ "settings": { "return_addresses": [address] } }).to_string();
        let changed = self.server.operator().send(&Request::new("PATCH", "/rooms/shop").body(body));
        let changed = changed.expect("an answer");
        assert_eq!(changed.status, 200, "{changed:?}");
    }

    fn ends_tokens(&self) -> bool {
        true
    }

    fn recipe_edits(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    fn log(&self) -> String {
        self.server.stderr()
    }
}
