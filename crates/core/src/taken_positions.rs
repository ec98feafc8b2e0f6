//! Which positions of a line are no longer waiting: one bit each, set when its holder claimed or left.
//!
//! Beside them, which positions have moved to another device ([`crate::moves`]): in chunks of their own, so that a store writes with a
//! move what has moved, and nothing of it with any other commit.
//!
//! Bits live in chunks of [`CHUNK_POSITIONS`], and a chunk exists only once a bit in it is set, so ten million people who
//! simply wait cost nothing. Chunks wholly at or below the floor are dropped: everything there is settled anyway.

use std::collections::BTreeMap;

use crate::shared::Shared;

/// How many positions one chunk covers.
pub const CHUNK_POSITIONS: u64 = 4096;
const WORDS: usize = 64;
/// The first chunk of moves; those of bits have lower indexes.
pub const FIRST_MOVES_CHUNK: u64 = 1 << 52;
/// How many positions one chunk of moves covers: each has a word for the copy of its ticket, 0 if it has not moved, and one for who
/// moved it.
pub const MOVES_CHUNK_POSITIONS: u64 = WORDS as u64 / 2;

/// The bits of [`CHUNK_POSITIONS`] consecutive positions, lowest position first.
pub type Chunk = [u64; WORDS];

/// The taken positions of one segment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TakenPositions {
    chunks: Shared<BTreeMap<u64, Shared<Chunk>>>,
}

/// The chunk that holds `position` (which is at least 1).
pub const fn chunk_of(position: u64) -> u64 {
    (position - 1) / CHUNK_POSITIONS
}

/// The chunk that holds the move of `position`.
pub const fn moves_chunk_of(position: u64) -> u64 {
    FIRST_MOVES_CHUNK + (position - 1) / MOVES_CHUNK_POSITIONS
}

const fn move_words_of(position: u64) -> usize {
    ((position - 1) % MOVES_CHUNK_POSITIONS) as usize * 2
}

const fn bit_of(position: u64) -> (usize, u32) {
    let offset = (position - 1) % CHUNK_POSITIONS;
    ((offset / 64) as usize, (offset % 64) as u32)
}

impl TakenPositions {
    /// Whether the holder of `position` has claimed or left.
    pub fn contains(&self, position: u64) -> bool {
        let (word, bit) = bit_of(position);
        self.chunks.get(&chunk_of(position)).is_some_and(|chunk| chunk[word] >> bit & 1 == 1)
    }

    /// Marks `position`; returns whether it was unmarked before.
    pub(crate) fn insert(&mut self, position: u64) -> bool {
        let (word, bit) = bit_of(position);
        let chunk = self.chunks.entry(chunk_of(position)).or_insert_with(|| [0; WORDS].into());
        let before = chunk[word];
        chunk[word] |= 1 << bit;
        before != chunk[word]
    }

    /// How many of the positions above `after`, up to and including `through`, are not taken.
    pub fn live_between(&self, after: u64, through: u64) -> u64 {
        if through <= after {
            return 0;
        }
        let taken: u64 = self
            .chunks
            .range(chunk_of(after + 1)..=chunk_of(through))
            .map(|(&index, chunk)| {
                (0..WORDS)
                    .map(|word| u64::from(clip(index, word, after, through, chunk[word]).count_ones()))
                    .sum::<u64>()
            })
            .sum();
        through - after - taken
    }

    /// The `count`-th untaken position above `after`, or the last one up to `limit` if there are fewer (`after` itself if
    /// there is none); and how many were counted.
    pub fn nth_live_after(&self, after: u64, limit: u64, count: u64) -> (u64, u64) {
        let mut cursor = after;
        let mut found = 0;
        let mut last_stretch_with_live = (after, after);
        while found < count && cursor < limit {
            let chunk_end = ((chunk_of(cursor + 1) + 1) * CHUNK_POSITIONS).min(limit);
            let live_here = self.live_between(cursor, chunk_end);
            if found + live_here > count {
                return (self.nth_live_in_chunk(cursor, count - found), count);
            }
            if live_here > 0 {
                last_stretch_with_live = (cursor, chunk_end);
            }
            found += live_here;
            cursor = chunk_end;
        }
        let (start, end) = last_stretch_with_live;
        (self.last_live(start, end), found)
    }

    /// The `count`-th untaken position above `after`, known to be in the chunk that follows it.
    fn nth_live_in_chunk(&self, after: u64, count: u64) -> u64 {
        if !self.chunks.contains_key(&chunk_of(after + 1)) {
            return after + count;
        }
        let mut live = (after + 1..).filter(|&position| !self.contains(position));
        live.nth(usize::try_from(count - 1).unwrap_or(usize::MAX)).unwrap_or(after)
    }

    fn last_live(&self, after: u64, through: u64) -> u64 {
        (after + 1..=through).rev().find(|&position| !self.contains(position)).unwrap_or(after)
    }

    /// Forgets the chunks wholly at or below `floor`; returns their indexes.
    pub(crate) fn forget_through(&mut self, floor: u64) -> Vec<u64> {
        let bits = self.chunks.range(..floor / CHUNK_POSITIONS);
        let first_kept = FIRST_MOVES_CHUNK + floor / MOVES_CHUNK_POSITIONS;
        let moves = self.chunks.range(FIRST_MOVES_CHUNK..first_kept);
        let forgotten: Vec<u64> = bits.chain(moves).map(|(&index, _)| index).collect();
        for index in &forgotten {
            self.chunks.remove(index);
        }
        forgotten
    }

    /// The copy of the ticket of a position that has moved, and who moved it, as a store keeps it.
    pub fn moved(&self, position: u64) -> Option<(u8, u64)> {
        let chunk = self.chunks.get(&moves_chunk_of(position))?;
        let word = move_words_of(position);
        u8::try_from(chunk[word]).ok().filter(|&copy| copy > 0).map(|copy| (copy, chunk[word + 1]))
    }

    /// Notes that a position has moved.
    pub(crate) fn note_move(&mut self, position: u64, copy: u8, by: u64) {
        let word = move_words_of(position);
        let chunk = self.chunks.entry(moves_chunk_of(position)).or_insert_with(|| [0; WORDS].into());
        (chunk[word], chunk[word + 1]) = (u64::from(copy), by);
    }

    /// Forgets that a position has moved; returns whether it had.
    pub(crate) fn forget_move(&mut self, position: u64) -> bool {
        if self.moved(position).is_none() {
            return false;
        }
        let (index, word) = (moves_chunk_of(position), move_words_of(position));
        if let Some(chunk) = self.chunks.get_mut(&index) {
            (chunk[word], chunk[word + 1]) = (0, 0);
            if chunk.iter().all(|&word| word == 0) {
                self.chunks.remove(&index);
            }
        }
        true
    }

    /// All positions that have moved, with the copy and who moved each.
    pub fn moves(&self) -> impl Iterator<Item = (u64, u8, u64)> {
        self.chunks.range(FIRST_MOVES_CHUNK..).flat_map(move |(&index, _)| {
            let first = (index - FIRST_MOVES_CHUNK).saturating_mul(MOVES_CHUNK_POSITIONS).saturating_add(1);
            let positions = first..first.saturating_add(MOVES_CHUNK_POSITIONS);
            positions.filter_map(move |position| self.moved(position).map(|(copy, by)| (position, copy, by)))
        })
    }

    /// The chunk with `index`, if any bit in it was ever set and it has not been dropped.
    pub fn chunk(&self, index: u64) -> Option<&Chunk> {
        self.chunks.get(&index).map(|chunk| &**chunk)
    }

    /// All chunks, for a store that writes or compares them.
    pub fn chunks(&self) -> impl Iterator<Item = (u64, &Chunk)> {
        self.chunks.iter().map(|(&index, chunk)| (index, &**chunk))
    }

    /// Puts back a chunk that a store had kept.
    pub fn restore(&mut self, index: u64, chunk: Chunk) {
        self.chunks.insert(index, chunk.into());
    }
}

/// The bits of one word that stand for positions above `after`, up to and including `through`.
fn clip(chunk: u64, word: usize, after: u64, through: u64, bits: u64) -> u64 {
    let first = chunk * CHUNK_POSITIONS + word as u64 * 64 + 1;
    let mut bits = bits;
    if first + 63 <= after || first > through {
        return 0;
    }
    if after >= first {
        bits &= u64::MAX << (after - first + 1);
    }
    if through < first + 63 {
        bits &= u64::MAX >> (first + 63 - through);
    }
    bits
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn agrees_with_a_plain_set(
            marks in prop::collection::btree_set(1u64..12_000, 0..400),
            from in 0u64..12_000, length in 0u64..12_000, count in 0u64..9_000,
        ) {
            let mut taken = TakenPositions::default();
            for &mark in &marks {
                prop_assert!(taken.insert(mark));
                prop_assert!(!taken.insert(mark));
            }
            let through = from + length;
            let live: Vec<u64> = (from + 1..=through).filter(|position| !marks.contains(position)).collect();
            prop_assert_eq!(taken.live_between(from, through), live.len() as u64);
            let (reached, found) = taken.nth_live_after(from, through, count);
            prop_assert_eq!(found, count.min(live.len() as u64));
            if count > 0 && count <= live.len() as u64 {
                prop_assert_eq!(reached, live[usize::try_from(count).unwrap() - 1]);
            } else if count > 0 {
                prop_assert_eq!(reached, live.last().copied().unwrap_or(from));
            }
        }

        #[test]
        fn moves_are_kept_apart_from_bits(
            moves in prop::collection::btree_map(1u64..500, (1u8..16, any::<u64>()), 0..60),
            forgotten in prop::collection::btree_set(1u64..500, 0..60), floor in 0u64..500,
        ) {
            let mut taken = TakenPositions::default();
            for (&position, &(copy, by)) in &moves { taken.note_move(position, copy, by); }
            prop_assert!((1..500).all(|position| !taken.contains(position)));
            prop_assert_eq!(taken.live_between(0, 500), 500);
            for &position in &forgotten {
                prop_assert_eq!(taken.forget_move(position), moves.contains_key(&position));
            }
            let expected = |floor: u64| moves.iter().filter(|(position, _)| !forgotten.contains(position) && **position > floor)
                .map(|(&position, &(copy, by))| (position, copy, by)).collect::<Vec<_>>();
            prop_assert_eq!(taken.moves().collect::<Vec<_>>(), expected(0));
            let chunks = taken.chunks().count();
            let gone = taken.forget_through(floor);
            prop_assert_eq!(chunks, taken.chunks().count() + gone.len());
            prop_assert_eq!(taken.moves().filter(|place| place.0 > floor).collect::<Vec<_>>(), expected(floor));
            prop_assert!(taken.chunks().all(|(_, chunk)| chunk.iter().any(|&word| word != 0)), "no empty chunk is kept");
        }

        #[test]
        fn forgetting_keeps_everything_above_the_floor(
            marks in prop::collection::btree_set(1u64..20_000, 1..200), floor in 0u64..20_000,
        ) {
            let mut taken = TakenPositions::default();
            for &mark in &marks { taken.insert(mark); }
            taken.forget_through(floor);
            let above: BTreeSet<u64> = marks.iter().copied().filter(|&mark| mark > floor).collect();
            for position in floor + 1..20_001 {
                prop_assert_eq!(taken.contains(position), above.contains(&position));
            }
        }
    }
}
