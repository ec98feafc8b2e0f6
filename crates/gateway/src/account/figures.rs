//! What visitors did with their places, counted.

use std::sync::OnceLock;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use crate::check::Dialect;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RoomLabels {
    room: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct HandOffLabels {
    room: String,
    handoff: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CheckLabels {
    dialect: &'static str,
    answer: &'static str,
}

/// The figures.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    moves: Family<RoomLabels, Counter>,
    hand_offs: Family<HandOffLabels, Counter>,
    exchanges: Family<RoomLabels, Counter>,
    checks: Family<CheckLabels, Counter>,
    /// Those of each dialect, refused and allowed, found beforehand: counting one is a single atomic.
    checks_found: OnceLock<[[Counter; 2]; Dialect::ALL.len()]>,
}

impl Figures {
    pub(crate) fn register(&self, registry: &mut Registry) {
        registry.register(
            "places_moved",
            "Places taken to another device, by their link or by a program",
            self.moves.clone(),
        );
        registry.register(
            "codes_exchanged",
            "Codes that sites without a gateway have exchanged for the passes they stand for",
            self.exchanges.clone(),
        );
        registry.register(
            "hand_offs",
            "Visitors handed over to a site without a gateway with their pass, by how",
            self.hand_offs.clone(),
        );
        registry.register(
            "checks",
            "Verdicts on requests that another proxy passes on, by how it asks and what it was told",
            self.checks.clone(),
        );
    }

    /// Counts a verdict that another proxy has asked for.
    pub(crate) fn count_check(&self, dialect: Dialect, is_allowed: bool) {
        let counter = |dialect: Dialect, answer| {
            self.checks.get_or_create_owned(&CheckLabels { dialect: dialect.as_str(), answer })
        };
        let found = self.checks_found.get_or_init(|| {
            Dialect::ALL.map(|dialect| ["refused", "allowed"].map(|answer| counter(dialect, answer)))
        });
        found[dialect as usize][usize::from(is_allowed)].inc();
    }

    /// Counts a place that has moved.
    pub(crate) fn count_move(&self, room: &str) {
        self.moves.get_or_create(&RoomLabels { room: room.to_owned() }).inc();
    }

    /// Counts a code that a site has exchanged for its pass.
    pub(crate) fn count_code_exchange(&self, room: &str) {
        self.exchanges.get_or_create(&RoomLabels { room: room.to_owned() }).inc();
    }

    /// Counts a visitor who was handed over.
    pub(crate) fn count_hand_off(&self, room: &str, handoff: &'static str) {
        self.hand_offs.get_or_create(&HandOffLabels { room: room.to_owned(), handoff }).inc();
    }
}
