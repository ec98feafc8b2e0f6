//! The reads that every waiting visitor repeats, answered ahead of the router from bytes the board prepared.

use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;

use crate::answer::{Caching, mark_json};
use crate::app::App;
use crate::prepared::{Prepared, PreparedAnswer};
use crate::request::plain_parameter;

/// The answer, if this is a hot read without anything unusual about it.
pub(crate) fn answer<B>(app: &App, request: &Request<B>) -> Option<Response<Full<Bytes>>> {
    let choose: fn(&Prepared) -> &PreparedAnswer = match request.uri().path() {
        "/serving_num" => |prepared| &prepared.serving_num,
        "/waiting_num" => |prepared| &prepared.waiting_num,
        _ => return None,
    };
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return None;
    }
    let room = app.room(plain_parameter(request.uri().query()?, "event_id")?)?;
    let prepared = room.prepared();
    let chosen = choose(&prepared);
    app.metrics.hot_read();
    let unchanged =
        request.headers().get(header::IF_NONE_MATCH).is_some_and(|seen| names(seen, &chosen.etag));
    let body = if unchanged { Bytes::new() } else { chosen.body.clone() };
    let mut response = Response::new(Full::new(body));
    let headers = response.headers_mut();
    mark_json(headers, Caching::Board);
    headers.insert(header::ETAG, chosen.etag.clone());
    if unchanged {
        headers.remove(header::CONTENT_TYPE);
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    }
    Some(response)
}

/// Whether an If-None-Match lists a tag; weak tags compare like strong ones here.
fn names(seen: &HeaderValue, etag: &HeaderValue) -> bool {
    let (Ok(seen), Ok(etag)) = (seen.to_str(), etag.to_str()) else {
        return false;
    };
    seen.split(',').map(str::trim).any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == etag)
}
