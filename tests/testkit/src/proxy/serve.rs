//! The server side of the proxy: one request from arrival to answer.

use std::convert::Infallible;
use std::io;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use anyhow::{Result, anyhow};
use bytes::Bytes;
use futures::TryStreamExt;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER, TRANSFER_ENCODING};
use http::request::Parts;
use http::response;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::Response;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};

use super::events::{Events, Horizon};
use super::fault::{Answer, Fault, Moment, Twist};
use super::flight::Flight;
use super::request::{Request, Verb};
use super::{Shared, past};

type Body = BoxBody<Bytes, io::Error>;

pub(super) async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    // Dropped with this future: no connection outlives its proxy.
    let mut connections = tokio::task::JoinSet::new();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                connections.spawn(serve(stream, shared.clone()));
            }
            Err(error) => {
                tracing::warn!("the fault proxy could not accept a connection: {error}");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
        while connections.try_join_next().is_some() {}
    }
}

async fn serve(stream: TcpStream, shared: Arc<Shared>) {
    let cut = shared
        .connections
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clone();
    let _ = stream.set_nodelay(true);
    let service = service_fn({
        let shared = shared.clone();
        move |request| handle(shared.clone(), request)
    });
    let connection =
        hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    tokio::select! {
        () = cut.cancelled() => {}
        // An error is the fault that was asked for, or a client that has gone.
        _ = connection => {}
    }
}

/// An error makes hyper break the connection without an answer.
async fn handle(shared: Arc<Shared>, request: hyper::Request<Incoming>) -> Result<Response<Body>> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    let request = Request::new(&parts.method, &parts.uri, &parts.headers);
    let exchange = Exchange {
        index: shared.journal.arrive(request.clone(), body.clone()),
        flight: shared.flights.begin(&request),
        shared,
        request,
        parts,
        body,
    };
    let flight = exchange.flight.clone();
    tokio::select! {
        () = flight.cut() => Err(anyhow!("injected fault: the connection breaks")),
        answer = exchange.answer() => answer,
    }
}

struct Exchange {
    shared: Arc<Shared>,
    request: Request,
    parts: Parts,
    body: Bytes,
    index: usize,
    flight: Arc<Flight>,
}

impl Exchange {
    async fn answer(self) -> Result<Response<Body>> {
        self.shared.thawed().await;
        match self.shared.fault(&self.request) {
            None | Some(Fault::Events(..)) => self.pass().await,
            Some(Fault::Answer(answer)) => self.injected(&answer),
            Some(Fault::Delay(time)) => {
                tokio::time::sleep(time).await;
                self.pass().await
            }
            Some(Fault::Hold(gate)) => {
                gate.passed().await;
                self.pass().await
            }
            Some(Fault::Cut) => Err(anyhow!("injected fault: the connection breaks")),
            Some(Fault::CutAnswer) => {
                self.take_effect().await?;
                Err(anyhow!("injected fault: the answer is lost"))
            }
            Some(Fault::Twist(twist)) => self.twisted(twist).await,
            Some(Fault::Freeze | Fault::Halt(Moment::Before)) => std::future::pending().await,
            Some(Fault::FreezeAnswer | Fault::Halt(Moment::After)) => {
                self.take_effect().await?;
                std::future::pending().await
            }
            Some(Fault::Past {
                resource_version,
                gate,
            }) => {
                let horizon = Horizon {
                    resource_version: resource_version.parse()?,
                    gate,
                };
                self.past(&resource_version, horizon).await
            }
        }
    }

    /// Sends the request on and gives the answer back.
    async fn pass(self) -> Result<Response<Body>> {
        self.shared.journal.sent(self.index);
        let answer = self
            .shared
            .upstream
            .forward(&self.parts, self.body.clone())
            .await?;
        self.give_back(answer, Vec::new(), None).await
    }

    /// Sends the request on and reads the whole answer, so that it has surely taken effect.
    async fn take_effect(&self) -> Result<()> {
        self.shared.journal.sent(self.index);
        let answer = self
            .shared
            .upstream
            .forward(&self.parts, self.body.clone())
            .await?;
        self.shared.journal.answered(self.index, answer.status().as_u16());
        answer.into_body().collect().await?;
        Ok(())
    }

    /// Sends the request on, and gives something else back.
    async fn twisted(self, twist: Twist) -> Result<Response<Body>> {
        self.shared.journal.sent(self.index);
        let upstream = &self.shared.upstream;
        let answer = upstream.forward(&self.parts, self.body.clone()).await?;
        let code = answer.status().as_u16();
        self.shared.journal.answered(self.index, code);
        let body = answer.into_body().collect().await?.to_bytes();
        let body = match twist {
            Twist::Truncated => body.slice(..body.len().saturating_sub(3)),
            Twist::Garbage => [b"<html>".as_slice(), &body, b"</html>"].concat().into(),
            Twist::List => {
                let path = self.parts.uri.path();
                let (collection, _) = path.rsplit_once('/').unwrap_or((path, ""));
                upstream.read(&self.parts, collection).await?.1
            }
        };
        Ok(json_response(code, body)?)
    }

    async fn past(self, version: &str, horizon: Horizon) -> Result<Response<Body>> {
        let upstream = &self.shared.upstream;
        if self.request.verb != Verb::Watch {
            let (code, body) = past::read(upstream, &self.parts, &self.request, version).await?;
            self.shared.journal.answered(self.index, code);
            return Ok(json_response(code, body)?);
        }
        let (first, answer) = if past::wants_initial_events(&self.request) {
            let first = past::initial_events(upstream, &self.parts, &self.request, version).await?;
            let target = past::from(&self.request, version);
            (first, upstream.forward_to(&self.parts, &target).await?)
        } else {
            (Vec::new(), upstream.forward(&self.parts, Bytes::new()).await?)
        };
        self.give_back(answer, first, Some(horizon)).await
    }

    async fn give_back(
        self,
        answer: Response<Incoming>,
        first: Vec<Bytes>,
        horizon: Option<Horizon>,
    ) -> Result<Response<Body>> {
        let (parts, body) = answer.into_parts();
        self.shared.journal.answered(self.index, parts.status.as_u16());
        if self.request.verb == Verb::Watch && parts.status.is_success() {
            let events = Events::new(self.shared, self.request, self.flight, body, first, horizon);
            let stream = StreamBody::new(events.into_stream().into_stream());
            return Ok(response(&parts, BodyExt::boxed(stream))?);
        }
        let body = body.collect().await?.to_bytes();
        self.shared.thawed().await;
        Ok(response(&parts, whole(body))?)
    }

    fn injected(&self, answer: &Answer) -> Result<Response<Body>> {
        self.shared.journal.answered(self.index, answer.code);
        let mut response = json_response(answer.code, answer.status().to_string().into())?;
        if let Some(seconds) = answer.retry_after {
            response.headers_mut().insert(RETRY_AFTER, seconds.into());
        }
        Ok(response)
    }
}

fn response(from: &response::Parts, body: Body) -> http::Result<Response<Body>> {
    let mut response = Response::builder().status(from.status).body(body)?;
    *response.headers_mut() = from.headers.clone();
    for hop in [TRANSFER_ENCODING, CONTENT_LENGTH] {
        response.headers_mut().remove(hop);
    }
    Ok(response)
}

fn json_response(code: u16, body: Bytes) -> http::Result<Response<Body>> {
    Response::builder()
        .status(code)
        .header(CONTENT_TYPE, "application/json")
        .body(whole(body))
}

fn whole(body: Bytes) -> Body {
    Full::new(body)
        .map_err(|never: Infallible| match never {})
        .boxed()
}
