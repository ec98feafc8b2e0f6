//! Files: rotation, what a crash leaves behind, and who may read them.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;

use anteroom_events::{OpenedSecrets, TransportError, transport_of};
use tokio::task::JoinSet;

use crate::messages::{cloud_event, messages};
use crate::receivers::{EventFile, Receiver as _, destination, loopback_policy, transport};

#[tokio::test(flavor = "multi_thread")]
async fn a_full_file_is_renamed_and_the_oldest_goes() {
    let mut file = EventFile::start();
    file.size_max_bytes = 1000;
    file.files_max = 2;
    let transport = transport(&file, false);
    // One call writes several files, and one file takes several calls.
    transport.send(&messages(1, 20)).await.unwrap();
    for number in 21..=30 {
        transport.send(&messages(number, 1)).await.unwrap();
    }
    let names = ["shop.2.jsonl", "shop.1.jsonl", "shop.jsonl"];
    let all: Vec<_> = names.iter().flat_map(|name| file.events_in(name)).collect();
    let sent: Vec<_> = messages(1, 30).iter().map(|message| cloud_event(message, false)).collect();
    assert!(all.len() >= 4, "{}", all.len());
    assert!(sent.ends_with(&all), "the newest, in order, none missing between two files");
    assert_eq!(fs::read_dir(file.path("")).unwrap().count(), 3);
    for name in names {
        let metadata = fs::metadata(file.path(name)).unwrap();
        assert!(metadata.len() <= 1000);
        assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_rotated_files_the_full_one_goes() {
    let mut file = EventFile::start();
    (file.size_max_bytes, file.files_max) = (1, 0);
    let transport = transport(&file, false);
    transport.send(&messages(1, 3)).await.unwrap();
    assert_eq!(file.events_in("shop.jsonl"), [cloud_event(&messages(3, 1)[0], false)]);
    assert_eq!(fs::read_dir(file.path("")).unwrap().count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_line_that_a_crash_cut_short_does_not_spoil_the_next() {
    let file = EventFile::start();
    let transport = transport(&file, false);
    transport.send(&messages(1, 2)).await.unwrap();
    let path = file.path("shop.jsonl");
    let whole = fs::read(&path).unwrap();
    for cut in [1, 5, 100] {
        fs::write(&path, &whole[..whole.len() - cut]).unwrap();
        transport.send(&messages(2, 1)).await.unwrap();
        let text = fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3, "{text}");
        let last: serde_json::Value = serde_json::from_str(lines[2]).unwrap();
        assert_eq!(last, messages(2, 1)[0].to_json(false));
        assert!(text.ends_with('\n'));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_somebody_moved_away_is_begun_anew() {
    let file = EventFile::start();
    let transport = transport(&file, false);
    transport.send(&messages(1, 1)).await.unwrap();
    fs::rename(file.path("shop.jsonl"), file.path("moved")).unwrap();
    transport.send(&messages(2, 1)).await.unwrap();
    assert_eq!(file.events_in("shop.jsonl").len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_at_once_do_not_mix_their_lines() {
    let file = EventFile::start();
    let transport = transport(&file, false);
    let mut sends = JoinSet::new();
    for call in 0..8 {
        let transport = Arc::clone(&transport);
        sends.spawn(async move { transport.send(&messages(1 + call * 50, 50)).await });
    }
    for sent in sends.join_all().await {
        sent.unwrap();
    }
    let mut events = file.events_in("shop.jsonl");
    assert_eq!(events.len(), 400);
    for call in events.chunks(50) {
        assert!(call.is_sorted_by_key(|event| event["sequence"].as_str().unwrap().to_owned()));
    }
    events.sort_by_key(|event| event["sequence"].as_str().unwrap().to_owned());
    events.dedup();
    assert_eq!(events.len(), 400);
}

#[test]
fn a_name_that_two_files_could_have_is_refused() {
    let file = EventFile::start();
    for (name, is_refused) in
        [("shop", false), ("shop.eu", false), ("shop.1", true), ("a/b", true), ("", true), ("shop.1a", false)]
    {
        let named = anteroom_events::Destination { name: name.into(), ..destination(file.target(), false) };
        let made = transport_of(&named, OpenedSecrets::default(), loopback_policy(), Some("/tmp".into()));
        assert_eq!(made.err(), is_refused.then_some(TransportError::FileName), "{name}");
    }
    let nowhere =
        transport_of(&destination(file.target(), false), OpenedSecrets::default(), loopback_policy(), None);
    assert_eq!(nowhere.err(), Some(TransportError::NoDirectory));
}
