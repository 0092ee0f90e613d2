//! The controller of operands: each operand has the objects that make it run, and a status that says how it is doing.

use std::sync::Arc;

use jiff::Timestamp;
use tokio::sync::watch;
use trustplane_identity_core::decide::{
    NamespaceState, Needs, OperandAction, OperandInput, decide_operand, needs,
};
use trustplane_kit::apply::{WriteError, Writer};
use trustplane_kit::controller::{Controller, Fault, Look};
use trustplane_plan::kinds::NAMESPACE;
use trustplane_plan::{Fingerprinter, Keep, Kind, Meta, Note, ObjectRef, Plan};
use trustplane_process::ca::Authority;
use trustplane_process::clock::Clock;

use crate::error::IdentityError;
use crate::metrics::IdentityMetrics;
use crate::pki;
use crate::seen::SeenNamespace;
use crate::world::{World, operand_at};

/// Its field manager: it holds children and the status of operands.
pub(crate) const MANAGER: &str = "trustplane-identity-operands";

/// Keeps the objects of operands.
pub(crate) struct Operands {
    pub world: World,
    pub writer: Writer,
    pub fingerprinter: Fingerprinter,
    pub authority: watch::Receiver<Arc<Authority>>,
    pub clock: Arc<dyn Clock>,
    pub metrics: IdentityMetrics,
}

impl Controller for Operands {
    type Key = ObjectRef;
    type Input = OperandInput;
    type Action = OperandAction;
    type Error = IdentityError;
    type Held = ();

    fn name(&self) -> &'static str {
        "identity-operands"
    }

    async fn gather(
        &self,
        key: &ObjectRef,
        _look: &mut Look<()>,
    ) -> Result<Option<OperandInput>, IdentityError> {
        let Some(operand) = operand_at(key) else {
            return Ok(None);
        };
        let world = &self.world;
        let mut input = OperandInput {
            operand,
            manager: world.manager(),
            operands: world.operands(),
            children: world.children_of(operand),
            complete: world.is_complete(),
            server: world.server(),
            has_discovery: world.has_discovery(),
            workload: None,
            bundle: None,
            namespace: NamespaceState::Unread,
            issuing: pki::issuing(&self.authority.borrow()),
        };
        if let Some(needs) = needs(&input, &world.settings) {
            self.read(&mut input, needs).await?;
        }
        Ok(Some(input))
    }

    fn decide(&self, input: &OperandInput, now: Timestamp) -> Plan<OperandAction> {
        decide_operand(input, &self.world.settings, &self.fingerprinter, now)
    }

    async fn perform(&self, action: OperandAction) -> Result<(), Fault<IdentityError>> {
        match action {
            OperandAction::Certificate(wanted) => {
                let authority = self.authority.borrow().clone();
                let write = pki::issue(&authority, *wanted, self.clock.now())
                    .map_err(|error| Fault::Controller(IdentityError::Issue(error)))?;
                if let Some(write) = write {
                    self.writer.apply(&write).await?;
                }
            }
            OperandAction::RolledOut { operand, cause } => self.metrics.rolled_out(operand, cause),
        }
        Ok(())
    }

    fn report(&self, key: &ObjectRef, fault: &Fault<IdentityError>) -> Vec<Note> {
        let mut operands = self.world.operands();
        let operand = operand_at(key).and_then(|kind| Some((kind, operands.remove(&kind)?)));
        operand
            .map(|(kind, operand)| Note::of_error(kind.kind(), &operand.meta, fault, "Run"))
            .into_iter()
            .collect()
    }
}

impl Operands {
    /// Reads what the decision needs besides the stores.
    async fn read(&self, input: &mut OperandInput, needs: Needs) -> Result<(), IdentityError> {
        let (kind, workload) = (&needs.workload.kind, &needs.workload.object);
        input.workload = self.world.workload(kind, workload);
        input.bundle = self.world.config_map(&needs.bundle);
        let mut missing = Vec::new();
        for target in &needs.children {
            let known = |(kind, meta): &(Kind, Meta)| *kind == target.kind && meta.object == target.object;
            if !input.children.iter().any(known) {
                missing.push(target);
            }
        }
        let healthy = input
            .workload
            .as_ref()
            .is_some_and(|workload| workload.health().is_ok());
        if !missing.is_empty() || !healthy {
            input.namespace = self.namespace(&needs.namespace).await?;
        }
        if matches!(
            input.namespace,
            NamespaceState::Missing | NamespaceState::Forbidden
        ) {
            return Ok(());
        }
        // The watches select objects by our mark. An object without the mark, but with the name of a child, belongs to another owner, or
        // a person removed its labels.
        for target in missing {
            let keep = Keep::owned_by(MANAGER);
            let live = self.writer.get_meta(&target.kind, &target.object, &keep).await;
            if let Some(live) = live.map_err(IdentityError::Read)? {
                input.children.push((target.kind.clone(), live));
            }
        }
        Ok(())
    }

    /// What the pods of a namespace may do.
    async fn namespace(&self, name: &str) -> Result<NamespaceState, IdentityError> {
        let object = ObjectRef::new(None, name);
        let seen: Result<Option<SeenNamespace>, _> = self.writer.get_slim(&NAMESPACE, &object).await;
        Ok(match seen {
            Ok(Some(seen)) => NamespaceState::of_labels(&seen.metadata.labels),
            Ok(None) => NamespaceState::Missing,
            // Of a namespace that does not exist, a Role says nothing either.
            Err(WriteError::Forbidden { .. }) => NamespaceState::Forbidden,
            Err(error) => return Err(IdentityError::Read(error)),
        })
    }
}
