//! Cuts the objects of a snapshot out of its body as it arrives.
//!
//! A snapshot is one JSON object with a few texts and up to 20 arrays. The splitter reads bytes in pieces of any size, keeps no more than one
//! value, and hands on each text and each element of the arrays that are wanted. What is not wanted is passed over uncopied. It checks the
//! outer form and the depth; the values themselves are checked by `serde_json` when they are handed on.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use serde_json::Value;

use crate::record::{MAX_DEPTH, Reason, Rejection};

/// The longest key of the outer object.
const MAX_KEY: usize = 256;
/// The longest value of the outer object that is not an array.
const MAX_HEAD_VALUE: usize = 4 * 1024;

/// What is wanted of the value of a key of the outer object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Want {
    /// The value as a whole.
    Value,
    /// Its elements, if it is an array.
    Elements,
    /// Nothing.
    Nothing,
}

/// What was found.
#[derive(Debug, Clone, PartialEq)]
pub enum Piece {
    /// The value of a key that is wanted as a whole.
    Value {
        /// The key.
        key: String,
        /// Its value.
        value: Value,
    },
    /// The array of a key that is wanted begins.
    Begin {
        /// The key.
        key: String,
    },
    /// An element of the array that began last.
    Element {
        /// Which.
        index: usize,
        /// Its value.
        value: Value,
    },
    /// The array that began last is complete.
    End,
}

/// Why a body is no snapshot.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SplitError {
    /// It breaks a rule.
    #[error(transparent)]
    Rejected(#[from] Rejection),
    /// An element is larger than one object may be.
    #[error("{field}: must have at most {limit} bytes")]
    TooLarge {
        /// Which.
        field: String,
        /// The limit.
        limit: usize,
    },
}

fn malformed(rule: &str) -> SplitError {
    Rejection::new("body", rule, Reason::Malformed).into()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ParserState {
    Start,
    KeyOrEnd,
    Key,
    InKey {
        escaped: bool,
    },
    Colon,
    Value,
    /// Within a value of the outer object, or within an element.
    InValue {
        element: bool,
        scan: Scan,
    },
    ElementOrEnd,
    Element,
    AfterElement,
    AfterValue,
    Done,
}

/// Where the end of a value is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scan {
    /// Within brackets, this deep.
    Nested { depth: usize },
    /// Within a text, within brackets this deep.
    Text { depth: usize, escaped: bool },
    /// Within a number or a word.
    Bare,
}

/// The state of a body that arrives.
#[derive(Debug)]
pub struct Splitter<W> {
    want: W,
    max_element: usize,
    state: ParserState,
    key: String,
    wanted: Want,
    index: usize,
    held: Vec<u8>,
}

impl<W: Fn(&str) -> Want> Splitter<W> {
    /// A splitter that hands on what `want` says, and permits elements of this size.
    pub fn new(want: W, max_element: usize) -> Self {
        Self {
            want,
            max_element,
            state: ParserState::Start,
            key: String::new(),
            wanted: Want::Nothing,
            index: 0,
            held: Vec::new(),
        }
    }

    /// Reads the next bytes.
    pub fn push(&mut self, bytes: &[u8], found: &mut VecDeque<Piece>) -> Result<(), SplitError> {
        for byte in bytes {
            self.step(*byte, found)?;
        }
        Ok(())
    }

    /// Whether the body was complete.
    pub fn finish(&self) -> Result<(), SplitError> {
        if self.state == ParserState::Done {
            Ok(())
        } else {
            Err(malformed("ends before its JSON is complete"))
        }
    }

    fn step(&mut self, byte: u8, found: &mut VecDeque<Piece>) -> Result<(), SplitError> {
        match self.state {
            ParserState::InKey { escaped } => return self.step_key(byte, escaped),
            ParserState::InValue { element, scan } => return self.step_value(byte, element, scan, found),
            _ => {}
        }
        if matches!(byte, b' ' | b'\t' | b'\n' | b'\r') {
            return Ok(());
        }
        self.state = match (self.state, byte) {
            (ParserState::Start, b'{') => ParserState::KeyOrEnd,
            (ParserState::Start, _) => return Err(malformed("must be a JSON object")),
            (ParserState::KeyOrEnd | ParserState::Key, b'"') => {
                self.held.clear();
                ParserState::InKey { escaped: false }
            }
            (ParserState::KeyOrEnd | ParserState::AfterValue, b'}') => ParserState::Done,
            (ParserState::Colon, b':') => ParserState::Value,
            (ParserState::Value, b'[') if self.wanted == Want::Elements => {
                self.index = 0;
                found.push_back(Piece::Begin {
                    key: self.key.clone(),
                });
                ParserState::ElementOrEnd
            }
            // Null is what Go makes of a list that is not there.
            (ParserState::Value, _) if self.wanted == Want::Elements && byte != b'n' => {
                return Err(Rejection::new(&self.key, "must be an array", Reason::Malformed).into());
            }
            (ParserState::Value, _) => return self.begin_value(byte, false, found),
            (ParserState::ElementOrEnd | ParserState::AfterElement, b']') => {
                found.push_back(Piece::End);
                ParserState::AfterValue
            }
            (ParserState::ElementOrEnd | ParserState::Element, _) => {
                return self.begin_value(byte, true, found);
            }
            (ParserState::AfterElement, b',') => ParserState::Element,
            (ParserState::AfterValue, b',') => ParserState::Key,
            (ParserState::Done, _) => return Err(malformed("goes on after its JSON is complete")),
            _ => return Err(malformed("is not valid JSON")),
        };
        Ok(())
    }

    fn step_key(&mut self, byte: u8, escaped: bool) -> Result<(), SplitError> {
        if byte == b'"' && !escaped {
            let text = std::str::from_utf8(&self.held).ok();
            let key: Option<String> = text.and_then(|text| serde_json::from_str(&format!("\"{text}\"")).ok());
            self.key = key.ok_or_else(|| malformed("is not valid JSON"))?;
            self.wanted = (self.want)(&self.key);
            self.state = ParserState::Colon;
            return Ok(());
        }
        if self.held.len() >= MAX_KEY {
            let rule = format!("keys must have at most {MAX_KEY} bytes");
            return Err(Rejection::new("body", rule, Reason::Limit).into());
        }
        self.held.push(byte);
        self.state = ParserState::InKey {
            escaped: byte == b'\\' && !escaped,
        };
        Ok(())
    }

    fn begin_value(
        &mut self,
        byte: u8,
        element: bool,
        found: &mut VecDeque<Piece>,
    ) -> Result<(), SplitError> {
        self.held.clear();
        let scan = match byte {
            b'{' | b'[' | b'"' => Scan::Nested { depth: 0 },
            b']' | b'}' | b',' | b':' => return Err(malformed("is not valid JSON")),
            _ => Scan::Bare,
        };
        self.step_value(byte, element, scan, found)
    }

    fn step_value(
        &mut self,
        byte: u8,
        element: bool,
        scan: Scan,
        found: &mut VecDeque<Piece>,
    ) -> Result<(), SplitError> {
        let next = match (scan, byte) {
            (Scan::Bare, b',' | b']' | b'}' | b' ' | b'\t' | b'\n' | b'\r') => {
                self.end_value(element, found)?;
                // The byte belongs to what follows.
                return self.step(byte, found);
            }
            (Scan::Bare, _) => Some(Scan::Bare),
            (Scan::Nested { depth }, b'"') => Some(Scan::Text {
                depth,
                escaped: false,
            }),
            (Scan::Nested { depth }, b'{' | b'[') => Some(Scan::Nested { depth: depth + 1 }),
            (Scan::Nested { depth }, b'}' | b']') => (depth > 1).then(|| Scan::Nested { depth: depth - 1 }),
            (Scan::Nested { depth }, _) => Some(Scan::Nested { depth }),
            (Scan::Text { depth, escaped: true }, _) => Some(Scan::Text {
                depth,
                escaped: false,
            }),
            (Scan::Text { depth, .. }, b'\\') => Some(Scan::Text { depth, escaped: true }),
            (Scan::Text { depth, .. }, b'"') => (depth > 0).then_some(Scan::Nested { depth }),
            (Scan::Text { depth, .. }, _) => Some(Scan::Text {
                depth,
                escaped: false,
            }),
        };
        self.hold(byte, element)?;
        match next {
            Some(scan) => {
                self.check_depth(element, scan)?;
                self.state = ParserState::InValue { element, scan };
                Ok(())
            }
            None => self.end_value(element, found),
        }
    }

    /// Elements are below the outer object and their array.
    fn check_depth(&self, element: bool, scan: Scan) -> Result<(), SplitError> {
        let outer = if element { 2 } else { 1 };
        match scan {
            Scan::Nested { depth } if depth + outer > MAX_DEPTH => {
                let rule = format!("must be nested at most {MAX_DEPTH} deep");
                Err(Rejection::new(self.field(element), rule, Reason::Limit).into())
            }
            _ => Ok(()),
        }
    }

    fn hold(&mut self, byte: u8, element: bool) -> Result<(), SplitError> {
        if !element && self.wanted != Want::Value {
            return Ok(());
        }
        let limit = if element { self.max_element } else { MAX_HEAD_VALUE };
        if self.held.len() >= limit {
            return Err(SplitError::TooLarge {
                field: self.field(element),
                limit,
            });
        }
        self.held.push(byte);
        Ok(())
    }

    fn end_value(&mut self, element: bool, found: &mut VecDeque<Piece>) -> Result<(), SplitError> {
        self.state = if element {
            ParserState::AfterElement
        } else {
            ParserState::AfterValue
        };
        if !element && self.wanted != Want::Value {
            return Ok(());
        }
        let value = serde_json::from_slice(&self.held);
        let value =
            value.map_err(|_| Rejection::new(self.field(element), "is not valid JSON", Reason::Malformed))?;
        found.push_back(if element {
            let index = self.index;
            self.index += 1;
            Piece::Element { index, value }
        } else {
            Piece::Value {
                key: self.key.clone(),
                value,
            }
        });
        Ok(())
    }

    fn field(&self, element: bool) -> String {
        if element {
            format!("{}[{}]", self.key, self.index)
        } else {
            self.key.clone()
        }
    }
}
