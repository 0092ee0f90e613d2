//! What is on a token, with every interrupted change ended.

use trustplane_hsm_core::recover::{End, Ended, Loss, recover, recover_one};

use super::{Store, StoreError};
use crate::token::{Objects, SOME};

impl Store<'_> {
    /// Knows what is on the token, with every interrupted change ended that can be.
    pub(super) fn settle(&mut self) -> Result<(), StoreError> {
        self.look()?;
        // What is hidden could be a journal, or what it is about.
        if self.assert_shown().is_err() {
            return Ok(());
        }
        let recovery = recover(&self.contents()?);
        match self.carry_out(&recovery.ops) {
            Ok(()) => self.note(recovery.ended),
            Err(error) if error.needs_initialisation() => return Err(error.into()),
            Err(_) => self.settle_each(recovery.ended)?,
        }
        Ok(())
    }

    /// Ends each change by itself, because the token refuses a step of one of them. That one keeps its journal, and its path is not
    /// served; all others are.
    fn settle_each(&mut self, all: Vec<Ended>) -> Result<(), StoreError> {
        for change in all {
            self.look()?;
            let recovery = recover_one(&self.contents()?, change.mark);
            match self.carry_out(&recovery.ops) {
                Ok(()) => self.note(recovery.ended),
                Err(error) if error.needs_initialisation() => return Err(error.into()),
                Err(_) => self.note([Ended {
                    end: End::Lost(Loss::Refused),
                    ..change
                }]),
            }
        }
        self.look()
    }

    fn note(&mut self, all: impl IntoIterator<Item = Ended>) {
        for ended in all {
            if !self.interrupted.contains(&ended) {
                self.interrupted.push(ended);
            }
        }
    }

    /// Looks at every object; what was read before is not read again, unless that is doubtful.
    fn look(&mut self) -> Result<(), StoreError> {
        self.ask()?;
        self.index = None;
        let known = std::mem::take(&mut self.objects);
        let expected = match known.found.len() {
            0 => SOME,
            seen => seen,
        };
        let known = match std::mem::replace(&mut self.doubtful, true) {
            true => Objects::default(),
            false => known,
        };
        self.objects = self.token.objects_beside(known, expected)?;
        if self.limits.objects.is_some() {
            self.objects.others = self.token.others()?;
        }
        self.doubtful = false;
        Ok(())
    }
}
