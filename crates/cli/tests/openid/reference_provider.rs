//! npm oidc-provider, which many take for the measure of a provider, with a line of its own before its login.

use std::net::SocketAddr;
use std::time::Duration;

use anteroom_testkit::{Client, Request, ReservedPort, wait_until};
use serde_json::json;

use crate::clients::node::{has_modules, node_program};
use crate::providers::{Authentication, CLIENT_ID, Mode, Provider, RS256, Registration};
use crate::support::program::Program;

/// How long it may take until it listens. Generous, because it may share two cores with a build.
const START_TIMEOUT: Duration = Duration::from_mins(1);
/// Its client's secret. A client that does not encode it as the specification says is not tested by that.
const SECRET: &str = "the-secret-of-a-client-of-the-reference-provider";

/// The running provider.
#[derive(Debug)]
pub(crate) struct ReferenceProvider {
    registration: Registration,
    program: Program,
    _directory: tempfile::TempDir,
    _port: ReservedPort,
}

impl ReferenceProvider {
    /// Starts it; nothing when it is missing.
    #[track_caller]
    pub(crate) fn open(mode: Mode, redirect_address: &str) -> Option<Self> {
        if !has_modules("oidc-provider") {
            return None;
        }
        let port = ReservedPort::take();
        let mut client = json!({
            "client_id": CLIENT_ID,
            "redirect_uris": [redirect_address],
            "token_endpoint_auth_method": mode.authentication.method(),
            "grant_types": ["authorization_code", "refresh_token"],
        });
        let is_public = mode.authentication == Authentication::None;
        if !is_public {
            client["client_secret"] = json!(SECRET);
        }
        let configuration = json!({ "port": port.number(), "clients": [client] }).to_string();
        let directory = tempfile::tempdir().expect("a temporary directory can be made");
        let program =
            node_program("reference_provider.mjs", directory.path(), &[("CONFIGURATION", &configuration)]);
        let registration = Registration {
            issuer: format!("http://127.0.0.1:{}", port.number()),
            secret: if is_public { String::new() } else { SECRET.to_owned() },
            port: port.number(),
            algorithm: RS256,
        };
        let mut provider = Self { registration, program, _directory: directory, _port: port };
        wait_until("the reference provider listens", START_TIMEOUT, || {
            assert!(!provider.program.has_ended(), "it has ended:\n{}", provider.program.log());
            provider.program.log().contains("listening at")
        });
        Some(provider)
    }
}

impl Provider for ReferenceProvider {
    fn registration(&self) -> &Registration {
        &self.registration
    }

    fn end_visit(&self, subject: &str) {
        let mut client = Client::new(SocketAddr::from(([127, 0, 0, 1], self.registration.port)));
        let ended = client.send(&Request::new("POST", &format!("/end/{subject}"))).expect("an answer");
        assert_eq!(ended.status, 200, "{ended:?}");
    }

    fn allow_return(&self, _: &str) {
        unreachable!("nobody waits here without a login");
    }

    fn ends_tokens(&self) -> bool {
        false
    }

    fn recipe_edits(&self) -> &'static [(&'static str, &'static str)] {
        &[("/authorize", "/auth"), ("/.well-known/jwks.json", "/jwks")]
    }

    fn log(&self) -> String {
        self.program.log()
    }
}
