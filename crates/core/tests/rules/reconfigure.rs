//! Settings and state are changed together or not at all.

use anteroom_core::settings::Seconds;
use anteroom_core::{InletKind, Operation, Reconfigure, Refusal, RoomState, Settings};

use super::story::Story;

#[test]
fn a_change_that_expects_another_room_changes_nothing() {
    let mut story = Story::manual();
    let seen = ((*story.room.settings).clone(), story.room.state);
    let mut wanted = (*story.room.settings).clone();
    wanted.validity_period = Seconds::new(60).unwrap();
    let change = |expected, state| {
        Operation::Reconfigure(Box::new(Reconfigure { expected, settings: wanted.clone(), state }))
    };
    // Somebody else pauses the room in between, then somebody else changes a setting.
    story.set(RoomState::Paused);
    let before = story.room.clone();
    assert_eq!(story.attempt(&change(Some(seen.clone()), Some(RoomState::Closed))), Err(Refusal::Changed));
    assert_eq!(story.room, before);
    story.set(RoomState::Open);
    story.change(|settings| settings.issuer = Some("https://other.example".into()));
    assert_eq!(story.attempt(&change(Some(seen), None)), Err(Refusal::Changed));
    let seen = ((*story.room.settings).clone(), story.room.state);
    story.does(change(Some(seen), Some(RoomState::Draining)));
    assert!(story.room.is_configured(&wanted, RoomState::Draining));
}

#[test]
fn settings_that_are_refused_leave_the_state_alone() {
    let mut story = Story::manual();
    let settings = Settings { inlet: InletKind::MaxSize, ..Settings::default() };
    let refused = story.attempt(&Operation::reconfigure(settings, Some(RoomState::Closed)));
    assert!(matches!(refused, Err(Refusal::Settings(_))), "{refused:?}");
    assert!(story.room.is_configured(&Settings::default(), RoomState::Open));
}

#[test]
fn only_the_word_open_wakes_a_resting_inlet() {
    let mut story = Story::max_size(2);
    story.join_many(2);
    story.advance(-1);
    assert!(story.room.inlet_rests);
    story.change(|settings| settings.total_active_users = Some(3));
    assert!(story.room.inlet_rests, "another setting is no such word");
    story.set(RoomState::Open);
    assert_eq!((story.room.inlet_rests, story.room.serving()), (false, 2));
}

#[test]
fn a_change_says_what_it_changes() {
    let mut story = Story::manual();
    let mut settings = (*story.room.settings).clone();
    settings.validity_period = Seconds::new(60).unwrap();
    let mut change = Reconfigure { expected: None, settings, state: Some(RoomState::Paused) };
    let said = change.describe(&story.room);
    assert_eq!(said, "change: validity_period 3600 -> 60, state open -> paused");
    story.does(Operation::Reconfigure(Box::new(change.clone())));
    assert_eq!(change.describe(&story.room), "change: nothing");
    change.settings.issuer = Some("https://other.example".into());
    assert_eq!(change.describe(&story.room), "change: issuer (not set) -> \"https://other.example\"");
}
