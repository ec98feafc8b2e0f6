//! "No private key, master secret, admin key or token in any log or answer: a test drives every route and searches."
//!
//! Every public and private route is called well and badly while the log is at its most talkative. Tokens may stand in the
//! answers of `generate_token` and nowhere else, request ids in no log; the other secrets nowhere at all, the store's files
//! included.

use std::fs;
use std::path::Path;

use anteroom_testkit::{Answer, Client, Line, Request, Server, aws, jwt};
use serde_json::json;

use crate::support::BINARY;

const SECRET: &str = "S3cret-of-the-house-never-to-be-seen-anywhere";
const ADMIN_KEY: &str = "k3y-of-the-operator-never-to-be-seen-anywhere";
const WRONG_KEY: &str = "wr0ng-key-that-somebody-mistyped-0123456789";

/// Byte strings that stand in every PKCS#8 private key of a kind: version, then the algorithm's identifier.
const PRIVATE_KEY_MARKS: [(&str, &[u8]); 5] = [
    (
        "an RSA private key",
        &[
            0x02, 0x01, 0x00, 0x30, 0x0d, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01,
            0x05, 0x00, 0x04, 0x82,
        ],
    ),
    (
        "a P-256 private key",
        &[0x02, 0x01, 0x00, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01],
    ),
    ("an Ed25519 private key", &[0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70]),
    (
        "an Ed25519 private key of the newer form",
        &[0x02, 0x01, 0x01, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70],
    ),
    ("a private key in PEM", b"PRIVATE KEY-----"),
];

/// Every answer that was given, with what was asked.
#[derive(Default)]
struct Record {
    answers: Vec<(String, Answer)>,
}

impl Record {
    fn call(&mut self, client: &mut Client, request: &Request, what: &str) -> Answer {
        let answer = client.send(request).unwrap_or_else(|error| panic!("{what}: {error:#}"));
        self.answers.push((what.to_owned(), answer.clone()));
        answer
    }
}

fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    !needle.is_empty() && haystack.windows(needle.len()).any(|window| window == needle)
}

/// What must not be found in answers and logs, with a name for each, in the spellings in which it could slip out.
fn forbidden_everywhere() -> Vec<(String, Vec<u8>)> {
    let mut forbidden = Vec::new();
    for (name, secret) in [("the master secret", SECRET), ("the admin key", ADMIN_KEY)] {
        let bytes = secret.as_bytes();
        let hex = bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat();
        let encoded = jwt::encode_base64url(bytes);
        // Standard base64 differs only in two letters that these secrets do not produce at the start.
        forbidden.push((name.to_owned(), bytes.to_vec()));
        forbidden.push((format!("{name} in hexadecimal"), hex.into_bytes()));
        forbidden.push((format!("{name} in base64"), encoded.as_bytes()[..20].to_vec()));
        // The way `{:?}` prints bytes.
        let numbers: Vec<String> = bytes[..8].iter().map(u8::to_string).collect();
        forbidden.push((format!("{name} as numbers"), numbers.join(", ").into_bytes()));
    }
    for (name, mark) in PRIVATE_KEY_MARKS {
        forbidden.push((name.to_owned(), mark.to_vec()));
    }
    // The private members of a JWK.
    for member in ["d", "p", "q", "dp", "dq", "qi", "k"] {
        forbidden.push((format!("the JWK member {member}"), format!("\"{member}\":").into_bytes()));
    }
    forbidden
}

/// A client that knows a request id has its place in line, so a log that many may read must not have it, in any spelling.
fn spellings_of_ids(ids: &[String]) -> Vec<(String, Vec<u8>)> {
    let mut spellings = Vec::new();
    for id in ids {
        let digits: String = id.chars().filter(char::is_ascii_hexdigit).collect();
        let number = u128::from_str_radix(&digits, 16).expect("a request id is a UUID");
        let forms = [id.clone(), id.to_uppercase(), digits.to_uppercase(), digits, number.to_string()];
        spellings.extend(forms.map(|form| (format!("the request id {id}"), form.into_bytes())));
    }
    spellings
}

#[track_caller]
fn assert_absent(haystack: &[u8], forbidden: &[(String, Vec<u8>)], place: &str) {
    for (name, needle) in forbidden {
        assert!(
            !contains(haystack, needle),
            "{name} stands in {place}:\n{}",
            String::from_utf8_lossy(haystack)
        );
    }
}

/// Calls every route well and badly, and returns the tokens and the request ids that were rightly handed out.
fn drive_every_route(server: &Server, record: &mut Record) -> (Vec<String>, Vec<String>) {
    let mut line = server.line("Sample");
    let ids = line.join_many(3);
    line.advance(2);
    let mut tokens: Vec<String> = line.tokens(&ids[0]).to_vec();
    let overridden =
        line.claim_privately(&ids[1], &json!({ "issuer": "https://x.example.test", "validity_period": 60 }));
    tokens.extend(overridden.token_set());

    let mut strangers = [
        server.visitor(),
        server.visitor().with_bearer(&tokens[0]),
        server.operator(),
        Client::new(server.private()),
        Client::new(server.private()).with_bearer(WRONG_KEY),
        Client::new(server.private()).with_bearer(&tokens[0]),
    ];
    for client in &mut strangers {
        drive_with(client, &ids, &tokens, record);
    }
    // Keys and tokens where they do not belong: in the path, the query, the body and another header.
    for client in &mut strangers {
        for misplaced in [ADMIN_KEY, tokens[0].as_str()] {
            let body =
                json!({ "event_id": misplaced, "request_id": misplaced, "status": misplaced }).to_string();
            let requests = [
                Request::new("GET", &format!("/{misplaced}")),
                Request::new("GET", &format!("/serving_num?event_id={misplaced}")),
                Request::new("GET", &format!("/queue_num?event_id=Sample&request_id={misplaced}")),
                Request::new("POST", "/assign_queue_num").body(body.clone()),
                Request::new("POST", "/generate_token").body(body.clone()),
                Request::new("POST", "/update_session").body(body),
                Request::new("GET", "/serving_num?event_id=Sample")
                    .header("Cookie", &format!("token={misplaced}")),
                Request::new("GET", "/serving_num?event_id=Sample").header("X-Api-Key", misplaced),
                Request::new("GET", "/num_active_tokens?event_id=Sample")
                    .header("X-Authorization", misplaced),
            ];
            for request in &requests {
                record.call(client, request, "a misplaced secret");
            }
        }
        let raw =
            format!("GET /{} HTTP/1.1\r\nAuthorization: Bearer {ADMIN_KEY}\r\nBroken\r\n\r\n", tokens[0]);
        if let Some(answer) = client.send_raw(raw.as_bytes()).expect("answered or closed") {
            record.answers.push(("a broken head".to_owned(), answer));
        }
    }
    end_of_day(&mut line, &ids, record);
    (tokens, ids)
}

/// Makes clients and rotates their secrets, and asks for whatever could show them. Returns the secrets, which stand in the two answers
/// that made them and nowhere else.
fn drive_clients(server: &Server, record: &mut Record) -> Vec<(String, Vec<u8>)> {
    let mut admin = server.operator();
    let wanted = json!({ "id": "shop", "redirect_addresses": ["https://shop.example/callback"] });
    let made = admin.post("/rooms/Sample/clients", &wanted).expect("a client");
    let rotate = Request::new("POST", "/rooms/Sample/clients/shop/secrets");
    let rotated = admin.send(&rotate).expect("another secret");
    let secrets =
        [made, rotated].map(|answer| answer.json()["secret"].as_str().expect("a secret").to_owned());
    let with_both = |template: &str| template.replace("SECRET", &secrets[0]).replace("OTHER", &secrets[1]);
    for (method, path, body) in [
        ("POST", "/rooms/Sample/clients", wanted.to_string()),
        ("GET", "/rooms/Sample/clients", String::new()),
        ("GET", "/rooms/Sample/clients/shop", String::new()),
        ("DELETE", "/rooms/Sample/clients/shop/secrets/previous", String::new()),
        ("GET", "/audit?limit=1000", String::new()),
        ("GET", "/backup", String::new()),
        // Where they do not belong.
        ("POST", "/rooms/Sample/clients", with_both(r#"{"id": "SECRET", "secret": "OTHER"}"#)),
        ("POST", "/token", with_both("client_id=shop&client_secret=SECRET")),
    ] {
        let request = Request::new(method, path).body(body);
        record.call(&mut admin, &request, &format!("{method} {path}"));
        record.call(&mut server.visitor(), &request, &format!("{method} {path} by a visitor"));
    }
    secrets.map(|secret| ("the secret of a client".to_owned(), secret.into_bytes())).to_vec()
}

/// Every known path with every method that any route has, with good and with empty input.
fn drive_with(client: &mut Client, ids: &[String], tokens: &[String], record: &mut Record) {
    let ours = ["/livez", "/readyz", "/metrics", "/.well-known/jwks.json", "/", "/nothing"];
    let aws_paths = aws::PUBLIC_ROUTES.iter().chain(&aws::PRIVATE_ROUTES).map(|(_, path)| *path);
    let paths: Vec<&str> = aws_paths.chain(ours).filter(|path| *path != "/reset_initial_state").collect();
    for path in paths {
        for method in ["GET", "POST", "HEAD", "OPTIONS", "DELETE"] {
            for id in &ids[..2] {
                let query = [("event_id", "Sample"), ("request_id", id.as_str())];
                // Neither ends a session nor moves the frontier, so that every caller finds the same room.
                let body = json!({ "event_id": "Sample", "request_id": id, "status": 7, "increment_by": 0 })
                    .to_string();
                let what = format!("{method} {path}");
                let request = Request::new(method, &aws::target(path, &query)).body(body);
                let answer = record.call(client, &request, &what);
                let holds_tokens = tokens.iter().any(|token| contains(&answer.body, token.as_bytes()));
                let may_hold_them = method == "POST" && path == "/generate_token" && answer.status == 200;
                assert!(!holds_tokens || may_hold_them, "{what} gave a token away: {answer:?}");
                record.call(client, &Request::new(method, path).body("{"), &what);
            }
        }
    }
}

/// What changes the room, once: an ended session, a refused one, the reset.
fn end_of_day(line: &mut Line, ids: &[String], record: &mut Record) {
    for (id, what) in [(&ids[0], "an ended session"), (&ids[2], "no session")] {
        let body = json!({ "event_id": "Sample", "request_id": id, "status": 1 });
        record.call(&mut line.operator, &Request::post_json("/update_session", &body), what);
    }
    let claim = json!({ "event_id": "Sample", "request_id": ids[0] });
    record.call(&mut line.public, &Request::post_json("/generate_token", &claim), "a claim after the end");
    let reset = json!({ "event_id": "Sample" });
    record.call(&mut line.operator, &Request::post_json("/reset_initial_state", &reset), "the reset");
}

fn files_below(directory: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).expect("the directory can be read") {
        let path = entry.expect("an entry can be read").path();
        if path.is_dir() {
            files.extend(files_below(&path));
        } else {
            files.push((path.display().to_string(), fs::read(&path).expect("a file can be read")));
        }
    }
    files
}

fn no_secret_stands_in_any_log_answer_or_file(algorithm: &str) {
    let config = format!("signing_algorithm = \"{algorithm}\"\n[[room]]\nid = \"Sample\"\n");
    let mut server = Server::builder(BINARY)
        .config(config)
        .env("ANTEROOM_SECRET", SECRET)
        .env("ANTEROOM_ADMIN_KEY", ADMIN_KEY)
        .env("ANTEROOM_LOG", "trace")
        .start()
        .expect("the server starts");
    let mut record = Record::default();
    let clients = drive_clients(&server, &mut record);
    let (tokens, ids) = drive_every_route(&server, &mut record);
    server.restart().expect("the server starts again");
    assert_eq!(server.line("Sample").waiting(), 0);
    let ended = server.terminate().expect("the server ends");
    assert!(ended.status.success());

    let everywhere: Vec<_> = forbidden_everywhere().into_iter().chain(clients).collect();
    // The signature of a token is enough to complete it from its guessable rest.
    let signatures: Vec<(String, Vec<u8>)> = tokens
        .iter()
        .map(|token| token.rsplit('.').next().unwrap_or_default())
        .map(|signature| ("the signature of a token".to_owned(), signature.as_bytes().to_vec()))
        .collect();
    assert_eq!(signatures.len(), 6);
    assert!(record.answers.len() > 100, "every route was driven");
    for (what, answer) in &record.answers {
        let mut bytes = answer.body.clone();
        for (name, value) in &answer.headers {
            bytes.extend_from_slice(format!("\n{name}: {value}").as_bytes());
        }
        assert_absent(&bytes, &everywhere, &format!("the answer to {what}"));
        if what != "POST /generate_token" {
            assert_absent(&bytes, &signatures, &format!("the answer to {what}"));
        }
    }
    let log = server.stderr() + &server.stdout();
    assert!(log.len() > 1000, "at trace the server has said something:\n{log}");
    assert_absent(log.as_bytes(), &everywhere, "the log");
    assert_absent(log.as_bytes(), &signatures, "the log");
    assert_absent(log.as_bytes(), &spellings_of_ids(&ids), "the log");
    assert!(!log.contains(WRONG_KEY), "a mistyped key is nearly the right one, and stands in the log");

    // JWK members are short enough to occur by chance in a binary file, so files are searched for the rest.
    let in_files: Vec<_> =
        everywhere.into_iter().filter(|(name, _)| !name.starts_with("the JWK member")).collect();
    let files = files_below(&server.data_directory());
    assert!(files.iter().any(|(_, bytes)| !bytes.is_empty()), "the store has written something");
    for (path, bytes) in &files {
        for (name, needle) in &in_files {
            assert!(!contains(bytes, needle), "{name} stands in {path}");
        }
    }
}

#[test]
fn no_secret_stands_in_any_log_answer_or_file_with_rs256() {
    no_secret_stands_in_any_log_answer_or_file("RS256");
}

#[test]
fn no_secret_stands_in_any_log_answer_or_file_with_es256() {
    no_secret_stands_in_any_log_answer_or_file("ES256");
}

#[test]
fn no_secret_stands_in_any_log_answer_or_file_with_eddsa() {
    no_secret_stands_in_any_log_answer_or_file("EdDSA");
}

#[test]
fn the_search_finds_private_keys_as_they_are_usually_written() {
    // Freshly made keys, so that the marks above are known to be in the files that they are meant to find.
    let marks: Vec<_> =
        PRIVATE_KEY_MARKS.iter().map(|(name, mark)| ((*name).to_owned(), mark.to_vec())).collect();
    let found = |bytes: &[u8]| marks.iter().filter(|(_, mark)| contains(bytes, mark)).count();
    for algorithm in [&rcgen::PKCS_RSA_SHA256, &rcgen::PKCS_ECDSA_P256_SHA256, &rcgen::PKCS_ED25519] {
        let key = rcgen::KeyPair::generate_for(algorithm).unwrap();
        assert_eq!(found(key.serialized_der()), 1, "{algorithm:?}");
        assert_eq!(found(key.serialize_pem().as_bytes()), 1, "{algorithm:?}");
    }
    assert_eq!(found(b"nothing of the kind"), 0);
}

#[test]
fn the_search_finds_request_ids_as_a_log_would_write_them() {
    let spellings = spellings_of_ids(&["0188a6f2-00ff-4abc-9def-0123456789ab".to_owned()]);
    let lines = [
        "id=0188a6f2-00ff-4abc-9def-0123456789ab",
        "RequestId(0188a6f200ff4abc9def0123456789ab)",
        "uuid 0188A6F200FF4ABC9DEF0123456789AB",
        "RequestId(2038766422063816078133692127483759019)",
    ];
    for line in lines {
        assert!(spellings.iter().any(|(_, form)| contains(line.as_bytes(), form)), "{line}");
    }
}

#[test]
fn a_generated_secret_is_readable_by_its_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let server = Server::builder(BINARY).without_env("ANTEROOM_SECRET").start().unwrap();
    server.line("Sample").join();
    let files = files_below(&server.data_directory());
    assert!(!files.is_empty());
    // A secret is a short file; the database is a long one, and says nothing without the secret.
    let short: Vec<&String> =
        files.iter().filter(|(_, bytes)| (1..4096).contains(&bytes.len())).map(|(path, _)| path).collect();
    assert!(!short.is_empty(), "no secret was kept");
    for path in short {
        let mode = fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{path}");
    }
}

#[test]
fn the_data_directory_and_its_files_are_for_their_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let server = Server::builder(BINARY).without_env("ANTEROOM_SECRET").start().unwrap();
    server.line("Sample").join();
    let data = server.data_directory();
    let files = files_below(&data);
    assert!(files.len() >= 2, "the store and the secret");
    for path in files.iter().map(|(path, _)| Path::new(path)).chain([data.as_path()]) {
        let mode = fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{}: {mode:o}", path.display());
    }
}
