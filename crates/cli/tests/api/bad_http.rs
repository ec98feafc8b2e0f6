//! "Oversized headers …: clear 4xx or a closed connection, never 5xx, nothing changed": what is not good HTTP, or too much
//! of it.

use anteroom_testkit::{Client, Request, aws};

use crate::busy_room::{Scene, assert_refused};

/// `request_body_max_bytes` of the server under test.
const BODY_MAX_BYTES: usize = 8 * 1024;

#[test]
fn oversized_bodies_are_refused() {
    let mut scene = Scene::start(&format!("request_body_max_bytes = {BODY_MAX_BYTES}"));
    let id = scene.served().to_owned();
    let padding = "x".repeat(BODY_MAX_BYTES);
    let body = format!(
        "{{\"event_id\": \"Busy\", \"request_id\": \"{id}\", \"status\": 1, \"increment_by\": 5, \"padding\": \"{padding}\"}}"
    );
    let posts = |routes: &'static [(&str, &str)]| routes.iter().filter(|(method, _)| *method == "POST");
    for (_, path) in posts(&aws::PUBLIC_ROUTES) {
        let answer = scene.line.public.send(&Request::new("POST", path).body(body.clone())).unwrap();
        assert_refused(&answer, &[413], path);
    }
    for (_, path) in posts(&aws::PRIVATE_ROUTES) {
        let answer = scene.line.operator.send(&Request::new("POST", path).body(body.clone())).unwrap();
        assert_refused(&answer, &[413], path);
    }
    // Without a length, and by a length that promises far more than will be read.
    let chunk = format!("{:x}\r\n{body}\r\n", body.len());
    let chunked = format!(
        "POST /assign_queue_num HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n{chunk}0\r\n\r\n"
    );
    let announced = "POST /assign_queue_num HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n{}";
    for raw in [chunked.as_str(), announced] {
        let answer = scene.line.public.send_raw(raw.as_bytes()).unwrap();
        assert!(answer.as_ref().is_none_or(|answer| answer.status == 413), "{answer:?}");
    }
    // The largest body that is allowed still is.
    let frame = "{\"event_id\": \"Other\", \"padding\": \"\"}".len();
    let largest =
        format!("{{\"event_id\": \"Other\", \"padding\": \"{}\"}}", "x".repeat(BODY_MAX_BYTES - frame));
    assert_eq!(largest.len(), BODY_MAX_BYTES);
    let answer = scene.line.public.send(&Request::new("POST", "/assign_queue_num").body(largest)).unwrap();
    assert_refused(&answer, &[400], "the largest allowed body, for another event");
    scene.assert_nothing_changed();
}

/// Requests that are not good HTTP, the shortest first.
fn garbage() -> Vec<Vec<u8>> {
    let body = "{\"event_id\": \"Busy\"}";
    let assign = "POST /assign_queue_num HTTP/1.1\r\nHost: x\r\n";
    vec![
        b"\r\n\r\n\r\nnot http at all\r\n\r\n".to_vec(),
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n".to_vec(),
        vec![0; 4096],
        vec![0xff; 100_000],
        b"GET\r\n\r\n".to_vec(),
        b"GET /serving_num?event_id=Busy\r\n\r\n".to_vec(),
        b"GET /serving_num?event_id=Busy HTTP/9.9\r\nHost: x\r\n\r\n".to_vec(),
        b"GET /serving_num?event_id=Bu\x00sy HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(),
        b"G\x00T / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(),
        b"GET / HTTP/1.1\r\nHost : x\r\n\r\n".to_vec(),
        b"GET / HTTP/1.1\r\nHost: x\r\nBad Header: y\r\n\r\n".to_vec(),
        b"GET / HTTP/1.1\r\nHost: x\r\nNo-Colon\r\n\r\n".to_vec(),
        b"GET / HTTP/1.1\r\nHost: x\r\nA: \x00\r\n\r\n".to_vec(),
        b"CONNECT example.test:443 HTTP/1.1\r\nHost: example.test:443\r\n\r\n".to_vec(),
        b"GET nonsense HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(),
        format!("{assign}Content-Length: -1\r\n\r\n{body}").into_bytes(),
        format!("{assign}Content-Length: 0x14\r\n\r\n{body}").into_bytes(),
        format!("{assign}Content-Length: 99999999999999999999999\r\n\r\n{body}").into_bytes(),
        format!("{assign}Content-Length: 20\r\nContent-Length: 3\r\n\r\n{body}").into_bytes(),
        format!("{assign}Transfer-Encoding: chunked\r\n\r\nzz\r\n{body}\r\n0\r\n\r\n").into_bytes(),
        format!("{assign}Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n{body}\r\n").into_bytes(),
        format!("{assign}Transfer-Encoding: gzip\r\n\r\n{body}").into_bytes(),
    ]
}

/// Heads that are far larger than any browser's.
fn oversized_heads() -> Vec<Vec<u8>> {
    let long = "a".repeat(1024 * 1024);
    let many: Vec<String> = (0..5000).map(|number| format!("X-{number}: y\r\n")).collect();
    let heads = [
        format!("GET /{long} HTTP/1.1\r\nHost: x\r\n\r\n"),
        format!("GET /serving_num?event_id={long} HTTP/1.1\r\nHost: x\r\n\r\n"),
        format!("GET /serving_num?event_id=Busy HTTP/1.1\r\nHost: x\r\nX: {long}\r\n\r\n"),
        format!("GET /serving_num?event_id=Busy HTTP/1.1\r\nHost: x\r\n{}\r\n", many.concat()),
        format!("{long} / HTTP/1.1\r\nHost: x\r\n\r\n"),
    ];
    heads.map(String::into_bytes).to_vec()
}

#[test]
fn http_garbage_and_oversized_heads_get_a_4xx_or_a_closed_connection() {
    let scene = Scene::start("");
    for address in [scene.server.public(), scene.server.private()] {
        let client = Client::new(address);
        for raw in garbage().iter().chain(&oversized_heads()) {
            let shown = String::from_utf8_lossy(&raw[..raw.len().min(120)]);
            let answer = client.send_raw(raw).unwrap_or_else(|error| panic!("{shown:?}: {error:#}"));
            if let Some(answer) = answer {
                assert!((400..500).contains(&answer.status), "{shown:?}: {answer:?}");
            }
        }
    }
    scene.assert_nothing_changed();
}
