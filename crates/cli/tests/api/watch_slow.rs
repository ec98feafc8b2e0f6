//! Clients of `/watch` that do not read: each is closed, nobody else notices, and the server holds nothing for them.

use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anteroom_testkit::{Server, SetOnDrop, wait_until};
use socket2::{Domain, Socket, Type};

use crate::support::BINARY;
use crate::support::metrics::{metric, wait_for_metric};
use crate::support::watch::{DEADLINE, Watcher, streams};

const SLOW_READERS: usize = 50;
/// More than the server needs for anything but what it might keep for slow readers.
const GROWTH_MAX_KB: i64 = 8 * 1024;

/// A client whose kernel takes next to nothing for it, and that takes nothing from its kernel.
fn slow_reader(server: &Server) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket.set_recv_buffer_size(1).expect("the smallest buffer there is");
    socket.connect(&server.public().into()).expect("the server accepts");
    let mut stream = TcpStream::from(socket);
    let request = b"GET /watch?room=Hall HTTP/1.1\r\nHost: a\r\n\r\n";
    stream.write_all(request).expect("the request can be sent");
    stream
}

fn resident_kb(server: &Server) -> i64 {
    let status = fs::read_to_string(format!("/proc/{}/status", server.process_id())).expect("a process");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("a resident size");
    line.split_whitespace().nth(1).and_then(|figure| figure.parse().ok()).expect("a figure")
}

#[test]
fn slow_readers_are_dropped_while_the_others_go_on_and_nothing_piles_up() {
    let config = "watch_interval_milliseconds = 10\n[[room]]\nid = \"Hall\"\n";
    let server = Server::builder(BINARY).config(config).memory().start().unwrap();
    let mut eager = Watcher::open(&server, "Hall");
    eager.next_board();
    let mut line = server.line("Hall");
    let before = resident_kb(&server);
    let slow: Vec<TcpStream> = (0..SLOW_READERS).map(|_| slow_reader(&server)).collect();
    wait_for_metric(&server, &streams("taken"), |open| open == 51);

    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut last = 0;
            while !over.load(Ordering::SeqCst) {
                last = eager.next_board().board()["serving"].as_i64().unwrap();
            }
            last
        });
        let end = SetOnDrop(&over);
        let all = SLOW_READERS as u64;
        wait_until("every slow reader is dropped", DEADLINE * 2, || {
            line.advance(1);
            metric(&server, "anteroom_watch_slow_readers_total") >= all
        });
        assert_eq!(metric(&server, "anteroom_watch_slow_readers_total"), all);
        assert_eq!(metric(&server, &streams("taken")), 1);
        drop(end);
        // One more event, so that the reader sees that it is over.
        let serving = line.advance(1);
        let last = reader.join().expect("the eager reader got every board it waited for");
        assert!(last > 0 && last <= serving, "{last} of {serving}");
    });
    let grown = resident_kb(&server) - before;
    assert!(grown < GROWTH_MAX_KB, "{grown} kB more with {SLOW_READERS} slow readers");
    drop(slow);
}
