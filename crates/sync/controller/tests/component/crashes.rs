//! Crashes at every write: the end state is the same, wherever the controller dies.

use anyhow::Result;
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::api::{Patch, PatchParams};
use serde_json::json;
use trustplane_plan::FINGERPRINT;
use trustplane_sync_providers::mock::Mock;
use trustplane_testkit::Sandbox;
use trustplane_testkit::crash::{Picture, Scenario};
use trustplane_testkit::proxy::Moment;

use crate::stage::{VALUE, alone, holds, pod, rules};

fn scenario(name: &'static str) -> Scenario {
    let picture = Picture::default()
        .labelled::<Secret>("app.kubernetes.io/managed-by=jasm")
        .without("jasm.codnod.io/synced-at")
        // Its key is made anew in every namespace.
        .without(FINGERPRINT);
    Scenario::new(name, rules(), picture)
        .phase(|sandbox| {
            Box::pin(async move {
                pod(sandbox, "one", "a", "first", "").await?;
                pod(sandbox, "two", "a", "second", "keys: {pass: password}").await?;
                holds(sandbox, "first", &[("password", "p"), ("user", "u")]).await?;
                holds(sandbox, "second", &[("pass", "p")]).await?;
                Ok(())
            })
        })
        .phase(|sandbox| {
            Box::pin(async move {
                ask(sandbox, "keys: [user]").await?;
                holds(sandbox, "second", &[("user", "u")]).await?;
                Ok(())
            })
        })
        .phase(|sandbox| {
            Box::pin(async move {
                ask(sandbox, "keys: {name: user}").await?;
                holds(sandbox, "second", &[("name", "u")]).await?;
                Ok(())
            })
        })
}

/// Changes what the second pod asks for.
async fn ask(sandbox: &Sandbox, keys: &str) -> Result<()> {
    let text = format!("provider: mock\npath: a\nsecretName: second\n{keys}");
    let patch = Patch::Merge(json!({"metadata": {"annotations": {"jasm.codnod.io/secret-sync": text}}}));
    sandbox
        .api::<Pod>()
        .patch("two", &PatchParams::default(), &patch)
        .await?;
    Ok(())
}

async fn crash(name: &'static str, moment: Moment) -> Result<()> {
    let mock = Mock::default();
    mock.set("a", VALUE);
    let report = scenario(name).crash_at_every_write(&alone(&mock), moment).await?;
    // The key, two Secrets made, one of them changed twice.
    assert!(report.crashes >= 5, "only {} writes were counted", report.crashes);
    assert_eq!(report.end.as_array().map(Vec::len), Some(2), "{:#}", report.end);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn after_every_write() -> Result<()> {
    crash("sync-crash-after", Moment::After).await
}

#[tokio::test(flavor = "multi_thread")]
async fn before_every_write() -> Result<()> {
    crash("sync-crash-before", Moment::Before).await
}
