//! What the origin reports about itself, and how many free slots that leaves.
//!
//! A report is absolute ("so many are free"), never a change ("one more is free"): changes add up, so one lost message, or one
//! visitor who never uses their pass, would take a slot away for ever. An absolute figure heals with the next report.
//!
//! *The race:* while a report travels, passes are in flight that it does not know of. So what is free is what was reported
//! less every pass that the origin had not seen when it counted. With `entered` (passes first seen so far, counted together
//! with `free`) that number is exact; without it, every pass issued within [`ENTER_BY`](crate::Settings::enter_by_seconds) of
//! the report is taken to be in flight, which is safe and wasteful.
//!
//! *Why it cannot give a slot twice:* a pass is subtracted from its issue until it is known to have entered, or can no longer
//! enter. `unused`, the number of those that never did, is only ever estimated from below.
//!
//! *What is assumed of the origin:* a report is no older than [`REPORT_AGE_MAX_MILLIS`] when it arrives; a first use after
//! `enter_by` is refused (passes issued before anybody ever reported have no such limit); a pass is counted as entered once;
//! nobody is sent to a process that is full while another is not; a process that begins to count anew numbers its reports, or
//! has none in flight; its clock and ours agree; and a reporter is forgotten by an operator only when it has stopped.

use std::collections::VecDeque;

use crate::ids::UnixMillis;
use crate::settings::Settings;

/// How many reporters a room listens to.
pub const REPORTERS_MAX: usize = 64;
/// Longest name of a reporter, in bytes.
pub const REPORTER_NAME_MAX_LENGTH: usize = 64;
/// Rounds after which a silent reporter counts as full.
pub const SILENT_ROUNDS: u64 = 3;
/// How old a report may be when it arrives: time on the network, and in the origin's own queue.
pub const REPORT_AGE_MAX_MILLIS: u64 = 5_000;
/// A pass may be used until the second it names is over.
const WHOLE_SECOND_MILLIS: u64 = 1_000;
/// How many moments of issue are told apart.
pub const ISSUES_MAX: usize = 80;

/// Whether a text can name a reporter.
pub fn is_reporter_name(text: &str) -> bool {
    (1..=REPORTER_NAME_MAX_LENGTH).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// A capacity report.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// Who reports: one process of the origin.
    pub reporter: String,
    /// Rises with each report of this reporter; a lower one is late and ignored.
    pub sequence: Option<u64>,
    /// How many more visitors it can take.
    pub free: Option<u64>,
    /// Passes it has seen for the first time, since it began to count.
    pub entered: Option<u64>,
    /// The 95th percentile of its latency, in milliseconds.
    pub latency_p95_millis: Option<u64>,
    /// Failed requests in a million.
    pub errors_per_million: Option<u32>,
    /// Requests it works on.
    pub in_flight: Option<u64>,
}

/// A reporter and the last it said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reporter {
    /// The last report.
    pub last: Report,
    /// When it arrived.
    pub heard_at: UnixMillis,
}

impl Reporter {
    /// Whether it has been silent for too long to be believed.
    pub const fn is_silent(&self, now: UnixMillis, round_millis: u64) -> bool {
        now.since(self.heard_at) > round_millis.saturating_mul(SILENT_ROUNDS)
    }

    /// Whether an earlier report of it may still arrive.
    const fn may_be_overtaken(&self, now: UnixMillis) -> bool {
        now.since(self.heard_at) <= REPORT_AGE_MAX_MILLIS
    }
}

/// How many passes had been issued by when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Issue {
    /// Not before the last of them.
    pub at: UnixMillis,
    /// Passes issued up to then.
    pub issued: u64,
}

/// All that is known from reports.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reports {
    /// By name, each once.
    pub reporters: Vec<Reporter>,
    /// Passes ever issued, in all lines of the room.
    pub issued: u64,
    /// The recent ones, oldest first.
    pub recent: VecDeque<Issue>,
    /// Passes known to have entered.
    pub entered: u64,
    /// Passes known never to have entered.
    pub unused: u64,
}

/// What became of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportOutcome {
    /// It counts.
    Accepted,
    /// A later one of the same reporter had arrived before.
    Late,
    /// There are [`REPORTERS_MAX`] others.
    TooMany,
}

impl Reports {
    pub(crate) fn record_pass(&mut self, now: UnixMillis, settings: &Settings) {
        self.issued += 1;
        let horizon = enter_by_millis(settings) + REPORT_AGE_MAX_MILLIS;
        let spacing = (horizon / 32).max(250);
        let before_last = self.recent.len().checked_sub(2).map(|index| self.recent[index].at);
        // In order, even where earlier ones were moved to a later moment.
        let at = self.recent.back().map_or(now, |last| last.at.max(now));
        let issue = Issue { at, issued: self.issued };
        match self.recent.back_mut() {
            // Moved to the later moment: a pass never looks older than it is.
            Some(last) if before_last.is_some_and(|before| now.since(before) < spacing) => *last = issue,
            _ => self.recent.push_back(issue),
        }
        self.forget_old_issues(now, horizon + settings.round_millis() * SILENT_ROUNDS);
    }

    /// Forgets the moments that nobody can ask for any more: those before the last one that is older than `reach`. If there are
    /// still too many, the one whose neighbours lie closest together goes, so that the rest still reach back.
    fn forget_old_issues(&mut self, now: UnixMillis, reach: u64) {
        while self.recent.get(1).is_some_and(|second| now.since(second.at) >= reach) {
            self.recent.pop_front();
        }
        if self.recent.len() > ISSUES_MAX {
            let gap = |index: usize| self.recent[index + 1].at.since(self.recent[index - 1].at);
            if let Some(index) = (1..self.recent.len() - 1).min_by_key(|&index| gap(index)) {
                self.recent.remove(index);
            }
        }
    }

    /// Passes issued up to a moment, or fewer.
    fn issued_by(&self, at: UnixMillis) -> u64 {
        let known = self.recent.iter().rev().find(|issue| issue.at <= at);
        match (known, self.recent.front()) {
            (Some(issue), _) => issue.issued,
            (None, Some(_)) => 0,
            (None, None) => self.issued,
        }
    }

    pub(crate) fn take(&mut self, now: UnixMillis, settings: &Settings, report: &Report) -> ReportOutcome {
        let round = settings.round_millis();
        let known = self.reporters.iter().position(|known| known.last.reporter == report.reporter);
        let Some(index) = known else {
            if self.reporters.len() >= REPORTERS_MAX {
                // One that has gone silent for ever makes room; its slots count for nothing anyway.
                let silent = self
                    .reporters
                    .iter()
                    .position(|reporter| reporter.is_silent(now, round) && !reporter.may_be_overtaken(now));
                let Some(silent) = silent else { return ReportOutcome::TooMany };
                self.reporters.remove(silent);
            }
            // What it saw enter before its first report is not counted: those passes run out instead.
            self.reporters.push(Reporter { last: report.clone(), heard_at: now });
            self.reporters.sort_by(|one, other| one.last.reporter.cmp(&other.last.reporter));
            self.count_unused(settings, now);
            return ReportOutcome::Accepted;
        };
        let reporter = &mut self.reporters[index];
        let (last, silent) = (&reporter.last, reporter.is_silent(now, round));
        let is_lower = match (report.sequence, last.sequence) {
            (Some(new), Some(old)) => new <= old,
            // Without numbers, a count that went down tells a report that was overtaken.
            _ => report.entered.zip(last.entered).is_some_and(|(new, old)| new < old),
        };
        // After a silence a reporter may have restarted its numbering; a report that can still be an overtaken one is late.
        if is_lower && (!silent || reporter.may_be_overtaken(now)) {
            return ReportOutcome::Late;
        }
        let entered = match (report.entered, last.entered) {
            // Lower than before: it began to count anew.
            (Some(new), Some(old)) if !silent => new.checked_sub(old).unwrap_or(new),
            // After a silence, or before the first count, those passes may have been given up already.
            _ => 0,
        };
        *reporter = Reporter { last: report.clone(), heard_at: now };
        self.entered = (self.entered + entered).min(self.issued - self.unused.min(self.issued));
        self.count_unused(settings, now);
        ReportOutcome::Accepted
    }

    /// Passes that can no longer enter and did not.
    fn count_unused(&mut self, settings: &Settings, now: UnixMillis) {
        let past = self.issued_by(self.issue_horizon(settings, now));
        self.unused = self.unused.max(past.saturating_sub(self.entered));
    }

    /// A pass issued by then has entered, and is counted as such, or never will.
    fn issue_horizon(&self, settings: &Settings, now: UnixMillis) -> UnixMillis {
        let round = settings.round_millis();
        let live = self.reporters.iter().filter(|reporter| !reporter.is_silent(now, round));
        let oldest = live.map(|reporter| reporter.heard_at).min().unwrap_or(now);
        UnixMillis(oldest.0.saturating_sub(enter_by_millis(settings) + REPORT_AGE_MAX_MILLIS))
    }

    /// Passes in flight: issued, and possibly not seen by the origin yet.
    pub fn passes_in_flight(&self, settings: &Settings, now: UnixMillis) -> u64 {
        let round = settings.round_millis();
        let counting = self.reporters.iter().filter(|reporter| !reporter.is_silent(now, round));
        let all_count = counting.filter(|one| one.last.free.is_some()).all(|one| one.last.entered.is_some());
        if all_count {
            self.issued.saturating_sub(self.entered + self.unused)
        } else {
            self.issued - self.issued_by(self.issue_horizon(settings, now))
        }
    }

    /// Free slots as reported, less the passes in flight; `None` if nobody has ever reported any.
    pub fn free(&self, settings: &Settings, now: UnixMillis) -> Option<u64> {
        let reporters = || self.reporters.iter().filter(|reporter| reporter.last.free.is_some());
        reporters().next()?;
        let round = settings.round_millis();
        let live = reporters().filter(|reporter| !reporter.is_silent(now, round));
        let free = live.filter_map(|reporter| reporter.last.free).fold(0, u64::saturating_add);
        Some(free.saturating_sub(self.passes_in_flight(settings, now)))
    }

    /// Whether any reporter reports free slots now.
    pub fn has_live_reporter(&self, settings: &Settings, now: UnixMillis) -> bool {
        let round = settings.round_millis();
        self.reporters.iter().any(|one| one.last.free.is_some() && !one.is_silent(now, round))
    }

    pub(crate) fn forget(&mut self, name: &str) -> bool {
        let before = self.reporters.len();
        self.reporters.retain(|reporter| reporter.last.reporter != name);
        self.reporters.len() < before
    }

    /// After a change of settings: what the old ones allowed or denied stays so for whatever happened under them.
    pub(crate) fn on_reconfigure(&mut self, now: UnixMillis, before: &Settings, settings: &Settings) {
        // A pass with a longer time may still enter: it counts as one that was issued so much later.
        let shortened = enter_by_millis(before).saturating_sub(enter_by_millis(settings));
        let latest = now.plus(enter_by_millis(before));
        for issue in &mut self.recent {
            // Never to an earlier moment: a change before this one may have moved it.
            issue.at = issue.at.plus(shortened).min(latest).max(issue.at);
        }
        // A silent reporter has no slots until its next report, however long a round is now: what it had seen may have been given
        // up.
        let round = before.round_millis();
        for reporter in self.reporters.iter_mut().filter(|reporter| reporter.is_silent(now, round)) {
            reporter.last.free = reporter.last.free.map(|_| 0);
            reporter.last.entered = None;
        }
    }

    /// After a reset that took the clock back by so much: everything is as long ago as it was.
    pub(crate) fn shift_back(&mut self, millis: u64) {
        let heard = self.reporters.iter_mut().map(|reporter| &mut reporter.heard_at);
        let issued = self.recent.iter_mut().map(|issue| &mut issue.at);
        for moment in heard.chain(issued) {
            *moment = UnixMillis(moment.0.saturating_sub(millis));
        }
    }

    /// When the next reporter falls silent.
    pub(crate) fn next_silence(&self, settings: &Settings, now: UnixMillis) -> Option<UnixMillis> {
        let round = settings.round_millis();
        let live = self.reporters.iter().filter(|reporter| !reporter.is_silent(now, round));
        live.map(|reporter| reporter.heard_at.plus(round * SILENT_ROUNDS + 1)).min()
    }
}

/// Time within which a pass must be used for the first time. Passes name a whole second, and a verifier that compares whole
/// seconds accepts them until that second is over.
const fn enter_by_millis(settings: &Settings) -> u64 {
    settings.enter_by_seconds.get() * 1000 + WHOLE_SECOND_MILLIS
}
