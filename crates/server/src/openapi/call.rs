//! One call as the documents tell of it: what its row in `routes` does not say. What the row does say is added by `derived`.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value as Json;
use utoipa::ToSchema;
use utoipa::openapi::content::ContentBuilder;
use utoipa::openapi::example::ExampleBuilder;
use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::link::Link;
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::request_body::{RequestBody, RequestBodyBuilder};
use utoipa::openapi::response::{Response, ResponseBuilder};
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
use utoipa::openapi::{Ref, RefOr, Required};

use super::answers::{AwsError, OAuthError, ProblemDetails};
use crate::http::problem::Problem;

pub(super) const JSON: &str = "application/json";
const FORM: &str = "application/x-www-form-urlencoded";
pub(super) const PROBLEM_JSON: &str = "application/problem+json";

/// The schemas a document refers to, by name.
pub(super) type Schemas = BTreeMap<String, RefOr<Schema>>;

/// How the calls are grouped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Group {
    Aws,
    Visitors,
    Pages,
    OpenId,
    Checks,
    Rooms,
    Alarms,
    Destinations,
    Access,
    Server,
}

impl Group {
    /// Every group, in the order in which they are read.
    pub(super) const ALL: [Self; 10] = [
        Self::Aws,
        Self::Visitors,
        Self::Pages,
        Self::OpenId,
        Self::Checks,
        Self::Rooms,
        Self::Alarms,
        Self::Destinations,
        Self::Access,
        Self::Server,
    ];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Aws => "AWS",
            Self::Visitors => "Visitors",
            Self::Pages => "Pages",
            Self::OpenId => "OpenID",
            Self::Checks => "Checks",
            Self::Rooms => "Rooms",
            Self::Alarms => "Alarms",
            Self::Destinations => "Destinations",
            Self::Access => "Access",
            Self::Server => "Server",
        }
    }

    pub(super) const fn meaning(self) -> &'static str {
        match self {
            Self::Aws => {
                "The calls of Virtual Waiting Room on AWS, for clients that were written for it. A room is an *event* here, and is \
                 always named. Errors are `{\"error\": \"…\"}`."
            }
            Self::Visitors => {
                "Our own calls for visitors: join, wait, claim, leave; and a room's figures, once or live."
            }
            Self::Pages => {
                "The waiting page, and the calls by which it goes on. A cookie of the room says who asks; nothing of it is for pages of other sites."
            }
            Self::OpenId => {
                "The OpenID provider: sites that know OpenID Connect let their visitors log in by waiting. Below the root for the \
                 default room, below `/rooms/{id}` for each."
            }
            Self::Checks => {
                "Verdicts for proxies that stand before a site in our place: nginx, Caddy, Traefik, HAProxy, Envoy."
            }
            Self::Rooms => {
                "Rooms while they run: their settings, their state, their figures, and what a ticket says."
            }
            Self::Alarms => {
                "What fires: as this server counts it, and as Alertmanager tells it. A room's inlet rests while an alarm it names fires."
            }
            Self::Destinations => {
                "Where events go: webhooks, an event bus of AWS, NATS, files; and what became of the events."
            }
            Self::Access => {
                "Keys of people and programs, keys that sign passes, and the record of who changed what."
            }
            Self::Server => "What the server says of itself.",
        }
    }
}

/// Whether a call takes a ticket, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ticket {
    NotNeeded,
    /// In `Authorization`.
    InHeader,
    /// In `Authorization`, or in the body.
    InHeaderOrBody,
}

/// One call.
pub(crate) struct Call {
    pub(super) id: &'static str,
    pub(super) group: Group,
    pub(super) summary: &'static str,
    pub(super) description: String,
    pub(super) parameters: Vec<Parameter>,
    pub(super) body: Option<RequestBody>,
    pub(super) ticket: Ticket,
    pub(super) answers: BTreeMap<u16, Answer>,
    pub(super) schemas: Schemas,
    /// The status to which headers and links are added.
    latest: u16,
}

impl Call {
    pub(super) fn new(id: &'static str, group: Group, summary: &'static str, description: &str) -> Self {
        Self {
            id,
            group,
            summary,
            description: description.to_owned(),
            parameters: vec![],
            body: None,
            ticket: Ticket::NotNeeded,
            answers: BTreeMap::new(),
            schemas: Schemas::new(),
            latest: 0,
        }
    }

    /// Takes a ticket.
    pub(super) fn ticket(mut self, ticket: Ticket) -> Self {
        self.ticket = ticket;
        self
    }

    /// A parameter of the query that must be there.
    pub(super) fn query<T: ToSchema>(self, name: &str, text: &str, example: impl Into<Json>) -> Self {
        self.parameter::<T>(ParameterIn::Query, name, true, text, example)
    }

    /// One that may be left out.
    pub(super) fn optional_query<T: ToSchema>(
        self,
        name: &str,
        text: &str,
        example: impl Into<Json>,
    ) -> Self {
        self.parameter::<T>(ParameterIn::Query, name, false, text, example)
    }

    /// A part of the path.
    pub(super) fn path<T: ToSchema>(self, name: &str, text: &str, example: impl Into<Json>) -> Self {
        self.parameter::<T>(ParameterIn::Path, name, true, text, example)
    }

    /// A header that may be sent.
    pub(super) fn header<T: ToSchema>(self, name: &str, text: &str, example: impl Into<Json>) -> Self {
        self.parameter::<T>(ParameterIn::Header, name, false, text, example)
    }

    fn parameter<T: ToSchema>(
        mut self,
        place: ParameterIn,
        name: &str,
        required: bool,
        text: &str,
        example: impl Into<Json>,
    ) -> Self {
        let parameter = ParameterBuilder::new()
            .name(name)
            .parameter_in(place)
            .required(if required { Required::True } else { Required::False })
            .description(Some(text))
            .schema(Some(refer_to::<T>(&mut self.schemas)))
            .example(Some(example.into()));
        self.parameters.push(parameter.build());
        self
    }

    /// A JSON body.
    pub(super) fn body<T: ToSchema>(self, example: Json) -> Self {
        self.with_body::<T>(Required::True, example)
    }

    /// One that may be empty.
    pub(super) fn optional_body<T: ToSchema>(self, example: Json) -> Self {
        self.with_body::<T>(Required::False, example)
    }

    fn with_body<T: ToSchema>(mut self, required: Required, example: Json) -> Self {
        let content =
            ContentBuilder::new().schema(Some(refer_to::<T>(&mut self.schemas))).example(Some(example));
        self.body =
            Some(RequestBodyBuilder::new().required(Some(required)).content(JSON, content.build()).build());
        self
    }

    /// A form as the body.
    pub(super) fn form_body<T: ToSchema>(mut self, example: Json) -> Self {
        let content =
            ContentBuilder::new().schema(Some(refer_to::<T>(&mut self.schemas))).example(Some(example));
        self.body = Some(
            RequestBodyBuilder::new().required(Some(Required::True)).content(FORM, content.build()).build(),
        );
        self
    }

    /// Whether the body is a form.
    pub(super) fn reads_form(&self) -> bool {
        self.body.as_ref().is_some_and(|body| body.content.contains_key(FORM))
    }

    /// A body of bytes.
    pub(super) fn bytes_body(mut self, text: &str) -> Self {
        let schema = ObjectBuilder::new().description(Some(text));
        let content = ContentBuilder::new().schema(Some(schema.schema_type(Type::String)));
        let body = RequestBodyBuilder::new().required(Some(Required::True));
        self.body = Some(body.content("application/octet-stream", content.build()).build());
        self
    }

    /// An answer in JSON. The example is a value of the type itself, so that the two cannot differ.
    pub(super) fn json<T: ToSchema + Serialize>(mut self, status: u16, text: &str, example: &T) -> Self {
        let schema = refer_to::<T>(&mut self.schemas);
        self.answer(status, text, JSON, schema, vec![("example".to_owned(), example_json(example))]);
        self
    }

    /// The same with several examples of what it may look like.
    pub(super) fn json_like<T: ToSchema>(
        mut self,
        status: u16,
        text: &str,
        examples: Vec<(&str, Json)>,
    ) -> Self {
        let schema = refer_to::<T>(&mut self.schemas);
        let examples = examples.into_iter().map(|(name, example)| (name.to_owned(), example)).collect();
        self.answer(status, text, JSON, schema, examples);
        self
    }

    /// An answer that is a text of some other kind.
    pub(super) fn text(mut self, status: u16, text: &str, media_type: &'static str, example: &str) -> Self {
        let schema = ObjectBuilder::new().schema_type(Type::String);
        let schema = RefOr::T(Schema::from(schema));
        self.answer(status, text, media_type, schema, vec![("example".to_owned(), example.into())]);
        self
    }

    /// An answer without a body.
    pub(super) fn empty(mut self, status: u16, text: &str) -> Self {
        self.latest = status;
        self.answers.entry(status).or_default().texts.push(text.to_owned());
        self
    }

    /// Problems it may answer with, beside those that its row implies.
    pub(super) fn problems(mut self, problems: &[Problem]) -> Self {
        for problem in problems {
            self.add_problem(*problem, None);
        }
        self
    }

    /// Likewise, on a path that answers as AWS did.
    pub(super) fn errors(mut self, errors: &[(u16, &'static str)]) -> Self {
        for (status, text) in errors {
            self.add_error(*status, text);
        }
        self
    }

    /// A header of the latest answer.
    pub(super) fn with(mut self, header: AnswerHeader) -> Self {
        self.answers.entry(self.latest).or_default().headers.push(header);
        self
    }

    /// What may be called next with something from the latest answer: the parameters, or with `body.` before their names what
    /// is written into the body.
    pub(super) fn leads_to(
        mut self,
        operation: &'static str,
        taken: &[(&'static str, &'static str)],
    ) -> Self {
        let mut link = Link::builder().operation_id(operation);
        let mut body = serde_json::Map::new();
        for (name, expression) in taken {
            match name.strip_prefix("body.") {
                Some(field) => drop(body.insert(field.to_owned(), Json::from(*expression))),
                None => link = link.parameter(*name, *expression),
            }
        }
        let link = link.request_body((!body.is_empty()).then_some(body));
        self.answers.entry(self.latest).or_default().links.push((operation, link.build()));
        self
    }

    /// Adds a problem; `text` says when it happens where its own meaning would not fit.
    pub(super) fn add_problem(&mut self, problem: Problem, text: Option<&str>) {
        let meaning = text.unwrap_or(problem.meaning().trim());
        let text = format!("`{}`: {meaning}", problem.slug());
        let example = ProblemDetails::of(problem);
        let schema = refer_to::<ProblemDetails>(&mut self.schemas);
        let status = problem.status().as_u16();
        self.answer(
            status,
            &text,
            PROBLEM_JSON,
            schema,
            vec![(problem.slug().to_owned(), example_json(&example))],
        );
    }

    /// Adds an error of an AWS path.
    pub(super) fn add_error(&mut self, status: u16, text: &str) {
        let schema = refer_to::<AwsError>(&mut self.schemas);
        let example = example_json(&AwsError { error: text.to_owned() });
        let count = self.answers.get(&status).map_or(0, |answer| answer.texts.len());
        let name = if count == 0 { "error".to_owned() } else { format!("error-{}", count + 1) };
        self.answer(status, &format!("{}.", text.trim_end_matches('.')), JSON, schema, vec![(name, example)]);
    }

    /// Adds an error of an OAuth path.
    pub(super) fn add_oauth_error(&mut self, status: u16, code: &'static str, text: &str) {
        let schema = refer_to::<OAuthError>(&mut self.schemas);
        let example = example_json(&OAuthError { error: code, error_description: text.to_owned() });
        let count = self.answers.get(&status).map_or(0, |answer| answer.texts.len());
        let name = if count == 0 { code.to_owned() } else { format!("{code}-{}", count + 1) };
        self.answer(status, &format!("`{code}`: {text}"), JSON, schema, vec![(name, example)]);
    }

    /// The same for several.
    pub(super) fn oauth_errors(mut self, errors: &[(u16, &'static str, &str)]) -> Self {
        for (status, code, text) in errors {
            self.add_oauth_error(*status, code, text);
        }
        self
    }

    fn answer(
        &mut self,
        status: u16,
        text: &str,
        media_type: &'static str,
        schema: RefOr<Schema>,
        examples: Examples,
    ) {
        self.latest = status;
        let answer = self.answers.entry(status).or_default();
        answer.texts.push(text.to_owned());
        let content = answer.contents.entry(media_type).or_insert_with(|| (schema, vec![]));
        content.1.extend(examples);
    }
}

fn example_json(example: &impl Serialize) -> Json {
    serde_json::to_value(example).expect("our own structures can be written as JSON")
}

/// A reference to a type's schema, which is kept together with those it refers to.
pub(super) fn refer_to<T: ToSchema>(schemas: &mut Schemas) -> RefOr<Schema> {
    let mut all = vec![(T::name().into_owned(), T::schema())];
    T::schemas(&mut all);
    schemas.extend(all);
    RefOr::Ref(Ref::from_schema_name(T::name()))
}

/// Examples by name.
type Examples = Vec<(String, Json)>;

/// What may be answered with one status.
#[derive(Default)]
pub(super) struct Answer {
    texts: Vec<String>,
    contents: BTreeMap<&'static str, (RefOr<Schema>, Examples)>,
    pub(super) headers: Vec<AnswerHeader>,
    links: Vec<(&'static str, Link)>,
}

impl Answer {
    pub(super) fn response(self) -> Response {
        // Several are listed one by one.
        let description = match self.texts.as_slice() {
            [only] => only.clone(),
            several => several.iter().map(|text| format!("- {text}")).collect::<Vec<_>>().join("\n"),
        };
        let mut response = ResponseBuilder::new().description(description);
        for (media_type, (schema, examples)) in self.contents {
            let examples = examples
                .into_iter()
                .map(|(name, example)| (name, RefOr::T(ExampleBuilder::new().value(Some(example)).build())));
            let content = ContentBuilder::new().schema(Some(schema)).examples_from_iter(examples);
            response = response.content(media_type, content.build());
        }
        for header in self.headers {
            let described =
                HeaderBuilder::new().schema(Some(header.schema())).description(Some(header.meaning()));
            response = response.header(header.name(), described.build());
        }
        for (name, link) in self.links {
            response = response.link(name, link);
        }
        response.build()
    }
}

/// A header of an answer that its reader should know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AnswerHeader {
    CachedForASecond,
    CachedForMinutes,
    EntityTag,
    RateLimit,
    RateLimitPolicy,
    RetryAfter,
    Stale,
    WwwAuthenticate,
}

impl AnswerHeader {
    const fn name(self) -> &'static str {
        match self {
            Self::CachedForASecond | Self::CachedForMinutes => "Cache-Control",
            Self::EntityTag => "ETag",
            Self::RateLimit => "RateLimit",
            Self::RateLimitPolicy => "RateLimit-Policy",
            Self::RetryAfter => "Retry-After",
            Self::Stale => "Anteroom-Stale",
            Self::WwwAuthenticate => "WWW-Authenticate",
        }
    }

    const fn meaning(self) -> &'static str {
        match self {
            Self::CachedForASecond => "`public, max-age=1`: a CDN may carry the polls.",
            Self::CachedForMinutes => "`public, max-age=300`.",
            Self::EntityTag => "The version of what was answered, for `If-None-Match` and `If-Match`.",
            Self::RateLimit => {
                "What is left of each budget the request was charged to: `\"join\";r=0;t=3`. On every answer that is not to be shared."
            }
            Self::RateLimitPolicy => "What these budgets allow: `\"join\";q=1200;w=60`.",
            Self::RetryAfter => "After how many seconds to try again.",
            Self::Stale => {
                "Only while the server has lost its store: how many seconds ago this was known to be so."
            }
            Self::WwwAuthenticate => "How to show what is missing.",
        }
    }

    fn schema(self) -> Schema {
        match self {
            Self::RetryAfter | Self::Stale => {
                ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(0)).into()
            }
            _ => ObjectBuilder::new().schema_type(Type::String).into(),
        }
    }
}
