//! Serves everybody who holds a ticket, under the room's capacity, and checks that they are served in order.

use std::time::Duration;

use anteroom_testkit::native::{self, LinePlace};
use anteroom_testkit::{Client, Server, aws, now, pause};

/// How long it may take until everybody was served, places that nobody knows of included: they lapse first.
const TIMEOUT: Duration = Duration::from_mins(3);
/// How many of those in front are asked at a time: more than any capacity.
const ASKED_AT_A_TIME: usize = 200;

/// Claims whatever is offered and ends the visit at once, until each ticket was admitted. Older lines come first, and in each the
/// smaller number.
#[track_caller]
pub(crate) fn serve_everybody(servers: &[Server], room: &str, places: &[LinePlace]) {
    let mut waiting: Vec<&LinePlace> = places.iter().collect();
    waiting.sort();
    let mut ways: Vec<(Client, Client)> =
        servers.iter().map(|server| (server.visitor(), server.operator())).collect();
    let started = now();
    let mut node = 0;
    while !waiting.is_empty() {
        assert!(started.elapsed() < TIMEOUT, "{} of {} were not served", waiting.len(), places.len());
        node = (node + 1) % ways.len();
        let (public, operator) = &mut ways[node];
        let offered = offered_in_order(public, room, &waiting[..waiting.len().min(ASKED_AT_A_TIME)]);
        for place in &offered {
            let pass = native::claim(public, room, &place.ticket).expect("an answer");
            assert_eq!(pass.status, 200, "{place:?}: {pass:?}");
            let end = aws::update_session(operator, room, &place.request_id, 1).expect("an answer");
            assert_eq!(end.status, 200, "{place:?}: {end:?}");
        }
        if offered.is_empty() {
            pause();
        }
        waiting.retain(|place| !offered.contains(place));
    }
}

/// Those who may claim now, the first in front. The last are asked first: if one of them may claim, so may everybody who is asked
/// later, because they stand in front.
#[track_caller]
fn offered_in_order<'a>(public: &mut Client, room: &str, waiting: &[&'a LinePlace]) -> Vec<&'a LinePlace> {
    let mut offered: Vec<&LinePlace> = Vec::new();
    for place in waiting.iter().rev() {
        let answer = native::status(public, room, &place.ticket).expect("an answer");
        assert_eq!(answer.status, 200, "{place:?}: {answer:?}");
        match answer.json()["status"].as_str() {
            Some("active" | "admitted") => offered.push(place),
            Some("waiting") => {
                assert!(offered.is_empty(), "{:?} was served before {place:?}", offered.last());
            }
            _ => panic!("{place:?} has lost its place: {answer:?}"),
        }
    }
    offered.reverse();
    offered
}
