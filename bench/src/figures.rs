//! Medians, ratios, and how they are printed.

use std::fmt;

/// Rates of two servers, round by round.
#[derive(Default)]
pub(crate) struct Comparison {
    ours: Vec<f64>,
    theirs: Vec<f64>,
}

impl Comparison {
    /// Adds a round of each, in requests a second.
    pub(crate) fn add(&mut self, ours: f64, theirs: f64) {
        self.ours.push(ours);
        self.theirs.push(theirs);
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (ours, theirs) = (median(&self.ours), median(&self.theirs));
        write!(formatter, "{ours:.0} | {theirs:.0} | **{:.2}**", ours / theirs)
    }
}

/// The middle one.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}
