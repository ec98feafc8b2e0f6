//! A room of the configuration file that the store has lost without a trace: it is created again at the start, although the file has not
//! changed. A room that an operator deleted is not.

use std::fs;
use std::sync::Arc;

use anteroom_store::{EmbeddedStore, Store, SystemClock};
use anteroom_testkit::redis::RedisProcess;
use anteroom_testkit::{Request, Server, require_redis};
use serde_json::json;

use crate::support::BINARY;

const ROOMS: &str =
    "[[room]]\nid = \"Lost\"\nvalidity_period = 77\n[[room]]\nid = \"Deleted\"\n[[room]]\nid = \"Kept\"\n";

/// The rooms that the server has, in order.
fn rooms(server: &Server) -> Vec<String> {
    let listed = server.operator().get("/rooms").expect("an answer").json();
    let mut rooms: Vec<String> = listed["rooms"]
        .as_array()
        .expect("a list of rooms")
        .iter()
        .map(|room| room["id"].as_str().expect("an id").to_owned())
        .collect();
    rooms.sort();
    rooms
}

/// Joins every room once, and deletes one.
fn use_every_room(server: &Server) {
    for room in ["Lost", "Deleted", "Kept"] {
        server.line(room).join();
    }
    let deleted = server.operator().send(&Request::new("DELETE", "/rooms/Deleted")).expect("an answer");
    assert_eq!(deleted.status, 204, "{deleted:?}");
}

/// The lost room is there again as the file has it, the deleted one is not, and nothing else has changed.
#[track_caller]
fn assert_only_the_lost_room_is_created_again(server: &Server) {
    assert_eq!(rooms(server), ["Kept", "Lost"]);
    let lost = server.operator().get("/rooms/Lost").expect("an answer").json();
    assert_eq!(lost["settings"]["validity_period"], json!(77), "{lost}");
    assert_eq!(server.line("Lost").waiting(), 0);
    let id = server.line("Lost").join();
    assert_eq!(server.line("Lost").position(&id), 1);
    assert_eq!(server.line("Kept").waiting(), 1);
}

#[test]
fn a_room_that_redis_has_lost_is_created_again_from_an_unchanged_file() {
    if !require_redis() {
        return;
    }
    let redis = RedisProcess::start();
    let builder = Server::builder(BINARY).config(ROOMS).env("ANTEROOM_STORE_URL", redis.url());
    let mut server = builder.start().expect("the server starts");
    use_every_room(&server);
    server.terminate().expect("it ends");
    let script = "local lost = redis.call('KEYS', '*{r/Lost}*')\nreturn redis.call('DEL', unpack(lost))";
    assert!(redis.command(&["EVAL", script, "0"]).integer() > 0, "there was something to lose");
    server.restart().expect("it starts again");
    assert_only_the_lost_room_is_created_again(&server);
}

/// A database with the values of another one, such as the last file applied, and with none of its rooms.
#[tokio::test]
async fn a_room_that_a_database_has_lost_is_created_again_from_an_unchanged_file() {
    let mut server = Server::builder(BINARY).config(ROOMS).start().expect("the server starts");
    use_every_room(&server);
    server.terminate().expect("it ends");
    let data = server.data_directory();
    let applied = {
        let whole = EmbeddedStore::open(&data, Arc::new(SystemClock)).expect("the database opens");
        whole.value("file-room/Lost").await.expect("a value can be read").expect("the file was applied")
    };
    fs::remove_dir_all(&data).expect("the data directory can be removed");
    fs::create_dir_all(&data).expect("and made again");
    {
        let empty = EmbeddedStore::open(&data, Arc::new(SystemClock)).expect("a database is made");
        let set = empty.replace_value("file-room/Lost", None, &applied, None).await;
        assert!(set.expect("a value can be written"));
    }
    server.set_config("[[room]]\nid = \"Lost\"\nvalidity_period = 77\n");
    server.restart().expect("it starts again");
    assert_eq!(rooms(&server), ["Lost"]);
    let id = server.line("Lost").join();
    assert_eq!(server.line("Lost").position(&id), 1);
}
