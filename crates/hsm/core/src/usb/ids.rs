//! The numbers by which USB devices are known.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use strum::EnumIter;

/// The number of a vendor or of a product: four hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct UsbId(pub u16);

/// A text that is no such number.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a number of a USB device: want four hexadecimal digits")]
pub struct UsbIdError(String);

impl FromStr for UsbId {
    type Err = UsbIdError;

    /// Upper and lower case are the same, and `0x` may stand before.
    fn from_str(text: &str) -> Result<Self, UsbIdError> {
        let digits = text
            .strip_prefix("0x")
            .or_else(|| text.strip_prefix("0X"))
            .unwrap_or(text);
        let wrong = || UsbIdError(text.chars().take(32).collect());
        // A plus sign is a number for Rust, and none for us.
        if digits.len() != 4 || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(wrong());
        }
        u16::from_str_radix(digits, 16).map(Self).map_err(|_| wrong())
    }
}

impl TryFrom<String> for UsbId {
    type Error = UsbIdError;

    fn try_from(text: String) -> Result<Self, UsbIdError> {
        text.parse()
    }
}

impl From<UsbId> for String {
    fn from(id: UsbId) -> Self {
        id.to_string()
    }
}

impl fmt::Display for UsbId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04x}", self.0)
    }
}

impl fmt::Debug for UsbId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UsbId({self})")
    }
}

/// Types of tokens whose numbers are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumIter)]
pub enum DeviceType {
    /// A Pico HSM.
    PicoHsm,
    /// A SmartCard-HSM.
    SmartCardHsm,
    /// A Nitrokey HSM.
    NitrokeyHsm,
    /// A YubiHSM.
    YubiHsm,
}

impl DeviceType {
    /// The type that people mean. Case, dashes and blanks do not matter; a type that is not known is no error.
    pub fn named(text: &str) -> Option<Self> {
        let letters = text.chars().filter(char::is_ascii_alphanumeric);
        let letters: String = letters.map(|c| c.to_ascii_lowercase()).collect();
        match letters.as_str() {
            "picohsm" => Some(Self::PicoHsm),
            "smartcardhsm" | "schsm" => Some(Self::SmartCardHsm),
            "nitrokey" | "nitrokeyhsm" | "nitrokeyhsm2" => Some(Self::NitrokeyHsm),
            "yubihsm" | "yubihsm2" => Some(Self::YubiHsm),
            _ => None,
        }
    }

    /// Vendor and product of its devices.
    pub fn numbers(self) -> &'static [(u16, u16)] {
        match self {
            // Its firmware was built with the numbers of a Nitrokey at first, then with some of its own.
            Self::PicoHsm => &[(0x20a0, 0x4230), (0x2e8a, 0x10fd), (0xfeff, 0xfcfd)],
            Self::SmartCardHsm => &[(0x04e6, 0x5816)],
            Self::NitrokeyHsm => &[(0x20a0, 0x4230)],
            Self::YubiHsm => &[(0x1050, 0x0030)],
        }
    }

    /// Whether its devices speak to readers of smart cards. One that does not must not be looked for among those.
    pub fn is_smart_card(self) -> bool {
        !matches!(self, Self::YubiHsm)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_hexadecimal_in_any_case() {
        for text in ["20a0", "20A0", "0x20a0", "0X20A0"] {
            assert_eq!(text.parse(), Ok(UsbId(0x20a0)), "{text}");
        }
        assert_eq!(UsbId(0x30).to_string(), "0030");
    }

    #[test]
    fn what_is_no_number_is_refused() {
        for text in ["", "20a", "20a00", "0x", "+0a0", "20g0", " 20a0", "２０a0"] {
            assert!(text.parse::<UsbId>().is_err(), "{text}");
        }
    }

    #[test]
    fn types_are_known_by_all_their_names() {
        for (text, known) in [
            ("PicoHSM", Some(DeviceType::PicoHsm)),
            ("pico-hsm", Some(DeviceType::PicoHsm)),
            ("SmartCard-HSM", Some(DeviceType::SmartCardHsm)),
            ("SmartCardHSM", Some(DeviceType::SmartCardHsm)),
            ("Nitrokey", Some(DeviceType::NitrokeyHsm)),
            ("YubiHSM 2", Some(DeviceType::YubiHsm)),
            ("Generic", None),
            ("", None),
        ] {
            assert_eq!(DeviceType::named(text), known, "{text}");
        }
    }
}
