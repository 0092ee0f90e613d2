//! The controller of pools: what the nodes report becomes their status.

use std::collections::BTreeMap;

use jiff::Timestamp;
use trustplane_api::hsm::POOL;
use trustplane_hsm_core::decide::{PoolInput, decide_pool};
use trustplane_hsm_core::objects::discovery_name;
use trustplane_hsm_core::pool::{DaemonSetView, PodView, PoolDevice};
use trustplane_kit::controller::{Controller, Fault, Look};
use trustplane_kit::watch::Watched;
use trustplane_plan::{Never, Note, ObjectRef, Plan};

use crate::error::HsmError;
use crate::seen::{SeenPod, Unreadable};
use crate::world::{World, devices_of_pool};

/// Its field manager.
pub(crate) const MANAGER: &str = "trustplane-hsm-pools";

/// Keeps the status of pools.
pub(crate) struct Pools {
    pub world: World,
}

impl Controller for Pools {
    type Key = ObjectRef;
    type Input = PoolInput;
    type Action = Never;
    type Error = HsmError;
    type Held = ();

    fn name(&self) -> &'static str {
        "hsm-pools"
    }

    async fn gather(&self, key: &ObjectRef, _look: &mut Look<()>) -> Result<Option<PoolInput>, HsmError> {
        let Some(pool) = self.world.pools.get(key) else {
            self.world.forget(key);
            return Ok(None);
        };
        let status = pool.value.status.clone();
        let status = status.map_err(|Unreadable| HsmError::Status(key.clone()))?;
        let wanted = devices_of_pool(&pool);
        let devices: Vec<_> = wanted.iter().filter_map(|device| self.device(device)).collect();
        let mut consents = BTreeMap::new();
        for PoolDevice { device, .. } in &devices {
            let consent = self.world.consent(device).await?;
            consents.insert(device.meta.object.name().to_owned(), consent);
        }
        let records = self.world.records_of(&wanted);
        Ok(Some(PoolInput {
            pool: pool.meta.clone(),
            spec: pool.value.spec.clone(),
            status,
            claims: self.world.claims(&wanted),
            running: self.world.running(&pool),
            agent_pods: wanted
                .iter()
                .flat_map(|device| self.world.agent_pods(device))
                .collect(),
            silence: self.world.silence(&pool, &devices),
            records,
            devices,
            consents,
        }))
    }

    fn decide(&self, input: &PoolInput, now: Timestamp) -> Plan {
        decide_pool(input, now)
    }

    async fn perform(&self, action: Never) -> Result<(), Fault<HsmError>> {
        match action {}
    }

    fn report(&self, key: &ObjectRef, fault: &Fault<HsmError>) -> Vec<Note> {
        let Some(pool) = self.world.pools.get(key) else {
            return Vec::new();
        };
        vec![Note::of_error(&POOL, &pool.meta, fault, "Aggregate")]
    }
}

impl Pools {
    /// An HSMDevice, its DaemonSet, and the pods that may be of it.
    fn device(&self, key: &ObjectRef) -> Option<PoolDevice> {
        let device = self.world.device(key)?;
        let set = ObjectRef::new(key.namespace(), &discovery_name(key.name()));
        let set = self.world.daemon_sets.get(&set);
        let daemon_set = set.map(|set| DaemonSetView {
            uid: set.meta.uid.clone(),
            selector: set.value.spec.selector.match_labels.clone(),
            desired: set.value.status.desired_number_scheduled,
        });
        let mut pods = Vec::new();
        if let Some(set) = &daemon_set {
            self.world.pods.for_each(|pod| {
                let selected = || {
                    let mut wanted = set.selector.iter();
                    wanted.all(|(label, value)| pod.meta.labels.get(label) == Some(value))
                };
                if pod.meta.object.namespace() == key.namespace() && selected() {
                    pods.push(pod_view(pod));
                }
            });
        }
        pods.sort_by(|one, other| one.name.cmp(&other.name));
        Some(PoolDevice {
            device,
            daemon_set,
            pods,
        })
    }
}

fn pod_view(pod: &Watched<SeenPod>) -> PodView {
    let controller = pod.meta.owners.iter().find(|owner| owner.controller);
    PodView {
        name: pod.meta.object.name().to_owned(),
        labels: pod.meta.labels.clone(),
        controller: controller.map(|owner| owner.uid.clone()),
        node: pod.value.node.clone(),
        phase: pod.value.phase.clone(),
        terminating: pod.meta.is_terminating(),
        report: pod.value.report.clone(),
    }
}
