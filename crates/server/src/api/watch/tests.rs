//! A feed and its hubs with real sockets, where a test over HTTP could not say when or how much is sent.

use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use anteroom_core::{Operation, RoomId, RoomState, Settings};
use anteroom_engine::{Actor, Engine};
use anteroom_store::{MemoryStore, NodeId, SystemClock};
use anteroom_tokens::secret::MasterSecrets;
use bytes::Bytes;

use super::counts::PushClock;
use super::feed::Frame;
use super::*;
use crate::http::listener::Connections;
use crate::http::listener::takeout::Socket;

const DEADLINE: Duration = Duration::from_secs(20);
fn limits() -> StreamLimits {
    StreamLimits {
        interval: Duration::from_millis(50),
        keep_alive: Duration::from_secs(15),
        tls_max: 10,
        streams_max: 10,
        clients: ClientSlots::new(10, vec![]),
    }
}

struct WatchedRoom {
    engine: Arc<Engine>,
    room: Arc<ServedRoom>,
    watch: Watch,
    connections: Arc<Connections>,
}

impl WatchedRoom {
    async fn open() -> Self {
        let clock = Arc::new(SystemClock);
        let engine = Engine::start(Arc::new(MemoryStore::default()), clock, NodeId(1)).await.unwrap();
        let id = RoomId::parse("Hall").unwrap();
        let actor = Actor::System("test");
        let created = engine.create_room(id, Settings::default(), RoomState::Open, 1, actor).await.unwrap();
        let secrets = MasterSecrets::parse("a-master-secret-of-more-than-32-characters").unwrap();
        let room =
            Arc::new(ServedRoom::new(Arc::new(anteroom_admission::RoomView::new(created.0, &secrets))));
        Self { engine, room, watch: Watch::start(limits()).unwrap(), connections: Arc::default() }
    }

    /// A stream as the handler begins it; returns the client's end.
    fn enter(&self) -> TcpStream {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        client.set_read_timeout(Some(DEADLINE)).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        accepted.set_nonblocking(true).unwrap();
        let stream = tokio::net::TcpStream::from_std(accepted).unwrap();
        let slot = self.connections.take_slot(10).unwrap();
        let watching = self.watch.enter(&self.watch.feed(&self.room), Kind::Taken).unwrap();
        let adoption = Adoption { greeting: b"hello\n\n".to_vec(), known_edition: None, watching };
        self.watch.hubs[0].adopt(Socket { stream, slot }, adoption);
        client
    }

    async fn eventually(&self, what: &str, mut holds: impl FnMut(&Self) -> bool) {
        let waited = tokio::time::timeout(DEADLINE, async {
            while !holds(self) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        });
        assert!(waited.await.is_ok(), "never: {what}");
    }
}

/// Everything until the stream ends.
fn read_to_end(mut client: TcpStream) -> String {
    let mut text = String::new();
    client.read_to_string(&mut text).unwrap();
    text
}

#[tokio::test(flavor = "multi_thread")]
async fn the_watchers_of_a_deleted_room_are_told_and_let_go() {
    let house = WatchedRoom::open().await;
    let (first, second) = (house.enter(), house.enter());
    house
        .eventually("both are greeted", |house| house.watch.counts().events.load(Ordering::Relaxed) == 2)
        .await;
    let deleted = house.engine.delete_room(house.room.handle.id(), Actor::System("test"), None).await;
    assert!(deleted.unwrap());
    for client in [first, second] {
        let text = read_to_end(client);
        assert!(text.starts_with("hello\n\nevent: board\nid: 0-"), "{text}");
        assert!(text.contains("\ndata: {\"room\":\"Hall\""), "{text}");
        assert!(text.ends_with("}\n\nevent: gone\ndata: {\"room\":\"Hall\"}\n\n"), "{text}");
    }
    house.eventually("their slots are free", |house| house.connections.open() == 0).await;
    assert_eq!(house.watch.counts().open(Kind::Taken), 0);
    // A stream that was being added when the room was deleted gets the same.
    assert!(read_to_end(house.enter()).ends_with("hello\n\nevent: gone\ndata: {\"room\":\"Hall\"}\n\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn who_does_not_read_is_closed_at_once_and_the_others_get_everything() {
    const FRAMES: u64 = 400;
    let house = WatchedRoom::open().await;
    let slow = house.enter();
    let mut eager = house.enter();
    let feed = house.watch.feed(&house.room);
    let taken = Arc::new(AtomicU64::new(0));
    let reader = {
        let taken = Arc::clone(&taken);
        std::thread::spawn(move || {
            let mut buffer = vec![0; 1 << 16];
            while let Ok(count) = eager.read(&mut buffer).map(|count| count as u64)
                && count > 0
            {
                taken.fetch_add(count, Ordering::Relaxed);
            }
        })
    };
    house
        .eventually("both are greeted", |house| house.watch.counts().events.load(Ordering::Relaxed) == 2)
        .await;
    let bytes = Bytes::from(vec![b'x'; 4_096]);
    for number in 1..=FRAMES {
        let (sequence, bytes) = (1_000 + number, bytes.clone());
        let frame = Arc::new(Frame { sequence, bytes, ..Frame::default() });
        house.watch.hubs[0].push(feed.number, frame, PushClock::start(&house.watch.counts));
        // One by one, so that the eager one is never the slow one.
        house.eventually("the eager one has it", |_| taken.load(Ordering::Relaxed) > number * 4_096).await;
    }
    house
        .eventually("the slow one is closed", |house| {
            house.watch.counts().slow_readers.load(Ordering::Relaxed) == 1 && house.connections.open() == 1
        })
        .await;
    drop(slow);
    house.watch.close();
    reader.join().unwrap();
    house.eventually("nobody is left", |house| house.connections.open() == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn however_often_a_room_changes_the_last_state_arrives_and_few_others() {
    let house = WatchedRoom::open().await;
    let client = house.enter();
    let handle = &house.room.handle;
    house.eventually("it is greeted", |house| house.watch.counts().events.load(Ordering::Relaxed) == 1).await;
    let running = anteroom_store::clock::Stopwatch::start();
    for _ in 0..500 {
        handle.operate(Operation::Advance { by: 1 }, Actor::Visitor).await.unwrap();
    }
    let took = running.elapsed();
    let last = format!("\"version\":{}", handle.board().version);
    let mut text = String::new();
    let mut client_reader = &client;
    let mut buffer = [0; 4_096];
    while !text.contains(&last) {
        let count = client_reader.read(&mut buffer).unwrap();
        assert_ne!(count, 0, "closed: {text}");
        text.push_str(std::str::from_utf8(&buffer[..count]).unwrap());
    }
    let events = text.matches("event: board").count() as u128;
    // The greeting, one at once, and one in each interval that was begun.
    let most = 3 + took.as_millis() / limits().interval.as_millis();
    assert!(events <= most, "{events} events in {took:?}");
    let versions: Vec<u64> = text
        .split("\"version\":")
        .skip(1)
        .map(|rest| rest.split(',').next().unwrap().parse().unwrap())
        .collect();
    assert!(versions.is_sorted(), "never an older one after a newer one: {versions:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn watchers_are_told_while_the_store_is_lost_and_when_it_is_back() {
    let house = WatchedRoom::open().await;
    let mut early = house.enter();
    house.eventually("it is greeted", |house| house.watch.counts().events.load(Ordering::Relaxed) == 1).await;
    house.watch.tell_staleness(Some(3));
    let mut text = String::new();
    read_until(&mut early, &mut text, "event: stale\ndata: {\"room\":\"Hall\",\"stale_seconds\":3}\n\n");
    let edition = house.room.prepared().edition().to_owned();
    let frame = house.watch.feed(&house.room).present();
    assert!(
        frame.bytes.starts_with(b"event: board\n"),
        "who comes now is shown the board, and told the same"
    );
    assert!(frame.bytes.ends_with(&frame.first_for(Some(&edition))), "who knows the board is told the rest");
    assert!(frame.first_for(Some(&edition)).starts_with(b"event: stale\n"));
    house.watch.tell_staleness(None);
    read_until(&mut early, &mut text, "event: stale\ndata: {\"room\":\"Hall\",\"stale_seconds\":0}\n\n");
    house.room.handle.operate(Operation::Advance { by: 1 }, Actor::Visitor).await.unwrap();
    read_until(&mut early, &mut text, "\"serving\":1,");
    let frame = house.watch.feed(&house.room).present();
    assert!(frame.notice.is_empty() && frame.staleness.is_none(), "nothing more to say about it");
    drop(early);
}

/// Reads on until the text holds this.
fn read_until(client: &mut TcpStream, text: &mut String, part: &str) {
    let mut buffer = [0; 4_096];
    while !text.contains(part) {
        let count = client.read(&mut buffer).unwrap();
        assert_ne!(count, 0, "closed: {text}");
        text.push_str(std::str::from_utf8(&buffer[..count]).unwrap());
    }
}
