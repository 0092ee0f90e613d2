//! Two digests of a secret's data: the checksum of the original, which its statuses and clients show, and one of our own that
//! no two secrets share.

use std::fmt;

use aws_lc_rs::digest::{Context, SHA256};

use crate::secret::Data;

/// The checksum of the original: `sha256:` and 64 hexadecimal digits.
///
/// It runs over keys and values without anything between them, so `{ab: c}` and `{a: bc}` have the same. It is for people and
/// peers; to tell whether two secrets are the same use [`DataDigest`].
pub fn checksum(data: &Data) -> String {
    let mut context = Context::new(&SHA256);
    for (key, value) in data {
        context.update(key.as_str().as_bytes());
        context.update(value.expose());
    }
    format!("sha256:{}", hex(context.finish().as_ref()))
}

/// A digest that two secrets share only if they have the same keys with the same values.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct DataDigest([u8; 32]);

impl DataDigest {
    /// The digest of some data.
    pub fn of(data: &Data) -> Self {
        let mut digest = Framed::new("data");
        for (key, value) in data {
            digest.add(key.as_str().as_bytes());
            digest.add(value.expose());
        }
        Self(digest.finish())
    }

    /// Its 64 hexadecimal digits.
    pub fn to_hex(&self) -> String {
        hex(&self.0)
    }
}

/// The digest of a short value lets people guess it.
impl fmt::Debug for DataDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DataDigest(…)")
    }
}

/// SHA-256 over parts, each behind its length, for one purpose.
pub(crate) struct Framed(Context);

impl Framed {
    pub fn new(purpose: &str) -> Self {
        let mut framed = Self(Context::new(&SHA256));
        framed.add(b"trustplane-hsm");
        framed.add(purpose.as_bytes());
        framed
    }

    pub fn add(&mut self, part: &[u8]) {
        self.0.update(&(part.len() as u64).to_be_bytes());
        self.0.update(part);
    }

    pub fn finish(self) -> [u8; 32] {
        let mut bytes = [0; 32];
        for (to, from) in bytes.iter_mut().zip(self.0.finish().as_ref()) {
            *to = *from;
        }
        bytes
    }

    /// The first bytes are enough where nobody gains by two that are alike.
    pub fn short<const N: usize>(self) -> [u8; N] {
        let whole = self.finish();
        let mut bytes = [0; N];
        for (to, from) in bytes.iter_mut().zip(whole) {
            *to = from;
        }
        bytes
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::data;

    #[test]
    fn the_checksum_is_that_of_the_original() {
        let vectors: [(&[(&str, &str)], &str); 4] = [
            (
                &[],
                "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
            ),
            (
                &[("username", "admin"), ("password", "s3cr3t")],
                "41098d4dc3c19227b1e3133252c6192c80792080bd36080265f9fceb8e2462b0",
            ),
            (
                &[("ab", "c")],
                "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
            ),
            (
                &[("a", "bc")],
                "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
            ),
        ];
        for (pairs, expected) in vectors {
            assert_eq!(checksum(&data(pairs)), format!("sha256:{expected}"));
        }
    }

    #[test]
    fn keys_are_taken_in_the_order_of_their_bytes() {
        // "B" < "_" < "a": not the order of a dictionary.
        let mixed = data(&[("a", "3"), ("B", "1"), ("_", "2")]);
        assert_eq!(checksum(&mixed), checksum(&data(&[("B", "1_2a3")])));
    }

    #[test]
    fn our_own_digest_tells_apart_what_the_checksum_does_not() {
        let (one, other) = (data(&[("ab", "c")]), data(&[("a", "bc")]));
        assert_eq!(checksum(&one), checksum(&other));
        assert_ne!(DataDigest::of(&one), DataDigest::of(&other));
        assert_eq!(format!("{:?}", DataDigest::of(&one)), "DataDigest(…)");
    }

    proptest! {
        #[test]
        fn digests_are_equal_exactly_for_equal_data(
            one in prop::collection::btree_map("[ab]{1,2}", "[ab]{0,2}", 0..3),
            other in prop::collection::btree_map("[ab]{1,2}", "[ab]{0,2}", 0..3),
        ) {
            let of = |map: &std::collections::BTreeMap<String, String>| {
                let pairs: Vec<_> = map.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
                DataDigest::of(&data(&pairs))
            };
            prop_assert_eq!(of(&one) == of(&other), one == other);
        }
    }
}
