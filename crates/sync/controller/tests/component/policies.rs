//! Policies decide, and a change of them counts at once.

use anyhow::Result;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use trustplane_api::sync::SecretSyncPolicy;
use trustplane_sync_controller::PolicyMode;
use trustplane_testkit::proxy::{Match, Proxy, Verb};
use trustplane_testkit::{ControlPlane, DEADLINE, until};

use crate::stage::{Stage, VALUE, rules};

async fn policy(stage: &Stage, name: &str, spec: Value) -> Result<()> {
    let policies: Api<SecretSyncPolicy> = Api::all(stage.sandbox.client());
    let policy = serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec}))?;
    policies.create(&PostParams::default(), &policy).await?;
    Ok(())
}

#[tokio::test]
async fn policies_decide_and_a_change_of_them_counts_at_once() -> Result<()> {
    let stage = Stage::on(ControlPlane::own().await?, "policies", PolicyMode::Enforce).await?;
    let namespace = stage.sandbox.namespace().to_owned();
    stage.mock.set("shared/db", VALUE);
    stage.mock.set(&format!("{namespace}/db"), VALUE);
    let proxy = Proxy::start(stage.sandbox.plane()).await?;
    let (_instance, _running) = stage.start_through("first", &proxy).await?;
    let pod_reads = Match::verb(Verb::Get).resource("pods");

    // Without a policy: what lies in the folder of the namespace, and nothing else.
    stage.pod("own", &format!("{namespace}/db"), "own", "").await?;
    stage.pod("shared", "shared/db", "shared", "").await?;
    stage.holds("own", &[("password", "p"), ("user", "u")]).await?;
    let denied = stage.told("shared", "PolicyDenied").await?;
    let text = "secretName shared: no policy allows this request";
    assert_eq!(denied.note.as_deref(), Some(text));
    assert_eq!(stage.mock.asked_for("shared/db"), 0, "denied before any call");
    assert_eq!(
        proxy.requests(&pod_reads).len(),
        0,
        "no policy asks for service accounts"
    );

    // A policy for the labelled namespace and the account of the pod.
    policy(
        &stage,
        "shared",
        json!({
            "namespaceSelector": {"matchLabels": {"team": "a"}}, "serviceAccounts": ["default"],
            "rules": [{"providers": ["mock"], "paths": ["shared/**"]}],
        }),
    )
    .await?;
    let label = Patch::Merge(json!({"metadata": {"labels": {"team": "a"}}}));
    let namespaces: Api<Namespace> = Api::all(stage.sandbox.client());
    namespaces
        .patch(&namespace, &PatchParams::default(), &label)
        .await?;
    stage.holds("shared", &[("password", "p"), ("user", "u")]).await?;
    assert!(!proxy.requests(&pod_reads).is_empty());

    // The folder of the namespace is no longer open by itself; what was written stays.
    stage.pod("late", &format!("{namespace}/db"), "late", "").await?;
    stage.told("late", "PolicyDenied").await?;
    stage.secrets().get("own").await?;

    // A denial wins, and what it took back comes with it again when it goes.
    policy(
        &stage,
        "no",
        json!({"rules": [{"effect": "Deny", "paths": ["shared/db"], "secretNames": ["second"]}]}),
    )
    .await?;
    stage.pod("second", "shared/db", "second", "").await?;
    stage.told("second", "PolicyDenied").await?;
    let policies: Api<SecretSyncPolicy> = Api::all(stage.sandbox.client());
    policies.delete("no", &DeleteParams::default()).await?;
    stage.holds("second", &[("password", "p"), ("user", "u")]).await?;

    // A policy that only audits opens nothing: the built-in rule is in force again, and the pod is told what would be denied.
    policies.delete("shared", &DeleteParams::default()).await?;
    policy(
        &stage,
        "watch",
        json!({"mode": "Audit", "rules": [{"paths": ["shared/**"]}]}),
    )
    .await?;
    stage.holds("late", &[("password", "p"), ("user", "u")]).await?;
    stage
        .told_with(
            "late",
            "PolicyDenied",
            "would be denied if all policies were in force",
        )
        .await?;
    stage.pod("audited", "shared/db", "audited", "").await?;
    let told = stage.told("audited", "PolicyDenied").await?;
    assert_eq!(
        told.note.as_deref(),
        Some("secretName audited: no policy allows this request")
    );
    assert!(stage.secrets().get_opt("audited").await?.is_none());
    Ok(())
}

#[tokio::test]
async fn policies_that_may_not_be_read_deny_until_they_may() -> Result<()> {
    let mut blind = rules();
    for rule in &mut blind.cluster {
        let resources = rule.resources.iter_mut();
        resources.for_each(|names| names.retain(|name| name != "secretsyncpolicies"));
    }
    let has_resources = |names: &Vec<String>| !names.is_empty();
    blind
        .cluster
        .retain(|rule| rule.resources.as_ref().is_some_and(has_resources));
    let plane = ControlPlane::own().await?;
    let mut stage = Stage::with(plane, "unseen", PolicyMode::Enforce, &blind).await?;
    stage.everywhere = true;
    let path = format!("{}/db", stage.sandbox.namespace());
    stage.mock.set(&path, VALUE);
    let (_instance, _running) = stage.start("first").await?;
    stage.pod("own", &path, "own", "").await?;
    stage
        .told_with(
            "own",
            "PolicyDenied",
            "the policies of the cluster cannot be read",
        )
        .await?;
    assert_eq!(stage.mock.asked_for(&path), 0);
    let role = json!({
        "metadata": {"name": "sight"},
        "rules": [{"apiGroups": ["trustplane.io"], "resources": ["secretsyncpolicies"], "verbs": ["list", "watch"]}],
    });
    let binding = json!({
        "metadata": {"name": "sight"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "sight"},
        "subjects": [{"kind": "ServiceAccount", "name": "sync", "namespace": stage.sandbox.namespace()}],
    });
    let client = stage.sandbox.client();
    let roles: Api<ClusterRole> = Api::all(client.clone());
    roles
        .create(&PostParams::default(), &serde_json::from_value(role)?)
        .await?;
    let bindings: Api<ClusterRoleBinding> = Api::all(client);
    bindings
        .create(&PostParams::default(), &serde_json::from_value(binding)?)
        .await?;
    stage.holds("own", &[("password", "p"), ("user", "u")]).await?;
    Ok(())
}

#[tokio::test]
async fn a_namespace_that_asks_too_often_has_to_wait_and_is_served_in_the_end() -> Result<()> {
    let stage = Stage::on(ControlPlane::own().await?, "quota", PolicyMode::Enforce).await?;
    policy(
        &stage,
        "tight",
        json!({"rules": [{"paths": ["**"]}], "quota": {"perMinute": 600, "burst": 1}}),
    )
    .await?;
    let (_instance, _running) = stage.start("first").await?;
    for n in 0..4 {
        let name = format!("p{n}");
        stage.mock.set(&name, VALUE);
        stage.pod(&name, &name, &name, "").await?;
    }
    for n in 0..4 {
        stage
            .holds(&format!("p{n}"), &[("password", "p"), ("user", "u")])
            .await?;
    }
    let throttled = until("somebody to be told of the quota", DEADLINE, || async {
        for n in 0..4 {
            if stage.has_told(&format!("p{n}"), "ProviderThrottled").await? {
                return Ok(Some(()));
            }
        }
        Ok(None)
    });
    throttled.await
}
