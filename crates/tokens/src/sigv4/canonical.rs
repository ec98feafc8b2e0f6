//! The parts of a request in the form that is signed.
//!
//! Signers do not agree on every detail, so a path and a query have a few forms and a signature over any of them is accepted. *Invariant:* every
//! accepted form, read back, means what the request says (up to the order of a query's parameters, which no signature of this kind
//! protects). Therefore a signature that was made for one request can never be used for another that means something else, whichever form
//! its signer chose. What `+` means in a query is decided with it: a space, as every form and every handler of ours reads it.

use super::SigV4Error;

/// Names that make a query a presigned URL.
const PRESIGNED_PARAMETERS: [&str; 3] = ["X-Amz-Algorithm", "X-Amz-Credential", "X-Amz-Signature"];

/// The forms of a path, the one we sign with first.
///
/// 1. Every byte of the path as sent is encoded, an escape's `%` too: *double encoding*, as the SDKs do for every service but S3.
/// 2. Escapes stay as they are: *single encoding*, as S3 has it and signers without a notion of services (older curl).
///
/// A path with a `%25` has the first form only. `/a%2520b` in the second form is `/a%20b` in the first: two paths, one text.
pub(super) fn paths(path: &str) -> Result<Vec<String>, SigV4Error> {
    // Some signers remove such segments before they sign and some do not; no route of ours has any.
    let mut segments = path.strip_prefix('/').ok_or(SigV4Error::PathSegments)?.split('/').rev();
    let last = segments.next().unwrap_or_default();
    if matches!(last, "." | "..") || segments.any(|segment| matches!(segment, "" | "." | "..")) {
        return Err(SigV4Error::PathSegments);
    }
    let mut double_encoded = String::new();
    for byte in path.bytes() {
        encode(&mut double_encoded, byte, b"/");
    }
    let mut forms = vec![double_encoded];
    forms.extend(encode_once(path).filter(|form| *form != forms[0]));
    Ok(forms)
}

/// The path with its escapes as they are. None if one of them is broken or stands for a `%`.
fn encode_once(path: &str) -> Option<String> {
    let mut encoded = String::new();
    let mut rest = path.as_bytes();
    while let [byte, after @ ..] = rest {
        if *byte == b'%' {
            let digits = after.first_chunk::<2>().filter(|digits| *digits != b"25")?;
            hexadecimal_value(*digits)?;
        }
        encode(&mut encoded, *byte, b"/%");
        rest = after;
    }
    Some(encoded)
}

/// The forms of a query, the one we sign with first. Both are sorted by name and then by value; a name without `=` gets one.
///
/// 1. Every parameter is decoded as forms are and encoded anew, as AWS says and aws4fetch does.
/// 2. The parameters stay as they were sent, as boto's signer and aws-requests-auth do.
pub(super) fn queries(query: &str) -> Vec<String> {
    let encoded = parameters(query).map(|(name, value)| (reencode(name), reencode(value)));
    let mut forms = vec![join_parameters(encoded.collect())];
    let as_sent = join_parameters(parameters(query).collect());
    if as_sent != forms[0] {
        forms.push(as_sent);
    }
    forms
}

/// Whether the query carries a signature of its own.
pub(super) fn is_presigned(query: &str) -> bool {
    let names = parameters(query).map(|(name, _)| percent_decode(name));
    let is_one =
        |name: &Vec<u8>| PRESIGNED_PARAMETERS.iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes()));
    names.into_iter().any(|name| is_one(&name))
}

/// The signed headers, one a line: name, colon, values joined by commas.
pub(super) fn headers(headers: &[(&str, &[u8])], signed: &[String]) -> Result<Vec<u8>, SigV4Error> {
    let mut lines = Vec::new();
    for name in signed {
        lines.extend_from_slice(name.as_bytes());
        let mut separator = b':';
        for (_, value) in headers.iter().filter(|(other, _)| other.eq_ignore_ascii_case(name)) {
            lines.push(separator);
            separator = b',';
            append_trimmed(&mut lines, value);
        }
        if separator == b':' {
            return Err(SigV4Error::SignedHeaderMissing);
        }
        lines.push(b'\n');
    }
    Ok(lines)
}

/// A value without blanks around it and with single spaces inside.
fn append_trimmed(line: &mut Vec<u8>, value: &[u8]) {
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    for (index, word) in value.split(is_blank).filter(|word| !word.is_empty()).enumerate() {
        if index > 0 {
            line.push(b' ');
        }
        line.extend_from_slice(word);
    }
}

/// Names and values as sent; what stands between two `&` without anything in it is no parameter.
fn parameters(query: &str) -> impl Iterator<Item = (&str, &str)> {
    query.split('&').filter(|pair| !pair.is_empty()).map(|pair| pair.split_once('=').unwrap_or((pair, "")))
}

fn join_parameters<Text: AsRef<str> + Ord>(mut parameters: Vec<(Text, Text)>) -> String {
    parameters.sort();
    let pairs = parameters.iter().map(|(name, value)| format!("{}={}", name.as_ref(), value.as_ref()));
    pairs.collect::<Vec<_>>().join("&")
}

fn reencode(text: &str) -> String {
    let mut encoded = String::new();
    for byte in percent_decode(text) {
        encode(&mut encoded, byte, b"");
    }
    encoded
}

/// The bytes a form means by `text`: escapes undone, `+` a space, a `%` that begins no escape itself.
fn percent_decode(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [byte, after @ ..] = rest {
        let escape = (*byte == b'%').then(|| after.split_first_chunk::<2>()).flatten();
        let value = escape.and_then(|(digits, after)| Some((hexadecimal_value(*digits)?, after)));
        let plain = if *byte == b'+' { b' ' } else { *byte };
        let (byte, after) = value.unwrap_or((plain, after));
        bytes.push(byte);
        rest = after;
    }
    bytes
}

/// Appends a byte, encoded unless it is unreserved in RFC 3986 or one of `also_plain`.
fn encode(encoded: &mut String, byte: u8, also_plain: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) || also_plain.contains(&byte) {
        encoded.push(char::from(byte));
    } else {
        let [high, low] = [byte >> 4, byte & 15].map(|digit| char::from(DIGITS[usize::from(digit)]));
        encoded.extend(['%', high, low]);
    }
}

fn hexadecimal_value(digits: [u8; 2]) -> Option<u8> {
    let [high, low] = digits.map(|digit| char::from(digit).to_digit(16));
    u8::try_from(high? << 4 | low?).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_plain_path_has_one_form_and_a_path_with_escapes_two() {
        for (path, forms) in [
            ("/", &["/"][..]),
            ("/num_active_tokens", &["/num_active_tokens"]),
            ("/a-b.c~d/", &["/a-b.c~d/"]),
            ("/a:b@c", &["/a%3Ab%40c"]),
            ("/é", &["/%C3%A9"]),
            ("/a%20b", &["/a%2520b", "/a%20b"]),
            ("/a%2fb:", &["/a%252fb%3A", "/a%2fb%3A"]),
            // Those whose single encoding could be another path's double encoding have only the one form.
            ("/a%2520b", &["/a%252520b"]),
            ("/100%", &["/100%25"]),
            ("/%zz", &["/%25zz"]),
            ("/%2", &["/%252"]),
        ] {
            assert_eq!(paths(path).unwrap(), forms, "{path}");
        }
    }

    #[test]
    fn paths_that_signers_would_rewrite_are_refused() {
        for path in ["", "a", "*", "//", "//a", "/a//b", "/.", "/..", "/a/./b", "/a/../b", "/a/..", "/./"] {
            assert_eq!(paths(path), Err(SigV4Error::PathSegments), "{path}");
        }
        for path in ["/...", "/.a", "/a.", "/a/", "/%2e%2e"] {
            assert!(paths(path).is_ok(), "{path}");
        }
    }

    #[test]
    fn a_query_is_sorted_and_encoded_anew_or_as_it_was_sent() {
        for (query, forms) in [
            ("", &[""][..]),
            ("&", &[""]),
            ("event_id=Sample", &["event_id=Sample"]),
            ("b=2&a=1", &["a=1&b=2"]),
            ("a=2&a=1&a", &["a=&a=1&a=2"]),
            // By the name, not by the whole text, where `-` would come before `=`.
            ("a-=1&a=1", &["a=1&a-=1"]),
            ("B=1&a=1&A=1", &["A=1&B=1&a=1"]),
            ("a=1&&b=2&", &["a=1&b=2"]),
            ("=1", &["=1"]),
            ("a=b=c", &["a=b%3Dc", "a=b=c"]),
            ("a=b+c%20d", &["a=b%20c%20d", "a=b+c%20d"]),
            ("a=%2b%7e%c3%a9", &["a=%2B~%C3%A9", "a=%2b%7e%c3%a9"]),
            ("é=%zz%", &["%C3%A9=%25zz%25", "é=%zz%"]),
        ] {
            assert_eq!(queries(query), forms, "{query}");
        }
    }

    #[test]
    fn presigned_urls_are_recognised() {
        for query in ["X-Amz-Signature=a", "a=b&X-Amz-Algorithm", "x-amz-credential=", "X%2dAmz-Signature=1"]
        {
            assert!(is_presigned(query), "{query}");
        }
        for query in ["", "a=X-Amz-Signature", "X-Amz-Date=1", "X-Amz-Signature2=1"] {
            assert!(!is_presigned(query), "{query}");
        }
    }

    #[test]
    fn header_values_are_trimmed_and_repeated_ones_joined() {
        let sent: [(&str, &[u8]); 5] = [
            ("Host", b"example"),
            ("My-Header", b"  b \t  c  "),
            ("other", b"x"),
            ("my-header", b"\"a   b\""),
            ("my-header", b""),
        ];
        let signed = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let lines = headers(&sent, &signed(&["host", "my-header"])).unwrap();
        assert_eq!(String::from_utf8(lines).unwrap(), "host:example\nmy-header:b c,\"a b\",\n");
        assert_eq!(headers(&sent, &signed(&["host", "not-there"])), Err(SigV4Error::SignedHeaderMissing));
    }

    /// What a form of a path means, segment by segment, when it is read back once.
    fn meaning(form: &str) -> Vec<Vec<u8>> {
        form.split('/').map(|segment| percent_decode(&segment.replace('+', "%2B"))).collect()
    }

    proptest! {
        #[test]
        fn two_paths_with_a_form_in_common_mean_the_same(
            one in "/(a|b|:|\\+|é|/x|%20|%25|%2520|%2F|%41|%|2|5){0,6}",
            other in "/(a|b|:|\\+|é|/x|%20|%25|%2520|%2F|%41|%|2|5){0,6}",
        ) {
            if let (Ok(forms), Ok(others)) = (paths(&one), paths(&other)) {
                let common = forms.iter().any(|form| others.contains(form));
                prop_assert!(!common || meaning(&one) == meaning(&other), "{} {}", one, other);
                // Every form but the double one reads back as the path itself.
                for form in &forms[1..] {
                    prop_assert_eq!(meaning(form), meaning(&one));
                }
            }
        }

        #[test]
        fn every_form_of_a_query_means_the_query(query in "(a|b|=|&|\\+|é|%20|%2B|%26|%3D|%|2|5){0,12}") {
            let pairs = |text: &str| {
                let mut pairs: Vec<_> = parameters(text).map(|(name, value)| (percent_decode(name), percent_decode(value))).collect();
                pairs.sort();
                pairs
            };
            for form in queries(&query) {
                prop_assert_eq!(pairs(&form), pairs(&query), "{}", form);
            }
        }

        #[test]
        fn arbitrary_text_never_panics(text: String) {
            let _forms = paths(&text);
            let _forms = paths(&format!("/{text}"));
            queries(&text);
            is_presigned(&text);
        }
    }
}
