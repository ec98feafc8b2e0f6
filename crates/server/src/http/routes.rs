//! The routes of both listeners: two tables in which each row says everything about its call: who may make it, how much it reads, which
//! budget it is charged to, how its errors are written, how it is documented, and whether it is answered ahead of its handler.
//!
//! Matching, phases, rate limits, the `OpenAPI` documents and the coverage tests derive from these rows, so a new route needs nothing but its
//! row. The path of a request is in `service`.

use std::sync::Arc;

use anteroom_gateway::limiter::Class;
use axum::routing::{self, MethodRouter};

use crate::access::Permission;
use crate::api::preview::PREVIEW_MAX_BYTES;
use crate::api::{
    administration, alarms, arrivals, auction, aws, backup, capacity, checks, clients, destinations, events,
    health, preview, rooms, visitors, visits, waiting_pages, watch,
};
use crate::app::App;
use crate::http::error::Style;
use crate::http::fast_path::{self, FastPath};
use crate::openapi;
use crate::openapi::{
    Call, calls_aws as aws_docs, calls_capacity as capacity_docs, calls_check as check_docs,
    calls_clients as client_docs, calls_destinations as destination_docs, calls_line as line_docs,
    calls_openid as openid_docs, calls_private as private_docs, calls_visitors as visitors_docs,
};
use crate::openid::authorization_request::AUTHORIZE_QUERY_MAX_BYTES;
use crate::openid::{authorize, discovery, token, user_info};

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

/// The handler of a row.
type Handler = fn() -> MethodRouter<Arc<App>>;
/// What describes a row in the documents.
type Documentation = fn() -> Call;

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
    /// The budget it is charged to; on the private listener nothing is limited.
    pub class: Class,
    /// Whether pages of other sites may read its answers.
    pub is_for_other_sites: bool,
    pub(crate) errors: Style,
    pub(crate) handler: Handler,
    pub(crate) documentation: Documentation,
    /// How it is answered ahead of its handler, where nothing is unusual about the request.
    pub(crate) fast: Option<FastPath>,
}

/// A row that everybody may call, which reads no body, and writes errors as problems; the methods below change that.
const fn row(method: Verb, path: &'static str, handler: Handler, documentation: Documentation) -> Route {
    Route {
        method,
        path,
        access: Access::Open,
        body: BodyLimit::Nothing,
        is_from_board: false,
        class: Class::Read,
        is_for_other_sites: true,
        errors: Style::Problem,
        handler,
        documentation,
        fast: None,
    }
}

const fn get(path: &'static str, handler: Handler, documentation: Documentation) -> Route {
    row(Verb::Get, path, handler, documentation)
}

const fn post(path: &'static str, handler: Handler, documentation: Documentation) -> Route {
    row(Verb::Post, path, handler, documentation)
}

const fn put(path: &'static str, handler: Handler, documentation: Documentation) -> Route {
    row(Verb::Put, path, handler, documentation)
}

const fn patch(path: &'static str, handler: Handler, documentation: Documentation) -> Route {
    row(Verb::Patch, path, handler, documentation)
}

const fn delete(path: &'static str, handler: Handler, documentation: Documentation) -> Route {
    row(Verb::Delete, path, handler, documentation)
}

impl Route {
    const fn needs(self, permission: Permission) -> Self {
        Self { access: Access::Needs(permission), ..self }
    }

    const fn open_if_configured(self, permission: Permission) -> Self {
        Self { access: Access::OpenIfConfigured(permission), ..self }
    }

    const fn body(self, body: BodyLimit) -> Self {
        Self { body, ..self }
    }

    const fn errors(self, errors: Style) -> Self {
        Self { errors, ..self }
    }

    const fn for_own_site(self) -> Self {
        Self { is_for_other_sites: false, ..self }
    }

    const fn reads_board(self) -> Self {
        Self { is_from_board: true, ..self }
    }

    const fn class(self, class: Class) -> Self {
        Self { class, ..self }
    }

    const fn fast(self, fast: FastPath) -> Self {
        Self { fast: Some(fast), ..self }
    }
}

/// The largest backup that `/restore` takes.
pub(crate) const RESTORE_MAX_BYTES: u64 = 64 * 1024 * 1024 * 1024;

/// The largest notification that `/alarms` takes. Alertmanager sends a whole group at once and does not repeat what was refused, so
/// this is well above the 16 KiB of other calls.
pub(crate) const NOTIFICATION_MAX_BYTES: usize = 1024 * 1024;

use BodyLimit::{Configured, Fixed, Streamed};
use Class::{Claim, Join, Move};
use Permission::{Administer, Operate, Read, ReportVisits};
use Style::{Aws, OAuth, Page};

/// What visitors call.
#[rustfmt::skip]
pub const PUBLIC_ROUTES: &[Route] = &[
    // AWS
    post("/assign_queue_num", || routing::post(aws::assign_queue_num), aws_docs::assign_queue_num).body(Configured).errors(Aws).class(Join).fast(FastPath::Join(fast_path::assign_queue_num)),  // a place in line
    get("/queue_num", || routing::get(aws::queue_num), aws_docs::queue_num).errors(Aws).reads_board().fast(FastPath::Read(fast_path::queue_num)),  // its number
    get("/serving_num", || routing::get(aws::serving_num), aws_docs::serving_num).errors(Aws).reads_board().fast(FastPath::Read(fast_path::serving_num)),  // the frontier
    get("/waiting_num", || routing::get(aws::waiting_num), aws_docs::waiting_num).errors(Aws).reads_board().fast(FastPath::Read(fast_path::waiting_num)),  // how many wait
    post("/generate_token", || routing::post(aws::generate_token), aws_docs::generate_token).body(Configured).errors(Aws).class(Claim),  // the pass
    get("/queue_pos_expiry", || routing::get(aws::queue_pos_expiry), aws_docs::queue_pos_expiry).errors(Aws).reads_board(),  // how long an offer stands
    get("/public_key", || routing::get(aws::public_key), aws_docs::public_key).errors(Aws),  // the key that signs now
    get("/.well-known/jwks.json", || routing::get(aws::jwks), aws_docs::jwks).errors(Aws),  // every key a pass may be signed with
    // our own
    post("/join", || routing::post(visitors::join), visitors_docs::join).body(Configured).class(Join).fast(FastPath::Join(fast_path::join)),  // a place in line, and the pass where it is served at once
    get("/status", || routing::get(visitors::status), visitors_docs::status).reads_board().fast(FastPath::Read(fast_path::status)),  // where a ticket stands
    post("/claim", || routing::post(visitors::claim), visitors_docs::claim).body(Configured).class(Claim),  // the pass
    post("/auction", || routing::post(auction::auction), visitors_docs::auction).body(Configured).class(Join),  // a place in line, or a check-in to the open round
    post("/move", || routing::post(visitors::move_place), visitors_docs::move_place).body(Configured).class(Move),  // the place to another device, under a new ticket
    post("/leave", || routing::post(visitors::leave), visitors_docs::leave).body(Configured).class(Claim),  // gives the place up
    post("/refresh", || routing::post(visitors::refresh), visitors_docs::refresh).body(Configured).class(Claim),  // a new access token while the session lives
    get("/rooms/{id}", || routing::get(visitors::figures), visitors_docs::figures).reads_board().fast(FastPath::Read(fast_path::figures)),  // the board
    get("/watch", || routing::get(watch::watch), visitors_docs::watch).reads_board(),  // the board, live
    // the line as pages show it; the cookie says who asks
    get("/line", || routing::get(waiting_pages::line), line_docs::ask).errors(Page),  // where one stands
    post("/line/join", || routing::post(waiting_pages::line), line_docs::join).errors(Page).class(Join),  // a place in line
    post("/line/enter", || routing::post(waiting_pages::line), line_docs::enter).errors(Page).class(Claim),  // comes in at the turn
    post("/line/leave", || routing::post(waiting_pages::line), line_docs::leave).errors(Page).class(Claim),  // gives the place up
    get("/line/move", || routing::get(waiting_pages::line), line_docs::move_out).errors(Page).class(Move),  // a link that takes it to another device
    get("/line/take", || routing::get(waiting_pages::line), line_docs::ask_to_take).errors(Page),  // that link: asks
    post("/line/take", || routing::post(waiting_pages::line), line_docs::take).errors(Page).class(Move),  // and takes it
    get("/wait/{room}", || routing::get(waiting_pages::wait), line_docs::wait).errors(Page),  // the waiting page for a site without a gateway
    post("/wait/{room}/enter", || routing::post(waiting_pages::wait), line_docs::enter_elsewhere).errors(Page).class(Claim),  // hands the pass over
    get("/page.js", || routing::get(waiting_pages::script), line_docs::script),  // what pages do in a browser
    // verdicts for other proxies, which the service answers before it looks here: a call that comes so far may not ask
    get("/check/nginx/{room}", || routing::get(checks::refuse), check_docs::nginx),  // in or not
    get("/check/nginx/{room}/page", || routing::get(checks::refuse), check_docs::nginx_page),  // the page after that
    get("/check/forward/{room}", || routing::get(checks::refuse), check_docs::forward),  // both at once
    get("/check/envoy/{room}/{*target}", || routing::get(checks::refuse), check_docs::envoy),  // the same
    // OpenID, of the default room and of every room
    get("/.well-known/openid-configuration", || routing::get(discovery::configuration), openid_docs::configuration).errors(OAuth),  // what a client needs to know
    get("/rooms/{id}/.well-known/openid-configuration", || routing::get(discovery::configuration), openid_docs::configuration_of_room).errors(OAuth),
    get("/rooms/{id}/.well-known/jwks.json", || routing::get(discovery::jwks), openid_docs::jwks_of_room).errors(OAuth),  // every key a token may be signed with
    get("/authorize", || routing::get(authorize::page), openid_docs::authorize).errors(Page).for_own_site(),  // the waiting page, and the way back with a code
    post("/authorize", || routing::post(authorize::posted), openid_docs::authorize_posted).body(Fixed(AUTHORIZE_QUERY_MAX_BYTES)).errors(Page).for_own_site(),  // the same, sent as a form
    get("/rooms/{id}/authorize", || routing::get(authorize::page), openid_docs::authorize_of_room).errors(Page).for_own_site(),
    post("/rooms/{id}/authorize", || routing::post(authorize::posted), openid_docs::authorize_of_room_posted).body(Fixed(AUTHORIZE_QUERY_MAX_BYTES)).errors(Page).for_own_site(),
    post("/rooms/{id}/authorize/enter", || routing::post(authorize::enter), openid_docs::authorize_enter).errors(Page).class(Claim).for_own_site(),  // its buttons: comes in, or confirms
    post("/rooms/{id}/authorize/join", || routing::post(authorize::join), openid_docs::authorize_join).errors(Page).class(Claim).for_own_site(),  // asks for another place
    post("/rooms/{id}/authorize/leave", || routing::post(authorize::leave), openid_docs::authorize_leave).errors(Page).class(Claim).for_own_site(),  // gives the place up
    get("/rooms/{id}/authorize/moved", || routing::get(authorize::moved), openid_docs::authorize_moved).errors(Page).for_own_site(),  // where a device goes on that took a place
    post("/token", || routing::post(token::exchange), openid_docs::token).body(Configured).errors(OAuth).class(Claim),  // tokens for a code
    post("/rooms/{id}/token", || routing::post(token::exchange), openid_docs::token_of_room).body(Configured).errors(OAuth).class(Claim),
    get("/userInfo", || routing::get(user_info::show), openid_docs::user_info).errors(OAuth),  // what an access token says, checked
    post("/userInfo", || routing::post(user_info::show), openid_docs::user_info_posted).body(Configured).errors(OAuth),
    get("/userinfo", || routing::get(user_info::show), openid_docs::user_info_small).errors(OAuth),  // as most clients spell it
    post("/userinfo", || routing::post(user_info::show), openid_docs::user_info_small_posted).body(Configured).errors(OAuth),
    get("/rooms/{id}/userInfo", || routing::get(user_info::show), openid_docs::user_info_of_room).errors(OAuth),
    post("/rooms/{id}/userInfo", || routing::post(user_info::show), openid_docs::user_info_of_room_posted).body(Configured).errors(OAuth),
    get("/rooms/{id}/userinfo", || routing::get(user_info::show), openid_docs::user_info_small_of_room).errors(OAuth),
    post("/rooms/{id}/userinfo", || routing::post(user_info::show), openid_docs::user_info_small_of_room_posted).body(Configured).errors(OAuth),
    get("/problems", || routing::get(health::problems), visitors_docs::problems),  // what each problem means
];

/// What operators and origins call.
#[rustfmt::skip]
pub const PRIVATE_ROUTES: &[Route] = &[
    // AWS
    post("/generate_token", || routing::post(aws::generate_token_private), aws_docs::generate_token_private).needs(Operate).body(Configured).errors(Aws),  // a pass, with overrides
    post("/increment_serving_counter", || routing::post(aws::increment_serving_counter), aws_docs::increment_serving_counter).needs(Operate).body(Configured).errors(Aws),  // the operator's hand
    get("/num_active_tokens", || routing::get(aws::num_active_tokens), aws_docs::num_active_tokens).needs(Read).errors(Aws).reads_board(),  // visitors inside
    get("/expired_tokens", || routing::get(aws::expired_tokens), aws_docs::expired_tokens).needs(Read).errors(Aws),  // passes that ran out
    post("/update_session", || routing::post(aws::update_session), aws_docs::update_session).needs(ReportVisits).body(Configured).errors(Aws),  // a visit is over
    post("/reset_initial_state", || routing::post(aws::reset_initial_state), aws_docs::reset_initial_state).needs(Operate).body(Configured).errors(Aws),  // a new line
    // rooms
    get("/rooms", || routing::get(rooms::list), private_docs::list_rooms).needs(Read).reads_board(),
    get("/rooms/{id}", || routing::get(rooms::show), private_docs::show_room).needs(Read).reads_board(),
    put("/rooms/{id}", || routing::put(rooms::create_or_replace), private_docs::create_or_replace_room).needs(Operate).body(Configured),
    patch("/rooms/{id}", || routing::patch(rooms::change), private_docs::change_room).needs(Operate).body(Configured),
    delete("/rooms/{id}", || routing::delete(rooms::delete), private_docs::delete_room).needs(Operate),
    post("/rooms/{id}/clock", || routing::post(rooms::set_clock), private_docs::set_room_clock).needs(Operate),  // back to the machine's, after that was wrong
    get("/rooms/{id}/arrivals", || routing::get(arrivals::show), private_docs::show_arrivals).needs(Read),  // who joins on this node, and why others could not
    get("/rooms/{id}/tickets/{request_id}", || routing::get(rooms::ticket), private_docs::show_ticket).needs(Read).reads_board(),  // what an id says, and where it stands
    get("/rooms/{id}/capacity", || routing::get(capacity::show), capacity_docs::show_capacity).needs(Read).reads_board(),  // who reports, and what that leaves
    post("/rooms/{id}/capacity", || routing::post(capacity::post), capacity_docs::report_capacity).needs(ReportVisits).body(Configured),  // a report, or visits that are over
    delete("/rooms/{id}/capacity/{reporter}", || routing::delete(capacity::forget), capacity_docs::forget_reporter).needs(Operate),  // a reporter that is gone for good
    post("/rooms/{id}/visits/{visit}", || routing::post(visits::end), check_docs::end_visit).needs(ReportVisits).body(Configured),  // a visit is over, by the word of a site behind another proxy
    post("/rooms/{id}/preview", || routing::post(preview::preview), private_docs::preview_room).needs(Operate).body(Fixed(PREVIEW_MAX_BYTES)),  // its page, with sample figures
    // OpenID clients
    get("/rooms/{id}/clients", || routing::get(clients::list), client_docs::list_clients).needs(Administer),
    post("/rooms/{id}/clients", || routing::post(clients::create), client_docs::create_client).needs(Administer).body(Configured),
    get("/rooms/{id}/clients/{client}", || routing::get(clients::show), client_docs::show_client).needs(Administer),
    delete("/rooms/{id}/clients/{client}", || routing::delete(clients::delete), client_docs::delete_client).needs(Administer),
    post("/rooms/{id}/clients/{client}/secrets", || routing::post(clients::rotate_secret), client_docs::rotate_client_secret).needs(Administer).body(Configured),
    delete("/rooms/{id}/clients/{client}/secrets/previous", || routing::delete(clients::revoke_previous_secret), client_docs::revoke_previous_secret).needs(Administer),
    // alarms
    get("/alarms", || routing::get(alarms::list), private_docs::list_alarms).needs(Read).reads_board(),
    post("/alarms", || routing::post(alarms::notify), private_docs::notify_of_alarms).needs(ReportVisits).body(Fixed(NOTIFICATION_MAX_BYTES)),  // Alertmanager's webhook
    // where events go
    get("/events", || routing::get(events::events), destination_docs::events).needs(Read),  // what happens, as it happens
    get("/destinations", || routing::get(destinations::list), destination_docs::list_destinations).needs(Read),
    post("/destinations", || routing::post(destinations::create), destination_docs::create_destination).needs(Administer).body(Configured),
    get("/destinations/{name}", || routing::get(destinations::show), destination_docs::show_destination).needs(Read),
    patch("/destinations/{name}", || routing::patch(destinations::change), destination_docs::change_destination).needs(Administer).body(Configured),
    delete("/destinations/{name}", || routing::delete(destinations::delete), destination_docs::delete_destination).needs(Administer),
    post("/destinations/{name}/test", || routing::post(destinations::test), destination_docs::test_destination).needs(Operate),  // one event that says it is a test
    post("/destinations/{name}/pause", || routing::post(destinations::pause), destination_docs::pause_destination).needs(Operate),  // events wait
    post("/destinations/{name}/resume", || routing::post(destinations::resume), destination_docs::resume_destination).needs(Operate),  // also one that was disabled
    post("/destinations/{name}/replay", || routing::post(destinations::replay), destination_docs::replay_destination).needs(Operate).body(Configured),  // events once more
    post("/destinations/{name}/secret", || routing::post(destinations::rotate_secret), destination_docs::rotate_destination_secret).needs(Administer).body(Configured),
    delete("/destinations/{name}/secrets/previous", || routing::delete(destinations::revoke_previous_secret), destination_docs::revoke_previous_destination_secret).needs(Administer),
    get("/destinations/{name}/dead-letters", || routing::get(destinations::list_dead_letters), destination_docs::list_dead_letters).needs(Operate),  // what was given up
    post("/destinations/{name}/dead-letters", || routing::post(destinations::replay_dead_letters), destination_docs::replay_dead_letters).needs(Operate),  // sent again
    delete("/destinations/{name}/dead-letters", || routing::delete(destinations::drop_dead_letters), destination_docs::drop_dead_letters).needs(Operate),
    // access, keys, records
    get("/keys", || routing::get(administration::list_keys), private_docs::list_keys).needs(Administer),
    post("/keys", || routing::post(administration::create_key), private_docs::create_key).needs(Administer).body(Configured),
    delete("/keys/{name}", || routing::delete(administration::revoke_key), private_docs::revoke_key).needs(Administer),
    get("/signing_keys", || routing::get(administration::list_signing_keys), private_docs::list_signing_keys).needs(Read),
    post("/signing_keys", || routing::post(administration::rotate_signing_key), private_docs::rotate_signing_key).needs(Administer),
    get("/audit", || routing::get(administration::audit), private_docs::audit).needs(Administer),
    // everything at once
    get("/backup", || routing::get(backup::backup), private_docs::backup).needs(Administer),
    post("/restore", || routing::post(backup::restore), private_docs::restore).needs(Administer).body(Streamed(RESTORE_MAX_BYTES)),
    // the server itself
    get("/metrics", || routing::get(health::metrics_text), private_docs::metrics).open_if_configured(Read),  // for Prometheus
    get("/livez", || routing::get(health::live), private_docs::live),  // the process answers
    get("/readyz", || routing::get(health::ready), private_docs::ready),  // the store and every room work
    get("/openapi.json", || routing::get(openapi::json), private_docs::openapi),  // this table, for programs
    get("/docs", || routing::get(openapi::docs), private_docs::docs),  // the same for people
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_call_that_changes_something_has_a_class_of_its_own() {
        for route in PUBLIC_ROUTES {
            // A link to another device changes nothing, and is a picture to draw.
            // OpenID lets clients send by POST what they may send by GET.
            let is_read_by_post =
                route.path.ends_with("/authorize") || route.path.to_lowercase().ends_with("/userinfo");
            let is_dear = route.method == Verb::Post && !is_read_by_post || route.path == "/line/move";
            assert_eq!(route.class != Class::Read, is_dear, "{} is a {:?}", route.path, route.class);
        }
    }

    #[test]
    fn no_call_has_two_rows() {
        for listener in [Listener::Public, Listener::Private] {
            let calls: BTreeSet<_> =
                listener.routes().iter().map(|row| (row.path, row.method.as_str())).collect();
            assert_eq!(calls.len(), listener.routes().len(), "{}", listener.name());
        }
    }

    #[test]
    fn calls_about_a_line_are_charged_the_same_on_every_host() {
        for row in PUBLIC_ROUTES.iter().filter(|row| row.path.starts_with("/line")) {
            let request = http::Request::builder()
                .method(row.method.as_str())
                .uri(format!("{PREFIX}{}", row.path))
                .body(())
                .unwrap();
            let at_gateway = anteroom_gateway::line_call_class(&request).unwrap_or(Class::Read);
            assert_eq!(at_gateway, row.class, "{} {}", row.method.as_str(), row.path);
        }
    }
}
