//! The shop's API for programs: `GET /api/search?q=` and `POST /api/checkout`. Every call brings a pass of the room, as `Authorization:
//! Bearer`; without a good one it is refused with 401. A checkout ends the visit: the shop reports that to the server's private listener.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use anteroom_guard::{Guard, Pass, TokenPlace};
use anteroom_server::Addresses;
use anteroom_store::clock::{Clock, SystemClock};
use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::{HeaderMap, Method, Request, Response, StatusCode, Uri};
use http_body_util::Full;
use hyper::body::Incoming;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::http_client::HttpClient;

use super::super::{ADMIN_KEY, ROOM, client};
use super::passes::{PassRefusal, guard_of};
use super::{Answer, goods, text_of, value_of};

/// The most used passes that are remembered; those that have run out are forgotten first.
const USED_MAX: usize = 100_000;
/// How many connections to the server are kept.
const CONNECTIONS: usize = 4;

/// The API.
pub(super) struct Api {
    guard: Guard,
    private: HttpClient,
    /// Passes whose visit is over, and until when they would be good. A signature cannot tell.
    used: Mutex<HashMap<String, u64>>,
}

/// What a caller buys.
#[derive(Deserialize)]
struct Order {
    product: String,
}

impl Api {
    pub(super) fn new(addresses: &Addresses) -> anyhow::Result<Self> {
        Ok(Self {
            guard: guard_of(&addresses.public, ROOM, TokenPlace::Bearer)?,
            private: client(&addresses.private, Some(ADMIN_KEY), CONNECTIONS)?,
            used: Mutex::default(),
        })
    }

    pub(super) async fn answer(&self, request: Request<Incoming>) -> Answer {
        let pass = match self.pass(request.headers(), request.uri()).await {
            Ok(pass) => pass,
            Err(PassRefusal::KeysUnknown) => {
                return refusal(
                    StatusCode::SERVICE_UNAVAILABLE,
                    "The keys of passes cannot be read just now; try again",
                );
            }
            Err(refused) => return without_pass(&refused.to_string()),
        };
        match (request.method(), request.uri().path()) {
            (&Method::GET | &Method::HEAD, "/api/search") => {
                let found = goods::search(&value_of("q", request.uri().query()));
                json(StatusCode::OK, &json!({ "found": found }))
            }
            (&Method::POST, "/api/checkout") => self.checkout(request, &pass).await,
            (_, "/api/search") => not_allowed("GET, HEAD"),
            (_, "/api/checkout") => not_allowed("POST"),
            _ => refusal(StatusCode::NOT_FOUND, "There is nothing at this path"),
        }
    }

    /// The caller's pass, if it is good.
    async fn pass(&self, headers: &HeaderMap, uri: &Uri) -> Result<Pass, PassRefusal> {
        let pass = self.guard.verify_parts(headers, uri).await?;
        let used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        if used.contains_key(&pass.subject) { Err(PassRefusal::Used) } else { Ok(pass) }
    }

    async fn checkout(&self, request: Request<Incoming>, pass: &Pass) -> Answer {
        let order = text_of(request).await.and_then(|text| serde_json::from_str::<Order>(&text).ok());
        let Some(good) = order.and_then(|order| goods::find(&order.product)) else {
            return refusal(
                StatusCode::BAD_REQUEST,
                "Say what you buy: {\"product\": \"stalls\"}; /api/search lists all names",
            );
        };
        match self.complete(&pass.subject).await {
            Ok(StatusCode::OK) => {}
            Ok(StatusCode::NOT_FOUND) => return without_pass(&PassRefusal::Used.to_string()),
            _ => {
                return refusal(
                    StatusCode::SERVICE_UNAVAILABLE,
                    "The visit could not be completed; try again",
                );
            }
        }
        self.remember(pass);
        json(StatusCode::OK, &json!({ "bought": good, "visit": "completed" }))
    }

    /// Tells the server that a visit is over: the place is free for the next.
    async fn complete(&self, request_id: &str) -> Result<StatusCode, PassRefusal> {
        let body = json!({ "event_id": ROOM, "request_id": request_id, "status": 1 }).to_string();
        let sent =
            self.private.request(Method::POST, "/update_session", HeaderMap::new(), Some(Bytes::from(body)));
        Ok(sent.await.map_err(|_| PassRefusal::KeysUnknown)?.status)
    }

    fn remember(&self, pass: &Pass) {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        if used.len() >= USED_MAX {
            let now = SystemClock.now().seconds();
            used.retain(|_, expires_at_seconds| *expires_at_seconds > now);
        }
        if used.len() < USED_MAX {
            used.insert(pass.subject.clone(), pass.expires_at_seconds);
        }
    }
}

/// 401, with what is missing.
fn without_pass(text: &str) -> Answer {
    let mut response = refusal(StatusCode::UNAUTHORIZED, text);
    let challenge = HeaderValue::from_static("Bearer realm=\"shop\"");
    response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
    response
}

fn not_allowed(methods: &'static str) -> Answer {
    let mut response = refusal(StatusCode::METHOD_NOT_ALLOWED, "Not with this method");
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(methods));
    response
}

/// An error as JSON.
pub(super) fn refusal(status: StatusCode, text: &str) -> Answer {
    let mut response = json(status, &json!({ "error": text }));
    if status == StatusCode::SERVICE_UNAVAILABLE {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}

pub(super) fn json(status: StatusCode, body: &Value) -> Answer {
    let mut response = Response::new(Full::new(Bytes::from(format!("{body}\n"))));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
