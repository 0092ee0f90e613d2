//! Values on their way: redacted when printed, wiped when dropped.

use std::collections::BTreeMap;
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

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Value(…)")
    }
}

/// What a provider has under a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Payload {
    /// Bytes, in a format that the request names.
    Bytes(Value),
    /// Keys and values as they are.
    Map(BTreeMap<String, Value>),
}

/// The content of a Secret.
pub type Data = BTreeMap<String, Value>;
