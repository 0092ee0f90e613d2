//! The controller of HSMDevices: each has a pool, and a DaemonSet that looks for its tokens.

use jiff::Timestamp;
use trustplane_api::hsm::DEVICE;
use trustplane_hsm_core::decide::{DeviceInput, decide_device};
use trustplane_hsm_core::objects::{discovery_name, is_for, pool_name};
use trustplane_kit::controller::{Controller, Fault, Look};
use trustplane_plan::kinds::DAEMON_SET;
use trustplane_plan::{Fingerprinter, Never, Note, ObjectRef, Plan};

use crate::error::HsmError;
use crate::world::{World, pool_view};

/// Its field manager.
pub(crate) const MANAGER: &str = "trustplane-hsm-devices";

/// Keeps pools and DaemonSets.
pub(crate) struct Devices {
    pub world: World,
    pub fingerprinter: Fingerprinter,
}

impl Controller for Devices {
    type Key = ObjectRef;
    type Input = DeviceInput;
    type Action = Never;
    type Error = HsmError;
    type Held = ();

    fn name(&self) -> &'static str {
        "hsm-devices"
    }

    async fn gather(&self, key: &ObjectRef, _look: &mut Look<()>) -> Result<Option<DeviceInput>, HsmError> {
        // What one that is gone has left belongs to it, and goes with it.
        let Some(device) = self.world.device(key) else {
            return Ok(None);
        };
        let namespace = key.namespace();
        let pool = ObjectRef::new(namespace, &pool_name(key.name()));
        let own = ObjectRef::new(namespace, &discovery_name(key.name()));
        let mut live = Vec::new();
        self.world.daemon_sets.for_each(|set| {
            let meta = &set.meta;
            if meta.object == own || is_for(meta, namespace.unwrap_or_default(), key.name()) {
                live.push((DAEMON_SET, meta.clone()));
            }
        });
        live.sort_by(|(_, one), (_, other)| one.object.cmp(&other.object));
        Ok(Some(DeviceInput {
            device,
            pool: self.world.pools.get(&pool).map(|pool| pool_view(&pool)),
            pools: self.world.pools_for(key),
            live,
            complete: self.world.daemon_sets.is_complete(),
        }))
    }

    fn decide(&self, input: &DeviceInput, _now: Timestamp) -> Plan {
        decide_device(input, &self.world.rules, &self.fingerprinter)
    }

    async fn perform(&self, action: Never) -> Result<(), Fault<HsmError>> {
        match action {}
    }

    fn report(&self, key: &ObjectRef, fault: &Fault<HsmError>) -> Vec<Note> {
        report(&self.world, key, fault, "Discover")
    }
}

/// Tells an HSMDevice what went wrong.
pub(crate) fn report(
    world: &World,
    key: &ObjectRef,
    fault: &Fault<HsmError>,
    action: &'static str,
) -> Vec<Note> {
    let Some(device) = world.devices.get(key) else {
        return Vec::new();
    };
    vec![Note::of_error(&DEVICE, &device.meta, fault, action)]
}
