//! Which host a request wants to go to, normalised so that two spellings of one host are one (`Shop.Example:443`,
//! `shop.example.`). `X-Forwarded-Host` is not believed.

use http::{Request, header};

/// The host that a request is for, without its port and without the dot that names may end in; empty if it names none.
pub(crate) fn host_of<B>(request: &Request<B>) -> &str {
    let authority = match request.uri().authority() {
        Some(authority) => authority.as_str(),
        None => request.headers().get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or(""),
    };
    let authority = authority.rsplit('@').next().unwrap_or(authority);
    let host = match authority.rsplit_once(':') {
        // The last colon of an address in brackets is not one before a port.
        Some((host, port)) if !port.ends_with(']') => host,
        _ => authority,
    };
    host.strip_suffix('.').unwrap_or(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_is_named_without_port_and_last_dot() {
        let host = |value: &str| {
            let request = Request::builder().header("host", value).body(()).unwrap();
            host_of(&request).to_owned()
        };
        assert_eq!(host("shop.example:8080"), "shop.example");
        assert_eq!(host("shop.example.:80"), "shop.example");
        assert_eq!(host("[::1]:80"), "[::1]");
        assert_eq!(host("[::1]"), "[::1]");
        assert_eq!(host("shop.example"), "shop.example");
    }
}
