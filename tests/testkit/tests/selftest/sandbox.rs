//! Namespaces, accounts, waiting, and control planes of one's own.

use anyhow::Result;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use kube::api::{DeleteParams, PostParams};
use kube::{Api, Config};
use trustplane_testkit::{
    ControlPlane, DEADLINE, Rules, Sandbox, Select, eventually, wait_for, wait_for_some,
};

use crate::{config_map, value};

#[tokio::test]
async fn an_account_may_do_what_was_declared_and_no_more() -> Result<()> {
    let sandbox = Sandbox::new("rights").await?;
    let rules = Rules::default()
        .allow("", "configmaps", &["create", "get"])
        .allow_everywhere("", "namespaces", &["get"]);
    let account = sandbox.apply_rbac("manager", &rules).await?;
    let client = sandbox.client_as(&account).await?;
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), sandbox.namespace());
    maps.create(&PostParams::default(), &config_map("a", "1")).await?;
    let namespaces: Api<Namespace> = Api::all(client.clone());
    namespaces.get(sandbox.namespace()).await?;
    let forbidden = |error: kube::Error| matches!(error, kube::Error::Api(status) if status.code == 403);
    let deleted = maps.delete("a", &DeleteParams::default()).await;
    assert!(forbidden(deleted.unwrap_err()));
    let secrets: Api<Secret> = Api::namespaced(client.clone(), sandbox.namespace());
    assert!(forbidden(secrets.get("a").await.unwrap_err()));
    let elsewhere: Api<ConfigMap> = Api::namespaced(client, "kube-system");
    assert!(forbidden(elsewhere.get("a").await.unwrap_err()));
    Ok(())
}

#[tokio::test]
async fn the_credentials_of_an_instance_work_for_a_real_binary() -> Result<()> {
    let sandbox = Sandbox::new("kubeconfig").await?;
    let rules = Rules::default().allow("", "configmaps", &["list"]);
    let instance = sandbox.instance("manager", &rules).await?;
    let credentials = instance.credentials()?;
    let kubeconfig = kube::config::Kubeconfig::read_from(credentials.kubeconfig())?;
    let config =
        Config::from_custom_kubeconfig(kubeconfig, &kube::config::KubeConfigOptions::default()).await?;
    let maps: Api<ConfigMap> = Api::default_namespaced(kube::Client::try_from(config)?);
    maps.list(&Default::default()).await?;
    Ok(())
}

#[tokio::test]
async fn waiting_sees_what_is_there_what_comes_and_what_goes() -> Result<()> {
    let sandbox = Sandbox::new("waiting").await?;
    let maps: Api<ConfigMap> = sandbox.api();
    let (early, late) = (maps.clone(), maps.clone());
    let writer = tokio::spawn(async move {
        early
            .create(&PostParams::default(), &config_map("a", "1"))
            .await?;
        wait_for_some(&early, "a", DEADLINE, |live| value(live) == Some("2")).await?;
        early.delete("a", &DeleteParams::default()).await?;
        anyhow::Ok(())
    });
    let mut live = wait_for_some(&late, "a", DEADLINE, |live| value(live) == Some("1")).await?;
    live.data = config_map("a", "2").data;
    late.replace("a", &PostParams::default(), &live).await?;
    wait_for(&late, "a", DEADLINE, |live| live.is_none()).await?;
    writer.await??;
    maps.create(&PostParams::default(), &config_map("b", "1")).await?;
    let only_b = Select::default().field("metadata.name", "b");
    let names = eventually(&maps, &only_b, DEADLINE, |found| {
        (!found.is_empty()).then(|| found.keys().cloned().collect::<Vec<_>>())
    });
    assert_eq!(names.await?, ["b"]);
    Ok(())
}

#[tokio::test]
async fn waiting_in_vain_ends_and_says_what_was_there() -> Result<()> {
    let sandbox = Sandbox::new("in-vain").await?;
    let maps: Api<ConfigMap> = sandbox.api();
    maps.create(&PostParams::default(), &config_map("a", "seen"))
        .await?;
    let soon = std::time::Duration::from_millis(300);
    let error = wait_for(&maps, "a", soon, |live| live.is_none())
        .await
        .unwrap_err();
    assert!(format!("{error:#}").contains("seen"), "{error:#}");
    Ok(())
}

#[tokio::test]
async fn a_sandbox_asks_for_the_end_of_its_namespace() -> Result<()> {
    let sandbox = Sandbox::new("gone").await?;
    let (client, name) = (sandbox.client(), sandbox.namespace().to_owned());
    drop(sandbox);
    let namespaces: Api<Namespace> = Api::all(client);
    // When the namespace is really gone is up to the cluster's own controller, which has those of all tests to do.
    wait_for(&namespaces, &name, DEADLINE, |live| {
        live.is_none_or(|namespace| namespace.metadata.deletion_timestamp.is_some())
    })
    .await?;
    Ok(())
}

#[tokio::test]
async fn a_control_plane_of_ones_own_is_empty_and_ends_with_the_test() -> Result<()> {
    let plane = ControlPlane::own().await?;
    let name = plane.cluster().name().to_string();
    let shared = Sandbox::new("elsewhere").await?;
    let namespaces: Api<Namespace> = Api::all(plane.client()?);
    assert!(namespaces.get_opt(shared.namespace()).await?.is_none());
    drop(plane);
    assert!(trustplane_cluster::control_plane::ControlPlane::open(&name).is_err());
    Ok(())
}
