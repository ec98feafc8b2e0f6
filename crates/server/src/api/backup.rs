//! Backup and restore over the private listener, while the server runs. What a backup is, and why a restore opens a new line
//! in every room, is in `docs/adr/0016-backup-and-restore.md`.

use std::collections::BTreeMap;
use std::io::{Seek, Write};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use anteroom_admission::openid::clients;
use anteroom_admission::signing_keys;
use anteroom_engine::{Actor, RestoreRequest, Restored};
use anteroom_events::destinations;
use anteroom_store::StoreError;
use anteroom_store::backup::BackupStream;
use anteroom_store::backup::restore::RestoreError;
use anteroom_tokens::random;
use axum::body::Body;
use axum::extract::State;
use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::{Method, Request, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Frame;
use serde_json::json;

use crate::access::Principal;
use crate::access::api_keys;
use crate::app::{App, to_the_end};
use crate::http::error::ApiError;
use crate::http::problem::Problem;
use crate::http::request::BODY_READ_TIMEOUT;
use crate::http::response::{self, ApiResponse, Caching, mark_json};
use crate::http::routes::RESTORE_MAX_BYTES;
use crate::http::timestamp::rfc3339;
use crate::ops::master_secret;

type Outcome = Result<ApiResponse, ApiError>;

/// GET `/backup`: everything the store has, as of one moment, as a stream.
pub(crate) async fn backup(State(app): State<Arc<App>>, principal: Principal, method: Method) -> Outcome {
    let body = if method == Method::HEAD {
        Body::empty()
    } else {
        tracing::info!(actor = principal.name, "taking a backup");
        Body::new(BackupBody::new(app.engine.backup().await?))
    };
    let mut response = ApiResponse::new(body);
    let headers = response.headers_mut();
    mark_json(headers, Caching::Never);
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers.insert(
        header::CONTENT_DISPOSITION,
        HeaderValue::from_static("attachment; filename=\"anteroom.backup\""),
    );
    Ok(response)
}

type NextPiece = Pin<Box<dyn Future<Output = (BackupStream, Option<Result<Vec<u8>, StoreError>>)> + Send>>;

/// The body of a backup in flight. A backup that fails ends the connection, so that it is not mistaken for a complete
/// one.
struct BackupBody(Option<NextPiece>);

impl BackupBody {
    fn new(stream: BackupStream) -> Self {
        Self(Some(next_piece(stream)))
    }
}

fn next_piece(mut stream: BackupStream) -> NextPiece {
    Box::pin(async move {
        let piece = stream.next().await;
        (stream, piece)
    })
}

impl hyper::body::Body for BackupBody {
    type Data = Bytes;
    type Error = StoreError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, StoreError>>> {
        let this = self.get_mut();
        let Some(next) = &mut this.0 else { return Poll::Ready(None) };
        let Poll::Ready((stream, piece)) = next.as_mut().poll(context) else { return Poll::Pending };
        this.0 = matches!(piece, Some(Ok(_))).then(|| next_piece(stream));
        Poll::Ready(piece.map(|piece| piece.map(|bytes| Frame::data(bytes.into()))))
    }
}

/// POST `/restore`: replaces everything by what a backup has. Nothing changes unless all of it is there and fits.
pub(crate) async fn restore(
    State(app): State<Arc<App>>,
    principal: Principal,
    request: Request<Body>,
) -> Outcome {
    let Ok(_only_one) = app.restoring.try_lock() else {
        return Err(ApiError::unavailable("Another backup is being restored"));
    };
    let file = receive(request.into_body()).await?;
    let restored = to_the_end(replace_everything(Arc::clone(&app), principal.actor(), file)).await?;
    let body = json!({
        "rooms": restored.rooms,
        "sessions": restored.sessions,
        "taken_at": rfc3339(restored.taken_at),
    });
    Ok(response::json(StatusCode::OK, Caching::Never, &body))
}

/// Restores the backup, and then takes over rooms and keys as they are in the store now; also after a failure, because
/// one whose outcome is not known may have happened.
async fn replace_everything(app: Arc<App>, actor: Actor, file: std::fs::File) -> Result<Restored, ApiError> {
    let secrets = Arc::clone(app.access.keys.secrets());
    let has_environment_key = app.access.keys.has_environment_key();
    let accept_values = move |values: &BTreeMap<String, Vec<u8>>| {
        master_secret::accept(values, &secrets)?;
        signing_keys::accept(values, &secrets)?;
        clients::accept(values)?;
        destinations::accept(values)?;
        api_keys::accept(values, has_environment_key)
    };
    let request = RestoreRequest {
        source: Box::new(file),
        accept_values: Box::new(accept_values),
        incarnation: Box::new(|| random::bytes::<1>()[0]),
        actor,
    };
    let outcome = app.engine.restore(request).await;
    app.follow_rooms();
    let signing_keys = app.admission.keys.reload(&**app.engine.store()).await.map_err(|error| {
        tracing::error!(%error, "the signing keys of the backup cannot be read");
        ApiError::unavailable(
            "The backup was restored, but its signing keys cannot be read: restart the server",
        )
    });
    let api_keys = app.access.keys.reload().await;
    let openid_clients = app.admission.openid_clients.reload().await;
    let destinations = app.destinations.reload().await;
    let alarms = app.alarms.reload().await;
    let restored = outcome?;
    signing_keys?;
    api_keys?;
    openid_clients?;
    destinations?;
    alarms?;
    Ok(restored)
}

/// The body as a temporary file, which vanishes when it is closed.
async fn receive(mut body: Body) -> Result<std::fs::File, ApiError> {
    let no_room = |error: std::io::Error| {
        tracing::warn!(%error, "writing the backup to a temporary file failed");
        ApiError::unavailable("There is no room for the backup in the directory of temporary files")
    };
    let mut file = tempfile::tempfile().map_err(no_room)?;
    let mut length = 0;
    loop {
        let frame = tokio::time::timeout(BODY_READ_TIMEOUT, body.frame()).await;
        let frame =
            frame.map_err(|_| ApiError::problem(Problem::BodyTimeout, "The body did not arrive in time"))?;
        let Some(frame) = frame else { break };
        let frame = frame.map_err(|_| ApiError::bad_request("The body could not be read"))?;
        let Ok(piece) = frame.into_data() else { continue };
        length += piece.len() as u64;
        if length > RESTORE_MAX_BYTES {
            let text = format!("The backup is larger than {RESTORE_MAX_BYTES} bytes");
            return Err(ApiError::problem(Problem::TooLarge, text));
        }
        // Written where a slow disk holds up nobody else.
        let written = tokio::task::spawn_blocking(move || file.write_all(&piece).map(|()| file)).await;
        file = written
            .map_err(|_| ApiError::unavailable("The backup could not be written down"))?
            .map_err(no_room)?;
    }
    file.rewind().map_err(no_room)?;
    Ok(file)
}

impl From<RestoreError> for ApiError {
    fn from(error: RestoreError) -> Self {
        match error {
            RestoreError::Backup(error) => {
                Self::bad_request(format!("This is no backup that can be restored: {error}"))
            }
            RestoreError::Refused(why) => Self::problem(Problem::Conflict, why),
            RestoreError::Room { .. } => Self::problem(Problem::Conflict, error.to_string()),
            RestoreError::Busy => Self::unavailable("Another backup is being restored"),
            RestoreError::Stopped => Self::unavailable("The server is shutting down"),
            RestoreError::Store(error) => error.into(),
        }
    }
}
