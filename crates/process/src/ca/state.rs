//! What must be stored for an authority to go on.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::CaError;
use crate::secret::Secret;

/// Everything an authority knows. Stored with its private keys, so only where secrets may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthorityState {
    /// The CA that signs.
    pub current: SigningCa,
    /// Its successor, announced but not signing yet.
    pub next: Option<SigningCa>,
    /// Its predecessor, trusted until its last leaf has expired.
    pub previous: Option<RetiringCa>,
}

/// A CA that signs, or will.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SigningCa {
    /// The certificate, as PEM.
    pub certificate: String,
    /// Its key, as PKCS#8 PEM.
    pub key: Secret<String>,
    /// When it was made, which is when it was announced.
    pub created: Timestamp,
    /// When the certificate ends.
    pub expires: Timestamp,
}

/// A CA that signs no more; its key is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetiringCa {
    /// The certificate, as PEM.
    pub certificate: String,
    /// When it leaves the bundle.
    pub retire_at: Timestamp,
}

const TIMES: &str = "times.json";

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Times {
    current: Life,
    next: Option<Life>,
    previous_retires: Option<Timestamp>,
}

#[derive(Serialize, Deserialize)]
struct Life {
    created: Timestamp,
    expires: Timestamp,
}

impl Life {
    fn of(ca: &SigningCa) -> Self {
        Self {
            created: ca.created,
            expires: ca.expires,
        }
    }
}

impl AuthorityState {
    /// The certificates of the bundle, the signing one first.
    pub(super) fn certificates(&self) -> impl Iterator<Item = &str> {
        let next = self.next.iter().map(|ca| ca.certificate.as_str());
        let previous = self.previous.iter().map(|ca| ca.certificate.as_str());
        std::iter::once(self.current.certificate.as_str())
            .chain(next)
            .chain(previous)
    }

    /// As the entries of a Kubernetes Secret: `current.crt`, `current.key`, `next.*`, `previous.crt`, `times.json`.
    pub fn to_data(&self) -> BTreeMap<String, Secret<Vec<u8>>> {
        let mut data = BTreeMap::new();
        let mut put =
            |key: &str, value: &str| data.insert(key.to_owned(), Secret::new(value.as_bytes().to_vec()));
        put("current.crt", &self.current.certificate);
        put("current.key", self.current.key.expose());
        if let Some(next) = &self.next {
            put("next.crt", &next.certificate);
            put("next.key", next.key.expose());
        }
        if let Some(previous) = &self.previous {
            put("previous.crt", &previous.certificate);
        }
        let times = Times {
            current: Life::of(&self.current),
            next: self.next.as_ref().map(Life::of),
            previous_retires: self.previous.as_ref().map(|ca| ca.retire_at),
        };
        // Times are plain structs of strings, which always serialise.
        put(TIMES, &serde_json::to_string(&times).unwrap_or_default());
        data
    }

    /// Whether [`AuthorityState::to_data`] wrote any of this. If not, whatever it is, it is no authority of ours.
    pub fn is_in<V>(data: &BTreeMap<String, V>) -> bool {
        let ours = ["current.", "next.", "previous."];
        data.keys()
            .any(|key| key == TIMES || ours.iter().any(|prefix| key.starts_with(prefix)))
    }

    /// Reads what [`AuthorityState::to_data`] wrote. Entries of other names are ignored.
    pub fn from_data<V: AsRef<[u8]>>(data: &BTreeMap<String, V>) -> Result<Self, CaError> {
        let text = |key: &'static str| {
            let value = data
                .get(key)
                .and_then(|value| std::str::from_utf8(value.as_ref()).ok());
            value
                .filter(|value| !value.is_empty())
                .ok_or(CaError::Data { key })
        };
        let times: Times = serde_json::from_str(text(TIMES)?).map_err(|_| CaError::Data { key: TIMES })?;
        let signing = |certificate, key, life: Life| {
            Ok::<_, CaError>(SigningCa {
                certificate: text(certificate)?.to_owned(),
                key: Secret::new(text(key)?.to_owned()),
                created: life.created,
                expires: life.expires,
            })
        };
        let retiring = |retire_at| {
            Ok::<_, CaError>(RetiringCa {
                certificate: text("previous.crt")?.to_owned(),
                retire_at,
            })
        };
        let state = Self {
            current: signing("current.crt", "current.key", times.current)?,
            next: times
                .next
                .map(|life| signing("next.crt", "next.key", life))
                .transpose()?,
            previous: times.previous_retires.map(retiring).transpose()?,
        };
        state.check()?;
        Ok(state)
    }

    /// Finds entries that were mixed up or cut, before they sign anything.
    fn check(&self) -> Result<(), CaError> {
        let pair = |ca: &SigningCa, key: &'static str| {
            let secret = Secret::new(ca.key.expose().as_bytes().to_vec());
            crate::tls::certified_key(ca.certificate.as_bytes(), &secret).map_err(|_| CaError::Data { key })
        };
        pair(&self.current, "current.key")?;
        if let Some(next) = &self.next {
            pair(next, "next.key")?;
        }
        if let Some(previous) = &self.previous {
            let roots = crate::tls::roots(previous.certificate.as_bytes());
            roots.map_err(|_| CaError::Data { key: "previous.crt" })?;
        }
        Ok(())
    }
}
