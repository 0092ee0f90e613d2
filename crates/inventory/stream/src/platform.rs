//! The requests to a platform: the four paths of the Obsyk operator.

mod answers;

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
use trustplane_process::outside::{Fault, Outside, Retry};
use trustplane_process::secret::Secret;
use trustplane_process::web::{Answer, Proxy, Web, WebError, WebOptions};

use crate::credentials::Credentials;
use crate::token::{Grant, Token, Tokens};

use answers::{answer, failed, judged, no_token, outcome};

/// How long one request may take.
const REQUEST: Duration = Duration::from_secs(30);
/// How long a snapshot may take: it may be large.
const SNAPSHOT: Duration = Duration::from_secs(300);
/// An answer of a platform is small; its body is read only to tell people why it refused.
const LARGEST_ANSWER: usize = 64 << 10;

/// What the Obsyk operator calls itself; a platform may know agents by it.
const USER_AGENT: &str = "obsyk-operator/1.0";

/// A platform, and how it is reached.
pub(crate) struct Platform {
    /// As the spec has it: the audience of assertions is exactly this.
    url: String,
    cluster_name: String,
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
            cluster_name: spec.cluster_name.clone(),
            credentials,
            tokens: Tokens::default(),
            web,
            outside: Outside::builder("inventory-platform")
                .deadline(SNAPSHOT)
                .retry(Retry::NEVER)
                .build(metrics),
        })
    }

    /// Makes a request: with a new token once more if the platform refuses the token. `head` names the cluster.
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

    /// The name of this cluster at the platform.
    pub fn cluster_name(&self) -> &str {
        &self.cluster_name
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
            return Err(no_token(&answer));
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
    let rule = "spec.platformURL must be http:// or https://, a host, and perhaps a port (0 to 65535) and a path, without user, query and fragment";
    Web::check_url(url).map_err(|_| rule.to_owned())?;
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

#[cfg(test)]
mod tests;
