//! The addresses that an `OpenID` client gets its visitors back at: which may be registered, and which one of a request is one of
//! them.
//!
//! A prefix or a pattern would let an attacker who finds an open redirect below it collect codes, so addresses are compared as strings, each
//! character with each (RFC 9700, RFC 3986 section 6.2.1). Only the port of a loopback address is free, because an app on a
//! visitor's machine takes the one it can get (RFC 8252).

use anteroom_core::settings::ReturnAddress;

/// Longest address, in bytes.
pub const REDIRECT_ADDRESS_MAX_BYTES: usize = 512;

/// The beginnings of addresses of the visitor's own machine. Their port is free, and they need no TLS: nothing leaves the machine.
const LOOPBACK: [&str; 3] = ["http://127.0.0.1", "http://[::1]", "http://localhost"];

/// What an answer adds to the query of an address (RFC 6749, RFC 9207).
const ANSWER_FIELDS: [&str; 6] = ["code", "state", "iss", "error", "error_description", "error_uri"];

/// Why an address is none that visitors may be sent to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadAddress {
    /// See [`REDIRECT_ADDRESS_MAX_BYTES`].
    #[error("is longer than {REDIRECT_ADDRESS_MAX_BYTES} bytes")]
    TooLong,
    /// Others are written with `%`.
    #[error("has a character that addresses do not have; write it as %XX")]
    Character,
    /// It would match nothing.
    #[error("has a \"*\": addresses are compared as they stand, there are no wildcards")]
    Wildcard,
    /// Browsers keep it to themselves.
    #[error("has a fragment (\"#…\")")]
    Fragment,
    /// It misleads readers.
    #[error("has a user name before \"@\"")]
    UserInfo,
    /// Codes would be read on the way.
    #[error(
        "begins with http:// and is not on the visitor's own machine (127.0.0.1, [::1] or localhost): use https://"
    )]
    NoTls,
    /// A site that reads the first of two would take what stands in the address for the answer.
    #[error(
        "has a \"code\", \"state\", \"iss\" or \"error…\" in its query: the answer brings these, and would bring them twice"
    )]
    AnswerField,
    /// No other schemes: browsers run some of them.
    #[error(
        "must begin with https://, or with an app's own scheme that has a dot, such as com.example.app:/"
    )]
    Scheme,
    /// Whatever else.
    #[error("is no address with a host, and a path without \".\" and \"..\" between slashes")]
    Malformed,
}

/// Whether a client may register that address to get visitors back at.
pub fn check_redirect_address(address: &str) -> Result<(), BadAddress> {
    check_characters(address)?;
    check_form(address)?;
    let query = address.split_once('?').map_or("", |(_, query)| query);
    if query.split(['&', ';']).any(is_answer_field) { Err(BadAddress::AnswerField) } else { Ok(()) }
}

fn check_form(address: &str) -> Result<(), BadAddress> {
    if address.starts_with("https://") || address.starts_with("http://") {
        return check_web_address(address);
    }
    match address.split_once(':') {
        Some((scheme, rest)) if is_private_use_scheme(scheme) => {
            if rest.contains('@') {
                return Err(BadAddress::UserInfo);
            }
            if rest.starts_with('/') { Ok(()) } else { Err(BadAddress::Malformed) }
        }
        _ => Err(BadAddress::Scheme),
    }
}

/// Whether a page that begins a login may stand at that address.
pub(crate) fn check_login_address(address: &str) -> Result<(), BadAddress> {
    check_characters(address)?;
    if !address.starts_with("https://") && !address.starts_with("http://") {
        return Err(BadAddress::Malformed);
    }
    check_web_address(address)
}

/// Whether a request's address is the registered one.
pub(crate) fn is_same_address(registered: &str, shown: &str) -> bool {
    if registered == shown {
        return true;
    }
    match (without_loopback_port(registered), without_loopback_port(shown)) {
        (Some(registered), Some(shown)) => registered == shown,
        _ => false,
    }
}

fn check_characters(address: &str) -> Result<(), BadAddress> {
    if address.len() > REDIRECT_ADDRESS_MAX_BYTES {
        return Err(BadAddress::TooLong);
    }
    if address.contains('*') {
        return Err(BadAddress::Wildcard);
    }
    if address.contains('#') {
        return Err(BadAddress::Fragment);
    }
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:/?[]@!$&'()+,;=%".contains(&byte);
    let is_escape = |escape: &str| {
        escape.get(..2).is_some_and(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))
    };
    if !address.bytes().all(allowed) || !address.split('%').skip(1).all(is_escape) {
        return Err(BadAddress::Character);
    }
    Ok(())
}

fn check_web_address(address: &str) -> Result<(), BadAddress> {
    let (_, rest) = address.split_once("://").ok_or(BadAddress::Malformed)?;
    let authority = &rest[..rest.find(['/', '?']).unwrap_or(rest.len())];
    if authority.contains('@') {
        return Err(BadAddress::UserInfo);
    }
    let without_query = &address[..address.find('?').unwrap_or(address.len())];
    ReturnAddress::parse(without_query).ok_or(BadAddress::Malformed)?;
    if address.starts_with("http://") && without_loopback_port(address).is_none() {
        return Err(BadAddress::NoTls);
    }
    Ok(())
}

/// Whether a field of a query may be read as one of an answer: many sites decode names, some ignore their case, and some take
/// `code[]` for `code`.
fn is_answer_field(field: &str) -> bool {
    let name = without_escapes(field.split('=').next().unwrap_or_default());
    let name = name.split(|&byte| byte == b'[').next().unwrap_or_default().trim_ascii();
    ANSWER_FIELDS.iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes()))
}

/// A text whose escapes were checked, each `%XX` as its byte and each `+` as a space.
fn without_escapes(text: &str) -> Vec<u8> {
    let mut parts = text.split('%');
    let plain = |part: &str| part.replace('+', " ").into_bytes();
    let mut bytes = plain(parts.next().unwrap_or_default());
    for part in parts {
        let (digits, rest) = part.split_at_checked(2).unwrap_or((part, ""));
        bytes.extend(u8::from_str_radix(digits, 16));
        bytes.extend(plain(rest));
    }
    bytes
}

/// A scheme that an app has for itself: the name of a domain of its maker, in reverse. The dot keeps `javascript:` and its like out.
fn is_private_use_scheme(scheme: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"+-.".contains(&byte);
    scheme.contains('.')
        && scheme.bytes().next().is_some_and(|first| first.is_ascii_lowercase())
        && scheme.bytes().all(allowed)
}

/// A loopback address as what stands before and after its port; `None` if it is none.
fn without_loopback_port(address: &str) -> Option<(&'static str, &str)> {
    let is_port = |port: &str| {
        port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok_and(|port| port > 0)
    };
    LOOPBACK.into_iter().find_map(|begin| {
        let rest = address.strip_prefix(begin)?;
        let (port, rest) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let is_whole_host = port.is_empty() || port.strip_prefix(':').is_some_and(is_port);
        is_whole_host.then_some((begin, rest))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_compared_as_they_stand() {
        let registered = "https://shop.example/callback?from=queue";
        assert!(is_same_address(registered, registered));
        for other in [
            "https://shop.example/callback",
            "https://shop.example/callback?from=queue&code=1",
            "https://shop.example/callback/?from=queue",
            "https://shop.example/callback?from=queue#",
            "https://shop.example/Callback?from=queue",
            "https://Shop.example/callback?from=queue",
            "HTTPS://shop.example/callback?from=queue",
            "https://shop.example:443/callback?from=queue",
            "https://shop.example/%63allback?from=queue",
            "https://shop.example/a/../callback?from=queue",
            "https://user@shop.example/callback?from=queue",
            "https://shop.example.evil.example/callback?from=queue",
            "http://shop.example/callback?from=queue",
            " https://shop.example/callback?from=queue",
            "https://shop.example/callback?from=queue\n",
            "",
        ] {
            assert!(!is_same_address(registered, other), "{other}");
        }
    }

    #[test]
    fn the_port_of_a_loopback_address_is_free_and_nothing_else() {
        for (registered, host) in [
            ("http://127.0.0.1/cb", "127.0.0.1"),
            ("http://127.0.0.1:8080/cb", "127.0.0.1"),
            ("http://[::1]/cb", "[::1]"),
            ("http://localhost:1/cb", "localhost"),
        ] {
            for good in ["", ":1", ":8080", ":65535"] {
                let shown = format!("http://{host}{good}/cb");
                assert!(is_same_address(registered, &shown), "{shown}");
            }
            for bad in ["", ":1"].map(|port| format!("http://{host}{port}")).iter().flat_map(|begin| {
                ["", "/", "/cb/", "/cb?a=b", "/CB", "@evil.example/cb", ".evil.example/cb"]
                    .map(|rest| format!("{begin}{rest}"))
            }) {
                assert!(!is_same_address(registered, &bad), "{bad}");
            }
            for port in [":", ":0", ":65536", ":+80", ":8o", ":80:80", ":80@evil.example", "1", ":80\\"] {
                let shown = format!("http://{host}{port}/cb");
                assert!(!is_same_address(registered, &shown), "{shown}");
            }
            let with_tls = format!("https://{host}/cb");
            assert!(!is_same_address(registered, &with_tls), "{with_tls}");
        }
        assert!(!is_same_address("http://127.0.0.1/cb", "http://[::1]/cb"), "one name is not another");
        assert!(!is_same_address("http://127.0.0.1/cb", "http://127.0.0.2/cb"));
        assert!(
            !is_same_address("https://localhost:1/cb", "https://localhost:2/cb"),
            "with TLS it is a site"
        );
    }

    #[test]
    fn good_addresses_can_be_registered() {
        for good in [
            "https://shop.example",
            "https://shop.example/",
            "https://shop.example:8443/oauth/callback?tenant=1&a=%20b",
            "https://[2001:db8::1]/cb",
            "https://192.0.2.7/cb",
            "https://intranet/cb",
            "http://127.0.0.1/cb",
            "http://127.0.0.1:8080/cb",
            "http://[::1]:3000/cb",
            "http://localhost/cb",
            "com.example.app:/cb",
            "com.example.app://cb",
            "https://shop.example/code=1/cb?barcode=1&codes=2&my_state=3&a=code&b=%26code%3D1&error_page=4",
        ] {
            assert_eq!(check_redirect_address(good), Ok(()), "{good}");
        }
        let longest = format!("https://shop.example/{}", "a".repeat(REDIRECT_ADDRESS_MAX_BYTES - 21));
        assert_eq!(check_redirect_address(&longest), Ok(()));
        assert_eq!(check_redirect_address(&format!("{longest}a")), Err(BadAddress::TooLong));
    }

    #[test]
    fn bad_addresses_are_named_for_what_is_wrong_with_them() {
        for (bad, why) in [
            ("", BadAddress::Scheme),
            ("/callback", BadAddress::Scheme),
            ("//shop.example/callback", BadAddress::Scheme),
            ("shop.example/callback", BadAddress::Scheme),
            ("HTTPS://shop.example/callback", BadAddress::Scheme),
            ("javascript:alert(1)", BadAddress::Scheme),
            ("data:text/html,x", BadAddress::Scheme),
            ("myapp:/cb", BadAddress::Scheme),
            ("com.Example.app:/cb", BadAddress::Scheme),
            (".app:/cb", BadAddress::Scheme),
            ("com.example.app:cb", BadAddress::Malformed),
            ("com.example.app://user@cb", BadAddress::UserInfo),
            ("http://shop.example/cb", BadAddress::NoTls),
            ("http://127.0.0.2/cb", BadAddress::NoTls),
            ("http://localhost.evil.example/cb", BadAddress::NoTls),
            ("http://127.0.0.1:0/cb", BadAddress::NoTls),
            ("https://shop.example/cb#part", BadAddress::Fragment),
            ("https://user@shop.example/cb", BadAddress::UserInfo),
            ("https://user:pass@shop.example/cb", BadAddress::UserInfo),
            ("http://localhost@evil.example/cb", BadAddress::UserInfo),
            ("https://*.shop.example/cb", BadAddress::Wildcard),
            ("https://shop.example/*", BadAddress::Wildcard),
            ("https://shop.example/a b", BadAddress::Character),
            ("https://shop.example/a\nb", BadAddress::Character),
            ("https://shop.example/ä", BadAddress::Character),
            ("https://shop.example\\@evil.example/", BadAddress::Character),
            ("https://shop.example/%zz", BadAddress::Character),
            ("https://shop.example/%2", BadAddress::Character),
            ("https://", BadAddress::Malformed),
            ("https:///cb", BadAddress::Malformed),
            ("https://?a", BadAddress::Malformed),
            ("https://shop.example:99999/cb", BadAddress::Malformed),
            ("https://shop.example/a/../cb", BadAddress::Malformed),
            ("https://shop.example/a/%2e%2e/cb", BadAddress::Malformed),
        ] {
            assert_eq!(check_redirect_address(bad), Err(why), "{bad}");
        }
    }

    /// Otherwise a site that reads the first of two would take the address's word for the answer.
    #[test]
    fn an_address_has_nothing_that_an_answer_brings() {
        for field in [
            "code=1",
            "code",
            "CODE=1",
            "code[]=1",
            "%63ode=1",
            "%63%6F%64%65=1",
            "c%6fde%5B%5D=1",
            "+code=1",
            "%20code=1",
            "state=",
            "st%61te=x",
            "iss=https://evil.example",
            "error=access_denied",
            "error_description=x",
            "error_uri=x",
        ] {
            for query in
                [field.to_owned(), format!("a=b&{field}"), format!("a=b;{field}&c=d"), format!("?{field}")]
            {
                for begin in ["https://shop.example/cb", "http://127.0.0.1/cb", "com.example.app:/cb"] {
                    let address = format!("{begin}?{query}");
                    let expected = if query.starts_with('?') { Ok(()) } else { Err(BadAddress::AnswerField) };
                    assert_eq!(check_redirect_address(&address), expected, "{address}");
                }
            }
        }
    }

    #[test]
    fn a_login_begins_on_a_web_page() {
        assert_eq!(check_login_address("https://shop.example/login"), Ok(()));
        assert_eq!(check_login_address("http://localhost:3000/login"), Ok(()));
        assert_eq!(check_login_address("http://shop.example/login"), Err(BadAddress::NoTls));
        assert_eq!(check_login_address("com.example.app:/login"), Err(BadAddress::Malformed));
    }
}
