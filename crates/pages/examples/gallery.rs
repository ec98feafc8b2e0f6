//! Writes every page as an HTML file into a directory, to be looked at: `cargo run -p anteroom-pages --example gallery -- DIR`.
//!
//! The policy of the pages is a header field and so is not in the files; the script is written beside them, under its own path.

use std::path::Path;

use anteroom_core::Settings;
use anteroom_core::settings::Value;
use anteroom_pages::{Page, Pages, PlaceFigures, SCRIPT_PATH, Situation, sample};
use http::{HeaderMap, HeaderValue, StatusCode, header};

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let directory = std::env::args().nth(1).ok_or("name a directory to write to")?;
    let directory = Path::new(&directory);
    let script = directory.join(SCRIPT_PATH.trim_start_matches('/'));
    std::fs::create_dir_all(script.parent().ok_or("a script at no path")?)?;
    std::fs::write(script, Pages::default().script(None, &HeaderMap::new()).body())?;

    let plain = Settings::default();
    let branded = branded_settings()?;
    for situation in Situation::ALL {
        write(directory, situation.name(), &sample(situation, Some(&plain)))?;
    }
    let waiting = sample(Situation::Waiting, Some(&plain));
    let place = waiting.place.ok_or("who waits has a place")?;
    let near =
        PlaceFigures { people_ahead: 12, likely_seconds: Some(40), at_most_seconds: Some(55), ..place };
    write(directory, "near", &Page { place: Some(near), ..waiting.clone() })?;
    write(directory, "paused", &Page { is_standing_still: true, ..waiting.clone() })?;
    let early = PlaceFigures {
        people_ahead: 1_234_567,
        people_ahead_at_first: 1_240_000,
        likely_seconds: Some(9_000),
        at_most_seconds: Some(14_000),
        ..place
    };
    write(directory, "early", &Page { place: Some(early), ..waiting })?;
    write(directory, "branded", &sample(Situation::Waiting, Some(&branded)))?;
    write(directory, "branded-turn", &sample(Situation::Turn, Some(&branded)))?;
    Ok(())
}

/// A room whose operator has used every setting of the page.
fn branded_settings() -> Result<Settings, Failure> {
    let mut settings = Settings::default();
    let logo = "data:image/svg+xml;base64,PHN2ZyB4bWxucz0iaHR0cDovL3d3dy53My5vcmcvMjAwMC9zdmciIHZpZXdCb3g9IjAgMCAxMjAgNDAiIHdpZHRoPSIxMjAiIGhlaWdodD0iNDAiPjxjaXJjbGUgY3g9IjIwIiBjeT0iMjAiIHI9IjE4IiBmaWxsPSIjZTg1ZDc1Ii8+PGNpcmNsZSBjeD0iNTAiIGN5PSIyMCIgcj0iMTgiIGZpbGw9IiNmMmE2NWEiLz48L3N2Zz4=";
    for (name, value) in [
        ("page_heading", "Night of the Long Horns: ticket sale"),
        ("page_text", "Four tickets for each person. Have your membership card ready."),
        ("page_color", "#f2c14e"),
        ("page_background", "#3b2a4a"),
        ("page_logo", logo),
        ("notice", "The balcony is sold out.\nThere are places left in the stalls."),
    ] {
        settings.set(name, &Value::Text(value.into())).map_err(|error| format!("{name}: {error:?}"))?;
    }
    settings.set("auto_enter", &Value::Flag(false)).map_err(|error| format!("{error:?}"))?;
    Ok(settings)
}

fn write(directory: &Path, name: &str, page: &Page<'_>) -> Result<(), Failure> {
    for language in ["en", "ar", "de", "pl", "ja"] {
        let asked = HeaderMap::from_iter([(header::ACCEPT_LANGUAGE, HeaderValue::from_static(language))]);
        let answer = Pages::default().respond(StatusCode::OK, page, &asked);
        std::fs::write(directory.join(format!("{name}.{language}.html")), answer.body())?;
    }
    Ok(())
}
