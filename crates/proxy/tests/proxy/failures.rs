//! Origins that fail: what is sent again and what is not, time-outs, connections that are all taken, and which origin is asked.

use std::collections::BTreeSet;
use std::io::Write;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use crate::support::{DEADLINE, Front, SHORT, WITHOUT_VISIT};
use anteroom_proxy::{HealthCheck, ProxySettings};
use anteroom_testkit::{Answer, Client, Origin, Request, Wire, now, pause, wait_until};

const HELLO: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

fn front(origin: &Origin) -> Front {
    Front::before(origin.address(), ProxySettings::default())
}

fn error_of(answer: &Answer) -> (u16, &str) {
    (answer.status, answer.header("proxy-error").unwrap_or_default())
}

/// An address at which no server listens.
fn unused_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

/// An origin that ends every connection right after the request that `ends` names; the others it answers.
fn ending(ends: fn(usize) -> bool) -> Origin {
    let requests = AtomicUsize::new(0);
    Origin::playing(move |connection| {
        while connection.read_request()?.is_some() {
            if ends(requests.fetch_add(1, Ordering::SeqCst)) {
                return connection.reset();
            }
            connection.write(HELLO.as_bytes())?;
        }
        Ok(())
    })
}

#[test]
fn an_idempotent_request_without_a_body_is_sent_once_more_when_nothing_was_answered() {
    for method in ["GET", "HEAD", "OPTIONS", "DELETE", "PUT"] {
        let origin = ending(|number| number == 0);
        let front = front(&origin);
        let answer = Client::new(front.address).send(&Request::new(method, "/")).unwrap();
        assert_eq!((answer.status, origin.requests().len()), (200, 2), "{method}");
        front.comes_to_rest();
    }
}

#[test]
fn nothing_is_sent_more_than_twice() {
    let origin = ending(|_| true);
    let front = front(&origin);
    let answer = Client::new(front.address).get("/").unwrap();
    assert_eq!((error_of(&answer), origin.requests().len()), ((502, "broken"), 2));
    let seen = front.origins.take_observations();
    assert_eq!((seen.requests, seen.errors), (2, 2));
}

#[test]
fn what_is_not_idempotent_or_has_a_body_is_never_sent_twice() {
    for request in [
        Request::new("POST", "/"),
        Request::new("PATCH", "/"),
        Request::new("UNKNOWN", "/"),
        Request::new("POST", "/").body("body"),
        Request::new("PUT", "/").body("body"),
        Request::new("GET", "/").body("body"),
    ] {
        let origin = ending(|_| true);
        let front = front(&origin);
        let answer = Client::new(front.address).send(&request).unwrap();
        assert_eq!((error_of(&answer), origin.requests().len()), ((502, "broken"), 1), "{request:?}");
    }
}

#[test]
fn one_byte_of_an_answer_is_enough_to_not_ask_again() {
    for begun in ["H", "HTTP/1.1 200 OK\r\nContent-Le", "HTTP/1.1 100 Continue\r\n\r\n"] {
        let origin = Origin::playing(move |connection| {
            connection.read_request()?;
            connection.write(begun.as_bytes())
        });
        let front = front(&origin);
        let answer = Client::new(front.address).get("/").unwrap();
        assert_eq!((error_of(&answer), origin.requests().len()), ((502, "broken"), 1), "{begun:?}");
    }
}

#[test]
fn a_connection_closed_while_idle_costs_no_request() {
    // Closes every connection after one answer, without saying so.
    let origin = Origin::playing(|connection| {
        connection.read_request()?;
        connection.write(HELLO.as_bytes())
    });
    let front = front(&origin);
    let mut client = Client::new(front.address);
    for number in 1..=20 {
        // Nothing of it was sent over the closed connection, so even a POST with a body may go over another.
        let answer = client.send(&Request::new("POST", "/").body("body")).unwrap();
        assert_eq!((answer.status, origin.requests().len()), (200, number));
        wait_until("the origin has closed", DEADLINE, || origin.open() == 0);
        // Our side hears of it a moment later.
        pause();
    }
}

#[test]
fn an_origin_that_cannot_be_reached_is_a_502_and_several_are_tried() {
    let front = Front::before_all(&[unused_address()], ProxySettings::default());
    let answer = Client::new(front.address).get("/").unwrap();
    assert_eq!(error_of(&answer), (502, "connect"));
    assert!(!answer.text().contains("127.0.0.1"), "the public does not read where the origin is: {answer:?}");
    let origin = Origin::answering(HELLO);
    let front =
        Front::before_all(&[unused_address(), origin.url(), unused_address()], ProxySettings::default());
    let mut client = Client::new(front.address);
    for _ in 0..10 {
        // Nothing was sent, so this may go to another origin too.
        let answer = client.send(&Request::new("POST", "/").body("body")).unwrap();
        // Two dead ones are one more than is tried, but only until both are known to be dead.
        assert!(answer.status == 200 || error_of(&answer) == (502, "connect"), "{answer:?}");
    }
    assert!(origin.requests().len() >= 8, "{}", origin.requests().len());
    assert_eq!(client.get("/").unwrap().status, 200);
}

#[test]
fn an_origin_that_does_not_answer_is_a_504_and_is_not_asked_again() {
    let origin = Origin::playing(|connection| {
        connection.read_request()?;
        connection.read_request().map(|_| ())
    });
    let settings = ProxySettings { response_timeout: SHORT, ..ProxySettings::default() };
    let front = Front::before(origin.address(), settings);
    let started = now();
    let answer = Client::new(front.address).get("/").unwrap();
    assert_eq!((error_of(&answer), origin.requests().len()), ((504, "response_timeout"), 1));
    assert!(started.elapsed() >= SHORT);
    front.comes_to_rest();
    assert_eq!(front.origins.view().connections, 0);
}

#[test]
fn a_connection_is_given_its_full_time_for_every_request() {
    // Each answer takes most of the time that is allowed, so what one request waited must not count for the next.
    let origin = Origin::playing(|connection| {
        while connection.read_request()?.is_some() {
            for _ in 0..12 {
                pause();
            }
            connection.write(HELLO.as_bytes())?;
        }
        Ok(())
    });
    let settings =
        ProxySettings { response_timeout: SHORT, stall_timeout: SHORT, ..ProxySettings::default() };
    let front = Front::before(origin.address(), settings);
    let mut client = Client::new(front.address);
    for _ in 0..5 {
        let answer = client.get("/").unwrap();
        // A machine that stands still may be late; what must not happen is that waits add up.
        assert!(answer.status == 200 || origin.connections() > 1, "{answer:?}");
    }
}

#[test]
fn a_client_that_stops_sending_gets_408_and_one_that_goes_on_does_not() {
    let origin = Origin::answering(HELLO);
    let settings =
        ProxySettings { stall_timeout: SHORT, response_timeout: SHORT, ..ProxySettings::default() };
    let front = Front::before(origin.address(), settings);
    let mut wire = Wire::connect(front.address, DEADLINE).unwrap();
    wire.write(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nsome").unwrap();
    let answer = wire.read_answer().unwrap().unwrap();
    assert_eq!(error_of(&answer), (408, "client_stalled"));
    // Longer than the time-out altogether, but never quiet for as long.
    let mut wire = Wire::connect(front.address, DEADLINE).unwrap();
    let count = 3 * SHORT.as_millis() / 10;
    wire.write(format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {count}\r\n\r\n").as_bytes()).unwrap();
    for _ in 0..count {
        wire.write(b"x").unwrap();
        pause();
    }
    assert_eq!(wire.read_answer().unwrap().unwrap().status, 200);
    front.comes_to_rest();
}

#[test]
fn an_origin_that_stops_reading_is_a_504() {
    let is_over = Arc::new(AtomicBool::new(false));
    let origin = Origin::playing({
        let is_over = Arc::clone(&is_over);
        move |connection| {
            connection.read_head()?;
            wait_until("the test is over", DEADLINE, || is_over.load(Ordering::SeqCst));
            Ok(())
        }
    });
    let settings =
        ProxySettings { stall_timeout: SHORT, response_timeout: SHORT, ..ProxySettings::default() };
    let front = Front::before(origin.address(), settings);
    let mut stream = front.connect();
    stream.write_all(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000000\r\n\r\n").unwrap();
    let mut reading = stream.try_clone().unwrap();
    let writing = thread::spawn(move || {
        let some = vec![0; 1_000_000];
        while stream.write_all(&some).is_ok() {}
    });
    let mut start = [0; 12];
    std::io::Read::read_exact(&mut reading, &mut start).unwrap();
    assert_eq!(&start, b"HTTP/1.1 504");
    // The other end may have been faster.
    let _ = reading.shutdown(std::net::Shutdown::Both);
    writing.join().unwrap();
    front.comes_to_rest();
    is_over.store(true, Ordering::SeqCst);
}

#[test]
fn an_answer_that_stands_still_is_broken_off_and_one_that_moves_is_not() {
    let origin = Origin::playing(|connection| {
        while let Some(request) = connection.read_request()? {
            connection.write(b"HTTP/1.1 200 OK\r\nContent-Length: 60\r\n\r\n")?;
            let count = if request.target == "/whole" { 60 } else { 3 };
            for _ in 0..count {
                connection.write(b"x")?;
                pause();
            }
        }
        Ok(())
    });
    let settings = ProxySettings { stall_timeout: SHORT, ..ProxySettings::default() };
    let front = Front::before(origin.address(), settings);
    assert_eq!(Client::new(front.address).get("/whole").unwrap().body.len(), 60);
    assert!(Client::new(front.address).get("/part").is_err());
    front.comes_to_rest();
    assert_eq!(front.origins.view().connections, 0);
}

/// An origin that answers a request when it may.
fn on_command() -> (Origin, Arc<AtomicBool>) {
    let may_answer = Arc::new(AtomicBool::new(false));
    let origin = Origin::playing({
        let may_answer = Arc::clone(&may_answer);
        move |connection| {
            while connection.read_request()?.is_some() {
                wait_until("it may answer", DEADLINE, || may_answer.load(Ordering::SeqCst));
                connection.write(HELLO.as_bytes())?;
            }
            Ok(())
        }
    });
    (origin, may_answer)
}

#[test]
fn an_origin_never_gets_more_connections_than_it_may_have_and_waiting_requests_are_served() {
    let (origin, may_answer) = on_command();
    let settings =
        ProxySettings { connections_max: 3, connection_wait: DEADLINE, ..ProxySettings::default() };
    let front = Front::before(origin.address(), settings);
    let address = front.address;
    let clients: Vec<_> =
        (0..40).map(|_| thread::spawn(move || Client::new(address).get("/").unwrap().status)).collect();
    wait_until("three are at the origin", DEADLINE, || origin.requests().len() == 3);
    may_answer.store(true, Ordering::SeqCst);
    for client in clients {
        assert_eq!(client.join().unwrap(), 200);
    }
    assert_eq!((origin.open_most(), origin.connections(), origin.requests().len()), (3, 3, 40));
    front.comes_to_rest();
}

#[test]
fn a_request_that_waits_too_long_for_a_connection_gets_503_and_leaves_nothing_behind() {
    let (origin, may_answer) = on_command();
    let settings = ProxySettings { connections_max: 2, connection_wait: SHORT, ..ProxySettings::default() };
    let front = Front::before(origin.address(), settings);
    let address = front.address;
    let first: Vec<_> =
        (0..2).map(|_| thread::spawn(move || Client::new(address).get("/").unwrap().status)).collect();
    wait_until("two are at the origin", DEADLINE, || origin.requests().len() == 2);
    for _ in 0..3 {
        assert_eq!(error_of(&Client::new(address).get("/").unwrap()), (503, "busy"));
    }
    may_answer.store(true, Ordering::SeqCst);
    assert!(first.into_iter().all(|client| client.join().unwrap() == 200));
    for _ in 0..3 {
        assert_eq!(Client::new(address).get("/").unwrap().status, 200);
    }
    assert_eq!(origin.requests().len(), 5);
    front.comes_to_rest();
}

#[test]
fn a_client_that_leaves_while_it_waits_takes_no_connection_with_it() {
    let (origin, may_answer) = on_command();
    let settings =
        ProxySettings { connections_max: 1, connection_wait: DEADLINE, ..ProxySettings::default() };
    let front = Front::before(origin.address(), settings);
    let mut first = front.connect();
    first.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    wait_until("it is at the origin", DEADLINE, || origin.requests().len() == 1);
    for _ in 0..20 {
        let mut waiting = front.connect();
        waiting.write_all(b"GET /waiting HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    }
    may_answer.store(true, Ordering::SeqCst);
    assert_eq!(Client::new(front.address).get("/last").unwrap().status, 200);
    front.comes_to_rest();
    assert_eq!(origin.open_most(), 1);
}

#[test]
fn idle_connections_are_closed() {
    let origin = Origin::answering(HELLO);
    let settings = ProxySettings { idle_timeout: SHORT, ..ProxySettings::default() };
    let front = Front::before(origin.address(), settings);
    assert_eq!(Client::new(front.address).get("/").unwrap().status, 200);
    wait_until("the origin's end is closed", DEADLINE, || origin.open() == 0);
    assert_eq!(front.origins.view().connections, 0);
    assert_eq!(Client::new(front.address).get("/").unwrap().status, 200);
    assert_eq!(origin.connections(), 2);
}

#[test]
fn the_origin_with_the_fewest_requests_is_asked() {
    let (slow, may_answer) = on_command();
    let quick = Origin::answering(HELLO);
    let front = Front::before_all(&[slow.url(), quick.url()], ProxySettings::default());
    let address = front.address;
    // Until one is stuck at the slow one.
    let mut stuck = vec![];
    while slow.requests().is_empty() {
        let mut stream = front.connect();
        stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        stuck.push(stream);
        wait_until("it has arrived", DEADLINE, || {
            slow.requests().len() + quick.requests().len() == stuck.len()
        });
    }
    wait_until("the quick one has answered", DEADLINE, || front.origins.view().in_flight == 1);
    let before = quick.requests().len();
    for _ in 0..20 {
        assert_eq!(Client::new(address).get("/").unwrap().status, 200);
    }
    assert_eq!((slow.requests().len(), quick.requests().len()), (1, before + 20));
    may_answer.store(true, Ordering::SeqCst);
    front.comes_to_rest();
}

#[test]
fn equals_take_turns() {
    let origins: Vec<Origin> = (0..3).map(|_| Origin::answering(HELLO)).collect();
    let urls: Vec<String> = origins.iter().map(Origin::url).collect();
    let front = Front::before_all(&urls, ProxySettings::default());
    let mut client = Client::new(front.address);
    for _ in 0..30 {
        assert_eq!(client.get("/").unwrap().status, 200);
    }
    let shares: BTreeSet<usize> = origins.iter().map(|origin| origin.requests().len()).collect();
    assert_eq!(shares, BTreeSet::from([10]));
}

#[test]
fn an_ill_origin_gets_no_requests_until_it_is_well_again() {
    let is_well = Arc::new(AtomicBool::new(true));
    let ill = Origin::playing({
        let is_well = Arc::clone(&is_well);
        move |connection| {
            while let Some(request) = connection.read_request()? {
                let is_good = request.target != "/health?deep" || is_well.load(Ordering::SeqCst);
                let status = if is_good { "200 OK" } else { "500 Oh" };
                connection.write(format!("HTTP/1.1 {status}\r\nContent-Length: 3\r\n\r\nill").as_bytes())?;
            }
            Ok(())
        }
    });
    let well = Origin::answering(HELLO);
    let check = HealthCheck {
        interval: Duration::from_millis(10),
        timeout: Duration::from_secs(5),
        ..HealthCheck::new("/health?deep".parse().unwrap())
    };
    let settings = ProxySettings { health: Some(check), ..ProxySettings::default() };
    let front = Front::before_all(&[ill.url(), well.url()], settings);
    let healthy = || front.origins.view().healthy;
    let answers = || -> BTreeSet<String> {
        let mut client = Client::new(front.address);
        (0..10).map(|_| client.get("/").unwrap().text()).collect()
    };
    assert_eq!(answers().len(), 2);
    is_well.store(false, Ordering::SeqCst);
    wait_until("it is known to be ill", DEADLINE, || healthy() == 1);
    assert_eq!(answers(), BTreeSet::from(["hello".to_owned()]));
    is_well.store(true, Ordering::SeqCst);
    wait_until("it is well again", DEADLINE, || healthy() == 2);
    assert_eq!(answers().len(), 2);
    let asked = ill.requests().into_iter().find(|request| request.target == "/health?deep").unwrap();
    assert_eq!((asked.method.as_str(), asked.header("connection")), ("GET", Some("close")));
}

#[test]
fn where_all_are_ill_they_are_asked_all_the_same() {
    let origin = Origin::playing(|connection| {
        while let Some(request) = connection.read_request()? {
            let status = if request.target == "/health" { "404 Not Found" } else { "200 OK" };
            connection.write(format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n").as_bytes())?;
        }
        Ok(())
    });
    let check =
        HealthCheck { interval: Duration::from_millis(10), ..HealthCheck::new("/health".parse().unwrap()) };
    let settings = ProxySettings { health: Some(check), ..ProxySettings::default() };
    let front = Front::before(origin.address(), settings);
    wait_until("it is known to be ill", DEADLINE, || front.origins.view().healthy == 0);
    assert_eq!(Client::new(front.address).get("/").unwrap().status, 200);
}

#[test]
fn what_is_observed_is_what_happened() {
    let origin = Origin::playing(|connection| {
        while let Some(request) = connection.read_request()? {
            let status = match request.target.as_str() {
                "/bad" => "503 No",
                "/unknown" => "501 No",
                _ => "200 OK",
            };
            connection.write(format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n").as_bytes())?;
        }
        Ok(())
    });
    let front = front(&origin);
    let mut client = Client::new(front.address);
    for target in ["/", "/bad", "/", "/bad", "/"] {
        client.get(target).unwrap();
    }
    // A client's mistake is none of the origin's.
    client.send(&Request::new("TRACE", "/")).unwrap();
    assert_eq!(client.get("/unknown").unwrap().status, 501);
    // Those who are not inside must not decide how many are let in.
    for _ in 0..20 {
        let request = Request::new("GET", "/bad").header(WITHOUT_VISIT, "1");
        assert_eq!(client.send(&request).unwrap().status, 503);
    }
    let seen = front.origins.take_observations();
    assert_eq!((seen.requests, seen.errors, seen.in_flight), (6, 2, 0));
    assert!(seen.latency_p95.is_some());
    assert_eq!(front.origins.take_observations().requests, 0);
}
