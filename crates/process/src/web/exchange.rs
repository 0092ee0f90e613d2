//! One exchange: the request is checked, sent, and its answer read within the limits.

use std::error::Error;

use http::{HeaderMap, HeaderName, HeaderValue};

use super::body::LengthError;
use super::{Answer, Headers, WebError};
use crate::secret::Secret;

/// An address that can be called.
pub(super) fn address(url: &str) -> Result<reqwest::Url, WebError> {
    let parsed = reqwest::Url::parse(url).ok();
    let usable = parsed.filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    usable.ok_or(WebError::Setting {
        field: "URL",
        problem: "must start with http:// or https:// and name a host",
    })
}

/// The headers of a request, marked as sensitive so that no log shows them.
pub(super) fn sensitive(headers: Headers<'_>) -> Result<HeaderMap, WebError> {
    let mut map = HeaderMap::with_capacity(headers.len());
    for (name, value) in headers {
        let unusable = |problem| WebError::Setting { field: name, problem };
        let key = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| unusable("header has a name that HTTP does not allow"))?;
        let mut value = HeaderValue::from_str(value)
            .map_err(|_| unusable("header holds characters that HTTP does not allow"))?;
        value.set_sensitive(true);
        map.append(key, value);
    }
    Ok(map)
}

/// Sends a request and reads the whole answer.
pub(super) async fn exchange(request: reqwest::RequestBuilder, largest: usize) -> Result<Answer, WebError> {
    let mut response = request.send().await.map_err(|error| transport(&error))?;
    let (status, headers) = (response.status(), response.headers().clone());
    let mut body = Vec::new();
    while let Some(part) = response.chunk().await.map_err(|error| transport(&error))? {
        if body.len() + part.len() > largest {
            return Err(WebError::TooLarge {
                status: status.as_u16(),
            });
        }
        body.extend_from_slice(&part);
    }
    Ok(Answer {
        status,
        headers,
        body: Secret::new(body),
    })
}

/// What happened, in our words: the library's own name addresses and may quote.
fn transport(error: &reqwest::Error) -> WebError {
    if error.is_timeout() {
        return WebError::Timeout;
    }
    let mut causes = std::iter::successors(error.source(), |error| (*error).source());
    if let Some(length) = causes.find_map(|cause| cause.downcast_ref::<LengthError>()) {
        return WebError::Transport(length.text());
    }
    WebError::Transport(if error.is_connect() {
        "the connection cannot be made"
    } else {
        "the connection was cut"
    })
}

/// A name or value in a form.
pub(super) fn escape(value: &str) -> String {
    let mut out = String::new();
    for byte in value.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(char::from(byte)),
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
    out
}
