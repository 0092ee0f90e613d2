//! The hub in a cluster: its pod, and the commands that are run in it.

use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};

use super::credentials::Credentials;
use crate::cluster::{Cluster, Obstacle};
use crate::exec;

/// The pods of a hub, by their labels.
const LABELS: &str = "app.kubernetes.io/part-of=trustplane,app.kubernetes.io/component=hub";
/// The container with the hub.
const CONTAINER: &str = "hub";
/// The program in the container, which is also its own tool.
const PROGRAM: &str = "/usr/bin/trustplane-hub";
/// The port of the console, where the pod does not say another.
const CONSOLE_PORT: u16 = 8480;
/// How long the hub's tool may take to answer.
const ANSWER: Duration = Duration::from_secs(30);

/// A hub that runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hub {
    pub namespace: String,
    pub pod: String,
    /// The URLs by which agents reach it; the first is that of its Service.
    pub urls: Vec<String>,
    /// The port of its console, on loopback in the pod.
    pub console_port: u16,
    data_dir: Option<String>,
}

/// What the hub says of a new client.
#[derive(Debug, Deserialize)]
pub struct Registration {
    /// The certificates by which agents know it, as PEM; none if they are those that everybody trusts.
    #[serde(default)]
    pub ca_bundle: Option<String>,
}

/// The answer of the hub to a request for a sign-in link.
#[derive(Deserialize)]
struct SignInToken {
    token: String,
}

impl Hub {
    fn of(pod: &Pod) -> Self {
        let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
        let arguments: Vec<&str> = containers
            .filter(|container| container.name == CONTAINER)
            .flat_map(|container| container.args.iter().flatten())
            .map(String::as_str)
            .collect();
        let values_of = |flag: &str| {
            let prefix = format!("--{flag}=");
            let values = arguments
                .iter()
                .filter_map(|argument| argument.strip_prefix(&prefix));
            values.map(str::to_owned).collect::<Vec<_>>()
        };
        let console = values_of("console-bind-address").pop();
        let port = console.and_then(|address| address.rsplit_once(':')?.1.parse().ok());
        Self {
            namespace: pod.namespace().unwrap_or_default(),
            pod: pod.name_any(),
            urls: values_of("url"),
            console_port: port.unwrap_or(CONSOLE_PORT),
            data_dir: values_of("data-dir").pop(),
        }
    }

    /// The hub's own tool on the hub's own data.
    fn command(&self, words: &[&str]) -> Vec<String> {
        let mut command = vec![PROGRAM.to_owned()];
        command.extend(words.iter().map(ToString::to_string));
        command.push("--json".to_owned());
        command.extend(self.data_dir.iter().map(|path| format!("--data-dir={path}")));
        command
    }

    /// Registers the public key of a client that is known by this name.
    pub async fn register(&self, cluster: &Cluster, name: &str, of: &Credentials) -> Result<Registration> {
        let command = self.command(&["client", "add", "--name", name, "--id", &of.client_id]);
        self.ask(cluster, command, Some(of.public_key.as_bytes()))
            .await
            .with_context(|| {
                format!(
                    "register client {} at the hub in pod {}",
                    of.client_id,
                    self.path()
                )
            })
    }

    /// Removes every key of a client but its newest.
    pub async fn retire_keys(&self, cluster: &Cluster, client_id: &str) -> Result<()> {
        let command = self.command(&["client", "retire-keys", client_id]);
        let answer = self.ask::<IgnoredAny>(cluster, command, None).await;
        answer.map(drop).with_context(|| {
            format!(
                "remove older keys of client {client_id} at the hub in pod {}",
                self.path()
            )
        })
    }

    /// A token that opens the console once.
    pub async fn sign_in(&self, cluster: &Cluster) -> Result<String> {
        let answer: SignInToken = self
            .ask(cluster, self.command(&["sign-in"]), None)
            .await
            .with_context(|| format!("ask the hub in pod {} for a link", self.path()))?;
        Ok(answer.token)
    }

    /// Namespace and name of its pod.
    pub fn path(&self) -> String {
        format!("{}/{}", self.namespace, self.pod)
    }

    /// Its pods.
    pub fn pods(&self, cluster: &Cluster) -> Api<Pod> {
        Api::namespaced(cluster.client.clone(), &self.namespace)
    }

    async fn ask<T: DeserializeOwned>(
        &self,
        cluster: &Cluster,
        command: Vec<String>,
        input: Option<&[u8]>,
    ) -> Result<T> {
        let program = exec::Program {
            pod: &self.pod,
            container: Some(CONTAINER),
            command,
        };
        let pods = self.pods(cluster);
        let said = tokio::time::timeout(ANSWER, exec::run(&pods, program, input))
            .await
            .with_context(|| format!("no answer within {} s", ANSWER.as_secs()))??;
        if !said.is_success {
            bail!("{}", String::from_utf8_lossy(&said.err).trim());
        }
        parse_answer(&said.out)
    }
}

/// What the hub answers. The words of the parser are dropped: they quote the answer, and a token may be in it.
fn parse_answer<T: DeserializeOwned>(answer: &[u8]) -> Result<T> {
    serde_json::from_slice(answer)
        .map_err(|_| anyhow!("its answer is not parse_answer: is it a hub of this plugin's version?"))
}

/// The hub in a namespace, or in any; `None` if there is none.
pub async fn find(cluster: &Cluster, namespace: Option<&str>) -> Result<Option<Hub>> {
    let list = |namespace: Option<&str>| {
        let pods: Api<Pod> = match namespace {
            Some(namespace) => Api::namespaced(cluster.client.clone(), namespace),
            None => Api::all(cluster.client.clone()),
        };
        async move {
            cluster
                .ask(pods.list(&ListParams::default().labels(LABELS)))
                .await
        }
    };
    let found = match list(namespace).await {
        // A person who may not list pods everywhere may still list those of their own namespace.
        Err(Obstacle::Forbidden) if namespace.is_none() => list(Some(&cluster.home)).await,
        other => other,
    };
    let found = found.map_err(|obstacle| anyhow!("look for the hub: {obstacle}"))?;
    choose(&found.items)
}

/// The hub whose pod runs; an error if none or several of them run.
fn choose(pods: &[Pod]) -> Result<Option<Hub>> {
    let is_running = |pod: &&Pod| {
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        phase == Some("Running") && pod.metadata.deletion_timestamp.is_none()
    };
    let hubs: Vec<Hub> = pods.iter().filter(is_running).map(Hub::of).collect();
    match (hubs.as_slice(), pods) {
        ([], []) => Ok(None),
        ([], [pod, ..]) => bail!(
            "the hub does not run yet: kubectl describe pod --namespace {} {}",
            pod.namespace().unwrap_or_default(),
            pod.name_any()
        ),
        ([hub], _) => Ok(Some(hub.clone())),
        ([first, ..], _) => {
            let paths: Vec<String> = hubs.iter().map(Hub::path).collect();
            bail!(
                "several hubs run: {}; choose one by its namespace: --namespace {}",
                paths.join(", "),
                first.namespace
            )
        }
    }
}

#[cfg(test)]
pub mod tests {
    use serde_json::json;

    use super::*;

    /// The pod of a hub.
    pub fn pod(namespace: &str, name: &str, phase: &str) -> Pod {
        serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"containers": [
                {"name": "proxy", "args": ["--data-dir=/elsewhere"]},
                {"name": "hub", "args": [
                    "--data-dir=/var/lib/trustplane-hub", "--console-bind-address=127.0.0.1:9000",
                    "--url=https://tp-hub.tp.svc:8443", "--url=https://hub.example.com",
                ]},
            ]},
            "status": {"phase": phase},
        }))
        .unwrap()
    }

    #[test]
    fn hub_is_known_by_the_arguments_of_its_container() {
        let hub = choose(&[pod("tp", "tp-hub-1", "Running")]).unwrap().unwrap();
        assert_eq!(
            hub.urls,
            ["https://tp-hub.tp.svc:8443", "https://hub.example.com"]
        );
        assert_eq!(hub.console_port, 9000);
        assert_eq!(
            hub.command(&["sign-in"]),
            [
                "/usr/bin/trustplane-hub",
                "sign-in",
                "--json",
                "--data-dir=/var/lib/trustplane-hub"
            ]
        );
        let bare: Pod = serde_json::from_value(json!({
            "metadata": {"name": "x", "namespace": "tp"},
            "spec": {"containers": [{"name": "hub"}]}, "status": {"phase": "Running"},
        }))
        .unwrap();
        let hub = choose(&[bare]).unwrap().unwrap();
        assert_eq!((hub.console_port, hub.data_dir), (CONSOLE_PORT, None));
    }

    #[test]
    fn choose_takes_the_only_hub_that_runs() {
        assert_eq!(choose(&[]).unwrap(), None);
        let waits = choose(&[pod("tp", "tp-hub-1", "Pending")])
            .unwrap_err()
            .to_string();
        assert!(
            waits.ends_with("kubectl describe pod --namespace tp tp-hub-1"),
            "{waits}"
        );
        let pods = [pod("tp", "tp-hub-1", "Failed"), pod("tp", "tp-hub-2", "Running")];
        assert_eq!(choose(&pods).unwrap().unwrap().pod, "tp-hub-2");
        let pods = [pod("a", "hub-1", "Running"), pod("b", "hub-2", "Running")];
        let told = choose(&pods).unwrap_err().to_string();
        assert_eq!(
            told,
            "several hubs run: a/hub-1, b/hub-2; choose one by its namespace: --namespace a"
        );
    }

    #[test]
    fn answer_of_the_hub_is_read_and_never_quoted() {
        let registration: Registration =
            parse_answer(br#"{"client_id":"c","urls":["https://h"],"ca_bundle":null,"more":1}"#).unwrap();
        assert_eq!(registration.ca_bundle, None);
        let wrong = parse_answer::<SignInToken>(br#"{"token":{"s3cret":1}}"#)
            .err()
            .unwrap();
        assert!(!format!("{wrong:?}").contains("s3cret"), "{wrong:?}");
    }
}
