//! Whether an agent can run as a SpireAgent says, and paths and names that several operands have.

use trustplane_api::identity::{SpireAgentSpec, VerificationType};

use super::names::{is_dns_label, is_dns_subdomain};
use super::{AGENT_CONFIG, Defect, OTHER};
use crate::children::socket_directory;

const VERIFICATION: &str = "spec.workloadAttestors.workloadAttestorsVerification";

/// The longest name that Kubernetes takes for a CSI driver.
const LONGEST_DRIVER_NAME: usize = 63;

pub(super) fn attestors(spec: &SpireAgentSpec) -> Vec<Defect> {
    let mut defects = Vec::new();
    let mut fault = |field: &str, rule: &str| defects.push(Defect::new(field, rule, AGENT_CONFIG));
    let only =
        "must be \"true\" or absent: there is no other attestor, and an agent without one does not start";
    if spec
        .node_attestor
        .as_ref()
        .is_some_and(|node| !node.k8s_psat_enabled.is_true())
    {
        fault("spec.nodeAttestor.k8sPSATEnabled", only);
    }
    let Some(workload) = &spec.workload_attestors else {
        return defects;
    };
    if !workload.k8s_enabled.is_true() {
        fault("spec.workloadAttestors.k8sEnabled", only);
    }
    let Some(verification) = &workload.workload_attestors_verification else {
        return defects;
    };
    if verification.r#type == VerificationType::Skip {
        return defects;
    }
    let file = verification.host_cert_file_name.as_deref().unwrap_or_default();
    if file.is_empty() && verification.r#type == VerificationType::HostCert {
        fault(
            &format!("{VERIFICATION}.hostCertFileName"),
            "required if type is hostCert: the file of the nodes with the CA of kubelet",
        );
    }
    if file.contains('/') || matches!(file, "." | "..") {
        fault(
            &format!("{VERIFICATION}.hostCertFileName"),
            "must be the name of a file, without a path",
        );
    }
    let base = verification.host_cert_base_path.as_deref().unwrap_or_default();
    if !base.is_empty() && !file.is_empty() && !is_directory(base) {
        fault(
            &format!("{VERIFICATION}.hostCertBasePath"),
            "must be a path from the root to a directory below it, without . and ..",
        );
    }
    defects
}

/// Whether it is a path from the root to a directory below it, without steps back.
fn is_directory(path: &str) -> bool {
    let is_step = |part: &str| matches!(part, "." | "..");
    path.starts_with('/')
        && !path.trim_matches('/').is_empty()
        && !path.split('/').any(is_step)
        && !path.contains('\0')
}

/// The defect of the directory of nodes in which the socket of the agent is.
pub(super) fn socket_path(field: &str, path: &str) -> Option<Defect> {
    let fault = !is_directory(path) || socket_directory(path) == "/";
    let rule = "must be a path from the root to a directory of its own, without . and .., such as /run/spire/agent-sockets";
    fault.then(|| Defect::new(field, rule, OTHER))
}

/// The defect of the name of a CSI driver.
pub(super) fn driver_name(
    field: &str,
    name: &str,
    condition: (&'static str, &'static str),
) -> Option<Defect> {
    let fault = name.len() > LONGEST_DRIVER_NAME || !is_dns_subdomain(name);
    let rule = "must be a DNS name of at most 63 characters, such as csi.spiffe.io: Kubernetes takes no other for a CSIDriver";
    fault.then(|| Defect::new(field, rule, condition))
}

/// Whether it can be the name of a namespace.
pub(super) fn is_namespace(name: &str) -> bool {
    is_dns_label(name)
}
