//! `name=value` on the command line.

use serde_json::Value;

/// A setting and what it shall be.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Assignment {
    pub(super) name: String,
    pub(super) value: Value,
}

impl Assignment {
    /// Reads `name=value`. The value is JSON where it can be read as such, else a text as it stands, so that
    /// `issuer=https://example.com` needs no quotes within quotes.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE, such as validity_period=600")?;
        if name.is_empty() {
            return Err("there is no name before the `=`".to_owned());
        }
        let value = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned()));
        Ok(Self { name: name.to_owned(), value })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_json_and_anything_else_is_a_text() {
        for (text, value) in [
            ("a=500", json!(500)),
            ("a=true", json!(true)),
            ("a=null", json!(null)),
            ("a=max-size", json!("max-size")),
            ("a=https://example.com/?x=1", json!("https://example.com/?x=1")),
            ("a=\"500\"", json!("500")),
            ("a=", json!("")),
        ] {
            assert_eq!(Assignment::parse(text), Ok(Assignment { name: "a".into(), value }), "{text}");
        }
        assert!(Assignment::parse("a").is_err() && Assignment::parse("=1").is_err());
    }
}
