//! `/premiere`: the second way to integrate, on a page that Anteroom does not stand before. A visitor without a pass is sent to the
//! waiting page, and comes back from there with a one-time code; the shop exchanges it for the pass, and keeps that in a cookie of its own.

use std::net::SocketAddr;

use anteroom_guard::{Guard, TokenPlace};
use anteroom_server::Addresses;
use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use serde::Deserialize;
use serde_json::json;

use crate::http_client::HttpClient;

use super::super::{PASS_SECONDS, ROOM_OF_OTHER_HOST, client};
use super::passes::guard_of;
use super::{Answer, pages, value_of};

/// Where it is.
pub(super) const PATH: &str = "/premiere";
/// The parameter in which the visitor brings the code.
const CODE: &str = "anteroom_code";
/// The shop's cookie for the pass.
const COOKIE: &str = "premiere-pass";
/// How many connections to the server are kept.
const CONNECTIONS: usize = 4;

/// The whole address: where visitors go, and come back to.
pub(in super::super) fn premiere_url(shop: SocketAddr) -> String {
    format!("http://{shop}{PATH}")
}

/// The page and what it needs.
pub(super) struct Premiere {
    public: HttpClient,
    guard: Guard,
    waiting_page: String,
}

/// What is read of a claim's answer.
#[derive(Deserialize)]
struct ClaimAnswer {
    access_token: String,
}

impl Premiere {
    pub(super) fn new(addresses: &Addresses, shop: SocketAddr) -> anyhow::Result<Self> {
        let public = &addresses.public;
        Ok(Self {
            public: client(public, None, CONNECTIONS)?,
            guard: guard_of(public, ROOM_OF_OTHER_HOST, TokenPlace::Cookie(COOKIE.to_owned()))?,
            waiting_page: format!(
                "{public}/.anteroom/wait/{ROOM_OF_OTHER_HOST}?return={}",
                premiere_url(shop)
            ),
        })
    }

    pub(super) async fn answer(&self, request: &Request<Incoming>) -> Answer {
        let code = value_of(CODE, request.uri().query());
        if !code.is_empty() {
            // A code that is too old, or was used: the waiting page knows whether the visitor has still to wait.
            return match self.exchange(&code).await {
                Some(pass) => with_pass(&pass),
                None => see_other(&self.waiting_page),
            };
        }
        match self.guard.verify_parts(request.headers(), request.uri()).await {
            Ok(_) => pages::premiere_page(),
            Err(_) => see_other(&self.waiting_page),
        }
    }

    /// The pass that a code stands for.
    async fn exchange(&self, code: &str) -> Option<String> {
        let body = Bytes::from(json!({ "room": ROOM_OF_OTHER_HOST, "code": code }).to_string());
        let claim = self.public.request(Method::POST, "/.anteroom/claim", HeaderMap::new(), Some(body));
        let reply = claim.await.ok().filter(|reply| reply.status == StatusCode::OK)?;
        let claimed: ClaimAnswer = serde_json::from_slice(&reply.body).ok()?;
        Some(claimed.access_token)
    }
}

/// Keeps the pass, and leads to the page without the code in its address.
fn with_pass(pass: &str) -> Answer {
    let mut response = see_other(PATH);
    let cookie = format!("{COOKIE}={pass}; Path={PATH}; Max-Age={PASS_SECONDS}; HttpOnly; SameSite=Lax");
    if let Ok(cookie) = HeaderValue::try_from(cookie) {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    response
}

fn see_other(location: &str) -> Answer {
    let mut response = Response::new(Full::default());
    *response.status_mut() = StatusCode::SEE_OTHER;
    if let Ok(location) = HeaderValue::from_str(location) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    response
}
