//! Signatures that are not ours. `vectors/sigv4_published.json` has those that AWS published; `vectors/sigv4_signers.json` has
//! requests as aws-requests-auth, boto's signer and aws4fetch put them on the wire, recorded by `vectors/sigv4/make.py`.

#![expect(clippy::unwrap_used, reason = "a vector that cannot be read is a failed test")]

use anteroom_core::ids::UnixMillis;
use anteroom_tokens::sigv4::{self, AccessKeyId, Authorization, Credentials, SecretAccessKey, SignedRequest};
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
