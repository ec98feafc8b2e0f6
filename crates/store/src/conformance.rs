//! The one list of scenarios that every store must pass, each named by what the contract promises.
//!
//! A scenario gets an empty store and asserts. Times are taken from the machine's clock, so that a store that goes by its own
//! clock agrees; nothing here waits for time to pass except for what a store may do late (deleting old records).

#![expect(clippy::unwrap_used, reason = "the suite is a test that lives in the library only to be shared")]

pub mod backups;
pub mod caller;
mod clockwork;
mod commits;
pub mod fault_injection;
mod joins;
mod nodes;
mod records;
mod sessions;
pub mod stores;

use std::pin::Pin;
use std::sync::Arc;

use crate::contract::Store;

/// A scenario at work.
pub type Running = Pin<Box<dyn Future<Output = ()> + Send>>;
/// Plays one scenario over an empty store; panics where the contract is broken.
pub type Scenario = fn(Arc<dyn Store>) -> Running;
/// A scenario with its name.
pub type NamedScenario = (&'static str, Scenario);

/// A list of scenarios, each under the name of its function.
#[macro_export]
macro_rules! scenarios {
    ($($module:ident :: $name:ident,)+) => {
        &[ $( (stringify!($name), |store| Box::pin($module::$name(store))), )+ ]
    };
}

/// Every scenario with its name.
pub const SCENARIOS: &[NamedScenario] = crate::scenarios! {
    commits::a_snapshot_reads_back_exactly,
    commits::a_stale_version_conflicts_and_writes_nothing,
    commits::a_room_is_made_once,
    commits::a_commit_adds_its_joins_to_those_in_between,
    commits::a_commit_that_opens_a_line_conflicts_with_joins_in_between,
    commits::a_commit_never_passes_the_last_position,
    commits::a_repeated_commit_answers_the_same_and_changes_nothing,
    commits::a_snapshot_tells_the_last_number_of_each_node,
    commits::rooms_are_independent,
    joins::joins_do_not_look_at_the_version,
    joins::a_join_of_an_ended_epoch_conflicts_and_writes_nothing,
    joins::a_join_beyond_the_last_position_is_refused,
    joins::a_repeated_join_answers_the_same_and_changes_nothing,
    joins::concurrent_joins_leave_no_gap_and_no_duplicate,
    sessions::sessions_come_by_end_within_limit_and_generations,
    sessions::an_ended_session_leaves_the_index_but_stays_listed,
    sessions::a_stay_moves_its_session_in_the_index_both_ways,
    sessions::where_visits_come_from_and_who_waits_for_it_are_remembered,
    sessions::a_stay_that_was_prolonged_outlives_its_first_end_by_more_than_the_retention,
    sessions::a_place_that_moved_and_a_code_that_was_redeemed_are_remembered,
    sessions::logins_are_remembered_with_their_session,
    sessions::expired_passes_are_strictly_before,
    sessions::a_reset_makes_sessions_invisible,
    sessions::sessions_are_kept_for_the_retention_and_no_longer,
    records::events_and_audit_come_with_their_commit,
    records::events_come_with_values_with_deletions_and_alone,
    records::outbox_and_audit_are_bounded,
    records::old_events_are_dropped_and_counted_and_numbers_go_on,
    records::a_cursor_is_saved_by_the_node_that_has_the_work,
    records::values_are_compared_and_set,
    records::the_audit_is_read_page_by_page,
    backups::a_backup_that_contradicts_itself_is_refused,
    clockwork::a_room_with_everything_set_reads_back_exactly,
    clockwork::a_pass_to_be_used_in_time_reads_back_with_that_time,
    nodes::a_poll_shows_how_far_rooms_have_come,
    nodes::a_lease_belongs_to_one_node_until_it_runs_out,
    nodes::what_was_computed_under_another_lineage_conflicts,
    nodes::numbers_tell_that_values_and_names_have_changed,
    nodes::what_is_confirmed_can_be_read,
    nodes::a_room_made_again_takes_nothing_of_before,
    nodes::an_answer_is_kept_once_for_its_room_and_its_time,
};

/// Plays every scenario of a list, each over a store of its own.
pub async fn run_all<Made>(scenarios: &[NamedScenario], make: impl Fn() -> Made)
where
    Made: Future<Output = Arc<dyn Store>>,
{
    for (name, scenario) in scenarios {
        let _named = NamedInPanic(name);
        scenario(make().await).await;
    }
}

/// Says which scenario it was when one fails.
struct NamedInPanic(&'static str);

impl Drop for NamedInPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the scenario that failed: {}", self.0);
        }
    }
}
