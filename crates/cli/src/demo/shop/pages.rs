//! The shop's pages. Whatever a visitor typed goes through [`escape`].

use std::fmt::Write;

use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::{Response, StatusCode};
use http_body_util::Full;

use super::Answer;
use super::goods::{self, Good};

/// The house: rows, and seats in a row.
const PLAN: (usize, usize) = (5, 9);
const STYLE: &str = include_str!("shop.css");
const COME_BACK: &str = "<p><a href=\"/\">Come back</a>: if there is a line, you stand at its end.</p>";
const SEE_EVERYTHING: &str = "<p><a href=\"/\">Back to all tickets</a></p>";

/// How the reader of a page stands to the shop.
#[derive(Debug, Clone, Copy)]
pub(super) enum Standing {
    /// In the middle of a visit, one of so many.
    Inside { visitors: u64 },
    /// The visit has just ended: there is nothing left to leave.
    Over,
    /// With a pass, on a page that Anteroom is not before.
    WithPass,
    /// Past Anteroom, to the shop's own address: there is no visit.
    BackDoor,
}

impl Standing {
    /// The strip on top of every page.
    fn banner(self) -> String {
        match self {
            Self::Inside { visitors } => format!(
                "You are inside. Visitors at the moment: <strong>{visitors}</strong>. Everybody else waits in line."
            ),
            Self::Over => "Your visit is over.".to_owned(),
            Self::WithPass => "You are in, with a pass from the waiting room.".to_owned(),
            Self::BackDoor => {
                "You came by the back door: this is the shop itself, without Anteroom before it.".to_owned()
            }
        }
    }

    /// The button for a visitor who has a place to give up.
    fn leave_form(self) -> &'static str {
        match self {
            Self::Inside { .. } => {
                "<form method=post action=\"/leave\"><button class=quiet>Leave</button></form>"
            }
            Self::Over | Self::WithPass | Self::BackDoor => "",
        }
    }
}

/// Everything there is.
pub(super) fn front_page(standing: Standing) -> Answer {
    let content = format!(
        "<p class=lead>One night only. Choose your place.</p>{}{}",
        search_box(""),
        list(&goods::search(""))
    );
    page(StatusCode::OK, standing, "Tickets for tonight", &content)
}

/// What was found.
pub(super) fn search_results(standing: Standing, wanted: &str) -> Answer {
    let found = goods::search(wanted);
    let shown = if found.is_empty() {
        format!("<p>Nothing here is called “{}”. <a href=\"/\">See everything</a></p>", escape(wanted))
    } else {
        list(&found)
    };
    page(StatusCode::OK, standing, "Tickets for tonight", &format!("{}{shown}", search_box(wanted)))
}

/// One thing, with a button to buy it.
pub(super) fn product(standing: Standing, good: Option<&Good>) -> Answer {
    let Some(Good { name, title, price_euros, seats, about }) = good else {
        let content = "<p>We do not sell that. <a href=\"/\">See everything</a></p>";
        return page(StatusCode::NOT_FOUND, standing, "Not here", content);
    };
    let plan = seat_plan(seats);
    let content = format!(
        "<div class=\"card large\">{plan}<p>{about}</p>\
         <p class=price>€ {price_euros}</p>\
         <form method=post action=\"/checkout\"><input type=hidden name=product value=\"{name}\">\
         <button>Buy for € {price_euros}</button></form></div>{SEE_EVERYTHING}"
    );
    page(StatusCode::OK, standing, title, &content)
}

/// The end of a visit, as it should be; or a purchase without one, by the back door.
pub(super) fn bought(standing: Standing, good: &Good) -> Answer {
    let (consequence, way_back) = match standing {
        Standing::Over => (
            "The shop has told Anteroom that your visit is complete. Your place is free for the next in line.",
            COME_BACK,
        ),
        _ => ("Nobody was told: by the back door there is no visit to end.", SEE_EVERYTHING),
    };
    let content = format!(
        "<div class=\"card large\">{}\
         <p><strong>{}</strong> is yours, and on its way. Enjoy the evening.</p>\
         <p>{consequence}</p></div>{way_back}",
        seat_plan(&good.seats),
        good.title
    );
    page(StatusCode::OK, standing, "Thank you", &content)
}

/// The end of a visit without a purchase.
pub(super) fn farewell() -> Answer {
    let content =
        format!("<p>You have left the shop. Your place is free for the next in line.</p>{COME_BACK}");
    page(StatusCode::OK, Standing::Over, "Goodbye", &content)
}

/// What a visitor with a pass sees.
pub(super) fn premiere_page() -> Answer {
    let content = "<p class=lead>Anteroom does not stand before this page. You came without a pass, so the site sent you to the waiting \
         room, and you came back with a one-time code.</p>\
         <p>The site has exchanged the code for a signed pass, has verified that, and keeps it in a cookie for five minutes.</p>";
    page(StatusCode::OK, Standing::WithPass, "The premiere", content)
}

/// A method or a body that nobody's browser sends.
pub(super) fn bad_request_page(standing: Standing) -> Answer {
    let content = "<p>That is not how this shop works. <a href=\"/\">Back</a></p>";
    page(StatusCode::METHOD_NOT_ALLOWED, standing, "Not like that", content)
}

fn search_box(wanted: &str) -> String {
    format!(
        "<form class=search role=search action=\"/search\"><label for=q>What do you look for?</label>\
         <input id=q name=q type=search maxlength=100 value=\"{}\"><button>Search</button></form>",
        escape(wanted)
    )
}

fn list(goods: &[&Good]) -> String {
    let items = goods.iter().fold(String::new(), |mut items, good| {
        let Good { name, title, price_euros, seats, about } = good;
        let plan = seat_plan(seats);
        let _ = write!(
            items,
            "<li class=card>{plan}<h2><a href=\"/product/{name}\">{title}</a></h2>\
             <p>{about}</p><p class=price>€ {price_euros}</p></li>"
        );
        items
    });
    format!("<ul class=goods>{items}</ul>")
}

/// The house from above: the stage, rows of seats, and which of them this is about.
fn seat_plan([first_row, last_row, first_column, last_column]: &[usize; 4]) -> String {
    let mut seats = String::new();
    for (row, column) in (0..PLAN.0).flat_map(|row| (0..PLAN.1).map(move |column| (row, column))) {
        let is_marked =
            (first_row..=last_row).contains(&&row) && (first_column..=last_column).contains(&&column);
        let class = if is_marked { " class=on" } else { "" };
        let _ = write!(seats, "<circle{class} cx={} cy={} r=3 />", 10 + 10 * column, 18 + 9 * row);
    }
    format!(
        "<svg class=plan viewBox=\"0 0 100 60\" aria-hidden=true><path d=\"M20 8Q50 2 80 8\"/>{seats}</svg>"
    )
}

fn page(status: StatusCode, standing: Standing, title: &str, content: &str) -> Answer {
    let (banner, leave) = (standing.banner(), standing.leave_form());
    let text = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title} · The Sample Theatre</title>\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\"><link rel=\"icon\" href=\"data:,\">\
         <style>{STYLE}</style></head><body><header><p class=banner>{banner}</p>\
         <div class=bar><a href=\"/\">The Sample Theatre</a>{leave}</div></header>\
         <main><h1>{title}</h1>{content}</main></body></html>\n"
    );
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    response
}

/// Text that cannot be anything else in a page, also within the quotes of an attribute.
fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            other => safe.push(other),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_visitor_typed_stays_text() {
        assert_eq!(escape("<b class=\"x\" id='y'>&"), "&lt;b class=&quot;x&quot; id=&#39;y&#39;&gt;&amp;");
    }
}
