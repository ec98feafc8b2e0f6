//! What visitors see: the waiting page and its sisters, in their language, complete without JavaScript.
//!
//! The caller says what the page tells ([`Page`]); which words, colours and bytes that makes is decided here, by the visitor's
//! preferences ([`Pages::respond`]). Nothing is fetched from outside, and nothing here knows how a line works.
//!
//! The path of a page: [`Page`] → the visitor's language (`languages.rs`) → words (`localized_page.rs`, with `texts.rs` and `numbers.rs`),
//! colours (`branding.rs`) and the script's data (`data.rs`) → HTML, by the built-in template or the operator's → bytes and header fields
//! (`encoding.rs`).

mod branding;
mod data;
mod encoding;
mod languages;
mod localized_page;
mod numbers;
mod page;
mod qr;
mod sample;
mod script;
mod templates;
mod texts;

use std::sync::Arc;

use anteroom_core::Settings;
use anteroom_core::settings::TemplateName;
use arc_swap::ArcSwap;
use askama::Template;
use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode, header};

pub use page::{Handoff, Live, Page, PlaceFigures, Situation};
pub use qr::qr_svg;
pub use sample::sample;
pub use templates::{TEMPLATE_MAX_BYTES, TEMPLATE_OUTPUT_MAX_BYTES, TemplateFailure, TemplateProblem};

use crate::languages::Language;
use crate::localized_page::LocalizedPage;
use crate::templates::Templates;

/// The languages that pages are written in, as tags.
pub fn language_tags() -> Vec<&'static str> {
    Language::all().iter().map(|language| language.tag).collect()
}

/// Where the page's script is, on every host.
pub const SCRIPT_PATH: &str = "/.anteroom/page.js";
/// Bytes of randomness in a nonce.
const NONCE_LENGTH: usize = 16;

/// Writes pages.
#[derive(Debug, Default)]
pub struct Pages {
    /// Read by every page, replaced when an operator's files change.
    templates: ArcSwap<Templates>,
}

impl Pages {
    /// With templates of the operator's: names and texts.
    pub fn with_templates(templates: impl IntoIterator<Item = (String, String)>) -> Self {
        Self { templates: ArcSwap::from_pointee(Templates::new(templates)) }
    }

    /// Replaces all templates. Pages that are being written are finished by the old ones.
    pub fn replace_templates(&self, templates: impl IntoIterator<Item = (String, String)>) {
        self.templates.store(Arc::new(Templates::new(templates)));
    }

    /// The text of a template.
    pub fn template_text(&self, name: &str) -> Option<Arc<str>> {
        self.templates.load().source(name)
    }

    /// Whether there is a template of that name with which every page can be written.
    pub fn check_named_template(&self, name: &str) -> Result<(), TemplateProblem> {
        let source = self.template_text(name).ok_or_else(|| templates::unknown(name))?;
        Self::check_template(&source)
    }

    /// Whether every page can be written with a template.
    pub fn check_template(text: &str) -> Result<(), TemplateProblem> {
        templates::check(text)
    }

    /// The page as an answer, in the visitor's language and encoding, with its policy and nothing for caches to keep. If the room's
    /// template fails, it is the built-in page, and the answer's extensions have a [`TemplateFailure`].
    pub fn respond(
        &self,
        status: StatusCode,
        page: &Page<'_>,
        request_headers: &HeaderMap,
    ) -> Response<Bytes> {
        let accepted = request_headers.get(header::ACCEPT_LANGUAGE).and_then(|value| value.to_str().ok());
        let language = Language::from_accept_language(accepted.unwrap_or_default());
        let nonce = anteroom_tokens::random::text(NONCE_LENGTH);
        let localized = LocalizedPage::new(page, language, &nonce);
        let name =
            page.settings.and_then(|settings| settings.page_template.as_ref()).map(TemplateName::as_str);
        let own = name.and_then(|name| self.templates.load().write(name, &localized));
        let (html, problem) = match own {
            Some(Ok(html)) => (html, None),
            Some(Err(problem)) => (built_in(&localized), Some(problem)),
            None => (built_in(&localized), None),
        };
        let mut response = encoding::html_response(status, html, language, &nonce, request_headers);
        if page.situation == Situation::HandOff {
            encoding::send_origin_as_referrer(&mut response);
        }
        if let (Some(name), Some(problem)) = (name, problem) {
            response.extensions_mut().insert(TemplateFailure { name: name.to_owned(), problem });
        }
        response
    }

    /// The page's script; `query` is that of its address.
    pub fn script(&self, query: Option<&str>, request_headers: &HeaderMap) -> Response<Bytes> {
        script::respond(query, request_headers)
    }

    /// A page with sample figures, by a template or, without one, as it is built in; in English if there is no such language.
    pub fn preview(
        &self,
        template: Option<&str>,
        situation: Situation,
        language: &str,
        settings: Option<&Settings>,
    ) -> Result<String, TemplateProblem> {
        Self::render_preview(template, situation, language, settings).map(|(html, _)| html)
    }

    /// The same as an answer that a browser can show, with its policy.
    pub fn preview_response(
        &self,
        template: Option<&str>,
        situation: Situation,
        language: &str,
        settings: Option<&Settings>,
    ) -> Result<Response<Bytes>, TemplateProblem> {
        let (html, nonce) = Self::render_preview(template, situation, language, settings)?;
        let language = Language::from_tag(language).unwrap_or(Language::english());
        let mut response = encoding::html_response(StatusCode::OK, html, language, &nonce, &HeaderMap::new());
        encoding::sandbox(&mut response, &nonce);
        Ok(response)
    }

    fn render_preview(
        template: Option<&str>,
        situation: Situation,
        language: &str,
        settings: Option<&Settings>,
    ) -> Result<(String, String), TemplateProblem> {
        let language = Language::from_tag(language).unwrap_or(Language::english());
        let nonce = anteroom_tokens::random::text(NONCE_LENGTH);
        // A preview has nothing to ask anybody for.
        let page = Page { refresh_seconds: None, ..sample(situation, settings) };
        let localized = LocalizedPage { data: String::new(), ..LocalizedPage::new(&page, language, &nonce) };
        let html = match template {
            Some(text) => templates::preview(text, &localized)?,
            None => built_in(&localized),
        };
        Ok((html, nonce))
    }
}

/// The built-in page.
fn built_in(localized: &LocalizedPage<'_>) -> String {
    localized.render().expect("a String takes everything")
}

#[cfg(test)]
mod tests;
