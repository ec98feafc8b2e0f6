//! Everything that is counted while the run goes on, shared by all visitors.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use hdrhistogram::Histogram;

use crate::http_client::ClientError;

use super::frontier::Frontier;
use super::moment::Moment;
use super::record::{Outcome, PlaceInLine};

/// The longest time a histogram tells apart, in microseconds (an hour); longer ones count as this.
const LATENCY_MAX_MICROSECONDS: u64 = 3_600_000_000;
/// Significant digits of the histograms of the whole run.
const LATENCY_DIGITS: u8 = 3;
/// Significant digits of the histogram of one second.
const SECOND_DIGITS: u8 = 2;
/// How much of an unexpected answer is kept to be shown, in bytes.
const ANSWER_EXCERPT_BYTES: usize = 200;

/// What can be asked of the server, by the name of the route.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Step {
    AssignQueueNum,
    QueueNum,
    ServingNum,
    WaitingNum,
    GenerateToken,
    GenerateTokenEarly,
    GenerateTokenAgain,
    Join,
    Status,
    Watch,
    Claim,
    ClaimEarly,
    ClaimAgain,
    Leave,
    Auction,
    CheckIn,
    CheckInAgain,
    IncrementServingCounter,
    UpdateSession,
}

impl Step {
    /// All of them, in the order of a visit.
    pub(super) const ALL: [Self; 19] = [
        Self::AssignQueueNum,
        Self::QueueNum,
        Self::ServingNum,
        Self::WaitingNum,
        Self::GenerateToken,
        Self::GenerateTokenEarly,
        Self::GenerateTokenAgain,
        Self::Join,
        Self::Status,
        Self::Watch,
        Self::Claim,
        Self::ClaimEarly,
        Self::ClaimAgain,
        Self::Leave,
        Self::Auction,
        Self::CheckIn,
        Self::CheckInAgain,
        Self::IncrementServingCounter,
        Self::UpdateSession,
    ];

    /// The route, and what is special about this use of it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::AssignQueueNum => "assign_queue_num",
            Self::QueueNum => "queue_num",
            Self::ServingNum => "serving_num",
            Self::WaitingNum => "waiting_num",
            Self::GenerateToken => "generate_token",
            Self::GenerateTokenEarly => "generate_token, too early",
            Self::GenerateTokenAgain => "generate_token, again",
            Self::Join => "join",
            Self::Status => "status",
            Self::Watch => "watch",
            Self::Claim => "claim",
            Self::ClaimEarly => "claim, too early",
            Self::ClaimAgain => "claim, again",
            Self::Leave => "leave",
            Self::Auction => "auction",
            Self::CheckIn => "auction, check-in",
            Self::CheckInAgain => "auction, again",
            Self::IncrementServingCounter => "increment_serving_counter",
            Self::UpdateSession => "update_session",
        }
    }
}

/// A histogram of microseconds.
pub(super) type Latencies = Histogram<u64>;

/// An empty histogram of the whole run.
pub(super) fn latencies() -> Latencies {
    bounded_histogram(LATENCY_DIGITS)
}

fn bounded_histogram(digits: u8) -> Latencies {
    let mut histogram = Histogram::new_with_max(LATENCY_MAX_MICROSECONDS, digits)
        .expect("the bounds are constants that a histogram accepts");
    histogram.auto(false);
    histogram
}

/// What one step came to.
#[derive(Debug, Clone)]
pub(super) struct Tally {
    /// Answers, from when they were due. Without those that only said "busy": they come fast and would flatter.
    pub(super) latencies: Latencies,
    /// 429 and 503 with a word on when to come again.
    pub(super) busy: u64,
    /// No answer at all.
    pub(super) failed: u64,
    /// Answers that nobody should get here.
    pub(super) unexpected: u64,
}

impl Tally {
    fn new() -> Self {
        Self { latencies: latencies(), busy: 0, failed: 0, unexpected: 0 }
    }

    /// Whether this step was ever asked for.
    pub(super) fn is_used(&self) -> bool {
        !self.latencies.is_empty() || self.busy + self.failed > 0
    }
}

/// Counted answers that nobody should get, and the first of them.
#[derive(Debug, Clone, Default)]
pub(super) struct UnexpectedAnswers {
    pub(super) count: u64,
    pub(super) first: Option<String>,
}

/// What one second came to, over all steps.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Second {
    pub(super) answers: u64,
    pub(super) p50_microseconds: u64,
    pub(super) p99_microseconds: u64,
    pub(super) max_microseconds: u64,
}

/// The shared book of a run.
pub(super) struct Ledger {
    tallies: BTreeMap<Step, Mutex<Tally>>,
    second: Mutex<Latencies>,
    frontier: Mutex<Frontier>,
    surprises: Mutex<UnexpectedAnswers>,
    first_failure: Mutex<Option<String>>,
    refused: Mutex<BTreeMap<String, u64>>,
    /// The highest position any visitor was told.
    highest_position: AtomicU64,
    /// The highest value of the frontier anybody was told.
    serving: AtomicU64,
    arrived: AtomicU64,
    admitted: AtomicU64,
    ended: AtomicU64,
    /// Who has entered from an auction and was not let out yet, with the ids of their visits.
    inside: Mutex<VecDeque<(u64, String)>>,
}

impl Ledger {
    /// An empty book.
    pub(super) fn new() -> Self {
        Self {
            tallies: Step::ALL.into_iter().map(|step| (step, Mutex::new(Tally::new()))).collect(),
            second: Mutex::new(bounded_histogram(SECOND_DIGITS)),
            frontier: Mutex::default(),
            surprises: Mutex::default(),
            first_failure: Mutex::default(),
            refused: Mutex::default(),
            highest_position: AtomicU64::new(0),
            serving: AtomicU64::new(0),
            arrived: AtomicU64::new(0),
            admitted: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            inside: Mutex::default(),
        }
    }

    /// A visitor has entered from an auction.
    pub(super) fn record_entry(&self, visitor: u64, visit: &str) {
        lock(&self.inside).push_back((visitor, visit.to_owned()));
    }

    /// The visitor who entered first and is still inside.
    pub(super) fn take_first_inside(&self) -> Option<(u64, String)> {
        lock(&self.inside).pop_front()
    }

    fn tally(&self, step: Step) -> MutexGuard<'_, Tally> {
        lock(self.tallies.get(&step).expect("every step has a tally"))
    }

    /// An answer came, so long after it was due.
    pub(super) fn record_answer(&self, step: Step, microseconds: u64) {
        self.tally(step).latencies.saturating_record(microseconds);
        lock(&self.second).saturating_record(microseconds);
    }

    /// The server asked to come again later.
    pub(super) fn record_busy(&self, step: Step) {
        self.tally(step).busy += 1;
    }

    /// There was no answer.
    pub(super) fn record_failure(&self, step: Step, error: &ClientError) {
        self.tally(step).failed += 1;
        let mut first = lock(&self.first_failure);
        first.get_or_insert_with(|| format!("{}: {error}", step.name()));
    }

    /// An answer that nobody should get here.
    pub(super) fn record_unexpected(&self, step: Step, status: u16, body: &[u8]) {
        self.tally(step).unexpected += 1;
        let mut surprises = lock(&self.surprises);
        surprises.count += 1;
        surprises.first.get_or_insert_with(|| format!("{}: {status} {}", step.name(), excerpt(body)));
    }

    /// A visitor ended in a way that only a bug of ours explains.
    pub(super) fn record_lost_visit(&self, why: &str) {
        let mut surprises = lock(&self.surprises);
        surprises.count += 1;
        surprises.first.get_or_insert_with(|| format!("a visitor of ours broke down: {why}"));
    }

    /// The frontier as the answer to a question.
    pub(super) fn record_polled_frontier(&self, serving: u64, asked: Moment, answered: Moment) {
        self.serving.fetch_max(serving, Ordering::Relaxed);
        lock(&self.frontier).record_polled(serving, asked, answered);
    }

    /// The frontier as told by a live stream.
    pub(super) fn record_streamed_frontier(&self, serving: u64, heard: Moment) {
        self.serving.fetch_max(serving, Ordering::Relaxed);
        lock(&self.frontier).record_streamed(serving, heard);
    }

    /// A visitor has set out.
    pub(super) fn record_arrival(&self) {
        self.arrived.fetch_add(1, Ordering::Relaxed);
    }

    /// A visitor has a place.
    pub(super) fn record_join(&self, place: PlaceInLine) {
        self.highest_position.fetch_max(place.position, Ordering::Relaxed);
    }

    /// A visit is over.
    pub(super) fn record_end(&self, outcome: &Outcome) {
        match outcome {
            Outcome::Admitted => {
                self.admitted.fetch_add(1, Ordering::Relaxed);
            }
            Outcome::Refused(name) => *lock(&self.refused).entry(name.clone()).or_default() += 1,
            Outcome::Left | Outcome::GaveUp(_) | Outcome::Unfinished => {}
        }
        self.ended.fetch_add(1, Ordering::Relaxed);
    }

    /// Figures for the progress bar and the series.
    pub(super) fn figures(&self) -> Figures {
        let [arrived, admitted, ended, serving, highest_position] =
            [&self.arrived, &self.admitted, &self.ended, &self.serving, &self.highest_position]
                .map(|counter| counter.load(Ordering::Relaxed));
        Figures { arrived, admitted, ended, serving, highest_position }
    }

    /// What happened since this was asked last.
    pub(super) fn take_second(&self) -> Second {
        let mut histogram = lock(&self.second);
        let second = Second {
            answers: histogram.len(),
            p50_microseconds: histogram.value_at_quantile(0.5),
            p99_microseconds: histogram.value_at_quantile(0.99),
            max_microseconds: histogram.max(),
        };
        histogram.reset();
        second
    }

    /// The book closed, for the checks and the report.
    pub(super) fn close(&self) -> ClosedLedger {
        ClosedLedger {
            tallies: Step::ALL.into_iter().map(|step| (step, self.tally(step).clone())).collect(),
            frontier: std::mem::take(&mut *lock(&self.frontier)),
            surprises: lock(&self.surprises).clone(),
            first_failure: lock(&self.first_failure).clone(),
            refused: lock(&self.refused).clone(),
        }
    }
}

/// Figures of the moment.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Figures {
    pub(super) arrived: u64,
    pub(super) admitted: u64,
    pub(super) ended: u64,
    pub(super) serving: u64,
    pub(super) highest_position: u64,
}

/// The book after the run.
#[derive(Debug)]
pub(super) struct ClosedLedger {
    pub(super) tallies: Vec<(Step, Tally)>,
    pub(super) frontier: Frontier,
    pub(super) surprises: UnexpectedAnswers,
    pub(super) first_failure: Option<String>,
    pub(super) refused: BTreeMap<String, u64>,
}

/// A visitor's panic must not take the book away from the others.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The beginning of an answer as text, for a report.
fn excerpt(body: &[u8]) -> String {
    let beginning = body.get(..ANSWER_EXCERPT_BYTES).unwrap_or(body);
    String::from_utf8_lossy(beginning).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_counted_by_step_and_by_second() {
        let ledger = Ledger::new();
        for milliseconds in 1..=100 {
            ledger.record_answer(Step::ServingNum, milliseconds * 1000);
        }
        ledger.record_busy(Step::ServingNum);
        ledger.record_unexpected(Step::QueueNum, 500, b"oops");
        ledger.record_unexpected(Step::QueueNum, 404, b"");
        let second = ledger.take_second();
        assert_eq!(second.answers, 100);
        assert!((49_000..52_000).contains(&second.p50_microseconds), "{second:?}");
        assert_eq!(ledger.take_second().answers, 0);
        let closed = ledger.close();
        let (_, tally) = closed.tallies.iter().find(|(step, _)| *step == Step::ServingNum).unwrap();
        assert_eq!((tally.latencies.len(), tally.busy, tally.failed), (100, 1, 0));
        assert_eq!(closed.surprises.count, 2);
        assert_eq!(closed.surprises.first.as_deref(), Some("queue_num: 500 oops"));
    }

    #[test]
    fn a_latency_beyond_the_scale_counts_as_the_longest() {
        let ledger = Ledger::new();
        ledger.record_answer(Step::Join, u64::MAX);
        let closed = ledger.close();
        let (_, tally) = closed.tallies.iter().find(|(step, _)| *step == Step::Join).unwrap();
        assert!(tally.latencies.max() >= LATENCY_MAX_MICROSECONDS);
    }
}
