//! What other tests take for granted about the kit's Redis processes.

use std::panic;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anteroom_testkit::redis::{AppendOnly, Connection, RedisProcess, Reply};
use anteroom_testkit::{ChaosProxy, Fault, Mode, require_redis, wait_until};

const DEADLINE: Duration = Duration::from_secs(30);

fn ok() -> Reply {
    Reply::Status("OK".to_owned())
}

fn get(redis: &RedisProcess, key: &str) -> Reply {
    redis.command(&["GET", key])
}

#[test]
fn a_process_answers_and_its_url_names_its_port() {
    if !require_redis() {
        return;
    }
    let (first, second) = (RedisProcess::start(), RedisProcess::start());
    assert_eq!(first.url(), format!("redis://127.0.0.1:{}", first.port()));
    assert_ne!(first.port(), second.port());
    assert_eq!(first.command(&["SET", "key", "value"]), ok());
    assert_eq!(get(&first, "key").text(), "value");
    assert_eq!(get(&second, "key"), Reply::Nil);
    assert_eq!(first.command(&["INCR", "n"]).integer(), 1);
    assert!(first.command(&["INCR", "key"]).is_error("ERR"));
    assert_eq!(first.command(&["MGET", "key", "none"]).array(), [Reply::Bulk(b"value".into()), Reply::Nil]);
    assert!(first.log().contains("Ready to accept connections"), "{}", first.log());
}

#[test]
fn what_was_kept_survives_a_kill_and_what_was_not_is_gone() {
    if !require_redis() {
        return;
    }
    for (append_only, survives) in
        [(AppendOnly::Off, false), (AppendOnly::EverySecond, true), (AppendOnly::Always, true)]
    {
        let redis = RedisProcess::builder().append_only(append_only).start();
        let (port, process_id) = (redis.port(), redis.process_id());
        redis.command(&["SET", "key", "value"]).no_error();
        redis.kill();
        assert!(!redis.is_started() && redis.try_command(&["PING"]).is_err());
        redis.start_again();
        assert_eq!(redis.port(), port);
        assert_ne!(redis.process_id(), process_id);
        assert_eq!(get(&redis, "key") != Reply::Nil, survives, "{append_only:?}");
        redis.stop();
        redis.start_again();
        assert_eq!(get(&redis, "key") != Reply::Nil, survives, "{append_only:?}");
    }
}

#[test]
fn a_paused_process_answers_nothing_until_it_goes_on() {
    if !require_redis() {
        return;
    }
    let redis = RedisProcess::start();
    let mut connection = redis.connect().unwrap();
    redis.pause();
    connection.set_answer_timeout(Duration::from_millis(200));
    assert!(connection.command(&["INCR", "n"]).is_err());
    redis.resume();
    // It was only late.
    connection.set_answer_timeout(DEADLINE);
    assert_eq!(connection.receive().unwrap(), Reply::Integer(1));
    redis.pause();
    redis.stop();
    redis.start_again();
    redis.pause();
    redis.kill();
}

#[test]
fn a_process_ends_when_its_test_panics() {
    if !require_redis() {
        return;
    }
    let redis = RedisProcess::start();
    let (process_id, directory) = (redis.process_id(), redis.directory().to_path_buf());
    let panicked = panic::catch_unwind(panic::AssertUnwindSafe(move || {
        redis.pause();
        panic!("for the test: {}", redis.port());
    }));
    assert!(panicked.is_err());
    assert!(!Path::new(&format!("/proc/{process_id}")).exists());
    assert!(!directory.exists());
}

#[test]
fn passwords_and_users_are_asked_for() {
    if !require_redis() {
        return;
    }
    let redis = RedisProcess::builder()
        .password("open123")
        .user("reader", "secret123", "~shown:* +get")
        .setting("maxmemory-policy", "noeviction")
        .start();
    let port = redis.port();
    assert_eq!(redis.url(), format!("redis://:open123@127.0.0.1:{port}"));
    assert_eq!(redis.url_as("reader"), format!("redis://reader:secret123@127.0.0.1:{port}"));
    redis.command(&["SET", "shown:key", "value"]).no_error();
    let mut connection = Connection::open(port).unwrap();
    assert!(connection.command(&["GET", "shown:key"]).unwrap().is_error("NOAUTH"));
    assert_eq!(connection.command(&["AUTH", "reader", "secret123"]).unwrap(), ok());
    assert_eq!(connection.command(&["GET", "shown:key"]).unwrap().text(), "value");
    assert!(connection.command(&["GET", "key"]).unwrap().is_error("NOPERM"));
    assert!(connection.command(&["SET", "shown:key", "other"]).unwrap().is_error("NOPERM"));
}

#[test]
fn tls_is_spoken_on_a_port_of_its_own() {
    if !require_redis() {
        return;
    }
    let redis = RedisProcess::builder().tls().password("open123").start();
    assert_eq!(redis.url(), format!("rediss://:open123@127.0.0.1:{}", redis.tls_port()));
    let asked = Command::new("redis-cli")
        .args(["-h", "127.0.0.1", "-p", &redis.tls_port().to_string(), "--no-auth-warning", "-a", "open123"])
        .args(["--tls", "--cacert", redis.certificate_file().to_str().unwrap(), "PING"])
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&asked.stdout).trim(), "PONG", "{asked:?}");
    // In clear text it says nothing there that this client understands.
    assert!(Connection::open(redis.tls_port()).and_then(|mut tls| tls.command(&["PING"])).is_err());
}

#[test]
fn a_replica_follows_is_cut_off_and_is_promoted_with_what_it_has() {
    if !require_redis() {
        return;
    }
    let primary = RedisProcess::builder().password("open123").start();
    let replica = RedisProcess::builder().password("open123").start();
    let link = ChaosProxy::before(primary.port());
    primary.command(&["SET", "n", "100"]).no_error();
    replica.replica_of(link.port());
    replica.wait_until_in_sync(&primary);
    assert_eq!(get(&replica, "n").integer(), 100);
    assert!(primary.is_primary() && !replica.is_primary());
    assert!(replica.command(&["INCR", "n"]).is_error("READONLY"));

    // The primary's answer no longer depends on the replica having heard of it.
    let mut connection = primary.connect().unwrap();
    connection.command(&["INCR", "n"]).unwrap().no_error();
    assert_eq!(connection.command(&["WAIT", "1", "10000"]).unwrap(), Reply::Integer(1));
    link.set(Mode::Always(Fault::BlackHole(anteroom_testkit::Direction::Both)));
    assert_eq!(connection.command(&["INCR", "n"]).unwrap(), Reply::Integer(102));
    assert_eq!(connection.command(&["WAIT", "1", "100"]).unwrap(), Reply::Integer(0));

    // Two primaries, each with a history of its own: the duplicate that the store must not hand out.
    let history = primary.information("replication")["master_replid"].clone();
    replica.promote();
    assert_eq!(replica.command(&["INCR", "n"]), Reply::Integer(102));
    assert!(primary.is_primary());
    assert_ne!(replica.information("replication")["master_replid"], history);
    assert_eq!(replica.information("replication")["master_replid2"], history);

    // The old primary comes back as a replica of the new one and forgets what only it knew.
    primary.replica_of(replica.port());
    primary.wait_until_in_sync(&replica);
    assert_eq!(get(&primary, "n").integer(), 102);
    replica.command(&["SET", "n", "200"]).no_error();
    primary.wait_until_in_sync(&replica);
    assert_eq!(get(&primary, "n").integer(), 200);
}

#[test]
fn a_replica_without_persistence_comes_back_empty() {
    if !require_redis() {
        return;
    }
    let (primary, replica) = (RedisProcess::start(), RedisProcess::start());
    primary.command(&["SET", "key", "value"]).no_error();
    replica.replica_of(primary.port());
    replica.wait_until_in_sync(&primary);
    replica.kill();
    replica.start_again();
    assert!(replica.is_primary());
    assert_eq!(replica.command(&["DBSIZE"]), Reply::Integer(0));
}

#[test]
fn a_subscription_hears_what_is_published() {
    if !require_redis() {
        return;
    }
    let redis = RedisProcess::start();
    let mut subscription = redis.connect().unwrap();
    assert_eq!(subscription.command(&["SUBSCRIBE", "news"]).unwrap().array()[2], Reply::Integer(1));
    wait_until("the subscription is heard", DEADLINE, || {
        redis.command(&["PUBLISH", "news", "hello"]).integer() == 1
    });
    assert_eq!(subscription.receive().unwrap().array()[2].text(), "hello");
}
