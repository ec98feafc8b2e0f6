//! One spelling for each path. An origin may answer to `/search`, `//search`, `/./search`, `/search;a=1` and `/%73earch` alike, so
//! neither a budget nor a room must be escaped by writing its path in another way. Rather too much is taken for the same than too
//! little.

use std::borrow::Cow;

/// The path with every escape undone, without empty parts, without parameters of parts, and without `.` and `..`. Allocates only where there is something to do.
pub(crate) fn plain(path: &str) -> Cow<'_, [u8]> {
    let bytes = path.as_bytes();
    let is_plain = !bytes.contains(&b'%')
        && !bytes.contains(&b'\\')
        && !bytes.contains(&b';')
        && !bytes.windows(2).any(|pair| matches!(pair, [b'/', b'/' | b'.']));
    if is_plain {
        return Cow::Borrowed(bytes);
    }
    let unescaped = unescape(bytes);
    let mut parts: Vec<&[u8]> = Vec::new();
    // Some servers take a backslash for a slash.
    let mut all = unescaped.split(|byte| matches!(byte, b'/' | b'\\')).skip(1).peekable();
    let mut ends_with_slash = false;
    while let Some(part) = all.next() {
        let is_last = all.peek().is_none();
        match part.split(|byte| *byte == b';').next().unwrap_or_default() {
            b"" | b"." => ends_with_slash = is_last,
            b".." => {
                parts.pop();
                ends_with_slash = is_last;
            }
            part => parts.push(part),
        }
    }
    let mut plain = Vec::with_capacity(unescaped.len());
    for part in &parts {
        plain.push(b'/');
        plain.extend_from_slice(part);
    }
    if ends_with_slash || parts.is_empty() {
        plain.push(b'/');
    }
    Cow::Owned(plain)
}

fn unescape(bytes: &[u8]) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let mut unescaped = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let [first, after @ ..] = rest {
        rest = after;
        let escape = match (first, after) {
            (b'%', [high, low, ..]) => digit(*high).zip(digit(*low)),
            _ => None,
        };
        match escape {
            Some((high, low)) => {
                unescaped.push(high << 4 | low);
                rest = &after[2..];
            }
            None => unescaped.push(*first),
        }
    }
    unescaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_a_path_is_the_same() {
        for (spelling, expected) in [
            ("/search", "/search"),
            ("/%73earch", "/search"),
            ("/%73%65%61%72%63%68", "/search"),
            ("//search", "/search"),
            ("/./search", "/search"),
            ("/x/../search", "/search"),
            ("/../../search", "/search"),
            ("/x%2F..%2Fsearch", "/search"),
            ("/%2e/search", "/search"),
            ("/x\\..\\search", "/search"),
            ("/search/", "/search/"),
            ("/search//", "/search/"),
            ("/search/.", "/search/"),
            ("/search/x/..", "/search/"),
            ("/search;a=1", "/search"),
            ("/x/..;/search", "/search"),
            ("/caf%C3%A9", "/café"),
            ("/a.b/.c", "/a.b/.c"),
            // What is no escape stays as it is.
            ("/100%", "/100%"),
            ("/%zz%4", "/%zz%4"),
            ("/%+1", "/%+1"),
            ("/", "/"),
            ("//", "/"),
            ("/..", "/"),
        ] {
            assert_eq!(plain(spelling), expected.as_bytes(), "{spelling}");
        }
        assert!(matches!(plain("/search/cats.html"), Cow::Borrowed(_)), "nothing to do");
        assert_eq!(plain("/%ff"), &b"/\xff"[..], "bytes that are no text");
        assert_eq!(plain("*"), &b"*"[..]);
    }
}
