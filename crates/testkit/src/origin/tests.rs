use super::*;

/// Sends bytes to an origin that answers everything, and returns what it makes of them.
fn parse(bytes: &[u8]) -> (Vec<ReceivedRequest>, Vec<String>) {
    let origin = Origin::answering("HTTP/1.1 204 No Content\r\n\r\n");
    let mut stream = TcpStream::connect(origin.address()).unwrap();
    stream.write_all(bytes).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    io::copy(&mut stream, &mut io::sink()).unwrap();
    assert_eq!(origin.bytes_of(0), bytes);
    (origin.requests(), origin.faults())
}

#[test]
fn it_reads_bodies_and_keeps_every_byte() {
    let (requests, faults) = parse(
        b"POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc\
          POST /b HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\nSum: 3\r\n\r\n",
    );
    assert!(faults.is_empty(), "{faults:?}");
    assert_eq!(requests.len(), 2);
    assert!(requests.iter().all(|request| request.body == b"abc" && request.connection == 0));
    assert_eq!(requests[1].trailers, [("Sum".to_owned(), "3".to_owned())]);
}

#[test]
fn what_could_be_read_in_two_ways_is_a_fault() {
    for head in [
        "GET /a HTTP/1.1\r\n\r\n",
        "GET /a HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        "GET a HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /a b HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /a HTTP/1.1\r\nHost: a\nB: c\r\n\r\n",
        "GET /a HTTP/1.1\r\nHost: a\r\n b\r\n\r\n",
        "GET /a HTTP/1.1\r\nHost: a\r\nB : c\r\n\r\n",
        "GET /a HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nContent-Length: 0\r\n\r\n",
        "GET /a HTTP/1.1\r\nHost: a\r\nContent-Length: +0\r\n\r\n",
        "GET /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n0\r\n\r\n",
        "GET /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    ] {
        let (_, faults) = parse(head.as_bytes());
        assert!(!faults.is_empty(), "{head:?}");
    }
}
