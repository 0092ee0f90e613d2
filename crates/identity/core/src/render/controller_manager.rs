//! `controller-manager-config.yaml`.

use serde_json::{Value, json};
use trustplane_api::identity::names;

use super::paths;
use crate::Shared;
use crate::children::{Part, standard_labels};

/// Namespaces whose pods get no identity: regular expressions, which the controller-manager looks for anywhere in a name.
const IGNORED_NAMESPACES: [&str; 4] = [
    "^kube-system$",
    "^kube-public$",
    "^local-path-storage$",
    "^openshift-.*$",
];

/// The id of the agent on a node, as it follows from the uid of the node.
const PARENT_ID: &str =
    "spiffe://{{ .TrustDomain }}/spire/agent/k8s_psat/{{ .ClusterName }}/{{ .NodeMeta.UID }}";

/// The controller-manager ignores the metadata. What is left out has a default of its own: the level and the form of its log.
pub(super) fn conf(shared: &Shared) -> Value {
    json!({
        "apiVersion": "spire.spiffe.io/v1alpha1",
        "kind": "ControllerManagerConfig",
        "metadata": {
            "labels": standard_labels(Part::ControllerManager),
            "name": names::CONTROLLER_MANAGER,
            "namespace": shared.namespace,
        },
        "className": names::CLASS_NAME,
        // Nothing lets it ask DNS.
        "clusterDomain": "",
        "clusterName": shared.cluster_name,
        "entryIDPrefix": shared.cluster_name,
        // In nanoseconds. At 0 it never rests.
        "gcInterval": 10_000_000_000_u64,
        "health": { "healthProbeBindAddress": "0.0.0.0:8083" },
        "ignoreNamespaces": IGNORED_NAMESPACES,
        "metrics": { "bindAddress": "0.0.0.0:8082" },
        "parentIDTemplate": PARENT_ID,
        "reconcile": {
            "clusterFederatedTrustDomains": true,
            "clusterSPIFFEIDs": true,
            "clusterStaticEntries": true,
        },
        "spireServerSocketPath": paths::SERVER_SOCKET,
        "trustDomain": shared.trust_domain,
        "validatingWebhookConfigurationName": names::CONTROLLER_MANAGER_WEBHOOK,
        "webhook": {},
    })
}
