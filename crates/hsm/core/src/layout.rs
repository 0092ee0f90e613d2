//! From all objects of a token to secrets, and back.
//!
//! Paths may hold slashes, so a label may be read in two ways: `a/b` is the key `b` of `a`, or the key `data` of `a/b`. A
//! metadata object settles that: if there is one for `a/b`, then `a/b` is a path and the label is its own. Otherwise the last
//! part is the key, as it is in the original's list.
//!
//! Reading is strict. A secret of which one object cannot be read, or is there twice with different values, is not read at all:
//! half a secret would be taken for the whole.

mod error;

use std::collections::{BTreeMap, BTreeSet};

pub use error::ReadError;

use crate::checksum::{DataDigest, checksum};
use crate::generation::Generation;
use crate::journal::Journal;
use crate::label::{Label, Meaning, PathMark};
use crate::metadata::Metadata;
use crate::object::{Found, NewObject};
use crate::path::{KeyName, SecretPath};
use crate::secret::{Data, Secret, Value};
use crate::version::Stamp;

/// One object of a secret.
#[derive(Debug)]
pub(crate) struct Piece<'a, H> {
    pub part: Part,
    pub found: &'a Found<H>,
}

/// What of a secret an object is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Part {
    Metadata,
    Key(KeyName),
    /// A value whose key cannot be one.
    Odd,
}

/// How much a token holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Objects in all: data objects, and where their number is limited also keys and certificates.
    pub objects: usize,
    /// Bytes of labels and values of the data objects.
    pub bytes: usize,
    /// Those that are neither part of a secret nor ours.
    pub foreign: usize,
}

impl Usage {
    pub(crate) fn and(self, objects: usize, bytes: usize) -> Self {
        Self {
            objects: self.objects.saturating_add(objects),
            bytes: self.bytes.saturating_add(bytes),
            ..self
        }
    }

    pub(crate) fn without(self, objects: usize, bytes: usize) -> Self {
        Self {
            objects: self.objects.saturating_sub(objects),
            bytes: self.bytes.saturating_sub(bytes),
            ..self
        }
    }
}

/// What is to be said of a secret without its values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description {
    /// What is known about it: description, labels, version, and whether it was deleted.
    pub metadata: Metadata,
    /// The checksum of the original.
    pub checksum: String,
    /// Our own digest.
    pub digest: DataDigest,
    /// How many keys there are.
    pub keys: usize,
}

impl Description {
    /// What is to be said of this secret.
    pub fn of(secret: &Secret) -> Self {
        Self {
            metadata: secret.metadata.clone(),
            checksum: checksum(&secret.data),
            digest: DataDigest::of(&secret.data),
            keys: secret.data.len(),
        }
    }
}

/// All objects of a token, sorted into secrets.
#[derive(Debug)]
pub struct Contents<'a, H> {
    secrets: BTreeMap<SecretPath, Vec<Piece<'a, H>>>,
    /// What is known to be a path: metadata or a journal says so.
    named: BTreeSet<SecretPath>,
    journals: BTreeMap<PathMark, Vec<&'a Found<H>>>,
    generations: Vec<&'a Found<H>>,
    usage: Usage,
}

impl<'a, H> Contents<'a, H> {
    /// Sorts all data objects of a token, in whichever order they were found. If some are left out, what is said of their
    /// secrets is wrong.
    pub fn of(objects: &'a [Found<H>]) -> Self {
        let mut contents = Self {
            secrets: BTreeMap::new(),
            named: BTreeSet::new(),
            journals: BTreeMap::new(),
            generations: Vec::new(),
            usage: Usage::default(),
        };
        let mut values = Vec::new();
        for found in objects {
            contents.usage.objects += 1;
            contents.usage.bytes += found.size();
            match found.label.meaning() {
                Meaning::Metadata(path) => contents.metadata_of(path, found),
                Meaning::Journal(mark) => contents.journal_of(mark, found),
                Meaning::Generation => contents.generations.push(found),
                Meaning::Value(text) => values.push((text, found)),
                Meaning::Foreign => contents.usage.foreign += 1,
            }
        }
        // Whose a value is can be told only after all paths are known.
        for (text, found) in values {
            match owner(text, &contents.named) {
                Some((path, part)) => contents.piece(path, part, found),
                None => contents.usage.foreign += 1,
            }
        }
        for pieces in contents.secrets.values_mut() {
            let rank = |piece: &Piece<'a, H>| (piece.part == Part::Metadata, &piece.found.label);
            pieces.sort_by(|one, other| rank(one).cmp(&rank(other)));
        }
        contents
    }

    /// The same, on a token that has so many objects of other classes beside them.
    pub fn beside(mut self, others: usize) -> Self {
        self.usage.objects += others;
        self.usage.foreign += others;
        self
    }

    fn metadata_of(&mut self, path: SecretPath, found: &'a Found<H>) {
        self.named.insert(path.clone());
        self.piece(path, Part::Metadata, found);
    }

    fn journal_of(&mut self, mark: PathMark, found: &'a Found<H>) {
        self.journals.entry(mark).or_default().push(found);
        if let Ok(journal) = Journal::of(found, mark) {
            self.named.insert(journal.path.clone());
            self.secrets.entry(journal.path).or_default();
        }
    }

    fn piece(&mut self, path: SecretPath, part: Part, found: &'a Found<H>) {
        self.secrets.entry(path).or_default().push(Piece { part, found });
    }

    /// The paths of all secrets, those that were deleted and those that cannot be read among them.
    pub fn paths(&self) -> impl Iterator<Item = &SecretPath> {
        self.secrets.keys()
    }

    /// Reads a secret, which may be one that was deleted.
    pub fn read(&self, path: &SecretPath) -> Result<Secret, ReadError> {
        self.trust(path)?;
        let pieces = self.pieces(path);
        let mut data = Data::new();
        let mut put = |key: &KeyName, found: &Found<H>| {
            let value = value(path, found)?;
            let earlier = data.insert(key.clone(), value.clone());
            match earlier.is_some_and(|earlier| earlier != *value) {
                true => Err(contradiction(path, found)),
                false => Ok(()),
            }
        };
        for piece in pieces {
            match &piece.part {
                Part::Metadata => {}
                Part::Key(key) => put(key, piece.found)?,
                Part::Odd => {
                    return Err(ReadError::Key {
                        path: path.clone(),
                        label: piece.found.label.clone(),
                    });
                }
            }
        }
        for found in self.unnamed(path) {
            put(&KeyName::data(), found)?;
        }
        if pieces.is_empty() && data.is_empty() {
            return Err(ReadError::NotFound { path: path.clone() });
        }
        let mut metadata = self.metadata(path)?.unwrap_or_default();
        if data.is_empty() && !metadata.stamp.deleted {
            return Err(ReadError::Empty { path: path.clone() });
        }
        // Somebody who knows nothing of versions has written it again.
        metadata.stamp.deleted &= data.is_empty();
        Ok(Secret { data, metadata })
    }

    /// Objects with the path as their label, which are keys of the path above only because nothing says otherwise. To the path
    /// itself they are its key `data`, as they are to the original: seeds have such paths, and write no metadata.
    fn unnamed(&self, path: &SecretPath) -> impl Iterator<Item = &'a Found<H>> {
        let above = path.parent().map(|(above, _)| above);
        let above = above.filter(|above| !self.named.contains(*above));
        let pieces = above
            .and_then(|above| self.secrets.get(above))
            .into_iter()
            .flatten();
        let label = Label::new(path.as_str());
        pieces
            .map(|piece| piece.found)
            .filter(move |found| found.label == label)
    }

    /// The stamp of a secret, if there is one. Its values need not be readable.
    pub fn stamp(&self, path: &SecretPath) -> Result<Option<Stamp>, ReadError> {
        self.trust(path)?;
        let pieces = self.pieces(path);
        if pieces.is_empty() {
            return Ok(self.unnamed(path).next().map(|_| Stamp::default()));
        }
        let mut stamp = self.metadata(path)?.unwrap_or_default().stamp;
        stamp.deleted &= pieces.iter().all(|piece| piece.part == Part::Metadata);
        Ok(Some(stamp))
    }

    fn metadata(&self, path: &SecretPath) -> Result<Option<Metadata>, ReadError> {
        let mut first: Option<&Value> = None;
        for piece in self.pieces(path) {
            if piece.part != Part::Metadata {
                continue;
            }
            let value = value(path, piece.found)?;
            if first.is_some_and(|first| first != value) {
                return Err(contradiction(path, piece.found));
            }
            first = Some(value);
        }
        let parsed = first.map(|value| Metadata::parse(value.expose())).transpose();
        parsed.map_err(|source| ReadError::Metadata {
            path: path.clone(),
            source,
        })
    }

    /// A path with a journal may hold a mixture, or have lost everything.
    fn trust(&self, path: &SecretPath) -> Result<(), ReadError> {
        match self.journals.contains_key(&PathMark::of(path)) {
            true => Err(ReadError::Interrupted { path: path.clone() }),
            false => Ok(()),
        }
    }

    /// Whether a change of a path was interrupted, and could be neither finished nor undone.
    pub fn is_interrupted(&self, path: &SecretPath) -> bool {
        self.trust(path).is_err()
    }

    /// Reads a secret and says what is to be said of it without its values.
    pub fn describe(&self, path: &SecretPath) -> Result<Description, ReadError> {
        Ok(Description::of(&self.read(path)?))
    }

    /// The generation of the token.
    pub fn generation(&self) -> Generation {
        let all = self.generations.iter().filter_map(|found| Generation::of(found));
        all.fold(Generation::default(), |one, other| Generation {
            counter: one.counter.max(other.counter),
            epoch: one.epoch.max(other.epoch),
        })
    }

    /// The highest epoch of those who wrote to the token.
    pub fn epoch(&self) -> u64 {
        let metadata = self
            .secrets
            .keys()
            .filter_map(|path| self.metadata(path).ok().flatten());
        let written = metadata.filter_map(|metadata| metadata.stamp.epoch);
        written.fold(self.generation().epoch, u64::max)
    }

    /// How much it holds.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// The secret that a label of this one would belong to, if that is another.
    pub(crate) fn occupant(&self, path: &SecretPath, data: &Data) -> Option<(Label, String)> {
        let of_key = |key: &KeyName| Label::of_key(path, key);
        let below = data.keys().filter(|key| !key.is_default()).find_map(|key| {
            let text = format!("{path}/{key}");
            self.named.contains(text.as_str()).then(|| (of_key(key), text))
        });
        let (above, _) = path.parent().unzip();
        below.or_else(|| {
            let above = above?;
            let label = of_key(&KeyName::data());
            let taken = self
                .secrets
                .get(above)?
                .iter()
                .any(|piece| piece.found.label == label);
            taken.then(|| (label, above.to_owned()))
        })
    }

    /// All objects of a path but journals: values, sorted by label, then metadata, which says whose the values are.
    pub(crate) fn pieces(&self, path: &SecretPath) -> &[Piece<'a, H>] {
        self.secrets.get(path).map_or(&[], Vec::as_slice)
    }

    /// The objects of a path; nothing if there are none, or if they do not say all: a change of it was interrupted.
    pub fn objects_of(&self, path: &SecretPath) -> Option<impl Iterator<Item = &'a Found<H>>> {
        let pieces = self.pieces(path);
        let told = !pieces.is_empty() && self.trust(path).is_ok();
        told.then(|| {
            let unnamed = self.unnamed(path);
            pieces.iter().map(|piece| piece.found).chain(unnamed)
        })
    }

    pub(crate) fn journals(&self) -> &BTreeMap<PathMark, Vec<&'a Found<H>>> {
        &self.journals
    }

    pub(crate) fn generations(&self) -> &[&'a Found<H>] {
        &self.generations
    }
}

/// Whose value a label is; nothing if no secret can have it.
fn owner(text: &str, named: &BTreeSet<SecretPath>) -> Option<(SecretPath, Part)> {
    match text.rsplit_once('/').filter(|_| !named.contains(text)) {
        None => Some((SecretPath::parse(text).ok()?, Part::Key(KeyName::data()))),
        Some((path, key)) => {
            let part = KeyName::parse(key).map_or(Part::Odd, Part::Key);
            Some((SecretPath::parse(path).ok()?, part))
        }
    }
}

fn value<'a, H>(path: &SecretPath, found: &'a Found<H>) -> Result<&'a Value, ReadError> {
    found.value.as_ref().ok_or_else(|| ReadError::Unreadable {
        path: path.clone(),
        label: found.label.clone(),
    })
}

fn contradiction<H>(path: &SecretPath, found: &Found<H>) -> ReadError {
    ReadError::Contradiction {
        path: path.clone(),
        label: found.label.clone(),
    }
}

/// The objects that a secret is: its metadata first, because that says whose the others are.
pub fn objects(path: &SecretPath, secret: &Secret) -> Vec<NewObject> {
    let metadata = NewObject {
        label: Label::of_metadata(path),
        value: Value::new(secret.metadata.to_json()),
    };
    let values = secret.data.iter().map(|(key, value)| NewObject {
        label: Label::of_key(path, key),
        value: value.clone(),
    });
    std::iter::once(metadata).chain(values).collect()
}

#[cfg(test)]
mod tests;
