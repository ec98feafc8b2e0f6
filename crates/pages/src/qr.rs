//! Links as QR codes, for the way to another device.

use std::fmt::Write;

use qrcode::{Color, EcLevel, QrCode};

/// White modules around a code, which readers need.
const QUIET_ZONE: usize = 4;

/// A link as a QR code: an SVG picture, black on white in light and dark, which scales. Empty if the link is too long for one.
pub fn qr_svg(link: &str) -> String {
    let Ok(code) = QrCode::with_error_correction_level(link, EcLevel::L) else {
        return String::new();
    };
    let width = code.width();
    let size = width + 2 * QUIET_ZONE;
    // Rows of strokes, each from where the last one ended: a third of the bytes of rectangles.
    let mut strokes = String::new();
    for (row, modules) in code.to_colors().chunks(width).enumerate() {
        let mut end = None;
        for run in runs(modules) {
            let _ = match end {
                None => write!(strokes, "M{} {}.5", QUIET_ZONE + run.start, QUIET_ZONE + row),
                Some(end) => write!(strokes, "m{} 0", run.start - end),
            };
            let _ = write!(strokes, "h{}", run.len());
            end = Some(run.end);
        }
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"qr\" aria-hidden=\"true\" viewBox=\"0 0 {size} {size}\" \
         shape-rendering=\"crispEdges\"><path fill=\"#fff\" d=\"M0 0h{size}v{size}H0z\"/><path stroke=\"#000\" d=\"{strokes}\"/></svg>"
    )
}

/// Where a row is dark.
fn runs(modules: &[Color]) -> Vec<std::ops::Range<usize>> {
    let mut runs: Vec<std::ops::Range<usize>> = vec![];
    for (column, _) in modules.iter().enumerate().filter(|(_, module)| **module == Color::Dark) {
        match runs.last_mut() {
            Some(run) if run.end == column => run.end += 1,
            _ => runs.push(column..column + 1),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_becomes_a_picture_that_stands_in_html() {
        let picture = qr_svg("https://shop.example/.anteroom/line/take?room=Hall&code=abc");
        assert!(picture.starts_with("<svg xmlns="), "{picture}");
        assert!(picture.contains("viewBox="), "{picture}");
        assert!(picture.contains("#fff") && picture.contains("#000"), "{picture}");
        assert!(!picture.contains("<?xml") && !picture.contains("style="), "{picture}");
    }

    /// The strokes of the picture, followed one by one, give the code again.
    #[test]
    fn the_picture_is_the_code() {
        let link = "https://shop.example/take";
        let picture = qr_svg(link);
        let code = QrCode::with_error_correction_level(link, EcLevel::L).unwrap();
        let strokes = picture.split("stroke=\"#000\" d=\"M").nth(1).unwrap().split('"').next().unwrap();
        let mut dark = std::collections::BTreeSet::new();
        for row in strokes.split('M') {
            let (start, rest) = row.split_once(".5").unwrap();
            let (column, height) = start.split_once(' ').unwrap();
            let mut column: usize = column.parse().unwrap();
            for part in rest.split('h').skip(1) {
                let (length, gap) = part.split_once('m').unwrap_or((part, "0 0"));
                let length: usize = length.parse().unwrap();
                dark.extend(
                    (column..column + length).map(|column| (column, height.parse::<usize>().unwrap())),
                );
                column += length + gap.trim_end_matches(" 0").parse::<usize>().unwrap();
            }
        }
        for x in 0..code.width() {
            for y in 0..code.width() {
                let is_dark = code[(x, y)] == Color::Dark;
                assert_eq!(dark.contains(&(x + QUIET_ZONE, y + QUIET_ZONE)), is_dark, "{x} {y}");
            }
        }
    }

    #[test]
    fn a_link_that_is_too_long_has_no_picture() {
        assert_eq!(qr_svg(&"x".repeat(5_000)), "");
    }
}
