//! Reading requests: bodies and queries, bounded and checked, before anything else happens.

use std::time::Duration;

use axum::extract::{FromRequestParts, Query};
use bytes::Bytes;
use http::{Request, Uri};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Body;
use percent_encoding::percent_decode_str;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::http::error::ApiError;
use crate::http::problem::Problem;
use crate::http::router::PathParameters;

/// How long a client may take for its request's body.
pub(crate) const BODY_READ_TIMEOUT: Duration = Duration::from_secs(10);
/// How many parameters a query may have.
const QUERY_PARAMETERS_MAX: usize = 32;

/// How much of its body a request's handler may read; put there by the phase that knows its row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BodyMax(pub(crate) usize);

/// The body, within the limit of its row.
pub(crate) async fn read_body(request: Request<axum::body::Body>) -> Result<Bytes, ApiError> {
    let limit = request.extensions().get::<BodyMax>().map_or(0, |limit| limit.0);
    read_body_within(request.into_body(), limit).await
}

/// The body, if it is not larger than `limit` bytes.
pub(crate) async fn read_body_within<B>(body: B, limit: usize) -> Result<Bytes, ApiError>
where
    B: Body<Data = Bytes>,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let too_large = || ApiError::problem(Problem::TooLarge, format!("The body is larger than {limit} bytes"));
    // What is announced to be too large need not be waited for.
    if body.size_hint().lower() > limit as u64 {
        return Err(too_large());
    }
    let body = whole_body(Limited::new(body, limit));
    match tokio::time::timeout(BODY_READ_TIMEOUT, body).await {
        Err(_) => Err(ApiError::problem(Problem::BodyTimeout, "The body did not arrive in time")),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large()),
        Ok(Err(_)) => Err(ApiError::bad_request("The body could not be read")),
        Ok(Ok(bytes)) => Ok(bytes),
    }
}

/// All of a body. One that comes in a single piece, as small ones do, is not copied.
async fn whole_body<B: Body<Data = Bytes>>(body: B) -> Result<Bytes, B::Error> {
    let mut body = std::pin::pin!(body);
    let Some(first) = body.frame().await.transpose()? else { return Ok(Bytes::new()) };
    let first = first.into_data().unwrap_or_default();
    if body.is_end_stream() {
        return Ok(first);
    }
    let mut bytes = first.to_vec();
    while let Some(frame) = body.frame().await.transpose()? {
        bytes.extend_from_slice(&frame.into_data().unwrap_or_default());
    }
    Ok(bytes.into())
}

/// The body as a JSON object, whatever its Content-Type says.
pub(crate) async fn read_json<T: DeserializeOwned>(
    request: Request<axum::body::Body>,
) -> Result<T, ApiError> {
    parse_json(&read_body(request).await?)
}

/// The same, where an empty body means that nothing was said.
pub(crate) async fn read_optional_json<T: DeserializeOwned + Default>(
    request: Request<axum::body::Body>,
) -> Result<T, ApiError> {
    let body = read_body(request).await?;
    if body.trim_ascii().is_empty() { Ok(T::default()) } else { parse_json(&body) }
}

/// Parses a JSON object. Unknown keys are passed over, as AWS did; a key given twice is refused.
pub(crate) fn parse_json<T: DeserializeOwned>(body: &[u8]) -> Result<T, ApiError> {
    // Without this, an array would be taken for an object whose keys were left out.
    if body.trim_ascii_start().first() != Some(&b'{') {
        return Err(ApiError::bad_request("The body must be a JSON object"));
    }
    serde_json::from_slice(body)
        .map_err(|error| ApiError::bad_request(format!("Invalid request body: {error}")))
}

/// A query's parameters.
pub(crate) struct Parameters(Vec<(String, String)>);

impl Parameters {
    /// All parameters of a request's address.
    pub(crate) fn of(uri: &Uri) -> Result<Self, ApiError> {
        let query: Result<Query<Vec<(String, String)>>, _> = Query::try_from_uri(uri);
        let Query(parameters) = query.map_err(|_| ApiError::bad_request("The query cannot be read"))?;
        if parameters.len() > QUERY_PARAMETERS_MAX {
            return Err(ApiError::bad_request(format!("More than {QUERY_PARAMETERS_MAX} parameters")));
        }
        Ok(Self(parameters))
    }

    /// The one value of a parameter; given twice it is refused, because nobody could say which was meant.
    pub(crate) fn one(&self, name: &str) -> Result<Option<&str>, ApiError> {
        let mut values = self.0.iter().filter(|(key, _)| key == name).map(|(_, value)| value.as_str());
        let value = values.next();
        if values.next().is_some() {
            return Err(ApiError::bad_request(format!("The parameter {name} is given twice")));
        }
        Ok(value)
    }
}

impl<S: Sync> FromRequestParts<S> for Parameters {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut http::request::Parts, _: &S) -> Result<Self, ApiError> {
        Self::of(&parts.uri)
    }
}

/// The parameters of a path, decoded; one that is not UTF-8 is refused like any other bad request.
pub(crate) struct Path<T>(pub(crate) T);

/// What the parameters of a path can be read as.
pub(crate) trait FromPathParameters: Sized {
    /// `None` where there are not as many.
    fn read(parameters: Vec<String>) -> Option<Self>;
}

impl FromPathParameters for String {
    fn read(parameters: Vec<String>) -> Option<Self> {
        let [one] = parameters.try_into().ok()?;
        Some(one)
    }
}

impl FromPathParameters for (String, String) {
    fn read(parameters: Vec<String>) -> Option<Self> {
        let [one, two] = parameters.try_into().ok()?;
        Some((one, two))
    }
}

impl<S: Send + Sync, T: FromPathParameters> FromRequestParts<S> for Path<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut http::request::Parts, _: &S) -> Result<Self, ApiError> {
        let raw = parts.extensions.get::<PathParameters>().map_or(&[][..], |parameters| &parameters.0);
        let decoded = raw.iter().map(|text| percent_decode_str(text).decode_utf8().map(Into::into).ok());
        let decoded: Option<Vec<String>> = decoded.collect();
        decoded.and_then(T::read).map(Self).ok_or_else(|| ApiError::bad_request("The path cannot be read"))
    }
}

/// The value of `name` in a query that holds it once and without escapes; everything else goes the careful way.
pub(crate) fn plain_parameter<'q>(query: &'q str, name: &str) -> Option<&'q str> {
    let mut found = None;
    for (index, pair) in query.split('&').enumerate() {
        if index == QUERY_PARAMETERS_MAX {
            return None;
        }
        let (key, value) = pair.split_once('=')?;
        let plain = |text: &str| !text.bytes().any(|byte| matches!(byte, b'%' | b'+'));
        if !plain(key) || !plain(value) {
            return None;
        }
        if key == name && found.replace(value).is_some() {
            return None;
        }
    }
    found
}

/// Up to 2^53 a float says exactly which whole number it means.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

/// A whole number as JSON may write it: `1`, `-3`, also `1.0`; not `1.5`, not `"1"`, nothing beyond 64 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WholeNumber(pub(crate) i64);

impl<'de> Deserialize<'de> for WholeNumber {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = serde_json::Number::deserialize(deserializer)
            .map_err(|_| serde::de::Error::custom("a whole number is needed here"))?;
        if let Some(whole) = number.as_i64() {
            return Ok(Self(whole));
        }
        match number.as_f64() {
            #[expect(
                clippy::cast_possible_truncation,
                reason = "the guard allows only values that fit exactly"
            )]
            Some(float) if float.fract() == 0.0 && float.abs() <= EXACT_MAX && !number.is_u64() => {
                Ok(Self(float as i64))
            }
            _ => Err(serde::de::Error::custom(
                "a whole number from -9223372036854775808 to 9223372036854775807 is needed here",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_are_whole() {
        let parse = |text: &str| serde_json::from_str::<WholeNumber>(text).map(|number| number.0).ok();
        assert_eq!(parse("5"), Some(5));
        assert_eq!(parse("-5"), Some(-5));
        assert_eq!(parse("1.0"), Some(1));
        assert_eq!(parse("9223372036854775807"), Some(i64::MAX));
        for bad in
            ["1.5", "9223372036854775808", "1e30", "\"1\"", "null", "[1]", "true", "-9223372036854775809"]
        {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn only_queries_without_doubt_take_the_short_way() {
        assert_eq!(plain_parameter("event_id=Sample", "event_id"), Some("Sample"));
        assert_eq!(plain_parameter("a=b&event_id=Sample", "event_id"), Some("Sample"));
        for doubtful in ["event_id=a&event_id=b", "event_id=%53ample", "a%5f=1&event_id=a", "event_id", ""] {
            assert_eq!(plain_parameter(doubtful, "event_id"), None, "{doubtful}");
        }
    }
}
