//! The objects of a snapshot, kept compressed until the platform has taken them.
//!
//! Canonical JSON has no line break, so the objects of a block stand one on a line. A block is inflated when its turn comes: the body of
//! a request is never whole in memory.

use std::io::{Read, Write};
use std::sync::Arc;

use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use trustplane_api::inventory::wire::SnapshotHead;

use crate::InventoryKind;

/// How much text a block holds before it is compressed.
const BLOCK: usize = 64 << 10;

/// Objects of one kind.
#[derive(Debug, Default)]
pub struct Objects {
    blocks: Vec<Block>,
    open: String,
    count: usize,
    /// Of all texts, without what separates them.
    length: u64,
}

#[derive(Debug)]
struct Block {
    deflated: Box<[u8]>,
    length: usize,
}

impl Objects {
    /// Adds an object in its canonical form.
    pub fn push(&mut self, object: &str) {
        if !self.open.is_empty() {
            self.open.push('\n');
        }
        self.open.push_str(object);
        self.count += 1;
        self.length += object.len() as u64;
        if self.open.len() >= BLOCK {
            self.close();
        }
    }

    /// Compresses the last block too.
    pub fn close(&mut self) {
        if self.open.is_empty() {
            return;
        }
        let mut encoder = DeflateEncoder::new(Vec::with_capacity(BLOCK / 8), Compression::fast());
        // Writing into memory cannot fail.
        let deflated = encoder
            .write_all(self.open.as_bytes())
            .and_then(|()| encoder.finish())
            .unwrap_or_default();
        self.blocks.push(Block {
            deflated: deflated.into_boxed_slice(),
            length: self.open.len(),
        });
        self.open = String::new();
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The objects of a block, one on a line.
    pub fn lines(&self, block: usize) -> Option<String> {
        let block = self.blocks.get(block)?;
        let mut text = String::with_capacity(block.length);
        // What we compressed ourselves can be read.
        DeflateDecoder::new(&*block.deflated)
            .read_to_string(&mut text)
            .ok()?;
        Some(text)
    }

    /// The length of the objects in a JSON array, without its brackets.
    fn length(&self) -> u64 {
        self.length + (self.count as u64).saturating_sub(1)
    }
}

/// The objects of all kinds that could be read.
#[derive(Debug)]
pub struct Snapshot {
    kinds: Vec<(InventoryKind, Objects)>,
}

impl Snapshot {
    /// A snapshot of these kinds. One that is not named here is unknown to the platform, and not empty.
    pub fn new(mut kinds: Vec<(InventoryKind, Objects)>) -> Self {
        kinds.iter_mut().for_each(|(_, objects)| objects.close());
        kinds.sort_by_key(|(kind, _)| *kind);
        Self { kinds }
    }

    /// How many objects it has.
    pub fn len(&self) -> usize {
        self.kinds.iter().map(|(_, objects)| objects.len()).sum()
    }

    /// Whether it has no object.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Its kinds, in the order of the body.
    pub fn kinds(&self) -> impl Iterator<Item = InventoryKind> {
        self.kinds.iter().map(|(kind, _)| *kind)
    }

    /// The objects of a kind.
    pub fn objects(&self, number: usize) -> Option<(InventoryKind, &Objects)> {
        self.kinds.get(number).map(|(kind, objects)| (*kind, objects))
    }

    /// The length of the body with this head.
    pub fn body_length(&self, head: &SnapshotHead) -> u64 {
        let arrays = self.kinds.iter();
        let arrays = arrays.map(|(kind, objects)| key(*kind).len() as u64 + objects.length() + 1);
        opening(head).len() as u64 + arrays.sum::<u64>() + 1
    }

    /// The body with this head, in pieces. Each block is inflated when its turn comes.
    pub fn body(self: &Arc<Self>, head: &SnapshotHead) -> impl Iterator<Item = String> + Send + use<> {
        let arrays = self
            .kinds
            .iter()
            .enumerate()
            .flat_map(|(number, (kind, objects))| {
                let blocks = (0..objects.blocks.len()).map(move |block| Piece::Block(number, block));
                let close = Piece::Text("]".to_owned());
                std::iter::once(Piece::Text(key(*kind)))
                    .chain(blocks)
                    .chain([close])
            });
        let opening = Piece::Text(opening(head));
        let close = Piece::Text("}".to_owned());
        let pieces: Vec<Piece> = std::iter::once(opening).chain(arrays).chain([close]).collect();
        let snapshot = self.clone();
        pieces.into_iter().filter_map(move |piece| match piece {
            Piece::Text(text) => Some(text),
            Piece::Block(kind, block) => {
                let text = snapshot.kinds.get(kind)?.1.lines(block)?.replace('\n', ",");
                Some(if block == 0 { text } else { format!(",{text}") })
            }
        })
    }
}

/// A part of a body.
enum Piece {
    Text(String),
    /// A block of the objects of a kind, both by number.
    Block(usize, usize),
}

/// The head as an object that is not closed yet.
fn opening(head: &SnapshotHead) -> String {
    // A struct of texts can be written.
    let mut text = serde_json::to_string(head).unwrap_or_default();
    text.pop();
    text
}

fn key(kind: InventoryKind) -> String {
    format!(",\"{}\":[", kind.array())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn head() -> SnapshotHead {
        SnapshotHead {
            cluster_uid: "c".into(),
            cluster_name: "a \"name\"".into(),
            agent_version: Some("1".into()),
            ..SnapshotHead::default()
        }
    }

    #[test]
    fn a_body_is_json_of_the_length_that_was_told() {
        let mut pods = Objects::default();
        let object = |number: usize| format!("{{\"name\":\"p{number}\",\"note\":\"{}\"}}", "x".repeat(400));
        (0..1000).for_each(|number| pods.push(&object(number)));
        let snapshot = Arc::new(Snapshot::new(vec![
            (InventoryKind::Pod, pods),
            (InventoryKind::Namespace, Objects::default()),
        ]));
        assert!(snapshot.kinds[1].1.blocks.len() > 3);
        let body: String = snapshot.body(&head()).collect();
        assert_eq!(body.len() as u64, snapshot.body_length(&head()));
        let body: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(body["cluster_name"], "a \"name\"");
        assert_eq!(body["namespaces"], json!([]));
        assert_eq!(body["pods"].as_array().unwrap().len(), 1000);
        assert_eq!(body["pods"][999]["name"], "p999");
        assert_eq!(body.get("services"), None, "a kind that was not read is left out");
    }

    #[test]
    fn a_snapshot_keeps_a_fraction_of_its_text() {
        let mut pods = Objects::default();
        let object = format!("{{\"note\":\"{}\"}}", "image:v1 ".repeat(100));
        (0..1000).for_each(|_| pods.push(&object));
        pods.close();
        let kept: usize = pods.blocks.iter().map(|block| block.deflated.len()).sum();
        assert!(kept * 10 < 1000 * object.len(), "{kept}");
    }
}
