//! Values that must not be seen: redacted when printed, wiped when dropped, never serialised.
//!
//! ```
//! use trustplane_process::secret::Secret;
//!
//! let pin = Secret::new(String::from("1234"));
//! assert_eq!(format!("{pin:?}"), "Secret(…)");
//! assert_eq!(pin.expose().len(), 4);
//! ```
//!
//! A secret cannot be written out by accident:
//!
//! ```compile_fail,E0277
//! # use trustplane_process::secret::Secret;
//! let pin = Secret::new(String::from("1234"));
//! format!("{pin}"); // no Display
//! ```
//!
//! ```compile_fail,E0277
//! # use trustplane_process::secret::Secret;
//! let pin = Secret::new(String::from("1234"));
//! serde_json::to_string(&pin); // no Serialize
//! ```

use std::fmt;

use serde::{Deserialize, Deserializer};
use zeroize::Zeroize;

/// A value that is redacted in `Debug`, wiped on drop, and has neither `Display` nor `Serialize`.
///
/// The one way to the value is [`Secret::expose`], so that every use can be found by its name.
#[derive(Clone, Default)]
pub struct Secret<T: Zeroize>(T);

impl<T: Zeroize> Secret<T> {
    /// Takes a value into custody.
    pub fn new(value: T) -> Self {
        Self(value)
    }

    /// The value itself. What is done with it is the caller's duty.
    pub fn expose(&self) -> &T {
        &self.0
    }
}

impl<T: Zeroize> Drop for Secret<T> {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl<T: Zeroize> fmt::Debug for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

impl<T: Zeroize> From<T> for Secret<T> {
    fn from(value: T) -> Self {
        Self::new(value)
    }
}

/// In time that depends on the lengths alone, so that a comparison tells nothing about where two values differ.
impl<T: Zeroize + AsRef<[u8]>> PartialEq for Secret<T> {
    fn eq(&self, other: &Self) -> bool {
        aws_lc_rs::constant_time::verify_slices_are_equal(self.0.as_ref(), other.0.as_ref()).is_ok()
    }
}

impl<T: Zeroize + AsRef<[u8]>> Eq for Secret<T> {}

impl<'de, T: Zeroize + Deserialize<'de>> Deserialize<'de> for Secret<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::deserialize(deserializer).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    struct Witness<'a>(&'a Cell<bool>);

    impl Zeroize for Witness<'_> {
        fn zeroize(&mut self) {
            self.0.set(true);
        }
    }

    #[test]
    fn is_wiped_when_dropped() {
        let wiped = Cell::new(false);
        drop(Secret::new(Witness(&wiped)));
        assert!(wiped.get());
    }

    #[test]
    fn is_redacted_also_inside_another_value() {
        #[derive(Debug)]
        struct Login {
            #[allow(dead_code, reason = "read by Debug alone")]
            pin: Option<Secret<String>>,
        }
        let login = Login {
            pin: Some(Secret::new("hunter2".into())),
        };
        assert_eq!(format!("{login:?}"), "Login { pin: Some(Secret(…)) }");
        assert!(!format!("{login:#?}").contains("hunter2"));
    }

    #[test]
    fn compares_by_value_and_length() {
        let secret = |value: &str| Secret::new(value.as_bytes().to_vec());
        assert_eq!(secret("a"), secret("a"));
        assert_ne!(secret("a"), secret("b"));
        assert_ne!(secret("a"), secret("ab"));
    }

    #[test]
    fn is_read_from_a_document() {
        let secret: Secret<String> = serde_json::from_str("\"hunter2\"").unwrap();
        assert_eq!(secret.expose(), "hunter2");
    }
}
