//! Reads boards all the time: the frontier does not move back, on no node and in no line.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use anteroom_testkit::{Client, native, pause};

/// How often the board is read at least.
const READS_MIN: usize = 10;

/// Reads the board of a room on one node until the test is over. Panics if the frontier was seen to move back.
pub(crate) fn watch_the_frontier(node: SocketAddr, room: &str, is_over: &AtomicBool) {
    let mut client = Client::new(node);
    let (mut highest, mut by_line, mut reads) = (0, BTreeMap::new(), 0);
    while !is_over.load(Ordering::SeqCst) || reads < READS_MIN {
        pause();
        // Boards can be read whatever becomes of the store.
        let answer = native::board(&mut client, room).expect("an answer");
        assert_eq!(answer.status, 200, "{answer:?}");
        let board = answer.json();
        let serving = board["serving"].as_u64().unwrap_or_else(|| panic!("no frontier: {board}"));
        assert!(serving >= highest, "the frontier was at {highest}: {board}");
        highest = serving;
        for line in board["generations"].as_array().into_iter().flatten() {
            let numbers = ["generation", "serving"].map(|name| line[name].as_u64());
            let [Some(generation), Some(serving)] = numbers else { panic!("not a line: {board}") };
            let before = by_line.insert(generation, serving).unwrap_or(0);
            assert!(serving >= before, "the frontier of line {generation} was at {before}: {board}");
        }
        reads += 1;
    }
}
