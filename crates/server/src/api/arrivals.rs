//! Who joins a room on this node, for operators: joins by address prefix, and refusals by reason.

use std::collections::BTreeMap;
use std::sync::Arc;

use anteroom_admission::arrivals::JoinRefusal;
use axum::extract::State;
use http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;

use crate::app::App;
use crate::http::error::ApiError;
use crate::http::request::Path;
use crate::http::response::{self, ApiResponse, Caching};

/// Who joins a room, as this node has seen it.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Arrivals)]
pub(crate) struct ArrivalsView {
    /// The address prefixes with the most joins, those first: at most 20.
    pub(crate) prefixes: Vec<PrefixView>,
    /// Joins that were refused since the node started, by reason.
    #[schema(value_type = BTreeMap<String, u64>)]
    pub(crate) refusals: BTreeMap<&'static str, u64>,
}

/// The joins of one address prefix.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = PrefixArrivals)]
pub(crate) struct PrefixView {
    /// An IPv4 address, or the first 64 bits of an IPv6 address.
    pub(crate) prefix: String,
    /// How many joins it had at most.
    pub(crate) joins: u64,
    /// By how many that may be too many.
    pub(crate) joins_error: u64,
    /// How many visits of it are inside, on all nodes, as far as they came in through the gateway; null for an address that nobody
    /// comes from over the Internet.
    #[schema(required)]
    pub(crate) visits: Option<u64>,
}

/// GET `/rooms/{id}/arrivals`.
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
) -> Result<ApiResponse, ApiError> {
    let room = app.named_room(Some(&id))?;
    let board = room.handle.board();
    let visits = |address| {
        let tag = room.prefix_tags.tag(address)?;
        Some(board.visits_by_prefix.get(&tag).copied().unwrap_or(0))
    };
    let prefixes = room.arrivals.most_joins(app.now()).into_iter().map(|counted| PrefixView {
        prefix: counted.prefix.to_string(),
        joins: counted.joins,
        joins_error: counted.error,
        visits: visits(counted.prefix.address()),
    });
    let refusals = JoinRefusal::ALL.map(|reason| (reason.as_str(), room.arrivals.refusals(reason)));
    let body = ArrivalsView { prefixes: prefixes.collect(), refusals: refusals.into_iter().collect() };
    Ok(response::serialized(StatusCode::OK, Caching::Never, &body))
}
