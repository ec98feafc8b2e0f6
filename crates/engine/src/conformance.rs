//! The scenarios that engines must pass over every store, beside those of [`anteroom_store::conformance`].
//!
//! A scenario gets an empty store, starts engines on it and asserts. Times are taken from the machine's clock, so that a store
//! that goes by its own clock agrees.

#![expect(clippy::unwrap_used, reason = "the suite is a test that lives in the library only to be shared")]

mod backups;
mod clockwork;
mod engines;
mod rooms;

use anteroom_store::conformance::NamedScenario;

/// Every scenario with its name.
pub const SCENARIOS: &[NamedScenario] = anteroom_store::scenarios! {
    rooms::a_change_with_a_stale_expectation_changes_nothing,
    rooms::a_deleted_room_is_gone_and_its_name_is_free,
    rooms::a_room_made_again_is_another_room,
    rooms::a_deletion_with_a_stale_expectation_deletes_nothing,
    rooms::what_is_queued_behind_a_deletion_is_refused,
    rooms::another_node_sees_that_a_room_was_deleted,
    backups::a_backup_taken_under_load_is_one_moment,
    backups::a_backup_moves_to_another_store_and_back,
    backups::a_broken_backup_is_refused_and_changes_nothing,
    backups::values_decide_before_anything_changes,
    backups::no_position_is_handed_out_twice_across_restores,
    backups::rooms_come_back_and_go_with_a_restore,
    backups::numbers_rise_and_the_audit_stays_across_a_restore,
    clockwork::after_a_restore_reporters_are_silent_until_they_are_heard_again,
    clockwork::what_programs_say_every_few_seconds_is_not_audited,
    engines::joins_through_several_engines_keep_their_order,
    engines::conflicting_commits_are_applied_again_and_nothing_is_lost,
    engines::claims_at_once_get_one_prefix_no_more_than_its_share,
    engines::the_board_shows_what_was_answered,
    engines::a_room_made_twice_at_once_has_one_owner,
    engines::stopping_answers_what_is_queued_and_refuses_the_rest,
};
