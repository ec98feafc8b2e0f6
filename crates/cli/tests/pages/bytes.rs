//! "Bytes of the first load printed by a test that fails above 14 KB compressed": what a browser that has never been here loads until
//! its place is shown, with heads, as it comes over the network: the page with the place, redirects before it included, and the script.

use anteroom_testkit::{Chromium, LoadedResource, require_chromium};

use crate::scene::Scene;

/// What fits into the first flight of a new TCP connection.
const FIRST_LOAD_MAX_BYTES: usize = 14_000;

#[test]
fn the_first_load_is_below_14_kb() {
    if !require_chromium() {
        return;
    }
    let more =
        "notice = \"Doors open at eight.\"\npage_heading = \"The Sample Theatre\"\npage_color = \"#8a1538\"";
    for language in ["en", "de", "pl", "ar"] {
        let scene = Scene::by_hand(more);
        scene.crowd(45);
        let browser = Chromium::builder().language(language).recording_network().open();
        scene.wait_in_line(&browser, "/");
        let loaded: Vec<LoadedResource> =
            browser.loaded().into_iter().filter(|loaded| loaded.url.starts_with("http")).collect();
        for LoadedResource { url, bytes } in &loaded {
            println!("{language}: {bytes:>6} bytes {url}");
        }
        assert!(
            loaded.iter().all(|loaded| loaded.url.starts_with(&scene.shop("/"))),
            "nothing from elsewhere"
        );
        let of = |is_meant: &dyn Fn(&str) -> bool| -> Vec<usize> {
            let meant = loaded.iter().filter(|loaded| is_meant(&loaded.url) && loaded.bytes > 0);
            meant.map(|loaded| loaded.bytes).collect()
        };
        let page = scene.shop("/");
        let (pages, scripts) = (of(&|url| url == page), of(&|url| url.contains("/page.js")));
        let ([waiting], [script]) = (pages.as_slice(), scripts.as_slice()) else {
            panic!("one page and one script, once each: {loaded:?}");
        };
        println!("{language}: {script} script + {waiting} waiting = {} bytes", waiting + script);
        assert!(waiting + script <= FIRST_LOAD_MAX_BYTES, "{waiting} and {script} bytes");
    }
}
