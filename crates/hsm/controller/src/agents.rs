//! The controller of agents: every token of an HSMDevice has one, with an account, a record and a certificate of its own.

use std::sync::Arc;

use jiff::Timestamp;
use tokio::sync::watch;
use trustplane_api::hsm::names::DEVICE_LABEL;
use trustplane_hsm_core::decide::{AgentAction, AgentsInput, decide_agents};
use trustplane_hsm_core::objects::{AGENT, COMPONENT_LABEL, DEPLOYMENT, POD, SECRET, label_value};
use trustplane_kit::controller::{Controller, Executor, Fault, Look};
use trustplane_plan::{
    Convergence, Delete, Fingerprinter, Kind, Meta, Note, ObjectRef, Plan, Propagation, Step, Target,
};
use trustplane_process::ca::Authority;
use trustplane_process::clock::Clock;

use crate::credentials::{CERTIFICATE, Holder, Office, so_pin};
use crate::devices::report;
use crate::error::{HsmError, try_again};
use crate::pki::Lives;
use crate::seen::APP;
use crate::world::World;

/// Its field manager.
pub(crate) const MANAGER: &str = "trustplane-hsm-agents";
/// Why the kubelet refuses a pod whose token it cannot give away. Such a pod stays for ever, and another is made in its place.
const REFUSED: &str = "UnexpectedAdmissionError";

/// Keeps agents.
pub(crate) struct AgentObjects {
    pub world: World,
    pub fingerprinter: Fingerprinter,
    pub authority: watch::Receiver<Arc<Authority>>,
    pub lives: Lives,
    pub clock: Arc<dyn Clock>,
}

/// What a decision about agents rests on.
pub(crate) struct Input {
    core: AgentsInput,
    authority: Arc<Authority>,
    /// Pods of agents that the kubelet has refused.
    refused: Vec<Meta>,
}

/// What is made for an agent, with values that nobody can foresee.
#[derive(Debug)]
pub(crate) enum Action {
    /// A certificate: the first one, or another.
    Certificate {
        agent: ObjectRef,
        device: Box<Meta>,
        live: Option<Box<Meta>>,
    },
    /// An SO-PIN.
    SoPin { agent: ObjectRef, device: Box<Meta> },
}

impl Controller for AgentObjects {
    type Key = ObjectRef;
    type Input = Input;
    type Action = Action;
    type Error = HsmError;
    type Held = ();

    fn name(&self) -> &'static str {
        "hsm-agents"
    }

    async fn gather(&self, key: &ObjectRef, _look: &mut Look<()>) -> Result<Option<Input>, HsmError> {
        let device = self.world.device(key);
        if device.is_none() && self.world.is_in_doubt(key) {
            return Ok(None);
        }
        let live = self.world.parts_of(key);
        if device.is_none() && live.is_empty() {
            return Ok(None);
        }
        Ok(Some(Input {
            refused: self.refused(key, &live),
            core: AgentsInput {
                key: key.clone(),
                device,
                pools: self.world.pools_for(key),
                live,
                complete: self.world.is_complete(),
                records: self.world.records_of([key]),
            },
            authority: self.authority.borrow().clone(),
        }))
    }

    fn decide(&self, input: &Input, now: Timestamp) -> Plan<Action> {
        let Plan {
            steps,
            look_again,
            patient,
        } = decide_agents(&input.core, &self.world.rules, &self.fingerprinter, now);
        let device = input.core.device.as_ref().map(|device| &device.meta);
        let mut plan = Plan {
            steps: steps.into_iter().filter_map(|step| own(step, device)).collect(),
            look_again,
            patient,
        };
        if let Some(device) = device.filter(|device| !device.is_terminating()) {
            self.renew(input, device, now, &mut plan);
        }
        plan.steps.extend(input.refused.iter().map(remove));
        plan
    }

    async fn perform(&self, _action: Action) -> Result<(), HsmError> {
        // Each has become a write.
        Ok(())
    }

    async fn execute(&self, plan: Plan<Action>, executor: &Executor) -> Result<(), Fault<HsmError>> {
        let mut steps = Vec::with_capacity(plan.steps.len());
        for step in plan.steps {
            match step {
                Step::Call(action) => steps.extend(self.write(&action).map_err(Fault::Controller)?),
                other => steps.push(other),
            }
        }
        let carried_out = executor.carry_out(self, Plan { steps, ..plan }).await;
        carried_out.map_err(try_again)
    }

    fn report(&self, key: &ObjectRef, fault: &Fault<HsmError>) -> Vec<Note> {
        report(&self.world, key, fault, "RunAgents")
    }
}

impl AgentObjects {
    fn office<'a>(&'a self, authority: &'a Authority, now: Timestamp) -> Office<'a> {
        Office {
            authority,
            lives: self.lives,
            fingerprinter: &self.fingerprinter,
            now,
        }
    }

    /// Replaces certificates that end, that somebody has damaged, or that a CA of old has signed.
    fn renew(&self, input: &Input, device: &Meta, now: Timestamp, plan: &mut Plan<Action>) {
        let office = self.office(&input.authority, now);
        for (agent, live) in certificates(&input.core.live) {
            let leaves = |step: &Step<Action>| matches!(step, Step::Delete(delete) if delete.uid == live.uid && delete.target.kind == SECRET);
            if live.is_terminating() || plan.steps.iter().any(leaves) {
                continue;
            }
            let holder = Holder {
                agent: &agent,
                device,
            };
            match office.good_for(&holder, live) {
                Some(time) => plan.look_again_in(time),
                None => plan.push(Step::Call(Action::Certificate {
                    device: Box::new(device.clone()),
                    live: Some(Box::new(live.clone())),
                    agent,
                })),
            }
        }
    }

    /// The write that an action is.
    fn write(&self, action: &Action) -> Result<Option<Step<Action>>, HsmError> {
        let apply = match action {
            Action::Certificate { agent, device, live } => {
                let authority = self.authority.borrow().clone();
                let office = self.office(&authority, self.clock.now());
                match office.certificate(&Holder { agent, device }, live.as_deref())? {
                    Convergence::Write(apply) => apply,
                    // It is good after all, or on its way out: then the next look sees that.
                    _ => return Ok(None),
                }
            }
            Action::SoPin { agent, device } => so_pin(&Holder { agent, device })?,
        };
        Ok(Some(Step::Apply(apply)))
    }

    /// The pods of agents that the kubelet has refused.
    fn refused(&self, key: &ObjectRef, live: &[(Kind, Meta)]) -> Vec<Meta> {
        let device = label_value(key.name());
        let mut refused = Vec::new();
        self.world.pods.for_each(|pod| {
            let (meta, value) = (&pod.meta, &pod.value);
            let failed = value.phase == "Failed" && value.reason.as_deref() == Some(REFUSED);
            if !failed || meta.is_terminating() || meta.object.namespace() != key.namespace() {
                return;
            }
            let has = |label: &str, value: &str| meta.labels.get(label).is_some_and(|is| is == value);
            let is_agents = has(COMPONENT_LABEL, AGENT) && has(DEVICE_LABEL, &device);
            let ours = live.iter().any(|(kind, deployment)| {
                *kind == DEPLOYMENT && has(APP, deployment.object.name()) && is_replica(meta, deployment)
            });
            if is_agents && ours {
                refused.push(meta.clone());
            }
        });
        refused.sort_by(|one, other| one.object.cmp(&other.object));
        refused
    }
}

/// Whether a pod belongs to a ReplicaSet that has the name of one of this Deployment.
fn is_replica(pod: &Meta, deployment: &Meta) -> bool {
    let prefix = format!("{}-", deployment.object.name());
    let mut owners = pod.owners.iter().filter(|owner| owner.controller);
    owners.any(|owner| owner.kind == "ReplicaSet" && owner.name.starts_with(&prefix))
}

fn remove(pod: &Meta) -> Step<Action> {
    Step::Delete(Delete {
        target: Target {
            kind: POD,
            object: pod.object.clone(),
        },
        uid: pod.uid.clone(),
        resource_version: Some(pod.resource_version.clone()),
        propagation: Propagation::Background,
    })
}

/// A step of the core as one of ours.
fn own(step: Step<AgentAction>, device: Option<&Meta>) -> Option<Step<Action>> {
    Some(match step {
        Step::Apply(apply) => Step::Apply(apply),
        Step::Delete(delete) => Step::Delete(delete),
        Step::Status(status) => Step::Status(status),
        Step::Finalizer(finalizer) => Step::Finalizer(finalizer),
        Step::Tell(note) => Step::Tell(note),
        Step::Call(action) => {
            let device = Box::new(device?.clone());
            Step::Call(match action {
                AgentAction::Certificate { agent } => Action::Certificate {
                    agent,
                    device,
                    live: None,
                },
                AgentAction::SoPin { agent } => Action::SoPin { agent, device },
            })
        }
    })
}

/// The agents that have a certificate, each with the Secret that it is in.
fn certificates(live: &[(Kind, Meta)]) -> impl Iterator<Item = (ObjectRef, &Meta)> {
    live.iter().filter_map(|(kind, meta)| {
        let component = meta.labels.get(COMPONENT_LABEL).map(String::as_str);
        let agent = meta.object.name().strip_suffix("-tls")?;
        let agent = ObjectRef::new(meta.object.namespace(), agent);
        (*kind == SECRET && component == Some(CERTIFICATE)).then_some((agent, meta))
    })
}
