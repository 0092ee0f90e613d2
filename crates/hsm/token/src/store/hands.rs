//! Steps on a token, as they are carried out.

use trustplane_hsm_core::label::Label;
use trustplane_hsm_core::object::{Found, NewObject};
use trustplane_hsm_core::op;

use crate::token::{Handle, Objects, Remains};
use crate::{Token, TokenError};

/// Carries out steps, and keeps what is known of the token in step with them.
pub(super) struct Hands<'a, 'module> {
    pub token: &'a Token<'module>,
    pub objects: &'a mut Objects,
    pub vague_when_full: bool,
}

impl Hands<'_, '_> {
    /// Why an object could not be made. A token that is still there, and we with it, has no room.
    fn refusal(&self, error: TokenError) -> TokenError {
        match error.needs_initialisation() && self.vague_when_full {
            true => match self.token.assert_here() {
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
        let is_it = |other: &Handle| other == handle;
        match self.token.destroy(*handle)? {
            Remains::Nothing => {
                self.objects.found.retain(|found| !is_it(&found.handle));
                self.objects.unreadable.retain(|object| !is_it(&object.handle));
            }
            Remains::Husk => {
                let found = self.objects.found.iter_mut();
                for husk in found.filter(|found| is_it(&found.handle)) {
                    (husk.label, husk.value) = (Label::of_husk(), None);
                }
            }
        }
        Ok(())
    }
}
