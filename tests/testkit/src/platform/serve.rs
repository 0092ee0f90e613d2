//! The server side of a platform: one request from arrival to answer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use bytes::Bytes;
use http::header::{
    AUTHORIZATION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderName, RETRY_AFTER, USER_AGENT,
};
use http::request::Parts;
use http::{HeaderMap, Method};
use http_body_util::{BodyExt, Full};
use hyper::Response;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::grant::NoToken;
use super::payload::{self, Change, Snapshot, Subject};
use super::script::Fault;
use super::state::{Endpoint, Entry};
use super::{Inner, Shared};

/// What every agent calls itself.
const AGENT: &str = "obsyk-operator/1.0";

/// Serves until it is stopped. Afterwards nothing listens and no connection is left.
pub(super) async fn accept(listener: TcpListener, shared: Arc<Shared>, stop: CancellationToken) {
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                connections.spawn(connection(stream, shared.clone()));
            }
            Err(error) => {
                tracing::warn!("the platform could not accept a connection: {error}");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
        while connections.try_join_next().is_some() {}
    }
    // Before the connections end: a client that comes back at once must not be let in.
    drop(listener);
    connections.shutdown().await;
}

async fn connection(stream: TcpStream, shared: Arc<Shared>) {
    let _ = stream.set_nodelay(true);
    match shared.tls.clone() {
        // An agent that does not trust the certificate ends the handshake; that is for the test to notice.
        Some(tls) => {
            if let Ok(stream) = tls.accept(stream).await {
                serve(stream, shared).await;
            }
        }
        None => serve(stream, shared).await,
    }
}

async fn serve(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, shared: Arc<Shared>) {
    let service = service_fn(move |request| handle(shared.clone(), request));
    let http = hyper::server::conn::http1::Builder::new();
    // An error is the fault that was asked for, or a client that has gone.
    let _ = http.serve_connection(TokioIo::new(stream), service).await;
}

/// An error makes hyper break the connection without an answer.
async fn handle(shared: Arc<Shared>, request: hyper::Request<Incoming>) -> Result<Response<Full<Bytes>>> {
    let received = Instant::now();
    let (parts, body) = request.into_parts();
    let (endpoint, faults) = examine(&shared, &parts);
    for fault in faults {
        let what = format!("{} {}: {fault}", parts.method, parts.uri);
        shared.change(|inner| inner.state.violate(what));
    }
    let Some(endpoint) = endpoint else {
        return respond(404, None, &json!({ "error": "not_found" }));
    };
    let _flight = Flight::begin(&shared, endpoint);
    let Ok(body) = body.collect().await else {
        shared.change(|inner| inner.state.broke_off());
        return Err(anyhow!("the request broke off"));
    };
    let exchange = Exchange {
        body: body.to_bytes(),
        endpoint,
        headers: parts.headers,
        shared: shared.clone(),
    };
    exchange.run(received).await
}

/// Which path it is, and everything about the head that the contract does not know.
fn examine(shared: &Shared, parts: &Parts) -> (Option<Endpoint>, Vec<String>) {
    let audience = shared.inner().grants.audience.clone();
    // Agents append the path to the URL as it was written.
    let host = audience.split_once("://").map_or("", |(_, rest)| rest);
    let below = host.find('/').map_or("", |at| &host[at..]);
    let path = parts.uri.path().strip_prefix(below);
    let endpoint = Endpoint::ALL.into_iter().find(|known| Some(known.path()) == path);
    let Some(endpoint) = endpoint.filter(|_| parts.uri.query().is_none()) else {
        return (None, vec!["is no path of the seed".to_owned()]);
    };
    if parts.method != Method::POST {
        return (None, vec!["is no method of the seed".to_owned()]);
    }
    let mut faults = Vec::new();
    let mut expect = |name: HeaderName, wanted: Option<&str>| {
        let found = parts
            .headers
            .get(&name)
            .map(|value| value.to_str().unwrap_or("no text"));
        if found != wanted {
            faults.push(format!("{name} is {found:?} and should be {wanted:?}"));
        }
    };
    let kind = match endpoint {
        Endpoint::Token => "application/x-www-form-urlencoded",
        _ => "application/json",
    };
    expect(CONTENT_TYPE, Some(kind));
    expect(USER_AGENT, Some(AGENT));
    expect(CONTENT_ENCODING, None);
    if endpoint == Endpoint::Token {
        expect(AUTHORIZATION, None);
    }
    (Some(endpoint), faults)
}

/// A request under way.
struct Flight {
    shared: Arc<Shared>,
    endpoint: Endpoint,
}

impl Flight {
    fn begin(shared: &Arc<Shared>, endpoint: Endpoint) -> Self {
        shared.change(|inner| inner.state.begin(endpoint));
        Self {
            shared: shared.clone(),
            endpoint,
        }
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.shared.change(|inner| inner.state.end(self.endpoint));
    }
}

struct Exchange {
    shared: Arc<Shared>,
    endpoint: Endpoint,
    headers: HeaderMap,
    body: Bytes,
}

impl Exchange {
    async fn run(self, received: Instant) -> Result<Response<Full<Bytes>>> {
        let entry = self.entry(received);
        let (index, fault) = self.shared.change(|inner| {
            let mut scripts = inner.scripts.iter();
            let struck = scripts.find(|script| script.on().matches(&entry) && script.strike());
            let fault = struck.map(|script| script.fault().clone());
            (inner.state.arrive(entry), fault)
        });
        match fault {
            None => self.take(index).await,
            Some(Fault::Answer { status, retry_after }) => {
                self.shared.change(|inner| inner.state.answered(index, status));
                respond(status, retry_after, &json!({ "error": "injected_fault" }))
            }
            Some(Fault::Delay(time)) => {
                tokio::time::sleep(time).await;
                self.take(index).await
            }
            Some(Fault::Hold(gate)) => {
                gate.passed().await;
                self.take(index).await
            }
            Some(Fault::Hang) => std::future::pending().await,
            Some(Fault::HangAnswer) => {
                self.take_unheard().await?;
                std::future::pending().await
            }
            Some(Fault::Cut) => Err(anyhow!("injected fault: the connection breaks")),
            Some(Fault::CutAnswer) => {
                self.take_unheard().await?;
                Err(anyhow!("injected fault: the answer is lost"))
            }
        }
    }

    fn entry(&self, received: Instant) -> Entry {
        let subject = match self.endpoint {
            Endpoint::Events => serde_json::from_slice(&self.body).unwrap_or_default(),
            _ => Subject::default(),
        };
        let announced = self.headers.get(CONTENT_LENGTH);
        Entry {
            endpoint: self.endpoint,
            uid: subject.uid,
            kind: subject.kind,
            type_: subject.type_,
            received,
            answered: None,
            status: None,
            content_length: announced.and_then(|length| length.to_str().ok()?.parse().ok()),
            length: self.body.len(),
            body: match self.shared.settings.keep_bodies {
                true => self.body.clone(),
                false => Bytes::new(),
            },
        }
    }

    /// Lets the request take effect and answers it, in one step: who sees the effect sees the answer.
    async fn take(&self, index: usize) -> Result<Response<Full<Bytes>>> {
        if let Some(answer) = self.forward().await? {
            let status = answer.status().as_u16();
            self.shared.change(|inner| inner.state.answered(index, status));
            return Ok(answer);
        }
        let (status, answer) = self.shared.change(|inner| {
            let (status, answer) = self.effect(inner);
            inner.state.answered(index, status);
            (status, answer)
        });
        respond(status, None, &answer)
    }

    /// Lets the request take effect, and answers nothing.
    async fn take_unheard(&self) -> Result<()> {
        if self.forward().await?.is_none() {
            self.shared.change(|inner| self.effect(inner));
        }
        Ok(())
    }

    /// The answer of the platform behind this one, if there is one.
    async fn forward(&self) -> Result<Option<Response<Full<Bytes>>>> {
        let Some(upstream) = self.shared.inner().upstream.clone() else {
            return Ok(None);
        };
        let sent = upstream.send(self.endpoint, &self.headers, self.body.clone());
        let answer = sent.await?;
        if answer.status().is_success() {
            self.shared.change(|inner| inner.state.accept(self.endpoint));
        }
        Ok(Some(answer))
    }

    /// Lets the request take effect; gives status and body of the answer.
    fn effect(&self, inner: &mut Inner) -> (u16, Value) {
        let Ok(text) = std::str::from_utf8(&self.body) else {
            return self.violated(inner, "the body is no text");
        };
        if self.endpoint == Endpoint::Token {
            return self.token(inner, text);
        }
        let authorization = self
            .headers
            .get(AUTHORIZATION)
            .and_then(|value| value.to_str().ok());
        if !inner.grants.is_good(authorization) {
            return (401, json!({ "error": "invalid_token" }));
        }
        let state = &mut inner.state;
        let done = match self.endpoint {
            Endpoint::Token => Ok(()),
            Endpoint::Snapshot => Snapshot::read(text)
                .map(|snapshot| state.apply_snapshot(snapshot, self.shared.settings.snapshots)),
            Endpoint::Events => Change::read(text).map(|change| state.apply_change(change)),
            Endpoint::Heartbeat => payload::heartbeat(text).map(|cluster| state.meet(cluster)),
        };
        match done {
            Ok(()) => {
                state.accept(self.endpoint);
                (200, json!({ "status": "ok" }))
            }
            Err(why) => self.violated(inner, &why),
        }
    }

    fn token(&self, inner: &mut Inner, form: &str) -> (u16, Value) {
        match inner.grants.exchange(form, Timestamp::now().as_second()) {
            Ok(answer) => {
                inner.state.accept(Endpoint::Token);
                (200, answer)
            }
            Err(NoToken::Violation(why)) => self.violated(inner, &why),
            Err(NoToken::Refused(why)) => {
                inner.state.refuse(why);
                (401, json!({ "error": "invalid_client" }))
            }
        }
    }

    fn violated(&self, inner: &mut Inner, why: &str) -> (u16, Value) {
        inner
            .state
            .violate(format!("POST {}: {why}", self.endpoint.path()));
        (
            400,
            json!({ "error": "invalid_request", "error_description": why }),
        )
    }
}

fn respond(status: u16, retry_after: Option<u32>, body: &Value) -> Result<Response<Full<Bytes>>> {
    let mut response = Response::builder()
        .status(status)
        .header(CONTENT_TYPE, "application/json")
        .body(Full::from(body.to_string()))?;
    if let Some(seconds) = retry_after {
        response.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    Ok(response)
}
