//! Clients that are proxies: started with the recipes, in which only ports, the provider and the way of logging in are replaced.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anteroom_testkit::{Client as HttpClient, Request, Site, require, workspace_root};
use serde_json::{Value, json};

use super::{Client, LoggedIn, Setup, claim_of_header};
use crate::providers::Authentication;
use crate::recipe::{self, Ports};
use crate::support::program::Program;

/// Where Debian has Apache and its modules.
const APACHE: &str = "/usr/sbin/apache2";
const APACHE_MODULE: &str = "/usr/lib/apache2/modules/mod_auth_openidc.so";
/// With what the proxies seal what they keep in the browser.
const SESSION_SECRET: &str = "seals-the-cookies-of-this-site-and-of-no-other";

/// Whether the program of a client is there; see [`require`].
pub(super) fn is_there(client: Client) -> bool {
    if client == Client::Apache {
        let is_there = Path::new(APACHE).exists() && Path::new(APACHE_MODULE).exists();
        return require("apache2 with mod_auth_openidc", is_there);
    }
    require("envoy", envoy().exists())
}

fn envoy() -> PathBuf {
    let installed = std::env::var_os("ANTEROOM_TEST_PROXIES")
        .map_or_else(|| workspace_root().join("target/test-proxies"), PathBuf::from);
    installed.join("envoy/_bin/envoy")
}

/// Starts a proxy before the setup's site.
#[track_caller]
pub(super) fn start(client: Client, setup: &Setup, directory: &Path) -> Program {
    let registration = setup.provider.registration();
    let ports = Ports {
        visitors: setup.port,
        site: setup.site.port(),
        public: registration.port,
        // In no file of a proxy.
        private: 0,
        ext_authz: 0,
    };
    let file = if client == Client::Apache { "apache.conf" } else { "envoy.yaml" };
    let mut text = recipe::read_for(client.recipe().expect("a proxy has one"), file, &ports);
    for (from, to) in setup.provider.recipe_edits() {
        text = text.replace(from, to);
    }
    for (from, to) in mode_edits(client, setup) {
        assert!(text.contains(from), "no {from} in {text}");
        text = text.replace(from, to);
    }
    fs::write(directory.join(file), text).expect("a file can be written in a temporary directory");
    let environment =
        [("ANTEROOM_SHOP_SECRET", registration.secret.as_str()), ("SHOP_SESSION_SECRET", SESSION_SECRET)];
    if client == Client::Apache {
        let arguments = ["-d", ".", "-f", "apache.conf", "-D", "FOREGROUND"];
        return Program::start(Path::new(APACHE), &arguments, directory, &environment);
    }
    // Several of them run at once on this machine.
    let arguments = ["-c", "envoy.yaml", "--disable-hot-restart", "--concurrency", "1"];
    Program::start(&envoy(), &arguments, directory, &environment)
}

/// What changes in a recipe with the way of logging in. They are written for Basic with PKCE.
fn mode_edits(client: Client, setup: &Setup) -> Vec<(&'static str, &'static str)> {
    let mut edits = vec![];
    match (client, setup.mode.authentication) {
        (_, Authentication::Basic) => {}
        (Client::Apache, Authentication::Post) => {
            edits.push(("EndpointAuth client_secret_basic", "EndpointAuth client_secret_post"));
        }
        (Client::Apache, Authentication::None) => {
            edits.push(("EndpointAuth client_secret_basic", "EndpointAuth none"));
            edits.push(("OIDCClientSecret \"${ANTEROOM_SHOP_SECRET}\"\n", ""));
        }
        (_, Authentication::Post) => edits.push(("auth_type: BASIC_AUTH", "auth_type: URL_ENCODED_BODY")),
        (_, Authentication::None) => unreachable!("it has a secret"),
    }
    if client == Client::Apache && !setup.mode.has_pkce {
        edits.push(("OIDCPKCEMethod S256\n", ""));
    }
    edits
}

/// What a proxy has told the site about the visitor who has last opened a page.
#[track_caller]
pub(super) fn learned(client: Client, site: &Site, path: &str) -> LoggedIn {
    let seen = site.last_seen(path);
    let header = |name: &str| seen.header(name);
    let (claims, token) = if client == Client::Apache {
        let names = ["iss", "sub", "aud", "nonce", "queue_position"];
        let claims = names.map(|name| (name, claim_of_header(header(&format!("OIDC_CLAIM_{name}")))));
        (Value::from_iter(claims), header("OIDC_access_token").map(str::to_owned))
    } else {
        let claims = json!({
            "sub": claim_of_header(header("anteroom-subject")),
            "queue_position": claim_of_header(header("anteroom-queue-position")),
            // It has compared these two, and tells only the verdict.
            "iss": null,
            "aud": null,
        });
        (claims, header("Authorization").and_then(|value| value.strip_prefix("Bearer ")).map(str::to_owned))
    };
    let token = token.unwrap_or_else(|| panic!("no access token: {seen:?}"));
    LoggedIn { claims, user_info: json!({ "access_token": token }) }
}

/// Asks userInfo with the token that a proxy passed on, as the site behind it can.
#[track_caller]
pub(crate) fn user_info(issuer: &str, access_token: &str) -> Value {
    let rest = issuer.strip_prefix("http://").expect("an address in clear");
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let address: SocketAddr = authority.parse().expect("an address of this machine");
    let mut client = HttpClient::new(address);
    let document = client.get(&format!("{path}/.well-known/openid-configuration")).expect("an answer").json();
    let endpoint = document["userinfo_endpoint"].as_str().expect("an address").to_owned();
    let target = endpoint.strip_prefix(&format!("http://{authority}")).expect("it is there").to_owned();
    let asked = Request::new("GET", &target).header("Authorization", &format!("Bearer {access_token}"));
    let answer = client.send(&asked).expect("an answer");
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()
}
