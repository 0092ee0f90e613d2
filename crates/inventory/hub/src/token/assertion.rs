//! What an assertion must say, and who must have signed it.
//!
//! The signature is checked first. Before that, everything that is wrong has one answer: nobody learns which clients there are.

#[cfg(test)]
mod tests;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use serde::Deserialize;

use crate::store::identity::ClientKey;

/// How far clocks may differ, in seconds.
pub const SKEW: i64 = 60;
/// The longest life of an assertion, in seconds.
pub const MAX_LIFE: i64 = 600;
/// The longest assertion, in bytes.
pub const MAX_ASSERTION: usize = 8 * 1024;
/// The longest `jti`, in bytes.
pub const MAX_JTI: usize = 256;

/// Why an assertion is not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AssertionError {
    /// Not an assertion that a key of its client signed. Nothing more is told.
    #[error("the assertion is not accepted")]
    Unproven,
    /// A claim breaks a rule.
    #[error("{0}")]
    Claim(&'static str),
}

/// The claims of an assertion whose signature was checked.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Claims {
    iss: String,
    sub: String,
    aud: Audience,
    exp: i64,
    iat: i64,
    #[serde(default)]
    nbf: Option<i64>,
    jti: String,
}

/// One text, or a list of texts.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
enum Audience {
    One(String),
    Many(Vec<String>),
}

impl Audience {
    fn names(&self, url: &str) -> bool {
        let wanted = without_slash(url);
        match self {
            Self::One(named) => without_slash(named) == wanted,
            Self::Many(named) => named.iter().any(|named| without_slash(named) == wanted),
        }
    }
}

fn without_slash(url: &str) -> &str {
    url.trim_end_matches('/')
}

/// Who an assertion says that it is from, unproven: only good to look up keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claimed {
    /// The client.
    pub client: String,
    /// The key, if it names one.
    pub kid: Option<String>,
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    #[serde(default)]
    typ: Option<String>,
    #[serde(default)]
    kid: Option<String>,
    #[serde(default)]
    crit: Option<serde_json::Value>,
}

#[derive(Deserialize)]
struct Issuer {
    iss: String,
}

/// Reads who an assertion says that it is from. `None` if it is no JWT with ES256.
pub fn claimed(assertion: &str) -> Option<Claimed> {
    if assertion.len() > MAX_ASSERTION {
        return None;
    }
    let mut parts = assertion.split('.');
    let (head, body, _signature) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() {
        return None;
    }
    let header: Header = part(head)?;
    let is_jwt = header.typ.is_none_or(|typ| typ.eq_ignore_ascii_case("JWT"));
    // Who sets `crit` wants the token refused by everybody who does not know the extension, and we know none.
    if header.alg != "ES256" || !is_jwt || header.crit.is_some() {
        return None;
    }
    let Issuer { iss } = part(body)?;
    Some(Claimed {
        client: iss,
        kid: header.kid,
    })
}

fn part<T: for<'de> Deserialize<'de>>(text: &str) -> Option<T> {
    let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
    serde_json::from_slice(&bytes).ok()
}

/// Checks that one of the keys signed the assertion, and gives its claims.
pub fn verify(assertion: &str, claimed: &Claimed, keys: &[ClientKey]) -> Result<Claims, AssertionError> {
    let mut validation = Validation::new(Algorithm::ES256);
    validation.algorithms = vec![Algorithm::ES256];
    // The rules for claims are those of `check`, which knows the time and names the claim.
    validation.required_spec_claims.clear();
    validation.validate_exp = false;
    validation.validate_aud = false;
    let wanted = |key: &&ClientKey| claimed.kid.as_ref().is_none_or(|kid| *kid == key.kid);
    keys.iter()
        .filter(wanted)
        .find_map(|key| {
            let key = DecodingKey::from_ec_der(&key.point);
            jsonwebtoken::decode::<Claims>(assertion, &key, &validation).ok()
        })
        .map(|data| data.claims)
        .filter(|claims| claims.iss == claimed.client)
        .ok_or(AssertionError::Unproven)
}

/// An assertion that is accepted, unless it was used before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accepted {
    /// The client.
    pub client: String,
    /// The id of the assertion.
    pub jti: String,
    /// Until when the id must be remembered, in seconds since 1970.
    pub remember_until: i64,
}

/// Checks the claims at `now` (seconds since 1970) for a hub that is reached under `audiences`.
pub fn check(claims: Claims, audiences: &[String], now: i64) -> Result<Accepted, AssertionError> {
    let rule = |holds: bool, text: &'static str| {
        if holds {
            Ok(())
        } else {
            Err(AssertionError::Claim(text))
        }
    };
    rule(claims.iss == claims.sub, "iss and sub must be the same client")?;
    let known = audiences.iter().any(|url| claims.aud.names(url));
    rule(known, "aud must name a URL of this hub (--url)")?;
    rule(claims.exp > now.saturating_sub(SKEW), "exp has passed")?;
    rule(claims.iat <= now.saturating_add(SKEW), "iat is in the future")?;
    rule(claims.exp > claims.iat, "exp must be after iat")?;
    let life = claims.exp.saturating_sub(claims.iat);
    rule(life <= MAX_LIFE, "exp may be at most 600 s after iat")?;
    let begun = claims.nbf.is_none_or(|nbf| nbf <= now.saturating_add(SKEW));
    rule(begun, "nbf is in the future")?;
    let jti = &claims.jti;
    rule(
        !jti.is_empty() && jti.len() <= MAX_JTI,
        "jti must have 1 to 256 bytes",
    )?;
    Ok(Accepted {
        client: claims.iss,
        jti: claims.jti,
        remember_until: claims.exp.saturating_add(SKEW),
    })
}
