//! The model's reading of what an origin reports: who said what and when, and every moment at which passes were issued. It
//! computes the free slots from that by the rules of `docs/` and of the design, and asks the room for nothing.

use anteroom_core::{Report, ReportOutcome, Settings, UnixMillis};

/// A report is no older than this when it arrives.
const REPORT_AGE_MILLIS: u64 = 5_000;
/// A reporter that was silent for more rounds than this has no free slots.
const SILENT_ROUNDS: u64 = 3;

#[derive(Debug, Clone)]
struct Heard {
    report: Report,
    at: UnixMillis,
}

/// Passes that count as issued at one moment.
#[derive(Debug, Clone, Copy)]
struct Issued {
    at: UnixMillis,
    passes: u64,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct ReportsModel {
    heard: Vec<Heard>,
    /// Oldest first. Passes issued close together count as issued at the later moment.
    issued: Vec<Issued>,
    entered: u64,
    unused: u64,
}

/// How long after its issue a pass may be used for the first time: until the second that it names is over.
fn enter_by_millis(settings: &Settings) -> u64 {
    (settings.enter_by_seconds.get() + 1) * 1000
}

fn silence_millis(settings: &Settings) -> u64 {
    SILENT_ROUNDS * settings.round_seconds.get() * 1000
}

impl Heard {
    fn is_silent(&self, now: UnixMillis, settings: &Settings) -> bool {
        self.at.0 + silence_millis(settings) < now.0
    }
}

impl ReportsModel {
    fn passes(&self) -> u64 {
        self.issued.iter().map(|issued| issued.passes).sum()
    }

    /// A pass leaves.
    pub(crate) fn issue(&mut self, now: UnixMillis, settings: &Settings) {
        let reach = enter_by_millis(settings) + REPORT_AGE_MILLIS;
        let spacing = (reach / 32).max(250);
        let count = self.issued.len();
        let at = self.issued.last().map_or(now, |last| last.at.max(now));
        if count >= 2 && now.since(self.issued[count - 2].at) < spacing {
            let last = &mut self.issued[count - 1];
            *last = Issued { at, passes: last.passes + 1 };
        } else {
            self.issued.push(Issued { at, passes: 1 });
        }
        // Of what is older than anybody asks for, only the number is known.
        while self.issued.len() > 1 && now.since(self.issued[1].at) >= reach + silence_millis(settings) {
            let oldest = self.issued.remove(0);
            self.issued[0].passes += oldest.passes;
        }
    }

    /// How many passes have surely been issued by a moment.
    fn issued_by(&self, at: UnixMillis) -> u64 {
        self.issued.iter().filter(|issued| issued.at <= at).map(|issued| issued.passes).sum()
    }

    /// Whatever was issued up to this moment has entered by the last report of every reporter, or never will.
    fn horizon(&self, now: UnixMillis, settings: &Settings) -> UnixMillis {
        let live = self.heard.iter().filter(|heard| !heard.is_silent(now, settings));
        let oldest = live.map(|heard| heard.at).min().unwrap_or(now);
        UnixMillis(oldest.0.saturating_sub(enter_by_millis(settings) + REPORT_AGE_MILLIS))
    }

    fn in_flight(&self, now: UnixMillis, settings: &Settings) -> u64 {
        let mut live = self.heard.iter().filter(|heard| !heard.is_silent(now, settings));
        let all_count_entries =
            live.all(|heard| heard.report.free.is_none() || heard.report.entered.is_some());
        if all_count_entries {
            self.passes().saturating_sub(self.entered + self.unused)
        } else {
            self.passes() - self.issued_by(self.horizon(now, settings))
        }
    }

    /// F = the sum of what is free, less the passes in flight; `None` if nobody reports free slots.
    pub(crate) fn free(&self, now: UnixMillis, settings: &Settings) -> Option<u64> {
        if self.heard.iter().all(|heard| heard.report.free.is_none()) {
            return None;
        }
        let live = self.heard.iter().filter(|heard| !heard.is_silent(now, settings));
        let free: u64 = live.filter_map(|heard| heard.report.free).sum();
        Some(free.saturating_sub(self.in_flight(now, settings)))
    }

    pub(crate) fn hear(&mut self, report: &Report, now: UnixMillis, settings: &Settings) -> ReportOutcome {
        let known = self.heard.iter().position(|heard| heard.report.reporter == report.reporter);
        let mut entered = 0;
        if let Some(index) = known {
            let (last, at) = (&self.heard[index].report, self.heard[index].at);
            let is_silent = self.heard[index].is_silent(now, settings);
            let is_lower = match (last.sequence, report.sequence) {
                (Some(last), Some(new)) => new <= last,
                _ => matches!((last.entered, report.entered), (Some(last), Some(new)) if new < last),
            };
            if is_lower && (!is_silent || now.since(at) <= REPORT_AGE_MILLIS) {
                return ReportOutcome::Late;
            }
            if let (Some(last), Some(new), false) = (last.entered, report.entered, is_silent) {
                entered = if new >= last { new - last } else { new };
            }
            self.heard.remove(index);
        }
        self.heard.push(Heard { report: report.clone(), at: now });
        if known.is_some() {
            // No pass enters that was never issued, or that is known to be unused.
            self.entered = (self.entered + entered).min(self.passes().saturating_sub(self.unused));
        }
        let too_old = self.issued_by(self.horizon(now, settings));
        self.unused = self.unused.max(too_old.saturating_sub(self.entered));
        ReportOutcome::Accepted
    }

    pub(crate) fn forget(&mut self, reporter: &str) -> bool {
        let known = self.heard.len();
        self.heard.retain(|heard| heard.report.reporter != reporter);
        self.heard.len() < known
    }

    /// Passes and silences of before keep what they had.
    pub(crate) fn configure(&mut self, now: UnixMillis, before: &Settings, settings: &Settings) {
        let (old, new) = (enter_by_millis(before), enter_by_millis(settings));
        for issued in &mut self.issued {
            issued.at = issued.at.max(issued.at.plus(old.saturating_sub(new)).min(now.plus(old)));
        }
        for heard in self.heard.iter_mut().filter(|heard| heard.is_silent(now, before)) {
            heard.report.free = heard.report.free.and(Some(0));
            heard.report.entered = None;
        }
    }

    /// The clock went back by so much.
    pub(crate) fn shift_back(&mut self, millis: u64) {
        let heard = self.heard.iter_mut().map(|heard| &mut heard.at);
        let issued = self.issued.iter_mut().map(|issued| &mut issued.at);
        heard.chain(issued).for_each(|at| *at = UnixMillis(at.0.saturating_sub(millis)));
    }
}
