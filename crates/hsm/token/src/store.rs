//! Secrets on a token: read strictly, replaced without loss.

mod known;

use std::collections::{BTreeMap, BTreeSet};

use trustplane_hsm_core::change::{Change, Terms, change};
use trustplane_hsm_core::code::Code;
use trustplane_hsm_core::generation::Generation;
use trustplane_hsm_core::label::Label;
use trustplane_hsm_core::layout::{Contents, Description, ReadError, Usage, objects};
use trustplane_hsm_core::limits::{Limits, Room};
use trustplane_hsm_core::object::{Found, NewObject};
use trustplane_hsm_core::op::{self, Op, carry_out};
use trustplane_hsm_core::path::SecretPath;
use trustplane_hsm_core::recover::{Ended, recover};
use trustplane_hsm_core::replace::{WriteError, purge};
use trustplane_hsm_core::secret::Secret;
use trustplane_hsm_core::version::Stamp;

use crate::token::{Handle, Objects};
use crate::{Memory, Token, TokenError};
use known::Index;

/// Why something could not be done with a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// It cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// It must not be written so. Nothing was changed.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The token failed. What was being written is there wholly or not at all, once the token can be used again.
    #[error(transparent)]
    Token(#[from] TokenError),
}

impl StoreError {
    /// Whether the module has to be initialised again before the token can be used.
    pub fn needs_initialisation(&self) -> bool {
        matches!(self, Self::Token(error) if error.needs_initialisation())
    }

    /// What it means to the one who called; nothing if the token cannot be used at all.
    pub fn code(&self) -> Option<Code> {
        match self {
            Self::Read(error) => Some(error.code()),
            Self::Write(error) => Some(error.code()),
            Self::Token(TokenError::Full(_)) => Some(Code::ResourceExhausted),
            Self::Token(TokenError::Unreadable(_)) => Some(Code::DataLoss),
            Self::Token(TokenError::Cut { .. }) => Some(Code::InvalidArgument),
            Self::Token(TokenError::WriteProtected(_)) => Some(Code::FailedPrecondition),
            Self::Token(_) => None,
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

/// Every path with what is to be said of its secret without values, or why it cannot be read.
pub type Listing = BTreeMap<SecretPath, Result<Description, ReadError>>;

/// A token with secrets on it.
///
/// What was read is kept, and wiped when it goes. To read a secret, its objects are read from the token again, and no others. A
/// change first looks whether the token has the objects that are known, by the labels that it is about, by the generation, and
/// by the metadata where that counts; if not, or to list, all of them are looked at. What another tool does to other labels is seen by [`Store::refresh`]; with a
/// module like OpenSC, which does not see the writes of others at all, the module has to be initialised again for that, and
/// the store opened anew.
pub struct Store<'module> {
    token: Token<'module>,
    limits: Limits,
    objects: Objects,
    /// Which objects a path has, as far as it was asked for since they were last looked at.
    index: Option<Index>,
    /// Whether a step has failed since the objects were read: then nobody knows what is there.
    doubtful: bool,
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
            interrupted: Vec::new(),
        };
        store.settle()?;
        Ok(store)
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
        let labels = match wanted {
            Change::Put(secret) => objects(path, secret)
                .into_iter()
                .map(|object| object.label)
                .collect(),
            Change::Delete(_) | Change::DeleteKey(..) => BTreeSet::from([Label::of_metadata(path)]),
        };
        let secret = self.make(path, labels, wanted.depends(terms), |contents| {
            change(contents, path, wanted, terms, &limits)
        })?;
        Ok(Description::of(&secret))
    }

    /// Removes what is left of a secret that was deleted in this version, for a writer of this epoch.
    pub fn purge(&mut self, path: &SecretPath, version: u64, epoch: Option<u64>) -> Result<(), StoreError> {
        let limits = self.limits;
        self.make(path, BTreeSet::new(), true, |contents| {
            Ok((purge(contents, path, version, epoch, &limits)?, ()))
        })
    }

    /// How much the token holds.
    pub fn capacity(&mut self) -> Result<Capacity, StoreError> {
        self.settle()?;
        let memory = self.token.info()?.memory;
        let usage = Contents::of(&self.objects.found).usage();
        Ok(Capacity {
            usage,
            room: self.limits.room(&usage),
            memory,
        })
    }

    /// How much the token holds by what was seen and changed last. The token is not asked, so nothing is known of its memory.
    pub fn known_capacity(&self) -> Capacity {
        let usage = Contents::of(&self.objects.found).usage();
        Capacity {
            usage,
            room: self.limits.room(&usage),
            memory: Memory::default(),
        }
    }

    /// The generation of the token: new after each change of ours.
    pub fn generation(&mut self) -> Result<Generation, StoreError> {
        self.settle()?;
        Ok(Contents::of(&self.objects.found).generation())
    }

    /// The generation as it was when this was used last. The token is not asked.
    pub fn known_generation(&self) -> Generation {
        Contents::of(&self.objects.found).generation()
    }

    /// What became of the changes that were interrupted, as far as they were found since this was asked last.
    pub fn interrupted(&mut self) -> Vec<Ended> {
        std::mem::take(&mut self.interrupted)
    }

    /// All secrets, unless there is an object that could belong to any of them.
    fn contents(&self) -> Result<Contents<'_, Handle>, StoreError> {
        self.assert_names()?;
        Ok(Contents::of(&self.objects.found))
    }

    fn assert_names(&self) -> Result<(), StoreError> {
        let mut unreadable = self.objects.unreadable.iter();
        match unreadable.find(|object| object.label.is_none()) {
            Some(object) => Err(TokenError::Unreadable(object.clone()).into()),
            None => Ok(()),
        }
    }

    /// Carries out what is planned for a path, whose new objects have these labels. It may depend on what the metadata says.
    fn make<R>(
        &mut self,
        path: &SecretPath,
        labels: BTreeSet<Label>,
        depends: bool,
        plan: impl FnOnce(&Contents<'_, Handle>) -> Result<(Vec<Op<Handle>>, R), WriteError>,
    ) -> Result<R, StoreError> {
        if !self.is_as_known(path, labels, depends)? {
            self.settle()?;
        }
        let (ops, result) = plan(&self.contents()?)?;
        self.carry_out(&ops).inspect_err(|error| {
            if !error.needs_initialisation() {
                // The error is what counts; what this one leaves is settled before the next use.
                drop(self.settle());
            }
        })?;
        Ok(result)
    }

    /// Knows what is on the token, with every interrupted change ended.
    fn settle(&mut self) -> Result<(), StoreError> {
        // Another token in the same slot would be a surprise, and so would be none.
        self.token.info()?;
        self.index = None;
        let known = std::mem::take(&mut self.objects);
        let known = match std::mem::replace(&mut self.doubtful, true) {
            true => Objects::default(),
            false => known,
        };
        self.objects = self.token.objects_beside(known)?;
        self.doubtful = false;
        let recovery = recover(&self.contents()?);
        self.carry_out(&recovery.ops)?;
        for ended in recovery.ended {
            if !self.interrupted.contains(&ended) {
                self.interrupted.push(ended);
            }
        }
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

/// Carries out steps, and keeps what is known of the token in step with them.
struct Hands<'a, 'module> {
    token: &'a Token<'module>,
    objects: &'a mut Objects,
    vague_when_full: bool,
}

impl Hands<'_, '_> {
    /// Why an object could not be made. A token that is still there, and we with it, has no room.
    fn refusal(&self, error: TokenError) -> TokenError {
        match error.needs_initialisation() && self.vague_when_full {
            true => match self.token.info().and_then(|_| self.token.assert_logged_in()) {
                Ok(()) => error.or_full(),
                Err(gone) => gone,
            },
            false => error,
        }
    }
}

impl op::Objects for Hands<'_, '_> {
    type Handle = Handle;
    type Error = TokenError;

    fn create(&mut self, object: &NewObject) -> Result<Handle, TokenError> {
        let handle = self.token.create(object).map_err(|error| self.refusal(error))?;
        self.objects.found.push(Found {
            handle,
            label: object.label.clone(),
            value: Some(object.value.clone()),
        });
        Ok(handle)
    }

    fn destroy(&mut self, handle: &Handle) -> Result<(), TokenError> {
        self.token.destroy(*handle)?;
        self.objects.found.retain(|found| found.handle != *handle);
        self.objects.unreadable.retain(|object| object.handle != *handle);
        Ok(())
    }
}
