use anteroom_core::{Generation, RequestId};

use super::*;

const GENERATION: Generation = Generation { opened: 91_000_000, incarnation: 7 };

fn visit() -> SessionKey {
    SessionKey { generation: GENERATION, position: Position::new(4_211).unwrap() }
}

/// One event of every kind, those with choices in more than one form.
fn one_of_each() -> Vec<Event> {
    let request_id = RequestId([7; 16]);
    let by = Some("night shift".to_owned());
    let figures = RoomFigures {
        num_active_tokens: 1,
        total_num_tokens: 200,
        queue_counter: 30_000,
        serving_number: u64::MAX,
        completed_sessions: 0,
        abandoned_sessions: 128,
    };
    let mut events = vec![
        Event::TokenGenerated { request_id, visit: visit() },
        Event::SessionUpdated { request_id, visit: visit(), outcome: Outcome::Completed },
        Event::SessionUpdated { request_id, visit: visit(), outcome: Outcome::Abandoned },
        Event::AutomaticServingCounterIncrease { previous: 1, current: u64::MAX },
        Event::WaitingRoomMetrics(figures),
        Event::RoomCreated,
        Event::RoomReset {
            before: GENERATION,
            generation: Generation { incarnation: 8, ..GENERATION },
            waiting: 10,
            active: 3,
            by: by.clone(),
        },
        Event::RoomDeleted { by: String::new() },
        Event::SettingsChanged { names: vec!["inlet".into(), "total_active_users".into()], by: None },
        Event::CapacityReached { capacity: 500, held: 501, waiting: 12_000 },
        Event::CapacityFree { capacity: 500, held: 0 },
        Event::LineEmpty { joined: 1 << 39 },
        Event::LineMended { generation: GENERATION, sessions_lost: true },
        Event::OffersLapsed { generation: GENERATION, up_to: 9, count: 2 },
        Event::SessionBegun { visit: visit() },
        Event::AlarmChanged { name: "Load".into(), fires: true, summary: "busy: 30 %".into() },
        Event::AlarmChanged { name: "Load".into(), fires: false, summary: String::new() },
        Event::KeyChanged { name: "k".into(), role: "viewer".into(), revoked: false, by: "a".into() },
        Event::KeyChanged { name: "k".into(), role: "viewer".into(), revoked: true, by: "a".into() },
        Event::StoreLost { node: u128::MAX },
        Event::StoreRecovered { node: 1, lost_at: UnixMillis(u64::MAX) },
        Event::DestinationLagging { name: "shop".into(), behind: 80_000 },
        Event::DestinationDisabled { name: "shop".into(), reason: "answered 410".into() },
        Event::DestinationTest { name: "shop".into() },
    ];
    events.extend(RoomState::ALL.map(|state| Event::StateChanged { state, by: by.clone() }));
    for cause in [EndCause::Expired, EndCause::Ended(Outcome::Completed), EndCause::Ended(Outcome::Abandoned)]
    {
        events.push(Event::SessionEnded { visit: visit(), cause });
    }
    for reason in Standstill::ALL {
        events.extend([Event::InletHeld { reason }, Event::InletReleased { reason }]);
    }
    events
}

#[test]
fn every_kind_of_event_reads_back_as_it_was_written() {
    let events = one_of_each();
    for kind in EventKind::ALL {
        assert!(events.iter().any(|event| event.kind() == *kind), "no event of the kind {kind}");
    }
    for (index, event) in (0..).zip(events) {
        let id = EventId { node: u128::MAX - 1, version: 3, number: 1_000, index };
        let room = event.visit().map(|_| RoomId::parse("Hall").unwrap());
        let stored = StoredEvent { id, at: UnixMillis(1_800_000_000_000), room, event };
        let bytes = encode_event(&stored);
        assert_eq!(decode_event(9, &bytes).unwrap(), stored);
        for length in 0..bytes.len() {
            assert!(decode_event(9, &bytes[..length]).is_err(), "{:?} cut at {length}", stored.event);
        }
        assert!(decode_event(9, &[&bytes[..], &[0]].concat()).is_err(), "{:?} with more", stored.event);
    }
}

#[test]
fn an_event_takes_few_bytes() {
    let id = EventId { node: u128::MAX, version: 40_000, number: 40_000, index: 3 };
    let room = Some(RoomId::parse("Hall").unwrap());
    let event = Event::SessionBegun { visit: visit() };
    let bytes = encode_event(&StoredEvent { id, at: UnixMillis(1_800_000_000_000), room, event });
    assert!(bytes.len() <= 64, "{} bytes", bytes.len());
}

/// As the last program wrote them that knew the first format only: a time, a room, a kind, its content.
#[test]
fn events_of_the_first_format_are_read_and_get_their_number_as_their_id() {
    let first = |kind: u8, rest: &[u8]| {
        let mut bytes = vec![1];
        bytes.extend(1_800_000_000_000u64.to_le_bytes());
        bytes.extend(4u64.to_le_bytes());
        bytes.extend(b"Hall");
        bytes.push(kind);
        bytes.extend(rest);
        bytes
    };
    let request_id = RequestId([7; 16]);
    for (kind, expected) in [(0, EventKind::TokenGenerated), (1, EventKind::SessionUpdated)] {
        let stored =
            decode_event(5, &first(kind, &[&16u64.to_le_bytes()[..], &request_id.0].concat())).unwrap();
        assert_eq!((stored.event.kind(), stored.at), (expected, UnixMillis(1_800_000_000_000)));
        assert_eq!(stored.id, EventId { number: 5, ..EventId::default() });
    }
    let moved = [3u64.to_le_bytes(), 9u64.to_le_bytes()].concat();
    let stored = decode_event(6, &first(3, &moved)).unwrap();
    assert_eq!(stored.event, Event::AutomaticServingCounterIncrease { previous: 3, current: 9 });
    assert!(decode_event(6, &first(4, &moved)).is_err());
}

#[test]
fn short_numbers_are_read_as_they_are_written_and_longer_ones_are_refused() {
    for number in [0, 1, 127, 128, 16_383, 16_384, u64::MAX - 1, u64::MAX] {
        let mut writer = Writer::default();
        write_short(&mut writer, number);
        let mut reader = Reader::bare(&writer.0, WHAT);
        assert_eq!(read_short(&mut reader).unwrap(), number);
        assert!(reader.end().is_ok());
    }
    for too_long in [[0xff; 10], [0x80; 10]] {
        assert!(read_short(&mut Reader::bare(&too_long, WHAT)).is_err());
    }
}
