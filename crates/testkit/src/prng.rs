//! A pseudo-random number generator for tests: the same seed gives the same numbers, so that a failed test can be repeated.

/// The generator `SplitMix64`: small, well mixed, the same everywhere. Not for secrets.
#[derive(Debug, Clone)]
pub struct Prng(u64);

impl Prng {
    const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

    /// The sequence of this seed.
    pub fn from_seed(seed: u64) -> Self {
        Self(seed)
    }

    /// The `number`-th stream of this seed.
    pub fn from_seed_and_stream(seed: u64, number: u64) -> Self {
        let mut mixed = Self(seed);
        Self(mixed.next_u64() ^ number.wrapping_mul(Self::STEP))
    }

    /// The next number.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(Self::STEP);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// True once in so many numbers.
    pub fn one_in(&mut self, numbers: u64) -> bool {
        self.next_u64().is_multiple_of(numbers)
    }

    /// Any index below a length above zero.
    pub fn below(&mut self, length: usize) -> usize {
        let length = u64::try_from(length).expect("a length fits 64 bits");
        usize::try_from(self.next_u64() % length).expect("a remainder of a length is an index")
    }
}
