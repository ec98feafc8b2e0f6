//! Running out of file descriptors. Alone in its binary, because the limit is the whole process's.

#[path = "listener/support.rs"]
mod support;

use std::fs::File;

use anteroom_server::listener::Limits;
use rlimit::Resource;
use support::{Client, Server, eventually};
use tokio::net::{TcpListener, TcpStream};

#[tokio::test]
async fn accepting_goes_on_once_descriptors_are_free_again() {
    const LOW_LIMIT: u64 = 64;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    // The kernel completes the connection; only the accept needs a descriptor of ours.
    let waiting = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (soft, hard) = Resource::NOFILE.get().unwrap();
    Resource::NOFILE.set(LOW_LIMIT, hard).unwrap();
    let mut files = Vec::new();
    while let Ok(file) = File::open("/dev/null") {
        files.push(file);
    }

    let server = Server::start_on(listener, Limits::default(), None);
    eventually("accepting has failed, more than once", || server.counters.accept_errors() >= 2).await;
    assert_eq!(server.counters.accepted(), 0);

    drop(files);
    Resource::NOFILE.set(soft, hard).unwrap();
    assert_eq!(Client(waiting).get("/").await.status(), "200");
    assert_eq!(server.counters.accepted(), 1);
}
