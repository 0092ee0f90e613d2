//! What an agent finds in files: its certificate with the bundle, the key of its record, and perhaps an SO-PIN. When each is made
//! is decided elsewhere; here are the values.

use aws_lc_rs::rand::fill;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use trustplane_api::hsm::v1::agent_name;
use trustplane_hsm_core::decide::ENDS;
use trustplane_plan::{Apply, ObjectRef};
use trustplane_process::ca::{Authority, CaError, LeafRequest, Usage};

/// There is nothing to give to an agent.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CredentialsError {
    /// The CA does not sign.
    #[error("failed to issue a certificate: {0}")]
    Issue(#[from] CaError),
    /// The system has no random numbers.
    #[error("failed to make {0}: the system has no random numbers")]
    Random(&'static str),
}

/// How certificates are made.
pub(crate) struct Office<'a> {
    pub authority: &'a Authority,
    /// How long a certificate lives.
    pub life: SignedDuration,
    pub now: Timestamp,
}

impl Office<'_> {
    /// Puts values in the place of the recipe. There is none if the CA has changed since that was written: the next look, which the
    /// change has asked for, makes another.
    pub fn issue(&self, agent: &ObjectRef, needed: Apply) -> Result<Option<Apply>, CredentialsError> {
        let bundle = self.authority.bundle_pem();
        if needed.manifest.wish()["data"]["ca.crt"] != bundle {
            return Ok(None);
        }
        let request = LeafRequest {
            name: agent.name().to_owned(),
            dns: vec![agent_name(agent.name(), agent.namespace().unwrap_or_default())],
            usage: Usage::Server,
            life: Some(self.life),
            ..LeafRequest::default()
        };
        let leaf = self.authority.issue(&request, self.now)?;
        let encode = |bytes: &[u8]| Value::from(STANDARD.encode(bytes));
        let data = json!({
            "tls.crt": encode(leaf.certificate_pem().as_bytes()),
            "tls.key": encode(leaf.key_pem().expose()),
            "ca.crt": encode(bundle.as_bytes()),
        });
        let manifest = needed.manifest.with("data", data);
        Ok(Some(Apply {
            manifest: manifest.stamp(ENDS, &leaf.expires().to_string()),
            ..needed
        }))
    }
}

/// Makes an SO-PIN. It is never changed.
pub(crate) fn so_pin(needed: Apply) -> Result<Apply, CredentialsError> {
    let random: [u8; 8] = random("an SO-PIN")?;
    let pin: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(with(needed, "so-pin", pin.as_bytes()))
}

/// Makes the key of a record. It is never changed.
pub(crate) fn record_key(needed: Apply) -> Result<Apply, CredentialsError> {
    let key: [u8; 32] = random("the key of a record")?;
    Ok(with(needed, "record.key", &key))
}

fn random<const LENGTH: usize>(what: &'static str) -> Result<[u8; LENGTH], CredentialsError> {
    let mut random = [0; LENGTH];
    fill(&mut random).map_err(|_| CredentialsError::Random(what))?;
    Ok(random)
}

fn with(needed: Apply, key: &str, value: &[u8]) -> Apply {
    let data = json!({ key: STANDARD.encode(value) });
    Apply {
        manifest: needed.manifest.with("data", data),
        ..needed
    }
}

#[cfg(test)]
mod tests;
