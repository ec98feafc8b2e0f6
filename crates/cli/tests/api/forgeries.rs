//! "Forged, edited, truncated, other-room and other-secret request ids: all refused", over HTTP, with the codes that
//! clients can act on, and with nothing changed. (Bit flips below HTTP are the tokens crate's own property tests.)

use anteroom_testkit::{Answer, Line, Server, full};

use crate::support::BINARY;

const TWO_ROOMS: &str = "
    [[room]]
    id = \"Here\"
    [[room]]
    id = \"There\"
";

fn start() -> Server {
    Server::builder(BINARY).config(TWO_ROOMS).memory().start().expect("the server starts")
}

#[track_caller]
fn assert_error(answer: &Answer, status: u16, what: &str) {
    assert_eq!(answer.status, status, "{what}: {answer:?}");
    answer.error();
}

/// A well-formed id that is not one of the room's: 400 where 202 would make clients poll for ever, else 404.
#[track_caller]
fn assert_unknown(line: &mut Line, id: &str, what: &str) {
    assert_error(&line.place(id), 400, what);
    assert_error(&line.expiry(id), 404, what);
    assert_error(&line.claim(id), 404, what);
    assert_error(&line.claim_privately(id, &serde_json::json!({ "validity_period": 60 })), 404, what);
    assert_error(&line.close(id, 1), 404, what);
}

/// Something that is no request id at all.
#[track_caller]
fn assert_malformed(line: &mut Line, id: &str, what: &str) {
    assert_error(&line.place(id), 400, what);
    assert_error(&line.expiry(id), 400, what);
    assert_error(&line.claim(id), 400, what);
    assert_error(&line.claim_privately(id, &serde_json::json!({})), 400, what);
    assert_error(&line.close(id, 1), 400, what);
}

/// A room with one admitted, one served and one waiting visitor, and their ids.
fn busy_room(server: &Server) -> (Line, Vec<String>) {
    let mut line = server.line("Here");
    let ids = line.join_many(3);
    line.advance(2);
    assert_eq!(line.claim(&ids[0]).status, 200);
    (line, ids)
}

/// The id with one of its 128 bits turned over.
fn with_bit_flipped(id: &str, bit: usize) -> String {
    let digits: Vec<usize> =
        id.char_indices().filter(|(_, letter)| *letter != '-').map(|(at, _)| at).collect();
    let at = digits[bit / 4];
    let digit = u8::from_str_radix(&id[at..=at], 16).expect("a hexadecimal digit") ^ (1 << (bit % 4));
    format!("{}{digit:x}{}", &id[..at], &id[at + 1..])
}

#[test]
fn an_id_with_any_bit_flipped_is_refused() {
    let server = start();
    let (mut line, ids) = busy_room(&server);
    let before = line.figures();
    let step = if full() { 1 } else { 3 };
    for id in &ids {
        for bit in (0..128).step_by(step) {
            let edited = with_bit_flipped(id, bit);
            assert_ne!(&edited, id);
            assert_unknown(&mut line, &edited, &format!("bit {bit} of {id}"));
        }
    }
    assert_eq!(line.figures(), before);
}

#[test]
fn well_formed_ids_that_nobody_issued_are_refused() {
    let server = start();
    let (mut line, _) = busy_room(&server);
    let before = line.figures();
    let invented = [
        "00000000-0000-0000-0000-000000000000",
        "ffffffff-ffff-ffff-ffff-ffffffffffff",
        "00000000-0000-8000-8000-000000000000",
        "00000000-0000-8000-8000-000000000001",
        // An id of the AWS waiting room itself, from before the move.
        "3f2504e0-4f89-41d3-9a0c-0305e82c3301",
        "6ba7b810-9dad-81d1-80b4-00c04fd430c8",
    ];
    for id in invented {
        assert_unknown(&mut line, id, id);
    }
    assert_eq!(line.figures(), before);
}

#[test]
fn truncated_and_misshapen_ids_are_malformed() {
    let server = start();
    let (mut line, ids) = busy_room(&server);
    let before = line.figures();
    let id = &ids[1];
    for length in [0, 1, 8, 35] {
        assert_malformed(&mut line, &id[..length], &format!("the first {length} characters"));
    }
    let misshapen = [
        id.replace('-', ""),
        id.replace('-', "_"),
        format!("{{{id}}}"),
        format!("urn:uuid:{id}"),
        format!("{id}{id}"),
        format!("{id}0"),
        format!("{}-", &id[..35]),
        id.replacen('-', "0", 1),
        "../../../../../../etc/passwd".to_owned(),
        "' OR 1=1 --".to_owned(),
        "\u{0}".repeat(36),
        "é".repeat(36),
        "a".repeat(4000),
    ];
    for text in misshapen {
        assert_malformed(&mut line, &text, &text);
    }
    assert_eq!(line.figures(), before);
}

#[test]
fn the_id_of_another_room_is_refused() {
    let server = start();
    let (mut here, _) = busy_room(&server);
    let mut there = server.line("There");
    let foreign = there.join_many(3);
    there.advance(3);
    assert_eq!(there.claim(&foreign[0]).status, 200);
    let before = (here.figures(), there.figures());
    for id in &foreign {
        assert_unknown(&mut here, id, "an id of another room");
    }
    assert_eq!((here.figures(), there.figures()), before);
    // It is worth something where it belongs.
    assert_eq!(there.claim(&foreign[1]).status, 200);
}

#[test]
fn the_id_of_a_server_with_another_secret_is_refused() {
    let server = start();
    let (mut line, _) = busy_room(&server);
    let before = line.figures();
    let other = Server::builder(BINARY)
        .config(TWO_ROOMS)
        .memory()
        .env("ANTEROOM_SECRET", "another-master-secret-of-more-than-32-characters")
        .start()
        .unwrap();
    let foreign = other.line("Here").join_many(3);
    for id in &foreign {
        assert_unknown(&mut line, id, "an id under another secret");
    }
    assert_eq!(line.figures(), before);
}

#[test]
fn an_id_of_another_line_under_the_same_secret_is_refused() {
    // Same secret, same room id, another store: the generation differs, or, within one second, the number is not handed out.
    let server = start();
    let (mut line, _) = busy_room(&server);
    let before = line.figures();
    let other = start();
    let foreign = other.line("Here").join_many(9);
    for id in &foreign[3..] {
        assert_unknown(&mut line, id, "an id of another store");
    }
    assert_eq!(line.figures(), before);
}

#[test]
fn ids_from_before_a_reset_are_refused_and_stay_so_across_a_restart() {
    let mut server = Server::builder(BINARY).config(TWO_ROOMS).start().unwrap();
    let (mut line, ids) = busy_room(&server);
    assert_eq!(line.reset().status, 200);
    line.join_many(3);
    line.advance(3);
    let before = line.figures();
    for id in &ids {
        assert_unknown(&mut line, id, "an id from before the reset");
    }
    server.restart().unwrap();
    let mut line = server.line("Here");
    for id in &ids {
        assert_unknown(&mut line, id, "an id from before the reset, after a restart");
    }
    assert_eq!(line.figures(), before);
}
