//! `anteroom backup` and `anteroom restore`: a whole file or none, and the same server afterwards.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anteroom_testkit::{Server, wait_for, wait_until};
use serde_json::json;

use crate::support::BINARY;
use crate::support::operator::Operator;

const TIMEOUT: Duration = Duration::from_secs(30);

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).expect("the directory is there");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn a_backup_brings_back_what_was_there() {
    let mut server =
        Server::builder(BINARY).config("[[room]]\nid = \"Hall\"\n[[room]]\nid = \"Yard\"\n").start().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let operator = Operator::of(&server).in_directory(directory.path());
    let mut line = server.line("Hall");
    let ids = line.join_many(3);
    line.advance(2);
    assert_eq!(line.claim(&ids[0]).status, 200);
    operator.done(&["room", "set", "Hall", "validity_period=777"]);

    let said = operator.done(&["backup", "saved"]);
    let bytes = fs::metadata(directory.path().join("saved")).unwrap().len();
    assert!(bytes > 0);
    assert_eq!(said, format!("saved: 2 rooms, {bytes} bytes\n"));
    assert_eq!(names(directory.path()), ["saved"]);

    // What happens afterwards is undone by the restore.
    operator.done(&["room", "delete", "Yard", "--yes"]);
    operator.done(&["room", "reset", "Hall", "--yes"]);
    operator.done(&["room", "set", "Hall", "validity_period=1"]);
    let said = operator.done(&["restore", "saved", "--yes"]);
    assert!(said.starts_with("restored as of 2") && said.ends_with("Z: 2 rooms, 1 session\n"), "{said}");
    let show = operator.json(&["room", "show", "Hall"]);
    assert_eq!((&show["settings"]["validity_period"], &show["figures"]["claimed"]), (&json!(777), &json!(1)));
    assert_eq!(server.line("Hall").position(&ids[2]), 3);
    operator.done(&["room", "show", "Yard"]);

    server.restart().unwrap();
    assert_eq!(server.line("Hall").position(&ids[2]), 3, "it was restored for good");
}

#[test]
fn standard_output_takes_a_backup_too() {
    let server = Server::builder(BINARY).start().unwrap();
    let output = Operator::of(&server).command(&["backup", "-"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(said, format!("backup: {} bytes\n", output.stdout.len()));
    assert!(!output.stdout.is_empty());
}

#[test]
fn a_file_that_is_there_is_kept_unless_forced() {
    let server = Server::builder(BINARY).start().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let operator = Operator::of(&server).in_directory(directory.path());
    fs::write(directory.path().join("saved"), "precious").unwrap();
    let said = operator.failed(5, &["backup", "saved"]);
    assert_eq!(said, "error: saved is there already\nhint: take another name, or replace it with --force\n");
    assert_eq!(fs::read(directory.path().join("saved")).unwrap(), b"precious");
    let report = operator.json(&["backup", "saved", "--force"]);
    let bytes = fs::metadata(directory.path().join("saved")).unwrap().len();
    assert_eq!(report, json!({ "file": "saved", "rooms": 1, "bytes": bytes }));
    operator.failed(2, &["backup", "nowhere/saved"]);
}

#[test]
fn what_is_no_backup_is_refused_and_changes_nothing() {
    let server = Server::builder(BINARY).start().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let operator = Operator::of(&server).in_directory(directory.path());
    let id = server.line("Sample").join();
    operator.done(&["backup", "whole"]);
    let whole = fs::read(directory.path().join("whole")).unwrap();
    let mut altered = whole.clone();
    let middle = altered.len() / 2;
    altered[middle] ^= 1;
    for (name, bytes) in [
        ("nonsense", b"nonsense".to_vec()),
        ("empty", vec![]),
        ("half", whole[..middle].to_vec()),
        ("altered", altered),
    ] {
        fs::write(directory.path().join(name), bytes).unwrap();
        let said = operator.failed(1, &["restore", name, "--yes"]);
        assert!(said.starts_with("error: the server refused (400): "), "{name}: {said}");
        assert_eq!(server.line("Sample").position(&id), 1, "{name}");
    }
}

/// A server of which only the beginning of a backup ever comes.
fn half_a_backup() -> (String, std::thread::JoinHandle<Vec<TcpStream>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let serving = std::thread::spawn(move || {
        let mut held = Vec::new();
        loop {
            let (mut stream, _) = listener.accept().expect("a connection");
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).expect("a request");
                request.extend(byte);
            }
            if request.starts_with(b"GET /rooms ") {
                let answer =
                    b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\nConnection: close\r\n\r\n{\"rooms\":[]}";
                stream.write_all(answer).expect("it is taken");
            } else {
                let answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n";
                stream.write_all(answer).expect("it is taken");
                held.push(stream);
                return held;
            }
        }
    });
    (url, serving)
}

#[test]
fn ctrl_c_in_the_middle_leaves_no_half_file() {
    let directory = tempfile::tempdir().unwrap();
    let (url, serving) = half_a_backup();
    let operator = Operator::at(&url).with_key("k").in_directory(directory.path());
    let mut child = operator.command(&["backup", "saved"]).spawn().unwrap();
    let held = serving.join().unwrap();
    let is_under_way = |name: &String| name.starts_with(".saved.") && name.ends_with(".partial");
    wait_until("the first bytes are written", TIMEOUT, || names(directory.path()).iter().any(is_under_way));
    let killed =
        Command::new("sh").args(["-c", "kill -s INT \"$0\"", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    let status = wait_for("the command has ended", TIMEOUT, || child.try_wait().unwrap());
    assert_eq!(status.code(), Some(130));
    assert_eq!(names(directory.path()), Vec::<String>::new());
    drop(held);
}

#[test]
fn a_connection_lost_in_the_middle_leaves_no_half_file() {
    let directory = tempfile::tempdir().unwrap();
    let (url, serving) = half_a_backup();
    let operator = Operator::at(&url).with_key("k").in_directory(directory.path());
    let child = operator.command(&["backup", "saved"]).spawn().unwrap();
    drop(serving.join().unwrap());
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.starts_with(&format!("error: {url} gave no complete answer: ")), "{said}");
    assert_eq!(names(directory.path()), Vec::<String>::new());
}
