//! A test for each front and scenario, so that a failure names both. At reduced size only the walk runs.

use anteroom_testkit::full;

/// Makes a module for each front with a test for each scenario.
macro_rules! matrix {
    ($($module:ident: $front:ident,)+) => {
        $(mod $module {
            use crate::fronts::Front::$front as FRONT;

            #[test]
            fn walk() {
                crate::scenarios::walk::walk(FRONT);
            }

            matrix!(@full
                walk: the_waiting_page_is_live_in_a_browser,
                walk: a_post_while_waiting_is_refused_and_said_to_be,
                walk: the_site_ends_a_visit,
                walk: a_page_that_only_fetches_stays_inside,
                walk: a_websocket_is_for_those_inside,
                walk: a_stop_and_a_start_of_anteroom_keep_visits_and_places,
                forgeries: what_a_client_says_about_itself_lets_nobody_in,
                forgeries: the_site_reads_the_visit_that_anteroom_says,
                forgeries: an_address_does_not_use_the_budget_of_another,
                forgeries: no_check_is_reached_from_outside,
                forgeries: a_proxy_that_may_not_ask_lets_nobody_in,
            );
        })+
    };
    (@full $($group:ident: $scenario:ident,)+) => {
        $(#[test]
        fn $scenario() {
            if super::is_asked_for() {
                crate::scenarios::$group::$scenario(FRONT);
            }
        })+
    };
}

/// Whether the scenarios beside the walk run.
fn is_asked_for() -> bool {
    full()
}

matrix! {
    gateway: Gateway,
    nginx: Nginx,
    caddy: Caddy,
    traefik: Traefik,
    haproxy: Haproxy,
    envoy: Envoy,
    envoy_grpc: EnvoyGrpc,
}
