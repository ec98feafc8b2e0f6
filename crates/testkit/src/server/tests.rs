//! Starting and ending, with a shell script in the place of the binary.

use std::os::unix::fs::PermissionsExt;

use super::*;

/// A stand-in for the binary: a shell script that says where it listens and does what the test needs.
fn stand_in(script: &str) -> (tempfile::TempDir, Builder) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("stand-in");
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let builder = Builder {
        binary: path,
        command: "serve".to_owned(),
        environment: BTreeMap::new(),
        config: None,
        arguments: Vec::new(),
        directory: None,
    };
    (directory, builder)
}

const LISTENS: &str =
    "echo public listening on http://127.0.0.1:1\necho private listening on https://127.0.0.1:2";

#[test]
fn the_addresses_are_read_from_complete_lines_only() {
    assert_eq!(listening("public listening on http://127.0.0.1:80", "public"), None);
    let stdout =
        "hello\nprivate listening on https://127.0.0.1:81\npublic listening on http://127.0.0.1:80\n";
    assert_eq!(listening(stdout, "public"), Some("127.0.0.1:80".parse().unwrap()));
    assert_eq!(listening(stdout, "private"), Some("127.0.0.1:81".parse().unwrap()));
}

#[test]
fn a_server_is_started_ended_and_started_again_in_its_directory() {
    let waits = "echo $1 $2 \"$X\" >&2; trap 'exit 3' TERM; touch here\nwhile :; do sleep 0.01; done";
    let (_kept, builder) = stand_in(&format!("{LISTENS}\n{waits}"));
    let mut server = builder.config("# empty").env("X", "first").start().unwrap();
    assert_eq!((server.public().port(), server.private().port()), (1, 2));
    wait_until("the stand-in is set up", END_DEADLINE, || server.directory().join("here").exists());
    let ended = server.terminate().unwrap();
    assert_eq!(ended.status.code(), Some(3));
    server.set_env("X", "second");
    server.restart().unwrap();
    wait_until("it has spoken twice", END_DEADLINE, || server.stderr().contains("second"));
    assert!(server.stderr().starts_with("serve --config first\n"), "{}", server.stderr());
    let ended = server.kill_nine().unwrap();
    assert_eq!(ended.status.code(), None);
}

#[test]
fn a_server_that_does_not_start_says_why() {
    let (_kept, builder) = stand_in("echo no luck >&2; exit 7");
    let error = builder.clone().start().unwrap_err().to_string();
    assert!(error.contains("no luck") && error.contains('7'), "{error}");
    let ended = builder.run_to_end().unwrap();
    assert_eq!((ended.status.code(), ended.stderr.as_str()), (Some(7), "no luck\n"));
}

#[test]
fn another_command_is_run_to_its_end() {
    let (_kept, builder) = stand_in("echo \"$@\"");
    let ended = builder.command("look").argument("--hard").run_to_end().unwrap();
    assert_eq!((ended.status.code(), ended.stdout.as_str()), (Some(0), "look --hard\n"));
}
