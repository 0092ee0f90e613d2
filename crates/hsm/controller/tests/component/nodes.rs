//! A node that is there and never answers: a pod on it goes on until somebody says that it has ended.
//!
//! The control plane gives up pods without a node, and pods of nodes that do not exist, when it next looks. So a test that wants a
//! pod to last needs a node.

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use serde_json::{Value, json};
use trustplane_testkit::{DEADLINE, Select, eventually};

use crate::stage::{Stage, at};

/// A pod of an agent, on a node of its own.
pub struct Silent<'a> {
    stage: &'a Stage,
    pub pod: String,
}

impl<'a> Silent<'a> {
    /// Puts the pod of an agent onto a node.
    pub async fn runs(stage: &'a Stage, agent: &str) -> Result<Self> {
        let ours = Select::default().labels(&format!("app={agent}"));
        let pods = stage.api::<Pod>();
        let pod = eventually(&pods, &ours, DEADLINE, |found| found.keys().next().cloned()).await?;
        let node = there_is(stage, "silent").await?;
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding", "metadata": { "name": pod },
            "target": { "apiVersion": "v1", "kind": "Node", "name": node },
        });
        let hand = PostParams::default();
        let bound = pods.create_subresource::<_, Value>("binding", &pod, &hand, &binding);
        bound.await.with_context(|| format!("bind the pod {pod}"))?;
        Ok(Self { stage, pod })
    }

    /// Says that the pod has ended, as somebody does who knows that its node is dead.
    pub async fn ends(self) -> Result<()> {
        let by_force = DeleteParams::default().grace_period(0);
        self.stage.api::<Pod>().delete(&self.pod, &by_force).await?;
        is_gone(self.stage, "silent").await
    }
}

/// Makes a node on which no DaemonSet of another test runs, and gives its name.
pub async fn there_is(stage: &Stage, name: &str) -> Result<String> {
    let node = at(&stage.sandbox, name);
    let taint = json!({ "key": "test.trustplane.io/silent", "effect": "NoSchedule" });
    let wish = json!({ "metadata": { "name": node }, "spec": { "taints": [taint] } });
    let nodes: Api<Node> = Api::all(stage.sandbox.client());
    nodes
        .create(&PostParams::default(), &serde_json::from_value(wish)?)
        .await
        .with_context(|| format!("create the node {node}"))?;
    Ok(node)
}

/// Removes a node.
pub async fn is_gone(stage: &Stage, name: &str) -> Result<()> {
    let nodes: Api<Node> = Api::all(stage.sandbox.client());
    let node = at(&stage.sandbox, name);
    nodes.delete(&node, &DeleteParams::default()).await?;
    Ok(())
}
