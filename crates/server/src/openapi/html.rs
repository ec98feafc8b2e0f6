//! Both documents as one readable page: what each call does, who may call it, what it takes and what it answers. Nothing is
//! said here that the documents do not say.

use std::fmt::Write;

use utoipa::openapi::content::Content;
use utoipa::openapi::path::{Operation, Parameter, ParameterIn};
use utoipa::openapi::response::Response;
use utoipa::openapi::schema::{ArrayItems, Object, Schema, SchemaType, Type};
use utoipa::openapi::{OpenApi, RefOr, Required};

use super::call::Group;
use super::{document, documented_path, method};
use crate::http::routes::{Listener, Route};

const SCHEMA_PREFIX: &str = "#/components/schemas/";

/// The page.
pub(super) fn page() -> String {
    let documents =
        [Listener::Public, Listener::Private].map(|listener| Document { listener, api: document(listener) });
    let mut content = String::from(
        "<p>For programs: <a href=\"/openapi.json?listener=public\">openapi.json of the public listener</a>, \
         <a href=\"/openapi.json?listener=private\">openapi.json of the private listener</a>.</p>\n<nav>",
    );
    for document in &documents {
        document.write_contents(&mut content);
    }
    content.push_str("</nav>\n");
    for document in &documents {
        document.write(&mut content);
    }
    let lead =
        "Every call of both listeners: what it does, who may call it, what it takes and what it answers.";
    crate::http::html_frame::page("API", lead, &content)
}

struct Document {
    listener: Listener,
    api: OpenApi,
}

impl Document {
    /// The calls of each group, in the order of the rows.
    fn groups(&self) -> impl Iterator<Item = (Group, Vec<(&'static Route, &Operation)>)> {
        Group::ALL.into_iter().filter_map(|group| {
            let of_group = |operation: &&Operation| {
                operation.tags.as_ref().is_some_and(|tags| tags.iter().any(|tag| tag == group.name()))
            };
            let calls: Vec<_> = self
                .listener
                .routes()
                .iter()
                .filter_map(|route| {
                    let operation =
                        self.api.paths.get_path_operation(documented_path(route), method(route.method));
                    operation.filter(of_group).map(|operation| (route, operation))
                })
                .collect();
            (!calls.is_empty()).then_some((group, calls))
        })
    }

    fn anchor(&self, operation: &Operation) -> String {
        format!("{}-{}", self.listener.name(), operation.operation_id.as_deref().unwrap_or_default())
    }

    fn write_contents(&self, page: &mut String) {
        let name = self.listener.name();
        put(page, format_args!("<h2><a href=\"#{name}\">{}</a></h2>\n", escape(&self.api.info.title)));
        for (group, calls) in self.groups() {
            put(page, format_args!("<h3>{}</h3><ul>", group.name()));
            for (route, operation) in calls {
                let (anchor, summary) =
                    (self.anchor(operation), operation.summary.as_deref().unwrap_or_default());
                put(
                    page,
                    format_args!(
                        "<li><span class=\"method\">{}</span><span><a href=\"#{anchor}\">{}</a> <span class=\"lead\">{}</span></span></li>\n",
                        route.method.as_str(),
                        escape(&documented_path(route)),
                        escape(summary)
                    ),
                );
            }
            page.push_str("</ul>\n");
        }
        put(page, format_args!("<p><a href=\"#{name}-types\">Types</a></p>\n"));
    }

    fn write(&self, page: &mut String) {
        let name = self.listener.name();
        put(page, format_args!("<h2 class=\"part\" id=\"{name}\">{}</h2>\n", escape(&self.api.info.title)));
        page.push_str(&marked_up(self.api.info.description.as_deref().unwrap_or_default()));
        for (group, calls) in self.groups() {
            put(
                page,
                format_args!("<h3 class=\"group\">{}</h3>\n{}", group.name(), marked_up(group.meaning())),
            );
            for (route, operation) in calls {
                self.write_call(page, route, operation);
            }
        }
        put(page, format_args!("<h3 class=\"group\" id=\"{name}-types\">Types</h3>\n"));
        for (type_name, schema) in self.api.components.iter().flat_map(|components| &components.schemas) {
            self.write_type(page, type_name, schema);
        }
    }

    fn write_call(&self, page: &mut String, route: &Route, operation: &Operation) {
        put(
            page,
            format_args!(
                "<section id=\"{}\"><h4><span class=\"method\">{}</span> <code>{}</code></h4><p><strong>{}.</strong></p>\n{}",
                self.anchor(operation),
                route.method.as_str(),
                escape(&documented_path(route)),
                escape(operation.summary.as_deref().unwrap_or_default()),
                marked_up(operation.description.as_deref().unwrap_or_default())
            ),
        );
        let parameters: Vec<&Parameter> = operation
            .parameters
            .iter()
            .flatten()
            .filter_map(|parameter| match parameter {
                RefOr::T(parameter) => Some(parameter),
                RefOr::Ref(_) => None,
            })
            .collect();
        if !parameters.is_empty() {
            page.push_str("<h5>Takes</h5><dl>");
            for parameter in parameters {
                self.write_parameter(page, parameter);
            }
            page.push_str("</dl>\n");
        }
        if let Some(RefOr::T(body)) = &operation.request_body {
            let optional = if body.required == Some(Required::True) { "" } else { ", may be empty" };
            put(page, format_args!("<h5>Body{optional}</h5>"));
            for (media_type, content) in &body.content {
                self.write_content(page, media_type, content);
                let schema = if let RefOr::T(content) = content { content.schema.as_ref() } else { None };
                if let Some(schema) = schema.and_then(|schema| self.resolved(schema)) {
                    self.write_fields(page, schema);
                }
            }
        }
        let answers = || {
            operation.responses.responses.iter().filter_map(|(status, response)| match response {
                RefOr::T(response) => Some((status.as_str(), response)),
                RefOr::Ref(_) => None,
            })
        };
        let is_error = |status: &str| status.starts_with(['4', '5']);
        page.push_str("<h5>Answers</h5><dl>");
        for (status, response) in answers().filter(|(status, _)| !is_error(status)) {
            self.write_answer(page, status, response);
        }
        let errors: Vec<_> = answers().filter(|(status, _)| is_error(status)).collect();
        let statuses: Vec<&str> = errors.iter().map(|(status, _)| *status).collect();
        put(page, format_args!("</dl><details><summary>Errors: {}</summary><dl>", statuses.join(", ")));
        for (status, response) in errors {
            self.write_answer(page, status, response);
        }
        page.push_str("</dl></details></section>\n");
    }

    fn write_parameter(&self, page: &mut String, parameter: &Parameter) {
        let place = match parameter.parameter_in {
            ParameterIn::Path => "in the path",
            ParameterIn::Header => "header",
            _ => "in the query",
        };
        let optional = if parameter.required == Required::True { "" } else { ", optional" };
        let kind = parameter.schema.as_ref().map(|schema| self.words(schema)).unwrap_or_default();
        let text = marked_line(parameter.description.as_deref().unwrap_or_default());
        // The field is not for everybody to read, but everybody may write it out.
        let example = match serde_json::to_value(parameter).map(|mut parameter| parameter["example"].take()) {
            Ok(serde_json::Value::String(text)) => text,
            Ok(other) => other.to_string(),
            Err(_) => String::new(),
        };
        let example = escape(&example);
        put(
            page,
            format_args!(
                "<dt><code>{}</code> <span class=\"lead\">{place}{optional}: {kind}</span></dt><dd>{text} For example <code>{example}</code>.</dd>\n",
                escape(&parameter.name)
            ),
        );
    }

    fn write_answer(&self, page: &mut String, status: &str, response: &Response) {
        put(page, format_args!("<dt><strong>{status}</strong></dt><dd>{}", marked_up(&response.description)));
        for (name, header) in &response.headers {
            if let RefOr::T(header) = header {
                let text = marked_line(header.description.as_deref().unwrap_or_default());
                put(page, format_args!("<p><code>{name}</code>: {text}</p>"));
            }
        }
        for (media_type, content) in &response.content {
            self.write_content(page, media_type, content);
        }
        page.push_str("</dd>\n");
    }

    /// The type of a body, and what it looks like.
    fn write_content(&self, page: &mut String, media_type: &str, content: &RefOr<Content>) {
        let RefOr::T(content) = content else { return };
        let kind = content.schema.as_ref().map(|schema| self.words(schema)).unwrap_or_default();
        put(page, format_args!("<p class=\"lead\"><code>{}</code>: {kind}</p>", escape(media_type)));
        let several = content.examples.values().filter_map(|example| match example {
            RefOr::T(example) => example.value.as_ref(),
            RefOr::Ref(_) => None,
        });
        let shown = content.example.iter().chain(several).map(|example| match example {
            serde_json::Value::String(text) => text.clone(),
            other => serde_json::to_string_pretty(other).unwrap_or_default(),
        });
        for example in shown {
            put(page, format_args!("<pre>{}</pre>", escape(&example)));
        }
    }

    fn write_type(&self, page: &mut String, name: &str, schema: &RefOr<Schema>) {
        let anchor = self.type_anchor(name);
        put(page, format_args!("<section id=\"{anchor}\"><h4><code>{name}</code></h4>"));
        if let RefOr::T(schema) = schema {
            page.push_str(&marked_up(description(schema)));
            let words = self.words_of(schema);
            // Where fields follow, they say it.
            if !matches!(schema, Schema::Object(object) if !object.properties.is_empty()) && words != "object"
            {
                put(page, format_args!("<p class=\"lead\">{words}</p>"));
            }
            self.write_fields(page, schema);
        }
        page.push_str("</section>\n");
    }

    /// The fields of an object, of all that it is put together from, or of each of several kinds.
    fn write_fields(&self, page: &mut String, schema: &Schema) {
        match schema {
            Schema::Object(object) if !object.properties.is_empty() => {
                page.push_str("<dl>");
                for (field, kind) in &object.properties {
                    let is_required = object.required.contains(field);
                    let missing = if is_required { "" } else { ", may be missing" };
                    let text = match kind {
                        RefOr::T(schema) => description(schema),
                        RefOr::Ref(reference) => reference.description.as_str(),
                    };
                    let (kind, text) = (self.words(kind), marked_line(text));
                    put(
                        page,
                        format_args!(
                            "<dt><code>{field}</code> <span class=\"lead\">{kind}{missing}</span></dt><dd>{text}</dd>\n"
                        ),
                    );
                }
                page.push_str("</dl>");
            }
            Schema::AllOf(all_of) => {
                for part in all_of.items.iter().filter_map(|item| self.resolved(item)) {
                    self.write_fields(page, part);
                }
            }
            Schema::OneOf(one_of) => {
                let kinds = one_of.items.iter().filter_map(|item| match item {
                    RefOr::T(kind @ Schema::Object(object)) if !object.properties.is_empty() => Some(kind),
                    _ => None,
                });
                for kind in kinds {
                    page.push_str(&marked_up(description(kind)));
                    self.write_fields(page, kind);
                }
            }
            _ => {}
        }
    }

    /// What a reference leads to.
    fn resolved<'a>(&'a self, schema: &'a RefOr<Schema>) -> Option<&'a Schema> {
        match schema {
            RefOr::T(schema) => Some(schema),
            RefOr::Ref(reference) => {
                let name = reference.ref_location.strip_prefix(SCHEMA_PREFIX)?;
                self.resolved(self.api.components.as_ref()?.schemas.get(name)?)
            }
        }
    }

    fn type_anchor(&self, name: &str) -> String {
        format!("{}-type-{name}", self.listener.name())
    }

    /// A type in words, with links to those that have a name.
    fn words(&self, schema: &RefOr<Schema>) -> String {
        match schema {
            RefOr::Ref(reference) => {
                let name =
                    reference.ref_location.strip_prefix(SCHEMA_PREFIX).unwrap_or(&reference.ref_location);
                format!("<a href=\"#{}\">{name}</a>", self.type_anchor(name))
            }
            RefOr::T(schema) => self.words_of(schema),
        }
    }

    fn words_of(&self, schema: &Schema) -> String {
        let joined = |items: &[RefOr<Schema>], word: &str| {
            let mut words: Vec<String> = items.iter().rev().map(|item| self.words(item)).collect();
            words.dedup();
            words.join(word)
        };
        match schema {
            Schema::Object(object) => object_words(object),
            Schema::Array(array) => match &array.items {
                ArrayItems::RefOrSchema(items) => format!("list of {}", self.words(items)),
                ArrayItems::False => "list".to_owned(),
            },
            Schema::OneOf(one_of) => joined(&one_of.items, " or "),
            Schema::AnyOf(any_of) => joined(&any_of.items, " or "),
            Schema::AllOf(all_of) => {
                let named = all_of.items.iter().filter(|item| matches!(item, RefOr::Ref(_)));
                let named: Vec<String> = named.map(|item| self.words(item)).collect();
                format!("all of {}", named.join(" and "))
            }
            _ => String::new(),
        }
    }
}

fn description(schema: &Schema) -> &str {
    let description = match schema {
        Schema::Object(object) => &object.description,
        Schema::Array(array) => &array.description,
        // Of a type that may be null, its own description was put beside the reference.
        Schema::OneOf(one_of) => {
            let beside = one_of.items.iter().find_map(|item| match item {
                RefOr::Ref(reference) => Some(reference.description.as_str()),
                RefOr::T(_) => None,
            });
            return one_of.description.as_deref().or(beside).unwrap_or_default();
        }
        Schema::AllOf(all_of) => &all_of.description,
        Schema::AnyOf(any_of) => &any_of.description,
        _ => return "",
    };
    description.as_deref().unwrap_or_default()
}

fn object_words(object: &Object) -> String {
    let name = |kind: &Type| match kind {
        Type::Object => "object",
        Type::String => "text",
        Type::Integer => "whole number",
        Type::Number => "number",
        Type::Boolean => "true or false",
        Type::Array => "list",
        Type::Null => "null",
    };
    let mut words = match &object.schema_type {
        SchemaType::Type(kind) => name(kind).to_owned(),
        SchemaType::Array(kinds) => kinds.iter().map(name).collect::<Vec<_>>().join(" or "),
        SchemaType::AnyValue => "anything".to_owned(),
    };
    if let Some(values) = &object.enum_values {
        let values: Vec<String> =
            values.iter().map(|value| format!("<code>{}</code>", escape(&value.to_string()))).collect();
        return values.join(", ");
    }
    let number = |number: &utoipa::Number| match number {
        utoipa::Number::Int(whole) => whole.to_string(),
        utoipa::Number::UInt(whole) => whole.to_string(),
        utoipa::Number::Float(float) => float.to_string(),
    };
    let range = match (object.minimum.as_ref().map(number), object.maximum.as_ref().map(number)) {
        (Some(minimum), Some(maximum)) => format!(" from {minimum} to {maximum}"),
        // That a number is not negative goes without saying.
        (Some(minimum), None) if minimum != "0" => format!(" from {minimum}"),
        _ => String::new(),
    };
    let length = match (object.min_length, object.max_length) {
        (Some(minimum), Some(maximum)) => format!(" of {minimum} to {maximum} characters"),
        (None, Some(maximum)) => format!(" of up to {maximum} characters"),
        _ => String::new(),
    };
    words += &(range + &length);
    if let Some(pattern) = &object.pattern {
        put(&mut words, format_args!(" like <code>{}</code>", escape(pattern)));
    }
    words
}

fn put(page: &mut String, text: std::fmt::Arguments<'_>) {
    page.write_fmt(text).expect("a String takes everything");
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Paragraphs and lists of our texts as markup.
fn marked_up(text: &str) -> String {
    let mut markup = String::new();
    for paragraph in text.split("\n\n").filter(|paragraph| !paragraph.is_empty()) {
        if paragraph.starts_with("- ") {
            markup.push_str("<ul>");
            for item in paragraph.lines() {
                put(&mut markup, format_args!("<li>{}</li>", marked_line(item.trim_start_matches("- "))));
            }
            markup.push_str("</ul>");
        } else {
            put(&mut markup, format_args!("<p>{}</p>", marked_line(paragraph)));
        }
    }
    markup
}

/// Turns `code`, **strong** and *stressed* words into markup. The texts are ours: what opens also closes.
fn marked_line(text: &str) -> String {
    let mut markup = String::new();
    for (index, part) in escape(text).split('`').enumerate() {
        if index % 2 == 1 {
            put(&mut markup, format_args!("<code>{part}</code>"));
            continue;
        }
        for (strong, part) in part.split("**").enumerate() {
            let tag = if strong % 2 == 1 { ("<strong>", "</strong>") } else { ("", "") };
            markup.push_str(tag.0);
            for (stressed, part) in part.split('*').enumerate() {
                match stressed % 2 {
                    0 => markup.push_str(part),
                    _ => put(&mut markup, format_args!("<em>{part}</em>")),
                }
            }
            markup.push_str(tag.1);
        }
    }
    markup
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_texts_become_markup_and_nothing_else_does() {
        assert_eq!(
            marked_line("**Who:** `a*b` *or* <x>"),
            "<strong>Who:</strong> <code>a*b</code> <em>or</em> &lt;x&gt;"
        );
        assert_eq!(
            marked_up("One.\n\n- two\n- `three`"),
            "<p>One.</p><ul><li>two</li><li><code>three</code></li></ul>"
        );
    }

    #[test]
    fn the_page_has_every_call_and_every_link_leads_somewhere() {
        let page = page();
        for listener in [Listener::Public, Listener::Private] {
            for route in listener.routes() {
                let call = format!(
                    "<span class=\"method\">{}</span> <code>{}</code></h4>",
                    route.method.as_str(),
                    documented_path(route)
                );
                assert!(page.contains(&call), "{call}");
            }
        }
        for target in page.split("href=\"#").skip(1).map(|rest| rest.split('"').next().unwrap()) {
            assert_eq!(page.matches(&format!("id=\"{target}\"")).count(), 1, "{target}");
        }
    }
}
