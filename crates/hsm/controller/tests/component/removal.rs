//! What is left of an HSMDevice that goes: nothing.

use anyhow::Result;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::{ConfigMap, Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use trustplane_api::hsm::HsmPool;

use crate::stage::{AGENT, Stage, remove_device};

#[tokio::test]
async fn everything_of_a_device_goes_with_it() -> Result<()> {
    let (stage, _, running) = Stage::serving("removal").await?;
    let tls = format!("{AGENT}-tls");
    stage.there::<Secret>(&tls).await?;
    stage.there::<ConfigMap>(AGENT).await?;
    remove_device(&stage.sandbox, "pico").await?;
    stage.gone::<Deployment>(AGENT).await?;
    stage.gone::<ServiceAccount>(AGENT).await?;
    stage.gone::<Role>(AGENT).await?;
    stage.gone::<RoleBinding>(AGENT).await?;
    stage.gone::<ConfigMap>(AGENT).await?;
    stage.gone::<Secret>(&tls).await?;
    stage.gone::<HsmPool>("pico-pool").await?;
    stage.gone::<DaemonSet>("pico-discovery").await?;
    stage.kill(running).await
}
