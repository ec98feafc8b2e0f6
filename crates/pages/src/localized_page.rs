//! A page in words: what a situation says in one language, and the built-in template that shows it.

use std::borrow::Cow;
use std::fmt::Write;
use std::sync::LazyLock;

use anteroom_core::settings::{Heading, Logo, Notice};
use askama::Template;

use crate::branding;
use crate::data;
use crate::languages::Language;
use crate::numbers::{number, time_of_day, timestamp, wait};
use crate::page::{Handoff, Page, PlaceFigures, Situation};
use crate::qr::qr_svg;
use crate::script;

/// Whose turn is expected within so many seconds is almost there.
const NEAR_SECONDS: u64 = 90;
/// While no wait is known: with fewer people ahead the visitor is almost there.
const NEAR_PEOPLE: u64 = 5;
/// From so many seconds on it is told in minutes how long a place is held.
const REMAINING_IN_MINUTES_SECONDS: u64 = 120;
/// Figures of more characters are shown smaller, so that they fit on a phone.
const LONG_FIGURE: usize = 6;

/// Asks again where the script did not come, or did not get to its end: after 15 to 30 seconds, for many may be without it.
const RELOAD: &str = "setTimeout(function(){document.documentElement.dataset.live||location.reload()},15000*(1+Math.random()))";

/// The built-in style, without comments and ends of lines.
static STYLE: LazyLock<String> = LazyLock::new(|| {
    let lines = include_str!("../assets/page.css").lines().map(str::trim);
    lines.filter(|line| !line.starts_with("/*")).collect()
});

/// A page in one language. The built-in template reads it; a template of the operator's reads what `templates.rs` makes of it.
#[derive(Template)]
#[template(path = "page.html", whitespace = "minimize")]
pub(crate) struct LocalizedPage<'page> {
    pub(crate) page: &'page Page<'page>,
    pub(crate) language: &'static Language,
    pub(crate) nonce: &'page str,
    pub(crate) situation: &'static str,
    /// What distinguishes the stages of waiting: `waiting`, `near` or `paused`; else the situation.
    pub(crate) phase: &'static str,
    pub(crate) title: &'page str,
    pub(crate) lead: &'page str,
    pub(crate) place: Option<LocalizedPlace>,
    /// What the style's custom properties are set to.
    pub(crate) brand_style: String,
    /// The JSON for the script; empty where it has nothing to do.
    pub(crate) data: String,
}

/// A place in words.
pub(crate) struct LocalizedPlace {
    pub(crate) place: PlaceFigures,
    pub(crate) people_ahead: String,
    pub(crate) people_ahead_of_you: String,
    pub(crate) position: String,
    pub(crate) wait: String,
    /// How many have gone in since the join, and of how many.
    pub(crate) progress: (u64, u64),
    pub(crate) updated: String,
    pub(crate) timestamp: String,
    pub(crate) remaining: Option<String>,
}

/// A picture above the title.
pub(crate) struct Picture {
    pub(crate) path: &'static str,
    /// On pages that go on by themselves: the situation in which it is seen.
    pub(crate) shown: Option<&'static str>,
    pub(crate) is_hidden: bool,
}

impl<'page> LocalizedPage<'page> {
    pub(crate) fn new(page: &'page Page<'page>, language: &'static Language, nonce: &'page str) -> Self {
        let phase = phase(page);
        let situation = page.situation.name();
        let (title, lead) = words(page, phase, language);
        Self {
            page,
            language,
            nonce,
            situation,
            phase,
            title,
            lead,
            place: page.place.map(|place| {
                // While nobody is let in, nobody knows how long it takes.
                let stands = matches!(phase, "paused" | "held");
                let likely_seconds = place.likely_seconds.filter(|_| !stands);
                LocalizedPlace::new(PlaceFigures { likely_seconds, ..place }, language)
            }),
            brand_style: branding::properties(page.settings),
            data: data::block(page, phase, language),
        }
    }

    /// A message without a number.
    pub(crate) fn text(&self, name: &str) -> &'static str {
        self.language.texts.text(name)
    }

    pub(crate) fn heading(&self) -> Option<&'page str> {
        self.page.settings?.page_heading.as_ref().map(Heading::as_str)
    }

    pub(crate) fn logo(&self) -> Option<&'page str> {
        self.page.settings?.page_logo.as_ref().map(Logo::as_str)
    }

    /// What the logo says, where nothing beside it does.
    pub(crate) fn logo_text(&self) -> &'page str {
        self.page.settings.and_then(|settings| settings.page_logo_text.as_ref()).map_or("", Heading::as_str)
    }

    /// The operator's notice; it is for visitors in line only.
    pub(crate) fn notice(&self) -> Option<&'page str> {
        self.page.settings?.notice.as_ref().map(Notice::as_str)
    }

    /// Which site the visitor goes on to.
    pub(crate) fn site(&self) -> Option<String> {
        Some(self.language.texts.text_with_site("for-site", self.page.site?))
    }

    /// What tabs and lists of windows show.
    pub(crate) fn document_title(&self) -> Cow<'_, str> {
        let site = self.heading().unwrap_or(self.title);
        match &self.place {
            Some(place) if self.page.situation == Situation::Waiting => {
                format!("{} · {site}", place.people_ahead_of_you).into()
            }
            _ if site == self.title => site.into(),
            _ => format!("{} · {site}", self.title).into(),
        }
    }

    pub(crate) fn enters_by_itself(&self) -> bool {
        self.page.settings.is_none_or(|settings| settings.auto_enter)
    }

    /// What is to be known while waiting, smaller, below.
    pub(crate) fn remarks(&self) -> Vec<&'static str> {
        let mut remarks = vec![];
        match self.page.situation {
            Situation::Waiting | Situation::Held if self.place.is_some() => {
                remarks.push(self.text(if self.enters_by_itself() {
                    "what-happens"
                } else {
                    "what-happens-button"
                }));
                if self.page.live.as_ref().is_some_and(|live| live.check_in.is_some()) {
                    remarks.push(self.text("keep-open"));
                }
                remarks.push(self.text("keep-cookies"));
            }
            Situation::Arriving => remarks.push(self.text("arriving-cookies")),
            Situation::MoveIn if self.page.gives_up_place => remarks.push(self.text("take-instead")),
            _ => {}
        }
        remarks
    }

    /// When a browser without scripts asks again, and where. The address is named: where it has a fragment, a browser that is
    /// told to load the same one again loads nothing.
    pub(crate) fn refresh(&self) -> Option<String> {
        let seconds = self.page.refresh_seconds?;
        Some(match &self.page.home {
            Some(address) => format!("{seconds};url={address}"),
            None => seconds.to_string(),
        })
    }

    /// "This page asks again by itself every 20 seconds."
    pub(crate) fn refresh_remark(&self) -> Option<String> {
        let seconds = self.page.refresh_seconds.filter(|_| self.place.is_some())?;
        Some(self.language.texts.text_with_count(
            "refresh-by-itself",
            seconds,
            &number(self.language, seconds),
        ))
    }

    /// What going on by hand is called.
    pub(crate) fn home_button(&self) -> &'static str {
        self.text(match self.page.situation {
            Situation::Waiting
            | Situation::Arriving
            | Situation::ManyArriving
            | Situation::CookiesNeeded
            | Situation::Held
            | Situation::Limited
            | Situation::Failed
            | Situation::TurnedAway
            | Situation::Closed => "ask-again",
            Situation::MoveOut => "move-close",
            _ => "home-button",
        })
    }

    /// Whether the button that goes on by hand is what the page is for.
    pub(crate) fn home_is_main(&self) -> bool {
        self.page.join.is_none()
            && self.page.enter.is_none()
            && self.page.move_in.is_none()
            && self.page.confirm.is_none()
            && self.page.link.is_none()
    }

    /// The link to another device with its QR code, and for how long it works.
    pub(crate) fn link(&self) -> Option<(&'page str, String, String)> {
        let (link, seconds) = self.page.link.as_ref()?;
        let minutes = seconds.div_ceil(60).max(1);
        let expires =
            self.language.texts.text_with_count("move-expires", minutes, &number(self.language, minutes));
        Some((link, qr_svg(link), expires))
    }

    pub(crate) fn handoff(&self) -> Option<&'page Handoff> {
        self.page.handoff.as_ref()
    }

    /// What the browser opens at the turn.
    pub(crate) fn open_at_turn(&self) -> Option<&'page str> {
        self.page.live.as_ref()?.open_at_turn.as_deref()
    }

    /// The style, without indentation and comments.
    pub(crate) fn style() -> &'static str {
        &STYLE
    }

    /// The accent as hexadecimal digits, for the icon of the tab.
    pub(crate) fn accent(&self) -> String {
        branding::accent(self.page.settings)
    }

    pub(crate) fn script_address() -> &'static str {
        script::address()
    }

    /// All that a page of an operator's needs for the script, ready to stand in its head: the data, the script, and what comes in its
    /// place where it does not run or does not come.
    pub(crate) fn script_tags(&self) -> String {
        let mut tags = String::new();
        if let Some(refresh) = self.refresh() {
            let refresh = refresh.replace('&', "&amp;").replace('"', "&quot;");
            let _ = write!(tags, "<noscript><meta http-equiv=\"refresh\" content=\"{refresh}\"></noscript>");
        }
        if !self.data.is_empty() {
            let (nonce, address, data) = (self.nonce, Self::script_address(), &self.data);
            let _ = write!(
                tags,
                "<script type=\"application/json\" id=\"anteroom\">{data}</script>\
                 <script nonce=\"{nonce}\" src=\"{address}\" defer></script>\
                 <script nonce=\"{nonce}\">{RELOAD}</script>"
            );
        }
        tags
    }

    /// The line of script for when the script does not come.
    pub(crate) fn reload() -> &'static str {
        RELOAD
    }

    /// The pictures above the title, where there are no figures. Pages that go on by themselves have those that may come.
    pub(crate) fn pictures(&self) -> Vec<Picture> {
        if self.page.live.is_some() {
            let picture = |situation: Situation| Picture {
                path: path_of(situation),
                shown: Some(situation.name()),
                is_hidden: situation != self.page.situation,
            };
            return vec![picture(Situation::Turn), picture(Situation::Held)];
        }
        let path = path_of(self.page.situation);
        if path.is_empty() { vec![] } else { vec![Picture { path, shown: None, is_hidden: false }] }
    }
}

/// What is drawn for a situation.
const fn path_of(situation: Situation) -> &'static str {
    match situation {
        Situation::Waiting | Situation::MoveOut => "",
        Situation::Turn | Situation::Inside | Situation::HandOff => "M7 12.5l3.5 3.5L17.5 9",
        Situation::Moved | Situation::MoveIn | Situation::Confirm | Situation::Elsewhere => {
            "M6 12h12M13 7l5 5-5 5"
        }
        Situation::Arriving
        | Situation::ManyArriving
        | Situation::Held
        | Situation::Limited
        | Situation::Gone => "M12 7v5.5l3.5 2",
        Situation::Left | Situation::Closed | Situation::TurnedAway => "M7 12h10",
        _ => "M12 7v6M12 16.5v.01",
    }
}

impl LocalizedPlace {
    fn new(place: PlaceFigures, language: &'static Language) -> Self {
        let people_ahead = number(language, place.people_ahead);
        let first = place.people_ahead_at_first.max(place.people_ahead);
        Self {
            place,
            people_ahead_of_you: language.texts.text_with_count(
                "people-ahead-of-you",
                place.people_ahead,
                &people_ahead,
            ),
            people_ahead,
            position: number(language, place.position),
            wait: wait(language, place.likely_seconds, place.at_most_seconds),
            progress: if first == 0 { (1, 1) } else { (first - place.people_ahead, first) },
            updated: language.texts.text_with_time("updated-at", &time_of_day(language, place.now)),
            timestamp: timestamp(place.now),
            remaining: place.remaining_seconds.map(|seconds| remaining(language, seconds)),
        }
    }

    pub(crate) fn is_long(&self) -> bool {
        self.people_ahead.chars().count() > LONG_FIGURE
    }
}

/// How long a place is held, never longer than it is. The script writes it alike.
fn remaining(language: &Language, seconds: u64) -> String {
    let (message, count) = if seconds < REMAINING_IN_MINUTES_SECONDS {
        ("turn-remaining", seconds)
    } else {
        ("turn-remaining-minutes", seconds / 60)
    };
    language.texts.text_with_count(message, count, &number(language, count))
}

/// Which stage of waiting a page shows, or its situation.
fn phase(page: &Page<'_>) -> &'static str {
    match (page.situation, page.place) {
        (Situation::Waiting, _) if page.is_standing_still => "paused",
        (Situation::Waiting, Some(place)) if is_near(&place) => "near",
        (situation, _) => situation.name(),
    }
}

/// Whether it will soon be the visitor's turn. The script decides alike.
fn is_near(place: &PlaceFigures) -> bool {
    match place.likely_seconds {
        Some(seconds) => seconds <= NEAR_SECONDS,
        None => place.people_ahead < NEAR_PEOPLE,
    }
}

/// Title and lead.
pub(crate) fn words<'page>(
    page: &Page<'page>,
    phase: &str,
    language: &'static Language,
) -> (&'page str, &'page str) {
    let text = |name: &str| language.texts.text(name);
    let (title, lead) = match (page.situation, phase) {
        (_, "paused") => ("standstill-title", "standstill-lead"),
        (_, "near") => ("near-title", "near-lead"),
        (_, "turn") if page.settings.is_some_and(|settings| !settings.auto_enter) => {
            ("turn-title", "turn-lead")
        }
        (_, "turn") => ("turn-title", "turn-lead-auto"),
        (_, "held") if page.place.is_none() => ("held-new-title", "held-new-lead"),
        (_, "waiting") => ("waiting-title", "waiting-lead"),
        (_, "held") => ("held-title", "held-lead"),
        (situation, _) => situation.messages(),
    };
    // What the operator says replaces what is said in general, not what has just happened.
    let own = page.settings.and_then(|settings| settings.page_text.as_ref()).map(Notice::as_str);
    let lead = match own {
        Some(own) if matches!(phase, "waiting" | "near") => own,
        _ => text(lead),
    };
    (text(title), lead)
}
