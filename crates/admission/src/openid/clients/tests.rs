use anteroom_core::settings::DURATION_MAX_SECONDS;
use anteroom_store::MemoryStore;

use super::*;

const NOW: UnixMillis = UnixMillis(1_800_000_000_000);
const LATER: UnixMillis = NOW.plus(60_000);

fn room(name: &str) -> RoomId {
    RoomId::parse(name).unwrap()
}

fn terms() -> ClientTerms {
    ClientTerms { redirect_addresses: vec!["https://shop.example/cb".into()], ..ClientTerms::default() }
}

fn terms_of(id: &str) -> ClientTerms {
    ClientTerms { id: Some(id.into()), ..terms() }
}

async fn registry() -> (Arc<dyn Store>, OpenIdClients) {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let clients = OpenIdClients::open(Arc::clone(&store)).await.unwrap();
    (store, clients)
}

async fn actions(store: &Arc<dyn Store>) -> Vec<String> {
    let records = store.audit(None, None, 100).await.unwrap();
    records.into_iter().rev().map(|(_, record)| format!("{}: {}", record.actor, record.action)).collect()
}

#[tokio::test]
async fn a_client_is_made_found_and_deleted_with_a_record_of_each() {
    let (store, clients) = registry().await;
    let hall = room("Hall");
    let (client, secret) = clients.create(&hall, terms(), "ann", NOW).await.unwrap();
    let secret = secret.unwrap();
    assert_eq!((client.id.as_str(), client.name.as_str(), client.is_public), ("Hall", "Hall", false));
    assert!(secret.starts_with("ar_client_") && secret.len() == "ar_client_".len() + 43, "{secret}");
    assert!(client.accepts_secret(&secret, NOW) && !client.accepts_secret("", NOW));
    assert!(clients.find(&hall, "Hall").is_some());
    assert!(clients.find(&hall, "hall").is_none() && clients.find(&room("Other"), "Hall").is_none());
    let taken = clients.create(&hall, terms_of("Hall"), "ann", NOW).await;
    assert!(matches!(taken, Err(ClientError::IdTaken)));
    clients.create(&hall, terms_of("second"), "ann", NOW).await.unwrap();
    clients.create(&room("Other"), terms_of("Hall"), "ann", NOW).await.unwrap();
    let ids: Vec<String> = clients.of_room(&hall).iter().map(|client| client.id.clone()).collect();
    assert_eq!(ids, ["Hall", "second"]);

    // Another node, which reads what is stored.
    let other = OpenIdClients::open(Arc::clone(&store)).await.unwrap();
    assert!(other.find(&hall, "Hall").unwrap().accepts_secret(&secret, NOW));
    clients.delete((&hall, "Hall"), "bob", NOW).await.unwrap();
    assert!(matches!(clients.delete((&hall, "Hall"), "bob", NOW).await, Err(ClientError::Unknown)));
    other.reload().await.unwrap();
    assert!(other.find(&hall, "Hall").is_none() && other.find(&hall, "second").is_some());

    clients.delete_of_room(&hall, "bob", NOW).await.unwrap();
    clients.delete_of_room(&hall, "bob", NOW).await.unwrap();
    assert!(clients.of_room(&hall).is_empty() && clients.find(&room("Other"), "Hall").is_some());
    assert_eq!(
        actions(&store).await,
        [
            "ann: create client Hall",
            "ann: create client second",
            "ann: create client Hall",
            "bob: delete client Hall",
            "bob: delete clients of the deleted room",
        ]
    );
}

#[tokio::test]
async fn two_secrets_work_at_a_time() {
    let (_store, clients) = registry().await;
    let hall = room("Hall");
    let (_, first) = clients.create(&hall, terms(), "ann", NOW).await.unwrap();
    let first = first.unwrap();
    let works = |secret: &str, now| clients.find(&hall, "Hall").unwrap().accepts_secret(secret, now);
    let of_hall = (&hall, "Hall");
    assert!(matches!(
        clients.revoke_previous_secret(of_hall, "ann", NOW).await,
        Err(ClientError::NoPreviousSecret)
    ));
    let (_, second) = clients.rotate_secret(of_hall, None, "ann", NOW).await.unwrap();
    assert!(works(&first, LATER) && works(&second, LATER));
    let (_, third) = clients.rotate_secret(of_hall, Some(LATER), "ann", NOW).await.unwrap();
    assert!(!works(&first, NOW), "a second rotation ends the oldest");
    assert!(works(&second, NOW) && works(&third, NOW));
    assert!(!works(&second, LATER) && works(&third, LATER), "the previous one has an end");
    assert!(clients.revoke_previous_secret(of_hall, "ann", LATER).await.is_err(), "it has ended already");
    clients.revoke_previous_secret(of_hall, "ann", NOW).await.unwrap();
    assert!(!works(&second, NOW) && works(&third, NOW));
    let (client, fourth) = clients.rotate_secret(of_hall, Some(NOW), "ann", NOW).await.unwrap();
    assert!(!works(&third, NOW) && works(&fourth, NOW), "or ends at once");
    assert_eq!(client.secrets(NOW).count(), 1);

    let public = ClientTerms { is_public: true, ..terms_of("app") };
    let (public, none) = clients.create(&hall, public, "ann", NOW).await.unwrap();
    assert!(none.is_none() && !public.accepts_secret("", NOW) && !public.accepts_secret(&fourth, NOW));
    let refused = clients.rotate_secret((&hall, "app"), None, "ann", NOW).await;
    assert!(matches!(refused, Err(ClientError::Public)));
}

#[tokio::test]
async fn secrets_are_shown_by_nothing_that_is_kept_or_printed() {
    let (store, clients) = registry().await;
    let (client, secret) = clients.create(&room("Hall"), terms(), "ann", NOW).await.unwrap();
    let digest = ApiKeyDigest::of(secret.as_ref().unwrap()).to_bytes();
    let stored = String::from_utf8(store.value("openid-clients").await.unwrap().unwrap()).unwrap();
    let records = format!("{:?}", store.audit(None, None, 10).await.unwrap());
    let printed = format!("{client:?}");
    for text in [&stored, &records, &printed] {
        assert!(!text.contains(secret.as_ref().unwrap()), "{text}");
    }
    assert!(!printed.contains(&format!("{digest:?}")) && printed.contains("hidden"), "{printed}");
}

#[tokio::test]
async fn clients_are_bounded_in_a_room_and_in_all() {
    let (_store, clients) = registry().await;
    let hall = room("Hall");
    for number in 0..CLIENTS_PER_ROOM_MAX {
        clients.create(&hall, terms_of(&format!("c{number}")), "ann", NOW).await.unwrap();
    }
    assert!(matches!(clients.create(&hall, terms(), "ann", NOW).await, Err(ClientError::TooMany)));
    assert_eq!(clients.of_room(&hall).len(), CLIENTS_PER_ROOM_MAX);
    let long = |number: usize| format!("https://shop.example/{number:02}/{}", "a".repeat(480));
    let large =
        ClientTerms { redirect_addresses: (0..REDIRECT_ADDRESSES_MAX).map(long).collect(), ..terms() };
    let mut full = None;
    for number in 0..CLIENTS_VALUE_MAX_BYTES / 10_000 {
        full = clients.create(&room(&format!("r{number}")), large.clone(), "ann", NOW).await.err();
    }
    assert!(matches!(full, Some(ClientError::TooMuch)), "{full:?}");
    clients.delete_of_room(&hall, "ann", NOW).await.unwrap();
    clients.create(&hall, large, "ann", NOW).await.unwrap();
}

#[test]
fn what_is_wrong_with_a_client_names_its_field() {
    let fields = |terms: ClientTerms| terms.problems().iter().map(|found| found.field).collect::<Vec<_>>();
    assert_eq!(fields(terms()), [""; 0]);
    let everything = ClientTerms {
        id: Some("a/b".into()),
        name: Some("a\nb".into()),
        redirect_addresses: vec!["http://shop.example/".into(), "ftp://a".into()],
        is_public: true,
        access_token_seconds: Some(0),
        id_token_seconds: Some(DURATION_MAX_SECONDS + 1),
        login_address: Some("shop".into()),
    };
    let expected = [
        "id",
        "name",
        "redirect_addresses",
        "redirect_addresses",
        "access_token_seconds",
        "id_token_seconds",
        "login_address",
    ];
    assert_eq!(fields(everything), expected);
    let address = "https://shop.example/cb".to_owned();
    for addresses in [vec![], vec![address.clone(); 2], vec![address; REDIRECT_ADDRESSES_MAX + 1]] {
        let terms = ClientTerms { redirect_addresses: addresses, ..ClientTerms::default() };
        assert_eq!(terms.problems().first().unwrap().field, "redirect_addresses");
    }
    for name in ["", "  ", &"ä".repeat(CLIENT_NAME_MAX_CHARACTERS + 1)] {
        assert_eq!(fields(ClientTerms { name: Some(name.into()), ..terms() }), ["name"], "{name}");
    }
    let longest = "ä".repeat(CLIENT_NAME_MAX_CHARACTERS);
    assert_eq!(fields(ClientTerms { name: Some(longest), ..terms() }), [""; 0]);
}

#[test]
fn a_tag_is_the_beginning_of_a_digest_of_the_id() {
    let client = OpenIdClient::new(room("Hall"), terms_of("abc"), NOW).unwrap();
    assert_eq!(client.tag(), 0xba78_16bf_8f01_cfea);
    assert!(client.accepts_redirect("https://shop.example/cb"));
    assert!(!client.accepts_redirect("https://shop.example/cb/"));
}

#[tokio::test]
async fn the_file_alone_changes_its_clients() {
    let (store, clients) = registry().await;
    let hall = room("Hall");
    let of_file = |ids: &[&str], secrets: &[&str]| FileRoom {
        room: hall.clone(),
        clients: ids
            .iter()
            .map(|id| FileClient {
                terms: terms_of(id),
                secrets: secrets.iter().map(|secret| ApiKeyDigest::of(secret)).collect(),
            })
            .collect(),
    };
    clients.create(&hall, terms_of("by-hand"), "ann", NOW).await.unwrap();
    clients.apply_file(&[of_file(&["a", "b"], &["one"])], NOW).await.unwrap();
    clients.apply_file(&[of_file(&["a", "b"], &["one"])], LATER).await.unwrap();
    let set = "configuration file: set clients of the file";
    assert_eq!(actions(&store).await, ["ann: create client by-hand", set], "once, because nothing changed");
    let a = clients.find(&hall, "a").unwrap();
    assert!(a.is_from_file && a.accepts_secret("one", LATER) && a.created_at == NOW);

    for refused in [
        clients.delete((&hall, "a"), "ann", NOW).await.unwrap_err(),
        clients.rotate_secret((&hall, "a"), None, "ann", NOW).await.unwrap_err(),
        clients.revoke_previous_secret((&hall, "a"), "ann", NOW).await.unwrap_err(),
    ] {
        assert!(matches!(refused, ClientError::FromFile), "{refused}");
    }

    // Another secret, with the one before; `b` is gone, and a client made by hand becomes the file's.
    clients.apply_file(&[of_file(&["a", "by-hand"], &["two", "one"])], LATER).await.unwrap();
    let ids: Vec<String> = clients.of_room(&hall).iter().map(|client| client.id.clone()).collect();
    assert_eq!(ids, ["by-hand", "a"]);
    let a = clients.find(&hall, "a").unwrap();
    assert!(a.accepts_secret("one", LATER) && a.accepts_secret("two", LATER) && a.created_at == NOW);
    let times: Vec<UnixMillis> = a.secrets(LATER).map(|secret| secret.created_at).collect();
    assert_eq!(times, [LATER, NOW], "the newest first");
    clients.apply_file(&[of_file(&["a"], &["two"])], LATER).await.unwrap();
    assert!(!clients.find(&hall, "a").unwrap().accepts_secret("one", LATER));

    // A file that does not name the room any more leaves its clients to operators.
    clients.apply_file(&[], LATER).await.unwrap();
    clients.delete((&hall, "a"), "ann", LATER).await.unwrap();
}

#[tokio::test]
async fn clients_of_a_backup_are_judged() {
    let (store, clients) = registry().await;
    clients.create(&room("Hall"), terms(), "ann", NOW).await.unwrap();
    let good = String::from_utf8(store.value("openid-clients").await.unwrap().unwrap()).unwrap();
    let judged = |text: &str| accept(&BTreeMap::from([("openid-clients".to_owned(), text.into())]));
    accept(&BTreeMap::new()).unwrap();
    judged(&good).unwrap();
    for (bad, about) in [
        ("nonsense".to_owned(), "cannot be read"),
        (good.replace("https://shop", "http://shop"), "redirect_addresses"),
        (good.replace("\"Hall\"", "\"a/b\""), "cannot be read"),
        (
            format!("[{}]", vec![&good[1..good.len() - 1]; CLIENTS_PER_ROOM_MAX + 1].join(",")),
            "more OpenID clients",
        ),
    ] {
        let refused = judged(&bad).unwrap_err();
        assert!(refused.contains(about), "{refused}");
    }
    let unreadable = store.replace_value("openid-clients", Some(good.as_bytes()), b"nonsense", None).await;
    assert!(unreadable.unwrap());
    assert!(matches!(clients.reload().await, Err(StoredValueError::Unreadable(_))));
    assert!(clients.find(&room("Hall"), "Hall").is_some(), "what was read before stays");
}
