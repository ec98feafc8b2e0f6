//! What a row of `routes` implies for the document: who may call it, how much it reads, and the answers that follow from both.

use utoipa::openapi::path::{Operation, OperationBuilder};
use utoipa::openapi::response::ResponsesBuilder;
use utoipa::openapi::security::SecurityRequirement;

use super::call::{AnswerHeader, Call, Schemas, Ticket};
use crate::access::Permission;
use crate::config::SETTINGS;
use crate::http::error::{ApiError, Style};
use crate::http::problem::Problem;
use crate::http::routes::{Access, BodyLimit, Listener, Route};

pub(super) const BEARER_SCHEME: &str = "key";
pub(super) const SIGNATURE_SCHEME: &str = "signature";
pub(super) const TICKET_SCHEME: &str = "ticket";

/// The operation of a row, and the schemas it refers to.
pub(super) fn operation(listener: Listener, route: &Route, mut call: Call) -> (Operation, Schemas) {
    add_answers(listener, route, &mut call);
    let format = if call.reads_form() { FORM } else { JSON };
    let mut paragraphs = vec![call.description, who(listener, route, call.ticket)];
    paragraphs.extend(reads(route, format));
    paragraphs.extend(goes_on(route));
    let mut responses = ResponsesBuilder::new();
    for (status, answer) in call.answers {
        responses = responses.response(status.to_string(), answer.response());
    }
    let mut operation = OperationBuilder::new()
        .tag(call.group.name())
        .operation_id(Some(call.id))
        .summary(Some(call.summary))
        .description(Some(paragraphs.join("\n\n")))
        .request_body(call.body)
        .responses(responses.build())
        .securities(Some(security(route, call.ticket)));
    if !call.parameters.is_empty() {
        operation = operation.parameters(Some(call.parameters));
    }
    (operation.build(), call.schemas)
}

fn security(route: &Route, ticket: Ticket) -> Vec<SecurityRequirement> {
    let by = |scheme: &str| SecurityRequirement::new(scheme, Vec::<String>::new());
    match (route.access, ticket) {
        (Access::Needs(_) | Access::OpenIfConfigured(_), _) => vec![by(BEARER_SCHEME), by(SIGNATURE_SCHEME)],
        (Access::Open, Ticket::NotNeeded) => vec![],
        (Access::Open, Ticket::InHeader) => vec![by(TICKET_SCHEME)],
        (Access::Open, Ticket::InHeaderOrBody) => vec![by(TICKET_SCHEME), SecurityRequirement::default()],
    }
}

/// Who may call it, in words.
fn who(listener: Listener, route: &Route, ticket: Ticket) -> String {
    let keys = |permission: Permission| format!("keys with one of the roles {}", permission.roles());
    let who = match (route.access, ticket) {
        (Access::Needs(permission), _) => keys(permission),
        (Access::OpenIfConfigured(permission), _) => {
            format!("{}; anybody, if the server is configured with `metrics_open`", keys(permission))
        }
        (Access::Open, Ticket::InHeader) => {
            "the holder of the ticket, who shows it in `Authorization`, with or without `Bearer `".into()
        }
        (Access::Open, Ticket::InHeaderOrBody) => {
            "the holder of the ticket, who shows it in `Authorization`, with or without `Bearer `, or in the body".into()
        }
        (Access::Open, Ticket::NotNeeded) if listener == Listener::Private => {
            "anybody who reaches the private listener; no key is needed".into()
        }
        (Access::Open, Ticket::NotNeeded) => "anybody".into(),
    };
    format!("**Who may call it:** {who}.")
}

const JSON: &str = "JSON, whatever its `Content-Type` says";
const FORM: &str = "a form (`application/x-www-form-urlencoded`)";

/// How much it reads, in words.
fn reads(route: &Route, format: &str) -> Option<String> {
    match route.body {
        BodyLimit::Nothing => None,
        BodyLimit::Configured => {
            let setting = SETTINGS.iter().find(|setting| setting.name == "request_body_max_bytes")?;
            let (name, default) = (setting.name, setting.sample);
            Some(format!("**Body:** {format}; at most `{name}` ({default} unless configured)."))
        }
        BodyLimit::Fixed(limit) => Some(format!("**Body:** {format}; at most {limit} bytes.")),
        BodyLimit::Streamed(limit) => Some(format!("**Body:** read as it comes; at most {limit} bytes.")),
    }
}

/// What becomes of it while the store is lost, in words.
fn goes_on(route: &Route) -> Option<String> {
    let setting = SETTINGS.iter().find(|setting| setting.name == "stale_reads_max_seconds")?;
    let (name, default) = (setting.name, setting.sample);
    route.is_from_board.then(|| {
        format!(
            "**While the server has lost its store** it goes on with what was known last, says so in `Anteroom-Stale`, and is not to be \
             stored; after `{name}` ({default} unless configured) it is 503. Only where several nodes share a store."
        )
    })
}

fn add_answers(listener: Listener, route: &Route, call: &mut Call) {
    let needs_key = !matches!(route.access, Access::Open);
    let reads = route.body != BodyLimit::Nothing;
    let takes_something = reads || call.body.is_some() || !call.parameters.is_empty();
    let (aws, oauth) = (route.errors == Style::Aws, route.errors == Style::OAuth);
    let mut add = |problem: Problem, text: &str| {
        // A request that bypasses the CDN is refused before its path is looked at.
        let is_refused_early = problem == Problem::Forbidden && listener == Listener::Public;
        if aws && !is_refused_early {
            call.add_error(problem.status().as_u16(), text);
        } else if oauth && !is_refused_early {
            let code = ApiError::problem(problem, text).oauth_code();
            call.add_oauth_error(problem.status().as_u16(), code, text);
        } else {
            call.add_problem(problem, Some(text));
        }
    };
    if takes_something {
        add(
            Problem::BadRequest,
            "A parameter, a header or the body is missing, malformed or out of range. Nothing was changed.",
        );
    }
    if needs_key {
        add(
            Problem::Unauthorized,
            "The key is missing, unknown, expired or revoked, or the signature does not fit.",
        );
        add(Problem::Forbidden, "The key is known, but its role does not allow this.");
    }
    if listener == Listener::Public {
        add(
            Problem::Forbidden,
            "Only if `origin_secret_header` is configured: the request did not come by way of the CDN.",
        );
    }
    if listener == Listener::Public {
        add(
            Problem::QuotaExceeded,
            "The client has used up one of its budgets of requests; `Retry-After` says when to ask again.",
        );
    }
    // A signature covers the body, so a signed request's body is read even where nothing is done with it.
    if reads || needs_key {
        add(Problem::BodyTimeout, "The body did not arrive in time.");
        add(Problem::TooLarge, "The body is larger than this call reads.");
    }
    add(Problem::Unavailable, "Not possible at the moment; `Retry-After` says when to ask again.");
    if route.is_from_board
        && let Some(answer) = call.answers.get_mut(&200)
    {
        answer.headers.push(AnswerHeader::Stale);
    }
    let (authenticate, retry) = (AnswerHeader::WwwAuthenticate, AnswerHeader::RetryAfter);
    let (quota, policies) = (AnswerHeader::RateLimit, AnswerHeader::RateLimitPolicy);
    for (status, header) in [(401, authenticate), (429, retry), (429, quota), (429, policies), (503, retry)] {
        if let Some(answer) = call.answers.get_mut(&status) {
            answer.headers.push(header);
        }
    }
}
