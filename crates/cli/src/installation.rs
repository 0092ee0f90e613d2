//! Finding what is installed: every Deployment of ours says in its annotations what belongs to it.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::Deployment;
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use serde::Serialize;

use crate::cluster::{Cluster, Obstacle, Seen};

/// The label that every object of ours carries.
pub const PART_OF: &str = "app.kubernetes.io/part-of=trustplane";
const VERSION: &str = "app.kubernetes.io/version";
const CAPABILITIES: &str = "trustplane.io/capabilities";
const CRDS: &str = "trustplane.io/crds";
const LEASE: &str = "trustplane.io/lease";
const WEBHOOKS: &str = "trustplane.io/webhooks";

/// One Deployment of ours.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Process {
    pub namespace: String,
    pub name: String,
    pub version: String,
    pub image: String,
    pub capabilities: Vec<String>,
    pub ready: i32,
    pub desired: i32,
    /// Whether the numbers above are about the newest specification.
    #[serde(skip)]
    pub current: bool,
    #[serde(skip)]
    pub selector: String,
    #[serde(skip)]
    pub crds: Vec<String>,
    #[serde(skip)]
    pub lease: Option<String>,
    #[serde(skip)]
    pub webhooks: Vec<String>,
    #[serde(skip)]
    pub arguments: Vec<String>,
    /// The environment variables whose values stand in the Deployment.
    #[serde(skip)]
    pub environment: BTreeMap<String, String>,
}

impl Process {
    /// How kubectl would name it.
    pub fn path(&self) -> String {
        format!("deployment/{}", self.name)
    }

    /// What the process is told by a flag, or else by an environment variable. A file that `--config` names is not read.
    pub fn setting(&self, flag: &str, variable: &str) -> Option<&str> {
        let mut arguments = self.arguments.iter();
        let by_flag = arguments.by_ref().find_map(|argument| {
            let rest = argument.strip_prefix(flag)?;
            rest.is_empty()
                .then_some(None)
                .or_else(|| rest.strip_prefix('=').map(Some))
        });
        match by_flag {
            // The value is the next argument.
            Some(None) => arguments.next().map(String::as_str),
            Some(value) => value,
            None => self.environment.get(variable).map(String::as_str),
        }
    }
}

/// All processes, in the namespace that the user named or in every one.
pub async fn processes(cluster: &Cluster) -> Seen<Vec<Process>> {
    let everywhere = cluster.namespace.is_none();
    match list(cluster, cluster.namespace.as_deref()).await {
        // Who may not look everywhere may still look at home.
        Err(Obstacle::Forbidden) if everywhere => list(cluster, Some(&cluster.home)).await,
        other => other,
    }
}

async fn list(cluster: &Cluster, namespace: Option<&str>) -> Seen<Vec<Process>> {
    let api: Api<Deployment> = match namespace {
        Some(namespace) => Api::namespaced(cluster.client.clone(), namespace),
        None => Api::all(cluster.client.clone()),
    };
    let found = cluster
        .ask(api.list(&ListParams::default().labels(PART_OF)))
        .await?;
    let mut processes: Vec<Process> = found.items.iter().map(process).collect();
    processes.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
    Ok(processes)
}

fn process(deployment: &Deployment) -> Process {
    let spec = deployment.spec.clone().unwrap_or_default();
    let status = deployment.status.clone().unwrap_or_default();
    let list = |key: &str| {
        let text = deployment
            .annotations()
            .get(key)
            .map(String::as_str)
            .unwrap_or_default();
        text.split(',')
            .filter(|item| !item.is_empty())
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let labels = spec.selector.match_labels.unwrap_or_default();
    let selector = labels
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect::<Vec<_>>()
        .join(",");
    let containers = spec.template.spec.map(|pod| pod.containers).unwrap_or_default();
    let container = containers.into_iter().next().unwrap_or_default();
    let variables = container.env.into_iter().flatten();
    Process {
        namespace: deployment.namespace().unwrap_or_default(),
        name: deployment.name_any(),
        version: deployment.labels().get(VERSION).cloned().unwrap_or_default(),
        image: container.image.unwrap_or_default(),
        capabilities: list(CAPABILITIES),
        ready: status.available_replicas.unwrap_or_default(),
        desired: spec.replicas.unwrap_or(1),
        current: status.observed_generation == deployment.metadata.generation
            && status.updated_replicas.unwrap_or_default() >= spec.replicas.unwrap_or(1),
        selector,
        crds: list(CRDS),
        lease: list(LEASE).pop(),
        webhooks: list(WEBHOOKS),
        arguments: container.args.unwrap_or_default(),
        environment: variables
            .filter_map(|variable| Some((variable.name, variable.value?)))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_deployment_tells_what_belongs_to_it() {
        let deployment: Deployment = serde_json::from_value(json!({
            "metadata": {
                "name": "trustplane-manager", "namespace": "tp", "generation": 2,
                "labels": {"app.kubernetes.io/version": "0.1.0"},
                "annotations": {
                    "trustplane.io/capabilities": "sync,hsm", "trustplane.io/crds": "",
                    "trustplane.io/lease": "trustplane-manager", "trustplane.io/webhooks": "w.trustplane.io",
                },
            },
            "spec": {
                "replicas": 2, "selector": {"matchLabels": {"a": "b", "c": "d"}},
                "template": {"spec": {"containers": [{
                    "name": "manager", "image": "x:1", "args": ["--leader-elect=true"],
                    "env": [{"name": "A", "value": "a"}, {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
                }]}},
            },
            "status": {"availableReplicas": 1, "observedGeneration": 2, "updatedReplicas": 2},
        }))
        .unwrap();
        let expected = Process {
            namespace: "tp".into(),
            name: "trustplane-manager".into(),
            version: "0.1.0".into(),
            image: "x:1".into(),
            capabilities: vec!["sync".into(), "hsm".into()],
            ready: 1,
            desired: 2,
            current: true,
            selector: "a=b,c=d".into(),
            crds: vec![],
            lease: Some("trustplane-manager".into()),
            webhooks: vec!["w.trustplane.io".into()],
            arguments: vec!["--leader-elect=true".into()],
            environment: BTreeMap::from([("A".into(), "a".into())]),
        };
        assert_eq!(process(&deployment), expected);
    }

    #[test]
    fn setting_is_read_from_the_flag_before_the_environment() {
        let process = |arguments: &[&str]| Process {
            arguments: arguments.iter().map(|&argument| argument.into()).collect(),
            environment: BTreeMap::from([("SPACES".into(), "e".into())]),
            ..Process::default()
        };
        for (arguments, value) in [
            (&["--spaces=a,b", "--spaces=c"] as &[&str], "a,b"),
            (&["--x", "--spaces", "a"], "a"),
            (&["--spaces-of-others=a"], "e"),
            (&[], "e"),
        ] {
            assert_eq!(
                process(arguments).setting("--spaces", "SPACES"),
                Some(value),
                "{arguments:?}"
            );
        }
        assert_eq!(process(&[]).setting("--spaces", "OTHER"), None);
        assert_eq!(process(&["--spaces"]).setting("--spaces", "SPACES"), None);
    }
}
