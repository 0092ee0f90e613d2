//! What is heard of pods: how long reports are silent, and how agents are doing.

use std::sync::PoisonError;
use std::time::Instant;

use trustplane_api::hsm::names::DEVICE_LABEL;
use trustplane_hsm_core::decide::AgentPod;
use trustplane_hsm_core::objects::label_value;
use trustplane_hsm_core::pool::{Hearing, PoolDevice, Silence, Span, grace_period};
use trustplane_kit::watch::{Store, Watched};
use trustplane_plan::ObjectRef;

use super::World;
use crate::seen::{SeenPool, agent_pod};

impl World {
    /// How long the reports of a pool have been silent while they could have been renewed.
    pub fn silence(&self, pool: &Watched<SeenPool>, devices: &[PoolDevice]) -> Silence {
        let pods = devices.iter().flat_map(|device| &device.pods);
        let reports = pods.filter_map(|pod| Some((pod.name.as_str(), pod.report.as_ref()?)));
        let grace = grace_period(&pool.value.spec);
        self.hearing(&pool.meta.object, |hearing, span, now| {
            hearing.listen(grace, reports, span, now)
        })
    }

    pub(super) fn hearing<T>(
        &self,
        pool: &ObjectRef,
        ask: impl FnOnce(&mut Hearing, Option<Span>, Instant) -> T,
    ) -> T {
        let mut hearings = self.hearings.lock().unwrap_or_else(PoisonError::into_inner);
        let hearing = hearings.entry(pool.clone()).or_default();
        ask(hearing, self.span(), Instant::now())
    }

    /// Forgets what was heard of a pool that is gone.
    pub fn forget(&self, pool: &ObjectRef) {
        let mut hearings = self.hearings.lock().unwrap_or_else(PoisonError::into_inner);
        hearings.remove(pool);
    }

    /// The span in which all that is watched has been current; `None` while any of it is behind. Reports come with pods, so that
    /// watch has to be heard.
    fn span(&self) -> Option<Span> {
        let parts = self.parts.iter().map(Store::currency);
        let others = [
            self.devices.currency(),
            self.pools.currency(),
            self.daemon_sets.currency(),
            self.records.currency(),
        ];
        let pods = self.pods.currency()?;
        let others: Option<Vec<_>> = others.into_iter().chain(parts).collect();
        let others = others?.into_iter().map(|other| other.since());
        Some(Span {
            since: others.fold(pods.since(), Instant::max),
            heard: pods.confirmed(),
        })
    }

    /// The pods that bear the name of an HSMDevice, in order: those of its agents, and of discovery.
    pub fn agent_pods(&self, device: &ObjectRef) -> Vec<AgentPod> {
        let label = label_value(device.name());
        let mut pods = Vec::new();
        self.pods.for_each(|pod| {
            let here = pod.meta.object.namespace() == device.namespace();
            if here && pod.meta.labels.get(DEVICE_LABEL) == Some(&label) {
                pods.push(agent_pod(pod));
            }
        });
        pods.sort_by(|one, other| one.meta.object.cmp(&other.meta.object));
        pods
    }
}
