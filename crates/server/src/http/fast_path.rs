//! The calls that come by the hundred thousand, answered ahead of their handlers: reads from bytes the board prepared, and joins. Which
//! calls these are stands in their rows.

use std::pin::Pin;
use std::sync::Arc;

use anteroom_gateway::identify::Peer;
use anteroom_tokens::request_id;
use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;

use crate::api::aws;
use crate::api::idempotency;
use crate::api::{ticket_request, visitors};
use crate::app::{App, ServedRoom};
use crate::http::error::{ApiError, Style};
use crate::http::prepared::{Prepared, PreparedAnswer};
use crate::http::problem::Problem;
use crate::http::request::{plain_parameter, read_body_within};
use crate::http::response::{Caching, ResponseBody, mark_json};
use crate::http::staleness::Freshness;

/// How a row is answered ahead of its handler. Whatever is unusual about a request, an escape in its query for instance, goes to the
/// handler and gets the same response, `ETag` and count.
#[derive(Debug, Clone, Copy)]
pub(crate) enum FastPath {
    /// From bytes that the board prepared.
    Read(FastRead),
    /// A join, which a hundred thousand people ask for at once.
    Join(FastJoin),
}

/// The response, if nothing is unusual about the request. The text is the first parameter of its path.
type FastRead = fn(&App, &Request<Incoming>, Option<&str>) -> Option<Response<Full<Bytes>>>;
/// The response under way, or the request where something is unusual about it.
type FastJoin = fn(&Arc<App>, &Peer, Request<Incoming>) -> Result<PendingResponse, Request<Incoming>>;
/// A response under way.
pub(crate) type PendingResponse = Pin<Box<dyn Future<Output = Response<ResponseBody>> + Send>>;

const PUBLIC: &str = "public";

/// A response from what the board prepared, if the board is fresh: what is stale is marked so by the handler.
pub(crate) fn read(
    app: &App,
    fast: FastRead,
    request: &Request<Incoming>,
    parameter: Option<&str>,
) -> Option<Response<Full<Bytes>>> {
    if app.freshness() == Freshness::Fresh { fast(app, request, parameter) } else { None }
}

fn queried_room(app: &App, request: &Request<Incoming>) -> Option<Arc<ServedRoom>> {
    app.room(plain_parameter(request.uri().query()?, "event_id")?)
}

/// GET `/serving_num`.
pub(crate) fn serving_num(
    app: &App,
    request: &Request<Incoming>,
    _: Option<&str>,
) -> Option<Response<Full<Bytes>>> {
    let response = figure(&*queried_room(app, request)?, request.headers(), Prepared::serving_num);
    app.metrics.fast_serving_num.count(response.status());
    Some(response)
}

/// GET `/waiting_num`.
pub(crate) fn waiting_num(
    app: &App,
    request: &Request<Incoming>,
    _: Option<&str>,
) -> Option<Response<Full<Bytes>>> {
    let response = figure(&*queried_room(app, request)?, request.headers(), Prepared::waiting_num);
    app.metrics.fast_waiting_num.count(response.status());
    Some(response)
}

/// GET `/queue_num`: the number of a place, deciphered from its id.
pub(crate) fn queue_num(
    app: &App,
    request: &Request<Incoming>,
    _: Option<&str>,
) -> Option<Response<Full<Bytes>>> {
    let room = queried_room(app, request)?;
    let id = request_id::parse(plain_parameter(request.uri().query()?, "request_id")?)?;
    let ticket = room.open_known(id, app.now())?;
    let response = whole(Bytes::from(aws::queue_num_body(&room, &ticket)), Caching::Never);
    app.metrics.fast_queue_num.count(response.status());
    Some(response)
}

/// GET `/status`: where a waiting ticket stands.
pub(crate) fn status(
    app: &App,
    request: &Request<Incoming>,
    _: Option<&str>,
) -> Option<Response<Full<Bytes>>> {
    let room = match request.uri().query() {
        Some(query) => Some(plain_parameter(query, "room")?),
        None => None,
    };
    let ticket = ticket_request::presented_text(request.headers())?;
    let response = whole(Bytes::from(visitors::status_from_board(app, room, ticket)?), Caching::Never);
    app.metrics.fast_status.count(response.status());
    Some(response)
}

/// GET `/rooms/{id}`. A name that would need decoding is not a room's.
pub(crate) fn figures(
    app: &App,
    request: &Request<Incoming>,
    name: Option<&str>,
) -> Option<Response<Full<Bytes>>> {
    let response = figure(&*app.room(name?)?, request.headers(), Prepared::figures);
    app.metrics.fast_board.count(response.status());
    Some(response)
}

/// Which of the prepared answers.
pub(crate) type Choice = fn(&Prepared) -> &PreparedAnswer;

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

/// POST `/assign_queue_num`.
#[expect(clippy::unnecessary_wraps, reason = "a row's fast path may give the request back")]
#[expect(clippy::result_large_err, reason = "what is given back is the request itself")]
pub(crate) fn assign_queue_num(
    app: &Arc<App>,
    peer: &Peer,
    request: Request<Incoming>,
) -> Result<PendingResponse, Request<Incoming>> {
    Ok(Box::pin(respond_to_assign(Arc::clone(app), *peer, request)))
}

/// POST `/join`, unless the query names the room.
#[expect(clippy::result_large_err, reason = "what is given back is the request itself")]
pub(crate) fn join(
    app: &Arc<App>,
    peer: &Peer,
    request: Request<Incoming>,
) -> Result<PendingResponse, Request<Incoming>> {
    match request.uri().query() {
        None => Ok(Box::pin(respond_to_join(Arc::clone(app), *peer, request))),
        Some(_) => Err(request),
    }
}

async fn respond_to_assign(app: Arc<App>, peer: Peer, request: Request<Incoming>) -> Response<ResponseBody> {
    let assigned = async {
        let key = idempotency::key_of(request.headers())?;
        let client = app.client_address(&peer, request.headers());
        let body = read_body_within(request.into_body(), app.request_body_max_bytes).await?;
        aws::assigned(&app, &body, key, client).await
    };
    match assigned.await {
        Ok(body) => {
            let answered = whole(body, Caching::Never).map(ResponseBody::Whole);
            app.metrics.count_response(PUBLIC, "/assign_queue_num", answered.status().as_u16());
            answered
        }
        Err(error) => refused_join(&app, "/assign_queue_num", Style::Aws, error),
    }
}

async fn respond_to_join(app: Arc<App>, peer: Peer, request: Request<Incoming>) -> Response<ResponseBody> {
    let joined = async {
        let key = idempotency::key_of(request.headers())?;
        let client = app.client_address(&peer, request.headers());
        let body = read_body_within(request.into_body(), app.request_body_max_bytes).await?;
        visitors::join_with(&app, None, &body, (key, client)).await
    };
    match joined.await {
        Ok(answered) => {
            app.metrics.count_response(PUBLIC, "/join", answered.status().as_u16());
            answered.map(ResponseBody::Routed)
        }
        Err(error) => refused_join(&app, "/join", Style::Problem, error),
    }
}

/// A join that was refused. That many arrive is no failure of anybody.
fn refused_join(app: &App, path: &'static str, style: Style, error: ApiError) -> Response<ResponseBody> {
    let is_expected = error.is(Problem::ManyArriving);
    let answered = error.render(style, &app.public_url);
    let status = answered.status().as_u16();
    if is_expected {
        app.metrics.count_expected_refusal(PUBLIC, path, status);
    } else {
        app.metrics.count_response(PUBLIC, path, status);
    }
    answered.map(ResponseBody::Routed)
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
