//! Changes that are made of what there is: the next version, one key less. Whoever plans one looks at the token once, so nobody
//! can come between the look and the plan.

use crate::layout::{Contents, ReadError};
use crate::limits::Limits;
use crate::op::Op;
use crate::path::{KeyName, SecretPath};
use crate::replace::{WriteError, is_expected, is_settled, put};
use crate::secret::Secret;
use crate::version::{Expected, HIGHEST, Stamp};

/// Which version a change gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Numbering {
    /// The one of its stamp. What is there need not be readable.
    Given,
    /// One more than what is there has; the one of its stamp does not count. Of what cannot be read nobody knows which version
    /// comes next, so that is refused.
    Next,
}

/// On which terms a secret is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    /// What has to be there.
    pub expected: Expected,
    /// Which version it gets.
    pub numbering: Numbering,
}

impl Terms {
    /// The next version, if this is what is there.
    pub fn next(expected: Expected) -> Self {
        Self {
            expected,
            numbering: Numbering::Next,
        }
    }
}

/// The version is given.
impl From<Expected> for Terms {
    fn from(expected: Expected) -> Self {
        Self {
            expected,
            numbering: Numbering::Given,
        }
    }
}

/// What is to become of a secret.
#[derive(Debug, Clone)]
pub enum Change<'a> {
    /// It is this one, and nothing else.
    Put(&'a Secret),
    /// It was deleted, and what is left has this stamp. Where the version is given, there need be nothing to delete: a late
    /// copy must not come back.
    Delete(Stamp),
    /// It has this key no more, and this stamp. If that was its last key, it was deleted.
    DeleteKey(&'a KeyName, Stamp),
}

impl Change<'_> {
    /// Whether the change depends on what is there.
    pub fn depends(&self, terms: Terms) -> bool {
        self.reads(terms) || terms.expected != Expected::Any
    }

    fn reads(&self, terms: Terms) -> bool {
        terms.numbering == Numbering::Next || matches!(self, Self::DeleteKey(..))
    }

    fn secret(&self, path: &SecretPath, terms: Terms, found: Option<Secret>) -> Result<Secret, WriteError> {
        match self {
            Self::Put(secret) => Ok((*secret).clone()),
            Self::Delete(stamp) => match found {
                None if terms.numbering == Numbering::Next => {
                    Err(ReadError::NotFound { path: path.clone() }.into())
                }
                Some(found) if found.is_deleted() => Err(WriteError::Deleted { path: path.clone() }),
                _ => Ok(Secret::tombstone(stamp.clone())),
            },
            Self::DeleteKey(key, stamp) => {
                let missing = || WriteError::NoKey {
                    path: path.clone(),
                    key: (*key).clone(),
                };
                let mut secret = found.ok_or_else(missing)?;
                secret.data.remove(*key).ok_or_else(missing)?;
                if secret.data.is_empty() {
                    return Ok(Secret::tombstone(stamp.clone()));
                }
                secret.metadata.stamp = stamp.clone();
                Ok(secret)
            }
        }
    }
}

/// Plans a change, and says what the path holds after it.
pub fn change<H: Clone>(
    contents: &Contents<'_, H>,
    path: &SecretPath,
    change: &Change<'_>,
    terms: Terms,
    limits: &Limits,
) -> Result<(Vec<Op<H>>, Secret), WriteError> {
    is_settled(contents, path)?;
    let found = match change.reads(terms) {
        true => found(contents, path)?,
        false => None,
    };
    let version = match terms.numbering {
        Numbering::Given => None,
        Numbering::Next => Some(next(path, found.as_ref())?),
    };
    is_expected(contents, path, terms.expected)?;
    let mut secret = change.secret(path, terms, found)?;
    if let Some(version) = version {
        secret.metadata.stamp.version = version;
    }
    Ok((put(contents, path, &secret, limits)?, secret))
}

fn found<H>(contents: &Contents<'_, H>, path: &SecretPath) -> Result<Option<Secret>, WriteError> {
    match contents.read(path) {
        Ok(secret) => Ok(Some(secret)),
        Err(ReadError::NotFound { .. }) => Ok(None),
        Err(error) => Err(WriteError::Uncounted(error)),
    }
}

fn next(path: &SecretPath, found: Option<&Secret>) -> Result<u64, WriteError> {
    let before = found.map_or(0, |found| found.metadata.stamp.version);
    match before < HIGHEST {
        true => Ok(before + 1),
        false => Err(WriteError::Exhausted { path: path.clone() }),
    }
}

#[cfg(test)]
mod tests;
