//! How an embedded store is opened, and when it is not.

use std::sync::Arc;

use anteroom_store::embedded::{FILE_NAME, OpenError, SCHEMA_VERSION};
use anteroom_store::{EmbeddedStore, Store, SystemClock};

#[tokio::test]
async fn a_newer_schema_is_refused_with_a_sentence() {
    let directory = tempfile::tempdir().unwrap();
    let open = || EmbeddedStore::open(directory.path(), Arc::new(SystemClock));
    let store = open().unwrap();
    let (known, newer) = (SCHEMA_VERSION.to_le_bytes(), (SCHEMA_VERSION + 1).to_le_bytes());
    assert!(store.replace_value("schema", Some(&known), &newer, None).await.unwrap());
    drop(store);
    let refused = open().err().unwrap();
    assert_eq!(
        refused.to_string(),
        "the database was written by a newer version (schema 3, this program knows 2); use that version"
    );
    assert!(matches!(refused, OpenError::Newer { found: 3 }));
}

#[tokio::test]
async fn a_database_has_one_owner_at_a_time() {
    let directory = tempfile::tempdir().unwrap();
    let open = || EmbeddedStore::open(directory.path(), Arc::new(SystemClock));
    let store = open().unwrap();
    assert!(matches!(open(), Err(OpenError::InUse)));
    assert!(store.replace_value("name", None, b"value", None).await.unwrap());
    drop(store);
    let value = open().unwrap().value("name").await.unwrap();
    assert_eq!(value.as_deref(), Some(b"value".as_slice()));
}

#[test]
fn a_directory_that_cannot_be_made_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    std::fs::write(&file, b"").unwrap();
    let refused = EmbeddedStore::open(&file.join("data"), Arc::new(SystemClock));
    let refused = refused.err().unwrap().to_string();
    assert!(refused.starts_with("cannot create the data directory"), "{refused}");
}

#[test]
fn an_unfinished_file_is_no_obstacle() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join(format!("{FILE_NAME}.new-1-1")), b"torn").unwrap();
    drop(EmbeddedStore::open(directory.path(), Arc::new(SystemClock)).unwrap());
    EmbeddedStore::open(directory.path(), Arc::new(SystemClock)).unwrap();
}
