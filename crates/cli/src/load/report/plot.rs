//! Plots as SVG, written by hand: a frame with ticks, and lines, areas or dots in it. Colours come from the page's style by
//! class, so that light and dark are the page's business.

use std::fmt::Write;

/// Width of every plot in its own units; the page scales it.
const WIDTH: f64 = 520.0;
/// Height of a plot that stands alone.
pub(super) const HEIGHT: f64 = 280.0;
/// Heights of two plots that share a frame.
pub(super) const HEIGHT_UPPER: f64 = 230.0;
pub(super) const HEIGHT_LOWER: f64 = 120.0;
const LEFT: f64 = 56.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 30.0;
/// Height of one row in a plot of rows.
const ROW_HEIGHT: f64 = 40.0;
/// About so many ticks on a linear axis.
const TICKS: f64 = 5.0;

/// How values become lengths.
#[derive(Debug, Clone, Copy)]
pub(super) enum Scale {
    /// From zero to this.
    Linear { most: f64 },
    /// Powers of ten between these; what is smaller stands at the edge.
    Logarithmic { least: f64, most: f64 },
}

impl Scale {
    /// From zero to a round number above all values.
    pub(super) fn linear(values: impl Iterator<Item = f64>) -> Self {
        let most = values.fold(0.0, f64::max).max(1.0);
        let step = round_step(most / TICKS);
        Self::Linear { most: (most / step).ceil() * step }
    }

    /// From zero to the largest value, without room above it.
    pub(super) fn linear_to(most: f64) -> Self {
        Self::Linear { most: most.max(1.0) }
    }

    /// Whole powers of ten around all values.
    pub(super) fn logarithmic(values: impl Iterator<Item = f64> + Clone) -> Self {
        let least = values.clone().filter(|value| *value > 0.0).fold(f64::INFINITY, f64::min);
        let most = values.fold(0.0, f64::max);
        if least > most {
            return Self::Logarithmic { least: 1.0, most: 10.0 };
        }
        let least = 10_f64.powf(least.log10().floor());
        Self::Logarithmic { least, most: 10_f64.powf(most.log10().ceil()).max(least * 10.0) }
    }

    /// Where a value stands, from 0 to 1.
    fn place(self, value: f64) -> f64 {
        let place = match self {
            Self::Linear { most } => value / most,
            Self::Logarithmic { least, most } => {
                (value.max(least).log10() - least.log10()) / (most.log10() - least.log10())
            }
        };
        place.clamp(0.0, 1.0)
    }

    fn ticks(self) -> Vec<f64> {
        let mut ticks = Vec::new();
        match self {
            Self::Linear { most } => {
                let step = round_step(most / TICKS);
                let mut tick = 0.0;
                while tick <= most * 1.000_001 {
                    ticks.push(tick);
                    tick += step;
                }
            }
            Self::Logarithmic { least, most } => {
                let mut tick = least;
                while tick <= most * 1.000_001 {
                    ticks.push(tick);
                    tick *= 10.0;
                }
            }
        }
        ticks
    }
}

/// 1, 2 or 5 times a power of ten, at least as large as asked for.
fn round_step(at_least: f64) -> f64 {
    let power = 10_f64.powf(at_least.log10().floor());
    let round = [1.0, 2.0, 5.0, 10.0].into_iter().find(|factor| factor * power >= at_least * 0.999_999);
    round.unwrap_or(10.0) * power
}

/// What is drawn.
pub(super) enum Shape {
    Line,
    Area,
    Dots,
}

/// Points of one kind, drawn in the colour of a class.
pub(super) struct Series {
    pub(super) class: &'static str,
    pub(super) shape: Shape,
    pub(super) points: Vec<(f64, f64)>,
}

/// How a tick's value is written.
pub(super) type Label = fn(f64) -> String;

/// The frame of a plot over time.
pub(super) struct Frame {
    /// What it shows, for those who cannot see it.
    pub(super) told: &'static str,
    pub(super) height: f64,
    pub(super) across: Scale,
    pub(super) up: Scale,
    pub(super) up_label: Label,
}

/// A plot of values over time.
pub(super) fn over_time(frame: &Frame, series: &[Series]) -> String {
    let &Frame { told, height, across, up, up_label } = frame;
    let mut svg = open(told, height);
    let x = |value| LEFT + across.place(value) * (WIDTH - LEFT - RIGHT);
    let y = |value| height - BOTTOM - up.place(value) * (height - TOP - BOTTOM);
    let ticks = up.ticks();
    // In a low frame every second label is enough.
    let every = if height < HEIGHT_UPPER { 2 } else { 1 };
    for tick in ticks.iter().step_by(every) {
        let (level, label) = (y(*tick), up_label(*tick));
        add(&mut svg, &format!(r#"<path class="grid" d="M{LEFT} {level:.1}H{:.1}"/>"#, WIDTH - RIGHT));
        let (left, base) = (LEFT - 6.0, level + 4.0);
        add(&mut svg, &format!(r#"<text x="{left:.1}" y="{base:.1}" text-anchor="end">{label}</text>"#));
    }
    for tick in across.ticks() {
        let (middle, base, label) = (x(tick), height - 10.0, short(tick));
        add(
            &mut svg,
            &format!(r#"<text x="{middle:.1}" y="{base:.1}" text-anchor="middle">{label} s</text>"#),
        );
    }
    for one in series {
        let points: Vec<(f64, f64)> = one.points.iter().map(|(across, up)| (x(*across), y(*up))).collect();
        draw(&mut svg, one, &points, y(0.0));
    }
    svg.push_str("</svg>");
    svg
}

fn draw(svg: &mut String, series: &Series, points: &[(f64, f64)], ground: f64) {
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return };
    let mut path = String::new();
    for (index, (x, y)) in points.iter().enumerate() {
        let command = if index == 0 || matches!(series.shape, Shape::Dots) { 'M' } else { 'L' };
        let dot = if matches!(series.shape, Shape::Dots) { "h0" } else { "" };
        add(&mut path, &format!("{command}{x:.1} {y:.1}{dot}"));
    }
    let kind = match series.shape {
        Shape::Line => "line",
        Shape::Dots => "dots",
        Shape::Area => {
            add(&mut path, &format!("L{:.1} {ground:.1}L{:.1} {ground:.1}Z", last.0, first.0));
            "area"
        }
    };
    add(svg, &format!(r#"<path class="{kind} {}" d="{path}"/>"#, series.class));
}

/// One row of a plot of spreads: a name, and marks along a line.
pub(super) struct Row {
    pub(super) name: String,
    /// Values with the class of their mark, rising.
    pub(super) marks: Vec<(f64, &'static str)>,
    /// The largest value.
    pub(super) most: f64,
}

/// Spreads one below the other on one logarithmic axis.
pub(super) fn spreads(told: &str, label: Label, rows: &[Row]) -> String {
    let values = rows.iter().flat_map(|row| row.marks.iter().map(|(value, _)| *value).chain([row.most]));
    let scale = Scale::logarithmic(values);
    #[expect(clippy::cast_precision_loss, reason = "a handful of rows")]
    let height = TOP + ROW_HEIGHT * rows.len() as f64 + BOTTOM;
    let (left, right) = (10.0, WIDTH - 22.0);
    let x = |value| left + scale.place(value) * (right - left);
    let mut svg = open(told, height);
    for (index, tick) in scale.ticks().into_iter().enumerate() {
        let across = x(tick);
        add(&mut svg, &format!(r#"<path class="grid" d="M{across:.1} {TOP}V{:.1}"/>"#, height - BOTTOM));
        let anchor = if index == 0 { "start" } else { "middle" };
        add(
            &mut svg,
            &format!(
                r#"<text x="{across:.1}" y="{:.1}" text-anchor="{anchor}">{}</text>"#,
                height - 10.0,
                label(tick)
            ),
        );
    }
    let mut top = TOP;
    for row in rows {
        let middle = top + 27.0;
        add(&mut svg, &format!(r#"<text class="name" x="{left}" y="{:.1}">{}</text>"#, top + 15.0, row.name));
        if let Some((first, _)) = row.marks.first() {
            let (first, last) = (x(*first), x(row.most));
            add(&mut svg, &format!(r#"<path class="reach" d="M{first:.1} {middle:.1}H{last:.1}"/>"#));
        }
        for (value, class) in row.marks.iter().rev() {
            let across = x(*value);
            add(&mut svg, &format!(r#"<circle class="{class}" cx="{across:.1}" cy="{middle:.1}" r="5"/>"#));
        }
        // An upright stroke on top is seen also where the last percentile stands at the same place.
        let across = x(row.most);
        add(&mut svg, &format!(r#"<path class="max" d="M{across:.1} {:.1}v14"/>"#, middle - 7.0));
        top += ROW_HEIGHT;
    }
    svg.push_str("</svg>");
    svg
}

fn open(told: &str, height: f64) -> String {
    format!(
        r#"<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{told}" xmlns="http://www.w3.org/2000/svg">"#
    )
}

fn add(text: &mut String, more: &str) {
    text.write_str(more).expect("writing into a string does not fail");
}

/// A number in a few characters: 950, 1.5k, 20k, 3M.
pub(super) fn short(value: f64) -> String {
    let (value, unit) = match value {
        value if value >= 1e6 => (value / 1e6, "M"),
        value if value >= 1e3 => (value / 1e3, "k"),
        value => (value, ""),
    };
    let text = format!("{value:.1}");
    format!("{}{unit}", text.strip_suffix(".0").unwrap_or(&text))
}

/// Milliseconds in the unit that reads best.
pub(super) fn duration(milliseconds: f64) -> String {
    let text = match milliseconds {
        value if value >= 1000.0 => format!("{} s", short(value / 1000.0)),
        value if value >= 1.0 => format!("{} ms", short(value)),
        value => format!("{} µs", short(value * 1000.0)),
    };
    if milliseconds == 0.0 { "0".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_cover_the_values() {
        assert_eq!(
            Scale::linear([9_876.0].into_iter()).ticks(),
            [0.0, 2000.0, 4000.0, 6000.0, 8000.0, 10_000.0]
        );
        assert_eq!(Scale::linear([].into_iter()).ticks().len(), 6);
        let Scale::Logarithmic { least, most } = Scale::logarithmic([0.3, 45.0].into_iter()) else {
            panic!()
        };
        assert!((least - 0.1).abs() < 1e-9 && (most - 100.0).abs() < 1e-9, "{least} {most}");
        assert_eq!(Scale::logarithmic([0.0].into_iter()).ticks().len(), 2);
    }

    #[test]
    fn numbers_and_times_are_short() {
        assert_eq!([0.0, 950.0, 1500.0, 20_000.0, 3e6].map(short), ["0", "950", "1.5k", "20k", "3M"]);
        assert_eq!([0.0, 0.25, 1.0, 12.5, 2500.0].map(duration), ["0", "250 µs", "1 ms", "12.5 ms", "2.5 s"]);
    }

    #[test]
    fn every_point_lies_within_the_frame() {
        let points = vec![(0.0, 0.0), (5.0, 50.0), (10.0, 1e12)];
        let series = [Series { class: "arrived", shape: Shape::Area, points }];
        let across = Scale::linear_to(10.0);
        let up = Scale::Linear { most: 100.0 };
        let svg = over_time(&Frame { told: "t", height: HEIGHT, across, up, up_label: short }, &series);
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>") && !svg.contains("NaN"), "{svg}");
        assert!(svg.contains(&format!("L{:.1} {TOP:.1}", WIDTH - RIGHT)), "{svg}");
    }
}
