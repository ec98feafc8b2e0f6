//! Rooms that are paused, draining or closed, over the AWS calls, and rooms from the configuration file across restarts.

use std::time::Duration;

use anteroom_testkit::{Line, Server, aws, jwt, now, pause, unix_seconds, wait_until};
use serde_json::json;

use crate::support::BINARY;

/// How long a figure may take to follow the clock.
const TIMEOUT: Duration = Duration::from_secs(15);

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
    wait_until("the first three are served", TIMEOUT, || line.serving() == 3);
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

#[test]
fn a_closed_room_turns_everybody_away_but_repeats_the_passes_it_gave() {
    let mut server = Server::builder(BINARY).config(room("open")).start().unwrap();
    let mut line = server.line("Hall");
    let ids = line.join_many(3);
    line.advance(2);
    let held = line.tokens(&ids[0]);
    server.set_config(room("closed"));
    server.restart().unwrap();
    let mut line = server.line("Hall");
    let refused = aws::assign_queue_num(&mut line.public, "Hall").unwrap();
    assert_eq!((refused.status, refused.error().contains("closed")), (409, true), "{refused:?}");
    // Whether offered or still waiting: a 202 would make a client wait for a door that stays shut.
    for id in &ids[1..] {
        for answer in [line.claim(id), line.claim_privately(id, &json!({})), line.expiry(id)] {
            assert_eq!((answer.status, answer.error().as_str()), (410, "The waiting room is closed"));
        }
    }
    assert_eq!(line.tokens(&ids[0]), held);
    assert_eq!(line.active(), 1);
    // Opened again, the offer still stands.
    server.set_config(room("open"));
    server.restart().unwrap();
    let mut line = server.line("Hall");
    assert_eq!((line.claim(&ids[1]).status, line.claim(&ids[2]).status), (200, 202));
}

#[test]
fn a_paused_room_keeps_an_offer_and_stops_its_clock() {
    /// How long the clock is watched standing still, in seconds.
    const WATCHED_SECONDS: u64 = 3;
    let config = |state: &str| room(state) + "queue_position_expiry_period = 600\n";
    let mut server = Server::builder(BINARY).config(config("open")).start().unwrap();
    let mut line = server.line("Hall");
    let ids = line.join_many(2);
    line.advance(2);
    let held = line.tokens(&ids[0]);
    server.set_config(config("paused"));
    server.restart().unwrap();
    let mut line = server.line("Hall");
    let seconds_left = |line: &mut Line| line.expiry(&ids[1]).json()["expires_in"].as_u64().unwrap();
    let when_paused = seconds_left(&mut line);
    assert!((1..=600).contains(&when_paused));
    let started = unix_seconds();
    while unix_seconds() <= started + WATCHED_SECONDS {
        assert_eq!(seconds_left(&mut line), when_paused);
        let early = line.claim(&ids[1]);
        assert_eq!((early.status, early.error().as_str()), (202, "Request ID not being served yet"));
        pause();
    }
    assert_eq!(line.tokens(&ids[0]), held, "who holds a pass keeps it");
    // Opened, it goes on from there.
    server.set_config(config("open"));
    let reopened = now();
    server.restart().unwrap();
    let mut line = server.line("Hall");
    let when_open = seconds_left(&mut line);
    // At most the restart itself is counted, in whole seconds, and none of the time that was watched.
    let counted_max = reopened.elapsed().as_secs() + 1;
    assert!(when_open + counted_max >= when_paused, "{when_paused} when paused, {when_open} when open again");
    wait_until("the clock goes on", TIMEOUT, || seconds_left(&mut line) < when_paused);
    assert_eq!(line.claim(&ids[1]).status, 200);
}

#[test]
fn settings_edited_in_the_file_are_applied_once_and_an_unchanged_file_applies_nothing() {
    const APPLIED: &str = "settings changed by the configuration file";
    let config = |validity: u32| {
        format!("[[room]]\nid = \"Hall\"\nvalidity_period = {validity}\n[[room]]\nid = \"Yard\"\n")
    };
    let mut server = Server::builder(BINARY).config(config(60)).start().unwrap();
    let mut line = server.line("Hall");
    let ids = line.join_many(3);
    line.advance(3);
    let held = line.claim(&ids[0]);
    assert_eq!(held.json()["expires_in"], 60);
    assert_eq!(
        server.terminate().unwrap().stderr.matches(APPLIED).count(),
        0,
        "a new room is not a changed one"
    );

    server.restart().unwrap();
    assert_eq!(server.terminate().unwrap().stderr.matches(APPLIED).count(), 0, "an unchanged file");

    server.set_config(config(1200));
    server.restart().unwrap();
    let mut line = server.line("Hall");
    assert_eq!(line.claim(&ids[1]).json()["expires_in"], 1200);
    assert_eq!(line.tokens(&ids[0]), held.token_set(), "a pass keeps the end it was given");
    let stderr = server.terminate().unwrap().stderr;
    let said: Vec<&str> = stderr.lines().filter(|line| line.contains(APPLIED)).collect();
    assert!(said.len() == 1 && said[0].contains("Hall"), "{stderr}");

    // Comments and order are not settings.
    server.set_config(format!(
        "# reviewed\n{}",
        config(1200).replace("id = \"Hall\"\n", "id = \"Hall\" # main\n")
    ));
    server.restart().unwrap();
    assert_eq!(server.line("Hall").claim(&ids[2]).json()["expires_in"], 1200);
    assert_eq!(server.terminate().unwrap().stderr.matches(APPLIED).count(), 0, "the same settings");
}

#[test]
fn many_rooms_of_one_file_have_lines_of_their_own_and_refuse_each_others_ids() {
    const ROOMS: usize = 25;
    let config: Vec<String> =
        (0..ROOMS).map(|number| format!("[[room]]\nid = \"room-{number}\"\n")).collect();
    let mut server = Server::builder(BINARY).config(config.concat()).start().unwrap();
    let lines = |server: &Server| -> Vec<Line> {
        (0..ROOMS).map(|number| server.line(&format!("room-{number}"))).collect()
    };
    // Room n gets n + 1 visitors, of whom n / 2 are served; all of them wait until they claim.
    let mut ids: Vec<Vec<String>> = Vec::new();
    for (number, mut line) in lines(&server).into_iter().enumerate() {
        ids.push(line.join_many(number + 1));
        line.advance(i64::try_from(number / 2).unwrap());
    }
    for after_a_restart in [false, true] {
        if after_a_restart {
            server.restart().unwrap();
        }
        for (number, mut line) in lines(&server).into_iter().enumerate() {
            let frontier = i64::try_from(number / 2).unwrap();
            let joined = i64::try_from(number + 1).unwrap();
            assert_eq!((line.serving(), line.waiting()), (frontier, joined), "room-{number}");
            assert_eq!(line.position(&ids[number][number]), joined);
            let stranger = &ids[(number + 1) % ROOMS][0];
            let statuses = [line.place(stranger), line.claim(stranger), line.expiry(stranger)];
            assert_eq!(statuses.map(|answer| answer.status), [400, 404, 404], "room-{number}");
            assert_eq!(line.claim_privately(stranger, &json!({})).status, 404);
            assert_eq!(line.close(stranger, 1).status, 404);
        }
    }
    let mut last = server.line("room-24");
    let pass = last.tokens(&ids[24][0]);
    assert_eq!(jwt::claims(&pass[0])["aud"], "room-24");
    assert_eq!((last.active(), server.line("room-23").active()), (1, 0));
}
