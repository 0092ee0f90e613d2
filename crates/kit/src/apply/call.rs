//! One call to the API server, with a deadline, and an answer that nobody else has logged.
//!
//! kube's typed calls print what they cannot parse, and read back whole objects. Here a write asks for metadata only, so
//! the content of a Secret never comes back, and an error is kept as it came until [`super::verdict`] has taken the
//! values out of it.

use std::error::Error;
use std::time::Duration;

use http::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER};
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use kube::Client;
use kube::client::Body;

use crate::clients::CALL;
use crate::lease::Fenced;

/// No answer to one of our calls is larger: the API server itself takes no larger object.
const MAX_ANSWER: usize = 8 << 20;

/// An API server that cannot leave the rest out may send the whole object; it is skipped when read.
pub(crate) const METADATA: &str =
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json;q=0.5";
pub(crate) const JSON: &str = "application/json";
pub(crate) const APPLY: &str = "application/apply-patch+yaml";
pub(crate) const JSON_PATCH: &str = "application/json-patch+json";
pub(crate) const MERGE_PATCH: &str = "application/merge-patch+json";

/// What to ask of the API server.
pub(crate) struct Call {
    pub method: Method,
    pub path: String,
    /// The type of the answer.
    pub accept: &'static str,
    /// The type of the body, and the body.
    pub body: Option<(&'static str, Vec<u8>)>,
}

/// What it answered, good or bad.
pub(crate) struct Answer {
    pub code: StatusCode,
    pub retry_after: Option<Duration>,
    pub text: String,
}

/// Why there was no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NoAnswer {
    Fenced,
    Timeout,
    /// More than [`MAX_ANSWER`]: no object that the API server keeps.
    TooLarge,
    Transport(String),
}

impl Call {
    pub fn get(path: String, accept: &'static str) -> Self {
        Self {
            method: Method::GET,
            path,
            accept,
            body: None,
        }
    }

    pub fn write(method: Method, path: String, content_type: &'static str, body: &serde_json::Value) -> Self {
        Self {
            method,
            path,
            accept: METADATA,
            body: Some((content_type, body.to_string().into_bytes())),
        }
    }

    pub async fn send(self, client: &Client) -> Result<Answer, NoAnswer> {
        match tokio::time::timeout(CALL, self.exchange(client)).await {
            Ok(answer) => answer,
            Err(_) => Err(NoAnswer::Timeout),
        }
    }

    async fn exchange(self, client: &Client) -> Result<Answer, NoAnswer> {
        let mut request = Request::builder()
            .method(self.method)
            .uri(self.path)
            .header(ACCEPT, self.accept);
        let mut bytes = Vec::new();
        if let Some((content_type, body)) = self.body {
            request = request.header(CONTENT_TYPE, content_type);
            bytes = body;
        }
        let request = request
            .body(Body::from(bytes))
            .map_err(|error| no_answer(&error))?;
        let response = client.send(request).await.map_err(|error| no_answer(&error))?;
        let code = response.status();
        let seconds = response
            .headers()
            .get(RETRY_AFTER)
            .and_then(|value| value.to_str().ok());
        let retry_after = seconds
            .and_then(|text| text.parse().ok())
            .map(Duration::from_secs);
        let body = Limited::new(response.into_body(), MAX_ANSWER).collect().await;
        let bytes = body.map_err(|error| no_answer(&*error))?.to_bytes();
        Ok(Answer {
            code,
            retry_after,
            text: String::from_utf8_lossy(&bytes).into_owned(),
        })
    }
}

/// The errors of the HTTP client name addresses and system errors, never a body.
fn no_answer(error: &(dyn Error + 'static)) -> NoAnswer {
    let mut text = error.to_string();
    let mut current = Some(error);
    while let Some(error) = current {
        if error.is::<Fenced>() {
            return NoAnswer::Fenced;
        }
        if error.is::<LengthLimitError>() {
            return NoAnswer::TooLarge;
        }
        text = error.to_string();
        current = error.source();
    }
    NoAnswer::Transport(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("outer")]
    struct Outer(#[source] Box<dyn Error + Send + Sync>);

    #[test]
    fn the_fence_is_found_however_deep() {
        let deep = Outer(Box::new(Outer(Box::new(Fenced))));
        assert_eq!(no_answer(&deep), NoAnswer::Fenced);
        let other = Outer(Box::new(std::io::Error::other("connection refused")));
        assert_eq!(
            no_answer(&other),
            NoAnswer::Transport("connection refused".into())
        );
    }
}
