//! The one list of scenarios over a real Redis.

#![expect(clippy::unwrap_used, reason = "a test may fail loudly")]

use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anteroom_store::Store;
use anteroom_store::conformance::run_all;
use anteroom_store::redis::{RedisOptions, RedisStore};

struct Redis {
    process: Child,
    port: u16,
    _directory: tempfile::TempDir,
}

impl Redis {
    fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let process = Command::new("redis-server")
            .args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--save", ""])
            .args(["--dir", directory.path().to_str().unwrap()])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let deadline = Instant::now() + Duration::from_secs(20);
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(Instant::now() < deadline, "redis-server did not start");
            std::thread::sleep(Duration::from_millis(20));
        }
        Self { process, port, _directory: directory }
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_redis_store_keeps_the_contract() {
    let redis = Redis::start();
    let number = AtomicUsize::new(0);
    run_all(|| async {
        let number = number.fetch_add(1, Ordering::Relaxed);
        let url = format!("redis://127.0.0.1:{}/", redis.port);
        let options =
            RedisOptions { prefix: format!("scenario-{number}"), ..RedisOptions::new(&url).unwrap() };
        Arc::new(RedisStore::open(&options).await.unwrap()) as Arc<dyn Store>
    })
    .await;
}
