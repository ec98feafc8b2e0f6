//! The OpenID provider. Each call stands there twice: at the root for the default room, and below `/rooms/{id}` for each.

use serde::Serialize;
use serde_json::json;
use utoipa::ToSchema;

use super::JWT;
use super::answers::{Jwk, Jwks, LineAnswer};
use super::call::{AnswerHeader, Call, Group};
use super::calls_line::{MOVED, line_answers, moved};
use super::schemas::{Jwt, RoomName};
use crate::http::problem::Problem;

const PAGE: &str = "text/html";
const PAGE_EXAMPLE: &str = "<!doctype html>…";
const CLIENT: &str = "The client, as it is registered for the room.";
const REDIRECT: &str =
    "Where the visitor goes back to: one of the client's addresses, character by character.";

fn new(id: &'static str, summary: &'static str, description: &str) -> Call {
    Call::new(id, Group::OpenId, summary, description)
}

fn of_room(call: Call) -> Call {
    call.path::<RoomName>("id", "The room.", "Sample")
}

/// What a client needs to know.
#[expect(clippy::struct_excessive_bools, reason = "the members are the specification's")]
#[derive(Serialize, ToSchema)]
struct OpenIdConfiguration {
    /// The issuer of all tokens of the room's clients.
    #[schema(format = "uri")]
    issuer: &'static str,
    /// Where visitors are sent to log in.
    #[schema(format = "uri")]
    authorization_endpoint: &'static str,
    /// Where codes are exchanged.
    #[schema(format = "uri")]
    token_endpoint: &'static str,
    /// What an access token says, checked.
    #[schema(format = "uri")]
    userinfo_endpoint: &'static str,
    /// The keys that tokens are signed with.
    #[schema(format = "uri")]
    jwks_uri: &'static str,
    /// `openid` is needed; `offline_access` asks for a refresh token.
    scopes_supported: Vec<&'static str>,
    /// The code flow only.
    response_types_supported: Vec<&'static str>,
    /// In the query only.
    response_modes_supported: Vec<&'static str>,
    /// Codes, and refresh tokens.
    grant_types_supported: Vec<&'static str>,
    /// A visitor has another `sub` for each client.
    subject_types_supported: Vec<&'static str>,
    /// The algorithms of the published keys.
    id_token_signing_alg_values_supported: Vec<&'static str>,
    /// How clients prove themselves.
    token_endpoint_auth_methods_supported: Vec<&'static str>,
    /// PKCE by S256 only.
    code_challenge_methods_supported: Vec<&'static str>,
    /// What `prompt` may ask for.
    prompt_values_supported: Vec<&'static str>,
    /// How the page is shown.
    display_values_supported: Vec<&'static str>,
    /// Claims are values.
    claim_types_supported: Vec<&'static str>,
    /// The claims of ID tokens.
    claims_supported: Vec<&'static str>,
    /// The languages of the page.
    ui_locales_supported: Vec<&'static str>,
    /// Claims cannot be asked for one by one.
    claims_parameter_supported: bool,
    /// Requests are parameters, not tokens.
    request_parameter_supported: bool,
    /// Nor addresses of tokens.
    request_uri_parameter_supported: bool,
    /// So there is nothing to register.
    require_request_uri_registration: bool,
    /// Answers carry `iss`.
    authorization_response_iss_parameter_supported: bool,
}

impl OpenIdConfiguration {
    fn example() -> Self {
        Self {
            issuer: "https://queue.example.com",
            authorization_endpoint: "https://queue.example.com/authorize",
            token_endpoint: "https://queue.example.com/token",
            userinfo_endpoint: "https://queue.example.com/userInfo",
            jwks_uri: "https://queue.example.com/.well-known/jwks.json",
            scopes_supported: vec!["openid", "offline_access"],
            response_types_supported: vec!["code"],
            response_modes_supported: vec!["query"],
            grant_types_supported: vec!["authorization_code", "refresh_token"],
            subject_types_supported: vec!["pairwise"],
            id_token_signing_alg_values_supported: vec!["RS256"],
            token_endpoint_auth_methods_supported: vec!["client_secret_basic", "client_secret_post", "none"],
            code_challenge_methods_supported: vec!["S256"],
            prompt_values_supported: vec!["none", "login"],
            display_values_supported: vec!["page"],
            claim_types_supported: vec!["normal"],
            claims_supported: vec!["iss", "sub", "aud", "exp", "iat", "nonce", "auth_time", "at_hash"],
            ui_locales_supported: vec!["en", "de"],
            claims_parameter_supported: false,
            request_parameter_supported: false,
            request_uri_parameter_supported: false,
            require_request_uri_registration: false,
            authorization_response_iss_parameter_supported: true,
        }
    }
}

const CONFIGURATION: &str =
    "OpenID Connect Discovery 1.0. Beside the members listed here it has others of that specification.";

fn described(call: Call) -> Call {
    call.json(200, "The configuration.", &OpenIdConfiguration::example())
        .with(AnswerHeader::CachedForMinutes)
        .oauth_errors(&[(404, "invalid_request", "There is no room of this name, or no default room.")])
}

pub(crate) fn configuration() -> Call {
    described(new(
        "openidConfiguration",
        "What an OpenID client of the default room needs to know",
        CONFIGURATION,
    ))
}

pub(crate) fn configuration_of_room() -> Call {
    of_room(described(new(
        "openidConfigurationOfRoom",
        "What an OpenID client of a room needs to know",
        CONFIGURATION,
    )))
}

pub(crate) fn jwks_of_room() -> Call {
    let keys = Jwks { keys: vec![Jwk::example()] };
    of_room(new(
        "openidKeys",
        "The keys that tokens of a room are signed with",
        "The same for every room, and the same as `/.well-known/jwks.json`.",
    ))
    .json(200, "The keys.", &keys)
    .with(AnswerHeader::CachedForMinutes)
    .oauth_errors(&[(404, "invalid_request", "There is no room of this name.")])
}

const AUTHORIZE: &str = "A site sends its visitors here to log in. They take a place, wait at this very page, and at their turn go back to \
    `redirect_uri` with `code`, `state` and `iss`; a visitor who is inside already goes back at once. A request whose client or address is not \
    known ends in a page; every other mistake goes back to the site as `error`. With `prompt=none` no page is shown: who is not inside goes \
    back with `login_required`, or `access_denied` where the room lets nobody in. A program that asks for JSON is told where the browser \
    stands.";

fn asked(call: Call) -> Call {
    call.optional_query::<String>("client_id", CLIENT, "Sample")
        .optional_query::<String>("redirect_uri", REDIRECT, "https://shop.example.com/callback")
        .optional_query::<String>("response_type", "`code`.", "code")
        .optional_query::<String>("scope", "`openid`, and others, which are passed over.", "openid")
        .optional_query::<String>("state", "Given back as it is; at most 4,096 bytes.", "af0ifjsldkj")
        .optional_query::<String>("nonce", "Stands in the ID token; at most 512 bytes.", "n-0S6_WzA2Mj")
        .optional_query::<String>(
            "code_challenge",
            "PKCE; public clients need it.",
            "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM",
        )
        .optional_query::<String>("code_challenge_method", "`S256`.", "S256")
        .optional_query::<String>("prompt", "`none`, `login`.", "login")
        .optional_query::<String>(
            "max_age",
            "Seconds since the visitor came in or last confirmed it.",
            "3600",
        )
        .optional_query::<String>(
            "ui_locales",
            "Languages of the page, before those of the browser.",
            "de en",
        )
}

fn waited(call: Call) -> Call {
    line_answers(call)
        .json(410, MOVED, &moved())
        .empty(303, "The visitor goes back to the site, with a code or an error.")
        .problems(&[Problem::UnknownRoom, Problem::BadRequest, Problem::Forbidden])
}

pub(crate) fn authorize() -> Call {
    waited(asked(new("openidAuthorize", "The waiting page of a login, default room", AUTHORIZE)))
}

pub(crate) fn authorize_of_room() -> Call {
    of_room(waited(asked(new("openidAuthorizeOfRoom", "The waiting page of a login", AUTHORIZE))))
}

const POSTED: &str = "The parameters are those of the same path by `GET`, which the browser is told to fetch: that address has the page.";

/// An authorization request as a form.
#[derive(ToSchema)]
#[expect(dead_code, reason = "the document reads the fields by their schema")]
struct AuthorizationForm {
    /// The client.
    client_id: String,
    /// Where the visitor goes back to.
    redirect_uri: String,
    /// `code`.
    response_type: String,
    /// `openid`, and others.
    scope: String,
    /// Given back as it is.
    state: Option<String>,
}

fn posted(call: Call) -> Call {
    let example = json!({
        "client_id": "Sample", "redirect_uri": "https://shop.example.com/callback", "response_type": "code", "scope": "openid",
    });
    call.form_body::<AuthorizationForm>(example)
        .empty(303, "The browser fetches the page.")
        .problems(&[Problem::UnknownRoom, Problem::BadRequest])
}

pub(crate) fn authorize_posted() -> Call {
    posted(new("openidAuthorizePosted", "The same as a form, default room", POSTED))
}

pub(crate) fn authorize_of_room_posted() -> Call {
    of_room(posted(new("openidAuthorizeOfRoomPosted", "The same as a form", POSTED)))
}

pub(crate) fn authorize_enter() -> Call {
    of_room(waited(asked(new(
        "openidEnter",
        "The button of that page",
        "Comes in at the turn, in rooms whose `auto_enter` is false; or confirms, where the site asks for it (`prompt=login`, `max_age`): \
         then `auth_time` is this moment. Pages of other sites cannot ask for it.",
    ))))
}

/// A button that always leads somewhere.
fn pressed(call: Call, text: &str) -> Call {
    of_room(asked(call)).empty(303, text).problems(&[
        Problem::UnknownRoom,
        Problem::BadRequest,
        Problem::Forbidden,
    ])
}

pub(crate) fn authorize_join() -> Call {
    let call = new(
        "openidJoin",
        "The button for another place",
        "Where the place has lapsed or has moved. Pages of other sites cannot ask for it.",
    );
    pressed(call, "The page, which takes another place.")
}

pub(crate) fn authorize_leave() -> Call {
    let call = new(
        "openidLeave",
        "The button for leaving the line",
        "Gives the place up, or ends the visit. Pages of other sites cannot ask for it.",
    );
    pressed(call, "The visitor goes back to the site with `access_denied`.").json(
        410,
        MOVED,
        &LineAnswer { status: "moved", ..LineAnswer::default() },
    )
}

pub(crate) fn authorize_moved() -> Call {
    of_room(new(
        "openidMoved",
        "Where a device goes on that has taken a place",
        "The request of the site is in the other browser, so the login begins anew with the place: at the client's `login_address`, or by \
         the visitor's own hand, as the page says.",
    ))
    .optional_query::<String>("client_id", CLIENT, "Sample")
    .text(200, "The page.", PAGE, PAGE_EXAMPLE)
    .empty(303, "The visitor goes on to the client's `login_address`, with `iss`.")
    .problems(&[Problem::UnknownRoom, Problem::BadRequest])
}

/// A code or a refresh token, and the client.
#[derive(ToSchema)]
#[expect(dead_code, reason = "the document reads the fields by their schema")]
struct TokenForm {
    /// `authorization_code` or `refresh_token`.
    grant_type: String,
    /// The code.
    code: Option<String>,
    /// The address that the code came to.
    redirect_uri: Option<String>,
    /// PKCE: what the challenge was made from.
    code_verifier: Option<String>,
    /// A refresh token; each is good once.
    refresh_token: Option<String>,
    /// The client, where `Authorization: Basic` does not name it.
    client_id: Option<String>,
    /// Its secret, likewise.
    client_secret: Option<String>,
}

/// Tokens.
#[derive(Serialize, ToSchema)]
struct OpenIdTokensAnswer {
    /// For `userInfo`, and for sites that check it themselves.
    #[schema(value_type = Jwt)]
    access_token: &'static str,
    /// `Bearer`.
    token_type: &'static str,
    /// For how many seconds the access token is good.
    expires_in: u64,
    /// Who the visitor is, for the client.
    #[schema(value_type = Jwt)]
    id_token: &'static str,
    /// What was granted.
    scope: &'static str,
    /// For the next tokens, while the visit lasts; to be used once.
    #[serde(skip_serializing_if = "Option::is_none")]
    refresh_token: Option<&'static str>,
}

const TOKEN: &str = "The client proves itself by `Authorization: Basic` (name and secret encoded as in a form), by `client_id` and `client_secret`, \
    or, a public one, by PKCE alone. A code is good for 60 seconds and once; used again, it revokes what it gave. A refresh token that is \
    used again ends the visit.";

fn exchanged(call: Call) -> Call {
    call.form_body::<TokenForm>(json!({
        "grant_type": "authorization_code", "code": "AQ", "redirect_uri": "https://shop.example.com/callback",
        "client_id": "Sample", "client_secret": "ar_client_sample",
    }))
    .json(
        200,
        "The tokens.",
        &OpenIdTokensAnswer {
            access_token: JWT,
            token_type: "Bearer",
            expires_in: 3_600,
            id_token: JWT,
            scope: "openid",
            refresh_token: None,
        },
    )
    .oauth_errors(&[
        (400, "invalid_grant", "The code or the token is not good, or its visit is over."),
        (400, "unsupported_grant_type", "There are two grant types."),
        (401, "invalid_client", "The client is not known, or has not proved itself."),
        (404, "invalid_request", "There is no room of this name, or no default room."),
    ])
}

pub(crate) fn token() -> Call {
    exchanged(new("openidToken", "Tokens for a code, default room", TOKEN))
}

pub(crate) fn token_of_room() -> Call {
    of_room(exchanged(new("openidTokenOfRoom", "Tokens for a code", TOKEN)))
}

/// What an access token says.
#[derive(Serialize, ToSchema)]
struct UserInfoAnswer {
    /// The visitor, as the client knows them: as in its ID token.
    sub: &'static str,
    /// The client that the token was given to.
    client_id: &'static str,
    /// The room.
    #[schema(value_type = RoomName)]
    room: &'static str,
    /// The visitor's place.
    queue_position: u64,
    /// When the token was signed, in seconds since 1970.
    iat: u64,
    /// Until when it is good, in seconds since 1970.
    exp: u64,
    /// `active`: the visitor is inside.
    status: &'static str,
}

impl UserInfoAnswer {
    const fn example() -> Self {
        Self {
            sub: "J2b0c0wXlq3nE9dRkqv7mA",
            client_id: "Sample",
            room: "Sample",
            queue_position: 42,
            iat: 1_794_860_130,
            exp: 1_794_863_730,
            status: "active",
        }
    }
}

/// An access token as a form.
#[derive(ToSchema)]
#[expect(dead_code, reason = "the document reads the fields by their schema")]
struct UserInfoForm {
    /// The token, where the header does not have it.
    access_token: Option<String>,
}

const USER_INFO: &str = "The access token comes in `Authorization: Bearer`, or, by `POST`, as `access_token` of a form; never in the query. Its \
    signature, its visit and its login are checked. Passes of other calls are refused.";

fn informed(call: Call) -> Call {
    call.header::<String>("Authorization", "The access token.", "Bearer eyJ")
        .json(200, "The claims.", &UserInfoAnswer::example())
        .oauth_errors(&[
            (401, "invalid_token", "The token is missing or not good, or its visit is over."),
            (404, "invalid_request", "There is no room of this name, or no default room."),
        ])
}

fn informed_by_form(call: Call) -> Call {
    informed(call.form_body::<UserInfoForm>(json!({"access_token": "eyJ"})))
}

pub(crate) fn user_info() -> Call {
    informed(new("openidUserInfo", "What an access token says, default room", USER_INFO))
}

pub(crate) fn user_info_posted() -> Call {
    informed_by_form(new("openidUserInfoPosted", "The same by a form, default room", USER_INFO))
}

pub(crate) fn user_info_small() -> Call {
    informed(new("openidUserinfo", "The same in small letters, default room", USER_INFO))
}

pub(crate) fn user_info_small_posted() -> Call {
    informed_by_form(new(
        "openidUserinfoPosted",
        "The same in small letters by a form, default room",
        USER_INFO,
    ))
}

pub(crate) fn user_info_of_room() -> Call {
    of_room(informed(new("openidUserInfoOfRoom", "What an access token says", USER_INFO)))
}

pub(crate) fn user_info_of_room_posted() -> Call {
    of_room(informed_by_form(new("openidUserInfoOfRoomPosted", "The same by a form", USER_INFO)))
}

pub(crate) fn user_info_small_of_room() -> Call {
    of_room(informed(new("openidUserinfoOfRoom", "The same in small letters", USER_INFO)))
}

pub(crate) fn user_info_small_of_room_posted() -> Call {
    of_room(informed_by_form(new(
        "openidUserinfoOfRoomPosted",
        "The same in small letters by a form",
        USER_INFO,
    )))
}
