//! A watch on its way through the proxy, event by event.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures::Stream;
use http_body_util::BodyExt;
use hyper::body::{Frame, Incoming};
use serde_json::Value;

use super::Shared;
use super::fault::{Answer, EventFault, Gate};
use super::flight::Flight;
use super::request::Request;

/// Holds back what is newer than a moment in the past.
#[derive(Debug, Clone)]
pub(super) struct Horizon {
    pub(super) resource_version: u64,
    pub(super) gate: Gate,
}

pub(super) struct Events {
    shared: Arc<Shared>,
    request: Request,
    flight: Arc<Flight>,
    upstream: Incoming,
    buffer: BytesMut,
    /// Whole lines that came and were not looked at yet.
    lines: VecDeque<Bytes>,
    /// Lines that may go out.
    ready: VecDeque<Bytes>,
    swapped: Option<Bytes>,
    horizon: Option<Horizon>,
    end: Option<End>,
}

#[derive(Debug, Clone, Copy)]
enum End {
    Closed,
    Cut,
    Frozen,
}

impl Events {
    pub(super) fn new(
        shared: Arc<Shared>,
        request: Request,
        flight: Arc<Flight>,
        upstream: Incoming,
        first: Vec<Bytes>,
        horizon: Option<Horizon>,
    ) -> Self {
        Self {
            shared,
            request,
            flight,
            upstream,
            buffer: BytesMut::new(),
            lines: first.into(),
            ready: VecDeque::new(),
            swapped: None,
            horizon,
            end: None,
        }
    }

    pub(super) fn into_stream(self) -> impl Stream<Item = io::Result<Frame<Bytes>>> {
        futures::stream::unfold(self, |mut events| async move {
            let flight = events.flight.clone();
            let next = tokio::select! {
                () = flight.cut() => Some(Err(broken())),
                next = events.next() => next,
            };
            next.map(|line| (line.map(Frame::data), events))
        })
    }

    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        loop {
            if let Some(line) = self.ready.pop_front() {
                self.shared.thawed().await;
                return Some(Ok(line));
            }
            match self.end {
                Some(End::Closed) => return None,
                Some(End::Cut) => return Some(Err(broken())),
                Some(End::Frozen) => std::future::pending().await,
                None => {}
            }
            if let Some(line) = self.lines.pop_front() {
                self.pass(line).await;
            } else {
                self.read().await;
            }
        }
    }

    async fn read(&mut self) {
        match self.upstream.frame().await {
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    self.buffer.extend_from_slice(&data);
                }
                while let Some(newline) = self.buffer.iter().position(|byte| *byte == b'\n') {
                    self.lines.push_back(self.buffer.split_to(newline + 1).freeze());
                }
            }
            Some(Err(_)) => self.end = Some(End::Cut),
            None => {
                self.ready.extend(self.swapped.take());
                self.end = Some(End::Closed);
            }
        }
    }

    /// Does to one event what the script wants.
    async fn pass(&mut self, line: Bytes) {
        let event: Value = serde_json::from_slice(&line).unwrap_or_default();
        self.wait_at_horizon(&event).await;
        match self.shared.event_fault(&self.request, &event) {
            None => self.deliver(line),
            Some(EventFault::Drop) => {}
            Some(EventFault::Delay(time)) => {
                tokio::time::sleep(time).await;
                self.deliver(line);
            }
            Some(EventFault::Hold(gate)) => {
                gate.passed().await;
                self.deliver(line);
            }
            Some(EventFault::Duplicate) => {
                self.ready.push_back(line.clone());
                self.deliver(line);
            }
            Some(EventFault::Swap) => {
                if let Some(earlier) = self.swapped.replace(line) {
                    self.ready.push_back(earlier);
                }
            }
            Some(EventFault::Expire) => {
                let error = serde_json::json!({"type": "ERROR", "object": Answer::expired().status()});
                self.ready.push_back(format!("{error}\n").into());
                self.end = Some(End::Closed);
            }
            Some(EventFault::Cut) => self.end = Some(End::Cut),
            Some(EventFault::Freeze) => self.end = Some(End::Frozen),
        }
    }

    fn deliver(&mut self, line: Bytes) {
        self.ready.push_back(line);
        self.ready.extend(self.swapped.take());
    }

    async fn wait_at_horizon(&self, event: &Value) {
        let Some(horizon) = &self.horizon else { return };
        let version = event["object"]["metadata"]["resourceVersion"].as_str();
        let newer = version
            .and_then(|version| version.parse::<u64>().ok())
            .is_some_and(|version| version > horizon.resource_version);
        if newer {
            horizon.gate.passed().await;
        }
    }
}

fn broken() -> io::Error {
    io::Error::new(
        io::ErrorKind::ConnectionReset,
        "injected fault: the connection breaks",
    )
}
