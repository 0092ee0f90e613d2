//! Cuts a stream of bytes into lines of bounded length.

use bytes::{Bytes, BytesMut};

/// One line of a watch.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// The line without its end.
    Whole(Bytes),
    /// A line that was longer than the bound; its bytes were dropped as they came.
    TooLong,
}

/// A buffer for at most one unfinished line.
#[derive(Debug)]
pub(super) struct Lines {
    buffer: BytesMut,
    /// No line end stands before this place.
    searched: usize,
    skipping: bool,
    max: usize,
}

impl Lines {
    pub(super) fn new(max: usize) -> Self {
        Self {
            buffer: BytesMut::new(),
            searched: 0,
            skipping: false,
            max,
        }
    }

    pub(super) fn push(&mut self, chunk: &[u8]) {
        self.buffer.extend_from_slice(chunk);
    }

    /// The next complete line, if there is one. Ask until there is none before pushing more.
    pub(super) fn next(&mut self) -> Option<Line> {
        loop {
            let end = self.buffer[self.searched..]
                .iter()
                .position(|byte| *byte == b'\n');
            let Some(end) = end.map(|end| end + self.searched) else {
                self.searched = self.buffer.len();
                if self.skipping || self.searched > self.max {
                    self.skipping = true;
                    self.buffer.clear();
                    self.searched = 0;
                }
                return None;
            };
            let line = self.buffer.split_to(end + 1);
            self.searched = 0;
            if std::mem::take(&mut self.skipping) || end > self.max {
                return Some(Line::TooLong);
            }
            if end > 0 {
                return Some(Line::Whole(line.freeze().slice(..end)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cut(max: usize, chunks: &[&[u8]]) -> Vec<Line> {
        let mut lines = Lines::new(max);
        let mut out = Vec::new();
        for chunk in chunks {
            lines.push(chunk);
            out.extend(std::iter::from_fn(|| lines.next()));
            assert!(lines.buffer.len() <= max, "more than one line is kept");
        }
        out
    }

    #[test]
    fn a_line_that_is_too_long_is_told_once_and_the_next_is_whole() {
        let lines = cut(4, &[b"ab\ncdefg", b"hijklmn", b"op\nqrst\n"]);
        assert_eq!(
            lines,
            [
                Line::Whole("ab".into()),
                Line::TooLong,
                Line::Whole("qrst".into())
            ]
        );
    }

    #[test]
    fn empty_lines_and_an_unfinished_end_are_nothing() {
        assert_eq!(cut(4, &[b"\n\na\n\nbc"]), [Line::Whole("a".into())]);
    }

    proptest! {
        #[test]
        fn where_the_chunks_are_cut_does_not_matter(text in "[ab\n]{0,60}", cuts in proptest::collection::vec(0_usize..60, 0..6)) {
            let mut cuts: Vec<_> = cuts.into_iter().filter(|at| *at < text.len()).collect();
            cuts.sort_unstable();
            let mut chunks = Vec::new();
            let mut from = 0;
            for at in cuts {
                chunks.push(&text.as_bytes()[from..at]);
                from = at;
            }
            chunks.push(&text.as_bytes()[from..]);
            let expected: Vec<_> = text
                .rsplit_once('\n').map_or("", |(whole, _)| whole)
                .split('\n').filter(|line| !line.is_empty())
                .map(|line| if line.len() > 8 { Line::TooLong } else { Line::Whole(Bytes::copy_from_slice(line.as_bytes())) })
                .collect();
            let mut lines = Lines::new(8);
            let mut out = Vec::new();
            for chunk in chunks {
                lines.push(chunk);
                out.extend(std::iter::from_fn(|| lines.next()));
            }
            prop_assert_eq!(out, expected);
        }
    }
}
