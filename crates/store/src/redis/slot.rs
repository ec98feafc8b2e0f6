//! Which of the 16,384 slots of a cluster a hash tag belongs to.

const SLOTS: u16 = 16_384;

/// CRC-16/XMODEM, as the cluster's specification has it.
const fn crc16(bytes: &[u8]) -> u16 {
    const POLYNOMIAL: u16 = 0x1021;
    let (mut sum, mut place) = (0u16, 0);
    while place < bytes.len() {
        sum ^= (bytes[place] as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            sum = if sum & 0x8000 == 0 { sum << 1 } else { (sum << 1) ^ POLYNOMIAL };
            bit += 1;
        }
        place += 1;
    }
    sum
}

/// The slot of every key with this tag.
pub(super) const fn slot_of_tag(tag: &[u8]) -> u16 {
    crc16(tag) % SLOTS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_specification() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        // As `CLUSTER KEYSLOT` answers.
        for (tag, slot) in [("foo", 12_182), ("user1000", 3_443), ("", 0)] {
            assert_eq!(slot_of_tag(tag.as_bytes()), slot, "{tag}");
        }
    }
}
