//! Requests whose body the test sends piece by piece.

use std::convert::Infallible;

use anyhow::Result;
use bytes::Bytes;
use http::Request;
use http_body_util::StreamBody;
use hyper::body::Frame;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::harness::{Agent, TestHub};

/// A request whose body is sent piece by piece.
pub struct Pieces {
    pub sender: mpsc::Sender<Result<Frame<Bytes>, Infallible>>,
    pub answer: JoinHandle<Result<u16>>,
}

impl Pieces {
    pub async fn begin(hub: &TestHub, agent: &Agent, path: &str) -> Result<Self> {
        let (sender, pieces) = mpsc::channel(1);
        let body = futures::stream::unfold(pieces, async |mut pieces| Some((pieces.recv().await?, pieces)));
        let peer = hub.agents();
        let request = Request::post(format!("/api/v1/agent/{path}"))
            .header("host", peer.host())
            .header("authorization", format!("Bearer {}", agent.token))
            .body(StreamBody::new(Box::pin(body)))?;
        let mut connection = peer.connect().await?;
        let answer = tokio::spawn(async move {
            let response = connection.send_request(request).await?;
            Ok(response.status().as_u16())
        });
        Ok(Self { sender, answer })
    }

    pub async fn send(&self, text: impl Into<Bytes>) -> Result<()> {
        self.sender.send(Ok(Frame::data(text.into()))).await?;
        Ok(())
    }

    pub async fn end(self) -> Result<u16> {
        drop(self.sender);
        self.answer.await?
    }
}
