//! The credentials of an agent: read from a Secret, used for a signature, never shown.

use std::collections::BTreeMap;
use std::fmt;

use aws_lc_rs::digest::{Context, SHA256};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use base64::Engine;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use jiff::Timestamp;
use k8s_openapi::ByteString;
use trustplane_api::inventory::wire::AssertionClaims;
use trustplane_process::secret::Secret;

/// How long an assertion is good, in seconds.
const LIFE: i64 = 300;

/// Why credentials cannot be used: which key of the Secret, and the rule. Never a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CredentialsError {
    /// The Secret has no such key.
    #[error("{0} is missing")]
    Missing(&'static str),
    /// The client id is empty or is no text.
    #[error("client_id must be a text that is not empty")]
    ClientId,
    /// The private key is no PEM.
    #[error("private_key must be PEM with one EC PRIVATE KEY (SEC1) or PRIVATE KEY (PKCS#8)")]
    Pem,
    /// The private key is of another kind or curve.
    #[error("private_key must be an ECDSA key on the curve P-256")]
    Curve,
}

/// A client id, and the private key as the Secret has it. The key is parsed when it signs, and dropped after that.
pub struct Credentials {
    client_id: String,
    private_key: Secret<Vec<u8>>,
    /// Over the client id and the private key. It never leaves this type.
    digest: Secret<Vec<u8>>,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("client_id", &self.client_id)
            .finish_non_exhaustive()
    }
}

impl Credentials {
    /// Reads the data of a Secret. Both spellings of the keys count: `client_id` and `clientId`.
    pub fn read(data: &BTreeMap<String, ByteString>) -> Result<Self, CredentialsError> {
        let value = |names: [&'static str; 2]| {
            let found = names.iter().find_map(|name| data.get(*name));
            found.ok_or(CredentialsError::Missing(names[0]))
        };
        let client_id = value(["client_id", "clientId"])?;
        let client_id = std::str::from_utf8(&client_id.0).map_err(|_| CredentialsError::ClientId)?;
        let client_id = client_id.trim().to_owned();
        if client_id.is_empty() {
            return Err(CredentialsError::ClientId);
        }
        let private_key = Secret::new(value(["private_key", "privateKey"])?.0.clone());
        key_pair(&private_key)?;
        Ok(Self {
            digest: digest(&client_id, &private_key),
            client_id,
            private_key,
        })
    }

    /// The name of the client at the platform.
    pub fn client_id(&self) -> &str {
        &self.client_id
    }

    /// Whether both have the same client id and the same private key.
    pub fn is_same(&self, other: &Self) -> bool {
        self.digest.expose() == other.digest.expose()
    }

    /// An assertion for this audience: another one for each try.
    pub fn assertion(&self, audience: &str, now: Timestamp) -> Result<Secret<String>, CredentialsError> {
        let claims = AssertionClaims {
            iss: &self.client_id,
            sub: &self.client_id,
            aud: [audience],
            iat: now.as_second(),
            exp: now.as_second() + LIFE,
            jti: uuid::Builder::from_random_bytes(rand::random())
                .into_uuid()
                .to_string(),
        };
        let encode = |bytes: &[u8]| BASE64_URL_SAFE_NO_PAD.encode(bytes);
        // A struct of texts and numbers can be written.
        let claims = serde_json::to_vec(&claims).unwrap_or_default();
        let signed = format!(
            "{}.{}",
            encode(br#"{"alg":"ES256","typ":"JWT"}"#),
            encode(&claims)
        );
        let signature = key_pair(&self.private_key)?
            .sign(&SystemRandom::new(), signed.as_bytes())
            .map_err(|_| CredentialsError::Curve)?;
        Ok(Secret::new(format!("{signed}.{}", encode(signature.as_ref()))))
    }
}

fn digest(client_id: &str, private_key: &Secret<Vec<u8>>) -> Secret<Vec<u8>> {
    let mut context = Context::new(&SHA256);
    context.update(&client_id.len().to_le_bytes());
    context.update(client_id.as_bytes());
    context.update(private_key.expose());
    Secret::new(context.finish().as_ref().to_vec())
}

/// Parses a private key in either form.
fn key_pair(pem: &Secret<Vec<u8>>) -> Result<EcdsaKeyPair, CredentialsError> {
    let der = der(pem)?;
    // It reads PKCS#8 and SEC1 alike.
    EcdsaKeyPair::from_private_key_der(&ECDSA_P256_SHA256_FIXED_SIGNING, der.expose())
        .map_err(|_| CredentialsError::Curve)
}

/// The first private key of a PEM text. Parameters of the curve, which openssl writes before a key, are skipped.
fn der(pem: &Secret<Vec<u8>>) -> Result<Secret<Vec<u8>>, CredentialsError> {
    let text = std::str::from_utf8(pem.expose()).map_err(|_| CredentialsError::Pem)?;
    let body = ["EC PRIVATE KEY", "PRIVATE KEY"].iter().find_map(|label| {
        let (_, rest) = text.split_once(&format!("-----BEGIN {label}-----"))?;
        let (body, _) = rest.split_once(&format!("-----END {label}-----"))?;
        Some(body)
    });
    let body = body.ok_or(CredentialsError::Pem)?;
    let packed = Secret::new(body.split_whitespace().collect::<String>());
    let der = BASE64_STANDARD
        .decode(packed.expose())
        .map_err(|_| CredentialsError::Pem)?;
    Ok(Secret::new(der))
}

#[cfg(test)]
mod tests;
