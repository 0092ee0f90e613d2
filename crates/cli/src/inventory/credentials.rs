//! The credentials of an agent: a client id and a P-256 key pair. The private key leaves this program only as a Secret.

use std::fmt;

use anyhow::{Context, Result, anyhow};
use aws_lc_rs::encoding::{AsDer, PublicKeyX509Der};
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use trustplane_process::secret::Secret;
use uuid::Builder;

/// The characters of a line of PEM.
const LINE: usize = 64;

/// What an agent signs in with, new or with the id of before.
pub struct Credentials {
    /// By this the platform knows the client.
    pub client_id: String,
    /// For the platform, as PEM.
    pub public_key: String,
    /// For the agent, as PKCS#8 in PEM.
    pub private_key: Secret<String>,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("client_id", &self.client_id)
            .finish_non_exhaustive()
    }
}

impl Credentials {
    /// Makes a key pair, for this client or for a new one.
    pub fn generate(client_id: Option<String>) -> Result<Self> {
        let failed = |_| anyhow!("failed to make a key pair");
        let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).map_err(failed)?;
        let private = pair.to_pkcs8v1().map_err(failed)?;
        let public: PublicKeyX509Der<'_> = pair.public_key().as_der().map_err(failed)?;
        Ok(Self {
            client_id: client_id.unwrap_or_else(new_id),
            public_key: pem("PUBLIC KEY", public.as_ref()).expose().clone(),
            private_key: pem("PRIVATE KEY", private.as_ref()),
        })
    }
}

fn new_id() -> String {
    Builder::from_random_bytes(rand::random()).into_uuid().to_string()
}

/// DER as PEM. It is wiped when dropped, and so is what is made on the way.
fn pem(label: &str, der: &[u8]) -> Secret<String> {
    let text = Secret::new(STANDARD.encode(der));
    let lines = text.expose().len().div_ceil(LINE);
    // Grown at once: a text that grows leaves copies behind.
    let mut pem = String::with_capacity(text.expose().len() + lines + 2 * (label.len() + LINE));
    pem.push_str(&format!("-----BEGIN {label}-----\n"));
    let mut rest = text.expose().as_str();
    while !rest.is_empty() {
        let (line, after) = rest.split_at(LINE.min(rest.len()));
        pem.push_str(line);
        pem.push('\n');
        rest = after;
    }
    pem.push_str(&format!("-----END {label}-----\n"));
    Secret::new(pem)
}

/// The id in a Secret, where it is base64.
pub fn client_id(encoded: &Secret<String>) -> Result<String> {
    let bytes = STANDARD.decode(encoded.expose()).ok();
    let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
    text.map(|text| text.trim().to_owned())
        .filter(|text| !text.is_empty())
        .context("it is empty or no text")
}

/// A value as a Secret holds it.
pub fn encode(value: &str) -> String {
    STANDARD.encode(value)
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::rand::SystemRandom;
    use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED, ParsedPublicKey};

    use super::*;

    fn der(pem: &str, label: &str) -> Vec<u8> {
        let text = pem
            .strip_prefix(&format!("-----BEGIN {label}-----\n"))
            .unwrap()
            .strip_suffix(&format!("-----END {label}-----\n"))
            .unwrap();
        assert!(text.lines().all(|line| line.len() <= LINE));
        STANDARD.decode(text.replace('\n', "")).unwrap()
    }

    #[test]
    fn what_the_private_key_signs_the_public_key_verifies() {
        let made = Credentials::generate(None).unwrap();
        let private = der(made.private_key.expose(), "PRIVATE KEY");
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &private).unwrap();
        let signature = pair.sign(&SystemRandom::new(), b"assertion").unwrap();
        let public = der(&made.public_key, "PUBLIC KEY");
        let public = ParsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, public).unwrap();
        public.verify_sig(b"assertion", signature.as_ref()).unwrap();
        assert!(public.verify_sig(b"another", signature.as_ref()).is_err());
    }

    #[test]
    fn ids_are_new_unless_one_is_given_and_keys_always_are() {
        let (one, two) = (
            Credentials::generate(None).unwrap(),
            Credentials::generate(None).unwrap(),
        );
        assert_ne!(one.client_id, two.client_id);
        assert_eq!(one.client_id.len(), 36);
        let kept = Credentials::generate(Some(one.client_id.clone())).unwrap();
        assert_eq!(kept.client_id, one.client_id);
        assert_ne!(kept.public_key, one.public_key);
    }

    #[test]
    fn private_key_is_not_in_the_debug_text() {
        let made = Credentials::generate(None).unwrap();
        let shown = format!("{made:?}");
        assert!(
            shown.contains(&made.client_id) && !shown.contains("KEY"),
            "{shown}"
        );
    }

    #[test]
    fn client_id_of_a_secret_is_read_and_trimmed() {
        let read = |value: &str| client_id(&Secret::new(value.to_owned()));
        assert_eq!(read(&encode("cluster-1\n")).unwrap(), "cluster-1");
        for wrong in ["", "***", &encode("  \n")] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
