//! A machine whose clock is a day ahead, and then right again: the real binary, under a clock that the test moves.

use std::time::Duration;

use anteroom_testkit::{Server, wait_until};

use crate::support::BINARY;
use crate::support::metrics::{metric, wait_for_metric};
use crate::support::moved_clock::MovedClock;
use crate::support::operator::Operator;

const DAY_SECONDS: i64 = 86_400;
const TIMEOUT: Duration = Duration::from_mins(1);
const ROOMS: &str = "[[room]]\nid = \"Hall\"\ninlet = \"max-size\"\ntotal_active_users = 2\n";
const OFF: &str = "anteroom_clock_off_seconds";
const AHEAD: &str = "anteroom_room_clock_ahead_seconds{room=\"Hall\"}";
const ALARM: &str = "Anteroom-Clock-Jump-Alarm";

fn start(clock: &MovedClock) -> Server {
    clock.applied_to(Server::builder(BINARY).config(ROOMS)).start().expect("the server starts")
}

fn alarm_fires(server: &Server) -> bool {
    let alarms = server.operator().get("/alarms").expect("an answer").json();
    let alarms = alarms["alarms"].as_array().expect("a list").clone();
    alarms.iter().any(|alarm| alarm["name"] == ALARM && alarm["state"] == "firing")
}

#[test]
fn a_clock_that_jumps_by_a_day_ends_no_session_and_is_alarmed() {
    let Some(clock) = MovedClock::build() else { return };
    let server = start(&clock);
    let mut line = server.line("Hall");
    let ids = line.join_many(4);
    line.tokens(&ids[0]);
    assert_eq!((metric(&server, OFF), line.active()), (0, 1));
    clock.set(DAY_SECONDS);
    wait_for_metric(&server, OFF, |seconds| seconds > 86_000);
    wait_until("it is alarmed", TIMEOUT, || alarm_fires(&server));
    assert_eq!(line.active(), 1, "the visit goes on");
    // Time goes on, and so does the line.
    line.tokens(&ids[1]);
    assert_eq!((line.active(), metric(&server, AHEAD)), (2, 0), "nothing of it is stored");
    line.join();
    clock.set(0);
    wait_for_metric(&server, OFF, |seconds| seconds == 0);
    assert_eq!((line.active(), line.waiting()), (2, 3));
    assert!(server.stderr().contains("machine clock jumped, holding the time"), "{}", server.stderr());
}

#[test]
fn an_operator_sets_a_rooms_clock_right_and_nobody_loses_a_place() {
    let Some(clock) = MovedClock::build() else { return };
    let mut server = start(&clock);
    let operator = Operator::of(&server);
    assert_eq!(
        operator.done(&["room", "set-clock", "Hall"]),
        "room Hall: the clock is right, nothing changed\n"
    );
    // A restart takes the machine's clock as it is: the room sees a day that has not come.
    clock.set(DAY_SECONDS);
    server.restart().expect("it starts again");
    let ids = server.line("Hall").join_many(4);
    server.line("Hall").tokens(&ids[0]);
    clock.set(0);
    server.restart().expect("it starts again");
    let mut line = server.line("Hall");
    wait_for_metric(&server, AHEAD, |seconds| seconds > 86_000);
    let operator = Operator::of(&server);
    let said = operator.done(&["room", "set-clock", "Hall"]);
    assert!(said.starts_with("room Hall: clock 20") && said.contains(" -> 20"), "{said}");
    assert_eq!(metric(&server, AHEAD), 0);
    assert_eq!((line.active(), line.waiting()), (1, 3), "everybody is where they were");
    let positions: Vec<i64> = ids.iter().map(|id| line.position(id)).collect();
    assert_eq!(positions, [1, 2, 3, 4]);
    line.tokens(&ids[1]);
    assert_eq!(line.close(&ids[0], 1).status, 200);
    line.tokens(&ids[2]);
    let audit = server.operator().get("/audit").expect("an answer").text();
    assert!(audit.contains("set-clock"), "{audit}");
    let unknown = operator.run(&["room", "set-clock", "Nowhere"]);
    assert_eq!(unknown.code, Some(3), "{unknown:?}");
}
