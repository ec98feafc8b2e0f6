//! Streams far larger than what the process may hold, both ways.

use std::io::{Read, Write};
use std::thread;

use crate::support::Front;
use anteroom_proxy::ProxySettings;
use anteroom_testkit::{Origin, full};

/// What a stream is written and read in, in bytes.
const PIECE: usize = 64 * 1024;
/// How much more memory a stream may take than a few requests do, the test's own client and origin included, in bytes.
const GROWTH_MAX: u64 = 24 * 1024 * 1024;

/// How long a stream is, in bytes.
fn size() -> usize {
    if full() { 2 * 1024 * 1024 * 1024 } else { 256 * 1024 * 1024 }
}

/// The most memory this process has ever held, in bytes.
fn most_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

/// An origin that reads what it is sent, and sends as much as its path says.
fn streaming() -> Origin {
    Origin::playing(|connection| {
        connection.keep_nothing();
        while let Some(request) = connection.read_head()? {
            let mut left: usize =
                request.header("content-length").map_or(0, |length| length.parse().unwrap());
            while left > 0 {
                let piece = connection.read_bytes(left.min(PIECE))?;
                assert!(piece.iter().all(|byte| *byte == b'u'));
                left -= piece.len();
            }
            let mut left: usize = request.target[1..].parse().unwrap();
            connection.write(format!("HTTP/1.1 200 OK\r\nContent-Length: {left}\r\n\r\n").as_bytes())?;
            let piece = vec![b'd'; PIECE];
            while left > 0 {
                let some = left.min(PIECE);
                connection.write(&piece[..some])?;
                left -= some;
            }
        }
        Ok(())
    })
}

/// Sends `up` bytes, reads `down` bytes.
fn transfer(front: &Front, up: usize, down: usize) {
    let mut stream = front.connect();
    let head =
        format!("POST /{down} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {up}\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let piece = vec![b'u'; PIECE];
    let mut left = up;
    while left > 0 {
        let some = left.min(PIECE);
        stream.write_all(&piece[..some]).unwrap();
        left -= some;
    }
    let mut buffer = vec![0; PIECE];
    let mut bytes_of_body = 0;
    let mut is_in_head = true;
    loop {
        let count = stream.read(&mut buffer).unwrap();
        if count == 0 {
            break;
        }
        let mut read = &buffer[..count];
        if is_in_head {
            // The head is short and comes in one piece.
            let end = read.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
            assert!(read.starts_with(b"HTTP/1.1 200"));
            read = &read[end..];
            is_in_head = false;
        }
        assert!(read.iter().all(|byte| *byte == b'd'));
        bytes_of_body += read.len();
    }
    assert_eq!(bytes_of_body, down);
}

#[test]
fn a_stream_of_any_length_takes_the_memory_of_a_short_one() {
    let origin = streaming();
    let front = Front::before(origin.address(), ProxySettings::default());
    transfer(&front, 4 * 1024 * 1024, 4 * 1024 * 1024);
    let before = most_memory();
    thread::scope(|scope| {
        scope.spawn(|| transfer(&front, size(), 1));
        scope.spawn(|| transfer(&front, 0, size()));
    });
    let growth = most_memory() - before;
    println!("{} bytes each way, {growth} bytes more memory", size());
    assert!(growth < GROWTH_MAX, "{growth} bytes");
    front.comes_to_rest();
}

#[test]
fn what_a_client_does_not_read_is_not_buffered() {
    let origin = streaming();
    let front = Front::before(origin.address(), ProxySettings::default());
    transfer(&front, 0, 4 * 1024 * 1024);
    let before = most_memory();
    let mut streams: Vec<_> = (0..8)
        .map(|_| {
            let mut stream = front.connect();
            stream.write_all(format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", size()).as_bytes()).unwrap();
            stream
        })
        .collect();
    for stream in &mut streams {
        stream.read_exact(&mut [0; 1]).unwrap();
    }
    // Others go on meanwhile.
    transfer(&front, 0, size() / 4);
    let growth = most_memory() - before;
    assert!(growth < GROWTH_MAX, "{growth} bytes");
    drop(streams);
    front.comes_to_rest();
}
