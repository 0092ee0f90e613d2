//! Answers with an `ETag`: who has the same already is told so, and gets no body.

use aws_lc_rs::digest::{SHA256, digest};
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use http::{HeaderMap, HeaderValue, StatusCode};
use serde::Serialize;

use crate::error::ApiError;

/// How much of the digest is in a tag.
const TAG_BYTES: usize = 16;

/// An answer as JSON, or 304 if the request names its tag.
pub fn json<T: Serialize>(headers: &HeaderMap, value: &T) -> Response {
    let Ok(body) = serde_json::to_vec(value) else {
        return ApiError::unavailable("the answer could not be written").into_response();
    };
    let digest = digest(&SHA256, &body);
    let tag = digest.as_ref().get(..TAG_BYTES).unwrap_or_default();
    let tag = format!("\"{}\"", URL_SAFE_NO_PAD.encode(tag));
    let known = matches(headers, &tag);
    let mut response = if known {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        Response::new(Body::from(body))
    };
    let answer = response.headers_mut();
    answer.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    answer.insert(CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        answer.insert(ETAG, tag);
    }
    response
}

/// Whether a request has the answer with this tag already.
pub fn matches(headers: &HeaderMap, tag: &str) -> bool {
    let named = headers.get(IF_NONE_MATCH).and_then(|value| value.to_str().ok());
    named.is_some_and(|named| {
        named
            .split(',')
            .map(|one| one.trim().trim_start_matches("W/"))
            .any(|one| one == tag || one == "*")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_is_known_is_not_sent_again() {
        let first = json(&HeaderMap::new(), &[1, 2]);
        assert_eq!(first.status(), StatusCode::OK);
        let tag = first.headers()[ETAG].clone();
        let mut headers = HeaderMap::new();
        headers.insert(IF_NONE_MATCH, tag.clone());
        assert_eq!(json(&headers, &[1, 2]).status(), StatusCode::NOT_MODIFIED);
        assert_eq!(json(&headers, &[1, 3]).status(), StatusCode::OK);
        let several = format!("\"x\", W/{}", tag.to_str().unwrap());
        headers.insert(IF_NONE_MATCH, several.parse().unwrap());
        assert_eq!(json(&headers, &[1, 2]).status(), StatusCode::NOT_MODIFIED);
    }
}
