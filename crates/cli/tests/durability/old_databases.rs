//! Databases that older versions wrote, each by the server of its commit: what they hold is read as it was written, and the server
//! goes on with it. `old_databases/README.md` says how they were made.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anteroom_core::{
    Outcome, Position, Room, RoomId, RoomState, Session, SessionKey, SessionStatus, UnixMillis,
};
use anteroom_store::embedded::{FILE_NAME, SCHEMA_VERSION};
use anteroom_store::{EmbeddedStore, ManualClock, NodeId, Store};
use anteroom_testkit::{Client, Server, jwt, native};
use flate2::read::GzDecoder;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::BINARY;

/// The commits that wrote them, oldest first, and the schema version that each wrote.
const COMMITS: [(&str, u32); 7] = [
    ("a59170b", 1),
    ("6faec8e", 2),
    ("8bdaa72", 2),
    ("353db03", 2),
    ("456c571", 2),
    ("05be04a", 2),
    ("c1b200c", 2),
];
const NODE: NodeId = NodeId(1);

/// A database of an old version, copied to a directory of its own, and what the old server said of it.
struct OldDatabase {
    directory: TempDir,
    written: Value,
    config: String,
}

impl OldDatabase {
    fn copy(commit: &str) -> Self {
        let old = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/durability/old_databases").join(commit);
        let directory = tempfile::tempdir().expect("a temporary directory");
        let this = Self { written: Value::Null, config: String::new(), directory };
        fs::create_dir(this.data()).expect("a data directory");
        let mut database = Vec::new();
        let compressed = fs::File::open(old.join(format!("{FILE_NAME}.gz"))).expect("the database is kept");
        GzDecoder::new(compressed).read_to_end(&mut database).expect("it is whole");
        fs::write(this.data().join(FILE_NAME), database).expect("it can be copied");
        fs::copy(old.join("master-secret"), this.data().join("master-secret")).expect("its secret is kept");
        let read = |name: &str| fs::read_to_string(old.join(name)).expect("it is kept beside the database");
        let written = serde_json::from_str(&read("written.json")).expect("JSON");
        // Without the site, which is gone, the API has no prefix.
        let config = read("anteroom.toml").lines().filter(|line| !line.starts_with("origin = ")).fold(
            String::new(),
            |mut config, line| {
                config.push_str(line);
                config.push('\n');
                config
            },
        );
        Self { written, config, ..this }
    }

    /// Where the server under test looks for it.
    fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    /// Places by request id in a room.
    fn places(&self, room: &str) -> Vec<(String, i64)> {
        let places = self.written["places"][room].as_object().expect("places of the room");
        places.iter().map(|(id, position)| (id.clone(), position.as_i64().expect("a position"))).collect()
    }

    fn rooms(&self) -> BTreeSet<String> {
        self.written["places"].as_object().expect("rooms").keys().cloned().collect()
    }

    fn figure(&self, room: &str, name: &str) -> i64 {
        self.written["figures"][room][name].as_i64().expect("a figure")
    }

    fn has(&self, what: &str) -> bool {
        !self.written[what].is_null()
    }
}

/// The sessions of a room's newest line, by position.
async fn sessions(store: &EmbeddedStore, id: &RoomId, room: &Room) -> BTreeMap<u64, Session> {
    let mut sessions = BTreeMap::new();
    for position in 1..=room.newest().joined {
        let key = SessionKey {
            generation: room.newest().generation,
            position: Position::new(position).expect("a position"),
        };
        if let Some(session) = store.session(id, key).await.expect("a session can be read") {
            sessions.insert(position, session);
        }
    }
    sessions
}

#[tokio::test]
async fn what_an_old_version_wrote_is_read_as_it_was_written() {
    for (commit, schema) in COMMITS {
        println!("{commit}");
        let old = OldDatabase::copy(commit);
        assert_eq!(stored_schema(&old), schema, "as it was written");
        let written_at = old.written["written_at_milliseconds"].as_u64().expect("a time");
        let clock = Arc::new(ManualClock::at(UnixMillis(written_at)));
        let store = EmbeddedStore::open(&old.data(), clock).expect("it is migrated");
        let stored = store.value("schema").await.expect("a value can be read");
        assert_eq!(stored.as_deref(), Some(SCHEMA_VERSION.to_le_bytes().as_slice()));
        let rooms = store.rooms().await.expect("rooms can be listed");
        let names: BTreeSet<String> = rooms.iter().map(|id| id.as_str().to_owned()).collect();
        assert_eq!(names, old.rooms());
        for name in old.rooms() {
            let id = RoomId::parse(&name).expect("a room id");
            let room = store.load(&id, NODE).await.expect("it can be read").expect("it is there").room;
            let figures = [room.serving(), room.waiting(), room.active()]
                .map(|figure| i64::try_from(figure).expect("a small number"));
            let written = ["serving", "waiting", "active"].map(|figure| old.figure(&name, figure));
            assert_eq!(figures, written, "{name}");
            let sessions = sessions(&store, &id, &room).await;
            match name.as_str() {
                "Hall" => assert_hall(&room, &sessions),
                "Gate" => assert_gate(&room, &sessions, old.has("cookie")),
                "Yard" => {
                    assert_eq!((room.state, room.newest().joined, sessions.len()), (RoomState::Paused, 1, 0));
                    assert_eq!(room.settings.issuer.as_deref(), Some("https://yard.example.com"));
                }
                _ => {
                    assert_eq!(room.settings.validity_period.get(), 77);
                    assert_eq!((room.newest().joined, room.newest().counts.left), (3, 1));
                }
            }
        }
        let audit = store.audit(None, None, 100).await.expect("the audit can be read");
        let told = |action: &str, room: &str| {
            let is_it = |record: &&(u64, anteroom_store::AuditRecord)| {
                record.1.action.starts_with(action)
                    && record.1.room.as_ref().is_some_and(|id| id.as_str() == room)
            };
            audit.iter().filter(is_it).count()
        };
        assert_eq!((told("reset", "Yard"), told("reset", "Hall")), (1, 0), "{audit:?}");
        assert!(audit.iter().all(|(_, record)| record.at.0 <= written_at), "{audit:?}");
        let gone = RoomId::parse("Gone").expect("a room id");
        let trace = store.trace(&gone).await.expect("traces can be read");
        assert_eq!(trace.is_some(), old.has("viewer_key"), "a deleted room");
    }
}

/// The schema version of a database that nobody has opened yet.
fn stored_schema(old: &OldDatabase) -> u32 {
    const VALUES: redb::TableDefinition<'_, &str, &[u8]> = redb::TableDefinition::new("values");
    let database = redb::Database::open(old.data().join(FILE_NAME)).expect("a database");
    let values = redb::ReadableDatabase::begin_read(&database).expect("it can be read");
    let values = values.open_table(VALUES).expect("it has values");
    let stored = values.get("schema").expect("it can be read").expect("it has a version");
    u32::from_le_bytes(stored.value().try_into().expect("four bytes"))
}

fn assert_hall(room: &Room, sessions: &BTreeMap<u64, Session>) {
    let segment = room.newest();
    assert_eq!(
        (room.state, segment.joined, segment.serving, segment.counts.claimed),
        (RoomState::Open, 8, 5, 3)
    );
    assert!(!room.settings.enable_queue_position_expiry);
    let statuses: Vec<(u64, SessionStatus)> =
        sessions.iter().map(|(position, session)| (*position, session.status)).collect();
    let ended = SessionStatus::Ended;
    assert_eq!(
        statuses,
        [(1, SessionStatus::Active), (2, ended(Outcome::Completed)), (3, ended(Outcome::Abandoned))]
    );
    for session in sessions.values() {
        assert_eq!(session.expires_at_seconds - session.issued_at_seconds, 31_536_000);
        assert_eq!((session.issuer.as_str(), session.stay), ("https://wait.example.com", None));
    }
}

fn assert_gate(room: &Room, sessions: &BTreeMap<u64, Session>, has_visit: bool) {
    let statuses: Vec<SessionStatus> = sessions.values().map(|session| session.status).collect();
    let (active, completed) = (SessionStatus::Active, SessionStatus::Ended(Outcome::Completed));
    assert_eq!(room.settings.total_active_users, Some(4), "as the edited file had it");
    if has_visit {
        assert_eq!(statuses, [active, completed, completed, completed, active, active]);
        let visit = &sessions[&6];
        let stay = visit.stay.expect("a visit by cookie has a stay");
        assert_eq!((stay.ending, stay.until > UnixMillis(visit.issued_at_seconds * 1000)), (None, true));
        assert!(stay.until.0 / 1000 - visit.issued_at_seconds >= 86_400, "confirmed: {stay:?}");
    } else {
        assert_eq!(statuses, [active]);
    }
}

/// What a room's public figures say, however long ago it was written: where nothing lapses and no visit ends.
#[track_caller]
fn assert_places(server: &Server, old: &OldDatabase) {
    for room in old.rooms() {
        let mut line = server.line(&room);
        for (id, position) in old.places(&room) {
            assert_eq!(line.position(&id), position, "{room}");
        }
        let (serving, written) = (line.serving(), old.figure(&room, "serving"));
        // Visits of that room end with time, and then the next visitors are served.
        assert!(if room == "Gate" { serving >= written } else { serving == written }, "{room}: {serving}");
    }
    for room in ["Hall", "Yard"] {
        assert_eq!(server.line(room).waiting(), old.figure(room, "waiting"), "{room}");
    }
    for (id, status) in old.written["of_a_line_before"].as_object().expect("tickets of a line before") {
        assert_eq!(json!(server.line("Yard").place(id).status), *status, "a ticket of the line before");
    }
    if let Some(moved) = old.written["moved_from"].as_str() {
        let status = native::status(&mut server.visitor(), "Hall", moved).expect("an answer");
        let kind = status.json()["type"].as_str().map(|kind| kind.ends_with("#moved"));
        assert_eq!((status.status, kind), (410, Some(true)), "{status:?}");
    }
}

#[test]
fn the_server_goes_on_with_a_database_of_an_old_version() {
    for (commit, _) in COMMITS {
        println!("{commit}");
        let old = OldDatabase::copy(commit);
        let builder = Server::builder(BINARY).directory(old.directory.path()).config(&old.config);
        let mut server = builder.without_env("ANTEROOM_SECRET").start().expect("the server starts");
        assert_places(&server, &old);
        assert_told_as_before(&server, &old);
        server.restart().expect("it starts a second time");
        assert_places(&server, &old);
        assert_told_as_before(&server, &old);

        // A ticket of the old version is served and claimed, and newcomers stand behind it.
        let mut line = server.line("Hall");
        let (sixth, _) =
            old.places("Hall").into_iter().find(|(_, position)| *position == 6).expect("a sixth");
        assert_eq!(line.claim(&sixth).status, 202, "not yet");
        let newcomer = line.join();
        assert_eq!((line.position(&newcomer), line.advance(1)), (9, 6));
        let claims = jwt::claims(&line.tokens(&sixth)[0]);
        assert_eq!((&claims["queue_position"], &claims["sub"]), (&json!(6), &json!(sixth)), "{claims}");
        server.restart().expect("it starts a third time");
        let mut line = server.line("Hall");
        assert_eq!((line.serving(), line.position(&sixth), line.position(&newcomer)), (6, 6, 9));
    }
}

/// Settings, audit, signing keys and API keys are as they were.
#[track_caller]
fn assert_told_as_before(server: &Server, old: &OldDatabase) {
    let keys = server.visitor().get("/.well-known/jwks.json").expect("an answer").json();
    let keys: Vec<&Value> = keys["keys"].as_array().expect("keys").iter().map(|key| &key["kid"]).collect();
    for pass in old.written["passes"].as_object().expect("passes").values() {
        let kid = jwt::header(pass.as_str().expect("a token"))["kid"].clone();
        assert!(keys.contains(&&kid), "{kid} signed a pass: {keys:?}");
    }
    let Some(key) = old.written["viewer_key"].as_str() else { return };
    let mut viewer = Client::new(server.private()).with_bearer(key);
    let listed = viewer.get("/rooms").expect("an answer");
    assert_eq!(listed.status, 200, "the key is known: {listed:?}");
    let listed = listed.json();
    for written in old.written["rooms"].as_array().expect("rooms") {
        let rooms = listed["rooms"].as_array().expect("rooms");
        let room = rooms.iter().find(|room| room["id"] == written["id"]).expect("each room is there");
        assert_eq!(room["state"], written["state"], "{room}");
        for (name, value) in written["settings"].as_object().expect("settings") {
            assert_eq!(&room["settings"][name], value, "{name} of {}", room["id"]);
        }
    }
    let audit = server.operator().get("/audit?limit=1000").expect("an answer").json();
    let records = audit["records"].as_array().expect("records");
    for written in old.written["audit"]["records"].as_array().expect("records") {
        assert!(records.contains(written), "{written} is missing");
    }
}
