//! Plans the change of a secret, so that whoever stops half-way leaves the old value or the new one.
//!
//! 1. A [journal](crate::journal) is made.
//! 2. The [generation](crate::generation) is renewed: the new object is made, the one before it is destroyed.
//! 3. What is new is made, beside what is old: metadata first, then values. What stays is not touched.
//! 4. What is old is destroyed.
//! 5. The journal is destroyed.
//!
//! From the second half of step 2 on nothing needs room that is not there already, but step 3: a token that is full there still
//! has all of the old value, and going back only destroys.

mod room;

use std::collections::BTreeSet;

use crate::code::Code;
use crate::generation::Generation;
use crate::journal::Journal;
use crate::label::{Label, LabelMark, LabelsMark, PathMark, Turn};
use crate::layout::{Contents, Part, Piece, ReadError, objects};
use crate::limits::{LimitError, Limits, check_secret};
use crate::object::{Found, NewObject, ObjectDigest};
use crate::op::Op;
use crate::path::{KeyName, SecretPath};
use crate::recover::is_left;
use crate::secret::Secret;
use crate::version::{Expected, HIGHEST};

/// Why a change is refused. Nothing was written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// A change of it was interrupted and is to be ended first.
    #[error("{path}: an earlier write was interrupted, and is to be ended first")]
    RecoverFirst {
        /// The path.
        path: SecretPath,
    },
    /// What is there is not what the writer expects.
    #[error("{path}: expected {expected}, found {found}")]
    Unexpected {
        /// The path.
        path: SecretPath,
        /// What the writer expects.
        expected: Expected,
        /// What there is.
        found: String,
    },
    /// Whether it is what the writer expects cannot be told, or there is nothing to change.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// Which version comes next cannot be told, nor what would be left of the secret.
    #[error("{0}; it can be written anew only with a version")]
    Uncounted(ReadError),
    /// What is there has the highest version.
    #[error("{path}: there is no higher version")]
    Exhausted {
        /// The path.
        path: SecretPath,
    },
    /// It was deleted already.
    #[error("{path}: it was deleted")]
    Deleted {
        /// The path.
        path: SecretPath,
    },
    /// The key that is to go is not there.
    #[error("{path}: there is no key {key}")]
    NoKey {
        /// The path.
        path: SecretPath,
        /// The key.
        key: KeyName,
    },
    /// The writer was followed by another.
    #[error("{path}: the writer has epoch {given}, but the token was written in epoch {known}")]
    Epoch {
        /// The path.
        path: SecretPath,
        /// The writer's epoch.
        given: u64,
        /// The highest that is known.
        known: u64,
    },
    /// A label belongs to another secret.
    #[error("{path}: the object {label} belongs to the secret {other}")]
    Occupied {
        /// The path.
        path: SecretPath,
        /// The label.
        label: Label,
        /// The other secret.
        other: String,
    },
    /// A secret without a value that was not deleted, or one with values that was.
    #[error("{path}: a secret has at least one key, and one that was deleted has none")]
    Keys {
        /// The path.
        path: SecretPath,
    },
    /// It was not deleted, or not in this version, so its tombstone cannot be removed.
    #[error("{path}: there is no tombstone of version {version}")]
    NoTombstone {
        /// The path.
        path: SecretPath,
        /// The version.
        version: u64,
    },
    /// The token cannot take it.
    #[error("{path}: {source}")]
    Limit {
        /// The path.
        path: SecretPath,
        /// Which limit.
        source: LimitError,
    },
}

impl WriteError {
    /// What it means to the one who called.
    pub fn code(&self) -> Code {
        match self {
            Self::Read(error) | Self::Uncounted(error) => error.code(),
            Self::Deleted { .. } | Self::NoKey { .. } => Code::NotFound,
            Self::Limit { source, .. } => source.code(),
            Self::Keys { .. } => Code::InvalidArgument,
            _ => Code::FailedPrecondition,
        }
    }
}

/// Plans that a path holds this secret and nothing else, after it was seen that no change is left half-way and that what is there is
/// what the writer expects. To delete a secret, replace it by its [tombstone](Secret::tombstone). If there is nothing to do,
/// there are no steps.
pub(crate) fn put<H: Clone>(
    contents: &Contents<'_, H>,
    path: &SecretPath,
    secret: &Secret,
    limits: &Limits,
) -> Result<Vec<Op<H>>, WriteError> {
    if secret.data.is_empty() != secret.is_deleted() {
        return Err(WriteError::Keys { path: path.clone() });
    }
    check_secret(&secret.data).map_err(|source| limit(path, source))?;
    let epoch = secret.metadata.stamp.epoch;
    is_current(contents, path, epoch)?;
    if let Some((label, other)) = contents.occupant(path, &secret.data) {
        return Err(WriteError::Occupied {
            path: path.clone(),
            label,
            other,
        });
    }
    plan(contents, path, &objects(path, secret), epoch, limits)
}

/// Plans that nothing is left of a secret that was deleted in this version: no late copy of it can be there any more. Where the
/// limits leave no room for a journal, it is done [without one](purge_without_journal).
pub fn purge<H: Clone>(
    contents: &Contents<'_, H>,
    path: &SecretPath,
    version: u64,
    epoch: Option<u64>,
    limits: &Limits,
) -> Result<Vec<Op<H>>, WriteError> {
    is_tombstone(contents, path, version, epoch)?;
    match plan(contents, path, &[], epoch, limits) {
        Err(WriteError::Limit { source, .. }) if source.code() == Code::ResourceExhausted => {
            purge_without_journal(contents, path, version, epoch)
        }
        planned => planned,
    }
}

/// Plans the same on a token that has no room for a journal: every step makes room or needs as much as was just made. The
/// metadata of a secret that was deleted is all that there is of it, in one object or in equal ones, so it is there or it is not.
pub fn purge_without_journal<H: Clone>(
    contents: &Contents<'_, H>,
    path: &SecretPath,
    version: u64,
    epoch: Option<u64>,
) -> Result<Vec<Op<H>>, WriteError> {
    is_tombstone(contents, path, version, epoch)?;
    let pieces = contents.pieces(path).iter();
    let mut ops: Vec<Op<H>> = pieces.map(|piece| destroy(piece.found)).collect();
    ops.push(Op::Create(next(contents, epoch).object()));
    ops.extend(contents.generations().iter().map(|found| destroy(found)));
    Ok(ops)
}

fn is_tombstone<H: Clone>(
    contents: &Contents<'_, H>,
    path: &SecretPath,
    version: u64,
    epoch: Option<u64>,
) -> Result<(), WriteError> {
    is_settled(contents, path)?;
    is_current(contents, path, epoch)?;
    // Power was lost while it was being destroyed: nothing is left that says anything.
    let is_husk = |piece: &Piece<'_, H>| piece.part == Part::Metadata && piece.found.value.is_none();
    let pieces = contents.pieces(path);
    if !pieces.is_empty() && pieces.iter().all(is_husk) {
        return Ok(());
    }
    match contents.stamp(path)? {
        Some(stamp) if stamp.deleted && stamp.version == version => Ok(()),
        _ => Err(WriteError::NoTombstone {
            path: path.clone(),
            version,
        }),
    }
}

/// Whether no other writer has followed this one.
fn is_current<H>(
    contents: &Contents<'_, H>,
    path: &SecretPath,
    epoch: Option<u64>,
) -> Result<(), WriteError> {
    let known = contents.epoch();
    match epoch.filter(|given| *given < known) {
        None => Ok(()),
        Some(given) => Err(WriteError::Epoch {
            path: path.clone(),
            given,
            known,
        }),
    }
}

/// Whether no change of a path is left half-way. One of another path is in nobody's way.
pub(crate) fn is_settled<H: Clone>(contents: &Contents<'_, H>, path: &SecretPath) -> Result<(), WriteError> {
    match is_left(contents, path) {
        true => Err(WriteError::RecoverFirst { path: path.clone() }),
        false => Ok(()),
    }
}

pub(crate) fn is_expected<H>(
    contents: &Contents<'_, H>,
    path: &SecretPath,
    expected: Expected,
) -> Result<(), WriteError> {
    if expected == Expected::Any {
        return Ok(());
    }
    let stamp = contents.stamp(path)?;
    if expected.is_met(stamp.as_ref()) {
        return Ok(());
    }
    let found = stamp.map_or("nothing".to_owned(), |stamp| format!("version {}", stamp.version));
    Err(WriteError::Unexpected {
        path: path.clone(),
        expected,
        found,
    })
}

fn limit(path: &SecretPath, source: LimitError) -> WriteError {
    WriteError::Limit {
        path: path.clone(),
        source,
    }
}

fn plan<H: Clone>(
    contents: &Contents<'_, H>,
    path: &SecretPath,
    wanted: &[NewObject],
    epoch: Option<u64>,
    limits: &Limits,
) -> Result<Vec<Op<H>>, WriteError> {
    let change = Difference::of(contents, path, wanted);
    if change.new.is_empty() && change.going.is_empty() {
        return Ok(Vec::new());
    }
    let generation = next(contents, epoch);
    let journal = change.journal(contents, path, generation);
    let first = [journal.object(), generation.object()];
    room::check(contents, path, &change, &first, limits).map_err(|source| limit(path, source))?;

    let mut ops: Vec<Op<H>> = first.into_iter().map(Op::Create).collect();
    ops.extend(contents.generations().iter().map(|found| destroy(found)));
    ops.extend(change.new.into_iter().cloned().map(Op::Create));
    ops.extend(change.going.into_iter().map(destroy));
    ops.push(Op::DestroyCreated(0));
    Ok(ops)
}

fn destroy<H: Clone>(found: &Found<H>) -> Op<H> {
    Op::Destroy(found.handle.clone())
}

/// The generation after the next change. Nobody counts so far; if somebody forged the highest, it begins anew.
fn next<H>(contents: &Contents<'_, H>, epoch: Option<u64>) -> Generation {
    let counter = contents.generation().counter + 1;
    Generation {
        counter: if counter < HIGHEST { counter } else { 1 },
        epoch: contents.epoch().max(epoch.unwrap_or_default()),
    }
}

/// What a change keeps, makes and destroys.
struct Difference<'a, H> {
    wanted: &'a [NewObject],
    kept: BTreeSet<ObjectDigest>,
    new: Vec<&'a NewObject>,
    going: Vec<&'a Found<H>>,
}

impl<'a, H> Difference<'a, H> {
    fn of(contents: &Contents<'a, H>, path: &SecretPath, wanted: &'a [NewObject]) -> Self {
        let mut kept = BTreeSet::new();
        let mut going = Vec::new();
        let journals = contents.journals().get(&PathMark::of(path));
        let journals = journals.into_iter().flatten().copied();
        for found in journals.chain(contents.pieces(path).iter().map(|piece| piece.found)) {
            // Of equal objects one stays.
            let stays = wanted.iter().any(|object| found.is(object)) && kept.insert(found.digest());
            if !stays {
                going.push(found);
            }
        }
        let new = wanted.iter().filter(|object| !kept.contains(&object.digest()));
        Self {
            wanted,
            new: new.collect(),
            kept,
            going,
        }
    }

    fn journal(&self, contents: &Contents<'a, H>, path: &SecretPath, generation: Generation) -> Journal {
        let old = self.going.iter().map(|found| found.digest());
        let made = self.new.iter().map(|object| &object.label);
        let touched = made.chain(self.going.iter().map(|found| &found.label));
        Journal {
            generation: generation.counter,
            path: path.clone(),
            old: old
                .filter(|digest| !self.kept.contains(digest))
                .map(|digest| digest.half())
                .collect(),
            new: self.new.iter().map(|object| object.digest()).collect(),
            kept: self.kept.clone(),
            touched: touched.map(LabelMark::of).collect(),
            turn: self.turn(contents.pieces(path), path),
        }
    }

    /// The labels before and after, if no state between them has the same. With one metadata object that is renewed there are
    /// two from the first step of the new to the last of the old; and if nothing is made, or nothing was there, each step has
    /// fewer labels than the one before it, or more.
    fn turn(&self, pieces: &[Piece<'a, H>], path: &SecretPath) -> Option<Turn> {
        let metadata = Label::of_metadata(path);
        let is_renewed = || {
            let before = pieces.iter().filter(|piece| piece.part == Part::Metadata);
            before.count() == 1 && self.new.iter().any(|object| object.label == metadata)
        };
        let tells = self.new.is_empty() || pieces.is_empty() || is_renewed();
        tells.then(|| Turn {
            before: LabelsMark::of(pieces.iter().map(|piece| &piece.found.label)),
            after: LabelsMark::of(self.wanted.iter().map(|object| &object.label)),
        })
    }
}

#[cfg(test)]
mod tests;
