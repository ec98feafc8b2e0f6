//! What the script is told: one block of JSON in the page. The server decides; the script only repeats it with newer figures.

use std::collections::BTreeMap;

use anteroom_core::settings::Heading;
use serde::Serialize;

use crate::languages::Language;
use crate::localized_page::words;
use crate::page::{Page, Situation};
use crate::texts::Pattern;

/// The phases that the script shows in place; all else is asked of the server anew.
const PHASES: [&str; 5] = ["waiting", "near", "paused", "turn", "held"];
/// The messages that the script writes by itself.
const MESSAGES: [&str; 8] = [
    "people-ahead-of-you",
    "wait-unknown",
    "wait-less-than-a-minute",
    "wait-minutes",
    "wait-hours",
    "updated-at",
    "turn-remaining",
    "turn-remaining-minutes",
];
/// The messages of the link to another device.
const MOVE_MESSAGES: [&str; 2] = ["move-expires", "move-copied"];

/// What the script reads; `assets/page.js` says what for.
#[derive(Debug, Serialize)]
struct Data<'page> {
    language: &'static str,
    situation: &'static str,
    phase: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    heading: Option<&'page str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    place: Option<PlaceData>,
    #[serde(skip_serializing_if = "Option::is_none")]
    live: Option<LiveData<'page>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    refresh_seconds: Option<u64>,
    auto_enter: bool,
    /// Title and lead of each phase.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    phases: BTreeMap<&'static str, (&'page str, &'page str)>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    texts: BTreeMap<&'static str, &'static Pattern>,
}

#[derive(Debug, Serialize)]
struct PlaceData {
    position: u64,
    people_ahead: u64,
    people_ahead_at_first: u64,
    likely_seconds: Option<u64>,
    at_most_seconds: Option<u64>,
    remaining_seconds: Option<u64>,
}

#[derive(Debug, Serialize)]
struct LiveData<'page> {
    request_id: &'page str,
    generation: u64,
    next_poll_seconds: u64,
    watch: &'page str,
    ask: &'page str,
    open_at_turn: Option<&'page str>,
    check_in: Option<&'page str>,
}

/// The block of a page as JSON that can stand within a `script` element; empty where the script has nothing to do.
pub(crate) fn block(page: &Page<'_>, phase: &'static str, language: &'static Language) -> String {
    let goes_on = page.live.is_some() || page.refresh_seconds.is_some();
    if !goes_on && !matches!(page.situation, Situation::HandOff | Situation::MoveOut) {
        return String::new();
    }
    let live = page.live.as_ref().map(|live| LiveData {
        request_id: &live.request_id,
        generation: live.generation,
        next_poll_seconds: live.next_poll_seconds,
        watch: &live.watch,
        ask: &live.ask,
        open_at_turn: live.open_at_turn.as_deref(),
        check_in: live.check_in.as_deref(),
    });
    let place = page.place.map(|place| PlaceData {
        position: place.position,
        people_ahead: place.people_ahead,
        people_ahead_at_first: place.people_ahead_at_first.max(place.people_ahead),
        likely_seconds: place.likely_seconds,
        at_most_seconds: place.at_most_seconds,
        remaining_seconds: place.remaining_seconds,
    });
    let phases = live.is_some().then_some(PHASES).into_iter().flatten();
    let messages = live.is_some().then_some(MESSAGES).into_iter().flatten();
    let can_move = page.move_out.is_some() || page.link.is_some();
    let move_messages = can_move.then_some(MOVE_MESSAGES).into_iter().flatten();
    let data = Data {
        language: language.tag,
        situation: page.situation.name(),
        phase,
        heading: page.settings.and_then(|settings| settings.page_heading.as_ref()).map(Heading::as_str),
        place,
        live,
        refresh_seconds: page.refresh_seconds,
        auto_enter: page.settings.is_none_or(|settings| settings.auto_enter),
        phases: phases.map(|phase| (phase, words(page, phase, language))).collect(),
        texts: messages.chain(move_messages).map(|name| (name, language.texts.pattern(name))).collect(),
    };
    let json = serde_json::to_string(&data).expect("strings and numbers can be written");
    // Within a script element only `</script` and `<!--` mean something, and both begin with this.
    json.replace('<', "\\u003c")
}
