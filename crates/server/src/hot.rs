//! The calls that come by the hundred thousand, answered ahead of the router: reads from bytes the board prepared, and joins.

use anteroom_tokens::request_id;
use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;

use crate::answer::{AwsError, Caching, mark_json};
use crate::app::{App, RoomView};
use crate::aws;
use crate::prepared::{Prepared, PreparedAnswer};
use crate::request::plain_parameter;

/// The answer, if this is a hot read without anything unusual about it.
pub(crate) fn answer<B>(app: &App, request: &Request<B>) -> Option<Response<Full<Bytes>>> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return None;
    }
    if let Some(id) = request.uri().path().strip_prefix("/rooms/") {
        let answered = figure(app.room(id)?, request.headers(), Prepared::figures);
        app.metrics.hot_figures.count(answered.status());
        return Some(answered);
    }
    let query = request.uri().query()?;
    let room = || app.room(plain_parameter(query, "event_id")?);
    let (counters, answered) = match request.uri().path() {
        "/serving_num" => (&app.metrics.hot_serving_num, figure(room()?, request.headers(), serving_num)),
        "/waiting_num" => (&app.metrics.hot_waiting_num, figure(room()?, request.headers(), waiting_num)),
        "/queue_num" => (&app.metrics.hot_queue_num, queue_num(app, room()?, query)?),
        _ => return None,
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
pub(crate) fn figure(room: &RoomView, headers: &HeaderMap, choose: Choice) -> Response<Full<Bytes>> {
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
fn queue_num(app: &App, room: &RoomView, query: &str) -> Option<Response<Full<Bytes>>> {
    let id = request_id::parse(plain_parameter(query, "request_id")?)?;
    let ticket = room.open_known(id, app.now())?;
    Some(whole(Bytes::from(aws::queue_num_body(room, &ticket)), Caching::Never))
}

/// The one write with a short way: taking a place, which a hundred thousand people do at once.
pub(crate) async fn assign_queue_num(
    app: &App,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, AwsError> {
    Ok(whole(aws::assign_queue_num(app, request).await?, Caching::Never))
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
