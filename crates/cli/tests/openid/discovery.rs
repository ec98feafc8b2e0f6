//! The discovery document and the keys of every room, read by libraries that refuse what is wrong.

use std::process::{Command, Output, Stdio};

use anteroom_testkit::{Request, Server, python_with, require};
use serde_json::{Value, json};

use crate::clients::node::{has_modules, node_output, programs};
use crate::support::BINARY;

/// Rooms, of which the first is the default room; the last gets an issuer of its own.
const CONFIG: &str = "default_room = \"Hall\"\n[[room]]\nid = \"Hall\"\n[[room]]\nid = \"Side.door-2\"\n\
    [[room]]\nid = \"shop\"\n[[room]]\nid = \"Own\"\n";
/// What a library that knows nothing of us goes by, and what is not what it would take for granted.
const SAID: [(&str, &[&str]); 7] = [
    ("response_types_supported", &["code"]),
    ("response_modes_supported", &["query"]),
    ("grant_types_supported", &["authorization_code", "refresh_token"]),
    ("subject_types_supported", &["pairwise"]),
    ("code_challenge_methods_supported", &["S256"]),
    ("token_endpoint_auth_methods_supported", &["client_secret_basic", "client_secret_post", "none"]),
    ("scopes_supported", &["openid", "offline_access"]),
];

/// A server, and the issuers of its rooms.
fn start() -> (Server, Vec<String>) {
    let mut server = Server::builder(BINARY).memory().config(CONFIG).start().expect("the server starts");
    // Its address is known once it has one; it is asked for again.
    let url = format!("http://{}", server.public());
    server.set_env("ANTEROOM_PUBLIC_ADDR", server.public().to_string());
    server.set_env("ANTEROOM_PUBLIC_URL", url.as_str());
    server.restart().expect("the server starts again");
    // As on a host of which only the paths below our prefix are ours.
    let own = format!("{url}/.anteroom/rooms/Own");
    let settings = json!({ "settings": { "issuer": own } }).to_string();
    let set = server.operator().send(&Request::new("PATCH", "/rooms/Own").body(settings)).expect("an answer");
    assert_eq!(set.status, 200, "{set:?}");
    let issuers = vec![url.clone(), format!("{url}/rooms/Side.door-2"), format!("{url}/rooms/shop"), own];
    (server, issuers)
}

#[track_caller]
fn assert_all_are_read(issuers: &[String], output: &Output) {
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    let read: Vec<Value> =
        said.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect();
    assert_eq!(read.len(), issuers.len(), "{said}");
    for (issuer, read) in issuers.iter().zip(&read) {
        let metadata = &read["metadata"];
        assert_eq!(metadata["issuer"], issuer.as_str());
        for (name, expected) in SAID {
            let listed = metadata[name].as_array().unwrap_or_else(|| panic!("no {name}: {metadata}"));
            for value in expected {
                assert!(listed.contains(&json!(value)), "{name} lacks {value}: {metadata}");
            }
        }
        assert_eq!(metadata["request_uri_parameter_supported"], false, "{metadata}");
        assert_eq!(metadata["authorization_response_iss_parameter_supported"], true, "{metadata}");
        for endpoint in ["authorization_endpoint", "token_endpoint", "userinfo_endpoint"] {
            let address = metadata[endpoint].as_str().unwrap_or_else(|| panic!("no {endpoint}: {metadata}"));
            assert!(address.starts_with(&format!("{issuer}/")), "{endpoint}: {metadata}");
        }
        assert!(read["keys"].as_u64() > Some(0), "{read}");
    }
}

#[test]
fn openid_client_reads_every_room() {
    if !has_modules("openid-client") || !has_modules("jose") {
        return;
    }
    let (_server, issuers) = start();
    let output = node_output("discovery.mjs", &[("ISSUERS", &issuers.join(" "))]);
    assert_all_are_read(&issuers, &output);
    // It would not read one under another address than it says.
    let other = format!("{}/", issuers[1]);
    let output = node_output("discovery.mjs", &[("ISSUERS", &other)]);
    assert!(!output.status.success(), "{output:?}");
}

#[test]
fn idpyoidc_reads_every_room() {
    let python = python_with("idpyoidc, cryptojwt");
    if !require("Python with idpyoidc", python.is_some()) {
        return;
    }
    let (_server, issuers) = start();
    let mut command = Command::new(python.expect("it is there"));
    command.arg(programs().join("discovery.py")).env("ISSUERS", issuers.join(" ")).stdin(Stdio::null());
    assert_all_are_read(&issuers, &command.output().expect("Python starts"));
}
