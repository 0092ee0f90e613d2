//! A value of a secret on its way: redacted when printed, wiped when dropped.

use std::fmt;

use zeroize::Zeroizing;

/// The bytes of one value.
#[derive(Clone, PartialEq, Eq)]
pub struct Value(Zeroizing<Vec<u8>>);

impl Value {
    /// Takes bytes into custody.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self(Zeroizing::new(bytes.into()))
    }

    /// The bytes. What is done with them is the caller's duty.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }

    /// How many bytes there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Value(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_not_shown() {
        let shown = format!("{:?}", Value::new("hunter2"));
        assert_eq!(shown, "Value(…)");
    }
}
