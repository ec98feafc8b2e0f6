//! Signers that are not ours, as child processes: a script reads what to call and prints what was answered.

use std::env;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anteroom_testkit::{Server, python_with, require, workspace_root};
use serde_json::{Value, json};

use super::raw::KeyPair;

/// A region that no server of ours is in.
const REGION: &str = "ap-southeast-2";

/// A way to run one of the scripts.
pub(crate) struct Signer {
    program: PathBuf,
    arguments: Vec<PathBuf>,
}

impl Signer {
    /// npm's aws4fetch in Node, if both are there.
    pub(crate) fn aws4fetch() -> Option<Self> {
        let modules = env::var_os("ANTEROOM_TEST_NODE_MODULES")
            .map_or_else(|| workspace_root().join("target/test-node/node_modules"), PathBuf::from);
        let node = Command::new("node").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        let present = node.is_ok_and(|status| status.success()) && modules.join("aws4fetch").is_dir();
        let signer = Self { program: "node".into(), arguments: vec![script("aws4fetch.mjs"), modules] };
        require("Node with aws4fetch", present).then_some(signer)
    }

    /// `PyPI`'s aws-requests-auth with requests.
    pub(crate) fn aws_requests_auth() -> Option<Self> {
        let python = python_with("aws_requests_auth, requests");
        Self::python("Python with aws-requests-auth and requests", python, "aws_requests_auth_calls.py")
    }

    /// Boto's signer.
    pub(crate) fn botocore() -> Option<Self> {
        Self::python("Python with botocore", python_with("botocore"), "botocore_calls.py")
    }

    fn python(component: &str, python: Option<PathBuf>, name: &str) -> Option<Self> {
        if !require(component, python.is_some()) {
            return None;
        }
        python.map(|program| Self { program, arguments: vec![script(name)] })
    }

    /// Makes calls of the private listener, one after the other; each answer is its status and its JSON.
    #[track_caller]
    pub(crate) fn call(
        &self,
        server: &Server,
        pair: &KeyPair,
        session_token: Option<&str>,
        calls: &Value,
    ) -> Vec<(u64, Value)> {
        let given = json!({
            "base_url": format!("http://{}", server.private()),
            "region": REGION,
            "access_key_id": pair.access_key_id,
            "secret_access_key": pair.secret,
            "session_token": session_token,
            "calls": calls,
        });
        let mut child = Command::new(&self.program)
            .args(&self.arguments)
            // A proxy of the machine is no part of the test.
            .env("NO_PROXY", "*")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the signer's program starts");
        let mut input = child.stdin.take().expect("standard input is piped");
        input.write_all(given.to_string().as_bytes()).expect("the script reads its input");
        drop(input);
        let output = child.wait_with_output().expect("the script ends");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let answers: Vec<Value> = serde_json::from_slice(&output.stdout).expect("the script prints JSON");
        let body = |answer: &Value| {
            let text = answer["body"].as_str().expect("a body");
            serde_json::from_str(text).unwrap_or_else(|error| panic!("not JSON ({error}): {text}"))
        };
        answers.iter().map(|answer| (answer["status"].as_u64().expect("a status"), body(answer))).collect()
    }
}

fn script(name: &str) -> PathBuf {
    workspace_root().join("crates/cli/tests/api/sigv4").join(name)
}
