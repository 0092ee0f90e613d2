//! Random tokens, and the hashes by which the database knows them.

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::rand;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use trustplane_process::secret::Secret;

/// How many random bytes a token has.
const TOKEN_BYTES: usize = 32;

/// A token that is given to someone once, and is kept here as its hash.
#[derive(Debug, Clone)]
pub struct Token(Secret<String>);

impl Token {
    /// A new token of 256 random bits.
    pub fn random() -> Self {
        let mut bytes = [0; TOKEN_BYTES];
        fill(&mut bytes);
        Self(Secret::new(URL_SAFE_NO_PAD.encode(bytes)))
    }

    /// The text that is given away.
    pub fn expose(&self) -> &str {
        self.0.expose()
    }

    /// What is kept.
    pub fn hash(&self) -> Hash {
        Hash::of(self.expose().as_bytes())
    }
}

/// Random bytes of the system's generator.
pub fn fill(bytes: &mut [u8]) {
    if rand::fill(bytes).is_err() {
        // Without randomness every token could be guessed: ending is the only safe answer.
        std::process::abort();
    }
}

/// A random id with a prefix, such as `c-5f2e…`.
pub fn random_id(prefix: &str) -> String {
    let mut bytes = [0; 8];
    fill(&mut bytes);
    let number = u64::from_be_bytes(bytes);
    format!("{prefix}{number:016x}")
}

/// The SHA-256 of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Hash([u8; 32]);

impl Hash {
    /// Hashes the bytes of a token as it was presented.
    pub fn of(bytes: &[u8]) -> Self {
        let mut hash = [0; 32];
        hash.copy_from_slice(digest(&SHA256, bytes).as_ref());
        Self(hash)
    }

    /// For the database.
    pub fn as_bytes(&self) -> Vec<u8> {
        self.0.to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_differ_and_are_not_printed() {
        let (one, other) = (Token::random(), Token::random());
        assert_ne!(one.expose(), other.expose());
        assert_eq!(one.expose().len(), 43, "256 bits");
        assert!(!format!("{one:?}").contains(one.expose()));
        assert_eq!(one.hash(), Hash::of(one.expose().as_bytes()));
    }

    #[test]
    fn ids_have_a_prefix_and_64_bits() {
        let id = random_id("c-");
        assert_eq!(id.len(), 18);
        assert_ne!(id, random_id("c-"));
    }
}
