//! The token endpoint: who gets a token, and whether a token is good.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, DecodingKey};
use serde_json::{Value, json};

const GRANT: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
/// How long an assertion has to be good, in seconds.
const ASSERTION_LIFE: i64 = 300;
/// How far the clock of an agent may be from ours, in seconds.
const SKEW: i64 = 60;
/// How long a token is good unless the test says otherwise, in seconds.
const TOKEN_LIFE: u64 = 3600;

/// Clients, and the tokens that they got.
pub(super) struct Grants {
    pub(super) audience: String,
    pub(super) expires_in: Option<u64>,
    pub(super) issued: Vec<String>,
    clients: BTreeMap<String, DecodingKey>,
    /// Tokens that are good, and until when.
    good: BTreeMap<String, Option<Instant>>,
    used: BTreeSet<String>,
}

impl Default for Grants {
    fn default() -> Self {
        Self {
            audience: String::new(),
            expires_in: Some(TOKEN_LIFE),
            issued: Vec::new(),
            clients: BTreeMap::new(),
            good: BTreeMap::new(),
            used: BTreeSet::new(),
        }
    }
}

/// Why there is no token.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NoToken {
    /// The request is not as the contract wants it.
    Violation(String),
    /// The request is well formed, and refused.
    Refused(String),
}

impl Grants {
    pub(super) fn register(&mut self, client: &str, public_key_pem: &str) -> Result<()> {
        let key = DecodingKey::from_ec_pem(public_key_pem.as_bytes())
            .with_context(|| format!("read the public key of {client}"))?;
        self.clients.insert(client.to_owned(), key);
        Ok(())
    }

    pub(super) fn revoke(&mut self) {
        self.good.clear();
    }

    /// Whether the header `Authorization` carries a token that is good.
    pub(super) fn is_good(&self, authorization: Option<&str>) -> bool {
        let token = authorization.and_then(|text| text.strip_prefix("Bearer "));
        let end = token.and_then(|token| self.good.get(token));
        end.is_some_and(|end| end.is_none_or(|end| Instant::now() < end))
    }

    /// Exchanges the form of a request for the answer with a token.
    pub(super) fn exchange(&mut self, form: &str, now: i64) -> Result<Value, NoToken> {
        let assertion = assertion(form).map_err(NoToken::Violation)?;
        let (client, jti) = self.check(&assertion, now)?;
        if !self.used.insert(jti) {
            return Err(NoToken::Violation(format!("{client} used a jti twice")));
        }
        let token = format!("seed-token-{:032x}", rand::random::<u128>());
        self.issued.push(token.clone());
        let end = self
            .expires_in
            .map(|life| Instant::now() + Duration::from_secs(life));
        self.good.insert(token.clone(), end);
        let mut answer = json!({ "access_token": token, "token_type": "Bearer" });
        if let Some(life) = self.expires_in {
            answer["expires_in"] = life.into();
        }
        Ok(answer)
    }

    /// The client and the jti of an assertion that is right in every respect.
    fn check(&self, assertion: &str, now: i64) -> Result<(String, String), NoToken> {
        let (message, signature) = assertion
            .rsplit_once('.')
            .ok_or_else(|| NoToken::Violation("the assertion is no JWT".to_owned()))?;
        let claims = claims(message, &self.audience).map_err(NoToken::Violation)?;
        let Some(key) = self.clients.get(&claims.client) else {
            return Err(NoToken::Refused(format!("{} is no client", claims.client)));
        };
        let verified = jsonwebtoken::crypto::verify(signature, message.as_bytes(), key, Algorithm::ES256);
        if !verified.unwrap_or(false) {
            let why = format!("the signature of {} is wrong", claims.client);
            return Err(NoToken::Refused(why));
        }
        if (now - claims.iat).abs() > SKEW {
            let why = format!("the clock of {} is {} s off", claims.client, now - claims.iat);
            return Err(NoToken::Refused(why));
        }
        Ok((claims.client, claims.jti))
    }
}

struct Claims {
    client: String,
    iat: i64,
    jti: String,
}

/// The form has two fields.
fn assertion(form: &str) -> Result<String, String> {
    let fields: Vec<(String, String)> = form_urlencoded::parse(form.as_bytes()).into_owned().collect();
    let [(grant_type, grant), (name, assertion)] = fields.as_slice() else {
        return Err(format!("the form has {} fields", fields.len()));
    };
    match (grant_type.as_str(), grant.as_str(), name.as_str()) {
        ("grant_type", GRANT, "assertion") => Ok(assertion.clone()),
        (one, grant, two) => Err(format!("the form has {one}={grant} and {two}")),
    }
}

/// Header and claims, each exactly as the contract has them.
fn claims(message: &str, audience: &str) -> Result<Claims, String> {
    let (header, claims) = message.split_once('.').ok_or("the assertion is no JWT")?;
    let read = |part: &str, what: &str| -> Result<Value, String> {
        let bytes = URL_SAFE_NO_PAD
            .decode(part)
            .map_err(|_| format!("{what} is no base64url"))?;
        serde_json::from_slice(&bytes).map_err(|_| format!("{what} is no JSON"))
    };
    let header = read(header, "the header of the assertion")?;
    if header != json!({ "alg": "ES256", "typ": "JWT" }) {
        return Err(format!("the header of the assertion is {header}"));
    }
    let claims = read(claims, "the body of the assertion")?;
    let (iss, jti) = (&claims["iss"], &claims["jti"]);
    let (Some(client), Some(iat), Some(jti)) = (iss.as_str(), claims["iat"].as_i64(), jti.as_str()) else {
        return Err("the assertion lacks iss, iat or jti".to_owned());
    };
    let wanted = json!({
        "iss": client, "sub": client, "aud": [audience], "iat": iat, "exp": iat + ASSERTION_LIFE, "jti": jti,
    });
    if claims != wanted {
        return Err(format!("the claims are {claims} and should be {wanted}"));
    }
    match is_random_uuid(jti) {
        true => Ok(Claims {
            client: client.to_owned(),
            iat,
            jti: jti.to_owned(),
        }),
        false => Err(format!("the jti {jti} is no random UUID")),
    }
}

/// Whether a text is a UUID of version 4.
fn is_random_uuid(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    parts.iter().map(|part| part.len()).eq([8, 4, 4, 4, 12])
        && parts
            .iter()
            .all(|part| part.bytes().all(|b| b.is_ascii_hexdigit()))
        && parts[2].starts_with('4')
        && parts[3].starts_with(['8', '9', 'a', 'b', 'A', 'B'])
}

#[cfg(test)]
mod tests {
    use super::*;

    const JTI: &str = "0c3f1a52-7d1e-4c55-9b1e-2f6f5a1e9d10";

    fn message(header: Value, claims: Value) -> String {
        let part = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
        format!("{}.{}", part(header), part(claims))
    }

    fn good() -> (Value, Value) {
        let claims = json!({ "iss": "c", "sub": "c", "aud": ["u"], "iat": 7, "exp": 307, "jti": JTI });
        (json!({ "alg": "ES256", "typ": "JWT" }), claims)
    }

    #[test]
    fn each_departure_from_the_contract_is_found() {
        let (header, body) = good();
        assert!(claims(&message(header, body), "u").is_ok());
        let departures: [fn(&mut Value, &mut Value); 8] = [
            |header, _| header["kid"] = "k".into(),
            |header, _| header["alg"] = "ES384".into(),
            |_, claims| claims["aud"] = "u".into(),
            |_, claims| claims["aud"] = json!(["u/"]),
            |_, claims| claims["exp"] = 308.into(),
            |_, claims| claims["nbf"] = 7.into(),
            |_, claims| claims["sub"] = "other".into(),
            |_, claims| claims["jti"] = "1".into(),
        ];
        for (number, depart) in departures.iter().enumerate() {
            let (mut header, mut body) = good();
            depart(&mut header, &mut body);
            assert!(claims(&message(header, body), "u").is_err(), "departure {number}");
        }
    }
}
