//! Choices that can be repeated: a visitor's are a function of the run's seed and the visitor's number, whatever else happens.
//! Nothing secret is made here.

/// A small generator (`SplitMix64`).
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    /// The generator of visitor `index` in a run with this seed.
    pub(crate) fn of_visitor(seed: u64, index: u64) -> Self {
        let mut own = Self(seed ^ index.wrapping_mul(0xD1B5_4A32_D192_ED03));
        // One draw sets neighbouring visitors apart.
        own.next();
        own
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Between 0 and 1, without 1.
    #[expect(clippy::cast_precision_loss, reason = "53 bits fit")]
    pub(crate) fn fraction(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// True in `share` of the cases.
    pub(crate) fn chance(&mut self, share: f64) -> bool {
        self.fraction() < share
    }

    /// A whole number from 1 to `most`.
    pub(crate) fn one_to(&mut self, most: u64) -> u64 {
        1 + self.next() % most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_and_visitor_choose_the_same_and_others_differ() {
        let draws = |seed, index| {
            let mut random = Random::of_visitor(seed, index);
            [(); 4].map(|()| random.next())
        };
        assert_eq!(draws(1, 2), draws(1, 2));
        assert_ne!(draws(1, 2), draws(1, 3));
        assert_ne!(draws(1, 2), draws(2, 2));
    }

    #[test]
    fn a_chance_comes_about_as_often_as_it_says() {
        let happened = (0..10_000).filter(|index| Random::of_visitor(7, *index).chance(0.1)).count();
        assert!((800..1200).contains(&happened), "{happened}");
        let mut random = Random::of_visitor(7, 0);
        assert!((0..1000).all(|_| (1..=5).contains(&random.one_to(5))));
    }
}
