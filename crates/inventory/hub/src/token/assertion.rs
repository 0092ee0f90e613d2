//! What an assertion must say, and who must have signed it.
//!
//! The signature is checked first. Before that, everything that is wrong has one answer, so that a caller does not learn which clients there are.

#[cfg(test)]
mod tests;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use serde::Deserialize;

use crate::store::identity::{ClientKey, MAX_KEYS};

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

/// A point on the curve that is no key of a client: the generator. Its signature check takes as long as any other.
const NO_KEY: [u8; 65] = [
    0x04, 0x6b, 0x17, 0xd1, 0xf2, 0xe1, 0x2c, 0x42, 0x47, 0xf8, 0xbc, 0xe6, 0xe5, 0x63, 0xa4, 0x40, 0xf2,
    0x77, 0x03, 0x7d, 0x81, 0x2d, 0xeb, 0x33, 0xa0, 0xf4, 0xa1, 0x39, 0x45, 0xd8, 0x98, 0xc2, 0x96, 0x4f,
    0xe3, 0x42, 0xe2, 0xfe, 0x1a, 0x7f, 0x9b, 0x8e, 0xe7, 0xeb, 0x4a, 0x7c, 0x0f, 0x9e, 0x16, 0x2b, 0xce,
    0x33, 0x57, 0x6b, 0x31, 0x5e, 0xce, 0xcb, 0xb6, 0x40, 0x68, 0x37, 0xbf, 0x51, 0xf5,
];

/// The keys to check a signature with: always [`MAX_KEYS`], so that the time of an answer does not tell whether the client exists and how
/// many keys it has. `None` stands for a check whose result does not count.
fn candidates<'a>(claimed: &Claimed, keys: &'a [ClientKey]) -> [Option<&'a ClientKey>; MAX_KEYS] {
    let is_wanted = |key: &&ClientKey| claimed.kid.as_ref().is_none_or(|kid| *kid == key.kid);
    std::array::from_fn(|slot| keys.get(slot).filter(is_wanted))
}

/// Checks that one of the keys signed the assertion, and gives its claims. A client that is unknown has no keys.
pub fn verify(assertion: &str, claimed: &Claimed, keys: &[ClientKey]) -> Result<Claims, AssertionError> {
    let mut validation = Validation::new(Algorithm::ES256);
    validation.algorithms = vec![Algorithm::ES256];
    // The rules for claims are those of `check`, which knows the time and names the claim.
    validation.required_spec_claims.clear();
    validation.validate_exp = false;
    validation.validate_aud = false;
    let mut proven = None;
    for candidate in candidates(claimed, keys) {
        let point = candidate.map_or(NO_KEY.as_slice(), |key| &key.point);
        let decoded =
            jsonwebtoken::decode::<Claims>(assertion, &DecodingKey::from_ec_der(point), &validation);
        // Anybody can sign with the key of the generator, so that its result must not count.
        if let (Some(_), Ok(data)) = (candidate, decoded) {
            proven = Some(data.claims);
        }
    }
    proven
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
