//! `anteroom demo`: a gateway before a small shop, on a temporary directory, and what to try in a browser and with curl.

mod shop;

use std::ffi::OsString;
use std::net::TcpListener;

use anteroom_server::Addresses;
use anteroom_server::config::{Config, DEFAULT_FILE_NAME};

use crate::serve;

const ADMIN_KEY: &str = "demo-key-not-a-secret";
const PREFERRED_PORTS: [u16; 2] = [8080, 8081];
/// How many visitors the shop takes at once: two browsers are in, the third one stands in line.
const CAPACITY: u64 = 2;
/// How long a visitor stays in who does nothing, in seconds.
const SESSION_SECONDS: u64 = 60;

/// Runs until Ctrl-C; the directory goes away with it.
pub(crate) fn demo() -> anyhow::Result<()> {
    let directory = tempfile::Builder::new().prefix("anteroom-demo-").tempdir()?;
    let store = format!("file:{}", directory.path().display());
    let [public, private] = PREFERRED_PORTS.map(address);
    let shop = shop::open()?;
    let rooms = format!(
        "[[room]]\nid = \"shop\"\norigins = [\"http://{shop}\"]\ninlet = \"max-size\"\ntotal_active_users = {CAPACITY}\n\
         session_duration = {SESSION_SECONDS}\n[[room]]\nid = \"Sample\"\n"
    );
    std::fs::write(directory.path().join(DEFAULT_FILE_NAME), rooms)?;
    let environment = [
        ("ANTEROOM_PUBLIC_ADDR", public),
        ("ANTEROOM_PRIVATE_ADDR", private),
        ("ANTEROOM_STORE_URL", store),
        ("ANTEROOM_ADMIN_KEY", ADMIN_KEY.to_owned()),
        ("ANTEROOM_LOG", "warn".to_owned()),
    ];
    let environment = environment.map(|(name, value)| (OsString::from(name), OsString::from(value)));
    let loaded = Config::load(None, directory.path(), environment)?;
    let ready = |addresses: &Addresses, _| println!("{}", script(&addresses.public, &addresses.private));
    serve::run(loaded, ready, || {
        // The second Ctrl-C ends the process on the spot, so nobody would drop the directory any more.
        let _ = std::fs::remove_dir_all(directory.path());
    })
}

/// The usual port if it is free, any other if not.
fn address(port: u16) -> String {
    let port = if TcpListener::bind(("127.0.0.1", port)).is_ok() { port } else { 0 };
    format!("127.0.0.1:{port}")
}

fn script(public: &str, private: &str) -> String {
    format!(
        r#"Anteroom stands before a small shop that takes {CAPACITY} visitors at once: {public}/

Open it in a browser: you are in. Open it in {CAPACITY} more (private windows, other browsers), and the last one stands in line.
Buy something: your visit is over, and whoever waits is let in. Somebody who does nothing is out after {SESSION_SECONDS} seconds.

There is also a room `Sample`, whose line moves when you say so. In another terminal:

  P={public}/.anteroom A={private} K='Authorization: Bearer {ADMIN_KEY}'
  ID=$(curl -s $P/assign_queue_num -d '{{"event_id":"Sample"}}' | cut -d'"' -f4)        # take a place in line
  curl -s "$P/queue_num?event_id=Sample&request_id=$ID"; echo                         # its number: 1
  curl -s "$P/serving_num?event_id=Sample"; echo                                      # who is being served: nobody yet
  curl -s $P/generate_token -d "{{\"event_id\":\"Sample\",\"request_id\":\"$ID\"}}"; echo   # too early: not being served yet
  curl -s $A/increment_serving_counter -H "$K" -d '{{"event_id":"Sample","increment_by":100}}'; echo   # let 100 in
  curl -s $P/generate_token -d "{{\"event_id\":\"Sample\",\"request_id\":\"$ID\"}}"; echo   # your pass: three signed tokens
  curl -s "$P/public_key?event_id=Sample"; echo                                       # the key that any JWT library checks them with
  curl -s "$A/num_active_tokens?event_id=Sample" -H "$K"; echo                        # visitors inside

Ctrl-C ends it and deletes its data."#
    )
}
