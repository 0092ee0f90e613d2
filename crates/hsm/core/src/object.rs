//! One data object of a token: as it is found, and as it is made.

use std::ffi::CStr;
use std::fmt;

use crate::checksum::Framed;
use crate::label::Label;
use crate::oid::ObjectType;
use crate::secret::Value;

/// `CKA_APPLICATION` of what we make, that of the original. It has a nought behind its end because OpenSC looks for one and
/// not at the length. Nothing depends on it when objects are read: those of the first versions of the original have none.
pub const APPLICATION: &CStr = c"hsm-secrets-operator";
/// `CKA_TOKEN` of what we make: it stays.
pub const TOKEN: bool = true;
/// `CKA_PRIVATE` of what we make: it is seen after a login only.
pub const PRIVATE: bool = true;
/// `CKA_MODIFIABLE` of what we make, as the original sets it. We never modify an object.
pub const MODIFIABLE: bool = true;

/// An object to make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewObject {
    /// `CKA_LABEL`.
    pub label: Label,
    /// `CKA_VALUE`.
    pub value: Value,
}

impl NewObject {
    /// The type to note in `CKA_OBJECT_ID`.
    pub fn object_type(&self) -> ObjectType {
        ObjectType::infer(self.value.expose())
    }

    /// How many bytes of the token it takes, as far as we can tell.
    pub fn size(&self) -> usize {
        self.label.as_bytes().len() + self.value.len()
    }

    /// Its digest.
    pub fn digest(&self) -> ObjectDigest {
        ObjectDigest::of(&self.label, Some(&self.value))
    }
}

/// An object that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found<H> {
    /// How the token calls it.
    pub handle: H,
    /// `CKA_LABEL`.
    pub label: Label,
    /// `CKA_VALUE`; nothing if the token would not give it.
    pub value: Option<Value>,
}

impl<H> Found<H> {
    /// How many bytes of the token it takes, as far as we can tell.
    pub fn size(&self) -> usize {
        self.label.as_bytes().len() + self.value.as_ref().map_or(0, Value::len)
    }

    /// Its digest.
    pub fn digest(&self) -> ObjectDigest {
        ObjectDigest::of(&self.label, self.value.as_ref())
    }

    /// Whether it is what this would make.
    pub fn is(&self, object: &NewObject) -> bool {
        self.label == object.label && self.value.as_ref() == Some(&object.value)
    }
}

/// A digest of label and value, short because a journal holds many and a token has little room. It serves to know again the
/// objects of one path, and nobody gains by two that are alike.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectDigest([u8; ObjectDigest::LENGTH]);

impl ObjectDigest {
    /// How many bytes it has.
    pub const LENGTH: usize = 8;

    fn of(label: &Label, value: Option<&Value>) -> Self {
        let mut digest = Framed::new("object");
        digest.add(label.as_bytes());
        // What cannot be read is told by its label alone, and is never the same as what can.
        if let Some(value) = value {
            digest.add(value.expose());
        }
        Self(digest.short())
    }

    pub(crate) fn from_bytes(bytes: [u8; Self::LENGTH]) -> Self {
        Self(bytes)
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Half of it.
    pub(crate) fn half(&self) -> HalfDigest {
        let [a, b, c, d, ..] = self.0;
        HalfDigest([a, b, c, d])
    }
}

/// The digest of a short value lets people guess it.
impl fmt::Debug for ObjectDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ObjectDigest(…)")
    }
}

/// Half of an [`ObjectDigest`], for objects that are about to go.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HalfDigest([u8; HalfDigest::LENGTH]);

impl HalfDigest {
    /// How many bytes it has.
    pub const LENGTH: usize = 4;

    pub(crate) fn from_bytes(bytes: [u8; Self::LENGTH]) -> Self {
        Self(bytes)
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for HalfDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HalfDigest(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(label: &str, value: Option<&str>) -> Found<u32> {
        Found {
            handle: 1,
            label: Label::new(label),
            value: value.map(Value::new),
        }
    }

    #[test]
    fn an_object_is_known_by_label_and_value() {
        let made = NewObject {
            label: Label::new("a/b"),
            value: Value::new("c"),
        };
        assert_eq!(made.digest(), found("a/b", Some("c")).digest());
        assert!(found("a/b", Some("c")).is(&made));
        let others = [
            found("a/bc", Some("")),
            found("a/", Some("bc")),
            found("a/b", Some("d")),
            found("a/b", Some("")),
            found("a/b", None),
        ];
        for other in others {
            assert!(!other.is(&made));
            assert_ne!(made.digest(), other.digest(), "{other:?}");
        }
        assert_ne!(found("a/b", None).digest(), found("a/b", Some("")).digest());
    }

    #[test]
    fn neither_value_nor_digest_is_shown() {
        let object = found("a/b", Some("hunter2"));
        assert_eq!(
            format!("{object:?}"),
            "Found { handle: 1, label: Label(a/b), value: Some(Value(…)) }"
        );
        let shown = format!("{:?} {:?}", object.digest(), object.digest().half());
        assert_eq!(shown, "ObjectDigest(…) HalfDigest(…)");
    }
}
