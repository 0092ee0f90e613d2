//! HTTP to the outside, with limits: a deadline for each exchange, no redirects, and no answer beyond a size.
//!
//! One client for every call to a vault, a cloud or a hub. It trusts the system's certificates and those of a CA bundle, goes
//! through a proxy only if asked to, and makes each exchange once: retries, the breaker and the rate limit are
//! [`outside`](crate::outside)'s. Texts of errors are ours, because the library's own name addresses and may quote.
//!
//! ```no_run
//! # async fn example(token: &str) -> Result<(), trustplane_process::web::WebError> {
//! use std::time::Duration;
//! use trustplane_process::web::{Proxy, Web, WebOptions};
//!
//! let web = Web::new(WebOptions {
//!     proxy: Proxy::Url("http://proxy.example:3128".to_owned().into()),
//!     total: Duration::from_secs(30),
//!     ..WebOptions::default()
//! })?;
//! let headers = [
//!     ("content-type", "application/json".to_owned()),
//!     ("authorization", format!("Bearer {token}")),
//! ];
//! let answer = web.post("https://hub.example/api", &headers, "{}").await?;
//! assert!(answer.status.is_success());
//! # Ok(())
//! # }
//! ```
//!
//! Not for the Kubernetes API, and not for gRPC.

mod body;
mod exchange;
mod proxy;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::Stream;
use http::{HeaderMap, Method, StatusCode};
use hyper::body::Bytes;

use crate::outside::{Fault, FaultKind};
use crate::secret::Secret;
pub use proxy::Proxy;

use body::SizedBody;
use exchange::{address, escape, exchange, sensitive};

/// Headers of a request. Values are never logged, so a header may carry a bearer token.
pub type Headers<'a> = &'a [(&'static str, String)];

/// How a [`Web`] calls.
#[derive(Debug, Clone)]
pub struct WebOptions<'a> {
    /// Certificates that are trusted besides the system's, as PEM. A blank text counts as none.
    pub ca_bundle: Option<&'a str>,
    /// Whether requests go through a proxy.
    pub proxy: Proxy,
    /// How long a connection may take, TLS included.
    pub connect: Duration,
    /// How long an exchange may take in all, from the connection to the last byte of the answer.
    pub total: Duration,
    /// The largest body of an answer, in bytes.
    pub largest_answer: usize,
}

impl Default for WebOptions<'_> {
    fn default() -> Self {
        Self {
            ca_bundle: None,
            proxy: Proxy::None,
            connect: Duration::from_secs(5),
            total: Duration::from_secs(30),
            largest_answer: 1 << 20,
        }
    }
}

/// Makes HTTP calls. A cheap clone.
#[derive(Clone)]
pub struct Web {
    inner: Arc<Inner>,
    total: Duration,
}

/// The client is made with the first call: it reads and keeps every certificate that the machine trusts, and many a
/// process never calls.
struct Inner {
    certificates: Vec<reqwest::Certificate>,
    proxies: Vec<reqwest::Proxy>,
    connect: Duration,
    largest_answer: usize,
    client: OnceLock<reqwest::Client>,
}

/// Why there is no answer, or no good one. The texts are ours and hold no value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WebError {
    /// A setting, the URL or a header cannot be used. Another try would not change that.
    #[error("the {field} {problem}")]
    Setting {
        /// What cannot be used, such as `proxy URL`.
        field: &'static str,
        /// Why, without the value.
        problem: &'static str,
    },
    /// The deadline passed before the answer was complete.
    #[error("no answer in time")]
    Timeout,
    /// The exchange broke off.
    #[error("{0}")]
    Transport(&'static str),
    /// The body of the answer is beyond the limit.
    #[error("the answer is too large")]
    TooLarge {
        /// The status of the answer: the peer may well have done what it was asked to.
        status: u16,
    },
    /// The answer is an error; only where a good one is asked for.
    #[error("HTTP status {0}")]
    Status(u16),
}

impl WebError {
    /// The error as a fault of a call to the outside.
    pub fn into_fault(self) -> Fault {
        let kind = match self {
            Self::Timeout => FaultKind::Timeout,
            Self::Transport(_) => FaultKind::Transport,
            Self::Setting { .. } | Self::TooLarge { .. } | Self::Status(_) => FaultKind::Rejected,
        };
        Fault::new(kind, self)
    }
}

/// An answer, good or bad.
#[derive(Debug)]
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The whole body.
    pub body: Secret<Vec<u8>>,
}

impl Answer {
    /// The body of a good answer as text.
    pub fn text(self) -> Result<Secret<String>, WebError> {
        if !self.status.is_success() {
            return Err(WebError::Status(self.status.as_u16()));
        }
        let text = String::from_utf8(self.body.expose().clone())
            .map_err(|_| WebError::Transport("the answer is no text"))?;
        Ok(Secret::new(text))
    }
}

impl Web {
    /// A client with these options. An option that cannot be used is an error that names it.
    pub fn new(options: WebOptions<'_>) -> Result<Self, WebError> {
        Ok(Self {
            inner: Arc::new(Inner {
                certificates: certificates(options.ca_bundle)?,
                proxies: options.proxy.rules()?,
                connect: options.connect,
                largest_answer: options.largest_answer,
                client: OnceLock::new(),
            }),
            total: options.total,
        })
    }

    /// Checks that a URL can be called, without calling it.
    pub fn check_url(url: &str) -> Result<(), WebError> {
        address(url).map(drop)
    }

    /// The same client with another deadline for each exchange. Both share their connections.
    #[must_use]
    pub fn within(&self, total: Duration) -> Self {
        Self {
            inner: self.inner.clone(),
            total,
        }
    }

    /// Sends a GET.
    pub async fn get(&self, url: &str, headers: Headers<'_>) -> Result<Answer, WebError> {
        self.send(Method::GET, url, headers, None).await
    }

    /// Sends a PUT without a body.
    pub async fn put(&self, url: &str, headers: Headers<'_>) -> Result<Answer, WebError> {
        self.send(Method::PUT, url, headers, None).await
    }

    /// Sends a POST with this body.
    pub async fn post(
        &self,
        url: &str,
        headers: Headers<'_>,
        body: impl Into<Bytes>,
    ) -> Result<Answer, WebError> {
        let body = reqwest::Body::from(body.into());
        self.send(Method::POST, url, headers, Some(body)).await
    }

    /// Sends a POST whose body is made while it is sent, with a `Content-Length` of `length` bytes.
    ///
    /// A stream that ends before or goes beyond that length breaks the exchange off, and the peer gets no complete request.
    pub async fn post_stream<S>(
        &self,
        url: &str,
        headers: Headers<'_>,
        length: u64,
        stream: S,
    ) -> Result<Answer, WebError>
    where
        S: Stream<Item = Bytes> + Send + 'static,
    {
        let body = reqwest::Body::wrap(SizedBody::new(length, stream));
        self.send(Method::POST, url, headers, Some(body)).await
    }

    /// Sends a POST with the fields of a form. The content type is set.
    pub async fn post_form(
        &self,
        url: &str,
        headers: Headers<'_>,
        form: &[(&str, &str)],
    ) -> Result<Answer, WebError> {
        let fields: Vec<String> = form
            .iter()
            .map(|(name, value)| format!("{}={}", escape(name), escape(value)))
            .collect();
        let kind = ("content-type", "application/x-www-form-urlencoded".to_owned());
        let headers: Vec<_> = headers.iter().cloned().chain([kind]).collect();
        self.post(url, &headers, fields.join("&")).await
    }

    async fn send(
        &self,
        method: Method,
        url: &str,
        headers: Headers<'_>,
        body: Option<reqwest::Body>,
    ) -> Result<Answer, WebError> {
        let url = address(url)?;
        let request = self.inner.client()?.request(method, url).timeout(self.total);
        let request = request.headers(sensitive(headers)?);
        let request = match body {
            Some(body) => request.body(body),
            None => request,
        };
        exchange(request, self.inner.largest_answer).await
    }
}

impl Inner {
    fn client(&self) -> Result<&reqwest::Client, WebError> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        crate::crypto::install();
        let builder = reqwest::Client::builder()
            .tls_certs_merge(self.certificates.clone())
            .connect_timeout(self.connect)
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .referer(false)
            // Also keeps the library from reading the environment.
            .no_proxy();
        let made = self
            .proxies
            .iter()
            .cloned()
            .fold(builder, reqwest::ClientBuilder::proxy)
            .build()
            .map_err(|_| WebError::Transport("the HTTP client cannot be made"))?;
        Ok(self.client.get_or_init(|| made))
    }
}

impl fmt::Debug for Web {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Web").finish_non_exhaustive()
    }
}

fn certificates(ca_bundle: Option<&str>) -> Result<Vec<reqwest::Certificate>, WebError> {
    let Some(pem) = ca_bundle.filter(|pem| !pem.trim().is_empty()) else {
        return Ok(Vec::new());
    };
    let unusable = |problem| WebError::Setting {
        field: "CA bundle",
        problem,
    };
    let found =
        reqwest::Certificate::from_pem_bundle(pem.as_bytes()).map_err(|_| unusable("cannot be read"))?;
    match found.is_empty() {
        true => Err(unusable("holds no certificate in PEM form")),
        false => Ok(found),
    }
}
