//! Pages with made-up figures, one of each situation: for previews, for trying templates out, and for looking at.

use anteroom_core::{Settings, UnixMillis};

use crate::page::{Handoff, Live, Page, PlaceFigures, Situation};

/// 2026-11-16T20:15:30Z.
const NOW: UnixMillis = UnixMillis(1_794_860_130_000);

/// A page of that situation as a visitor in the middle of a line would see it.
pub fn sample(situation: Situation, settings: Option<&Settings>) -> Page<'_> {
    let mut page =
        Page { situation, settings, room: Some("Sample"), home: Some("/".into()), ..Page::default() };
    let place = PlaceFigures {
        position: 5_120,
        people_ahead: 1_284,
        people_ahead_at_first: 2_860,
        likely_seconds: Some(270),
        at_most_seconds: Some(420),
        remaining_seconds: None,
        now: NOW,
    };
    match situation {
        Situation::Waiting | Situation::Held => {
            page.place = Some(place);
            page.live = Some(live());
            page.refresh_seconds = Some(20);
            page.leave = Some("/.anteroom/line/leave?room=Sample".into());
            page.move_out = Some("/.anteroom/line/move?room=Sample".into());
            page.enter = Some("/.anteroom/line/enter?room=Sample".into());
        }
        Situation::Turn => {
            page.place = Some(PlaceFigures { people_ahead: 0, remaining_seconds: Some(90), ..place });
            page.live = Some(live());
            page.refresh_seconds = Some(20);
            page.enter = Some("/.anteroom/line/enter?room=Sample".into());
            page.leave = Some("/.anteroom/line/leave?room=Sample".into());
        }
        Situation::Arriving => page.refresh_seconds = Some(1),
        Situation::ManyArriving => page.refresh_seconds = Some(5),
        Situation::Limited | Situation::Failed => page.refresh_seconds = Some(30),
        Situation::Gone | Situation::Moved => {
            page.join = Some("/.anteroom/line/join?room=Sample".into());
            page.home = None;
        }
        Situation::MoveOut => {
            let link = "https://shop.example/.anteroom/line/take?room=Sample&code=J2b0c0wXlq3nE9dRkqv7mCkQp0B1yZ5tUe8sHnVgLrA";
            page.link = Some((link.into(), 600));
        }
        Situation::MoveIn => {
            page.move_in = Some("/.anteroom/line/take?room=Sample".into());
            page.home = None;
        }
        Situation::Confirm => {
            page.site = Some("Sample shop");
            page.confirm = Some("/.anteroom/rooms/Sample/authorize/enter".into());
            page.home = None;
        }
        Situation::Elsewhere => {
            page.site = Some("Sample shop");
            page.home = None;
        }
        Situation::HandOff => {
            let fields = vec![("access_token", "sample".into()), ("room", "Sample".into())];
            page.handoff = Some(Handoff { address: "https://shop.example/enter".into(), fields });
            page.home = None;
        }
        Situation::Refused => page.detail = Some("\"return\" is not one of the addresses of this room."),
        _ => {}
    }
    page
}

fn live() -> Live {
    Live {
        request_id: "8f14e45f-ceea-867a-9b2c-1d2e3f405162".into(),
        generation: 23_235_379_207,
        next_poll_seconds: 20,
        watch: "/.anteroom/watch?room=Sample".into(),
        ask: "/.anteroom/line?room=Sample".into(),
        open_at_turn: None,
        check_in: None,
    }
}
