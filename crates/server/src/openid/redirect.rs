//! The address that a visitor is sent back to, with the answer in its query.

use std::fmt::Write;

use crate::openid::parameters::encode_form_text;

/// An address with parameters added to those that its query has. Registered addresses have no fragment.
pub(crate) fn with_parameters(address: &str, parameters: &[(&str, &str)]) -> String {
    let mut result = address.to_owned();
    for (name, value) in parameters {
        let separator = match (result.contains('?'), result.ends_with(['?', '&'])) {
            (false, _) => "?",
            (true, true) => "",
            (true, false) => "&",
        };
        write!(result, "{separator}{name}={}", encode_form_text(value)).expect("a String takes everything");
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_added_to_those_that_are_there() {
        let answer = [("code", "a.b"), ("state", "x&y=z #é")];
        let added = "code=a.b&state=x%26y%3Dz%20%23%C3%A9";
        for (address, expected) in [
            ("https://a.example/cb", format!("https://a.example/cb?{added}")),
            ("https://a.example/cb?", format!("https://a.example/cb?{added}")),
            ("https://a.example/cb?x=1", format!("https://a.example/cb?x=1&{added}")),
            ("https://a.example/cb?x=1&", format!("https://a.example/cb?x=1&{added}")),
        ] {
            assert_eq!(with_parameters(address, &answer), expected);
        }
    }
}
