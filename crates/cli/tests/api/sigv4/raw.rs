//! A request that is signed by our own signer and can then be changed in any way before it goes over the wire.

use anteroom_core::UnixMillis;
use anteroom_testkit::{Answer, Client, Server, unix_seconds};
use anteroom_tokens::sigv4::{self, AccessKeyId, Credentials, SecretAccessKey, SignedRequest};
use serde_json::json;

/// A key pair made through the API.
#[derive(Clone)]
pub(crate) struct KeyPair {
    pub(crate) name: String,
    pub(crate) access_key_id: String,
    pub(crate) secret: String,
}

impl KeyPair {
    /// A new pair, made by the holder of the admin key.
    #[track_caller]
    pub(crate) fn create(server: &Server, role: &str) -> Self {
        let name = format!("a-{role}-with-an-aws-client");
        let asked = json!({ "name": name, "role": role, "kind": "sigv4" });
        let made = server.operator().post("/keys", &asked).expect("an answer");
        assert_eq!(made.status, 201, "{made:?}");
        let text = |field: &str| made.json()[field].as_str().expect(field).to_owned();
        Self { access_key_id: text("access_key_id"), secret: text("secret_access_key"), name }
    }
}

/// The time so many seconds from now, as `X-Amz-Date` has it.
pub(crate) fn timestamp_in(seconds: i64) -> String {
    let at = unix_seconds().checked_add_signed(seconds).expect("the tests run long after 1970");
    sigv4::timestamp(UnixMillis(at * 1000))
}

/// A request, byte by byte.
pub(crate) struct RawRequest {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl RawRequest {
    /// A request to the private listener with its host and the current date.
    pub(crate) fn new(server: &Server, method: &str, target: &str) -> Self {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let mut request = Self {
            method: method.to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
            headers: Vec::new(),
            body: String::new(),
        };
        request.set("Host", &server.private().to_string());
        request.set_date(0);
        request
    }

    /// Replaces a header.
    pub(crate) fn set(&mut self, name: &str, value: &str) {
        self.remove(name);
        self.headers.push((name.to_owned(), value.to_owned()));
    }

    /// Takes a header away.
    pub(crate) fn remove(&mut self, name: &str) {
        self.headers.retain(|(other, _)| other != name);
    }

    /// The time so many seconds from now.
    pub(crate) fn set_date(&mut self, seconds: i64) {
        self.set("X-Amz-Date", &timestamp_in(seconds));
    }

    /// The `Authorization` header.
    pub(crate) fn authorization(&self) -> String {
        let header = self.headers.iter().find(|(name, _)| name == "Authorization");
        header.expect("the request is signed").1.clone()
    }

    /// Changes the `Authorization` header, which must have what is to be changed.
    #[track_caller]
    pub(crate) fn edit_authorization(&mut self, from: &str, to: &str) {
        let before = self.authorization();
        let after = before.replacen(from, to, 1);
        assert_ne!(before, after, "{from} is not in the header");
        self.set("Authorization", &after);
    }

    /// The path with its query.
    pub(crate) fn target(&self) -> String {
        if self.query.is_empty() { self.path.clone() } else { format!("{}?{}", self.path, self.query) }
    }

    /// Signs these headers, whether or not the server will be content with them.
    #[track_caller]
    pub(crate) fn sign(&mut self, pair: &KeyPair, signed_headers: &[&str]) {
        let headers: Vec<(&str, &[u8])> =
            self.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
        let request = SignedRequest {
            method: &self.method,
            path: &self.path,
            query: &self.query,
            headers: &headers,
            body: self.body.as_bytes(),
        };
        let credentials = Credentials {
            access_key_id: &AccessKeyId::parse(&pair.access_key_id).expect("an access key id"),
            secret: &SecretAccessKey::parse(&pair.secret).expect("a secret access key"),
            region: "eu-west-1",
            service: sigv4::SERVICE,
        };
        let authorization = sigv4::sign(&request, &credentials, signed_headers).expect("a signature");
        self.set("Authorization", &authorization);
    }

    /// Sends it over a connection of its own.
    #[track_caller]
    pub(crate) fn send(&self, server: &Server) -> Answer {
        let headers: String =
            self.headers.iter().flat_map(|(name, value)| [name, ": ", value, "\r\n"]).collect();
        let bytes = format!(
            "{} {} HTTP/1.1\r\n{headers}Content-Length: {}\r\n\r\n{}",
            self.method,
            self.target(),
            self.body.len(),
            self.body
        );
        let answer = Client::new(server.private()).send_raw(bytes.as_bytes());
        answer.expect("HTTP").expect("an answer before the end of the connection")
    }
}
