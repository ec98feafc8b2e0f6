//! What goes wrong on an operator's command line: each exit code, what is said, and the hint that goes with it.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::Duration;

use anteroom_testkit::{Server, wait_for};

use crate::support::BINARY;
use crate::support::operator::Operator;

const TIMEOUT: Duration = Duration::from_secs(30);

fn server() -> Server {
    Server::builder(BINARY)
        .memory()
        .config("[[room]]\nid = \"Hall\"\n[[room]]\nid = \"Yard\"\n")
        .start()
        .expect("a server")
}

/// An address at which nobody listens.
fn nobody() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    format!("http://{}", listener.local_addr().expect("an address"))
}

#[test]
fn code_0_is_what_is_done() {
    let server = server();
    server.line("Hall").join();
    assert_eq!(
        Operator::of(&server).done(&["room", "advance", "Hall", "1"]),
        "room Hall: serving is now 1\n"
    );
}

#[test]
fn code_1_is_a_server_that_cannot_be_reached() {
    let url = nobody();
    let said = Operator::at(&url).with_key("k").failed(1, &["room", "list"]);
    assert_eq!(
        said,
        format!(
            "error: cannot connect to {url}: connection refused\n\
             hint: is the server running, and is this its address? `anteroom serve` prints both of its addresses\n"
        )
    );
}

#[test]
fn code_1_is_a_server_that_refuses() {
    let server = server();
    let operator = Operator::of(&server);
    operator.done(&["room", "advance", "Hall", "9223372036854775807"]);
    let said = operator.failed(1, &["room", "advance", "Hall", "1"]);
    assert_eq!(
        said,
        "error: the server refused (400): the serving counter would exceed 9223372036854775807\n"
    );
}

#[test]
fn code_1_is_a_server_that_does_not_answer_in_time() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let said =
        Operator::at(&url).with_key("k").failed(1, &["room", "advance", "Hall", "5", "--timeout", "1s"]);
    assert!(said.starts_with(&format!("error: {url} did not answer within 1 s\nhint: ")), "{said}");
    assert!(said.contains("may or may not have happened"), "{said}");
}

#[test]
fn code_1_is_somebody_who_is_not_a_server_of_ours() {
    let somebody = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", somebody.local_addr().unwrap());
    let answering = std::thread::spawn(move || {
        let (mut stream, _) = somebody.accept().unwrap();
        let mut request = [0; 4096];
        let _ = stream.read(&mut request).unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello").unwrap();
    });
    let said = Operator::at(&url).with_key("k").failed(1, &["room", "list"]);
    answering.join().unwrap();
    assert_eq!(
        said,
        format!(
            "error: {url} is not the private listener of an Anteroom server: the answer is not JSON\n\
             hint: --url (or ANTEROOM_URL) must name the private listener, by default http://127.0.0.1:8081\n"
        )
    );
}

#[test]
fn code_2_is_a_command_line_that_is_wrong() {
    let operator = Operator::at("http://127.0.0.1:1").with_key("k");
    for (arguments, told) in [
        (&["room", "fly"][..], "unrecognized subcommand 'fly'"),
        (&["room", "show"], "<ROOM>"),
        (&["room", "show", "a/b"], "a room id is 1 to 64 characters"),
        (&["room", "set", "Hall"], "NAME=VALUE"),
        (&["room", "set", "Hall", "validity_period"], "expected NAME=VALUE"),
        (&["room", "advance", "Hall", "many"], "invalid digit"),
        (&["room", "advance", "Hall"], "N"),
        (&["key", "create", "x", "--role", "king"], "possible values: viewer, origin, operator, admin"),
        (&["key", "create", "x", "--role", "viewer", "--expires-in", "soon"], "30d"),
        (&["key", "create", "x", "--role", "viewer", "--config", "f"], "--offline"),
        (&["session", "close", "id", "--room", "Hall"], "--status"),
        (&["audit", "--limit", "0"], "0"),
        (&["room", "list", "--url", "ftp://x"], "hint: it looks like http://"),
        (&["room", "list", "--key-file", "nowhere"], "cannot read the key file nowhere"),
        (&["room", "list", "--ca-file", "nowhere"], "cannot use nowhere as certificates"),
        (&["room", "list", "--timeout", "0"], "90s, 15m"),
        (&["room", "reset", "Hall"], "hint: add --yes if you mean it"),
        (&["room", "delete", "Hall"], "hint: add --yes if you mean it"),
        (&["restore", "nowhere"], "hint: add --yes if you mean it"),
        (&["restore", "nowhere", "--yes"], "cannot read nowhere"),
    ] {
        let said = operator.failed(2, arguments);
        assert!(said.starts_with("error: ") && said.contains(told), "{arguments:?}: {said}");
    }
}

#[test]
fn code_2_is_no_key_at_all() {
    let said = Operator::at("http://127.0.0.1:1").failed(2, &["room", "list"]);
    assert!(
        said.starts_with("error: there is no API key to show to the server\nhint: set ANTEROOM_ADMIN_KEY"),
        "{said}"
    );
}

#[test]
fn no_argument_takes_a_key_and_a_key_file_does() {
    let server = server();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("key");
    std::fs::write(&file, format!("{}\n", server.admin_key())).unwrap();
    let operator = Operator::at(&format!("http://{}", server.private()));
    operator.done(&["room", "advance", "Hall", "1", "--key-file", file.to_str().unwrap()]);
    // The file is the more explicit word, so it wins over the environment.
    operator.with_key("wrong").done(&["room", "advance", "Hall", "1", "--key-file", file.to_str().unwrap()]);
}

#[test]
fn code_4_is_a_key_that_is_not_accepted() {
    let server = server();
    let url = format!("http://{}", server.private());
    let said = Operator::at(&url).with_key("not-the-key").failed(4, &["room", "advance", "Hall", "1"]);
    assert!(said.starts_with(&format!("error: {url} does not accept this key: ")), "{said}");
    assert!(
        said.contains("\nhint: is ANTEROOM_ADMIN_KEY (or the --key-file) the key of this server"),
        "{said}"
    );
    assert!(!said.contains("not-the-key"), "{said}");
}

#[test]
fn code_130_is_an_interrupted_command() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let mut child = Operator::at(&url).with_key("k").command(&["room", "list"]).spawn().unwrap();
    let (_stream, _) = silent.accept().unwrap();
    interrupt(child.id());
    let status = wait_for("the command has ended", TIMEOUT, || child.try_wait().unwrap());
    assert_eq!(status.code(), Some(130));
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(said, "error: interrupted\n");
}

/// What Ctrl-C does, to this one process, which is not reaped yet.
fn interrupt(process_id: u32) {
    let sent =
        std::process::Command::new("sh").args(["-c", "kill -s INT \"$0\"", &process_id.to_string()]).status();
    assert!(sent.expect("sh can be run").success());
}

#[test]
fn a_reader_who_has_read_enough_is_no_failure() {
    let operator = Operator::at("http://127.0.0.1:1");
    let mut command = operator.command(&["completions", "bash"]);
    let mut child = command.spawn().unwrap();
    // Closed before anything could be read.
    drop(child.stdout.take());
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!((child.wait().unwrap().code(), said.as_str()), (Some(0), ""));
}

#[test]
fn a_server_with_tls_is_trusted_by_its_certificate_and_a_stranger_is_not() {
    let directory = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(path("cert.pem"), made.cert.pem()).unwrap();
    std::fs::write(path("key.pem"), made.signing_key.serialize_pem()).unwrap();
    let config = format!(
        "private_tls_cert = \"{}\"\nprivate_tls_key = \"{}\"\n[[room]]\nid = \"Hall\"\n",
        path("cert.pem"),
        path("key.pem")
    );
    let server = Server::builder(BINARY).memory().config(config).start().unwrap();
    let operator = Operator::at(&format!("https://{}", server.private())).with_key(server.admin_key());
    let said = operator.done(&["room", "advance", "Hall", "1", "--ca-file", &path("cert.pem")]);
    assert_eq!(said, "room Hall: serving is now 1\n");

    // A machine without any certificate authorities says so, with the same hint.
    let said = operator.failed(1, &["room", "advance", "Hall", "1"]);
    assert!(said.starts_with("error: ") && said.contains("--ca-file"), "{said}");
    let plain = Operator::at(&format!("http://{}", server.private())).with_key(server.admin_key());
    let said = plain.failed(1, &["room", "advance", "Hall", "1"]);
    assert!(said.contains("gave no complete answer") && said.contains("https"), "{said}");
    assert_eq!(
        operator.done(&["room", "advance", "Hall", "1", "--ca-file", &path("cert.pem")]),
        "room Hall: serving is now 2\n"
    );
}
