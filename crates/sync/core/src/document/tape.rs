//! A document in memory: one small entry for each value, in the order of the text.

use zeroize::Zeroizing;

/// Entries of one block. Blocks never move, so that growth needs no second copy.
const BLOCK: usize = 512;
/// How many bits the two numbers of an entry have: enough for every text that is read.
const BITS: u32 = 30;
const MASK: u64 = (1 << BITS) - 1;

/// What an entry stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Null,
    /// A scalar without quotes: `a` is where its text begins, `b` how long it is.
    Plain,
    /// A scalar with quotes, or of a block.
    Quoted,
    /// A list: the next `b` entries are within it.
    List,
    /// A map: the next `b` entries are within it, keys and values in turn.
    Map,
    /// The value of entry `a`.
    Alias,
}

/// One value of a document.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    pub kind: Kind,
    /// Whether the text is not in the source as it stands.
    pub made: bool,
    pub a: usize,
    pub b: usize,
}

impl Entry {
    fn pack(self) -> u64 {
        let kind = match self.kind {
            Kind::Null => 0,
            Kind::Plain => 1,
            Kind::Quoted => 2,
            Kind::List => 3,
            Kind::Map => 4,
            Kind::Alias => 5,
        };
        (kind << (2 * BITS + 1))
            | (u64::from(self.made) << (2 * BITS))
            | ((self.a as u64 & MASK) << BITS)
            | (self.b as u64 & MASK)
    }

    fn unpack(packed: u64) -> Self {
        let kind = match packed >> (2 * BITS + 1) {
            1 => Kind::Plain,
            2 => Kind::Quoted,
            3 => Kind::List,
            4 => Kind::Map,
            5 => Kind::Alias,
            _ => Kind::Null,
        };
        Self {
            kind,
            made: (packed >> (2 * BITS)) & 1 == 1,
            a: ((packed >> BITS) & MASK) as usize,
            b: (packed & MASK) as usize,
        }
    }

    /// How many entries it has, itself included.
    pub fn entries(self) -> usize {
        match self.kind {
            Kind::List | Kind::Map => 1 + self.b,
            _ => 1,
        }
    }
}

/// A document that was read. What a value of it was, wiped memory does not tell.
pub struct Document<'t> {
    pub(super) text: &'t str,
    /// The text of scalars that are not in the source as they stand.
    pub(super) made: Zeroizing<String>,
    blocks: Vec<Vec<u64>>,
    entries: usize,
}

impl<'t> Document<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self {
            text,
            made: Zeroizing::new(String::new()),
            blocks: Vec::new(),
            entries: 0,
        }
    }

    /// The value of the document.
    pub fn root(&self) -> Node<'_> {
        self.node(0)
    }

    /// How many bytes of memory it holds, beside the source.
    pub fn memory(&self) -> usize {
        let blocks: usize = self.blocks.iter().map(Vec::capacity).sum();
        size_of::<u64>() * blocks + size_of::<Vec<u64>>() * self.blocks.capacity() + self.made.capacity()
    }

    /// How many bytes the next entry will cost.
    pub(super) fn cost(&self) -> usize {
        let block = size_of::<u64>() * BLOCK;
        match self.entries.is_multiple_of(BLOCK) {
            // The list of blocks grows to twice its size at the most.
            true => block + size_of::<Vec<u64>>() * (self.blocks.len() + 4),
            false => 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.entries
    }

    pub(super) fn push(&mut self, entry: Entry) {
        if self.entries.is_multiple_of(BLOCK) {
            self.blocks.push(Vec::with_capacity(BLOCK));
        }
        if let Some(block) = self.blocks.last_mut() {
            block.push(entry.pack());
            self.entries += 1;
        }
    }

    /// Ends a list or map that began at this entry.
    pub(super) fn close(&mut self, at: usize) {
        let mut entry = self.entry(at);
        entry.b = self.entries.saturating_sub(at + 1);
        if let Some(packed) = self
            .blocks
            .get_mut(at / BLOCK)
            .and_then(|block| block.get_mut(at % BLOCK))
        {
            *packed = entry.pack();
        }
    }

    pub(super) fn entry(&self, at: usize) -> Entry {
        let packed = self
            .blocks
            .get(at / BLOCK)
            .and_then(|block| block.get(at % BLOCK));
        Entry::unpack(packed.copied().unwrap_or_default())
    }

    pub(super) fn node(&self, at: usize) -> Node<'_> {
        let entry = self.entry(at);
        let at = if entry.kind == Kind::Alias { entry.a } else { at };
        Node { document: self, at }
    }

    fn text_of(&self, entry: Entry) -> &str {
        let text = if entry.made { self.made.as_str() } else { self.text };
        text.get(entry.a..entry.a + entry.b).unwrap_or_default()
    }
}

/// One value of a document.
#[derive(Clone, Copy)]
pub struct Node<'d> {
    document: &'d Document<'d>,
    at: usize,
}

/// What a value is.
pub enum Content<'d> {
    /// Nothing, or `null`, or `~`.
    Null,
    /// A text; `plain` if it stood there without quotes, so that it may be meant as a number or a truth value.
    Scalar {
        /// The text.
        text: &'d str,
        /// Whether it had no quotes.
        plain: bool,
    },
    /// A list.
    List(Items<'d>),
    /// A map, in the order of the text. No key is there twice.
    Map(Pairs<'d>),
}

impl<'d> Node<'d> {
    /// What it is.
    pub fn content(self) -> Content<'d> {
        let entry = self.document.entry(self.at);
        let items = Items {
            document: self.document,
            next: self.at + 1,
            end: self.at + 1 + entry.b,
        };
        match entry.kind {
            Kind::Null | Kind::Alias => Content::Null,
            Kind::Plain | Kind::Quoted => Content::Scalar {
                text: self.document.text_of(entry),
                plain: entry.kind == Kind::Plain,
            },
            Kind::List => Content::List(items),
            Kind::Map => Content::Map(Pairs(items)),
        }
    }

    /// What it is, for messages.
    pub fn kind(self) -> &'static str {
        match self.content() {
            Content::Null => "nothing",
            Content::Scalar { .. } => "a scalar",
            Content::List(_) => "a list",
            Content::Map(_) => "a map",
        }
    }

    /// Whether it counts as not given: nothing, or an empty collection.
    pub fn is_absent(self) -> bool {
        match self.content() {
            Content::Null => true,
            Content::Scalar { .. } => false,
            Content::List(mut items) => items.next().is_none(),
            Content::Map(mut fields) => fields.next().is_none(),
        }
    }

    /// Its text, if it is a scalar.
    pub fn text(self) -> Option<&'d str> {
        match self.content() {
            Content::Scalar { text, .. } => Some(text),
            _ => None,
        }
    }
}

/// The items of a list.
#[derive(Clone, Copy)]
pub struct Items<'d> {
    document: &'d Document<'d>,
    next: usize,
    end: usize,
}

impl<'d> Iterator for Items<'d> {
    type Item = Node<'d>;

    fn next(&mut self) -> Option<Node<'d>> {
        if self.next >= self.end {
            return None;
        }
        let node = self.document.node(self.next);
        self.next += self.document.entry(self.next).entries();
        Some(node)
    }
}

/// The fields of a map.
#[derive(Clone, Copy)]
pub struct Pairs<'d>(Items<'d>);

impl<'d> Pairs<'d> {
    /// The value of a field.
    pub fn get(mut self, name: &str) -> Option<Node<'d>> {
        self.find(|(key, _)| *key == name).map(|(_, node)| node)
    }
}

impl<'d> Iterator for Pairs<'d> {
    type Item = (&'d str, Node<'d>);

    fn next(&mut self) -> Option<Self::Item> {
        let key = self.0.next()?;
        let value = self.0.next()?;
        Some((key.text().unwrap_or_default(), value))
    }
}
