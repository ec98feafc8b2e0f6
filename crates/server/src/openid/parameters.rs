//! The parameters of a request as forms write them (`application/x-www-form-urlencoded`), in a query or in a body.
//!
//! RFC 6749, section 3.1: a parameter without a value counts as left out, one that is not known is passed over, and none may stand
//! there twice.

use std::fmt::Write;

use percent_encoding::percent_decode_str;

/// How many parameters a request may have.
const PARAMETERS_MAX: usize = 32;

/// Why parameters cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UnreadableParameters {
    /// There are too many.
    TooMany,
    /// A name or a value is not UTF-8.
    NotText,
}

impl UnreadableParameters {
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::TooMany => "The request has too many parameters",
            Self::NotText => "The parameters of the request cannot be read",
        }
    }
}

/// The parameters of a request, decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FormParameters(Vec<(String, String)>);

impl FormParameters {
    /// Those of several queries and forms together.
    pub(crate) fn read<'text>(
        forms: impl IntoIterator<Item = &'text str>,
    ) -> Result<Self, UnreadableParameters> {
        let mut parameters = vec![];
        for pair in forms.into_iter().flat_map(|form| form.split('&')).filter(|pair| !pair.is_empty()) {
            if parameters.len() == PARAMETERS_MAX {
                return Err(UnreadableParameters::TooMany);
            }
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (name, value) =
                decode_form_text(name).zip(decode_form_text(value)).ok_or(UnreadableParameters::NotText)?;
            parameters.push((name, value));
        }
        Ok(Self(parameters))
    }

    /// The value of a parameter; nothing if it is left out, empty, or stands there twice.
    pub(crate) fn one(&self, name: &str) -> Option<&str> {
        let mut values = self.values(name);
        let value = values.next().filter(|value| !value.is_empty());
        if values.next().is_some() { None } else { value }
    }

    /// Whether a parameter stands there more than once.
    pub(crate) fn is_repeated(&self, name: &str) -> bool {
        self.values(name).nth(1).is_some()
    }

    /// Whether any parameter does.
    pub(crate) fn has_repeated(&self) -> bool {
        self.0.iter().any(|(name, _)| self.is_repeated(name))
    }

    /// The first value of a parameter, however often it stands there.
    pub(crate) fn first(&self, name: &str) -> Option<&str> {
        self.values(name).next()
    }

    /// The same request as a query, in which nothing is left that a page or a header could misread.
    pub(crate) fn to_query(&self) -> String {
        let pairs = self
            .0
            .iter()
            .map(|(name, value)| format!("{}={}", encode_form_text(name), encode_form_text(value)));
        pairs.collect::<Vec<_>>().join("&")
    }

    fn values<'of>(&'of self, name: &str) -> impl Iterator<Item = &'of str> {
        self.0.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// A name or a value of a form, decoded. An escape that is none stands for itself, as browsers have it.
pub(crate) fn decode_form_text(text: &str) -> Option<String> {
    let spaced = text.replace('+', " ");
    percent_decode_str(&spaced).decode_utf8().ok().map(Into::into)
}

/// A text as the name or the value of a parameter, readable as a form's and as any other query's: a space is `%20`. The gateway writes
/// addresses into its own queries, where a slash stays one and a plus is no space; so it has an encoding of its own.
pub(crate) fn encode_form_text(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            write!(escaped, "%{byte:02X}").expect("a String takes everything");
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(form: &str) -> FormParameters {
        FormParameters::read([form]).unwrap()
    }

    #[test]
    fn forms_are_read_as_browsers_write_them() {
        let parameters = read("scope=openid+email%20x&state=a%26b%3D%2B&empty=&flag&%63lient_id=shop");
        assert_eq!(parameters.one("scope"), Some("openid email x"));
        assert_eq!(parameters.one("state"), Some("a&b=+"));
        assert_eq!(parameters.one("client_id"), Some("shop"));
        assert_eq!((parameters.one("empty"), parameters.one("flag")), (None, None), "as if left out");
        assert_eq!(parameters.one("nothing"), None);
        assert_eq!(read(&parameters.to_query()), parameters, "written and read again");
        assert!(parameters.to_query().bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"'));
    }

    #[test]
    fn a_parameter_that_stands_twice_is_nothing() {
        let parameters = FormParameters::read(["state=a&state=", "nonce=b"]).unwrap();
        assert_eq!(parameters.one("state"), None);
        assert!(parameters.is_repeated("state") && !parameters.is_repeated("nonce"));
        assert!(parameters.has_repeated());
        assert_eq!(parameters.first("state"), Some("a"));
        assert!(!read("a=1&b=1").has_repeated());
    }

    #[test]
    fn what_cannot_be_read_is_refused() {
        assert_eq!(FormParameters::read(["state=%ff"]), Err(UnreadableParameters::NotText));
        let many = "a=1&".repeat(PARAMETERS_MAX + 1);
        assert_eq!(FormParameters::read([many.as_str()]), Err(UnreadableParameters::TooMany));
        assert_eq!(read("state=%zz").one("state"), Some("%zz"));
    }
}
