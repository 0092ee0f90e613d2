//! Workload identity: ZTWIM, its operands, the trust bundle and the versions of SPIRE, as they were seen, and what that means.
//!
//! It is told if a process runs the capability. A ZTWIM that no process of ours looks after is told in one line: another operator may
//! look after it, with versions and conditions of its own. A user who lacks a right hears which one; the rights are:
//!
//! | to see | right |
//! |---|---|
//! | ZTWIM and its operands | get these five kinds of `operator.openshift.io` |
//! | the trust bundle | get its ConfigMap in the namespace of the operands |
//! | the versions of SPIRE | get statefulsets, daemonsets and deployments in that namespace |
//! | whether admission works ([`admission`]) | create zerotrustworkloadidentitymanagers; nothing is created |

mod admission;
mod bundle;
mod images;
mod operands;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use trustplane_api::identity::names::{BUNDLE, DEFAULT_NAMESPACE, SINGLETON};
use trustplane_api::identity::{OperandCrStatus, OperandKind, ZTWIM, ZtwimSpec, ZtwimStatus};
use trustplane_plan::{Kind, ObjectRef};

use self::admission::DryRun;
use self::images::Part;
use super::observation::ProcessView;
use super::report::Finding;
use crate::cluster::{Cluster, Seen};
use crate::installation::Process;

/// The capability, as the annotation of a Deployment names it.
const CAPABILITY: &str = "identity";
/// How findings name ZTWIM.
const MANAGER: &str = "ztwim/cluster";

/// What was seen of workload identity.
#[derive(Debug, Clone)]
pub struct Identity {
    run_by: RunBy,
    /// The result of the dry run; `None` if no dry run was sent, because no webhook server is reachable.
    dry_run: Option<Seen<DryRun>>,
    manager: Seen<Option<Manager>>,
    operands: Vec<(OperandKind, Seen<Option<Operand>>)>,
    /// What runs; `None` without a ZTWIM.
    spire: Option<Spire>,
}

/// Which process runs the capability.
#[derive(Debug, Clone, PartialEq, Eq)]
enum RunBy {
    /// The process of this namespace, with this path for kubectl.
    Process { namespace: String, path: String },
    /// There are processes, and none of them runs it.
    Nobody,
    /// No process was seen, so there may be one.
    Unknown,
}

/// ZTWIM.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Manager {
    metadata: ObjectMeta,
    spec: ZtwimSpec,
    status: ZtwimStatus,
}

/// What an operand says of itself.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Operand {
    metadata: ObjectMeta,
    status: OperandCrStatus,
}

/// What SPIRE has in its namespace.
#[derive(Debug, Clone)]
struct Spire {
    namespace: String,
    /// The name of the ConfigMap of the trust bundle.
    bundle: String,
    /// The trust bundle, empty if the ConfigMap has none; `None` if the ConfigMap does not exist.
    certificates: Seen<Option<String>>,
    /// The images; `None` for a workload that does not exist.
    images: Vec<(Part, Seen<Option<String>>)>,
}

impl Manager {
    /// The name of the ConfigMap of the trust bundle.
    fn bundle(&self) -> &str {
        let said = self.spec.bundle_config.as_ref().map(|config| &config.name);
        let said = [said, self.spec.bundle_config_map.as_ref()];
        let name = said.into_iter().flatten().find(|name| !name.is_empty());
        name.map_or(BUNDLE, String::as_str)
    }
}

/// The webhooks that must be configured for a process.
pub fn with_webhooks(process: &Process) -> Vec<String> {
    let mut names = process.webhooks.clone();
    if runs(process) {
        let ours = [admission::FILL, admission::JUDGE].map(str::to_owned);
        names.extend(ours);
        names.sort();
        names.dedup();
    }
    names
}

fn runs(process: &Process) -> bool {
    process.capabilities.iter().any(|name| name == CAPABILITY)
}

/// Looks at workload identity; `None` if no process runs it and there is no ZTWIM that the user may see.
pub async fn look(cluster: &Cluster, processes: &Seen<Vec<ProcessView>>) -> Option<Identity> {
    let processes = processes.as_deref().unwrap_or_default();
    let view = processes.iter().find(|view| runs(&view.process));
    let manager: Seen<Option<Manager>> = find(cluster, &ZTWIM).await;
    if view.is_none() && !matches!(manager, Ok(Some(_))) {
        return None;
    }
    let run_by = match view {
        Some(ProcessView { process, .. }) => RunBy::Process {
            namespace: process.namespace.clone(),
            path: process.path(),
        },
        None if processes.is_empty() => RunBy::Unknown,
        None => RunBy::Nobody,
    };
    let mut seen = Identity {
        run_by,
        dry_run: None,
        manager,
        operands: Vec::new(),
        spire: None,
    };
    if seen.run_by == RunBy::Nobody {
        return Some(seen);
    }
    if view.is_some_and(admission::may_answer) {
        seen.dry_run = Some(admission::look(cluster).await);
    }
    if seen.manager.is_ok() {
        for kind in OperandKind::ALL {
            seen.operands.push((kind, find(cluster, kind.kind()).await));
        }
    }
    if let Ok(Some(manager)) = &seen.manager {
        seen.spire = Some(spire(cluster, manager, view.map(|view| &view.process)).await);
    }
    Some(seen)
}

async fn find<T: DeserializeOwned>(cluster: &Cluster, kind: &Kind) -> Seen<Option<T>> {
    cluster.find(kind, &ObjectRef::new(None, SINGLETON)).await
}

async fn spire(cluster: &Cluster, manager: &Manager, process: Option<&Process>) -> Spire {
    let namespace = namespace(manager, process).to_owned();
    let bundle = manager.bundle().to_owned();
    Spire {
        certificates: bundle::look(cluster, &namespace, &bundle).await,
        images: images::look(cluster, &namespace).await,
        namespace,
        bundle,
    }
}

/// The namespace of the operands: what ZTWIM says, else the first one that the process serves, else the process's own.
fn namespace<'a>(manager: &'a Manager, process: Option<&'a Process>) -> &'a str {
    if let Some(said) = manager.spec.namespace.as_deref().filter(|name| !name.is_empty()) {
        return said;
    }
    let Some(process) = process else {
        return DEFAULT_NAMESPACE;
    };
    let served = process.setting("--identity-namespaces", "OPERATOR_NAMESPACE");
    let mut served = served.unwrap_or_default().split(',').map(str::trim);
    served.find(|name| !name.is_empty()).unwrap_or(&process.namespace)
}

/// Judges what was seen.
pub fn judge(seen: &Identity, now: &Seen<Timestamp>) -> Vec<Finding> {
    if seen.run_by == RunBy::Nobody {
        let told = "no process of Trustplane looks after it";
        let advice = "unless another operator does: helm upgrade with capabilities.identity.enabled=true";
        return vec![Finding::warning(MANAGER, told, advice)];
    }
    let dry_run = seen.dry_run.iter();
    let mut findings: Vec<Finding> = dry_run
        .filter_map(|run| admission::judge(run, &seen.run_by))
        .collect();
    findings.extend(operands::judge(seen));
    if let (Ok(Some(manager)), Some(spire)) = (&seen.manager, &seen.spire) {
        findings.push(bundle::judge(spire, manager.spec.trust_domain.as_deref(), now));
        findings.extend(images::judge(spire));
    }
    findings
}

impl RunBy {
    /// How to see what the process says.
    fn logs(&self) -> String {
        match self {
            Self::Process { namespace, path } => {
                format!("kubectl logs --namespace {namespace} {path} --all-pods")
            }
            Self::Nobody | Self::Unknown => {
                "look at the process that runs the capability identity".to_owned()
            }
        }
    }
}

#[cfg(test)]
mod tests;
