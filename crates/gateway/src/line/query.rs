//! Reading and writing the queries of our own calls.

use std::fmt::Write;

/// The decoded value of a parameter; nothing if it is not there, or cannot be decoded.
pub(crate) fn parameter(query: Option<&str>, name: &str) -> Option<String> {
    decode(query?.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))?)
}

/// A name or a value of a query, decoded; nothing if it cannot be.
pub(crate) fn decode(value: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte == b'%' {
            let (digits, after) = rest.split_at_checked(2)?;
            // `from_str_radix` would take a sign.
            let is_number = digits.iter().all(u8::is_ascii_hexdigit);
            let digits = std::str::from_utf8(digits).ok().filter(|_| is_number)?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = after;
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}

/// Whether a parameter is given, whatever its value.
pub(crate) fn has_parameter(query: Option<&str>, name: &str) -> bool {
    query.is_some_and(|query| query.split('&').any(|pair| pair.split('=').next() == Some(name)))
}

/// The room that a call names. Names of rooms need no decoding.
pub(crate) fn room_named(query: Option<&str>) -> Option<&str> {
    query?.split('&').find_map(|pair| pair.strip_prefix("room="))
}

/// How long an address may be that a page repeats. It does so several times, and escaped.
pub(crate) const ADDRESS_MAX_BYTES: usize = 4_096;

/// The address that a call names to go on to: a path of this very site, and nothing that a browser could read as another.
pub(crate) fn return_path(query: Option<&str>) -> Option<String> {
    let address = parameter(query, "return")?;
    let is_plain = address.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    let is_path = address.starts_with('/') && !address.starts_with("//");
    (is_path && is_plain && address.len() <= ADDRESS_MAX_BYTES).then_some(address)
}

/// A text as the value of a parameter.
pub(crate) fn escape(text: &str) -> String {
    let mut value = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            value.push(char::from(byte));
        } else {
            write!(value, "%{byte:02X}").expect("a String takes everything");
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_return_path_never_leads_to_another_site() {
        let to = |query: &str| return_path(Some(query));
        assert_eq!(to("room=Hall&return=/cart%3Fa%3D1").as_deref(), Some("/cart?a=1"));
        for evil in [
            "//evil.example",
            "/%5Cevil.example",
            "https://evil.example",
            "/%0d%0aSet-Cookie:a",
            "/a%2",
            "/a%+1",
            "%2F%2Fevil.example",
        ] {
            assert_eq!(to(&format!("return={evil}")), None, "{evil}");
        }
    }

    #[test]
    fn what_is_escaped_comes_back() {
        assert_eq!(escape("/a b?c=d&e"), "/a%20b%3Fc%3Dd%26e");
        let text = "https://shop.example/é?a=1&b=%20+#x";
        let query = format!("x=1&return={}&y", escape(text));
        assert_eq!(parameter(Some(&query), "return").as_deref(), Some(text));
        assert!(has_parameter(Some(&query), "y") && !has_parameter(Some(&query), "z"));
        assert_eq!(parameter(None, "return"), None);
    }
}
