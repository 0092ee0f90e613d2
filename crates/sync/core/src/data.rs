//! Values on their way: redacted when printed, wiped when dropped.

use std::collections::BTreeMap;

pub use trustplane_plan::Value;

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
