//! Pages of operators: templates in the language of Jinja, which can show what they are given and do nothing else.
//!
//! What a template may write is a small part of that language (`if`, `for`, names, filters, comparisons): nothing that joins, copies,
//! computes or calls (`tags.rs`). So it can neither grow in memory nor read anything; fuel bounds its time, because no step of it takes
//! long, and a limit its output. All values are escaped.
//! What is documented for operators is in `docs/operating/waiting-page.md`.

mod tags;

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::{Arc, LazyLock};

use anteroom_core::Settings;
use anteroom_core::settings::Value as Setting;
use minijinja::value::{Value, ValueKind};
use minijinja::{AutoEscape, Environment, ErrorKind, UndefinedBehavior, context};

use crate::languages::Language;
use crate::localized_page::LocalizedPage;
use crate::page::{Live, Page, PlaceFigures, Situation};
use crate::sample::sample;
use crate::texts::Pattern;

/// Longest template, in bytes.
pub const TEMPLATE_MAX_BYTES: usize = 65_536;
/// Longest page that a template may write, in bytes.
pub const TEMPLATE_OUTPUT_MAX_BYTES: usize = 262_144;
/// Instructions that writing one page may take.
const FUEL: u64 = 50_000;
/// How deep a template may call itself.
const RECURSION_MAX: usize = 20;
/// Longest text that a filter copies, in bytes: a step of fuel is a step, however long it takes. No text of ours is longer, nor a
/// notice of an operator's; logos and scripts are.
const FILTERED_MAX_BYTES: usize = 1_024;

/// The situations that a template is used in: those of the line. The others have a form or a link that nobody may leave out.
const SITUATIONS: [Situation; 11] = [
    Situation::Arriving,
    Situation::ManyArriving,
    Situation::Waiting,
    Situation::Turn,
    Situation::Held,
    Situation::Gone,
    Situation::Left,
    Situation::Moved,
    Situation::Inside,
    Situation::Closed,
    Situation::TurnedAway,
];

/// Why a template cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct TemplateProblem {
    /// Where, counted from 1, if that is known.
    pub line: Option<usize>,
    /// What is wrong, in a sentence.
    pub reason: String,
}

impl fmt::Display for TemplateProblem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(formatter, "line {line}: {}", self.reason),
            None => formatter.write_str(&self.reason),
        }
    }
}

/// Told with an answer (`Response::extensions`): the room's template failed, and the built-in page was sent in its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateFailure {
    /// The template's name.
    pub name: String,
    /// Why.
    pub problem: TemplateProblem,
}

/// All templates there are, by name.
#[derive(Default)]
pub(crate) struct Templates {
    sources: BTreeMap<String, Arc<str>>,
    environment: Environment<'static>,
    /// Those that cannot even be read.
    broken: BTreeMap<String, TemplateProblem>,
}

impl fmt::Debug for Templates {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Templates").field("names", &self.sources.keys()).finish_non_exhaustive()
    }
}

impl Templates {
    pub(crate) fn new(sources: impl IntoIterator<Item = (String, String)>) -> Self {
        let mut templates = Self { environment: environment(), ..Self::default() };
        for (name, source) in sources {
            if let Err(problem) = add(&mut templates.environment, &name, &source) {
                templates.broken.insert(name.clone(), problem);
            }
            templates.sources.insert(name, source.into());
        }
        templates
    }

    pub(crate) fn source(&self, name: &str) -> Option<Arc<str>> {
        self.sources.get(name).cloned()
    }

    /// The page by the template of that name; `None` where a template has no say.
    pub(crate) fn write(
        &self,
        name: &str,
        localized: &LocalizedPage<'_>,
    ) -> Option<Result<String, TemplateProblem>> {
        if !SITUATIONS.contains(&localized.page.situation) {
            return None;
        }
        if let Some(problem) = self.broken.get(name) {
            return Some(Err(problem.clone()));
        }
        Some(write(&self.environment, name, localized))
    }
}

/// Whether a template can be read, and can write a page in every situation.
pub(crate) fn check(source: &str) -> Result<(), TemplateProblem> {
    const NAME: &str = "template";
    let mut environment = environment();
    add(&mut environment, NAME, source)?;
    let settings = full_settings();
    let mut pages: Vec<Page<'_>> = vec![];
    for situation in SITUATIONS {
        pages.extend([sample(situation, None), full_page(situation, &settings), minimal_page(situation)]);
    }
    pages.push(Page { is_standing_still: true, ..sample(Situation::Waiting, None) });
    pages.push(Page { place: None, live: None, ..sample(Situation::Held, None) });
    for page in &pages {
        for tag in ["en", "ar"] {
            let language = Language::from_tag(tag).unwrap_or(Language::english());
            write(&environment, NAME, &LocalizedPage::new(page, language, "nonce")).map_err(
                |mut problem| {
                    problem.reason =
                        format!("{} (in the situation \"{}\")", problem.reason, page.situation.name());
                    problem
                },
            )?;
        }
    }
    // What stands behind a condition that no sample meets is read all the same.
    refuse_unknown_names(&environment, NAME, source)
}

/// A page that has all that any page of that situation can have.
fn full_page(situation: Situation, settings: &Settings) -> Page<'_> {
    let address = || Some("/.anteroom/line/call?room=Sample".to_owned());
    let page = sample(situation, Some(settings));
    let live = page.live.map(|live| Live { open_at_turn: address(), check_in: address(), ..live });
    let place = page.place.map(|place| PlaceFigures { remaining_seconds: Some(90), ..place });
    let [home, join, enter, leave, move_out] = [(); 5].map(|()| address());
    let site = Some("Sample");
    Page { is_standing_still: true, live, place, home, join, enter, leave, move_out, site, ..page }
}

/// A page that has nothing but what all pages of that situation have.
fn minimal_page(situation: Situation) -> Page<'static> {
    let page = sample(situation, None);
    let place = page.place.map(|place| PlaceFigures {
        likely_seconds: None,
        at_most_seconds: None,
        remaining_seconds: None,
        ..place
    });
    Page { situation, place, live: page.live, ..Page::default() }
}

/// A room whose operator has set whatever pages show.
fn full_settings() -> Settings {
    let mut settings = Settings::default();
    for (name, text) in [
        ("page_heading", "Sample"),
        ("page_text", "Sample"),
        ("page_logo", "/logo.svg"),
        ("notice", "Sample"),
    ] {
        settings.set(name, &Setting::Text(text.to_owned())).expect("these are good values");
    }
    settings
}

/// Refuses names that no template is given, wherever they stand. The engine does not say where; the first place is a good guess.
fn refuse_unknown_names(
    environment: &Environment<'_>,
    name: &str,
    source: &str,
) -> Result<(), TemplateProblem> {
    let template = environment.get_template(name).map_err(|error| problem(&error))?;
    let settings = full_settings();
    let page = full_page(Situation::Waiting, &settings);
    let known = variables(&LocalizedPage::new(&page, Language::english(), ""));
    let mut used: Vec<String> = template.undeclared_variables(true).into_iter().collect();
    used.sort_unstable();
    for used in used {
        let mut value = known.clone();
        for part in used.split('.') {
            // What is `none` here has no attributes, and cannot be asked for any.
            value = value.get_attr(part).unwrap_or(Value::UNDEFINED);
            if value.is_undefined() {
                let line = source.find(&used).map(|start| 1 + source[..start].matches('\n').count());
                return Err(TemplateProblem { line, reason: format!("there is no \"{used}\" to show") });
            }
        }
    }
    Ok(())
}

/// A page by a template that is not kept, in any situation that templates have a say in.
pub(crate) fn preview(source: &str, localized: &LocalizedPage<'_>) -> Result<String, TemplateProblem> {
    let templates = Templates::new([("preview".to_owned(), source.to_owned())]);
    templates.write("preview", localized).unwrap_or_else(|| Ok(crate::built_in(localized)))
}

/// An engine that knows nothing but what is named here.
fn environment() -> Environment<'static> {
    let mut environment = Environment::empty();
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_fuel(Some(FUEL));
    environment.set_recursion_limit(RECURSION_MAX);
    environment.add_filter("upper", |text: &str| short(text).map(str::to_uppercase));
    environment.add_filter("lower", |text: &str| short(text).map(str::to_lowercase));
    environment.add_filter("length", minijinja::filters::length);
    environment.add_test("none", minijinja::tests::is_none);
    environment.set_formatter(|output, state, value| {
        // A list or a map would be copied as a whole before anything could stop it.
        match value.kind() {
            ValueKind::String | ValueKind::Number | ValueKind::Bool | ValueKind::Undefined => {
                minijinja::escape_formatter(output, state, value)
            }
            ValueKind::None => Ok(()),
            kind => {
                let reason = format!("a value of the kind {kind} cannot be shown");
                Err(minijinja::Error::new(ErrorKind::InvalidOperation, reason))
            }
        }
    });
    environment
}

/// A text that may be copied in one step.
fn short(text: &str) -> Result<&str, minijinja::Error> {
    if text.len() <= FILTERED_MAX_BYTES {
        return Ok(text);
    }
    let reason = format!("a filter takes a text of at most {FILTERED_MAX_BYTES} bytes");
    Err(minijinja::Error::new(ErrorKind::InvalidOperation, reason))
}

fn add(environment: &mut Environment<'static>, name: &str, source: &str) -> Result<(), TemplateProblem> {
    if source.len() > TEMPLATE_MAX_BYTES {
        let reason =
            format!("a template has at most {TEMPLATE_MAX_BYTES} bytes; this one has {}", source.len());
        return Err(TemplateProblem { line: None, reason });
    }
    tags::check(source)?;
    environment.add_template_owned(name.to_owned(), source.to_owned()).map_err(|error| problem(&error))
}

fn write(
    environment: &Environment<'_>,
    name: &str,
    localized: &LocalizedPage<'_>,
) -> Result<String, TemplateProblem> {
    let template = environment.get_template(name).map_err(|error| match error.kind() {
        ErrorKind::TemplateNotFound => unknown(name),
        _ => problem(&error),
    })?;
    let mut output = BoundedWriter(vec![]);
    template.render_captured_to(variables(localized), &mut output).map_err(|error| problem(&error))?;
    String::from_utf8(output.0).map_err(|_| unknown(name))
}

pub(crate) fn unknown(name: &str) -> TemplateProblem {
    TemplateProblem { line: None, reason: format!("there is no template \"{name}\"") }
}

fn problem(error: &minijinja::Error) -> TemplateProblem {
    let reason = match error.kind() {
        ErrorKind::OutOfFuel => "it takes too many steps".to_owned(),
        ErrorKind::WriteFailure => format!("it writes more than {TEMPLATE_OUTPUT_MAX_BYTES} bytes"),
        kind => match error.detail() {
            Some(detail) => format!("{kind}: {detail}"),
            None => kind.to_string(),
        },
    };
    TemplateProblem { line: error.line(), reason }
}

/// What a template is given. A name that is here is always here, with `none` for what a page does not have.
fn variables(localized: &LocalizedPage<'_>) -> Value {
    let page = localized.page;
    let place = localized.place.as_ref().map(|place| {
        context! {
            people_ahead => place.people_ahead.as_str(),
            people_ahead_text => place.people_ahead_of_you.as_str(),
            position => place.position.as_str(),
            wait => place.wait.as_str(),
            progress => place.progress.0,
            progress_max => place.progress.1,
            updated => place.updated.as_str(),
            updated_at => place.timestamp.as_str(),
            remaining => place.remaining.as_deref(),
        }
    });
    context! {
        language => localized.language.tag,
        direction => localized.language.direction,
        nonce => localized.nonce,
        script => Value::from_safe_string(localized.script_tags()),
        situation => localized.situation,
        phase => localized.phase,
        document_title => localized.document_title(),
        title => localized.title,
        lead => localized.lead,
        heading => localized.heading(),
        logo => localized.logo(),
        notice => localized.notice(),
        room => page.room,
        site => localized.site(),
        place => place,
        remarks => localized.remarks(),
        home_address => page.home.as_deref(),
        join_address => page.join.as_deref(),
        enter_address => page.enter.as_deref(),
        open_address => localized.open_at_turn(),
        leave_address => page.leave.as_deref(),
        move_address => page.move_out.as_deref(),
        texts => TEXTS.get(localized.language.tag).cloned(),
    }
}

/// The messages without a number, of every language, under names that a template can write: `leave_button`.
static TEXTS: LazyLock<BTreeMap<&'static str, Value>> = LazyLock::new(|| {
    let of = |language: &'static Language| -> Value {
        let texts = language.texts.all().filter_map(|(name, pattern)| match pattern {
            Pattern::Plain(text) => Some((name.replace('-', "_"), Value::from(text.as_str()))),
            Pattern::Counted(_) => None,
        });
        Value::from(texts.collect::<BTreeMap<String, Value>>())
    };
    Language::all().iter().map(|language| (language.tag, of(language))).collect()
});

/// Takes what is written until it is too much.
struct BoundedWriter(Vec<u8>);

impl io::Write for BoundedWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > TEMPLATE_OUTPUT_MAX_BYTES {
            return Err(io::Error::other("too much"));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
