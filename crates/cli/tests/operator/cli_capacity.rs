//! `anteroom room capacity` and `anteroom room report` against a real server.

use anteroom_testkit::Server;
use serde_json::json;

use crate::support::BINARY;
use crate::support::operator::Operator;

const ROOMS: &str = "[[room]]\nid = \"Hall\"\ninlet = \"max-size\"\ntotal_active_users = 5\nround_seconds = 3600\nenter_by_seconds = 3600\n";

fn server() -> (Server, Operator) {
    let server = Server::builder(BINARY).memory().config(ROOMS).start().expect("a server");
    let operator = Operator::of(&server);
    (server, operator)
}

#[test]
fn reports_are_taken_listed_and_forgotten() {
    let (server, operator) = server();
    let said = operator.done(&["room", "report", "Hall", "--free", "3"]);
    assert_eq!(said, "room Hall: the report was taken; 3 free, 0 passes in flight, 0 offers\n");
    let web =
        ["room", "report", "Hall", "--reporter", "web/1", "--sequence", "7", "--free", "0", "--entered", "2"];
    let more = ["--latency-p95-ms", "80.5", "--error-rate", "0.25", "--in-flight", "4"];
    operator.done(&[&web[..], &more[..]].concat());
    let late = operator.done(&web);
    assert!(late.contains("late and is ignored"), "{late}");
    server.line("Hall").join_many(4);
    let text = operator.done(&["room", "capacity", "Hall"]);
    let (figures, reporters) =
        text.split_once("\nreporters (silent after 10800 seconds)\n").expect("both parts");
    let expected = "\
room              Hall
free_reported     3
passes_in_flight  0
offers            3
free              0
capacity          5
active            0
standstill        none-free
";
    assert_eq!(figures, expected);
    let rows: Vec<Vec<&str>> = reporters.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[1][0], "origin", "{reporters}");
    assert_eq!(
        (rows[2][0], &rows[2][2..]),
        ("web/1", &["false", "7", "0", "2", "81", "0.25", "4"][..]),
        "{reporters}"
    );
    let room = operator.done(&["room", "show", "Hall"]);
    assert!(room.contains("the frontier stands still: the site has no slot free\n"), "{room}");
    assert!(room.contains("2 reporters heard, 0 silent: 0 free, passes in flight: 0\n"), "{room}");

    let forgotten = operator.done(&["room", "capacity", "Hall", "--forget", "web/1"]);
    assert_eq!(forgotten, "room Hall: reporter web/1 forgotten\n");
    let again = operator.run(&["room", "capacity", "Hall", "--forget", "web/1"]);
    assert_eq!(again.code, Some(3), "{again:?}");
    assert!(again.stderr.contains("has no reporter web/1") && again.stderr.contains("hint:"), "{again:?}");
    let json = operator.json(&["room", "capacity", "Hall"]);
    assert_eq!(json["reporters"].as_array().map(Vec::len), Some(1));
}

#[test]
fn visits_are_ended_and_what_is_unknown_is_said() {
    let (server, operator) = server();
    let mut line = server.line("Hall");
    let ids = line.join_many(3);
    for id in &ids {
        assert_eq!(line.claim(id).status, 200);
    }
    let said = operator.done(&[
        "room",
        "report",
        "Hall",
        "--exited",
        "2",
        "--completed",
        &ids[0],
        "--abandoned",
        "nobody",
    ]);
    assert_eq!(said, "room Hall: 2 exits counted, 1 completed, 0 abandoned\nunknown: nobody\n");
    let again = operator.json(&["room", "report", "Hall", "--completed", &ids[0]]);
    assert_eq!(again["already_ended"], json!([ids[0]]));
    let room = operator.json(&["room", "show", "Hall"]);
    assert_eq!(room["figures"]["active"], 1, "two are over, the one that was named included");
}

#[test]
fn a_report_and_a_message_are_two_commands() {
    let (_server, operator) = server();
    for arguments in [
        &["room", "report", "Hall"][..],
        &["room", "report", "Hall", "--reporter", "web"],
        &["room", "report", "Hall", "--free", "1", "--exited", "1"],
        &["room", "report", "Hall", "--sequence", "1", "--completed", "x"],
        &["room", "report", "Hall", "--free", "-1"],
    ] {
        let ran = operator.run(arguments);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{arguments:?}: {ran:?}");
    }
    let refused = operator.run(&["room", "report", "Hall", "--error-rate", "1.5"]);
    assert!(refused.code != Some(0) && refused.stderr.contains("`error_rate`"), "{refused:?}");
    let nowhere = operator.run(&["room", "report", "Hal", "--free", "1"]);
    assert!(nowhere.code == Some(3) && nowhere.stderr.contains("Hall"), "{nowhere:?}");
}
