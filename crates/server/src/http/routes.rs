//! The routes of both listeners: two tables in which each row says who may call it, how much it reads, and how its errors
//! are written. Phases, documents and tests go by these rows, so a new route needs nothing but its row.
//!
//! The path of a request is in `service`.

use std::sync::Arc;

use axum::routing::{MethodRouter, delete, get, patch, post, put};

use crate::access::Permission;
use crate::api::administration;
use crate::api::alarms;
use crate::api::auction;
use crate::api::aws;
use crate::api::backup;
use crate::api::capacity;
use crate::api::health;
use crate::api::preview;
use crate::api::preview::PREVIEW_MAX_BYTES;
use crate::api::rooms;
use crate::api::visitors;
use crate::api::waiting_pages;
use crate::api::watch;
use crate::app::App;
use crate::http::error::Style;
use crate::openapi;

/// Every public route also answers under this prefix, so that it works on a protected host.
pub(crate) const PREFIX: &str = "/.anteroom";

/// A method of the API. HEAD goes with GET, OPTIONS with everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// Reads.
    Get,
    /// Does something.
    Post,
    /// Makes or replaces.
    Put,
    /// Changes in part.
    Patch,
    /// Deletes.
    Delete,
}

impl Verb {
    /// As it is written in requests.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }
}

/// Who may call a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Everybody.
    Open,
    /// Everybody if `metrics_open` is set, otherwise like [`Access::Needs`].
    OpenIfConfigured(Permission),
    /// Keys whose role has this permission.
    Needs(Permission),
}

/// How much of a body a route reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyLimit {
    /// Nothing.
    Nothing,
    /// At most `request_body_max_bytes`.
    Configured,
    /// At most so many bytes, whatever is configured.
    Fixed(usize),
    /// At most so many bytes, which never lie in memory all at once.
    Streamed(u64),
}

/// One row.
#[derive(Debug, Clone, Copy)]
pub struct Route {
    /// The method.
    pub method: Verb,
    /// The path, with `{parameters}`.
    pub path: &'static str,
    /// Who may call it.
    pub access: Access,
    /// What it reads.
    pub body: BodyLimit,
    /// Whether it answers from boards, and so goes on for a while when the store is lost.
    pub is_from_board: bool,
    pub(crate) errors: Style,
    pub(crate) answer: fn() -> MethodRouter<Arc<App>>,
}

const fn row(
    method: Verb,
    path: &'static str,
    access: Access,
    body: BodyLimit,
    errors: Style,
    answer: fn() -> MethodRouter<Arc<App>>,
) -> Route {
    Route { method, path, access, body, is_from_board: false, errors, answer }
}

/// A row that answers from boards.
const fn see(
    method: Verb,
    path: &'static str,
    access: Access,
    body: BodyLimit,
    errors: Style,
    answer: fn() -> MethodRouter<Arc<App>>,
) -> Route {
    Route { method, path, access, body, is_from_board: true, errors, answer }
}

/// The largest backup that `/restore` takes.
pub(crate) const RESTORE_MAX_BYTES: u64 = 64 * 1024 * 1024 * 1024;

/// The largest notification that `/alarms` takes. Alertmanager sends a whole group at once and does not repeat what was refused, so
/// this is well above the 16 KiB of other calls.
pub(crate) const NOTIFICATION_MAX_BYTES: usize = 1024 * 1024;

use Access::{Needs, Open, OpenIfConfigured};
use BodyLimit::{Configured, Fixed, Nothing, Streamed};
use Permission::{Administer, Operate, Read, ReportVisits};
use Style::{Aws, Problem};
use Verb::{Delete, Get, Patch, Post, Put};

/// What visitors call.
#[rustfmt::skip]
pub const PUBLIC_ROUTES: &[Route] = &[
    // AWS
    row(Post, "/assign_queue_num",      Open, Configured, Aws, || post(aws::assign_queue_num)),  // a place in line (usually answered by `hot`)
    see(Get,  "/queue_num",             Open, Nothing,    Aws, || get(aws::queue_num)),          // its number (likewise)
    see(Get,  "/serving_num",           Open, Nothing,    Aws, || get(aws::serving_num)),        // the frontier (likewise)
    see(Get,  "/waiting_num",           Open, Nothing,    Aws, || get(aws::waiting_num)),        // how many wait (likewise)
    row(Post, "/generate_token",        Open, Configured, Aws, || post(aws::generate_token)),    // the pass
    see(Get,  "/queue_pos_expiry",      Open, Nothing,    Aws, || get(aws::queue_pos_expiry)),   // how long an offer stands
    row(Get,  "/public_key",            Open, Nothing,    Aws, || get(aws::public_key)),         // the key that signs now
    row(Get,  "/.well-known/jwks.json", Open, Nothing,    Aws, || get(aws::jwks)),               // every key a pass may be signed with
    // our own
    row(Post, "/join",       Open, Configured, Problem, || post(visitors::join)),       // a place in line, and the pass where it is served at once
    see(Get,  "/status",     Open, Nothing,    Problem, || get(visitors::status)),      // where a ticket stands (usually answered by `hot`)
    row(Post, "/claim",      Open, Configured, Problem, || post(visitors::claim)),      // the pass
    row(Post, "/auction",    Open, Configured, Problem, || post(auction::auction)),   // a place in line, or a check-in to the open round
    row(Post, "/move",       Open, Configured, Problem, || post(visitors::move_place)), // the place to another device, under a new ticket
    row(Post, "/leave",      Open, Configured, Problem, || post(visitors::leave)),      // gives the place up
    row(Post, "/refresh",    Open, Configured, Problem, || post(visitors::refresh)),    // a new access token while the session lives
    see(Get,  "/rooms/{id}", Open, Nothing,    Problem, || get(visitors::figures)),     // the board (usually answered by `hot`)
    see(Get,  "/watch",      Open, Nothing,    Problem, || get(watch::watch)),        // the board, live
    // the line as pages show it; the cookie says who asks
    row(Get,  "/line",              Open, Nothing, Problem, || get(waiting_pages::line)),              // where one stands
    row(Post, "/line/join",         Open, Nothing, Problem, || post(waiting_pages::line)),             // a place in line
    row(Post, "/line/enter",        Open, Nothing, Problem, || post(waiting_pages::line)),             // comes in at the turn
    row(Post, "/line/leave",        Open, Nothing, Problem, || post(waiting_pages::line)),             // gives the place up
    row(Get,  "/line/move",         Open, Nothing, Problem, || get(waiting_pages::line)),              // a link that takes it to another device
    row(Get,  "/line/take",         Open, Nothing, Problem, || get(waiting_pages::line)),              // that link: asks
    row(Post, "/line/take",         Open, Nothing, Problem, || post(waiting_pages::line)),             // and takes it
    row(Get,  "/wait/{room}",       Open, Nothing, Problem, || get(waiting_pages::wait)),              // the waiting page for a site elsewhere
    row(Post, "/wait/{room}/enter", Open, Nothing, Problem, || post(waiting_pages::wait)),             // hands the pass over
    row(Get,  "/page.js",           Open, Nothing, Problem, || get(waiting_pages::script)),            // what pages do in a browser
    row(Get,  "/problems",   Open, Nothing,    Problem, || get(health::problems)),    // what each problem means
];

/// What operators and origins call.
#[rustfmt::skip]
pub const PRIVATE_ROUTES: &[Route] = &[
    // AWS
    row(Post, "/generate_token",            Needs(Operate),      Configured, Aws, || post(aws::generate_token_private)),    // a pass, with overrides
    row(Post, "/increment_serving_counter", Needs(Operate),      Configured, Aws, || post(aws::increment_serving_counter)), // the operator's hand
    see(Get,  "/num_active_tokens",         Needs(Read),         Nothing,    Aws, || get(aws::num_active_tokens)),          // visitors inside
    row(Get,  "/expired_tokens",            Needs(Read),         Nothing,    Aws, || get(aws::expired_tokens)),             // passes that ran out
    row(Post, "/update_session",            Needs(ReportVisits), Configured, Aws, || post(aws::update_session)),            // a visit is over
    row(Post, "/reset_initial_state",       Needs(Operate),      Configured, Aws, || post(aws::reset_initial_state)),       // a new line
    // rooms
    see(Get,    "/rooms",      Needs(Read),    Nothing,    Problem, || get(rooms::list)),
    see(Get,    "/rooms/{id}", Needs(Read),    Nothing,    Problem, || get(rooms::show)),
    row(Put,    "/rooms/{id}", Needs(Operate), Configured, Problem, || put(rooms::create_or_replace)),
    row(Patch,  "/rooms/{id}", Needs(Operate), Configured, Problem, || patch(rooms::change)),
    row(Delete, "/rooms/{id}", Needs(Operate), Nothing,    Problem, || delete(rooms::delete)),
    see(Get,    "/rooms/{id}/tickets/{request_id}", Needs(Read), Nothing, Problem, || get(rooms::ticket)),              // what an id says, and where it stands
    see(Get,    "/rooms/{id}/capacity", Needs(Read),         Nothing,    Problem, || get(capacity::show)),             // who reports, and what that leaves
    row(Post,   "/rooms/{id}/capacity", Needs(ReportVisits), Configured, Problem, || post(capacity::post)),            // a report, or visits that are over
    row(Delete, "/rooms/{id}/capacity/{reporter}", Needs(Operate), Nothing, Problem, || delete(capacity::forget)),     // a reporter that is gone for good
    row(Post,   "/rooms/{id}/preview", Needs(Operate), Fixed(PREVIEW_MAX_BYTES), Problem, || post(preview::preview)),   // its page, with sample figures
    // alarms
    see(Get,    "/alarms",     Needs(Read),         Nothing,                       Problem, || get(alarms::list)),
    row(Post,   "/alarms",     Needs(ReportVisits), Fixed(NOTIFICATION_MAX_BYTES), Problem, || post(alarms::notify)),   // Alertmanager's webhook
    // access, keys, records
    row(Get,    "/keys",         Needs(Administer), Nothing,    Problem, || get(administration::list_keys)),
    row(Post,   "/keys",         Needs(Administer), Configured, Problem, || post(administration::create_key)),
    row(Delete, "/keys/{name}",  Needs(Administer), Nothing,    Problem, || delete(administration::revoke_key)),
    row(Get,    "/signing_keys", Needs(Read),       Nothing,    Problem, || get(administration::list_signing_keys)),
    row(Post,   "/signing_keys", Needs(Administer), Nothing,    Problem, || post(administration::rotate_signing_key)),
    row(Get,    "/audit",        Needs(Administer), Nothing,    Problem, || get(administration::audit)),
    // everything at once
    row(Get,    "/backup",       Needs(Administer), Nothing,                     Problem, || get(backup::backup)),
    row(Post,   "/restore",      Needs(Administer), Streamed(RESTORE_MAX_BYTES), Problem, || post(backup::restore)),
    // the server itself
    row(Get,  "/metrics", OpenIfConfigured(Read), Nothing, Problem, || get(health::metrics_text)),  // for Prometheus
    row(Get,  "/livez",   Open,                   Nothing, Problem, || get(health::live)),          // the process answers
    row(Get,  "/readyz",  Open,                   Nothing, Problem, || get(health::ready)),         // the store and every room work
    row(Get,  "/openapi.json", Open,              Nothing, Problem, || get(openapi::json)),         // this table, for programs
    row(Get,  "/docs",         Open,              Nothing, Problem, || get(openapi::docs)),         // the same for people
];

/// Which listener a service stands behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listener {
    /// For visitors.
    Public,
    /// For operators and origins.
    Private,
}

impl Listener {
    /// Its name in metrics and logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Public => "public",
            Self::Private => "private",
        }
    }

    /// Its routes.
    pub const fn routes(self) -> &'static [Route] {
        match self {
            Self::Public => PUBLIC_ROUTES,
            Self::Private => PRIVATE_ROUTES,
        }
    }
}
