//! The browser against a small page, before any test of the product leans on it.

use std::net::SocketAddr;
use std::time::Duration;

use super::*;
use crate::site::{Reply, Site};
use crate::wait::wait_until;

const TIMEOUT: Duration = Duration::from_mins(1);
const PAGE: &str = "<!doctype html><html lang=en><title>Before</title><main><h1>A page</h1>\
    <p id=shown>shown</p><p id=hidden hidden>hidden</p><noscript><p id=plain>plain</p></noscript>\
    <button id=first>First</button><button id=second>Second</button><p id=count>0</p></main>\
    <script>let count = 0; second.onclick = () => document.getElementById('count').textContent = ++count; \
    document.title = 'After'</script>";

fn site_with(page: &str, policy: &str) -> Site {
    let site = Site::open();
    let reply = Reply::new(200).header("Content-Type", "text/html; charset=utf-8");
    let reply = reply.header("Content-Security-Policy", policy).header("Set-Cookie", "a=b; HttpOnly");
    site.answer("/page", reply.body(page));
    site
}

#[test]
fn it_reads_presses_and_writes_as_a_visitor_does() {
    if !require_chromium() {
        return;
    }
    let site = site_with(PAGE, "img-src 'self'");
    let browser = Chromium::builder().language("de").open();
    let url = format!("http://shop.test:{}/page", site.port());
    browser.go(&url);
    assert_eq!((browser.address(), browser.title()), (url.clone(), "After".to_owned()));
    assert_eq!(site.last_seen("/page").header("host"), Some(format!("shop.test:{}", site.port()).as_str()));
    let language = |site: &Site| site.last_seen("/page").header("accept-language").map(str::to_owned);
    assert!(language(&site).is_some_and(|asked| asked.starts_with("de")), "{:?}", language(&site));
    assert_eq!((browser.text("#shown").as_deref(), browser.text("#hidden")), (Some("shown"), None));
    assert!(!browser.shows("#plain") && browser.cookie("a").as_deref() == Some("b"));
    browser.press("#second");
    browser.keys(&[Key::Tab]);
    browser.keys_with(Key::Shift, Key::Tab);
    assert_eq!(browser.focused(), "button#second");
    browser.keys(&[Key::Enter]);
    assert_eq!(browser.text("#count").as_deref(), Some("2"));
    // Tabs share cookies; one ends without the other.
    let first = browser.tab();
    browser.open_tab();
    browser.go(&url);
    assert_eq!((site.last_seen("/page").header("cookie"), browser.tab_count()), (Some("a=b"), 2));
    browser.close_tab(&first);
    assert_eq!((browser.tab_count(), browser.text("#count").as_deref()), (1, Some("2")));
    browser.speak("pl-PL,pl");
    browser.reload();
    assert!(language(&site).is_some_and(|asked| asked.starts_with("pl-PL,pl")), "{:?}", language(&site));
    // What a page learns about the device.
    let dark = "return [matchMedia('(prefers-color-scheme: dark)').matches, \
        matchMedia('(prefers-reduced-motion: reduce)').matches, innerWidth, navigator.onLine].join()";
    browser.prefer(Scheme::Dark, true);
    browser.resize(320, 600, false);
    browser.set_offline(true);
    assert_eq!(browser.run(dark, &[]), "true,true,320,false");
    browser.set_offline(false);
    browser.prefer(Scheme::Light, false);
    assert_eq!(browser.run(dark, &[]), "false,false,320,true");
    assert_eq!(browser.sideways_pixels(), 0);
    browser.run("document.getElementById('shown').style.width = '500px'", &[]);
    assert!(browser.sideways_pixels() > 100);
    let picture = tempfile::NamedTempFile::new().unwrap();
    browser.picture(picture.path());
    assert!(fs::read(picture.path()).unwrap().starts_with(b"\x89PNG"));
}

#[test]
fn it_tells_of_faults_and_only_of_those() {
    if !require_chromium() {
        return;
    }
    let site = site_with(PAGE, "img-src 'self'");
    let browser = Chromium::builder().expecting_faults().open();
    browser.go(&format!("{}/page", site.url()));
    browser.assert_no_faults();
    browser.run("setTimeout(() => { throw new Error('on purpose') })", &[]);
    let mut said = vec![];
    wait_until("a script that fails is logged", TIMEOUT, || {
        said.extend(browser.log());
        said.iter().any(|entry| entry.message.contains("on purpose") && entry.is_fault_of_page())
    });
    browser.run("document.body.append(Object.assign(new Image(), { src: 'http://other.test/a.png' }))", &[]);
    wait_until("a blocked picture is logged", TIMEOUT, || {
        browser.log().iter().any(|entry| entry.message.contains("other.test") && entry.is_fault_of_page())
    });
    let Some(axe_core) = axe_core() else { return };
    browser.reload();
    assert_eq!(browser.violations(&axe_core), "");
    browser.run("document.getElementById('first').textContent = ''", &[]);
    let violations = browser.violations(&axe_core);
    assert!(violations.contains("button-name") && violations.contains("id=\"first\""), "{violations}");
}

#[test]
fn a_browser_with_a_complaint_fails_its_test_when_it_ends() {
    if !require_chromium() {
        return;
    }
    let blocked = "<!doctype html><title>Blocked</title><img src=http://other.test/a.png>";
    let site = site_with(blocked, "img-src 'self'");
    let url = format!("{}/page", site.url());
    let mut process = None;
    let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let browser = Chromium::open();
        process = browser.browser_process;
        browser.go(&url);
    }));
    let said = ended.expect_err("what was blocked fails the test");
    let said = said.downcast_ref::<String>().expect("a panic with words");
    assert!(said.contains("other.test") && said.contains("Content Security Policy"), "{said}");
    wait_until_ended(process.expect("a browser is a process"));
    // Who has said that it would come so is not disturbed, nor is who comes to a page without faults.
    let browser = Chromium::builder().expecting_faults().open();
    browser.go(&url);
    drop(browser);
    let browser = Chromium::open();
    browser.go(&format!("{}/other", site.url()));
}

#[test]
fn without_scripts_a_page_shows_what_it_has_for_that() {
    if !require_chromium() {
        return;
    }
    let site = site_with(PAGE, "img-src 'self'");
    let browser = Chromium::builder().without_scripts().recording_network().open();
    browser.go(&format!("{}/page", site.url()));
    let loaded = browser.loaded();
    let page = loaded.iter().find(|loaded| loaded.url.ends_with("/page")).expect("the page was loaded");
    let heads = 100..1_000;
    assert!(heads.contains(&(page.bytes - PAGE.len())), "the page and its head: {loaded:?}");
    assert_eq!((browser.title().as_str(), browser.text("#plain").as_deref()), ("Before", Some("plain")));
}

#[test]
fn a_browser_ends_with_its_value_also_by_a_panic() {
    if !require_chromium() {
        return;
    }
    let ended = std::panic::catch_unwind(|| {
        let browser = Chromium::open();
        let (process, driver) = (browser.browser_process.unwrap(), browser.driver.address());
        std::panic::panic_any((process, driver));
    });
    let ended = ended.unwrap_err().downcast::<(u64, SocketAddr)>().unwrap();
    let (process, driver) = *ended;
    wait_until_ended(process);
    assert!(http::Client::new(driver).get("/status").is_err());
}

#[track_caller]
fn wait_until_ended(process: u64) {
    wait_until("the browser is gone", TIMEOUT, || {
        // A process that has ended and was not waited for has no command line.
        fs::read(format!("/proc/{process}/cmdline")).map_or(true, |line| line.is_empty())
    });
}
