//! Test mode: a DaemonSet that needs nothing of its node.

use anyhow::Result;
use k8s_openapi::api::apps::v1::DaemonSet;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use trustplane_api::hsm::HsmDevice;
use trustplane_testkit::{DEADLINE, wait_for_some};

use crate::stage::{Stage, device, pico};

/// In the original the API server refuses it: two volumes are mounted that are not there.
#[tokio::test]
async fn w17_the_api_server_takes_the_daemon_set_of_test_mode() -> Result<()> {
    let stage = Stage::new("test-mode").await?;
    let (_, running) = stage.start("first").await?;
    device(&stage.sandbox, "pico", pico()).await?;
    stage.there::<DaemonSet>("pico-discovery").await?;
    let on = Patch::Merge(json!({ "metadata": { "annotations": { "hsm.j5t.io/test-mode": "true" } } }));
    let devices = stage.api::<HsmDevice>();
    devices.patch("pico", &PatchParams::default(), &on).await?;
    let sets = stage.api::<DaemonSet>();
    let made = wait_for_some(&sets, "pico-discovery", DEADLINE, |set| {
        serde_json::to_string(&set.spec).is_ok_and(|spec| !spec.contains("hostPath"))
    })
    .await?;
    let spec = made.spec.and_then(|spec| spec.template.spec).unwrap();
    let security = spec.security_context.unwrap();
    assert_eq!(security.run_as_non_root, Some(true));
    let container = spec.containers[0].security_context.clone().unwrap();
    assert_eq!(container.allow_privilege_escalation, Some(false));
    stage.kill(running).await
}
