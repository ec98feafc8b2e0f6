//! What happens when the machine lets the server down: a full disk, a log that nobody reads, a key that is too short.

use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anteroom_testkit::{Line, Server, require, wait_for, wait_until};

use crate::support::BINARY;

const TIMEOUT: Duration = Duration::from_mins(1);

/// A script that does something and then becomes the server.
fn wrapped(directory: &std::path::Path, first: &str) -> PathBuf {
    let script = directory.join("server.sh");
    let mut options = std::fs::File::options();
    options.write(true).create(true).truncate(true).mode(0o700);
    let mut file = options.open(&script).expect("a script can be made");
    std::io::Write::write_all(&mut file, format!("#!/bin/sh\n{first}\nexec '{BINARY}' \"$@\"\n").as_bytes())
        .expect("a script can be written");
    script
}

fn prlimit(process_id: u32, limit: &str) -> bool {
    // The soft limit alone, so that it can be raised again.
    let arguments = [format!("--fsize={limit}:"), format!("--pid={process_id}")];
    Command::new("prlimit").args(arguments).status().is_ok_and(|status| status.success())
}

#[test]
fn a_full_disk_is_answered_with_503_and_not_ready_and_everything_comes_back_with_the_space() {
    let found = Command::new("prlimit").arg("--version").output().is_ok();
    if !require("prlimit", found) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    // A limit on the size of files stands for the full disk; without the trap its signal would end the process.
    let script = wrapped(directory.path(), "trap '' XFSZ");
    let server = Server::builder(&script).env("ANTEROOM_SIGNING_ALGORITHM", "EdDSA").start().unwrap();
    let mut line = server.line("Sample");
    let ids = line.join_many(1_000);
    line.advance(1_000);
    let kept = line.tokens(&ids[0]);
    let size = std::fs::metadata(server.data_directory().join("anteroom.redb")).unwrap().len();
    assert!(prlimit(server.process_id(), &size.to_string()));
    let mut private = server.operator();
    // Each claim asks the file for a little more, until there is no more.
    let mut unclaimed = ids[1..999].iter();
    let mut claim_another = |line: &mut Line| line.claim(unclaimed.next().expect("the line is long enough"));
    let refused = wait_for("a refused claim", TIMEOUT, || {
        let answer = claim_another(&mut line);
        (answer.status != 200).then_some(answer)
    });
    assert_eq!(refused.status, 503, "{refused:?}");
    assert_eq!(refused.header("retry-after"), Some("1"));
    refused.error();
    // Tried as often as it takes: one failure may be an accident, the second says that it is not.
    wait_until("not ready", TIMEOUT, || {
        claim_another(&mut line);
        private.get("/readyz").unwrap().status == 503
    });
    assert_eq!(private.get("/livez").unwrap().status, 200);
    assert_eq!(line.serving(), 1_000, "reads go on");
    for name in ["Anteroom-Public-5xx-Alarm", "Anteroom-claim-Errors-Alarm"] {
        wait_until(&format!("{name} fires"), TIMEOUT, || {
            let alarms = private.get("/alarms").unwrap().json()["alarms"].as_array().cloned();
            let fires = |alarm: &serde_json::Value| alarm["name"] == name && alarm["state"] == "firing";
            alarms.unwrap_or_default().iter().any(fires)
        });
    }
    assert!(prlimit(server.process_id(), "unlimited"));
    wait_until("ready again", TIMEOUT, || {
        claim_another(&mut line);
        private.get("/readyz").unwrap().status == 200
    });
    assert_eq!(line.tokens(&ids[0]), kept, "what was given stays given");
    assert_eq!(line.claim(&ids[999]).status, 200);
    let next = line.join();
    assert_eq!(line.position(&next), 1_001, "no position was lost or given twice");
}

#[test]
fn a_log_that_nobody_reads_stops_nothing() {
    let directory = tempfile::tempdir().unwrap();
    // Every line written to this device fails.
    let script = wrapped(directory.path(), "exec 2>/dev/full");
    let mut server = Server::builder(&script).env("ANTEROOM_LOG", "trace").start().unwrap();
    let mut line = server.line("Sample");
    let ids = line.join_many(3);
    line.advance(2);
    assert_eq!(line.claim(&ids[0]).status, 200);
    assert_eq!(server.operator().get("/livez").unwrap().status, 200);
    let ended = server.terminate().unwrap();
    assert!(ended.status.success(), "{ended:?}");
}

#[test]
fn a_short_admin_key_is_refused_and_not_repeated() {
    let key = "short-and-secret".split_at(15).0;
    let ended = Server::builder(BINARY).memory().env("ANTEROOM_ADMIN_KEY", key).run_to_end().unwrap();
    assert_eq!(ended.status.code(), Some(1));
    assert!(ended.stderr.contains("ANTEROOM_ADMIN_KEY is shorter than 16 characters"), "{}", ended.stderr);
    assert!(ended.stderr.contains("hint:"), "{}", ended.stderr);
    assert!(!ended.stderr.contains(key), "{}", ended.stderr);
}
