//! HTTP, with limits: a deadline for each exchange, no redirects, and an answer that is not too large.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::{HeaderMap, StatusCode};
use trustplane_process::secret::Secret;

/// No answer of AWS to one of our calls is larger: twenty secrets of 64 KiB, as text in JSON.
const LARGEST: usize = 16 << 20;
const CONNECT: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_secs(15);

/// Makes HTTP calls. A cheap clone.
#[derive(Clone)]
pub(super) struct Web(Arc<Inner>);

/// The client is made with the first call: it reads and keeps every certificate that the machine trusts, and many a
/// process never calls.
struct Inner {
    more: Vec<reqwest::Certificate>,
    client: OnceLock<reqwest::Client>,
}

/// Why there is no answer, or no good one. The texts are ours.
#[derive(Debug, Clone, thiserror::Error)]
pub(super) enum WebError {
    /// Nobody answered.
    #[error("{0}")]
    Transport(&'static str),
    /// The answer is an error.
    #[error("HTTP status {0}")]
    Status(u16),
}

/// An answer, good or bad.
pub(super) struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Secret<Vec<u8>>,
}

impl Web {
    /// Trusts the usual certificates, and these besides.
    pub fn new(ca_bundle: Option<&str>) -> Result<Self, WebError> {
        trustplane_process::crypto::install();
        let more = match ca_bundle {
            None => Vec::new(),
            Some(pem) => reqwest::Certificate::from_pem_bundle(pem.as_bytes())
                .map_err(|_| WebError::Transport("the CA bundle cannot be read"))?,
        };
        Ok(Self(Arc::new(Inner {
            more,
            client: OnceLock::new(),
        })))
    }

    fn client(&self) -> Result<&reqwest::Client, WebError> {
        if let Some(client) = self.0.client.get() {
            return Ok(client);
        }
        let made = reqwest::Client::builder()
            .tls_certs_merge(self.0.more.clone())
            .connect_timeout(CONNECT)
            .timeout(PATIENCE)
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .build()
            .map_err(|_| WebError::Transport("the HTTP client cannot be made"))?;
        Ok(self.0.client.get_or_init(|| made))
    }

    /// Sends a POST with these headers.
    pub async fn post(
        &self,
        url: &str,
        headers: &[(&'static str, String)],
        body: Vec<u8>,
    ) -> Result<Answer, WebError> {
        let mut request = self.client()?.post(url).body(body);
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        exchange(request).await
    }

    /// Sends a form and takes a text.
    pub async fn post_form(&self, url: &str, form: &[(&str, &str)]) -> Result<Secret<String>, WebError> {
        let body: Vec<String> = form
            .iter()
            .map(|(name, value)| format!("{name}={}", escape(value)))
            .collect();
        let request = self
            .client()?
            .post(url)
            .header("content-type", "application/x-www-form-urlencoded")
            .body(body.join("&"));
        text(exchange(request).await?)
    }

    /// Gets a text.
    pub async fn get(
        &self,
        url: &str,
        header: Option<(&'static str, &str)>,
        patience: Duration,
    ) -> Result<Secret<String>, WebError> {
        let mut request = self.client()?.get(url).timeout(patience);
        if let Some((name, value)) = header {
            request = request.header(name, value);
        }
        text(exchange(request).await?)
    }

    /// Puts nothing, and takes a text.
    pub async fn put(
        &self,
        url: &str,
        (name, value): (&'static str, &str),
        patience: Duration,
    ) -> Result<Secret<String>, WebError> {
        text(exchange(self.client()?.put(url).timeout(patience).header(name, value)).await?)
    }
}

async fn exchange(request: reqwest::RequestBuilder) -> Result<Answer, WebError> {
    let mut response = request.send().await.map_err(|error| transport(&error))?;
    let (status, headers) = (response.status(), response.headers().clone());
    let mut body = Vec::new();
    while let Some(part) = response.chunk().await.map_err(|error| transport(&error))? {
        if body.len() + part.len() > LARGEST {
            return Err(WebError::Transport("the answer is too large"));
        }
        body.extend_from_slice(&part);
    }
    Ok(Answer {
        status,
        headers,
        body: Secret::new(body),
    })
}

/// The library's own words name addresses and may quote: ours say what happened.
fn transport(error: &reqwest::Error) -> WebError {
    WebError::Transport(if error.is_timeout() {
        "no answer in time"
    } else if error.is_connect() {
        "the connection cannot be made"
    } else {
        "the connection was cut"
    })
}

fn text(answer: Answer) -> Result<Secret<String>, WebError> {
    if !answer.status.is_success() {
        return Err(WebError::Status(answer.status.as_u16()));
    }
    let text = String::from_utf8(answer.body.expose().clone())
        .map_err(|_| WebError::Transport("the answer is no text"))?;
    Ok(Secret::new(text))
}

/// A value in a form.
fn escape(value: &str) -> String {
    let mut out = String::new();
    for byte in value.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(char::from(byte)),
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
    out
}
