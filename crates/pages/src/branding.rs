//! The colours of a page: the operator's, made legible on the card by WCAG's contrast, in light and in dark.

use std::fmt::Write;

use anteroom_core::Settings;
use anteroom_core::settings::Colour;

/// Contrast that text needs against what is behind it (WCAG 2.2, 1.4.3).
const TEXT_CONTRAST: f64 = 4.5;
/// Contrast that a shape needs to be seen (WCAG 2.2, 1.4.11).
const SHAPE_CONTRAST: f64 = 3.0;
/// Steps in which a colour is mixed towards black or white until it is legible.
const STEPS: u8 = 25;

const BLACK: Colour = Colour([0, 0, 0]);
const WHITE: Colour = Colour([255, 255, 255]);
/// The accent where the operator names none.
const ACCENT: Colour = Colour([0x2f, 0x5b, 0xd7]);
/// The card in light mode; the style has the same.
const LIGHT_CARD: Colour = WHITE;
/// The card in dark mode; the style has the same.
const DARK_CARD: Colour = Colour([0x17, 0x1c, 0x27]);
/// The track that the bar grows on, in light and in dark; the style has the same.
#[cfg(test)]
const TRACKS: [Colour; 2] = [Colour([0xdd, 0xe2, 0xea]), Colour([0x2d, 0x35, 0x45])];
/// Behind the card in dark mode; the style has the same.
const DARK_GROUND: Colour = Colour([0x0e, 0x11, 0x18]);

/// Custom properties for the style, as text.
pub(crate) fn properties(settings: Option<&Settings>) -> String {
    let accent = choose_colour(settings);
    let background = settings.and_then(|settings| settings.page_background);
    let mut style = String::from(":root{");
    accents(&mut style, Accents::on(accent, LIGHT_CARD));
    if let Some(ground) = background {
        property(&mut style, "ground", ground);
        property(&mut style, "ground-ink", readable_on(ground));
    }
    style.push_str("}@media(prefers-color-scheme:dark){:root{");
    accents(&mut style, Accents::on(accent, DARK_CARD));
    if background.is_some() {
        property(&mut style, "ground", DARK_GROUND);
        property(&mut style, "ground-ink", readable_on(DARK_GROUND));
    }
    style.push_str("}}");
    if background.is_some() {
        // What is written on the operator's own ground is legible on just that.
        style.push_str("body{background:none}");
    }
    style
}

/// The accent in hexadecimal digits.
pub(crate) fn accent(settings: Option<&Settings>) -> String {
    let Colour([red, green, blue]) = choose_colour(settings);
    format!("{red:02x}{green:02x}{blue:02x}")
}

fn choose_colour(settings: Option<&Settings>) -> Colour {
    settings.and_then(|settings| settings.page_color).unwrap_or(ACCENT)
}

/// What the accent becomes on one card.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Accents {
    /// Behind the button's words.
    pub(crate) fill: Colour,
    /// The button's words.
    pub(crate) on_fill: Colour,
    /// Around the button: another colour than `fill` only where that would not be seen.
    pub(crate) edge: Colour,
    /// Links, the bar, the focus: legible as text.
    pub(crate) ink: Colour,
}

impl Accents {
    pub(crate) fn on(accent: Colour, card: Colour) -> Self {
        let is_dark = luminance(card) < 0.2;
        // A dark button on a dark card is a hole; a light one on a light card is the operator's wish, and gets an edge.
        let fill = if is_dark { legible(accent, card, SHAPE_CONTRAST) } else { accent };
        let ink = legible(accent, card, TEXT_CONTRAST);
        let edge = if contrast(fill, card) < SHAPE_CONTRAST { ink } else { fill };
        Self { fill, on_fill: readable_on(fill), edge, ink }
    }
}

fn accents(style: &mut String, accents: Accents) {
    property(style, "accent", accents.fill);
    property(style, "on-accent", accents.on_fill);
    property(style, "accent-edge", accents.edge);
    property(style, "accent-ink", accents.ink);
}

fn property(style: &mut String, name: &str, Colour([red, green, blue]): Colour) {
    write!(style, "--{name}:#{red:02x}{green:02x}{blue:02x};").expect("a String takes everything");
}

/// Black or white, whichever stands out more; one of them always has the contrast that text needs.
fn readable_on(ground: Colour) -> Colour {
    if contrast(ground, BLACK) >= contrast(ground, WHITE) { BLACK } else { WHITE }
}

/// The colour, or the nearest mix of it with black or white that has that contrast.
fn legible(colour: Colour, ground: Colour, wanted: f64) -> Colour {
    let towards = readable_on(ground);
    (0..=STEPS)
        .map(|step| mix(colour, towards, step * (100 / STEPS)))
        .find(|mixed| contrast(*mixed, ground) >= wanted)
        .unwrap_or(towards)
}

/// So many percent of `towards` in `colour`.
fn mix(colour: Colour, towards: Colour, percent: u8) -> Colour {
    let mut mixed = [0; 3];
    for ((mixed, &from), &to) in mixed.iter_mut().zip(&colour.0).zip(&towards.0) {
        let sum = u16::from(from) * u16::from(100 - percent) + u16::from(to) * u16::from(percent);
        *mixed = u8::try_from(sum / 100).unwrap_or(u8::MAX);
    }
    Colour(mixed)
}

/// WCAG's contrast ratio, 1 to 21.
pub(crate) fn contrast(one: Colour, other: Colour) -> f64 {
    let (one, other) = (luminance(one), luminance(other));
    (one.max(other) + 0.05) / (one.min(other) + 0.05)
}

/// WCAG's relative luminance.
fn luminance(Colour([red, green, blue]): Colour) -> f64 {
    let linear = |channel: u8| {
        let value = f64::from(channel) / 255.0;
        if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
    };
    0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contrast_is_wcags() {
        assert!((contrast(BLACK, WHITE) - 21.0).abs() < 1e-9);
        assert!((contrast(Colour([0x77, 0x77, 0x77]), WHITE) - 4.478).abs() < 0.001);
    }

    /// Every 17th shade of each channel: 4,096 colours.
    #[test]
    fn whatever_the_colour_words_and_shapes_can_be_seen() {
        let shades = || (0..=255).step_by(17);
        for (red, green, blue) in shades()
            .flat_map(|red| shades().flat_map(move |green| shades().map(move |blue| (red, green, blue))))
        {
            let colour = Colour([red, green, blue]);
            for (card, track) in [LIGHT_CARD, DARK_CARD].into_iter().zip(TRACKS) {
                let accents = Accents::on(colour, card);
                assert!(
                    contrast(accents.fill, accents.on_fill) >= TEXT_CONTRAST,
                    "{colour:?} on {card:?}: {accents:?}"
                );
                assert!(contrast(accents.ink, card) >= TEXT_CONTRAST, "{colour:?} on {card:?}: {accents:?}");
                assert!(
                    contrast(accents.ink, track) >= SHAPE_CONTRAST,
                    "{colour:?} on {track:?}: {accents:?}"
                );
                assert!(
                    contrast(accents.edge, card) >= SHAPE_CONTRAST,
                    "{colour:?} on {card:?}: {accents:?}"
                );
            }
            assert!(contrast(readable_on(colour), colour) >= TEXT_CONTRAST, "{colour:?}");
        }
    }

    #[test]
    fn a_pale_button_gets_an_edge_and_a_dark_one_is_lightened_in_the_dark() {
        let yellow = Colour([0xff, 0xe6, 0x00]);
        let accents = Accents::on(yellow, LIGHT_CARD);
        assert_eq!((accents.fill, accents.on_fill), (yellow, BLACK));
        assert_ne!(accents.edge, yellow);
        let navy = Colour([0, 0, 0x40]);
        assert_eq!(Accents::on(navy, LIGHT_CARD).edge, navy);
        assert_ne!(Accents::on(navy, DARK_CARD).fill, navy);
    }
}
