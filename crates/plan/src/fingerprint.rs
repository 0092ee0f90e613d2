//! The fingerprint of a wish: tells whether what we last applied is what we want now, without keeping or reading values.

use std::fmt;

use aws_lc_rs::hmac;

use crate::Manifest;

/// Makes fingerprints with a key of the installation.
///
/// The key matters: a plain hash of a Secret's content, visible to everybody who may read its metadata, would let them
/// guess short values. All replicas of an installation share one key; with another key every object is written once more,
/// and nothing else happens.
#[derive(Clone)]
pub struct Fingerprinter {
    key: hmac::Key,
}

impl Fingerprinter {
    /// Makes fingerprints with this key; 32 random bytes are right.
    pub fn new(key: &[u8]) -> Self {
        Self {
            key: hmac::Key::new(hmac::HMAC_SHA256, key),
        }
    }

    /// The fingerprint of a wish: 32 hexadecimal digits. Equal wishes have equal fingerprints in every process.
    pub fn of(&self, manifest: &Manifest) -> String {
        // serde_json's maps are sorted, so the text of a value is canonical.
        self.of_bytes(manifest.wish().to_string().as_bytes())
    }

    /// The keyed hash of some bytes, for change detection without keeping them.
    pub fn of_bytes(&self, bytes: &[u8]) -> String {
        let tag = hmac::sign(&self.key, bytes);
        tag.as_ref()
            .iter()
            .take(16)
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }

    /// Another key of the installation, for one purpose and no other: always the same, and told by no fingerprint.
    pub fn derive(&self, purpose: &str) -> [u8; 32] {
        // Of the tag between, fingerprints show at most one half.
        let between = hmac::sign(&self.key, b"trustplane derived keys");
        let tag = hmac::sign(
            &hmac::Key::new(hmac::HMAC_SHA256, between.as_ref()),
            purpose.as_bytes(),
        );
        let mut key = [0; 32];
        // A tag of HMAC-SHA-256 has this length.
        key.copy_from_slice(tag.as_ref());
        key
    }
}

impl fmt::Debug for Fingerprinter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fingerprinter")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_derived_key_is_stable_and_belongs_to_its_purpose_and_installation() {
        let one = Fingerprinter::new(&[1; 32]);
        assert_eq!(one.derive("a"), one.derive("a"));
        assert_ne!(one.derive("a"), one.derive("b"));
        assert_ne!(one.derive("a"), Fingerprinter::new(&[2; 32]).derive("a"));
    }

    #[test]
    fn no_fingerprint_shows_a_derived_key() {
        let one = Fingerprinter::new(&[1; 32]);
        let shown = one.of_bytes(b"a");
        let derived: String = one.derive("a").iter().map(|byte| format!("{byte:02x}")).collect();
        assert!(!derived.starts_with(&shown));
    }
}
