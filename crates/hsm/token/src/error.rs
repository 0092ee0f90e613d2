//! What can go wrong with a token, and what it means for whoever uses it.

use std::fmt;

use cryptoki::context::Function;
use cryptoki::error::{Error, RvError};
use trustplane_hsm_core::label::Label;

use crate::token::Unreadable;

/// `CKR_TOKEN_RESOURCE_EXCEEDED` of PKCS#11 3.0.
const RESOURCE_EXCEEDED: u64 = 0x201;

/// A failure of a token or of the module that leads to it. No message holds a value or a PIN.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// The module cannot be loaded, or is not one of PKCS#11.
    #[error("load PKCS#11 module {path}: {reason}")]
    Load {
        /// The path of the module.
        path: String,
        /// What the loader says.
        reason: String,
    },
    /// This process has a module already: its state is the process's own, so there can be only one.
    #[error("load PKCS#11 module {path}: this process has one already")]
    SecondModule {
        /// The path of the module that was not loaded.
        path: String,
    },
    /// The module does not keep to PKCS#11.
    #[error("{function}: the module {fault}")]
    Malformed {
        /// The function.
        function: &'static str,
        /// What is wrong.
        fault: &'static str,
    },
    /// The token is gone, or our session with it.
    #[error("{0}: the token is gone")]
    Removed(Answer),
    /// The session is no longer logged in, so that private objects cannot be seen.
    #[error("the token has logged us out")]
    LoggedOut,
    /// There is no room for the object.
    #[error("{0}: the token has no room for it")]
    Full(Answer),
    /// The PIN is wrong. That was one try.
    #[error("{0}: the PIN is wrong")]
    PinIncorrect(Answer),
    /// The PIN is locked: no try is left.
    #[error("{0}: the PIN is locked")]
    PinLocked(Answer),
    /// The PIN has to be changed before it can be used.
    #[error("{0}: the PIN has to be changed")]
    PinExpired(Answer),
    /// The token does not take PINs of this length or form.
    #[error("{0}: the token takes no such PIN")]
    PinForm(Answer),
    /// The token has no user PIN yet.
    #[error("log in: the token has no user PIN")]
    PinNotSet,
    /// We do not try a PIN by ourselves when a wrong one could lock it, and never when it is locked.
    #[error("log in: {0}, so none was tried")]
    PinTriesLow(crate::PinTries),
    /// The token cannot be written to.
    #[error("{0}: the token is write-protected")]
    WriteProtected(Answer),
    /// An object that is there cannot be read.
    #[error(transparent)]
    Unreadable(Unreadable),
    /// A label came out shorter than it went in: another object would be taken for this one.
    #[error("create object {label}: the token has cut its label")]
    Cut {
        /// The label.
        label: Label,
    },
    /// As many objects are seen as the module can show, or more: others may be hidden, and nobody says so.
    #[error(
        "read all objects: {shown} are shown, and of so many some may be hidden; take others off the token"
    )]
    Hidden {
        /// How many are seen.
        shown: usize,
    },
    /// Objects come and go while they are read.
    #[error("read all objects: others change them all the time")]
    Unsteady,
    /// Another token is in the slot than was chosen.
    #[error("open slot {slot}: the token there is not the one that was chosen")]
    AnotherToken {
        /// The slot.
        slot: u64,
    },
    /// The token is in use: it has a user PIN. Initialising would wipe it.
    #[error("initialise token {label:?}: it is in use")]
    InUse {
        /// The token's label.
        label: String,
    },
    /// A token's label has at most 32 bytes.
    #[error("initialise a token: its label has to have 1 to 32 bytes")]
    TokenLabel,
    /// Anything else.
    #[error("{0}")]
    Other(Answer),
}

impl TokenError {
    /// Whether the module has to be initialised again before the token can be used.
    pub fn needs_initialisation(&self) -> bool {
        match self {
            Self::Removed(_) | Self::LoggedOut | Self::AnotherToken { .. } => true,
            _ => self.is_vague(),
        }
    }

    /// Whether it is the standard's word for "in the worst case everything is inconsistent". OpenSC says it of whatever a card
    /// refuses.
    pub(crate) fn is_vague(&self) -> bool {
        matches!(self, Self::Other(answer) if matches!(answer.code, RvError::GeneralError))
    }

    /// Whether this is what C_Login said, so that a PIN may have been tried.
    pub fn is_of_login(&self) -> bool {
        match self {
            Self::Removed(answer)
            | Self::Full(answer)
            | Self::PinIncorrect(answer)
            | Self::PinLocked(answer)
            | Self::PinExpired(answer)
            | Self::PinForm(answer)
            | Self::WriteProtected(answer)
            | Self::Other(answer) => matches!(answer.function, Function::Login),
            Self::Malformed { function, .. } => *function == "C_Login",
            Self::LoggedOut => true,
            _ => false,
        }
    }

    /// The same of a token that is known to be there and to say nothing better when it has no room.
    pub(crate) fn or_full(self) -> Self {
        match self {
            Self::Other(answer) if matches!(answer.code, RvError::GeneralError) => Self::Full(answer),
            error => error,
        }
    }

    /// Translates what the library says of a function, `during` which it was.
    pub(crate) fn of(during: &'static str, error: Error) -> Self {
        match error {
            Error::Pkcs11(code, function) => Self::from_answer(Answer { function, code }),
            Error::NullFunctionPointer => Self::Malformed {
                function: during,
                fault: "has no such function",
            },
            _ => Self::Malformed {
                function: during,
                fault: "gave an answer that makes no sense",
            },
        }
    }

    fn from_answer(answer: Answer) -> Self {
        use RvError as Rv;
        match answer.code {
            Rv::DeviceRemoved
            | Rv::TokenNotPresent
            | Rv::TokenNotRecognized
            | Rv::SessionHandleInvalid
            | Rv::SessionClosed
            | Rv::DeviceError
            | Rv::SlotIdInvalid
            | Rv::CryptokiNotInitialized => Self::Removed(answer),
            Rv::UserNotLoggedIn => Self::LoggedOut,
            Rv::DeviceMemory | Rv::DataLenRange | Rv::UnknownErrorCode(RESOURCE_EXCEEDED) => {
                Self::Full(answer)
            }
            Rv::PinIncorrect => Self::PinIncorrect(answer),
            Rv::PinLocked => Self::PinLocked(answer),
            Rv::PinExpired => Self::PinExpired(answer),
            Rv::PinLenRange | Rv::PinInvalid | Rv::PinTooWeak => Self::PinForm(answer),
            Rv::UserPinNotInitialized => Self::PinNotSet,
            Rv::TokenWriteProtected | Rv::SessionReadOnly | Rv::ActionProhibited => {
                Self::WriteProtected(answer)
            }
            _ => Self::Other(answer),
        }
    }
}

/// What a function answered, by PKCS#11's names.
#[derive(Debug, Clone, Copy)]
pub struct Answer {
    pub(crate) function: Function,
    pub(crate) code: RvError,
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "C_{:?} answered ", self.function)?;
        match self.code {
            RvError::VendorDefined(code) | RvError::UnknownErrorCode(code) => write!(f, "{code:#x}"),
            code => f.write_str(&name(&format!("{code:?}"))),
        }
    }
}

impl PartialEq for Answer {
    fn eq(&self, other: &Self) -> bool {
        self.code == other.code && format!("{:?}", self.function) == format!("{:?}", other.function)
    }
}

impl Eq for Answer {}

/// `CKR_DEVICE_MEMORY` of `DeviceMemory`.
fn name(variant: &str) -> String {
    let mut name = String::from("CKR");
    for letter in variant.chars() {
        if letter.is_ascii_uppercase() {
            name.push('_');
        }
        name.push(letter.to_ascii_uppercase());
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(code: RvError) -> TokenError {
        TokenError::of("C_Login", Error::Pkcs11(code, Function::CreateObject))
    }

    #[test]
    fn a_message_names_the_function_and_the_code() {
        assert_eq!(
            of(RvError::DeviceMemory).to_string(),
            "C_CreateObject answered CKR_DEVICE_MEMORY: the token has no room for it"
        );
        assert_eq!(
            of(RvError::SlotIdInvalid).to_string(),
            "C_CreateObject answered CKR_SLOT_ID_INVALID: the token is gone"
        );
        assert_eq!(
            of(RvError::VendorDefined(0x8000_0001)).to_string(),
            "C_CreateObject answered 0x80000001"
        );
    }

    #[test]
    fn what_c_login_said_is_told_from_what_was_said_before_it() {
        let of = |code, function| TokenError::of("C_Login", Error::Pkcs11(code, function)).is_of_login();
        for code in [
            RvError::DeviceRemoved,
            RvError::GeneralError,
            RvError::PinIncorrect,
        ] {
            assert!(of(code, Function::Login), "{code:?}");
            assert!(!of(code, Function::GetTokenInfo), "{code:?}");
        }
        assert!(TokenError::of("C_Login", Error::NullFunctionPointer).is_of_login());
        assert!(!TokenError::AnotherToken { slot: 1 }.is_of_login());
    }

    #[test]
    fn a_token_that_is_gone_needs_initialisation_and_a_full_one_does_not() {
        for gone in [
            RvError::DeviceRemoved,
            RvError::TokenNotPresent,
            RvError::SessionHandleInvalid,
            RvError::DeviceError,
            RvError::UserNotLoggedIn,
            RvError::GeneralError,
        ] {
            assert!(of(gone).needs_initialisation(), "{gone:?}");
        }
        for here in [
            RvError::DeviceMemory,
            RvError::UnknownErrorCode(RESOURCE_EXCEEDED),
            RvError::PinIncorrect,
            RvError::TokenWriteProtected,
            RvError::FunctionFailed,
        ] {
            assert!(!of(here).needs_initialisation(), "{here:?}");
        }
        assert!(matches!(
            of(RvError::UnknownErrorCode(RESOURCE_EXCEEDED)),
            TokenError::Full(_)
        ));
        let full = of(RvError::GeneralError).or_full();
        assert!(matches!(full, TokenError::Full(_)) && !full.needs_initialisation());
        assert!(of(RvError::DeviceRemoved).or_full().needs_initialisation());
    }
}
