//! The pieces of a snapshot, one after the other, in bounded memory.

use std::collections::VecDeque;

use bytes::{Buf, Bytes};

use super::body::BodyReader;
use super::splitter::{Piece, Splitter, Want};
use crate::agent::AgentError;

/// How many bytes of a body are split at a time. The pieces of these bytes are held until they were taken.
pub const CHUNK: usize = 16 * 1024;

/// Reads the pieces of a snapshot from its body.
///
/// **Guarantees.** It holds the pieces of at most [`CHUNK`] bytes, however far a packed body inflates.
#[derive(Debug)]
pub struct PieceReader<W> {
    body: BodyReader,
    splitter: Splitter<W>,
    /// Bytes of the body that were not split yet.
    rest: Bytes,
    found: VecDeque<Piece>,
}

/// What was read next.
#[derive(Debug, PartialEq)]
pub enum Progress {
    /// A piece.
    Piece(Piece),
    /// Bytes that complete no piece: the agent is still sending.
    Bytes,
    /// The body was complete.
    End,
}

impl<W: Fn(&str) -> Want> PieceReader<W> {
    /// Reads `body` and hands on what `splitter` wants of it.
    pub fn new(body: BodyReader, splitter: Splitter<W>) -> Self {
        Self {
            body,
            splitter,
            rest: Bytes::new(),
            found: VecDeque::new(),
        }
    }

    /// The next piece of the body, or the news that more of it arrived.
    pub async fn next(&mut self) -> Result<Progress, AgentError> {
        if let Some(piece) = self.found.pop_front() {
            return Ok(Progress::Piece(piece));
        }
        if self.rest.is_empty() {
            let Some(bytes) = self.body.next().await? else {
                self.splitter.finish()?;
                return Ok(Progress::End);
            };
            self.rest = bytes;
        }
        let some = self.rest.len().min(CHUNK);
        let chunk = self.rest.get(..some).unwrap_or_default();
        self.splitter.push(chunk, &mut self.found)?;
        self.rest.advance(some);
        Ok(self.found.pop_front().map_or(Progress::Bytes, Progress::Piece))
    }

    /// How many pieces are held.
    pub fn held(&self) -> usize {
        self.found.len()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::time::Duration;

    use axum::body::Body;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use http::header::CONTENT_ENCODING;
    use http::{HeaderMap, HeaderValue};

    use super::*;
    use crate::ingest::body::BodyLimits;

    #[tokio::test]
    async fn reader_holds_few_pieces_when_a_packed_body_inflates_far() {
        const ELEMENTS: usize = 2_000_000;
        let body = format!(r#"{{"pods":[{}0]}}"#, "0,".repeat(ELEMENTS - 1));
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(body.as_bytes()).unwrap();
        let packed = encoder.finish().unwrap();
        assert!(packed.len() < 8 * 1024, "{}", packed.len());
        let limits = BodyLimits {
            bytes: 64 << 20,
            pause: Duration::from_secs(60),
            whole: Duration::from_secs(60),
        };
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        let body = BodyReader::new(&headers, Body::from(packed), limits).unwrap();
        let mut reader = PieceReader::new(body, Splitter::new(|_: &str| Want::Elements, 1024));
        let (mut elements, mut most) = (0, 0);
        loop {
            match reader.next().await.unwrap() {
                Progress::Piece(Piece::Element { .. }) => elements += 1,
                Progress::Piece(_) | Progress::Bytes => {}
                Progress::End => break,
            }
            most = most.max(reader.held());
        }
        assert_eq!(elements, ELEMENTS);
        assert!(most <= CHUNK / 2, "{most} pieces were held");
    }
}
