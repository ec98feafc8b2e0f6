//! No code, secret, token or verifier in any log, in the store's files, or in an answer that is not for it, whatever the endpoints
//! are asked and however talkative the log is.

use std::fs;
use std::path::Path;

use anteroom_testkit::{Answer, Request, Server};
use serde_json::json;

use super::stand::{CALLBACK, CHALLENGE, Stand, VERIFIER, basic, config, escape, form, make_client};
use crate::support::BINARY;

/// What only the site and its visitor know.
const STATE: &str = "st4te-of-a-login-never-to-be-seen-anywhere";
const NONCE: &str = "n0nce-of-a-login-never-to-be-seen-anywhere";
const WRONG_SECRET: &str = "wr0ng-secret-that-somebody-mistyped-0123456789";
const WRONG_CODE: &str = "wr0ng-code-that-somebody-made-up-0123456789";
/// The endpoints, of the default room and of a named one.
const ENDPOINTS: [&str; 12] = [
    "/authorize",
    "/token",
    "/userInfo",
    "/userinfo",
    "/.well-known/openid-configuration",
    "/rooms/Hall/authorize",
    "/rooms/Hall/authorize/enter",
    "/rooms/Hall/authorize/moved",
    "/rooms/Hall/token",
    "/rooms/Hall/userInfo",
    "/rooms/Hall/.well-known/jwks.json",
    "/.anteroom/rooms/Hall/token",
];

struct Driven {
    stand: Stand,
    /// What must be nowhere but where it belongs, each with its name.
    secrets: Vec<(&'static str, String)>,
    /// What was asked, and answered.
    answers: Vec<(String, Answer)>,
}

impl Driven {
    fn start() -> Self {
        let server = Server::builder(BINARY).config(config("")).env("ANTEROOM_LOG", "trace");
        let server = server.start().expect("the server starts");
        let secret = make_client(&server, "Hall", &json!({ "redirect_addresses": [CALLBACK] }));
        let secrets = vec![
            ("the secret of the client", secret.clone()),
            ("a state", STATE.to_owned()),
            ("a nonce", NONCE.to_owned()),
            ("a verifier", VERIFIER.to_owned()),
            ("a mistyped secret", WRONG_SECRET.to_owned()),
            ("a code that is none", WRONG_CODE.to_owned()),
        ];
        Self { stand: Stand { server, secret }, secrets, answers: vec![] }
    }

    fn send(&mut self, what: &str, request: &Request) -> Answer {
        let answer = self.stand.send(request);
        self.answers.push((what.to_owned(), answer.clone()));
        answer
    }

    fn token(&mut self, what: &str, fields: &[(&str, &str)], authorization: Option<&str>) -> Answer {
        let request = Request::new("POST", "/token")
            .header("Content-Type", "application/x-www-form-urlencoded")
            .body(form(fields));
        let request = authorization
            .iter()
            .fold(request, |request, authorization| request.header("Authorization", authorization));
        self.send(what, &request)
    }

    /// A code, of a visitor who was served.
    fn code(&mut self) -> String {
        let target = format!(
            "/authorize?client_id=Hall&redirect_uri={}&response_type=code&scope=openid&state={STATE}&nonce={NONCE}\
             &code_challenge={CHALLENGE}&code_challenge_method=S256",
            escape(CALLBACK)
        );
        let (_, back) = self.stand.log_in(&target);
        assert_eq!(back.get("state"), STATE);
        let code = back.get("code").to_owned();
        self.secrets.push(("a code", code.clone()));
        code
    }

    fn keep_tokens(&mut self, answer: &Answer) -> [String; 3] {
        assert_eq!(answer.status, 200, "{answer:?}");
        let tokens = answer.json();
        let token = |name: &str| tokens[name].as_str().unwrap_or_else(|| panic!("no {name}")).to_owned();
        let [access, id, refresh] = ["access_token", "id_token", "refresh_token"].map(token);
        // A signature is enough to complete a token from its guessable rest.
        for (name, token) in [("an access token", &access), ("an ID token", &id)] {
            self.secrets.push((name, token.rsplit('.').next().expect("a signature").to_owned()));
        }
        self.secrets.push(("a refresh token", refresh.clone()));
        [access, id, refresh]
    }

    /// Logs in, renews, asks userInfo; then the same badly.
    fn go_the_whole_way(&mut self) -> [String; 3] {
        let code = self.code();
        let secret = self.stand.secret.clone();
        let exchange = [
            ("grant_type", "authorization_code"),
            ("code", code.as_str()),
            ("redirect_uri", CALLBACK),
            ("code_verifier", VERIFIER),
        ];
        let mistyped = basic(&format!("Hall:{WRONG_SECRET}"));
        assert_eq!(self.token("a mistyped secret", &exchange, Some(&mistyped)).status, 401);
        let posted = [&exchange[..], &[("client_id", "Hall"), ("client_secret", WRONG_SECRET)]].concat();
        assert_eq!(self.token("a mistyped secret in the form", &posted, None).status, 401);
        let known = basic(&format!("Hall:{secret}"));
        let made_up =
            [("grant_type", "authorization_code"), ("code", WRONG_CODE), ("redirect_uri", CALLBACK)];
        assert_eq!(self.token("a code that is none", &made_up, Some(&known)).status, 400);
        let answer = self.token("tokens", &exchange, Some(&known));
        let [_, _, refresh] = self.keep_tokens(&answer);
        let renew = [("grant_type", "refresh_token"), ("refresh_token", refresh.as_str())];
        let answer = self.token("tokens", &renew, Some(&known));
        let tokens = self.keep_tokens(&answer);
        for (access, status) in [(tokens[0].as_str(), 200), (tokens[1].as_str(), 401), (WRONG_CODE, 401)] {
            let bearer = format!("Bearer {access}");
            for method in ["GET", "POST"] {
                let request = Request::new(method, "/userInfo").header("Authorization", &bearer);
                assert_eq!(self.send("userInfo", &request).status, status);
            }
        }
        // Both a second time, which ends everything.
        assert_eq!(self.token("a code twice", &exchange, Some(&known)).status, 400);
        assert_eq!(self.token("a refresh token twice", &renew, Some(&known)).status, 400);
        tokens
    }

    /// Puts every secret where it does not belong.
    fn misplace_everything(&mut self) {
        let secrets = self.secrets.clone();
        for (_, secret) in &secrets {
            for path in ENDPOINTS {
                let query =
                    format!("{path}?client_id={secret}&code={secret}&redirect_uri={secret}&state={secret}");
                for method in ["GET", "POST", "DELETE"] {
                    let body = form(&[("grant_type", secret), ("code", secret), ("client_secret", secret)]);
                    let request = Request::new(method, &query)
                        .header("Content-Type", "application/x-www-form-urlencoded")
                        .header("Authorization", &format!("Bearer {secret}"))
                        .header("Cookie", &format!("anteroom-Hall={secret}"));
                    self.send("misplaced", &request.body(body));
                }
            }
            let ended = format!("/rooms/Hall/visits/{secret}");
            let answer = self.stand.server.operator().post(&ended, &json!({ "command": "complete" }));
            self.answers.push(("misplaced".to_owned(), answer.expect("an answer")));
        }
    }
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

fn assert_no_file_has(directory: &Path, secrets: &[(&'static str, String)]) {
    for entry in fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            assert_no_file_has(&path, secrets);
            continue;
        }
        let bytes = fs::read(&path).expect("a file");
        for (name, secret) in secrets {
            assert!(!contains(&bytes, secret), "{name} stands in {}", path.display());
        }
    }
}

#[test]
fn no_code_secret_or_token_stands_in_a_log_a_file_or_an_answer_for_others() {
    let mut driven = Driven::start();
    driven.go_the_whole_way();
    driven.misplace_everything();
    let Driven { mut stand, secrets, answers } = driven;
    stand.server.restart().expect("the server starts again");
    stand.server.terminate().expect("the server ends");
    let log = stand.server.stderr() + &stand.server.stdout();
    assert!(log.len() > 1000, "at trace the server has said something:\n{log}");
    for (name, secret) in &secrets {
        assert!(secret.len() > 20, "{name}");
        assert!(!contains(log.as_bytes(), secret), "{name} stands in the log:\n{log}");
    }
    assert_no_file_has(&stand.server.data_directory(), &secrets);
    let ours = |name: &&(&str, String)| {
        matches!(name.0, "the secret of the client" | "a verifier" | "a mistyped secret")
    };
    for (what, answer) in &answers {
        // What somebody puts into an address may come back on a page; what proves something never does.
        for (name, secret) in secrets.iter().filter(ours) {
            let is_misplaced = what == "misplaced";
            assert!(is_misplaced || !contains(&answer.body, secret), "{name} stands in the answer to {what}");
        }
    }
}
