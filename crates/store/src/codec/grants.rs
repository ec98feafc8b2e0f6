//! Logins at clients of the OpenID provider, as bytes of their session.

use anteroom_core::session::GRANTS_MAX;
use anteroom_core::{Grant, UnixMillis};

use super::{Corrupt, Reader, Writer};

const CORRUPT: Corrupt = Corrupt("logins of a session");

pub(super) fn encode(writer: &mut Writer, grants: &[Grant]) {
    writer.byte(u8::try_from(grants.len()).expect("a session remembers few logins"));
    for grant in grants {
        let Grant { id, client, issued_at, refresh_sequence, refreshed_at, is_revoked } = *grant;
        for number in [id, client, issued_at.0, refreshed_at.0, refresh_sequence.into()] {
            writer.number(number);
        }
        writer.byte(u8::from(is_revoked));
    }
}

/// Each of them stands for one code: two of one number cannot be.
pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Vec<Grant>, Corrupt> {
    let length = usize::from(reader.byte()?);
    if length > GRANTS_MAX {
        return Err(CORRUPT);
    }
    let mut grants: Vec<Grant> = Vec::with_capacity(length);
    for _ in 0..length {
        let grant = Grant {
            id: reader.number()?,
            client: reader.number()?,
            issued_at: UnixMillis(reader.number()?),
            refreshed_at: UnixMillis(reader.number()?),
            refresh_sequence: u32::try_from(reader.number()?).map_err(|_| CORRUPT)?,
            is_revoked: match reader.byte()? {
                0 => false,
                1 => true,
                _ => return Err(CORRUPT),
            },
        };
        if grants.iter().any(|known| known.id == grant.id) {
            return Err(CORRUPT);
        }
        grants.push(grant);
    }
    Ok(grants)
}

#[cfg(test)]
mod tests {
    use anteroom_core::{Session, SessionStatus};

    use super::*;
    use crate::codec::{decode_session, encode_session};

    /// Written by the last program that knew no logins: a visit by cookie.
    const SESSION: &[u8] = include_bytes!("before_grants/session.bytes");
    /// A number, a client, two moments, a sequence and a flag.
    const GRANT_BYTES: usize = 5 * 8 + 1;

    fn session(grants: Vec<Grant>) -> Session {
        Session { grants, ..decode_session(SESSION).unwrap() }
    }

    fn grant(id: u64) -> Grant {
        let refreshed_at = UnixMillis(1_800_000_060_456);
        let new = Grant::new(id, u64::MAX - id, UnixMillis(1_800_000_000_123));
        Grant { refresh_sequence: u32::MAX, refreshed_at, ..new }
    }

    #[test]
    fn a_session_from_before_there_were_logins_is_read_and_written_anew() {
        assert_eq!(SESSION[0], 5);
        let session = decode_session(SESSION).unwrap();
        assert_eq!((session.status, session.grants.len()), (SessionStatus::Active, 0));
        assert_eq!((session.key.position.get(), session.issuer.as_str()), (6, "https://wait.example.com"));
        assert_eq!(session.stay.unwrap().until, UnixMillis(1_795_149_969_325));
        let again = encode_session(&session);
        assert_eq!((again[0], again.len()), (6, SESSION.len() + 1));
        assert_eq!(decode_session(&again).unwrap(), session);
        for length in 0..SESSION.len() {
            assert!(decode_session(&SESSION[..length]).is_err(), "cut at {length}");
        }
    }

    #[test]
    fn logins_read_back_as_they_were_written_and_no_more_than_fit() {
        let mut grants = vec![Grant { is_revoked: true, ..grant(0) }];
        grants.extend((1..GRANTS_MAX as u64).map(grant));
        let session = session(grants);
        let bytes = encode_session(&session);
        assert_eq!(decode_session(&bytes).unwrap(), session);
        for length in 0..bytes.len() {
            assert!(decode_session(&bytes[..length]).is_err(), "cut at {length}");
        }
        let mut one_more = session;
        one_more.grants.push(grant(99));
        assert!(decode_session(&encode_session(&one_more)).is_err());
    }

    #[test]
    fn logins_that_no_program_wrote_are_refused() {
        let bytes = encode_session(&session(vec![grant(1), grant(2)]));
        let damaged = |from_the_end: usize, value: u8| {
            let mut damaged = bytes.clone();
            let index = damaged.len() - from_the_end;
            damaged[index] = value;
            decode_session(&damaged)
        };
        assert!(damaged(1, 1).is_ok_and(|session| session.grants[1].is_revoked));
        assert!(damaged(1, 2).is_err(), "neither revoked nor not");
        assert!(damaged(2, 1).is_err(), "a sequence of more than 32 bits");
        assert!(damaged(GRANT_BYTES, 1).is_err(), "two of one number");
    }
}
