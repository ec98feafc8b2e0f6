//! Sockets taken out of hyper: by handlers of the paths that may, with their slots, and without a trace in hyper.

#![expect(clippy::unwrap_used, reason = "in a test, a panic is the way to fail")]

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anteroom_server::listener::takeout::{Socket, Takeout};
use anteroom_server::listener::{Connections, Limits, ServeReport, serve};
use anteroom_server::shutdown::{self, Trigger};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::support::{BIG_BODY_BYTES, Client, eventually, within_deadline};

/// Longer than any test's deadline: what ends before was not ended by this.
const NEVER: Duration = Duration::from_mins(10);

/// What the service has taken out.
type TakenSockets = Arc<Mutex<Vec<Socket>>>;

struct Server {
    address: SocketAddr,
    counters: Arc<Connections>,
    taken: TakenSockets,
    trigger: Trigger,
    tasks: JoinSet<ServeReport>,
}

impl Server {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let counters = Arc::new(Connections::default());
        let taken = TakenSockets::default();
        let limits = Limits {
            takeout_paths: &["/take"],
            header_read_timeout: NEVER,
            drain_timeout: NEVER,
            ..Limits::default()
        };
        let service = {
            let taken = Arc::clone(&taken);
            service_fn(move |request| answer(Arc::clone(&taken), request))
        };
        let (trigger, shutdown) = shutdown::channel();
        let mut tasks = JoinSet::new();
        tasks.spawn(serve(
            "test",
            listener,
            None,
            limits,
            Arc::clone(&counters),
            move |_peer| service.clone(),
            shutdown,
        ));
        Self { address, counters, taken, trigger, tasks }
    }

    async fn connect(&self) -> Client<TcpStream> {
        Client(TcpStream::connect(self.address).await.unwrap())
    }

    fn takeout_count(&self) -> usize {
        self.taken.lock().unwrap().len()
    }
}

async fn answer(
    taken: TakenSockets,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let takeout = request.extensions().get::<Takeout>().cloned();
    let body = match (request.uri().path(), takeout) {
        ("/take", Some(takeout)) => {
            let receive = move |socket| taken.lock().unwrap().push(socket);
            match takeout.take(receive).await {}
        }
        ("/big", _) => Bytes::from(vec![b'x'; BIG_BODY_BYTES]),
        (_, Some(_)) => Bytes::from("offered"),
        (_, None) => Bytes::from("not offered"),
    };
    Ok(Response::new(Full::new(body)))
}

const TAKE: &[u8] = b"GET /take HTTP/1.1\r\nhost: a\r\n\r\n";

#[tokio::test]
async fn a_socket_is_taken_with_its_slot_and_answered_by_its_taker() {
    let server = Server::start().await;
    let mut client = server.connect().await;
    assert_eq!(client.get("/").await.body, "not offered", "on other paths hyper keeps its socket");
    client.send(TAKE).await;
    eventually("the socket was taken", || server.takeout_count() == 1).await;
    assert_eq!((server.counters.accepted(), server.counters.open()), (1, 1), "its slot went with it");

    let socket = server.taken.lock().unwrap().pop().unwrap();
    socket.stream.try_write(b"by hand").unwrap();
    drop(socket);
    assert_eq!(client.read_to_close().await, b"by hand", "nothing of hyper's came before or after");
    eventually("the slot is free", || server.counters.open() == 0).await;
}

#[tokio::test]
async fn a_pipelined_answer_goes_out_before_the_socket_does() {
    let server = Server::start().await;
    let mut client = server.connect().await;
    client
        .send(b"GET / HTTP/1.1\r\nhost: a\r\n\r\nGET /take HTTP/1.1\r\nhost: a\r\n\r\nGET / HTTP/1.1\r\n")
        .await;
    assert_eq!(client.read_answer().await.unwrap().body, "not offered");
    eventually("the socket was taken", || server.takeout_count() == 1).await;
    server.taken.lock().unwrap().clear();
    assert!(client.read_to_close().await.is_empty(), "what came behind the request is not answered");
}

#[tokio::test]
async fn a_client_that_has_not_taken_its_earlier_answer_gets_no_stream_in_the_middle_of_it() {
    let server = Server::start().await;
    let mut client = server.connect().await;
    client.send(b"GET /big HTTP/1.1\r\nhost: a\r\n\r\nGET /take HTTP/1.1\r\nhost: a\r\n\r\n").await;
    // hyper looks at the second request only when the first is answered, so reading brings it about.
    let answer = client.read_answer().await.unwrap();
    assert_eq!(answer.body.len(), BIG_BODY_BYTES);
    eventually("the socket was taken or closed", || {
        server.takeout_count() == 1 || server.counters.open() == 0
    })
    .await;
    server.taken.lock().unwrap().clear();
    assert!(client.read_to_close().await.is_empty());
}

#[tokio::test]
async fn the_drain_counts_taken_sockets_and_does_not_wait_for_them() {
    let mut server = Server::start().await;
    let mut client = server.connect().await;
    client.send(TAKE).await;
    let mut idle = server.connect().await;
    assert_eq!(idle.get("/").await.status(), "200");
    eventually("the socket was taken", || server.takeout_count() == 1).await;

    server.trigger.pull();
    let report = within_deadline(server.tasks.join_next()).await.unwrap().unwrap();
    assert_eq!((report.open_at_shutdown, report.cut), (2, 0));
    assert!(idle.read_to_close().await.is_empty());
    assert_eq!(server.counters.open(), 1, "its new owner closes it");
    server.taken.lock().unwrap().clear();
    assert!(client.read_to_close().await.is_empty());
    assert_eq!(server.counters.open(), 0);
}
