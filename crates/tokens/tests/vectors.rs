//! The vectors in `vectors/`: what another implementation must produce, and what no later version may change unnoticed.
//!
//! Each case is made twice. Once by the product, and once here from first principles, as plainly as possible and with other
//! means: HKDF spelt out in HMAC, aws-lc's AES instead of the `aes` crate, JSON by `format!`. Both must equal what is committed.
//! The committed results themselves came from a third hand, Python's `hmac` with the `openssl` command (cookies: with `cryptography`).
//! To add a case, commit its inputs with empty results: the failing test prints what belongs there.

#![expect(clippy::unwrap_used, reason = "a vector that cannot be read is a failed test")]

use anteroom_core::ids::{Generation, Position, RoomId, Ticket, UnixMillis};
use anteroom_tokens::openid::{sha256, token_pair};
use anteroom_tokens::{
    CookieContent, MasterSecrets, OpenIdClaims, OpenIdCode, OpenIdRefreshToken, OpenIdSeals, OpenIdSubject,
    OpenIdSubjects, PassClaims, RequestIds, SigningKey, TicketTokens, VisitorCookies, pass, request_id,
};
use aws_lc_rs::cipher::{AES_256, EncryptingKey, UnboundCipherKey};
use aws_lc_rs::hmac;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{Ed25519KeyPair, RSA_PKCS1_SHA256, RsaKeyPair};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;

const REQUEST_IDS: &str = include_str!("../vectors/request_ids.json");
const TICKET_TOKENS: &str = include_str!("../vectors/ticket_tokens.json");
const VISITOR_COOKIES: &str = include_str!("../vectors/visitor_cookies.json");
const PASS_RS256: &str = include_str!("../vectors/pass_rs256.json");
const OPENID: &str = include_str!("../vectors/openid.json");
const PASS_EDDSA: &str = include_str!("../vectors/pass_eddsa.json");

#[test]
fn request_ids_are_as_committed() {
    for case in cases(REQUEST_IDS) {
        let (ids, ticket) = (RequestIds::new(&secrets(&case), &room(&case)), ticket(&case));
        let made = request_id::format(ids.seal(&ticket));
        assert_eq!(made, request_id_from_first_principles(&case));
        assert_eq!(made, text(&case, "request_id"), "{case}");
        assert_eq!(ids.open(request_id::parse(&made).unwrap(), |_| true), Some(ticket));
    }
}

#[test]
fn ticket_tokens_are_as_committed() {
    for case in cases(TICKET_TOKENS) {
        let (ids, ticket) = (RequestIds::new(&secrets(&case), &room(&case)), ticket(&case));
        let tokens = TicketTokens::new(&secrets(&case), &room(&case));
        let id = ids.seal(&ticket);
        assert_eq!(request_id::format(id), text(&case, "request_id"), "{case}");
        let made = tokens.seal(&ticket, id);
        assert_eq!(made, ticket_token_from_first_principles(&case));
        assert_eq!(made, text(&case, "ticket_token"), "{case}");
        assert_eq!(tokens.open_ticket(&made, &ids, |_| true), Some((id, ticket)));
    }
}

/// What the product seals has other random bits each time, so it is asked to open what is committed.
#[test]
fn visitor_cookies_are_as_committed() {
    for case in cases(VISITOR_COOKIES) {
        let committed = text(&case, "cookie");
        assert_eq!(visitor_cookie_from_first_principles(&case), committed, "{case}");
        let cookies = VisitorCookies::new(&secrets(&case), &room(&case));
        assert_eq!(cookies.open(committed), Some(cookie_content(&case["content"])), "{case}");
    }
}

#[test]
fn passes_are_as_committed() {
    for document in [PASS_RS256, PASS_EDDSA] {
        let case: Value = serde_json::from_str(document).unwrap();
        let private_key = URL_SAFE_NO_PAD.decode(text(&case, "private_key_pkcs8")).unwrap();
        let algorithm = text(&case, "algorithm").parse().unwrap();
        let kid = text(&case, "kid");
        let key = SigningKey::import(kid, algorithm, &private_key, UnixMillis(0), UnixMillis(0)).unwrap();
        let tokens = pass::sign(&key, &claims(&case["claims"])).unwrap().tokens;
        let made =
            [("access", &tokens.access_token), ("refresh", &tokens.refresh_token), ("id", &tokens.id_token)];
        for (token_use, made) in made {
            assert_eq!(*made, pass_from_first_principles(&case, token_use, &private_key));
            assert_eq!(made, text(&case, &format!("{token_use}_token")), "{token_use}");
        }
        assert_eq!(key.public_jwk(), case["public_jwk"]);
    }
}

#[test]
fn openid_subjects_are_as_committed() {
    for case in openid("subjects") {
        let subjects = OpenIdSubjects::new(&secrets(&case), &room(&case), text(&case, "client"));
        let made = subjects.seal(&ticket(&case)).to_string();
        assert_eq!(made, openid_subject_from_first_principles(&case));
        assert_eq!(made, text(&case, "subject"), "{case}");
        let without_copy = Ticket { copy: 0, ..ticket(&case) };
        assert_eq!(subjects.open(OpenIdSubject::parse(&made).unwrap(), |_| true), Some(without_copy));
    }
}

/// These are sealed with other random bits each time, so the product is asked to open what is committed.
#[test]
fn openid_codes_and_refresh_tokens_are_as_committed() {
    for case in openid("codes") {
        let challenge = case["code_challenge"].as_str().map(|text| URL_SAFE_NO_PAD.decode(text).unwrap());
        let nonce = case["nonce"].as_str();
        let offline_access = case["offline_access"].as_bool().unwrap();
        let flags =
            u8::from(challenge.is_some()) | u8::from(nonce.is_some()) << 1 | u8::from(offline_access) << 2;
        let sealed_text = [
            &number(&case, "issued_at").to_be_bytes()[..],
            &number(&case, "grant").to_be_bytes(),
            &number(&case, "auth_time").to_be_bytes(),
            &ticket_bytes(&case["ticket"]),
            &sha256(text(&case, "redirect_address")),
            &[flags],
            challenge.as_deref().unwrap_or_default(),
            &names(&case),
            nonce.unwrap_or_default().as_bytes(),
        ]
        .concat();
        let committed = text(&case, "code");
        assert_eq!(sealed_from_first_principles(&case, "openid code", &sealed_text), committed, "{case}");
        let code = OpenIdCode {
            room: room(&case),
            client_id: text(&case, "client").to_owned(),
            ticket: ticket(&case),
            issued_at: UnixMillis(number(&case, "issued_at")),
            grant: number(&case, "grant"),
            auth_time_seconds: number(&case, "auth_time"),
            redirect_digest: sha256(text(&case, "redirect_address")),
            code_challenge: challenge.map(|bytes| bytes.try_into().unwrap()),
            nonce: nonce.map(str::to_owned),
            offline_access,
        };
        let seals = OpenIdSeals::new(&secrets(&case));
        assert_eq!(seals.open_code(committed, code.issued_at), Some(code));
    }
    for case in openid("refresh_tokens") {
        let subject = OpenIdSubject::parse(text(&case, "subject")).unwrap();
        let sequence = u32::try_from(number(&case, "sequence")).unwrap();
        let offline_access = case["offline_access"].as_bool().unwrap();
        let sealed_text = [
            &number(&case, "grant").to_be_bytes()[..],
            &number(&case, "auth_time").to_be_bytes(),
            &sequence.to_be_bytes(),
            &ticket_bytes(&case["ticket"]),
            &subject.0,
            &[u8::from(offline_access) << 2],
            &names(&case),
        ]
        .concat();
        let committed = text(&case, "refresh_token");
        let made = sealed_from_first_principles(&case, "openid refresh token", &sealed_text);
        assert_eq!(made, committed, "{case}");
        let token = OpenIdRefreshToken {
            room: room(&case),
            client_id: text(&case, "client").to_owned(),
            ticket: ticket(&case),
            grant: number(&case, "grant"),
            sequence,
            subject,
            auth_time_seconds: number(&case, "auth_time"),
            offline_access,
        };
        assert_eq!(OpenIdSeals::new(&secrets(&case)).open_refresh_token(committed), Some(token));
    }
}

#[test]
fn openid_tokens_are_as_committed() {
    let document: Value = serde_json::from_str(OPENID).unwrap();
    let signed_with: Value = serde_json::from_str(PASS_EDDSA).unwrap();
    let claims = &document["tokens"]["claims"];
    let private_key = URL_SAFE_NO_PAD.decode(text(&signed_with, "private_key_pkcs8")).unwrap();
    let algorithm = text(&signed_with, "algorithm").parse().unwrap();
    let kid = text(&signed_with, "kid");
    let key = SigningKey::import(kid, algorithm, &private_key, UnixMillis(0), UnixMillis(0)).unwrap();
    let made = OpenIdClaims {
        room: room(claims),
        client_id: text(claims, "client").to_owned(),
        subject: OpenIdSubject::parse(text(claims, "subject")).unwrap(),
        issuer: text(claims, "issuer").to_owned(),
        queue_position: Position::new(number(claims, "queue_position")).unwrap(),
        grant: number(claims, "grant"),
        issued_at_seconds: number(claims, "issued_at_seconds"),
        access_expires_at_seconds: number(claims, "access_expires_at_seconds"),
        id_expires_at_seconds: number(claims, "id_expires_at_seconds"),
        auth_time_seconds: number(claims, "auth_time"),
        nonce: Some(text(claims, "nonce").to_owned()),
        enter_by_seconds: None,
    };
    let made = token_pair::sign(&key, &made).unwrap();
    assert_eq!(made.access_token, text(&document["tokens"], "access_token"));
    assert_eq!(made.id_token, text(&document["tokens"], "id_token"));
}

fn openid_subject_from_first_principles(case: &Value) -> String {
    let mut without_copy = case["ticket"].clone();
    without_copy["copy"] = 0.into();
    let mut block = ticket_bytes(&without_copy);
    let use_and_names = format!("openid subject\0{}\0{}", text(case, "room"), text(case, "client"));
    let key = UnboundCipherKey::new(&AES_256, &key_of(case, &use_and_names)).unwrap();
    EncryptingKey::ecb(key).unwrap().encrypt(&mut block).unwrap();
    URL_SAFE_NO_PAD.encode(block)
}

fn ticket_bytes(ticket: &Value) -> [u8; 16] {
    u128::from_str_radix(&bits_of_ticket(ticket), 2).unwrap().to_be_bytes()
}

/// Room and client, each with its length before it.
fn names(case: &Value) -> Vec<u8> {
    let with_length = |name: &str| [&[u8::try_from(name.len()).unwrap()], name.as_bytes()].concat();
    [with_length(text(case, "room")), with_length(text(case, "client"))].concat()
}

fn openid(kind: &str) -> Vec<Value> {
    let document: Value = serde_json::from_str(OPENID).unwrap();
    document[kind].as_array().unwrap().clone()
}

fn number(case: &Value, name: &str) -> u64 {
    case[name].as_u64().unwrap()
}

/// HKDF-SHA256 (RFC 5869) for 32 bytes, that is, one round of expansion. The information is the use, a zero byte, the room.
fn derived_key(case: &Value, label: &str) -> Vec<u8> {
    key_of(case, &format!("{label}\0{}", text(case, "room")))
}

fn key_of(case: &Value, information: &str) -> Vec<u8> {
    let first_secret = text(case, "secrets").split(',').next().unwrap();
    let extracted = hmac_sha256(b"anteroom master secret v1", first_secret.as_bytes());
    hmac_sha256(&extracted, format!("{information}\x01").as_bytes())
}

/// The 122 bits of a ticket written out as 0 and 1.
fn bits_of_ticket(ticket: &Value) -> String {
    let field = |name: &str| ticket[name].as_u64().unwrap();
    format!(
        "{:04b}{:04b}{:032b}{:08b}{:040b}{:030b}{:04b}",
        1,
        field("lane"),
        field("generation_opened"),
        field("incarnation"),
        field("position"),
        field("entered"),
        field("copy")
    )
}

/// The bits of the ticket, put around version and variant of a UUID, enciphered until these are right again.
fn request_id_from_first_principles(case: &Value) -> String {
    let bits = bits_of_ticket(&case["ticket"]);
    let bits = format!("{}1000{}10{}", &bits[..48], &bits[48..60], &bits[60..]);
    let mut block = u128::from_str_radix(&bits, 2).unwrap().to_be_bytes();
    let key = UnboundCipherKey::new(&AES_256, &derived_key(case, "request id")).unwrap();
    let cipher = EncryptingKey::ecb(key).unwrap();
    loop {
        cipher.encrypt(&mut block).unwrap();
        let digits = format!("{:032x}", u128::from_be_bytes(block));
        if &digits[12..13] == "8" && matches!(&digits[16..17], "8" | "9" | "a" | "b") {
            let groups = [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]];
            return groups.join("-");
        }
    }
}

/// The payload's `iat` counts from 1970, the ticket's generation from 2024.
fn ticket_token_from_first_principles(case: &Value) -> String {
    let field = |name: &str| case["ticket"][name].as_u64().unwrap();
    let payload = format!(
        r#"{{"aud":"{}","iat":{},"jti":"{}","sub":"{}"}}"#,
        text(case, "room"),
        1_704_067_200 + field("generation_opened") + field("entered"),
        request_id_from_first_principles(case),
        field("position")
    );
    signed(r#"{"alg":"HS256","typ":"JWT"}"#, &payload, |message| {
        hmac_sha256(&derived_key(case, "ticket token"), message)
    })
}

fn visitor_cookie_from_first_principles(case: &Value) -> String {
    let content = &case["content"];
    let number = |name: &str| content[name].as_u64().unwrap().to_be_bytes();
    let ticket = || u128::from_str_radix(&bits_of_ticket(&content["ticket"]), 2).unwrap().to_be_bytes();
    let text = match text(content, "kind") {
        "arrived" => [&[0][..], &number("at"), &number("nonce")].concat(),
        "waiting" => [&[1][..], &ticket()].concat(),
        "admitted" => [&[2][..], &ticket(), &number("admitted_at"), &number("ends_at")].concat(),
        unknown => panic!("{unknown}"),
    };
    sealed_under(&derived_key(case, "visitor cookie"), case, &text)
}

fn sealed_from_first_principles(case: &Value, label: &str, text: &[u8]) -> String {
    sealed_under(&key_of(case, &format!("{label}\0")), case, text)
}

/// A text sealed by GCM as NIST SP 800-38D spells it out: a key stream of counted blocks, and a polynomial.
fn sealed_under(key: &[u8], case: &Value, text: &[u8]) -> String {
    let random_bits = u128::from_str_radix(self::text(case, "random_bits"), 16).unwrap().to_be_bytes();
    let key = hmac_sha256(key, &[&random_bits[..], &[1]].concat());
    let cipher = EncryptingKey::ecb(UnboundCipherKey::new(&AES_256, &key).unwrap()).unwrap();
    let enciphered = |block: u128| {
        let mut block = block.to_be_bytes();
        cipher.encrypt(&mut block).unwrap();
        u128::from_be_bytes(block)
    };
    // The nonce is all zeros, so the counter is the whole block; 1 is the tag's own.
    let sealed: Vec<u8> = (2_u128..)
        .flat_map(|counter| enciphered(counter).to_be_bytes())
        .zip(text)
        .map(|(key_byte, text_byte)| key_byte ^ text_byte)
        .collect();
    let associated = [1_u8];
    let lengths = ((associated.len() as u128 * 8) << 64) | (sealed.len() as u128 * 8);
    let blocks = associated.chunks(16).chain(sealed.chunks(16)).map(|chunk| {
        let mut block = [0; 16];
        block[..chunk.len()].copy_from_slice(chunk);
        u128::from_be_bytes(block)
    });
    let hash_key = enciphered(0);
    let hash = blocks.chain([lengths]).fold(0, |hash, block| galois_product(hash ^ block, hash_key));
    let tag = (hash ^ enciphered(1)).to_be_bytes();
    URL_SAFE_NO_PAD.encode([&[1][..], &random_bits, &sealed, &tag].concat())
}

/// The product of GCM's field, bit by bit; the first bit of a block is the coefficient of 1.
fn galois_product(left: u128, right: u128) -> u128 {
    let (mut product, mut shifted) = (0, right);
    for bit in (0..128).rev() {
        if left >> bit & 1 == 1 {
            product ^= shifted;
        }
        let reduction = if shifted & 1 == 1 { 0xe1 << 120 } else { 0 };
        shifted = shifted >> 1 ^ reduction;
    }
    product
}

fn pass_from_first_principles(case: &Value, token_use: &str, private_key: &[u8]) -> String {
    let claims = &case["claims"];
    let algorithm = text(case, "algorithm");
    let header = format!(r#"{{"alg":"{algorithm}","kid":"{}","typ":"JWT"}}"#, text(case, "kid"));
    let payload = format!(
        r#"{{"aud":{},"exp":{},"iat":{},"iss":{},"nbf":{},"queue_position":{},"sub":{},"token_use":"{token_use}"}}"#,
        claims["audience"],
        claims["expires_at_seconds"],
        claims["issued_at_seconds"],
        claims["issuer"],
        claims["issued_at_seconds"],
        claims["queue_position"],
        claims["subject"],
    );
    signed(&header, &payload, |message| match algorithm {
        "RS256" => {
            let mut signature = vec![0; 256];
            let pair = RsaKeyPair::from_pkcs8(private_key).unwrap();
            pair.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), message, &mut signature).unwrap();
            signature
        }
        "EdDSA" => Ed25519KeyPair::from_pkcs8(private_key).unwrap().sign(message).as_ref().to_vec(),
        unknown => panic!("{unknown}"),
    })
}

fn signed(header: &str, payload: &str, sign: impl Fn(&[u8]) -> Vec<u8>) -> String {
    let message = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(payload));
    let signature = URL_SAFE_NO_PAD.encode(sign(message.as_bytes()));
    format!("{message}.{signature}")
}

fn hmac_sha256(key: &[u8], message: &[u8]) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), message).as_ref().to_vec()
}

fn cases(document: &str) -> Vec<Value> {
    let document: Value = serde_json::from_str(document).unwrap();
    document["cases"].as_array().unwrap().clone()
}

fn text<'case>(case: &'case Value, name: &str) -> &'case str {
    case[name].as_str().unwrap()
}

fn secrets(case: &Value) -> MasterSecrets {
    MasterSecrets::parse(text(case, "secrets")).unwrap()
}

fn room(case: &Value) -> RoomId {
    RoomId::parse(text(case, "room")).unwrap()
}

fn cookie_content(content: &Value) -> CookieContent {
    let number = |name: &str| content[name].as_u64().unwrap();
    match text(content, "kind") {
        "arrived" => CookieContent::Arrived { at: UnixMillis(number("at")), nonce: number("nonce") },
        "waiting" => CookieContent::Waiting {
            ticket: ticket(content),
            // Vectors from before cookies told it.
            people_ahead_at_first: content["people_ahead_at_first"].as_u64().unwrap_or(0),
        },
        "admitted" => CookieContent::Admitted {
            ticket: ticket(content),
            admitted_at: UnixMillis(number("admitted_at")),
            ends_at: UnixMillis(number("ends_at")),
        },
        unknown => panic!("{unknown}"),
    }
}

fn ticket(case: &Value) -> Ticket {
    let field = |name: &str| case["ticket"][name].as_u64().unwrap();
    Ticket {
        lane: field("lane").try_into().unwrap(),
        generation: Generation {
            opened: field("generation_opened").try_into().unwrap(),
            incarnation: field("incarnation").try_into().unwrap(),
        },
        position: Position::new(field("position")).unwrap(),
        entered: field("entered").try_into().unwrap(),
        copy: field("copy").try_into().unwrap(),
    }
}

fn claims(value: &Value) -> PassClaims {
    PassClaims {
        audience: RoomId::parse(text(value, "audience")).unwrap(),
        subject: request_id::parse(text(value, "subject")).unwrap(),
        issuer: text(value, "issuer").to_owned(),
        queue_position: Position::new(value["queue_position"].as_u64().unwrap()).unwrap(),
        issued_at_seconds: value["issued_at_seconds"].as_u64().unwrap(),
        expires_at_seconds: value["expires_at_seconds"].as_u64().unwrap(),
        enter_by_seconds: None,
    }
}
