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

use std::collections::BTreeSet;

use crate::code::Code;
use crate::generation::Generation;
use crate::journal::{Journal, MOST_OBJECTS};
use crate::label::{Label, PathMark};
use crate::layout::{Contents, ReadError, objects};
use crate::limits::{LimitError, Limits, check_secret};
use crate::object::{Found, NewObject};
use crate::op::Op;
use crate::path::{KeyName, SecretPath};
use crate::recover::recover;
use crate::secret::Secret;
use crate::version::Expected;

/// Why a change is refused. Nothing was written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// A change was interrupted and is to be ended first.
    #[error("{path}: an earlier write was interrupted, and the token is to be recovered first")]
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

/// Plans that nothing is left of a secret that was deleted in this version: no late copy of it can be there any more.
pub fn purge<H: Clone>(
    contents: &Contents<'_, H>,
    path: &SecretPath,
    version: u64,
    epoch: Option<u64>,
    limits: &Limits,
) -> Result<Vec<Op<H>>, WriteError> {
    is_settled(contents, path)?;
    is_current(contents, path, epoch)?;
    let stamp = contents.stamp(path)?;
    if !stamp.is_some_and(|stamp| stamp.deleted && stamp.version == version) {
        return Err(WriteError::NoTombstone {
            path: path.clone(),
            version,
        });
    }
    plan(contents, path, &[], epoch, limits)
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

pub(crate) fn is_settled<H: Clone>(contents: &Contents<'_, H>, path: &SecretPath) -> Result<(), WriteError> {
    match recover(contents).ops.is_empty() {
        true => Ok(()),
        false => Err(WriteError::RecoverFirst { path: path.clone() }),
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
    let mut kept = BTreeSet::new();
    let mut going = Vec::new();
    let journals = contents
        .journals()
        .get(&PathMark::of(path))
        .into_iter()
        .flatten()
        .copied();
    for found in journals.chain(contents.pieces(path).iter().map(|piece| piece.found)) {
        // Of equal objects one stays.
        let stays = wanted.iter().any(|object| found.is(object)) && kept.insert(found.digest());
        if !stays {
            going.push(found);
        }
    }
    let new: Vec<&NewObject> = wanted
        .iter()
        .filter(|object| !kept.contains(&object.digest()))
        .collect();
    if new.is_empty() && going.is_empty() {
        return Ok(Vec::new());
    }
    let generation = Generation {
        counter: contents.generation().counter + 1,
        epoch: contents.epoch().max(epoch.unwrap_or_default()),
    };
    let old = going
        .iter()
        .map(|found| found.digest())
        .filter(|digest| !kept.contains(digest));
    let journal = Journal {
        generation: generation.counter,
        path: path.clone(),
        old: old.map(|digest| digest.half()).collect(),
        new: new.iter().map(|object| object.digest()).collect(),
        kept,
    };
    let first = [journal.object(), generation.object()];
    check(contents, &journal, &first, &new, limits).map_err(|source| limit(path, source))?;

    let mut ops: Vec<Op<H>> = first.into_iter().map(Op::Create).collect();
    let destroy = |found: &Found<H>| Op::Destroy(found.handle.clone());
    ops.extend(contents.generations().iter().map(|found| destroy(found)));
    ops.extend(new.into_iter().cloned().map(Op::Create));
    ops.extend(going.into_iter().map(destroy));
    ops.push(Op::DestroyCreated(0));
    Ok(ops)
}

/// Checks every object, and the most that the token has to hold at once.
fn check<H>(
    contents: &Contents<'_, H>,
    journal: &Journal,
    first: &[NewObject],
    new: &[&NewObject],
    limits: &Limits,
) -> Result<(), LimitError> {
    let most = journal.kept.len().max(journal.new.len()).max(journal.old.len());
    if most > MOST_OBJECTS {
        return Err(LimitError::Keys { keys: most });
    }
    for object in first.iter().chain(new.iter().copied()) {
        limits.check_object(object)?;
    }
    let with_first = first
        .iter()
        .fold(contents.usage(), |usage, object| usage.and(1, object.size()));
    limits.check_usage(&with_first)?;
    let gone = contents.generations().iter();
    let without = gone.fold(with_first, |usage, found| usage.without(1, found.size()));
    let with_all = new
        .iter()
        .fold(without, |usage, object| usage.and(1, object.size()));
    limits.check_usage(&with_all)
}

#[cfg(test)]
mod tests;
