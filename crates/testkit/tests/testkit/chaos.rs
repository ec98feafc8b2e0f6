//! Each fault of the proxy, before a real Redis and before a plain TCP server.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use anteroom_testkit::redis::{Connection, RedisProcess, Reply};
use anteroom_testkit::{ChaosProxy, Direction, Fault, Mode, Odds, now, require_redis, wait_until};

const DEADLINE: Duration = Duration::from_secs(30);
/// How long a test waits for an answer that must not come.
const IN_VAIN: Duration = Duration::from_millis(150);

/// A delay that ends only because the mode is set.
const ENDLESS: Duration = Duration::from_hours(1);

/// A Redis, a proxy before it, and a connection through the proxy.
struct Story {
    connection: Connection,
    proxy: ChaosProxy,
    redis: RedisProcess,
}

fn begin() -> Option<Story> {
    if !require_redis() {
        return None;
    }
    let redis = RedisProcess::start();
    let proxy = ChaosProxy::before(redis.port());
    let connection = Connection::open(proxy.port()).expect("the proxy accepts");
    let mut story = Story { connection, proxy, redis };
    assert_eq!(increment(&mut story.connection).expect("an answer"), Reply::Integer(1));
    Some(story)
}

impl Story {
    /// A new connection through the proxy.
    fn connect(&self) -> Connection {
        Connection::open(self.proxy.port()).expect("the proxy accepts")
    }

    /// The counter as Redis itself has it.
    fn counted(&self) -> i64 {
        self.redis.command(&["GET", "n"]).integer()
    }

    fn wait_until_counted(&self, expected: i64) {
        wait_until("the request has arrived", DEADLINE, || self.counted() == expected);
    }
}

fn increment(connection: &mut Connection) -> anyhow::Result<Reply> {
    connection.command(&["INCR", "n"])
}

/// The kind of the error that a connection's last use ended with.
fn kind(result: anyhow::Result<Reply>) -> Option<ErrorKind> {
    result.expect_err("no answer").root_cause().downcast_ref::<std::io::Error>().map(std::io::Error::kind)
}

#[test]
fn everything_passes_and_is_counted() {
    let Some(mut story) = begin() else { return };
    let large = "x".repeat(1_000_000);
    story.connection.command(&["SET", "large", &large]).unwrap().no_error();
    assert_eq!(story.connection.command(&["GET", "large"]).unwrap().text(), large);
    let mut second = story.connect();
    assert_eq!(increment(&mut second).unwrap(), Reply::Integer(2));
    let counts = story.proxy.counts();
    assert_eq!((counts.connections, counts.faults(), story.proxy.open_connections()), (2, 0, 2));
    assert!(counts.requests >= 4, "{counts:?}");
    drop(second);
    wait_until("the closed connection is gone", DEADLINE, || story.proxy.open_connections() == 1);
}

#[test]
fn a_delay_lasts_as_long_as_it_was_asked_for() {
    let Some(mut story) = begin() else { return };
    let delay = Duration::from_millis(100);
    story.proxy.set(Mode::Always(Fault::Delay(Direction::Both, delay)));
    let started = now();
    assert_eq!(increment(&mut story.connection).unwrap(), Reply::Integer(2));
    assert!(started.elapsed() >= 2 * delay, "{:?}", started.elapsed());
    assert_eq!(story.proxy.counts().delays, 2);
}

#[test]
fn a_delayed_request_arrives_late_even_when_its_client_has_left() {
    let Some(story) = begin() else { return };
    let mut leaving = story.connect();
    story.proxy.set(Mode::Always(Fault::Delay(Direction::ToServer, ENDLESS)));
    leaving.send(&["INCR", "n"]).unwrap();
    drop(leaving);
    wait_until("the request is held", DEADLINE, || story.proxy.counts().delays == 1);
    assert_eq!(story.counted(), 1);
    // What is held is let go when the mode is set.
    story.proxy.set(Mode::Pass);
    story.wait_until_counted(2);
    story.proxy.set(Mode::Once(Fault::Delay(Direction::ToClient, ENDLESS)));
    let mut connection = story.connect();
    connection.send(&["INCR", "n"]).unwrap();
    wait_until("the answer is held", DEADLINE, || story.proxy.counts().delays == 2);
    assert_eq!(story.counted(), 3);
    story.proxy.set(Mode::Pass);
    assert_eq!(connection.receive().unwrap(), Reply::Integer(3));
}

#[test]
fn what_was_still_to_happen_does_not_when_the_mode_is_set() {
    let Some(mut story) = begin() else { return };
    story.proxy.set(Mode::Once(Fault::CutAfterSending));
    story.connection.send(&["BLPOP", "list", "0"]).unwrap();
    let is_blocked = || story.redis.information("clients")["blocked_clients"] == "1";
    wait_until("the request waits in Redis", DEADLINE, is_blocked);
    story.proxy.set(Mode::Pass);
    story.redis.command(&["RPUSH", "list", "element"]).no_error();
    assert_eq!(story.connection.receive().unwrap().array()[1].text(), "element");
    assert_eq!(story.proxy.counts().faults(), 0);
}

#[test]
fn a_black_hole_delivers_nothing_and_its_connections_do_not_outlive_it() {
    let Some(mut story) = begin() else { return };
    let idle = story.connect();
    wait_until("both are connected", DEADLINE, || story.proxy.open_connections() == 2);
    story.proxy.set(Mode::Always(Fault::BlackHole(Direction::Both)));
    let mut new = story.connect();
    for connection in [&mut story.connection, &mut new] {
        connection.set_answer_timeout(IN_VAIN);
        assert_eq!(kind(increment(connection)), Some(ErrorKind::WouldBlock));
    }
    assert_eq!(story.counted(), 1);
    // Those that lost something are reset; the idle one never noticed.
    story.proxy.set(Mode::Pass);
    for connection in [&mut story.connection, &mut new] {
        assert_eq!(kind(connection.receive()), Some(ErrorKind::ConnectionReset));
    }
    let mut idle = idle;
    assert_eq!(increment(&mut idle).unwrap(), Reply::Integer(2));
    assert_eq!(story.proxy.counts().black_holes, 2);
}

#[test]
fn a_black_hole_may_be_one_way_and_swallows_the_end_too() {
    let Some(mut story) = begin() else { return };
    story.proxy.set(Mode::Always(Fault::BlackHole(Direction::ToClient)));
    story.connection.set_answer_timeout(IN_VAIN);
    assert!(increment(&mut story.connection).is_err());
    story.wait_until_counted(2);
    // Redis has closed, and the client does not hear of it.
    story.redis.kill();
    wait_until("the end is swallowed", DEADLINE, || story.proxy.counts().black_holes == 2);
    assert_eq!(kind(story.connection.receive()), Some(ErrorKind::WouldBlock));
}

#[test]
fn connections_are_reset_old_and_new() {
    let Some(mut story) = begin() else { return };
    story.proxy.set(Mode::Always(Fault::Reset));
    assert_eq!(kind(story.connection.receive()), Some(ErrorKind::ConnectionReset));
    let mut new = story.connect();
    assert!(new.command(&["INCR", "n"]).is_err());
    assert_eq!((story.counted(), story.proxy.open_connections()), (1, 0));
    story.proxy.set(Mode::Pass);
    let mut new = story.connect();
    assert_eq!(increment(&mut new).unwrap(), Reply::Integer(2));
    story.proxy.reset_connections();
    assert_eq!(kind(new.receive()), Some(ErrorKind::ConnectionReset));
    assert_eq!(increment(&mut story.connect()).unwrap(), Reply::Integer(3));
}

#[test]
fn a_cut_request_was_carried_out_and_not_answered() {
    let Some(mut story) = begin() else { return };
    story.proxy.set(Mode::Always(Fault::CutAfterSending));
    assert_eq!(kind(increment(&mut story.connection)), Some(ErrorKind::ConnectionReset));
    assert_eq!(story.counted(), 2);
    assert!(increment(&mut story.connect()).is_err());
    assert_eq!((story.counted(), story.proxy.counts().cuts), (3, 2));

    // Once: the next request only.
    story.proxy.set(Mode::Pass);
    let mut connection = story.connect();
    increment(&mut connection).unwrap();
    story.proxy.set(Mode::Once(Fault::CutAfterSending));
    assert!(increment(&mut connection).is_err());
    assert_eq!(increment(&mut story.connect()).unwrap(), Reply::Integer(6));
}

#[test]
fn a_fault_that_happens_once_strikes_one_connection() {
    let Some(mut story) = begin() else { return };
    let mut struck = story.connect();
    struck.set_answer_timeout(IN_VAIN);
    story.proxy.set(Mode::Once(Fault::BlackHole(Direction::ToClient)));
    assert!(increment(&mut struck).is_err());
    story.wait_until_counted(2);
    assert_eq!(increment(&mut story.connection).unwrap(), Reply::Integer(3));
    // It stays one for as long as it lives.
    assert!(increment(&mut struck).is_err());
    story.wait_until_counted(4);
    story.proxy.set(Mode::Once(Fault::Reset));
    assert_eq!(kind(struck.receive()), Some(ErrorKind::ConnectionReset));
    assert!(increment(&mut story.connection).is_err());
    assert_eq!(story.counted(), 4);
    story.proxy.set(Mode::Once(Fault::Delay(Direction::ToClient, IN_VAIN)));
    let started = now();
    let mut connection = story.connect();
    assert_eq!(increment(&mut connection).unwrap(), Reply::Integer(5));
    assert!(started.elapsed() >= IN_VAIN);
    assert_eq!(story.proxy.counts().delays, 1);
}

#[test]
fn a_refusing_proxy_has_no_listener_and_no_connections() {
    let Some(mut story) = begin() else { return };
    story.proxy.set(Mode::Refuse);
    assert_eq!(kind(story.connection.receive()), Some(ErrorKind::ConnectionReset));
    assert_eq!(TcpStream::connect(story.proxy.address()).unwrap_err().kind(), ErrorKind::ConnectionRefused);
    story.proxy.set(Mode::Refuse);
    story.proxy.set(Mode::Pass);
    assert_eq!(increment(&mut story.connect()).unwrap(), Reply::Integer(2));
    let address = story.proxy.address();
    let mut connection = story.connect();
    increment(&mut connection).unwrap();
    drop(story.proxy);
    assert_eq!(kind(connection.receive()), Some(ErrorKind::ConnectionReset));
    assert_eq!(TcpStream::connect(address).unwrap_err().kind(), ErrorKind::ConnectionRefused);
}

#[test]
fn a_client_before_a_dead_server_is_reset_and_an_address_can_move() {
    let Some(story) = begin() else { return };
    let heir = RedisProcess::start();
    story.redis.kill();
    assert!(increment(&mut story.connect()).is_err());
    story.proxy.forward_to(heir.port());
    assert_eq!(increment(&mut story.connect()).unwrap(), Reply::Integer(1));
    assert_eq!(heir.command(&["GET", "n"]).integer(), 1);
}

#[test]
fn faults_by_chance_lose_no_request_that_was_answered() {
    let Some(story) = begin() else { return };
    let odds = Odds::seeded(5)
        .one_in(10, Fault::Reset)
        .one_in(10, Fault::CutAfterSending)
        .one_in(20, Fault::BlackHole(Direction::Both))
        .one_in(5, Fault::Delay(Direction::ToServer, Duration::from_millis(2)));
    story.proxy.set(Mode::Random(odds));
    let (mut answered, mut unanswered) = (0, 0);
    let mut connection = story.connect();
    for _request in 0..300 {
        connection.set_answer_timeout(Duration::from_millis(200));
        if increment(&mut connection).is_ok() {
            answered += 1;
        } else {
            unanswered += 1;
            connection = story.connect();
        }
    }
    let counts = story.proxy.counts();
    assert!(
        counts.resets > 0 && counts.cuts > 0 && counts.delays > 0 && counts.black_holes > 0,
        "{counts:?}"
    );
    assert!(answered > 100 && unanswered > 10, "{answered} {unanswered}");
    story.proxy.set(Mode::Pass);
    let counted = story.counted();
    assert!(counted > answered && counted <= 1 + answered + unanswered, "{counted} {answered} {unanswered}");
}

#[test]
fn a_half_closed_connection_is_passed_on_as_one() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = ChaosProxy::before(server.local_addr().unwrap().port());
    let answering = thread::spawn(move || {
        let (mut stream, _) = server.accept().unwrap();
        let mut request = String::new();
        stream.read_to_string(&mut request).unwrap();
        stream.write_all(format!("you said {request}").as_bytes()).unwrap();
    });
    let mut stream = TcpStream::connect(proxy.address()).unwrap();
    stream.write_all(b"hello").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert_eq!(answer, "you said hello");
    answering.join().unwrap();
}
