//! From the events of the YAML parser to a document. Everything is charged before it is allocated.

use std::borrow::Cow;
use std::collections::BTreeMap;

use granit_parser::{Event, ScalarStyle};

use super::tape::{Document, Entry, Kind};
use super::{CONTROL, DocumentError, Limits, Place, TAGS, is_forbidden, most_memory};

const ALIASES: &str = "must not have YAML anchors or aliases";
const MEMORY: &str =
    "must not need more than four times its size in memory; it has too many small values or aliases";
/// What an anchor costs, here and in the parser, at the most.
const ANCHOR: usize = 256;

/// A list or map that has not ended yet.
struct Open {
    at: usize,
    kind: Kind,
    anchor: usize,
    /// In a map: how many keys it has, and whether the next value is one.
    keys: usize,
    is_key: bool,
    size: Size,
}

/// What a value would be if all aliases were written out.
#[derive(Clone, Copy, Default)]
struct Size {
    /// Bytes, as JSON at the most.
    bytes: usize,
    /// Lists and maps within each other.
    depth: usize,
}

pub(super) struct Builder<'l, 't> {
    limits: &'l Limits,
    document: Document<'t>,
    open: Vec<Open>,
    anchors: BTreeMap<usize, (usize, Size)>,
    memory: usize,
    repeated: usize,
}

impl<'l, 't> Builder<'l, 't> {
    pub fn new(text: &'t str, limits: &'l Limits) -> Self {
        Self {
            limits,
            document: Document::new(text),
            open: Vec::new(),
            anchors: BTreeMap::new(),
            memory: 0,
            repeated: 0,
        }
    }

    pub fn end(self) -> Document<'t> {
        self.document
    }

    /// Takes one event; true when the first document has ended.
    pub fn take(&mut self, event: Event<'t>, place: Place) -> Result<bool, DocumentError> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                refuse(tag.is_some(), TAGS, place)?;
                self.scalar(text, style, anchor, place)?;
            }
            Event::SequenceStart(_, anchor, tag) => {
                refuse(tag.is_some(), TAGS, place)?;
                self.enter(Kind::List, anchor, place)?;
            }
            Event::MappingStart(_, anchor, tag) => {
                refuse(tag.is_some(), TAGS, place)?;
                self.enter(Kind::Map, anchor, place)?;
            }
            Event::SequenceEnd | Event::MappingEnd => self.leave(place)?,
            Event::Alias(id) => self.alias(id, place)?,
            Event::UnresolvedAlias(_) => {
                refuse(self.limits.anchors == 0, ALIASES, place)?;
                return Err(place.error("must not refer to an anchor that is not there"));
            }
            Event::DocumentEnd => return Ok(true),
            _ => {}
        }
        Ok(false)
    }

    fn scalar(
        &mut self,
        text: Cow<'t, str>,
        style: ScalarStyle,
        anchor: usize,
        place: Place,
    ) -> Result<(), DocumentError> {
        refuse(anchor != 0 && self.limits.anchors == 0, ALIASES, place)?;
        // An escape can make what the text itself must not hold.
        refuse(text.chars().any(is_forbidden), CONTROL, place)?;
        let (is_key, limits) = (self.is_key(), self.limits);
        if is_key && text.chars().count() > limits.key {
            return Err(place.error(format!(
                "must not have keys longer than {} characters",
                limits.key
            )));
        }
        if text.len() > limits.scalar {
            return Err(place.error(format!("must not have texts longer than {} bytes", limits.scalar)));
        }
        let plain = style == ScalarStyle::Plain;
        let is_null = plain && matches!(&*text, "" | "~" | "null" | "Null" | "NULL");
        let at = self.document.len();
        let entry = match is_null {
            true => Entry {
                kind: Kind::Null,
                made: false,
                a: 0,
                b: 0,
            },
            false => {
                let (made, a) = self.keep(&text, place)?;
                Entry {
                    kind: if plain { Kind::Plain } else { Kind::Quoted },
                    made,
                    a,
                    b: text.len(),
                }
            }
        };
        // In JSON every byte takes two at the most, beside the quotes; `null` takes four.
        let size = Size {
            bytes: 2 * text.len() + 4,
            depth: 0,
        };
        self.push(entry, place)?;
        self.remember(anchor, at, size, place)?;
        self.put(is_null, size, place)
    }

    /// Where a text is to be found: in the source, if it is there as it stands.
    fn keep(&mut self, text: &str, place: Place) -> Result<(bool, usize), DocumentError> {
        let source = self.document.text;
        if text.is_empty() {
            return Ok((false, 0));
        }
        let start = (text.as_ptr() as usize).wrapping_sub(source.as_ptr() as usize);
        if source.get(start..).is_some_and(|rest| rest.starts_with(text)) {
            return Ok((false, start));
        }
        if self.document.made.capacity() == 0 {
            // No text is longer than its source, so this is enough for all that follow.
            self.charge(source.len(), place)?;
            self.document.made.reserve_exact(source.len());
        }
        let start = self.document.made.len();
        if start + text.len() > self.document.made.capacity() {
            return Err(place.error(MEMORY));
        }
        self.document.made.push_str(text);
        Ok((true, start))
    }

    fn enter(&mut self, kind: Kind, anchor: usize, place: Place) -> Result<(), DocumentError> {
        if self.open.len() >= self.limits.depth {
            return Err(place.error(format!("must not nest deeper than {}", self.limits.depth)));
        }
        refuse(self.is_key(), "must not use a collection as a key", place)?;
        refuse(anchor != 0 && self.limits.anchors == 0, ALIASES, place)?;
        let at = self.document.len();
        let entry = Entry {
            kind,
            made: false,
            a: 0,
            b: 0,
        };
        self.push(entry, place)?;
        self.open.push(Open {
            at,
            kind,
            anchor,
            keys: 0,
            is_key: kind == Kind::Map,
            size: Size { bytes: 2, depth: 1 },
        });
        Ok(())
    }

    fn leave(&mut self, place: Place) -> Result<(), DocumentError> {
        let Some(open) = self.open.pop() else {
            return Ok(());
        };
        self.document.close(open.at);
        if open.kind == Kind::Map {
            self.check_keys(&open, place)?;
        }
        self.remember(open.anchor, open.at, open.size, place)?;
        self.put(false, open.size, place)
    }

    fn alias(&mut self, id: usize, place: Place) -> Result<(), DocumentError> {
        refuse(self.limits.anchors == 0, ALIASES, place)?;
        // An anchor that is still open would hold itself.
        let (target, size) = *self
            .anchors
            .get(&id)
            .ok_or_else(|| place.error("must not refer to what it is a part of"))?;
        if self.open.len() + size.depth > self.limits.depth {
            return Err(place.error(format!("must not nest deeper than {}", self.limits.depth)));
        }
        self.repeated = self.repeated.saturating_add(size.bytes);
        refuse(
            self.repeated > most_memory(self.document.text.len()),
            MEMORY,
            place,
        )?;
        let entry = Entry {
            kind: Kind::Alias,
            made: false,
            a: target,
            b: 0,
        };
        self.push(entry, place)?;
        let is_text = self.document.node(target).text().is_some();
        self.put(!is_text, size, place)
    }

    fn remember(&mut self, anchor: usize, at: usize, size: Size, place: Place) -> Result<(), DocumentError> {
        if anchor == 0 {
            return Ok(());
        }
        if self.anchors.len() >= self.limits.anchors {
            let most = self.limits.anchors;
            return Err(place.error(format!("must not have more than {most} anchors")));
        }
        self.charge(ANCHOR, place)?;
        self.anchors.insert(anchor, (at, size));
        Ok(())
    }

    /// Tells the list or map around a value of it. `is_textless`: it can be no key.
    fn put(&mut self, is_textless: bool, size: Size, place: Place) -> Result<(), DocumentError> {
        let Some(open) = self.open.last_mut() else {
            return Ok(());
        };
        // With a comma or colon.
        open.size.bytes = open.size.bytes.saturating_add(size.bytes + 1);
        open.size.depth = open.size.depth.max(size.depth + 1);
        if open.kind == Kind::Map {
            let key = "must not use a collection or nothing as a key";
            refuse(open.is_key && is_textless, key, place)?;
            open.keys += usize::from(open.is_key);
            open.is_key = !open.is_key;
        }
        Ok(())
    }

    fn is_key(&self) -> bool {
        self.open.last().is_some_and(|open| open.is_key)
    }

    fn push(&mut self, entry: Entry, place: Place) -> Result<(), DocumentError> {
        if self.document.len() >= self.limits.nodes {
            return Err(place.error(format!("must not hold more than {} values", self.limits.nodes)));
        }
        self.charge(self.document.cost(), place)?;
        self.document.push(entry);
        Ok(())
    }

    fn charge(&mut self, bytes: usize, place: Place) -> Result<(), DocumentError> {
        self.memory = self.memory.saturating_add(bytes);
        refuse(self.memory > most_memory(self.document.text.len()), MEMORY, place)
    }

    /// No key may be there twice. They are sorted by where they stand, so that no second copy of them is made.
    fn check_keys(&mut self, open: &Open, place: Place) -> Result<(), DocumentError> {
        let bytes = size_of::<usize>() * open.keys;
        self.charge(bytes, place)?;
        let document = &self.document;
        let mut keys = Vec::with_capacity(open.keys);
        let mut at = open.at + 1;
        for _ in 0..open.keys {
            keys.push(at);
            at += 1;
            at += document.entry(at).entries();
        }
        let text = |at: &usize| document.node(*at).text().unwrap_or_default();
        keys.sort_unstable_by(|one, other| text(one).cmp(text(other)).then(one.cmp(other)));
        let twice = keys.windows(2).find(|pair| text(&pair[0]) == text(&pair[1]));
        if let Some([_, at]) = twice {
            let entry = document.entry(*at);
            let place = match entry.kind {
                Kind::Plain | Kind::Quoted if !entry.made => Place::of_offset(document.text, entry.a),
                _ => place,
            };
            return Err(place.error("must not have the same key twice"));
        }
        self.memory -= bytes;
        Ok(())
    }
}

fn refuse(is_wrong: bool, rule: &'static str, place: Place) -> Result<(), DocumentError> {
    match is_wrong {
        true => Err(place.error(rule)),
        false => Ok(()),
    }
}
