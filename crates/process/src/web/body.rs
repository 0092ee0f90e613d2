//! The body of a request that is made while it is sent.

use std::pin::Pin;
use std::sync::Mutex;
use std::task::{Context, Poll, ready};

use futures::Stream;
use futures::stream::BoxStream;
use hyper::body::{Body, Bytes, Frame, SizeHint};

/// A stream of exactly as many bytes as were announced.
pub(super) struct SizedBody {
    left: u64,
    /// The client wants a body that threads can share; the lock is never taken.
    stream: Mutex<BoxStream<'static, Bytes>>,
}

/// The stream did not keep to its announced length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.text())]
pub(super) enum LengthError {
    Short,
    Long,
}

impl LengthError {
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Short => "the body of the request ended before its announced length",
            Self::Long => "the body of the request is longer than announced",
        }
    }
}

impl SizedBody {
    pub(super) fn new(length: u64, stream: impl Stream<Item = Bytes> + Send + 'static) -> Self {
        Self {
            left: length,
            stream: Mutex::new(Box::pin(stream)),
        }
    }
}

impl Body for SizedBody {
    type Data = Bytes;
    type Error = LengthError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, LengthError>>> {
        let this = self.get_mut();
        let stream = this
            .stream
            .get_mut()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let part = ready!(stream.as_mut().poll_next(context));
        Poll::Ready(match part {
            Some(bytes) => match this.left.checked_sub(bytes.len() as u64) {
                Some(left) => {
                    this.left = left;
                    Some(Ok(Frame::data(bytes)))
                }
                None => Some(Err(LengthError::Long)),
            },
            None if this.left == 0 => None,
            None => Some(Err(LengthError::Short)),
        })
    }

    /// Makes the client announce the length.
    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}
