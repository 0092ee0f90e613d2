//! The webhook by which the controller-manager checks the kinds that it reads.

use serde_json::{Value, json};
use trustplane_api::identity::names;
use trustplane_plan::Manifest;
use trustplane_plan::kinds::VALIDATING_WEBHOOKS;

use super::Part;
use super::maker::ObjectMaker;

/// The Service in front of the controller-manager. It is in the pod of the server, so that is what the Service selects.
pub(super) fn service(maker: &ObjectMaker<'_>) -> Manifest {
    let ports = json!([{ "name": "https", "port": 443, "protocol": "TCP", "targetPort": "https" }]);
    maker.service(names::CONTROLLER_MANAGER_WEBHOOK, Part::Server, ports)
}

/// The configuration without a CA: that field is the controller-manager's, which signs with the CA of the trust domain.
///
/// It fails open, since nobody could change a ClusterSPIFFEID while the server is away otherwise.
pub(super) fn configuration(maker: &ObjectMaker<'_>) -> Manifest {
    let kinds = [
        ("clusterfederatedtrustdomain", "clusterfederatedtrustdomains"),
        ("clusterspiffeid", "clusterspiffeids"),
    ];
    let webhooks: Value = kinds
        .into_iter()
        .map(|(kind, plural)| webhook(maker, kind, plural))
        .collect();
    maker
        .object(VALIDATING_WEBHOOKS, names::CONTROLLER_MANAGER_WEBHOOK)
        .with("webhooks", webhooks)
}

fn webhook(maker: &ObjectMaker<'_>, kind: &str, plural: &str) -> Value {
    json!({
        "name": format!("v{kind}.kb.io"),
        "admissionReviewVersions": ["v1"],
        "clientConfig": { "service": {
            "name": names::CONTROLLER_MANAGER_WEBHOOK,
            "namespace": maker.shared.namespace,
            "path": format!("/validate-spire-spiffe-io-v1alpha1-{kind}"),
            "port": 443,
        } },
        "failurePolicy": "Ignore",
        "rules": [{
            "apiGroups": ["spire.spiffe.io"],
            "apiVersions": ["v1alpha1"],
            "operations": ["CREATE", "UPDATE"],
            "resources": [plural],
            "scope": "*",
        }],
        "sideEffects": "None",
    })
}
