//! Links as QR codes, for the way to another device.

use qrcode::render::svg;
use qrcode::{EcLevel, QrCode};

/// A link as a QR code: an SVG picture, black on white in light and dark, which scales. Empty if the link is too long for one.
pub fn qr_svg(link: &str) -> String {
    let Ok(code) = QrCode::with_error_correction_level(link, EcLevel::L) else {
        return String::new();
    };
    let picture = code
        .render::<svg::Color<'_>>()
        .module_dimensions(1, 1)
        .quiet_zone(true)
        .dark_color(svg::Color("#000"))
        .light_color(svg::Color("#fff"))
        .build();
    // Within HTML the prolog would be an error.
    let start = picture.find("<svg").unwrap_or(0);
    picture[start..].replacen("<svg", "<svg class=\"qr\" aria-hidden=\"true\" focusable=\"false\"", 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_becomes_a_picture_that_stands_in_html() {
        let picture = qr_svg("https://shop.example/.anteroom/line/take?room=Hall&code=abc");
        assert!(picture.starts_with("<svg class=\"qr\""), "{picture}");
        assert!(picture.contains("viewBox="), "{picture}");
        assert!(picture.contains("#fff") && picture.contains("#000"), "{picture}");
        assert!(!picture.contains("<?xml") && !picture.contains("style="), "{picture}");
    }

    #[test]
    fn a_link_that_is_too_long_has_no_picture() {
        assert_eq!(qr_svg(&"x".repeat(5_000)), "");
    }
}
