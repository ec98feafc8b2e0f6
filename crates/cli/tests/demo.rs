//! `anteroom demo`, taken at its word: the script that it prints is run as printed, and afterwards nothing is left.
//!
//! One test and not several, because a demo prefers two fixed ports: demos that start at the same moment would compete for
//! them, and which one gets them is of no interest.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anteroom_testkit::{Answer, Client, Request, Server, Wire, require, wait_for, wait_until};
use serde_json::Value;

const BINARY: &str = env!("CARGO_BIN_EXE_anteroom");
/// How long a demo may take to start: it makes an RSA key.
const PATIENCE: Duration = Duration::from_mins(1);
/// The last words of the demo, after which nothing more is printed.
const LAST_WORDS: &str = "Ctrl-C ends it and deletes its data.\n";
/// About a dozen lines: few enough to be read at a glance.
const LINES_MAX: usize = 18;

fn start(temporary_directory: &Path) -> Server {
    let directory = temporary_directory.display().to_string();
    let demo = Server::builder(BINARY).command("demo").env("TMPDIR", directory);
    demo.start_without_waiting().expect("the demo starts")
}

/// The indented lines, which are for a shell; the others are for the reader.
fn script(demo: &Server) -> String {
    let printed = wait_for("the demo has said everything", PATIENCE, || {
        Some(demo.stdout()).filter(|stdout| stdout.ends_with(LAST_WORDS))
    });
    let lines = printed.lines().count();
    assert!((10..=LINES_MAX).contains(&lines), "{lines} lines:\n{printed}");
    let commands: Vec<&str> = printed.lines().filter_map(|line| line.strip_prefix("  ")).collect();
    commands.join("\n")
}

fn has(program: &str) -> bool {
    let mut command = Command::new(program);
    let tried = command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    tried.status().is_ok_and(|status| status.success())
}

/// What the script prints, line by line.
fn run_in_bash(script: &str) -> Vec<Value> {
    // A proxy of the machine that runs the tests is not part of the demo.
    let mut bash = Command::new("bash");
    let ran = bash.args(["-euo", "pipefail", "-c", script]).env("NO_PROXY", "*").env("no_proxy", "*");
    let output = ran.stdin(Stdio::null()).output().expect("bash can be run");
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && stderr.is_empty(), "{script}\n{stdout}\n{stderr}");
    let read = |line: &str| serde_json::from_str(line).unwrap_or_else(|_| panic!("not JSON: {line}"));
    stdout.lines().map(read).collect()
}

/// Two visitors are in, the third one stands in line; a purchase lets him in.
fn assert_the_shop_takes_two(script: &str) {
    let address = script.split_once("P=http://").and_then(|(_, rest)| rest.split_once("/.anteroom "));
    let address: SocketAddr = address.expect("the shop's address").0.parse().expect("an address");
    let open = |cookie: &str| {
        let request = Request::new("GET", "/").header("accept", "text/html").header("cookie", cookie);
        Client::new(address).send(&request).expect("an answer")
    };
    let cookie = |answer: &Answer| {
        let header = answer.header("set-cookie").expect("a cookie");
        header.split_once(';').expect("with attributes").0.to_owned()
    };
    let (first, second) = (open(""), open(""));
    for inside in [&first, &second] {
        assert!(inside.text().contains("The Sample Theatre"), "{}", inside.text());
    }
    let third = open("");
    assert!(third.text().contains("You are joining the line"), "{}", third.text());
    let third = open(&cookie(&third));
    assert!(third.text().contains("People ahead of you"), "{}", third.text());
    let buy = Request::new("POST", "/checkout").header("cookie", &cookie(&first));
    let bought = Client::new(address).send(&buy).expect("an answer");
    assert!(bought.text().contains("Thank you"), "{}", bought.text());
    assert_eq!(bought.header("anteroom-session"), None, "what the shop says about visits is for the gateway");
    let waiting = cookie(&third);
    wait_until("the third visitor is let in", PATIENCE, || {
        open(&waiting).text().contains("The Sample Theatre")
    });
    assert!(
        !open(&cookie(&first)).text().contains("The Sample Theatre"),
        "whoever has bought stands in line again"
    );
}

/// Two Ctrl-C while a request is under way: the demo ends at once, and used to leave its directory behind.
fn interrupted_twice_leaves_nothing(mut demo: Server, first_line: &str) {
    let (_, public) = first_line.split_once("P=http://").expect("the script names the public listener");
    let public =
        public.split_once("/.anteroom ").expect("the API beside the shop, and then the private one").0;
    let mut under_way = Wire::connect(public.parse().expect("an address"), PATIENCE).expect("a connection");
    under_way.write(b"POST /.anteroom/assign_queue_num HTTP/1.1\r\nHost: demo\r\nContent-Length: 10\r\nExpect: 100-continue\r\n\r\n").expect("it is sent");
    under_way.read_answer().expect("the demo waits for the body");
    demo.signal("INT").expect("a signal");
    wait_until("it finishes what is under way", PATIENCE, || {
        demo.stderr().contains("once more to stop at once")
    });
    demo.signal("INT").expect("a signal");
    let ended = demo.wait_for_end().expect("it ends");
    assert_eq!(ended.status.code(), Some(130), "{}", ended.stderr);
}

#[test]
fn two_demos_side_by_side_do_what_their_scripts_say_and_leave_nothing_behind() {
    if !require("curl", has("curl")) || !require("bash", has("bash")) {
        return;
    }
    let temporary = tempfile::tempdir().unwrap();
    let mut demos = Vec::new();
    let mut first_lines = Vec::new();
    // The second one finds the preferred ports taken, at the latest by the first one.
    for _ in 0..2 {
        let demo = start(temporary.path());
        let script = script(&demo);
        first_lines.push(script.lines().next().unwrap_or_default().to_owned());
        let printed = run_in_bash(&script);
        assert_eq!(printed.len(), 7, "{printed:?}");
        // The comments of the script, in their order.
        assert_eq!(printed[0]["queue_number"], 1, "its number: 1");
        assert_eq!(printed[1]["serving_counter"], 0, "who is being served: nobody yet");
        assert_eq!(printed[2]["error"], "Request ID not being served yet", "too early");
        assert_eq!(printed[3]["serving_num"], 100, "let 100 in");
        let pass = &printed[4];
        for name in ["access_token", "refresh_token", "id_token"] {
            assert_eq!(pass[name].as_str().map(|token| token.split('.').count()), Some(3), "{name}: {pass}");
        }
        assert_eq!(printed[5]["kty"], "RSA", "the key that any JWT library checks them with");
        assert_eq!(printed[6]["active_tokens"], 1, "visitors inside");
        assert_the_shop_takes_two(&script);
        demos.push(demo);
    }
    assert_ne!(first_lines[0], first_lines[1], "each has addresses of its own");
    assert_eq!(fs::read_dir(temporary.path()).unwrap().count(), 2, "each has a directory of its own");
    interrupted_twice_leaves_nothing(demos.pop().unwrap(), &first_lines[1]);
    assert_eq!(fs::read_dir(temporary.path()).unwrap().count(), 1, "the other one is still there");
    for demo in &mut demos {
        let ended = demo.interrupt().unwrap();
        assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
        assert!(!ended.stderr.contains("ERROR") && !ended.stderr.contains("panicked"), "{}", ended.stderr);
    }
    let left: Vec<_> = fs::read_dir(temporary.path()).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}
