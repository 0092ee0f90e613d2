//! Secrets on a token: read strictly, replaced without loss.

mod hands;
mod known;
mod settle;

use std::collections::BTreeMap;

use trustplane_hsm_core::change::{Change, Terms, change};
use trustplane_hsm_core::code::Code;
use trustplane_hsm_core::generation::Generation;
use trustplane_hsm_core::label::Label;
use trustplane_hsm_core::layout::{Contents, Description, ReadError, Usage};
use trustplane_hsm_core::limits::{Limits, Room};
use trustplane_hsm_core::op::{Op, carry_out};
use trustplane_hsm_core::path::SecretPath;
use trustplane_hsm_core::recover::Ended;
use trustplane_hsm_core::replace::{WriteError, purge, purge_without_journal};
use trustplane_hsm_core::secret::Secret;
use trustplane_hsm_core::version::Stamp;

use crate::token::{Handle, Objects};
use crate::{Memory, Token, TokenError};
use hands::Hands;
use known::{Basis, Index};

/// Why something could not be done with a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// It cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// It must not be written so. Nothing was changed.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The token failed. What was being written is there wholly or not at all, once the token can be used again. If it can be used
    /// still, nothing was changed.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// The token failed in the middle of a change, and then it could not be seen what has become of that.
    #[error("{0}; whether the change was made is not known")]
    Unknown(TokenError),
}

impl StoreError {
    /// Whether the module has to be initialised again before the token can be used.
    pub fn needs_initialisation(&self) -> bool {
        matches!(self, Self::Token(error) | Self::Unknown(error) if error.needs_initialisation())
    }

    /// What it means to the one who called; nothing if the token cannot be used at all.
    pub fn code(&self) -> Option<Code> {
        match self {
            Self::Read(error) => Some(error.code()),
            Self::Write(error) => Some(error.code()),
            Self::Token(TokenError::Full(_)) => Some(Code::ResourceExhausted),
            Self::Token(TokenError::Unreadable(_) | TokenError::Hidden { .. }) => Some(Code::DataLoss),
            Self::Token(TokenError::Cut { .. }) => Some(Code::InvalidArgument),
            Self::Token(TokenError::WriteProtected(_)) => Some(Code::FailedPrecondition),
            Self::Token(_) | Self::Unknown(_) => None,
        }
    }
}

/// How much a token holds, and how much it can hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capacity {
    /// What is there.
    pub usage: Usage,
    /// What is free by the limits that were declared.
    pub room: Room,
    /// What the token itself says.
    pub memory: Memory,
}

/// All that is known of a token at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Survey {
    /// Every secret, those that were deleted among them.
    pub listing: Listing,
    /// How much the token holds.
    pub capacity: Capacity,
    /// Its generation.
    pub generation: Generation,
}

/// Every path with what is to be said of its secret without values, or why it cannot be read.
pub type Listing = BTreeMap<SecretPath, Result<Description, ReadError>>;

/// A token with secrets on it.
///
/// What was read is kept, and wiped when it goes. To read a secret, its objects are read from the token again, and no others. A
/// change first looks whether the token has the objects that are known, by the labels that it is about, by the generation, and
/// by what stays of the secret and by the metadata where that counts; if not, or to list, all of them are looked at. What another
/// tool does to other labels is seen by [`Store::refresh`]; with a module like OpenSC, which does not see the writes of others at
/// all, the module has to be initialised again for that, and the store opened anew.
///
/// Where a module shows so many objects and no more, and so many are there, nothing is read and nothing is changed: a part of a
/// secret could be hidden, or a journal.
pub struct Store<'module> {
    token: Token<'module>,
    limits: Limits,
    objects: Objects,
    /// Which objects a path has, as far as it was asked for since they were last looked at.
    index: Option<Index>,
    /// Whether a step has failed since the objects were read: then nobody knows what is there.
    doubtful: bool,
    /// What the token said of its memory when it was last asked.
    memory: Memory,
    interrupted: Vec<Ended>,
}

impl<'module> Store<'module> {
    /// Reads the token, which must be logged in, and ends every change that was interrupted.
    pub fn open(token: Token<'module>, limits: Limits) -> Result<Self, StoreError> {
        let mut store = Self {
            token,
            limits,
            objects: Objects::default(),
            index: None,
            doubtful: true,
            memory: Memory::default(),
            interrupted: Vec::new(),
        };
        store.settle()?;
        Ok(store)
    }

    /// Sees that our session with the token is there, and logged in.
    pub fn assert_logged_in(&self) -> Result<(), TokenError> {
        self.token.assert_logged_in()
    }

    /// Reads every object again.
    pub fn refresh(&mut self) -> Result<(), StoreError> {
        self.doubtful = true;
        self.settle()
    }

    /// Reads a secret, which may be one that was deleted.
    pub fn read(&mut self, path: &SecretPath) -> Result<Secret, StoreError> {
        if let Some(known) = self.read_known(path)? {
            return Ok(known);
        }
        self.settle()?;
        Ok(self.contents()?.read(path)?)
    }

    /// Every secret, those that were deleted among them.
    pub fn list(&mut self) -> Result<Listing, StoreError> {
        self.settle()?;
        self.listing()
    }

    /// All that is known of the token after one look at it. If it is to be anew, every object is read again.
    pub fn survey(&mut self, anew: bool) -> Result<Survey, StoreError> {
        self.doubtful |= anew;
        self.settle()?;
        Ok(Survey {
            listing: self.listing()?,
            capacity: self.known_capacity(),
            generation: self.known_generation(),
        })
    }

    fn listing(&self) -> Result<Listing, StoreError> {
        let contents = self.contents()?;
        let paths = contents.paths();
        Ok(paths
            .map(|path| (path.clone(), contents.describe(path)))
            .collect())
    }

    /// Has a path hold this secret and nothing else, and says what it holds then. After an error of the token it holds the old
    /// one or the new one.
    pub fn write(
        &mut self,
        path: &SecretPath,
        secret: &Secret,
        terms: impl Into<Terms>,
    ) -> Result<Description, StoreError> {
        self.change(path, &Change::Put(secret), terms)
    }

    /// Deletes a secret. What is left of it says so, with this stamp.
    pub fn delete(
        &mut self,
        path: &SecretPath,
        stamp: Stamp,
        terms: impl Into<Terms>,
    ) -> Result<Description, StoreError> {
        self.change(path, &Change::Delete(stamp), terms)
    }

    /// Changes a secret, and says what there is of it then. What is there is looked at once, to judge and to plan by.
    pub fn change(
        &mut self,
        path: &SecretPath,
        wanted: &Change<'_>,
        terms: impl Into<Terms>,
    ) -> Result<Description, StoreError> {
        let (limits, terms) = (self.limits, terms.into());
        let basis = Basis::of(path, wanted, wanted.depends(terms));
        let secret = self.make(
            path,
            basis,
            |contents| change(contents, path, wanted, terms, &limits),
            |contents, secret| contents.read(path).as_ref() == Ok(secret),
        )?;
        Ok(Description::of(&secret))
    }

    /// Removes what is left of a secret that was deleted in this version, for a writer of this epoch. If the token has no room for a
    /// journal of that, it is done without.
    pub fn purge(&mut self, path: &SecretPath, version: u64, epoch: Option<u64>) -> Result<(), StoreError> {
        let limits = self.limits;
        let is_gone = |contents: &Contents<'_, Handle>, (): &()| {
            matches!(contents.read(path), Err(ReadError::NotFound { .. }))
        };
        let plan =
            |contents: &Contents<'_, Handle>| Ok((purge(contents, path, version, epoch, &limits)?, ()));
        match self.make(path, Basis::metadata(), plan, is_gone) {
            Err(StoreError::Token(TokenError::Full(_))) => {
                let plan = |contents: &Contents<'_, Handle>| {
                    Ok((purge_without_journal(contents, path, version, epoch)?, ()))
                };
                self.make(path, Basis::metadata(), plan, is_gone)
            }
            purged => purged,
        }
    }

    /// How much the token holds.
    pub fn capacity(&mut self) -> Result<Capacity, StoreError> {
        self.settle()?;
        Ok(self.known_capacity())
    }

    /// How much the token holds by what was seen and changed last. The token is not asked.
    pub fn known_capacity(&self) -> Capacity {
        let usage = self.known().usage();
        Capacity {
            usage,
            room: self.limits.room(&usage),
            memory: self.memory,
        }
    }

    /// The generation of the token: new after each change of ours. It alone is looked for, and read again.
    pub fn generation(&mut self) -> Result<Generation, StoreError> {
        self.ask()?;
        self.token.assert_logged_in()?;
        let mut live = Vec::new();
        for handle in self.token.handles(Some(&Label::of_generation()), 1)? {
            match self.token.look(handle)? {
                Some(found) => live.push(found),
                // It is changing, or cannot be read.
                None => {
                    self.settle()?;
                    return Ok(self.known_generation());
                }
            }
        }
        Ok(Contents::of(&live).generation())
    }

    /// The generation as it was when this was used last. The token is not asked.
    pub fn known_generation(&self) -> Generation {
        self.known().generation()
    }

    /// What became of the changes that were interrupted, as far as they were found since this was asked last.
    pub fn interrupted(&mut self) -> Vec<Ended> {
        std::mem::take(&mut self.interrupted)
    }

    /// All secrets, unless there is an object that could belong to any of them.
    fn contents(&self) -> Result<Contents<'_, Handle>, StoreError> {
        self.assert_whole()?;
        Ok(self.known())
    }

    fn known(&self) -> Contents<'_, Handle> {
        Contents::of(&self.objects.found).beside(self.objects.others)
    }

    /// Sees that nothing which is known of the token could lack a part: a nameless object could be of any secret, and so could
    /// one that is not shown.
    fn assert_whole(&self) -> Result<(), StoreError> {
        let mut unreadable = self.objects.unreadable.iter();
        if let Some(object) = unreadable.find(|object| object.label.is_none()) {
            return Err(TokenError::Unreadable(object.clone()).into());
        }
        self.assert_shown()
    }

    fn assert_shown(&self) -> Result<(), StoreError> {
        let shown = self.objects.found.len() + self.objects.others;
        match self.limits.may_hide(shown) {
            true => Err(TokenError::Hidden { shown }.into()),
            false => Ok(()),
        }
    }

    /// Carries out what is planned for a path on this basis. If a step fails and the token can still be used, it is seen what has
    /// become of it.
    fn make<R>(
        &mut self,
        path: &SecretPath,
        basis: Basis,
        plan: impl FnOnce(&Contents<'_, Handle>) -> Result<(Vec<Op<Handle>>, R), WriteError>,
        is_made: impl Fn(&Contents<'_, Handle>, &R) -> bool,
    ) -> Result<R, StoreError> {
        if !self.is_as_known(path, basis)? {
            self.settle()?;
        }
        let (ops, result) = plan(&self.contents()?)?;
        let Err(error) = self.carry_out(&ops) else {
            return Ok(result);
        };
        if error.needs_initialisation() {
            return Err(error.into());
        }
        let settled = self.settle().and_then(|()| self.contents());
        match settled {
            // What was left to do was done now.
            Ok(contents) if is_made(&contents, &result) => Ok(result),
            Ok(contents) if !contents.is_interrupted(path) => Err(error.into()),
            _ => Err(StoreError::Unknown(error)),
        }
    }

    /// Another token in the same slot would be a surprise, and so would be none.
    fn ask(&mut self) -> Result<(), TokenError> {
        self.memory = self.token.info()?.memory;
        Ok(())
    }

    fn carry_out(&mut self, ops: &[Op<Handle>]) -> Result<(), TokenError> {
        if ops.is_empty() {
            return Ok(());
        }
        self.doubtful = true;
        self.index = None;
        let mut hands = Hands {
            token: &self.token,
            objects: &mut self.objects,
            vague_when_full: self.limits.vague_when_full,
        };
        carry_out(&mut hands, ops)?;
        self.doubtful = false;
        Ok(())
    }
}
