//! The calls of the AWS waiting room by name. An error means that there was no answer; any status is an answer.

use serde_json::{Value, json};

use crate::http::{Answer, Client};

/// Method and path of the seven public calls.
pub const PUBLIC_ROUTES: [(&str, &str); 7] = [
    ("POST", "/assign_queue_num"),
    ("GET", "/queue_num"),
    ("GET", "/serving_num"),
    ("GET", "/waiting_num"),
    ("GET", "/public_key"),
    ("GET", "/queue_pos_expiry"),
    ("POST", "/generate_token"),
];

/// Method and path of the six private calls.
pub const PRIVATE_ROUTES: [(&str, &str); 6] = [
    ("GET", "/expired_tokens"),
    ("POST", "/generate_token"),
    ("POST", "/increment_serving_counter"),
    ("GET", "/num_active_tokens"),
    ("POST", "/reset_initial_state"),
    ("POST", "/update_session"),
];

/// Takes a place in line: `{"api_request_id"}`.
pub fn assign_queue_num(public: &mut Client, event: &str) -> anyhow::Result<Answer> {
    public.post("/assign_queue_num", &json!({ "event_id": event }))
}

/// The place: `{"queue_number", "entry_time", "event_id", "status"}`.
pub fn queue_num(public: &mut Client, event: &str, request_id: &str) -> anyhow::Result<Answer> {
    public.get(&target("/queue_num", &[("event_id", event), ("request_id", request_id)]))
}

/// The frontier: `{"serving_counter"}`.
pub fn serving_num(public: &mut Client, event: &str) -> anyhow::Result<Answer> {
    public.get(&target("/serving_num", &[("event_id", event)]))
}

/// How many wait: `{"waiting_num"}`.
pub fn waiting_num(public: &mut Client, event: &str) -> anyhow::Result<Answer> {
    public.get(&target("/waiting_num", &[("event_id", event)]))
}

/// The public JWK.
pub fn public_key(public: &mut Client, event: &str) -> anyhow::Result<Answer> {
    public.get(&target("/public_key", &[("event_id", event)]))
}

/// How long a served place can still be claimed: `{"expires_in"}`.
pub fn queue_pos_expiry(public: &mut Client, event: &str, request_id: &str) -> anyhow::Result<Answer> {
    public.get(&target("/queue_pos_expiry", &[("event_id", event), ("request_id", request_id)]))
}

/// Claims the token set, on either listener.
pub fn generate_token(client: &mut Client, event: &str, request_id: &str) -> anyhow::Result<Answer> {
    client.post("/generate_token", &json!({ "event_id": event, "request_id": request_id }))
}

/// Claims the token set with further fields in the body, such as `issuer` and `validity_period`.
pub fn generate_token_with(
    client: &mut Client,
    event: &str,
    request_id: &str,
    more: &Value,
) -> anyhow::Result<Answer> {
    let mut body = json!({ "event_id": event, "request_id": request_id });
    for (name, value) in more.as_object().into_iter().flatten() {
        body[name.as_str()] = value.clone();
    }
    client.post("/generate_token", &body)
}

/// Moves the frontier: `{"serving_num"}`.
pub fn increment_serving_counter(operator: &mut Client, event: &str, by: i64) -> anyhow::Result<Answer> {
    operator.post("/increment_serving_counter", &json!({ "event_id": event, "increment_by": by }))
}

/// How many hold an unexpired, unfinished pass: `{"active_tokens"}`.
pub fn num_active_tokens(operator: &mut Client, event: &str) -> anyhow::Result<Answer> {
    operator.get(&target("/num_active_tokens", &[("event_id", event)]))
}

/// The request ids whose passes are past their end, as an array.
pub fn expired_tokens(operator: &mut Client, event: &str) -> anyhow::Result<Answer> {
    operator.get(&target("/expired_tokens", &[("event_id", event)]))
}

/// Ends a session: 1 completed, -1 abandoned.
pub fn update_session(
    operator: &mut Client,
    event: &str,
    request_id: &str,
    status: i64,
) -> anyhow::Result<Answer> {
    let body = json!({ "event_id": event, "request_id": request_id, "status": status });
    operator.post("/update_session", &body)
}

/// Begins the line anew.
pub fn reset_initial_state(operator: &mut Client, event: &str) -> anyhow::Result<Answer> {
    operator.post("/reset_initial_state", &json!({ "event_id": event }))
}

/// A request target with percent-encoded query values.
pub fn target(path: &str, query: &[(&str, &str)]) -> String {
    let pairs: Vec<String> =
        query.iter().map(|(name, value)| format!("{name}={}", percent_encode(value))).collect();
    if pairs.is_empty() { path.to_owned() } else { format!("{path}?{}", pairs.join("&")) }
}

/// Percent-encodes everything but RFC 3986's unreserved characters.
pub fn percent_encode(text: &str) -> String {
    let encode = |byte: u8| {
        let unreserved = byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        if unreserved { char::from(byte).to_string() } else { format!("%{byte:02X}") }
    };
    text.bytes().map(encode).collect()
}

#[cfg(test)]
mod tests {
    use super::target;

    #[test]
    fn query_values_are_encoded() {
        assert_eq!(target("/a", &[]), "/a");
        assert_eq!(target("/a", &[("b", "c d&e"), ("f", "-._~é")]), "/a?b=c%20d%26e&f=-._~%C3%A9");
    }
}
