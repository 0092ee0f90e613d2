//! The controller of ZTWIM: the values that are said once there reach the operands, and its status says how the operands are doing.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use jiff::Timestamp;
use trustplane_api::identity::ZTWIM;
use trustplane_identity_core::decide::{ConfigAction, ConfigInput, decide_config};
use trustplane_kit::controller::{Controller, Fault, Look};
use trustplane_plan::{Note, ObjectRef, Plan};

use crate::error::IdentityError;
use crate::metrics::IdentityMetrics;
use crate::world::World;

/// Its field manager: it holds the fields that operands inherit.
pub(crate) const MANAGER: &str = "trustplane-identity";

/// Keeps operands in step with ZTWIM, and the status of ZTWIM in step with the operands.
pub(crate) struct Config {
    pub world: World,
    pub metrics: IdentityMetrics,
    pub started: ChangeClock,
}

/// Since when each generation of ZTWIM has been known: what the time of a synchronisation counts from.
#[derive(Clone, Default)]
pub(crate) struct ChangeClock(Arc<Mutex<Option<(i64, Instant)>>>);

impl ChangeClock {
    /// A generation was seen. The first one after a start is no change.
    fn saw(&self, generation: i64) {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if last.is_none_or(|(known, _)| known != generation) {
            *last = Some((generation, Instant::now()));
        }
    }

    /// How long ago this generation was first seen.
    fn since(&self, generation: i64) -> Option<std::time::Duration> {
        let last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        last.filter(|(known, _)| *known == generation)
            .map(|(_, at)| at.elapsed())
    }
}

impl Controller for Config {
    type Key = ObjectRef;
    type Input = ConfigInput;
    type Action = ConfigAction;
    type Error = IdentityError;
    type Held = ();

    fn name(&self) -> &'static str {
        "identity"
    }

    async fn gather(
        &self,
        _key: &ObjectRef,
        _look: &mut Look<()>,
    ) -> Result<Option<ConfigInput>, IdentityError> {
        let manager = self.world.manager();
        if let Some(manager) = &manager {
            self.started.saw(manager.meta.generation);
        }
        let input = ConfigInput {
            manager,
            operands: self.world.operands(),
        };
        self.metrics.unowned(input.unowned());
        Ok(Some(input))
    }

    fn decide(&self, input: &ConfigInput, now: Timestamp) -> Plan<ConfigAction> {
        decide_config(input, &self.world.settings, now)
    }

    async fn perform(&self, action: ConfigAction) -> Result<(), Fault<IdentityError>> {
        let ConfigAction::Synchronised { generation } = action;
        if let Some(time) = self.started.since(generation) {
            self.metrics.synchronised(time);
        }
        Ok(())
    }

    fn report(&self, _key: &ObjectRef, fault: &Fault<IdentityError>) -> Vec<Note> {
        let manager = self.world.manager().into_iter();
        manager
            .map(|manager| Note::of_error(&ZTWIM, &manager.meta, fault, "Configure"))
            .collect()
    }
}
