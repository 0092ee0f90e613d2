//! The module: loaded once, initialised as often as it takes.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use cryptoki::context::{CInitializeArgs, CInitializeFlags, Pkcs11};
use cryptoki::error::{Error, RvError};
use cryptoki::slot::Slot;

use crate::inventory::{BadSlot, Inventory, TokenInfo};
use crate::{Token, TokenError};

/// A module's state belongs to the process, so there is one at most.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// A PKCS#11 module, loaded and initialised.
///
/// A module may know a token only as it was when it was initialised: OpenSC sees neither a token that came later nor what
/// another process has written. [`Module::initialise_again`] is what helps. No session can live through it, since a [`Token`]
/// borrows the module:
///
/// ```compile_fail,E0502
/// # use trustplane_hsm_token::{Module, TokenError, TokenInfo};
/// fn again(module: &mut Module, chosen: &TokenInfo) -> Result<(), TokenError> {
///     let token = module.open(chosen)?;
///     module.initialise_again()?;
///     token.info().map(drop)
/// }
/// ```
#[derive(Debug)]
pub struct Module {
    library: Pkcs11,
    initialised: bool,
}

impl Module {
    /// Loads and initialises the module.
    pub fn load(path: &Path) -> Result<Self, TokenError> {
        let shown = || path.display().to_string();
        if TAKEN.swap(true, Ordering::AcqRel) {
            return Err(TokenError::SecondModule { path: shown() });
        }
        let library = Self::open_library(path).inspect_err(|_| TAKEN.store(false, Ordering::Release))?;
        let mut module = Self {
            library,
            initialised: false,
        };
        module.initialise()?;
        Ok(module)
    }

    fn open_library(path: &Path) -> Result<Pkcs11, TokenError> {
        let library = Pkcs11::new(path).map_err(|error| TokenError::Load {
            path: path.display().to_string(),
            reason: match error {
                Error::LibraryLoading(error) => error.to_string(),
                Error::MissingSymbol(symbol) => format!("it has no {symbol}"),
                error => TokenError::of("C_GetFunctionList", error).to_string(),
            },
        })?;
        // Many modules do not survive being unloaded. One handle more keeps it where it is.
        std::mem::forget(library.clone());
        Ok(library)
    }

    fn initialise(&mut self) -> Result<(), TokenError> {
        let arguments = CInitializeArgs::new(CInitializeFlags::OS_LOCKING_OK);
        self.library
            .initialize(arguments)
            .map_err(|error| TokenError::of("C_Initialize", error))?;
        self.initialised = true;
        Ok(())
    }

    fn finalise(&mut self) -> Result<(), TokenError> {
        match self.library.clone().finalize() {
            Ok(()) | Err(Error::Pkcs11(RvError::CryptokiNotInitialized, _)) => {
                self.initialised = false;
                Ok(())
            }
            Err(error) => Err(TokenError::of("C_Finalize", error)),
        }
    }

    /// Ends everything that the module has under way, and begins anew: sessions and logins are gone, tokens are looked for
    /// again. It can be tried again after an error.
    pub fn initialise_again(&mut self) -> Result<(), TokenError> {
        if self.initialised {
            self.finalise()?;
        }
        self.initialise()
    }

    /// Every token that there is.
    pub fn inventory(&self) -> Result<Inventory, TokenError> {
        let slots = self
            .library
            .get_slots_with_token()
            .map_err(|error| TokenError::of("C_GetSlotList", error))?;
        let mut inventory = Inventory::default();
        for slot in slots {
            match self.info(slot) {
                Ok(token) => inventory.tokens.push(token),
                Err(error) => inventory.bad.push(BadSlot {
                    slot: slot.id(),
                    error,
                }),
            }
        }
        Ok(inventory)
    }

    /// What is in a slot.
    pub(crate) fn info(&self, slot: Slot) -> Result<TokenInfo, TokenError> {
        let reader = self
            .library
            .get_slot_info(slot)
            .map_err(|error| TokenError::of("C_GetSlotInfo", error))?;
        let token = self
            .library
            .get_token_info(slot)
            .map_err(|error| TokenError::of("C_GetTokenInfo", error))?;
        Ok(TokenInfo::of(slot, &reader, &token))
    }

    /// Opens a session with a token that was chosen. Nobody is logged in by it.
    pub fn open(&self, token: &TokenInfo) -> Result<Token<'_>, TokenError> {
        Token::open(self, token)
    }

    pub(crate) fn library(&self) -> &Pkcs11 {
        &self.library
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        if self.initialised {
            // There is nobody left to tell.
            drop(self.finalise());
        }
        TAKEN.store(false, Ordering::Release);
    }
}
