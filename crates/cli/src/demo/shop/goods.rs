//! What the shop has for sale.

use serde::Serialize;

/// Something for sale.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) struct Good {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    pub(super) price_euros: u32,
    /// Where it is in the house: first and last row, first and last column of the plan.
    #[serde(skip)]
    pub(super) seats: [usize; 4],
    pub(super) about: &'static str,
}

const fn good(
    name: &'static str,
    title: &'static str,
    price_euros: u32,
    seats: [usize; 4],
    about: &'static str,
) -> Good {
    Good { name, title, price_euros, seats, about }
}

#[rustfmt::skip]
const GOODS: [Good; 8] = [
    good("stalls",    "Stalls",            49, [1, 2, 3, 5], "Row 12, in the middle. You will see everything."),
    good("front",     "Front row",         89, [0, 0, 0, 8], "So close that you can hear them breathe."),
    good("balcony",   "Balcony",           29, [4, 4, 1, 7], "High above it all, with the best sound of the house."),
    good("box",       "Box for four",     120, [1, 2, 0, 0], "For people who want to whisper."),
    good("standing",  "Standing",          15, [4, 4, 0, 8], "At the back. Bring good shoes."),
    good("aisle",     "Aisle seat",        45, [1, 3, 8, 8], "First at the bar in the interval."),
    good("rehearsal", "Dress rehearsal",   12, [0, 4, 0, 8], "The night before, mistakes included."),
    good("programme", "Printed programme",  6, [5, 5, 0, 0], "Who plays whom, and what it all means."),
];

/// The names of everything, for those who buy without looking.
pub(in super::super) const NAMES: [&str; GOODS.len()] = {
    let mut names = [""; GOODS.len()];
    let mut index = 0;
    while index < GOODS.len() {
        names[index] = GOODS[index].name;
        index += 1;
    }
    names
};

/// One of the names, whatever the number.
pub(in super::super) fn name_of(number: u64) -> &'static str {
    NAMES[usize::try_from(number).unwrap_or(0) % NAMES.len()]
}

/// What has this name.
pub(super) fn find(name: &str) -> Option<&'static Good> {
    GOODS.iter().find(|good| good.name == name)
}

/// What has these words in its title or in what is said about it; everything for none.
pub(super) fn search(wanted: &str) -> Vec<&'static Good> {
    let wanted = wanted.to_lowercase();
    let has = |text: &str| text.to_lowercase().contains(&wanted);
    GOODS.iter().filter(|good| has(good.name) || has(good.title) || has(good.about)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn things_are_found_by_name_and_by_words() {
        assert_eq!(search("").len(), GOODS.len());
        let names: Vec<&str> = search("WHISPER").iter().map(|good| good.name).collect();
        assert_eq!(names, ["box"]);
        assert!(search("elephant").is_empty());
        assert!((0..20).all(|number| find(name_of(number)).is_some()));
    }
}
