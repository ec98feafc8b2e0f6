//! The sites of the pages for Python, Node and PHP.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use anteroom_testkit::{
    Browser, Client, PAGE_ACCEPT, Request, pause, python_with, require, unix_seconds, wait_for, wait_until,
    workspace_root,
};
use anteroom_tokens::SigningAlgorithm;

use crate::anteroom::{
    self, SITE_URL, TIMEOUT, admit, assert_only_good_passes_get_in, assert_refused, present,
};
use crate::issuer::{Issuer, key};
use crate::page::code_block;
use crate::program::{Program, runs};

/// How long the sites keep keys in these tests, and how long they wait before they ask again, in seconds.
const KEYS_SECONDS: u64 = 1;

/// A language whose page is tested.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Language {
    Python,
    Node,
    Php,
}

/// The site of a page, as it runs.
pub(crate) struct LanguageSite {
    program: Program,
    address: SocketAddr,
    _directory: tempfile::TempDir,
}

impl LanguageSite {
    pub(crate) fn client(&self) -> Client {
        Client::new(self.address)
    }

    pub(crate) fn output(&self) -> String {
        self.program.output()
    }
}

impl Language {
    /// The site of the page for the room `Hall`; `None` where what it needs is missing.
    pub(crate) fn site(self, public_url: &str) -> Option<LanguageSite> {
        let directory = tempfile::tempdir().expect("a directory");
        let mut command = self.command(directory.path())?;
        command
            .current_dir(directory.path())
            .env("PUBLIC_URL", public_url)
            .env("ROOM", "Hall")
            .env("SITE_URL", SITE_URL)
            .env("STATE_DIRECTORY", directory.path().join("state"))
            .env("PORT", "0")
            .env("KEYS_SECONDS", KEYS_SECONDS.to_string())
            .env("KEYS_RETRY_SECONDS", KEYS_SECONDS.to_string());
        let mut program = Program::start(&mut command);
        let address = program.wait_for_address();
        Some(LanguageSite { program, address, _directory: directory })
    }

    fn command(self, directory: &Path) -> Option<Command> {
        let file = |name: &str, code: String| {
            fs::write(directory.join(name), code).expect("written");
            name.to_owned()
        };
        match self {
            Self::Python => {
                let python = python_with("jwt, cryptography");
                if !require("Python with PyJWT", python.is_some()) {
                    return None;
                }
                let mut command = Command::new(python?);
                command.arg(file("shop.py", code_block("python.md", "python")));
                Some(command)
            }
            Self::Node => {
                let modules = node_modules();
                let is_there = modules.join("jose").is_dir() && runs("node", &["--version"]);
                if !require("Node with jose", is_there) {
                    return None;
                }
                std::os::unix::fs::symlink(modules, directory.join("node_modules")).expect("linked");
                let mut command = Command::new("node");
                command.arg(file("shop.mjs", code_block("node.md", "js")));
                Some(command)
            }
            Self::Php => {
                let check = "exit(extension_loaded('openssl') && extension_loaded('sodium') ? 0 : 1);";
                if !require("PHP with openssl and sodium", runs("php", &["-r", check])) {
                    return None;
                }
                let mut command = Command::new("php");
                command.args(["-S", "127.0.0.1:0"]).arg(file("shop.php", code_block("php.md", "php")));
                Some(command)
            }
        }
    }
}

fn node_modules() -> PathBuf {
    env::var_os("ANTEROOM_TEST_NODE_MODULES")
        .map_or_else(|| workspace_root().join("target/test-node/node_modules"), PathBuf::from)
}

fn only_good_passes_get_in(language: Language) {
    let server = anteroom::start();
    let public_url = format!("http://{}", server.public());
    let Some(site) = language.site(&public_url) else { return };
    let mut client = site.client();
    assert_only_good_passes_get_in(&server, &mut client, 0, |answer, position| {
        answer.text().trim_end().ends_with(&format!(" {position}."))
    });
    // A lower-case scheme is the same scheme; two words are not.
    let (_, [access, ..]) = admit(&server, "Hall");
    let with_scheme =
        |scheme: &str| Request::new("POST", "/cart").header("Authorization", &format!("{scheme} {access}"));
    for (scheme, status) in [("bearer", 200), ("Basic", 401)] {
        assert_eq!(client.send(&with_scheme(scheme)).expect("an answer").status, status, "{scheme}");
    }
    assert!(!site.output().contains(&access), "a pass is never logged: {}", site.output());
}

#[test]
fn only_good_passes_get_in_in_python() {
    only_good_passes_get_in(Language::Python);
}

#[test]
fn only_good_passes_get_in_in_node() {
    only_good_passes_get_in(Language::Node);
}

#[test]
fn only_good_passes_get_in_in_php() {
    only_good_passes_get_in(Language::Php);
}

/// A browser without a pass waits, comes back with a code, and gets a cookie for it; once.
fn browsers_wait_and_come_back(language: Language) {
    let server = anteroom::start();
    let public_url = format!("http://{}", server.public());
    let Some(site) = language.site(&public_url) else { return };
    let mut client = site.client();
    let mut open = |target: &str, cookie: &str| {
        let request = Request::new("GET", target).header("Accept", PAGE_ACCEPT).header("Cookie", cookie);
        client.send(&request).expect("an answer")
    };
    let waiting = format!("{public_url}/.anteroom/wait/Hall?return=http%3A%2F%2Fshop.example%2Fcart%3Fa%3D1");
    let sent = open("/cart?a=1", "other=1");
    assert_eq!((sent.status, sent.header("Location")), (303, Some(waiting.as_str())), "{sent:?}");

    let mut browser = Browser::new(server.public());
    let target = waiting.strip_prefix(&public_url).expect("this server").to_owned();
    let back = wait_for("the turn", TIMEOUT, || browser.open(&target).header("Location").map(str::to_owned));
    let back = back.strip_prefix(SITE_URL).expect("the way back").to_owned();
    assert!(back.starts_with("/cart?a=1&anteroom_code="), "{back}");
    let entered = open(&back, "");
    assert_eq!(
        (entered.status, entered.header("Location")),
        (303, Some("http://shop.example/cart?a=1")),
        "{entered:?}"
    );
    let cookies = entered.set_cookies();
    let [cookie] = &cookies[..] else { panic!("one cookie: {entered:?}") };
    assert!(
        cookie.name == "anteroom_pass_Hall" && cookie.has("HttpOnly") && cookie.has("SameSite=Lax"),
        "{cookie:?}"
    );
    let inside = open("/cart?a=1", &format!("other=1; anteroom_pass_Hall={}", cookie.value));
    assert_eq!(inside.status, 200, "{inside:?}");
    assert!(inside.text().contains("position was 1."), "{inside:?}");
    // The code is used up: the waiting page knows the visitor, and hands over anew.
    let again = open(&back, "");
    assert_eq!((again.status, again.header("Location")), (303, Some(waiting.as_str())), "{again:?}");
    // A pass that is no pass is not sent round in circles.
    assert_eq!(open("/cart", "anteroom_pass_Hall=a.b.c").status, 401);
    drop(server);
    let unreachable = open(&back, "");
    assert_eq!((unreachable.status, unreachable.header("Retry-After")), (503, Some("1")), "{unreachable:?}");
}

#[test]
fn browsers_wait_and_come_back_in_python() {
    browsers_wait_and_come_back(Language::Python);
}

#[test]
fn browsers_wait_and_come_back_in_node() {
    browsers_wait_and_come_back(Language::Node);
}

#[test]
fn browsers_wait_and_come_back_in_php() {
    browsers_wait_and_come_back(Language::Php);
}

/// All algorithms, times to the second, and keys that are unknown, new, or not to be had.
fn times_and_keys_are_kept_to(language: Language) {
    let keys = SigningAlgorithm::ALL.map(key);
    let issuer = Issuer::open(&keys);
    let Some(site) = language.site(&issuer.site.url()) else { return };
    let mut client = site.client();
    let elliptic = &keys[1];
    for (key, visit) in keys.iter().zip(1..) {
        let pass = issuer.pass(key, visit, |_| {});
        assert_eq!(present(&mut client, &pass).status, 200, "{:?}", key.algorithm());
    }

    let now = unix_seconds();
    let begins = |seconds| issuer.pass(elliptic, 10, |claims| claims.issued_at_seconds = now + seconds);
    assert_eq!(present(&mut client, &begins(55)).status, 200, "within the skew");
    assert_refused(&mut client, "not valid yet", &begins(120));
    let over = issuer.pass(elliptic, 11, |claims| claims.expires_at_seconds = unix_seconds());
    assert_refused(&mut client, "over this very second", &over);

    // A first use after `enter_by` is refused, a later one after a first use in time is not, nor is a renewed token's.
    let by = |visit, seconds| issuer.pass(elliptic, visit, |claims| claims.enter_by_seconds = Some(seconds));
    assert_refused(&mut client, "used too late", &by(12, now - 1));
    let end = unix_seconds() + 2;
    let in_time = by(13, end);
    assert_eq!(present(&mut client, &in_time).status, 200);
    wait_until("its time to enter is over", TIMEOUT, || unix_seconds() > end);
    assert_eq!(present(&mut client, &in_time).status, 200, "it has entered in time");
    let renewed = issuer.pass(elliptic, 13, |claims| {
        claims.enter_by_seconds = Some(end);
        claims.expires_at_seconds += 1;
    });
    assert_eq!(present(&mut client, &renewed).status, 200, "the visit has entered");
    assert_refused(&mut client, "another visit, too late", &by(14, end));

    // Unknown keys make the site ask, but not each of them.
    let began = unix_seconds();
    let before = issuer.fetches();
    let stranger = key(SigningAlgorithm::EdDsa);
    let strange = issuer.pass(&stranger, 20, |_| {});
    for _ in 0..50 {
        assert_refused(&mut client, "of an unknown key", &strange);
    }
    let (fetches, seconds) = (issuer.fetches() - before, unix_seconds() - began);
    assert!(fetches as u64 <= seconds / KEYS_SECONDS + 2, "{fetches} in {seconds} s");

    // A new key is found without a restart, and an old one that is not published any more is forgotten.
    issuer.publish(std::slice::from_ref(&stranger));
    wait_until("the new key is known", TIMEOUT, || present(&mut client, &strange).status == 200);
    let old = issuer.pass(elliptic, 21, |_| {});
    assert_refused(&mut client, "of a key that is gone", &old);

    // Without the key set the site goes on with what it has.
    issuer.fail();
    let fetches = issuer.fetches();
    wait_until("the site has asked in vain", TIMEOUT, || {
        assert_eq!(present(&mut client, &strange).status, 200, "with a stale key");
        pause();
        issuer.fetches() > fetches
    });
    assert_eq!(present(&mut client, &strange).status, 200, "with a stale key");
    // What a program logs is read beside what it answers.
    wait_until("the log says so", TIMEOUT, || {
        site.output().contains("key set fetch failed, serving stale keys")
    });
}

#[test]
fn times_and_keys_are_kept_to_in_python() {
    times_and_keys_are_kept_to(Language::Python);
}

#[test]
fn times_and_keys_are_kept_to_in_node() {
    times_and_keys_are_kept_to(Language::Node);
}

#[test]
fn times_and_keys_are_kept_to_in_php() {
    times_and_keys_are_kept_to(Language::Php);
}
