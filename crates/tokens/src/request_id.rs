//! The request id: a UUID of version 8 that *is* the ticket, enciphered.
//!
//! A ticket's fields fill the 122 free bits of a UUID. They are permuted by AES-256 under the room's own key, again and
//! again until version and variant bits come out right ("cycle walking": a permutation of all blocks, walked until it
//! re-enters the subset, is a permutation of the subset). So an id needs no record to be understood, looks random, cannot be
//! guessed or edited, and one room's ids mean nothing in another.
//!
//! There is no authentication tag: 122 bits leave no space for one. Any UUID of version 8 therefore deciphers to *some*
//! ticket, and [`RequestIds::open`] demands a judge that knows the room's lines. A random block has the known format, a live
//! generation and incarnation, a number that was given out and a plausible time about once in 2^76.
//!
//! | bits, most significant first | 4 | 4 | 32 | 8 | 40 | 30 | 4 |
//! |---|---|---|---|---|---|---|---|
//! | field | format | lane | generation | incarnation | number | entered | copy |

use std::fmt;

use aes::Aes256;
use aes::cipher::{BlockCipherDecrypt as _, BlockCipherEncrypt as _, KeyInit as _};
use anteroom_core::ids::width::{
    COPY_BITS, ENTERED_BITS, FORMAT_BITS, GENERATION_BITS, INCARNATION_BITS, LANE_BITS, NUMBER_BITS,
};
use anteroom_core::ids::{Generation, Position, RequestId, RoomId, Ticket};
use uuid::Uuid;

use crate::secret::{Label, MasterSecrets};

/// The layout described above. An id with any other number here was made by a newer server, or is forged.
const FORMAT: u128 = 1;

/// The written length of a request id: 32 hexadecimal digits and 4 hyphens.
pub const TEXT_LENGTH: usize = 36;

/// Seals tickets of one room into request ids, and opens them again.
pub struct RequestIds {
    /// The expanded key schedules, one per master secret; the first one seals.
    ciphers: Vec<Aes256>,
}

impl RequestIds {
    /// The cipher of `room` under `secrets`. Worth keeping: expanding the keys costs as much as sealing.
    pub fn new(secrets: &MasterSecrets, room: &RoomId) -> Self {
        let ciphers = secrets.opening_keys(Label::RequestId(room)).map(|key| Aes256::new((&*key).into()));
        Self { ciphers: ciphers.collect() }
    }

    /// The request id of `ticket`.
    pub fn seal(&self, ticket: &Ticket) -> RequestId {
        let mut block = bytes_around_version_and_variant(pack(ticket));
        // Ends because the cycle of a permutation comes back to where it began, which is a member of the subset. The number of
        // steps is geometric with a mean of 64; nobody without the key can choose a long walk.
        loop {
            self.ciphers[0].encrypt_block((&mut block).into());
            if has_version_and_variant(&block) {
                return RequestId(block);
            }
        }
    }

    /// The ticket that was sealed into `id`, if `accept` finds it plausible under one of the secrets.
    ///
    /// `accept` is what keeps forgeries out: it must at least compare the generation with the room's live ones and the
    /// position with the number of joins.
    pub fn open(&self, id: RequestId, accept: impl Fn(&Ticket) -> bool) -> Option<Ticket> {
        if !has_version_and_variant(&id.0) {
            return None;
        }
        self.ciphers.iter().find_map(|cipher| {
            let mut block = id.0;
            loop {
                cipher.decrypt_block((&mut block).into());
                if has_version_and_variant(&block) {
                    break;
                }
            }
            unpack(bits_around_version_and_variant(block)).filter(&accept)
        })
    }
}

impl fmt::Debug for RequestIds {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "RequestIds({} keys, hidden)", self.ciphers.len())
    }
}

/// Reads exactly 36 characters of hyphenated hexadecimal digits in either case. Any UUID is well-formed, whether or not it is
/// one of ours.
pub fn parse(text: &str) -> Option<RequestId> {
    if text.len() != TEXT_LENGTH {
        return None;
    }
    Uuid::try_parse(text).ok().map(|uuid| RequestId(uuid.into_bytes()))
}

/// The id in lower case with hyphens.
pub fn format(id: RequestId) -> String {
    write_into(id, &mut [0; TEXT_LENGTH]).to_owned()
}

/// The same without an allocation.
pub fn write_into(id: RequestId, buffer: &mut [u8; TEXT_LENGTH]) -> &str {
    Uuid::from_bytes(id.0).hyphenated().encode_lower(buffer)
}

/// A ticket's fields as a number of 122 bits.
pub(crate) fn pack(ticket: &Ticket) -> u128 {
    let fields = [
        (FORMAT, FORMAT_BITS),
        (ticket.lane.into(), LANE_BITS),
        (ticket.generation.opened.into(), GENERATION_BITS),
        (ticket.generation.incarnation.into(), INCARNATION_BITS),
        (ticket.position.get().into(), NUMBER_BITS),
        (ticket.entered.into(), ENTERED_BITS),
        (ticket.copy.into(), COPY_BITS),
    ];
    fields.into_iter().fold(0, |packed: u128, (value, bits)| {
        // A field that spilled into its neighbour would give two visitors the same place.
        assert!(value >> bits == 0, "a ticket's field is wider than {bits} bits");
        packed << bits | value
    })
}

/// The inverse of [`pack`]; nothing if the format is unknown or the position is 0.
pub(crate) fn unpack(mut packed: u128) -> Option<Ticket> {
    let mut take_last = |bits: u32| {
        let value = packed & ((1 << bits) - 1);
        packed >>= bits;
        // No field is wider than 64 bits, so nothing is cut off.
        u64::try_from(value).unwrap_or(u64::MAX)
    };
    let copy = u8::try_from(take_last(COPY_BITS)).ok()?;
    let entered = u32::try_from(take_last(ENTERED_BITS)).ok()?;
    let position = Position::new(take_last(NUMBER_BITS));
    let incarnation = u8::try_from(take_last(INCARNATION_BITS)).ok()?;
    let opened = u32::try_from(take_last(GENERATION_BITS)).ok()?;
    let lane = u8::try_from(take_last(LANE_BITS)).ok()?;
    if packed != FORMAT {
        return None;
    }
    let generation = Generation { opened, incarnation };
    Some(Ticket { lane, generation, position: position?, entered, copy })
}

/// Where RFC 9562 puts its six fixed bits: 48 free bits, the version, 12 free bits, the variant, 62 free bits.
const VERSION_SHIFT: u32 = 76;
const VARIANT_SHIFT: u32 = 62;
const VERSION_8: u128 = 0b1000;
const VARIANT_RFC_9562: u128 = 0b10;

fn has_version_and_variant(block: &[u8; 16]) -> bool {
    const MASK: u128 = 0b1111 << VERSION_SHIFT | 0b11 << VARIANT_SHIFT;
    const FIXED: u128 = VERSION_8 << VERSION_SHIFT | VARIANT_RFC_9562 << VARIANT_SHIFT;
    u128::from_be_bytes(*block) & MASK == FIXED
}

fn bytes_around_version_and_variant(packed: u128) -> [u8; 16] {
    let last = packed & ((1 << 62) - 1);
    let middle = packed >> 62 & ((1 << 12) - 1);
    let first = packed >> 74;
    let block =
        first << 80 | VERSION_8 << VERSION_SHIFT | middle << 64 | VARIANT_RFC_9562 << VARIANT_SHIFT | last;
    block.to_be_bytes()
}

fn bits_around_version_and_variant(block: [u8; 16]) -> u128 {
    let block = u128::from_be_bytes(block);
    let last = block & ((1 << 62) - 1);
    let middle = block >> 64 & ((1 << 12) - 1);
    let first = block >> 80;
    first << 74 | middle << 62 | last
}

#[cfg(test)]
mod tests {
    use anteroom_core::ids::{MAX_ENTERED_SECONDS, MAX_POSITION};
    use proptest::prelude::*;

    use super::*;

    const NEW: &str = "a-new-secret-for-tests-0123456789abcdef";
    const OLD: &str = "an-old-secret-for-tests-0123456789abcdef";

    fn ids(secrets: &str, room: &str) -> RequestIds {
        RequestIds::new(&MasterSecrets::parse(secrets).unwrap(), &RoomId::parse(room).unwrap())
    }

    fn ticket(number: u64) -> Ticket {
        Ticket {
            lane: 0,
            generation: Generation { opened: 90_000_000, incarnation: 77 },
            position: Position::new(number).unwrap(),
            entered: 1_234,
            copy: 0,
        }
    }

    /// What the product asks: a live line, a number that was given out, a time that has come.
    fn plausible(candidate: &Ticket) -> bool {
        candidate.lane == 0
            && candidate.generation == ticket(1).generation
            && candidate.position.get() <= 10_000_000
            && candidate.entered <= 86_400
    }

    /// Every value of a field, with its two ends far more often than chance would have them.
    fn field(maximum: u64) -> impl Strategy<Value = u64> {
        prop_oneof![Just(0), Just(maximum), 0..=maximum]
    }

    fn any_ticket() -> impl Strategy<Value = Ticket> {
        let fields = (
            field(15),
            field(u32::MAX.into()),
            field(255),
            field(MAX_POSITION),
            field(MAX_ENTERED_SECONDS.into()),
            field(15),
        );
        fields.prop_map(|(lane, opened, incarnation, number, entered, copy)| Ticket {
            lane: lane.try_into().unwrap(),
            generation: Generation {
                opened: opened.try_into().unwrap(),
                incarnation: incarnation.try_into().unwrap(),
            },
            position: Position::new(number.max(1)).unwrap(),
            entered: entered.try_into().unwrap(),
            copy: copy.try_into().unwrap(),
        })
    }

    proptest! {
        #[test]
        fn every_ticket_survives_sealing_and_opening(ticket in any_ticket()) {
            let ids = ids(NEW, "Sample");
            let id = ids.seal(&ticket);
            let uuid = Uuid::from_bytes(id.0);
            prop_assert_eq!(uuid.get_version_num(), 8);
            prop_assert_eq!(uuid.get_variant(), uuid::Variant::RFC4122);
            prop_assert_eq!(ids.open(id, |_| true), Some(ticket));
            prop_assert_eq!(parse(&format(id)), Some(id));
        }

        #[test]
        fn packing_fills_the_122_bits_and_nothing_else(ticket in any_ticket()) {
            let packed = pack(&ticket);
            prop_assert!(packed < 1 << 122);
            prop_assert_eq!(bits_around_version_and_variant(bytes_around_version_and_variant(packed)), packed);
            prop_assert_eq!(unpack(packed), Some(ticket));
        }

        #[test]
        fn an_id_with_any_bits_flipped_is_refused(number in 1_u64..10_000_000, flips in 1_u128..) {
            let ids = ids(NEW, "Sample");
            let id = ids.seal(&ticket(number));
            let edited = RequestId((u128::from_be_bytes(id.0) ^ flips).to_be_bytes());
            prop_assert_eq!(ids.open(edited, plausible), None);
        }

        #[test]
        fn a_random_uuid_of_version_8_is_refused(random in any::<u128>()) {
            let guessed = RequestId(bytes_around_version_and_variant(random >> 6));
            prop_assert_eq!(ids(NEW, "Sample").open(guessed, plausible), None);
        }

        #[test]
        fn parsing_any_text_never_panics(text in "\\PC{0,40}") {
            let _ = parse(&text);
        }
    }

    #[test]
    fn each_of_the_128_single_bit_flips_is_refused() {
        let ids = ids(NEW, "Sample");
        for number in [1, 2, 1_000, 9_999_999] {
            let id = ids.seal(&ticket(number));
            assert_eq!(ids.open(id, plausible), Some(ticket(number)));
            for bit in 0..128 {
                let edited = RequestId((u128::from_be_bytes(id.0) ^ 1 << bit).to_be_bytes());
                assert_eq!(ids.open(edited, plausible), None, "bit {bit} of the id of {number}");
            }
        }
    }

    #[test]
    fn ids_of_another_room_or_another_secret_are_refused() {
        let id = ids(NEW, "Sample").seal(&ticket(7));
        assert_eq!(ids(NEW, "Sample").open(id, plausible), Some(ticket(7)));
        assert_eq!(ids(NEW, "sample").open(id, plausible), None);
        assert_eq!(ids(OLD, "Sample").open(id, plausible), None);
    }

    #[test]
    fn ids_sealed_before_a_rotation_are_opened_after_it() {
        let before = ids(OLD, "Sample");
        let rotated = ids(&format!("{NEW},{OLD}"), "Sample");
        let after = ids(NEW, "Sample");
        assert_eq!(rotated.open(before.seal(&ticket(7)), plausible), Some(ticket(7)));
        assert_eq!(rotated.seal(&ticket(8)), after.seal(&ticket(8)), "the first secret seals");
        assert_eq!(after.open(before.seal(&ticket(7)), plausible), None, "the old secret is gone");
    }

    #[test]
    fn a_uuid_of_another_version_is_well_formed_but_not_ours() {
        let ids = ids(NEW, "Sample");
        let foreign = parse("7f9c24e8-3b12-4d0a-9f3e-5c1a2b3c4d5e").unwrap();
        assert_eq!(ids.open(foreign, |_| true), None);
    }

    #[test]
    fn an_unknown_format_or_a_position_of_0_never_decodes() {
        let known = pack(&ticket(1));
        assert!(unpack(known).is_some());
        for format in (0..16).filter(|format| *format != FORMAT) {
            assert_eq!(unpack(known & !(0b1111 << 118) | format << 118), None, "format {format}");
        }
        let number = ((1 << NUMBER_BITS) - 1) << (ENTERED_BITS + COPY_BITS);
        assert_eq!(unpack(known & !number), None);
    }

    #[test]
    fn the_layout_is_the_one_in_the_design() {
        let ticket = Ticket {
            lane: 0x2,
            generation: Generation { opened: 0x3333_3333, incarnation: 0x44 },
            position: Position::new(0x55_5555_5555).unwrap(),
            entered: 0x2aaa_aaaa,
            copy: 0x7,
        };
        let expected: u128 = 1 << 118
            | 0x2 << 114
            | 0x3333_3333 << 82
            | 0x44 << 74
            | 0x55_5555_5555 << 34
            | 0x2aaa_aaaa << 4
            | 0x7;
        assert_eq!(pack(&ticket), expected);
    }

    #[test]
    #[should_panic(expected = "wider than 4 bits")]
    fn a_field_that_does_not_fit_is_a_bug_and_never_wraps() {
        pack(&Ticket { lane: 16, ..ticket(1) });
    }

    #[test]
    fn text_is_parsed_strictly_and_written_in_lower_case() {
        let text = "0123abcd-ef01-8234-9678-9abcdef01234";
        let id = parse(text).unwrap();
        assert_eq!(parse(&text.to_uppercase()), Some(id));
        assert_eq!(format(id), text);
        assert_eq!(write_into(id, &mut [0; TEXT_LENGTH]), text);
        for bad in [
            "",
            "0123abcdef01823496789abcdef01234",
            "{0123abcd-ef01-8234-9678-9abcdef01234}",
            "urn:uuid:0123abcd-ef01-8234-9678-9abcdef01234",
            "0123abcd-ef01-8234-9678-9abcdef012345",
            "0123abcd-ef01-8234-9678-9abcdef0123",
            "0123abcd-ef01-8234-9678-9abcdef0123g",
            "0123abcd_ef01_8234_9678_9abcdef01234",
            "0123abcde-f01-8234-9678-9abcdef01234",
            " 123abcd-ef01-8234-9678-9abcdef01234",
            "+123abcd-ef01-8234-9678-9abcdef01234",
            "0123abcd-ef01-8234-9678-9abcdef0123é",
        ] {
            assert_eq!(parse(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn debug_output_holds_no_key() {
        assert_eq!(format!("{:?}", ids(&format!("{NEW},{OLD}"), "Sample")), "RequestIds(2 keys, hidden)");
    }
}
