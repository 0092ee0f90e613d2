//! Making a blank token ours: a label, a security officer's PIN, a user's PIN.

use cryptoki::object::{Attribute, ObjectClass};
use cryptoki::session::UserType;
use cryptoki::slot::Slot;

use crate::inventory::TokenInfo;
use crate::{Module, Pin, TokenError};

/// As many bytes as PKCS#11 has for a token's label.
const LONGEST_LABEL: usize = 32;

impl Module {
    /// Initialises a token that has no user PIN, and gives it one. What fails half-way can be done again with the same
    /// security officer's PIN. Afterwards the module has to be initialised again: the token's slot may be another.
    ///
    /// A token with a user PIN or with objects is in use, and refused: this would wipe it.
    pub fn provision(
        &mut self,
        token: &TokenInfo,
        label: &str,
        officer: &Pin,
        user: &Pin,
    ) -> Result<(), TokenError> {
        if label.is_empty() || label.len() > LONGEST_LABEL {
            return Err(TokenError::TokenLabel);
        }
        let slot = slot(token.slot)?;
        // The token may be another by now, or somebody else may have been faster.
        let there = self.info(slot)?;
        if !there.is(token) {
            return Err(TokenError::AnotherToken { slot: token.slot });
        }
        if there.has_user_pin {
            return Err(TokenError::InUse { label: there.label });
        }
        if there.initialised && self.has_objects(slot)? {
            return Err(TokenError::InUse { label: there.label });
        }
        self.library()
            .init_token(slot, &officer.to_auth(), label)
            .map_err(|error| TokenError::of("C_InitToken", error))?;
        let session = self
            .library()
            .open_rw_session(slot)
            .map_err(|error| TokenError::of("C_OpenSession", error))?;
        session
            .login(UserType::So, Some(&officer.to_auth()))
            .map_err(|error| TokenError::of("C_Login", error))?;
        session
            .init_pin(&user.to_auth())
            .map_err(|error| TokenError::of("C_InitPIN", error))?;
        session
            .logout()
            .map_err(|error| TokenError::of("C_Logout", error))
    }

    /// Whether a token holds something that anybody can see.
    fn has_objects(&self, slot: Slot) -> Result<bool, TokenError> {
        let session = self
            .library()
            .open_ro_session(slot)
            .map_err(|error| TokenError::of("C_OpenSession", error))?;
        // A token may have objects of its own, which tell what it can do: kryoptic has.
        for class in [
            ObjectClass::DATA,
            ObjectClass::CERTIFICATE,
            ObjectClass::PUBLIC_KEY,
            ObjectClass::PRIVATE_KEY,
            ObjectClass::SECRET_KEY,
        ] {
            let found = session
                .find_objects(&[Attribute::Class(class)])
                .map_err(|error| TokenError::of("C_FindObjects", error))?;
            if !found.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// A slot by its number.
pub(crate) fn slot(number: u64) -> Result<Slot, TokenError> {
    Slot::try_from(number).map_err(|error| TokenError::of("C_OpenSession", error))
}
