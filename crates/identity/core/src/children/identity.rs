//! The ClusterSPIFFEIDs that come with operands.

use serde_json::{Value, json};
use trustplane_api::identity::{CLUSTER_SPIFFE_ID, names};
use trustplane_plan::Manifest;

use super::labels::selector;
use super::maker::ObjectMaker;

/// The SPIFFE ID of a pod, by its service account.
const SPIFFE_ID: &str =
    "spiffe://{{ .TrustDomain }}/ns/{{ .PodMeta.Namespace }}/sa/{{ .PodSpec.ServiceAccountName }}";

/// The label that every namespace has with its name.
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";

/// Gives every pod an identity that no other ClusterSPIFFEID selects, but for those of the operands.
pub(super) fn default(maker: &ObjectMaker<'_>) -> Manifest {
    let spec = json!({
        "className": names::CLASS_NAME,
        "fallback": true,
        "hint": "default",
        "namespaceSelector": { "matchExpressions": [namespace("NotIn", maker)] },
        "spiffeIDTemplate": SPIFFE_ID,
    });
    maker
        .object(CLUSTER_SPIFFE_ID, names::DEFAULT_IDENTITY)
        .with("spec", spec)
}

/// Gives the OIDC discovery provider its identity, without which it may not ask for keys.
pub(super) fn oidc(maker: &ObjectMaker<'_>) -> Manifest {
    let spec = json!({
        "autoPopulateDNSNames": true,
        "className": names::CLASS_NAME,
        "dnsNameTemplates": ["oidc-discovery.{{ .TrustDomain }}"],
        "hint": "oidc-discovery-provider",
        "namespaceSelector": { "matchExpressions": [namespace("In", maker)] },
        "podSelector": { "matchLabels": selector(maker.part) },
        "spiffeIDTemplate": SPIFFE_ID,
    });
    maker
        .object(CLUSTER_SPIFFE_ID, names::OIDC_IDENTITY)
        .with("spec", spec)
}

fn namespace(operator: &str, maker: &ObjectMaker<'_>) -> Value {
    json!({ "key": NAMESPACE_NAME, "operator": operator, "values": [maker.shared.namespace] })
}
