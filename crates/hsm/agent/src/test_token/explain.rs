//! Why something did not work, for people: what it means, and what helps.

use std::io;
use std::path::{Path, PathBuf};

use trustplane_hsm_core::path::{KeyError, PathError};
use trustplane_hsm_token::{ChoiceError, Inventory, PinTries, StoreError, TokenError};

use crate::hold::HoldError;

/// Modules that machines often have.
const USUAL: [&str; 5] = [
    "/usr/lib/softhsm/libsofthsm2.so",
    "/usr/lib/x86_64-linux-gnu/opensc-pkcs11.so",
    "/usr/lib/aarch64-linux-gnu/opensc-pkcs11.so",
    "/usr/lib/x86_64-linux-gnu/pkcs11/yubihsm_pkcs11.so",
    "/usr/lib/x86_64-linux-gnu/libtpm2_pkcs11.so.1",
];

/// Why something did not work. No text holds a value or a PIN.
#[derive(Debug, thiserror::Error)]
pub enum TestTokenError {
    /// The module cannot be used.
    #[error("{reason}\n{hint}")]
    Module {
        /// What the loader says.
        reason: TokenError,
        /// What helps.
        hint: String,
    },
    /// There is no such token, or more than one.
    #[error("{0}\nName the one that you mean by --token-serial, --token-label or --slot.")]
    Choice(#[from] ChoiceError),
    /// There is no token in that slot.
    #[error("no token is in slot {slot}; there is {seen}")]
    Slot {
        /// The slot.
        slot: u64,
        /// What there is.
        seen: String,
    },
    /// The PIN does not open the token.
    #[error("{reason}\n{hint}")]
    Pin {
        /// What the token says.
        reason: TokenError,
        /// What it means.
        hint: String,
    },
    /// There is no PIN.
    #[error("a PIN is needed for this, because no agent serves the token: --pin-file or --pin-stdin")]
    NoPin,
    /// Another process is at the token, and cannot be asked.
    #[error("{0}\nThe token was not touched.")]
    Hold(#[from] HoldError),
    /// The agent that holds the token has refused.
    #[error("{0}")]
    Agent(String),
    /// The agent cannot be asked.
    #[error("ask the agent: {0}")]
    Runtime(io::Error),
    /// Something else of the token.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// Something with a secret.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A path that is none.
    #[error(transparent)]
    Path(#[from] PathError),
    /// A key that is none.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// An argument that makes no sense.
    #[error("{0}")]
    Argument(String),
    /// A file cannot be read.
    #[error("read {}: {source}", .file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The outcome cannot be printed.
    #[error("print: {0}")]
    Print(#[from] io::Error),
}

/// The module cannot be used.
pub(super) fn module(path: &Path, reason: TokenError) -> TestTokenError {
    let hint = match path.exists() {
        true => "The file is there, but it is no PKCS#11 module that this machine can load. Is it for another processor, \
                 or does it need a library that is not there (ldd shows them)?"
            .to_owned(),
        false => {
            let there: Vec<&str> = USUAL.into_iter().filter(|usual| Path::new(usual).exists()).collect();
            match there.is_empty() {
                true => "There is no such file. Debian has modules in softhsm2 and opensc-pkcs11.".to_owned(),
                false => format!("There is no such file. This machine has {}.", there.join(", ")),
            }
        }
    };
    TestTokenError::Module { reason, hint }
}

/// What a failed login means, with what the token says of its tries after it.
pub(super) fn login(reason: TokenError, tries: Option<PinTries>) -> TestTokenError {
    let now = tries.map_or_else(
        || "it cannot be asked any more".to_owned(),
        |tries| tries.to_string(),
    );
    let hint = match &reason {
        TokenError::PinIncorrect(_) => {
            format!("That was one try, and no other one is made. The token says: {now}.")
        }
        TokenError::PinTriesLow(PinTries::Locked) | TokenError::PinLocked(_) => {
            "No PIN opens it any more. The security officer's PIN can unlock it; see the vendor's tool."
                .to_owned()
        }
        TokenError::PinTriesLow(_) => {
            "The PIN was not tried. If you are sure that it is right, --try-anyway tries it once.".to_owned()
        }
        TokenError::PinNotSet => "The token is blank. `init` makes it usable.".to_owned(),
        TokenError::PinForm(_) => {
            "It is too long or too short for this token, or holds a character it does not take.".to_owned()
        }
        TokenError::PinExpired(_) => "Change it with the vendor's tool first.".to_owned(),
        _ => return TestTokenError::Token(reason),
    };
    TestTokenError::Pin { reason, hint }
}

/// All that a module sees.
pub(super) fn seen(inventory: &Inventory) -> String {
    let tokens = inventory
        .tokens
        .iter()
        .map(|token| format!("slot {}: {token}", token.slot));
    let bad = inventory
        .bad
        .iter()
        .map(|bad| format!("slot {}: {}", bad.slot, bad.error));
    let all: Vec<String> = tokens.chain(bad).collect();
    match all.is_empty() {
        true => "no token at all".to_owned(),
        false => all.join("; "),
    }
}
