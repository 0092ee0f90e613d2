//! What the check looks at: one snapshot of the cluster. Nothing is judged here.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ListParams, PostParams};
use kube::{Api, ResourceExt};

use super::identity::{self, Identity};
use super::tokens::{self, Tokens};
use super::webhooks::{self, Webhook};
use crate::cluster::{Cluster, Seen};
use crate::installation::{self, Process};

/// Everything that was seen.
#[derive(Debug)]
pub struct Observation {
    /// The server's version.
    pub server: Seen<String>,
    /// The server's clock.
    pub now: Seen<Timestamp>,
    pub processes: Seen<Vec<ProcessView>>,
    pub crds: BTreeMap<String, CrdView>,
    /// Tokens, if the installation serves them.
    pub tokens: Option<Seen<Tokens>>,
    /// The state of identity; `None` if no process runs the capability and the cluster has no ZTWIM.
    pub identity: Option<Identity>,
}

/// One process and what belongs to it alone.
#[derive(Debug)]
pub struct ProcessView {
    pub process: Process,
    pub pods: Seen<Vec<PodView>>,
    /// The lease, if the process has one.
    pub lease: Option<Seen<Option<LeaseView>>>,
    /// By name; `None` for one that does not exist.
    pub webhooks: BTreeMap<String, Seen<Option<Webhook>>>,
}

/// A pod, and why it does not run if it does not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodView {
    pub name: String,
    /// Reason and message of the container that waits.
    pub waiting: Option<(String, String)>,
}

/// Who leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseView {
    pub holder: String,
    pub renewed: Option<Timestamp>,
    pub seconds: i64,
}

/// A kind, and what the user may do with it.
#[derive(Debug)]
pub struct CrdView {
    /// Whether it is established; `None` when it does not exist.
    pub established: Seen<Option<bool>>,
    pub may_read: Seen<bool>,
    pub may_write: Seen<bool>,
}

/// Looks at the cluster.
pub async fn observe(cluster: &Cluster) -> Observation {
    let server = cluster
        .ask(cluster.client.apiserver_version())
        .await
        .map(|info| info.git_version);
    let now = cluster.now().await;
    let mut crds = BTreeMap::new();
    let processes = match installation::processes(cluster).await {
        Err(obstacle) => Err(obstacle),
        Ok(found) => {
            let mut views = Vec::new();
            for process in found {
                for name in &process.crds {
                    crds.insert(name.clone(), crd(cluster, name).await);
                }
                views.push(view(cluster, process).await);
            }
            Ok(views)
        }
    };
    let tokens = match crds.contains_key(tokens::KIND) {
        true => Some(tokens::look(cluster).await),
        false => None,
    };
    let identity = identity::look(cluster, &processes).await;
    Observation {
        server,
        now,
        processes,
        crds,
        tokens,
        identity,
    }
}

async fn view(cluster: &Cluster, process: Process) -> ProcessView {
    let pods = pods(cluster, &process).await;
    let lease = match &process.lease {
        Some(name) => Some(lease(cluster, &process.namespace, name).await),
        None => None,
    };
    let webhooks = webhooks::look(cluster, &identity::with_webhooks(&process)).await;
    ProcessView {
        process,
        pods,
        lease,
        webhooks,
    }
}

async fn pods(cluster: &Cluster, process: &Process) -> Seen<Vec<PodView>> {
    let api: Api<Pod> = Api::namespaced(cluster.client.clone(), &process.namespace);
    let found = cluster
        .ask(api.list(&ListParams::default().labels(&process.selector)))
        .await?;
    Ok(found.items.iter().map(pod).collect())
}

fn pod(pod: &Pod) -> PodView {
    let statuses = pod
        .status
        .iter()
        .flat_map(|status| status.container_statuses.iter().flatten());
    let waiting = statuses
        .filter_map(|status| status.state.as_ref()?.waiting.clone())
        .next();
    PodView {
        name: pod.name_any(),
        waiting: waiting.map(|state| {
            (
                state.reason.unwrap_or_default(),
                state.message.unwrap_or_default(),
            )
        }),
    }
}

async fn lease(cluster: &Cluster, namespace: &str, name: &str) -> Seen<Option<LeaseView>> {
    let api: Api<Lease> = Api::namespaced(cluster.client.clone(), namespace);
    let spec = match cluster.ask(api.get_opt(name)).await? {
        None => return Ok(None),
        Some(lease) => lease.spec.unwrap_or_default(),
    };
    Ok(Some(LeaseView {
        holder: spec.holder_identity.unwrap_or_default(),
        renewed: spec.renew_time.map(|time| time.0),
        seconds: spec.lease_duration_seconds.unwrap_or_default().into(),
    }))
}

async fn crd(cluster: &Cluster, name: &str) -> CrdView {
    let api: Api<CustomResourceDefinition> = Api::all(cluster.client.clone());
    let found = cluster.ask(api.get_opt(name)).await;
    CrdView {
        established: found.map(|crd| crd.map(|crd| established(&crd))),
        may_read: may(cluster, name, &["get", "list"]).await,
        may_write: may(cluster, name, &["create", "update", "delete"]).await,
    }
}

fn established(crd: &CustomResourceDefinition) -> bool {
    let mut conditions = crd
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    conditions.any(|condition| condition.type_ == "Established" && condition.status == "True")
}

/// Whether the user may do all of this with the kind, in the namespace that was named or in all.
async fn may(cluster: &Cluster, crd: &str, verbs: &[&str]) -> Seen<bool> {
    let (plural, group) = crd.split_once('.').unwrap_or((crd, ""));
    let api: Api<SelfSubjectAccessReview> = Api::all(cluster.client.clone());
    for verb in verbs {
        let attributes = ResourceAttributes {
            group: Some(group.to_owned()),
            resource: Some(plural.to_owned()),
            verb: Some((*verb).to_owned()),
            namespace: cluster.namespace.clone(),
            ..ResourceAttributes::default()
        };
        let review = SelfSubjectAccessReview {
            spec: SelfSubjectAccessReviewSpec {
                resource_attributes: Some(attributes),
                ..Default::default()
            },
            ..SelfSubjectAccessReview::default()
        };
        let answer = cluster.ask(api.create(&PostParams::default(), &review)).await?;
        if !answer.status.is_some_and(|status| status.allowed) {
            return Ok(false);
        }
    }
    Ok(true)
}
