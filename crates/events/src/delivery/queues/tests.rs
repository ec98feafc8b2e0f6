use anteroom_core::{EventKind, RoomId};
use proptest::prelude::*;
use serde_json::Value;

use super::*;

const NOW: Duration = Duration::ZERO;

fn message(number: u64, room: Option<&str>, kind: EventKind) -> EventMessage {
    EventMessage {
        id: number.to_string().into(),
        number,
        kind,
        room: room.map(|room| RoomId::parse(room).unwrap()),
        at: UnixMillis(number),
        subject: None,
        data: Value::Null,
        request_id: None,
    }
}

fn of_room(number: u64, room: &str) -> EventMessage {
    message(number, Some(room), EventKind::RoomOpened)
}

fn numbers(batch: &Batch) -> Vec<u64> {
    batch.messages.iter().map(|message| message.number).collect()
}

#[test]
fn rooms_do_not_wait_for_each_other_and_within_one_the_order_is_kept() {
    let mut queues = Queues::default();
    queues.take_in([of_room(1, "a"), of_room(2, "b"), of_room(3, "a"), of_room(4, "b")], 4);
    let first = queues.next_batch(NOW, 1, false).unwrap();
    assert_eq!((first.queue.as_str(), numbers(&first)), ("room/a", vec![1]));
    let second = queues.next_batch(NOW, 1, false).unwrap();
    assert_eq!((second.queue.as_str(), numbers(&second)), ("room/b", vec![2]));
    assert!(queues.next_batch(NOW, 1, false).is_none(), "one attempt of each at a time");
    queues.retry("room/a", Duration::from_secs(9));
    queues.settle("room/b", 1);
    assert_eq!(numbers(&queues.next_batch(NOW, 5, false).unwrap()), [4]);
    queues.settle("room/b", 1);
    assert_eq!(queues.cursor(), (4, BTreeMap::from([("room/a".to_owned(), 0)])));
    assert_eq!(queues.next_retry(), Some(Duration::from_secs(9)));
    assert!(queues.next_batch(NOW, 5, false).is_none());
    let again = queues.next_batch(Duration::from_secs(9), 5, false).unwrap();
    assert_eq!((numbers(&again), again.attempts), (vec![1, 3], 1));
    queues.settle("room/a", 2);
    assert_eq!(queues.cursor(), (4, BTreeMap::new()));
}

#[test]
fn alarms_wait_for_nothing() {
    let mut queues = Queues::default();
    let alarm = message(3, None, EventKind::AlarmFired);
    queues.take_in([of_room(1, "a"), message(2, None, EventKind::KeyCreated), alarm], 3);
    let order: Vec<String> =
        std::iter::from_fn(|| queues.next_batch(NOW, 9, false)).map(|batch| batch.queue).collect();
    assert_eq!(order, ["alarms", "room/a", "server"]);
}

#[test]
fn batches_that_are_too_large_are_halved_down_to_one() {
    let mut queues = Queues::default();
    queues.take_in((1..=5).map(|number| of_room(number, "a")), 5);
    for expected in [5, 2, 1, 1] {
        let batch = queues.next_batch(NOW, 100, false).unwrap();
        assert_eq!(batch.messages.len(), expected);
        queues.halve_batches("room/a", expected);
        queues.retry("room/a", NOW);
    }
}

#[test]
fn what_does_not_fit_into_memory_is_read_again_and_other_queues_go_on() {
    let mut queues = Queues::default();
    let many = QUEUE_MAX as u64 + 500;
    queues.take_in((1..=many).map(|number| of_room(number, "a")), many);
    queues.take_in([of_room(many + 1, "b")], many + 1);
    assert_eq!(queues.waiting(), QUEUE_MAX + 1);
    assert_eq!(queues.to_refill(), None, "there is no room yet");
    assert_eq!(queues.cursor(), (many + 1, BTreeMap::from([("room/a".into(), 0), ("room/b".into(), many)])));
    let mut seen = vec![];
    while let Some(batch) = queues.next_batch(NOW, 100, false) {
        if batch.queue == "room/a" {
            seen.extend(numbers(&batch));
        }
        queues.settle(&batch.queue, batch.messages.len());
        while let Some((name, after)) = queues.to_refill() {
            // As it is where fewer come than were asked for: then everything has been read.
            let through = if after + 300 < many { after + 300 } else { many + 1 };
            if !queues.refill(
                &name,
                (after + 1..=through.min(many)).map(|number| of_room(number, "a")),
                through,
            ) {
                break;
            }
        }
    }
    assert_eq!(seen, (1..=many).collect::<Vec<_>>());
    assert_eq!((queues.cursor(), queues.waiting()), ((many + 1, BTreeMap::new()), 0));
}

/// What may become of a batch, or of the whole task.
#[derive(Debug, Clone, Copy)]
enum Step {
    Deliver,
    DeliverSome,
    Fail,
    /// The node dies after the receiver has got it and before the cursor is saved.
    DieAfterDelivery,
    /// The node dies, what is saved is older by some saves.
    Die,
    Save,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => Just(Step::Deliver),
        2 => Just(Step::DeliverSome),
        4 => Just(Step::Fail),
        1 => Just(Step::DieAfterDelivery),
        1 => Just(Step::Die),
        3 => Just(Step::Save),
    ]
}

proptest! {
    /// Whatever fails and dies: in the end every event has arrived, those of a queue in their order, where repeats of earlier ones do not
    /// count; and without a death nothing comes twice.
    #[test]
    fn everything_arrives_in_order(
        rooms in proptest::collection::vec(0usize..4, 1..120),
        steps in proptest::collection::vec(step(), 0..200),
        batch_max in 1usize..6,
        page in 1usize..9,
    ) {
        let names = ["a", "b", "c", "d"];
        let outbox: Vec<EventMessage> =
            (1..).zip(&rooms).map(|(number, &room)| of_room(number, names[room])).collect();
        let last = outbox.len() as u64;
        let mut saved: (u64, BTreeMap<String, u64>) = Default::default();
        let mut queues = Queues::begin(0, BTreeMap::new());
        let mut arrived: BTreeMap<String, Vec<u64>> = BTreeMap::new();
        let mut deaths = 0;
        let mut steps = steps.into_iter();
        loop {
            while queues.read() < last && queues.waiting() < page {
                let from = queues.read();
                let through = last.min(from + page as u64);
                let of_page = |message: &&EventMessage| message.number > from && message.number <= through;
                queues.take_in(outbox.iter().filter(of_page).cloned().collect::<Vec<_>>(), through);
            }
            let step = steps.next().unwrap_or(Step::Deliver);
            let batch = queues.next_batch(NOW, batch_max, false);
            let Some(batch) = batch else {
                if queues.waiting() == 0 && queues.read() >= last {
                    break;
                }
                continue;
            };
            let got = arrived.entry(batch.queue.clone()).or_default();
            let count = match step {
                Step::Deliver | Step::Save | Step::DieAfterDelivery => batch.messages.len(),
                Step::DeliverSome => batch.messages.len() / 2,
                Step::Fail | Step::Die => 0,
            };
            got.extend(numbers(&batch).into_iter().take(count));
            if matches!(step, Step::Die | Step::DieAfterDelivery) {
                deaths += 1;
                queues = Queues::begin(saved.0, saved.1.clone());
                continue;
            }
            queues.settle(&batch.queue, count);
            if count < batch.messages.len() {
                queues.retry(&batch.queue, NOW);
            }
            if matches!(step, Step::Save) {
                saved = queues.cursor();
            }
        }
        for (room, name) in names.iter().enumerate() {
            let expected: Vec<u64> =
                (1..).zip(&rooms).filter(|(_, of)| **of == room).map(|(number, _)| number).collect();
            let got = arrived.remove(&format!("room/{name}")).unwrap_or_default();
            let mut firsts: Vec<u64> = vec![];
            for number in &got {
                if !firsts.contains(number) {
                    firsts.push(*number);
                }
            }
            prop_assert_eq!(&firsts, &expected);
            if deaths == 0 {
                prop_assert_eq!(&got, &expected);
            }
        }
        prop_assert_eq!(queues.cursor(), (last, BTreeMap::new()));
    }
}
