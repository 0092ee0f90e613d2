//! What the controllers of workloads, kubelet and the scheduler would do: all pods run at once.

use anyhow::Result;
use kube::Api;
use kube::api::{DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use trustplane_plan::Kind;
use trustplane_plan::kinds::{DAEMON_SET, DEPLOYMENT, STATEFUL_SET};
use trustplane_testkit::{DEADLINE, Select, eventually};

use crate::stage::Stage;

/// Says of every workload in the namespace of SPIRE that its pods run, and says so again whenever it changes, until it is dropped.
pub struct AllPodsRun {
    _tasks: JoinSet<()>,
}

impl AllPodsRun {
    pub fn new(stage: &Stage) -> Self {
        let mut tasks = JoinSet::new();
        for kind in [STATEFUL_SET, DAEMON_SET, DEPLOYMENT] {
            tasks.spawn(keep_running(stage.api(&kind), kind));
        }
        Self { _tasks: tasks }
    }
}

async fn keep_running(api: Api<DynamicObject>, kind: Kind) {
    let all = Select::default();
    loop {
        let due = eventually(&api, &all, DEADLINE, |found| {
            found.values().find(|live| !is_seen(live)).cloned()
        });
        if let Ok(workload) = due.await {
            // It may be gone, or have changed since: then another look tells.
            let _ = run(&api, &kind, &workload).await;
        }
    }
}

fn is_seen(workload: &DynamicObject) -> bool {
    workload.data["status"]["observedGeneration"].as_i64() == workload.metadata.generation
}

async fn run(api: &Api<DynamicObject>, kind: &Kind, workload: &DynamicObject) -> Result<()> {
    let name = workload.metadata.name.as_deref().unwrap_or_default();
    let pods = workload.data["spec"]["replicas"].as_i64().unwrap_or(1);
    let patch = json!({ "status": running(kind, workload.metadata.generation, pods) });
    api.patch_status(name, &PatchParams::default(), &Patch::Merge(patch))
        .await?;
    Ok(())
}

/// The status of a workload with so many pods that all run.
pub fn running(kind: &Kind, generation: Option<i64>, pods: i64) -> Value {
    if *kind == DAEMON_SET {
        return json!({
            "observedGeneration": generation, "desiredNumberScheduled": pods, "currentNumberScheduled": pods,
            "numberMisscheduled": 0, "numberReady": pods, "updatedNumberScheduled": pods, "numberAvailable": pods,
        });
    }
    json!({
        "observedGeneration": generation, "replicas": pods, "readyReplicas": pods, "updatedReplicas": pods,
        "availableReplicas": pods,
    })
}
