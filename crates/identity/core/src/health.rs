//! How the workload of an operand is doing, as its own status tells.

use serde::Deserialize;
use serde_json::Value;

/// What is read of a StatefulSet, a DaemonSet or a Deployment: enough to tell whether it runs as its spec says.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Workload {
    metadata: Head,
    spec: Wanted,
    status: Counts,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct Head {
    generation: i64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct Wanted {
    replicas: Option<i64>,
}

/// The counts of all three kinds: each kind has its own names for them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Counts {
    observed_generation: i64,
    // StatefulSet and Deployment.
    ready_replicas: i64,
    updated_replicas: i64,
    available_replicas: i64,
    // DaemonSet.
    desired_number_scheduled: Option<i64>,
    number_ready: i64,
    updated_number_scheduled: i64,
    number_available: i64,
}

impl Workload {
    /// Reads a workload; one that makes no sense counts as one without a status.
    pub fn read(object: &Value) -> Self {
        serde_json::from_value(object.clone()).unwrap_or_default()
    }

    /// Whether every pod that should run is up to date and ready; `Err` says what is missing.
    pub fn health(&self) -> Result<(), String> {
        let counts = &self.status;
        if counts.observed_generation < self.metadata.generation {
            return Err("its controller has not seen the last change yet".to_owned());
        }
        let (desired, ready, updated, available) = match counts.desired_number_scheduled {
            Some(desired) => (
                desired,
                counts.number_ready,
                counts.updated_number_scheduled,
                counts.number_available,
            ),
            None => (
                self.spec.replicas.unwrap_or(1),
                counts.ready_replicas,
                counts.updated_replicas,
                counts.available_replicas,
            ),
        };
        if counts.desired_number_scheduled == Some(0) {
            return Err(
                "no node can run its pods: see its nodeSelector, affinity and tolerations".to_owned(),
            );
        }
        if [ready, updated, available].iter().all(|count| *count >= desired) {
            return Ok(());
        }
        Err(format!(
            "{ready} of {desired} pods are ready, {updated} up to date"
        ))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn health(object: Value) -> Result<(), String> {
        Workload::read(&object).health()
    }

    #[test]
    fn stateful_set_is_healthy_when_every_replica_is_ready_and_updated() {
        let set = |generation: i64, ready: i64, updated: i64| {
            health(
                json!({"metadata": {"generation": generation}, "spec": {"replicas": 2}, "status": {
                    "observedGeneration": 3, "replicas": 2, "readyReplicas": ready, "updatedReplicas": updated,
                    "availableReplicas": ready,
                }}),
            )
        };
        assert_eq!(set(3, 2, 2), Ok(()));
        assert!(set(4, 2, 2).unwrap_err().contains("has not seen"));
        assert_eq!(
            set(3, 1, 2),
            Err("1 of 2 pods are ready, 2 up to date".to_owned())
        );
        assert!(set(3, 2, 1).is_err());
    }

    #[test]
    fn daemon_set_without_a_node_is_not_healthy() {
        let set = |desired: i64| {
            health(json!({"metadata": {"generation": 1}, "spec": {}, "status": {
                "observedGeneration": 1, "desiredNumberScheduled": desired, "numberReady": desired,
                "updatedNumberScheduled": desired, "numberAvailable": desired,
            }}))
        };
        assert_eq!(set(1), Ok(()));
        assert!(set(0).unwrap_err().contains("no node"));
    }

    #[test]
    fn workload_without_a_status_is_not_healthy() {
        assert!(health(json!({"metadata": {"generation": 1}})).is_err());
        assert!(health(json!("odd")).is_err());
    }
}
