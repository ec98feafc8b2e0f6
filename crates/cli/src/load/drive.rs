//! The run itself: visitors set out by the clock, whatever the answers; every second is written down; it ends when everybody
//! has, or at the deadline.

use std::sync::Arc;
use std::time::Duration;

use anteroom_server::shutdown::{self, Signals};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::arguments::{Plan, Scenario};
use super::ledger::{Figures, Ledger, Second};
use super::moment::{Moment, RunClock};
use super::operator::{FrontierSteps, Operator};
use super::progress::Progress;
use super::record::Record;
use super::rounds::Auction;
use super::visitor::{self, Shared};
use super::wire::Wire;

/// How long what is still under way may take after the run was stopped.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// A second of the run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sample {
    pub(super) at: Moment,
    pub(super) figures: Figures,
    pub(super) second: Second,
}

/// Why the run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// Everybody has finished.
    Finished,
    /// Time was up.
    Deadline,
    /// Ctrl-C, or another signal.
    Interrupted,
}

impl End {
    /// In words that follow "ended by".
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Finished => "everybody finished",
            Self::Deadline => "the deadline",
            Self::Interrupted => "an interruption",
        }
    }
}

/// All that a run leaves behind.
pub(super) struct RunResult {
    pub(super) records: Vec<Record>,
    pub(super) samples: Vec<Sample>,
    pub(super) let_out: Option<FrontierSteps>,
    /// What is known of the auction, in a run that is about one.
    pub(super) auction: Option<Auction>,
    pub(super) end: End,
    pub(super) duration: Moment,
}

/// Runs the plan.
pub(super) async fn drive(
    plan: &Plan,
    operator: Operator,
    ledger: &Arc<Ledger>,
    progress: &Progress,
) -> anyhow::Result<RunResult> {
    let clock = RunClock::start();
    let (stopper, stop) = watch::channel(false);
    let wire = Wire::new(operator.public.clone(), plan.connections, clock, Arc::clone(ledger));
    let shared =
        Arc::new(Shared { plan: plan.clone(), clock, ledger: Arc::clone(ledger), wire, stop: stop.clone() });
    let is_auction = plan.scenario == Scenario::Auction;
    let is_known = is_auction && operator.has_key && plan.same_clock;
    let auction = if is_known { Some(operator.auction(clock).await?) } else { None };
    let mut letting_out = JoinSet::new();
    if let Some(rate) = plan.let_out {
        let ledger = Arc::clone(ledger);
        letting_out.spawn(async move {
            if is_auction {
                operator.end_visits(rate, clock, ledger, stop).await.map(OperatorWork::Ended)
            } else {
                operator.let_out(rate, clock, ledger, stop).await.map(OperatorWork::Steps)
            }
        });
    }
    let mut crowd = Crowd { shared, visitors: JoinSet::new(), records: Vec::new(), samples: Vec::new() };
    let end = tokio::select! {
        end = crowd.run_until_end(progress, shutdown::signals()?) => end,
        Some(failed) = letting_out.join_next() => {
            // It ends by itself only when it cannot go on.
            failed??;
            End::Finished
        }
    };
    let duration = clock.now();
    // All receivers are told; there may be none left.
    stopper.send_replace(true);
    crowd.collect_records().await;
    let work = match tokio::time::timeout(STOP_TIMEOUT, letting_out.join_next()).await {
        Ok(Some(done)) => Some(done??),
        Ok(None) | Err(_) => None,
    };
    let Crowd { mut records, samples, .. } = crowd;
    let let_out = match work {
        Some(OperatorWork::Steps(done)) => Some(done),
        Some(OperatorWork::Ended(visits)) => {
            note_ends(&mut records, visits);
            None
        }
        None => None,
    };
    Ok(RunResult { records, samples, let_out, auction, end, duration })
}

/// What the operator did.
enum OperatorWork {
    /// Moved the line.
    Steps(FrontierSteps),
    /// Ended visits: whose, and when.
    Ended(Vec<(u64, Moment)>),
}

/// A visit that was ended lasted until then at most.
fn note_ends(records: &mut [Record], visits: Vec<(u64, Moment)>) {
    let ended: std::collections::HashMap<u64, Moment> = visits.into_iter().collect();
    for record in records {
        if let (Some(until), Some(ended)) = (&mut record.inside_until, ended.get(&record.index)) {
            *until = (*until).min(*ended);
        }
    }
}

/// The visitors who are under way, and the records of those who have finished.
struct Crowd {
    shared: Arc<Shared>,
    visitors: JoinSet<Record>,
    records: Vec<Record>,
    samples: Vec<Sample>,
}

impl Crowd {
    /// Sends everybody out when due, and watches until all have ended or time is up.
    async fn run_until_end(&mut self, progress: &Progress, mut signals: Signals) -> End {
        let clock = self.shared.clock;
        let deadline = Moment::default().after(self.shared.plan.deadline);
        let mut sent_out = 0;
        let mut next_second = Moment::from_seconds(1.0);
        loop {
            sent_out = self.send_out_who_is_due(sent_out);
            let all_out = sent_out == self.shared.plan.clients;
            if all_out && self.visitors.is_empty() {
                self.sample(progress);
                return End::Finished;
            }
            let next_arrival = if all_out { deadline } else { self.due(sent_out) };
            tokio::select! {
                Some(ended) = self.visitors.join_next() => self.note(ended),
                () = clock.sleep_until(next_arrival.min(next_second).min(deadline)) => {}
                _ = signals.next() => return End::Interrupted,
            }
            if clock.now() >= next_second {
                self.sample(progress);
                next_second = next_second.after(Duration::from_secs(1));
            }
            if clock.now() >= deadline {
                return End::Deadline;
            }
        }
    }

    /// When visitor number `index` is to arrive.
    #[expect(clippy::cast_precision_loss, reason = "a visitor's number is far below 2^52")]
    fn due(&self, index: u64) -> Moment {
        Moment::from_seconds(index as f64 / self.shared.plan.arrivals.per_second())
    }

    /// Starts every visitor whose time has come, and returns how many have been started in all.
    fn send_out_who_is_due(&mut self, mut sent_out: u64) -> u64 {
        let now = self.shared.clock.now();
        while sent_out < self.shared.plan.clients && self.due(sent_out) <= now {
            self.visitors.spawn(visitor::visit(Arc::clone(&self.shared), sent_out, self.due(sent_out)));
            sent_out += 1;
        }
        sent_out
    }

    fn note(&mut self, ended: Result<Record, tokio::task::JoinError>) {
        match ended {
            Ok(record) => self.records.push(record),
            Err(error) => {
                // A visit that panics is a bug of ours; the others go on, and the run says so.
                self.shared.ledger.record_lost_visit(&error.to_string());
            }
        }
    }

    fn sample(&mut self, progress: &Progress) {
        let ledger = &self.shared.ledger;
        let sample =
            Sample { at: self.shared.clock.now(), figures: ledger.figures(), second: ledger.take_second() };
        self.samples.push(sample);
        progress.show(&sample);
    }

    /// Collects those who were told to stop.
    async fn collect_records(&mut self) {
        let all = async {
            while let Some(ended) = self.visitors.join_next().await {
                self.note(ended);
            }
        };
        // What cannot be stopped in time is aborted when the set is dropped.
        let _in_time = tokio::time::timeout(STOP_TIMEOUT, all).await;
        self.records.sort_unstable_by_key(|record| record.index);
    }
}
