use std::collections::BTreeMap;

use anteroom_core::{Event, EventKind};
use anteroom_store::{EventId, MemoryStore};
use secrecy::ExposeSecret as _;

use super::*;
use crate::destination::{BACKOFF_MAX_SECONDS, RetrySchedule};

const NOW: UnixMillis = UnixMillis(1_800_000_000_000);
const LATER: UnixMillis = NOW.plus(60_000);
const MASTER: &str = "a-master-secret-for-tests-0123456789abcdef";
const OWN_SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const OTHER_SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSx";
const ACCESS_KEY: &str = "AKIDEXAMPLEEXAMPLE00";

fn rules() -> DestinationRules {
    let networks = AllowedNetworks::new(vec!["127.0.0.0/8".parse().unwrap()]);
    DestinationRules { networks, has_events_directory: true }
}

async fn open(store: &Arc<dyn Store>) -> Destinations {
    let master = Arc::new(MasterSecrets::parse(MASTER).unwrap());
    Destinations::open(Arc::clone(store), master, rules()).await.unwrap()
}

async fn registry() -> (Arc<dyn Store>, Destinations) {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let destinations = open(&store).await;
    (store, destinations)
}

fn of_kind(kind: &str) -> DestinationTerms {
    let terms = DestinationTerms { kind: Some(kind.into()), ..DestinationTerms::default() };
    match kind {
        "webhook" => DestinationTerms { url: Some("https://shop.example/hooks".into()), ..terms },
        "nats" => DestinationTerms { url: Some("nats://127.0.0.1:4222".into()), ..terms },
        "eventbridge" => DestinationTerms {
            region: Some("eu-central-1".into()),
            access_key_id: Some(ACCESS_KEY.into()),
            ..terms
        },
        _ => terms,
    }
}

fn webhook() -> DestinationTerms {
    of_kind("webhook")
}

fn secret(text: &str) -> SecretString {
    SecretString::from(text)
}

fn shared(shown: Option<ShownKey>) -> String {
    match shown {
        Some(ShownKey::Shared(secret)) => secret.expose_secret().to_owned(),
        other => panic!("a shared secret, not {other:?}"),
    }
}

fn signs_like(key: &WebhookKey, text: &str) -> bool {
    let other = WebhookKey::from_shared_secret(text).unwrap();
    key.sign("id", 1, b"body") == other.sign("id", 1, b"body")
}

async fn actions(store: &Arc<dyn Store>) -> Vec<String> {
    let records = store.audit(None, None, 100).await.unwrap();
    records.into_iter().rev().map(|(_, record)| format!("{}: {}", record.actor, record.action)).collect()
}

#[tokio::test]
async fn a_destination_is_made_found_changed_and_deleted_with_a_record_of_each() {
    let (store, destinations) = registry().await;
    let changes = destinations.subscribe();
    let (made, shown) = destinations.create("shop", &webhook(), None, "ann", NOW).await.unwrap();
    let whsec = shared(shown);
    assert!(whsec.starts_with("whsec_"));
    assert_eq!((made.types.as_slice(), made.with_request_ids), (&["default".to_owned()][..], false));
    assert_eq!(
        (made.schedule, made.backoff_max.as_secs()),
        (RetrySchedule::Exponential, BACKOFF_MAX_SECONDS)
    );
    let keys = destinations.keys_of("shop", NOW);
    assert!(keys.len() == 1 && signs_like(&keys[0], &whsec));
    let taken = destinations.create("shop", &webhook(), None, "ann", NOW).await;
    assert!(matches!(taken, Err(DestinationError::NameTaken)));

    // Another node, which reads what is stored.
    let other = open(&store).await;
    assert_eq!(other.list(), destinations.list());
    assert!(signs_like(&other.keys_of("shop", NOW)[0], &whsec));

    let change = DestinationTerms {
        batch_max: Some(50),
        rooms: Some(vec!["Hall".into()]),
        types: Some(vec!["session.*".into()]),
        schedule: Some("standard".into()),
        ..DestinationTerms::default()
    };
    let other_terms = destinations.change("shop", &change, "ann", LATER).await.unwrap();
    let Target::Webhook(target) = &other_terms.target else { panic!("{other_terms:?}") };
    assert_eq!((target.url.as_str(), target.batch_max), ("https://shop.example/hooks", 50));
    assert_eq!((other_terms.created_at, other_terms.schedule), (NOW, RetrySchedule::Standard));
    assert!(signs_like(&destinations.keys_of("shop", NOW)[0], &whsec), "its key stays");
    other.reload().await.unwrap();
    assert_eq!(other.find("shop"), Some(other_terms));
    destinations.delete("shop", "bob", LATER).await.unwrap();
    assert!(matches!(destinations.delete("shop", "bob", LATER).await, Err(DestinationError::Unknown)));
    assert!(destinations.find("shop").is_none() && destinations.keys_of("shop", NOW).is_empty());
    assert!(changes.has_changed().unwrap());
    assert_eq!(
        actions(&store).await,
        [
            "ann: create webhook destination shop",
            "ann: change destination shop",
            "bob: delete destination shop"
        ]
    );
}

#[tokio::test]
async fn every_kind_has_its_secret() {
    let (_store, destinations) = registry().await;
    let pair = DestinationTerms { algorithm: Some("ed25519".into()), ..webhook() };
    let (_, shown) = destinations.create("pair", &pair, None, "ann", NOW).await.unwrap();
    let Some(ShownKey::Public(public)) = shown else { panic!("a public key, not {shown:?}") };
    assert_eq!(destinations.keys_of("pair", NOW)[0].public_key().as_ref(), Some(&public));
    assert_eq!(destinations.secrets("pair", NOW)[0].public_key.as_ref(), Some(&public));

    let own = secret(OWN_SECRET);
    let (_, shown) = destinations.create("own", &webhook(), Some(&own), "ann", NOW).await.unwrap();
    assert!(shown.is_none() && signs_like(&destinations.keys_of("own", NOW)[0], OWN_SECRET));

    let aws = secret("the-secret-of-an-access-key");
    let bus = of_kind("eventbridge");
    let (made, shown) = destinations.create("bus", &bus, Some(&aws), "ann", NOW).await.unwrap();
    assert!(shown.is_none() && made.with_request_ids && made.types == ["aws"]);
    assert_eq!(destinations.secret_of("bus").unwrap().expose_secret(), aws.expose_secret());
    assert!(destinations.keys_of("bus", NOW).is_empty());
    let next = SecretRotation {
        secret: Some(secret("another")),
        access_key_id: Some("AKIDEXAMPLEEXAMPLE01".into()),
        ..SecretRotation::default()
    };
    let (rotated, _) = destinations.rotate_secret("bus", &next, "ann", NOW).await.unwrap();
    let Target::EventBridge(target) = &rotated.target else { panic!("{rotated:?}") };
    assert_eq!(target.access_key_id, "AKIDEXAMPLEEXAMPLE01");
    assert_eq!(destinations.secret_of("bus").unwrap().expose_secret(), "another");
    assert_eq!(destinations.secrets("bus", NOW).len(), 1, "what lets us in is replaced at once");

    destinations.create("stream", &of_kind("nats"), None, "ann", NOW).await.unwrap();
    destinations.create("log", &of_kind("file"), None, "ann", NOW).await.unwrap();
    assert!(destinations.secret_of("stream").is_none() && destinations.secret_of("log").is_none());
    let refused = destinations.rotate_secret("log", &SecretRotation::default(), "ann", NOW).await;
    assert!(matches!(refused, Err(DestinationError::NoSecret)));

    for (name, terms, given, about) in [
        ("a", pair, Some(OWN_SECRET), "key pair"),
        ("a", webhook(), Some("hunter2"), "whsec_"),
        ("a", bus.clone(), None, "access key"),
        ("a", bus, Some("two words"), "access key"),
        ("a", of_kind("file"), Some("x"), "not of files"),
    ] {
        let given = given.map(secret);
        let refused = destinations.create(name, &terms, given.as_ref(), "ann", NOW).await.unwrap_err();
        let text = refused.to_string();
        assert!(text.starts_with("`secret` ") && text.contains(about), "{text}");
        assert!(!text.contains("hunter2") && !text.contains(OWN_SECRET), "{text}");
    }
}

#[tokio::test]
async fn two_keys_sign_while_a_receiver_changes_over() {
    let (_store, destinations) = registry().await;
    let (_, shown) = destinations.create("shop", &webhook(), None, "ann", NOW).await.unwrap();
    let first = shared(shown);
    let alone = destinations.revoke_previous_secret("shop", "ann", NOW).await;
    assert!(matches!(alone, Err(DestinationError::NoPreviousSecret)));
    let until_later = SecretRotation { previous_ends_at: Some(LATER), ..SecretRotation::default() };
    let (_, shown) = destinations.rotate_secret("shop", &until_later, "ann", NOW).await.unwrap();
    let second = shared(shown);
    let keys = destinations.keys_of("shop", NOW);
    assert!(keys.len() == 2 && signs_like(&keys[0], &second) && signs_like(&keys[1], &first));
    assert_eq!(destinations.keys_of("shop", LATER).len(), 1, "the one before has an end");
    destinations.revoke_previous_secret("shop", "ann", NOW).await.unwrap();
    assert_eq!(destinations.keys_of("shop", NOW).len(), 1);

    let to_pair = SecretRotation {
        algorithm: Some(WebhookAlgorithm::Ed25519),
        previous_ends_at: Some(LATER),
        ..SecretRotation::default()
    };
    destinations.rotate_secret("shop", &to_pair, "ann", NOW).await.unwrap();
    let keys = destinations.keys_of("shop", NOW);
    assert_eq!(keys[0].algorithm(), WebhookAlgorithm::Ed25519);
    assert!(signs_like(&keys[1], &second), "another algorithm changes over in the same way");
    destinations.rotate_secret("shop", &SecretRotation::default(), "ann", NOW).await.unwrap();
    let keys = destinations.keys_of("shop", NOW);
    assert_eq!(keys.len(), KEYS_MAX, "a second rotation ends the oldest");
    assert_eq!(keys[0].algorithm(), WebhookAlgorithm::Ed25519, "as the one before");
}

#[tokio::test]
async fn a_destination_is_paused_disabled_and_resumed() {
    let (store, destinations) = registry().await;
    destinations.create("shop", &webhook(), None, "ann", NOW).await.unwrap();
    let paused = destinations.pause("shop", "ann", NOW).await.unwrap();
    assert_eq!(paused.state, DestinationState::Paused);
    let disabled = Event::DestinationDisabled { name: "shop".into(), reason: "410".into() };
    let event = StoredEvent { id: EventId::default(), at: NOW, room: None, event: disabled };
    for _ in 0..2 {
        destinations.disable("shop", "410 Gone", std::slice::from_ref(&event), NOW).await.unwrap();
    }
    let state = destinations.find("shop").unwrap().state.clone();
    assert_eq!(state, DestinationState::Disabled { reason: "410 Gone".into() });
    assert_eq!(store.outbox().await.unwrap().last, 1, "the event is written once, with the change");
    let refused = destinations.pause("shop", "ann", NOW).await;
    assert!(matches!(refused, Err(DestinationError::Disabled)));
    let resumed = destinations.resume("shop", "ann", NOW).await.unwrap();
    assert_eq!(resumed.state, DestinationState::Active);
    let (after, _) = destinations.create("late", &webhook(), None, "ann", NOW).await.unwrap();
    assert_eq!(after.begins_after, 1, "what was before is not for it");
    assert!(actions(&store).await.contains(&"delivery: disable destination shop".to_owned()));
}

#[tokio::test]
async fn commands_have_rising_numbers() {
    let (_store, destinations) = registry().await;
    destinations.create("shop", &webhook(), None, "ann", NOW).await.unwrap();
    for number in 1..=3 {
        let replay = destinations.replay("shop", 7, "ann", NOW).await.unwrap();
        assert_eq!(replay, Replay { number, after: 7 });
    }
    assert_eq!(destinations.replay_dead_letters("shop", "ann", NOW).await.unwrap().number, 1);
    let dropped = destinations.drop_dead_letters("shop", "ann", NOW).await.unwrap();
    assert_eq!(dropped, DeadLetterCommand { number: 2, is_replay: false });
    let unknown = destinations.replay("nobody", 7, "ann", NOW).await;
    assert!(matches!(unknown, Err(DestinationError::Unknown)));
}

#[tokio::test]
async fn the_kinds_that_rooms_write_are_those_that_somebody_wants() {
    let (_store, destinations) = registry().await;
    let hall = RoomId::parse("Hall").unwrap();
    assert_eq!(destinations.wanted(&hall), EventKinds::NONE);
    let of = |rooms: &[&str], types: &[&str]| DestinationTerms {
        rooms: Some(rooms.iter().map(|room| (*room).to_owned()).collect()),
        types: Some(types.iter().map(|pattern| (*pattern).to_owned()).collect()),
        ..webhook()
    };
    destinations.create("a", &of(&["Hall"], &["session.begun"]), None, "ann", NOW).await.unwrap();
    destinations.create("b", &of(&["Yard"], &["offers.lapsed"]), None, "ann", NOW).await.unwrap();
    destinations.create("c", &of(&[], &["alarm.*"]), None, "ann", NOW).await.unwrap();
    destinations.pause("a", "ann", NOW).await.unwrap();
    let wanted = destinations.wanted(&hall);
    assert!(wanted.contains(EventKind::SessionBegun), "a paused one is still to get it");
    assert!(wanted.contains(EventKind::AlarmFired) && !wanted.contains(EventKind::OffersLapsed));
    destinations.delete("a", "ann", NOW).await.unwrap();
    assert!(!destinations.wanted(&hall).contains(EventKind::SessionBegun));
}

#[tokio::test]
async fn secrets_are_shown_by_nothing_that_is_kept_or_printed() {
    let (store, destinations) = registry().await;
    let (_, shown) = destinations.create("shop", &webhook(), None, "ann", NOW).await.unwrap();
    let whsec = shared(shown);
    let aws = secret("the-secret-of-an-access-key");
    destinations.create("bus", &of_kind("eventbridge"), Some(&aws), "ann", NOW).await.unwrap();
    let stored = String::from_utf8(store.value("destinations").await.unwrap().unwrap()).unwrap();
    let records = format!("{:?}", store.audit(None, None, 10).await.unwrap());
    let printed = format!("{:?} {:?}", destinations.list(), destinations.secrets("shop", NOW));
    for text in [&stored, &records, &printed] {
        for hidden in [&whsec["whsec_".len()..], aws.expose_secret()] {
            assert!(!text.contains(hidden), "{text}");
        }
    }
    // Under another name it does not open.
    let moved = stored.replace("\"shop\"", "\"mall\"");
    assert!(
        store.replace_value("destinations", Some(stored.as_bytes()), moved.as_bytes(), None).await.unwrap()
    );
    destinations.reload().await.unwrap();
    assert_eq!(destinations.secrets("mall", NOW).len(), 1);
    assert!(destinations.keys_of("mall", NOW).is_empty());
}

#[tokio::test]
async fn secrets_are_sealed_anew_when_the_master_secret_is_rotated() {
    let (store, destinations) = registry().await;
    let (_, shown) = destinations.create("shop", &webhook(), None, "ann", NOW).await.unwrap();
    let whsec = shared(shown);
    let aws = secret("the-secret-of-an-access-key");
    destinations.create("bus", &of_kind("eventbridge"), Some(&aws), "ann", NOW).await.unwrap();
    let with = async |master: &str| {
        let master = Arc::new(MasterSecrets::parse(master).unwrap());
        Destinations::open(Arc::clone(&store), master, rules()).await.unwrap()
    };
    let new = "another-master-secret-for-tests-0123456789";
    let rotating = with(&format!("{new},{MASTER}")).await;
    for _ in 0..2 {
        rotating.reseal(NOW).await.unwrap();
    }
    let sealings = actions(&store).await;
    assert_eq!(sealings.iter().filter(|action| action.contains("seal secrets")).count(), 1, "once");
    let alone = with(new).await;
    assert!(signs_like(&alone.keys_of("shop", NOW)[0], &whsec));
    assert_eq!(alone.secret_of("bus").unwrap().expose_secret(), aws.expose_secret());
    let without = with(MASTER).await;
    assert!(without.keys_of("shop", NOW).is_empty() && without.secret_of("bus").is_none());
    without.reseal(NOW).await.unwrap();
    assert!(signs_like(&with(new).await.keys_of("shop", NOW)[0], &whsec), "what it cannot open, it leaves");
}

#[tokio::test]
async fn what_is_wrong_names_its_field_and_changes_nothing() {
    let (store, destinations) = registry().await;
    let with = |change: fn(&mut DestinationTerms)| {
        let mut terms = webhook();
        change(&mut terms);
        terms
    };
    for (field, name, terms) in [
        ("name", "a b", webhook()),
        ("name", "..", webhook()),
        ("name", "", webhook()),
        ("name", "log.1", of_kind("file")),
        ("kind", "x", DestinationTerms::default()),
        ("kind", "x", of_kind("webhok")),
        ("url", "x", with(|terms| terms.url = None)),
        ("url", "x", with(|terms| terms.url = Some("http://shop.example:1/#a".into()))),
        ("url", "x", with(|terms| terms.url = Some("https://10.0.0.1/".into()))),
        ("batch_max", "x", with(|terms| terms.batch_max = Some(0))),
        ("batch_max", "x", with(|terms| terms.batch_max = Some(101))),
        ("algorithm", "x", with(|terms| terms.algorithm = Some("rsa".into()))),
        ("region", "x", with(|terms| terms.region = Some("eu-central-1".into()))),
        ("region", "x", DestinationTerms { region: Some("EU west".into()), ..of_kind("eventbridge") }),
        ("bus", "x", DestinationTerms { bus: Some("a b".into()), ..of_kind("eventbridge") }),
        ("endpoint", "x", DestinationTerms { endpoint: Some("http://a/".into()), ..of_kind("webhook") }),
        ("access_key_id", "x", DestinationTerms { access_key_id: None, ..of_kind("eventbridge") }),
        ("subject_prefix", "x", DestinationTerms { subject_prefix: Some("a..b".into()), ..of_kind("nats") }),
        ("subject_prefix", "x", DestinationTerms { subject_prefix: Some("a.>".into()), ..of_kind("nats") }),
        ("size_max_bytes", "x", DestinationTerms { size_max_bytes: Some(1), ..of_kind("file") }),
        ("files_max", "x", DestinationTerms { files_max: Some(0), ..of_kind("file") }),
        ("timeout_seconds", "x", DestinationTerms { timeout_seconds: Some(5), ..of_kind("file") }),
        ("timeout_seconds", "x", with(|terms| terms.timeout_seconds = Some(31))),
        ("rooms", "x", with(|terms| terms.rooms = Some(vec!["a/b".into()]))),
        ("rooms", "x", with(|terms| terms.rooms = Some(vec!["a".into(), "a".into()]))),
        ("types", "x", with(|terms| terms.types = Some(vec![]))),
        ("types", "x", with(|terms| terms.types = Some(vec!["room.open".into()]))),
        ("schedule", "x", with(|terms| terms.schedule = Some("often".into()))),
        ("backoff_max_seconds", "x", with(|terms| terms.backoff_max_seconds = Some(0))),
        (
            "backoff_max_seconds",
            "x",
            with(|terms| {
                terms.schedule = Some("standard".into());
                terms.backoff_max_seconds = Some(60);
            }),
        ),
        ("give_up_after_seconds", "x", with(|terms| terms.give_up_after_seconds = Some(59))),
    ] {
        let refused = destinations.create(name, &terms, None, "ann", NOW).await.unwrap_err();
        let text = refused.to_string();
        assert!(text.starts_with(&format!("`{field}` ")), "{field}: {text}");
        assert!(!text.contains("  ") && !text.ends_with('.'), "{text}");
    }
    assert!(destinations.list().is_empty() && actions(&store).await.is_empty());
    let said = |terms: DestinationTerms| terms.check(None, &rules()).unwrap_err()[0].to_string();
    let near = said(with(|terms| terms.types = Some(vec!["session.began".into()])));
    assert!(near.ends_with("did you mean session.begun?"), "{near}");
    assert!(said(of_kind("webhok")).ends_with("did you mean webhook?"));

    destinations.create("shop", &webhook(), None, "ann", NOW).await.unwrap();
    let before = destinations.find("shop").unwrap();
    for (field, change) in [
        ("kind", of_kind("file")),
        ("algorithm", DestinationTerms { algorithm: Some("ed25519".into()), ..DestinationTerms::default() }),
        ("files_max", DestinationTerms { files_max: Some(3), ..DestinationTerms::default() }),
    ] {
        let refused = destinations.change("shop", &change, "ann", NOW).await.unwrap_err().to_string();
        assert!(refused.starts_with(&format!("`{field}` ")), "{field}: {refused}");
    }
    assert_eq!(destinations.find("shop"), Some(before));
}

#[tokio::test]
async fn destinations_are_bounded_in_number_and_size() {
    let (_store, destinations) = registry().await;
    let large = secret(&"s".repeat(16 * 1024));
    let mut refused = None;
    for number in 0..DESTINATIONS_MAX {
        let name = format!("n{number}");
        let made = destinations.create(&name, &of_kind("nats"), Some(&large), "ann", NOW).await;
        refused = made.err();
        if refused.is_some() {
            break;
        }
    }
    assert!(matches!(refused, Some(DestinationError::TooMuch)), "{refused:?}");
    for destination in destinations.list() {
        destinations.delete(&destination.name, "ann", NOW).await.unwrap();
    }
    for number in 0..DESTINATIONS_MAX {
        destinations.create(&format!("n{number}"), &webhook(), None, "ann", NOW).await.unwrap();
    }
    let one_more = destinations.create("x", &webhook(), None, "ann", NOW).await;
    assert!(matches!(one_more, Err(DestinationError::TooMany)));
}

fn of_file(
    name: &str,
    terms: DestinationTerms,
    present: Option<&str>,
    previous: Option<&str>,
) -> FileDestination {
    let secrets = FileSecrets { present: present.map(secret), previous: previous.map(secret) };
    FileDestination { name: name.into(), terms, secrets }
}

#[tokio::test]
async fn the_file_alone_changes_its_destinations() {
    let (store, destinations) = registry().await;
    destinations.create("by-hand", &webhook(), None, "ann", NOW).await.unwrap();
    let pair = DestinationTerms { algorithm: Some("ed25519".into()), ..webhook() };
    let both = [of_file("a", webhook(), Some(OWN_SECRET), None), of_file("pair", pair.clone(), None, None)];
    destinations.apply_file(&both, NOW).await.unwrap();
    let public = destinations.secrets("pair", NOW)[0].public_key.clone();
    destinations.apply_file(&both, LATER).await.unwrap();
    assert_eq!(destinations.secrets("pair", NOW)[0].public_key, public, "a key pair is kept");
    let set = "configuration file: set destinations of the file";
    let made = "ann: create webhook destination by-hand";
    assert_eq!(actions(&store).await, [made, set], "once, because nothing changed");

    let patch = DestinationTerms { batch_max: Some(2), ..DestinationTerms::default() };
    for refused in [
        destinations.change("a", &patch, "ann", NOW).await.err(),
        destinations.delete("a", "ann", NOW).await.err(),
        destinations.rotate_secret("a", &SecretRotation::default(), "ann", NOW).await.err(),
        destinations.revoke_previous_secret("a", "ann", NOW).await.err(),
    ] {
        assert!(matches!(refused, Some(DestinationError::FromFile)), "{refused:?}");
    }
    destinations.pause("a", "ann", NOW).await.unwrap();
    destinations.replay("a", 0, "ann", NOW).await.unwrap();
    destinations.rotate_secret("pair", &SecretRotation::default(), "ann", NOW).await.unwrap();

    // Another secret, with the one before; `pair` is gone, and one made by hand becomes the file's.
    let next = [
        of_file("a", webhook(), Some(OTHER_SECRET), Some(OWN_SECRET)),
        of_file("by-hand", webhook(), Some(OWN_SECRET), None),
    ];
    destinations.apply_file(&next, LATER).await.unwrap();
    let names: Vec<String> = destinations.list().iter().map(|one| one.name.clone()).collect();
    assert_eq!(names, ["by-hand", "a"]);
    let a = destinations.find("a").unwrap();
    assert!(
        a.is_from_file && a.state == DestinationState::Paused && a.created_at == NOW && a.replay.is_some()
    );
    let keys = destinations.keys_of("a", LATER);
    assert!(signs_like(&keys[0], OTHER_SECRET) && signs_like(&keys[1], OWN_SECRET));
    let times: Vec<UnixMillis> =
        destinations.secrets("a", LATER).iter().map(|secret| secret.created_at).collect();
    assert_eq!(times, [LATER, NOW], "the newest first, each with its time");
    destinations.apply_file(&[], LATER).await.unwrap();
    assert!(destinations.list().is_empty());
}

#[test]
fn the_file_says_where_secrets_are() {
    let problems = |terms: &DestinationTerms, given| {
        let found = FileDestination::problems("x", terms, given, &rules());
        found.into_iter().map(|problem| problem.field).collect::<Vec<_>>()
    };
    let pair = DestinationTerms { algorithm: Some("ed25519".into()), ..webhook() };
    assert_eq!(problems(&webhook(), (true, true)), [""; 0]);
    assert_eq!(problems(&webhook(), (false, false)), ["secret_file"]);
    assert_eq!(problems(&webhook(), (false, true)), ["secret_file", "previous_secret_file"]);
    assert_eq!(problems(&pair, (false, false)), [""; 0]);
    assert_eq!(problems(&pair, (true, false)), ["secret_file"]);
    assert_eq!(problems(&of_kind("eventbridge"), (false, false)), ["secret_file"]);
    assert_eq!(problems(&of_kind("nats"), (false, false)), [""; 0]);
    assert_eq!(problems(&of_kind("nats"), (true, true)), ["previous_secret_file"]);
    assert_eq!(problems(&of_kind("file"), (true, false)), ["secret_file"]);
    let bad = DestinationTerms { batch_max: Some(0), timeout_seconds: Some(0), ..webhook() };
    assert_eq!(problems(&bad, (true, false)), ["timeout_seconds", "batch_max"], "all at once");
}

#[tokio::test]
async fn destinations_of_a_backup_are_judged() {
    let (store, destinations) = registry().await;
    destinations.create("shop", &webhook(), None, "ann", NOW).await.unwrap();
    let good = String::from_utf8(store.value("destinations").await.unwrap().unwrap()).unwrap();
    let judged = |text: &str| accept(&BTreeMap::from([("destinations".to_owned(), text.into())]));
    accept(&BTreeMap::new()).unwrap();
    judged(&good).unwrap();
    let one = &good[1..good.len() - 1];
    for bad in ["nonsense".to_owned(), good.replace("exponential", "often"), format!("[{one},{one}]")] {
        assert!(judged(&bad).is_err(), "{bad}");
    }
    let unreadable = store.replace_value("destinations", Some(good.as_bytes()), b"nonsense", None).await;
    assert!(unreadable.unwrap());
    assert!(matches!(destinations.reload().await, Err(StoredValueError::Unreadable(_))));
    assert!(destinations.find("shop").is_some(), "what was read before stays");
}
