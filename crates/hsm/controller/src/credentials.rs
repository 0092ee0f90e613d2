//! What an agent finds in files: its certificate with the bundle, the key of its record, and perhaps an SO-PIN.
//!
//! Whether a certificate has to be replaced is decided without a look at it. The Secret bears a fingerprint of its *recipe*:
//! for whom it is and which CAs are trusted. Our field set tells whether somebody has changed an entry since, and an
//! annotation when the certificate ends. So no key of an agent is ever read back.

use std::time::Duration;

use aws_lc_rs::rand::fill;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Value, json};
use trustplane_api::hsm::DEVICE;
use trustplane_api::hsm::names::DEVICE_LABEL;
use trustplane_api::hsm::v1::agent_name;
use trustplane_hsm_core::objects::{
    COMPONENT_LABEL, SECRET, label_value, mark, so_pin_secret_name, tls_secret_name,
};
use trustplane_plan::{
    Apply, Conflicts, Convergence, Expect, Fingerprinter, Manifest, Meta, ObjectRef, Owner, Ownership,
    converge,
};
use trustplane_process::ca::{Authority, CaError, LeafRequest, Usage};

use crate::pki::Lives;

/// When the certificate in a Secret ends.
const ENDS: &str = "hsm.j5t.io/certificate-ends";
/// The component of Secrets with certificates.
pub(crate) const CERTIFICATE: &str = "mtls";

/// There is nothing to give to an agent.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CredentialsError {
    /// The CA does not sign.
    #[error("failed to issue a certificate: {0}")]
    Issue(#[from] CaError),
    /// The system has no random numbers.
    #[error("failed to make an SO-PIN: the system has no random numbers")]
    Random,
}

/// For whom credentials are.
pub(crate) struct Holder<'a> {
    /// The agent.
    pub agent: &'a ObjectRef,
    /// Its HSMDevice.
    pub device: &'a Meta,
}

/// How certificates are made.
pub(crate) struct Office<'a> {
    pub authority: &'a Authority,
    pub lives: Lives,
    pub fingerprinter: &'a Fingerprinter,
    pub now: Timestamp,
}

impl Office<'_> {
    /// The write that an agent's certificate needs, if it needs one. Whatever is the matter, it gets a new certificate.
    pub fn certificate(
        &self,
        holder: &Holder<'_>,
        live: Option<&Meta>,
    ) -> Result<Convergence, CredentialsError> {
        let recipe = self.recipe(holder);
        let needed = match converge(recipe, live, &ownership(), self.fingerprinter) {
            Convergence::Write(apply) => apply,
            Convergence::Settled => match live.filter(|live| self.is_due(live)) {
                Some(live) => self.again(holder, live),
                None => return Ok(Convergence::Settled),
            },
            other => return Ok(other),
        };
        self.issue(holder, needed).map(Convergence::Write)
    }

    /// How long what is in a Secret can stay; `None` if it has to be replaced now.
    pub fn good_for(&self, holder: &Holder<'_>, live: &Meta) -> Option<Duration> {
        let settled = converge(self.recipe(holder), Some(live), &ownership(), self.fingerprinter);
        let left = self.renew_at(live)?.duration_since(self.now);
        let left = Duration::try_from(left).ok().filter(|left| !left.is_zero());
        left.filter(|_| settled == Convergence::Settled)
    }

    /// When the certificate in a Secret has to be replaced.
    fn renew_at(&self, live: &Meta) -> Option<Timestamp> {
        let ends: Timestamp = live.annotations.get(ENDS)?.parse().ok()?;
        ends.checked_sub(self.lives.renew_before).ok()
    }

    fn is_due(&self, live: &Meta) -> bool {
        self.renew_at(live).is_none_or(|due| self.now >= due)
    }

    /// What a Secret is made from: everything of the wish but the values.
    fn recipe(&self, holder: &Holder<'_>) -> Manifest {
        let (namespace, name) = (holder.agent.namespace(), tls_secret_name(holder.agent.name()));
        let bundle = self.authority.bundle_pem();
        let made_of = json!({
            "tls.crt": dns(holder.agent), "tls.key": "", "ca.crt": bundle,
            "record.key": self.fingerprinter.of_bytes(&record_key(self.fingerprinter, holder.agent)),
        });
        let mut wish = Manifest::new(SECRET, namespace, &name)
            .label(COMPONENT_LABEL, CERTIFICATE)
            .label(DEVICE_LABEL, &label_value(holder.device.object.name()))
            .with("type", "kubernetes.io/tls".into())
            .with("data", made_of);
        if let Some(owner) = Owner::controller(&DEVICE, holder.device, namespace) {
            wish = wish.owner(owner);
        }
        wish
    }

    /// The same recipe once more.
    fn again(&self, holder: &Holder<'_>, live: &Meta) -> Apply {
        let (recipe, ownership) = (self.recipe(holder), ownership());
        let recipe = recipe.label(&ownership.mark.key, &ownership.mark.value);
        let fingerprint = self.fingerprinter.of(&recipe);
        Apply {
            manifest: recipe.annotation(trustplane_plan::FINGERPRINT, &fingerprint),
            expect: Expect::Seen {
                uid: live.uid.clone(),
                resource_version: live.resource_version.clone(),
            },
            conflicts: ownership.conflicts,
        }
    }

    /// Puts values in the place of what they are made from.
    fn issue(&self, holder: &Holder<'_>, needed: Apply) -> Result<Apply, CredentialsError> {
        let request = LeafRequest {
            name: holder.agent.name().to_owned(),
            dns: vec![dns(holder.agent)],
            usage: Usage::Server,
            life: Some(self.lives.leaf),
            ..LeafRequest::default()
        };
        let leaf = self.authority.issue(&request, self.now)?;
        let encode = |bytes: &[u8]| Value::from(STANDARD.encode(bytes));
        let data = json!({
            "tls.crt": encode(leaf.certificate_pem().as_bytes()),
            "tls.key": encode(leaf.key_pem().expose()),
            "ca.crt": encode(self.authority.bundle_pem().as_bytes()),
            "record.key": encode(&record_key(self.fingerprinter, holder.agent)),
        });
        let manifest = needed.manifest.with("data", data);
        Ok(Apply {
            manifest: manifest.stamp(ENDS, &leaf.expires().to_string()),
            ..needed
        })
    }
}

/// The creation of an SO-PIN. It has no owner, and is never changed: it is the only way back into a token that we have set up,
/// whatever becomes of the agent and of the HSMDevice.
pub(crate) fn so_pin(holder: &Holder<'_>) -> Result<Apply, CredentialsError> {
    let (namespace, name) = (holder.agent.namespace(), so_pin_secret_name(holder.agent.name()));
    let mut random = [0; 8];
    fill(&mut random).map_err(|_| CredentialsError::Random)?;
    let pin: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    let mark = mark();
    Ok(Apply::create(
        Manifest::new(SECRET, namespace, &name)
            .label(&mark.key, &mark.value)
            .label(COMPONENT_LABEL, "so-pin")
            .label(DEVICE_LABEL, &label_value(holder.device.object.name()))
            .with("type", "Opaque".into())
            .with("data", json!({ "so-pin": STANDARD.encode(pin) })),
    ))
}

fn ownership() -> Ownership {
    Ownership {
        mark: mark(),
        adopt: false,
        // A certificate that somebody has changed is useless: it is ours alone.
        conflicts: Conflicts::Force,
    }
}

fn dns(agent: &ObjectRef) -> String {
    agent_name(agent.name(), agent.namespace().unwrap_or_default())
}

/// The key with which an agent hides PINs in its record: always the same, whatever happens to certificates.
fn record_key(fingerprinter: &Fingerprinter, agent: &ObjectRef) -> [u8; 32] {
    fingerprinter.derive(&format!("hsm record {agent}"))
}

#[cfg(test)]
#[path = "credentials_tests.rs"]
mod tests;
