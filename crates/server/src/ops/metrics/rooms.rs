//! The figures of each room, read from its board when they are asked for.

use std::fmt;
use std::sync::Arc;

use anteroom_admission::RoomView;
use anteroom_admission::arrivals::JoinRefusal;
use anteroom_core::{Adjustment, Board, MovedBy, Standstill, UnixMillis};
use anteroom_engine::RoomHandle;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use super::gauge;
use crate::api::frontier::{ReportsView, from_thousandths};

type Figure = (&'static str, &'static str, fn(&Board) -> u64);

const GAUGES: &[Figure] = &[
    ("room_waiting", "People waiting", |board| board.waiting),
    ("room_serving", "The serving counter", |board| board.serving),
    ("room_active", "Visitors inside", |board| board.active),
    ("room_phantoms", "Those of them whose sessions the store has lost", |board| board.phantoms),
    ("room_segments", "Generations of tickets in the line", |board| board.segments.len() as u64),
    ("room_offers", "Unclaimed offers", |board| board.offers),
    ("room_capacity", "How many may be inside now, 0 if the inlet has no capacity", |board| {
        board.capacity.unwrap_or(0)
    }),
    ("room_lapsed", "Offers not claimed in time since the last reset", |board| board.counts.lapsed),
    ("room_left", "Places given up since the last reset", |board| board.counts.left),
    ("room_completed", "Sessions completed since the last reset", |board| board.counts.completed),
    ("room_abandoned", "Sessions abandoned since the last reset", |board| board.counts.abandoned),
    ("room_expired", "Sessions run out since the last reset", |board| board.counts.expired),
    ("room_inlet_rests", "1 while an automatic inlet rests after a move back by hand", |board| {
        u64::from(board.inlet_rests)
    }),
    ("room_offers_by_hand", "Offers made by hand over an automatic inlet", |board| board.offers_by_hand),
    ("room_rate_budget", "New users this step still lets in, 0 without a rate", |board| {
        board.rate_budget.unwrap_or(0)
    }),
    ("room_alarms_firing", "Alarms of the room that fire", |board| board.firing.len() as u64),
    ("room_reporters_heard", "Reporters of capacity that are heard", |board| ReportsView::of(board).heard),
    ("room_reporters_silent", "Reporters of capacity silent for too long", |board| {
        ReportsView::of(board).silent
    }),
    ("room_free_reported", "Free slots as reported by those that are heard", |board| {
        ReportsView::of(board).free_reported.unwrap_or(0)
    }),
    ("room_free", "Free slots as reported, less passes in flight and offers", |board| {
        ReportsView::of(board).free.unwrap_or(0)
    }),
    (
        "room_deferred",
        "Places whose visitors wait because their address prefix has its share of the slots",
        |board| board.deferred.len() as u64,
    ),
    ("room_passes_in_flight", "Passes the origin may not have seen yet when it counted", |board| {
        ReportsView::of(board).passes_in_flight
    }),
    ("room_auction_free", "Slots the open round gives away", |board| {
        board.auction.as_ref().map_or(0, |auction| auction.free)
    }),
    ("room_auction_spare", "Slots that the next visitors get immediately", |board| {
        board.auction.as_ref().map_or(0, |auction| auction.spare)
    }),
    ("room_auction_wins", "Wins not claimed yet", |board| {
        board.auction.as_ref().map_or(0, |auction| auction.wins.len() as u64)
    }),
];

const COUNTERS: &[Figure] = &[
    ("room_steps_missed", "Steps of the timetable that were due and not taken", |board| board.steps_missed),
    ("room_estimates_checked", "Estimates of the wait compared with the wait as it was", |board| {
        board.forecast.checked
    }),
    ("room_estimates_within_p90", "Of these, waits no longer than the 90th percentile told", |board| {
        board.forecast.within_p90
    }),
];

pub(super) fn encode(
    encoder: &mut DescriptorEncoder<'_>,
    rooms: &[Arc<RoomHandle>],
    views: &[Arc<RoomView>],
    now: UnixMillis,
) -> fmt::Result {
    for (name, help, figure) in GAUGES {
        let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for room in rooms {
            let labels = [("room", room.id().as_str())];
            gauge(figure(&room.board())).encode(metric.encode_family(&labels)?)?;
        }
    }
    for (name, help, figure) in COUNTERS {
        let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for room in rooms {
            let labels = [("room", room.id().as_str())];
            ConstCounter::new(figure(&room.board())).encode(metric.encode_family(&labels)?)?;
        }
    }
    let help = "1 while this node runs the room's clockwork";
    let mut metric = encoder.encode_descriptor("room_lease_held", help, None, MetricType::Gauge)?;
    for room in rooms {
        let labels = [("room", room.id().as_str())];
        gauge(u64::from(room.holds_lease())).encode(metric.encode_family(&labels)?)?;
    }
    let help = "Moves of the frontier, by whom";
    let mut metric = encoder.encode_descriptor("room_frontier_moves", help, None, MetricType::Counter)?;
    for room in rooms {
        let moves = room.board().moves;
        for by in MovedBy::ALL {
            let labels = [("room", room.id().as_str()), ("by", by.as_str())];
            ConstCounter::new(moves[by as usize]).encode(metric.encode_family(&labels)?)?;
        }
    }
    let help = "1 for the reason why the frontier stands still, 0 for all others";
    let mut metric = encoder.encode_descriptor("room_standstill", help, None, MetricType::Gauge)?;
    for room in rooms {
        let present = room.board().standstill;
        for reason in Standstill::ALL {
            let labels = [("room", room.id().as_str()), ("reason", reason.as_str())];
            gauge(u64::from(present == Some(reason))).encode(metric.encode_family(&labels)?)?;
        }
    }
    encode_wait(encoder, rooms, now)?;
    encode_adaptive(encoder, rooms)?;
    encode_arrivals(encoder, views, now)?;
    let help = "The wait as it was over what was foretold, the median of the last ones: 1 is exact";
    let mut metric = encoder.encode_descriptor("room_estimate_quotient", help, None, MetricType::Gauge)?;
    for room in rooms {
        if let Some(thousandths) = room.board().forecast.median_quotient_thousandths() {
            let labels = [("room", room.id().as_str())];
            let quotient = ConstGauge::new(from_thousandths(u64::from(thousandths)));
            quotient.encode(metric.encode_family(&labels)?)?;
        }
    }
    Ok(())
}

/// Who joined on this node, and why others could not. A prefix is named by its rank alone: addresses are no business of those who
/// read metrics.
fn encode_arrivals(
    encoder: &mut DescriptorEncoder<'_>,
    rooms: &[Arc<RoomView>],
    now: UnixMillis,
) -> fmt::Result {
    let help = "Joins that this node refused, by reason";
    let mut metric = encoder.encode_descriptor("room_join_refusals", help, None, MetricType::Counter)?;
    for room in rooms {
        for reason in JoinRefusal::ALL {
            let labels = [("room", room.handle.id().as_str()), ("reason", reason.as_str())];
            ConstCounter::new(room.arrivals.refusals(reason)).encode(metric.encode_family(&labels)?)?;
        }
    }
    let help =
        "Joins on this node in the last 10 to 20 minutes, of the address prefixes with the most of them";
    let mut metric = encoder.encode_descriptor("room_joins_by_prefix", help, None, MetricType::Gauge)?;
    for room in rooms {
        for (rank, counted) in (1_u64..).zip(room.arrivals.most_joins(now)) {
            let labels = [("room", room.handle.id().as_str()), ("rank", &rank.to_string())];
            gauge(counted.joins - counted.error).encode(metric.encode_family(&labels)?)?;
        }
    }
    Ok(())
}

/// How long a newcomer will wait. Nothing is said while that is not known.
fn encode_wait(
    encoder: &mut DescriptorEncoder<'_>,
    rooms: &[Arc<RoomHandle>],
    now: UnixMillis,
) -> fmt::Result {
    let help =
        "How long somebody waits who joins now: half of the people no longer, or nine of ten no longer";
    let mut metric = encoder.encode_descriptor("room_wait_seconds", help, None, MetricType::Gauge)?;
    for room in rooms {
        let Some(wait) = room.with_board(|board| board.wait_of_newcomer(now)) else { continue };
        for (quantile, seconds) in [("0.5", wait.p50_seconds), ("0.9", wait.p90_seconds)] {
            let labels = [("room", room.id().as_str()), ("quantile", quantile)];
            gauge(seconds).encode(metric.encode_family(&labels)?)?;
        }
    }
    Ok(())
}

/// Of adaptive rooms only.
fn encode_adaptive(encoder: &mut DescriptorEncoder<'_>, rooms: &[Arc<RoomHandle>]) -> fmt::Result {
    let help = "Capacity by the adaptive law";
    let mut metric = encoder.encode_descriptor("room_adaptive_capacity", help, None, MetricType::Gauge)?;
    for room in rooms {
        if let Some(adaptive) = room.board().adaptive {
            gauge(adaptive.capacity).encode(metric.encode_family(&[("room", room.id().as_str())])?)?;
        }
    }
    let help = "1 for the result of the last look at how the origin fares, 0 for all others";
    let mut metric = encoder.encode_descriptor("room_adaptive_adjustment", help, None, MetricType::Gauge)?;
    for room in rooms {
        let Some(adaptive) = room.board().adaptive else { continue };
        for adjustment in Adjustment::ALL {
            let labels = [("room", room.id().as_str()), ("adjustment", adjustment.as_str())];
            gauge(u64::from(adaptive.adjustment == adjustment)).encode(metric.encode_family(&labels)?)?;
        }
    }
    Ok(())
}
