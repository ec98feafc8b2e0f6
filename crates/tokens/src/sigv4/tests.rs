//! What must hold of every request: signed and verified, or changed and refused. Other signers' figures are in `tests/`.

use proptest::prelude::*;

use super::*;

/// The key pair and the moment of AWS's published examples.
const EXAMPLE_ID: &str = "AKIDEXAMPLE";
const EXAMPLE_SECRET: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
const EXAMPLE_NOW: UnixMillis = UnixMillis(1_440_938_160_000);

/// A request that owns its parts, so that a test can change one.
#[derive(Debug, Clone)]
struct OwnedRequest {
    method: String,
    path: String,
    query: String,
    headers: Vec<(String, Vec<u8>)>,
    body: Vec<u8>,
}

impl OwnedRequest {
    fn new(method: &str, target: &str, headers: &[(&str, &str)], body: &str) -> Self {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), value.as_bytes().to_vec());
        Self {
            method: method.to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
            headers: headers.iter().map(owned).collect(),
            body: body.as_bytes().to_vec(),
        }
    }

    fn with<T>(&self, look: impl FnOnce(&SignedRequest<'_>) -> T) -> T {
        let headers: Vec<(&str, &[u8])> =
            self.headers.iter().map(|(name, value)| (name.as_str(), value.as_slice())).collect();
        look(&SignedRequest {
            method: &self.method,
            path: &self.path,
            query: &self.query,
            headers: &headers,
            body: &self.body,
        })
    }

    fn header_names(&self) -> Vec<&str> {
        self.headers.iter().map(|(name, _)| name.as_str()).collect()
    }

    fn set(&mut self, name: &str, value: &str) {
        self.headers.retain(|(other, _)| other != name);
        self.headers.push((name.to_owned(), value.as_bytes().to_vec()));
    }
}

fn secret(text: &str) -> SecretAccessKey {
    SecretAccessKey::parse(text).unwrap()
}

/// Signs all headers of the request.
fn sign_as(request: &OwnedRequest, secret_text: &str, region: &str, service: &str) -> String {
    sign_over(request, secret_text, region, service, &request.header_names())
}

fn sign_over(
    request: &OwnedRequest,
    secret_text: &str,
    region: &str,
    service: &str,
    names: &[&str],
) -> String {
    let (access_key_id, secret) = (AccessKeyId::parse(EXAMPLE_ID).unwrap(), secret(secret_text));
    let credentials = Credentials { access_key_id: &access_key_id, secret: &secret, region, service };
    request.with(|request| sign(request, &credentials, names)).unwrap()
}

fn sign_example(request: &OwnedRequest) -> String {
    sign_as(request, EXAMPLE_SECRET, "us-east-1", SERVICE)
}

fn verify_header(request: &OwnedRequest, header: &str, now: UnixMillis) -> Result<(), SigV4Error> {
    let authorization = Authorization::parse(header, SERVICE)?;
    request.with(|request| verify(request, &authorization, Some(&secret(EXAMPLE_SECRET)), now))
}

const HOST_AND_DATE: [(&str, &str); 2] =
    [("Host", "example.amazonaws.com"), ("X-Amz-Date", "20150830T123600Z")];

fn get(target: &str) -> OwnedRequest {
    OwnedRequest::new("GET", target, &HOST_AND_DATE, "")
}

fn post() -> OwnedRequest {
    let headers = [HOST_AND_DATE[0], HOST_AND_DATE[1], ("Content-Type", "application/json")];
    OwnedRequest::new(
        "POST",
        "/increment_serving_counter?a=1",
        &headers,
        r#"{"event_id":"Sample","increment_by":1}"#,
    )
}

#[test]
fn a_request_is_accepted_within_the_skew_and_not_beyond() {
    let (request, second) = (post(), 1000);
    let header = sign_example(&request);
    for now in [EXAMPLE_NOW, EXAMPLE_NOW.plus(300 * second), UnixMillis(EXAMPLE_NOW.0 - 300 * second)] {
        assert_eq!(verify_header(&request, &header, now), Ok(()));
    }
    let late = EXAMPLE_NOW.plus(300 * second + 1);
    assert_eq!(verify_header(&request, &header, late), Err(SigV4Error::Stale(300_001)));
    let early = UnixMillis(EXAMPLE_NOW.0 - 300 * second - 1);
    assert_eq!(verify_header(&request, &header, early), Err(SigV4Error::Future(300_001)));
    assert!(verify_header(&request, &header, UnixMillis(0)).is_err());
    assert!(verify_header(&request, &header, UnixMillis(u64::MAX)).is_err());
}

#[test]
fn a_date_header_serves_in_place_of_x_amz_date_but_not_beside_it() {
    for date in ["Sun, 30 Aug 2015 12:36:00 -0000", "Sun, 30 Aug 2015 12:36:00 GMT", "20150830T123600Z"] {
        let mut request = OwnedRequest::new("GET", "/", &[("host", "a"), ("Date", date)], "");
        assert_eq!(verify_header(&request, &sign_example(&request), EXAMPLE_NOW), Ok(()), "{date}");
        // Beside a signed x-amz-date it is one header among others, and may say anything.
        request.set("x-amz-date", "20150830T123600Z");
        let header = sign_example(&request);
        assert_eq!(verify_header(&request, &header, EXAMPLE_NOW), Ok(()), "{date}");
        request.set("Date", "yesterday");
        assert_eq!(verify_header(&request, &header, EXAMPLE_NOW), Err(SigV4Error::Mismatch), "{date}");
        assert_eq!(verify_header(&request, &sign_example(&request), EXAMPLE_NOW), Ok(()), "{date}");
    }
}

#[test]
fn host_date_and_amazons_headers_must_be_signed() {
    let mut request = post();
    request.set("X-Amz-Security-Token", "a+token/with=signs");
    let over = |names: &[&str]| {
        let header = sign_over(&request, EXAMPLE_SECRET, "us-east-1", SERVICE, names);
        verify_header(&request, &header, EXAMPLE_NOW)
    };
    assert_eq!(over(&["Host", "X-Amz-Date", "X-Amz-Security-Token"]), Ok(()));
    assert_eq!(over(&["X-Amz-Date", "X-Amz-Security-Token"]), Err(SigV4Error::NotSigned("host")));
    assert_eq!(over(&["Host", "X-Amz-Security-Token"]), Err(SigV4Error::NotSigned("x-amz-date")));
    assert_eq!(over(&["Host", "X-Amz-Date"]), Err(SigV4Error::AmazonHeaderNotSigned));
    let dated =
        OwnedRequest::new("GET", "/", &[("host", "a"), ("date", "Sun, 30 Aug 2015 12:36:00 GMT")], "");
    let header = sign_over(&dated, EXAMPLE_SECRET, "us-east-1", SERVICE, &["host"]);
    assert_eq!(verify_header(&dated, &header, EXAMPLE_NOW), Err(SigV4Error::NotSigned("date")));
}

#[test]
fn headers_that_are_added_on_the_way_do_no_harm_unless_they_are_amazons() {
    let request = post();
    let header = sign_example(&request);
    for harmless in ["User-Agent", "X-Forwarded-For", "X-Amzn-Trace-Id", "X-Amz-Cf-Id", "X-Api-Key"] {
        let mut more = request.clone();
        more.set(harmless, "anything");
        assert_eq!(verify_header(&more, &header, EXAMPLE_NOW), Ok(()), "{harmless}");
    }
    for strange in ["X-Amz-Security-Token", "X-Amz-Target", "x-amz-", "X-AMZ-Meta"] {
        let mut more = request.clone();
        more.set(strange, "anything");
        assert_eq!(
            verify_header(&more, &header, EXAMPLE_NOW),
            Err(SigV4Error::AmazonHeaderNotSigned),
            "{strange}"
        );
    }
}

#[test]
fn the_hash_of_the_body_may_be_declared_signed_or_not_and_nothing_else_in_its_place() {
    let hash = hexadecimal_hash(&post().body);
    for (declared, expected) in [
        (hash.as_str(), Ok(())),
        (&format!(" {hash} "), Ok(())),
        ("UNSIGNED-PAYLOAD", Err(SigV4Error::PayloadUnsigned)),
        ("STREAMING-AWS4-HMAC-SHA256-PAYLOAD", Err(SigV4Error::PayloadStreaming)),
        ("STREAMING-UNSIGNED-PAYLOAD-TRAILER", Err(SigV4Error::PayloadStreaming)),
        (&hash.to_uppercase(), Err(SigV4Error::PayloadHash)),
        (&hexadecimal_hash(b""), Err(SigV4Error::PayloadHash)),
        ("unsigned-payload", Err(SigV4Error::PayloadHash)),
        ("", Err(SigV4Error::PayloadHash)),
    ] {
        let mut request = post();
        let before = sign_example(&request);
        request.set("X-Amz-Content-Sha256", declared);
        assert_eq!(verify_header(&request, &before, EXAMPLE_NOW), expected, "added unsigned: {declared}");
        assert_eq!(
            verify_header(&request, &sign_example(&request), EXAMPLE_NOW),
            expected,
            "signed: {declared}"
        );
    }
    let mut twice = post();
    twice.set("x-amz-content-sha256", &hash);
    twice.set("X-Amz-Content-Sha256", "UNSIGNED-PAYLOAD");
    assert_eq!(verify_header(&twice, &sign_example(&twice), EXAMPLE_NOW), Err(SigV4Error::PayloadUnsigned));
}

#[test]
fn an_unknown_key_is_told_apart_only_in_the_log() {
    let request = post();
    let header = sign_example(&request);
    let authorization = Authorization::parse(&header, SERVICE).unwrap();
    let without =
        |request: &OwnedRequest, now| request.with(|request| verify(request, &authorization, None, now));
    assert_eq!(without(&request, EXAMPLE_NOW), Err(SigV4Error::UnknownAccessKey));
    let wrong = secret("another");
    let mismatch =
        request.with(|request| verify(request, &authorization, Some(&wrong), EXAMPLE_NOW)).unwrap_err();
    assert_eq!(mismatch, SigV4Error::Mismatch);
    assert_eq!(mismatch.public_text(), SigV4Error::UnknownAccessKey.public_text());
    // Whatever else is wrong is said first, key or no key.
    assert_eq!(without(&request, UnixMillis(0)), verify_header(&request, &header, UnixMillis(0)));
    let mut presigned = request;
    presigned.query = "X-Amz-Signature=1".to_owned();
    assert_eq!(without(&presigned, EXAMPLE_NOW), Err(SigV4Error::Presigned));
    assert_eq!(verify_header(&presigned, &header, EXAMPLE_NOW), Err(SigV4Error::Presigned));
}

#[test]
fn dates_that_are_missing_repeated_or_of_another_day_are_refused() {
    let request = post();
    let header = sign_example(&request);
    let mut undated = request.clone();
    undated.headers.retain(|(name, _)| name != "X-Amz-Date");
    assert_eq!(verify_header(&undated, &header, EXAMPLE_NOW), Err(SigV4Error::DateMissing));
    let mut twice = request.clone();
    twice.headers.push(("x-amz-date".to_owned(), b"20150830T123600Z".to_vec()));
    assert_eq!(verify_header(&twice, &header, EXAMPLE_NOW), Err(SigV4Error::Date));
    let mut misshapen = request.clone();
    misshapen.set("X-Amz-Date", "Sun, 30 Aug 2015 12:36:00 GMT");
    assert_eq!(verify_header(&misshapen, &header, EXAMPLE_NOW), Err(SigV4Error::Date));
    let other_day = header.replace("/20150830/", "/20150831/");
    assert_eq!(verify_header(&request, &other_day, EXAMPLE_NOW), Err(SigV4Error::ScopeDateDiffers));
}

/// Both encodings of a path with escapes are accepted, and a signature for one path never fits another.
#[test]
fn a_path_with_escapes_may_be_signed_double_or_single_encoded() {
    let request = get("/rooms/a%20b");
    let single_encoded = get("/rooms/a b");
    assert_eq!(verify_header(&request, &sign_example(&request), EXAMPLE_NOW), Ok(()));
    // Our own signer encodes once what is not escaped yet, which is what a single-encoding signer signs.
    assert_eq!(verify_header(&request, &sign_example(&single_encoded), EXAMPLE_NOW), Ok(()));
    let doubly_escaped = get("/rooms/a%2520b");
    assert_eq!(
        verify_header(&doubly_escaped, &sign_example(&request), EXAMPLE_NOW),
        Err(SigV4Error::Mismatch)
    );
    for path in ["/a/../b", "//a", "/a/."] {
        assert_eq!(
            verify_header(&get(path), &sign_example(&get("/a")), EXAMPLE_NOW),
            Err(SigV4Error::PathSegments),
            "{path}"
        );
    }
}

#[test]
fn a_query_may_be_signed_as_sent_or_encoded_anew() {
    for (sent, also_signed_as) in [("a=b+c", "a=b%20c"), ("a=%c3%a9", "a=%C3%A9"), ("b=:&a", "a=&b=%3A")] {
        let request = get(&format!("/?{sent}"));
        assert_eq!(verify_header(&request, &sign_example(&request), EXAMPLE_NOW), Ok(()), "{sent}");
        let encoded = sign_example(&get(&format!("/?{also_signed_as}")));
        assert_eq!(verify_header(&request, &encoded, EXAMPLE_NOW), Ok(()), "{sent}");
    }
    let plus = get("/?a=b%2Bc");
    assert_eq!(verify_header(&plus, &sign_example(&get("/?a=b+c")), EXAMPLE_NOW), Err(SigV4Error::Mismatch));
}

/// One way to change a request between its signer and us.
type Tampering = fn(&mut OwnedRequest, &mut String, place: usize);

/// Flips one bit of a byte; the result differs, whatever the byte was.
fn change_byte(bytes: &mut Vec<u8>, place: usize) {
    if bytes.is_empty() {
        bytes.push(b'x');
    } else {
        let place = place % bytes.len();
        bytes[place] ^= 1;
    }
}

fn change_letter(text: &mut String, place: usize) {
    let place = place % (text.chars().count() + 1);
    let at = text.char_indices().nth(place).map_or(text.len(), |(at, _)| at);
    text.insert(at, 'Z');
}

const TAMPERINGS: [(&str, Tampering); 15] = [
    ("method", |request, _, _| request.method.push('X')),
    ("method's letters", |request, _, _| request.method = request.method.to_ascii_lowercase()),
    ("path", |request, _, place| {
        let mut rest = request.path.split_off(1);
        change_letter(&mut rest, place);
        request.path.push_str(&rest);
    }),
    ("end of path", |request, _, _| request.path.push_str("z/")),
    ("query", |request, _, place| change_letter(&mut request.query, place)),
    ("one parameter more", |request, _, _| request.query.push_str("&event_id=Other")),
    ("body", |request, _, place| change_byte(&mut request.body, place)),
    ("body's end", |request, _, _| request.body.push(b' ')),
    ("host", |request, _, _| request.set("host", "elsewhere.example")),
    ("another signed header", |request, _, _| request.set("x-custom", "changed")),
    ("the header twice", |request, _, _| request.headers.push(("x-custom".to_owned(), b"again".to_vec()))),
    ("date", |request, _, _| request.set("x-amz-date", "20150830T123601Z")),
    ("region", |_, header, _| *header = header.replace("/eu-", "/us-")),
    ("signed headers", |_, header, _| *header = header.replace(";x-custom", "")),
    ("signature", |_, header, place| {
        let digit = header.len() - 1 - place % 64;
        let changed = if header.as_bytes()[digit] == b'0' { "1" } else { "0" };
        header.replace_range(digit..=digit, changed);
    }),
];

prop_compose! {
    fn any_request()(
        method in "GET|POST|PUT|DELETE",
        path in "/([a-z0-9:@é%]|%20|%2F){0,12}",
        query in "(([a-z_é]|%20|\\+|%zz){1,6}(=([a-zA-Z0-9 é+:]|%C3%A9){0,8})?&?){0,4}",
        custom in "[ -~]{0,20}",
        body: Vec<u8>,
        region in "eu-[a-z]{2,8}-[1-9]",
    ) -> (OwnedRequest, String) {
        let headers = [("host", "127.0.0.1:8081"), ("x-amz-date", "20150830T123600Z"), ("x-custom", &custom)];
        let mut request = OwnedRequest::new(&method, &path, &headers, "");
        request.query = query;
        request.body = body;
        (request, region)
    }
}

proptest! {
    #[test]
    fn what_is_signed_is_accepted_and_every_single_change_refused(
        (request, region) in any_request(),
        place: usize,
    ) {
        let header = sign_as(&request, EXAMPLE_SECRET, &region, SERVICE);
        prop_assert_eq!(verify_header(&request, &header, EXAMPLE_NOW), Ok(()));
        let other_secret = sign_as(&request, "another", &region, SERVICE);
        prop_assert_eq!(verify_header(&request, &other_secret, EXAMPLE_NOW), Err(SigV4Error::Mismatch));
        let other_service = sign_as(&request, EXAMPLE_SECRET, &region, "s3").replace("/s3/", "/execute-api/");
        prop_assert_eq!(verify_header(&request, &other_service, EXAMPLE_NOW), Err(SigV4Error::Mismatch));
        for (what, tamper) in TAMPERINGS {
            let (mut changed, mut changed_header) = (request.clone(), header.clone());
            tamper(&mut changed, &mut changed_header, place);
            let verdict = verify_header(&changed, &changed_header, EXAMPLE_NOW);
            prop_assert_eq!(verdict, Err(SigV4Error::Mismatch), "{}: {:?}", what, changed);
        }
    }

    #[test]
    fn nothing_a_client_sends_makes_it_panic(
        method: String,
        path: String,
        query: String,
        headers: Vec<(String, Vec<u8>)>,
        date: Vec<u8>,
        body: Vec<u8>,
        now: u64,
    ) {
        let header = sign_example(&post());
        let mut request = OwnedRequest { method, path, query, headers, body };
        prop_assert!(verify_header(&request, &header, UnixMillis(now)).is_err());
        request.headers.push(("x-amz-date".to_owned(), date));
        prop_assert!(verify_header(&request, &header, UnixMillis(now)).is_err());
        request.headers.pop();
        request.set("x-amz-date", "20150830T123600Z");
        prop_assert!(verify_header(&request, &header, EXAMPLE_NOW).is_err());
    }
}
