//! POST `/rooms/{id}/preview`: a room's page with sample figures, before anybody sees it.

use std::sync::Arc;

use anteroom_core::settings::TemplateName;
use anteroom_pages::{Situation, TEMPLATE_MAX_BYTES, TemplateProblem};
use axum::body::Body;
use axum::extract::State;
use http::Request;
use serde::Deserialize;
use serde_json::json;
use utoipa::ToSchema;

use crate::app::App;
use crate::http::error::ApiError;
use crate::http::request::{Path, read_optional_json};
use crate::http::response::ApiResponse;

/// The largest request: a template as JSON, in which every character may be escaped.
pub(crate) const PREVIEW_MAX_BYTES: usize = 6 * TEMPLATE_MAX_BYTES + 4_096;
/// What is shown unless something else is asked for.
const LANGUAGE: &str = "en";

/// Which page to show.
#[derive(Deserialize, Default, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PreviewBody {
    /// The text of a template that is not in use yet.
    template: Option<String>,
    /// The name of one that is: a file of `page_templates`. Without either it is the room's own.
    #[schema(max_length = 64)]
    page_template: Option<String>,
    /// What the page tells: `waiting`, `turn`, `held`, `gone`, `closed` and so on.
    situation: Option<String>,
    /// The language, as in `Accept-Language`; English if there is no such page.
    #[schema(max_length = 64)]
    language: Option<String>,
}

/// The page, or what is wrong with its template.
pub(crate) async fn preview(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    request: Request<Body>,
) -> Result<ApiResponse, ApiError> {
    let room = app.named_room(Some(&id))?;
    let asked: PreviewBody = read_optional_json(request).await?;
    let settings = room.handle.with_board(|board| Arc::clone(&board.settings));
    let name = asked.situation.as_deref().unwrap_or(Situation::Waiting.name());
    let situation = Situation::from_name(name).ok_or_else(|| {
        let names: Vec<&str> = Situation::ALL.iter().map(|situation| situation.name()).collect();
        ApiError::bad_request(format!("`situation` must be one of {}", names.join(", ")))
    })?;
    let text = match (&asked.template, &asked.page_template) {
        (Some(_), Some(_)) => {
            return Err(ApiError::bad_request("Give `template` or `page_template`, not both"));
        }
        (Some(text), None) => Some(Arc::from(text.as_str())),
        (None, named) => {
            let own = settings.page_template.as_ref().map(TemplateName::as_str);
            named.as_deref().or(own).map(|name| template_named(&app, name)).transpose()?
        }
    };
    let language = asked.language.as_deref().unwrap_or(LANGUAGE);
    let shown = app.pages.preview_response(text.as_deref(), situation, language, Some(&settings));
    shown.map(|response| response.map(Body::from)).map_err(|problem| not_written(&problem))
}

fn template_named(app: &App, name: &str) -> Result<Arc<str>, ApiError> {
    app.pages.template_text(name).ok_or_else(|| {
        let name = crate::config::displayed(name);
        ApiError::bad_request(format!("There is no template {name} in the server's `page_templates`"))
    })
}

fn not_written(problem: &TemplateProblem) -> ApiError {
    let error = ApiError::bad_request(format!("The template does not work: {problem}"));
    error.with_member("line", json!(problem.line))
}
