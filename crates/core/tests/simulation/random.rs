//! Chance that is the same on every machine: a small generator, and draws that need nothing but additions and comparisons.
//!
//! Logarithms differ in their last digit between machines, and one digit is enough to make another sale of it. So exponential
//! times are drawn by von Neumann's comparisons instead.

/// A generator (`SplitMix64`).
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) const fn seeded(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// From 0 to `limit - 1`, each as likely.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        u64::try_from((u128::from(self.next()) * u128::from(limit)) >> 64).unwrap()
    }

    /// From `least` to `most`, each as likely.
    pub(crate) fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.below(most - least + 1)
    }

    /// Whether something happens that happens so many times in a hundred.
    pub(crate) fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// A time of `mean` on average, with no memory of how long it has been already.
    pub(crate) fn exponential(&mut self, mean: u64) -> u64 {
        let mut whole = 0;
        loop {
            let first = self.next();
            let (mut last, mut length) = (first, 1);
            loop {
                let next = self.next();
                if next >= last {
                    break;
                }
                (last, length) = (next, length + 1);
            }
            // A falling run of odd length begins with a draw below 1 of the exponential distribution.
            if length % 2 == 1 {
                return whole + u64::try_from((u128::from(first) * u128::from(mean)) >> 64).unwrap();
            }
            whole += mean;
        }
    }
}

#[test]
fn exponential_times_have_the_mean_and_the_tail_they_should() {
    let mut random = Random::seeded(1);
    let draws: Vec<u64> = (0..100_000).map(|_| random.exponential(300_000)).collect();
    let mean = draws.iter().sum::<u64>() / 100_000;
    assert!((297_000..303_000).contains(&mean), "{mean}");
    // exp(-1), exp(-3)
    let above = |limit: u64| draws.iter().filter(|&&draw| draw > limit).count();
    assert!((36_300..37_300).contains(&above(300_000)), "{}", above(300_000));
    assert!((4_800..5_200).contains(&above(900_000)), "{}", above(900_000));
}
