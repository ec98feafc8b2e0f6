//! The server put together over a store that fails where a test wants it to.

use std::net::{Ipv4Addr, SocketAddr};

use anteroom_core::Operation;
use anteroom_engine::Actor;
use anteroom_gateway::identify::Peer;
use anteroom_store::MemoryStore;
use anteroom_store::conformance::fault_injection::FaultInjectingStore;
use axum::body::Body;
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use serde_json::Value;

use super::*;
use crate::http::router::Router;

/// Both listeners' routes over a store whose faults the test plants, with one room that is moved by hand.
struct Server {
    store: Arc<FaultInjectingStore<MemoryStore>>,
    app: Arc<App>,
    public: Router,
    private: Router,
}

impl Server {
    async fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("anteroom.toml"), "[[room]]\nid = \"Hall\"\n").unwrap();
        let environment = [
            ("ANTEROOM_STORE_URL", "memory:"),
            ("ANTEROOM_SECRET", "a-secret-of-this-test-0123456789abcdef"),
        ];
        let loaded = Config::load(
            None,
            directory.path(),
            environment.map(|(name, value)| (name.into(), value.into())),
        );
        let Loaded { config, secrets, rooms, limits, .. } = loaded.unwrap();
        let rooms = ConfiguredRoom::all(&rooms, config.capacity).unwrap();
        let watch = Watch::start(StreamLimits {
            interval: Duration::from_millis(config.watch_interval_milliseconds),
            keep_alive: config.watch_keep_alive_seconds,
            tls_max: config.watch_tls_max,
            streams_max: 1,
            clients: client_slots(&config, 1),
        });
        let (pages, _templates) = page_templates::open(&config).unwrap();
        let address = || "http://127.0.0.1".to_owned();
        let addresses = Addresses { public: address(), private: address(), ext_authz: None };
        let store = Arc::new(FaultInjectingStore::new(MemoryStore::default()));
        let opened = OpenStore { store: Arc::clone(&store) as Arc<dyn anteroom_store::Store>, redis: None };
        let parts = (opened, watch.unwrap(), pages);
        let (app, _) =
            compose(&config, &secrets, (&rooms, vec![], None), limits, &addresses, parts).await.unwrap();
        let (public, private) = (Router::new(&app, Listener::Public), Router::new(&app, Listener::Private));
        Self { store, app, public, private }
    }

    async fn ask(router: &Router, method: &str, path: &str, ticket: Option<&str>) -> (StatusCode, Value) {
        let mut request = Request::builder().method(method).uri(path);
        if let Some(ticket) = ticket {
            request = request.header("Authorization", format!("Bearer {ticket}"));
        }
        let mut request = request.body(Body::empty()).unwrap();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
        request.extensions_mut().insert(Peer { address, is_tls: false });
        let response = router.dispatch(&router.find(path), request).await;
        let (head, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        (head.status, serde_json::from_slice(&body).unwrap_or_default())
    }

    async fn join(&self) -> String {
        let (status, answer) = Self::ask(&self.public, "POST", "/join", None).await;
        assert_eq!(status, StatusCode::OK, "{answer}");
        answer["ticket"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
    }

    async fn claim(&self, ticket: &str) -> (StatusCode, Value) {
        Self::ask(&self.public, "POST", "/claim", Some(ticket)).await
    }

    async fn readiness(&self) -> StatusCode {
        Self::ask(&self.private, "GET", "/readyz", None).await.0
    }
}

/// A room whose owner panicked once made the node unready, for good, and with it all other rooms.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_request_that_made_an_owner_panic_is_refused_and_the_node_stays_ready() {
    let server = Server::start().await;
    let tickets = [server.join().await, server.join().await, server.join().await];
    let hall = server.app.engine.room("Hall").unwrap();
    hall.operate(Operation::Advance { by: 3 }, Actor::Clockwork).await.unwrap();
    server.store.set_deadly_position(2);
    for _ in 0..3 {
        let (status, problem) = server.claim(&tickets[1]).await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{problem}");
        assert!(
            problem["detail"].as_str().is_some_and(|detail| detail.contains("Nothing was done")),
            "{problem}"
        );
        assert_eq!(server.readiness().await, StatusCode::OK);
    }
    assert!(server.app.engine.counters().panics.load(std::sync::atomic::Ordering::Relaxed) >= 3);
    // Everybody else is served, and so is this visitor once the fault is gone.
    assert_eq!(server.claim(&tickets[0]).await.0, StatusCode::OK);
    assert_eq!(server.claim(&tickets[2]).await.0, StatusCode::OK);
    server.join().await;
    server.store.set_deadly_position(0);
    assert_eq!(server.claim(&tickets[1]).await.0, StatusCode::OK);
    assert_eq!(server.readiness().await, StatusCode::OK);
    server.app.engine.stop().await;
}
