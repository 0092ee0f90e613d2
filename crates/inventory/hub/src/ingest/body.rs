//! A request's body: inflated, within limits, piece by piece.

use std::io::Write;
use std::time::Duration;

use axum::body::Body;
use bytes::{Buf, Bytes};
use flate2::write::MultiGzDecoder;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING};
use http::{HeaderMap, HeaderValue, StatusCode};
use http_body_util::BodyExt;
use tokio::time::Instant;

use crate::error::ApiError;

/// What a body may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BodyLimits {
    /// Bytes as they arrive, and after inflation.
    pub bytes: u64,
    /// The time between two pieces.
    pub pause: Duration,
    /// The time for the whole body.
    pub whole: Duration,
}

/// Reads a body piece by piece.
pub struct BodyReader {
    body: Body,
    limits: BodyLimits,
    until: Instant,
    inflater: Option<MultiGzDecoder<Vec<u8>>>,
    packed: Bytes,
    arrived: u64,
    inflated: u64,
    ended: bool,
}

impl std::fmt::Debug for BodyReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BodyReader")
            .field("arrived", &self.arrived)
            .finish_non_exhaustive()
    }
}

impl BodyReader {
    /// A body with the headers of its request. Encodings other than gzip are refused.
    pub fn new(headers: &HeaderMap, body: Body, limits: BodyLimits) -> Result<Self, ApiError> {
        let inflater = match headers.get(CONTENT_ENCODING).map(HeaderValue::as_bytes) {
            None | Some(b"" | b"identity") => None,
            Some(b"gzip" | b"x-gzip") => Some(MultiGzDecoder::new(Vec::new())),
            Some(_) => {
                return Err(ApiError::new(
                    StatusCode::UNSUPPORTED_MEDIA_TYPE,
                    "unsupported_encoding",
                    "Content-Encoding: must be gzip or identity",
                ));
            }
        };
        Ok(Self {
            body,
            limits,
            until: Instant::now() + limits.whole,
            inflater,
            packed: Bytes::new(),
            arrived: 0,
            inflated: 0,
            ended: false,
        })
    }

    /// The next piece; `None` at the end of a whole body.
    pub async fn next(&mut self) -> Result<Option<Bytes>, ApiError> {
        loop {
            if let Some(piece) = self.inflate()? {
                return Ok(Some(piece));
            }
            if self.ended {
                return Ok(None);
            }
            let Some(arrived) = self.arrive().await? else {
                self.ended = true;
                return self.finish();
            };
            self.arrived = self.arrived.saturating_add(arrived.len() as u64);
            self.check(self.arrived)?;
            if self.inflater.is_none() {
                return Ok(Some(arrived));
            }
            self.packed = arrived;
        }
    }

    /// The whole body, for bodies whose limit is small.
    pub async fn all(mut self) -> Result<Vec<u8>, ApiError> {
        let mut whole = Vec::new();
        while let Some(piece) = self.next().await? {
            whole.extend_from_slice(&piece);
        }
        Ok(whole)
    }

    async fn arrive(&mut self) -> Result<Option<Bytes>, ApiError> {
        loop {
            let until = self.until.min(Instant::now() + self.limits.pause);
            let frame = tokio::time::timeout_at(until, self.body.frame()).await;
            let Ok(frame) = frame else {
                return Err(ApiError::new(
                    StatusCode::REQUEST_TIMEOUT,
                    "too_slow",
                    "body: did not arrive in time",
                ));
            };
            match frame {
                None => return Ok(None),
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) if data.is_empty() => {}
                    Ok(data) => return Ok(Some(data)),
                    Err(_trailers) => {}
                },
                Some(Err(_)) => {
                    return Err(ApiError::new(
                        StatusCode::BAD_REQUEST,
                        "cut_off",
                        "body: was cut off",
                    ));
                }
            }
        }
    }

    /// Inflates some of what has arrived; `None` when all of it is inflated.
    fn inflate(&mut self) -> Result<Option<Bytes>, ApiError> {
        let Some(inflater) = &mut self.inflater else {
            return Ok(None);
        };
        while !self.packed.is_empty() {
            // One `write` stops when the inflater's buffer of 32 KiB is full; `write_all` would inflate everything that arrived.
            let taken = inflater.write(&self.packed).map_err(|_| bad_gzip())?;
            if taken == 0 {
                return Err(bad_gzip());
            }
            self.packed.advance(taken);
            let piece = std::mem::take(inflater.get_mut());
            if !piece.is_empty() {
                self.inflated = self.inflated.saturating_add(piece.len() as u64);
                self.check(self.inflated)?;
                return Ok(Some(piece.into()));
            }
        }
        Ok(None)
    }

    /// Checks that a packed body was whole, and gives what was still held back.
    fn finish(&mut self) -> Result<Option<Bytes>, ApiError> {
        let Some(inflater) = &mut self.inflater else {
            return Ok(None);
        };
        inflater.try_finish().map_err(|_| bad_gzip())?;
        let rest = std::mem::take(inflater.get_mut());
        self.inflated = self.inflated.saturating_add(rest.len() as u64);
        self.check(self.inflated)?;
        Ok((!rest.is_empty()).then(|| rest.into()))
    }

    fn check(&self, bytes: u64) -> Result<(), ApiError> {
        if bytes > self.limits.bytes {
            let message = format!(
                "body: must have at most {} bytes, also when inflated",
                self.limits.bytes
            );
            return Err(ApiError::too_large(message));
        }
        Ok(())
    }
}

fn bad_gzip() -> ApiError {
    ApiError::new(StatusCode::BAD_REQUEST, "invalid", "body: is not valid gzip")
}

/// Tells agents how bodies may be packed (RFC 9110, 12.5.3).
pub fn announce_encodings(headers: &mut HeaderMap) {
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("gzip, identity"));
}

#[cfg(test)]
mod tests {
    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    const LIMITS: BodyLimits = BodyLimits {
        bytes: 100_000,
        pause: Duration::from_secs(30),
        whole: Duration::from_secs(60),
    };

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    async fn read(encoding: &'static str, body: Vec<u8>) -> Result<Vec<u8>, ApiError> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static(encoding));
        BodyReader::new(&headers, Body::from(body), LIMITS)?.all().await
    }

    #[tokio::test]
    async fn plain_and_packed_bodies_are_read() {
        let text = b"inventory".repeat(1_000);
        assert_eq!(read("identity", text.clone()).await.unwrap(), text);
        assert_eq!(read("gzip", gzip(&text)).await.unwrap(), text);
        let twice = [gzip(&text), gzip(b"more")].concat();
        assert_eq!(
            read("gzip", twice).await.unwrap(),
            [text, b"more".to_vec()].concat()
        );
        assert_eq!(read("gzip", gzip(b"")).await.unwrap(), b"");
    }

    #[tokio::test]
    async fn a_small_body_that_inflates_too_far_is_refused() {
        let bomb = gzip(&vec![0; 50_000_000]);
        assert!(bomb.len() < 100_000);
        let error = read("gzip", bomb).await.unwrap_err();
        assert_eq!(error.status(), StatusCode::PAYLOAD_TOO_LARGE);
        let error = read("identity", vec![0; 100_001]).await.unwrap_err();
        assert_eq!(error.status(), StatusCode::PAYLOAD_TOO_LARGE);
    }

    #[tokio::test]
    async fn reader_hands_on_small_pieces_when_a_body_inflates_far() {
        let packed = gzip(&vec![b' '; 20_000_000]);
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        let limits = BodyLimits {
            bytes: 20_000_000,
            ..LIMITS
        };
        let mut reader = BodyReader::new(&headers, Body::from(packed), limits).unwrap();
        let (mut all, mut largest) = (0, 0);
        while let Some(piece) = reader.next().await.unwrap() {
            all += piece.len();
            largest = largest.max(piece.len());
        }
        assert_eq!(all, 20_000_000);
        assert!(largest <= 128 * 1024, "{largest}");
    }

    #[tokio::test]
    async fn broken_and_strange_encodings_are_refused() {
        let whole = gzip(b"inventory");
        for cut in [1, 5, 12, whole.len() - 1] {
            let error = read("gzip", whole[..cut].to_vec()).await.unwrap_err();
            assert_eq!(error.status(), StatusCode::BAD_REQUEST, "{cut}");
        }
        assert_eq!(
            read("gzip", b"plain".to_vec()).await.unwrap_err().status(),
            StatusCode::BAD_REQUEST
        );
        let error = read("zstd", whole).await.unwrap_err();
        assert_eq!(error.status(), StatusCode::UNSUPPORTED_MEDIA_TYPE);
    }
}
