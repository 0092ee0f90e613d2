//! A token that nobody uses yet, which is made ours.

use trustplane_hsm_core::secret::Value;
use trustplane_hsm_token::{Selector, TokenError, TokenInfo};

use super::{Loaded, load, pin, same};
use crate::wire::{Failure, Kind, Search};

/// Finds the token that is wanted, if it has no user PIN: it may be ours by half. Else the one token that nobody uses; if
/// something is known of the one that is wanted, it must be that.
pub(super) fn find(loaded: &mut Option<Loaded>, search: &Search) -> Result<TokenInfo, Failure> {
    let (wanted, loaded) = (&search.wanted, load(loaded, &search.module)?);
    let inventory = loaded.module.inventory()?;
    let wanted_one = wanted
        .selector()
        .and_then(|selector| inventory.choose(&selector).ok())
        .filter(|token| !token.has_user_pin);
    let blank = match wanted_one {
        Some(token) => token,
        None => inventory.blank()?,
    };
    // Its label is given to it only now.
    if let Some(known) = Selector::of(wanted.serial.as_deref(), None, wanted.reader_serial.as_deref()) {
        let wanted = inventory.choose(&known)?;
        if !same(wanted, blank) {
            let text = format!("the blank token is not the one with {known}");
            return Err(Failure::new(Kind::FailedPrecondition, text));
        }
    }
    let blank = blank.clone();
    loaded.hold(blank, &search.runtime)
}

/// Makes the token that was found ours. The next order has to be to find it.
pub(super) fn provision(loaded: Option<&mut Loaded>, label: &str, secrets: &[Value]) -> Result<(), Failure> {
    let [Some(officer), Some(user)] = [secrets.first().and_then(pin), secrets.get(1).and_then(pin)] else {
        let failure = Failure::new(Kind::InvalidArgument, "no PIN");
        return Err(Failure::before(failure));
    };
    let Some((loaded, blank)) = loaded.and_then(|loaded| {
        loaded.held.as_ref()?;
        let blank = loaded.found.take()?;
        Some((loaded, blank))
    }) else {
        let failure = Failure::new(Kind::Unavailable, "no blank token was found");
        return Err(Failure::before(failure));
    };
    let done = loaded.module.provision(&blank, label, &officer, &user);
    done.map_err(|error| match error {
        TokenError::InUse { .. } | TokenError::AnotherToken { .. } | TokenError::TokenLabel => {
            Failure::before(error)
        }
        error => error.into(),
    })
}
