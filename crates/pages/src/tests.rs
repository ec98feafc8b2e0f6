//! Whole pages: what they weigh, what they may do, and what nobody can put into them.

use std::io::Read;

use anteroom_core::Standstill;
use anteroom_core::settings::Value;
use http::HeaderValue;

use super::*;

/// What a first load may weigh, compressed: what a server sends in its first round trip.
const FIRST_LOAD_MAX_BYTES: usize = 14_000;

fn request_headers(pairs: &[(header::HeaderName, &str)]) -> HeaderMap {
    pairs.iter().map(|(name, value)| (name.clone(), HeaderValue::try_from(*value).unwrap())).collect()
}

fn in_language(tag: &str) -> HeaderMap {
    request_headers(&[(header::ACCEPT_LANGUAGE, tag)])
}

fn html(page: &Page<'_>, tag: &str) -> String {
    let answer = Pages::default().respond(StatusCode::OK, page, &in_language(tag));
    String::from_utf8(answer.into_body().to_vec()).unwrap()
}

fn with(pairs: &[(&str, Value)]) -> Settings {
    let mut settings = Settings::default();
    for (name, value) in pairs {
        settings.set(name, value).unwrap();
    }
    settings
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

#[test]
fn first_load_stays_below_14_kb() {
    let zipped =
        |tag: &str| request_headers(&[(header::ACCEPT_LANGUAGE, tag), (header::ACCEPT_ENCODING, "gzip")]);
    let pages = Pages::default();
    let script = pages.script(None, &zipped("en")).into_body().len();
    let settings = with(&[
        ("page_heading", text("Night of the Long Horns: ticket sale")),
        ("page_text", text("Four tickets for each person. Have your membership card ready.")),
        ("page_color", text("#f2c14e")),
        ("page_background", text("#3b2a4a")),
        ("notice", text("The balcony is sold out. There are places left in the stalls.")),
    ]);
    let mut heaviest = (0, String::new());
    for language in Language::all() {
        let mut weights = vec![];
        for situation in Situation::ALL {
            let page = sample(situation, Some(&settings));
            let html = pages.respond(StatusCode::OK, &page, &zipped(language.tag)).into_body().len();
            weights.push((html + script, situation.name()));
        }
        let &(weight, situation) = weights.iter().max().unwrap();
        println!("{:>3}: {weight} bytes at most ({situation}; {script} of them the script)", language.tag);
        heaviest = heaviest.max((weight, format!("{situation} in {}", language.tag)));
    }
    println!("heaviest: {} bytes, {}", heaviest.0, heaviest.1);
    assert!(heaviest.0 < FIRST_LOAD_MAX_BYTES, "{heaviest:?}");
}

#[test]
fn every_page_is_whole_in_every_language() {
    let manual = with(&[("auto_enter", Value::Flag(false)), ("notice", text("Hello"))]);
    for language in Language::all() {
        for situation in Situation::ALL {
            let html = html(&sample(situation, Some(&manual)), language.tag);
            let case = format!("{} in {}", situation.name(), language.tag);
            let begin = format!(
                "<!doctype html>\n<html lang=\"{}\" dir=\"{}\" data-situation=\"{}\"",
                language.tag,
                language.direction,
                situation.name()
            );
            assert!(html.starts_with(&begin), "{case}: {html}");
            assert_eq!(html.matches("<h1").count(), 1, "{case}");
            assert_eq!(html.matches("<main").count(), 1, "{case}");
            for wrong in [" style=", " onclick=", "{n}", "{time}</", "{ $", "http://"] {
                // The icon of the tab and the QR code name the language of SVG by its address.
                let html = html.replace("http://www.w3.org/2000/svg", "");
                let words = html.split("id=\"anteroom\"").next().unwrap();
                assert!(!words.contains(wrong), "{case}: {wrong} in {html}");
            }
            let mut ids: Vec<&str> =
                html.split(" id=\"").skip(1).map(|rest| &rest[..rest.find('"').unwrap()]).collect();
            let count = ids.len();
            ids.sort_unstable();
            ids.dedup();
            assert_eq!(ids.len(), count, "{case}: an id stands twice");
        }
    }
}

#[test]
fn how_long_a_place_is_held_is_told_in_minutes_while_that_is_long() {
    for (seconds, told) in
        [(299, "another 4 minutes."), (120, "another 2 minutes."), (119, "another 119 seconds.")]
    {
        let mut page = sample(Situation::Turn, None);
        page.place = page.place.map(|place| PlaceFigures { remaining_seconds: Some(seconds), ..place });
        assert!(html(&page, "en").contains(told), "{seconds} s: {told}");
    }
}

#[test]
fn a_logo_is_told_to_those_who_do_not_see_it() {
    let settings =
        with(&[("page_logo", text("/logo.svg")), ("page_logo_text", text("The \"Sample\" Theatre"))]);
    let html = html(&sample(Situation::Waiting, Some(&settings)), "en");
    assert!(html.contains("<img src=\"/logo.svg\" alt=\"The &#34;Sample&#34; Theatre\">"), "{html}");
}

#[test]
fn the_header_says_what_the_page_is_and_may_do() {
    let page = sample(Situation::Waiting, None);
    let answer = Pages::default().respond(StatusCode::SERVICE_UNAVAILABLE, &page, &in_language("de-AT"));
    assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
    let headers = answer.headers();
    for (name, value) in [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CACHE_CONTROL, "no-store"),
        (header::CONTENT_LANGUAGE, "de"),
        (header::REFERRER_POLICY, "same-origin"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::VARY, "Accept, Accept-Language, Accept-Encoding, Cookie"),
    ] {
        assert_eq!(headers[&name], value, "{name}");
    }
    let policy = headers[header::CONTENT_SECURITY_POLICY].to_str().unwrap();
    assert!(!policy.contains("unsafe"), "{policy}");
    let nonce = policy.split("'nonce-").nth(1).unwrap().split('\'').next().unwrap();
    assert_eq!(nonce.len(), 22);
    let html = std::str::from_utf8(answer.body()).unwrap();
    assert_eq!(
        html.matches(&format!("nonce=\"{nonce}\"")).count(),
        3,
        "the style, the script, and its substitute"
    );
    let again = Pages::default().respond(StatusCode::OK, &page, &HeaderMap::new());
    assert_ne!(again.headers()[header::CONTENT_SECURITY_POLICY], headers[header::CONTENT_SECURITY_POLICY]);
}

#[test]
fn a_form_for_another_site_says_where_it_comes_from() {
    let page = sample(Situation::HandOff, None);
    let answer = Pages::default().respond(StatusCode::OK, &page, &HeaderMap::new());
    assert_eq!(answer.headers()[header::REFERRER_POLICY], "strict-origin");
}

#[test]
fn a_compressed_page_is_the_same_page() {
    let page = sample(Situation::Closed, None);
    let zipped = request_headers(&[(header::ACCEPT_ENCODING, "br, gzip;q=0.8")]);
    let answer = Pages::default().respond(StatusCode::OK, &page, &zipped);
    assert_eq!(answer.headers()[header::CONTENT_ENCODING], "gzip");
    let mut unzipped = String::new();
    flate2::read::GzDecoder::new(&answer.body()[..]).read_to_string(&mut unzipped).unwrap();
    // Without a script, only the style carries the nonce.
    let without_nonce = |html: &str| {
        let (before, rest) = html.split_once("nonce=\"").unwrap();
        format!("{before}{}", &rest[22..])
    };
    assert_eq!(without_nonce(&unzipped), without_nonce(&html(&page, "en")));
}

#[test]
fn nobody_writes_html_into_a_page() {
    let evil = "</script><script>alert(1)</script><!--";
    let settings = with(&[("notice", text(evil)), ("page_heading", text(evil)), ("page_text", text(evil))]);
    let mut page = sample(Situation::Waiting, Some(&settings));
    page.room = Some(evil);
    page.detail = Some(evil);
    page.home = Some(format!("/\"{evil}"));
    page.live.as_mut().unwrap().watch = format!("/{evil}");
    let html = html(&page, "en");
    assert!(!html.contains("<script>"), "{html}");
    assert!(!html.contains("<!--"), "{html}");
    assert_eq!(html.matches("</script>").count(), 3, "{html}");
    let block = html.split("id=\"anteroom\">").nth(1).unwrap().split("</script>").next().unwrap();
    let data: serde_json::Value = serde_json::from_str(block).unwrap();
    assert_eq!(data["live"]["watch"], format!("/{evil}"));
    assert_eq!(data["phases"]["waiting"][1], evil);
    assert_eq!(data["heading"], evil);
}

#[test]
fn the_operators_words_and_colours_are_shown() {
    let settings = with(&[
        ("notice", text("The balcony is sold out.")),
        ("page_heading", text("Spring sale")),
        ("page_text", text("Four tickets each.")),
        ("page_color", text("#112233")),
        ("page_logo", text("/logo.svg")),
    ]);
    let page = sample(Situation::Waiting, Some(&settings));
    let shown = html(&page, "en");
    for expected in [
        "The balcony is sold out.",
        "Spring sale</p>",
        "Four tickets each.</p>",
        "--accent:#112233;",
        "<img src=\"/logo.svg\" alt=\"\">",
        "<title>1,284 people ahead of you · Spring sale</title>",
    ] {
        assert!(shown.contains(expected), "{expected}: {shown}");
    }
    let paused = Page { is_standing_still: true, ..page };
    let html = html(&paused, "en");
    assert!(html.contains("Your place is safe.</p>") && html.contains("data-phase=\"paused\""), "{html}");
}

#[test]
fn the_place_is_told_in_the_language_of_the_visitor() {
    let page = sample(Situation::Waiting, None);
    for (tag, figures) in [
        ("en", ["1,284", "About 4–7 minutes", "5,120"]),
        ("de", ["1.284", "4–7 Minuten", "5.120"]),
        ("pl", ["1284", "4–7 minut", "5120"]),
        ("ar", ["1,284", "4–7 دقائق", "5,120"]),
    ] {
        let html = html(&page, tag);
        for figure in figures {
            assert!(html.contains(figure), "{tag} {figure}: {html}");
        }
    }
}

#[test]
fn a_template_that_fails_gives_way_to_the_built_in_page() {
    let settings = with(&[("page_template", text("spring"))]);
    let page = sample(Situation::Waiting, Some(&settings));
    let pages = Pages::with_templates([(
        "spring".to_owned(),
        "{% if place %}{{ place.wait }}{% endif %}".to_owned(),
    )]);
    let respond = |pages: &Pages| pages.respond(StatusCode::OK, &page, &HeaderMap::new());
    let answer = respond(&pages);
    assert_eq!(answer.body(), "About 4–7 minutes");
    assert!(answer.extensions().get::<TemplateFailure>().is_none());
    assert_eq!(pages.check_named_template("spring"), Ok(()));

    for (source, part) in [("{{ nobody }}", "undefined"), ("{{ title", "no \"}}\"")] {
        pages.replace_templates([("spring".to_owned(), source.to_owned())]);
        let answer = respond(&pages);
        assert!(answer.body().starts_with(b"<!doctype html>"), "{source}");
        let failed = answer.extensions().get::<TemplateFailure>().unwrap();
        assert_eq!(failed.name, "spring");
        assert!(failed.problem.reason.contains(part), "{}", failed.problem);
    }
    pages.replace_templates([]);
    let answer = respond(&pages);
    assert!(answer.body().starts_with(b"<!doctype html>"));
    assert_eq!(
        answer.extensions().get::<TemplateFailure>().unwrap().problem.reason,
        "there is no template \"spring\""
    );
    assert!(pages.check_named_template("spring").is_err());
}

#[test]
fn a_preview_has_sample_figures_and_asks_nobody() {
    let pages = Pages::default();
    let html = pages.preview(None, Situation::Waiting, "de", None).unwrap();
    assert!(html.contains("lang=\"de\"") && html.contains("1.284") && !html.contains("<script"), "{html}");
    let html = pages.preview(Some("{{ title }}{{ script }}"), Situation::Turn, "xx", None).unwrap();
    assert_eq!(html, "It is your turn");
    let problem = pages.preview(Some("\n{{ x }}"), Situation::Turn, "en", None).unwrap_err();
    assert_eq!(problem.line, Some(2));
    let answer = pages.preview_response(None, Situation::Waiting, "ar", None).unwrap();
    assert_eq!(answer.headers()[header::CONTENT_LANGUAGE], "ar");
    assert!(answer.headers()[header::CONTENT_SECURITY_POLICY].to_str().unwrap().ends_with("; sandbox"));
}

#[test]
fn the_script_knows_when_a_line_is_held() {
    let held: Vec<String> = Standstill::ALL
        .into_iter()
        .filter(|standstill| standstill.is_held())
        .map(|standstill| format!("\"{}\"", standstill.as_str()))
        .collect();
    let line = format!("const STANDSTILLS = [{}];", held.join(", "));
    assert!(include_str!("../assets/page.js").contains(&line), "{line}");
}
