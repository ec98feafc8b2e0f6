//! What the API is, for programs and for people: an `OpenAPI` document of each listener at `/openapi.json`, and both as a page
//! at `/docs`. The same documents lie in `docs/api/`; a test compares them.
//!
//! A document is made by walking the table of its listener (`routes`). What a row says (who may call, how much is read, how errors
//! are written) is taken from the row, and the rest from the function that the row names as its documentation. Schemas come from the
//! types that are read and written.

mod answers;
mod answers_alarms;
mod call;
pub(crate) mod calls_aws;
pub(crate) mod calls_capacity;
pub(crate) mod calls_check;
pub(crate) mod calls_clients;
pub(crate) mod calls_destinations;
pub(crate) mod calls_line;
pub(crate) mod calls_openid;
pub(crate) mod calls_private;
pub(crate) mod calls_visitors;
mod derived;
mod html;
pub(crate) mod schemas;

use std::sync::LazyLock;

use axum::body::Body;
use utoipa::openapi::info::{InfoBuilder, LicenseBuilder};
use utoipa::openapi::path::{HttpMethod, Paths};
use utoipa::openapi::schema::ComponentsBuilder;
use utoipa::openapi::security::{ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::server::{ServerBuilder, ServerVariableBuilder};
use utoipa::openapi::tag::TagBuilder;
use utoipa::openapi::{Components, OpenApi, OpenApiBuilder, Server};

pub(crate) use self::call::Call;
use self::call::{Group, Schemas};
use self::derived::{BEARER_SCHEME, SIGNATURE_SCHEME, TICKET_SCHEME};
use crate::http::error::ApiError;
use crate::http::html_frame;
use crate::http::request::Parameters;
use crate::http::response::{ApiResponse, Caching, mark_json};
use crate::http::routes::{Listener, PREFIX, Route, Verb};

/// What examples show for a request id, a token, a moment and a line.
const REQUEST_ID: &str = "0e51b1d4-3c0f-8a86-9d44-7a1c5f7c2b90";
const JWT: &str = "eyJhbGciOiJSUzI1NiJ9.eyJhdWQiOiJTYW1wbGUifQ.c2lnbmF0dXJl";
const MOMENT: &str = "2026-11-16T20:00:00.000Z";
const GENERATION: u64 = 23_209_574_407;

static PUBLIC_TEXT: LazyLock<String> = LazyLock::new(|| document_text(Listener::Public));
static PRIVATE_TEXT: LazyLock<String> = LazyLock::new(|| document_text(Listener::Private));

/// The document of a listener, as it is served and as it lies in `docs/api/`.
pub fn reference(listener: Listener) -> &'static str {
    match listener {
        Listener::Public => &PUBLIC_TEXT,
        Listener::Private => &PRIVATE_TEXT,
    }
}

fn document_text(listener: Listener) -> String {
    let mut text = document(listener).to_pretty_json().expect("a document of ours can be written as JSON");
    text.push('\n');
    text
}

/// GET `/openapi.json`.
pub(crate) async fn json(parameters: Parameters) -> Result<ApiResponse, ApiError> {
    let listener = match parameters.one("listener")? {
        None | Some("private") => Listener::Private,
        Some("public") => Listener::Public,
        Some(_) => return Err(ApiError::bad_request("`listener` must be \"private\" or \"public\"")),
    };
    let mut response = ApiResponse::new(Body::from(reference(listener)));
    mark_json(response.headers_mut(), Caching::Keys);
    Ok(response)
}

/// GET `/docs`.
pub(crate) async fn docs() -> ApiResponse {
    static PAGE: LazyLock<String> = LazyLock::new(html::page);
    html_frame::answer(PAGE.clone())
}

/// The path of a row as documents write it: a parameter that takes the rest of a path is an ordinary one there.
fn documented_path(route: &Route) -> String {
    route.path.replace("{*", "{")
}

/// The document of a listener.
fn document(listener: Listener) -> OpenApi {
    let mut paths = Paths::new();
    let mut schemas = Schemas::new();
    let mut groups = vec![];
    for route in listener.routes() {
        let call = (route.documentation)();
        groups.push(call.group);
        let (operation, referred_to) = derived::operation(listener, route, call);
        schemas.extend(referred_to);
        paths.add_path_operation(documented_path(route), vec![method(route.method)], operation);
    }
    let tags = Group::ALL.into_iter().filter(|group| groups.contains(group));
    let tags =
        tags.map(|group| TagBuilder::new().name(group.name()).description(Some(group.meaning())).build());
    let (title, description) = introduction(listener);
    let license =
        LicenseBuilder::new().name(env!("CARGO_PKG_LICENSE")).identifier(Some(env!("CARGO_PKG_LICENSE")));
    let info = InfoBuilder::new()
        .title(title)
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some(description))
        .license(Some(license.build()));
    OpenApiBuilder::new()
        .info(info.build())
        .servers(Some(servers(listener)))
        .paths(paths)
        .components(Some(components(listener, schemas)))
        .tags(Some(tags))
        .build()
}

const fn method(verb: Verb) -> HttpMethod {
    match verb {
        Verb::Get => HttpMethod::Get,
        Verb::Post => HttpMethod::Post,
        Verb::Put => HttpMethod::Put,
        Verb::Patch => HttpMethod::Patch,
        Verb::Delete => HttpMethod::Delete,
    }
}

const CONVENTIONS: &str = "\
Times are RFC 3339 in UTC with milliseconds; durations are whole seconds and end in `_seconds`, except where AWS has another name. \
Errors are RFC 9457 problem details whose `type` leads to an entry of the reference (`/problems` on the public listener), and \
`{\"error\": …}` on the AWS paths. Every answer may be read by any web page (`Access-Control-Allow-Origin: *`) and OPTIONS is \
answered, except on `/line` and `/wait`, which go by a cookie; 401 and 403 on the private AWS paths may not. Answers are `no-store` unless said otherwise.

Beside what each call lists: a path that does not exist answers 404 `not-found`, a method that a path does not have 405 `method-not-allowed` \
with `Allow`. A head that is too large is answered with 431, and a connection beyond the limit with 503, `Retry-After` and \
`{\"error\": …}`, before anybody looks at the path.";

fn introduction(listener: Listener) -> (&'static str, String) {
    match listener {
        Listener::Public => {
            let text = format!(
                "What visitors and their browsers call. Every path also answers under `{PREFIX}`, so that it works on a protected host. HEAD \
                 answers as GET does.\n\n{CONVENTIONS}"
            );
            ("Anteroom, public listener", text)
        }
        Listener::Private => {
            let text = format!(
                "What operators and protected sites call. A call needs a key (`Authorization: Bearer KEY`) or an AWS Signature Version 4, and \
                 each key has a role: viewer, origin, operator or admin. 401: the key is not known; 403: its role does not allow \
                 it.\n\n{CONVENTIONS}"
            );
            ("Anteroom, private listener", text)
        }
    }
}

fn servers(listener: Listener) -> Vec<Server> {
    let (text, default, paths): (_, _, &[&str]) = match listener {
        Listener::Public => ("The public listener", "http://127.0.0.1:8080", &["", PREFIX]),
        Listener::Private => ("The private listener", "http://127.0.0.1:8081", &[""]),
    };
    let server = |path: &&str| {
        let text = if path.is_empty() { text.to_owned() } else { format!("{text}, on a protected host") };
        let address =
            ServerVariableBuilder::new().default_value(default).description(Some("Where it listens"));
        ServerBuilder::new()
            .url(format!("{{address}}{path}"))
            .description(Some(text))
            .parameter("address", address)
            .build()
    };
    paths.iter().map(server).collect()
}

fn components(listener: Listener, schemas: Schemas) -> Components {
    let components = ComponentsBuilder::new().schemas_from_iter(schemas);
    let bearer = |text: &str| {
        let http = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).description(Some(text));
        SecurityScheme::Http(http.build())
    };
    let ways_in = match listener {
        Listener::Public => {
            let text = "A ticket in either of its written forms: the ticket token of `/join`, or the request id. `Bearer ` may be left out.";
            vec![(TICKET_SCHEME, bearer(text))]
        }
        Listener::Private => {
            let text = "AWS Signature Version 4 with a pair made by `POST /keys` (kind `sigv4`): service `execute-api`, any region.";
            let mut signature = ApiKeyValue::with_description("Authorization", text);
            signature.extensions = Some([("x-amazon-apigateway-authtype", "awsSigv4")].into_iter().collect());
            vec![
                (BEARER_SCHEME, bearer("An API key, as `POST /keys` shows it once.")),
                (SIGNATURE_SCHEME, SecurityScheme::ApiKey(ApiKey::Header(signature))),
            ]
        }
    };
    ways_in
        .into_iter()
        .fold(components, |components, (name, scheme)| components.security_scheme(name, scheme))
        .build()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const LISTENERS: [Listener; 2] = [Listener::Public, Listener::Private];

    #[test]
    fn the_committed_documents_are_what_the_code_says() {
        for listener in LISTENERS {
            let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/api");
            let path = format!("{directory}/openapi.{}.json", listener.name());
            if std::env::var_os("ANTEROOM_WRITE_REFERENCES").is_some() {
                std::fs::write(&path, reference(listener)).unwrap();
            }
            let committed = std::fs::read_to_string(&path).unwrap();
            assert!(
                committed == reference(listener),
                "{path} differs: run this test with ANTEROOM_WRITE_REFERENCES=1 to write it anew"
            );
        }
    }

    #[test]
    fn every_operation_has_a_name_of_its_own_and_says_everything() {
        for listener in LISTENERS {
            let document: serde_json::Value = serde_json::from_str(reference(listener)).unwrap();
            let mut names = BTreeSet::new();
            for (path, item) in document["paths"].as_object().unwrap() {
                for (method, operation) in item.as_object().unwrap() {
                    let name = format!("{method} {path}");
                    assert!(names.insert(operation["operationId"].as_str().unwrap().to_owned()), "{name}");
                    assert!(operation["summary"].as_str().unwrap().len() > 5, "{name}");
                    assert!(
                        operation["description"].as_str().unwrap().contains("**Who may call it:**"),
                        "{name}"
                    );
                    assert_eq!(operation["tags"].as_array().unwrap().len(), 1, "{name}");
                    let answers = operation["responses"].as_object().unwrap();
                    // The page that nginx shows after a refusal lets nothing pass.
                    let is_refusal = path.as_str() == "/check/nginx/{room}/page";
                    let goes_well = |status: &String| status.starts_with('2') || status == "303";
                    assert!(is_refusal || answers.keys().any(goes_well), "{name}");
                    for part in path.split('{').skip(1).map(|rest| rest.split('}').next().unwrap()) {
                        let parameters = operation["parameters"].as_array().unwrap();
                        let described = parameters
                            .iter()
                            .any(|parameter| parameter["in"] == "path" && parameter["name"] == part);
                        assert!(described, "{name}: {part}");
                    }
                }
            }
        }
    }

    #[test]
    fn every_reference_leads_somewhere_and_nothing_is_left_over() {
        for listener in LISTENERS {
            let text = reference(listener);
            let document: serde_json::Value = serde_json::from_str(text).unwrap();
            let schemas = document["components"]["schemas"].as_object().unwrap();
            let referred: BTreeSet<&str> = text
                .split("\"#/components/schemas/")
                .skip(1)
                .map(|rest| rest.split('"').next().unwrap())
                .collect();
            let defined: BTreeSet<&str> = schemas.keys().map(String::as_str).collect();
            assert_eq!(referred, defined, "{}", listener.name());
        }
    }
}
