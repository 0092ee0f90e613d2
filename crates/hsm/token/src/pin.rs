//! PINs, and how careful one has to be with them.

use std::fmt;

use cryptoki::types::AuthPin;
use trustplane_process::secret::Secret;

/// A PIN: redacted when printed, wiped when dropped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pin(Secret<String>);

impl Pin {
    /// Takes a PIN into custody.
    pub fn new(pin: impl Into<String>) -> Self {
        Self(Secret::new(pin.into()))
    }

    /// As the library wants it. It wipes its copy as well.
    pub(crate) fn to_auth(&self) -> AuthPin {
        // Of exactly its size, so that making a box of it leaves no copy behind.
        let pin = self.0.expose();
        let mut copy = String::with_capacity(pin.len());
        copy.push_str(pin);
        AuthPin::new(copy.into_boxed_str())
    }
}

/// What a token says of the tries that are left for its user PIN.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum PinTries {
    /// As many as there can be, or the token does not tell.
    #[default]
    Unknown,
    /// The last try was wrong.
    Low,
    /// One more wrong try locks the PIN.
    Final,
    /// None.
    Locked,
}

impl fmt::Display for PinTries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unknown => "the token does not tell how many tries are left",
            Self::Low => "the last PIN tried was wrong",
            Self::Final => "one more wrong PIN locks the token",
            Self::Locked => "the PIN is locked",
        })
    }
}

/// On whose account a PIN is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attempt {
    /// Nobody has asked for it: only when the last try was right.
    Automatic,
    /// A wrong PIN was tried, we know which, and somebody has given another one: not if one more could lock the token.
    Corrected,
    /// Somebody who knows what a wrong PIN costs has ordered it.
    Ordered,
}

impl Attempt {
    /// Whether a PIN may be tried.
    pub fn may(self, tries: PinTries) -> bool {
        match (self, tries) {
            (_, PinTries::Unknown) => true,
            (_, PinTries::Locked) | (Self::Automatic, _) => false,
            (Self::Corrected, tries) => tries == PinTries::Low,
            (Self::Ordered, _) => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pin_is_not_printed() {
        assert!(!format!("{:?}", Pin::new("648219")).contains("648219"));
    }

    #[test]
    fn only_an_order_tries_a_pin_that_could_be_locked_by_it() {
        use PinTries::{Final, Locked, Low, Unknown};
        let may = |attempt: Attempt| [Unknown, Low, Final, Locked].map(|tries| attempt.may(tries));
        assert_eq!(may(Attempt::Automatic), [true, false, false, false]);
        assert_eq!(may(Attempt::Corrected), [true, true, false, false]);
        assert_eq!(may(Attempt::Ordered), [true, true, true, false]);
    }
}
