//! What is left of an HSMDevice that goes: nothing.

use anyhow::Result;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::{ConfigMap, Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::Api;
use kube::api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams};
use serde_json::json;
use trustplane_api::hsm::conditions;
use trustplane_api::hsm::{HsmDevice, HsmPool, HsmPoolStatus};
use trustplane_hsm_controller::kinds;
use trustplane_kit::controller::Options;
use trustplane_plan::FINGERPRINT;
use trustplane_testkit::{ControlPlane, DEADLINE, Sandbox, wait_for, wait_for_some};

use crate::consents::pin;
use crate::quiet::looked_at;
use crate::stage::{AGENT, Stage, device, fixed, remove_device, rules, second, setup};

#[tokio::test]
async fn everything_of_a_device_goes_with_it() -> Result<()> {
    let (stage, _, running) = Stage::serving("removal").await?;
    let tls = format!("{AGENT}-tls");
    let key = format!("{AGENT}-record-key");
    stage.there::<Secret>(&tls).await?;
    stage.there::<Secret>(&key).await?;
    stage.there::<ConfigMap>(AGENT).await?;
    remove_device(&stage.sandbox, "pico").await?;
    stage.gone::<Deployment>(AGENT).await?;
    stage.gone::<ServiceAccount>(AGENT).await?;
    stage.gone::<Role>(AGENT).await?;
    stage.gone::<RoleBinding>(AGENT).await?;
    stage.gone::<ConfigMap>(AGENT).await?;
    stage.gone::<Secret>(&tls).await?;
    stage.gone::<Secret>(&key).await?;
    stage.gone::<HsmPool>("pico-pool").await?;
    stage.gone::<DaemonSet>("pico-discovery").await?;
    stage.kill(running).await
}

/// A cluster whose HSMDevices may say what we do not understand, as one that a newer version has been at.
async fn newer() -> Result<Stage> {
    let plane = ControlPlane::own().await?;
    let mut kinds = serde_json::to_value(kinds())?;
    let schema = &mut kinds[0]["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    schema["properties"]["spec"] = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let kinds: Vec<_> = serde_json::from_value(kinds)?;
    plane.install(&kinds).await?;
    let sandbox = Sandbox::on(plane, "unread").await?;
    Ok(Stage {
        account: sandbox.apply_rbac("hsm", &rules()).await?,
        sandbox,
        setup: setup(),
        options: Options::default(),
    })
}

#[tokio::test]
async fn a_device_that_cannot_be_read_is_not_taken_for_one_that_is_gone() -> Result<()> {
    let mut stage = newer().await?;
    let there = second(&stage, "unread-pins").await?;
    stage.setup.rules.namespaces.insert(there.namespace().to_owned());
    let looks = stage.count_looks();
    let (_, running) = stage.start("first").await?;
    pin(&there, Some(stage.sandbox.namespace())).await?;
    let mut spec = fixed(json!([{ "name": "one", "tokenLabel": "one" }]));
    spec["pkcs11"]["pinSecret"]["namespace"] = there.namespace().into();
    device(&stage.sandbox, "soft", spec).await?;
    stage.there::<Deployment>("hsm-agent-soft-one").await?;
    // What is here goes with the device by itself; what is there has no owner, so it is ours to remove.
    let roles: Api<Role> = there.api();
    let name = format!("{}.hsm-agent-soft-one", stage.sandbox.namespace());
    let before = wait_for_some(&roles, &name, DEADLINE, |_| true).await?;
    let devices: Api<DynamicObject> = Api::namespaced_with(
        stage.sandbox.client(),
        stage.sandbox.namespace(),
        &ApiResource::erase::<HsmDevice>(&()),
    );
    let other = Patch::Merge(json!({ "spec": { "deviceType": ["PicoHSM", "YubiHSM"] } }));
    devices.patch("soft", &PatchParams::default(), &other).await?;
    let kept = |status: &HsmPoolStatus| {
        let told = status.conditions.iter();
        let mut told = told
            .filter(|condition| condition.type_ == conditions::INVALID_DEVICE && condition.status == "True");
        status.available_devices == 1
            && told.any(|told| told.message == "spec: cannot be read by this version")
    };
    stage.pool("soft-pool", kept).await?;
    looked_at(&looks, 30).await?;
    // One that starts knows nothing else of it.
    stage.kill(running).await?;
    let (_, running) = stage.start("second").await?;
    looked_at(&looks, 30).await?;
    stage.pool("soft-pool", kept).await?;
    let after = roles.get(&name).await?.metadata;
    assert_eq!((after.uid, after.deletion_timestamp), (before.metadata.uid, None));
    // Once it is gone, so is the rest.
    devices.delete("soft", &DeleteParams::default()).await?;
    wait_for(&roles, &name, DEADLINE, |live| live.is_none()).await?;
    stage.kill(running).await
}

#[tokio::test]
async fn another_installation_takes_agents_over_without_another_pod() -> Result<()> {
    let (stage, _, running) = Stage::serving("again").await?;
    stage.there::<Secret>(&format!("{AGENT}-tls")).await?;
    stage.kill(running).await?;
    let before = stage.api::<Deployment>().get(AGENT).await?;
    // Uninstalling removes what the manager kept at home, and the next one makes its own.
    let empty = Patch::Merge(json!({ "data": null }));
    let secrets = stage.api::<Secret>();
    for kept in ["trustplane-fingerprint", "hsm-mtls-ca"] {
        secrets.patch(kept, &PatchParams::default(), &empty).await?;
    }
    let (_, running) = stage.start("second").await?;
    let fingerprint = |live: &Deployment| live.metadata.annotations.as_ref()?.get(FINGERPRINT).cloned();
    let after = wait_for_some(&stage.api::<Deployment>(), AGENT, DEADLINE, |live| {
        fingerprint(live) != fingerprint(&before)
    })
    .await?;
    // The same object, with the same pods.
    assert_eq!(after.metadata.uid, before.metadata.uid);
    let template = |live: Deployment| live.spec.map(|spec| spec.template);
    assert_eq!(template(after), template(before));
    stage.kill(running).await
}
