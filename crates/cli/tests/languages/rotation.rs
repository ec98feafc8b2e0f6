//! A real rotation: the new key is announced, signs ten minutes later, and the sites follow without a restart.

use anteroom_testkit::{ReservedPort, Server, jwt, wait_until};

use crate::anteroom::{ROOMS, TIMEOUT, admit, present};
use crate::languages::{Language, LanguageSite};
use crate::support::BINARY;
use crate::support::moved_clock::MovedClock;
use crate::support::operator::Operator;

/// Further in the past than a new key waits before it signs.
const PAST_SECONDS: i64 = -700;

#[test]
fn the_sites_of_all_languages_follow_a_rotation_of_the_signing_key() {
    let Some(clock) = MovedClock::build() else { return };
    clock.set(PAST_SECONDS);
    let port = ReservedPort::take();
    let address = format!("127.0.0.1:{}", port.number());
    let server = Server::builder(BINARY).config(ROOMS).env("ANTEROOM_PUBLIC_ADDR", &address);
    let mut server = clock.applied_to(server).start().expect("the server starts");
    let public_url = format!("http://{address}");
    let languages = [Language::Python, Language::Node, Language::Php];
    let sites: Vec<LanguageSite> =
        languages.iter().filter_map(|language| language.site(&public_url)).collect();
    let (_, [old, ..]) = admit(&server, "Hall");
    for site in &sites {
        assert_eq!(present(&mut site.client(), &old).status, 200, "before");
    }

    assert_eq!(Operator::of(&server).run(&["key", "rotate-signing"]).code, Some(0));
    // A running server holds the time when the clock jumps; a restart takes it as it is.
    clock.set(0);
    server.restart().expect("it starts again");
    let (_, [new, ..]) = admit(&server, "Hall");
    assert_ne!(jwt::header(&old)["kid"], jwt::header(&new)["kid"], "the new key signs");
    for site in &sites {
        let mut client = site.client();
        wait_until("the new key is known", TIMEOUT, || present(&mut client, &new).status == 200);
        assert_eq!(present(&mut client, &old).status, 200, "the old key is still published");
    }
}
