//! The way of two visitors through a login: the first is served at once, the second waits until the first's visit ends. Then what
//! a client must not fall for.

use std::time::Duration;

use anteroom_testkit::{SetCookie, full, now, pause, wait_for};
use serde_json::json;

use crate::clients::{Client, LoggedIn, Pair};
use crate::providers::{CLIENT_ID, Mode, Which};
use crate::visitor::{Page, Visitor, parameter, with_parameter};

/// How long a state may take. Generous: what is tested is that it comes, not how fast.
pub(crate) const TIMEOUT: Duration = Duration::from_mins(1);

/// Longer than the tokens of a client live that has set it so, with what clients and servers add for their clocks.
const LONGER_THAN_THE_TOKENS: Duration = Duration::from_secs(5);
/// The name under which browsers know the site, and not the provider.
const SITE_HOST: &str = "localhost";

/// Logs in in the first way that a client has.
fn walk(client: Client, which: Which) {
    logs_in_after_waiting(client, which, client.modes()[0]);
}

/// The same in all other ways.
fn walk_in_every_mode(client: Client, which: Which) {
    for mode in &client.modes()[1..] {
        eprintln!("{client:?} at {which:?}: {mode:?}");
        logs_in_after_waiting(client, which, *mode);
    }
}

#[track_caller]
fn logs_in_after_waiting(client: Client, which: Which, mode: Mode) {
    let Some(pair) = Pair::open(client, which, mode) else { return };
    let home = pair.client.at("/");

    let mut first = Visitor::default();
    let page = first.open(&home);
    assert_asks_rightly(&pair, client, mode, &page);
    let inside = pair.logged_in(&page);
    assert_learned(&pair, client, &inside, 1);
    // From now on the client knows the visitor by itself.
    let page = first.open(&home);
    assert_eq!(page.way, std::slice::from_ref(&home), "{page:?}");

    let mut second = Visitor::default();
    let waiting = second.open(&home);
    assert_waits(&waiting);
    let again = second.open(&waiting.address);
    assert_waits(&again);
    let mut stranger = second.clone();
    stranger.forget(SITE_HOST);

    pair.provider.end_visit(subject(&inside));
    let callback = pair.wait_for_callback(&mut second, &waiting.address);
    assert_refused(&pair, &stranger, &callback, "of another browser");
    assert_refused(&pair, &second, &with_parameter(&callback, "state", "another"), "with another state");
    if client.checks_issuer_of_answer() {
        let wrong = with_parameter(&callback, "iss", "http%3A%2F%2F127.0.0.1%3A1");
        assert_refused(&pair, &second, &wrong, "of another issuer");
    }
    let before = second.clone();
    let page = second.open(&callback);
    let learned = pair.logged_in(&page);
    assert_learned(&pair, client, &learned, 2);
    assert_ne!(subject(&learned), subject(&inside));
    // An answer works once.
    assert_refused(&pair, &before, &callback, "a second time");
    no_code_of_another_login(&pair, second);
}

/// Who is inside gets a code at once, as often as they ask. The codes of two logins are exchanged: the client sees by its nonce,
/// or the provider by PKCE, that one is not of this login.
#[track_caller]
fn no_code_of_another_login(pair: &Pair, mut visitor: Visitor) {
    let begin = |visitor: &mut Visitor| {
        visitor.forget(SITE_HOST);
        let back = pair.client.redirect_address();
        let page = visitor.open_until(&pair.client.at("/"), |address| address.starts_with(&back));
        assert!(page.address.starts_with(&back), "who is inside is sent back at once: {page:?}");
        page.address
    };
    let other = begin(&mut visitor);
    let mine = begin(&mut visitor);
    let code = parameter(&other, "code").unwrap_or_else(|| panic!("no code: {other}"));
    assert_ne!(Some(code), parameter(&mine, "code"), "a code is never given twice");
    assert_refused(pair, &visitor, &with_parameter(&mine, "code", code), "with the code of another login");
    let page = visitor.open(&mine);
    pair.logged_in(&page);
}

impl Pair {
    /// What the client has learned about the visitor who sees this page of it; what a site behind a proxy would ask for itself
    /// is asked for.
    #[track_caller]
    fn logged_in(&self, page: &Page) -> LoggedIn {
        let mut learned = self.client.logged_in(page);
        if let Some(token) = learned.user_info["access_token"].as_str() {
            learned.user_info = crate::clients::user_info(&self.provider.registration().issuer, token);
        }
        learned
    }

    /// Asks again and again, as the page does, until the visitor is sent back to the client.
    #[track_caller]
    pub(crate) fn wait_for_callback(&self, visitor: &mut Visitor, waiting: &str) -> String {
        let back = self.client.redirect_address();
        wait_for("the visitor's turn", TIMEOUT, || {
            let page = visitor.open_until(waiting, |address| address.starts_with(&back));
            page.address.starts_with(&back).then_some(page.address)
        })
    }
}

/// The request for a login has all that makes it safe, in the way that this mode is about.
#[track_caller]
fn assert_asks_rightly(pair: &Pair, client: Client, mode: Mode, page: &Page) {
    let asked = page.passed(&pair.provider.registration().issuer);
    assert_eq!(parameter(asked, "client_id"), Some(CLIENT_ID), "{asked}");
    assert!(parameter(asked, "state").is_some_and(|state| !state.is_empty()), "{asked}");
    assert_eq!(parameter(asked, "nonce").is_some(), client.sends_nonce(), "{asked}");
    let method = parameter(asked, "code_challenge_method");
    assert_eq!(method, mode.has_pkce.then_some("S256"), "{asked}");
    let back = page.passed(&pair.client.redirect_address());
    assert!(parameter(back, "code").is_some(), "{back}");
    let issuer = parameter(back, "iss").expect("an answer says whose it is");
    assert_eq!(issuer.replace("%3A", ":").replace("%2F", "/"), pair.provider.registration().issuer);
}

/// Claims and userInfo have come, and are of the same visitor.
#[track_caller]
fn assert_learned(pair: &Pair, client: Client, learned: &LoggedIn, position: u64) {
    let LoggedIn { claims, user_info } = learned;
    assert!(!subject(learned).is_empty());
    assert_eq!(user_info["sub"], claims["sub"], "{learned:?}");
    assert_eq!(claims["queue_position"], position, "{learned:?}");
    assert_eq!(user_info["queue_position"], position, "{learned:?}");
    // Envoy compares these itself, and does not tell them.
    if client != Client::Envoy {
        assert_eq!(claims["iss"], pair.provider.registration().issuer.as_str(), "{learned:?}");
        // Some libraries make a list of it.
        assert!(claims["aud"] == CLIENT_ID || claims["aud"][0] == CLIENT_ID, "{learned:?}");
        assert!(claims["nonce"].as_str().is_some_and(|nonce| !nonce.is_empty()), "{learned:?}");
    }
}

#[track_caller]
fn subject(learned: &LoggedIn) -> &str {
    learned.claims["sub"].as_str().unwrap_or_else(|| panic!("no sub: {learned:?}"))
}

/// The visitor sees a page of the provider, and that they wait.
#[track_caller]
fn assert_waits(page: &Page) {
    assert_eq!(page.answer.situation().as_deref(), Some("waiting"), "{page:?}");
    assert!(page.answer.header("Retry-After").is_some(), "{page:?}");
    assert!(page.address.starts_with("http://127.0.0.1:"), "{page:?}");
}

/// The browser that brings this answer is not logged in.
#[track_caller]
fn assert_refused(pair: &Pair, visitor: &Visitor, callback: &str, what: &str) {
    // The browser itself comes again with the right one.
    let mut visitor = visitor.clone();
    // A client may begin anew; what counts is whether it took this answer.
    let page = visitor.open_until(callback, |address| !address.starts_with(&pair.client.at("/")));
    assert!(!pair.client.is_logged_in(&page), "an answer {what} was taken: {page:?}");
}

/// Tokens are renewed as often as the client asks, each time by a new refresh token; where the provider says so, the end of the visit
/// is the end of all of them.
#[track_caller]
fn renews_tokens(which: Which) {
    let confidential = Client::OpenId.modes()[1];
    let Some(pair) = Pair::open(Client::OpenId, which, confidential) else { return };
    let log_in = |visitor: &mut Visitor| pair.logged_in(&visitor.open(&pair.client.at("/")));
    let status = |visitor: &mut Visitor, path: &str| visitor.open(&pair.client.at(path)).answer.status;
    let mut visitor = Visitor::default();
    let inside = log_in(&mut visitor);
    for _ in 0..3 {
        let renewed = visitor.open(&pair.client.at("/refresh"));
        assert_eq!(renewed.answer.status, 200, "{renewed:?}");
        let said = renewed.answer.json();
        assert_eq!((&said["is_rotated"], &said["user_info"]["sub"]), (&json!(true), &inside.claims["sub"]));
    }
    pair.provider.end_visit(subject(&inside));
    let expected = if pair.provider.ends_tokens() { 403 } else { 200 };
    assert_eq!(["/", "/refresh"].map(|path| status(&mut visitor, path)), [expected; 2]);

    // A refresh token that comes a second time is in two hands: nobody goes on with what was made of it.
    let mut visitor = Visitor::default();
    log_in(&mut visitor);
    assert_eq!(["/refresh", "/refresh", "/"].map(|path| status(&mut visitor, path)), [200; 3]);
    assert_eq!(["/reuse", "/", "/refresh"].map(|path| status(&mut visitor, path)), [403; 3]);
}

#[test]
fn tokens_are_renewed_and_end_with_the_visit() {
    renews_tokens(Which::Anteroom);
}

#[test]
fn tokens_are_renewed_by_the_reference_provider() {
    if is_asked_for() {
        renews_tokens(Which::Reference);
    }
}

/// Who is logged in behind a proxy of a recipe is in line again after the end of the visit, as soon as the tokens are over.
#[track_caller]
fn the_login_ends_with_the_visit(client: Client) {
    let short = ("secret_env =", "access_token_seconds = 2\nid_token_seconds = 2\nsecret_env =");
    let Some(pair) = Pair::open_edited(client, client.modes()[0], &[short]) else { return };
    let home = pair.client.at("/");
    let mut first = Visitor::default();
    let inside = pair.logged_in(&first.open(&home));
    let mut second = Visitor::default();
    let waiting = second.open(&home);
    assert_waits(&waiting);
    // While the visit lasts the tokens are renewed, or the login is.
    let began = now();
    while began.elapsed() < LONGER_THAN_THE_TOKENS {
        let page = first.open(&home);
        assert!(pair.client.is_logged_in(&page), "{page:?}");
        pause();
    }
    pair.provider.end_visit(subject(&inside));
    let callback = pair.wait_for_callback(&mut second, &waiting.address);
    assert!(pair.client.is_logged_in(&second.open(&callback)));
    let out = wait_for("the first has to wait", TIMEOUT, || {
        let page = first.open(&home);
        (!pair.client.is_logged_in(&page)).then_some(page)
    });
    assert_waits(&out);
}

#[test]
fn the_login_at_apache_ends_with_the_visit() {
    if is_asked_for() {
        the_login_ends_with_the_visit(Client::Apache);
    }
}

#[test]
fn the_login_at_envoy_ends_with_the_visit() {
    if is_asked_for() {
        the_login_ends_with_the_visit(Client::Envoy);
    }
}

/// What Envoy keeps in the browser for a login lasts as long as the recipe says that a visitor may be in line.
#[test]
fn a_login_at_envoy_may_take_a_day() {
    let client = Client::Envoy;
    let Some(pair) = Pair::open(client, Which::Anteroom, client.modes()[0]) else { return };
    let begun = Visitor::default().open_until(&pair.client.at("/"), |_| true);
    let kept: Vec<Option<u64>> = begun.answer.set_cookies().iter().map(SetCookie::max_age_seconds).collect();
    assert!(kept.len() >= 2 && kept.iter().all(|seconds| *seconds == Some(24 * 60 * 60)), "{begun:?}");
}

/// A script cannot wait in line: it is told so, and begins no login.
#[test]
fn scripts_are_not_sent_into_a_line() {
    for client in [Client::Apache, Client::Envoy] {
        let Some(pair) = Pair::open(client, Which::Anteroom, client.modes()[0]) else { continue };
        let answer = Visitor::default().fetch(&pair.client.at("/api"));
        assert_eq!((answer.status, answer.header("Location")), (401, None), "{client:?}: {answer:?}");
    }
}

/// A client that gives a login little time: its visitors wait first, at the waiting page for other sites, and log in afterwards.
#[test]
fn who_has_waited_before_the_login_is_logged_in_at_once() {
    let client = Client::OpenId;
    let Some(pair) = Pair::open(client, Which::Anteroom, client.modes()[0]) else { return };
    let home = pair.client.at("/");
    pair.provider.allow_return(&home);
    let inside = pair.logged_in(&Visitor::default().open(&home));
    let encoded = home.replace(':', "%3A").replace('/', "%2F");
    let wait = format!("http://127.0.0.1:{}/wait/shop?return={encoded}", pair.provider.registration().port);
    let mut second = Visitor::default();
    let waiting = second.open_until(&wait, |address| address.starts_with(&home));
    assert_waits(&waiting);
    pair.provider.end_visit(subject(&inside));
    wait_for("the visitor's turn", TIMEOUT, || {
        let page = second.open_until(&waiting.address, |address| address.starts_with(&home));
        page.address.starts_with(&home).then_some(())
    });
    let learned = pair.logged_in(&second.open(&home));
    assert_learned(&pair, client, &learned, 2);
}

/// Makes a module for each client with tests for each provider.
macro_rules! matrix {
    ($($module:ident: $client:ident, $is_smoke:expr;)+) => {
        $(mod $module {
            use crate::clients::Client::$client as CLIENT;
            use crate::providers::Which;

            #[test]
            fn at_anteroom() {
                if $is_smoke || super::is_asked_for() {
                    super::walk(CLIENT, Which::Anteroom);
                }
            }

            #[test]
            fn at_anteroom_in_every_mode() {
                if super::is_asked_for() {
                    super::walk_in_every_mode(CLIENT, Which::Anteroom);
                }
            }

            #[test]
            fn at_anteroom_with_es256() {
                if super::is_asked_for() && CLIENT.reads_documents_without_rs256() {
                    super::walk(CLIENT, Which::AnteroomWithEs256);
                }
            }

            #[test]
            fn at_the_reference_provider() {
                if super::is_asked_for() {
                    super::walk(CLIENT, Which::Reference);
                    super::walk_in_every_mode(CLIENT, Which::Reference);
                }
            }
        })+
    };
}

/// Whether more than the smoke runs.
fn is_asked_for() -> bool {
    full()
}

matrix! {
    apache: Apache, true;
    envoy: Envoy, true;
    express: Express, false;
    idpyoidc: Idpyoidc, true;
    mozilla_django: MozillaDjango, false;
    omniauth: Omniauth, false;
    openid_client: OpenId, true;
}
