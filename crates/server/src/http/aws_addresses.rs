//! AWS's calls under the addresses that clients bring along from API Gateway: behind a stage (`/api/serving_num`), or with a slash too
//! many because their base URL ends in one (`//serving_num`).
//!
//! A stage is accepted where it is configured. Everything else is refused with a text that says what is wrong: a signature over such a
//! path is right, and its owner would otherwise look for the mistake in their key.

use crate::http::error::Style;
use crate::http::routes::Listener;

/// What follows the stage, if that is an AWS call of this listener: `/api/serving_num` is `/serving_num`.
pub(crate) fn below_stage<'path>(
    listener: Listener,
    stage: Option<&str>,
    path: &'path str,
) -> Option<&'path str> {
    let below = path.strip_prefix('/')?.strip_prefix(stage?)?;
    is_aws_path(listener, below).then_some(below)
}

/// What is wrong with a path that is no route, where it was probably meant to be one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AddressMistake {
    /// What is wrong, and what to do.
    pub(crate) text: &'static str,
    /// Whether one of AWS's calls was meant.
    pub(crate) means_aws_call: bool,
}

impl AddressMistake {
    /// That of a path that is no route of this listener.
    pub(crate) fn of(listener: Listener, path: &str) -> Option<Self> {
        if path.contains("//") {
            let plain: String = path
                .split('/')
                .filter(|segment| !segment.is_empty())
                .fold(String::with_capacity(path.len()), |plain, segment| plain + "/" + segment);
            let means_aws_call = is_aws_path(listener, &plain) || is_behind_a_segment(listener, &plain);
            return Some(Self { text: DOUBLED_SLASH, means_aws_call });
        }
        is_behind_a_segment(listener, path).then_some(Self { text: UNEXPECTED_STAGE, means_aws_call: true })
    }
}

const DOUBLED_SLASH: &str = "The path has two slashes in a row, so there is nothing at it: take the slash off the end of the base URL";
const UNEXPECTED_STAGE: &str = "There is nothing at this path, but there is without its first segment: take the stage of API Gateway off \
    the base URL, or name it in the setting aws_stage";

/// Whether one of AWS's calls is left without the first segment.
fn is_behind_a_segment(listener: Listener, path: &str) -> bool {
    let rest = path.get(1..).unwrap_or_default();
    rest.find('/').is_some_and(|end| is_aws_path(listener, &rest[end..]))
}

fn is_aws_path(listener: Listener, path: &str) -> bool {
    listener.routes().iter().any(|row| row.errors == Style::Aws && row.path == path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_configured_stage_before_a_call_of_aws_is_taken_off() {
        let below = |listener, path| below_stage(listener, Some("api"), path);
        assert_eq!(below(Listener::Private, "/api/update_session"), Some("/update_session"));
        assert_eq!(below(Listener::Public, "/api/serving_num"), Some("/serving_num"));
        assert_eq!(below(Listener::Public, "/api/.well-known/jwks.json"), Some("/.well-known/jwks.json"));
        for path in [
            "/api",
            "/api/",
            "/api//serving_num",
            "/api/serving_num/",
            "/apiserving_num",
            "/API/serving_num",
            "/prod/serving_num",
            "/api/api/serving_num",
            "//api/serving_num",
            "/api/join",
            "/api/update_session",
            "/serving_num",
            "",
        ] {
            assert_eq!(below(Listener::Public, path), None, "{path}");
        }
        assert_eq!(below_stage(Listener::Public, None, "/api/serving_num"), None);
    }

    #[test]
    fn a_mistake_is_found_only_where_there_is_one() {
        let mistake = |path| AddressMistake::of(Listener::Private, path);
        for (path, means_aws_call) in [
            ("//update_session", true),
            ("/update_session//", true),
            ("/api//update_session", true),
            ("//api/update_session", true),
            ("//serving_num", false),
            ("/a//", false),
            ("//", false),
        ] {
            assert_eq!(mistake(path), Some(AddressMistake { text: DOUBLED_SLASH, means_aws_call }), "{path}");
        }
        for path in ["/api/update_session", "/prod/generate_token"] {
            let expected = AddressMistake { text: UNEXPECTED_STAGE, means_aws_call: true };
            assert_eq!(mistake(path), Some(expected), "{path}");
        }
        for path in [
            "",
            "/",
            "*",
            "/update_session",
            "/nothing",
            "/a/b/update_session",
            "/api/update_session/",
            "/api/serving_num",
            "/é/x",
            "é/x",
        ] {
            assert_eq!(mistake(path), None, "{path}");
        }
    }
}
