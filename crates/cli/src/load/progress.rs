//! How it goes, on standard error: a bar on a terminal, else a line now and then.

use std::io::IsTerminal;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::output::talk;

use super::arguments::Plan;
use super::drive::Sample;

/// Without a terminal, one line in so many samples (seconds).
const LINE_EVERY_SAMPLES: u64 = 5;
/// How often the bar is drawn by itself, so that its clock runs.
const DRAW_INTERVAL: Duration = Duration::from_millis(250);

/// Shows the progress of a run.
pub(super) enum Progress {
    /// Not at all.
    Quiet,
    /// A bar.
    Bar(ProgressBar),
    /// A line now and then.
    Lines {
        /// How many visitors there will be.
        clients: u64,
        /// How many samples have been shown or passed over.
        samples: AtomicU64,
    },
}

impl Progress {
    /// What suits where standard error goes.
    pub(super) fn new(plan: &Plan, quiet: bool) -> Self {
        if quiet {
            return Self::Quiet;
        }
        if !std::io::stderr().is_terminal() {
            return Self::Lines { clients: plan.clients, samples: AtomicU64::new(0) };
        }
        let bar = ProgressBar::with_draw_target(Some(plan.clients), ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template("{elapsed:>4} [{bar:30}] {pos}/{len} done  {msg}")
            .expect("the template is a constant that is right");
        bar.set_style(style.progress_chars("=> "));
        bar.enable_steady_tick(DRAW_INTERVAL);
        Self::Bar(bar)
    }

    /// One more second has passed.
    pub(super) fn show(&self, sample: &Sample) {
        match self {
            Self::Quiet => {}
            Self::Bar(bar) => {
                bar.set_position(sample.figures.ended);
                bar.set_message(progress_line(sample));
            }
            Self::Lines { clients, samples } => {
                if samples.fetch_add(1, Ordering::Relaxed) % LINE_EVERY_SAMPLES == 0 {
                    let done = sample.figures.ended;
                    talk(&format!(
                        "{:>4.0} s  {done}/{clients} done  {}",
                        sample.at.seconds(),
                        progress_line(sample)
                    ));
                }
            }
        }
    }

    /// The run is over: the bar makes place for the report.
    pub(super) fn finish(&self) {
        if let Self::Bar(bar) = self {
            bar.finish_and_clear();
        }
    }
}

fn progress_line(sample: &Sample) -> String {
    let figures = &sample.figures;
    let milliseconds = Duration::from_micros(sample.second.p99_microseconds).as_secs_f64() * 1000.0;
    format!(
        "arrived {}  in line {}  serving {}  {} answers/s  p99 {milliseconds:.1} ms",
        figures.arrived,
        figures.arrived.saturating_sub(figures.ended),
        figures.serving,
        sample.second.answers,
    )
}
