//! What a status means for an operator: an exit code, the server's own words, and what may help.

use anteroom_server::{Permission, Role};
use hyper::StatusCode;
use serde_json::Value;

use crate::failure::{Exit, Failure};
use crate::http_client::Reply;

/// How alike two names must be, from 0 to 1, for one to be offered in place of the other.
const SIMILARITY_MIN: f64 = 0.75;
/// How much of an answer that is no JSON is repeated.
const SHOWN_MAX_CHARACTERS: usize = 200;
/// What may help where another server answers.
pub(super) const WHICH_LISTENER: &str =
    "--url (or ANTEROOM_URL) must name the private listener, by default http://127.0.0.1:8081";

/// The failure that an answer other than success is.
pub(super) fn failure(reply: &Reply, needs: Permission, target: &str) -> Failure {
    let said = problem_text(reply);
    let status = reply.status;
    match status {
        StatusCode::UNAUTHORIZED => Failure::new(
            Exit::Access,
            format!("{target} does not accept this key: {said}"),
        )
        .hint(
            "is ANTEROOM_ADMIN_KEY (or the --key-file) the key of this server, not revoked and not expired?",
        ),
        StatusCode::FORBIDDEN => {
            Failure::new(Exit::Access, format!("this key may not do that: {said}")).hint(roles(needs))
        }
        StatusCode::NOT_FOUND if is_no_path(reply) => {
            let what = format!("{target} is not the private listener of an Anteroom server: {said}");
            Failure::new(Exit::Failed, what).hint(WHICH_LISTENER)
        }
        StatusCode::NOT_FOUND => Failure::new(Exit::NotFound, said),
        // The AWS calls say so with 400, as their model did.
        StatusCode::BAD_REQUEST if said.starts_with("Invalid event") => Failure::new(Exit::NotFound, said),
        StatusCode::CONFLICT => Failure::new(Exit::Conflict, said),
        StatusCode::PRECONDITION_FAILED => Failure::new(Exit::Conflict, said)
            .hint("somebody changed it meanwhile; look again with `anteroom room show`"),
        StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS => {
            Failure::new(Exit::Failed, format!("the server cannot do this now: {said}"))
                .hint("try again shortly; the server's log says more")
        }
        StatusCode::METHOD_NOT_ALLOWED => {
            Failure::new(Exit::Failed, format!("{status}: {said}")).hint(WHICH_LISTENER)
        }
        _ => Failure::new(Exit::Failed, format!("the server refused ({}): {said}", status.as_u16())),
    }
}

/// The server's own words: `detail` or `title` of a problem, `error` on AWS paths, or the text itself.
fn problem_text(reply: &Reply) -> String {
    let text = String::from_utf8_lossy(&reply.body);
    let json: Value = serde_json::from_str(&text).unwrap_or_default();
    let sentence = ["detail", "error", "title"].iter().find_map(|name| json[name].as_str());
    let sentence =
        sentence.map_or_else(|| text.trim().chars().take(SHOWN_MAX_CHARACTERS).collect(), str::to_owned);
    if sentence.is_empty() { reply.status.to_string() } else { sentence }
}

/// Whether the call itself is unknown there, rather than what it named.
fn is_no_path(reply: &Reply) -> bool {
    let json: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
    let is_problem = json["type"].as_str().is_some_and(|kind| kind.ends_with("#not-found"));
    is_problem || json["error"] == "There is nothing at this path"
}

/// Which keys may do it.
fn roles(needs: Permission) -> String {
    let roles: Vec<&str> = Role::ALL.into_iter().filter(|role| role.may(needs)).map(Role::as_str).collect();
    let roles = roles.join(" or ");
    format!(
        "it needs a key with the role {roles}; an admin makes one with `anteroom key create NAME --role ROLE`"
    )
}

/// "did you mean …?" for a name that does not exist, if another one is like it; else what exists.
pub(crate) fn nearest(name: &str, existing: &[&str]) -> Option<String> {
    const LISTED_MAX: usize = 10;
    let alike = |other: &&&str| strsim::jaro_winkler(&name.to_lowercase(), &other.to_lowercase());
    let best = existing.iter().max_by(|left, right| alike(left).total_cmp(&alike(right)))?;
    if alike(&best) >= SIMILARITY_MIN {
        return Some(format!("did you mean `{best}`?"));
    }
    let listed = existing.iter().take(LISTED_MAX).copied().collect::<Vec<_>>().join(", ");
    let more = if existing.len() > LISTED_MAX { ", …" } else { "" };
    Some(format!("there is: {listed}{more}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_like_another_is_offered_and_else_what_there_is() {
        assert_eq!(nearest("hal", &["Yard", "Hall"]).as_deref(), Some("did you mean `Hall`?"));
        assert_eq!(nearest("Kitchen", &["Yard", "Hall"]).as_deref(), Some("there is: Yard, Hall"));
        assert_eq!(nearest("Hall", &[]), None);
    }
}
