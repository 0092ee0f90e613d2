//! The requests to a platform: the four paths of the Obsyk operator, and what each answer means.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures::stream;
use jiff::Timestamp;
use serde_json::value::RawValue;
use trustplane_api::inventory::ObsykAgentSpec;
use trustplane_api::inventory::wire::{
    EVENTS_PATH, EventPayload, HEARTBEAT_PATH, HeartbeatPayload, JWT_BEARER, SNAPSHOT_PATH, SnapshotHead,
    TOKEN_PATH, TokenResponse,
};
use trustplane_inventory_core::pending::Record;
use trustplane_inventory_core::sender::{Call, Outcome};
use trustplane_inventory_core::snapshot::Snapshot;
use trustplane_process::metrics::Metrics;
use trustplane_process::outside::{Fault, FaultKind, Outside, OutsideError, Retry, retry_after};
use trustplane_process::secret::Secret;
use trustplane_process::web::{Answer, Proxy, Web, WebError, WebOptions};

use crate::credentials::Credentials;
use crate::token::{Grant, Token, Tokens};

/// How long one request may take.
const REQUEST: Duration = Duration::from_secs(30);
/// How long a snapshot may take: it may be large.
const SNAPSHOT: Duration = Duration::from_secs(300);
/// An answer of a platform is small; its body is read only to tell people why it refused.
const LARGEST_ANSWER: usize = 64 << 10;
/// So much of a refusal is told to people.
const TOLD: usize = 200;

/// What the Obsyk operator calls itself; a platform may know agents by it.
const USER_AGENT: &str = "obsyk-operator/1.0";

/// A platform, and how it is reached.
pub(crate) struct Platform {
    /// As the spec has it: the audience of assertions is exactly this.
    url: String,
    credentials: Arc<Credentials>,
    tokens: Tokens,
    web: Web,
    outside: Outside,
}

impl Platform {
    /// A platform as the spec names it. An error names the field and the rule.
    pub fn new(
        spec: &ObsykAgentSpec,
        credentials: Arc<Credentials>,
        metrics: &Metrics,
    ) -> Result<Self, String> {
        let web = web(spec)?;
        Ok(Self {
            url: spec.platform_url.clone(),
            credentials,
            tokens: Tokens::default(),
            web,
            outside: Outside::builder("inventory-platform")
                .deadline(SNAPSHOT)
                .retry(Retry::NEVER)
                .build(metrics),
        })
    }

    /// Makes a request: with a new token once more if the platform refuses the token. `head` says of which cluster it speaks.
    pub async fn send(&self, call: &Call, head: &SnapshotHead) -> Outcome {
        let first = match self.token(None).await {
            Ok(token) => token,
            Err(outcome) => return outcome,
        };
        match self.exchange(call, head, &first).await {
            Outcome::Unauthorized(_) => {}
            outcome => return outcome,
        }
        match self.token(Some(&first)).await {
            Ok(second) => self.exchange(call, head, &second).await,
            Err(outcome) => outcome,
        }
    }

    /// When the token is to be renewed.
    pub fn renewal(&self) -> Option<tokio::time::Instant> {
        self.tokens.renewal()
    }

    /// The renewal of the token has begun.
    pub fn renewing(&self) {
        self.tokens.renewing();
    }

    /// Renews the token before it ends. A failure leaves the old one in use.
    pub async fn renew(&self) {
        if let Err(outcome) = self.tokens.renew(self.fetch()).await {
            tracing::warn!(
                ?outcome,
                "failed to renew the token of a platform; the old one stays in use"
            );
        }
    }

    async fn token(&self, refused: Option<&Arc<Token>>) -> Result<Arc<Token>, Outcome> {
        self.tokens.get(refused, self.fetch()).await
    }

    async fn fetch(&self) -> Result<Grant, Outcome> {
        let assertion = self.credentials.assertion(&self.url, Timestamp::now());
        let assertion = assertion.map_err(|error| Outcome::Unauthorized(error.to_string()))?;
        let url = format!("{}{TOKEN_PATH}", self.url);
        let headers = [("user-agent", USER_AGENT.to_owned())];
        let web = self.web.within(REQUEST);
        let form = [
            ("grant_type", JWT_BEARER),
            ("assertion", assertion.expose().as_str()),
        ];
        let answer = self.call(web.post_form(&url, &headers, &form)).await?;
        if answer.status.as_u16() != 200 {
            return Err(match outcome(&answer) {
                // Whatever the word, there is no token without this answer.
                Outcome::Refused(status, why) => {
                    Outcome::Unauthorized(format!("{TOKEN_PATH} answers {status}: {why}"))
                }
                Outcome::Accepted => {
                    Outcome::Unauthorized(format!("{TOKEN_PATH} answers {}", answer.status.as_u16()))
                }
                other => other,
            });
        }
        let body: Result<TokenResponse, _> = serde_json::from_slice(answer.body.expose());
        match body {
            Ok(body) if !body.access_token.is_empty() => Ok(Grant {
                text: Secret::new(body.access_token),
                expires_in: body.expires_in.filter(|seconds| *seconds > 0),
            }),
            _ => Err(Outcome::Unauthorized(format!(
                "{TOKEN_PATH} answers without an access_token"
            ))),
        }
    }

    async fn exchange(&self, call: &Call, head: &SnapshotHead, token: &Token) -> Outcome {
        let headers = [
            ("content-type", "application/json".to_owned()),
            ("authorization", format!("Bearer {}", token.text.expose())),
            ("user-agent", USER_AGENT.to_owned()),
        ];
        let answer = match call {
            Call::Heartbeat => {
                let body = HeartbeatPayload {
                    cluster_uid: head.cluster_uid.clone(),
                    agent_version: head.agent_version.clone(),
                };
                self.post(HEARTBEAT_PATH, &headers, serde_json::to_vec(&body))
                    .await
            }
            Call::Event(record) => self.post(EVENTS_PATH, &headers, event(record, head)).await,
            Call::Snapshot(snapshot) => self.snapshot(snapshot, head, &headers).await,
        };
        match answer {
            Ok(answer) => outcome(&answer),
            Err(outcome) => outcome,
        }
    }

    async fn post(
        &self,
        path: &str,
        headers: &[(&'static str, String)],
        body: serde_json::Result<Vec<u8>>,
    ) -> Result<Answer, Outcome> {
        let body = Bytes::from(body.map_err(|_| Outcome::Refused(0, "it cannot be written as JSON".into()))?);
        let (url, web) = (format!("{}{path}", self.url), self.web.within(REQUEST));
        self.call(web.post(&url, headers, body)).await
    }

    async fn snapshot(
        &self,
        snapshot: &Arc<Snapshot>,
        head: &SnapshotHead,
        headers: &[(&'static str, String)],
    ) -> Result<Answer, Outcome> {
        let (url, web) = (format!("{}{SNAPSHOT_PATH}", self.url), self.web.within(SNAPSHOT));
        let length = snapshot.body_length(head);
        let body = stream::iter(snapshot.body(head).map(Bytes::from));
        self.call(web.post_stream(&url, headers, length, body)).await
    }

    /// One exchange; what came of it where there is no answer. The breaker and the deadline of outside calls hold.
    async fn call(
        &self,
        exchange: impl Future<Output = Result<Answer, WebError>> + Send,
    ) -> Result<Answer, Outcome> {
        // The target makes no second attempt: the sender decides what is sent again.
        let once = Mutex::new(Some(exchange));
        let answered = self.outside.call_alone(|_| {
            let exchange = once.lock().unwrap_or_else(PoisonError::into_inner).take();
            async move {
                let exchange = exchange.ok_or_else(|| Fault::rejected("an exchange is made once"))?;
                judged(answer(exchange.await)?)
            }
        });
        answered.await.map_err(|error| failed(&error))
    }
}

/// An answer whose body is beyond the limit counts by its status: the platform may well have done what it was asked to.
fn answer(answered: Result<Answer, WebError>) -> Result<Answer, Fault> {
    let too_large = |status| Answer {
        status,
        headers: http::HeaderMap::new(),
        body: Secret::new(Vec::new()),
    };
    match answered {
        Err(WebError::TooLarge { status }) => http::StatusCode::from_u16(status)
            .map(too_large)
            .map_err(Fault::rejected),
        other => other.map_err(WebError::into_fault),
    }
}

/// An answer that says that the platform is away or busy is a fault of the platform; any other is read by its meaning.
fn judged(answer: Answer) -> Result<Answer, Fault> {
    match Fault::from_answer(answer.status, &answer.headers, Timestamp::now()) {
        Some(fault) if fault.kind() == FaultKind::Throttled || fault.kind().speaks_against_target() => {
            Err(fault)
        }
        _ => Ok(answer),
    }
}

/// The HTTP client that a spec asks for.
pub(crate) fn web(spec: &ObsykAgentSpec) -> Result<Web, String> {
    let proxy = match &spec.proxy_url {
        Some(url) => Proxy::Url(url.clone().into()),
        None => Proxy::FromEnvironment,
    };
    let options = WebOptions {
        ca_bundle: spec.ca_bundle.as_deref(),
        proxy,
        connect: Duration::from_secs(10),
        total: REQUEST,
        largest_answer: LARGEST_ANSWER,
    };
    Web::new(options).map_err(|error| match error {
        WebError::Setting {
            field: "CA bundle",
            problem,
        } => format!("spec.caBundle {problem}"),
        WebError::Setting {
            field: "proxy URL",
            problem,
        } => format!("spec.proxyURL {problem}"),
        other => other.to_string(),
    })
}

/// Checks the URL of a platform; an error names the field and the rule.
pub(crate) fn check_url(url: &str) -> Result<(), String> {
    let rule = "spec.platformURL must be http:// or https://, a host, and perhaps a port and a path, without user, query and fragment";
    let uri: http::Uri = url.parse().map_err(|_| rule.to_owned())?;
    let has_scheme = matches!(uri.scheme_str(), Some("http" | "https"));
    let authority = uri.authority().filter(|authority| !authority.host().is_empty());
    let is_plain = authority.is_some_and(|authority| !authority.as_str().contains('@'));
    match has_scheme && is_plain && uri.query().is_none() && !url.contains('#') {
        true => Ok(()),
        false => Err(rule.to_owned()),
    }
}

fn event(record: &Record, head: &SnapshotHead) -> serde_json::Result<Vec<u8>> {
    let object: Option<&RawValue> = record.object.as_deref().map(serde_json::from_str).transpose()?;
    let uid = record.uid.to_string();
    serde_json::to_vec(&EventPayload {
        cluster_uid: &head.cluster_uid,
        type_: record.type_,
        kind: record.kind.name(),
        uid: &uid,
        name: &record.name.name,
        namespace: record.name.namespace.as_deref(),
        object,
    })
}

/// What an answer means.
fn outcome(answer: &Answer) -> Outcome {
    let status = answer.status.as_u16();
    match status {
        200..=299 => Outcome::Accepted,
        401 => Outcome::Unauthorized(told(answer)),
        403 => Outcome::Forbidden(told(answer)),
        429 => Outcome::Throttled(retry_after(&answer.headers, Timestamp::now())),
        408 | 425 | 500..=599 => Outcome::Unreachable(format!("HTTP status {status}")),
        // A redirection is not followed: the token would go to another host.
        _ => Outcome::Refused(status, told(answer)),
    }
}

/// Why there is no answer.
fn failed(error: &OutsideError) -> Outcome {
    match error.kind() {
        Some(FaultKind::Throttled) => Outcome::Throttled(error.retry_after()),
        Some(FaultKind::Rejected) => Outcome::Refused(0, error.to_string()),
        Some(_) => Outcome::Unreachable(
            error
                .fault()
                .map_or_else(String::new, |fault| fault.cause().to_string()),
        ),
        None => match error.retry_after() {
            Some(wait) => Outcome::Throttled(Some(wait)),
            None => Outcome::Unreachable(error.to_string()),
        },
    }
}

/// The platform's own words, one short line of them. What it says is for people: it is never obeyed.
fn told(answer: &Answer) -> String {
    let text = String::from_utf8_lossy(answer.body.expose());
    let line: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(TOLD)
        .collect();
    match line.trim() {
        "" => format!("HTTP status {}", answer.status.as_u16()),
        line => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_checked_before_they_are_called() {
        for good in [
            "https://hub",
            "http://10.0.0.1:8080",
            "https://hub.example/base/",
            "https://[::1]:8443",
        ] {
            assert_eq!(check_url(good), Ok(()), "{good}");
        }
        for bad in [
            "https://",
            "ftp://hub",
            "https://user:pw@hub",
            "https://hub?x=1",
            "https://hub#a",
            "hub",
            "https://a b",
        ] {
            let error = check_url(bad).unwrap_err();
            assert!(error.starts_with("spec.platformURL must"), "{bad}: {error}");
        }
    }

    #[test]
    fn answers_mean_what_the_contract_says() {
        let of = |status: u16| {
            let answer = Answer {
                status: http::StatusCode::from_u16(status).unwrap(),
                headers: [(http::header::RETRY_AFTER, "7".parse().unwrap())]
                    .into_iter()
                    .collect(),
                body: Secret::new(b"no\nway".to_vec()),
            };
            outcome(&answer)
        };
        assert_eq!(of(202), Outcome::Accepted);
        assert_eq!(of(401), Outcome::Unauthorized("no way".into()));
        assert_eq!(of(403), Outcome::Forbidden("no way".into()));
        assert_eq!(of(429), Outcome::Throttled(Some(Duration::from_secs(7))));
        for status in [408, 425, 500, 503] {
            assert!(matches!(of(status), Outcome::Unreachable(_)), "{status}");
        }
        for status in [301, 400, 404, 409, 413, 422] {
            assert_eq!(of(status), Outcome::Refused(status, "no way".into()));
        }
    }
}
