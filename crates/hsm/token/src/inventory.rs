//! Which tokens a module sees, and the choice of one before any PIN is tried.

use std::fmt;

use cryptoki::slot::{Slot, SlotInfo};

use crate::{PinTries, TokenError};

/// What is known of a token without logging in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenInfo {
    /// Where it is. Positions change: this is never a way to choose.
    pub slot: u64,
    /// The name of its reader, which often holds the serial number of the USB device.
    pub reader: String,
    /// Its label.
    pub label: String,
    /// Its serial number.
    pub serial: String,
    /// Who made it.
    pub manufacturer: String,
    /// Its model.
    pub model: String,
    /// The version of its firmware.
    pub firmware: String,
    /// What it says of the tries that are left for its user PIN.
    pub pin_tries: PinTries,
    /// Whether it was initialised.
    pub initialised: bool,
    /// Whether it has a user PIN.
    pub has_user_pin: bool,
    /// Whether it cannot be written to.
    pub write_protected: bool,
    /// Its room for objects.
    pub memory: Memory,
}

/// Bytes for objects, where a token tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Memory {
    /// For public objects, all in all.
    pub public_total: Option<usize>,
    /// For public objects, free.
    pub public_free: Option<usize>,
    /// For private objects, all in all.
    pub private_total: Option<usize>,
    /// For private objects, free.
    pub private_free: Option<usize>,
}

impl TokenInfo {
    pub(crate) fn of(slot: Slot, reader: &SlotInfo, token: &cryptoki::slot::TokenInfo) -> Self {
        Self {
            slot: slot.id(),
            reader: reader.slot_description().to_owned(),
            label: token.label().to_owned(),
            serial: token.serial_number().to_owned(),
            manufacturer: token.manufacturer_id().to_owned(),
            model: token.model().to_owned(),
            firmware: token.firmware_version().to_string(),
            pin_tries: tries(token),
            initialised: token.token_initialized(),
            has_user_pin: token.user_pin_initialized(),
            write_protected: token.write_protected(),
            memory: Memory {
                public_total: token.total_public_memory(),
                public_free: token.free_public_memory(),
                private_total: token.total_private_memory(),
                private_free: token.free_private_memory(),
            },
        }
    }

    /// Whether it is the same token, whatever slot it is in.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.serial == other.serial && self.label == other.label && self.model == other.model
    }
}

fn tries(token: &cryptoki::slot::TokenInfo) -> PinTries {
    if token.user_pin_locked() {
        PinTries::Locked
    } else if token.user_pin_final_try() {
        PinTries::Final
    } else if token.user_pin_count_low() {
        PinTries::Low
    } else {
        PinTries::Unknown
    }
}

impl fmt::Display for TokenInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "label {:?}, serial {:?}, reader {:?}",
            self.label, self.serial, self.reader
        )
    }
}

/// A slot whose token cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadSlot {
    /// The slot.
    pub slot: u64,
    /// Why.
    pub error: TokenError,
}

/// Everything that a module sees.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Inventory {
    /// The tokens.
    pub tokens: Vec<TokenInfo>,
    /// Slots that say they have a token, which cannot be read. They do not keep the others from being used.
    pub bad: Vec<BadSlot>,
}

/// What one knows of the token that one wants. Everything that is given must fit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selector {
    serial: Option<String>,
    label: Option<String>,
    reader_serial: Option<String>,
}

impl Selector {
    /// The token with this serial number.
    pub fn serial(serial: &str) -> Option<Self> {
        Self::of(Some(serial), None, None)
    }

    /// The token with this label.
    pub fn label(label: &str) -> Option<Self> {
        Self::of(None, Some(label), None)
    }

    /// The token in the reader whose name holds this serial number, as a word of its own.
    pub fn reader_serial(serial: &str) -> Option<Self> {
        Self::of(None, None, Some(serial))
    }

    /// The token that all of these fit. Nothing if none is given: a token is never chosen for want of others.
    pub fn of(serial: Option<&str>, label: Option<&str>, reader_serial: Option<&str>) -> Option<Self> {
        let given = |text: Option<&str>| text.filter(|text| !text.is_empty()).map(str::to_owned);
        let selector = Self {
            serial: given(serial),
            label: given(label),
            reader_serial: given(reader_serial),
        };
        (selector.serial.is_some() || selector.label.is_some() || selector.reader_serial.is_some())
            .then_some(selector)
    }

    fn fits(&self, token: &TokenInfo) -> bool {
        let is = |wanted: &Option<String>, found: &str| wanted.as_ref().is_none_or(|wanted| wanted == found);
        let reader = self.reader_serial.as_ref();
        is(&self.serial, &token.serial)
            && is(&self.label, &token.label)
            && reader.is_none_or(|serial| has_word(&token.reader, serial))
    }
}

/// Whether a text holds this, with no letter or digit right before or after it.
fn has_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| {
        !text[..at].ends_with(char::is_alphanumeric)
            && !text[at + word.len()..].starts_with(char::is_alphanumeric)
    })
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = [
            ("serial", &self.serial),
            ("label", &self.label),
            ("reader with serial", &self.reader_serial),
        ];
        let mut given = words
            .iter()
            .filter_map(|(word, text)| text.as_ref().map(|text| format!("{word} {text:?}")));
        f.write_str(&given.by_ref().collect::<Vec<_>>().join(", "))
    }
}

/// Why no token was chosen, with what there is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChoiceError {
    /// None fits.
    #[error("no token with {wanted}; there is {}", listed(seen))]
    None {
        /// What was wanted.
        wanted: String,
        /// What there is.
        seen: Inventory,
    },
    /// More than one fits.
    #[error("more than one token with {wanted}: {}", listed(seen))]
    Several {
        /// What was wanted.
        wanted: String,
        /// Those that fit.
        seen: Inventory,
    },
}

fn listed(seen: &Inventory) -> String {
    let tokens = seen.tokens.iter().map(|token| format!("[{token}]"));
    let bad = seen
        .bad
        .iter()
        .map(|bad| format!("[slot {}: {}]", bad.slot, bad.error));
    let all: Vec<String> = tokens.chain(bad).collect();
    match all.is_empty() {
        true => "none".to_owned(),
        false => all.join(", "),
    }
}

impl Inventory {
    /// The one token that fits.
    pub fn choose(&self, selector: &Selector) -> Result<&TokenInfo, ChoiceError> {
        self.only(selector.to_string(), |token| selector.fits(token))
    }

    /// The one token that nobody uses yet: it has no user PIN.
    pub fn blank(&self) -> Result<&TokenInfo, ChoiceError> {
        self.only("no user PIN".to_owned(), |token| !token.has_user_pin)
    }

    fn only(&self, wanted: String, fits: impl Fn(&TokenInfo) -> bool) -> Result<&TokenInfo, ChoiceError> {
        let fitting: Vec<&TokenInfo> = self.tokens.iter().filter(|token| fits(token)).collect();
        match fitting[..] {
            [token] => Ok(token),
            [] => Err(ChoiceError::None {
                wanted,
                seen: self.clone(),
            }),
            _ => Err(ChoiceError::Several {
                wanted,
                seen: Self {
                    tokens: fitting.into_iter().cloned().collect(),
                    bad: Vec::new(),
                },
            }),
        }
    }
}

#[cfg(test)]
mod tests;
