//! Control planes that are lent.

use anyhow::Result;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role};
use k8s_openapi::api::storage::v1::CSIDriver;
use kube::api::{ListParams, PostParams};
use kube::{Api, Client};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use trustplane_testkit::{ControlPlane, DEADLINE, Leftovers, Rules, Sandbox, until};

/// A webhook without a server, which has to be asked about every CSIDriver.
fn dead_webhook() -> Value {
    json!({ "metadata": { "name": "dead.test.trustplane.io" }, "webhooks": [{
        "name": "dead.test.trustplane.io",
        "admissionReviewVersions": ["v1"],
        "clientConfig": { "url": "https://127.0.0.1:1/" },
        "failurePolicy": "Fail",
        "rules": [{
            "apiGroups": ["storage.k8s.io"], "apiVersions": ["v1"], "resources": ["csidrivers"],
            "operations": ["CREATE", "UPDATE", "DELETE"],
        }],
        "sideEffects": "None",
    }] })
}

async fn names<K>(client: &Client) -> Result<Vec<String>>
where
    K: kube::Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
{
    let all: Api<K> = Api::all(client.clone());
    let list = all.list(&ListParams::default()).await?;
    Ok(list
        .items
        .into_iter()
        .filter_map(|live| live.meta().name.clone())
        .collect())
}

#[tokio::test]
async fn lent_control_plane_is_cleared_of_all_that_a_borrower_leaves() -> Result<()> {
    let leftovers = Leftovers::default().of::<CSIDriver>();
    let plane = ControlPlane::borrowed(&leftovers).await?;
    let client = plane.client()?;
    let roles = names::<ClusterRole>(&client).await?;
    let sandbox = Sandbox::on(plane.clone(), "left").await?;
    let rules = Rules::default().allow_everywhere("", "nodes", &["get"]);
    sandbox.apply_rbac("account", &rules).await?;
    let role = json!({ "metadata": { "name": "left" }, "rules": [] });
    let in_default: Api<Role> = Api::default_namespaced(client.clone());
    in_default
        .create(&PostParams::default(), &serde_json::from_value(role)?)
        .await?;
    let drivers: Api<CSIDriver> = Api::all(client.clone());
    let held =
        json!({ "metadata": { "name": "held", "finalizers": ["test.trustplane.io/hold"] }, "spec": {} });
    drivers
        .create(&PostParams::default(), &serde_json::from_value(held)?)
        .await?;
    let webhooks: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
    webhooks
        .create(&PostParams::default(), &serde_json::from_value(dead_webhook())?)
        .await?;
    let one_more = json!({ "metadata": { "name": "refused" }, "spec": {} });
    let one_more: CSIDriver = serde_json::from_value(one_more)?;
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    until("the webhook to be in force", DEADLINE, || async {
        Ok(drivers.create(&dry, &one_more).await.is_err().then_some(()))
    })
    .await?;

    plane.clear(&leftovers).await?;
    assert!(names::<ValidatingWebhookConfiguration>(&client).await?.is_empty());
    assert!(names::<CSIDriver>(&client).await?.is_empty());
    assert!(names::<Role>(&client).await?.iter().all(|name| name != "left"));
    assert_eq!(
        names::<ClusterRole>(&client).await?,
        roles,
        "those of Kubernetes stay"
    );
    let bindings = names::<ClusterRoleBinding>(&client).await?;
    assert!(
        !bindings.contains(&sandbox.unique("account")) && !bindings.is_empty(),
        "{bindings:?}"
    );
    let namespace = Api::<Namespace>::all(client).get_opt(sandbox.namespace()).await?;
    assert!(namespace.is_none_or(|namespace| namespace.metadata.deletion_timestamp.is_some()));
    Ok(())
}

#[tokio::test]
async fn two_borrowers_at_once_have_two_control_planes() -> Result<()> {
    let (one, other) = (Leftovers::default(), Leftovers::default());
    let one = ControlPlane::borrowed(&one).await?;
    let other = ControlPlane::borrowed(&other).await?;
    assert_ne!(one.cluster().name(), other.cluster().name());
    Ok(())
}
