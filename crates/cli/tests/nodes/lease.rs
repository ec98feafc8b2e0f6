//! "`SIGSTOP` the lease holder for longer than its lease, then `SIGCONT`: the frontier moved exactly as often as it should."

use std::collections::BTreeMap;
use std::time::Duration;

use anteroom_testkit::redis::RedisProcess;
use anteroom_testkit::{Nodes, Server, require_redis, wait_for, wait_until};
use serde_json::Value;

use crate::support::BINARY;
use crate::support::metrics::metric;

const ROOM: &str = "Clockwork";
/// How long a state may take.
const TIMEOUT: Duration = Duration::from_mins(1);
/// One position a second.
const CONFIG: &str = "signing_algorithm = \"EdDSA\"\n\
    [[room]]\nid = \"Clockwork\"\ninlet = \"periodic\"\nincrement_by = 1\ninterval_seconds = 1\n";
const STEP_MILLIS: i64 = 1_000;
/// More people than steps, so that each step moves the frontier.
const PEOPLE: usize = 300;

/// What a node says: 1 while it holds the room's lease.
fn holds_lease(server: &Server) -> bool {
    metric(server, &format!("anteroom_room_lease_held{{room=\"{ROOM}\"}}")) == 1
}

/// The timetable as one node shows it at one moment.
#[derive(Debug, Clone, Copy)]
struct Timetable {
    next_step_millis: i64,
    moves: i64,
    missed: i64,
    serving: i64,
    last_move_millis: i64,
}

impl Timetable {
    fn of(server: &Server) -> Self {
        let room = server.operator().get(&format!("/rooms/{ROOM}")).expect("an answer").json();
        let number = |value: &Value| value.as_i64().unwrap_or_else(|| panic!("no number in {room}"));
        Self {
            next_step_millis: millis(&room["next_step_at"]),
            moves: number(&room["moves"]["periodic"]),
            missed: number(&room["steps_missed"]),
            serving: number(&room["figures"]["serving"]),
            last_move_millis: millis(&room["last_move"]["at"]),
        }
    }
}

/// Milliseconds since 1970.
fn millis(moment: &Value) -> i64 {
    let text = moment.as_str().unwrap_or_else(|| panic!("not a moment: {moment}"));
    text.parse::<jiff::Timestamp>().expect("a moment").as_millisecond()
}

/// All that was seen of the timetable, on every node.
struct Record {
    beginning: Timetable,
    /// When the n-th move happened.
    moves: BTreeMap<i64, i64>,
}

impl Record {
    /// Takes in what a node shows, and compares it with everything seen before: each slot of the timetable was either taken, by one
    /// move of one position, or missed.
    #[track_caller]
    fn see(&mut self, server: &Server) -> Timetable {
        let (first, seen) = (self.beginning, Timetable::of(server));
        let (moves, missed) = (seen.moves - first.moves, seen.missed - first.missed);
        assert_eq!(seen.serving - first.serving, moves, "{seen:?} after {first:?}");
        let slots = (seen.next_step_millis - first.next_step_millis) / STEP_MILLIS;
        assert_eq!(moves + missed, slots, "{seen:?} after {first:?}");
        let at = self.moves.entry(seen.moves).or_insert(seen.last_move_millis);
        assert_eq!(*at, seen.last_move_millis, "every node tells the same of move {}", seen.moves);
        seen
    }

    /// No two moves happened within one slot.
    #[track_caller]
    fn assert_one_move_a_slot(&self) {
        let slot = |at: &i64| (at - self.beginning.next_step_millis).div_euclid(STEP_MILLIS);
        let slots: Vec<i64> = self.moves.values().map(slot).collect();
        assert!(slots.is_sorted_by(|before, after| before < after), "{:?}", self.moves);
    }
}

#[test]
fn a_paused_holder_of_the_lease_is_replaced_and_moves_nothing_twice_when_it_wakes_up() {
    if !require_redis() {
        return;
    }
    let redis = RedisProcess::start();
    let nodes = Nodes::start(BINARY, CONFIG, &vec![redis.url(); 3]);
    let servers = nodes.all();
    servers[0].line(ROOM).join_many(PEOPLE);
    let holder = wait_for("a node holds the lease", TIMEOUT, || servers.iter().position(holds_lease));
    let others =
        || servers.iter().enumerate().filter(|(index, _)| *index != holder).map(|(_, server)| server);
    wait_until("the frontier moves", TIMEOUT, || {
        servers[holder].operator().get(&format!("/rooms/{ROOM}")).expect("an answer").json()["moves"]["periodic"]
            .as_u64()
            .is_some_and(|moves| moves >= 2)
    });
    let beginning = Timetable::of(&servers[holder]);
    let mut record = Record { beginning, moves: BTreeMap::new() };
    let wait_for_moves = |record: &mut Record, more: i64, who: &[&Server]| {
        let seen: Vec<i64> = who.iter().map(|server| record.see(server).moves).collect();
        let from = seen.into_iter().max().expect("there are nodes");
        wait_until("the frontier goes on", TIMEOUT, || {
            let seen: Vec<_> = who.iter().map(|server| record.see(server).moves).collect();
            seen.iter().all(|moves| *moves >= from + more)
        });
    };
    let everybody: Vec<&Server> = servers.iter().collect();
    wait_for_moves(&mut record, 2, &everybody);

    servers[holder].pause();
    wait_until("another node holds the lease", TIMEOUT, || others().any(holds_lease));
    let awake: Vec<&Server> = others().collect();
    // The lease is two seconds; three more moves make the pause longer than that by any clock.
    wait_for_moves(&mut record, 3, &awake);
    servers[holder].resume();
    wait_for_moves(&mut record, 3, &everybody);
    assert!(!holds_lease(&servers[holder]), "a lease that was slept through is another's");
    assert_eq!(servers.iter().filter(|server| holds_lease(server)).count(), 1);
    record.assert_one_move_a_slot();
    assert!(record.moves.len() >= 8, "{:?}", record.moves);
    for server in servers {
        assert!(!server.stderr().contains("panicked"), "{}", server.stderr());
    }
}
