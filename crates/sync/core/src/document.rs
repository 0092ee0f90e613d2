//! Reads YAML (and so JSON) that a stranger wrote, within limits, into a small tree. Scalars keep their text: what a number
//! or a date means is for the reader of the field to say.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use granit_parser::{Event, Parser, ScalarStyle};

const CONTROL: &str = "must not hold control characters";

/// How much a document may hold.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Bytes of text.
    pub bytes: usize,
    /// Maps and lists within each other.
    pub depth: usize,
    /// Scalars, maps and lists in all, those that aliases repeat included.
    pub nodes: usize,
}

/// One node of a document.
#[derive(Clone, PartialEq, Eq)]
pub enum Node {
    /// Nothing, or `null`, or `~`.
    Null,
    /// A text; `plain` if it stood there without quotes, so that it may be meant as a number or a truth value.
    Scalar {
        /// The text.
        text: String,
        /// Whether it had no quotes.
        plain: bool,
    },
    /// A list.
    List(Vec<Node>),
    /// A map, in the order of the text. No key is there twice.
    Map(Vec<(String, Node)>),
}

impl Node {
    /// What it is, for messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Null => "nothing",
            Self::Scalar { .. } => "a scalar",
            Self::List(_) => "a list",
            Self::Map(_) => "a map",
        }
    }

    /// Whether it counts as not given: nothing, or an empty collection.
    pub fn is_absent(&self) -> bool {
        match self {
            Self::Null => true,
            Self::Scalar { .. } => false,
            Self::List(items) => items.is_empty(),
            Self::Map(fields) => fields.is_empty(),
        }
    }
}

/// Why a document cannot be read. It names the rule and the line, never the text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{rule} (line {line}, column {column})")]
pub struct DocumentError {
    rule: Cow<'static, str>,
    line: usize,
    column: usize,
}

/// Reads the first document of a text.
pub fn read(text: &str, limits: &Limits) -> Result<Node, DocumentError> {
    let start = Place { line: 1, column: 1 };
    if text.len() > limits.bytes {
        return Err(start.error(format!("must not be longer than {} bytes", limits.bytes)));
    }
    if let Some(line) = text.lines().position(|line| line.chars().any(is_forbidden)) {
        let place = Place {
            line: line + 1,
            column: 1,
        };
        return Err(place.error(CONTROL));
    }
    let mut builder = Builder {
        limits,
        nodes: 0,
        open: Vec::new(),
        anchors: BTreeMap::new(),
        done: None,
    };
    for next in Parser::new_from_str(text) {
        // The parser's own words may quote the text, so there is one word for all of them.
        let (event, span) = next.map_err(|error| Place::of(error.marker()).error("is not valid YAML"))?;
        let place = Place::of(&span.start);
        if builder.take(event, place)? {
            break;
        }
    }
    Ok(builder.done.unwrap_or(Node::Null))
}

/// Tab and line breaks are part of any text; the rest of the control characters is a trick or a mistake.
fn is_forbidden(c: char) -> bool {
    (c.is_control() && !matches!(c, '\t' | '\r' | '\n')) || matches!(c, '\u{feff}' | '\u{2028}' | '\u{2029}')
}

#[derive(Clone, Copy)]
struct Place {
    line: usize,
    column: usize,
}

impl Place {
    fn of(marker: &granit_parser::Marker) -> Self {
        Self {
            line: marker.line(),
            column: marker.col() + 1,
        }
    }

    fn error(self, rule: impl Into<Cow<'static, str>>) -> DocumentError {
        DocumentError {
            rule: rule.into(),
            line: self.line,
            column: self.column,
        }
    }
}

/// A collection that has not ended yet.
enum Open {
    List {
        items: Vec<Node>,
        anchor: usize,
    },
    Map {
        fields: Vec<(String, Node)>,
        seen: BTreeSet<String>,
        key: Option<String>,
        anchor: usize,
    },
}

struct Builder<'a> {
    limits: &'a Limits,
    nodes: usize,
    open: Vec<Open>,
    anchors: BTreeMap<usize, (Node, usize)>,
    done: Option<Node>,
}

impl Builder<'_> {
    /// Takes one event; true when the first document has ended.
    fn take(&mut self, event: Event<'_>, place: Place) -> Result<bool, DocumentError> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                self.count(1, place)?;
                refuse(tag.is_some(), place)?;
                // An escape can make what the text itself must not hold.
                if text.chars().any(is_forbidden) {
                    return Err(place.error(CONTROL));
                }
                let node = scalar(text.into_owned(), style);
                self.remember(anchor, &node, 1);
                self.put(node, place)?;
            }
            Event::SequenceStart(_, anchor, tag) => {
                refuse(tag.is_some(), place)?;
                self.enter(
                    Open::List {
                        items: Vec::new(),
                        anchor,
                    },
                    place,
                )?;
            }
            Event::MappingStart(_, anchor, tag) => {
                refuse(tag.is_some(), place)?;
                let open = Open::Map {
                    fields: Vec::new(),
                    seen: BTreeSet::new(),
                    key: None,
                    anchor,
                };
                self.enter(open, place)?;
            }
            Event::SequenceEnd | Event::MappingEnd => self.leave(place)?,
            Event::Alias(id) => {
                // An anchor that is still open would hold itself.
                let (node, size) = self
                    .anchors
                    .get(&id)
                    .cloned()
                    .ok_or_else(|| place.error("must not refer to what it is a part of"))?;
                self.count(size, place)?;
                self.put(node, place)?;
            }
            Event::DocumentEnd => return Ok(true),
            _ => {}
        }
        Ok(false)
    }

    fn count(&mut self, nodes: usize, place: Place) -> Result<(), DocumentError> {
        self.nodes = self.nodes.saturating_add(nodes);
        if self.nodes > self.limits.nodes {
            return Err(place.error(format!("must not hold more than {} values", self.limits.nodes)));
        }
        Ok(())
    }

    fn remember(&mut self, anchor: usize, node: &Node, size: usize) {
        if anchor != 0 {
            self.anchors.insert(anchor, (node.clone(), size));
        }
    }

    fn enter(&mut self, open: Open, place: Place) -> Result<(), DocumentError> {
        self.count(1, place)?;
        if self.open.len() >= self.limits.depth {
            return Err(place.error(format!("must not nest deeper than {}", self.limits.depth)));
        }
        if matches!(self.open.last(), Some(Open::Map { key: None, .. })) {
            return Err(place.error("must not use a collection as a key"));
        }
        self.open.push(open);
        Ok(())
    }

    fn leave(&mut self, place: Place) -> Result<(), DocumentError> {
        let (node, anchor) = match self.open.pop() {
            Some(Open::List { items, anchor }) => (Node::List(items), anchor),
            Some(Open::Map { fields, anchor, .. }) => (Node::Map(fields), anchor),
            None => return Ok(()),
        };
        let size = size(&node);
        self.remember(anchor, &node, size);
        self.put(node, place)
    }

    fn put(&mut self, node: Node, place: Place) -> Result<(), DocumentError> {
        match self.open.last_mut() {
            None => self.done = Some(node),
            Some(Open::List { items, .. }) => items.push(node),
            Some(Open::Map {
                fields, seen, key, ..
            }) => match key.take() {
                Some(name) => fields.push((name, node)),
                None => {
                    let Node::Scalar { text, .. } = node else {
                        return Err(place.error("must not use a collection or nothing as a key"));
                    };
                    if !seen.insert(text.clone()) {
                        return Err(place.error("must not have the same key twice"));
                    }
                    *key = Some(text);
                }
            },
        }
        Ok(())
    }
}

fn refuse(tagged: bool, place: Place) -> Result<(), DocumentError> {
    if tagged {
        return Err(place.error("must not have YAML tags"));
    }
    Ok(())
}

fn scalar(text: String, style: ScalarStyle) -> Node {
    let plain = style == ScalarStyle::Plain;
    if plain && matches!(text.as_str(), "" | "~" | "null" | "Null" | "NULL") {
        return Node::Null;
    }
    Node::Scalar { text, plain }
}

fn size(node: &Node) -> usize {
    match node {
        Node::Null | Node::Scalar { .. } => 1,
        Node::List(items) => 1 + items.iter().map(size).sum::<usize>(),
        Node::Map(fields) => 1 + fields.iter().map(|(_, node)| 1 + size(node)).sum::<usize>(),
    }
}
