//! The module of the child, and the token in it that was found and is held.

use std::path::{Path, PathBuf};

use trustplane_hsm_core::secret::Value;
use trustplane_hsm_token::{Attempt, Module, Token, TokenInfo};

use super::requests::{info, pin, same};
use crate::hold::{Hold, Place};
use crate::wire::{Failure, Kind, Search, Tried};

/// A module that is loaded, and the token in it that was found.
pub(super) struct Loaded {
    pub path: PathBuf,
    pub module: Module,
    pub found: Option<TokenInfo>,
    /// The right to open it.
    pub held: Option<Hold>,
}

impl Loaded {
    /// Initialises the module again, and finds the same token, which stays held.
    pub fn find_again(&mut self) -> Result<(), Failure> {
        let known = self.found.take().ok_or_else(not_open)?;
        self.module.initialise_again()?;
        let mut tokens = self.module.inventory()?.tokens.into_iter();
        let missing = || Failure::new(Kind::Unavailable, format!("the token is gone: {known}"));
        let found = tokens.find(|token| same(token, &known)).ok_or_else(missing)?;
        self.found = Some(found);
        Ok(())
    }

    /// Holds the token that was found. Nobody else may be at it.
    pub fn hold(&mut self, found: TokenInfo, runtime: &Path) -> Result<TokenInfo, Failure> {
        let who = format!("trustplane-agent module, process {}", std::process::id());
        let hold = Place::of(runtime, &found).take(&who).map_err(Failure::before)?;
        self.held = Some(hold);
        self.found = Some(found.clone());
        Ok(found)
    }

    /// Lets go of the token.
    pub fn let_go(&mut self) {
        (self.found, self.held) = (None, None);
    }

    /// The module and the token, if that may be opened.
    pub fn to_open(&self) -> Option<(&Module, &TokenInfo)> {
        self.held.as_ref()?;
        Some((&self.module, self.found.as_ref()?))
    }
}

pub(super) fn not_open() -> Failure {
    Failure::new(Kind::Unavailable, "the token is not open")
}

/// Finds the token that is wanted, and holds it.
pub(super) fn find(loaded: &mut Option<Loaded>, search: &Search) -> Result<TokenInfo, Failure> {
    let selector = search
        .wanted
        .selector()
        .ok_or_else(|| Failure::new(Kind::InvalidArgument, "nothing says which token is wanted"))?;
    let loaded = load(loaded, &search.module)?;
    let found = loaded.module.inventory()?.choose(&selector)?.clone();
    loaded.hold(found, &search.runtime)
}

/// Loads the module, or initialises it again. Whatever was open is not any more, so nothing is held.
pub(super) fn load<'loaded>(
    loaded: &'loaded mut Option<Loaded>,
    path: &Path,
) -> Result<&'loaded mut Loaded, Failure> {
    match loaded {
        Some(loaded) if loaded.path == path => {
            loaded.let_go();
            loaded.module.initialise_again()?;
        }
        Some(_) => {
            return Err(Failure::new(
                Kind::InvalidArgument,
                "this process has another module",
            ));
        }
        None => {
            *loaded = Some(Loaded {
                path: path.to_owned(),
                module: Module::load(path)?,
                found: None,
                held: None,
            });
        }
    }
    let missing = || Failure::new(Kind::Unavailable, "the module is not loaded");
    loaded.as_mut().ok_or_else(missing)
}

/// Logs in to a token that is held.
pub(super) fn log_in<'module>(
    module: &'module Module,
    found: &TokenInfo,
    secrets: &[Value],
    attempt: Attempt,
) -> Result<Token<'module>, (Failure, Tried)> {
    let pin = secrets.first().and_then(pin);
    let pin = pin.ok_or_else(|| (Failure::new(Kind::InvalidArgument, "no PIN"), Tried::No))?;
    let token = module.open(found).map_err(|error| (error.into(), Tried::No))?;
    token.log_in(&pin, attempt).map_err(|error| {
        // The token is asked other things first.
        let is_of_login = error.is_of_login();
        let failure = Failure::from(error);
        let tried = match failure.kind {
            Kind::Pin(problem) if problem.may_pass() => Tried::No,
            _ if !is_of_login => Tried::No,
            Kind::Pin(_) => Tried::Refused,
            _ => Tried::Unanswered,
        };
        (failure, tried)
    })?;
    Ok(token)
}

/// Whether a login by nobody's order could be made if the token were closed.
pub(super) fn may_log_in(module: &Module, found: &TokenInfo) -> Result<(), Failure> {
    let tries = info(module, found)?.pin_tries;
    match Attempt::Automatic.may(tries) {
        true => Ok(()),
        false => {
            let text = format!("the module is not initialised again: {tries}");
            Err(Failure::new(Kind::FailedPrecondition, text))
        }
    }
}
