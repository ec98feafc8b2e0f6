//! Plots of a sale over time, as SVG written by hand: two panels above one axis of minutes, readable on light and dark pages.

use std::fmt::Write as _;

const WIDTH: u64 = 900;
const LEFT: u64 = 64;
const RIGHT: u64 = 24;
const PANEL_HEIGHT: u64 = 170;
const FIRST_PANEL: u64 = 64;
const SECOND_PANEL: u64 = FIRST_PANEL + PANEL_HEIGHT + 40;
const HEIGHT: u64 = SECOND_PANEL + PANEL_HEIGHT + 48;

/// Colours are classes, so that dark pages can have others.
const STYLE: &str = "
  svg { font: 13px system-ui, sans-serif; }
  .paper { fill: #ffffff; } text { fill: #24292f; } .title { font-size: 16px; font-weight: 600; }
  .grid { stroke: #d8dee4; stroke-width: 1; } .frame { stroke: #6e7781; stroke-width: 1; fill: none; }
  .mark { stroke: #6e7781; stroke-width: 1; stroke-dasharray: 2 3; }
  polyline { fill: none; stroke-width: 2; stroke-linejoin: round; }
  .capacity { stroke: #0969da; } .inside { stroke: #bc4c00; } .latency { stroke: #8250df; } .errors { stroke: #cf222e; }
  .goal { stroke: #1a7f37; stroke-width: 1.5; stroke-dasharray: 7 4; }
  text.capacity { fill: #0969da; } text.inside { fill: #bc4c00; } text.latency { fill: #8250df; }
  text.errors { fill: #cf222e; } text.goal { fill: #1a7f37; }
  text.capacity, text.inside, text.latency, text.errors, text.goal { stroke: none; }
  @media (prefers-color-scheme: dark) {
    .paper { fill: #0d1117; } text { fill: #e6edf3; } .grid { stroke: #30363d; } .frame, .mark { stroke: #8b949e; }
    .capacity { stroke: #58a6ff; } .inside { stroke: #ffa657; } .latency { stroke: #d2a8ff; } .errors { stroke: #ff7b72; }
    .goal { stroke: #56d364; } text.capacity { fill: #58a6ff; } text.inside { fill: #ffa657; }
    text.latency { fill: #d2a8ff; } text.errors { fill: #ff7b72; } text.goal { fill: #56d364; }
  }
";

/// A line of a panel: its class is also its colour.
pub(crate) struct Line {
    pub(crate) class: &'static str,
    pub(crate) name: &'static str,
    /// Minutes in tenths, and the value.
    pub(crate) points: Vec<(u64, u64)>,
}

/// One of the two panels.
pub(crate) struct Panel {
    pub(crate) unit: &'static str,
    pub(crate) most: u64,
    pub(crate) grid_spacing: u64,
    pub(crate) lines: Vec<Line>,
}

/// A plot.
pub(crate) struct Plot {
    pub(crate) title: &'static str,
    pub(crate) minutes: u64,
    /// Something happened: when, and what.
    pub(crate) marks: Vec<(u64, &'static str)>,
    pub(crate) panels: [Panel; 2],
}

impl Plot {
    pub(crate) fn to_svg(&self) -> String {
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{title}\">\n\
             <style>{STYLE}</style>\n\
             <rect class=\"paper\" width=\"{WIDTH}\" height=\"{HEIGHT}\"/>\n\
             <text class=\"title\" x=\"{LEFT}\" y=\"28\">{title}</text>\n",
            title = self.title
        );
        for (panel, top) in self.panels.iter().zip([FIRST_PANEL, SECOND_PANEL]) {
            self.draw_panel(&mut svg, panel, top);
        }
        for (minute, what) in &self.marks {
            let x = self.x(minute * 10);
            for top in [FIRST_PANEL, SECOND_PANEL] {
                let bottom = top + PANEL_HEIGHT;
                writeln!(svg, "<line class=\"mark\" x1=\"{x}\" y1=\"{top}\" x2=\"{x}\" y2=\"{bottom}\"/>")
                    .unwrap();
            }
            let y = FIRST_PANEL + PANEL_HEIGHT + 16;
            writeln!(svg, "<text x=\"{x}\" y=\"{y}\" text-anchor=\"middle\">{what}</text>").unwrap();
        }
        let middle = LEFT + (WIDTH - LEFT - RIGHT) / 2;
        writeln!(
            svg,
            "<text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">minutes</text>\n</svg>",
            HEIGHT - 8
        )
        .unwrap();
        svg
    }

    fn draw_panel(&self, svg: &mut String, panel: &Panel, top: u64) {
        let (bottom, right) = (top + PANEL_HEIGHT, WIDTH - RIGHT);
        let mut value = 0;
        while value <= panel.most {
            let y = y(panel, top, value);
            writeln!(svg, "<line class=\"grid\" x1=\"{LEFT}\" y1=\"{y}\" x2=\"{right}\" y2=\"{y}\"/>")
                .unwrap();
            writeln!(svg, "<text x=\"{}\" y=\"{y}\" dy=\"4\" text-anchor=\"end\">{value}</text>", LEFT - 8)
                .unwrap();
            value += panel.grid_spacing;
        }
        let mut minute = 0;
        while minute <= self.minutes {
            let x = self.x(minute * 10);
            writeln!(svg, "<line class=\"grid\" x1=\"{x}\" y1=\"{top}\" x2=\"{x}\" y2=\"{bottom}\"/>")
                .unwrap();
            if top == SECOND_PANEL {
                writeln!(svg, "<text x=\"{x}\" y=\"{}\" text-anchor=\"middle\">{minute}</text>", bottom + 18)
                    .unwrap();
            }
            minute += 20;
        }
        for line in &panel.lines {
            let points: Vec<String> = line
                .points
                .iter()
                .map(|&(at, value)| format!("{},{}", self.x(at), y(panel, top, value.min(panel.most))))
                .collect();
            writeln!(svg, "<polyline class=\"{}\" points=\"{}\"/>", line.class, points.join(" ")).unwrap();
        }
        let width = right - LEFT;
        writeln!(
            svg,
            "<rect class=\"frame\" x=\"{LEFT}\" y=\"{top}\" width=\"{width}\" height=\"{PANEL_HEIGHT}\"/>"
        )
        .unwrap();
        writeln!(svg, "<text x=\"{LEFT}\" y=\"{}\">{}</text>", top - 8, panel.unit).unwrap();
        // The legend stands above the panel, from the right.
        let mut end = right;
        for line in panel.lines.iter().rev() {
            writeln!(
                svg,
                "<text class=\"{}\" x=\"{end}\" y=\"{}\" text-anchor=\"end\">{}</text>",
                line.class,
                top - 8,
                line.name
            )
            .unwrap();
            end -= line.name.len() as u64 * 7 + 24;
        }
    }

    fn x(&self, minute_tenths: u64) -> String {
        tenths(LEFT * 10 + (WIDTH - LEFT - RIGHT) * minute_tenths / self.minutes)
    }
}

fn y(panel: &Panel, top: u64, value: u64) -> String {
    tenths((top + PANEL_HEIGHT) * 10 - PANEL_HEIGHT * 10 * value / panel.most)
}

fn tenths(number: u64) -> String {
    format!("{}.{}", number / 10, number % 10)
}
