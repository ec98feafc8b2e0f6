//! The one list of scenarios of this crate, over memory and over the embedded database.

use anteroom_store::conformance::SCENARIOS;
use anteroom_store::conformance::stores::{
    run_all_and_reopen, run_all_over_embedded, run_all_over_memory, run_all_over_shared_memory,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_memory_store_keeps_the_contract() {
    run_all_over_memory(SCENARIOS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_memory_store_that_engines_share_keeps_the_contract() {
    run_all_over_shared_memory(SCENARIOS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_embedded_store_keeps_the_contract() {
    let directory = tempfile::tempdir().unwrap();
    run_all_over_embedded(SCENARIOS, directory.path()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_embedded_store_tells_the_same_after_closing_and_reopening() {
    let directory = tempfile::tempdir().unwrap();
    run_all_and_reopen(SCENARIOS, directory.path()).await;
}
