//! The fence in a client: every request that changes something passes it at the moment its body is sent.
//!
//! A check before the call would not do. Between the call and the first byte on the wire a token may be renewed, a
//! connection made, a process stopped and continued. The HTTP client asks for the body last of all, when it is about to
//! write to the connection, so the body is where the check stands.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::future::{Either, MapErr, Ready, TryFutureExt, ready};
use http::{Method, Request};
use http_body::{Frame, SizeHint};
use kube::client::Body;
use tower::{BoxError, Layer, Service};

use super::fence::Fence;

/// Puts a [`Fence`] round the HTTP client.
#[derive(Debug, Clone)]
pub struct FenceLayer(Fence);

impl FenceLayer {
    /// A layer for this fence.
    pub fn new(fence: Fence) -> Self {
        Self(fence)
    }
}

impl<S> Layer<S> for FenceLayer {
    type Service = FenceService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        FenceService {
            inner,
            fence: self.0.clone(),
        }
    }
}

/// The service made by [`FenceLayer`].
#[derive(Debug, Clone)]
pub struct FenceService<S> {
    inner: S,
    fence: Fence,
}

impl<S> Service<Request<Body>> for FenceService<S>
where
    S: Service<Request<FencedBody>, Error: Into<BoxError>>,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = Either<Ready<Result<S::Response, BoxError>>, MapErr<S::Future, fn(S::Error) -> BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let changes = changes_something(&request);
        // A closed fence costs no connection; the check that counts is the one in the body.
        if changes && let Err(fenced) = self.fence.check() {
            return Either::Left(ready(Err(fenced.into())));
        }
        let request = request.map(|inner| FencedBody {
            inner,
            fence: changes.then(|| self.fence.clone()),
            ended: false,
        });
        Either::Right(self.inner.call(request).map_err(Into::into))
    }
}

/// Reads change nothing; neither do reviews, which are questions in the form of a POST.
fn changes_something<B>(request: &Request<B>) -> bool {
    let path = request.uri().path();
    let is_review =
        path.starts_with("/apis/authentication.k8s.io/") || path.starts_with("/apis/authorization.k8s.io/");
    !matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS) && !is_review
}

/// A request body that is refused when the fence is closed at the moment it is sent.
#[derive(Debug)]
pub struct FencedBody {
    inner: Body,
    fence: Option<Fence>,
    ended: bool,
}

impl http_body::Body for FencedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Some(fence) = &self.fence
            && let Err(fenced) = fence.check()
        {
            return Poll::Ready(Some(Err(fenced.into())));
        }
        let frame = std::task::ready!(Pin::new(&mut self.inner).poll_frame(cx));
        self.ended = frame.is_none() || self.inner.is_end_stream();
        Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
    }

    /// A fenced body has not ended before it was asked for once, or the HTTP client would send the request unasked.
    fn is_end_stream(&self) -> bool {
        match self.fence {
            Some(_) => self.ended,
            None => self.inner.is_end_stream(),
        }
    }

    /// For the same reason the size of an empty fenced body is not known beforehand.
    fn size_hint(&self) -> SizeHint {
        let hint = self.inner.size_hint();
        match self.fence {
            Some(_) if hint.exact() == Some(0) => SizeHint::default(),
            _ => hint,
        }
    }
}

#[cfg(test)]
mod tests {
    use http_body::Body as _;

    use super::*;
    use crate::lease::Fenced;

    fn changes(method: Method, path: &str) -> bool {
        changes_something(&Request::builder().method(method).uri(path).body(()).unwrap())
    }

    #[test]
    fn writes_are_fenced_and_questions_are_not() {
        for method in [Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
            assert!(changes(method, "/api/v1/namespaces/a/configmaps/b"));
        }
        assert!(!changes(Method::GET, "/api/v1/namespaces/a/configmaps/b"));
        assert!(!changes(
            Method::POST,
            "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
        ));
        assert!(!changes(
            Method::POST,
            "/apis/authentication.k8s.io/v1/tokenreviews"
        ));
        assert!(changes(
            Method::POST,
            "/apis/example.io/v1/namespaces/a/things?x=/apis/authorization.k8s.io/"
        ));
    }

    /// What the HTTP client sees of a body: whether it must ask for it, and what it then gets.
    fn sent(content: &'static [u8], fence: &Fence) -> (bool, Option<Result<usize, String>>) {
        let mut body = FencedBody {
            inner: Body::from(content.to_vec()),
            fence: Some(fence.clone()),
            ended: false,
        };
        let asked = !body.is_end_stream() && body.size_hint().exact() != Some(0);
        let frame = Pin::new(&mut body).poll_frame(&mut Context::from_waker(std::task::Waker::noop()));
        let Poll::Ready(frame) = frame else {
            panic!("a body in memory is always ready")
        };
        let frame = frame.map(|frame| match frame {
            Ok(frame) => Ok(frame.into_data().map_or(0, |data| data.len())),
            Err(error) => Err(error.to_string()),
        });
        (asked, frame)
    }

    #[test]
    fn also_a_request_without_a_body_is_asked_about_before_it_is_sent() {
        let open = Fence::always();
        assert_eq!(sent(b"12345", &open), (true, Some(Ok(5))));
        assert_eq!(sent(b"", &open), (true, None));
        let held_back = || Some(Err(Fenced.to_string()));
        assert_eq!(sent(b"12345", &Fence::closed()), (true, held_back()));
        assert_eq!(sent(b"", &Fence::closed()), (true, held_back()));
    }
}
