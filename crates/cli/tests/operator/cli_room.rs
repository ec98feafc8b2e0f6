//! `anteroom room …`, `ticket …` and `session …` against a real server: what they print, and what they change.

use anteroom_testkit::{Server, require};
use serde_json::{Value, json};

use crate::support::operator::{Operator, finish, finish_with_input};
use crate::support::{BINARY, binary};

const ROOMS: &str =
    "[[room]]\nid = \"Hall\"\ninlet = \"max-size\"\ntotal_active_users = 2\n[[room]]\nid = \"Yard\"\n";

fn server() -> (Server, Operator) {
    let server = Server::builder(BINARY).memory().config(ROOMS).start().expect("a server");
    let operator = Operator::of(&server);
    (server, operator)
}

/// The private API's own answer.
fn read_private(server: &Server, path: &str) -> Value {
    let answer = server.operator().get(path).expect("an answer");
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()
}

#[test]
fn the_list_has_one_line_for_each_room() {
    let (server, operator) = server();
    server.line("Hall").join_many(12);
    let expected = "\
ROOM  STATE  INLET     SERVING  JOINED  WAITING  OFFERS  ACTIVE
Hall  open   max-size        2      12       12       2       0
Yard  open   manual          0       0        0       0       0
";
    assert_eq!(operator.done(&["room", "list"]), expected);
}

#[test]
fn a_room_is_shown_with_its_settings_marked_where_they_differ_and_its_figures_aligned() {
    let (server, operator) = server();
    let mut line = server.line("Hall");
    let ids = line.join_many(5);
    assert_eq!(line.claim(&ids[0]).status, 200);
    let etag = operator.done(&["room", "show", "Hall", "--etag"]);
    let room = read_private(&server, "/rooms/Hall");
    let generation = room["generations"][0]["generation"].to_string();
    // Whether the first offer was made together with the second is a matter of milliseconds.
    let floor = room["generations"][0]["floor"].to_string();
    let width = generation.len().max("GENERATION".len());
    let expected = format!(
        "\
room        Hall
state       open
etag        {}
version     {}
updated_at  {}

the frontier stands still: the room is at its capacity
last moved by max-size at {}: 1 -> 2
moves so far: max-size 2
capacity 2

figures
  serving             2
  joined              5
  waiting             4
  offers              1
  active              1
  live_sessions       1
  claimed             1
  completed           0
  abandoned           0
  expired             0
  lapsed              0
  left                0
  offers_by_hand      0
  inlet_rests     false

{:>width$}  BASE  JOINED  SERVING  FLOOR
{generation:>width$}     0       5        2  {floor:>5}
",
        etag.trim(),
        room["version"],
        room["updated_at"].as_str().unwrap(),
        room["last_move"]["at"].as_str().unwrap(),
        "GENERATION",
    );
    let text = operator.done(&["room", "show", "Hall"]);
    // Who joined has its own test.
    let (text, _) = text.split_once("\njoins refused on this node\n").expect("arrivals at the end");
    let (head, rest) = text.split_once("settings (* differs from the default)\n").expect("settings");
    let (settings, rest) = rest.split_once("\n\n").expect("figures after the settings");
    assert_eq!(format!("{head}{rest}"), expected);
    // Whatever settings there are, each has its line, and exactly two differ.
    let lines: Vec<&str> = settings.lines().collect();
    assert_eq!(lines.len(), room["settings"].as_object().unwrap().len(), "{settings}");
    let first = [
        "* inlet                              max-size",
        "* total_active_users                 2",
        "  new_users_per_minute               (not set)",
        "  increment_by                       10",
        "  interval_seconds                   60",
    ];
    assert_eq!(lines[..5], first);
    assert_eq!(lines.iter().filter(|line| line.starts_with('*')).count(), 2, "{settings}");
}

#[test]
fn json_is_the_servers_answer_as_it_came() {
    let (server, operator) = server();
    for (arguments, path) in [(&["room", "list"][..], "/rooms"), (&["room", "show", "Yard"], "/rooms/Yard")] {
        let answer = server.operator().get(path).unwrap();
        let printed = operator.done(&[arguments, &["--format", "json"]].concat());
        assert_eq!(printed, answer.text() + "\n");
    }
    let after = operator.json(&["room", "set", "Yard", "validity_period=60"]);
    assert_eq!(after, read_private(&server, "/rooms/Yard"));
    assert_eq!(operator.json(&["room", "advance", "Yard", "3"]), json!({ "serving_num": 3 }));
    assert_eq!(operator.json(&["room", "delete", "Yard", "--yes"]), json!({ "deleted": "Yard" }));
}

#[test]
fn a_room_is_made_changed_and_deleted_and_each_change_says_what_was_before() {
    let (server, operator) = server();
    let said =
        operator.done(&["room", "create", "Attic", "--set", "validity_period=600", "--state", "paused"]);
    assert_eq!(said, "room Attic created\n");
    assert_eq!(read_private(&server, "/rooms/Attic")["settings"]["validity_period"], 600);

    let said = operator.done(&[
        "room",
        "set",
        "Attic",
        "total_active_users=500",
        "inlet=max-size",
        "issuer=https://wait.example.com/?a=1",
        "--state",
        "open",
    ]);
    let expected = "\
room Attic: state: paused -> open
room Attic: inlet: manual -> max-size
room Attic: total_active_users: (not set) -> 500
room Attic: issuer: (not set) -> https://wait.example.com/?a=1
";
    assert_eq!(said, expected);
    let said = operator.done(&["room", "set", "Attic", "issuer=null", "validity_period=null"]);
    let expected = "\
room Attic: validity_period: 600 -> 3600
room Attic: issuer: https://wait.example.com/?a=1 -> (not set)
";
    assert_eq!(said, expected);

    let again = operator.run(&["room", "set", "Attic", "validity_period=3600"]);
    assert_eq!((again.code, again.stdout.as_str()), (Some(0), ""));
    assert_eq!(again.stderr, "room Attic: nothing changed, it is so already\n");

    assert_eq!(operator.done(&["room", "delete", "Attic", "--yes"]), "room Attic deleted\n");
    operator.failed(3, &["room", "show", "Attic"]);
}

#[test]
fn what_the_server_refuses_is_said_and_changes_nothing() {
    let (server, operator) = server();
    let before = read_private(&server, "/rooms/Hall")["settings"].clone();
    for (assignment, told) in [
        ("validity_periode=5", "did you mean `validity_period`?"),
        (
            "validity_period=0",
            "`validity_period` must be a whole number of seconds from 1 to 31536000, not 0",
        ),
        ("total_active_users=null", "needs `total_active_users`"),
        ("issuer=12", "`issuer` must be"),
        ("issuer={}", "`issuer` must be"),
    ] {
        let said = operator.failed(1, &["room", "set", "Hall", assignment]);
        assert!(
            said.starts_with("error: the server refused (400): ") && said.contains(told),
            "{assignment}: {said}"
        );
    }
    assert_eq!(read_private(&server, "/rooms/Hall")["settings"], before);
}

#[test]
fn code_3_names_the_room_that_may_have_been_meant() {
    let (_server, operator) = server();
    let one = "error: there is no room hall\nhint: did you mean `Hall`?\n";
    let none = "error: there is no room Kitchen\nhint: there is: Hall, Yard\n";
    for arguments in [
        &["room", "show"][..],
        &["room", "pause"],
        &["room", "advance", "--by", "5"],
        &["room", "reset", "--yes"],
        &["room", "delete", "--yes"],
    ] {
        assert_eq!(operator.failed(3, &[arguments, &["hall"]].concat()), one, "{arguments:?}");
        assert_eq!(operator.failed(3, &[arguments, &["Kitchen"]].concat()), none, "{arguments:?}");
    }
    assert_eq!(operator.failed(3, &["room", "set", "hall", "issuer=null"]), one);
}

#[test]
fn code_5_is_somebody_elses_change_and_a_room_that_is_there() {
    let (_server, operator) = server();
    let etag = operator.done(&["room", "show", "Yard", "--etag"]);
    let etag = etag.trim();
    operator.done(&["room", "set", "Yard", "validity_period=60", "--if-match", etag]);
    for arguments in [
        &["room", "set", "Yard", "validity_period=70", "--if-match", etag][..],
        &["room", "delete", "Yard", "--yes", "--if-match", etag],
    ] {
        let said = operator.failed(5, arguments);
        assert!(
            said.ends_with("hint: somebody changed it meanwhile; look again with `anteroom room show`\n"),
            "{said}"
        );
    }
    let fresh = operator.done(&["room", "show", "Yard", "--etag"]);
    operator.done(&["room", "delete", "Yard", "--yes", "--if-match", &format!("\"{}\"", fresh.trim())]);

    let said = operator.failed(5, &["room", "create", "Hall"]);
    let expected =
        "error: there is a room Hall already\nhint: change it with `anteroom room set Hall NAME=VALUE`\n";
    assert_eq!(said, expected);
}

#[test]
fn visitors_do_not_change_the_entity_tag() {
    let (server, operator) = server();
    let before = operator.done(&["room", "show", "Hall", "--etag"]);
    server.line("Hall").join_many(3);
    assert_eq!(operator.done(&["room", "show", "Hall", "--etag"]), before);
}

#[test]
fn the_line_moves_either_way_however_the_number_is_written() {
    let (_server, operator) = server();
    for (arguments, serving) in [
        (&["10"][..], 10),
        (&["+5"], 15),
        (&["-3"], 12),
        (&["--", "-2"], 10),
        (&["--by=-4"], 6),
        (&["--by", "4"], 10),
        (&["-100"], 0),
    ] {
        let said = operator.done(&[&["room", "advance", "Yard"], arguments].concat());
        assert_eq!(said, format!("room Yard: serving is now {serving}\n"), "{arguments:?}");
    }
}

#[test]
fn states_are_set_by_their_verbs_and_resume_wakes_a_resting_inlet() {
    let (server, operator) = server();
    for (verb, before, after) in [
        ("pause", "open", "paused"),
        ("drain", "paused", "draining"),
        ("close", "draining", "closed"),
        ("resume", "closed", "open"),
    ] {
        let said = operator.done(&["room", verb, "Hall"]);
        assert_eq!(said, format!("room Hall: state: {before} -> {after}\n"));
    }
    server.line("Hall").join_many(5);
    operator.done(&["room", "advance", "Hall", "-1"]);
    assert_eq!(read_private(&server, "/rooms/Hall")["figures"]["inlet_rests"], true);
    assert_eq!(operator.done(&["room", "resume", "Hall"]), "room Hall: the inlet goes on\n");
    assert_eq!(read_private(&server, "/rooms/Hall")["figures"]["serving"], 2);
}

#[test]
fn a_reset_begins_a_new_line() {
    let (server, operator) = server();
    let mut line = server.line("Hall");
    let id = line.join();
    operator.failed(2, &["room", "reset", "Hall"]);
    assert_eq!(line.position(&id), 1);
    assert_eq!(operator.done(&["room", "reset", "Hall", "--yes"]), "room Hall: a new line has begun\n");
    assert_eq!(line.place(&id).status, 400);
}

#[test]
fn on_a_terminal_it_asks_once_and_only_yes_means_yes() {
    if !require("script", std::path::Path::new("/usr/bin/script").exists()) {
        return;
    }
    let (server, operator) = server();
    let mut line = server.line("Yard");
    let id = line.join();
    // `script` is a terminal for its child, and types what it reads itself.
    let answered = |answer: &str| {
        let mut command = std::process::Command::new("/usr/bin/script");
        operator.surround(&mut command);
        command.args(["-q", "-e", "-c", &format!("{} room reset Yard", binary().display()), "/dev/null"]);
        finish_with_input(&mut command, answer)
    };
    for no in ["n\n", "\n", "maybe\n"] {
        let ran = answered(no);
        assert_eq!(ran.code, Some(1), "{ran:?}");
        assert!(
            ran.stdout
                .contains("everybody in the room Yard loses their place and their session. Go on? [y/N] "),
            "{ran:?}"
        );
        assert!(ran.stdout.contains("error: not confirmed; nothing was changed"), "{ran:?}");
        assert_eq!(line.position(&id), 1);
    }
    let ran = answered("y\n");
    assert!(ran.code == Some(0) && ran.stdout.contains("a new line has begun"), "{ran:?}");
    assert_eq!(line.place(&id).status, 400);
}

#[test]
fn the_public_listener_is_told_from_the_private_one() {
    let (server, _) = server();
    let url = format!("http://{}", server.public());
    let operator = Operator::at(&url).with_key(server.admin_key());
    for arguments in [
        &["room", "list"][..],
        &["room", "show", "Hall"],
        &["room", "advance", "Hall", "1"],
        &["key", "list"],
    ] {
        let said = operator.failed(1, arguments);
        let expected = format!("error: {url} is not the private listener of an Anteroom server: ");
        assert!(said.starts_with(&expected), "{arguments:?}: {said}");
        assert!(said.ends_with("private listener, by default http://127.0.0.1:8081\n"), "{said}");
    }
}

#[test]
fn a_ticket_is_opened_in_its_room_and_its_session_closed_once() {
    let (server, operator) = server();
    let mut line = server.line("Hall");
    let ids = line.join_many(4);
    assert_eq!(line.claim(&ids[0]).status, 200);

    let waiting = read_private(&server, &format!("/rooms/Hall/tickets/{}", ids[3]));
    let expected = format!(
        "\
request_id    {}
room          Hall
generation    {}
position      4
lane          0
copy          0
entered_at    {}
status        waiting
people_ahead  {}
session       -
",
        ids[3],
        waiting["generation"],
        waiting["entered_at"].as_str().unwrap(),
        waiting["people_ahead"],
    );
    assert_eq!(operator.done(&["ticket", "open", &ids[3], "--room", "Hall"]), expected);
    // Without a room, every room is asked.
    assert_eq!(operator.done(&["ticket", "open", &ids[3]]), expected);
    assert_eq!(operator.json(&["ticket", "open", &ids[3]]), waiting);

    let said = operator.done(&["ticket", "open", &ids[0]]);
    assert!(
        said.contains("\nsession status      active\n") && said.contains("\nstatus              admitted\n"),
        "{said}"
    );
    let close = ["session", "close", &ids[0], "--room", "Hall", "--status", "completed"];
    assert_eq!(operator.done(&close), format!("session {}: completed\n", ids[0]));
    let said = operator.done(&["ticket", "open", &ids[0]]);
    assert!(said.contains("\nsession status      completed\n"), "{said}");
    let said = operator.failed(3, &close);
    assert!(
        said.starts_with("error: no session of Hall to close: ")
            && said.contains("\nhint: `anteroom ticket open "),
        "{said}"
    );
    assert_eq!(read_private(&server, "/rooms/Hall")["figures"]["completed"], 1);
}

#[test]
fn code_3_is_a_ticket_that_no_room_knows() {
    let (server, operator) = server();
    let id = server.line("Hall").join();
    let said = operator.failed(3, &["ticket", "open", &id, "--room", "Yard"]);
    let expected = format!(
        "error: {id} is not a ticket of the present line of Yard\nhint: without --room every room is asked"
    );
    assert!(said.starts_with(&expected), "{said}");
    let said = operator.failed(3, &["ticket", "open", "no/such ticket"]);
    assert!(
        said.starts_with("error: no/such ticket is not a ticket of the present line of any room\nhint: "),
        "{said}"
    );
    let said = operator.failed(3, &["ticket", "open", &id, "--room", "Yards"]);
    assert_eq!(said, "error: there is no room Yards\nhint: did you mean `Yard`?\n");
    let said = operator.failed(3, &["session", "close", &id, "--room", "Attic", "--status", "abandoned"]);
    assert!(said.starts_with("error: no session of Attic to close: "), "{said}");
}

#[test]
fn options_may_stand_anywhere_and_the_url_has_a_variable() {
    let (server, operator) = server();
    let url = format!("http://{}", server.private());
    let unreachable = Operator::at("http://127.0.0.1:1").with_key(server.admin_key());
    let expected = operator.done(&["room", "list"]);
    assert_eq!(unreachable.done(&["room", "--url", &url, "list"]), expected);
    assert_eq!(unreachable.done(&["room", "list", "--url", &url]), expected);
    assert_eq!(unreachable.done(&["room", "list", "--url", &format!("{url}/")]), expected);
}

#[test]
fn completions_are_made_for_every_shell_and_bash_takes_them() {
    let operator = Operator::at("http://127.0.0.1:1");
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = operator.done(&["completions", shell]);
        assert!(script.contains("anteroom") && script.contains("rotate-signing"), "{shell}");
    }
    if !require("bash", finish(std::process::Command::new("bash").arg("--version")).code == Some(0)) {
        return;
    }
    let script = "source <(\"$0\" completions bash); COMP_WORDS=(anteroom room sh); COMP_CWORD=2; \
                  _anteroom anteroom sh room; echo \"${COMPREPLY[@]}\"";
    let ran = finish(std::process::Command::new("bash").args(["-c", script]).arg(binary()));
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "show\n"), "{}", ran.stderr);
}
