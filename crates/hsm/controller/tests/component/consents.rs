//! PINs in other namespaces: their Secrets say who may have them read.

use anyhow::Result;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use trustplane_api::hsm::conditions;
use trustplane_testkit::{DEADLINE, Sandbox, wait_for, wait_for_some};

use crate::quiet::looked_at;
use crate::stage::{Stage, device, fixed, remove_device, second};

const AGENT: &str = "hsm-agent-soft-one";

/// A Secret with a PIN, shared with these namespaces.
pub async fn pin(sandbox: &Sandbox, shared_with: Option<&str>) -> Result<()> {
    let secret = json!({
        "metadata": { "name": "pin", "annotations": { "trustplane.io/pin-for": shared_with } },
        "stringData": { "pin": "123456" },
    });
    let secrets: Api<Secret> = sandbox.api();
    secrets
        .create(&PostParams::default(), &serde_json::from_value(secret)?)
        .await?;
    Ok(())
}

async fn share(sandbox: &Sandbox, with: Option<&str>) -> Result<()> {
    let patch = json!({ "metadata": { "annotations": { "trustplane.io/pin-for": with } } });
    let secrets: Api<Secret> = sandbox.api();
    secrets
        .patch("pin", &PatchParams::default(), &Patch::Merge(patch))
        .await?;
    Ok(())
}

/// A device whose PIN is in another namespace.
fn with_pin_in(namespace: &str) -> Value {
    let mut spec = fixed(json!([{ "name": "one", "tokenLabel": "one" }]));
    spec["pkcs11"]["pinSecret"]["namespace"] = namespace.into();
    spec
}

#[tokio::test]
async fn a_pin_in_another_namespace_is_read_there_and_the_right_goes_with_the_device() -> Result<()> {
    let mut stage = Stage::new("pin-here").await?;
    let there = second(&stage, "pin-there").await?;
    stage.setup.rules.namespaces.insert(there.namespace().to_owned());
    pin(&there, Some(stage.sandbox.namespace())).await?;
    let (_, running) = stage.start("first").await?;
    device(&stage.sandbox, "soft", with_pin_in(there.namespace())).await?;
    let name = format!("{}.{AGENT}", stage.sandbox.namespace());
    let (roles, bindings): (Api<Role>, Api<RoleBinding>) = (there.api(), there.api());
    wait_for_some(&roles, &name, DEADLINE, |_| true).await?;
    wait_for_some(&bindings, &name, DEADLINE, |_| true).await?;
    stage.there::<Deployment>(AGENT).await?;
    // Nobody is there when the device goes: what is left is found later.
    stage.kill(running).await?;
    remove_device(&stage.sandbox, "soft").await?;
    let (_, running) = stage.start("second").await?;
    wait_for(&roles, &name, DEADLINE, |live| live.is_none()).await?;
    wait_for(&bindings, &name, DEADLINE, |live| live.is_none()).await?;
    stage.kill(running).await
}

#[tokio::test]
async fn whoever_may_make_devices_here_does_not_get_a_secret_there_unless_it_consents() -> Result<()> {
    let mut stage = Stage::new("deputy").await?;
    let there = second(&stage, "deputy-there").await?;
    stage.setup.rules.namespaces.insert(there.namespace().to_owned());
    pin(&there, Some("somebody-else")).await?;
    let looks = stage.count_looks();
    let (_, running) = stage.start("first").await?;
    device(&stage.sandbox, "soft", with_pin_in(there.namespace())).await?;
    stage
        .told("soft", conditions::PIN_SECRET_NOT_SHARED, "trustplane.io/pin-for")
        .await?;
    looked_at(&looks, 30).await?;
    let name = format!("{}.{AGENT}", stage.sandbox.namespace());
    let roles: Api<Role> = there.api();
    assert_eq!(roles.get_opt(&name).await?, None);
    assert_eq!(stage.api::<Deployment>().get_opt(AGENT).await?, None);
    let says = |status: &trustplane_api::hsm::HsmPoolStatus, wanted: &str| {
        let mut conditions = status.conditions.iter();
        conditions.any(|condition| {
            condition.type_ == conditions::PIN_SECRET_NOT_SHARED && condition.status == wanted
        })
    };
    stage.pool("soft-pool", |status| says(status, "True")).await?;

    share(&there, Some(stage.sandbox.namespace())).await?;
    stage.there::<Deployment>(AGENT).await?;
    wait_for_some(&roles, &name, DEADLINE, |_| true).await?;
    stage.pool("soft-pool", |status| says(status, "False")).await?;

    // Taken back, the right goes, and the agent stays for what it knows.
    share(&there, None).await?;
    wait_for(&roles, &name, DEADLINE, |live| live.is_none()).await?;
    let kept = stage.api::<Deployment>().get(AGENT).await?;
    assert_eq!(kept.metadata.deletion_timestamp, None);
    stage.kill(running).await
}
