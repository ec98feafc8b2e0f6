//! The calls that come by the hundred thousand, answered ahead of the router: reads from bytes the board prepared, and joins.

use std::pin::Pin;
use std::sync::Arc;

use anteroom_tokens::request_id;
use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;

use crate::api::aws;
use crate::api::idempotency;
use crate::api::{ticket_request, visitors};
use crate::app::{App, ServedRoom};
use crate::http::error::Style;
use crate::http::prepared::{Prepared, PreparedAnswer};
use crate::http::request::{plain_parameter, read_body_within};
use crate::http::response::{AnswerBody, Caching, mark_json};
use crate::http::staleness::Freshness;

const PUBLIC: &str = "public";
const ASSIGN_PATH: &str = "/assign_queue_num";
const JOIN_PATH: &str = "/join";

/// The answer, if this is a hot read without anything unusual about it.
pub(crate) fn answer<B>(app: &App, request: &Request<B>) -> Option<Response<Full<Bytes>>> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return None;
    }
    // What is marked as stale is written the careful way.
    if app.freshness() != Freshness::Fresh {
        return None;
    }
    let query = request.uri().query();
    let room = || app.room(plain_parameter(query?, "event_id")?);
    let headers = request.headers();
    let (counters, answered) = match request.uri().path() {
        "/serving_num" => (&app.metrics.hot_serving_num, figure(&*room()?, headers, serving_num)),
        "/waiting_num" => (&app.metrics.hot_waiting_num, figure(&*room()?, headers, waiting_num)),
        "/queue_num" => (&app.metrics.hot_queue_num, queue_num(app, &*room()?, query?)?),
        "/status" => (&app.metrics.hot_status, status(app, query, headers)?),
        path => {
            // A name that would need decoding is not a room's.
            let room = app.room(path.strip_prefix("/rooms/")?)?;
            (&app.metrics.hot_board, figure(&room, headers, Prepared::figures))
        }
    };
    counters.count(answered.status());
    Some(answered)
}

/// Which of the prepared answers.
pub(crate) type Choice = fn(&Prepared) -> &PreparedAnswer;

/// `/serving_num`.
pub(crate) fn serving_num(prepared: &Prepared) -> &PreparedAnswer {
    &prepared.serving_num
}

/// `/waiting_num`.
pub(crate) fn waiting_num(prepared: &Prepared) -> &PreparedAnswer {
    &prepared.waiting_num
}

/// A figure of the board, from bytes that are already there.
pub(crate) fn figure(room: &ServedRoom, headers: &HeaderMap, choose: Choice) -> Response<Full<Bytes>> {
    let prepared = room.prepared();
    let chosen = choose(&prepared);
    let unchanged = headers.get(header::IF_NONE_MATCH).is_some_and(|seen| names(seen, &chosen.etag));
    let body = if unchanged { Bytes::new() } else { chosen.body.clone() };
    let mut response = whole(body, Caching::Board);
    let headers = response.headers_mut();
    headers.insert(header::ETAG, chosen.etag.clone());
    if unchanged {
        headers.remove(header::CONTENT_TYPE);
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    }
    response
}

/// The number of a place, deciphered from its id.
fn queue_num(app: &App, room: &ServedRoom, query: &str) -> Option<Response<Full<Bytes>>> {
    let id = request_id::parse(plain_parameter(query, "request_id")?)?;
    let ticket = room.open_known(id, app.now())?;
    Some(whole(Bytes::from(aws::queue_num_body(room, &ticket)), Caching::Never))
}

/// Where a waiting ticket stands.
fn status(app: &App, query: Option<&str>, headers: &HeaderMap) -> Option<Response<Full<Bytes>>> {
    let room = match query {
        Some(query) => Some(plain_parameter(query, "room")?),
        None => None,
    };
    let text = visitors::status_at_once(app, room, ticket_request::presented_text(headers)?)?;
    Some(whole(Bytes::from(text), Caching::Never))
}

/// The writes with a short way, without a router or boxes around bodies: taking a place, which a hundred thousand people do
/// at once. Gives any other request back.
#[expect(clippy::result_large_err, reason = "what is given back is the request itself")]
pub(crate) fn join(app: &Arc<App>, request: Request<Incoming>) -> Result<Joining, Request<Incoming>> {
    if request.method() != Method::POST {
        return Err(request);
    }
    let app = Arc::clone(app);
    match (request.uri().path(), request.uri().query()) {
        (ASSIGN_PATH, _) => Ok(Box::pin(assign_queue_num(app, request))),
        (JOIN_PATH, None) => Ok(Box::pin(native_join(app, request))),
        _ => Err(request),
    }
}

/// A join under way.
pub(crate) type Joining = Pin<Box<dyn Future<Output = Response<AnswerBody>> + Send>>;

async fn assign_queue_num(app: Arc<App>, request: Request<Incoming>) -> Response<AnswerBody> {
    let assigned = async {
        let key = idempotency::key_of(request.headers())?;
        let body = read_body_within(request.into_body(), app.request_body_max_bytes).await?;
        aws::assigned(&app, &body, key).await
    };
    let answered = match assigned.await {
        Ok(body) => whole(body, Caching::Never).map(AnswerBody::Whole),
        Err(error) => error.render(Style::Aws, &app.public_url).map(AnswerBody::Routed),
    };
    app.metrics.answered(PUBLIC, ASSIGN_PATH, answered.status().as_u16());
    answered
}

async fn native_join(app: Arc<App>, request: Request<Incoming>) -> Response<AnswerBody> {
    let joined = async {
        let key = idempotency::key_of(request.headers())?;
        let body = read_body_within(request.into_body(), app.request_body_max_bytes).await?;
        visitors::join_with(&app, None, &body, key).await
    };
    let answered = joined.await.unwrap_or_else(|error| error.render(Style::Problem, &app.public_url));
    app.metrics.answered(PUBLIC, JOIN_PATH, answered.status().as_u16());
    answered.map(AnswerBody::Routed)
}

fn whole(body: Bytes, caching: Caching) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body));
    mark_json(response.headers_mut(), caching);
    response
}

/// Whether an If-None-Match lists a tag; weak tags compare like strong ones here.
fn names(seen: &HeaderValue, etag: &HeaderValue) -> bool {
    let (Ok(seen), Ok(etag)) = (seen.to_str(), etag.to_str()) else {
        return false;
    };
    seen.split(',').map(str::trim).any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == etag)
}
