//! When the certificate of an agent is made, and when another one.
//!
//! That is decided without a look at it. The Secret bears a fingerprint of its *recipe*: for whom it is and which CAs are
//! trusted. Our field set tells whether somebody has changed an entry since, and an annotation when the certificate ends. So no
//! key of an agent is ever read back.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use trustplane_api::hsm::DEVICE;
use trustplane_api::hsm::names::DEVICE_LABEL;
use trustplane_plan::kinds::SECRET;
use trustplane_plan::{
    Apply, Convergence, Expect, FINGERPRINT, Fingerprinter, Kind, Manifest, Meta, ObjectRef, Owner, Plan,
    Step, converge,
};

use super::{AgentAction, AgentsInput};
use crate::objects::{
    COMPONENT_LABEL, is_for, label_value, mark, ownership, record_key_secret_name, so_pin_secret_name,
    tls_secret_name,
};

/// When the certificate in a Secret ends. Whoever issues one stamps the Secret with it.
pub const ENDS: &str = "hsm.j5t.io/certificate-ends";
/// The component of Secrets with certificates.
const CERTIFICATE: &str = "mtls";

/// What certificates are issued with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issuing {
    /// The CAs that agents trust, in PEM. Others make other certificates.
    pub bundle: String,
    /// How long before its end a certificate is replaced.
    pub renew_before: SignedDuration,
}

/// Decides about the certificates of one HSMDevice.
pub(super) struct Desk<'a> {
    pub issuing: &'a Issuing,
    pub device: &'a Meta,
    pub fingerprinter: &'a Fingerprinter,
    pub now: Timestamp,
}

impl Desk<'_> {
    /// The first certificate of an agent.
    pub fn first(&self, agent: ObjectRef) -> Option<AgentAction> {
        match converge(self.recipe(&agent), None, &ownership(), self.fingerprinter) {
            Convergence::Write(write) => Some(AgentAction::Certificate { agent, write }),
            _ => None,
        }
    }

    /// The first and only key of the record of an agent. It belongs to whom the record belongs to, so that it lives as long.
    pub fn record_key(&self, agent: ObjectRef) -> AgentAction {
        let bare = self.bare(&agent, &record_key_secret_name(agent.name()), "record-key");
        let owner = Owner::controller(&DEVICE, self.device, agent.namespace());
        let write = Apply::create(match owner {
            Some(owner) => bare.owner(owner),
            None => bare,
        });
        AgentAction::RecordKey { agent, write }
    }

    /// The first and only SO-PIN for the token of an agent. It has no owner: it is the only way back into a token that we have
    /// set up, whatever becomes of the agent and of the HSMDevice.
    pub fn so_pin(&self, agent: ObjectRef) -> AgentAction {
        let write = Apply::create(self.bare(&agent, &so_pin_secret_name(agent.name()), "so-pin"));
        AgentAction::SoPin { agent, write }
    }

    /// A Secret that is made once, without its value.
    fn bare(&self, agent: &ObjectRef, name: &str, component: &str) -> Manifest {
        let mark = mark();
        Manifest::new(SECRET, agent.namespace(), name)
            .label(&mark.key, &mark.value)
            .label(COMPONENT_LABEL, component)
            .label(DEVICE_LABEL, &label_value(self.device.object.name()))
            .with("type", "Opaque".into())
    }

    /// Replaces certificates that end, that somebody has damaged, or that a CA of old has signed: those of all agents that there
    /// are, whether or not the HSMDevice makes sense, because they go on serving.
    pub fn renew(&self, input: &AgentsInput, plan: &mut Plan<AgentAction>) {
        for (agent, live) in self.certificates(&input.live) {
            let leaves = |step: &Step<AgentAction>| matches!(step, Step::Delete(delete) if delete.uid == live.uid && delete.target.kind == SECRET);
            if plan.steps.iter().any(leaves) {
                continue;
            }
            match converge(self.recipe(&agent), Some(live), &ownership(), self.fingerprinter) {
                Convergence::Write(write) => {
                    plan.push(Step::Call(AgentAction::Certificate { agent, write }));
                }
                Convergence::Settled => match self.good_for(live) {
                    Some(time) => plan.look_again_in(time),
                    None => {
                        let write = self.again(&agent, live);
                        plan.push(Step::Call(AgentAction::Certificate { agent, write }));
                    }
                },
                Convergence::Foreign { .. } | Convergence::Terminating => {}
            }
        }
    }

    /// The agents that have a certificate, each with the Secret that it is in. Names of other HSMDevices may begin alike.
    fn certificates<'a>(&self, live: &'a [(Kind, Meta)]) -> impl Iterator<Item = (ObjectRef, &'a Meta)> {
        let device = &self.device.object;
        let (namespace, name) = (device.namespace().unwrap_or_default(), device.name());
        let uid = &*self.device.uid;
        live.iter().filter_map(move |(kind, meta)| {
            let component = meta.labels.get(COMPONENT_LABEL).map(String::as_str);
            let mut owners = meta.owners.iter().filter(|owner| owner.controller);
            let ours = is_for(meta, namespace, name) || owners.any(|owner| owner.uid == uid);
            let agent = meta.object.name().strip_suffix("-tls")?;
            let agent = ObjectRef::new(meta.object.namespace(), agent);
            (*kind == SECRET && component == Some(CERTIFICATE) && ours).then_some((agent, meta))
        })
    }

    /// How long the certificate in a Secret can stay; `None` if another one is due.
    fn good_for(&self, live: &Meta) -> Option<Duration> {
        let ends: Timestamp = live.annotations.get(ENDS)?.parse().ok()?;
        let due = ends.checked_sub(self.issuing.renew_before).ok()?;
        let left = Duration::try_from(due.duration_since(self.now)).ok();
        left.filter(|left| !left.is_zero())
    }

    /// What a Secret is made from: everything of the wish but the values.
    fn recipe(&self, agent: &ObjectRef) -> Manifest {
        let namespace = agent.namespace();
        let made_of = json!({ "tls.crt": agent.to_string(), "tls.key": "", "ca.crt": self.issuing.bundle });
        let wish = Manifest::new(SECRET, namespace, &tls_secret_name(agent.name()))
            .label(COMPONENT_LABEL, CERTIFICATE)
            .label(DEVICE_LABEL, &label_value(self.device.object.name()))
            .with("type", "kubernetes.io/tls".into())
            .with("data", made_of);
        match Owner::controller(&DEVICE, self.device, namespace) {
            Some(owner) => wish.owner(owner),
            None => wish,
        }
    }

    /// The same recipe once more.
    fn again(&self, agent: &ObjectRef, live: &Meta) -> Apply {
        let ownership = ownership();
        let recipe = self.recipe(agent);
        let recipe = recipe.label(&ownership.mark.key, &ownership.mark.value);
        let fingerprint = self.fingerprinter.of(&recipe);
        Apply {
            manifest: recipe.annotation(FINGERPRINT, &fingerprint),
            expect: Expect::Seen {
                uid: live.uid.clone(),
                resource_version: live.resource_version.clone(),
            },
            conflicts: ownership.conflicts,
        }
    }
}

#[cfg(test)]
mod tests;
