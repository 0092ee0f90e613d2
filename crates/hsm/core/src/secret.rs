//! A secret: values that are redacted when printed and wiped when dropped, and what is known about them.

use std::collections::BTreeMap;

pub use trustplane_plan::Value;

use crate::metadata::Metadata;
use crate::path::KeyName;
use crate::version::Stamp;

/// Keys and values, in the order of the keys' bytes.
pub type Data = BTreeMap<KeyName, Value>;

/// All that a token holds under one path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Secret {
    /// Keys and values. A secret that was deleted has none; any other has at least one.
    pub data: Data,
    /// What is known about them.
    pub metadata: Metadata,
}

impl Secret {
    /// What is left of a secret that was deleted, so that a late copy of it does not come back.
    pub fn tombstone(stamp: Stamp) -> Self {
        let stamp = Stamp {
            deleted: true,
            ..stamp
        };
        let metadata = Metadata {
            stamp,
            ..Metadata::default()
        };
        Self {
            data: Data::new(),
            metadata,
        }
    }

    /// Whether it was deleted.
    pub fn is_deleted(&self) -> bool {
        self.metadata.stamp.deleted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_value_is_shown() {
        let data = Data::from([(KeyName::parse("password").unwrap(), Value::new("hunter2"))]);
        let secret = Secret {
            data,
            metadata: Metadata::default(),
        };
        let shown = format!("{secret:?}");
        assert!(
            shown.contains("password") && shown.contains("Value(…)"),
            "{shown}"
        );
        assert!(!shown.contains("hunter2") && !shown.contains("104"), "{shown}");
    }
}
