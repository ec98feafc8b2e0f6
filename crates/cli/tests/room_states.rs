//! Rooms that are paused, draining or closed, over the AWS calls, and rooms from the configuration file across restarts.

use anteroom_testkit::{Server, aws};

const BINARY: &str = env!("CARGO_BIN_EXE_anteroom");

fn room(state: &str) -> String {
    format!("[[room]]\nid = \"Hall\"\nstate = \"{state}\"\n")
}

#[test]
fn draining_and_closed_rooms_refuse_new_visitors_with_409_and_forget_nobody() {
    let mut server = Server::builder(BINARY).config(room("open")).start().unwrap();
    let mut line = server.line("Hall");
    let ids = line.join_many(2);
    line.advance(1);
    let held = line.tokens(&ids[0]);
    for state in ["draining", "closed"] {
        server.set_config(room(state));
        server.restart().unwrap();
        let mut line = server.line("Hall");
        let refused = aws::assign_queue_num(&mut line.public, "Hall").unwrap();
        assert_eq!(refused.status, 409, "{state}: {refused:?}");
        refused.error();
        assert_eq!((line.position(&ids[1]), line.waiting(), line.serving()), (2, 1, 1), "{state}");
        assert_eq!(line.tokens(&ids[0]), held, "{state}: who holds a pass keeps it");
    }
    // Draining admits who already stands in line.
    server.set_config(room("draining"));
    server.restart().unwrap();
    let mut line = server.line("Hall");
    line.advance(1);
    assert_eq!(line.claim(&ids[1]).status, 200);
    assert_eq!((line.waiting(), line.active()), (0, 2));
    server.set_config(room("open"));
    server.restart().unwrap();
    let mut line = server.line("Hall");
    let next = line.join();
    assert_eq!(line.position(&next), 3, "a refused join has consumed no number");
}

#[test]
fn a_paused_room_takes_visitors_in_and_admits_nobody() {
    let config =
        "[[room]]\nid = \"Hall\"\nstate = \"paused\"\ninlet = \"max-size\"\ntotal_active_users = 3\n";
    let mut server = Server::builder(BINARY).config(config).start().unwrap();
    let mut line = server.line("Hall");
    let ids = line.join_many(4);
    assert_eq!((line.serving(), line.waiting()), (0, 4));
    for id in &ids {
        assert_eq!(line.claim(id).status, 202);
    }
    // Opened, it admits as many as it can hold, in order.
    server.set_config(config.replace("paused", "open"));
    server.restart().unwrap();
    let mut line = server.line("Hall");
    anteroom_testkit::wait_until("the first three are served", std::time::Duration::from_secs(15), || {
        line.serving() == 3
    });
    let statuses: Vec<u16> = ids.iter().map(|id| line.claim(id).status).collect();
    assert_eq!(statuses, [200, 200, 200, 202]);
}

#[test]
fn rooms_are_apart_from_each_other() {
    let config = "[[room]]\nid = \"One\"\n[[room]]\nid = \"Two\"\nvalidity_period = 60\n";
    let server = Server::builder(BINARY).config(config).memory().start().unwrap();
    let (mut one, mut two) = (server.line("One"), server.line("Two"));
    let first = one.join();
    assert_eq!((one.waiting(), two.waiting()), (1, 0));
    let other = two.join_many(2);
    assert_eq!((one.position(&first), two.position(&other[1])), (1, 2));
    two.advance(5);
    assert_eq!((one.serving(), two.serving()), (0, 5));
    assert_eq!(
        (one.claim(&first).status, two.claim(&other[0]).json()["expires_in"].as_i64()),
        (202, Some(60))
    );
    assert_eq!(one.reset().status, 200);
    assert_eq!((one.waiting(), two.waiting(), two.active()), (0, 1, 1));
    // AWS paths never fall back to a default room.
    assert_eq!(aws::serving_num(&mut one.public, "Sample").unwrap().status, 400);
    assert_eq!(one.public.get("/serving_num").unwrap().status, 400);
}

#[test]
fn an_unchanged_file_changes_nothing_at_a_restart() {
    let mut server = Server::builder(BINARY).config(room("open")).start().unwrap();
    let mut line = server.line("Hall");
    let ids = line.join_many(3);
    line.advance(2);
    let held = line.tokens(&ids[0]);
    let before = line.figures();
    server.restart().unwrap();
    let mut line = server.line("Hall");
    assert_eq!(line.figures(), before);
    assert_eq!(line.tokens(&ids[0]), held);
    assert_eq!((line.claim(&ids[1]).status, line.claim(&ids[2]).status), (200, 202));
}
