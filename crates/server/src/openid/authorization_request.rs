//! What a site asks for at `/authorize`, read and checked without knowing any visitor (OpenID Connect Core, section 3.1.2.1).

use anteroom_admission::openid::NONCE_MAX_BYTES;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::openid::error_code::{
    INVALID_REQUEST, INVALID_SCOPE, REGISTRATION_NOT_SUPPORTED, REQUEST_NOT_SUPPORTED,
    REQUEST_URI_NOT_SUPPORTED, UNSUPPORTED_RESPONSE_TYPE,
};
use crate::openid::parameters::FormParameters;

/// The longest `state`, in bytes.
pub(crate) const STATE_MAX_BYTES: usize = 4_096;
/// Bytes of a challenge: a SHA-256.
const CHALLENGE_BYTES: usize = 32;
/// How long the request of a visitor who waits may be, in bytes of its query, as it came and as we write it: it stands in the
/// addresses of the page.
pub(crate) const AUTHORIZE_QUERY_MAX_BYTES: usize = 8_192;

/// An authorization request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AuthorizationRequest {
    pub(crate) nonce: Option<String>,
    pub(crate) code_challenge: Option<[u8; CHALLENGE_BYTES]>,
    /// Whether a refresh token is asked for.
    pub(crate) offline_access: bool,
    /// `prompt=none`: no page may be shown.
    pub(crate) is_silent: bool,
    /// `prompt=login`, or another value that asks for the visitor themselves.
    pub(crate) asks_again: bool,
    pub(crate) max_age_seconds: Option<u64>,
    /// Parted by spaces.
    pub(crate) ui_locales: Option<String>,
    pub(crate) id_token_hint: Option<String>,
}

/// Why a request is answered with an error, at the site that made it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RequestError {
    pub(crate) code: &'static str,
    pub(crate) text: &'static str,
}

const fn error<T>(code: &'static str, text: &'static str) -> Result<T, RequestError> {
    Err(RequestError { code, text })
}

const fn invalid<T>(text: &'static str) -> Result<T, RequestError> {
    error(INVALID_REQUEST, text)
}

impl AuthorizationRequest {
    /// Reads a request whose client and redirect address are known to be good.
    pub(crate) fn read(parameters: &FormParameters, is_public_client: bool) -> Result<Self, RequestError> {
        if parameters.has_repeated() {
            return invalid("A parameter is given twice");
        }
        for (name, code) in [
            ("request", REQUEST_NOT_SUPPORTED),
            ("request_uri", REQUEST_URI_NOT_SUPPORTED),
            ("registration", REGISTRATION_NOT_SUPPORTED),
        ] {
            if parameters.one(name).is_some() {
                return error(
                    code,
                    "Requests as tokens, and clients that register themselves, are not supported",
                );
            }
        }
        match parameters.one("response_type") {
            Some("code") => {}
            Some(_) => return error(UNSUPPORTED_RESPONSE_TYPE, "The only response_type is code"),
            None => return invalid("response_type is missing"),
        }
        if parameters.one("response_mode").is_some_and(|mode| mode != "query") {
            return invalid("The only response_mode is query");
        }
        let scopes = || parameters.one("scope").unwrap_or_default().split(' ');
        if !scopes().any(|scope| scope == "openid") {
            return error(INVALID_SCOPE, "The scope openid is needed");
        }
        let nonce = parameters.one("nonce");
        if nonce.is_some_and(|nonce| nonce.len() > NONCE_MAX_BYTES) {
            return invalid("nonce is too long");
        }
        let code_challenge = read_challenge(parameters, is_public_client)?;
        let prompt = Prompt::read(parameters.one("prompt").unwrap_or_default())?;
        let max_age_seconds = match parameters.one("max_age") {
            Some(text) => Some(read_seconds(text)?),
            None => None,
        };
        Ok(Self {
            nonce: nonce.map(str::to_owned),
            code_challenge,
            offline_access: scopes().any(|scope| scope == "offline_access"),
            is_silent: prompt.is_silent,
            asks_again: prompt.asks_again,
            max_age_seconds,
            ui_locales: parameters.one("ui_locales").map(str::to_owned),
            id_token_hint: parameters.one("id_token_hint").map(str::to_owned),
        })
    }
}

/// PKCE (RFC 7636): S256 and nothing else, and not left out where no secret proves who redeems the code.
fn read_challenge(
    parameters: &FormParameters,
    is_public_client: bool,
) -> Result<Option<[u8; CHALLENGE_BYTES]>, RequestError> {
    let method = parameters.one("code_challenge_method");
    let Some(challenge) = parameters.one("code_challenge") else {
        return match method {
            Some(_) => invalid("code_challenge is missing"),
            None if is_public_client => invalid("A public client needs PKCE: code_challenge is missing"),
            None => Ok(None),
        };
    };
    // Without a method it would be plain.
    if method != Some("S256") {
        return invalid("The only code_challenge_method is S256");
    }
    let bytes = URL_SAFE_NO_PAD.decode(challenge).ok().and_then(|bytes| bytes.try_into().ok());
    bytes.map_or_else(|| invalid("code_challenge is not a SHA-256 in base64url"), |bytes| Ok(Some(bytes)))
}

#[derive(Debug, Clone, Copy, Default)]
struct Prompt {
    is_silent: bool,
    asks_again: bool,
}

impl Prompt {
    fn read(text: &str) -> Result<Self, RequestError> {
        let mut prompt = Self::default();
        let values: Vec<&str> = text.split(' ').filter(|value| !value.is_empty()).collect();
        for value in &values {
            match *value {
                "none" if values.len() > 1 => return invalid("prompt=none allows no other value beside it"),
                "none" => prompt.is_silent = true,
                "login" | "consent" | "select_account" => prompt.asks_again = true,
                // What another version of the specification adds is not for us.
                _ => {}
            }
        }
        Ok(prompt)
    }
}

fn read_seconds(text: &str) -> Result<u64, RequestError> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse() {
        Ok(seconds) if is_number => Ok(seconds),
        _ => invalid("max_age is not a number of seconds"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHALLENGE: &str = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";

    fn read_as(is_public: bool, more: &str) -> Result<AuthorizationRequest, RequestError> {
        let query = format!("client_id=shop&{more}");
        AuthorizationRequest::read(&FormParameters::read([query.as_str()]).unwrap(), is_public)
    }

    fn read(more: &str) -> Result<AuthorizationRequest, RequestError> {
        read_as(false, &format!("response_type=code&scope=openid&{more}"))
    }

    fn refusal(more: &str) -> &'static str {
        read(more).expect_err(more).code
    }

    #[test]
    fn a_plain_request_is_read() {
        let request =
            read("nonce=n&scope2=x&display=popup&acr_values=1&claims=%7B%7D&unknown=1&ui_locales=de+fr");
        let request = request.unwrap();
        assert_eq!(request.nonce.as_deref(), Some("n"));
        assert_eq!(request.ui_locales.as_deref(), Some("de fr"));
        assert!(!request.is_silent && !request.asks_again && !request.offline_access);
        assert_eq!((request.max_age_seconds, request.code_challenge), (None, None));
    }

    #[test]
    fn scopes_need_openid_and_others_are_passed_over() {
        let scope = |scope: &str| read_as(false, &format!("response_type=code&scope={scope}"));
        assert!(scope("openid+email+profile").is_ok());
        assert!(scope("email+offline_access+openid").unwrap().offline_access);
        for without in ["", "email", "OpenID", "openidx"] {
            assert_eq!(scope(without).unwrap_err().code, INVALID_SCOPE, "{without}");
        }
    }

    #[test]
    fn only_the_code_flow_is_answered() {
        for other in ["token", "id_token", "code+id_token", "none"] {
            let request = read_as(false, &format!("response_type={other}&scope=openid"));
            assert_eq!(request.unwrap_err().code, UNSUPPORTED_RESPONSE_TYPE, "{other}");
        }
        assert_eq!(read_as(false, "scope=openid").unwrap_err().code, INVALID_REQUEST);
        assert_eq!(refusal("response_mode=fragment"), INVALID_REQUEST);
        assert_eq!(refusal("response_mode=form_post"), INVALID_REQUEST);
        assert!(read("response_mode=query").is_ok());
    }

    #[test]
    fn requests_as_tokens_have_their_own_errors() {
        assert_eq!(refusal("request=eyJ"), REQUEST_NOT_SUPPORTED);
        assert_eq!(refusal("request_uri=https://a.example/r"), REQUEST_URI_NOT_SUPPORTED);
        assert_eq!(refusal("registration=%7B%7D"), REGISTRATION_NOT_SUPPORTED);
        assert!(read("request=&request_uri=").is_ok(), "without a value they count as left out");
    }

    #[test]
    fn pkce_is_s256_or_nothing_and_public_clients_need_it() {
        let good = format!("code_challenge={CHALLENGE}&code_challenge_method=S256");
        assert!(read(&good).unwrap().code_challenge.is_some());
        assert!(read_as(true, &format!("response_type=code&scope=openid&{good}")).is_ok());
        assert_eq!(read_as(true, "response_type=code&scope=openid").unwrap_err().code, INVALID_REQUEST);
        for bad in [
            format!("code_challenge={CHALLENGE}"),
            format!("code_challenge={CHALLENGE}&code_challenge_method=plain"),
            format!("code_challenge={CHALLENGE}&code_challenge_method=s256"),
            "code_challenge=short&code_challenge_method=S256".to_owned(),
            format!("code_challenge={CHALLENGE}%3D&code_challenge_method=S256"),
            "code_challenge_method=S256".to_owned(),
        ] {
            assert_eq!(refusal(&bad), INVALID_REQUEST, "{bad}");
        }
    }

    #[test]
    fn prompts_and_ages_are_read() {
        assert!(read("prompt=none").unwrap().is_silent);
        for again in ["login", "consent", "select_account", "login+consent"] {
            assert!(read(&format!("prompt={again}")).unwrap().asks_again, "{again}");
        }
        let unknown = read("prompt=create").unwrap();
        assert!(!unknown.is_silent && !unknown.asks_again);
        assert_eq!(refusal("prompt=none+login"), INVALID_REQUEST);
        assert_eq!(read("max_age=0").unwrap().max_age_seconds, Some(0));
        for bad in ["-1", "%2B1", "1.5", "soon", "99999999999999999999"] {
            assert_eq!(refusal(&format!("max_age={bad}")), INVALID_REQUEST, "{bad}");
        }
    }

    #[test]
    fn nothing_stands_there_twice() {
        for twice in ["nonce=a&nonce=a", "state=a&state=b", "resource=a&resource=b"] {
            assert_eq!(refusal(twice), INVALID_REQUEST, "{twice}");
        }
        assert_eq!(refusal(&format!("nonce={}", "n".repeat(NONCE_MAX_BYTES + 1))), INVALID_REQUEST);
    }
}
