//! Passes that somebody made who does not have the signing key.

use anteroom_testkit::jwt::{decode_base64url, encode_base64url};
use jsonwebtoken::{Algorithm, EncodingKey, crypto};
use serde_json::{Value, json};

/// Every forgery that this kit knows, made from a good pass and its RS256 key.
pub(crate) fn all(pass: &str, jwk: &Value) -> Vec<(&'static str, String)> {
    let parts: Vec<&str> = pass.split('.').collect();
    let [header, payload, signature] = parts[..] else { panic!("a pass has three parts: {pass}") };
    let claims = String::from_utf8(decode_base64url(payload).expect("base64url")).expect("text");
    let promoted = claims.replace("\"queue_position\":", "\"queue_position\":9");
    assert_ne!(claims, promoted);
    let promoted = encode_base64url(promoted.as_bytes());
    let mut other_signature = decode_base64url(signature).expect("base64url");
    other_signature[0] ^= 1;
    let unsigned = |algorithm: &str| {
        let header = json!({ "alg": algorithm, "kid": jwk["kid"], "typ": "JWT" }).to_string();
        format!("{}.{payload}", encode_base64url(header.as_bytes()))
    };
    let by_secret = |secret: &[u8]| {
        let message = unsigned("HS256");
        let key = EncodingKey::from_secret(secret);
        let signature = crypto::sign(message.as_bytes(), &key, Algorithm::HS256).expect("it signs");
        format!("{message}.{signature}")
    };
    let pem = public_key_pem(jwk);
    vec![
        ("other claims", format!("{header}.{promoted}.{signature}")),
        ("another signature", format!("{header}.{payload}.{}", encode_base64url(&other_signature))),
        ("no signature", format!("{header}.{payload}.")),
        ("algorithm none", format!("{}.", unsigned("none"))),
        ("algorithm None", format!("{}.", unsigned("None"))),
        ("HS256 with the public key as PEM", by_secret(pem.as_bytes())),
        ("HS256 with the public key as PEM, without its last line end", by_secret(pem.trim_end().as_bytes())),
        ("HS256 with the public key as JWK", by_secret(jwk.to_string().as_bytes())),
        (
            "HS256 with the modulus",
            by_secret(&decode_base64url(jwk["n"].as_str().expect("RSA")).expect("base64url")),
        ),
    ]
}

/// A public RSA key as OpenSSL reads it, from a JWK.
pub(crate) fn public_key_pem(jwk: &Value) -> String {
    let number = |name: &str| {
        let mut bytes = decode_base64url(jwk[name].as_str().expect("an RSA key")).expect("base64url");
        if bytes[0] > 0x7f {
            bytes.insert(0, 0);
        }
        der(0x02, &bytes)
    };
    let key = der(0x30, &[number("n"), number("e")].concat());
    let rsa = [0x06, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 1, 0x05, 0];
    let info = der(0x30, &[der(0x30, &rsa), der(0x03, &[vec![0], key].concat())].concat());
    let text = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, info);
    let lines: Vec<&str> =
        text.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).expect("ASCII")).collect();
    format!("-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n", lines.join("\n"))
}

fn der(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len().to_be_bytes();
    let used = length.iter().skip_while(|byte| **byte == 0).copied().collect::<Vec<u8>>();
    let mut bytes = vec![tag];
    if content.len() > 127 {
        bytes.push(0x80 | u8::try_from(used.len()).expect("few"));
    }
    bytes.extend(used);
    bytes.extend(content);
    bytes
}
