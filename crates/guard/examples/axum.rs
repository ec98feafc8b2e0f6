//! A small shop on axum whose pages are for visitors with a pass.
//!
//! ```sh
//! cargo run --example axum -- http://127.0.0.1:8080 Sample 127.0.0.1:3000
//! ```
//!
//! With `anteroom demo` running, claim a pass for the room `Sample` and show it:
//! `curl http://127.0.0.1:3000/ -H "Authorization: Bearer $PASS"`. A browser is redirected to the waiting page.
#![expect(clippy::print_stdout, reason = "an example says where it is")]

use std::error::Error;

use anteroom_guard::{Guard, GuardLayer, Pass, TokenPlace, WaitingPage};
use axum::routing::get;
use axum::{Extension, Router};
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let waiting_room = arguments.next().unwrap_or_else(|| "http://127.0.0.1:8080".to_owned());
    let room = arguments.next().unwrap_or_else(|| "Sample".to_owned());
    let listener = TcpListener::bind(arguments.next().unwrap_or_else(|| "127.0.0.1:0".to_owned())).await?;
    let site = format!("http://{}", listener.local_addr()?);

    let guard = Guard::builder(waiting_room)
        .room(&room)
        .tokens_in([TokenPlace::Bearer, TokenPlace::cookie_of_room(&room)])
        .build()?;
    // The site starts also where the waiting room does not answer yet: the first visitor tries again.
    if let Err(error) = guard.fetch_keys().await {
        println!("no keys yet: {error}");
    }

    let app = Router::new()
        .route("/", get(front_page))
        .layer(GuardLayer::new(guard.clone()).redirect_to(WaitingPage::of_room(&site)))
        // Behind no guard: what a load balancer asks. A site without keys is up, and its visitors get 503.
        .route(
            "/healthz",
            get(move || async move { format!("keys usable: {}\n", guard.key_status().usable) }),
        );
    println!("open {site}/");
    axum::serve(listener, app).await?;
    Ok(())
}

async fn front_page(Extension(pass): Extension<Pass>) -> String {
    format!("You are number {} of {}.\n", pass.queue_position, pass.room)
}
