//! "Bytes of the first load printed by a test that fails above 14 KB compressed": a page and its script as a browser that has never
//! been here loads them, with heads, as they come over the network.

mod page_support;

use anteroom_testkit::{Chromium, Loaded, require_chromium};
use page_support::Scene;

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
        let loaded: Vec<Loaded> =
            browser.loaded().into_iter().filter(|loaded| loaded.url.starts_with("http")).collect();
        for Loaded { url, bytes } in &loaded {
            println!("{language}: {bytes:>6} bytes {url}");
        }
        assert!(
            loaded.iter().all(|loaded| loaded.url.starts_with(&scene.shop("/"))),
            "nothing from elsewhere"
        );
        let (scripts, pages): (Vec<&Loaded>, Vec<&Loaded>) =
            loaded.iter().partition(|loaded| loaded.url.contains("/page.js"));
        let script = scripts.iter().map(|script| script.bytes).max().expect("the script is among it");
        // First the page that sets the cookie, then the place itself: the script is loaded with whichever comes first.
        let page = pages.iter().map(|page| page.bytes).max().expect("a page is among it");
        println!("{language}: {:>6} bytes for the larger page and the script", page + script);
        assert!(page + script <= FIRST_LOAD_MAX_BYTES, "{page} and {script} bytes are too many");
        assert!(
            scripts.iter().filter(|script| script.bytes > 0).count() == 1,
            "it is loaded once: {scripts:?}"
        );
    }
}
