//! Requests as a person sends them with kubectl, and everything that kubectl shows of the answers.

use std::fmt;

use anyhow::{Context, Result, ensure};
use http::header::{CONTENT_TYPE, WARNING};
use http::{Method, Request};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use trustplane_api::identity::names::SINGLETON;
use trustplane_plan::Kind;

/// A request to write one of the five objects, or a part of it.
#[derive(Debug, Clone)]
pub struct Ask {
    method: Method,
    pub kind: Kind,
    path: String,
    content: &'static str,
    pub body: Value,
}

impl Ask {
    /// To make the object.
    pub fn create(kind: &Kind, spec: Value) -> Self {
        let body = object(kind, spec);
        Self::new(Method::POST, kind, "", "application/json", body)
    }

    /// To make the object or to change it, as `kubectl apply --server-side` does.
    pub fn apply(kind: &Kind, spec: Value) -> Self {
        let (path, body) = (format!("/{SINGLETON}"), object(kind, spec));
        Self::new(Method::PATCH, kind, &path, "application/apply-patch+yaml", body)
    }

    /// To put an object in the place of the present one, as `kubectl replace` does: with nothing of it but its version.
    pub fn replace(kind: &Kind, spec: Value, present: &Value) -> Self {
        let (path, mut body) = (format!("/{SINGLETON}"), object(kind, spec));
        body["metadata"]["resourceVersion"] = present["metadata"]["resourceVersion"].clone();
        Self::new(Method::PUT, kind, &path, "application/json", body)
    }

    /// To change the object by a merge patch.
    pub fn patch(kind: &Kind, patch: Value) -> Self {
        let path = format!("/{SINGLETON}");
        Self::new(Method::PATCH, kind, &path, "application/merge-patch+json", patch)
    }

    /// To change the spec of the object by a merge patch.
    pub fn edit(kind: &Kind, spec: Value) -> Self {
        Self::patch(kind, json!({ "spec": spec }))
    }

    /// To change the status of the object by a merge patch.
    pub fn status(kind: &Kind, status: Value) -> Self {
        let (path, patch) = (format!("/{SINGLETON}/status"), json!({ "status": status }));
        Self::new(Method::PATCH, kind, &path, "application/merge-patch+json", patch)
    }

    /// To delete the object.
    pub fn delete(kind: &Kind, propagation: &str) -> Self {
        let how = json!({ "kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": propagation });
        Self::new(
            Method::DELETE,
            kind,
            &format!("/{SINGLETON}"),
            "application/json",
            how,
        )
    }

    fn new(method: Method, kind: &Kind, path: &str, content: &'static str, body: Value) -> Self {
        Self {
            method,
            kind: kind.clone(),
            path: format!("/apis/{}/{}{path}", kind.api_version(), kind.plural),
            content,
            body,
        }
    }

    /// Whether it makes the object.
    pub fn is_creation(&self) -> bool {
        self.method == Method::POST
    }
}

impl fmt::Display for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.method, self.path, self.body)
    }
}

fn object(kind: &Kind, spec: Value) -> Value {
    json!({
        "apiVersion": kind.api_version(), "kind": kind.kind, "metadata": { "name": SINGLETON }, "spec": spec,
    })
}

/// What the API server has answered.
#[derive(Debug, Clone)]
pub struct Answer {
    pub code: u16,
    /// The object, or the status of a failure.
    pub body: Value,
    pub warnings: Vec<String>,
    asked: String,
}

impl Answer {
    /// The object as it is stored, unless the request has failed.
    pub fn passed(self) -> Result<Self> {
        let Self {
            code, body, asked, ..
        } = &self;
        ensure!((200..300).contains(code), "{asked} should pass: {code} {body}");
        Ok(self)
    }

    /// The words of a failure with this code.
    pub fn failed(&self, code: u16) -> Result<&str> {
        let Self { body, asked, .. } = self;
        ensure!(
            self.code == code,
            "{asked} should fail with {code}: {} {body}",
            self.code
        );
        body["message"].as_str().context("a failure without words")
    }

    /// What admission has to do with: the rest differs between a dry run and the real thing.
    pub fn essence(&self) -> Value {
        let metadata = &self.body["metadata"];
        json!({
            "code": self.code, "message": self.body["message"], "warnings": self.warnings, "spec": self.body["spec"],
            "annotations": metadata["annotations"], "ownerReferences": metadata["ownerReferences"],
        })
    }
}

/// Whoever asks.
#[derive(Clone)]
pub struct Hand(pub Client);

impl Hand {
    /// Sends a request.
    pub async fn ask(&self, ask: &Ask) -> Result<Answer> {
        self.send(ask, "").await
    }

    /// Sends a request as a dry run.
    pub async fn rehearse(&self, ask: &Ask) -> Result<Answer> {
        self.send(ask, "&dryRun=All").await
    }

    /// Reads one of the five objects, if it exists.
    pub async fn read(&self, kind: &Kind) -> Result<Option<Value>> {
        let path = format!("/{SINGLETON}");
        let read = Ask::new(Method::GET, kind, &path, "application/json", Value::Null);
        let answer = self.ask(&read).await?;
        if answer.code == 404 {
            return Ok(None);
        }
        Ok(Some(answer.passed()?.body))
    }

    async fn send(&self, ask: &Ask, more: &str) -> Result<Answer> {
        let strict = match ask.method {
            Method::POST | Method::PUT | Method::PATCH => "fieldManager=kubectl&fieldValidation=Strict",
            _ => "",
        };
        let request = Request::builder()
            .method(ask.method.clone())
            .uri(format!("{}?{strict}{more}", ask.path))
            .header(CONTENT_TYPE, ask.content)
            .body(Body::from(ask.body.to_string().into_bytes()))?;
        let answer = self.0.send(request).await.with_context(|| ask.to_string())?;
        let warnings = answer.headers().get_all(WARNING).iter();
        let warnings: Vec<_> = warnings
            .filter_map(|header| warning(header.to_str().ok()?))
            .collect();
        let code = answer.status().as_u16();
        let body = answer.into_body().collect_bytes().await?;
        Ok(Answer {
            code,
            body: serde_json::from_slice(&body).with_context(|| ask.to_string())?,
            warnings,
            asked: ask.to_string(),
        })
    }
}

/// The text of a header such as `299 - "look"`.
fn warning(header: &str) -> Option<String> {
    let text = header.strip_prefix("299 - \"")?.strip_suffix('"')?;
    Some(text.replace("\\\"", "\"").replace("\\\\", "\\"))
}
