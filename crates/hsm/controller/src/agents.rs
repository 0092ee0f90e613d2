//! The controller of agents: every token of an HSMDevice has one, with an account, a record and a certificate of its own.

use std::sync::Arc;

use jiff::Timestamp;
use tokio::sync::watch;
use trustplane_hsm_core::consent::Consent;
use trustplane_hsm_core::decide::{AgentAction, AgentsInput, Issuing, decide_agents};
use trustplane_kit::apply::Writer;
use trustplane_kit::controller::{Controller, Fault, Look};
use trustplane_plan::{Apply, Fingerprinter, Note, ObjectRef, Plan};
use trustplane_process::ca::Authority;
use trustplane_process::clock::Clock;

use crate::credentials::{Office, record_key, so_pin};
use crate::devices::report;
use crate::error::HsmError;
use crate::pki::Lives;
use crate::world::World;

/// Its field manager.
pub(crate) const MANAGER: &str = "trustplane-hsm-agents";

/// Keeps agents.
pub(crate) struct AgentObjects {
    pub world: World,
    /// Writes what has values that are made only when they are written.
    pub writer: Writer,
    pub fingerprinter: Fingerprinter,
    pub authority: watch::Receiver<Arc<Authority>>,
    pub lives: Lives,
    pub clock: Arc<dyn Clock>,
}

impl Controller for AgentObjects {
    type Key = ObjectRef;
    type Input = AgentsInput;
    type Action = AgentAction;
    type Error = HsmError;
    type Held = ();

    fn name(&self) -> &'static str {
        "hsm-agents"
    }

    async fn gather(&self, key: &ObjectRef, _look: &mut Look<()>) -> Result<Option<AgentsInput>, HsmError> {
        let device = self.world.device(key);
        if device.is_none() && self.world.is_in_doubt(key) {
            return Ok(None);
        }
        let live = self.world.parts_of(key);
        if device.is_none() && live.is_empty() {
            return Ok(None);
        }
        let consent = match &device {
            Some(device) => self.world.consent(device).await?,
            None => Consent::Needless,
        };
        Ok(Some(AgentsInput {
            key: key.clone(),
            consent,
            device,
            pools: self.world.pools_for(key),
            live,
            complete: self.world.is_complete(),
            records: self.world.records_of([key]),
            pods: self.world.agent_pods(key),
            issuing: Issuing {
                bundle: self.authority.borrow().bundle_pem(),
                renew_before: self.lives.renew_before,
            },
        }))
    }

    fn decide(&self, input: &AgentsInput, now: Timestamp) -> Plan<AgentAction> {
        decide_agents(input, &self.world.rules, &self.fingerprinter, now)
    }

    async fn perform(&self, action: AgentAction) -> Result<(), Fault<HsmError>> {
        if let Some(write) = self.write(action).map_err(Fault::Controller)? {
            self.writer.apply(&write).await?;
        }
        Ok(())
    }

    fn report(&self, key: &ObjectRef, fault: &Fault<HsmError>) -> Vec<Note> {
        report(&self.world, key, fault, "RunAgents")
    }
}

impl AgentObjects {
    /// The write that an action is, with its values.
    fn write(&self, action: AgentAction) -> Result<Option<Apply>, HsmError> {
        Ok(match action {
            AgentAction::Certificate { agent, write } => {
                let authority = self.authority.borrow().clone();
                let office = Office {
                    authority: &authority,
                    life: self.lives.leaf,
                    now: self.clock.now(),
                };
                office.issue(&agent, write)?
            }
            AgentAction::SoPin { write, .. } => Some(so_pin(write)?),
            AgentAction::RecordKey { write, .. } => Some(record_key(write)?),
        })
    }
}
