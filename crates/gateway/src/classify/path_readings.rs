//! Every way in which an origin may read one path. Servers decode escapes once, twice or not at all, resolve `..` before or after that,
//! join empty parts, drop parameters, and take a backslash for a slash. A path is protected if one reading of it is, and bypasses a
//! room only if every reading does.

/// How many readings of one path are followed. No honest path has more than a handful.
const READINGS_MAX: usize = 64;
/// How long they may be together, in bytes. So a long path costs no more than a short one.
const READINGS_MAX_BYTES: usize = 64 * 1024;

/// The readings of one path.
#[derive(Debug)]
pub(crate) struct PathReadings<'request> {
    /// As sent.
    raw: &'request str,
    /// Each other reading once.
    others: Vec<String>,
    /// Whether there are more than were followed, so that it may be any path.
    pub(crate) is_unbounded: bool,
    /// Whether one reading has a part `..`, so that different servers may end up in different places.
    pub(crate) has_dot_dot: bool,
    /// Whether one reading begins with two separators, so that some servers take its first part for a host.
    pub(crate) has_authority: bool,
}

impl<'request> PathReadings<'request> {
    pub(crate) fn of(raw: &'request str) -> Self {
        let mut readings =
            Self { raw, others: vec![], is_unbounded: false, has_dot_dot: false, has_authority: false };
        if !is_plain(raw) {
            readings.follow();
            let has_dot_dot = readings.iter().any(|reading| parts(reading).any(|part| part == ".."));
            readings.has_dot_dot = has_dot_dot;
            let has_authority = readings.iter().any(begins_with_authority);
            readings.has_authority = has_authority;
        }
        readings
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.raw).chain(self.others.iter().map(String::as_str))
    }

    /// Applies every step to every reading, until nothing new comes of it.
    fn follow(&mut self) {
        let steps = [decoded, resolved, joined, without_authority, cut_at_end_mark, without_session_parts];
        let mut next = 0_usize;
        let mut bytes = self.raw.len();
        loop {
            let reading = match next.checked_sub(1) {
                None => self.raw.to_owned(),
                Some(index) => match self.others.get(index) {
                    Some(reading) => reading.clone(),
                    None => return,
                },
            };
            next += 1;
            for step in steps {
                let other = step(&reading);
                if self.iter().any(|known| known == other) {
                    continue;
                }
                bytes += other.len();
                if self.others.len() + 1 >= READINGS_MAX || bytes > READINGS_MAX_BYTES {
                    self.is_unbounded = true;
                    return;
                }
                self.others.push(other);
            }
        }
    }
}

/// Whether every server reads a path in the same way, but for case and endings.
fn is_plain(path: &str) -> bool {
    let bytes = path.as_bytes();
    !bytes.iter().any(|byte| matches!(byte, b'%' | b'\\' | b';'))
        && !bytes.windows(2).any(|pair| matches!(pair, [b'/', b'/' | b'.' | b'(']))
}

const fn is_separator(character: char) -> bool {
    matches!(character, '/' | '\\')
}

/// The parts between separators, without parameters.
fn parts(path: &str) -> impl Iterator<Item = &str> {
    path.split(is_separator).map(|part| part.split(';').next().unwrap_or_default())
}

/// Parts as a path, with the slash at the end that the original had.
fn path_of(parts: &[&str], original: &str) -> String {
    let mut path: String = parts.iter().flat_map(|part| ["/", part]).collect();
    if path.is_empty() || original.ends_with(is_separator) {
        path.push('/');
    }
    path
}

/// Without empty parts, parameters and `.`.
fn joined(path: &str) -> String {
    let parts: Vec<&str> = parts(path).filter(|part| !matches!(*part, "" | ".")).collect();
    path_of(&parts, path)
}

/// The same, and each `..` takes away the part before it.
fn resolved(path: &str) -> String {
    let mut kept: Vec<&str> = vec![];
    for part in parts(path) {
        match part {
            "" | "." => {}
            ".." => {
                kept.pop();
            }
            part => kept.push(part),
        }
    }
    path_of(&kept, path)
}

fn begins_with_authority(path: &str) -> bool {
    path.chars().take(2).filter(|first| is_separator(*first)).count() == 2
}

/// A target that begins with two slashes, as URL parsers read it: the first part is a host.
fn without_authority(path: &str) -> String {
    if !begins_with_authority(path) {
        return path.to_owned();
    }
    let rest = path.trim_start_matches(is_separator);
    rest.find(is_separator).map_or_else(|| "/".to_owned(), |end| rest[end..].to_owned())
}

/// What is left of a path where a null character, or a query or fragment that was escaped, ends it.
fn cut_at_end_mark(path: &str) -> String {
    path.split(['\0', '?', '#']).next().unwrap_or_default().to_owned()
}

/// Without the parts in which ASP.NET keeps sessions: `/(S(abc))/checkout`.
fn without_session_parts(path: &str) -> String {
    let is_session = |part: &&str| {
        let inner = part.strip_prefix('(').and_then(|part| part.strip_suffix("))"));
        inner.is_some_and(|inner| {
            inner.as_bytes().first().is_some_and(u8::is_ascii_alphabetic) && inner[1..].starts_with('(')
        })
    };
    if !path.contains("))") {
        return path.to_owned();
    }
    let kept: Vec<&str> = path.split(is_separator).skip(1).filter(|part| !is_session(part)).collect();
    path_of(&kept, "")
}

/// One layer of escapes undone, `%u0063` included. Bytes are read as UTF-8, also where it is longer than need be, or else as Latin-1.
pub(crate) fn decoded(path: &str) -> String {
    if !path.contains('%') {
        return path.to_owned();
    }
    let digits = |bytes: &[u8]| {
        let text = bytes.iter().all(u8::is_ascii_hexdigit).then_some(bytes)?;
        u32::from_str_radix(std::str::from_utf8(text).ok()?, 16).ok()
    };
    let mut bytes: Vec<u8> = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        let wide = |after: &[u8]| match after {
            [b'u' | b'U', code @ ..] if code.len() >= 4 => digits(&code[..4]).and_then(char::from_u32),
            _ => None,
        };
        if *first != b'%' {
            bytes.push(*first);
        } else if let Some(byte) = after.get(..2).and_then(digits).and_then(|byte| u8::try_from(byte).ok()) {
            bytes.push(byte);
            rest = &after[2..];
        } else if let Some(character) = wide(after) {
            bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            rest = &after[5..];
        } else {
            bytes.push(b'%');
        }
    }
    text_of(&bytes)
}

fn text_of(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    let mut rest = bytes;
    while let [first, after @ ..] = rest {
        let (bits, following) = match first {
            0xc0..=0xdf => (first & 0x1f, 1),
            0xe0..=0xef => (first & 0x0f, 2),
            0xf0..=0xf7 => (first & 0x07, 3),
            _ => (*first, 0),
        };
        let character = after
            .get(..following)
            .filter(|following| following.iter().all(|byte| matches!(byte, 0x80..=0xbf)));
        let character = character.and_then(|following| {
            char::from_u32(
                following.iter().fold(u32::from(bits), |code, byte| code << 6 | u32::from(byte & 0x3f)),
            )
        });
        let length = if let Some(character) = character {
            text.push(character);
            following
        } else {
            text.push(char::from(*first));
            0
        };
        rest = &after[length..];
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn may_be(raw: &str, wanted: &str) -> bool {
        PathReadings::of(raw).iter().any(|reading| reading == wanted)
    }

    #[test]
    fn a_path_is_read_in_every_way_that_a_server_may_read_it() {
        for path in [
            "/tickets",
            "/%74ickets",
            "/%2574ickets",
            "/%252574ickets",
            "//tickets",
            "/./tickets",
            "/x/../tickets",
            "/x/%2e%2e/tickets",
            "/x/%252e%252e/tickets",
            "/x%2f..%2ftickets",
            "/x%5c..%5ctickets",
            "/x\\..\\tickets",
            "/x/..;a=1/tickets",
            "/tickets;a=1",
            "/;a/tickets",
            "/%c1%b4ickets",
            "/x/%c0%ae%c0%ae/tickets",
            "/%u0074ickets",
            "//any.host/tickets",
            "/\\any.host/tickets",
            "/tickets%00.css",
            "/tickets%3fa",
            "/(S(abc))/tickets",
            "/(A(a)S(b))/tickets",
            // Resolved first, decoded afterwards, and not resolved again.
            "/x/../%74ickets%00/../y",
        ] {
            assert!(may_be(path, "/tickets"), "{path}: {:?}", PathReadings::of(path));
        }
        assert!(may_be("/x/../%74ickets/%2e%2e/y", "/tickets/../y"));
        assert!(may_be("//tickets/../y", "/tickets/../y"));
        assert!(!may_be("/ticket", "/tickets"));
        assert!(may_be("/100%", "/100%") && may_be("/%zz%4", "/%zz%4"), "what is no escape stays");
        assert!(may_be("/caf%e9", "/café") && may_be("/caf%C3%A9", "/café"));
        assert_eq!(PathReadings::of("/search/cats.html").iter().count(), 1, "nothing to do");
        assert!(PathReadings::of("/a/%2e%2e/b").has_dot_dot && !PathReadings::of("/a..b/%20").has_dot_dot);
    }

    #[test]
    fn a_path_with_too_many_readings_may_be_any() {
        let deep = format!("//any.host/%{}2e", "25".repeat(40));
        let readings = PathReadings::of(&deep);
        assert!(readings.is_unbounded && readings.iter().count() == READINGS_MAX);
        let long = format!("/{}", "%41".repeat(10_000));
        assert!(PathReadings::of(&long).iter().count() < 8);
    }
}
