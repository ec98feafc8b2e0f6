//! What a client needs to know (OpenID Connect Discovery, RFC 8414): where the endpoints are, and what they do and do not.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::extract::State;
use http::StatusCode;
use serde_json::{Value, json};

use crate::app::{App, ServedRoom};
use crate::http::response::{ApiResponse, Caching, json};
use crate::http::routes::PREFIX;
use crate::openid::OpenIdRoom;

/// GET `/.well-known/openid-configuration`.
pub(crate) async fn configuration(State(app): State<Arc<App>>, OpenIdRoom(room): OpenIdRoom) -> ApiResponse {
    json(StatusCode::OK, Caching::Keys, &document(&app, &room))
}

/// GET `/rooms/{id}/.well-known/jwks.json`: all rooms sign with the same keys.
pub(crate) async fn jwks(State(app): State<Arc<App>>, OpenIdRoom(_): OpenIdRoom) -> ApiResponse {
    json(StatusCode::OK, Caching::Keys, &app.admission.keys.jwks(app.now()))
}

fn document(app: &App, room: &ServedRoom) -> Value {
    let issuer = app.admission.openid_issuer(&room.view);
    let base = endpoint_base(app, room, &issuer);
    let jwks = app.admission.keys.jwks(app.now());
    json!({
        "issuer": issuer,
        "authorization_endpoint": format!("{base}/authorize"),
        "token_endpoint": format!("{base}/token"),
        "userinfo_endpoint": format!("{base}/userInfo"),
        "jwks_uri": format!("{base}/.well-known/jwks.json"),
        "scopes_supported": ["openid", "offline_access"],
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": ["authorization_code", "refresh_token"],
        "subject_types_supported": ["pairwise"],
        "id_token_signing_alg_values_supported": algorithms(&jwks),
        "token_endpoint_auth_methods_supported": ["client_secret_basic", "client_secret_post", "none"],
        "code_challenge_methods_supported": ["S256"],
        "prompt_values_supported": ["none", "login"],
        "display_values_supported": ["page"],
        "claim_types_supported": ["normal"],
        "claims_supported": [
            "iss", "sub", "aud", "exp", "iat", "nonce", "auth_time", "at_hash", "token_use", "queue_position",
        ],
        "ui_locales_supported": anteroom_pages::language_tags(),
        "claims_parameter_supported": false,
        "request_parameter_supported": false,
        "request_uri_parameter_supported": false,
        "require_request_uri_registration": false,
        "authorization_response_iss_parameter_supported": true,
    })
}

/// The address that the endpoints are below: the issuer, where that is one of our own addresses. An operator sets one below our prefix
/// where the host of the public URL is that of a protected site, whose other paths are not ours.
fn endpoint_base(app: &App, room: &ServedRoom, issuer: &str) -> String {
    let (public, id) = (app.public_url.trim_end_matches('/'), room.handle.id());
    let of_room = format!("{public}/rooms/{id}");
    let own = [
        public.to_owned(),
        of_room.clone(),
        format!("{public}{PREFIX}"),
        format!("{public}{PREFIX}/rooms/{id}"),
    ];
    if own.iter().any(|base| base == issuer) { issuer.to_owned() } else { of_room }
}

/// The algorithms that the published keys sign with.
fn algorithms(jwks: &Value) -> Vec<String> {
    let keys = jwks["keys"].as_array().map_or(&[][..], Vec::as_slice);
    let names: BTreeSet<String> =
        keys.iter().filter_map(|key| Some(key["alg"].as_str()?.to_owned())).collect();
    names.into_iter().collect()
}
