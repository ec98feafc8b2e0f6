//! AWS Signature Version 4, mostly from the server's side: so that the clients of the retired Virtual Waiting Room on AWS can call our
//! private API with nothing changed but its address and their key pair.
//!
//! A client hashes its request in an agreed form (method, path, query, some headers, hash of the body), and signs that
//! hash, the time, a region and a service with a key derived from its secret. We do the same with what arrived and compare.
//!
//! Reading order: [`verify`] below is the story; [`Authorization`] reads the header; `canonical` has the agreed forms and why
//! there can be more than one; `date` the two kinds of dates; `access_key` the key pairs; `error` every reason to refuse;
//! `outgoing` signs what we send to services of AWS.
//!
//! What we ask for is what API Gateway asks for: `host`, the date and every `x-amz-` header must be signed. Two of the latter may
//! come unsigned. `x-amz-content-sha256`, which aws-requests-auth adds after signing: it must be the hash of the body, and that hash is signed
//! anyway. `x-amz-cf-id`, which `CloudFront` adds on the way and nobody reads. A session token must be signed, and is not looked at:
//! our key pairs have none.
//!
//! A signature does not protect against repetition. Within [`CLOCK_SKEW_MAX_MS`] the same bytes are accepted again, as they are by AWS;
//! that is what TLS is for.

mod access_key;
mod authorization;
mod canonical;
mod date;
mod error;
mod outgoing;

use std::fmt::Write as _;

use anteroom_core::ids::UnixMillis;
use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::hmac;
use zeroize::Zeroizing;

pub use access_key::{
    ACCESS_KEY_ID_MAX_CHARACTERS, AccessKeyId, SECRET_ACCESS_KEY_MAX_CHARACTERS, SecretAccessKey,
    SecretAccessKeyError,
};
pub use authorization::{AUTHORIZATION_MAX_BYTES, Authorization, REGION_MAX_CHARACTERS, SIGNED_HEADERS_MAX};
pub use date::timestamp;
pub use error::{CLOCK_SKEW_MAX_MS, SigV4Error};
pub use outgoing::{OutgoingRequest, SignatureHeaders, sign_outgoing};

use authorization::{ALGORITHM, SIGNATURE_BYTES, TERMINATOR};

/// The service that requests must be signed for: the name API Gateway has among AWS's services.
pub const SERVICE: &str = "execute-api";

const HOST: &str = "host";
const DATE: &str = "date";
const AMAZON_DATE: &str = "x-amz-date";
const AMAZON_PREFIX: &str = "x-amz-";
const SESSION_TOKEN: &str = "x-amz-security-token";
const PAYLOAD_HASH: &str = "x-amz-content-sha256";

/// The `x-amz-` headers that may come unsigned; the module's header says why.
const MAY_BE_UNSIGNED: [&str; 2] = [PAYLOAD_HASH, "x-amz-cf-id"];

/// Signed against when there is no such key, so that the answer takes as long as for one that exists.
const PLACEHOLDER_SECRET: &str = "nobody-has-this-secret-and-nothing-opens";

/// A request as it arrived.
#[derive(Clone, Copy)]
pub struct SignedRequest<'request> {
    /// GET, POST, ….
    pub method: &'request str,
    /// The path as it stands in the request line, with its escapes. It must also be what is routed by.
    pub path: &'request str,
    /// What follows the first `?`, with its escapes; empty without one.
    pub query: &'request str,
    /// All headers; repeated ones in their order. Over HTTP/2, where there may be no `host`, the caller adds `:authority` by
    /// that name.
    pub headers: &'request [(&'request str, &'request [u8])],
    /// The whole body.
    pub body: &'request [u8],
}

/// With what a request is signed.
#[derive(Debug, Clone, Copy)]
pub struct Credentials<'key> {
    /// Which key.
    pub access_key_id: &'key AccessKeyId,
    /// Its secret.
    pub secret: &'key SecretAccessKey,
    /// Any; `us-east-1` if there is nothing better.
    pub region: &'key str,
    /// [`SERVICE`] outside of tests.
    pub service: &'key str,
}

/// Whether `request` is what the holder of `secret` signed within [`CLOCK_SKEW_MAX_MS`] of `now`.
///
/// Without a secret (no key of this id, or one that is revoked or expired) everything else is checked all the same and in the same time: only
/// a client that knows the secret of an id can find out that it exists.
pub fn verify(
    request: &SignedRequest<'_>,
    authorization: &Authorization,
    secret: Option<&SecretAccessKey>,
    now: UnixMillis,
) -> Result<(), SigV4Error> {
    if canonical::is_presigned(request.query) {
        return Err(SigV4Error::Presigned);
    }
    let (date_header, signed_at) = request.date()?;
    for required in [HOST, date_header] {
        if !authorization.signs(required) {
            return Err(SigV4Error::NotSigned(required));
        }
    }
    request.amazon_headers_are_signed(authorization)?;
    check_skew(signed_at, now)?;
    let moment = timestamp(signed_at);
    if !moment.starts_with(&authorization.day) {
        return Err(SigV4Error::ScopeDateDiffers);
    }
    request.declared_payload_is_right()?;
    let key = match secret {
        Some(secret) => signing_key(secret.reveal(), authorization),
        None => signing_key(PLACEHOLDER_SECRET, authorization),
    };
    let mut texts = texts_to_sign(request, authorization, &moment)?.into_iter();
    // Each comparison takes the same time whatever its result.
    let matches = texts.any(|text| hmac::verify(&key, text.as_bytes(), &authorization.signature).is_ok());
    match (secret, matches) {
        (None, _) => Err(SigV4Error::UnknownAccessKey),
        (Some(_), false) => Err(SigV4Error::Mismatch),
        (Some(_), true) => Ok(()),
    }
}

/// The `Authorization` header for `request`, which must already have its `host` and its `x-amz-date` ([`timestamp`]). The
/// headers named are signed. It does not ask whether [`verify`] would be content with them.
pub fn sign(
    request: &SignedRequest<'_>,
    credentials: &Credentials<'_>,
    signed_headers: &[&str],
) -> Result<String, SigV4Error> {
    let (_, signed_at) = request.date()?;
    let moment = timestamp(signed_at);
    let mut signed_headers: Vec<String> =
        signed_headers.iter().map(|name| name.to_ascii_lowercase()).collect();
    signed_headers.sort();
    signed_headers.dedup();
    let mut authorization = Authorization {
        access_key_id: credentials.access_key_id.clone(),
        day: moment.chars().take_while(char::is_ascii_digit).collect(),
        region: credentials.region.to_owned(),
        service: credentials.service.to_owned(),
        signed_headers,
        signature: [0; SIGNATURE_BYTES],
    };
    let texts = texts_to_sign(request, &authorization, &moment)?;
    let key = signing_key(credentials.secret.reveal(), &authorization);
    authorization.signature.copy_from_slice(hmac::sign(&key, texts[0].as_bytes()).as_ref());
    Ok(authorization.to_header())
}

impl SignedRequest<'_> {
    fn values<'name>(&self, name: &'name str) -> impl Iterator<Item = &[u8]> + use<'_, 'name> {
        let named = self.headers.iter().filter(move |(other, _)| other.eq_ignore_ascii_case(name));
        named.map(|(_, value)| value.trim_ascii())
    }

    /// When the request says that it was signed, and in which header. As for AWS, `x-amz-date` goes before `date`, which a
    /// browser or proxy may set to what it likes.
    fn date(&self) -> Result<(&'static str, UnixMillis), SigV4Error> {
        let one = |name| {
            let mut values = self.values(name);
            Some((values.next()?, values.next().is_some()))
        };
        let (name, parsed, repeated) = if let Some((value, repeated)) = one(AMAZON_DATE) {
            (AMAZON_DATE, date::parse_timestamp(value), repeated)
        } else if let Some((value, repeated)) = one(DATE) {
            (DATE, date::parse_date_header(value), repeated)
        } else {
            return Err(SigV4Error::DateMissing);
        };
        match parsed {
            Some(moment) if !repeated => Ok((name, moment)),
            _ => Err(SigV4Error::Date),
        }
    }

    fn amazon_headers_are_signed(&self, authorization: &Authorization) -> Result<(), SigV4Error> {
        let names = self.headers.iter().map(|(name, _)| name.to_ascii_lowercase());
        let mut amazons = names.filter(|name| name.starts_with(AMAZON_PREFIX));
        let unsigned =
            |name: String| !MAY_BE_UNSIGNED.contains(&name.as_str()) && !authorization.signs(&name);
        if amazons.any(unsigned) { Err(SigV4Error::AmazonHeaderNotSigned) } else { Ok(()) }
    }

    /// What is signed is the hash of the body that arrived. A client may announce that hash, but nothing else in its place.
    fn declared_payload_is_right(&self) -> Result<(), SigV4Error> {
        for declared in self.values(PAYLOAD_HASH) {
            if declared == b"UNSIGNED-PAYLOAD" {
                return Err(SigV4Error::PayloadUnsigned);
            }
            if declared.starts_with(b"STREAMING-") {
                return Err(SigV4Error::PayloadStreaming);
            }
            if declared != hexadecimal_hash(self.body).as_bytes() {
                return Err(SigV4Error::PayloadHash);
            }
        }
        Ok(())
    }
}

fn check_skew(signed_at: UnixMillis, now: UnixMillis) -> Result<(), SigV4Error> {
    if now.since(signed_at) > CLOCK_SKEW_MAX_MS {
        return Err(SigV4Error::Stale(now.since(signed_at)));
    }
    if signed_at.since(now) > CLOCK_SKEW_MAX_MS {
        return Err(SigV4Error::Future(signed_at.since(now)));
    }
    Ok(())
}

/// What the signature is over: one text for each form of the path and the query, ours first.
fn texts_to_sign(
    request: &SignedRequest<'_>,
    authorization: &Authorization,
    moment: &str,
) -> Result<Vec<String>, SigV4Error> {
    let headers = canonical::headers(request.headers, &authorization.signed_headers)?;
    let signed_names = authorization.signed_headers.join(";");
    let payload_hash = hexadecimal_hash(request.body);
    let queries = canonical::queries(request.query);
    let mut texts = Vec::new();
    for path in canonical::paths(request.path)? {
        for query in &queries {
            let lines: [&[u8]; 6] = [
                request.method.as_bytes(),
                path.as_bytes(),
                query.as_bytes(),
                &headers,
                signed_names.as_bytes(),
                payload_hash.as_bytes(),
            ];
            let request_hash = hexadecimal_hash(&lines.join(&b'\n'));
            texts.push(format!("{ALGORITHM}\n{moment}\n{}\n{request_hash}", authorization.scope()));
        }
    }
    Ok(texts)
}

/// The key for one day, region and service.
fn signing_key(secret: &str, authorization: &Authorization) -> hmac::Key {
    let first = Zeroizing::new(format!("AWS4{secret}"));
    let mut key = hmac::Key::new(hmac::HMAC_SHA256, first.as_bytes());
    for step in [&authorization.day, &authorization.region, &authorization.service, TERMINATOR] {
        let derived = hmac::sign(&key, step.as_bytes());
        key = hmac::Key::new(hmac::HMAC_SHA256, derived.as_ref());
    }
    key
}

fn hexadecimal_hash(bytes: &[u8]) -> String {
    hexadecimal(digest(&SHA256, bytes).as_ref())
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a String takes whatever is written");
        text
    })
}

#[cfg(test)]
mod tests;
