//! Signatures that are not ours. `vectors/sigv4_published.json` has those that AWS published; `vectors/sigv4_signers.json` has
//! requests as aws-requests-auth, boto's signer and aws4fetch put them on the wire, recorded by `vectors/sigv4/make.py`.

#![expect(clippy::unwrap_used, reason = "a vector that cannot be read is a failed test")]

use anteroom_core::ids::UnixMillis;
use anteroom_tokens::sigv4::{
    self, AccessKeyId, Authorization, Credentials, OutgoingRequest, SecretAccessKey, SignedRequest,
};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::Value;

const PUBLISHED: &str = include_str!("../vectors/sigv4_published.json");
const SIGNERS: &str = include_str!("../vectors/sigv4_signers.json");

fn text<'value>(value: &'value Value, name: &str) -> &'value str {
    value[name].as_str().unwrap_or_else(|| panic!("{name} in {value}"))
}

fn headers(case: &Value) -> Vec<(&str, &[u8])> {
    let headers = case["headers"].as_array().unwrap().iter();
    headers.map(|header| (header[0].as_str().unwrap(), header[1].as_str().unwrap().as_bytes())).collect()
}

fn request<'case>(case: &'case Value, headers: &'case [(&'case str, &'case [u8])]) -> SignedRequest<'case> {
    let target = text(case, "target");
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    SignedRequest { method: text(case, "method"), path, query, headers, body: text(case, "body").as_bytes() }
}

/// What all cases of a document have in common.
struct Document {
    value: Value,
    access_key_id: AccessKeyId,
    secret: SecretAccessKey,
    now: UnixMillis,
}

impl Document {
    fn read(json: &str) -> Self {
        let value: Value = serde_json::from_str(json).unwrap();
        Self {
            access_key_id: AccessKeyId::parse(text(&value, "access_key_id")).unwrap(),
            secret: SecretAccessKey::parse(text(&value, "secret_access_key")).unwrap(),
            now: UnixMillis(value["now_unix_milliseconds"].as_u64().unwrap()),
            value,
        }
    }

    fn cases(&self) -> &[Value] {
        self.value["cases"].as_array().unwrap()
    }

    fn credentials(&self) -> Credentials<'_> {
        Credentials {
            access_key_id: &self.access_key_id,
            secret: &self.secret,
            region: text(&self.value, "region"),
            service: text(&self.value, "service"),
        }
    }
}

#[test]
fn we_sign_and_verify_as_awss_published_examples_do() {
    let document = Document::read(PUBLISHED);
    for case in document.cases() {
        let headers = headers(case);
        let request = request(case, &headers);
        let names: Vec<&str> = headers.iter().map(|(name, _)| *name).collect();
        let header = sigv4::sign(&request, &document.credentials(), &names).unwrap();
        let expected = format!(", Signature={}", text(case, "signature"));
        assert!(header.ends_with(&expected), "{}: {header}", text(case, "name"));
        let authorization = Authorization::parse(&header, "service").unwrap();
        let verdict = sigv4::verify(&request, &authorization, Some(&document.secret), document.now);
        assert_eq!(verdict, Ok(()), "{}", text(case, "name"));
        assert_eq!(
            Authorization::parse(&header, sigv4::SERVICE),
            Err(sigv4::SigV4Error::Service),
            "of another service"
        );
    }
    assert!(document.cases().len() >= 16);
}

#[test]
fn what_we_send_is_signed_as_awss_published_examples_are() {
    let document = Document::read(PUBLISHED);
    for case in document.cases() {
        let all = headers(case);
        let request = request(case, &all);
        let value = |wanted: &str| {
            let named = all.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted));
            named.map(|(_, value)| std::str::from_utf8(value).unwrap()).unwrap()
        };
        let is_added = |name: &str| ["host", "x-amz-date"].contains(&name.to_ascii_lowercase().as_str());
        let others: Vec<_> = all.iter().copied().filter(|(name, _)| !is_added(name)).collect();
        let outgoing = OutgoingRequest {
            method: request.method,
            host: value("host"),
            path: request.path,
            query: request.query,
            headers: &others,
            body: request.body,
        };
        let signed = sigv4::sign_outgoing(&outgoing, &document.credentials(), None, document.now).unwrap();
        let expected = format!(", Signature={}", text(case, "signature"));
        assert!(signed.authorization.ends_with(&expected), "{}", text(case, "name"));
        assert_eq!(signed.date, value("x-amz-date"));
        let authorization = Authorization::parse(&signed.authorization, "service").unwrap();
        let verdict = sigv4::verify(&request, &authorization, Some(&document.secret), document.now);
        assert_eq!(verdict, Ok(()), "{}", text(case, "name"));
    }
}

/// `post-sts-header-before` of AWS's published test suite: its service's name is that of the others.
#[test]
fn a_session_token_is_signed_as_in_awss_published_example() {
    let document = Document::read(PUBLISHED);
    let token = SecretString::from(
        "AQoDYXdzEPT//////////wEXAMPLEtc764bNrC9SAPBSM22wDOk4x4HIZ8j4FZTwdQWLWsKWHGBuFqwAeMicRXmxfpSPfIeoIYRqTflfKD8YUuwth\
         Ax7mSEI/qkPpKPi/kMcGdQrmGdeehM4IC1NtBmUpp2wUE8phUZampKsburEDy0KPkyQDYwT7WZ0wq5VSXDvp75YU9HFvlRd8Tx6q6fE8YQcHNVXA\
         kiY9q6d+xo0rKwT38xVqr7ZD0u0iPPkUL64lIZbqBAz+scqKmlzm8FDrypNC9Yjc8fPOLn9FX9KSYvKTr4rvx3iSIlTJabIQwj2ICCR/oLxBA==",
    );
    let outgoing = OutgoingRequest {
        method: "POST",
        host: "example.amazonaws.com",
        path: "/",
        query: "",
        headers: &[],
        body: b"",
    };
    let signed =
        sigv4::sign_outgoing(&outgoing, &document.credentials(), Some(&token), document.now).unwrap();
    let expected = "SignedHeaders=host;x-amz-date;x-amz-security-token, \
                    Signature=85d96828115b5dc0cfc3bd16ad9e210dd772bbebba041836c64533a82be05ead";
    assert!(signed.authorization.ends_with(expected), "{}", signed.authorization);
    assert_eq!(signed.session_token.unwrap().expose_secret(), token.expose_secret());
}

#[test]
fn what_other_signers_sent_is_accepted_and_only_with_their_secret() {
    let document = Document::read(SIGNERS);
    let another = SecretAccessKey::generate();
    let mut refused = Vec::new();
    for case in document.cases() {
        let told = format!("{}: {}", text(case, "signer"), text(case, "name"));
        let headers = headers(case);
        let sent = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("authorization")).unwrap();
        let authorization =
            Authorization::parse(std::str::from_utf8(sent.1).unwrap(), sigv4::SERVICE).unwrap();
        assert_eq!(authorization.access_key_id(), &document.access_key_id, "{told}");
        assert_eq!(authorization.region(), text(&document.value, "region"), "{told}");
        let request = request(case, &headers);
        let verify = |secret| sigv4::verify(&request, &authorization, Some(secret), document.now);
        if let Err(error) = verify(&document.secret) {
            refused.push(format!("{told}: {error}: {}", text(case, "target")));
        }
        assert_eq!(verify(&another), Err(sigv4::SigV4Error::Mismatch), "{told}");
    }
    assert_eq!(refused, Vec::<String>::new());
    for signer in ["aws-requests-auth", "botocore", "aws4fetch"] {
        let of_this = document.cases().iter().filter(|case| text(case, "signer") == signer).count();
        assert!(of_this >= 18, "{signer} has only {of_this} cases");
    }
}
