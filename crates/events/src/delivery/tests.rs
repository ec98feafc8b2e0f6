//! Tasks over a store in memory, and receivers that do what a test tells them.

#![expect(clippy::disallowed_methods, reason = "a test ends with the tasks that it started")]

use std::collections::{BTreeMap, HashSet, VecDeque};

use super::*;
use crate::addresses::AllowedNetworks;
use crate::destination::DestinationState;
use crate::destinations::terms::DestinationTerms;
use crate::destinations::{DestinationRules, SecretRotation};
use anteroom_core::{EventKind, RoomId};
use anteroom_store::{ManualClock, MemoryStore, SystemClock};

/// A receiver: what it answers next, and what it has got.
#[derive(Default)]
struct Receiver {
    answers: Mutex<VecDeque<SendFailure>>,
    fails: Mutex<Option<SendFailure>>,
    got: Mutex<Vec<EventMessage>>,
    attempts: AtomicU64,
    arrived: watch::Sender<usize>,
}

#[async_trait]
impl Transport for Receiver {
    fn batch_max(&self) -> usize {
        10
    }

    async fn send(&self, messages: &[EventMessage]) -> Result<(), SendFailure> {
        self.attempts.fetch_add(1, Ordering::SeqCst);
        let planned = self.answers.lock().unwrap().pop_front();
        if let Some(failure) = planned.or_else(|| self.fails.lock().unwrap().clone()) {
            let delivered = failure.delivered.min(messages.len());
            self.got.lock().unwrap().extend_from_slice(&messages[..delivered]);
            return Err(failure);
        }
        let mut got = self.got.lock().unwrap();
        got.extend_from_slice(messages);
        self.arrived.send_replace(got.len());
        Ok(())
    }
}

impl Receiver {
    async fn wait_for(&self, count: usize) {
        let mut arrived = self.arrived.subscribe();
        let waiting = arrived.wait_for(|arrived| *arrived >= count);
        let waited = tokio::time::timeout(Duration::from_secs(30), waiting).await;
        assert!(waited.is_ok(), "{} of {count} arrived", self.got.lock().unwrap().len());
    }

    fn numbers(&self) -> Vec<u64> {
        self.got.lock().unwrap().iter().map(|message| message.number).collect()
    }
}

/// What the destination of these tests is like.
fn terms() -> DestinationTerms {
    DestinationTerms {
        kind: Some("webhook".into()),
        url: Some("https://shop.example/hook".into()),
        types: Some(vec!["*".into()]),
        backoff_max_seconds: Some(1),
        ..DestinationTerms::default()
    }
}

/// A server with one destination, as far as delivery is concerned.
struct Scene {
    store: Arc<MemoryStore>,
    clock: Arc<dyn Clock>,
    destinations: Arc<Destinations>,
    receiver: Arc<Receiver>,
    growth: watch::Sender<u64>,
    next: AtomicU64,
}

/// A node that delivers.
struct Node {
    delivery: Arc<Delivery>,
    stop: watch::Sender<bool>,
    task: tokio::task::JoinHandle<()>,
}

impl Scene {
    async fn open(clock: Arc<dyn Clock>, change: impl FnOnce(&mut DestinationTerms)) -> Self {
        let store = Arc::new(MemoryStore::shared());
        let secrets =
            Arc::new(anteroom_tokens::MasterSecrets::parse(&"a-secret-of-tests".repeat(3)).unwrap());
        let rules = DestinationRules { networks: AllowedNetworks::default(), has_events_directory: true };
        let destinations = Destinations::open(store.clone(), secrets, rules).await.unwrap();
        let mut terms = terms();
        change(&mut terms);
        destinations.create("hook", &terms, None, "test", clock.now()).await.unwrap();
        let receiver = Arc::new(Receiver::default());
        let (growth, next) = (watch::Sender::default(), AtomicU64::new(1));
        Self { store, clock, destinations: Arc::new(destinations), receiver, growth, next }
    }

    /// What its cursor is kept under.
    fn key(&self) -> String {
        self.destinations.find("hook").expect("there is one").key()
    }

    fn node(&self, node: u128) -> Node {
        let receiver = self.receiver.clone();
        self.node_with(node, move |_| Ok(receiver.clone() as Arc<dyn Transport>))
    }

    fn node_with(
        &self,
        node: u128,
        transports: impl Fn(&Destination) -> Result<Arc<dyn Transport>, String> + Send + Sync + 'static,
    ) -> Node {
        let clock = self.clock.clone();
        let delivery = Arc::new(Delivery::new(DeliveryParts {
            store: self.store.clone(),
            clock: self.clock.clone(),
            node: NodeId(node),
            destinations: self.destinations.clone(),
            transports: Box::new(transports),
            events: Box::new(move |event| {
                let id = EventId { node, version: 0, number: 1, index: 0 };
                StoredEvent { id, at: clock.now(), room: None, event }
            }),
            kept: Duration::from_hours(1),
        }));
        let stop = watch::Sender::new(false);
        let (running, growth, stopped) = (delivery.clone(), self.growth.subscribe(), stop.subscribe());
        let task = tokio::spawn(async move { running.run(growth, stopped).await });
        Node { delivery, stop, task }
    }

    async fn write(&self, count: u64, room: &str) {
        for _ in 0..count {
            let number = self.next.fetch_add(1, Ordering::SeqCst);
            let id = EventId { node: 1, version: 1, number, index: 0 };
            let room = Some(RoomId::parse(room).unwrap());
            let event = Event::LineEmpty { joined: number };
            let stored = StoredEvent { id, at: self.clock.now(), room, event };
            self.store.append_events(&[stored]).await.unwrap();
        }
        self.growth.send_modify(|number| *number += 1);
    }

    async fn until(&self, what: &str, is_so: impl AsyncFn() -> bool) {
        let stopwatch = Stopwatch::start();
        while !is_so().await {
            assert!(stopwatch.elapsed() < Duration::from_secs(30), "{what}");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

async fn scene() -> Scene {
    Scene::open(Arc::new(SystemClock), |_| {}).await
}

#[tokio::test]
async fn events_arrive_in_order_and_the_cursor_follows() {
    let scene = scene().await;
    let node = scene.node(1);
    scene.write(25, "Hall").await;
    scene.receiver.wait_for(25).await;
    assert_eq!(scene.receiver.numbers(), (1..=25).collect::<Vec<_>>());
    let saved =
        async || scene.store.cursor(&scene.key()).await.unwrap().is_some_and(|cursor| cursor.position == 25);
    scene.until("the cursor is saved", saved).await;
    let status = node.delivery.status("hook").await.unwrap();
    assert_eq!((status.lag_events, status.delivered, status.position), (0, 25, 25));
}

#[tokio::test]
async fn a_failure_is_retried_and_what_arrived_of_a_batch_is_not_sent_again() {
    let scene = scene().await;
    let partly = SendFailure { delivered: 3, ..SendFailure::new("answered 500") };
    scene.receiver.answers.lock().unwrap().extend([SendFailure::new("answered 500"), partly]);
    scene.write(8, "Hall").await;
    let node = scene.node(1);
    scene.receiver.wait_for(8).await;
    assert_eq!(scene.receiver.numbers(), (1..=8).collect::<Vec<_>>());
    let is_calm = async || node.delivery.status("hook").await.unwrap().failing_since.is_none();
    scene.until("it is not failing any more", is_calm).await;
}

#[tokio::test]
async fn another_node_goes_on_when_one_stops_and_nothing_is_skipped() {
    let scene = scene().await;
    let one = scene.node(1);
    let mut number = 0;
    scene.write(10, "Hall").await;
    scene.receiver.wait_for(10).await;
    let other = scene.node(2);
    for _ in 0..3 {
        scene.write(10, "Hall").await;
        number += 10;
        scene.receiver.wait_for(number).await;
    }
    one.stop.send_replace(true);
    one.task.await.unwrap();
    scene.write(10, "Hall").await;
    scene.receiver.wait_for(50).await;
    let numbers = scene.receiver.numbers();
    assert_eq!(numbers, (1..=50).collect::<Vec<_>>(), "saved before it stopped, so nothing comes twice");
    other.stop.send_replace(true);
    other.task.await.unwrap();
}

#[tokio::test]
async fn a_node_that_dies_leaves_repeats_with_the_same_ids_and_no_gap() {
    let scene = scene().await;
    for round in 1..=5 {
        let node = scene.node(round);
        scene.write(40, if round % 2 == 0 { "Hall" } else { "Yard" }).await;
        // It dies in the middle of its work.
        scene.receiver.wait_for(usize::try_from(round).unwrap() * 20).await;
        node.task.abort();
        drop(node);
    }
    let last = scene.node(9);
    let all = async || {
        let got: HashSet<u64> = scene.receiver.numbers().into_iter().collect();
        (1..=200).all(|number| got.contains(&number))
    };
    scene.until("everything has arrived", all).await;
    let mut ids: BTreeMap<u64, HashSet<String>> = BTreeMap::new();
    let mut highest: BTreeMap<String, u64> = BTreeMap::new();
    for message in scene.receiver.got.lock().unwrap().iter() {
        ids.entry(message.number).or_default().insert(message.id.to_string());
        let highest = highest.entry(message.source()).or_default();
        let skipped = (*highest + 1..message.number).any(|between| {
            !ids.contains_key(&between) && (between - 1) / 40 % 2 == (message.number - 1) / 40 % 2
        });
        assert!(!skipped, "{} came before an earlier one of its room", message.number);
        *highest = (*highest).max(message.number);
    }
    assert!(ids.values().all(|ids| ids.len() == 1), "a repeat has the id of the first");
    drop(last);
}

#[tokio::test]
async fn what_cannot_be_delivered_in_time_is_a_dead_letter_until_an_operator_has_it_sent_again_or_dropped() {
    let clock = Arc::new(ManualClock::at(UnixMillis(1_800_000_000_000)));
    let scene = Scene::open(clock.clone(), |terms| terms.give_up_after_seconds = Some(60)).await;
    *scene.receiver.fails.lock().unwrap() = Some(SendFailure::new("answered 400"));
    scene.write(3, "Hall").await;
    clock.advance(120_000);
    let node = scene.node(1);
    let given_up = async || node.delivery.dead_letters("hook", 10).await.unwrap().len() == 3;
    scene.until("three are given up", given_up).await;
    let letters = node.delivery.dead_letters("hook", 10).await.unwrap();
    assert_eq!((letters[0].number, letters[0].reason.as_str()), (1, "answered 400"));
    *scene.receiver.fails.lock().unwrap() = None;
    scene.write(1, "Hall").await;
    scene.receiver.wait_for(1).await;
    assert_eq!(scene.receiver.numbers(), [4], "others go on");
    scene.destinations.replay_dead_letters("hook", "test", scene.clock.now()).await.unwrap();
    scene.receiver.wait_for(4).await;
    assert_eq!(scene.receiver.numbers(), [4, 1, 2, 3]);
    let none_left = async || node.delivery.dead_letters("hook", 10).await.unwrap().is_empty();
    scene.until("none is left", none_left).await;
}

#[tokio::test]
async fn a_receiver_that_is_gone_disables_its_destination_and_resumed_it_gets_what_waited() {
    let scene = scene().await;
    let gone = SendFailure { is_gone: true, ..SendFailure::new("answered 410") };
    scene.receiver.answers.lock().unwrap().push_back(gone);
    let _node = scene.node(1);
    scene.write(5, "Hall").await;
    let is_disabled = async || {
        let state = scene.destinations.find("hook").unwrap().state.clone();
        matches!(state, DestinationState::Disabled { reason } if reason == "answered 410")
    };
    scene.until("it is disabled", is_disabled).await;
    let told: Vec<EventKind> =
        scene.store.events(0, 100).await.unwrap().iter().map(|(_, stored)| stored.event.kind()).collect();
    assert!(told.contains(&EventKind::DestinationDisabled), "{told:?}");
    let attempts = scene.receiver.attempts.load(Ordering::SeqCst);
    scene.write(5, "Hall").await;
    scene.destinations.resume("hook", "test", scene.clock.now()).await.unwrap();
    scene.receiver.wait_for(11).await;
    assert!(scene.receiver.attempts.load(Ordering::SeqCst) > attempts);
    let of_rooms: Vec<u64> = scene.receiver.numbers().into_iter().filter(|number| *number != 6).collect();
    assert_eq!(of_rooms, [1, 2, 3, 4, 5, 7, 8, 9, 10, 11]);
}

#[tokio::test]
async fn a_replay_sends_again_from_a_number_and_happens_once() {
    let scene = scene().await;
    let node = scene.node(1);
    scene.write(10, "Hall").await;
    scene.receiver.wait_for(10).await;
    let after = node.delivery.resolve_replay(ReplayFrom::Since(UnixMillis(0))).await.unwrap();
    assert_eq!(after, Some(0));
    let id = scene.receiver.got.lock().unwrap()[6].id.to_string();
    let after = node.delivery.resolve_replay(ReplayFrom::EventId(id)).await.unwrap().unwrap();
    assert_eq!(after, 6);
    scene.destinations.replay("hook", after, "test", scene.clock.now()).await.unwrap();
    scene.receiver.wait_for(14).await;
    assert_eq!(scene.receiver.numbers()[10..], [7, 8, 9, 10]);
    node.stop.send_replace(true);
    node.task.await.unwrap();
    let again = scene.node(2);
    scene.write(1, "Hall").await;
    scene.receiver.wait_for(15).await;
    assert_eq!(scene.receiver.numbers()[14..], [11], "a restart does not replay again");
    drop(again);
}

#[tokio::test]
async fn a_room_that_fails_holds_up_no_other() {
    /// Refuses one room.
    struct Picky(Arc<Receiver>);
    #[async_trait]
    impl Transport for Picky {
        fn batch_max(&self) -> usize {
            5
        }
        async fn send(&self, messages: &[EventMessage]) -> Result<(), SendFailure> {
            if messages[0].source() == "/rooms/Hall" {
                return Err(SendFailure::new("answered 500"));
            }
            self.0.send(messages).await
        }
    }
    let scene = scene().await;
    let receiver = scene.receiver.clone();
    let clock = scene.clock.clone();
    let delivery = Arc::new(Delivery::new(DeliveryParts {
        store: scene.store.clone(),
        clock: scene.clock.clone(),
        node: NodeId(1),
        destinations: scene.destinations.clone(),
        transports: Box::new(move |_| Ok(Arc::new(Picky(receiver.clone())) as Arc<dyn Transport>)),
        events: Box::new(move |event| StoredEvent {
            id: EventId::default(),
            at: clock.now(),
            room: None,
            event,
        }),
        kept: Duration::from_hours(1),
    }));
    let (running, growth, stop) = (delivery.clone(), scene.growth.subscribe(), watch::Sender::new(false));
    let stopped = stop.subscribe();
    let task = tokio::spawn(async move { running.run(growth, stopped).await });
    scene.write(20, "Hall").await;
    scene.write(20, "Yard").await;
    scene.receiver.wait_for(20).await;
    assert_eq!(scene.receiver.numbers(), (21..=40).collect::<Vec<_>>());
    let saved = async || {
        let cursor = scene.store.cursor(&scene.key()).await.unwrap().unwrap_or_default();
        (cursor.position, cursor.behind.get("room/Hall").copied()) == (40, Some(0))
    };
    scene.until("the cursor says which room is behind", saved).await;
    task.abort();
}

#[tokio::test]
async fn a_store_that_was_emptied_begins_anew_and_nothing_of_it_is_skipped() {
    let scene = scene().await;
    let node = scene.node(1);
    scene.write(10, "Hall").await;
    scene.receiver.wait_for(10).await;
    node.stop.send_replace(true);
    node.task.await.unwrap();
    // As a node finds it that comes to a store which was emptied and got its values back.
    let mut cursor = scene.store.cursor(&scene.key()).await.unwrap().unwrap();
    cursor.incarnation = 77;
    scene
        .until("the work is free", async || {
            scene.store.hold_work(&scene.key(), NodeId(5), Duration::from_millis(1)).await.unwrap()
        })
        .await;
    assert!(scene.store.save_cursor(&scene.key(), NodeId(5), 0, &cursor).await.unwrap());
    let _again = scene.node(2);
    scene.receiver.wait_for(20).await;
    assert_eq!(scene.receiver.numbers()[10..], (1..=10).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_destination_made_again_under_a_name_begins_anew() {
    let scene = scene().await;
    let node = scene.node(1);
    scene.write(10, "Hall").await;
    scene.receiver.wait_for(10).await;
    let key = scene.key();
    scene.destinations.delete("hook", "test", scene.clock.now()).await.unwrap();
    let is_gone = async || scene.store.cursor(&key).await.unwrap().is_none();
    scene.until("its cursor is gone", is_gone).await;
    assert_eq!(node.delivery.status("hook").await.unwrap(), DestinationStatus::default());
    scene.write(5, "Hall").await;
    let later = scene.clock.now().plus(1);
    scene.destinations.create("hook", &terms(), None, "test", later).await.unwrap();
    scene.write(5, "Hall").await;
    scene.receiver.wait_for(15).await;
    assert_eq!(scene.receiver.numbers()[10..], [16, 17, 18, 19, 20], "from when it was made");
}

#[tokio::test]
async fn a_replay_leaves_what_still_waits_from_before() {
    let scene = scene().await;
    *scene.receiver.fails.lock().unwrap() = Some(SendFailure::new("answered 500"));
    let node = scene.node(1);
    scene.write(4, "Hall").await;
    let is_failing = async || node.delivery.status("hook").await.unwrap().failing_since.is_some();
    scene.until("it fails", is_failing).await;
    scene.write(4, "Yard").await;
    scene.destinations.replay("hook", 6, "test", scene.clock.now()).await.unwrap();
    *scene.receiver.fails.lock().unwrap() = None;
    scene.receiver.wait_for(8).await;
    let got: HashSet<u64> = scene.receiver.numbers().into_iter().collect();
    assert_eq!(got, (1..=8).collect::<HashSet<_>>());
    assert_eq!(node.delivery.resolve_replay(ReplayFrom::After(1_000_000)).await.unwrap(), None);
}

#[tokio::test]
async fn a_new_secret_reaches_the_delivery_that_runs_and_so_does_the_end_of_the_old_one() {
    let clock = Arc::new(ManualClock::at(UnixMillis(1_800_000_000_000)));
    let scene = Scene::open(clock.clone(), |_| {}).await;
    let keys = Arc::new(Mutex::new(vec![]));
    let (seen, known, now) = (keys.clone(), scene.destinations.clone(), clock.clone());
    let receiver = scene.receiver.clone();
    let _node = scene.node_with(1, move |destination| {
        seen.lock().unwrap().push(known.keys_of(&destination.name, now.now()).len());
        Ok(receiver.clone() as Arc<dyn Transport>)
    });
    let has = |count: usize| {
        let keys = keys.clone();
        async move || keys.lock().unwrap().last() == Some(&count)
    };
    scene.until("it begins with one", has(1)).await;
    let ends_at = clock.now().plus(60_000);
    let rotation = SecretRotation { previous_ends_at: Some(ends_at), ..SecretRotation::default() };
    scene.destinations.rotate_secret("hook", &rotation, "test", clock.now()).await.unwrap();
    scene.until("both sign", has(2)).await;
    clock.advance(61_000);
    scene.until("the old one has ended", has(1)).await;
}
