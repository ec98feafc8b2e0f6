//! Which entry describes which row. Rows are looked up here, and a test finds those that are missing.

use super::call::Call;
use super::{
    calls_aws as aws, calls_capacity as capacity, calls_line as line, calls_private as private,
    calls_visitors as visitors,
};
use crate::http::routes::{Listener, Verb};

use Listener::{Private, Public};
use Verb::{Delete, Get, Patch, Post, Put};

/// One entry: its row, and what describes it.
pub(super) type Entry = (Listener, Verb, &'static str, fn() -> Call);

/// Every entry, in the order of the rows.
#[rustfmt::skip]
pub(super) const CALLS: &[Entry] = &[
    (Public, Post, "/assign_queue_num",      aws::assign_queue_num),
    (Public, Get,  "/queue_num",             aws::queue_num),
    (Public, Get,  "/serving_num",           aws::serving_num),
    (Public, Get,  "/waiting_num",           aws::waiting_num),
    (Public, Post, "/generate_token",        aws::generate_token),
    (Public, Get,  "/queue_pos_expiry",      aws::queue_pos_expiry),
    (Public, Get,  "/public_key",            aws::public_key),
    (Public, Get,  "/.well-known/jwks.json", aws::jwks),
    (Public, Post, "/join",                  visitors::join),
    (Public, Get,  "/status",                visitors::status),
    (Public, Post, "/claim",                 visitors::claim),
    (Public, Post, "/auction",               visitors::auction),
    (Public, Post, "/move",                  visitors::move_place),
    (Public, Post, "/leave",                 visitors::leave),
    (Public, Post, "/refresh",               visitors::refresh),
    (Public, Get,  "/rooms/{id}",            visitors::figures),
    (Public, Get,  "/watch",                 visitors::watch),
    (Public, Get,  "/line",                  line::ask),
    (Public, Post, "/line/join",             line::join),
    (Public, Post, "/line/enter",            line::enter),
    (Public, Post, "/line/leave",            line::leave),
    (Public, Get,  "/line/move",             line::move_out),
    (Public, Get,  "/line/take",             line::ask_to_take),
    (Public, Post, "/line/take",             line::take),
    (Public, Get,  "/wait/{room}",           line::wait),
    (Public, Post, "/wait/{room}/enter",     line::enter_elsewhere),
    (Public, Get,  "/page.js",               line::script),
    (Public, Get,  "/problems",              visitors::problems),

    (Private, Post,   "/generate_token",                  aws::generate_token_private),
    (Private, Post,   "/increment_serving_counter",       aws::increment_serving_counter),
    (Private, Get,    "/num_active_tokens",               aws::num_active_tokens),
    (Private, Get,    "/expired_tokens",                  aws::expired_tokens),
    (Private, Post,   "/update_session",                  aws::update_session),
    (Private, Post,   "/reset_initial_state",             aws::reset_initial_state),
    (Private, Get,    "/rooms",                           private::list_rooms),
    (Private, Get,    "/rooms/{id}",                      private::show_room),
    (Private, Put,    "/rooms/{id}",                      private::create_or_replace_room),
    (Private, Patch,  "/rooms/{id}",                      private::change_room),
    (Private, Delete, "/rooms/{id}",                      private::delete_room),
    (Private, Get,    "/rooms/{id}/tickets/{request_id}", private::show_ticket),
    (Private, Get,    "/rooms/{id}/capacity",             capacity::show_capacity),
    (Private, Post,   "/rooms/{id}/capacity",             capacity::report_capacity),
    (Private, Delete, "/rooms/{id}/capacity/{reporter}",  capacity::forget_reporter),
    (Private, Post,   "/rooms/{id}/preview",              private::preview_room),
    (Private, Get,    "/alarms",                          private::list_alarms),
    (Private, Post,   "/alarms",                          private::notify_of_alarms),
    (Private, Get,    "/keys",                            private::list_keys),
    (Private, Post,   "/keys",                            private::create_key),
    (Private, Delete, "/keys/{name}",                     private::revoke_key),
    (Private, Get,    "/signing_keys",                    private::list_signing_keys),
    (Private, Post,   "/signing_keys",                    private::rotate_signing_key),
    (Private, Get,    "/audit",                           private::audit),
    (Private, Get,    "/backup",                          private::backup),
    (Private, Post,   "/restore",                         private::restore),
    (Private, Get,    "/metrics",                         private::metrics),
    (Private, Get,    "/livez",                           private::live),
    (Private, Get,    "/readyz",                          private::ready),
    (Private, Get,    "/openapi.json",                    private::openapi),
    (Private, Get,    "/docs",                            private::docs),
];

/// What describes a row.
pub(super) fn call(listener: Listener, method: Verb, path: &str) -> Option<Call> {
    let of_the_row = |(its_listener, its_method, its_path, _): &&Entry| {
        (*its_listener, *its_method, *its_path) == (listener, method, path)
    };
    CALLS.iter().find(of_the_row).map(|(_, _, _, describe)| describe())
}
