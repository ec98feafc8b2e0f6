//! "The five-step scenario with 10,000 clients arriving at 500/s and let out at 1,000/min scaled in time, on the embedded
//! store, all checks green": `anteroom load` as a process against the real server, and what it does when things go wrong.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::thread;
use std::time::Duration;

use anteroom_testkit::{Reply, Server, Site, full, now, wait_until};
use serde_json::Value;

use crate::support::metrics::metric;
use crate::support::{BINARY, binary};

/// How long a run may take to get going on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(30);

/// `anteroom load` with these options; ends by its own `--deadline`.
fn load(options: &[&str], key: Option<&str>) -> Output {
    // The same binary that the server is started from.
    let mut command = Command::new(binary());
    command.arg("load").args(options);
    for name in ["ANTEROOM_ADMIN_KEY", "ANTEROOM_URL", "ANTEROOM_PUBLIC_URL"] {
        command.env_remove(name);
    }
    if let Some(key) = key {
        command.env("ANTEROOM_ADMIN_KEY", key);
    }
    command.output().expect("the binary runs")
}

/// The same against this server, with its report as JSON. Options are separated by spaces.
fn load_on(server: &Server, options: &str) -> (Output, Value) {
    let report = server.directory().join("report.json");
    let (public, private) = (format!("http://{}", server.public()), format!("http://{}", server.private()));
    let report_path = report.to_str().expect("a path of ours");
    let mut all =
        vec!["--public", &public, "--private", &private, "--json", report_path, "--seed", "20261116"];
    all.extend(options.split_whitespace());
    let output = load(&all, Some(server.admin_key()));
    let report = serde_json::from_slice(&fs::read(report).expect("a report was written")).unwrap_or_default();
    (output, report)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The verdict on each check, and whether it had anything to look at.
fn verdicts(report: &Value) -> Vec<(String, String, bool)> {
    let checks = report["checks"].as_array().expect("checks");
    let verdict = |check: &Value| {
        let text = |name: &str| check[name].as_str().expect(name).to_owned();
        (text("name"), text("verdict"), check["judged"].as_u64() > Some(0))
    };
    checks.iter().map(verdict).collect()
}

#[track_caller]
fn assert_all_green(output: &Output, report: &Value) {
    let message = format!("{}{}", text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{message}");
    assert_eq!(report["verdict"], "green", "{message}");
    let verdicts = verdicts(report);
    assert_eq!(verdicts.len(), 8);
    assert!(verdicts.iter().all(|(_, verdict, judged)| verdict == "green" && *judged), "{verdicts:?}");
}

fn count_of(report: &Value, step: &str) -> u64 {
    let steps = report["steps"].as_array().expect("steps");
    let found = steps.iter().find(|one| one["step"] == step);
    found.and_then(|one| one["count"].as_u64()).unwrap_or_default()
}

#[test]
fn the_five_steps_with_10_000_clients_at_500_a_second_let_out_at_1_000_a_minute_in_scaled_time_all_green() {
    let server = Server::builder(BINARY).start().expect("the server starts");
    let page = server.directory().join("report.html");
    let (clients, poll) = if full() { (10_000, 30) } else { (600, 5) };
    // Ten times as fast: 5,000 arrive a second and 10,000 are let out a minute, so that the full size takes a minute.
    let options = format!(
        "--scenario aws --clients {clients} --arrivals 500/s --let-out 1000/min --time-scale 10 --poll {poll} \
         --deadline 300 --html {}",
        page.display()
    );
    let (output, report) = load_on(&server, &options);
    assert_all_green(&output, &report);

    assert_eq!(report["visitors"]["admitted"], clients);
    assert_eq!(report["ended_by"], "everybody finished");
    assert_eq!(count_of(&report, "assign_queue_num"), clients);
    assert_eq!(count_of(&report, "generate_token") + early_passes(&report), clients);
    assert!(count_of(&report, "queue_num") >= clients && count_of(&report, "serving_num") > 0, "{report:#}");
    assert!(count_of(&report, "waiting_num") > 0, "somebody asks how many wait");
    let arrivals =
        report["seconds"].as_array().expect("a series").last().expect("a second")["arrived"].clone();
    assert_eq!(arrivals, clients);
    // Place follows arrival but for those who were under way together.
    let tau = report["order"]["position_vs_arrival"].as_f64().expect("a tau");
    assert!(tau > 0.5, "{tau}");

    // Let out exactly: the frontier stands at the last visitor, everybody holds a pass, nobody waits.
    let mut line = server.line("Sample");
    let clients = i64::try_from(clients).expect("a small number");
    assert_eq!((line.serving(), line.active(), line.waiting()), (clients, clients, 0));

    let message = text(&output.stdout);
    assert!(message.contains("p99.9 ms") && message.ends_with("verdict: green\n"), "{message}");
    assert_page(&page);
}

/// Visitors who tried before they knew that they were served, and rightly succeeded.
fn early_passes(report: &Value) -> u64 {
    let refused = report["visitors"]["early_claims_refused"].as_u64().expect("a count");
    count_of(report, "generate_token, too early") - refused
}

#[track_caller]
fn assert_page(path: &Path) {
    let page = fs::read_to_string(path).expect("a page was written");
    assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>\n"));
    assert!(
        page.contains("all checks green") && page.matches("<svg").count() == 5 && !page.contains("<script")
    );
}

/// Everybody through a room made for it, over our own API.
#[track_caller]
fn everybody_through(scenario: &str, steps: &[&str]) {
    let server = Server::builder(BINARY).start().expect("the server starts");
    let options = format!(
        "--scenario {scenario} --room Rehearsal --create-room --clients 300 --arrivals 1000/s --let-out 100/s \
         --poll 0.2 --again-share 0.2 --early-share 0.3 --deadline 120"
    );
    let (output, report) = load_on(&server, &options);
    assert_all_green(&output, &report);
    assert_eq!(report["visitors"]["admitted"], 300);
    assert!(report["visitors"]["early_claims_refused"].as_u64() > Some(0), "{}", report["visitors"]);
    for step in steps {
        assert!(count_of(&report, step) >= 1, "nobody asked for {step}: {}", report["steps"]);
    }
    let mut line = server.line("Rehearsal");
    assert_eq!((line.serving(), line.active(), line.waiting()), (300, 300, 0));
}

#[test]
fn the_native_api_from_join_to_claim_is_green() {
    everybody_through("native", &["join", "status", "claim", "claim, again", "claim, too early"]);
}

#[test]
fn followers_of_the_live_stream_are_green() {
    everybody_through("watch", &["join", "watch", "claim", "claim, again", "claim, too early"]);
}

#[test]
fn an_auction_is_green_round_after_round() {
    let server = Server::builder(BINARY).start().expect("the server starts");
    // Slow enough that slots become free in every round, which is when a round can be judged.
    let options = "--scenario auction --room Hall --create-room --slots 40 --clients 160 --arrivals 200/s --let-out 12/s \
                   --absent-share 0.2 --again-share 0.3 --poll 0.5 --deadline 240";
    let (output, report) = load_on(&server, options);
    let message = format!("{}{}", text(&output.stdout), text(&output.stderr));
    assert_eq!((output.status.code(), &report["verdict"]), (Some(0), &Value::from("green")), "{message}");
    assert_eq!(report["visitors"]["admitted"], 160, "{message}");
    let verdicts = verdicts(&report);
    for name in ["earliest present win", "no overshoot", "repeated claims identical", "no duplicate position"]
    {
        let judged =
            verdicts.iter().any(|(check, verdict, judged)| check == name && verdict == "green" && *judged);
        assert!(judged, "{name}: {verdicts:?}");
    }
    assert_eq!(count_of(&report, "auction"), 160);
    assert!(
        count_of(&report, "auction, check-in") > 0 && count_of(&report, "update_session") > 0,
        "{message}"
    );
    assert_eq!(server.line("Hall").waiting(), 0);
}

#[test]
fn visitors_who_leave_over_the_native_api_say_so() {
    let server = Server::builder(BINARY).start().expect("the server starts");
    let options = "--scenario native --clients 100 --arrivals 1000/s --let-out 50/s --leave-share 0.5 \
                   --time-scale 20 --deadline 120";
    let (output, report) = load_on(&server, options);
    assert_eq!((output.status.code(), &report["verdict"]), (Some(0), &Value::from("green")), "{report:#}");
    let [admitted, left] = ["admitted", "left"].map(|name| report["visitors"][name].as_u64().expect(name));
    assert!(left + admitted == 100 && count_of(&report, "leave") == left, "{admitted} {left}");
}

#[test]
fn a_room_that_moves_its_own_line_is_judged_by_what_visitors_were_told() {
    // Forty inside at a time, each for a second: the line moves as passes run out.
    let config =
        "[[room]]\nid = \"Hall\"\ninlet = \"max-size\"\ntotal_active_users = 40\nvalidity_period = 1\n";
    let server = Server::builder(BINARY).config(config).start().expect("the server starts");
    let (output, report) = load_on(
        &server,
        "--room Hall --clients 160 --arrivals 400/s --poll 0.2 --again-share 0.5 --early-share 0.5 --deadline 120",
    );
    assert_all_green(&output, &report);
    assert_eq!(report["visitors"]["admitted"], 160);
    assert!(report["visitors"]["early_claims_refused"].as_u64() > Some(0), "{}", report["visitors"]);
    assert!(report["plan"]["let_out"].is_null() && report["served_until_seen"].is_null());
}

#[test]
fn visitors_who_give_up_waiting_are_counted_and_are_no_fault() {
    let server = Server::builder(BINARY).start().expect("the server starts");
    let options =
        "--clients 200 --arrivals 1000/s --let-out 50/s --poll 0.1 --leave-share 0.5 --deadline 120";
    let (output, report) = load_on(&server, options);
    assert_eq!((output.status.code(), &report["verdict"]), (Some(0), &Value::from("green")), "{report:#}");
    let [admitted, left] = ["admitted", "left"].map(|name| report["visitors"][name].as_u64().expect(name));
    assert!(left > 0 && admitted > 0 && left + admitted == 200, "{admitted} {left}");
}

/// One join in three seconds from this machine: of three visitors one is refused once and one twice.
#[test]
fn refused_visitors_come_back_when_they_were_told_to() {
    const REFUSALS_MAX: u64 = 5;
    let config = "limits_exempt = \"none\"\n[[limit]]\nname = \"join\"\nby = \"ip\"\nclass = \"join\"\nrequests = 1\n\
        per_seconds = 3\n[[room]]\nid = \"Sample\"\n";
    let server = Server::builder(BINARY).config(config).start().expect("the server starts");
    let started = now();
    let (output, report) =
        load_on(&server, "--clients 3 --arrivals 1000/s --let-out 100/s --poll 0.2 --deadline 60");
    assert_eq!((output.status.code(), &report["verdict"]), (Some(0), &Value::from("green")), "{report:#}");
    assert!(started.elapsed() >= Duration::from_secs(6), "{:?}", started.elapsed());
    // By pauses that only grow, without a look at Retry-After, it would be about ten; without pauses, thousands.
    let refusals = metric(&server, "anteroom_limiter_decisions_total{policy=\"join\",decision=\"dropped\"}");
    assert!((3..=REFUSALS_MAX).contains(&refusals), "{refusals} refusals");
}

/// Pauses of a quarter of a second, then twice as long each time, each shortened by at most a half: within five seconds these are five or
/// six questions. Pauses that do not grow would make twenty or more.
#[test]
fn refused_visitors_who_are_not_told_when_to_come_back_ask_ever_more_seldom() {
    let joins_answered_with = |status: u16| {
        let site = Site::open();
        site.answer("/serving_num", Reply::new(200).body(r#"{"serving_counter": 0}"#));
        site.answer("/assign_queue_num", Reply::new(status));
        let url = site.url();
        let run = load(
            &["--public", &url, "--clients", "1", "--arrivals", "1000/s", "--poll", "60", "--deadline", "5"],
            None,
        );
        assert_eq!(run.status.code(), Some(1), "{}", text(&run.stderr));
        site.request_log().iter().filter(|request| request.path() == "/assign_queue_num").count()
    };
    thread::scope(|scope| {
        for status in [429, 500, 503] {
            scope.spawn(move || {
                let joins = joins_answered_with(status);
                assert!((5..=6).contains(&joins), "{joins} joins, each answered with {status}");
            });
        }
    });
}

#[test]
fn a_line_that_does_not_move_is_red_at_the_deadline() {
    let server = Server::builder(BINARY).start().expect("the server starts");
    let (output, report) =
        load_on(&server, "--clients 20 --arrivals 100/s --poll 0.5 --deadline 2 --quiet --format json");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!((&report["verdict"], &report["ended_by"]), (&"red".into(), &"the deadline".into()));
    assert_eq!(report["visitors"]["unfinished"], 20);
    let red: Vec<String> =
        verdicts(&report).into_iter().filter(|check| check.1 == "red").map(|check| check.0).collect();
    assert_eq!(red, ["everybody ended"]);
    assert!(
        text(&output.stderr).starts_with("error: the run is red: everybody ended (20 offend)"),
        "{:?}",
        output.stderr
    );
    // The summary on stdout is the report without its series.
    let summary: Value = serde_json::from_slice(&output.stdout).expect("JSON on stdout");
    assert!(summary["seconds"].is_null() && summary["checks"] == report["checks"]);
}

#[test]
fn an_interrupted_run_still_reports() {
    let server = Server::builder(BINARY).start().expect("the server starts");
    let public = format!("http://{}", server.public());
    let mut run = Server::builder(BINARY).command("load").argument("--public").argument(public);
    for argument in "--clients 20 --arrivals 100/s --poll 0.2 --deadline 300".split(' ') {
        run = run.argument(argument);
    }
    let mut run = run.start_without_waiting().expect("the load starts");
    let mut line = server.line("Sample");
    wait_until("everybody waits", TIMEOUT, || line.waiting() == 20);
    run.signal("INT").expect("the signal is sent");
    let ended = run.wait_for_end().expect("the load ends");
    assert_eq!(ended.status.code(), Some(130), "{}", ended.stderr);
    assert!(
        ended.stdout.contains("ended by an interruption") && ended.stdout.contains("verdict: red"),
        "{}",
        ended.stdout
    );
}

#[test]
fn a_server_that_dies_is_red_and_no_riddle() {
    let mut server = Server::builder(BINARY).start().expect("the server starts");
    let public = format!("http://{}", server.public());
    let mut run = Server::builder(BINARY).command("load").argument("--public").argument(public);
    for argument in "--clients 10 --arrivals 100/s --poll 0.1 --deadline 5".split(' ') {
        run = run.argument(argument);
    }
    let mut run = run.start_without_waiting().expect("the load starts");
    let mut line = server.line("Sample");
    wait_until("everybody waits", TIMEOUT, || line.waiting() == 10);
    server.kill_nine().expect("the server is killed");
    let ended = run.wait_for_end().expect("the load ends");
    assert_eq!(ended.status.code(), Some(1), "{}", ended.stderr);
    assert!(ended.stdout.contains("first request without an answer: "), "{}", ended.stdout);
    assert!(!ended.stderr.contains("panicked"), "{}", ended.stderr);
}

/// Exit code and standard error of a run that does not begin.
fn refused(options: &str) -> (Option<i32>, String) {
    let output = load(&options.split_whitespace().collect::<Vec<_>>(), None);
    assert!(output.stdout.is_empty(), "{}", text(&output.stdout));
    (output.status.code(), text(&output.stderr))
}

#[test]
fn a_target_that_is_not_this_machine_is_refused() {
    // Addresses for documentation: nobody is there, and nobody is asked.
    for options in ["--public http://192.0.2.1:8080", "--private http://192.0.2.1 --let-out 1/s"] {
        let (code, message) = refused(options);
        assert_eq!(code, Some(2), "{message}");
        assert!(
            message.contains("error: http://192.0.2.1")
                && message.contains("hint: ")
                && message.contains("--target-is-mine"),
            "{message}"
        );
    }
}

#[test]
fn options_that_cannot_be_meant_are_refused_with_a_word_on_what_can() {
    for (options, word) in [
        ("--arrivals 500", "500/s"),
        ("--arrivals fast", "unit"),
        ("--let-out 0/min", "above zero"),
        ("--clients 0", "1.."),
        ("--time-scale 0", "0.01"),
        ("--leave-share 2", "from 0 to 1"),
        ("--scenario raffle", "native"),
        ("--let-out 10/s", "ANTEROOM_ADMIN_KEY"),
        ("--public ftp://127.0.0.1", "http://127.0.0.1:8081"),
        ("--public http://me:secret@127.0.0.1", "password"),
        ("--scenario watch --clients 4000000", "ulimit"),
        ("--html /no/such/directory/page.html", "directory"),
        ("--ca-file /no/such/file.pem", "PEM"),
        ("--unknown", "--help"),
    ] {
        let (code, message) = refused(options);
        assert_eq!(code, Some(2), "{options}: {message}");
        assert!(message.contains(word) && !message.contains("secret"), "{options}: {message}");
    }
}

#[test]
fn a_wrong_room_key_or_address_is_said_before_anybody_is_sent() {
    let server = Server::builder(BINARY).start().expect("the server starts");
    let (output, _) = load_on(&server, "--room Nowhere");
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{message}");
    assert!(message.contains("there is no room `Nowhere`") && message.contains("hint: "), "{message}");

    let key_file = server.directory().join("key");
    fs::write(&key_file, "not-the-key-of-this-server").expect("a key file");
    let (output, _) = load_on(&server, &format!("--let-out 10/s --key-file {}", key_file.display()));
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{message}");
    assert!(
        message.contains("401") && message.contains("hint: ") && !message.contains("not-the-key"),
        "{message}"
    );
    assert_eq!(server.line("Sample").waiting(), 0);

    let address = server.public();
    drop(server);
    let (code, message) = refused(&format!("--public http://{address}"));
    assert_eq!(code, Some(1), "{message}");
    assert!(
        message.contains(&format!("cannot connect to http://{address}: connection refused")),
        "{message}"
    );
    assert!(message.contains("hint: is the server running"), "{message}");
}
