//! What visitors were promised, and whether the promises agree with each other.

use std::collections::BTreeMap;
use std::time::Instant;

use crate::native::LinePlace;

/// A join that was answered with 200, and when.
#[derive(Debug, Clone)]
pub struct JoinRecord {
    /// The place of the response.
    pub place: LinePlace,
    /// When it was asked for.
    pub sent: Instant,
    /// When the answer was there.
    pub answered: Instant,
}

/// No two tickets share a position: not within their line, not as a bare number, and not as a request id.
#[track_caller]
pub fn assert_unique<'a>(joins: impl IntoIterator<Item = &'a JoinRecord>) {
    let mut by_position: BTreeMap<u64, &LinePlace> = BTreeMap::new();
    let mut by_id: BTreeMap<&str, &LinePlace> = BTreeMap::new();
    for join in joins {
        let place = &join.place;
        let taken = by_position.insert(place.position, place).or(by_id.insert(&place.request_id, place));
        assert!(taken.is_none(), "given twice: {taken:?} and {place:?}");
    }
}

/// A join that was answered before another was sent is served before it.
#[track_caller]
pub fn assert_order_is_kept<'a>(joins: impl IntoIterator<Item = &'a JoinRecord>) {
    let mut joins: Vec<&JoinRecord> = joins.into_iter().collect();
    joins.sort_by_key(|join| join.answered);
    let mut latest = None;
    let latest_up_to: Vec<_> = joins
        .iter()
        .map(|join| {
            latest = latest.max(Some(&join.place));
            latest
        })
        .collect();
    let mut compared = 0;
    for join in &joins {
        let answered_before = joins.partition_point(|other| other.answered < join.sent);
        if let Some(before) = answered_before.checked_sub(1).and_then(|last| latest_up_to[last]) {
            assert!(before < &join.place, "{before:?} was answered before {:?} was asked for", join.place);
            compared += 1;
        }
    }
    assert!(compared > joins.len() / 2, "only {compared} of {} joins had a predecessor", joins.len());
}
