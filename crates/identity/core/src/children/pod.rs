//! What the pods of the capability have in common.

use serde_json::{Value, json};
use trustplane_api::identity::CommonConfig;

/// Where pods run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// On some nodes.
    Some,
    /// On every node. A node with a taint has workloads too, so pods tolerate all taints unless a spec says which.
    Every,
}

/// A pod of an account with these containers and volumes.
pub(super) fn pod(
    account: &str,
    common: &CommonConfig,
    reach: Reach,
    containers: Value,
    volumes: Value,
) -> Value {
    let mut pod = json!({
        "serviceAccountName": account,
        // Variables with addresses of other Services are nothing that a program here reads.
        "enableServiceLinks": false,
        "containers": containers,
        "volumes": volumes,
    });
    if !common.node_selector.is_empty() {
        pod["nodeSelector"] = json!(common.node_selector);
    }
    if let Some(affinity) = &common.affinity {
        pod["affinity"] = json!(affinity);
    }
    match (common.tolerations.is_empty(), reach) {
        (false, _) => pod["tolerations"] = json!(common.tolerations),
        (true, Reach::Every) => pod["tolerations"] = json!([{ "operator": "Exists" }]),
        (true, Reach::Some) => {}
    }
    pod
}
