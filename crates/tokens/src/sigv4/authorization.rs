//! The `Authorization` header of a signed request:
//! `AWS4-HMAC-SHA256 Credential=KEY/DATE/REGION/SERVICE/aws4_request, SignedHeaders=a;b, Signature=HEX`.
//!
//! As AWS does, it takes the three parts in any order, with or without spaces around the commas. Everything else has one
//! spelling: what two readers might read in two ways is refused.

use std::fmt;

use super::access_key::AccessKeyId;
use super::{SigV4Error, date};

/// The longest header that is looked at, in bytes. The signers we know write fewer than 500.
pub const AUTHORIZATION_MAX_BYTES: usize = 4096;

/// The most headers that can be signed.
pub const SIGNED_HEADERS_MAX: usize = 64;

/// The longest name of a region, in characters.
pub const REGION_MAX_CHARACTERS: usize = 64;

/// The size of a signature, in bytes.
pub(super) const SIGNATURE_BYTES: usize = 32;

/// The kind of signature, as the header begins and as the signed text does.
pub(super) const ALGORITHM: &str = "AWS4-HMAC-SHA256";

/// How every kind of AWS's signatures, this one and others, begins.
const FAMILY: &str = "AWS4-";

/// The last field of every credential.
pub(super) const TERMINATOR: &str = "aws4_request";

/// A well-formed header. Whether its signature is right is what [`super::verify`] says.
#[derive(Clone, PartialEq, Eq)]
pub struct Authorization {
    pub(super) access_key_id: AccessKeyId,
    /// Eight digits.
    pub(super) day: String,
    pub(super) region: String,
    pub(super) service: String,
    /// In small letters, sorted, each once.
    pub(super) signed_headers: Vec<String>,
    pub(super) signature: [u8; SIGNATURE_BYTES],
}

impl Authorization {
    /// Whether a header is meant for this module: an AWS signature of any version, readable or not.
    pub fn is_aws_signature(header: &str) -> bool {
        header.get(..FAMILY.len()).is_some_and(|start| start.eq_ignore_ascii_case(FAMILY))
    }

    /// Reads a header that must be signed for `service`, which is [`super::SERVICE`] outside of tests.
    pub fn parse(header: &str, service: &str) -> Result<Self, SigV4Error> {
        if header.len() > AUTHORIZATION_MAX_BYTES {
            return Err(SigV4Error::TooLong);
        }
        let parts = header.strip_prefix(ALGORITHM).ok_or(SigV4Error::Algorithm)?;
        let parts = parts.strip_prefix(' ').ok_or(SigV4Error::Algorithm)?;
        let mut credential = Part::new("Credential");
        let mut signed_headers = Part::new("SignedHeaders");
        let mut signature = Part::new("Signature");
        for part in parts.split(',') {
            let (name, value) = part.trim_matches(' ').split_once('=').ok_or(SigV4Error::UnknownPart)?;
            let known = [&mut credential, &mut signed_headers, &mut signature];
            let part = known.into_iter().find(|part| part.name == name);
            part.ok_or(SigV4Error::UnknownPart)?.set(value)?;
        }
        let scope = Scope::parse(credential.get()?, service)?;
        Ok(Self {
            access_key_id: scope.access_key_id,
            day: scope.day.to_owned(),
            region: scope.region.to_owned(),
            service: service.to_owned(),
            signed_headers: parse_signed_headers(signed_headers.get()?)?,
            signature: parse_signature(signature.get()?)?,
        })
    }

    /// Whose signature it claims to be.
    pub fn access_key_id(&self) -> &AccessKeyId {
        &self.access_key_id
    }

    /// The region it was signed for. Any will do: there is one server, wherever its client believes it to be.
    pub fn region(&self) -> &str {
        &self.region
    }

    /// Whether this header, in small letters, is under the signature.
    pub fn signs(&self, name: &str) -> bool {
        self.signed_headers.binary_search_by(|signed| signed.as_str().cmp(name)).is_ok()
    }

    /// What the signature is bound to beside the request.
    pub(super) fn scope(&self) -> String {
        format!("{}/{}/{}/{TERMINATOR}", self.day, self.region, self.service)
    }

    /// The header as signers write it.
    pub(super) fn to_header(&self) -> String {
        format!(
            "{ALGORITHM} Credential={}/{}, SignedHeaders={}, Signature={}",
            self.access_key_id,
            self.scope(),
            self.signed_headers.join(";"),
            super::hexadecimal(&self.signature)
        )
    }
}

impl fmt::Debug for Authorization {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Authorization")
            .field("access_key_id", &self.access_key_id)
            .finish_non_exhaustive()
    }
}

/// One of the three parts while the header is read.
struct Part<'header> {
    name: &'static str,
    value: Option<&'header str>,
}

impl<'header> Part<'header> {
    fn new(name: &'static str) -> Self {
        Self { name, value: None }
    }

    fn set(&mut self, value: &'header str) -> Result<(), SigV4Error> {
        match self.value.replace(value) {
            None => Ok(()),
            Some(_) => Err(SigV4Error::RepeatedPart(self.name)),
        }
    }

    fn get(&self) -> Result<&'header str, SigV4Error> {
        self.value.ok_or(SigV4Error::MissingPart(self.name))
    }
}

/// The fields of a credential that a client may choose.
struct Scope<'header> {
    access_key_id: AccessKeyId,
    day: &'header str,
    region: &'header str,
}

impl<'header> Scope<'header> {
    fn parse(credential: &'header str, expected_service: &str) -> Result<Self, SigV4Error> {
        let fields: Vec<&str> = credential.splitn(6, '/').collect();
        let [access_key_id, day, region, service, TERMINATOR] = fields[..] else {
            return Err(SigV4Error::Credential);
        };
        let access_key_id = AccessKeyId::parse(access_key_id)?;
        if !date::is_day(day) {
            return Err(SigV4Error::ScopeDate);
        }
        let visible = region.bytes().all(|byte| byte.is_ascii_graphic());
        if !visible || !(1..=REGION_MAX_CHARACTERS).contains(&region.len()) {
            return Err(SigV4Error::Region);
        }
        if service != expected_service {
            return Err(SigV4Error::Service);
        }
        Ok(Self { access_key_id, day, region })
    }
}

fn parse_signed_headers(text: &str) -> Result<Vec<String>, SigV4Error> {
    let names: Vec<&str> = text.splitn(SIGNED_HEADERS_MAX + 1, ';').collect();
    let sorted = names.is_sorted_by(|left, right| left < right);
    if !sorted || names.len() > SIGNED_HEADERS_MAX || !names.iter().all(|name| is_header_name(name)) {
        return Err(SigV4Error::SignedHeaders);
    }
    Ok(names.into_iter().map(str::to_owned).collect())
}

/// HTTP's characters of a field name, without capital letters.
fn is_header_name(name: &str) -> bool {
    let allowed = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9') || b"!#$%&'*+-.^_`|~".contains(&byte);
    !name.is_empty() && name.bytes().all(allowed)
}

fn parse_signature(text: &str) -> Result<[u8; SIGNATURE_BYTES], SigV4Error> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let mut signature = [0; SIGNATURE_BYTES];
    let (pairs, []) = text.as_bytes().as_chunks::<2>() else { return Err(SigV4Error::Signature) };
    if pairs.len() != SIGNATURE_BYTES {
        return Err(SigV4Error::Signature);
    }
    for (byte, [high, low]) in signature.iter_mut().zip(pairs) {
        let (Some(high), Some(low)) = (digit(*high), digit(*low)) else { return Err(SigV4Error::Signature) };
        *byte = high << 4 | low;
    }
    Ok(signature)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CREDENTIAL: &str = "Credential=AKIDEXAMPLE/20150830/us-east-1/execute-api/aws4_request";
    const SIGNED: &str = "SignedHeaders=host;x-amz-date";
    const SIGNATURE: &str = "Signature=5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31";

    fn parse(header: &str) -> Result<Authorization, SigV4Error> {
        Authorization::parse(header, "execute-api")
    }

    #[test]
    fn the_parts_are_read_in_any_order_with_and_without_spaces() {
        let usual = parse(&format!("{ALGORITHM} {CREDENTIAL}, {SIGNED}, {SIGNATURE}")).unwrap();
        assert_eq!(usual.access_key_id().as_str(), "AKIDEXAMPLE");
        assert_eq!(usual.region(), "us-east-1");
        assert_eq!(usual.scope(), "20150830/us-east-1/execute-api/aws4_request");
        assert!(usual.signs("host") && usual.signs("x-amz-date"));
        assert!(!usual.signs("Host") && !usual.signs("date") && !usual.signs(""));
        assert_eq!(usual.signature[..2], [0x5f, 0xa0]);
        for header in [
            format!("{ALGORITHM} {CREDENTIAL},{SIGNED},{SIGNATURE}"),
            format!("{ALGORITHM} {SIGNATURE} , {CREDENTIAL},   {SIGNED}"),
            format!("{ALGORITHM}   {SIGNED}, {SIGNATURE}, {CREDENTIAL} "),
        ] {
            assert!(parse(&header).unwrap() == usual, "{header}");
        }
        assert_eq!(usual.to_header(), format!("{ALGORITHM} {CREDENTIAL}, {SIGNED}, {SIGNATURE}"));
    }

    #[test]
    fn other_schemes_are_told_apart() {
        for header in ["AWS4-HMAC-SHA256 x", "aws4-hmac-sha256", "AWS4-ECDSA-P256-SHA256 Credential=a"] {
            assert!(Authorization::is_aws_signature(header), "{header}");
        }
        for header in ["", "AWS4", "Bearer AWS4-HMAC-SHA256", "AWS AKID:signature", "é", "AWS\u{e9}4-"] {
            assert!(!Authorization::is_aws_signature(header), "{header}");
        }
        for start in
            ["AWS4-ECDSA-P256-SHA256 ", "aws4-hmac-sha256 ", "AWS4-HMAC-SHA2567 ", "AWS4-HMAC-SHA256"]
        {
            let header = format!("{start}{CREDENTIAL}, {SIGNED}, {SIGNATURE}");
            assert_eq!(parse(&header), Err(SigV4Error::Algorithm), "{header}");
        }
    }

    #[test]
    fn missing_repeated_and_unknown_parts_are_refused() {
        let refused = |parts: &str| parse(&format!("{ALGORITHM} {parts}")).unwrap_err();
        assert_eq!(refused(&format!("{SIGNED}, {SIGNATURE}")), SigV4Error::MissingPart("Credential"));
        assert_eq!(refused(&format!("{CREDENTIAL}, {SIGNATURE}")), SigV4Error::MissingPart("SignedHeaders"));
        assert_eq!(refused(&format!("{CREDENTIAL}, {SIGNED}")), SigV4Error::MissingPart("Signature"));
        let all = format!("{CREDENTIAL}, {SIGNED}, {SIGNATURE}");
        for (part, name) in [(CREDENTIAL, "Credential"), (SIGNED, "SignedHeaders"), (SIGNATURE, "Signature")]
        {
            assert_eq!(refused(&format!("{all}, {part}")), SigV4Error::RepeatedPart(name));
        }
        for more in ["", ",", "x", "Extra=1", "credential=a", "Signature =a", "=", "\tSignature=a"] {
            assert_eq!(refused(&format!("{all},{more}")), SigV4Error::UnknownPart, "{more:?}");
        }
        assert_eq!(refused(""), SigV4Error::UnknownPart);
        let long = format!("{ALGORITHM} {all}, {}", "x".repeat(AUTHORIZATION_MAX_BYTES));
        assert_eq!(parse(&long), Err(SigV4Error::TooLong));
    }

    #[test]
    fn misshapen_credentials_are_refused() {
        let long_region = format!("A/20150830/{}/execute-api/aws4_request", "r".repeat(65));
        for (credential, expected) in [
            ("", SigV4Error::Credential),
            ("A/20150830/us-east-1/execute-api", SigV4Error::Credential),
            ("A/20150830/us-east-1/execute-api/aws4_request/", SigV4Error::Credential),
            ("A/20150830/us-east-1/execute-api/aws4_request/x/y", SigV4Error::Credential),
            ("A/20150830/us-east-1/execute-api/AWS4_REQUEST", SigV4Error::Credential),
            ("A/20150830/us-east-1/execute-api/aws4_request ", SigV4Error::Credential),
            ("/20150830/us-east-1/execute-api/aws4_request", SigV4Error::AccessKeyId),
            ("A B/20150830/us-east-1/execute-api/aws4_request", SigV4Error::AccessKeyId),
            ("A/2015-08-30/us-east-1/execute-api/aws4_request", SigV4Error::ScopeDate),
            ("A/20150231/us-east-1/execute-api/aws4_request", SigV4Error::ScopeDate),
            ("A//us-east-1/execute-api/aws4_request", SigV4Error::ScopeDate),
            ("A/20150830//execute-api/aws4_request", SigV4Error::Region),
            ("A/20150830/us east/execute-api/aws4_request", SigV4Error::Region),
            (&long_region, SigV4Error::Region),
            ("A/20150830/us-east-1/s3/aws4_request", SigV4Error::Service),
            ("A/20150830/us-east-1/Execute-API/aws4_request", SigV4Error::Service),
            ("A/20150830/us-east-1//aws4_request", SigV4Error::Service),
        ] {
            // A trailing space belongs to the separator, so the comma does not follow at once.
            let header = format!("{ALGORITHM} {SIGNED}, Credential={credential}\u{0}, {SIGNATURE}");
            let header = header.replace('\u{0}', if credential.ends_with(' ') { "x" } else { "" });
            assert_eq!(parse(&header), Err(expected), "{credential}");
        }
    }

    #[test]
    fn misshapen_lists_of_headers_and_signatures_are_refused() {
        let many: Vec<String> = (0..=SIGNED_HEADERS_MAX).map(|number| format!("h{number:03}")).collect();
        let few = many[1..].join(";");
        assert!(parse(&format!("{ALGORITHM} {CREDENTIAL}, SignedHeaders={few}, {SIGNATURE}")).is_ok());
        for names in
            ["", ";", "host;", ";host", "Host", "x-amz-date;host", "host;host", "ho st", "é", &many.join(";")]
        {
            let header = format!("{ALGORITHM} {CREDENTIAL}, SignedHeaders={names}, {SIGNATURE}");
            assert_eq!(parse(&header), Err(SigV4Error::SignedHeaders), "{names}");
        }
        let digits = &SIGNATURE["Signature=".len()..];
        for signature in [
            "",
            &digits[1..],
            &digits[2..],
            &format!("{digits}00"),
            &digits.to_uppercase(),
            &digits.replace('5', "g"),
        ] {
            let header = format!("{ALGORITHM} {CREDENTIAL}, {SIGNED}, Signature={signature}");
            assert_eq!(parse(&header), Err(SigV4Error::Signature), "{signature}");
        }
    }

    #[test]
    fn debug_output_holds_no_signature() {
        let shown = format!("{:?}", parse(&format!("{ALGORITHM} {CREDENTIAL}, {SIGNED}, {SIGNATURE}")));
        assert_eq!(shown, "Ok(Authorization { access_key_id: AccessKeyId(\"AKIDEXAMPLE\"), .. })");
    }

    proptest! {
        #[test]
        fn arbitrary_text_never_panics(text: String) {
            Authorization::is_aws_signature(&text);
            prop_assert!(parse(&text).is_err());
            let with_algorithm = format!("{ALGORITHM} {text}");
            prop_assert!(parse(&with_algorithm).is_err());
        }

        #[test]
        fn what_is_read_is_written_the_same(
            parts in prop::collection::vec("(Credential|SignedHeaders|Signature)=[!-~]{0,80}", 0..4)
        ) {
            let header = format!("{ALGORITHM} {}", parts.join(", "));
            if let Ok(read) = parse(&header) {
                prop_assert!(parse(&read.to_header()).unwrap() == read);
            }
        }
    }
}
