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
}

impl fmt::Debug for Fingerprinter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fingerprinter")
    }
}
