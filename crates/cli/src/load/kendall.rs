//! Kendall's tau-b: how far two orders agree. 1: the same order; 0: nothing to do with each other; -1: reversed.

/// Tau-b of pairs, in O(n log n) (Knight's method). None when it is not defined: fewer than two pairs, or one side all ties.
#[expect(clippy::cast_precision_loss, reason = "a correlation needs no more than 52 bits")]
pub(super) fn tau_b(pairs: &[(u64, u64)]) -> Option<f64> {
    let mut sorted = pairs.to_vec();
    sorted.sort_unstable();
    let all = pairs_among(sorted.len());
    let tied_first = tied_pairs(&sorted, |one, other| one.0 == other.0);
    let tied_both = tied_pairs(&sorted, |one, other| one == other);
    let mut second: Vec<u64> = sorted.iter().map(|pair| pair.1).collect();
    let discordant = inversions(&mut second);
    let tied_second = tied_pairs(&second, |one, other| one == other);
    if all == tied_first || all == tied_second {
        return None;
    }
    let difference = (all + tied_both) as f64 - (tied_first + tied_second) as f64 - 2.0 * discordant as f64;
    let scale = ((all - tied_first) as f64 * (all - tied_second) as f64).sqrt();
    // Rounding must not make an order better than the same.
    Some((difference / scale).clamp(-1.0, 1.0))
}

fn pairs_among(count: usize) -> u64 {
    let count = count as u64;
    count * count.saturating_sub(1) / 2
}

/// Pairs within runs of neighbours that are equal.
fn tied_pairs<T>(sorted: &[T], equal: impl Fn(&T, &T) -> bool) -> u64 {
    sorted.chunk_by(equal).map(|run| pairs_among(run.len())).sum()
}

/// Sorts, and counts the pairs that stood in the wrong order.
fn inversions(values: &mut [u64]) -> u64 {
    let mut buffer = values.to_vec();
    merge_sort(values, &mut buffer)
}

fn merge_sort(values: &mut [u64], buffer: &mut [u64]) -> u64 {
    if values.len() < 2 {
        return 0;
    }
    let middle = values.len() / 2;
    let mut found = {
        let (left, right) = values.split_at_mut(middle);
        let (left_buffer, right_buffer) = buffer.split_at_mut(middle);
        merge_sort(left, left_buffer) + merge_sort(right, right_buffer)
    };
    buffer.copy_from_slice(values);
    let (mut left, mut right) = (0, middle);
    for value in values.iter_mut() {
        let take_left = right == buffer.len() || (left < middle && buffer[left] <= buffer[right]);
        if take_left {
            *value = buffer[left];
            left += 1;
        } else {
            *value = buffer[right];
            right += 1;
            found += (middle - left) as u64;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::random::Random;
    use super::*;

    /// The definition, pair by pair.
    #[expect(clippy::cast_precision_loss, reason = "small counts")]
    fn slow(pairs: &[(u64, u64)]) -> Option<f64> {
        let (mut difference, mut untied_first, mut untied_second) = (0_i64, 0_u64, 0_u64);
        for (index, one) in pairs.iter().enumerate() {
            for other in &pairs[index + 1..] {
                let (first, second) = (one.0.cmp(&other.0) as i64, one.1.cmp(&other.1) as i64);
                difference += first * second;
                untied_first += u64::from(first != 0);
                untied_second += u64::from(second != 0);
            }
        }
        let scale = (untied_first as f64 * untied_second as f64).sqrt();
        (scale > 0.0).then(|| difference as f64 / scale)
    }

    #[test]
    fn the_same_order_is_one_and_the_reverse_is_minus_one() {
        let same: Vec<_> = (0..100).map(|value| (value, value * 3)).collect();
        let reverse: Vec<_> = (0..100).map(|value| (value, 100 - value)).collect();
        assert_eq!(tau_b(&same), Some(1.0));
        assert_eq!(tau_b(&reverse), Some(-1.0));
        // One swap of neighbours among ten: 44 of 45 pairs agree.
        let mut swapped: Vec<_> = (0..10).map(|value| (value, value)).collect();
        (swapped[4].1, swapped[5].1) = (5, 4);
        assert!((tau_b(&swapped).unwrap() - (44.0 - 1.0) / 45.0).abs() < 1e-12);
    }

    #[test]
    fn it_is_undefined_without_two_different_values_on_each_side() {
        assert_eq!(tau_b(&[]), None);
        assert_eq!(tau_b(&[(1, 1)]), None);
        assert_eq!(tau_b(&[(1, 1), (1, 2)]), None);
        assert_eq!(tau_b(&[(1, 1), (2, 1)]), None);
    }

    #[test]
    fn it_agrees_with_the_definition_also_with_ties() {
        for case in 0..200 {
            let mut random = Random::of_visitor(42, case);
            let count = random.one_to(40);
            let pairs: Vec<_> = (0..count).map(|_| (random.one_to(12), random.one_to(12))).collect();
            match (tau_b(&pairs), slow(&pairs)) {
                (Some(fast), Some(slow)) => assert!((fast - slow).abs() < 1e-12, "{fast} {slow} {pairs:?}"),
                (fast, slow) => assert_eq!(fast, slow, "{pairs:?}"),
            }
        }
    }
}
