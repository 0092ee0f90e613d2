//! Ten thousand pods that look like those of a real cluster: two containers, a dozen variables each, two managers.

use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::{Namespace, Pod, ServiceAccount};
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

/// How many.
pub const PODS: usize = 10_000;
/// Where.
pub const NAMESPACE: &str = "bench-pods";
const AT_ONCE: usize = 32;

/// Makes the pods. No node and no scheduler touches them.
pub async fn create(client: &Client) {
    let namespace = serde_json::from_value(json!({"metadata": {"name": NAMESPACE}})).unwrap();
    Api::<Namespace>::all(client.clone())
        .create(&PostParams::default(), &namespace)
        .await
        .unwrap();
    // Pods are admitted once their service account exists; a controller makes "default" in its own time.
    let account: ServiceAccount = serde_json::from_value(json!({"metadata": {"name": "bench"}})).unwrap();
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), NAMESPACE);
    accounts.create(&PostParams::default(), &account).await.unwrap();
    let api: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let created = stream::iter(0..PODS).map(|n| {
        let api = api.clone();
        async move {
            let pod = serde_json::from_value(pod(n)).unwrap();
            api.create(
                &PostParams {
                    field_manager: Some("deployer".into()),
                    ..Default::default()
                },
                &pod,
            )
            .await
            .unwrap();
            // A second manager, as the kubelet is one in a real cluster.
            let status = Patch::Merge(json!({"status": status()}));
            api.patch_status(&format!("pod-{n}"), &PatchParams::apply("kubelet"), &status)
                .await
                .unwrap();
        }
    });
    let mut created = created.buffer_unordered(AT_ONCE);
    let mut done = 0;
    while created.next().await.is_some() {
        done += 1;
        if done % 1000 == 0 {
            println!("{done} of {PODS} pods");
        }
    }
}

fn pod(n: usize) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": format!("pod-{n}"),
            "labels": {"app.kubernetes.io/name": format!("app-{}", n % 100), "pod-template-hash": format!("{n:010x}")},
            "annotations": {"example.com/checksum": format!("{n:064x}")},
        },
        "spec": {
            "serviceAccountName": "bench",
            "automountServiceAccountToken": false,
            "schedulerName": "nobody",
            "containers": [container("main", n), container("sidecar", n)],
        }
    })
}

fn container(name: &str, n: usize) -> Value {
    let variables: Vec<_> = (0..12)
        .map(|v| json!({"name": format!("VARIABLE_{v}"), "value": format!("value-{n}-{v}-of-some-length")}))
        .collect();
    json!({
        "name": name, "image": format!("registry.example.com/team/{name}:v{}", n % 10), "env": variables,
        "ports": [{"containerPort": 8080, "name": name}],
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": 8080}, "periodSeconds": 10},
    })
}

fn status() -> Value {
    let condition =
        |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let conditions = ["Initialized", "Ready", "ContainersReady", "PodScheduled"].map(condition);
    json!({
        "phase": "Running", "podIP": "10.0.0.1", "hostIP": "10.1.0.1",
        "conditions": conditions,
    })
}
