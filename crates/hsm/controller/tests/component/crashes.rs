//! Crashes at every write: the end state is the same, wherever the controller dies.

use anyhow::Result;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::{ConfigMap, Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::Api;
use serde_json::json;
use trustplane_api::hsm::HsmPool;
use trustplane_hsm_controller::kinds;
use trustplane_kit::controller::Options;
use trustplane_plan::FINGERPRINT;
use trustplane_testkit::crash::{Picture, Scenario};
use trustplane_testkit::proxy::Moment;
use trustplane_testkit::{ControlPlane, DEADLINE, wait_for};

use crate::stage::{device, fixed, pico, play, pool, rules, setup, there};

const OURS: &str = "app.kubernetes.io/managed-by=hsm-secrets-operator";

fn scenario(name: &'static str) -> Scenario {
    let picture = Picture::default()
        .labelled::<Deployment>(OURS)
        .labelled::<ServiceAccount>(OURS)
        .labelled::<Role>(OURS)
        .labelled::<RoleBinding>(OURS)
        .labelled::<ConfigMap>(OURS)
        .labelled::<Secret>(OURS)
        .labelled::<DaemonSet>(OURS)
        .labelled::<HsmPool>(OURS)
        // Random by design.
        .without("data")
        .without("hsm.j5t.io/certificate-ends")
        .without("lastAggregationTime")
        .without("lastTransitionTime")
        .without("lastSeen")
        // They name the namespace.
        .without("args")
        // Other controllers of the cluster write them when they get to it.
        .without("status")
        .without("managedFields")
        .without("deployment.kubernetes.io/revision")
        // Its key is made anew in every namespace.
        .without(FINGERPRINT);
    Scenario::new(name, rules(), picture)
        .phase(|sandbox| {
            Box::pin(async move {
                let mut soft = fixed(json!([{ "name": "one", "tokenLabel": "one" }]));
                soft["pkcs11"]["autoProvision"] = true.into();
                device(sandbox, "soft", soft).await?;
                there::<Deployment>(sandbox, "hsm-agent-soft-one").await?;
                there::<Secret>(sandbox, "hsm-agent-soft-one-tls").await?;
                there::<Secret>(sandbox, "hsm-agent-soft-one-so-pin").await?;
                device(sandbox, "pico", pico()).await?;
                there::<DaemonSet>(sandbox, "pico-discovery").await?;
                pool(sandbox, "pico-pool", |_| true).await?;
                Ok(())
            })
        })
        .phase(|sandbox| {
            Box::pin(async move {
                device(
                    sandbox,
                    "soft",
                    fixed(json!([{ "name": "two", "tokenLabel": "two" }])),
                )
                .await?;
                there::<Deployment>(sandbox, "hsm-agent-soft-two").await?;
                there::<Secret>(sandbox, "hsm-agent-soft-two-tls").await?;
                let gone: Api<Deployment> = sandbox.api();
                wait_for(&gone, "hsm-agent-soft-one", DEADLINE, |live| live.is_none()).await?;
                let gone: Api<Secret> = sandbox.api();
                wait_for(&gone, "hsm-agent-soft-one-tls", DEADLINE, |live| live.is_none()).await?;
                let gone: Api<ConfigMap> = sandbox.api();
                wait_for(&gone, "hsm-agent-soft-one", DEADLINE, |live| live.is_none()).await?;
                let gone: Api<ServiceAccount> = sandbox.api();
                wait_for(&gone, "hsm-agent-soft-one", DEADLINE, |live| live.is_none()).await?;
                let gone: Api<Role> = sandbox.api();
                wait_for(&gone, "hsm-agent-soft-one", DEADLINE, |live| live.is_none()).await?;
                let gone: Api<RoleBinding> = sandbox.api();
                wait_for(&gone, "hsm-agent-soft-one", DEADLINE, |live| live.is_none()).await?;
                Ok(())
            })
        })
}

async fn crash(name: &'static str, moment: Moment) -> Result<()> {
    ControlPlane::shared().await?.install(&kinds()).await?;
    let subject = play(setup(), Options::default());
    let report = scenario(name).crash_at_every_write(&subject, moment).await?;
    // Key and CA; two pools, a DaemonSet, statuses; an agent made, another in its place.
    assert!(
        report.crashes >= 24,
        "only {} writes were counted",
        report.crashes
    );
    let left = report.end.as_array().map(Vec::len);
    // One agent of seven objects with the SO-PIN of the other, two pools, a DaemonSet.
    assert_eq!(left, Some(10), "{:#}", report.end);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn after_every_write() -> Result<()> {
    crash("hsm-crash-after", Moment::After).await
}

#[tokio::test(flavor = "multi_thread")]
async fn before_every_write() -> Result<()> {
    crash("hsm-crash-before", Moment::Before).await
}
