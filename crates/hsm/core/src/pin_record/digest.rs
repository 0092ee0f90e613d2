//! The keyed digest by which a PIN is known in a record. A PIN has few digits: without the key its digest would give it away.

use std::fmt;

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::hmac::{HMAC_SHA256, Key, sign};

use crate::checksum::hex;

/// No key of ours has fewer bytes.
const SHORTEST: usize = 16;

/// What is digested before the PIN, so that no other use of the key makes the same digest.
const PURPOSE: &[u8] = b"trustplane-hsm pin\0";

/// What is digested for the id of a key.
const IDENTITY: &[u8] = b"trustplane-hsm key id\0";

/// So many bytes tell apart what nobody wants to forge.
const SHORT: usize = 8;

/// The key of the digests in one record. It is not printed.
#[derive(Clone)]
pub struct DigestKey(Key);

/// A key that is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the key of the record has to have 16 bytes at least")]
pub struct DigestKeyError;

impl DigestKey {
    /// A key of these bytes.
    pub fn new(bytes: &[u8]) -> Result<Self, DigestKeyError> {
        match bytes.len() >= SHORTEST {
            true => Ok(Self(Key::new(HMAC_SHA256, bytes))),
            false => Err(DigestKeyError),
        }
    }

    /// What tells this key from others, and gives nothing of it away.
    pub fn id(&self) -> String {
        short(sign(&self.0, IDENTITY).as_ref())
    }

    /// The digest of a PIN, in hexadecimal digits.
    pub fn digest(&self, pin: &str) -> String {
        let mut text = zeroize::Zeroizing::new(Vec::with_capacity(PURPOSE.len() + pin.len()));
        text.extend_from_slice(PURPOSE);
        text.extend_from_slice(pin.as_bytes());
        hex(sign(&self.0, &text).as_ref())
    }
}

/// The digest of a text with which somebody allows another try. The text is no secret; only its length has to have a bound. It
/// does not depend on the key: a text that was used stays so when the key is lost.
pub fn word(text: &str) -> String {
    match text {
        "" => String::new(),
        text => short(digest(&SHA256, text.as_bytes()).as_ref()),
    }
}

fn short(bytes: &[u8]) -> String {
    hex(bytes.get(..SHORT).unwrap_or(bytes))
}

impl fmt::Debug for DigestKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DigestKey(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_depends_on_the_key_and_on_the_pin() {
        let [one, other] = [[1; 16], [2; 16]].map(|bytes| DigestKey::new(&bytes).unwrap());
        assert_eq!(one.digest("648219"), one.digest("648219"));
        assert_ne!(one.digest("648219"), other.digest("648219"));
        assert_ne!(one.digest("648219"), one.digest("648218"));
        assert_eq!(one.digest("648219").len(), 64);
        assert_eq!(format!("{one:?}"), "DigestKey(…)");
        assert_ne!(one.id(), other.id());
        assert_eq!(one.id().len(), 16);
        assert!(!one.digest("").starts_with(&one.id()));
    }

    #[test]
    fn the_digest_of_a_text_has_a_bound_and_no_text_has_none() {
        assert_eq!(word(""), "");
        assert_eq!(word(&"x".repeat(10_000)).len(), 16);
        assert_ne!(word("1"), word("2"));
    }

    #[test]
    fn a_key_that_could_be_guessed_is_refused() {
        assert_eq!(DigestKey::new(&[1; 15]).unwrap_err(), DigestKeyError);
    }
}
